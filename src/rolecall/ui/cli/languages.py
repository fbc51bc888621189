"""The language of the command line: how it is chosen, and help in Chinese."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

LANGUAGES = ('en', 'zh')
_VARIABLES = ('ROLECALL_LANG', 'LC_ALL', 'LC_MESSAGES', 'LANG')
_COMMENT = re.compile(r'(?<=\S)(\s{3,})(?=[a-z#])(?!source )')
_UNIT = re.compile(r'(?:[!-~]+|\s+|.)[，。；：、！？）》」…]*')
"""A word or a single character, with the closing marks behind it."""


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


def translate_parser(parser: argparse.ArgumentParser) -> None:
    """Put the help of a parser and its commands into Chinese."""
    from rolecall.ui.views.chinese import read_chinese

    chinese = read_chinese('help')
    parser.formatter_class = _Formatter
    parser.description = chinese.get(parser.description or '', parser.description)
    if parser.epilog:
        parser.epilog = chinese.get(parser.epilog) or ''.join(
            chinese.get(piece, piece) for piece in _pieces(parser.epilog)
        )
    for group in parser._action_groups:
        group.title = chinese.get(group.title or '', group.title)
    for action in parser._actions:
        action.help = chinese.get(action.help or '', action.help)
        for choice in _commands(action):
            choice.help = chinese.get(choice.help or '', choice.help)
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
    from rich.cells import cell_len

    lines: list[str] = []
    line, columns = '', 0
    for token in _UNIT.findall(text):
        taken = cell_len(token)
        if line and columns + taken > width:
            lines.append(line.rstrip())
            line, columns = '', 0
            if token.isspace():
                continue
        line, columns = line + token, columns + taken
    return [*lines, line.rstrip()] if line.strip() else lines
