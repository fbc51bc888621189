"""Streamed answers: iterators over the pieces, with the full reply at the end."""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from rolecall.chat.background import submit
from rolecall.chat.chat_reply import ChatReply
from rolecall.chat.module_errors import ModuleError
from rolecall.models.protocol import Model, ModelError, OnText, Reply, Sampling
from rolecall.models.reasoning import THINK
from rolecall.render.spans import Request
from rolecall.strings import count_noun

__all__ = ['AnswerFilter', 'AsyncStream', 'OnText', 'Stream', 'StreamedCall']

Begin = Callable[[OnText], Coroutine[Any, Any, ChatReply]]
S = TypeVar('S', bound='Stream')
A = TypeVar('A', bound='AsyncStream')


class Stream:
    """The pieces of an answer. Closing or dropping the stream stops the model.

    for piece in module.stream('Hello'):
        print(piece, end='')
    """

    def __init__(self, begin: Begin) -> None:
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._future = submit(begin(self._pieces.put))
        self._future.add_done_callback(_signal_end(self._pieces))
        self._over = False
        weakref.finalize(self, self._future.cancel).atexit = False

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> str:
        if self._over:
            raise StopIteration
        try:
            piece = self._pieces.get()
        except BaseException:
            self.close()
            raise
        if piece is not None:
            return piece
        self._over = True
        if not self._future.cancelled():
            self._future.result()
        raise StopIteration

    @property
    def reply(self) -> ChatReply:
        """Wait for the full reply, skipping pieces not yet read."""
        for _ in self:
            pass
        if self._future.cancelled():
            raise ModuleError('the stream was closed before the answer was complete.')
        return self._future.result()

    def close(self) -> None:
        """Stop the model if it is still generating."""
        self._future.cancel()
        self._over = True

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _signal_end(pieces: queue.SimpleQueue[str | None]) -> Callable[[Future[ChatReply]], None]:
    return lambda _future: pieces.put(None)


class AsyncStream:
    """`Stream` for an event loop.

    async for piece in module.astream('Hello'):
        print(piece, end='')
    """

    def __init__(self, begin: Callable[[OnText, asyncio.AbstractEventLoop], Coroutine[Any, Any, ChatReply]]) -> None:
        self._begin = begin
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._future: Future[ChatReply] | None = None
        self._over = False

    def __aiter__(self: A) -> A:
        return self

    async def __anext__(self) -> str:
        if self._over:
            raise StopAsyncIteration
        future = self._future or self._start()
        try:
            piece = await self._pieces.get()
        except BaseException:
            await self.aclose()
            raise
        if piece is not None:
            return piece
        self._over = True
        if not future.cancelled():
            future.result()
        raise StopAsyncIteration

    @property
    def reply(self) -> ChatReply:
        """The full reply, available after the last piece."""
        if self._future is None or not self._future.done() or self._future.cancelled():
            raise ModuleError('the answer is not complete. Read all pieces first, or `await stream.whole()`.')
        return self._future.result()

    async def whole(self) -> ChatReply:
        """Wait for the full reply, skipping pieces not yet read."""
        async for _ in self:
            pass
        return self.reply

    async def aclose(self) -> None:
        """Stop the model if it is still generating."""
        self._over = True
        if self._future is not None:
            self._future.cancel()

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def _start(self) -> Future[ChatReply]:
        loop, put = asyncio.get_running_loop(), self._pieces.put_nowait

        def tell(piece: str | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(put, piece)

        future = self._future = submit(self._begin(tell, loop))
        future.add_done_callback(lambda _future: tell(None))
        weakref.finalize(self, future.cancel).atexit = False
        return future


class StreamingModel(Protocol):
    """A model that can stream its answer."""

    async def stream(self, request: Request, sampling: Sampling, tell: OnText) -> Reply:
        """The reply. `tell` receives pieces of the text as they arrive."""


class StreamedCall:
    """Wraps one streamed call as a model, so it is sent, timed and retried like any other.

    Pieces cannot be taken back, so a failure after the first piece is final.
    """

    batch = 1

    def __init__(self, model: Model, tell: OnText) -> None:
        self.name = model.name
        self._model = model
        self._tell = tell
        self._passed_on = 0

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """The reply to a single request."""
        if self._passed_on:
            raise self._cut_off('no answer in time')
        teller = AnswerFilter(self._pass_on)
        try:
            reply = await _stream_reply(self._model, requests[0], sampling, teller.take)
        except ModelError as error:
            if not self._passed_on or not error.transient:
                raise
            raise self._cut_off(str(error), status=error.status) from error
        teller.finish(reply)
        return [reply]

    def _pass_on(self, piece: str) -> None:
        self._passed_on += len(piece)
        self._tell(piece)

    def _cut_off(self, why: str, status: int | None = None) -> ModelError:
        return ModelError(
            f'the stream broke off after {count_noun(self._passed_on, "character")}: {why}', status=status
        )


class AnswerFilter:
    """Passes the answer on and holds back reasoning, or text that may become reasoning.

    >>> told = []
    >>> teller = AnswerFilter(told.append)
    >>> for piece in '<thi', 'nk>2 and', ' 2</think>', '\\n\\nFo', 'ur':
    ...     teller.take(piece)
    >>> told
    ['Fo', 'ur']
    """

    def __init__(self, tell: OnText, tags: tuple[str, str] = THINK) -> None:
        self._tell = tell
        self._opening, self._closing = tags
        self._kept = ''
        self._state = 'start'
        self._passed_on = ''

    def take(self, piece: str) -> None:
        """Handle one piece of the model's text."""
        self._kept += piece
        if self._state == 'start':
            begun = self._kept.lstrip()
            if begun.startswith(self._opening):
                self._state = 'thinking'
            elif not self._opening.startswith(begun):
                self._state = 'answer'
        if self._state == 'thinking' and self._closing in self._kept:
            self._state, self._kept = 'thought', self._kept.partition(self._closing)[2]
        if self._state == 'thought':
            self._kept = self._kept.lstrip()
            self._state = 'answer' if self._kept else 'thought'
        if self._state == 'answer' and self._kept:
            self._say(self._kept)
            self._kept = ''

    def finish(self, reply: Reply) -> None:
        """Pass on the rest of the answer."""
        if reply.text.startswith(self._passed_on):
            self._say(reply.text[len(self._passed_on) :])

    def _say(self, text: str) -> None:
        if text:
            self._passed_on += text
            self._tell(text)


async def _stream_reply(model: Model, request: Request, sampling: Sampling, tell: OnText) -> Reply:
    if hasattr(model, 'stream'):
        return await cast(StreamingModel, model).stream(request, sampling, tell)
    [reply] = await model.generate([request], sampling)
    return reply
