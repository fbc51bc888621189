r"""Show what each model will receive.

Show requests before anything is sent: the origin of every character, and what was moved, merged or dropped.

  rolecall view gsm8k --api -n 1                          a benchmark by name
  rolecall view config.py --dataset 'bbh-*' --model qwen -n 2
  rolecall view config.py --row 7 --tokens --tokenizer models/qwen
  rolecall view config.py --diff qwen llama
  rolecall view config.py --judge --replies answers.txt
  rolecall view qa.jsonl --template 'Q: {question}\nA: {answer}' --answer answer --api
  rolecall view config.py --all --json | jq -r .fingerprint
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from rolecall.ui.cli.options import (
    add_config_options,
    add_options,
    add_source_options,
    open_experiment,
)
from rolecall.ui.cli.output import fail, print_note

if TYPE_CHECKING:
    from rolecall.ui.cli.selection import PreviewQuery
    from rolecall.ui.views.shapes import Shape


def declare(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, optional=True)
    add_options(parser, 'view')
    add_source_options(parser, shows_judge=True)


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.ui.cli.inputs import read_replies
    from rolecall.ui.cli.selection import PreviewQuery, Quit, select_by_menu, show_previews

    query = PreviewQuery(
        rows=tuple(arguments.row),
        count=arguments.count,
        label=arguments.label,
        turn=arguments.turn,
        replies=read_replies(arguments.replies) if arguments.replies else None,
        judge=arguments.judge is not None,
    )
    if arguments.diff:
        return _diff(arguments, query)
    if arguments.config is None:
        return fail('view needs a CONFIG (see rolecall view --help).')
    experiment = open_experiment(arguments, arguments.config)
    several = len(experiment.tasks) * max(1, len(experiment.models)) > 1
    if several and not arguments.all and _is_interactive(arguments):
        try:
            experiment = select_by_menu(experiment, ask=input, say=print)
        except (Quit, EOFError):
            return 0
    for note in dict.fromkeys(model.note for model in experiment.models if model.note):
        print_note(note)
    complete = show_previews(
        experiment,
        query,
        _choose_shape(arguments),
        complain=fail,
        tokens=arguments.tokens or arguments.tokenizer is not None,
        tokenizer=arguments.tokenizer,
    )
    return 0 if complete else 2


def _diff(arguments: argparse.Namespace, query: PreviewQuery) -> int:
    from rolecall.ui.cli.selection import show_differences, split_selection

    if arguments.tokens or arguments.tokenizer is not None:
        return fail('--tokens cannot be combined with --diff.')
    left, right = arguments.diff
    if os.path.isfile(left) and os.path.isfile(right):
        both = open_experiment(arguments, left), open_experiment(arguments, right)
    elif arguments.config is None:
        return fail('--diff needs a CONFIG, or two config files.')
    else:
        both = split_selection(open_experiment(arguments, arguments.config), (left, right))
    return 0 if show_differences(both, query, _choose_shape(arguments)) else 1


def _is_interactive(arguments: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and not (arguments.json or arguments.plain)


def _choose_shape(arguments: argparse.Namespace) -> Shape:
    from rolecall.ui.views.shapes import JsonShape, PlainShape, TerminalShape

    if arguments.json:
        return JsonShape(sys.stdout)
    on_terminal = sys.stdout.isatty() and os.environ.get('TERM') != 'dumb'
    if arguments.plain or not (on_terminal or arguments.color):
        return PlainShape(sys.stdout, arguments.whitespace)
    from rolecall.ui.views.terminal import make_console

    return TerminalShape(make_console(sys.stdout, force=arguments.color), arguments.whitespace)
