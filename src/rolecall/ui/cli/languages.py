"""The language of help and common messages: how it is chosen, and its translations.

English costs look-ups in the environment.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

LANGUAGES = ('en', 'zh')
_VARIABLES = ('ROLECALL_LANG', 'LC_ALL', 'LC_MESSAGES', 'LANG')
_COMMENT = re.compile(r'(?<=\S)(\s{3,})(?=[a-z#])(?!source )')
_TOKEN = re.compile(r'[!-~]+|\s+|.')
_NOT_FIRST = '，。；：、！？）》」…'


def choose_language(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The language set on the command line or in the environment, and the arguments after `--lang`.

    >>> choose_language(['--lang', 'zh', 'run', '--help'])
    ('zh', ['run', '--help'])
    """
    first = arguments[0] if arguments else ''
    if first == '--lang':
        return _find_language(arguments[1:2]), arguments[2:]
    if first.startswith('--lang='):
        return _find_language([first.removeprefix('--lang=')]), arguments[1:]
    return _find_language(filter(None, map(os.environ.get, _VARIABLES))), arguments


def _find_language(names: Iterable[str | None]) -> str:
    """The language of the first name: a locale such as `zh_CN.UTF-8` gives its language, anything unknown English."""
    return 'zh' if re.match('zh(?![a-z])', next(iter(names), None) or '', re.IGNORECASE) else 'en'


_language = 'en'


def set_language(language: str) -> None:
    """Choose the language of messages for this process."""
    global _language
    _language = language


def translate_message(text: str) -> str:
    """A message in the chosen language, line by line; lines that the catalogue lacks stay English."""
    return text if _language == 'en' else '\n'.join(map(_translate_line, text.split('\n')))


def console_language() -> tuple[Callable[[str], str], Callable[[str], str]] | None:
    """How a console translates lines and heads; None for English."""
    return None if _language == 'en' else (translate_message, translate_head)


def translate_head(text: str) -> str:
    """The head of a table, or a fixed word in it, in Chinese."""
    from rolecall.ui.cli.chinese import HEADS

    return '\n'.join(HEADS.get(line) or translate_message(line) for line in text.split('\n'))


def _translate_line(line: str) -> str:
    text = line.lstrip()
    for pattern, chinese in _message_patterns():
        if match := pattern.fullmatch(text):
            values = list(match.groups())
            if chinese.endswith('}'):  # where another message may stand
                values[-1] = _translate_line(values[-1])
            return line[: len(line) - len(text)] + chinese.format(*values)
    return _translate_facts(line)


def _translate_facts(line: str) -> str:
    """A line of progress or a cell: facts between commas, perhaps behind a name."""
    pieces = re.split('(, |; )', line)
    facts = [_translate_named_fact(piece) for piece in pieces]
    for gap in range(1, len(pieces), 2):
        if facts[gap - 1] != pieces[gap - 1] or facts[gap + 1] != pieces[gap + 1]:
            facts[gap] = {', ': '，', '; ': '；'}[pieces[gap]]
    return ''.join(facts)


def _translate_named_fact(piece: str) -> str:
    name, colon, fact = piece.rpartition(': ')
    chinese = _translate_fact(fact)
    return piece if chinese == fact else f'{name}{colon and "："}{chinese}'


def _translate_fact(fact: str) -> str:
    for pattern, chinese in _fact_patterns():
        if match := pattern.fullmatch(fact):
            return chinese.format(*match.groups())
    return fact


@cache
def _fact_patterns() -> list[tuple[re.Pattern[str], str]]:
    from rolecall.ui.cli.chinese import FACTS

    number = r'(~?[\d.,:]+)'
    return [
        (re.compile(number.join(map(re.escape, english.split('#')))), chinese.replace('#', '{}'))
        for english, chinese in FACTS.items()
    ]


@cache
def _message_patterns() -> list[tuple[re.Pattern[str], str]]:
    from rolecall.ui.cli.chinese import MESSAGES

    return [(re.compile('(.+?)'.join(map(re.escape, text.split('{}')))), chinese) for text, chinese in MESSAGES.items()]


def translate_parser(parser: argparse.ArgumentParser) -> None:
    """Put the help of a parser and its commands into Chinese."""
    from rolecall.ui.cli.chinese import HELP

    parser.formatter_class = _Formatter
    parser.description = HELP.get(parser.description or '', parser.description)
    if parser.epilog:
        parser.epilog = HELP.get(parser.epilog) or ''.join(HELP.get(piece, piece) for piece in _pieces(parser.epilog))
    for group in parser._action_groups:
        group.title = HELP.get(group.title or '', group.title)
    for action in parser._actions:
        action.help = HELP.get(action.help or '', action.help)
        for choice in _commands(action):
            choice.help = HELP.get(choice.help or '', choice.help)
        for command in _parsers(action):
            translate_parser(command)


def help_texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every help text with words in it, which a catalogue must contain."""
    yield from filter(None, (parser.description, *(group.title for group in parser._action_groups)))
    if parser.epilog:
        pieces = [piece for piece in _pieces(parser.epilog) if _has_words(piece)]
        yield from pieces if parser.epilog.startswith('examples:') else [parser.epilog]
    for action in parser._actions:
        texts = (action.help, *(choice.help for choice in _commands(action)))
        yield from (text for text in texts if text and text != argparse.SUPPRESS)
        for command in _parsers(action):
            yield from help_texts(command)


def _commands(action: argparse.Action) -> Iterable[argparse.Action]:
    return action._choices_actions if isinstance(action, argparse._SubParsersAction) else ()


def _parsers(action: argparse.Action) -> Iterable[argparse.ArgumentParser]:
    return action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()


def _pieces(epilog: str) -> Iterator[str]:
    """Examples as commands, the words beside them, and the space around both; joined, they are the epilog."""
    for line in re.split(r'(\n\s*)', epilog):
        yield from _COMMENT.split(line) if line.startswith('rolecall ') or '#' in line else (line,)


def _has_words(piece: str) -> bool:
    """Whether a piece of an epilog is neither space nor something to type."""
    return bool(piece.strip()) and not re.match(r'rolecall |# yaml-|(bash|zsh|fish): +', piece)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Lines are broken between Chinese characters, which take two columns each."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, '用法: ' if prefix is None else prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrap(' '.join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (_wrap(line, width) if line[:1].strip() else [line] for line in text.splitlines())
        return '\n'.join(indent + part for parts in lines for part in parts or [''])


def _wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns. No line begins with a closing mark.

    >>> _wrap('显示每个模型将收到的内容，例如 smollm2。', 12)
    ['显示每个模型', '将收到的内', '容，例如', 'smollm2。']
    """
    lines: list[str] = []
    line, columns = '', 0
    for token in _units(text):
        taken = _columns(token)
        if line and columns + taken > width:
            lines.append(line.rstrip())
            line, columns = '', 0
            if token.isspace():
                continue
        line, columns = line + token, columns + taken
    return [*lines, line.rstrip()] if line.strip() else lines


def _units(text: str) -> Iterator[str]:
    """Words and single characters, each with the closing marks behind it."""
    unit = ''
    for token in _TOKEN.findall(text):
        if unit and token in _NOT_FIRST:
            unit += token
            continue
        if unit:
            yield unit
        unit = token
    if unit:
        yield unit


def _columns(text: str) -> int:
    import unicodedata

    return sum(2 if unicodedata.east_asian_width(character) in 'WF' else 1 for character in text)
