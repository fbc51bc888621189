"""The embedded model: llama.cpp on a small random GGUF file, against the same model in numpy."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.errors import ConfigError, DataError, MissingExtraError, RolecallError
from rolecall.models.llama import bindings
from rolecall.models.llama.decoding import GrowingAnswer, LlamaDecoding, draw_token, random_generator
from rolecall.models.llama.logprobs import log_sums
from rolecall.models.llama.model import LlamaModel, build
from rolecall.models.llama.streams import ThreadTuner, busy_threads
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from small_gguf import CONTEXT, SmallModel, make_gguf
from test_tokenizers import TEXTS

T = TypeVar('T')
SHOTS = 'hello world 12345: it is. ' * 6
PROMPTS = [
    f'{SHOTS}who?',
    f'{SHOTS}what is hello?',
    'hello',
    '你好, world',
    f'{SHOTS}what is hell?',
    f'{SHOTS}who?',
    f'{SHOTS}who? me',
]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture(scope='module')
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    return make_gguf(tmp_path_factory.mktemp('gguf') / 'small.gguf')


@pytest.fixture(scope='module')
def model(small: SmallModel) -> Iterator[LlamaModel]:
    made = opened(small)
    yield made
    run(made.close())


def opened(small: SmallModel, **options: Any) -> LlamaModel:
    return build({'type': 'LlamaCpp', 'path': str(small.path), 'n_threads': 1, **options}, name='small')


def answers(model: LlamaModel, requests: list[Any], **sampling: Any) -> list[Reply]:
    return run(model.generate(requests, Sampling(**{'max_out_len': 12, **sampling})))


# Text and tokens.


@pytest.mark.parametrize('kind', ['bytes', 'sentencepiece'])
def test_tokens_are_those_of_the_tokenizer_in_the_file(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    path = make_gguf(tmp_path_factory.mktemp('gguf') / f'{kind}.gguf', kind=kind).path
    ours, theirs = LlamaVocabulary(path), load_tokenizer(path)
    assert (ours.bos_id, ours.eos_id, ours.adds_bos) == (theirs.bos_id, theirs.eos_id, theirs.adds_bos)

    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def same(text: str) -> None:
        ids = ours.encode(text)
        assert ids == theirs.encode(text)
        offsets = ours.offsets(text)
        assert [number for number, _, _ in offsets] == ids
        edges = [0, *(stop for _, _, stop in offsets)]
        assert [start for _, start, _ in offsets] == edges[:-1]
        assert edges[-1] == (len(text) if ids else 0)

    same()


@pytest.mark.parametrize(
    ('text', 'ids'),
    [('hello', ['<s>', ' hello']), ('<s>hello', ['<s>', ' hello']), ([1, 'hello'], ['<s>', ' hello']), ([3, 4], None)],
)
def test_one_bos_is_put_where_the_model_wants_one(tmp_path: Path, text: Any, ids: list[str] | None) -> None:
    spm = opened(make_gguf(tmp_path / 'spm.gguf', kind='sentencepiece'))
    [scored] = run(spm.score([text]))
    tokens = load_tokenizer(tmp_path / 'spm.gguf')
    assert scored.ids == (1, 3, 4) if ids is None else tokens.pieces(scored.ids) == ids
    assert spm.count(text) == len(scored.ids)
    run(spm.close())


def test_special_tokens_in_a_prompt_are_those_tokens(model: LlamaModel) -> None:
    [scored] = run(model.score(['<|im_start|>hello<|im_end|>']))
    assert scored.ids[0] == 1
    assert scored.ids[-1] == 2
    assert len(scored.ids) == 3
    assert scored.offsets == ((0, 12), (12, 17), (17, 27))


# Scores.


@pytest.mark.parametrize(('cache_type', 'tolerance'), [('f32', 2e-3), ('f16', 0.1)])
def test_scores_are_those_of_the_same_model_in_numpy(small: SmallModel, cache_type: str, tolerance: float) -> None:
    model = opened(small, cache_type=cache_type)
    for scored in run(model.score(PROMPTS)):
        assert scored.logprobs[0] is None
        assert scored.logprobs[1:] == pytest.approx(small.logprobs(scored.ids), abs=tolerance)
    run(model.close())


def test_what_prompts_share_is_computed_once_and_changes_nothing(small: SmallModel) -> None:
    shared, full = opened(small), LlamaModel(opened(small)._settings, name='full', share=False)
    ours, theirs = run(shared.score(PROMPTS)), run(full.score(PROMPTS))
    assert [scored.logprobs for scored in ours] == [scored.logprobs for scored in theirs]
    assert shared.computed * 3 < full.computed
    cached = [scored.usage.cached_tokens for scored in ours]
    assert cached[5] == len(ours[5].ids), 'the same prompt again costs nothing'
    again = run(shared.score([PROMPTS[1]]))
    assert again[0].logprobs == ours[1].logprobs
    run(shared.close())
    run(full.close())


def test_labels_of_one_token_need_nothing_but_what_they_share(small: SmallModel) -> None:
    model = opened(small)
    prompts = [f'{SHOTS}Answer:{label}' for label in 'ABCD']
    scored = run(model.score(prompts))
    assert model.computed == len(scored[0].ids) - 1
    run(model.close())


@settings(max_examples=40, deadline=None)
@given(prompts=st.lists(st.lists(st.integers(3, 6), min_size=1, max_size=12), min_size=1, max_size=8))
def test_any_set_of_prompts_scores_as_each_alone(model: LlamaModel, prompts: list[list[int]]) -> None:
    together = run(model.score(list(prompts)))
    alone = LlamaModel(model._settings, name='alone', share=False)
    alone._worker, alone._engine, alone._loaded_vocabulary = model._worker, model._engine, model._loaded_vocabulary
    assert [one.logprobs for one in together] == [one.logprobs for one in run(alone.score(list(prompts)))]


def test_long_prompts_are_computed_in_parts(small: SmallModel) -> None:
    model = opened(small, cache_type='f32')
    [scored] = run(model.score([[3 + place % 90 for place in range(CONTEXT - 1)]]))
    assert scored.logprobs[1:] == pytest.approx(small.logprobs(scored.ids), abs=5e-3)
    run(model.close())


def test_a_prompt_that_does_not_fit_is_told(small: SmallModel) -> None:
    model = opened(small, max_seq_len=16)
    with pytest.raises(ModelError, match='a prompt has 20 tokens; the model takes 16'):
        run(model.score([[3] * 20]))
    too_long, ok = answers(model, [[3] * 16, [3] * 4], max_out_len=5)
    assert (too_long.outcome, too_long.text) == ('too_long', '')
    assert ok.outcome == 'ok'
    [full] = answers(model, [[3] * 12])
    assert full.outcome in ('ok', 'too_long')
    run(model.close())


def test_the_sum_of_exponentials_is_stable() -> None:
    rows = np.random.default_rng(0).normal(0, 200, (37, 500)).astype(np.float32)
    assert log_sums(rows)[0] == pytest.approx(np.logaddexp.reduce(rows.astype(np.float64), axis=1), abs=1e-5)


# Answers.


def test_an_answer_does_not_depend_on_who_is_answered_beside_it(small: SmallModel) -> None:
    together, alone = opened(small, parallel=3), opened(small, parallel=1)
    for sampling in ({}, {'temperature': 1.3, 'seed': 5, 'top_p': 0.9, 'top_k': 50}):
        ours = [reply.text for reply in answers(together, PROMPTS, max_out_len=20, **sampling)]
        # The second of two equal prompts is another sample of it.
        theirs = [answers(alone, [prompt], max_out_len=20, **sampling)[0].text for prompt in PROMPTS]
        assert ours[:5] + ours[6:] == theirs[:5] + theirs[6:]
        again = [reply.text for reply in answers(together, PROMPTS[::-1], max_out_len=20, **sampling)]
        assert sorted(again) == sorted(ours)
    run(together.close())
    run(alone.close())


def test_greedy_answers_take_the_likeliest_token(small: SmallModel) -> None:
    model = opened(small, cache_type='f32')
    [reply] = answers(model, [[3, 4, 5]], max_out_len=6)
    ids = [3, 4, 5]
    for _ in range(reply.usage.output_tokens or 0):
        chances = [small.logprobs([*ids, number])[-1] for number in range(268)]
        ids.append(int(np.argmax(chances)))
    vocabulary = LlamaVocabulary(small.path)
    data = b''.join(vocabulary.bytes_of(number) for number in ids[3:] if not vocabulary.is_control(number))
    assert data.decode(errors='ignore').rstrip('\ufffd') == reply.text.replace('\ufffd', '')
    run(model.close())


def test_what_prompts_share_is_computed_once_for_answers_too(small: SmallModel) -> None:
    model = opened(small, parallel=2)
    replies = answers(model, [f'{SHOTS}{word}' for word in ('who', 'what', 'when', 'where')])
    assert sum((reply.usage.cached_tokens or 0) > 60 for reply in replies) == 3
    assert (answers(model, [f'{SHOTS}why'])[0].usage.cached_tokens or 0) > 60, 'and from one call to the next'
    run(model.close())


def test_several_samples_of_a_prompt_differ_and_come_again(model: LlamaModel) -> None:
    samples = [reply.text for reply in answers(model, ['hello'] * 4, temperature=1.5, seed=1)]
    assert len(set(samples)) > 1
    assert [reply.text for reply in answers(model, ['hello'] * 4, temperature=1.5, seed=1)] == samples
    assert [reply.text for reply in answers(model, ['hello'] * 4, temperature=1.5, seed=2)] != samples


@pytest.mark.parametrize(
    ('words', 'stops', 'text', 'ended'),
    [
        (['hello', ' w', 'o', 'r'], (), 'hello wor', 'length'),
        (['hello', ' w', 'o', 'r'], ('o w',), 'hell', 'stop'),
        (['hello', ' w', 'o', 'r'], ('wor', 'lo'), 'hel', 'stop'),
        (['hello', '<|im_end|>', 'x'], (), 'hello', 'stop'),
        (['hello', '<|im_start|>', 'x', 'y'], (), 'helloxy', 'length'),
        (['hello', '<|im_start|>', 'x'], ('<|im_start|>',), 'hello', 'stop'),
        (['é'.encode()[:1], 'é'.encode()[1:], 'o', 'x'], ('éo',), '', 'stop'),
        (['o', 'é'.encode()[:1], 'é'.encode()[1:], 'x'], (), 'oéx', 'length'),
        (['o', 'x', 'y', 'é'.encode()[:1]], (), 'oxy', 'length'),
        (['o', b'\xff', 'y', 'z'], (), 'o\ufffdyz', 'length'),
    ],
)
def test_where_an_answer_ends(
    small: SmallModel, words: list[str | bytes], stops: tuple[str, ...], text: str, ended: str
) -> None:
    vocabulary = LlamaVocabulary(small.path)
    spelt = {vocabulary.bytes_of(number): number for number in range(vocabulary.size)}
    writing = GrowingAnswer(vocabulary, LlamaDecoding(4, stops=stops), room=100)
    for word in words:
        if not writing.ended:
            writing.add(spelt[word.encode() if isinstance(word, str) else word])
    assert (writing.text, writing.ended) == (text, ended)


def test_an_answer_that_fills_the_context_is_too_long(small: SmallModel) -> None:
    model = opened(small, max_seq_len=24, generation_kwargs={'ignore_eos': True})
    [reply] = answers(model, [[3] * 10], max_out_len=20)
    assert reply.outcome == 'too_long'
    assert reply.usage.output_tokens == 14
    assert 'the context of 24 tokens was full after 14 tokens' in reply.reason
    [reply] = answers(model, [[3] * 10], max_out_len=14)
    assert (reply.outcome, reply.reason) == ('ok', 'length')
    run(model.close())


def test_an_answer_has_its_least_length(small: SmallModel) -> None:
    model = opened(small)
    prompts = [[number] * 3 for number in range(3, 90)]
    ended = [
        reply for reply in answers(model, prompts, temperature=5.0, seed=0, max_out_len=60) if reply.reason == 'stop'
    ]
    assert ended, 'some of these answers end by themselves'
    held = answers(model, prompts, temperature=5.0, seed=0, max_out_len=60, min_out_len=60)
    assert {reply.usage.output_tokens for reply in held} == {60}
    run(model.close())


@pytest.mark.parametrize(
    ('sampling', 'possible'),
    [
        ({}, {2}),
        ({'temperature': 0}, {2}),
        ({'temperature': 1.0}, {0, 1, 2, 3}),
        ({'temperature': 1.0, 'top_k': 2}, {1, 2}),
        ({'temperature': 1.0, 'top_p': 0.5}, {2}),
        ({'temperature': 1.0, 'top_p': 0.75}, {1, 2}),
        ({'temperature': 1.0, 'min_p': 0.3}, {1, 2}),
        ({'temperature': 0.01}, {2}),
    ],
)
def test_which_tokens_can_be_drawn(sampling: dict[str, Any], possible: set[int]) -> None:
    logits = np.log(np.array([0.1, 0.25, 0.6, 0.05], np.float32))
    answering = LlamaDecoding(1, seed=3, **sampling)
    chance = random_generator(answering, np.array([1, 2], np.int32), sample=0)
    assert {draw_token(logits, answering, chance) for _ in range(400)} == possible


# Being asked and let go.


def test_work_that_nobody_waits_for_stops(small: SmallModel) -> None:
    model = opened(small, max_seq_len=1 << 20, generation_kwargs={'ignore_eos': True})

    async def impatient() -> int:
        await model.score(['hello'])
        work = asyncio.ensure_future(model.generate(['hello world'], Sampling(max_out_len=100_000)))
        await asyncio.sleep(0.2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        replies = await model.generate(['hello'], Sampling(max_out_len=3))
        return replies[0].usage.output_tokens or 0

    assert run(impatient()) == 3
    assert model.computed < 100_000
    run(model.close())


def test_a_model_can_be_asked_again_after_it_was_closed(small: SmallModel) -> None:
    model = opened(small)
    before = answers(model, PROMPTS[:2])
    run(model.close())
    run(model.close())
    assert [reply.text for reply in answers(model, PROMPTS[:2])] == [reply.text for reply in before]
    run(model.close())


def test_calls_at_the_same_time_wait_for_each_other(model: LlamaModel) -> None:
    async def both() -> tuple[Any, ...]:
        return await asyncio.gather(*(model.generate([prompt], Sampling(max_out_len=5)) for prompt in PROMPTS))

    assert [replies[0].text for replies in run(both())] == [
        reply.text for reply in answers(model, PROMPTS, max_out_len=5)
    ]


def test_tokens_are_counted_without_the_weights(small: SmallModel) -> None:
    model = opened(small)
    assert [model.count(request) for request in ('hello world', [3, 4], [3, 'hello'])] == [6, 2, 2]
    assert model.computed == 0
    assert build({'type': 'Embedded'}, name='s').max_seq_len == 8192


def test_nothing_is_printed(small: SmallModel, capfd: pytest.CaptureFixture[str]) -> None:
    model = opened(small)
    answers(model, ['hello'])
    run(model.close())
    assert capfd.readouterr() == ('', '')


# What goes wrong.


@pytest.mark.parametrize(
    ('request_', 'message'),
    [
        ([3, 999], 'token ids must be from 0 to 267; there are 3 to 999'),
        ([-1, 3], 'token ids must be from 0'),
        ([{'role': 'user', 'content': 'hi'}], 'takes text, not messages'),
    ],
)
def test_a_request_it_cannot_take_is_an_error(model: LlamaModel, request_: Any, message: str) -> None:
    for work in (model.score([request_]), model.generate([request_], Sampling(max_out_len=2))):
        with pytest.raises(ModelError, match=message):
            run(work)
    assert run(model.score(['hello it is']))[0].ids


def test_an_empty_prompt_fails_and_the_others_do_not(model: LlamaModel) -> None:
    empty, other = answers(model, ['', 'hello'])
    assert (empty.outcome, other.outcome) == ('failed', 'ok')
    assert [scored.logprobs for scored in run(model.score(['', [3]]))] == [(), (None,)]


@pytest.mark.parametrize(
    ('entry', 'message'),
    [
        ({'path': 'model.bin'}, 'is neither a .gguf file nor a packaged model'),
        ({'path': 'nowhere.gguf'}, 'there is no file nowhere.gguf'),
        ({}, 'path\n  missing'),
        ({'path': 'smollm2', 'max_seq_len': 0}, 'max_seq_len\n  expected a whole number of at least 1'),
        ({'path': 'smollm2', 'paralel': 3}, "unknown option.\n  Did you mean 'parallel'?"),
        ({'path': 'smollm2', 'seed': 'x'}, 'seed\n  expected a whole number'),
        ({'path': 'smollm2', 'cache_type': 'q4'}, "cache_type\n  expected one of 'f16', 'f32'"),
    ],
)
def test_a_wrong_entry_is_told(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match='small') as found:
        build({'type': 'LlamaCpp', **entry}, name='small')
    assert message in str(found.value)


def test_an_unknown_sampling_parameter_is_told(model: LlamaModel) -> None:
    with pytest.raises(ModelError, match="no sampling parameter 'tempratur'. Did you mean 'temperature'"):
        answers(model, ['hello'], extra={'tempratur': 1})


@pytest.mark.parametrize('damage', ['cut', 'not a model', 'no tensors', 'vocabulary only', 'wrong sizes'])
def test_a_broken_file_is_an_error_and_not_the_end(tmp_path: Path, damage: str) -> None:
    path = make_gguf(tmp_path / 'm.gguf').path
    data = path.read_bytes()
    if damage == 'cut':
        path.write_bytes(data[:-5000])
    elif damage == 'not a model':
        path.write_bytes(b'something else')
    elif damage == 'no tensors':
        path.write_bytes(data[: len(data) // 3])
    elif damage == 'vocabulary only':
        make_gguf(path, **{'general.architecture': 'unheard-of'})
    else:
        make_gguf(path, **{'llama.embedding_length': 128})
    model = build({'type': 'LlamaCpp', 'path': str(path), 'max_seq_len': 64}, name='broken')
    with pytest.raises(RolecallError) as found:
        run(model.score(['hello']))
    assert isinstance(found.value, ModelError | DataError)
    assert 'm.gguf' in str(found.value)


def test_a_release_with_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    native = bindings.library()
    parameters = native.llama_context_default_params()
    bindings._check(parameters, bindings._CONTEXT)
    shifted = bindings.Parameters.from_buffer_copy(bytes(parameters)[4:] + bytes(4))
    with pytest.raises(
        ModelError, match='has an interface this version of rolecall does not know: its default n_ctx reads'
    ):
        bindings._check(shifted, bindings._CONTEXT)


def test_without_the_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, small: SmallModel) -> None:
    bindings.library.cache_clear()
    monkeypatch.setattr(bindings, 'ENGINE', 'no_such_engine')
    with pytest.raises(MissingExtraError, match=r'rolecall\[llama\]'):
        run(opened(small).score(['hello']))
    bindings.library.cache_clear()


def test_the_engine_is_told_what_was_asked_for() -> None:
    native = bindings.library()
    made = bindings.context_parameters(native, n_ctx=77, kv_unified=True)
    assert made.read(bindings._CONTEXT, 'n_ctx') == 77
    assert ctypes.sizeof(made) == 512


# Threads.


class Machine:
    """A clock, and how many tokens per second a number of threads computes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rates = {1: 100.0, 2: 190.0, 4: 300.0}
        self.others = 0

    def work(self, pace: ThreadTuner, tokens: int) -> int:
        threads = pace.threads(tokens)
        seconds = tokens / self.rates[threads]
        self.now += seconds
        pace.note(tokens, threads, seconds)
        return threads


