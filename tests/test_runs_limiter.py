"""How many calls are in flight, how many go out each second, and how failed ones are retried."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rolecall.models.http.failures import RateLimit, read_rate_limits
from rolecall.models.protocol import ModelError, Reply, Sampling, Usage
from rolecall.runs.client.client_options import read_limits
from rolecall.runs.client.concurrent_client import ConcurrentClient, Timeout
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.model_client import ModelCall
from rolecall.runs.client.rate import RateController, SentCall
from rolecall.runs.client.retry import ModelUnavailableError, Retrier, RetryPolicy
from virtual_time import run_in_virtual_time

# -- servers in virtual time -------------------------------------------------------------------------------------------


@dataclass
class Toy:
    """A server in virtual time: a latency that may grow with load, a bucket of allowed calls, faults, an outage."""

    latency: Callable[[int], float] = lambda active: 0.2
    per_second: float | None = None
    burst: float = 10
    refused: float = 0.0
    refusal_seconds: float = 0.005
    failed: float = 0.0
    outage: tuple[float, float] = (0.0, 0.0)
    announces: bool = False
    active: int = 0
    answers: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._level, self._filled, self._draw = self.burst, 0.0, random.Random(0)

    def _fill(self) -> float:
        now = asyncio.get_running_loop().time()
        self._level = min(self.burst, self._level + (now - self._filled) * (self.per_second or 0.0))
        self._filled = now
        return now

    @property
    def announcement(self) -> RateLimit:
        self._fill()
        return RateLimit(self.burst, float(int(self._level)), (self.burst - self._level) / (self.per_second or 1.0))

    async def call(self, cost: float) -> Any:
        self.active += 1
        try:
            end, seconds = self._decide(cost)
            await asyncio.sleep(seconds)
        finally:
            self.active -= 1
        self.ends[end] += 1
        if end == 'answered':
            self.answers.append(asyncio.get_running_loop().time())
        return end

    def _decide(self, cost: float) -> tuple[str, float]:
        now = self._fill()
        if self.outage[0] <= now < self.outage[1]:
            return 'trouble', 0.001
        if self.per_second is not None and self._level < cost:
            return 'refused', self.refusal_seconds
        self._level -= cost
        chance = self._draw.random()
        if chance < self.refused:
            return 'refused', self.refusal_seconds
        return 'trouble' if chance < self.refused + self.failed else 'answered', self.latency(self.active)


async def send_for(
    server: Toy,
    limits: Limits,
    seconds: float,
    *,
    cost: Callable[[], float] = lambda: 1.0,
    starts: float = 0.0,
    tokens: bool = False,
) -> tuple[Limiter, int]:
    """Send calls until so many seconds have passed, retrying what fails; the limiter, and how many were answered."""
    loop, draw = asyncio.get_running_loop(), random.Random(starts)
    await asyncio.sleep(starts)
    limiter, places, answered = Limiter(limits, clock=loop.time), asyncio.Semaphore(2 * limits.most), 0

    async def one() -> None:
        nonlocal answered
        amount, attempt = cost(), 0
        while True:
            slot = await limiter.acquire(amount if tokens else 0.0)
            end = await server.call(amount)
            limiter.release(
                slot,
                end,
                refused='tokens' if tokens else 'requests',
                tokens=amount if tokens else None,
                announced={'requests': server.announcement} if server.announces else None,
            )
            if end == 'answered':
                answered += 1
                places.release()
                return
            await asyncio.sleep(min(30, 0.5 * 2**attempt) * draw.uniform(0.5, 1.5))
            attempt += 1

    calls = set()
    while loop.time() < seconds:
        await asyncio.wait_for(places.acquire(), max(0.001, seconds - loop.time() + 1))
        calls.add(asyncio.ensure_future(one()))
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    return limiter, answered


def share_of(server: Toy, limits: Limits, best: float, seconds: float = 60, **options: Any) -> float:
    """Answers per second, as a share of the best that is possible."""

    async def run() -> float:
        _, answered = await send_for(server, limits, seconds, **options)
        return answered / seconds / best

    return run_in_virtual_time(run())


# -- calls in flight ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('limits', [Limits(64, 64), Limits(8, 64), Limits(128, 128)])
def test_a_server_that_takes_any_load_gets_all_calls_that_are_allowed(limits: Limits) -> None:
    assert share_of(Toy(), limits, limits.most / 0.2, seconds=20) > 0.9


@pytest.mark.parametrize(
    ('limits', 'peak'), [(Limits(64, 64), 32), (Limits(8, 64), 48), (Limits(512, 512), 48), (Limits(512, 512), 40)]
)
def test_a_server_that_slows_down_is_held_near_its_best(limits: Limits, peak: int) -> None:
    in_flight = min(peak, limits.most)
    best = in_flight / (0.2 * (1 + (in_flight / peak) ** 2))
    server = Toy(latency=lambda active: 0.2 * (1 + (active / peak) ** 2))
    assert share_of(server, limits, best) > 0.9


def test_many_calls_in_flight_are_reached_soon() -> None:
    assert share_of(Toy(), Limits(512, 512), 512 / 0.2, seconds=2) > 0.62  # 0.53 if levels only double


def test_a_first_step_that_was_too_large_costs_little() -> None:
    server = Toy(latency=lambda active: 0.2 * max(1, active / 80) ** 2)
    assert share_of(server, Limits(512, 512), 400, seconds=20) > 0.7  # 0.28 with a first step of 8


@pytest.mark.parametrize('start', [4, 8, 64])
def test_calls_in_flight_stop_growing_where_the_server_gives_no_more(start: int) -> None:
    async def run() -> int:
        server = Toy(latency=lambda active: 0.02 * max(1.0, active / 16))
        limiter, _ = await send_for(server, Limits(start, 1000), 10)
        return limiter.limit

    assert 8 <= run_in_virtual_time(run()) <= 64


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('limits', 'refused', 'failed'),
    [
        (Limits(64, 64), 0.05, 0.07),
        (Limits(256, 256), 0.05, 0.07),
        (Limits(8, 128), 0.1, 0.0),
        (Limits(8, 128), 0.003, 0.15),
    ],
)
def test_random_refusals_and_faults_cost_no_more_than_themselves(limits: Limits, refused: float, failed: float) -> None:
    server = Toy(refused=refused, failed=failed)
    assert share_of(server, limits, limits.most / 0.2, seconds=15) > 0.75 * (1 - refused - failed)


@pytest.mark.parametrize(
    ('limits', 'latency', 'announces'),
    [
        (Limits(64, 64), 0.2, False),
        (Limits(64, 64), 0.2, True),
        (Limits(512, 512), 0.2, False),
        (Limits(8, 128), 0.02, False),
    ],
)
def test_a_hard_limit_is_used_up_and_hardly_ever_exceeded(limits: Limits, latency: float, announces: bool) -> None:
    server = Toy(latency=lambda active: latency, per_second=50, announces=announces)
    assert share_of(server, limits, 50) > 0.95
    assert server.ends['refused'] / server.ends.total() < 0.05


@pytest.mark.parametrize(('per_second', 'burst', 'share'), [(50, 1, 0.83), (500, 10, 0.9)])
def test_a_server_without_reserves_is_used_to_near_its_limit(per_second: float, burst: float, share: float) -> None:
    server = Toy(per_second=per_second, burst=burst)
    assert share_of(server, Limits(256, 256), per_second) > share
    assert server.ends['refused'] / server.ends.total() < 0.05


def test_refusals_do_not_lower_the_calls_in_flight() -> None:
    server = Toy(latency=lambda active: 0.1, per_second=500)
    assert share_of(server, Limits(64, 64), 500, seconds=16) > 0.78  # 0.69 if they count as failures


@pytest.mark.parametrize('limits', [Limits(64, 64), Limits(512, 512)])
def test_a_limit_of_tokens_is_kept_for_requests_of_all_sizes(limits: Limits) -> None:
    draw = random.Random(1)
    server = Toy(per_second=100_000 / 60, burst=1000)
    mean = 100.0
    share = share_of(server, limits, 100_000 / 60 / mean, cost=lambda: draw.uniform(50, 150), tokens=True)
    assert share > 0.95
    assert server.ends['refused'] / server.ends.total() < 0.05


class TokenServer:
    """A model behind a limit of tokens per minute. What a request costs is known only from its answer."""

    name, batch, identity, max_seq_len = 'toy', 1, {'server': 'toy'}, None

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._level, self._filled, self._draw = clock, 1000.0, 0.0, random.Random(1)
        self.answers: list[float] = []
        self.taken = self.refused = 0

    async def generate(self, requests: list[str], sampling: Sampling) -> list[Reply]:
        now, cost = self._clock(), self._draw.randint(50, 150)
        self._level, self._filled = min(1000.0, self._level + (now - self._filled) * 100_000 / 60), now
        if self._level < cost:
            self.refused += 1
            await asyncio.sleep(0.003)
            raise ModelError('Rate limit reached: tokens per minute', transient=True, status=429)
        self._level -= cost
        self.taken += cost
        await asyncio.sleep(0.1)
        self.answers.append(self._clock())
        return [Reply('42', usage=Usage(input_tokens=cost - 1, output_tokens=1))]


@pytest.mark.parametrize('at_once', [64, 512])
def test_a_limit_of_tokens_is_learnt_with_what_requests_cost(at_once: int) -> None:
    async def run() -> TokenServer:
        loop = asyncio.get_running_loop()
        server, limits = TokenServer(loop.time), Limits(at_once, at_once)
        client = ConcurrentClient(server, limits, RetryPolicy())  # type: ignore[arg-type]
        client._limiter = Limiter(limits, clock=loop.time)
        calls = (client.send(ModelCall('generate', f'What is {i} plus {i}?', Sampling())) for i in range(1000))
        await asyncio.gather(*calls)
        return server

    server = run_in_virtual_time(run())
    assert server.taken / server.answers[-1] > 0.95 * 100_000 / 60
    assert server.refused < 0.03 * (1000 + server.refused)


@pytest.mark.parametrize('later', [0, 20])
def test_two_runs_share_a_limit(later: float) -> None:
    async def run() -> list[tuple[Limiter, int]]:
        server = Toy(per_second=50)
        each = [send_for(server, Limits(64, 64), 120, starts=starts) for starts in (0, later)]
        return await asyncio.gather(*each)

    (_, first), (_, second) = run_in_virtual_time(run())
    shared = first - 50 * later
    assert 0.35 < shared / (shared + second) < 0.65
    assert shared + second > 0.93 * 50 * (120 - later)


@pytest.mark.parametrize('later', [0.0, 0.1, 0.2, 0.4])
def test_two_runs_that_start_together_soon_share_a_limit(later: float) -> None:
    async def run() -> list[tuple[Limiter, int]]:
        server = Toy(latency=lambda active: 0.1, per_second=50)
        return await asyncio.gather(
            *(send_for(server, Limits(512, 512), 24, starts=starts) for starts in (0.001, later))
        )

    (_, first), (_, second) = run_in_virtual_time(run())
    assert 0.36 < first / (first + second) < 0.64
    assert first + second > 0.9 * 50 * 24


@pytest.mark.parametrize(('per_second', 'refused'), [(5, 0.12), (50, 0.09)])
def test_refusals_that_take_long_do_not_come_in_floods(per_second: float, refused: float) -> None:
    server = Toy(latency=lambda active: 1.0, per_second=per_second, refusal_seconds=0.2)
    ends: Counter[str] = Counter()

    async def run() -> None:
        asyncio.get_running_loop().call_at(10, setattr, server, 'ends', ends)
        await send_for(server, Limits(128, 128), 70)

    run_in_virtual_time(run())
    assert ends['answered'] > 0.9 * per_second * 60
    assert ends['refused'] < refused * ends.total()


@pytest.mark.parametrize('left', [0.5, 0.3, 0.2, 0.1])
def test_a_limit_that_falls_is_not_taken_for_random_refusals(left: float) -> None:
    server, ends = Toy(latency=lambda active: 0.1, per_second=50), Counter[str]()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(20, setattr, server, 'per_second', left * 50)
        loop.call_at(30, setattr, server, 'ends', ends)
        await send_for(server, Limits(64, 64), 90)

    run_in_virtual_time(run())
    assert ends['answered'] > 0.9 * left * 50 * 60
    assert ends['refused'] < 0.12 * ends.total()


def test_a_limit_is_measured_from_refusal_to_refusal() -> None:
    controller, level, measured = RateController(), 5.0, []
    for step in range(8000):  # 40 seconds at a bucket of 5 calls that gets 20 a second
        now, level = step / 200, min(5.0, level + 20 / 200)
        if controller.opens_at > now:
            continue
        call = SentCall(now, 1.0)
        controller.send(call)
        call.state = 'accepted' if level >= 1 else 'refused'
        level -= call.state == 'accepted'
        controller.settle(call, now + 0.001)
        if call.state == 'refused' and now > 10:
            measured.append(controller._ceiling)
    assert len(measured) > 5
    assert measured == [pytest.approx(20, rel=0.05)] * len(measured)


@pytest.mark.parametrize(('limits', 'rows', 'seconds'), [(Limits(8, 128), 40, 30), (Limits(4, 4), 40, 30)])
@pytest.mark.parametrize('refusals', [1, 2])
def test_a_server_that_refuses_each_row_at_first_is_not_crawled_to(
    limits: Limits, rows: int, seconds: float, refusals: int
) -> None:
    async def one(limiter: Limiter) -> None:
        for attempt in range(refusals):
            slot = await limiter.acquire(retry=attempt > 0)
            await asyncio.sleep(0.005)
            limiter.release(slot, 'refused')
            await asyncio.sleep(0.5 * 2**attempt)
        slot = await limiter.acquire(retry=True)
        await asyncio.sleep(0.2)
        limiter.release(slot, 'answered')

    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(limits, clock=loop.time)
        await asyncio.gather(*(one(limiter) for _ in range(rows)))
        return loop.time()

    assert run_in_virtual_time(run()) < seconds * refusals**2


@pytest.mark.parametrize('most', [4, 64, 128])
def test_a_run_recovers_soon_after_an_outage(most: int) -> None:
    async def run() -> list[float]:
        server = Toy(outage=(10, 70))
        await send_for(server, Limits(most, most), 90)
        return server.answers

    answers = run_in_virtual_time(run())
    assert min(at for at in answers if at > 70) < (75 if most > 4 else 110)
    if most > 4:
        assert sum(75 < at <= 80 for at in answers) > 0.9 * 5 * most / 0.2


def test_a_long_retry_after_holds_everything_back_where_most_calls_are_refused() -> None:
    async def run(answers: int) -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(8, 8), clock=loop.time)
        for _ in range(answers):
            limiter.release(await limiter.acquire(), 'answered')
        for _ in range(4):
            limiter.release(await limiter.acquire(), 'refused', retry_after=20)
        await limiter.acquire()
        return loop.time()

    assert run_in_virtual_time(run(answers=0)) >= 20
    assert run_in_virtual_time(run(answers=16)) < 2


def test_calls_per_second_are_kept() -> None:
    assert 0.95 < share_of(Toy(latency=lambda active: 0.01), Limits(10, 10, per_second=20), 20) <= 1.01


def test_a_cancelled_call_gives_its_place_back() -> None:
    async def run() -> int:
        limiter = Limiter(Limits(1, 1))
        slot = await limiter.acquire()
        waiting = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        limiter.release(slot, 'answered')
        waiting.cancel()
        await asyncio.wait([waiting])
        await limiter.acquire()
        return limiter.active

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 1


@pytest.mark.parametrize(
    ('headers', 'found'),
    [
        ({}, {}),
        (
            {'x-ratelimit-remaining-tokens': '7', 'x-ratelimit-reset-tokens': '6m0s'},
            {'tokens': RateLimit(None, 7.0, 360.0)},
        ),
        ({'x-ratelimit-remaining-tokens': '7' * 500, 'x-ratelimit-reset-tokens': '1s'}, {}),
        ({'x-ratelimit-remaining-requests': '-1', 'x-ratelimit-reset-requests': 'soon'}, {}),
        (
            {
                'anthropic-ratelimit-requests-limit': '50',
                'anthropic-ratelimit-requests-remaining': '49',
                'anthropic-ratelimit-requests-reset': '2000-01-01T00:00:00Z',
            },
            {'requests': RateLimit(50.0, 49.0, 0.0)},
        ),
    ],
)
def test_announced_limits_are_read_and_nonsense_is_not(headers: dict[str, str], found: dict[str, RateLimit]) -> None:
    assert read_rate_limits(headers) == found


@pytest.mark.parametrize(
    ('entry', 'limits'),
    [
        ({}, Limits()),
        ({'concurrency': 7}, Limits(7, 7)),
        ({'concurrency': (2, 9), 'max_workers': 4}, Limits(2, 9)),
        ({'max_workers': 4}, Limits(4, 4)),
        ({'max_workers': 4, 'batch_size': 2}, Limits(2, 2)),
        ({'query_per_second': 3, 'request_rate': 2, 'batch_size': 8}, Limits(8, 8, 2.0)),
        ({'query_per_second': 0}, Limits()),
    ],
)
def test_workers_and_rates_of_an_entry_are_upper_bounds(entry: dict[str, Any], limits: Limits) -> None:
    assert read_limits(entry) == limits


def test_work_that_takes_too_long_is_a_passing_failure() -> None:
    async def run() -> None:
        with Timeout(0.01):
            await asyncio.sleep(5)

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


def test_scattered_failures_are_retried_sooner_than_those_of_a_server_in_trouble() -> None:
    limiter, policy = Limiter(Limits(64, 64)), RetryPolicy()

    async def note(outcome: Any, times: int) -> bool:
        for _ in range(times):
            limiter.release(await limiter.acquire(), outcome)
        return limiter.answers_most

    assert [asyncio.run(note(*one)) for one in (('answered', 8), ('answered', 8), ('trouble', 4), ('trouble', 4))] == [
        False,
        True,
        True,
        False,
    ]
    assert max(policy.pause(2, calm=True) for _ in range(50)) < min(policy.pause(2) for _ in range(50))


def test_an_answer_after_an_outage_ends_the_pauses_of_calls_that_failed_in_it() -> None:
    async def run(retry_after: float | None) -> bool:
        retrier = Retrier('toy', RetryPolicy())
        waiting = asyncio.ensure_future(retrier.wait(60, told=retry_after is not None))
        await asyncio.sleep(0)
        retrier.succeed()
        await asyncio.sleep(0)
        ended = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        return ended

    assert asyncio.run(run(None))
    assert not asyncio.run(run(60.0))  # the server said how long


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
        return await asyncio.gather(*sent, return_exceptions=True)

    server = Slow()
    first, *others = run_in_virtual_time(run())
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


def test_an_announced_reset_in_the_far_future_does_not_stop_a_run() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        limiter = Limiter(Limits(8, 8), clock=loop.time)
        headers = {'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1e30'}
        for _ in range(3):
            slot = await limiter.acquire()
            limiter.release(slot, 'answered', announced=read_rate_limits(headers))
        return loop.time()

    assert run_in_virtual_time(run()) <= 900


def test_a_long_wait_for_an_announced_limit_is_shown() -> None:
    class Slow(Server):
        rate_limits = {'requests': RateLimit(None, 0.0, 3600.0)}  # noqa: RUF012  # as a model has it

    async def run() -> str:
        client = ConcurrentClient(Slow(), Limits(4, 4), RetryPolicy())  # type: ignore[arg-type]
        await client.send(ModelCall('generate', 'q', Sampling()))
        calls = [asyncio.ensure_future(client.send(ModelCall('generate', word, Sampling()))) for word in 'abc']
        await asyncio.sleep(0.05)
        waiting = client.activity.waiting
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return waiting

    assert 'the rate limit that the server announced' in run_in_virtual_time(run())


def test_a_long_wait_of_the_last_calls_for_their_next_attempt_is_shown() -> None:
    async def run() -> list[str]:
        busy = ModelError('toy: HTTP 429: later', transient=True, status=429, retry_after=100.0)
        client = ConcurrentClient(Server(None, busy), Limits(4, 4), RetryPolicy())  # type: ignore[arg-type]
        await client.send(ModelCall('generate', 'q', Sampling()))
        call = asyncio.ensure_future(client.send(ModelCall('generate', 'a', Sampling())))
        await asyncio.sleep(0.05)
        waiting = client.activity.waiting
        await call
        return [waiting, client.activity.waiting]

    before, after = run_in_virtual_time(run())
    assert before.startswith('waiting until ')
    assert before.endswith(': toy: HTTP 429: later')
    assert after == ''
