"""One conversation with a model: requests, retries and tool rounds, through the same client as runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from rolecall.chat.adapters import Adapter, ModuleCall
from rolecall.chat.background import run_in_thread
from rolecall.chat.chat_reply import ChatReply, Message, as_message, read_user_messages, sum_usage
from rolecall.chat.module_errors import ModuleError, ToolRoundsError, describe_error
from rolecall.chat.streaming import OnText, StreamedCall
from rolecall.chat.tools import Toolbox
from rolecall.checking import OptionReader
from rolecall.errors import PrompterError, RolecallError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling
from rolecall.prompters.base_prompter import Hook, Prompter
from rolecall.prompts.frozen import copy_data
from rolecall.render.spans import Request
from rolecall.runs.client.limiter import Limits
from rolecall.runs.client.model_client import ConcurrentClient, ModelCall, ModelUnavailableError, RetryPolicy

__all__ = ['Connection', 'converse', 'read_sampling']

_LENGTHS = ('max_out_len', 'max_tokens', 'max_completion_tokens', 'max_new_tokens')
_OWN = ('min_out_len', 'temperature', 'top_p', 'top_k', 'seed')
_KNOWN = (
    *_LENGTHS,
    *_OWN,
    'min_tokens',
    'min_new_tokens',
    'stop',
    'history',
    'tools',
    'tool_choice',
    'response_format',
)
"""Known parameters, to detect misspellings."""
_ONE = Limits(start=1, most=1)


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


def read_sampling(given: Mapping[str, Any]) -> Sampling:
    """Sampling parameters by their usual names. Unknown ones are passed on unchanged.

    >>> read_sampling({'max_tokens': 9, 'stop': 'END', 'presence_penalty': 1}).as_dict()
    {'max_out_len': 9, 'stop': ['END'], 'presence_penalty': 1}
    """
    rest = {name: value for name, value in given.items() if value is not None}
    lengths = [rest.pop(name) for name in _LENGTHS if name in rest]
    for length in lengths:
        if not isinstance(length, int) or isinstance(length, bool):
            raise ModuleError(f'expected the answer length as a whole number of tokens, got {length!r:.60}.')
    if len(set(lengths)) > 1:
        raise ModuleError(f'the answer length is given twice: {" and ".join(map(str, sorted(lengths)))}.')
    stop = rest.pop('stop', ())
    if not isinstance(stop, str) and not (isinstance(stop, (list, tuple)) and all(isinstance(s, str) for s in stop)):
        raise ModuleError(f'stop must be a string or a list of strings, got {stop!r:.60}.')
    own = {name: rest.pop(name) for name in _OWN if name in rest}
    if rest:
        reader = OptionReader(rest, 'sampling')
        reader.refuse_misspelt(_KNOWN)
        reader.raise_problems()
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(max_out_len=next(iter(lengths), None), stop=stops, extra=rest, **own)


async def converse(
    line: Connection,
    prompter: Prompter,
    asked: ModuleCall,
    sampling: Sampling,
    *,
    toolbox: Toolbox | None = None,
    tell: OnText | None = None,
    home: asyncio.AbstractEventLoop | None = None,
) -> ChatReply:
    """The reply to a call. With a toolbox, run the tools the model calls until it answers."""
    earlier = copy_data(asked.history) if isinstance(asked.history, (list, tuple)) else []
    prompter, asked = await apply_hooks(prompter, asked)
    said: list[Message] = []
    usages = []
    first: Request | None = None
    rounds = toolbox.max_rounds if toolbox is not None else 0
    if toolbox is not None:
        line.adapter.check_tool_support(prompter)
    offers = bool(asked.tools or prompter.tools)
    for left in range(rounds, -1, -1):
        request, extra, reads = line.adapter.word(prompter, asked, said)
        first = reads if first is None else first
        # If tool calls are part of the text, the answer is only known once the text is complete.
        live = tell if not (line.adapter.writes_calls and offers) else None
        drawn = replace(sampling, extra={**sampling.extra, **extra})
        reply = line.adapter.read_reply(await _send_request(line, request, drawn, live), prompter, asked)
        if tell is not None and live is None and reply.text:
            tell(reply.text)
        reply = _number_calls(reply, len(earlier) + len(said))
        usages.append(reply.usage)
        if toolbox is None or not reply.tool_calls:
            before = (*earlier, *read_user_messages(prompter, asked.input))
            return ChatReply.of(reply, prompt=first, said=said, before=before, usage=sum_usage(usages))
        said.append(as_message(reply))
        if left:
            said += await toolbox.results(reply.tool_calls, home=home)
    raise ToolRoundsError(rounds, said)


def _number_calls(reply: Reply, start: int) -> Reply:
    """The reply with a unique id for each tool call, so that results can refer to it."""
    # The strictest chat templates require nine letters and digits.
    calls = [{**call, 'id': call.get('id') or f'call{start:03}{i:02}'} for i, call in enumerate(reply.tool_calls)]
    return replace(reply, tool_calls=tuple(calls))


async def _send_request(line: Connection, request: Request, sampling: Sampling, tell: OnText | None) -> Reply:
    """Send one request through a run's client. Errors that would end a run only fail this call."""
    model = line.model if tell is None else cast(Model, StreamedCall(line.model, tell))
    client = ConcurrentClient(model, _ONE, line.retry_policy)
    try:
        reply = await client.send(ModelCall('generate', request, sampling))
    except ModelUnavailableError as error:
        cause = error.__cause__
        if isinstance(cause, ModelError):
            raise ModelError(str(error), transient=cause.transient, status=cause.status) from cause
        raise cause if cause is not None else error from None
    return cast(Reply, reply)


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
