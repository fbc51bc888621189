"""Answers of Transformers models: what `generate` gives alone, in any batch, cut where it must be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecall.core.render.spans import Request
from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.models.transformers.model import TransformersModel, build
from small_models import KINDS, SPECIAL, UNREADABLE, make_model

pytestmark = [
    pytest.mark.heavy,
    # torch and transformers warn about their own future.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning'),
]

SHOTS = ''.join(f'Question: what is the quarter of {n}?\nAnswer: {n / 4}\n\n' for n in range(4))
PROMPTS = [f'{SHOTS}Question: is {q} the{" other" * q} one?\nAnswer:' for q in range(5)] + ['Once', 'Question: ']


@pytest.fixture(scope='module', params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope='module')
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp('llama'), 'llama')


@pytest.fixture(scope='module')
def model(llama: Path) -> Iterator[TransformersModel]:
    model = made(llama)
    yield model
    asyncio.run(model.close())


def made(folder: Path, *, generation_kwargs: Any = None, **entry: Any) -> TransformersModel:
    """A model that says readable things only."""
    generation = {'suppress_tokens': UNREADABLE, **(generation_kwargs or {})}
    found = {'type': 'HuggingFaceBaseModel', 'path': str(folder), 'device': 'cpu', 'generation_kwargs': generation}
    return build(found | entry, name='small')


def answers(model: TransformersModel, requests: list[Request], **sampling: Any) -> list[Reply]:
    return asyncio.run(model.generate(requests, Sampling(**{'max_out_len': 12, **sampling})))


def texts(model: TransformersModel, requests: list[Request], **sampling: Any) -> list[str]:
    return [reply.text for reply in answers(model, requests, **sampling)]


def tokens_of(model: TransformersModel, text: str) -> tuple[list[int], Tokenizer]:
    """The tokens a model made, from its text: each is a letter or two, so that the text does not decide them."""
    tokenizer = model._local_tokenizer
    assert tokenizer is not None
    return tokenizer.encode(text), tokenizer


def greedy_by_transformers(folder: Path, prompts: list[str], tokens: int) -> list[str]:
    """What transformers' own `generate` says, prompt by prompt."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors='pt', return_token_type_ids=False)
        made = theirs.generate(
            **ids, max_new_tokens=tokens, do_sample=False, pad_token_id=1, suppress_tokens=UNREADABLE
        )[0]
        found.append(tokenizer.decode(made[ids['input_ids'].shape[1] :]).removesuffix('</s>'))
    return found


@pytest.mark.parametrize('batch_size', [1, 3, 16])
def test_answers_are_those_of_each_prompt_alone(folder: Path, batch_size: int) -> None:
    model = made(folder, batch_size=batch_size)
    expected = greedy_by_transformers(folder, PROMPTS, 12)
    assert texts(model, [*PROMPTS]) == expected
    assert texts(model, [*PROMPTS]) == expected  # what the first call left behind is used, and changes nothing
    asyncio.run(model.close())


def test_shared_prefixes_are_computed_once(llama: Path) -> None:
    model = made(llama)
    first = answers(model, [*PROMPTS[:5]])
    later = answers(model, [PROMPTS[0]])
    assert sum(reply.usage.cached_tokens or 0 for reply in first) > 3 * len(SHOTS) / 2
    assert (later[0].usage.cached_tokens or 0) > len(SHOTS) / 2
    assert later[0].text == first[0].text
    asyncio.run(model.close())


@pytest.mark.parametrize('place', [0, 3, 7])
def test_an_answer_ends_exactly_before_a_stop(model: TransformersModel, place: int) -> None:
    [free, *_] = texts(model, ['Once'], max_out_len=30)
    stop = free[place : place + 3]
    [reply] = answers(model, ['Once'], max_out_len=30, stop=(stop,))
    assert (reply.text, reply.reason) == (free[: free.index(stop)], 'stop')
    assert (reply.usage.output_tokens or 0) < 30


def test_a_stop_ends_one_answer_and_not_its_neighbours(model: TransformersModel) -> None:
    free = texts(model, [*PROMPTS], max_out_len=20)
    stop = free[2][4:7]
    cut = [text.partition(stop)[0] for text in free]
    assert texts(model, [*PROMPTS], max_out_len=20, stop=(stop,)) == cut


