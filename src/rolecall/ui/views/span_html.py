"""Requests as HTML for notebooks: every piece in the style of its origin, which a tooltip names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.spans import Request, Span
from rolecall.ui.views.looks import LOOKS, groups_in, style_of

_BOX = (
    'white-space:pre-wrap;font-family:monospace;border:1px solid #8884;padding:.5em;margin:.2em 0;'
    'max-height:40em;overflow:auto'
)
_WORDS = {
    'underline': 'text-decoration:underline',
    'bold': 'font-weight:bold',
    'italic': 'font-style:italic',
    'dim': 'opacity:.6',
    'strike': 'text-decoration:line-through',
    'reverse': 'background:#fdd',
}


def request_html(title: str, request: Request | None, spans: Sequence[Span]) -> str:
    """One request: its messages or its text, and a legend of the origins in it."""
    legend = ' · '.join(_styled(LOOKS[group].meaning, LOOKS[group].style) for group in groups_in(spans))
    body = ''.join(_place_html(request, place, list(placed)) for place, placed in groupby(spans, key=_place))
    return f'<div><b>{escape(title)}</b>{body}<small>{legend}</small></div>'


def _place(span: Span) -> int | None:
    return span.message


def _place_html(request: Request | None, place: int | None, spans: Sequence[Span]) -> str:
    pieces = ''.join(_styled(_text(span), style_of(span.origin), label_of(span.origin)) for span in spans)
    return f'<div style="{_BOX}">{_role_html(request, place)}{pieces}</div>'


def _role_html(request: Request | None, place: int | None) -> str:
    message: Any = request[place] if isinstance(request, list) and place is not None and place < len(request) else None
    return f'<i>{escape(str(message.get("role", "")))}</i>\n' if isinstance(message, Mapping) else ''


def _text(span: Span) -> str:
    return f'<{span.token}>' if span.token is not None else str(span.text)


def _styled(text: str, style: str, tooltip: str = '') -> str:
    css = ';'.join(_WORDS.get(word, f'color:{word}') for word in style.split())
    hint = f' title="{escape(tooltip)}"' if tooltip else ''
    return f'<span style="{css}"{hint}>{escape(text)}</span>'
