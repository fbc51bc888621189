"""Streamed answers: iterators over the pieces, with the full reply at the end.

A stream gives the text of the answer; `stream.pieces()` gives the model's thinking as well, each piece with its kind.
"""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from rolecall.apps.chat.background import submit
from rolecall.apps.chat.chat_reply import ChatReply, T
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.structured import AnswerType, GrowingJson
from rolecall.core.render.spans import Request
from rolecall.models.protocol import THINK, Model, ModelError, OnText, Reply, Sampling
from rolecall.strings import count_noun


class StreamPiece(NamedTuple):
    """A piece of a reply while it is generated."""

    kind: Literal['text', 'thinking']
    text: str


OnPiece = Callable[[StreamPiece], None]
Begin = Callable[[OnPiece], Coroutine[Any, Any, ChatReply]]
S = TypeVar('S', bound='Stream[Any]')
A = TypeVar('A', bound='AsyncStream[Any]')


class Stream(Generic[T]):
    """The pieces of an answer. Closing or dropping the stream stops the model.

    for piece in module.stream('Hello'):
        print(piece, end='')
    """

    def __init__(self, begin: Begin, answer: AnswerType | None = None) -> None:
        self._answer = answer
        self._pieces = pieces = queue.SimpleQueue[StreamPiece | None]()
        self._future = submit(begin(pieces.put))
        self._future.add_done_callback(lambda _future: pieces.put(None))  # without the stream, which may be dropped
        self._over = False
        weakref.finalize(self, self._future.cancel).atexit = False

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> str:
        for kind, text in self.pieces():
            if kind == 'text':
                return text
        raise StopIteration

    def pieces(self) -> Iterator[StreamPiece]:
        """The pieces of the reply with their kinds: `thinking` (where the model shows it) and `text`."""
        while not self._over:
            try:
                piece = self._pieces.get()
            except BaseException:
                self.close()
                raise
            if piece is not None:
                yield piece
                continue
            self._over = True
            if not self._future.cancelled():
                self._future.result()

    def values(self) -> Iterator[Any]:
        """The answer as it grows, as plain data; the last one is the value of the type that `returns=` asked for."""
        growing = GrowingValue(self._answer)
        for piece in self.pieces():
            if growing.take(piece):
                yield growing.value
        yield self.reply.value

    @property
    def reply(self) -> ChatReply[T]:
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


