"""Text that is safe and honest to show: control characters cannot act on a terminal, and blanks can be seen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ['SPECIAL_TOKEN', 'blanks_shown', 'safe', 'shortened', 'stretches']

_ACTIVE = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]')
_BLANK = re.compile('[ \t\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]')
_MARKS = {' ': '·', '\t': '⇥\t', '\n': '⏎\n', '\u00a0': '⍽', '\u3000': '□□'}
_KEPT_OF_MEDIA = 60

SPECIAL_TOKEN = re.compile(
    r'<\|[^|<>\s]{1,40}\|>|<[｜|][^<>\s]{1,40}[｜|]>|</?(?:s|bos|eos|pad|unk|think|tool_call|start_of_turn|end_of_turn)>'
    r'|\[/?INST\]|<</?SYS>>|\[(?:BOS|EOS|PAD|UNK|CLS|SEP|MASK|gMASK|sMASK)\]|<eo[ha]>'
)
"""What tokenizers' special tokens commonly look like, for when no tokenizer is at hand."""


def safe(text: str) -> str:
    """The text with characters that would act on a terminal (or hide) written out.

    >>> safe('red: \\x1b[31m, flipped: \\u202e')
    'red: ␛[31m, flipped: \\\\u202e'
    """
    return _ACTIVE.sub(lambda found: _written(found.group()), text)


def _written(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return '␡' if code == 0x7F else f'\\u{code:04x}'


def blanks_shown(text: str) -> str:
    """The text with a mark for every space, tab and line break (which still breaks the line).

    >>> blanks_shown('a b\\n')
    'a·b⏎\\n'
    """
    return _BLANK.sub(lambda found: _MARKS.get(found.group()) or f'⟨{_blank_name(found.group())}⟩', text)


def _blank_name(character: str) -> str:
    return unicodedata.name(character, f'U+{ord(character):04X}').lower()


def shortened(text: str) -> str:
    """A reference to media, short enough to read.

    >>> shortened('data:image/png;base64,' + 'A' * 5000)
    'data:image/png;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA… (5,022 characters)'
    """
    if len(text) <= 2 * _KEPT_OF_MEDIA:
        return text
    return f'{text[:_KEPT_OF_MEDIA]}… ({len(text):,} characters)'


def stretches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """The text cut where the pattern matches; the flag says which stretches did.

    >>> list(stretches('<s>Hi', SPECIAL_TOKEN))
    [('<s>', True), ('Hi', False)]
    """
    at = 0
    for found in pattern.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], False
        if found.group():
            yield found.group(), True
        at = found.end()
    if at < len(text):
        yield text[at:], False
