"""Text with its blanks made visible, special tokens found, and long media references shortened."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_BLANK = re.compile('[ \t\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]')
_MARKS = {' ': '·', '\t': '⇥\t', '\n': '⏎\n', '\u00a0': '⍽', '\u3000': '□□'}
_KEPT_OF_MEDIA = 60

SPECIAL_TOKEN = re.compile(
    r'<\|[^|<>\s]{1,40}\|>|<[｜|][^<>\s]{1,40}[｜|]>|</?(?:s|bos|eos|pad|unk|think|tool_call|start_of_turn|end_of_turn)>'
    r'|\[/?INST\]|<</?SYS>>|\[(?:BOS|EOS|PAD|UNK|CLS|SEP|MASK|gMASK|sMASK)\]|<eo[ha]>'
)
"""What tokenizers' special tokens commonly look like, for when no tokenizer is at hand."""


def show_blanks(text: str) -> str:
    """The text with a mark for every space, tab and line break (which still breaks the line).

    >>> show_blanks('a b\\n')
    'a·b⏎\\n'
    """
    return _BLANK.sub(lambda match: _MARKS.get(match.group()) or f'⟨{_blank_name(match.group())}⟩', text)


def _blank_name(character: str) -> str:
    return unicodedata.name(character, f'U+{ord(character):04X}').lower()


def shorten_media(text: str) -> str:
    """A reference to media, short enough to read.

    >>> shorten_media('data:image/png;base64,' + 'A' * 5000)
    'data:image/png;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA… (5,022 characters)'
    """
    if len(text) <= 2 * _KEPT_OF_MEDIA:
        return text
    return f'{text[:_KEPT_OF_MEDIA]}… ({len(text):,} characters)'


def split_matches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """The text cut where the pattern matches; the flag says which stretches did.

    >>> list(split_matches('<s>Hi', SPECIAL_TOKEN))
    [('<s>', True), ('Hi', False)]
    """
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            yield text[at : match.start()], False
        if match.group():
            yield match.group(), True
        at = match.end()
    if at < len(text):
        yield text[at:], False
