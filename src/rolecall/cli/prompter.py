"""The commands of the application side: prompter show."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.cli.common import command

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
        """  rolecall prompter show app.py:answerer --input '{"context": "…", "question": "…"}' --format openai\n"""
        '  rolecall prompter show app.py:answerer --meta-template chatml --json | jq .prompt',
    )
    parser.set_defaults(run=_prompter_show)
    parser.add_argument('prompter', metavar='FILE.py:NAME')
    parser.add_argument('--input', metavar='TEXT', help='the input: words, or JSON for slots and messages')
    parser.add_argument('--history', metavar='JSON', help='what was said before: pairs, or messages')
    parser.add_argument('--label', metavar='TEXT', help='the answer, as a model is trained on it')
    parser.add_argument('--meta-template', metavar='NAME', help='a model family to write the string for, e.g. chatml')
    parser.add_argument('--format', choices=('openai', 'anthropic'), help='messages instead of a string')
    parser.add_argument('--whitespace', action='store_true', help='make blanks visible')
    parser.add_argument('--color', action='store_true', help='colours even in a pipe')
    parser.add_argument('--json', action='store_true', help='the prompt and its spans as one line of JSON')


def _prompter_show(arguments: argparse.Namespace) -> int:
    from rolecall.views.jsonl import json_line
    from rolecall.views.prompter import load_prompter, plain_lines, read_given, show_trace, sketched, trace_as_json

    prompter = load_prompter(arguments.prompter)
    if arguments.meta_template:
        from rolecall.render.families import meta_template

        prompter = prompter.bind(meta_template(arguments.meta_template))
    history = None if arguments.history is None else read_given(arguments.history)
    options = {'history': history, 'label': arguments.label, 'format': arguments.format}
    given = None if arguments.input is None else read_given(arguments.input)
    trace = sketched(prompter, **options) if given is None else prompter.trace(given, **options)
    if arguments.json:
        print(json_line(trace_as_json(trace)))
    elif sys.stdout.isatty() or arguments.color:
        from rolecall.views.terminal import console

        show_trace(trace, console(sys.stdout, force=arguments.color), whitespace=arguments.whitespace)
    else:
        print('\n'.join(plain_lines(trace)))
    return 0
