"""The ways to call a module: for an answer, a reply or a stream, for one input or many, from plain and from async code.

Options are declared in `CallOptions`, so that type checkers know them; `returns` decides the type of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rolecall.apps.chat.background import result_of, submit
from rolecall.apps.chat.chat_reply import ChatReply
from rolecall.apps.chat.module_errors import BatchError, ModuleError, NoAnswerError, ToolCallsError
from rolecall.apps.chat.streaming import AsyncStream, OnPiece, Stream
from rolecall.apps.chat.structured import AnswerType
from rolecall.checking import explain_arguments, is_whole
from rolecall.errors import RolecallError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rolecall.apps.chat.call_options import BatchOptions, CallOptions, History, Tools

T = TypeVar('T')
StartStream = Callable[[OnPiece, asyncio.AbstractEventLoop | None], Coroutine[Any, Any, ChatReply[Any]]]


@dataclass(frozen=True, slots=True)
class Question:
    """What one call asks for, and where its pieces and tools go."""

    input: Any
    returns: Any
    options: Mapping[str, Any]
    history: History = None
    tools: Tools = None
    on_piece: OnPiece | None = None
    home: asyncio.AbstractEventLoop | None = None

    @classmethod
    def of(cls, user: Any, returns: Any, options: Mapping[str, Any]) -> Question:
        """The question of a call with these options."""
        rest = {name: value for name, value in options.items() if name not in ('history', 'tools')}
        return cls(user, returns, rest, options.get('history'), options.get('tools'))

    def take_answer(self, reply: ChatReply[Any]) -> Any:
        """The answer in a reply: its text, or its value."""
        if reply.outcome != 'ok':
            raise NoAnswerError(reply)
        if reply.tool_calls and (self.returns is not None or not reply.text):
            raise ToolCallsError(reply)
        return reply.text if self.returns is None else reply.value


@explain_arguments(ModuleError)
class ModuleCalls:
    """What can be called. A module says how a question is asked."""

    async def _ask(self, question: Question) -> ChatReply[Any]:
        raise NotImplementedError

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ModuleError if the model cannot be called with these options."""
        raise NotImplementedError

    async def _ask_from_loop(self, question: Question) -> ChatReply[Any]:
        """Ask from an event loop, on which async tools run."""
        return await asyncio.wrap_future(submit(self._ask(replace(question, home=asyncio.get_running_loop()))))

    @overload
    def __call__(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> str: ...
    @overload
    def __call__(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> T: ...
    @overload
    def __call__(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> Any: ...
    def __call__(self, user: Any, /, *, returns: Any = None, **options: Any) -> Any:
        """The answer. Raises `NoAnswerError` if there is none (filtered, too long, …).

        `returns` asks for a value instead of text: a pydantic model, a dataclass, a TypedDict, another type such as
        `list[int]`, or a JSON Schema. `history` has the turns before; `timeout` (seconds for the whole call),
        `retries`, `max_cost`, `headers` and `extra_body` are those of this call; sampling parameters go by their usual
        names (`CallOptions`).
        """
        question = Question.of(user, returns, options)
        return question.take_answer(result_of(self._ask(question)))

    @overload
    async def acall(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> str: ...
    @overload
    async def acall(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> T: ...
    @overload
    async def acall(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> Any: ...
    async def acall(self, user: Any, /, *, returns: Any = None, **options: Any) -> Any:
        """Like calling the module, for `await`."""
        question = Question.of(user, returns, options)
        return question.take_answer(await self._ask_from_loop(question))

    @overload
    def reply(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> ChatReply[None]: ...
    @overload
    def reply(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> ChatReply[T]: ...
    @overload
    def reply(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> ChatReply[Any]: ...
    def reply(self, user: Any, /, *, returns: Any = None, **options: Any) -> ChatReply[Any]:
        """The full reply: text, value, reasoning, tool calls, usage, and every message in between."""
        return result_of(self._ask(Question.of(user, returns, options)))

    @overload
    async def areply(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> ChatReply[None]: ...
    @overload
    async def areply(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> ChatReply[T]: ...
    @overload
    async def areply(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> ChatReply[Any]: ...
    async def areply(self, user: Any, /, *, returns: Any = None, **options: Any) -> ChatReply[Any]:
        """Like `reply`, for `await`."""
        return await self._ask_from_loop(Question.of(user, returns, options))

    @overload
    def stream(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> Stream[None]: ...
    @overload
    def stream(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> Stream[T]: ...
    @overload
    def stream(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> Stream[Any]: ...
    def stream(self, user: Any, /, *, returns: Any = None, **options: Any) -> Stream[Any]:
        """Stream the answer in pieces. The iterator's `.reply` is the full reply.

        With `returns`, `.values()` gives the value as it grows. An answer that does not fit is not asked for again.
        """
        start, answer = self._prepare_stream(Question.of(user, returns, options))
        return Stream(lambda on_piece: start(on_piece, None), answer)

    @overload
    def astream(self, user: Any, /, *, returns: None = ..., **options: Unpack[CallOptions]) -> AsyncStream[None]: ...
    @overload
    def astream(self, user: Any, /, *, returns: type[T], **options: Unpack[CallOptions]) -> AsyncStream[T]: ...
    @overload
    def astream(self, user: Any, /, *, returns: Any, **options: Unpack[CallOptions]) -> AsyncStream[Any]: ...
    def astream(self, user: Any, /, *, returns: Any = None, **options: Any) -> AsyncStream[Any]:
        """Like `stream`, for `async for`."""
        return AsyncStream(*self._prepare_stream(Question.of(user, returns, options)))

    def _prepare_stream(self, question: Question) -> tuple[StartStream, AnswerType | None]:
        self._check_options(question.options)  # fail here rather than at the first piece
        answer = None if question.returns is None else AnswerType.of(question.returns)
        return lambda on_piece, home: self._ask(replace(question, on_piece=on_piece, home=home)), answer

    @overload
    def batch(self, inputs: Iterable[Any], /, *, returns: None = ..., **options: Unpack[BatchOptions]) -> list[str]: ...
    @overload
    def batch(self, inputs: Iterable[Any], /, *, returns: type[T], **options: Unpack[BatchOptions]) -> list[T]: ...
    @overload
    def batch(self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[BatchOptions]) -> list[Any]: ...
    def batch(self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Any) -> list[Any]:
        """The answers to many inputs, in their order, `concurrency` at a time; options are those of a single call.

        `histories` has a history for each input. `on_progress` is called with the number of answers and of inputs.
        After an error no further call is begun; those under way are finished, and a `BatchError` has the answers and
        the errors. With `return_errors=True` errors stand in the places of their answers.
        """
        return result_of(_take_answers(self._reply_to_all(inputs, returns, options, None), returns))

    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: None = ..., **options: Unpack[BatchOptions]
    ) -> list[str]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: type[T], **options: Unpack[BatchOptions]
    ) -> list[T]: ...
    @overload
    async def abatch(self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[BatchOptions]) -> list[Any]: ...
    async def abatch(self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Any) -> list[Any]:
        """Like `batch`, for `await`."""
        work = _take_answers(self._reply_to_all(inputs, returns, options, asyncio.get_running_loop()), returns)
        return await asyncio.wrap_future(submit(work))

    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: None = ..., **options: Unpack[BatchOptions]
    ) -> list[ChatReply[None]]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: type[T], **options: Unpack[BatchOptions]
    ) -> list[ChatReply[T]]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[BatchOptions]
    ) -> list[ChatReply[Any]]: ...
    def batch_replies(self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Any) -> list[Any]:
        """Like `batch`, with the full replies."""
        return result_of(self._reply_to_all(inputs, returns, options, None))

    @overload
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: None = ..., **options: Unpack[BatchOptions]
    ) -> list[ChatReply[None]]: ...
    @overload
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: type[T], **options: Unpack[BatchOptions]
    ) -> list[ChatReply[T]]: ...
    @overload
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[BatchOptions]
    ) -> list[ChatReply[Any]]: ...
    async def abatch_replies(self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Any) -> list[Any]:
        """Like `batch_replies`, for `await`."""
        work = self._reply_to_all(inputs, returns, options, asyncio.get_running_loop())
        return await asyncio.wrap_future(submit(work))

    async def _reply_to_all(
        self, inputs: Iterable[Any], returns: Any, options: Mapping[str, Any], home: asyncio.AbstractEventLoop | None
    ) -> list[Any]:
        plan = _Batch.read(inputs, options)
        shared = Question.of(None, returns, plan.options)
        self._check_options(shared.options)  # fail once rather than for each input

        async def ask(number: int) -> ChatReply[Any]:
            history = shared.history if plan.histories is None else plan.histories[number]
            question = replace(shared, input=plan.inputs[number], history=history, home=home)
            reply = await self._ask(question)
            question.take_answer(reply)
            return reply

        return await plan.run(ask)


async def _take_answers(replies: Coroutine[Any, Any, list[Any]], returns: Any) -> list[Any]:
    taken = Question(None, returns, {})
    return [reply if isinstance(reply, RolecallError) else taken.take_answer(reply) for reply in await replies]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Many calls at once: replies in the order of their inputs, with bounded concurrency."""

    inputs: list[Any]
    histories: Sequence[Any] | None
    options: Mapping[str, Any]
    concurrency: int
    on_progress: Callable[[int, int], object] | None
    return_errors: bool

    @classmethod
    def read(cls, inputs: Iterable[Any], options: Mapping[str, Any]) -> _Batch:
        rest = {'concurrency': 8, 'on_progress': None, 'return_errors': False, 'histories': None, **options}
        concurrency, on_progress, return_errors, histories = (
            rest.pop(name) for name in ('concurrency', 'on_progress', 'return_errors', 'histories')
        )
        if isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Iterable):
            raise ModuleError(f'inputs must be a list with one input for each call, got {inputs!r:.60}.')
        if not is_whole(concurrency, least=1):
            raise ModuleError(f'concurrency must be a whole number of at least 1, got {concurrency!r:.60}.')
        if on_progress is not None and not callable(on_progress):
            raise ModuleError(f'on_progress must be a function of two numbers, got {on_progress!r:.60}.')
        inputs = list(inputs)
        if histories is not None and (not isinstance(histories, (list, tuple)) or len(histories) != len(inputs)):
            count = len(histories) if isinstance(histories, (list, tuple)) else repr(histories)[:60]
            raise ModuleError(f'histories must be a list with one for each of the {len(inputs)} inputs, got {count}.')
        if histories is not None and rest.get('history') is not None:
            raise ModuleError('history is for all inputs, histories for each of them: give one of the two.')
        return cls(inputs, histories, rest, concurrency, on_progress, bool(return_errors))

    async def run(self, ask: Callable[[int], Coroutine[Any, Any, ChatReply[Any]]]) -> list[Any]:
        """What `ask` gives for the number of each input. Calls under way are finished even after an error."""
        places, results = asyncio.Semaphore(self.concurrency), dict[int, Any]()
        failures: list[Exception] = []

        async def answer(number: int) -> None:
            async with places:
                if failures:
                    return
                try:
                    results[number] = await ask(number)
                except RolecallError as error:
                    results[number] = error
                    if not self.return_errors:
                        failures.append(error)
                try:
                    if self.on_progress is not None:
                        self.on_progress(len(results), len(self.inputs))
                except Exception as error:
                    failures.append(error)

        tasks = [asyncio.ensure_future(answer(number)) for number in range(len(self.inputs))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if failures:
            raise BatchError([results.get(number) for number in range(len(self.inputs))], failures[0]) from failures[0]
        return [results[number] for number in range(len(self.inputs))]
