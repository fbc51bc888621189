"""Clients: one per model of a run. They retry, and they decide how many calls go out at once, or in which batches."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeVar

from rolecall.errors import RolecallError
from rolecall.models.http.rate_limits import RateLimit, Unit
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.render.spans import Request
from rolecall.runs.client.limiter import CallOutcome, Limiter, Limits
from rolecall.runs.client.retry import Attempts, ModelUnavailableError, Retrier, RetryPolicy, is_overload
from rolecall.strings import count_noun

__all__ = [
    'Activity',
    'Answer',
    'BatchClient',
    'ConcurrentClient',
    'ModelCall',
    'ModelClient',
    'ModelUnavailableError',
    'RetryPolicy',
    'RetryingClient',
    'Timeout',
    'build_client',
]

T = TypeVar('T')
Answer = Reply | Scored
_REFUSALS = (429, 503, 529)
_WORTH_TELLING = 5.0
"""Seconds of waiting for a rate limit that are shown."""
_SANE = 10**9
"""Servers have been seen to report anything as a number of tokens."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request and what is wanted of it."""

    kind: Literal['generate', 'score']
    request: Request
    sampling: Sampling
    check: Callable[[Request], None] | None = field(default=None, compare=False, repr=False)
    """Given the request when it is handed to the model; raises if it is not the one that was shown."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a client is doing just now, for people who wait."""

    in_flight: int = 0
    limit: int = 0
    tokens: int = 0
    waiting: str = ''
    """Why nothing is sent at the moment, and until when; empty while calls go out."""
    where: str = ''
    """Where it happens, if in other processes."""


class ModelClient(Protocol):
    """The way to one model."""

    @property
    def model(self) -> Model:
        """The model that is asked."""

    @property
    def window(self) -> int:
        """How many rows should be in progress at once."""

    @property
    def activity(self) -> Activity:
        """What is happening now. May be read from any thread."""

    @property
    def answered(self) -> bool:
        """Whether the model has ever answered anything."""

    def trust(self) -> None:
        """The model is known to answer: it has done so before."""

    @property
    def group(self) -> int:
        """How many calls should be handed over together with `send_group`; 1: none, use `send`."""

    async def send(self, call: ModelCall) -> Answer:
        """The answer to a call; `ModelError` if it failed for good, `ModelUnavailableError` if every call would."""

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        """What each call came to, None for those that have to be sent one by one. One that fails spoils no other."""

    async def close(self) -> None:
        """Stop what is in flight."""


def build_client(model: Model, *, limits: Limits, retry_policy: RetryPolicy) -> ModelClient:
    """A client with concurrent calls for an API, with batches for a model that takes several requests at once."""
    if model.batch > 1:
        return BatchClient(model, retry_policy)
    return ConcurrentClient(model, limits, retry_policy)


class RetryingClient(ABC):
    """What clients have in common: a failed call is retried as long as the policy allows."""

    def __init__(self, model: Model, policy: RetryPolicy) -> None:
        self.model = model
        self._retrier = Retrier(model.name, policy, is_reachable=getattr(model, 'is_reachable', None))
        self._tokens = 0

    @property
    def answered(self) -> bool:
        return self._retrier.answered

    def trust(self) -> None:
        self._retrier.trust()

    @property
    def group(self) -> int:
        return 1

    async def send(self, call: ModelCall) -> Answer:
        return await self._send(call)

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        return [None] * len(calls)

    async def _send(self, call: ModelCall, *, failed: Any = None) -> Answer:
        """Send a call until it is answered or fails for good. `failed` is what became of it already, if anything."""
        if call.check is not None:
            call.check(call.request)
        retrier, attempts = self._retrier, Attempts()
        while True:
            retrier.check()
            try:
                if failed is not None:
                    failed, error = None, failed
                    raise error
                answer = await self._send_once(call, retry=attempts.total > 0)
            except ModelError as error:
                pause = await retrier.handle(error, attempts, down=self._seconds_down())
            except ModelUnavailableError:
                raise
            except RolecallError as error:
                raise retrier.give_up(str(error)) from error
            except BaseException:
                retrier.settle()
                raise
            else:
                retrier.succeed()
                self._tokens += _tokens_of(answer) or 0
                return answer
            await asyncio.sleep(pause)

    def _seconds_down(self) -> float:
        """How long nothing has answered."""
        return 0.0

    @abstractmethod
    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        """Send the call, once. `retry`: it has failed before."""


