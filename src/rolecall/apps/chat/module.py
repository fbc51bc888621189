"""The base of all chat modules: a prompter, a model, and one way to call both.

A module is a value: `prompt` and `with_tools` give new modules that share the model. Nothing of a call stays behind.
"""

from __future__ import annotations

import asyncio
import copy
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

from rolecall.apps.chat.adapters import ModuleCall
from rolecall.apps.chat.answerer import ON_ERROR, Answerer, Connection, FailoverCondition, FailoverPolicy
from rolecall.apps.chat.background import Startable, result_of, submit
from rolecall.apps.chat.call_options import BatchOptions, CallSettings, History, Tools, read_call_options
from rolecall.apps.chat.calls import ModuleCalls, Question
from rolecall.apps.chat.chat_reply import ChatReply
from rolecall.apps.chat.conversation import Conversation, apply_hooks
from rolecall.apps.chat.events import OnEvent
from rolecall.apps.chat.module_errors import ModuleError, NoSuchMethodError
from rolecall.apps.chat.structured import AnswerType
from rolecall.apps.chat.toolbox import TOOL_SECONDS, Toolbox
from rolecall.apps.chat.tools import Approve, Tool, tool_schema
from rolecall.apps.chat.trimming import HistoryBudget, count_exactly
from rolecall.checking import explain_arguments
from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.builtin import ChatPrompter, EmptyPrompter
from rolecall.errors import close_match

M = TypeVar('M', bound='ChatModule')


