"""Plain Python callables as models."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.models.function import build
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored, Usage


def ask(function: Any, *requests: Any, **entry: Any) -> list[Reply]:
    async def run() -> list[Reply]:
        model = build({'type': function, **entry}, name='mine')
        try:
            return await model.generate(list(requests), Sampling(temperature=0.5))
        finally:
            await model.close()

    return asyncio.run(run())


def plain(request: Any) -> str:
    return f'plain {request}'


async def waiting(request: Any) -> str:
    await asyncio.sleep(0)
    return f'waiting {request}'


def with_sampling(request: Any, sampling: Sampling) -> str:
    return f'{request} at {sampling.temperature}'


def with_option(request: Any, style: str = 'calm') -> str:
    return f'{request}, {style}'


class Instance:
    async def __call__(self, request: Any) -> str:
        return f'instance {request}'


@pytest.mark.parametrize(
    ('function', 'text'),
    [
        (plain, 'plain Hi'),
        (waiting, 'waiting Hi'),
        (with_sampling, 'Hi at 0.5'),
        (with_option, 'Hi, calm'),
        (Instance(), 'instance Hi'),
        (lambda request: Reply(f'reply {request}', reason='stop'), 'reply Hi'),
        (str.upper, 'HI'),
        ('test_api_function.plain', 'plain Hi'),
    ],
)
def test_a_callable_of_any_kind_answers(function: Any, text: str) -> None:
    (reply,) = ask(function, 'Hi')
    assert reply.text == text
    assert reply.usage.seconds is not None


def test_a_reply_keeps_what_it_says_about_itself() -> None:
    (reply,) = ask(lambda _request: Reply('x', 'filtered', 'no', usage=Usage(3, 4, seconds=9.0)), 'Hi')
    assert reply == Reply('x', 'filtered', 'no', usage=Usage(3, 4, seconds=9.0))


def test_synchronous_functions_run_side_by_side_in_threads() -> None:
    together = threading.Barrier(8)

    def meets(request: Any) -> str:
        together.wait(60)
        return threading.current_thread().name

    names = {reply.text for reply in ask(meets, *range(8), max_workers=8)}
    assert len(names) == 8
    assert threading.main_thread().name not in names


def test_the_event_loop_goes_on_while_a_function_blocks() -> None:
    async def run() -> str:
        model = build({'type': lambda _request: str(ticked.wait(60))}, name='mine')
        answering = asyncio.ensure_future(model.generate(['x'], Sampling()))
        for _ in range(4):
            await asyncio.sleep(0.01)
        ticked.set()
        [reply] = await answering
        await model.close()
        return reply.text

    ticked = threading.Event()
    assert asyncio.run(run()) == 'True'


@pytest.mark.parametrize(
    ('error', 'transient'), [(ValueError('bad'), False), (ConnectionResetError('gone'), True), (TimeoutError(), True)]
)
def test_what_a_function_raises_is_a_failed_row(error: Exception, transient: bool) -> None:
    def fails(_request: Any) -> str:
        raise error

    with pytest.raises(ModelError, match=f'mine: {type(error).__name__}') as caught:
        ask(fails, 'Hi')
    assert caught.value.transient is transient
    assert type(caught.value.__cause__) is type(error)


def test_a_model_error_of_the_function_is_passed_on() -> None:
    def busy(_request: Any) -> str:
        raise ModelError('busy', transient=True, retry_after=2)

    with pytest.raises(ModelError, match='busy') as caught:
        ask(busy, 'Hi')
    assert caught.value.retry_after == 2


def test_only_texts_and_replies_are_answers() -> None:
    with pytest.raises(ModelError, match='returned int'):
        ask(lambda _request: 4, 'Hi')


def test_a_scoring_function_makes_the_model_score() -> None:
    scored = Scored((1, 2), (None, -0.5))
    model = build({'type': plain, 'score': lambda requests: [scored for _ in requests]}, name='mine')
    assert model.capabilities.score
    assert asyncio.run(model.score(['a', 'b'])) == [scored, scored]
    with pytest.raises(ModelError, match='no log-probabilities'):
        asyncio.run(build({'type': plain}, name='mine').score(['a']))


def test_a_changed_function_is_another_model() -> None:
    def one(request: Any) -> str:
        return 'one'

    def two(request: Any) -> str:
        return 'two'

    two.__qualname__ = one.__qualname__
    identities = [build({'type': function}, name='m').identity for function in (one, two, one)]
    assert identities[0] == identities[2] != identities[1]
    assert build({'type': one, 'revision': '2'}, name='m').identity != identities[0]


class Fixed:
    """A callable object, which counts its calls."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0

    def __call__(self, request: Any) -> str:
        self.calls += 1
        return self.text

    def method(self, request: Any) -> str:
        return self(request)


