"""Decoding and scoring over slots gives what Transformers' own attention gives, whatever shares a batch."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.heavy
torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

from rolecall.models.local_engine import TokenPrompt, TransformersDecoding  # noqa: E402
from rolecall.models.transformers import packed_logprobs, slot_decoding, slots  # noqa: E402
from rolecall.models.transformers.decoding import BatchGenerator  # noqa: E402
from rolecall.models.transformers.logprobs import PromptScorer  # noqa: E402
from rolecall.models.transformers.packed_logprobs import PackedScorer  # noqa: E402
from rolecall.models.transformers.slot_decoding import SlotGenerator  # noqa: E402
from rolecall.models.transformers.slots import find_obstacle  # noqa: E402
from rolecall.models.transformers.torch_engine import TorchEngine  # noqa: E402
from rolecall.models.transformers.weights import LoadedModel  # noqa: E402

VOCABULARY = 300
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
"""On CUDA, steps are captured graphs with kernels of their own; elsewhere the same steps run one by one."""
SIZES: dict[str, Any] = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8, vocab_size=VOCABULARY,
    max_position_embeddings=512, initializer_range=0.2, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
TOKENIZER: Any = SimpleNamespace(
    eos_id=2, special_tokens={}, decode=lambda ids, **_: ''.join(chr(97 + number % 26) for number in ids)
)
ENCODER: Any = SimpleNamespace(encode=lambda prompt: prompt)


def load(name: str) -> LoadedModel:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    made = {
        'llama': lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **SIZES)),
        'qwen3': lambda: transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(num_key_value_heads=4, head_dim=16, **SIZES)
        ),
        'neox': lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SIZES)),
        'gpt2': lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=64, n_layer=2, n_head=8, vocab_size=VOCABULARY, eos_token_id=2)
        ),
        'windows': lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(num_key_value_heads=2, sliding_window=16, **SIZES)
        ),
        'softcap': lambda: transformers.Gemma2ForCausalLM(
            transformers.Gemma2Config(
                num_key_value_heads=4, head_dim=16, sliding_window=12, attn_logit_softcapping=0.7, **SIZES
            )
        ),
        'gemma3': lambda: transformers.Gemma3ForCausalLM(
            transformers.Gemma3TextConfig(num_key_value_heads=4, head_dim=16, sliding_window=12, **SIZES)
        ),
        'sinks': lambda: transformers.GptOssForCausalLM(
            transformers.GptOssConfig(
                num_key_value_heads=2,
                head_dim=16,
                sliding_window=8,
                num_local_experts=4,
                num_experts_per_tok=2,
                **SIZES,
            )
        ),
        'experts': lambda: transformers.Qwen3MoeForCausalLM(
            transformers.Qwen3MoeConfig(
                num_key_value_heads=2,
                head_dim=16,
                num_experts=8,
                num_experts_per_tok=2,
                moe_intermediate_size=32,
                **SIZES,
            )
        ),
        'mixtral': lambda: transformers.MixtralForCausalLM(
            transformers.MixtralConfig(num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, **SIZES)
        ),
        'deepseek': lambda: transformers.DeepseekV3ForCausalLM(
            transformers.DeepseekV3Config(
                num_key_value_heads=8,
                n_routed_experts=8,
                num_experts_per_tok=2,
                moe_intermediate_size=32,
                n_group=2,
                topk_group=1,
                q_lora_rank=16,
                kv_lora_rank=16,
                qk_rope_head_dim=8,
                v_head_dim=16,
                qk_nope_head_dim=8,
                first_k_dense_replace=1,
                **SIZES,
            )
        ),
    }
    model = made[name]().eval().to(DEVICE)
    if name == 'softcap':  # torch's own attention leaves the cap out
        model.set_attn_implementation('eager')
    return LoadedModel.of(model, TOKENIZER)


def prompts(count: int, shared: int, *, least: int = 1, most: int = 24, seed: int = 0) -> list[TokenPrompt]:
    chance = random.Random(seed)
    before = tuple(chance.randrange(3, VOCABULARY) for _ in range(shared))
    lengths = [chance.randint(least, most) for _ in range(count)]
    return [TokenPrompt((*before, *(chance.randrange(3, VOCABULARY) for _ in range(size)))) for size in lengths]


DECODINGS = {
    'greedy': TransformersDecoding(max_new=18),
    'sampled': TransformersDecoding(max_new=18, temperature=0.8, top_p=0.9, top_k=50, seed=3),
    'stops': TransformersDecoding(max_new=18, stops=('ab', 'x', 'qz')),
}


WINDOWS_AND_EXPERTS = ['windows', 'softcap', 'gemma3', 'sinks', 'experts', 'mixtral', 'deepseek']


@pytest.mark.parametrize('decoding', DECODINGS.values(), ids=DECODINGS)
@pytest.mark.parametrize('shared', [40, 0])
@pytest.mark.parametrize('name', ['llama', 'qwen3', 'neox', 'gpt2', *WINDOWS_AND_EXPERTS])
def test_answers_are_those_of_generate(name: str, shared: int, decoding: TransformersDecoding) -> None:
    loaded, asked = load(name), prompts(11, shared)
    expected = BatchGenerator(loaded, rows=4).generate(asked, decoding)
    found = SlotGenerator(loaded, rows=4).generate(asked, decoding)
    assert [(one.text, one.reason, one.usage.output_tokens) for one in found] == [
        (one.text, one.reason, one.usage.output_tokens) for one in expected
    ]


def test_an_answer_does_not_depend_on_the_rest_of_its_batch() -> None:
    loaded, asked = load('llama'), prompts(9, 30)
    decoding = DECODINGS['sampled']
    together = SlotGenerator(loaded, rows=8).generate(asked, decoding)
    alone = [SlotGenerator(loaded, rows=1).generate([one], decoding)[0] for one in asked]
    assert [one.text for one in together] == [one.text for one in alone]


def test_a_generator_is_used_again_with_other_prompts_and_lengths() -> None:
    loaded = load('llama')
    generator = SlotGenerator(loaded, rows=4)
    for seed, shared, new in ((0, 40, 12), (1, 40, 12), (0, 40, 30), (2, 0, 5), (0, 40, 12)):
        asked, decoding = prompts(6, shared, seed=seed), TransformersDecoding(max_new=new)
        expected = BatchGenerator(loaded, rows=6).generate(asked, decoding)
        assert [one.text for one in generator.generate(asked, decoding)] == [one.text for one in expected]


def test_a_prompt_too_long_for_the_context_is_not_asked() -> None:
    loaded = load('llama')
    short, long = prompts(1, 10)[0], prompts(1, 100)[0]
    replies = SlotGenerator(loaded, rows=2, max_seq_len=64).generate([long, short], TransformersDecoding(max_new=8))
    assert [one.outcome for one in replies] == ['too_long', 'ok']


@pytest.mark.parametrize('name', WINDOWS_AND_EXPERTS)
def test_windows_caps_sinks_and_experts_take_the_fast_way(name: str) -> None:
    assert find_obstacle(load(name)) is None


def test_an_architecture_with_other_attention_is_left_to_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load('llama')
    monkeypatch.setattr(slots, '_REFUSED', ('cu_seq_lens', 'position_ids'))
    assert 'its attention uses position_ids' in str(find_obstacle(loaded))


@pytest.mark.skipif(DEVICE != 'cuda', reason='graphs are captured on CUDA')
def test_a_step_that_cannot_be_captured_is_run_without_a_graph(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loaded, asked = load('llama'), prompts(5, 40)
    expected = BatchGenerator(loaded, rows=4).generate(asked, DECODINGS['greedy'])
    step = slot_decoding._Decoder._step

    def copying_step(decoder: Any) -> None:
        torch.ones(1, device=DEVICE).item()  # a copy to the host, as routers of experts have made
        step(decoder)

    monkeypatch.setattr(slot_decoding._Decoder, '_step', copying_step)
    generator = SlotGenerator(loaded, rows=4)
    for _ in range(2):
        assert [reply.text for reply in generator.generate(asked, DECODINGS['greedy'])] == [
            one.text for one in expected
        ]
    assert caplog.text.count('without CUDA graphs') == 1
    assert torch.rand(2, device=DEVICE).isfinite().all()  # the generator does not take itself for captured


@pytest.mark.parametrize('failing', ['generating', 'scoring'])
def test_a_run_goes_on_the_other_way_where_slots_fail_in_the_middle(
    failing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loaded, asked, decoding = load('experts'), prompts(6, 40), DECODINGS['greedy']

    def make_engine(**faster: Any) -> TorchEngine:
        parts = PromptScorer(loaded, room=1000), BatchGenerator(loaded, rows=4)
        return TorchEngine(ENCODER, *parts, limit=None, thinks=False, **faster)

    def answer(engine: TorchEngine) -> Any:
        scores = [logprob for scored in engine.score(asked) for logprob in scored.logprobs[1:]]
        return [reply.text for reply in engine.generate(asked, decoding)], scores

    place, name = (slots.Slots, 'decode') if failing == 'generating' else (packed_logprobs, 'attend_packed')
    works, calls = getattr(place, name), iter(range(1000))

    def fail_in_the_middle(*arguments: Any) -> Any:
        if next(calls) >= 4 * (failing == 'generating'):
            raise RuntimeError('no kernel for this shape\nand a long list of shapes')
        return works(*arguments)

    expected = answer(make_engine())
    monkeypatch.setattr(place, name, fail_in_the_middle)
    engine = make_engine(slots=SlotGenerator(loaded, rows=4), packed=PackedScorer(loaded))
    for _ in range(2):
        texts, scores = answer(engine)
        assert texts == expected[0]
        assert scores == pytest.approx(expected[1], abs=1e-4)
    assert [record.message for record in caplog.records if 'CUDA graphs' in record.message] == [
        'the model runs without CUDA graphs from here on, which is slower: RuntimeError: no kernel for this shape'
    ]


def test_settings_of_generate_itself_are_left_to_the_other_way() -> None:
    assert SlotGenerator.supports(TransformersDecoding(max_new=8))
    assert not SlotGenerator.supports(TransformersDecoding(max_new=8, extra={'repetition_penalty': 1.2}))
    assert not SlotGenerator.supports(TransformersDecoding(max_new=8, min_new=2))


@pytest.mark.parametrize('shared', [40, 0])
@pytest.mark.parametrize('name', ['llama', 'gpt2', *WINDOWS_AND_EXPERTS])
def test_packed_scores_are_those_of_separate_passes(name: str, shared: int) -> None:
    loaded, asked = load(name), []
    for number, context in enumerate(prompts(5, shared, least=4)):
        answers = prompts(4, 0, most=6, seed=100 + number)
        asked += [TokenPrompt((*context.ids, *answer.ids)) for answer in answers]
    packed, separate = PackedScorer(loaded, room=100), PromptScorer(loaded, room=1 << 20)
    for call in (asked[:8], asked[8:], asked[:4], asked[:1], [asked[0], asked[0]], asked):
        for one, other in zip(packed.score(call), separate.score(call), strict=True):
            assert one.ids == other.ids
            assert one.logprobs[0] is None
            assert one.logprobs[1:] == pytest.approx(other.logprobs[1:], abs=1e-4)
