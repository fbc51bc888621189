"""The commands of the application side: prompter show."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.commands.common import command

__all__ = ['add_prompter']


def add_prompter(commands: Any) -> None:
    """Declare `rolecall prompter show`."""
    prompters = commands.add_parser('prompter', help='look at prompters').add_subparsers(metavar='WHAT', required=True)
    parser = command(
        prompters,
        'show',
        'what a prompter says',
        'Show what a prompter of a Python file says, every character with its origin.',
        '  rolecall prompter show app.py:answerer\n'
        """  rolecall prompter show app.py:answerer --input '{"context": "…", "question": "…"}' --format openai""",
    )
    parser.set_defaults(run=_prompter_show)
    parser.add_argument('prompter', metavar='FILE.py:NAME')
    parser.add_argument('--input', metavar='TEXT', help='the input: words, or JSON for slots and messages')
    parser.add_argument('--format', choices=('openai', 'anthropic'), help='messages instead of a string')
    parser.add_argument('--whitespace', action='store_true', help='make blanks visible')
    parser.add_argument('--color', action='store_true', help='colours even in a pipe')


def _prompter_show(arguments: argparse.Namespace) -> int:
    from rolecall.views.prompter import load_prompter, plain_lines, read_given, show_prompter, sketched

    prompter = load_prompter(arguments.prompter)
    given = None if arguments.input is None else read_given(arguments.input)
    if not (sys.stdout.isatty() or arguments.color):
        options = {'format': arguments.format}
        trace = sketched(prompter, **options) if given is None else prompter.trace(given, **options)
        print('\n'.join(plain_lines(trace)))
        return 0
    from rolecall.views.terminal import console

    screen = console(sys.stdout, force=arguments.color)
    show_prompter(prompter, screen, given=given, whitespace=arguments.whitespace, format=arguments.format)
    return 0
