"""One conversation with a model: requests, retries and tool rounds, through the same client as runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from rolecall.chat.adapters import Adapter, ModuleCall
from rolecall.chat.background import run_in_thread
from rolecall.chat.call_options import CallOptions
from rolecall.chat.chat_reply import ChatReply, Message, as_message, read_user_messages, sum_usage
from rolecall.chat.hints import BadValueError
from rolecall.chat.module_errors import BadAnswerError, ModuleError, ToolRoundsError, describe_error
from rolecall.chat.streaming import OnText, StreamedCall
from rolecall.chat.structured import AnswerType
from rolecall.chat.tools import Toolbox
from rolecall.errors import PrompterError, RolecallError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Usage
from rolecall.prompters.base_prompter import Hook, Prompter
from rolecall.prompts.frozen import copy_data
from rolecall.render.spans import Request
from rolecall.runs.client.limiter import Limits
from rolecall.runs.client.model_client import ConcurrentClient, ModelCall, ModelUnavailableError, RetryPolicy

__all__ = ['Connection', 'Event', 'OnEvent', 'converse']

_ONE = Limits(start=1, most=1)
_ASKED_AGAIN = 2
"""How often a model is asked again whose answer is not of the type asked for."""
_LOGGER = logging.getLogger('rolecall')


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a call, for whoever watches it.

    `kind`: `request` (data: the prompt), `reply` (the reply, with its usage), `tool_call` and `tool_result` (the
    messages), `bad_answer` (why it is asked for again).
    """

    kind: str
    data: Any


OnEvent = Callable[[Event], object]


@dataclass(eq=False)
class Connection:
    """One model with its adapter and retry policy.

    It knows the conversations under way, so that closing it ends them. All of it happens on one event loop.
    """

    model: Model
    adapter: Adapter
    retry_policy: RetryPolicy
    _under_way: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)
    _dropped: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    async def hold(self, conversation: Awaitable[ChatReply]) -> ChatReply:
        """Await a conversation. It fails with ModuleError if the connection is closed meanwhile."""
        task = asyncio.current_task()
        if task is None:
            return await conversation
        self._under_way.add(task)
        try:
            return await conversation
        except asyncio.CancelledError:
            if task not in self._dropped:
                raise
            raise ModuleError('the module was stopped before the answer was complete.') from None
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


async def converse(
    line: Connection,
    prompter: Prompter,
    asked: ModuleCall,
    options: CallOptions,
    *,
    answer: AnswerType | None = None,
    toolbox: Toolbox | None = None,
    tell: OnText | None = None,
    home: asyncio.AbstractEventLoop | None = None,
    on_event: OnEvent | None = None,
) -> ChatReply:
    """The reply to a call. With a toolbox, run the tools the model calls until it answers."""
    if options.timeout is None:
        return await _Conversation(line, options, answer, toolbox, tell, home, on_event).hold(prompter, asked)
    try:
        conversation = _Conversation(line, options, answer, toolbox, tell, home, on_event)
        return await asyncio.wait_for(conversation.hold(prompter, asked), options.timeout)
    except asyncio.TimeoutError:
        raise ModelError(
            f'no answer within {options.timeout:g} s (timeout), retries included.', transient=True
        ) from None


