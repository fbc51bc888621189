"""The base of all chat modules: a prompter, a model, and one way to call both.

A module is a value: `prompt` and `with_tools` give new modules that share the model. Nothing of a call stays behind.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from rolecall.chat.adapters import ModuleCall
from rolecall.chat.background import result_of, submit
from rolecall.chat.chat_reply import ChatReply
from rolecall.chat.conversation import Connection, converse, read_sampling
from rolecall.chat.dropped import warn_if_dropped
from rolecall.chat.module_errors import ModuleError, NoAnswerError
from rolecall.chat.streaming import AsyncStream, OnText, Stream
from rolecall.chat.tools import TOOL_SECONDS, Toolbox, tool_schema
from rolecall.models.protocol import Reply
from rolecall.prompters.base_prompter import Prompter
from rolecall.prompters.builtin import ChatPrompter, EmptyPrompter

__all__ = ['ChatModule']

M = TypeVar('M', bound='ChatModule')
Tools = Sequence[Mapping[str, Any] | Callable[..., Any]]


class ChatModule:
    """The base of `OnlineChatModule` and `TrainableModule`."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        read_sampling(defaults)  # fail now rather than at the first call
        self._defaults = dict(defaults)
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

    def __call__(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> str:
        """The answer. Raises `NoAnswerError` if there is none (filtered, too long, …)."""
        return _text(self.reply(given, history=history, tools=tools, **sampling))

    def reply(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> ChatReply:
        """The full reply: text, reasoning, tool calls, usage, and every message in between."""
        return result_of(self._conversation(given, history, tools, sampling))

    def stream(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> Stream:
        """Stream the answer in pieces. The iterator's `.reply` is the full reply."""
        begin = self._prepare_stream(given, history, tools, sampling)
        return Stream(lambda tell: begin(tell, None))

    async def acall(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> str:
        """Like calling the module, for `await`."""
        return _text(await self.areply(given, history=history, tools=tools, **sampling))

    async def areply(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> ChatReply:
        """Like `reply`, for `await`."""
        home = asyncio.get_running_loop()
        return await asyncio.wrap_future(submit(self._conversation(given, history, tools, sampling, home=home)))

    def astream(
        self,
        given: Any,
        /,
        *,
        history: Sequence[Any] | None = None,
        tools: Tools | None = None,
        **sampling: Any,
    ) -> AsyncStream:
        """Like `stream`, for `async for`."""
        return AsyncStream(self._prepare_stream(given, history, tools, sampling))

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

    def _prepare_stream(
        self, given: Any, history: Sequence[Any] | None, tools: Tools | None, sampling: Mapping[str, Any]
    ) -> Callable[[OnText, asyncio.AbstractEventLoop | None], Coroutine[Any, Any, ChatReply]]:
        self._connection()  # fail here rather than at the first piece
        read_sampling({**self._defaults, **sampling})
        return lambda tell, home: self._conversation(given, history, tools, sampling, tell=tell, home=home)

    async def _conversation(
        self,
        given: Any,
        history: Sequence[Any] | None,
        tools: Tools | None,
        sampling: Mapping[str, Any],
        *,
        tell: OnText | None = None,
        home: asyncio.AbstractEventLoop | None = None,
    ) -> ChatReply:
        line, offered = self._connection(), self._describe_tools(tools)
        return await line.hold(
            converse(
                line,
                self._prompter,
                ModuleCall(given, history, offered or None),
                read_sampling({**self._defaults, **sampling}),
                toolbox=self._toolbox,
                tell=tell,
                home=home,
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


def _text(reply: Reply) -> str:
    if reply.outcome != 'ok':
        raise NoAnswerError(reply)
    return reply.text