class AsyncStream(Generic[T]):
    """`Stream` for an event loop.

    async for piece in module.astream('Hello'):
        print(piece, end='')
    """

    def __init__(
        self,
        begin: Callable[[OnPiece, asyncio.AbstractEventLoop], Coroutine[Any, Any, ChatReply]],
        answer: AnswerType | None = None,
    ) -> None:
        self._answer = answer
        self._begin = begin
        self._pieces: asyncio.Queue[StreamPiece | None] = asyncio.Queue()
        self._future: Future[ChatReply] | None = None
        self._over = False

    def __aiter__(self: A) -> A:
        return self

    async def __anext__(self) -> str:
        while (piece := await self._next_piece()) is not None:
            if piece.kind == 'text':
                return piece.text
        raise StopAsyncIteration

    async def pieces(self) -> AsyncIterator[StreamPiece]:
        """The pieces of the reply with their kinds: `thinking` (where the model shows it) and `text`."""
        while (piece := await self._next_piece()) is not None:
            yield piece

    async def values(self) -> AsyncIterator[Any]:
        """The answer as it grows, as plain data; the last one is the value of the type that `returns=` asked for."""
        growing = GrowingValue(self._answer)
        async for piece in self.pieces():
            if growing.take(piece):
                yield growing.value
        yield (await self.whole()).value

    async def _next_piece(self) -> StreamPiece | None:
        if self._over:
            return None
        future = self._future or self._start()
        try:
            piece = await self._pieces.get()
        except BaseException:
            await self.aclose()
            raise
        if piece is None:
            self._over = True
            if not future.cancelled():
                future.result()
        return piece

    @property
    def reply(self) -> ChatReply[T]:
        """The full reply, available after the last piece."""
        if self._future is None or not self._future.done() or self._future.cancelled():
            raise ModuleError('the answer is not complete. Read all pieces first, or `await stream.whole()`.')
        return self._future.result()

    async def whole(self) -> ChatReply[T]:
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

        def tell(piece: StreamPiece | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(put, piece)

        future = self._future = submit(self._begin(tell, loop))
        future.add_done_callback(lambda _future: tell(None))
        weakref.finalize(self, future.cancel).atexit = False
        return future


class GrowingValue:
    """The value of an answer while it is generated."""

    def __init__(self, answer: AnswerType | None) -> None:
        if answer is None:
            raise ModuleError('values() needs the type of the answer: module.stream(…, returns=…).')
        self._answer = answer
        self._json = GrowingJson()
        self.value: Any = None

    def take(self, piece: StreamPiece) -> bool:
        """Whether the value has changed with this piece."""
        before = self.value
        if piece.kind == 'text':
            self.value = self._answer.unwrap(self._json.take(piece.text))
        return self.value is not None and self.value != before


class StreamedCall:
    """Wraps one streamed call as a model, so it is sent, timed and retried like any other.

    Pieces cannot be taken back, so a failure after the first piece of the answer is final. (One during the thinking is
    retried, and the thinking begins anew.)
    """

    batch = 1

    def __init__(
        self,
        model: Model,
        on_piece: OnPiece,
        *,
        begins_thinking: bool = False,
        on_event: Callable[[], object] | None = None,
    ) -> None:
        self.name = model.name
        self.capabilities = model.capabilities
        self._on_event = on_event
        self._model = model
        self._on_piece = on_piece
        self._begins_thinking = begins_thinking
        self._passed_on = 0

    @property
    def identity(self) -> Mapping[str, Any]:
        return self._model.identity

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        if self._passed_on:
            raise self._cut_off('no answer in time')
        answer = AnswerFilter(self._pass_on, on_thinking=self._pass_thinking_on, begins_thinking=self._begins_thinking)
        try:
            reply = await self._stream(requests[0], sampling, answer.take)
        except ModelError as error:
            if not self._passed_on or not error.transient:
                raise
            raise self._cut_off(str(error), status=error.status) from error
        answer.finish(reply)
        return [reply]

    async def _stream(self, request: Request, sampling: Sampling, on_text: OnText) -> Reply:
        if stream := getattr(self._model, 'stream', None):
            reply: Reply = await stream(request, sampling, on_text, self._pass_thinking_on, self._on_event)
            return reply
        [reply] = await self._model.generate([request], sampling)
        if reply.reasoning:
            self._pass_thinking_on(reply.reasoning)
        return reply

    def _pass_on(self, piece: str) -> None:
        self._passed_on += len(piece)
        self._on_piece(StreamPiece('text', piece))

    def _pass_thinking_on(self, piece: str) -> None:
        self._on_piece(StreamPiece('thinking', piece))

    def _cut_off(self, why: str, status: int | None = None) -> ModelError:
        return ModelError(
            f'the stream broke off after {count_noun(self._passed_on, "character")}: {why}', status=status
        )


class AnswerFilter:
    """Passes the answer on, and reasoning written before it in tags to `on_thinking`.

    >>> told, thought = [], []
    >>> answer = AnswerFilter(told.append, on_thinking=thought.append)
    >>> for piece in '<thi', 'nk>2 and', ' 2</thi', 'nk>', '\\n\\nFo', 'ur':
    ...     answer.take(piece)
    >>> told, thought
    (['Fo', 'ur'], ['2 and', ' 2'])
    """

    def __init__(
        self,
        on_text: OnText,
        *,
        on_thinking: OnText | None = None,
        begins_thinking: bool = False,
        tags: tuple[str, str] = THINK,
    ) -> None:
        """`begins_thinking`: the prompt ends with the opening tag."""
        self._on_text = on_text
        self._on_thinking = on_thinking
        self._opening, self._closing = tags
        self._kept = ''
        self._state = 'thinking' if begins_thinking else 'start'
        self._passed_on = ''

    def take(self, piece: str) -> None:
        """Handle one piece of the model's text."""
        self._kept += piece
        if self._state == 'start':
            begun = self._kept.lstrip()
            if begun.startswith(self._opening):
                self._state, self._kept = 'thinking', begun.removeprefix(self._opening)
            elif not self._opening.startswith(begun):
                self._state = 'answer'
        if self._state == 'thinking':
            self._take_thinking()
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

    def _take_thinking(self) -> None:
        """Pass reasoning on, except for what may be the beginning of the closing tag."""
        thought, closed, rest = self._kept.partition(self._closing)
        if closed:
            self._state, self._kept = 'thought', rest
        else:
            lengths = range(min(len(thought), len(self._closing) - 1), 0, -1)
            withheld = next((length for length in lengths if self._closing.startswith(thought[-length:])), 0)
            thought, self._kept = thought[: len(thought) - withheld], thought[len(thought) - withheld :]
        if thought and self._on_thinking is not None:
            self._on_thinking(thought)

    def _say(self, text: str) -> None:
        if text:
            self._passed_on += text
            self._on_text(text)