class ConcurrentClient(RetryingClient):
    """Calls go out one by one, as many at once and as many a second as the limiter allows."""

    def __init__(self, model: Model, limits: Limits, retry_policy: RetryPolicy) -> None:
        super().__init__(model, retry_policy)
        self.window = 2 * limits.most
        self._limiter = Limiter(limits)
        self._retrier.on_give_up = self._limiter.open_for_all
        self._retrier.on_reachable = self._limiter.note_reachable
        self._cost = _TokenCost()
        self._last_failure = ''

    @property
    def activity(self) -> Activity:
        limiter = self._limiter
        return Activity(limiter.active, limiter.limit, self._tokens, self._describe_wait())

    async def close(self) -> None:
        """Nothing is in flight outside the calls themselves."""

    @property
    def group(self) -> int:
        limiter = self._limiter
        limited = limiter.down_since is not None or limiter.rate('requests') or limiter.rate('tokens')
        return 1 if limited or not self._retrier.answered else getattr(self.model, 'group', 1)

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        for call in calls:
            if call.check is not None:
                call.check(call.request)
        came = await self._send_group_once(calls)
        if any(isinstance(one, Reply) for one in came):
            self._retrier.succeed()
        failed = [place for place, one in enumerate(came) if isinstance(one, ModelError)]
        again = await asyncio.gather(
            *(self._send(calls[place], failed=came[place]) for place in failed), return_exceptions=True
        )
        for place, one in zip(failed, again, strict=True):
            if isinstance(one, BaseException) and not isinstance(one, ModelError):
                raise one
            came[place] = one
        return came

    async def _send_group_once(self, calls: Sequence[ModelCall]) -> list[Any]:
        """Hand calls of one kind to a model that takes several quick ones; they count as one with the limiter."""
        limiter, retrier = self._limiter, self._retrier
        permit = await limiter.acquire()
        try:
            await retrier.begin()
            try:
                with Timeout(retrier.policy.seconds):
                    requests = [call.request for call in calls]
                    came: list[Any] = await self.model.generate_group(requests, calls[0].sampling)  # type: ignore[attr-defined]
            except ModelError:
                came = [None] * len(calls)
            finally:
                retrier.end()
        finally:
            limiter.release(permit, 'other')
        self._tokens += sum(_tokens_of(one) or 0 for one in came if isinstance(one, Reply))
        return came

    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        limiter, retrier = self._limiter, self._retrier
        permit = await limiter.acquire(self._cost.estimate(call) if limiter.rate('tokens') else 0.0, retry=retry)
        outcome: CallOutcome = 'other'
        tokens = failure = None
        try:
            await retrier.begin()
            began = time.monotonic()
            try:
                with Timeout(retrier.policy.seconds):
                    answers = await _start(self.model, [call])
            finally:
                retrier.end()
            [answer] = _check_answers(self.model, answers, 1, time.monotonic() - began)
            outcome, tokens = 'answered', _tokens_of(answer)
            self._cost.learn(call, answer)
            return answer
        except ModelError as error:
            outcome, failure = _outcome_of(error), error
            self._last_failure = str(error)
            raise
        finally:
            for unit, said in _read_announced_limits(self.model).items():
                limiter.announce(unit, said)
            limiter.release(
                permit,
                outcome,
                tokens=tokens,
                retry_after=failure.retry_after if failure else None,
                refused='tokens' if failure and self._cost.known and 'token' in str(failure).lower() else 'requests',
            )

    def _seconds_down(self) -> float:
        since = self._limiter.down_since
        return 0.0 if since is None else time.monotonic() - since

    def _describe_wait(self) -> str:
        now = time.monotonic()
        closed = self._limiter.closed_until > now
        if (left := self._limiter.waits_until - now) > (0 if closed else _WORTH_TELLING):
            until = time.strftime('%H:%M:%S', time.localtime(time.time() + left))
            return f'waiting until {until}: {self._last_failure or "the rate limit that the server announced"}'
        if (down := self._seconds_down()) > 0:
            return f'no answer for {down:.0f} s, still trying: {self._last_failure}'
        if self._last_failure and not self._retrier.answered:
            return f'no answer yet, retrying: {self._last_failure}'
        return ''


