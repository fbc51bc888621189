"""Running the tools that a model calls: approved, in time, some at a time. Errors go back to the model as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rolecall.apps.chat.background import run_user_code
from rolecall.apps.chat.hints import BadValueError, plain_value
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.tools import Approve, Tool, ToolContext, check_approve, check_seconds
from rolecall.checking import is_whole
from rolecall.core.prompts.pieces import text_of
from rolecall.errors import RenderError, describe_error, did_you_mean
from rolecall.models.http.body import check_depth, parse_json
from rolecall.models.protocol import Reply
from rolecall.runs.telemetry import traced
from rolecall.strings import end_sentence

TOOL_SECONDS = 120.0
"""Seconds that one call of a tool may take, unless `with_tools` is given others."""
_AT_ONCE, _MOST_CALLS = 16, 128
"""Calls of one reply that run at the same time, and at all."""
_FIRST_PAUSE = 0.2
"""Seconds before a function that raised is called again; each further pause is twice as long."""


class NotApprovedError(BadValueError):
    """A call that the application did not approve. The message is sent to the model."""


class ToolResult(NamedTuple):
    """The text that goes to the model, and what was raised if it is an error."""

    text: str
    error: BaseException | None = None


INTERRUPTED = ToolResult('Error: the call was interrupted before the tool returned; it may have taken effect.')


_TOO_MANY = f'too many calls in one reply; at most {_MOST_CALLS} are run'
_CUT = 'the answer reached its length limit (max_tokens), so this call may be incomplete and was not run'


async def _refuse_call(why: str) -> ToolResult:
    return _fail(BadValueError(why))


class Toolbox:
    """The functions a module can run for its model."""

    def __init__(
        self,
        functions: Sequence[Callable[..., Any] | Tool],
        *,
        max_rounds: int,
        timeout: float | None = TOOL_SECONDS,
        approve: Approve | None = None,
    ) -> None:
        if isinstance(functions, (str, Mapping)) or not isinstance(functions, Sequence):
            raise ModuleError(f'tools must be a list of Python functions, got {functions!r:.60}.')
        if not is_whole(max_rounds, least=1):
            raise ModuleError(f'max_rounds must be a whole number of at least 1, got {max_rounds!r:.60}.')
        check_seconds(timeout)
        check_approve(approve)
        self.max_rounds = max_rounds
        self._timeout = timeout
        self._approve = approve
        tools = [function if isinstance(function, Tool) else Tool(function) for function in functions]
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(functions):
            raise ModuleError('two tools have the same name.')

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The schemas sent to the model."""
        return [tool.schema for tool in self._tools.values()]

    def find_tool_with_deps(self) -> str | None:
        """The name of a tool that needs dependencies; None if there is none."""
        return next((tool.name for tool in self._tools.values() if tool.needs_deps), None)

    def start(
        self, reply: Reply, *, home: asyncio.AbstractEventLoop | None, deps: Any = None
    ) -> list[asyncio.Task[ToolResult]]:
        """Run the calls of a reply, some at a time. Async functions run on the loop `home`, others in threads."""
        places, calls = asyncio.Semaphore(_AT_ONCE), reply.tool_calls
        last = len(calls) - 1 if reply.reason == 'length' else None  # its arguments may be missing
        refusals = [
            _CUT if number == last else _TOO_MANY if number >= _MOST_CALLS else '' for number in range(len(calls))
        ]
        return [
            asyncio.ensure_future(_refuse_call(why) if why else self._result(call, home, places, deps))
            for call, why in zip(calls, refusals, strict=True)
        ]

    async def _result(
        self, call: Mapping[str, Any], home: asyncio.AbstractEventLoop | None, places: asyncio.Semaphore, deps: Any
    ) -> ToolResult:
        """The result of a call that fits its tool and is approved."""
        name = str(call['function'].get('name'))
        tool = self._tools.get(name)
        if tool is None:
            return _fail(BadValueError(f'unknown tool {name!r}. {did_you_mean(name, self._tools)}'))
        arguments_text = call['function'].get('arguments')
        if _is_too_deep(arguments_text):
            return _fail(BadValueError('the arguments are nested too deeply'))
        async with places:
            arguments, error = await run_user_code(partial(tool.arguments, arguments_text), home)
            if error is None:
                context = ToolContext(name, arguments, str(call.get('id')), deps)
                error = await self._find_objection(tool, context, home)
            if error is not None:
                return _fail(error)
            named = {'gen_ai.tool.name': name, 'gen_ai.tool.call.id': context.call_id, 'gen_ai.tool.type': 'function'}
            with traced(f'execute_tool {name}', {'gen_ai.operation.name': 'execute_tool', **named}) as noted:
                result = await self._run_in_time(tool, context, home)
                noted['error'] = result.error
                return result

    async def _find_objection(
        self, tool: Tool, context: ToolContext[Any], home: asyncio.AbstractEventLoop | None
    ) -> BaseException | None:
        """Why a call must not run. An approval that fails is none."""
        approve = tool.approve or self._approve
        if approve is None:
            return None
        verdict, error = await run_user_code(partial(approve, context), home)
        if error is not None or verdict is True:
            return error
        why = f': {verdict}' if isinstance(verdict, str) else ''
        return NotApprovedError(f'the call of {tool.name} was not approved{why}')

    async def _run_in_time(
        self, tool: Tool, context: ToolContext[Any], home: asyncio.AbstractEventLoop | None
    ) -> ToolResult:
        """A result. A tool that takes too long goes on in its thread, but is waited for no longer."""
        timeout = self._timeout if tool.timeout is None else tool.timeout
        try:
            return await asyncio.wait_for(_run_with_retries(tool, context, home), timeout)
        except asyncio.TimeoutError:
            why = f'the tool {tool.name:.64} did not return within {timeout:g} s'
            error = TimeoutError(f'{why} (with_tools(…, timeout=…))')
            return ToolResult(f'Error: {why}; it may have taken effect.', error)


async def _run_with_retries(
    tool: Tool, context: ToolContext[Any], home: asyncio.AbstractEventLoop | None
) -> ToolResult:
    hidden = {tool.context_parameter: context} if tool.context_parameter else {}
    work = partial(tool.function, **context.arguments, **hidden)
    value, error = await run_user_code(work, home)
    for attempt in range(tool.retries):
        if not isinstance(error, Exception):
            break
        await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
        value, error = await run_user_code(work, home)
    return _write_result(value) if error is None else _fail(error)


def _is_too_deep(arguments: Any) -> bool:
    try:
        check_depth(parse_json(arguments) if isinstance(arguments, str) else arguments)
    except ValueError as error:
        return 'nested' in str(error)
    return False


def _write_result(value: Any) -> ToolResult:
    try:
        return ToolResult(text_of(plain_value(value)))
    except RenderError:
        wanted = 'a string, a number, a list, a mapping, a dataclass or a pydantic model'
        what = f'the tool returned {value!r:.60} ({type(value).__name__}); expected {wanted}'
        return _fail(BadValueError(what))


def _fail(error: BaseException) -> ToolResult:
    message = end_sentence(str(error)) if isinstance(error, BadValueError) else describe_error(error)
    return ToolResult(f'Error: {message}', error)