@dataclass(slots=True, eq=False)
class _Conversation:
    """One call on its way: the messages after the prompt, and what they cost."""

    line: Connection
    options: CallOptions
    answer: AnswerType | None
    toolbox: Toolbox | None
    tell: OnText | None
    home: asyncio.AbstractEventLoop | None
    on_event: OnEvent | None
    said: list[Message] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    first: Request | None = None

    async def hold(self, prompter: Prompter, asked: ModuleCall) -> ChatReply:
        earlier = copy_data(asked.history) if isinstance(asked.history, (list, tuple)) else []
        prompter, asked = await apply_hooks(prompter, asked)
        rounds = self.toolbox.max_rounds if self.toolbox is not None else 0
        if self.toolbox is not None:
            self.line.adapter.check_tool_support(prompter)
        used, tries = 0, 0
        while True:
            reply = await self._ask(prompter, asked, len(earlier))
            if self.toolbox is not None and reply.tool_calls:
                self.said.append(as_message(reply))
                if used == rounds:
                    raise ToolRoundsError(rounds, self.said)
                used += 1
                await self._use_tools(self.toolbox, reply)
                continue
            value, complaint = self._read_value(reply, tries)
            if complaint is None:
                before = (*earlier, *read_user_messages(prompter, asked.input))
                return ChatReply.of(
                    reply,
                    prompt=self.first if self.first is not None else '',
                    said=self.said,
                    before=before,
                    usage=sum_usage(self.usages),
                    value=value,
                )
            tries += 1
            self.said += [as_message(reply), {'role': 'user', 'content': complaint}]

    async def _ask(self, prompter: Prompter, asked: ModuleCall, earlier: int) -> Reply:
        adapter, sampling = self.line.adapter, self.options.sampling
        request, extra, reads = adapter.word(prompter, asked, self.said)
        self.first = reads if self.first is None else self.first
        if self.answer is not None and self.line.model.capabilities.json_schema:
            extra = {**extra, 'json_schema': self.answer.schema}
        # If tool calls are part of the text, the answer is only known once the text is complete.
        offers = bool(asked.tools or prompter.tools)
        live = self.tell if not (adapter.writes_calls and offers) else None
        self._report('request', reads)
        drawn = replace(sampling, extra={**sampling.extra, **extra})
        reply = adapter.read_reply(await self._send(request, drawn, live), prompter, asked)
        self._report('reply', reply)
        if self.tell is not None and live is None and reply.text:
            self.tell(reply.text)
        self.usages.append(reply.usage)
        return _number_calls(reply, earlier + len(self.said))

    async def _use_tools(self, toolbox: Toolbox, reply: Reply) -> None:
        for call in reply.tool_calls:
            self._report('tool_call', call)
        results = await toolbox.results(reply.tool_calls, home=self.home)
        for result in results:
            self._report('tool_result', result)
        self.said += results

    def _read_value(self, reply: Reply, tries: int) -> tuple[Any, str | None]:
        """The value of an answer, or what the model is told because there is none."""
        if self.answer is None or reply.outcome != 'ok':
            return None, None
        try:
            return self.answer.read(reply.text), None
        except BadValueError as error:
            self._report('bad_answer', str(error))
            if tries == _ASKED_AGAIN:
                raise BadAnswerError(reply, str(error), tries + 1) from None
            return None, self.answer.complaint(error)

    def _report(self, kind: str, data: Any) -> None:
        if self.on_event is None:
            return
        try:
            self.on_event(Event(kind, data))
        except Exception as error:  # whoever watches a call must not break it
            _LOGGER.warning('on_event raised %s; the call goes on.', describe_error(error))

    async def _send(self, request: Request, sampling: Sampling, tell: OnText | None) -> Reply:
        """Send one request through a run's client. Errors that would end a run only fail this call."""
        line, retries = self.line, self.options.retries
        model = line.model if tell is None else cast(Model, StreamedCall(line.model, tell))
        policy = line.retry_policy
        if retries is not None:
            policy = replace(policy, retries=retries, when_busy=2 * retries)
        client = ConcurrentClient(model, _ONE, policy)
        try:
            reply = await client.send(ModelCall('generate', request, sampling))
        except ModelUnavailableError as error:
            cause = error.__cause__
            if isinstance(cause, ModelError):
                raise ModelError(str(error), transient=cause.transient, status=cause.status) from cause
            raise cause if cause is not None else error from None
        return cast(Reply, reply)


def _number_calls(reply: Reply, start: int) -> Reply:
    """The reply with a unique id for each tool call, so that results can refer to it."""
    # The strictest chat templates require nine letters and digits.
    calls = [{**call, 'id': call.get('id') or f'call{start:03}{i:02}'} for i, call in enumerate(reply.tool_calls)]
    return replace(reply, tool_calls=tuple(calls))


async def apply_hooks(prompter: Prompter, asked: ModuleCall) -> tuple[Prompter, ModuleCall]:
    """The prompter without its hooks, and the call as the hooks changed it."""
    if not prompter.hooks:
        return prompter, asked
    return _without_hooks(prompter), await run_in_thread(lambda: _run_hooks(asked, prompter.hooks))


@lru_cache(maxsize=32)
def _without_hooks(prompter: Prompter) -> Prompter:
    return replace(prompter, hooks=())


def _run_hooks(asked: ModuleCall, hooks: Sequence[Hook]) -> ModuleCall:
    given: tuple[Any, ...] = (asked.input, asked.history, asked.tools, None)
    for hook in hooks:
        name = getattr(hook, '__qualname__', type(hook).__qualname__)
        try:
            given = hook(*given)
        except RolecallError:
            raise
        except BaseException as error:  # including sys.exit(): it must fail this call only
            raise PrompterError(f'the pre_hook {name} raised {describe_error(error)}.') from error
        if not isinstance(given, tuple) or len(given) != 4:
            raise PrompterError(f'the pre_hook {name} must return (input, history, tools, label), got {given!r:.60}.')
    return ModuleCall(*given[:3])