class BatchClient(RetryingClient):
    """Calls gather while the model computes; those with most in common go together, in the order of their texts.

    A call is in flight from when it is put in, so that all that wait are answered before the model is given up.
    """

    def __init__(self, model: Model, retry_policy: RetryPolicy) -> None:
        super().__init__(model, replace(retry_policy, seconds=None))
        self.window = max(32, 4 * model.batch)
        self._pending: list[_Pending[Answer]] = []
        self._computing = 0
        self._worker: asyncio.Task[None] | None = None

    @property
    def activity(self) -> Activity:
        return Activity(self._computing, self.model.batch, self._tokens)

    async def close(self) -> None:
        """Stop the worker."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])

    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        await self._retrier.begin()
        pending = _Pending[Answer](call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
        try:
            return await pending.answer
        finally:
            self._retrier.end()

    async def _work(self) -> None:
        batch: list[_Pending[Answer]] = []
        try:
            while self._pending:
                await self._gather_calls()
                self._retrier.check()
                batch = self._next_batch()
                await self._compute(batch)
        except BaseException as error:
            for one in (*batch, *self._pending):  # no call may wait for a worker that is gone
                one.fail(error)
            self._pending = []
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._worker = None

    async def _gather_calls(self) -> None:
        """Let rows that are prepared put in their requests."""
        seen = -1
        while seen < len(self._pending) < self.window:
            seen = len(self._pending)
            for _ in range(3):
                await asyncio.sleep(0)

    def _next_batch(self) -> list[_Pending[Answer]]:
        self._pending = [one for one in self._pending if not one.answer.done()]
        self._pending.sort(key=lambda one: one.key)
        if not self._pending:
            return []
        first = self._pending[0].key[0]
        size = next((i for i, one in enumerate(self._pending) if one.key[0] != first), len(self._pending))
        size = min(size, self._batch_size(self._pending[0].call))
        batch, self._pending = self._pending[:size], self._pending[size:]
        return batch

    def _batch_size(self, call: ModelCall) -> int:
        """How many requests one call may carry; a model may take more at once to score than to answer."""
        size: int = getattr(self.model, 'score_batch', self.model.batch) if call.kind == 'score' else self.model.batch
        return size

    async def _compute(self, batch: list[_Pending[Answer]]) -> None:
        """Answer a batch. If it fails as a whole, its requests are sent one by one, so that one spoils no other."""
        if not batch:
            return
        began = time.monotonic()
        self._computing = len(batch)
        try:
            answers = await _start(self.model, [one.call for one in batch])
            answers = _check_answers(self.model, answers, len(batch), time.monotonic() - began)
        except ModelError as error:
            if len(batch) == 1:
                batch[0].fail(error)
                return
            for one in batch:
                await self._compute([one])
            return
        except RolecallError as error:
            for one in batch:
                one.fail(error)
            return
        finally:
            self._computing = 0
        for one, answer in zip(batch, answers, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)


class _Pending(Generic[T]):
    """A call that waits for its batch."""

    __slots__ = ('answer', 'call', 'key')

    def __init__(self, call: ModelCall, answer: asyncio.Future[T]) -> None:
        self.call = call
        self.answer = answer
        text = call.request if isinstance(call.request, str) else repr(call.request)
        self.key = ((call.kind, repr(call.sampling)), text)

    def fail(self, error: BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.answer.cancel()
        else:
            self.answer.set_exception(error)


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
        self.known = False

    def estimate(self, call: ModelCall) -> float:
        return self._per_character * _characters(call.request) + self._answer

    def learn(self, call: ModelCall, answer: Answer) -> None:
        sent, received = _count(answer.usage.input_tokens), _count(answer.usage.output_tokens)
        if sent is None:
            return
        characters = _characters(call.request)
        weight = 0.05 if self.known else 1.0
        self._per_character += weight * (sent / max(characters, 1) - self._per_character)
        self._answer += weight * ((received or 0) - self._answer)
        self.known = True


def _characters(request: object) -> int:
    if isinstance(request, str):
        return len(request)
    if isinstance(request, Mapping):
        return sum(map(_characters, request.values()))
    return sum(map(_characters, request)) if isinstance(request, Sequence) else 1


def _count(told: object) -> int | None:
    return told if isinstance(told, int) and 0 <= told < _SANE else None


def _tokens_of(answer: Answer) -> int | None:
    sent, received = _count(answer.usage.input_tokens), _count(answer.usage.output_tokens)
    return None if sent is None and received is None else (sent or 0) + (received or 0)


def _outcome_of(error: ModelError) -> CallOutcome:
    if not error.transient:
        return 'other'
    return 'refused' if is_overload(error) and error.status in _REFUSALS else 'trouble'


def _read_announced_limits(model: Model) -> Mapping[Unit, RateLimit]:
    """The rate limits that a server announced with its last answer."""
    said: Mapping[Unit, RateLimit] = getattr(model, 'rate_limits', {})
    return said


def _start(model: Model, calls: Sequence[ModelCall]) -> Awaitable[Sequence[Answer]]:
    """Hand calls of one kind to the model."""
    requests = [call.request for call in calls]
    for call in calls:
        if call.check is not None:
            call.check(call.request)
    if calls[0].kind == 'generate':
        return model.generate(requests, calls[0].sampling)
    return model.score(requests)


def _check_answers(model: Model, answers: Sequence[Answer], count: int, seconds: float) -> list[Answer]:
    """The answers, one for each request, with the time they took where the model does not say."""
    if len(answers) != count:
        raise ModelError(f'{model.name} gave {count_noun(len(answers), "answer")} to {count_noun(count, "request")}.')
    each = seconds / count
    return [
        one if one.usage.seconds is not None else replace(one, usage=replace(one.usage, seconds=each))
        for one in answers
    ]
