"""What the commands share: how they are declared, and how their arguments are read."""

from __future__ import annotations

import argparse
import sys
from typing import Any

__all__ = ['add_picks', 'add_wording', 'command', 'fail', 'number']


def fail(reason: str) -> int:
    """Say why a command cannot be carried out; the exit code for that."""
    print(f'rolecall: {reason}', file=sys.stderr)
    return 2


def command(commands: Any, name: str, help_: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Declare a command with examples in its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=description,
        epilog=f'examples:\n{examples}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_picks(parser: argparse.ArgumentParser) -> None:
    """The options that pick datasets, models and rows."""
    parser.add_argument('--dataset', metavar='PATTERN', help='only datasets whose abbr fits, e.g. "bbh-*"')
    parser.add_argument('--model', metavar='PATTERN', help='only models whose abbr fits')
    parser.add_argument(
        '--data', metavar='SPLIT=FILE', nargs='+', type=_split_and_file, default=[], help='rows: train=FILE test=FILE'
    )


def add_wording(parser: argparse.ArgumentParser) -> None:
    """The options that make a config of a file of rows."""
    worded = parser.add_argument_group('a file of rows in place of a config')
    worded.add_argument('--template', metavar='TEXT', help=r'how a row is worded; \n is a line break')
    worded.add_argument('--output-column', metavar='COLUMN', help='the column of the answer, which stays hidden')
    worded.add_argument('--meta-template', metavar='NAME', help='a model family to address, e.g. chatml')
    worded.add_argument('--api', action='store_true', help='address a chat API')


def number(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number from 0')
    return int(text)


def _split_and_file(text: str) -> tuple[str, str]:
    split, equals, file = text.partition('=')
    if not (split and equals and file):
        raise argparse.ArgumentTypeError(f'{text!r}: write train=FILE or test=FILE (and CONFIG before --data)')
    return split, file
