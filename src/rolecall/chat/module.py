"""The base of all chat modules: a prompter, a model, and one way to call both.

A module is a value: `prompt` and `with_tools` give new modules that share the model. Nothing of a call stays behind.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from rolecall.chat.adapters import ModuleCall
from rolecall.chat.background import result_of, submit
from rolecall.chat.call_options import CallOptions, read_call_options
from rolecall.chat.chat_reply import ChatReply
from rolecall.chat.conversation import Connection, OnEvent, converse
from rolecall.chat.dropped import warn_if_dropped
from rolecall.chat.module_errors import ModuleError, NoAnswerError, ToolCallsError
from rolecall.chat.streaming import AsyncStream, OnText, Stream
from rolecall.chat.structured import AnswerType
from rolecall.chat.tools import TOOL_SECONDS, Toolbox, tool_schema
from rolecall.checking import is_whole
from rolecall.errors import RolecallError
from rolecall.models.protocol import ModelError
from rolecall.prompters.base_prompter import Prompter
from rolecall.prompters.builtin import ChatPrompter, EmptyPrompter

__all__ = ['ChatModule']

M = TypeVar('M', bound='ChatModule')
T = TypeVar('T')
_LOGGER = logging.getLogger('rolecall')
Tools = Sequence[Mapping[str, Any] | Callable[..., Any]]


class ChatModule:
    """The base of `OnlineChatModule` and `TrainableModule`."""

    _served = True
    """Whether the model is behind a server, which takes headers and further fields of a body."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = dict(defaults)
        self._read_options({})  # fail now rather than at the first call
        self._fallbacks: tuple[ChatModule, ...] = ()
        self._on_event: OnEvent | None = None
        self._prompter: Prompter = EmptyPrompter()
        self._toolbox: Toolbox | None = None

    def _connection(self) -> Connection:
        """The connection to the model."""
        raise NotImplementedError

    def start(self: M) -> M:
        """Load the model and wait until it answers."""
        return self

    def stop(self) -> None:
        """Close connections and free memory."""

    @property
    def prompter(self) -> Prompter:
        """The prompter that formats the input."""
        return self._prompter

    def prompt(self: M, prompter: Prompter | str | Mapping[str, str] | None = None) -> M:
        """A copy with this prompter, or with an instruction for a `ChatPrompter`. None sends the bare input."""
        if prompter is None:
            prompter = EmptyPrompter()
        elif isinstance(prompter, (str, Mapping)):
            prompter = ChatPrompter(prompter)
        elif not isinstance(prompter, Prompter):
            raise ModuleError(f'expected a prompter, a string or a mapping, got {prompter!r:.60}.')
        warn_if_dropped('prompt')
        return self._with(_prompter=prompter)

    def with_tools(
        self: M,
        functions: Sequence[Callable[..., Any]],
        *,
        max_rounds: int = 8,
        timeout: float | None = TOOL_SECONDS,
    ) -> M:
        """A copy with Python functions as tools. They run when the model calls them, until it answers.

        `timeout`: seconds that one call of a tool may take; None sets no limit.
        """
        return self._with(_toolbox=Toolbox(functions, max_rounds=max_rounds, timeout=timeout))

    def with_fallbacks(self: M, *modules: ChatModule) -> M:
        """A copy that asks these modules, in turn, if its own model cannot be reached or keeps failing.

        They are asked with this module's prompter and tools.
        """
        wrong = [one for one in modules if not isinstance(one, ChatModule)]
        if wrong:
            raise ModuleError(f'a fallback must be a module, got {wrong[0]!r:.60}.')
        return self._with(_fallbacks=(*self._fallbacks, *modules))

    def watch(self: M, on_event: OnEvent | None) -> M:
        """A copy that calls `on_event` with every request, reply, tool call and tool result (see `Event`)."""
        return self._with(_on_event=on_event)

    @overload
    def __call__(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: None = None,
        **options: Any,
    ) -> str: ...

    @overload
    def __call__(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: type[T],
        **options: Any,
    ) -> T: ...

    @overload
    def __call__(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: Any,
        **options: Any,
    ) -> Any: ...

    def __call__(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        returns: Any = None,
        **options: Any,
    ) -> Any:
        """The answer. Raises `NoAnswerError` if there is none (filtered, too long, …).

        `returns` asks for a value instead of text: a pydantic model, a dataclass, a TypedDict, another type such as
        `list[int]`, or a JSON Schema. `timeout` (seconds for the whole call), `retries`, `headers` and `extra_body`
        are those of this call; sampling parameters go by their usual names.
        """
        return _answer(self.reply(given, history=history, tools=tools, returns=returns, **options), returns)

    def reply(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        returns: Any = None,
        **options: Any,
    ) -> ChatReply:
        """The full reply: text, reasoning, tool calls, usage, and every message in between."""
        return result_of(self._with_fallbacks(given, history, tools, options, returns=returns))

    def stream(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **options: Any,
    ) -> Stream:
        """Stream the answer in pieces. The iterator's `.reply` is the full reply."""
        begin = self._prepare_stream(given, history, tools, options)
        return Stream(lambda tell: begin(tell, None))

    @overload
    async def acall(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: None = None,
        **options: Any,
    ) -> str: ...

    @overload
    async def acall(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: type[T],
        **options: Any,
    ) -> T: ...

    @overload
    async def acall(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = ...,
        tools: Tools | None = ...,
        returns: Any,
        **options: Any,
    ) -> Any: ...

    async def acall(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        returns: Any = None,
        **options: Any,
    ) -> Any:
        """Like calling the module, for `await`."""
        reply = await self.areply(given, history=history, tools=tools, returns=returns, **options)
        return _answer(reply, returns)

    async def areply(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        returns: Any = None,
        **options: Any,
    ) -> ChatReply:
        """Like `reply`, for `await`."""
        home = asyncio.get_running_loop()
        conversation = self._with_fallbacks(given, history, tools, options, returns=returns, home=home)
        return await asyncio.wrap_future(submit(conversation))

    def astream(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **options: Any,
    ) -> AsyncStream:
        """Like `stream`, for `async for`."""
        return AsyncStream(self._prepare_stream(given, history, tools, options))

    def __enter__(self: M) -> M:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self: M) -> M:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def batch(
        self,
        inputs: Iterable[Any],
        /,
        *,
        concurrency: int = 8,
        on_progress: Callable[[int, int], object] | None = None,
        return_errors: bool = False,
        **options: Any,
    ) -> list[Any]:
        """The answers to many inputs, in their order, `concurrency` at a time; options are those of a single call.

        `on_progress` is called with the number of answers and of inputs. The first error ends the batch, unless
        `return_errors` puts errors in the places of their answers.
        """
        return result_of(self._batch(list(inputs), concurrency, on_progress, return_errors, options, home=None))

    async def abatch(
        self,
        inputs: Iterable[Any],
        /,
        *,
        concurrency: int = 8,
        on_progress: Callable[[int, int], object] | None = None,
        return_errors: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Like `batch`, for `await`."""
        home = asyncio.get_running_loop()
        work = self._batch(list(inputs), concurrency, on_progress, return_errors, options, home=home)
        return await asyncio.wrap_future(submit(work))

    async def _batch(
        self,
        inputs: Sequence[Any],
        concurrency: int,
        on_progress: Callable[[int, int], object] | None,
        return_errors: bool,
        options: Mapping[str, Any],
        *,
        home: asyncio.AbstractEventLoop | None,
    ) -> list[Any]:
        if not is_whole(concurrency, least=1):
            raise ModuleError(f'concurrency must be a whole number of at least 1, got {concurrency!r:.60}.')
        rest = dict(options)
        history, tools, returns = (rest.pop(name, None) for name in ('history', 'tools', 'returns'))
        places, done = asyncio.Semaphore(concurrency), 0

        async def answer(given: Any) -> Any:
            nonlocal done
            async with places:
                try:
                    reply = await self._with_fallbacks(given, history, tools, rest, returns=returns, home=home)
                    found = _answer(reply, returns)
                except RolecallError as error:
                    if not return_errors:
                        raise
                    found = error
            done += 1
            if on_progress is not None:
                on_progress(done, len(inputs))
            return found

        tasks = [asyncio.ensure_future(answer(given)) for given in inputs]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    def _prepare_stream(
        self, given: Any, history: Sequence[Any] | None, tools: Tools | None, options: Mapping[str, Any]
    ) -> Callable[[OnText, asyncio.AbstractEventLoop | None], Coroutine[Any, Any, ChatReply]]:
        self._connection()  # fail here rather than at the first piece
        self._read_options(options)
        return lambda tell, home: self._conversation(given, history, tools, options, tell=tell, home=home)

    def _read_options(self, options: Mapping[str, Any]) -> CallOptions:
        return read_call_options({**self._defaults, **options}, served=self._served)

    async def _with_fallbacks(
        self,
        given: Any,
        history: Sequence[Any] | None,
        tools: Tools | None,
        options: Mapping[str, Any],
        *,
        returns: Any = None,
        home: asyncio.AbstractEventLoop | None = None,
    ) -> ChatReply:
        """The reply of this module, or of the first fallback that can be asked."""
        for module in (self, *self._fallbacks):
            asked = module._with(_prompter=self._prompter, _toolbox=self._toolbox, _on_event=self._on_event)
            try:
                return await asked._conversation(given, history, tools, options, returns=returns, home=home)
            except ModelError as error:
                if module is [self, *self._fallbacks][-1]:
                    raise
                _LOGGER.warning('%r failed (%s); the next model is asked.', module, error)
        raise AssertionError('a module has at least itself')

    async def _conversation(
        self,
        given: Any,
        history: Sequence[Any] | None,
        tools: Tools | None,
        options: Mapping[str, Any],
        *,
        returns: Any = None,
        tell: OnText | None = None,
        home: asyncio.AbstractEventLoop | None = None,
    ) -> ChatReply:
        line, offered = self._connection(), self._describe_tools(tools)
        return await line.hold(
            converse(
                line,
                self._prompter,
                ModuleCall(given, history, offered or None),
                self._read_options(options),
                answer=None if returns is None else AnswerType.of(returns),
                toolbox=self._toolbox,
                tell=tell,
                home=home,
                on_event=self._on_event,
            )
        )

    def _describe_tools(self, tools: Tools | None) -> list[Mapping[str, Any]]:
        """The tools of a call. Functions are converted to schemas, mappings are used unchanged."""
        if tools and self._toolbox is not None:
            raise ModuleError('the module already has tools; do not pass tools with the call.')
        if self._toolbox is not None:
            return list(self._toolbox.schemas)
        if tools is not None and not isinstance(tools, (list, tuple)):
            raise ModuleError(f'tools must be a list of functions or mappings, got {tools!r:.60}.')
        return [tool if isinstance(tool, Mapping) else tool_schema(tool) for tool in tools or ()]

    def _with(self: M, **changes: Any) -> M:
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed


def _answer(reply: ChatReply, returns: Any) -> Any:
    if reply.outcome != 'ok':
        raise NoAnswerError(reply)
    if returns is not None:
        return reply.value
    if reply.tool_calls and not reply.text:
        raise ToolCallsError(reply)
    return reply.text
