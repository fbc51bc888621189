"""Functions that are trouble, as models and as judges: every row of a run ends, and is told."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers import human, template
from rolecall import ConfigError
from rolecall.errors import RunError
from rolecall.experiment.inferencers.inferencer import GenInferencer
from rolecall.experiment.opening.sampling import check_repeats, check_sampling
from rolecall.models.function import build
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored, Usage
from rolecall.runs import run_config
from rolecall.runs.client.retry import RetryPolicy
from rolecall.runs.engine import Engine
from rolecall.runs.run_scorer import RunScorer
from test_runs import config, dataset, questions, rows_of

BAD = 'Question 2?'


def asked(request: Any) -> str:
    return request if isinstance(request, str) else str(request)


def raising(error: BaseException) -> Callable[[Any], str]:
    def answers(request: Any) -> str:
        if BAD in asked(request):
            raise error
        return 'fine'

    return answers


def raising_later(error: BaseException) -> Callable[[Any], Awaitable[str]]:
    async def answers(request: Any) -> str:
        await asyncio.sleep(0)
        if BAD in asked(request):
            raise error
        return 'fine'

    return answers


def exhausted(request: Any) -> str:
    return next(iter([])) if BAD in asked(request) else 'fine'


async def cancelling_itself(request: Any) -> str:
    if BAD in asked(request) and (task := asyncio.current_task()) is not None:
        task.cancel()
    await asyncio.sleep(0)
    return 'fine'


def giving_a_coroutine(request: Any) -> Awaitable[str]:
    return raising_later(asyncio.CancelledError())(request)


def with_timeout(seconds: float, work: Callable[[], Any]) -> Any:
    """What the work comes to; a hang is a failure of the test, not of the whole session."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:  # handed on below
            came.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert came, f'still at it after {seconds} s'
    if isinstance(came[0], BaseException):
        raise came[0]
    return came[0]


