"""Limits that servers announce in headers: they are used, and no wait is longer than what was stated last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.models.http.failures import RateLimit, read_rate_limits
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.rate import AnnouncedLimit
from virtual_time import run_in_virtual_time

Headers = dict[str, str]


def _openai(limit: int | None, remaining: int, reset: float, unit: str = 'tokens') -> Headers:
    headers = {f'x-ratelimit-remaining-{unit}': str(remaining), f'x-ratelimit-reset-{unit}': f'{reset:.3f}s'}
    return headers if limit is None else {**headers, f'x-ratelimit-limit-{unit}': str(limit)}


def _milliseconds(limit: int | None, remaining: int, reset: float) -> Headers:
    return {**_openai(limit, remaining, reset), 'x-ratelimit-reset-tokens': f'{round(1000 * reset)}ms'}


def _whole_seconds(limit: int | None, remaining: int, reset: float) -> Headers:
    return {**_openai(limit, remaining, reset), 'x-ratelimit-reset-tokens': str(int(reset))}


def _anthropic(limit: int | None, remaining: int, reset: float) -> Headers:
    moment = datetime.now(timezone.utc) + timedelta(seconds=reset)
    name = 'anthropic-ratelimit-tokens'
    return {f'{name}-limit': str(limit), f'{name}-remaining': str(remaining), f'{name}-reset': moment.isoformat()}


def _azure(limit: int | None, remaining: int, reset: float) -> Headers:
    return {'x-ratelimit-remaining-tokens': str(remaining), 'x-ratelimit-remaining-requests': str(remaining)}


def _groq(limit: int | None, remaining: int, reset: float) -> Headers:
    """Requests are those of a day, and refill one by one."""
    return {**_openai(limit, remaining, reset), **_openai(14400, 14370, 179.56, 'requests')}


def _mistral(limit: int | None, remaining: int, reset: float) -> Headers:
    return {'x-ratelimit-limit-tokens-minute': str(limit), 'x-ratelimit-remaining-tokens-minute': str(remaining)}


def _none(limit: int | None, remaining: int, reset: float) -> Headers:
    """Gemini and vLLM announce nothing."""
    return {}


_SHAPES: list[Callable[[int | None, int, float], Headers]] = [
    *(_openai, _milliseconds, _whole_seconds, _anthropic, _azure, _groq, _mistral, _none)
]


@dataclass
class Announcing:
    """A server in virtual time that answers everything, with the headers of a script, and refuses where that says so."""

    script: list[tuple[Headers, float | None]]
    """Headers of the answers in turn, and the `Retry-After` of a refusal; the last ones stay."""
    sent: list[float] = field(default_factory=list)
    stated: list[tuple[float, str, float]] = field(default_factory=list)
    """What the server stated: when, about what, and the seconds until then."""

    async def call(self, limiter: Limiter, tokens: float) -> bool:
        loop = asyncio.get_running_loop()
        slot = await limiter.acquire(tokens)
        headers, retry_after = self.script[min(len(self.sent), len(self.script) - 1)]
        self.sent.append(loop.time())
        await asyncio.sleep(0.2)
        limits = read_rate_limits(headers)
        waits = {unit: limit.reset for unit, limit in limits.items()}
        if retry_after is not None:
            waits['everything'] = retry_after
        self.stated += [(loop.time(), unit, wait) for unit, wait in waits.items()]
        limiter.release(
            slot,
            'answered' if retry_after is None else 'refused',
            tokens=tokens,
            retry_after=retry_after,
            refused='tokens',
            announced=limits,
        )
        return retry_after is None


_header = st.builds(
    lambda shape, limit, remaining, reset: shape(limit, remaining, reset),
    st.sampled_from(_SHAPES),
    st.sampled_from([None, 0, 1, 60, 100_000, 10**9]),
    st.sampled_from([0, 0, 1, 5, 100, 10**6, 10**12]),
    st.sampled_from([0.0, 0.006, 0.9, 6.0, 59.0, 360.0, 90_000.0]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(_header, st.sampled_from([None, None, None, None, 0.5, 6.0, 60.0])), min_size=1, max_size=30),
    st.sampled_from([0.0, 20.0, 3000.0]),
    st.sampled_from([1, 8, 64]),
)
def test_no_wait_is_longer_than_what_the_server_stated_last(
    script: list[tuple[Headers, float | None]], tokens: float, at_once: int
) -> None:
    server = Announcing([*script, (script[-1][0], None)])

    async def run() -> None:
        limiter = Limiter(Limits(at_once, at_once), clock=asyncio.get_running_loop().time)
        await asyncio.gather(*(server.call(limiter, tokens) for _ in range(60)))

    run_in_virtual_time(run())
    assert len(server.sent) == 60
    for before, after in zip(server.sent, server.sent[1:], strict=False):
        last = {unit: at + min(wait, 300.0) for at, unit, wait in server.stated if at < after}
        assert after <= max([before + 6.0, *last.values()]) + 0.01  # a learnt rate is never below a call in 5 s


@pytest.mark.parametrize('limit', [None, 100, 100_000])
def test_a_server_that_says_0_left_with_every_answer_is_soon_used_as_if_it_said_nothing(limit: int | None) -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(64, 64), clock=loop.time)
        server = Announcing([(_openai(limit, 0, 6.0), None)])
        await asyncio.gather(*(server.call(limiter, 100.0) for _ in range(2000)))
        return loop.time()

    assert run_in_virtual_time(run()) < 2000 / 64 * 0.2 + 130


def test_requests_of_a_day_do_not_slow_down_a_minute() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(64, 64), clock=loop.time)
        server = Announcing([(_groq(100_000, 99_000 - i, 1.0), None) for i in range(500)])
        await asyncio.gather(*(server.call(limiter, 10.0) for _ in range(500)))
        return loop.time()

    assert run_in_virtual_time(run()) < 1.1 * 500 / 64 * 0.2 + 0.5


@dataclass
class Window:
    """A limit of calls in each minute of the clock, or a bucket that refills one by one."""

    limit: int = 400
    kind: str = 'window'
    announces: bool = True
    taken: float = 0.0
    since: float = 0.0
    refused: int = 0

    def take(self, now: float) -> tuple[bool, RateLimit]:
        if self.kind == 'window' and now - self.since >= 60:
            self.since, self.taken = now - now % 60, 0
        elif self.kind == 'bucket':
            self.taken, self.since = max(0.0, self.taken - (now - self.since) * self.limit / 60), now
        accepted = self.taken + 1 <= self.limit
        self.taken += accepted
        self.refused += not accepted
        reset = 60 - now % 60 if self.kind == 'window' else self.taken * 60 / self.limit
        return accepted, RateLimit(self.limit, int(self.limit - self.taken), reset)


async def _finish(server: Window, rows: int, *, retry_after: bool = False) -> float:
    loop = asyncio.get_running_loop()
    limiter = Limiter(Limits(64, 64), clock=loop.time)

    async def call() -> None:
        attempt = 0
        while True:
            slot = await limiter.acquire(retry=attempt > 0)
            accepted, limit = server.take(loop.time())
            await asyncio.sleep(0.2 if accepted else 0.005)
            wait = limit.reset if retry_after and not accepted else None
            limiter.release(
                slot,
                'answered' if accepted else 'refused',
                retry_after=wait,
                announced={'requests': limit} if server.announces else None,
            )
            if accepted:
                return
            await asyncio.sleep(max(wait or 0.0, min(30, 0.5 * 2**attempt)))
            attempt += 1

    await asyncio.gather(*(call() for _ in range(rows)))
    return loop.time()


@pytest.mark.parametrize('retry_after', [False, True])
def test_announced_windows_are_used_up_and_their_end_is_waited_for(retry_after: bool) -> None:
    server = Window()
    seconds = run_in_virtual_time(_finish(server, 1200, retry_after=retry_after))
    silent = run_in_virtual_time(_finish(Window(announces=False), 1200, retry_after=retry_after))
    assert seconds <= 1.05 * 121.5
    assert seconds <= 1.05 * silent
    assert server.refused < 0.03 * 1200


def test_an_announced_bucket_is_used_up_at_the_rate_at_which_it_refills() -> None:
    server = Window(kind='bucket', limit=600)
    assert run_in_virtual_time(_finish(server, 1800)) <= 1.05 * 120
    assert server.refused < 0.03 * 1800


def test_two_statements_tell_a_window_from_a_bucket() -> None:
    window, bucket = AnnouncedLimit(), AnnouncedLimit()
    for used in range(1, 20):
        for limit, reset in ((window, 60 - 0.1 * used), (bucket, 0.15 * used)):
            limit.hear(RateLimit(400, 400 - used, reset), began=0.0, amount=1.0, mark=0.0, now=0.1 * used)
    assert (window.is_window, bucket.is_window) == (True, False)
