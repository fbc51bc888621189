"""Characters, bytes and tokens: how a token is shown, and which characters it covers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

Offset: TypeAlias = tuple[int, int, int]
"""A token id with the start and end (exclusive) of the characters it covers."""

BYTE_TOKEN = re.compile(r'<0x[0-9A-Fa-f]{2}>')
_HALF_PAIR = re.compile('[\ud800-\udfff]')
_STRAY_BYTE = re.compile('[\udc80-\udcff]')


def _letters_of_bytes() -> dict[str, bytes]:
    """How a byte-level vocabulary spells bytes: printable Latin-1 as itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [number for number in range(256) if number not in printable]
    letters = {number: chr(number) for number in printable}
    letters |= {number: chr(0x100 + place) for place, number in enumerate(hidden)}
    return {letter: bytes([number]) for number, letter in letters.items()}


BYTE_OF = _letters_of_bytes()


def replace_lone_surrogates(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate becomes U+FFFD."""
    return text if text.isascii() else _HALF_PAIR.sub('\ufffd', text)


def show_bytes(data: bytes) -> str:
    text = data.decode(errors='surrogateescape')
    return _STRAY_BYTE.sub(lambda stray: f'<0x{ord(stray[0]) - 0xDC00:02X}>', text)


def adjoin_ranges(ids: Sequence[int], stops: Sequence[int], length: int) -> list[Offset]:
    """Adjoining ranges that cover `length` characters, each ending at its stop unless that is already past."""
    ranges: list[Offset] = []
    start = 0
    for place, (number, stop) in enumerate(zip(ids, stops, strict=True), 1):
        stop = length if place == len(ids) else max(start, stop)
        ranges.append((number, start, stop))
        start = stop
    return ranges
