"""Everything that is said in Chinese, from one table by the English texts: help, messages, headings, the page's words.

Code writes English; where a text is shown, its lines are looked up here, `{}` standing for what differs. The table is
read only when Chinese is asked for. Terms are those of the Chinese documents of OpenCompass, AISBench and LazyLLM. In
`chinese.tsv`, `\\n` is a line break.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

from rolecall.plain_files import read_table

Translate = Callable[[str], str]
_LEAF = re.compile(r'(?<=>)([^<>{}]*[A-Za-z][^<>{}]*)(?=<)')
_language = 'en'
_MOST_SPLITS = 100_000
"""Ways to divide a line between the values of a message; beyond, as in a made line, trying them could take hours."""


@cache
def read_chinese(table: str) -> Mapping[str, str]:
    """Each English text of a table with its Chinese one.

    `help`; `argparse`, what argparse itself says; `message`, errors and notes; `fact`, in lines of progress and tables,
    where `#` stands for a number; `head`, headings; `page`, the words of the page.
    """
    return {_unescape(english): _unescape(chinese) for name, english, chinese in read_table(__file__) if name == table}


def _unescape(text: str) -> str:
    parts = text.split('\\\\')
    return '\\'.join(part.replace('\\n', '\n').replace('\\t', '\t') for part in parts)


def set_language(language: str) -> None:
    """Choose the language of messages for this process."""
    global _language
    _language = language


def is_chinese() -> bool:
    """Whether this process speaks Chinese."""
    return _language == 'zh'


def translate_message(text: str) -> str:
    """A message in the language of this process."""
    return to_chinese(text) if is_chinese() else text


def translate_head(text: str) -> str:
    """A heading or a fixed word in the language of this process."""
    return head_in_chinese(text) if is_chinese() else text


def console_language() -> tuple[Translate, Translate] | None:
    """How a console translates lines and heads; None for English."""
    return (to_chinese, head_in_chinese) if is_chinese() else None


def to_chinese(text: str) -> str:
    """A message in Chinese, line by line; lines that the table lacks stay English."""
    return '\n'.join(map(_translate_line, text.split('\n')))


def head_in_chinese(text: str) -> str:
    """The head of a table, or a fixed word in it, in Chinese."""
    heads = {**read_chinese('page'), **read_chinese('head')}
    return '\n'.join(heads.get(line) or to_chinese(line) for line in text.split('\n'))


def markup_in_chinese(source: str) -> str:
    """The source of a template, which holds no data, with its own words in Chinese."""
    heads = read_chinese('head')
    return _LEAF.sub(lambda words: heads.get(words[0].strip(), words[0]), source)


@lru_cache(maxsize=4096)
def _translate_line(line: str) -> str:
    text = line.strip()
    for parts, pattern, chinese in _message_patterns():
        ways = math.prod(map(text.count, parts)) if parts[0] in text else 0
        if 0 < ways <= _MOST_SPLITS and (match := pattern.fullmatch(text)):
            values = list(match.groups())
            if chinese.endswith('}'):  # where another message may stand
                values[-1] = _translate_line(values[-1])
            return line.replace(text, chinese.format(*values))
    return _translate_facts(line)


def _translate_facts(line: str) -> str:
    """A line of progress or a cell: facts between commas, perhaps behind a name."""
    pieces = re.split('(, |; )', line)
    facts = [_translate_fact(piece) for piece in pieces]
    for gap in range(1, len(pieces), 2):
        if facts[gap - 1] != pieces[gap - 1] or (facts[gap + 1] != pieces[gap + 1] and ': ' not in pieces[gap + 1]):
            facts[gap] = {', ': '，', '; ': '；'}[pieces[gap]]
    return ''.join(facts)


def _translate_fact(piece: str) -> str:
    name, colon, fact = piece.rpartition(': ')
    for pattern, chinese in _fact_patterns():
        if match := pattern.fullmatch(fact):
            return f'{name}{colon and "："}{chinese.format(*match.groups())}'
    return piece


@cache
def _fact_patterns() -> list[tuple[re.Pattern[str], str]]:
    number = r'(~?[\d.,:]+)'
    return [
        (re.compile(number.join(map(re.escape, english.split('#')))), chinese.replace('#', '{}'))
        for english, chinese in read_chinese('fact').items()
    ]


@cache
def _message_patterns() -> list[tuple[list[str], re.Pattern[str], str]]:
    """Of each message its fixed parts, the longest first, pattern and Chinese: messages that begin with words first."""
    messages = {**read_chinese('argparse'), **read_chinese('message')}
    patterns = []
    for english in sorted(messages, key=lambda text: (text.startswith('{'), -len(text.replace('{}', '')))):
        parts = english.split('{}')
        chinese = messages[english] if len(parts) > 1 else messages[english].replace('{', '{{').replace('}', '}}')
        fixed = sorted(filter(None, parts), key=len, reverse=True)
        patterns.append((fixed, re.compile('(.+?)'.join(map(re.escape, parts))), chinese))
    return patterns
