"""Answers while they come: iterators over the pieces, which have the whole reply in the end."""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from rolecall.chat.background import submit
from rolecall.chat.errors import ModuleError
from rolecall.chat.replies import ChatReply
from rolecall.chat.telling import Tell

__all__ = ['AsyncStream', 'Stream']

Begin = Callable[[Tell], Coroutine[Any, Any, ChatReply]]
S = TypeVar('S', bound='Stream')
A = TypeVar('A', bound='AsyncStream')


class Stream:
    """The pieces of an answer. To let go of it, or to `close` it, stops the model.

    for piece in module.stream('Hello'):
        print(piece, end='')
    """

    def __init__(self, begin: Begin) -> None:
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._future = submit(begin(self._pieces.put))
        self._future.add_done_callback(_end_of(self._pieces))
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
        """The whole reply, once it is there; pieces that were not taken are passed over."""
        for _ in self:
            pass
        if self._future.cancelled():
            raise ModuleError('the stream was closed before the answer was complete.')
        return self._future.result()

    def close(self) -> None:
        """Stop the model, if it is still speaking."""
        self._future.cancel()
        self._over = True

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _end_of(pieces: queue.SimpleQueue[str | None]) -> Callable[[Future[ChatReply]], None]:
    return lambda _future: pieces.put(None)


class AsyncStream:
    """The same for an event loop.

    async for piece in module.astream('Hello'):
        print(piece, end='')
    """

    def __init__(self, begin: Callable[[Tell, asyncio.AbstractEventLoop], Coroutine[Any, Any, ChatReply]]) -> None:
        self._begin = begin
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._future: Future[ChatReply] | None = None
        self._over = False

    def __aiter__(self: A) -> A:
        return self

    async def __anext__(self) -> str:
        if self._over:
            raise StopAsyncIteration
        future = self._future or self._begun()
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
        """The whole reply, after the last piece."""
        if self._future is None or not self._future.done() or self._future.cancelled():
            raise ModuleError('the answer is not complete. Take all pieces first, or `await stream.whole()`.')
        return self._future.result()

    async def whole(self) -> ChatReply:
        """The whole reply; pieces that were not taken are passed over."""
        async for _ in self:
            pass
        return self.reply

    async def aclose(self) -> None:
        """Stop the model, if it is still speaking."""
        self._over = True
        if self._future is not None:
            self._future.cancel()

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def _begun(self) -> Future[ChatReply]:
        loop, put = asyncio.get_running_loop(), self._pieces.put_nowait

        def tell(piece: str | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(put, piece)

        future = self._future = submit(self._begin(tell, loop))
        future.add_done_callback(lambda _future: tell(None))
        weakref.finalize(self, future.cancel).atexit = False
        return future