def capturing(text: str) -> Any:
    return lambda request: text


def capturing_function(text: str) -> Any:
    answer = capturing(text)
    return lambda request: answer(request)


def with_default(text: str) -> Any:
    return lambda request, text=text: text


class Wrong:
    """A callable object with data other than texts."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __call__(self, request: Any) -> str:
        return str(request in self.rows)


def with_keyword(rows: Any) -> Any:
    return lambda request, *, rows=rows: str(request in rows)


def capturing_as_it_sets_items(text: str) -> Any:
    def answer(request: Any) -> str:
        counts = {'a': 0}
        counts['a'] += 1
        return text

    return answer


MADE = [
    capturing,
    capturing_as_it_sets_items,
    lambda text: capturing({text, 'other'}),  # type: ignore[arg-type]
    lambda text: capturing([text]),  # type: ignore[arg-type]
    lambda text: capturing({'a': {text: (1,)}}),  # type: ignore[arg-type]
    lambda text: with_default(frozenset({text})),  # type: ignore[arg-type]
    lambda text: with_keyword([text]),
    lambda text: Wrong({text}),
    lambda text: Wrong(len(text)),
    lambda text: Wrong(text == 'one'),
    lambda text: partial(with_option, style=[text]),
    capturing_function,
    with_default,
    Fixed,
    lambda text: Fixed(text).method,
    lambda text: partial(with_option, style=text),
    lambda text: partial(capturing(text)),
]


@pytest.mark.parametrize('make', MADE, ids=range(len(MADE)))
def test_functions_of_one_source_that_were_made_with_other_values_are_other_models(make: Any) -> None:
    one, again, two = (build({'type': make(text)}, name='mine').identity for text in ('one', 'one', 'three'))
    assert one == again != two


def test_a_function_that_counts_or_collects_stays_the_same_model() -> None:
    seen: list[Any] = []
    count = 0

    def counting(request: Any) -> str:
        nonlocal count
        count += 1
        seen.append(request)
        return str(count)

    by_request: dict[str, int] = {}

    def remembering(request: Any) -> str:
        def remember() -> None:
            by_request[request] = by_request.get(request, 0) + 1

        remember()
        return str(by_request[request])

    fixed = Fixed('a')
    functions = (counting, remembering, fixed, fixed.method)
    before = [build({'type': function}, name='mine').identity for function in functions]
    ask(counting, 'a', 'b')
    ask(remembering, 'a')
    ask(fixed, 'a')
    assert [build({'type': function}, name='mine').identity for function in functions] == before


def test_a_set_that_a_function_captures_has_one_identity_in_every_process() -> None:
    script = """
from rolecall.models.function import build
print(build({'type': (lambda rows: lambda request: request in rows)({'a', 'b', ('c', 'd'), 'e'})}, name='m').identity)
"""
    printed = {
        subprocess.run(
            [sys.executable, '-c', script],
            env={**os.environ, 'PYTHONHASHSEED': seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ('1', '2')
    }
    assert len(printed) == 1


def test_messages_are_declared_by_the_meta_template_or_the_entry() -> None:
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}]}
    assert build({'type': plain, 'meta_template': meta}, name='m').capabilities.chat
    assert build({'type': plain, 'chat': True}, name='m').capabilities.chat
    assert not build({'type': plain}, name='m').capabilities.chat


@pytest.mark.parametrize('given', [None, 'no.such.function', 'nothing', 5, int])
def test_what_is_no_function_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r'm\.type'):
        build({'type': given}, name='m')