@pytest.mark.parametrize(
    ('function', 'reason'),
    [
        (raising_later(asyncio.CancelledError()), 'CancelledError'),
        (raising(asyncio.CancelledError()), 'CancelledError'),
        (cancelling_itself, 'CancelledError'),
        (giving_a_coroutine, 'CancelledError'),
        (exhausted, 'StopIteration'),
        (raising_later(StopAsyncIteration()), 'StopAsyncIteration'),
        (raising(SystemExit(3)), 'SystemExit: 3'),
        (raising_later(SystemExit(3)), 'SystemExit: 3'),
        (raising(GeneratorExit()), 'GeneratorExit'),
        (raising(RunError('not here')), 'RunError: not here'),
    ],
)
def test_whatever_a_function_raises_fails_its_own_row_only(tmp_path: Path, function: Any, reason: str) -> None:
    written = config(
        {'abbr': 'mine', 'type': function},
        {**dataset(questions(4)), 'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}}},
    )
    summary = with_timeout(60, lambda: run_config(written, out=tmp_path))
    assert dict(summary.outcomes) == {'ok': 3, 'failed': 1}
    assert summary.broken == {}
    assert [card.total for card in summary.scorecards] == [4]
    (failed,) = (row for row in rows_of(tmp_path) if row.outcome == 'failed')
    assert failed.row == 2
    assert reason in failed.reason


def test_a_judge_that_cancels_itself_leaves_one_row_unjudged(tmp_path: Path) -> None:
    words = template({'round': [human('Judge {question}')]})
    judge = {'abbr': 'judge', 'type': raising_later(asyncio.CancelledError())}
    evaluator = {'type': 'GenericLLMEvaluator', 'prompt_template': words, 'judge_cfg': judge}
    written = config(
        {'abbr': 'mine', 'type': lambda request: 'fine'},
        {**dataset(questions(4)), 'eval_cfg': {'evaluator': evaluator}},
    )
    summary = with_timeout(60, lambda: run_config(written, out=tmp_path))
    assert dict(summary.outcomes) == {'ok': 4}
    assert [card.total for card in summary.scorecards] == [4]


@pytest.mark.parametrize('function', [raising(KeyboardInterrupt()), raising_later(KeyboardInterrupt())])
def test_ctrl_c_in_a_function_stops_the_run(tmp_path: Path, function: Any) -> None:
    written = config({'abbr': 'mine', 'type': function}, dataset(questions(3)[2:]))
    with pytest.raises(KeyboardInterrupt):
        with_timeout(60, lambda: run_config(written, out=tmp_path))


def test_a_call_that_is_cancelled_from_outside_is_cancelled_and_its_coroutine_with_it() -> None:
    ends: list[str] = []
    begun = asyncio.Event()

    async def slow(_request: Any) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append('cancelled')
            raise
        return 'late'

    async def run() -> None:
        call = asyncio.ensure_future(build({'type': slow}, name='mine').generate(['x'], Sampling()))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(run())
    assert ends == ['cancelled']


def test_a_function_that_takes_too_long_is_given_up_after_its_time(tmp_path: Path) -> None:
    async def slow(request: Any) -> str:
        await asyncio.sleep(60 if BAD in asked(request) else 0)
        return 'fine'

    written = config({'abbr': 'mine', 'type': slow, 'timeout': 1.5, 'retry': 0}, dataset(questions(4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetryPolicy, 'pause', lambda *_, **__: 0.0)
        patch.setattr(
            'rolecall.runs.client.client_options.RetryPolicy', lambda **given: RetryPolicy(**given, when_busy=0)
        )
        summary = with_timeout(60, lambda: run_config(written, out=tmp_path))
    assert dict(summary.outcomes) == {'ok': 3, 'failed': 1}


# -- the engine --------------------------------------------------------------------------------------------------------


async def cancelled(*_: Any, **__: Any) -> Any:
    raise asyncio.CancelledError


def test_a_row_that_is_cancelled_by_nobody_here_does_not_get_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GenInferencer, 'infer', cancelled)
    monkeypatch.setattr(Engine, '_group_size', lambda *_: 1)
    with pytest.raises(RunError, match='row 0 was cancelled'):
        run_config(config({'abbr': 'mine', 'type': asked}, dataset(questions(1), '{question}')), out=tmp_path)


def test_a_scoring_that_is_cancelled_by_nobody_here_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunScorer, 'score', cancelled)
    with pytest.raises(RunError, match='mine: its scoring was cancelled'):
        run_config(config({'abbr': 'mine', 'type': asked}, dataset(questions(1), '{question}')), out=tmp_path)


# -- what a function returns -------------------------------------------------------------------------------------------


def scores(one: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda requests: [one for _ in requests]


WRONG_SCORES = [
    (scores(0.5), 'list of float, not a list of Scored'),
    (scores(None), 'list of NoneType'),
    (lambda requests: None, 'NoneType, not a list of Scored'),
    (lambda requests: 0.5, 'float, not a list of Scored'),
    (lambda requests: [], '0 Scored for 1 request'),
    (scores(Scored((1, 2), (None,))), '2 ids and 1 logprobs'),
    (scores(Scored((1, 2), (None, -1.0), ((0, 1),))), '2 ids and 1 offsets'),
    (scores(Scored(5, (None,))), 'ids are int'),  # type: ignore[arg-type]
    (scores(Scored(('a',), (None,))), "the id 'a'"),  # type: ignore[arg-type]
    (scores(Scored((2**40,), (None,))), 'the id 1099511627776'),
    (scores(Scored((1, 2), (None, 'x'))), "the logprob 'x'"),  # type: ignore[arg-type]
    (scores(Scored((1, 2), (None, math.nan))), 'the logprob nan'),
    (scores(Scored((1, 2), (None, -1e300))), 'the logprob -1e'),
    (scores(Scored((1,), (None,), ((-1, 2),))), r'the offset \(-1, 2\)'),
    (scores(Scored((1,), (None,), (3,))), 'the offset 3'),  # type: ignore[arg-type]
    (scores(Scored((1,), (None,), usage=None)), 'usage is NoneType'),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(('score', 'told'), WRONG_SCORES)
def test_scores_that_are_none_are_told_in_a_sentence(score: Any, told: str) -> None:
    model = build({'type': asked, 'score': score}, name='mine')
    with pytest.raises(ModelError, match=rf'^mine: the scoring function returned .*{told}'):
        asyncio.run(model.score(['a']))


@pytest.mark.parametrize('score', [scores(0.5), lambda requests: None, scores(Scored((1, 2), (None,)))])
def test_scores_that_are_none_fail_their_rows(tmp_path: Path, score: Any) -> None:
    written = config(
        {'abbr': 'mine', 'type': asked, 'score': score}, dataset(questions(2), '{question}', type='PPLOnlyInferencer')
    )
    assert dict(run_config(written, out=tmp_path).outcomes) == {'failed': 2}


def test_scores_may_stand_in_lists_and_be_minus_infinity() -> None:
    given = Scored([1, 2], [None, -math.inf], [(0, 1), (1, 2)])  # type: ignore[arg-type]
    model = build({'type': asked, 'score': scores(given)}, name='mine')
    assert asyncio.run(model.score(['a'])) == [Scored((1, 2), (None, -math.inf), ((0, 1), (1, 2)))]


@pytest.mark.parametrize(
    ('reply', 'told'),
    [
        (Reply(5), 'text is int'),  # type: ignore[arg-type]
        (Reply('x', 'good'), "outcome is 'good', not one of ok, failed"),  # type: ignore[arg-type]
        (Reply('x', reasoning=None), 'reasoning is NoneType'),  # type: ignore[arg-type]
        (Reply('x', usage=None), 'usage is NoneType'),  # type: ignore[arg-type]
        (Reply('x', usage={'input_tokens': 3}), 'usage is dict'),  # type: ignore[arg-type]
        (Reply('x', tool_calls=('call',)), 'tool_calls are not a tuple of Mapping'),  # type: ignore[arg-type]
        (Reply('x', others=('y',)), 'others are not a tuple of Reply'),  # type: ignore[arg-type]
        (Reply('x', others=(Reply(None),)), 'text is NoneType'),  # type: ignore[arg-type]
    ],
)
def test_replies_that_are_none_are_told_in_a_sentence(reply: Any, told: str) -> None:
    model = build({'type': lambda request: reply}, name='mine')
    with pytest.raises(ModelError, match=rf'^mine: the function returned a Reply whose {told}'):
        asyncio.run(model.generate(['a'], Sampling()))


def test_a_whole_reply_is_left_as_it_is() -> None:
    reply = Reply('x', 'ok', 'stop', 'hm', ({'name': 'f'},), Usage(1, 2, seconds=3.0), (Reply('y'),))
    model = build({'type': lambda request: reply}, name='mine')
    assert asyncio.run(model.generate(['a'], Sampling())) == [reply]


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('name', 'values'),
    [
        ('max_out_len', [True, 0, -1, '8', 1.5]),
        ('max_tokens', [0, '8']),
        ('min_out_len', [0, False]),
        ('sc_size', [0, -1, '4', True]),
        ('num_return_sequences', [0, -2, '4', 2.0]),
        ('temperature', [math.nan, math.inf, -0.1, 'hot', True]),
        ('top_p', [5, 1.01, -1, math.nan, 'all']),
        ('min_p', [2]),
        ('top_k', [-2, 0.5, '40']),
        ('seed', [-2, 'x', False]),
    ],
)
def test_settings_by_which_no_answer_could_be_drawn_are_told(name: str, values: list[Any]) -> None:
    for value in values:
        for options, entry, place in (
            ({name: value}, {}, name),
            ({}, {name: value}, name),
            ({'generation_kwargs': {name: value}}, {}, f'generation_kwargs.{name}'),
        ):
            (problem,) = check_sampling(options, entry)
            assert problem.where == place
            assert f'got {value!r}' in problem.what
            assert f'Write {name}=' in problem.remedy


def test_settings_that_can_be_meant_pass() -> None:
    fine = {'max_out_len': 1, 'temperature': 0, 'top_p': 1.0, 'top_k': -1, 'seed': 0, 'sc_size': 5, 'min_p': None}
    assert list(check_sampling(fine, {'generation_kwargs': fine}, {'generation_kwargs': None})) == []


@pytest.mark.parametrize(('n', 'wrong'), [(0, True), (-1, True), ('4', True), (True, True), (None, False), (4, False)])
def test_how_often_rows_are_asked_is_a_whole_number_from_1(n: Any, wrong: bool) -> None:
    assert [problem.where for problem in check_repeats({'n': n})] == ['n'] * wrong
    assert list(check_repeats({})) == []


@pytest.mark.parametrize(
    ('inferencer', 'more', 'place'),
    [
        ({}, {'n': 0}, 'datasets[0].n'),
        ({}, {'n': -1}, 'datasets[0].n'),
        ({}, {'n': '4'}, 'datasets[0].n'),
        ({'type': 'SCInferencer', 'sc_size': 0}, {}, 'sc_size'),
        ({'num_return_sequences': 0}, {}, 'num_return_sequences'),
        ({'max_out_len': True}, {}, 'max_out_len'),
        ({'top_p': 5}, {}, 'top_p'),
        ({'temperature': math.nan}, {}, 'temperature'),
        ({'generation_kwargs': {'top_p': 5}}, {}, 'generation_kwargs.top_p'),
    ],
)
def test_a_run_does_not_begin_with_settings_that_cannot_be_meant(
    tmp_path: Path, inferencer: Any, more: Any, place: str
) -> None:
    written = config({'abbr': 'mine', 'type': asked}, {**dataset(questions(2), **inferencer), **more})
    with pytest.raises(ConfigError) as refused:
        run_config(written, out=tmp_path)
    (problem,) = refused.value.problems
    assert problem.where.endswith(place)
    assert 'Write ' in problem.remedy


@pytest.mark.parametrize(('written', 'meant'), [('temperatur', 'temperature'), ('max_token', 'max_tokens')])
def test_a_misspelt_sampling_parameter_is_refused_before_the_first_request(written: str, meant: str) -> None:
    (problem,) = check_sampling({'generation_kwargs': {written: 1}})
    assert (problem.where, problem.remedy) == (f'generation_kwargs.{written}', f"Did you mean '{meant}'?")
    own = dict.fromkeys(('min_tokens', 'num_beams', 'length_penalty', 'repeat_penalty', 'stop_token_ids', 'n'), 1)
    assert list(check_sampling({'generation_kwargs': own})) == []