def test_the_models_own_eos_ends_an_answer(llama: Path) -> None:
    """Any token is made the EOS: by the entry (a number or a list), by the request, by the model's own file."""
    free = made(llama)
    [text] = texts(free, ['Once'])
    ids, tokenizer = tokens_of(free, text)
    expected = tokenizer.decode(ids[: ids.index(ids[4])])
    for eos in (ids[4], [2, ids[4]]):
        entry = made(llama, generation_kwargs={'eos_token_id': eos})
        assert texts(entry, ['Once']) == texts(free, ['Once'], extra={'eos_token_id': eos}) == [expected]
    assert answers(free, ['Once'], extra={'eos_token_id': ids[4]})[0].reason == 'stop'
    asyncio.run(free.close())


def test_a_files_eos_list_counts_and_its_sampling_does_not(llama: Path, tmp_path: Path) -> None:
    import shutil

    from transformers import GenerationConfig

    free = made(llama)
    ids, tokenizer = tokens_of(free, texts(free, ['Once'])[0])
    shutil.copytree(llama, tmp_path / 'copy')
    settings = GenerationConfig(do_sample=True, temperature=5.0, eos_token_id=[1, ids[3]], repetition_penalty=9.0)
    settings.save_pretrained(tmp_path / 'copy')
    short = made(tmp_path / 'copy')
    assert texts(short, ['Once']) == [tokenizer.decode(ids[: ids.index(ids[3])])]


def test_a_stop_word_that_is_a_special_token_is_an_eos(model: TransformersModel) -> None:
    from rolecall.models.local_engine import TransformersDecoding
    from rolecall.models.transformers.decoding import StopTracker

    engine = model._engine
    if engine is None:
        texts(model, ['Once'])
        engine = model._engine
    assert engine is not None
    end = StopTracker(engine.generator.loaded, [(5,)], TransformersDecoding(5, stops=('<|im_end|>', '\n')), bool)
    assert (end.ids, end.stops) == ((1, SPECIAL.index('<|im_end|>')), ('\n',))
    assert end.answer(0, [70, 71, 3, 1]) == ([70, 71, 3], engine.encoder.tokenizer.decode([70, 71]), 'stop')


def test_at_least_so_many_tokens(model: TransformersModel) -> None:
    [free] = texts(model, ['Once'], max_out_len=20)
    stop = free[0]
    [reply] = answers(model, ['Once'], max_out_len=20, min_out_len=5, stop=(stop,))
    assert (reply.usage.output_tokens or 0) > 5
    ids, _ = tokens_of(model, free)
    [reply] = answers(model, ['Once'], max_out_len=20, min_out_len=6, extra={'eos_token_id': ids[2]})
    assert (reply.usage.output_tokens or 0) >= 6


def test_no_more_than_so_many_tokens(model: TransformersModel) -> None:
    [reply] = answers(model, ['Once'], max_out_len=3)
    assert (reply.usage.output_tokens, reply.reason, reply.outcome) == (3, 'length', 'ok')


def test_a_prompt_that_leaves_no_room_is_too_long_and_the_others_are_answered(llama: Path) -> None:
    model = made(llama, max_seq_len=40)
    long, tight, short = answers(model, ['word ' * 20, 'a' * 35, 'Once'], max_out_len=12)
    assert (long.outcome, long.text) == ('too_long', '')
    assert 'takes 40' in long.reason
    assert (tight.outcome, tight.usage.output_tokens) == ('ok', 4)
    assert (short.outcome, short.usage.output_tokens) == ('ok', 12)
    asyncio.run(model.close())


def test_learnt_positions_are_never_exceeded(tmp_path: Path) -> None:
    model = made(make_model(tmp_path, 'gpt2'), max_seq_len=100_000)
    assert model.max_seq_len == 512
    replies = answers(model, ['a' * 508, 'Once'], max_out_len=12)
    assert [reply.usage.output_tokens for reply in replies] == [4, 12]
    asyncio.run(model.close())


