"""How many calls are on their way at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.model_client import (
    ConcurrentClient,
    ModelCall,
    ModelUnavailableError,
    RetryPolicy,
    with_timeout,
)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limit_after(calls: int, *, capacity: int, limits: Limits) -> float:
    """How many calls at once are let in after so many calls to a server that answers `capacity` at once in 20 ms."""

    async def run() -> float:
        limiter = Limiter(limits)

        async def call() -> None:
            ticket = await limiter.acquire()
            await asyncio.sleep(0.02 * max(1.0, limiter.active / capacity))
            limiter.release(ticket, 'ok')

        await asyncio.gather(*(call() for _ in range(calls)))
        return limiter.limit

    return asyncio.run(run())


def test_calls_at_once_grow_to_the_most_while_that_helps() -> None:
    assert limit_after(400, capacity=1000, limits=Limits(4, 32)) == 32


def test_calls_at_once_stop_growing_where_the_server_gives_no_more() -> None:
    assert 8 <= limit_after(1500, capacity=16, limits=Limits(4, 1000)) <= 64


def test_a_busy_server_cuts_once_for_all_calls_that_were_on_their_way() -> None:
    async def run() -> float:
        clock = Clock()
        limiter = Limiter(Limits(64, 64), clock=clock)
        tickets = [await limiter.acquire() for _ in range(64)]
        clock.now = 1.0
        for ticket in tickets:
            limiter.release(ticket, 'busy')
        return limiter.limit

    assert asyncio.run(run()) == pytest.approx(64 * 0.6)


def test_there_is_always_one_call() -> None:
    async def run() -> float:
        clock = Clock()
        limiter = Limiter(Limits(2, 64), clock=clock)
        for _ in range(20):
            clock.now += 1
            ticket = await limiter.acquire()
            clock.now += 1
            limiter.release(ticket, 'busy')
        return limiter.limit

    assert asyncio.run(run()) == 1.0


def test_retry_after_closes_the_gate_for_everybody() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(4, 4))
        limiter.release(await limiter.acquire(), 'busy', retry_after=0.15)
        began = loop.time()
        await limiter.acquire()
        return loop.time() - began

    assert asyncio.run(run()) >= 0.14


def test_calls_per_second_are_kept() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(10, 10, per_second=50))
        began = loop.time()
        for _ in range(6):
            limiter.release(await limiter.acquire(), 'ok')
        return loop.time() - began

    assert 0.09 <= asyncio.run(run()) < 1.0


def test_a_cancelled_call_gives_its_place_back() -> None:
    async def run() -> int:
        limiter = Limiter(Limits(1, 1))
        ticket = await limiter.acquire()
        waiting = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        limiter.release(ticket, 'ok')
        waiting.cancel()
        await asyncio.wait([waiting])
        await limiter.acquire()
        return limiter.active

    assert asyncio.run(asyncio.wait_for(run(), 1)) == 1


def test_work_that_takes_too_long_is_a_passing_failure() -> None:
    async def run() -> None:
        await with_timeout(0.01, asyncio.sleep(5))

    with pytest.raises(ModelError, match='no answer within') as late:
        asyncio.run(run())
    assert late.value.transient


# -- trying again ------------------------------------------------------------------------------------------------------


class Server:
    """A model that fails as it is told."""

    name, batch = 'toy', 1

    def __init__(self, *faults: Exception | None) -> None:
        self.faults = list(faults)
        self.asked = 0

    async def generate(self, requests: Any, sampling: Any) -> list[Reply]:
        self.asked += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        return [Reply('fine')]


def send(server: Server, calls: int = 1, **retry_policy: Any) -> Reply:
    async def run() -> Any:
        client = ConcurrentClient(server, Limits(4, 4), RetryPolicy(first_pause=0.001, **retry_policy))  # type: ignore[arg-type]
        for _ in range(calls):
            try:
                answer = await client.send(ModelCall('generate', 'q', Sampling()))
            except ModelError:
                if _ == calls - 1:
                    raise
        return answer

    return asyncio.run(run())


def passing(status: int) -> ModelError:
    return ModelError('for the moment', transient=True, status=status)


def test_what_passes_is_tried_again_and_what_does_not_is_not() -> None:
    server = Server(passing(500), passing(429), passing(200), None)
    assert send(server).text == 'fine'
    assert server.asked == 4
    final = Server(ModelError('bad request', status=400))
    with pytest.raises(ModelError, match='bad request'):
        send(final)
    assert final.asked == 1


def test_no_retries_means_one_attempt() -> None:
    server = Server(None, passing(500))
    with pytest.raises(ModelError, match='for the moment'):
        send(server, 2, retries=0)
    assert server.asked == 2


@pytest.mark.parametrize(('status', 'calls'), [(401, 1), (402, 1), (403, 3), (404, 3)])
def test_a_refused_key_or_an_unknown_model_ends_the_asking(status: int, calls: int) -> None:
    server = Server(*[ModelError('no', status=status)] * 9)
    with pytest.raises(ModelUnavailableError):
        send(server, 5)
    assert server.asked == calls


@pytest.mark.parametrize('status', [400, 403, 404, 500])
def test_a_model_that_has_answered_is_not_given_up_for_what_rows_come_to(status: int) -> None:
    server = Server(None, *[ModelError('not this one', status=status)] * 20)
    with pytest.raises(ModelError, match='not this one'):
        send(server, 21)
    assert server.asked == 21


def test_a_key_that_is_refused_in_the_middle_ends_the_asking() -> None:
    refused = ModelError('expired', status=401)
    server = Server(None, refused, refused, None, *[refused] * 9)
    with pytest.raises(ModelUnavailableError, match='expired'):
        send(server, 12)
    assert server.asked == 7


def test_a_lone_failure_of_the_server_is_not_enough() -> None:
    server = Server(passing(500), ModelError('dropped', transient=True))
    assert send(server, 3, retries=0).text == 'fine'
    never = Server(*[passing(500)] * 9)
    with pytest.raises(ModelUnavailableError, match='no answer after 1 attempt: for the moment'):
        send(never, 9, retries=0)
    assert never.asked == 3


@pytest.mark.parametrize('answers', [True, False])
def test_calls_that_are_under_way_are_heard_before_a_model_is_given_up(answers: bool) -> None:
    class Slow(Server):
        async def generate(self, requests: Any, sampling: Any) -> list[Reply]:
            self.asked += 1
            if requests[0] == 'long':
                await asyncio.sleep(0.05)
                if answers:
                    return [Reply('fine')]
            raise ModelError('not allowed', status=403)

    async def run() -> list[Any]:
        client = ConcurrentClient(server, Limits(8, 8), RetryPolicy())  # type: ignore[arg-type]
        sent = [client.send(ModelCall('generate', word, Sampling())) for word in ['long', *'abcdefgh']]
        return await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 5)

    server = Slow()
    first, *others = asyncio.run(run())
    assert isinstance(first, Reply if answers else ModelUnavailableError)
    kinds = {type(one) for one in others[3:]}
    assert kinds == ({ModelError} if answers else {ModelUnavailableError})
    assert server.asked == (9 if answers else 4)


def test_a_server_that_never_answers_ends_the_asking() -> None:
    server = Server(*[ModelError('unreachable', transient=True)] * 50)
    with pytest.raises(ModelUnavailableError, match='no answer after 4 attempts: unreachable'):
        send(server, retries=3)


def test_the_same_failure_over_and_over_ends_the_asking() -> None:
    server = Server(*[ModelError('no key')] * 9)
    with pytest.raises(ModelUnavailableError, match='no key'):
        send(server, 3)
