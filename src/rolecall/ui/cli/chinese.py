"""The command line in Chinese: a table from the English texts, read only when Chinese is asked for.

Terms are those of the Chinese documents of OpenCompass, AISBench and LazyLLM. In `chinese.tsv`, `\\n` is a line break.
"""

from __future__ import annotations

from collections.abc import Mapping

from rolecall.plain_files import read_table


def _unescape(text: str) -> str:
    parts = text.split('\\\\')
    return '\\'.join(part.replace('\\n', '\n').replace('\\t', '\t') for part in parts)


def _read() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for table, english, chinese in read_table(__file__):
        tables.setdefault(table, {})[_unescape(english)] = _unescape(chinese)
    return tables


_TABLES = _read()
HELP: Mapping[str, str] = _TABLES['help']
"""Each English text of the help with its Chinese one."""
ARGPARSE: Mapping[str, str] = _TABLES['argparse']
"""What argparse itself says."""
MESSAGES: Mapping[str, str] = {**ARGPARSE, **_TABLES['message']}
"""Errors and notes; `{}` stands for what differs."""
FACTS: Mapping[str, str] = _TABLES['fact']
"""Facts in lines of progress and tables; `#` stands for a number."""
HEADS: Mapping[str, str] = _TABLES['head']
"""Headings of tables."""
