"""Calls as lines of a file, with the origin of each character sent. `rolecall web --watch` shows it as it grows."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from rolecall.apps.chat.events import Event, Retry, Spent, ToolFailure
from rolecall.core.render.spans import Span
from rolecall.errors import describe_error
from rolecall.models.protocol import Reply
from rolecall.redaction import Redactor, environment_secrets


class CallLog:
    """Writes every event of a module's calls to a file, one JSON object a line. Keys of the environment are hidden.

    module = module.watch(CallLog('calls.jsonl'))
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._redactor = Redactor(environment_secrets())
        self._writing = threading.Lock()

    def __call__(self, event: Event) -> None:
        line = {'call': event.call, 'at': time.time(), 'kind': event.kind, **_describe(event)}
        text = self._redactor.redact(json.dumps(line, ensure_ascii=False, default=str))
        with self._writing, self._path.open('a', encoding='utf-8', errors='backslashreplace') as file:
            file.write(f'{text}\n')


def _describe(event: Event) -> dict[str, Any]:
    """What a line says beside its kind."""
    data = event.data
    if event.trace is not None:
        trace = event.trace()
        return {
            'model': event.model,
            'spans': [_describe_span(span, trace.request) for span in trace.spans if span.text],
        }
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
    return {'text': str(data)}


def _describe_span(span: Span, request: Any) -> dict[str, Any]:
    role = '' if span.message is None else request[span.message]['role']
    return {
        'text': span.text,
        'message': span.message,
        'role': role,
        'kind': span.origin.kind,
        'name': span.origin.name,
    }
