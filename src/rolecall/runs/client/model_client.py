"""Clients: one per model of a run. What they all do is here: a call, what came of it, and retries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.quick_init import quick_init
from rolecall.runs.client.retry import Attempts, ModelUnavailableError, Retrier, RetryPolicy
from rolecall.runs.telemetry import end_model_span, end_span, note_retry, start_model_span
from rolecall.strings import count_noun

Answer = Reply | Scored
_SANE = 10**9
"""Servers have been seen to report anything as a number of tokens."""


@quick_init
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


class ModelClient(ABC):
    """The way to one model. A failed call is retried as long as the policy allows."""

    window: int
    """How many rows should be in progress at once."""

    def __init__(self, model: Model, policy: RetryPolicy) -> None:
        self.model = model
        self._retrier = Retrier(model.name, policy, is_reachable=getattr(model, 'is_reachable', None))
        self._tokens = 0
        self.on_retry: Callable[[ModelError, float], None] | None = None
        """Called before the pause after which a call is sent again."""
        self.on_answer: Callable[[Answer], None] | None = None
        """Called with each answer that was not known before."""

    @property
    @abstractmethod
    def activity(self) -> Activity:
        """What is happening now. May be read from any thread."""

    @property
    def answered(self) -> bool:
        """Whether the model has ever answered anything."""
        return self._retrier.answered

    def trust(self) -> None:
        """The model is known to answer: it has done so before."""
        self._retrier.trust()

    @property
    def group(self) -> int:
        """How many calls should be handed over together with `send_group`; 1: none, use `send`."""
        return 1

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        """What each call came to, None for those that have to be sent one by one. One that fails spoils no other."""
        return [None] * len(calls)

    @abstractmethod
    async def close(self) -> None:
        """Stop what is in flight."""

    async def send(self, call: ModelCall, *, failed: Any = None) -> Answer:
        """The answer to a call; `ModelError` if it failed for good, `ModelUnavailableError` if every call would.

        `failed` is what became of it already, if anything.
        """
        if call.check is not None:
            call.check(call.request)
        retrier, attempts = self._retrier, Attempts()
        span = start_model_span(self.model, call.request, call.sampling)
        try:
            while True:
                retrier.check()
                try:
                    if failed is not None:
                        failed, error = None, failed
                        raise error
                    answer = await self._send_once(call, retry=attempts.total > 0)
                except ModelError as error:
                    pause = await retrier.handle(error, attempts, down=self._seconds_down(), calm=self._is_calm())
                    note_retry(span, error, pause)
                    if self.on_retry is not None:
                        self.on_retry(error, pause)
                    is_stated = error.retry_after is not None
                except ModelUnavailableError:
                    raise
                except RolecallError as error:
                    raise retrier.give_up(str(error)) from error
                except BaseException:
                    retrier.settle()
                    raise
                else:
                    retrier.succeed()
                    self._count(answer)
                    end_model_span(span, answer)
                    return answer
                await retrier.wait(pause, told=is_stated)  # the error itself is not kept: it holds this frame
        except BaseException as error:
            end_span(span, error=error)
            raise

    def resize(self, calls: int) -> str:
        """Change how many calls may be under way; what came of it."""
        return f'its calls are computed together, {self.model.batch} at once; that does not change while it runs.'

    def _count(self, answer: Answer) -> None:
        """An answer has come."""
        self._tokens += count_tokens(answer) or 0
        if self.on_answer is not None:
            self.on_answer(answer)

    def _is_calm(self) -> bool:
        """Whether most calls are answered."""
        return False

    def _seconds_down(self) -> float:
        """How long nothing has answered."""
        return 0.0

    @abstractmethod
    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        """Send the call, once. `retry`: it has failed before."""


def start_calls(model: Model, calls: Sequence[ModelCall]) -> Awaitable[Sequence[Answer]]:
    """Hand calls of one kind to the model."""
    requests = [call.request for call in calls]
    for call in calls:
        if call.check is not None:
            call.check(call.request)
    if calls[0].kind == 'generate':
        return model.generate(requests, calls[0].sampling)
    return model.score(requests)


def check_answers(model: Model, answers: Sequence[Answer], count: int, seconds: float) -> list[Answer]:
    """The answers, one for each request, with the time they took where the model does not say."""
    if len(answers) != count:
        raise ModelError(f'{model.name} gave {count_noun(len(answers), "answer")} to {count_noun(count, "request")}.')
    each = seconds / count
    return [
        answer if answer.usage.seconds is not None else replace(answer, usage=replace(answer.usage, seconds=each))
        for answer in answers
    ]


def read_token_count(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and 0 <= tokens < _SANE else None


def count_tokens(answer: Answer) -> int | None:
    sent, received = read_token_count(answer.usage.input_tokens), read_token_count(answer.usage.output_tokens)
    return None if sent is None and received is None else (sent or 0) + (received or 0)
