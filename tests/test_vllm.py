"""vLLM: what it is started with, asked and answers. A stand-in takes its place, except where the package is installed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecall.errors import MissingExtraError
from rolecall.models.backends import build_model
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored
from rolecall.models.transformers.entry import read_transformers_entry
from rolecall.models.vllm import RunningVLLM, VLLMModel, build
from small_models import make_model, make_tokenizer


class StandIn:
    """Answers with the last token of each prompt, and finds every token as likely as its id says."""

    def __init__(self) -> None:
        self.started: list[Mapping[str, Any]] = []
        self.asked: list[Mapping[str, Any]] = []

    def start(self, given: Mapping[str, Any]) -> RunningVLLM:
        self.started.append(given)
        return RunningVLLM(self, dict)

    def get_tokenizer(self) -> Any:
        raise AssertionError('the tokenizer is on this machine')

    def generate(self, prompts: Any, sampling_params: Any, *, use_tqdm: bool) -> Sequence[Any]:
        assert use_tqdm is False
        each = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
        self.asked += each
        return [self.output(prompt['prompt_token_ids'], params) for prompt, params in zip(prompts, each, strict=True)]

    def output(self, ids: list[int], params: Mapping[str, Any]) -> Any:
        if params.get('temperature') == 9:
            raise ValueError('temperature is out of range')
        likely = {token: SimpleNamespace(logprob=-token / 10) for token in ids}
        logprobs = [None, *([{token: likely[token]} for token in ids[1:]])] if 'prompt_logprobs' in params else None
        made = SimpleNamespace(text=f'<{ids[-1]}>', token_ids=[ids[-1]], finish_reason='stop')
        return SimpleNamespace(prompt_token_ids=ids, outputs=[made], prompt_logprobs=logprobs, num_cached_tokens=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tokenizer(tmp_path, bos=True)


def made(folder: Path, **entry: Any) -> tuple[VLLMModel, StandIn]:
    stand_in = StandIn()
    settings = read_transformers_entry({'type': 'VLLM', 'path': str(folder), **entry}, name='small')
    return VLLMModel(settings, name='small', start=stand_in.start), stand_in


def answers(model: VLLMModel, requests: list[Any], **sampling: Any) -> list[Reply]:
    return asyncio.run(model.generate(requests, Sampling(**sampling)))


def test_a_local_model_hides_the_secrets_of_its_config(folder: Path) -> None:
    model, _ = made(folder)
    [reply] = answers(model, ['a'])
    model.add_secrets([reply.text])
    assert [one.text for one in answers(model, ['a'])] == ['[key]']
    asyncio.run(model.close())


def test_vllm_is_started_once_with_the_entrys_arguments(folder: Path) -> None:
    model, stand_in = made(folder, max_seq_len=512, dtype='bfloat16', model_kwargs={'tensor_parallel_size': 2})
    answers(model, ['a'])
    answers(model, ['b'])
    assert stand_in.started == [
        {
            'model': str(folder),
            'enable_prefix_caching': True,
            'trust_remote_code': False,
            'dtype': 'bfloat16',
            'max_model_len': 512,
            'tensor_parallel_size': 2,
        }
    ]
    asyncio.run(model.close())


def test_prompts_go_as_token_ids_with_one_bos(folder: Path) -> None:
    model, _ = made(folder)
    plain, written, ids = answers(model, ['the', '<s>the', [0, 77]])
    assert plain.usage.input_tokens == written.usage.input_tokens == model.count('the') == 3
    assert (ids.text, ids.usage.input_tokens, ids.usage.cached_tokens) == ('<77>', 2, 1)


@pytest.mark.parametrize(
    ('entry', 'sampling', 'expected'),
    [
        ({}, {}, {'temperature': 0.0, 'max_tokens': 512}),
        ({'max_out_len': 9}, {'min_out_len': 2}, {'max_tokens': 9, 'min_tokens': 2}),
        ({'stop_words': ['\n']}, {'stop': ('.',)}, {'stop': ['.', '\n']}),
        (
            {'generation_kwargs': {'do_sample': True, 'eos_token_id': 5}},
            {},
            {'temperature': 1.0, 'stop_token_ids': [5]},
        ),
        (
            {},
            {'temperature': 0.5, 'top_p': 0.9, 'top_k': 4, 'seed': 3},
            {'temperature': 0.5, 'top_p': 0.9, 'top_k': 4, 'seed': 3},
        ),
        ({}, {'extra': {'repetition_penalty': 1.2}}, {'repetition_penalty': 1.2}),
        ({'max_seq_len': 10}, {}, {'max_tokens': 7}),
    ],
)
def test_sampling_parameters_in_vllms_words(
    folder: Path, entry: dict[str, Any], sampling: dict[str, Any], expected: dict[str, Any]
) -> None:
    model, stand_in = made(folder, **entry)
    answers(model, ['the'], **sampling)
    [params] = stand_in.asked
    assert {name: params[name] for name in expected} == expected


def test_a_prompt_without_room_for_an_answer_is_not_asked(folder: Path) -> None:
    model, stand_in = made(folder, max_seq_len=5)
    long, short = answers(model, ['abcdefgh', 'a'])
    assert (long.outcome, short.outcome, len(stand_in.asked)) == ('too_long', 'ok', 1)


def test_scores_are_those_of_the_prompts_own_tokens(folder: Path) -> None:
    model, stand_in = made(folder)
    [one] = asyncio.run(model.score(['the']))
    assert one.logprobs == (None, *(-token / 10 for token in one.ids[1:]))
    assert len(one.offsets) == len(one.ids)
    assert stand_in.asked[0]['prompt_logprobs'] == 0


def test_an_answer_without_scores_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = made(folder)
    silent = SimpleNamespace(prompt_logprobs=None)
    monkeypatch.setattr(StandIn, 'output', lambda *_: silent)
    with pytest.raises(ModelError, match='no log-probabilities'):
        asyncio.run(model.score(['the']))


def test_an_engine_that_died_is_an_error_and_started_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class EngineDeadError(Exception):
        pass

    def die(*_: object) -> Any:
        raise EngineDeadError('the engine ended')

    model, stand_in = made(folder)
    with monkeypatch.context() as patched:
        patched.setattr(StandIn, 'output', die)
        with pytest.raises(ModelError, match='vLLM: the engine ended'):
            answers(model, ['a'])
    assert len(answers(model, ['a'])) == 1
    assert len(stand_in.started) == 2


def test_what_vllm_refuses_is_told(folder: Path) -> None:
    model, _ = made(folder)
    with pytest.raises(ModelError, match='vLLM: temperature is out of range'):
        answers(model, ['a'], temperature=9)


def test_thinking_is_kept_apart_from_the_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = made(folder, type='VLLMwithChatTemplate')
    made_text = SimpleNamespace(text='<think>hm</think>4', token_ids=[1], finish_reason='stop')
    output = SimpleNamespace(prompt_token_ids=[1], outputs=[made_text])
    monkeypatch.setattr(StandIn, 'output', lambda *_: output)
    [reply] = answers(model, ['the'])
    assert (reply.text, reply.reasoning) == ('4', 'hm')


def test_a_missing_vllm_is_named_with_its_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'vllm', None)
    model = build({'type': 'VLLM', 'path': str(folder)}, name='small')
    with pytest.raises(MissingExtraError, match=r"pip install 'rolecall\[vllm\]'"):
        answers(model, ['a'])


@pytest.mark.heavy
@pytest.mark.filterwarnings('default')  # those of the package
def test_the_package_itself_answers_and_scores_as_transformers_does(tmp_path: Path) -> None:
    pytest.importorskip('vllm')
    make_model(tmp_path, 'llama', width=128, spread=0.1)  # vLLM has no attention on CPUs for narrower heads
    prompts = ['the quick answer', 'on a thin thing', 'q']
    entry = {'path': str(tmp_path), 'max_seq_len': 64, 'model_kwargs': {'dtype': 'float32', 'enforce_eager': True}}

    async def ask(kind: str, **more: Any) -> tuple[list[str], list[str], list[Scored], str]:
        model = build_model({'type': kind, **entry, **more}, name='small')
        try:
            whole = await model.generate(prompts, Sampling(max_out_len=12, temperature=0.0))
            stopped = await model.generate(prompts, Sampling(max_out_len=12, temperature=0.0, stop=('e', 't')))
            scores = await model.score(prompts)
            [long] = await model.generate(['the ' * 80], Sampling(max_out_len=4))
        finally:
            await model.close()
        # vLLM leaves out the beginning of a character at the end, Transformers has a mark in its place.
        texts, cut = ([one.text.rstrip('\ufffd') for one in replies] for replies in (whole, stopped))
        return texts, cut, scores, long.outcome

    there = asyncio.run(ask('VLLM'))
    here = asyncio.run(ask('HuggingFace', model_kwargs={'torch_dtype': 'float32'}))
    assert (there[0], there[1], there[3]) == (here[0], here[1], here[3])
    for one, other in zip(there[2], here[2], strict=True):
        assert one.ids == other.ids
        assert one.logprobs[1:] == pytest.approx(other.logprobs[1:], abs=1e-4)
