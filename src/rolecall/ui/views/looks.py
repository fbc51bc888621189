"""The name and style of each origin, in colours that colour-blind readers can tell apart.

The hues are those of Okabe and Ito; every kind also differs by underline, weight or slant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rolecall.core.prompts.pieces import GROUPS, Origin
from rolecall.core.render.spans import Span


@dataclass(frozen=True, slots=True)
class Look:
    """How the spans of one group are explained and drawn (`style` as rich writes styles)."""

    meaning: str
    style: str


LOOKS = {
    'text': Look('dataset text', ''),
    'field': Look('field of the row', 'underline #56b4e9'),
    'shot': Look('in-context example', '#009e73'),
    'marker': Look('model format', 'bold #e69f00'),
    'default': Look('default text of a role', 'italic #cc79a7'),
    'message': Look('message added by the model format', 'bold italic #cc79a7'),
    'fallback': Look('sent under a fallback role', 'italic underline #d55e00'),
    'hidden': Look('answer column, hidden', 'strike dim'),
    'unfilled': Look('field without a value', 'bold reverse #d55e00'),
    'label': Look('candidate answer', 'bold underline #f0e442'),
    'reply': Look('earlier reply of the model', 'italic #0072b2'),
    'media': Look('image, audio or video', 'bold underline #56b4e9'),
    'chat template': Look('chat template text', 'italic #e69f00'),
    'joint': Look('separator', 'dim'),
}

_NAMED = ('field', 'hidden', 'unfilled', 'marker', 'default')
_SHOT_GROUPS = ('text', 'field', 'joint')
_EVERY_OTHER_SHOT = '#00d19b'

ALL_STYLES = (
    *dict.fromkeys(
        ['', *(look.style for look in LOOKS.values())]
        + [f'{line}{hue}' for hue in (LOOKS['shot'].style, _EVERY_OTHER_SHOT) for line in ('', 'underline ')]
    ),
)
"""Every style that a span can have."""


def group_of(origin: Origin) -> str:
    """The entry of the legend that a span belongs to.

    >>> group_of(Origin('field', 'question')), group_of(Origin('field', 'question', shot=0))
    ('field', 'shot')
    """
    if origin.fallback and origin.kind in ('text', 'field'):
        return 'fallback'
    group = GROUPS.get(origin.kind, origin.kind)
    return 'shot' if origin.shot is not None and group in _SHOT_GROUPS else group


def style_of(origin: Origin) -> str:
    """How a span is drawn. Neighbouring shots differ in shade, and fields stay underlined inside them."""
    group = group_of(origin)
    style = LOOKS[group].style
    if group == 'shot':
        shade = _EVERY_OTHER_SHOT if (origin.shot or 0) % 2 else style
        return f'underline {shade}' if origin.kind == 'field' else shade
    return style


def groups_in(spans: Iterable[Span]) -> dict[str, list[str]]:
    """The groups that occur, in the legend's order, each with the names (columns, roles) that occur in it."""
    by_group: dict[str, dict[str, None]] = {}
    for span in spans:
        if span.text or span.token is not None:
            group = group_of(span.origin)
            names = by_group.setdefault(group, {})
            if group in _NAMED and span.origin.name:
                names[span.origin.name] = None
    return {group: list(by_group[group]) for group in LOOKS if group in by_group}
