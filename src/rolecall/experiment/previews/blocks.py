"""A preview in blocks: one text, or one block per message or part of a message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.core.render.spans import Span, join_spans
from rolecall.experiment.pairs.pair import Preview


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the request under one heading."""

    heading: str
    spans: tuple[Span, ...]
    extra: str = ''
    """Further keys of a message, as JSON."""


def is_messages(preview: Preview) -> bool:
    """Whether the request consists of messages (or, without a model, of speeches)."""
    if preview.request is None:
        return not isinstance(preview.prompt, str)
    return isinstance(preview.request, list) and all(isinstance(entry, Mapping) for entry in preview.request)


def blocks_of(preview: Preview) -> list[Block]:
    """The blocks of a request, in order. Their spans are all the spans of the preview."""
    if not is_messages(preview):
        return [Block('text' if isinstance(preview.request, str) else 'text and token ids', preview.spans)]
    if preview.request is None:
        return list(_speech_blocks(preview))
    return [block for i, message in enumerate(preview.request) for block in _message_blocks(i, message, preview.spans)]


def _message_blocks(number: int, message: Any, spans: tuple[Span, ...]) -> Iterator[Block]:
    role = str(message.get('role', ''))
    extra = {key: value for key, value in message.items() if key not in ('role', 'content')}
    shown_extra = json.dumps(extra, ensure_ascii=False, default=str) if extra else ''
    own = [span for span in spans if span.message == number]
    parts = {span.part: None for span in own} or {None: None}
    content = message.get('content')
    for at, part in enumerate(parts):
        kind = '' if part is None else f' · {content[part].get("type", "part")}'
        mine = tuple(span for span in own if span.part == part)
        yield Block(f'{role}{kind}', mine, shown_extra if at == 0 else '')


def _speech_blocks(preview: Preview) -> Iterator[Block]:
    """Speeches as the dataset has them. Empty strings between speeches have spans, but no place in the prompt."""
    entries = list(preview.prompt)
    for number in dict.fromkeys(span.message for span in preview.spans):
        own = tuple(span for span in preview.spans if span.message == number)
        entry = entries[0] if entries else ''
        text = ''.join(join_spans(own).values())
        if not text and _words(entry):
            continue
        entries = entries[1:]
        yield Block(str(entry.get('role', '')) if isinstance(entry, Mapping) else 'nobody', own)


def _words(entry: Any) -> Any:
    return entry.get('prompt', entry.get('content')) if isinstance(entry, Mapping) else entry
