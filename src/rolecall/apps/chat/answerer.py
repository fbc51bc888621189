"""Who answers a call: a connection to one model, its options, and which of several models is asked next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast, get_args

from rolecall.apps.chat.adapters import Adapter
from rolecall.apps.chat.background import finish
from rolecall.apps.chat.call_options import CallSettings
from rolecall.apps.chat.chat_reply import Message
from rolecall.apps.chat.module_errors import BadAnswerError, ModuleError, StoppedError
from rolecall.apps.chat.streaming import OnPiece, StreamedCall, StreamPiece
from rolecall.checking import is_number, is_whole
from rolecall.core.render.spans import Request
from rolecall.errors import did_you_mean
from rolecall.models.prices import Price
from rolecall.models.protocol import Model, ModelError, Outcome, Reply, Sampling, is_messages
from rolecall.runs.client.concurrent_client import ConcurrentClient
from rolecall.runs.client.limiter import Limits
from rolecall.runs.client.model_client import ModelCall
from rolecall.runs.client.retry import ModelUnavailableError, RetryPolicy

FailoverCondition = Literal['error', 'refusal', 'too_long', 'bad_value']
ON_ERROR: tuple[FailoverCondition, ...] = ('error',)
_OUTCOMES: dict[Outcome, FailoverCondition] = {
    'filtered': 'refusal',
    'too_long': 'too_long',
    'thinking_exhausted': 'too_long',
}
T = TypeVar('T')
_ONE = Limits(start=1, most=1)
_REMEMBERED = 32
"""Beginnings of recent requests that a prompt cache may know."""


@dataclass(eq=False)
class Connection:
    """One model with its adapter and retry policy.

    It knows the conversations under way, so that closing it ends them. All of it happens on one event loop.
    """

    model: Model
    adapter: Adapter
    retry_policy: RetryPolicy
    price: Price | None = None
    _under_way: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)
    _dropped: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)
    _recent: deque[list[Message]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED), repr=False)

    @property
    def takes_media(self) -> bool:
        """Whether pictures and sound can be sent."""
        return self.model.capabilities.media and not self.adapter.writes_calls

    @property
    def server(self) -> Any:
        """The address of the model's server; None for a model in this process."""
        return self.model.identity.get('server')

    def share_prefixes(self, request: Request) -> None:
        """Tell a model that marks prompts for its server's cache what a request has in common with earlier ones."""
        share = getattr(self.model, 'share_prefixes', None)
        if share is None or not is_messages(request):
            return
        share([(messages, '') for messages in self._recent])
        self._recent += [request[:1], request]

    async def hold(self, conversation: Awaitable[T]) -> T:
        """Await a conversation. It fails with StoppedError if the connection is closed meanwhile."""
        task = asyncio.current_task()
        if task is None:
            return await conversation
        self._under_way.add(task)
        try:
            return await conversation
        except asyncio.CancelledError:
            if task not in self._dropped:
                raise
            raise StoppedError from None
        finally:
            self._under_way.discard(task)
            self._dropped.discard(task)

    async def close(self) -> None:
        """Cancel conversations in progress and close the model."""
        tasks = tuple(self._under_way)
        self._dropped.update(tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.model.close()


def close_model(model: Model) -> None:
    """Close a model whose module is gone."""
    finish(model.close())


@dataclass(frozen=True, slots=True)
class Answerer:
    """A model that may answer a call, and the options that it is called with."""

    name: str
    line: Connection
    options: CallSettings

    async def send(
        self,
        request: Request,
        sampling: Sampling,
        *,
        on_piece: OnPiece | None,
        begins_thinking: bool,
        first_token: float | None,
        on_retry: Callable[[ModelError, float], None],
    ) -> Reply:
        """Send one request through a run's client. Errors that would end a run only fail this call.

        `first_token`: seconds within which the model must begin to answer.
        """
        model, policy, started = self.line.model, self.line.retry_policy, asyncio.Event()
        self.line.share_prefixes(request)
        if first_token is not None:
            on_piece, note = _note_first(on_piece, started)
            model = cast(Model, StreamedCall(model, on_piece, begins_thinking=begins_thinking, on_event=note))
        elif on_piece is not None:
            model = cast(Model, StreamedCall(model, on_piece, begins_thinking=begins_thinking))
        if self.options.retries is not None:
            policy = replace(policy, retries=self.options.retries, when_busy=2 * self.options.retries)
        client = ConcurrentClient(model, _ONE, policy)
        client.on_retry = on_retry
        try:
            sending = client.send(ModelCall('generate', request, sampling))
            reply = await (sending if first_token is None else _start_in_time(sending, started, first_token))
        except ModelUnavailableError as error:
            cause = error.__cause__
            if isinstance(cause, ModelError):
                raise ModelError(str(error), transient=cause.transient, status=cause.status) from cause
            raise cause if cause is not None else error from None
        return cast(Reply, reply)


def _note_first(on_piece: OnPiece | None, started: asyncio.Event) -> tuple[OnPiece, Callable[[], None]]:
    """What takes the pieces and other events of a stream, from any thread, and notes the first of them."""
    loop = asyncio.get_running_loop()

    def note() -> None:
        if not started.is_set():
            loop.call_soon_threadsafe(started.set)

    def pass_on(piece: StreamPiece) -> None:
        note()
        if on_piece is not None:
            on_piece(piece)

    return pass_on, note


async def _start_in_time(sending: Coroutine[Any, Any, T], started: asyncio.Event, seconds: float) -> T:
    """The reply, if its first token arrives within so many seconds, retries included."""
    task = asyncio.ensure_future(sending)
    first = asyncio.ensure_future(started.wait())
    try:
        done, _ = await asyncio.wait((task, first), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise ModelError(f'no token within {seconds:g} s (first_token)', transient=True)
        return await task
    finally:
        first.cancel()
        task.cancel()


@dataclass(frozen=True, slots=True)
class FailoverPolicy:
    """What counts as a failure of a model, and how often a request is repeated before the next model gets it."""

    when: Collection[FailoverCondition] = ON_ERROR
    retries: int | None = 1
    first_token: float | None = None
    """Seconds within which a model must begin to answer."""

    def __post_init__(self) -> None:
        if self.retries is not None and not is_whole(self.retries, least=0):
            raise ModuleError(f'retries must be a whole number of at least 0, or None, got {self.retries!r:.60}.')
        if self.first_token is not None and not (is_number(self.first_token) and self.first_token > 0):
            raise ModuleError(f'first_token must be a number of seconds above 0, got {self.first_token!r:.60}.')
        if not isinstance(self.when, (list, tuple, set, frozenset)):
            what = f'when must be a list of conditions, got {self.when!r:.60}. Write when=[{self.when!r:.60}].'
            raise ModuleError(what)
        names = get_args(FailoverCondition)
        if not self.when:
            raise ModuleError(f'when has no condition, so no fallback would be asked. Name some of {", ".join(names)}.')
        for name in self.when:
            if name not in names:
                raise ModuleError(f'when: {name!r:.60} is not a condition. {did_you_mean(str(name), names)}')

    def applies_to(self, outcome: Reply | Exception) -> bool:
        """Whether the next model is asked after this reply or error.

        >>> policy = FailoverPolicy(['refusal'])
        >>> policy.applies_to(Reply('', outcome='filtered')), policy.applies_to(Reply('Yes.'))
        (True, False)
        """
        if isinstance(outcome, Reply):
            return _OUTCOMES.get(outcome.outcome) in self.when
        return ('bad_value' if isinstance(outcome, BadAnswerError) else 'error') in self.when
