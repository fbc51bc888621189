"""A log of calls in the form the page draws: events as they are appended, requests as blocks of spans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from rolecall.checking import is_whole
from rolecall.core.prompts.pieces import Kind, Origin
from rolecall.core.render.spans import Span
from rolecall.errors import ConfigError, Problem
from rolecall.ui.web.page_json import span_as_json

_MOST_BYTES = 2_000_000
"""Read for one answer; the page asks for the rest."""


class CallDocument:
    """One log. It may not be there yet: the application may start later."""

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            raise ConfigError(Problem(str(path), 'is a folder.', "Give the file of CallLog('calls.jsonl')."))
        self.path = path

    def read(self, after: int) -> dict[str, Any]:
        """The events behind a place in the file, and the place behind them. A line that is being written waits."""
        if not self.path.exists():
            return {'events': [], 'after': 0}
        with self.path.open('rb') as file:
            start = after if 0 <= after <= self.path.stat().st_size else 0
            file.seek(start)
            part = file.read(_MOST_BYTES)
        whole = part[: part.rfind(b'\n') + 1]
        events = [event for line in whole.splitlines() if (event := _read_event(line)) is not None]
        return {'events': events, 'after': start + len(whole)}


def _read_event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or 'kind' not in event:
        return None
    spans = event.pop('spans', None)
    if isinstance(spans, list):
        calls = event.pop('calls', None)
        parts = [part for part in (*spans, *(calls if isinstance(calls, list) else ())) if isinstance(part, Mapping)]
        event['blocks'] = _make_blocks(parts)
        fields = {part.get('name'): str(part.get('text', '')) for part in parts if part.get('kind') == 'field'}
        event['asked'] = fields.get('input') or next(iter(fields.values()), '')
    return event


def _make_blocks(parts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The spans of each message, or of the whole text. A message that calls tools says so in its heading."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    blocks: dict[Any, dict[str, Any]] = {}
    for part in parts:
        role, number = str(part.get('role', '')), part.get('message')
        block = blocks.setdefault(str(number), {'heading': role, 'extra': '', 'spans': [], 'at': number})
        if 'arguments' in part:
            block['heading'] += f' · {part.get("name")}({part["arguments"]})'
        else:
            kind = next((kind for kind in kinds if kind == part.get('kind')), kinds[0])
            span = Span(str(part.get('text', '')), Origin(kind, str(part.get('name', ''))))
            block['spans'].append(span_as_json(span))
    ordered = sorted(blocks.values(), key=lambda block: block['at'] if is_whole(block['at']) else -1)
    return [{name: value for name, value in block.items() if name != 'at'} for block in ordered]
