"""A preview as one JSON object, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.core.render.spans import Span
from rolecall.experiment.pairs.pair import Preview


def as_json(preview: Preview) -> dict[str, Any]:
    """A preview in plain values (media references are written out by `json_line`)."""
    return {
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'mode': preview.mode,
        'label': preview.label,
        'turn': preview.turn,
        'prompt': preview.prompt,
        'request': preview.request,
        'spans': [span_as_json(span) for span in preview.spans],
        'notes': [{'kind': note.kind, 'message': note.message, 'text': note.text} for note in preview.notes],
        'shots': preview.shots,
        'shots_dropped': preview.shots_dropped,
        'sent': preview.sent,
        'skipped': preview.skipped,
        'fingerprint': None if preview.request is None else fingerprint(preview.request),
    }


def json_line(value: Mapping[str, Any]) -> str:
    """A value on one line, readable in any script.

    >>> json_line({'prompt': '你好\\n'})
    '{"prompt": "你好\\\\n"}'
    """
    return json.dumps(value, ensure_ascii=False, default=_plain)


def ascii_json(value: Mapping[str, Any]) -> str:
    """A value as JSON in ASCII, so that any text survives any transport, lone surrogates included."""
    return json.dumps(value, default=_plain)


def span_as_json(span: Span) -> dict[str, Any]:
    """A span in plain values."""
    origin = span.origin
    return {
        'text': span.text,
        'kind': origin.kind,
        'name': origin.name,
        'shot': origin.shot,
        'role': origin.role,
        'fallback': origin.fallback,
        **({'source': origin.source} if origin.source else {}),
        'message': span.message,
        'part': span.part,
        'token': span.token,
    }


def _plain(value: object) -> object:
    """Media references and other mappings as JSON types; anything else as text."""
    if isinstance(value, MediaUrl):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else str(value)
