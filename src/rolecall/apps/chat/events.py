"""What happens in a call: for who watches it (`module.watch`), for the logger `rolecall`, and as lines of a file."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rolecall.apps.chat.module_errors import ModuleError
from rolecall.checking import explain_arguments
from rolecall.core.program.compiled import Trace
from rolecall.core.prompters.vendors import calls_of
from rolecall.errors import describe_error
from rolecall.models.protocol import ModelError, Reply, Usage
from rolecall.redaction import Redactor, environment_secrets
from rolecall.strings import count_noun

_LOGGER = logging.getLogger('rolecall')
_LEVELS = {'tool_failure': logging.WARNING, 'fallback': logging.WARNING, 'retry': logging.INFO, 'trim': logging.INFO}
"""Everything else is logged as DEBUG."""
_SHOWN, _LONGEST = 200, 2000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a call.

    | kind           | data                                                              |
    |----------------|-------------------------------------------------------------------|
    | `trim`         | the turns of the history that were dropped to fit a token budget  |
    | `request`      | the prompt, as messages or as text                                |
    | `retry`        | `Retry`: the error, and the seconds until the request is repeated |
    | `reply`        | the reply, with its usage                                         |
    | `tool_call`    | the call                                                          |
    | `tool_failure` | `ToolFailure`: the tool's name, the call, and what was raised     |
    | `tool_result`  | the message with the result                                       |
    | `bad_answer`   | why the answer is asked for again                                 |
    | `fallback`     | why the next model is asked                                       |
    | `usage`        | `Spent`: the usage of the whole call, and what it cost            |
    | `failure`      | the exception that the call ends with, instead of `usage`         |
    """

    kind: str
    data: Any
    call: str = ''
    """The id of the call: the same for all its events, whichever models are asked."""
    model: str = ''
    """The model that is asked."""
    trace: Callable[[], Trace] | None = field(default=None, repr=False, compare=False)
    """Of a request, a function that gives the origin of each of its characters."""


OnEvent = Callable[[Event], object]


class Retry(NamedTuple):
    """A request that failed for the moment."""

    error: ModelError
    seconds: float


class ToolFailure(NamedTuple):
    """A tool call without a result. The model is told the error, so that it can correct the call."""

    name: str
    call: Mapping[str, Any]
    error: BaseException


class Spent(NamedTuple):
    """What a call took."""

    usage: Usage
    cost: float | None
    """US dollars by the price of the model; None if that is not known."""


def report(on_event: OnEvent | None, event: Event) -> None:
    """Log an event and pass it on. What a watcher raises is logged and breaks nothing."""
    kind, data = event.kind, event.data
    level = _LEVELS.get(kind, logging.DEBUG)
    if _LOGGER.isEnabledFor(level):
        raised = data.error if isinstance(data, ToolFailure) and not isinstance(data.error, ValueError) else None
        _LOGGER.log(level, '%s: %s', kind.replace('_', ' '), _describe(kind, data), exc_info=raised)
    if on_event is None:
        return
    try:
        on_event(event)
    except Exception as error:
        _LOGGER.warning('on_event raised %s; the call goes on.', describe_error(error))


def _describe(kind: str, data: Any) -> str:
    """An event in one line, without what users wrote: sizes, names and numbers."""
    if isinstance(data, Retry):
        return f'in {data.seconds:.1f} s, because {data.error}'
    if isinstance(data, ToolFailure):
        return f'{data.name:.64} failed, and the model is told so: {describe_error(data.error)}'
    if isinstance(data, Spent):
        return _describe_spent(data)
    if isinstance(data, Reply):
        calls = f', {count_noun(len(data.tool_calls), "tool call")}' if data.tool_calls else ''
        return f'{data.outcome}, {count_noun(len(data.text), "character")}{calls}'
    if kind == 'tool_call':
        return f'{data["function"]["name"]}({str(data["function"].get("arguments"))[:_SHOWN]})'
    if kind == 'tool_result':
        return f'{data["name"]} returned {count_noun(len(data["content"]), "character")}'
    if kind == 'trim':
        return f'dropped {count_noun(len(data), "message")} from the start of the history'
    if kind == 'request':
        return count_noun(len(data), 'character' if isinstance(data, str) else 'message')
    return (describe_error(data) if isinstance(data, BaseException) else str(data))[:_LONGEST]


def _describe_spent(spent: Spent) -> str:
    usage = spent.usage
    amounts: Sequence[tuple[str, int | None]] = (
        ('input', usage.input_tokens),
        ('cached', usage.cached_tokens),
        ('written to the cache', usage.cache_written_tokens),
        ('output', usage.output_tokens),
        ('reasoning', usage.reasoning_tokens),
    )
    parts = [f'{amount} {name}' for name, amount in amounts if amount is not None]
    price = 'price not known' if spent.cost is None else f'${spent.cost:.6f}'
    return f'{", ".join(parts) or "not reported"} tokens, {price}'


@explain_arguments(ModuleError, '__init__')
class CallLog:
    """Writes every event of a module's calls to a file, one JSON object a line. Keys are hidden.

    module = module.watch(CallLog('calls.jsonl'))
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, (str, Path)) or Path(path).is_dir():
            raise ModuleError(f"CallLog needs a file such as 'calls.jsonl', got {path!r:.60}.")
        self._path = Path(path)
        self._writing = threading.Lock()

    def __call__(self, event: Event) -> None:
        line = {'call': event.call, 'at': time.time(), 'kind': event.kind, **_describe_event(event)}
        text = Redactor(environment_secrets()).redact(json.dumps(line, ensure_ascii=False, default=str))
        with self._writing, self._path.open('a', encoding='utf-8', errors='backslashreplace') as file:
            file.write(f'{text}\n')


def _describe_event(event: Event) -> dict[str, Any]:
    """What a line says beside its kind."""
    data = event.data
    if event.trace is not None:
        trace: Any = event.trace()
        messages = () if isinstance(trace.request, str) else trace.request
        spans = [
            {
                'text': span.text,
                'message': span.message,
                'role': '' if span.message is None else messages[span.message]['role'],
                'kind': span.origin.kind,
                'name': span.origin.name,
            }
            for span in trace.spans
            if span.text
        ]
        calls = [  # they are no text, so no span has them
            {'message': number, 'role': message['role'], 'name': name, 'arguments': arguments}
            for number, message in enumerate(messages)
            for name, arguments in calls_of(message)
        ]
        return {'model': event.model, 'spans': spans, 'calls': calls}
    if isinstance(data, Reply):
        calls = [call['function'] for call in data.tool_calls]
        return {'text': data.text, 'thinking': data.reasoning, 'outcome': data.outcome, 'calls': calls}
    if isinstance(data, Spent):
        return {'input': data.usage.input_tokens, 'output': data.usage.output_tokens, 'cost': data.cost}
    if isinstance(data, Retry):
        return {'text': str(data.error), 'seconds': data.seconds}
    if isinstance(data, ToolFailure):
        return {'name': data.name, 'text': describe_error(data.error)}
    if event.kind == 'tool_call':
        return {'name': data['function']['name'], 'text': json.dumps(data['function'].get('arguments'), default=str)}
    if event.kind == 'tool_result':
        return {'name': data['name'], 'text': data['content']}
    return {'text': describe_error(data) if isinstance(data, BaseException) else str(data)}