def test_a_seed_draws_the_same_in_any_batch(model: TransformersModel) -> None:
    options: dict[str, Any] = {'temperature': 1.5, 'top_p': 0.95, 'top_k': 50, 'seed': 7}
    alone = [texts(model, [prompt], **options)[0] for prompt in PROMPTS]
    assert texts(model, [*PROMPTS], **options) == alone
    assert texts(model, [*reversed(PROMPTS)], **options) == alone[::-1]
    assert texts(model, [*PROMPTS], **{**options, 'seed': 8}) != alone
    assert texts(model, [*PROMPTS]) != alone


def test_draws_follow_the_probabilities(model: TransformersModel) -> None:
    import torch

    from rolecall.models.local_engine import TransformersDecoding
    from rolecall.models.transformers.decoding import build_row_sampler

    scores = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    count = 4000
    for options, expected in (
        ({}, [0.1, 0.2, 0.3, 0.4]),
        ({'top_k': 2}, [0, 0, 3 / 7, 4 / 7]),
        ({'top_p': 0.6}, [0, 0, 3 / 7, 4 / 7]),
    ):
        rows = [(number,) for number in range(count)]
        draw = build_row_sampler(rows, TransformersDecoding(1, temperature=1.0, seed=1, **options), torch.device('cpu'))
        assert draw is not None
        drawn = draw(None, scores.expand(count, -1).clone()).argmax(-1)
        shares = torch.bincount(drawn, minlength=4) / count
        assert shares.tolist() == pytest.approx(expected, abs=0.03)


def test_without_a_seed_draws_differ(model: TransformersModel) -> None:
    assert len(set(texts(model, ['Once'] * 4, temperature=2.0))) > 1


@pytest.mark.parametrize(
    ('generation', 'sampling', 'draws'),
    [
        ({}, {}, False),
        ({'do_sample': True}, {}, True),
        ({'do_sample': True, 'temperature': 2.0}, {'temperature': 0.0}, False),
        ({'do_sample': False, 'temperature': 2.0}, {}, False),
        ({'temperature': 2.0, 'top_k': 40}, {}, True),
        ({}, {'temperature': 2.0}, True),
    ],
)
def test_greedy_unless_drawing_is_asked_for(
    llama: Path, model: TransformersModel, generation: dict[str, Any], sampling: dict[str, Any], draws: bool
) -> None:
    one = made(llama, generation_kwargs=generation)
    assert bool(one._settings.decoding(Sampling(**sampling)).temperature) is draws


def test_other_generation_settings_are_passed_on(llama: Path, model: TransformersModel) -> None:
    penalised = made(llama, generation_kwargs={'repetition_penalty': 5.0})
    assert texts(penalised, ['Once'], max_out_len=30) != texts(model, ['Once'], max_out_len=30)
    beams = made(llama, generation_kwargs={'num_beams': 3})
    assert len(texts(beams, ['Once', 'the other'])) == 2
    with pytest.raises(ModelError, match="unknown generation setting 'repetition_penalti'.*repetition_penalty"):
        texts(model, ['Once'], extra={'repetition_penalti': 2})
    with pytest.raises(ModelError, match='beam search'):
        texts(beams, ['Once'], temperature=1.0)


def test_token_ids_are_sent_as_they_are(model: TransformersModel) -> None:
    ids, _ = tokens_of(model, 'Once upon')
    assert texts(model, [[0, *ids]]) == texts(model, ['Once upon']) == texts(model, [[0, 'Once', ' upon']])


def test_an_empty_prompt_gets_an_answer(tmp_path: Path) -> None:
    model = made(make_model(tmp_path, 'gpt2'))
    assert answers(model, ['', 'Once'])[0].outcome == 'ok'
    asyncio.run(model.close())


def test_who_stops_waiting_stops_the_work(llama: Path) -> None:
    async def impatient() -> float:
        model = made(llama)
        await model.generate(['Once'], Sampling(max_out_len=1))
        loop = asyncio.get_running_loop()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(model.generate(['Once'], Sampling(max_out_len=4000, min_out_len=3999)), 0.3)
        began = loop.time()
        assert (await model.generate(['Once'], Sampling(max_out_len=2)))[0].outcome == 'ok'
        await model.close()
        return loop.time() - began

    assert asyncio.run(impatient()) < 2
