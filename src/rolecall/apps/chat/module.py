"""The base of all chat modules: a prompter, a model, and one way to call both.

A module is a value: `prompt` and `with_tools` give new modules that share the model. Nothing of a call stays behind.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar, overload

from rolecall.apps.chat.adapters import ModuleCall
from rolecall.apps.chat.background import result_of, submit
from rolecall.apps.chat.batching import answer_all
from rolecall.apps.chat.call_options import CallOptions, read_call_options
from rolecall.apps.chat.chat_reply import ChatReply
from rolecall.apps.chat.conversation import Answerer, Connection, Conversation, apply_hooks
from rolecall.apps.chat.dropped import warn_if_dropped
from rolecall.apps.chat.events import OnEvent
from rolecall.apps.chat.failover import ON_ERROR, FailoverCondition, FailoverPolicy
from rolecall.apps.chat.module_errors import ModuleError, NoAnswerError, ToolCallsError
from rolecall.apps.chat.streaming import AsyncStream, OnPiece, Stream
from rolecall.apps.chat.structured import AnswerType
from rolecall.apps.chat.tools import TOOL_SECONDS, Approve, Tool, Toolbox, tool_schema
from rolecall.apps.chat.trimming import TokenBudget, count_exactly
from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.builtin import ChatPrompter, EmptyPrompter

M = TypeVar('M', bound='ChatModule')
T = TypeVar('T')
History = Sequence[Any] | None
Tools = Sequence[Mapping[str, Any] | Callable[..., Any] | Tool] | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one call asks for, and where its pieces and tools go."""

    given: Any
    history: History
    tools: Tools
    options: Mapping[str, Any]
    returns: Any = None
    on_piece: OnPiece | None = None
    home: asyncio.AbstractEventLoop | None = None


