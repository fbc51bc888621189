"""The client of a model behind a server: it decides how many calls go out at once, and how many a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from types import TracebackType
from typing import Any

from rolecall.models.http.failures import RateLimit, Unit
from rolecall.models.protocol import Model, ModelError, Reply
from rolecall.runs.client.client_options import Budget
from rolecall.runs.client.limiter import CallOutcome, Limits
from rolecall.runs.client.model_client import (
    Activity,
    Answer,
    BatchClient,
    ModelCall,
    ModelClient,
    check_answers,
    count_tokens,
    read_token_count,
    start_calls,
)
from rolecall.runs.client.retry import RetryPolicy, is_overload

_REFUSALS = (429, 503, 529)
_NO_BOUND = nullcontext()
_WORTH_TELLING = 5.0
"""Seconds of waiting for a rate limit that are shown."""


def build_client(
    model: Model, *, limits: Limits, retry_policy: RetryPolicy, budget: Budget | None = None
) -> ModelClient:
    """A client with concurrent calls for an API, with batches for a model that takes several requests at once."""
    if model.batch > 1:
        return BatchClient(model, retry_policy)
    return ConcurrentClient(model, limits, retry_policy, budget=budget)


class ConcurrentClient(ModelClient):
    """Calls go out one by one, as many at once and as many a second as the limiter allows."""

    def __init__(
        self, model: Model, limits: Limits, retry_policy: RetryPolicy, *, budget: Budget | None = None
    ) -> None:
        super().__init__(model, retry_policy)
        self.window = 2 * limits.most
        budget = budget or Budget(limits)
        budget.join()
        self._limiter = budget.limiter
        self._places = asyncio.Semaphore(limits.most) if limits.most < budget.limits.most else None
        self._retrier.on_give_up = budget.leave
        self._retrier.on_reachable = self._limiter.note_reachable
        self._cost = _TokenCost()
        self._last_failure = ''
        self._announced: Mapping[Unit, RateLimit] = {}

    @property
    def activity(self) -> Activity:
        limiter = self._limiter
        return Activity(limiter.active, limiter.limit, self._tokens, self._describe_wait())

    async def close(self) -> None:
        """Nothing is in flight outside the calls themselves."""

    def resize(self, calls: int) -> str:
        """Change how many calls may be in flight, at most as many as rows are held ready."""
        most = min(calls, self.window)
        self._limiter.resize(most)
        return f'at most {most} at once from now on.'

    def hold(self, held: bool) -> None:
        self._limiter.hold(held)

    @property
    def group(self) -> int:
        limiter = self._limiter
        limited = limiter.down_since is not None or limiter.rate('requests') or limiter.rate('tokens')
        return 1 if limited or not self._retrier.answered else getattr(self.model, 'group', 1)

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        for call in calls:
            if call.check is not None:
                call.check(call.request)
        outcomes = await self._send_group_once(calls)
        if any(isinstance(outcome, Reply) for outcome in outcomes):
            self._retrier.succeed()
        failed = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, ModelError)]
        again = await asyncio.gather(
            *(self.send(calls[place], failed=outcomes[place]) for place in failed), return_exceptions=True
        )
        for place, outcome in zip(failed, again, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, ModelError):
                raise outcome
            outcomes[place] = outcome
        return outcomes

    async def _send_group_once(self, calls: Sequence[ModelCall]) -> list[Any]:
        """Hand calls of one kind to a model that takes several quick ones; they count as one with the limiter."""
        limiter, retrier = self._limiter, self._retrier
        slot = await limiter.acquire()
        try:
            await retrier.begin()
            try:
                with Timeout(retrier.policy.seconds):
                    requests = [call.request for call in calls]
                    outcomes: list[Any] = await self.model.generate_group(requests, calls[0].sampling)  # type: ignore[attr-defined]
            except ModelError:
                outcomes = [None] * len(calls)
            finally:
                retrier.end()
        finally:
            limiter.release(slot, 'other')
        for outcome in outcomes:
            if isinstance(outcome, Reply):
                self._count(outcome)
        return outcomes

    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        async with AsyncExitStack() as held:
            limiter, retrier = self._limiter, self._retrier
            length = _count_characters(call.request)
            with self._droppable():
                await held.enter_async_context(self._places or _NO_BOUND)
                slot = await limiter.acquire(self._cost.estimate(length), retry=retry)
            outcome: CallOutcome = 'other'
            tokens = retry_after = None
            refused: Unit = 'requests'
            try:
                await retrier.begin()
                began = time.monotonic()
                try:
                    with Timeout(retrier.policy.seconds):
                        answers = await start_calls(self.model, [call])
                finally:
                    retrier.end()
                [answer] = check_answers(self.model, answers, 1, time.monotonic() - began)
                outcome, tokens = 'answered', count_tokens(answer)
                assumed = None if self._cost.known else self._cost.estimate(length)
                self._cost.learn(length, answer)
                if assumed and self._cost.known:
                    limiter.rescale_tokens(self._cost.estimate(length) / assumed)
                return answer
            except ModelError as error:
                outcome, retry_after, self._last_failure = _outcome_of(error), error.retry_after, str(error)
                refused = 'tokens' if 'token' in self._last_failure.lower() else 'requests'
                raise
            finally:
                announced: Mapping[Unit, RateLimit] = getattr(self.model, 'rate_limits', {})
                if announced is self._announced:  # nothing new came back
                    announced = {}
                else:
                    self._announced = announced
                limiter.release(
                    slot, outcome, tokens=tokens, retry_after=retry_after, refused=refused, announced=announced
                )

    def _is_calm(self) -> bool:
        return self._limiter.answers_most

    def _seconds_down(self) -> float:
        since = self._limiter.down_since
        return 0.0 if since is None else time.monotonic() - since

    def _describe_wait(self) -> str:
        now = time.monotonic()
        closed = self._limiter.closed_until > now
        opens = self._limiter.waits_until
        if opens <= now and not self._limiter.active:  # all calls wait for their next attempt, if there are any
            opens = self._retrier.retries_at
        if (left := opens - now) > (0 if closed else _WORTH_TELLING):
            until = time.strftime('%H:%M:%S', time.localtime(time.time() + left))
            return f'waiting until {until}: {self._last_failure or "the rate limit that the server announced"}'
        if (down := self._seconds_down()) > 0:
            return f'no answer for {down:.0f} s, still trying: {self._last_failure}'
        if self._last_failure and not self._retrier.answered:
            return f'no answer yet, retrying: {self._last_failure}'
        return ''


class Timeout:
    """Turns work that takes longer than `seconds` into a transient `ModelError`. None: no limit.

    Unlike `asyncio.timeout` it exists in Python 3.10.
    """

    __slots__ = ('_alarm', '_expired', '_seconds', '_task')

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._expired = False
        self._alarm: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        if self._seconds is not None and self._task is not None:
            self._alarm = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._expired and isinstance(error, asyncio.CancelledError):
            if self._task is not None and hasattr(self._task, 'uncancel'):
                self._task.uncancel()
            raise ModelError(f'no answer within {self._seconds:g} s.', transient=True, status=408) from TimeoutError()

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()


class _TokenCost:
    """What calls cost in tokens, learnt from answers: so many per character sent, and so many for an answer."""

    def __init__(self) -> None:
        self._per_character = 0.25
        self._answer = 0.0
        self._answers = 0

    @property
    def known(self) -> bool:
        """Whether an answer has said what a call costs."""
        return self._answers > 0

    def estimate(self, characters: int) -> float:
        return self._per_character * characters + self._answer

    def learn(self, characters: int, answer: Answer) -> None:
        sent, received = read_token_count(answer.usage.input_tokens), read_token_count(answer.usage.output_tokens)
        if sent is None:
            return
        self._answers += 1
        weight = max(0.05, 1 / self._answers)
        self._per_character += weight * (sent / max(characters, 1) - self._per_character)
        self._answer += weight * ((received or 0) - self._answer)


def _count_characters(request: object) -> int:
    if isinstance(request, str):
        return len(request)
    if isinstance(request, (dict, Mapping)):  # a dict is found sooner
        return sum(map(_count_characters, request.values()))
    return sum(map(_count_characters, request)) if isinstance(request, (list, tuple, Sequence)) else 1


def _outcome_of(error: ModelError) -> CallOutcome:
    if not error.transient:
        return 'other'
    return 'refused' if is_overload(error) and error.status in _REFUSALS else 'trouble'