@explain_arguments(ModuleError)
class ChatModule(ModuleCalls, Startable):
    """The base of `OnlineChatModule` and `TrainableModule`."""

    _served = True
    """Whether the model is behind a server, which takes headers and further fields of a body."""

    def _set_up(self, defaults: Mapping[str, Any]) -> None:
        """Set up what all modules have. `defaults` are options of every call."""
        self._defaults = dict(defaults)
        self._read_options({})  # fail now rather than at the first call
        self._fallbacks: tuple[ChatModule, ...] = ()
        self._failover = FailoverPolicy()
        self._on_event: OnEvent | None = None
        self._budget: HistoryBudget | None = None
        self._prompter: Prompter = EmptyPrompter()
        self._toolbox: Toolbox | None = None

    def _connection(self) -> Connection:
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
        wrong = [repr(module)[:60] for module in modules if not isinstance(module, ChatModule)]
        if wrong or not modules:
            raise ModuleError(f'fallbacks must be modules, one argument each, got {(*wrong, "none")[0]}.')
        policy = FailoverPolicy(when, retries, first_token)
        warn_if_dropped('with_fallbacks')
        flat = [each for module in modules for each in (module, *module._fallbacks)]
        return self._with(_fallbacks=(*self._fallbacks, *flat), _failover=policy)

    def with_token_budget(self: M, tokens: int | None = None, *, count: Callable[[str], int] | None = None) -> M:
        """A copy that drops the oldest turns of a history until the whole prompt has at most this many tokens.

        Without `tokens`, the budget is the model's context without room for the answer. Tokens are counted by the
        model's tokenizer, or by `count`, a function of a text. `reply.dropped` has what was not sent.
        """
        budget = HistoryBudget(tokens, count)
        warn_if_dropped('with_token_budget')
        return self._with(_budget=budget)

    def count_tokens(self, user: Any, /, *, history: History = None, tools: Tools = None) -> int | None:
        """The number of tokens of the prompt that a call would send; None if it is not known.

        They are counted by the model's tokenizer, or by the vendor's counting endpoint (Anthropic's).
        """
        return result_of(self._count(user, history, tools))

    async def acount_tokens(self, user: Any, /, *, history: History = None, tools: Tools = None) -> int | None:
        """Like `count_tokens`, for `await`."""
        return await asyncio.wrap_future(submit(self._count(user, history, tools)))

    async def _count(self, user: Any, history: History, tools: Tools) -> int | None:
        line, offered = self._connection(), self._describe_tools(tools)
        prompter, call = await apply_hooks(self._prompter, ModuleCall(user, history, offered or None))
        request, extra, _ = line.adapter.word(prompter, call, ())
        sampling = self._read_options({}).sampling
        return await count_exactly(line.model, request, replace(sampling, extra={**sampling.extra, **extra}))

    def watch(self: M, on_event: OnEvent | None) -> M:
        """A copy that calls `on_event` with every `Event`: requests, replies, retries, tool calls, usage, …"""
        if on_event is not None and not callable(on_event):
            raise ModuleError(f'on_event must be a function of an Event, or None, got {on_event!r:.60}.')
        warn_if_dropped('watch')
        return self._with(_on_event=on_event)

    def _check_options(self, options: Mapping[str, Any]) -> None:
        self._find_answerers(options)

    def _read_options(self, options: Mapping[str, Any]) -> CallSettings:
        return read_call_options({**self._defaults, **options}, served=self._served)

    async def _ask(self, question: Question) -> ChatReply[Any]:
        """The reply of this module, or of its fallbacks. All options are read before the first request."""
        if question.returns is not None and question.options.get('response_format') is not None:
            raise ModuleError('returns and response_format both say what the answer is: give one of them.')
        conversation = Conversation(
            self._find_answerers(question.options),
            self._failover,
            answer=None if question.returns is None else AnswerType.of(question.returns),
            toolbox=self._toolbox,
            on_piece=question.on_piece,
            home=question.home,
            on_event=self._on_event,
            budget=self._budget,
        )
        call = ModuleCall(question.input, question.history, self._describe_tools(question.tools) or None)
        return await conversation.answer_in_time(self._prompter, call)

    def _find_answerers(self, options: Mapping[str, Any]) -> list[Answerer]:
        """This module's model and those of its fallbacks, each with the options that concern it."""
        answerers = [Answerer(self._name, self._connection(), self._read_options(options))]
        for module in self._fallbacks:
            try:
                line = module._connection()
                own = () if line.server == answerers[0].line.server else ('headers', 'extra_body')  # may carry keys
                shared = {name: value for name, value in options.items() if name not in own}
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith('_'):
                raise AttributeError(name)
            meant = close_match(name, [method for method in dir(type(self)) if method[0] != '_'])
            hint = f" Did you mean '{meant}'?" if meant else ''
            if name == 'tune':
                hint = " Models on this machine are tuned: TrainableModule('owner/model').tune(rows, output)."
            raise NoSuchMethodError(f'{type(self).__name__} has no {name!r}.{hint}')

        def __setattr__(self, name: str, value: Any) -> None:
            if name in BatchOptions.__annotations__:
                way = f'{type(self).__name__}(…, {name}={value!r:.60}) or module(input, {name}={value!r:.60})'
                raise ModuleError(f'module.{name} = … has no effect. Pass options when you build or call it: {way}.')
            object.__setattr__(self, name, value)

    def __copy__(self: M) -> M:
        """A copy that shares the model, as those of `prompt` and `with_tools` do."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied


def warn_if_dropped(method: str) -> None:
    """Warn if the caller's caller drops the result of `method`. Knows CPython's bytecode only."""
    frame = sys._getframe(3)
    if sys.implementation.name == 'cpython' and _pops_result(frame.f_code, frame.f_lasti):
        what = f'{method}() returns a new module, which is dropped here: write module = module.{method}(…).'
        warnings.warn(what, UserWarning, stacklevel=4)


@lru_cache(maxsize=256)
def _pops_result(code: CodeType, at: int) -> bool:
    """Whether the step after the call at this offset throws its result away."""
    import dis

    following = (step.opname for step in dis.get_instructions(code) if step.offset > at and step.opname != 'CACHE')
    return next(following, '') == 'POP_TOP'