class ChatModule:
    """The base of `OnlineChatModule` and `TrainableModule`."""

    _served = True
    """Whether the model is behind a server, which takes headers and further fields of a body."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = dict(defaults)
        self._read_options({})  # fail now rather than at the first call
        self._fallbacks: tuple[ChatModule, ...] = ()
        self._failover = FailoverPolicy()
        self._on_event: OnEvent | None = None
        self._budget: TokenBudget | None = None
        self._prompter: Prompter = EmptyPrompter()
        self._toolbox: Toolbox | None = None

    def _connection(self) -> Connection:
        """The connection to the model."""
        raise NotImplementedError

    @property
    def _name(self) -> str:
        """The model's name in replies and events."""
        raise NotImplementedError

    def _start(self) -> None:
        """Load the model and wait until it answers."""

    def _stop(self) -> None:
        """Close connections and free memory."""

    def start(self: M) -> M:
        """Load local models, those of fallbacks included, and wait until they answer. Loaded ones stay as they are."""
        for module in self._all_modules:
            module._start()
        return self

    def stop(self) -> None:
        """Cancel calls in progress, close connections and free memory, those of fallbacks included."""
        for module in self._all_modules:
            module._stop()

    @property
    def _all_modules(self) -> list[ChatModule]:
        return [self, *self._fallbacks]

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
        functions: Sequence[Callable[..., Any] | Tool],
        *,
        max_rounds: int = 8,
        timeout: float | None = TOOL_SECONDS,
        approve: Approve | None = None,
    ) -> M:
        """A copy with Python functions as tools. They run when the model calls them, until it answers.

        `timeout`: seconds that one call of a tool may take; None sets no limit. `approve` is called with a
        `ToolContext` before a tool runs, and returns True, or False or a reason to refuse.
        """
        toolbox = Toolbox(functions, max_rounds=max_rounds, timeout=timeout, approve=approve)
        warn_if_dropped('with_tools')
        return self._with(_toolbox=toolbox)

    def with_fallbacks(
        self: M,
        *modules: ChatModule,
        when: Collection[FailoverCondition] = ON_ERROR,
        retries: int | None = 1,
        first_token: float | None = None,
    ) -> M:
        """A copy that asks these modules, in turn, if its own model fails. They get this module's prompter and tools.

        The next model goes on with the conversation; tools that have run are not run again. `when` says what counts
        as a failure: 'error' (unreachable, refuses the request, keeps failing), 'refusal' (a content filter, or the
        model declines), 'too_long' (the context or the answer's length is exhausted), 'bad_value' (the answer does not
        fit `returns`). `retries`: how often a request is sent again before the next model is asked; None keeps each
        module's own number. `first_token`: seconds within which a model must begin to answer, retries included. Neither
        holds for the last model.
        """
        wrong = [module for module in modules if not isinstance(module, ChatModule)]
        if wrong:
            raise ModuleError(f'a fallback must be a module, got {wrong[0]!r:.60}.')
        policy = FailoverPolicy.of(when, retries=retries, first_token=first_token)
        warn_if_dropped('with_fallbacks')
        flat = [each for module in modules for each in (module, *module._fallbacks)]
        return self._with(_fallbacks=(*self._fallbacks, *flat), _failover=policy)

    def with_token_budget(self: M, tokens: int | None = None, *, count: Callable[[str], int] | None = None) -> M:
        """A copy that drops the oldest turns of a history until the whole prompt has at most this many tokens.

        Without `tokens`, the budget is the model's context without room for the answer. Tokens are counted by the
        model's tokenizer, or by `count`, a function of a text. `reply.dropped` has what was not sent.
        """
        budget = TokenBudget(tokens, count)
        warn_if_dropped('with_token_budget')
        return self._with(_budget=budget)

    def count_tokens(self, given: Any, /, *, history: History = None, tools: Tools = None) -> int | None:
        """The number of tokens of the prompt that a call would send; None if it is not known.

        They are counted by the model's tokenizer, or by the vendor's counting endpoint (Anthropic's).
        """
        return result_of(self._count(given, history, tools))

    async def acount_tokens(self, given: Any, /, *, history: History = None, tools: Tools = None) -> int | None:
        """Like `count_tokens`, for `await`."""
        return await asyncio.wrap_future(submit(self._count(given, history, tools)))

    async def _count(self, given: Any, history: History, tools: Tools) -> int | None:
        line, offered = self._connection(), self._describe_tools(tools)
        prompter, asked = await apply_hooks(self._prompter, ModuleCall(given, history, offered or None))
        request, extra, _ = line.adapter.word(prompter, asked, ())
        sampling = self._read_options({}).sampling
        return await count_exactly(line.model, request, replace(sampling, extra={**sampling.extra, **extra}))

    def watch(self: M, on_event: OnEvent | None) -> M:
        """A copy that calls `on_event` with every `Event`: requests, replies, retries, tool calls, usage, …"""
        if on_event is not None and not callable(on_event):
            raise ModuleError(f'on_event must be a function of an Event, or None, got {on_event!r:.60}.')
        warn_if_dropped('watch')
        return self._with(_on_event=on_event)

    @overload
    def __call__(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: None = None, **options: Any
    ) -> str: ...

    @overload
    def __call__(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: type[T], **options: Any
    ) -> T: ...

    @overload
    def __call__(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: Any, **options: Any
    ) -> Any: ...

    def __call__(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> Any:
        """The answer. Raises `NoAnswerError` if there is none (filtered, too long, …).

        `returns` asks for a value instead of text: a pydantic model, a dataclass, a TypedDict, another type such as
        `list[int]`, or a JSON Schema. `timeout` (seconds for the whole call), `retries`, `headers` and `extra_body`
        are those of this call; sampling parameters go by their usual names.
        """
        return _answer(self.reply(given, history=history, tools=tools, returns=returns, **options), returns)

    def reply(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> ChatReply:
        """The full reply: text, reasoning, tool calls, usage, and every message in between."""
        return result_of(self._ask_in_time(_Asked(given, history, tools, options, returns)))

    def stream(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> Stream:
        """Stream the answer in pieces. The iterator's `.reply` is the full reply.

        With `returns`, `.values()` gives the value as it grows. An answer that does not fit is not asked for again.
        """
        begin, answer = self._prepare_stream(_Asked(given, history, tools, options, returns))
        return Stream(lambda on_piece: begin(on_piece, None), answer)

    @overload
    async def acall(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: None = None, **options: Any
    ) -> str: ...

    @overload
    async def acall(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: type[T], **options: Any
    ) -> T: ...

    @overload
    async def acall(
        self, given: Any, /, *, history: History = ..., tools: Tools = ..., returns: Any, **options: Any
    ) -> Any: ...

    async def acall(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> Any:
        """Like calling the module, for `await`."""
        reply = await self.areply(given, history=history, tools=tools, returns=returns, **options)
        return _answer(reply, returns)

    async def areply(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> ChatReply:
        """Like `reply`, for `await`."""
        home = asyncio.get_running_loop()
        asked = _Asked(given, history, tools, options, returns, home=home)
        return await asyncio.wrap_future(submit(self._ask_in_time(asked)))

    def astream(
        self, given: Any, /, *, history: History = None, tools: Tools = None, returns: Any = None, **options: Any
    ) -> AsyncStream:
        """Like `stream`, for `async for`."""
        return AsyncStream(*self._prepare_stream(_Asked(given, history, tools, options, returns)))

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
        return result_of(self._batch(inputs, concurrency, on_progress, return_errors, options, home=None))

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
        work = self._batch(inputs, concurrency, on_progress, return_errors, options, home=home)
        return await asyncio.wrap_future(submit(work))

    async def _batch(
        self,
        inputs: Iterable[Any],
        concurrency: int,
        on_progress: Callable[[int, int], object] | None,
        return_errors: bool,
        options: Mapping[str, Any],
        *,
        home: asyncio.AbstractEventLoop | None,
    ) -> list[Any]:
        rest = dict(options)
        history, tools, returns = (rest.pop(name, None) for name in ('history', 'tools', 'returns'))
        self._read_options(rest)  # fail once rather than for each input

        async def ask(given: Any) -> Any:
            return _answer(await self._ask_in_time(_Asked(given, history, tools, rest, returns, home=home)), returns)

        return await answer_all(
            ask, inputs, concurrency=concurrency, on_progress=on_progress, return_errors=return_errors
        )

    def _prepare_stream(
        self, asked: _Asked
    ) -> tuple[
        Callable[[OnPiece, asyncio.AbstractEventLoop | None], Coroutine[Any, Any, ChatReply]], AnswerType | None
    ]:
        self._connection()  # fail here rather than at the first piece
        self._read_options(asked.options)
        answer = None if asked.returns is None else AnswerType.of(asked.returns)
        return lambda on_piece, home: self._ask_in_time(replace(asked, on_piece=on_piece, home=home)), answer

    def _read_options(self, options: Mapping[str, Any]) -> CallOptions:
        return read_call_options({**self._defaults, **options}, served=self._served)

    async def _ask_in_time(self, asked: _Asked) -> ChatReply:
        """The reply of this module, or of its fallbacks. All options are read before the first request."""
        if asked.returns is not None and asked.options.get('response_format') is not None:
            raise ModuleError('returns and response_format both say what the answer is: give one of them.')
        conversation = Conversation(
            self._find_answerers(asked.options),
            self._failover,
            answer=None if asked.returns is None else AnswerType.of(asked.returns),
            toolbox=self._toolbox,
            on_piece=asked.on_piece,
            home=asked.home,
            on_event=self._on_event,
            budget=self._budget,
        )
        call = ModuleCall(asked.given, asked.history, self._describe_tools(asked.tools) or None)
        return await conversation.answer_in_time(self._prompter, call)

    def _find_answerers(self, options: Mapping[str, Any]) -> list[Answerer]:
        """This module's model and those of its fallbacks, each with the options that concern it."""
        answerers = [Answerer(self._name, self._connection(), self._read_options(options))]
        for module in self._fallbacks:
            try:
                line = module._connection()
                shared = options if line.server == answerers[0].line.server else _leave_out_addressed(options)
                answerers.append(Answerer(module._name, line, module._read_options(shared)))
            except ModuleError as error:
                raise type(error)(f'the fallback {module!r}: {error}') from None
        return [
            answerer
            if answerer is answerers[-1] or answerer.options.retries is not None
            else replace(answerer, options=replace(answerer.options, retries=self._failover.retries))
            for answerer in answerers
        ]

    def _describe_tools(self, tools: Tools) -> list[Mapping[str, Any]]:
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

    def __copy__(self: M) -> M:
        """A copy that shares the model, as those of `prompt` and `with_tools` do."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied


def _leave_out_addressed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call without those meant for one server: they may carry its keys."""
    return {name: value for name, value in options.items() if name not in ('headers', 'extra_body')}


def _answer(reply: ChatReply, returns: Any) -> Any:
    if reply.outcome != 'ok':
        raise NoAnswerError(reply)
    if reply.tool_calls and (returns is not None or not reply.text):
        raise ToolCallsError(reply)
    return reply.text if returns is None else reply.value