def test_as_many_threads_work_as_help() -> None:
    machine = Machine()
    pace = ThreadTuner(most=4, clock=lambda: machine.now, others=lambda: machine.others)
    for _ in range(200):
        machine.work(pace, pace.portion(128))
    assert machine.work(pace, 128) == 4
    machine.rates = {1: 100.0, 2: 5.0, 4: 1.0}
    used = [machine.work(pace, pace.portion(128)) for _ in range(300)]
    assert used.count(1) > 280
    machine.rates = {1: 100.0, 2: 190.0, 4: 300.0}
    for _ in range(1500):
        machine.work(pace, pace.portion(128))
    assert machine.work(pace, 128) in (2, 4)


def test_more_threads_are_not_tried_while_the_cores_are_taken() -> None:
    machine = Machine()
    machine.others = 3
    pace = ThreadTuner(most=4, clock=lambda: machine.now, others=lambda: machine.others)
    assert {machine.work(pace, pace.portion(128)) for _ in range(200)} == {1}
    machine.others = 0
    assert {machine.work(pace, pace.portion(128)) for _ in range(200)} == {1, 2, 4}
    assert busy_threads() >= 0


def test_a_fixed_number_of_threads_is_kept() -> None:
    pace = ThreadTuner(fixed=3)
    for tokens in itertools.islice(itertools.cycle((1, 128)), 50):
        assert pace.threads(tokens) == 3
        pace.note(tokens, 3, 0.1)


def test_the_weights_stay_in_one_thread(small: SmallModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened(small)
    seen = set()
    inner = model._work
    monkeypatch.setattr(model, '_work', lambda *args: (seen.add(threading.get_ident()), inner(*args))[1])
    answers(model, ['hello'])
    run(model.score(['hello it']))
    assert len(seen) == 1
    assert threading.get_ident() not in seen
    run(model.close())
