"""Readings that one pattern makes, from `pattern_readers.tsv`: in a part of the reply, its first or last match."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

from rolecall.patterns import compile_late
from rolecall.plain_files import read_table

_PARTS: Mapping[str, Callable[[str], str]] = {
    'reply': str,
    'stripped': str.strip,
    'bare line': lambda text: text.strip().partition('\n')[0].strip(),
    'line': lambda text: text.strip().partition('\n')[0],
    'top line': lambda text: text.strip('\n').partition('\n')[0],
    'question': lambda text: text.partition('Question:')[0],
}


def make_reader(reads: str, part: str, drop: str, pattern: str, pick: str, otherwise: str) -> Callable[[str], str]:
    """A reader of what a pattern (its group, if it has one) matches in a part of the reply; without one, of the part.

    `drop` is taken out of the part first; without a match, the answer is the part if `otherwise` says so.

    >>> READERS.last_figures('So $1,234.50.\\nQuestion: 7'), READERS.headline('1. “新闻标题。”')
    ('234.50', '新闻标题')
    """

    compiled = compile_late(pattern)

    def read(text: str) -> str:
        rest = _PARTS[part](text).replace(drop, '')
        if not pattern:
            return rest
        matches: list[str] = compiled.findall(rest)
        if not matches:
            return rest if otherwise else ''
        return matches[-1 if pick == 'last' else 0]

    read.__doc__ = reads
    return read


READERS = SimpleNamespace(**{name: make_reader(*cells) for name, *cells in read_table(__file__)})
"""The readers of the table, by name."""
