"""Requests as HTML for notebooks: every piece in the style of its origin, which a tooltip names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.spans import Request, Span
from rolecall.ui.views.looks import LOOKS, groups_in, style_of
from rolecall.ui.views.plain import span_text

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
    body = ''
    for place, placed in groupby(spans, key=lambda span: span.message):
        whole = isinstance(request, list) and place is not None and place < len(request)
        message: Any = request[place] if whole else None  # type: ignore[index]
        role = f'<i>{escape(str(message.get("role", "")))}</i>\n' if isinstance(message, Mapping) else ''
        pieces = ''.join(_styled(span_text(span), style_of(span.origin), label_of(span.origin)) for span in placed)
        body += f'<div style="{_BOX}">{role}{pieces}</div>'
    return f'<div><b>{escape(title)}</b>{body}<small>{legend}</small></div>'


def _styled(text: str, style: str, tooltip: str = '') -> str:
    css = ';'.join(_WORDS.get(word, f'color:{word}') for word in style.split())
    hint = f' title="{escape(tooltip)}"' if tooltip else ''
    return f'<span style="{css}"{hint}>{escape(text)}</span>'
