"""The identity of what is sent: the key of caches, and of runs that go on where they stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from rolecall.prompts.multimodal import MediaUrl
from rolecall.render.spans import Request

__all__ = ['fingerprint']


def fingerprint(request: Request, **sent_with: Any) -> str:
    """A stable identity of what is sent: the request, and whatever else is sent with it.

    >>> fingerprint('Hi') == fingerprint('Hi') != fingerprint('Hi', temperature=0.7)
    True
    """
    body = json.dumps([request, sent_with], ensure_ascii=False, sort_keys=True, default=_as_json)
    return hashlib.sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


def _as_json(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f'{type(value).__name__} cannot be part of a request')
