"""`rolecall score`: what the verdicts of a finished run were read from, row by row."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import declare_command, fail

if TYPE_CHECKING:
    from rolecall.runs.store.results import Result

_BEFORE, _AFTER = 400, 160
"""Characters of a reply that are shown before and behind the answer."""


def add_score(commands: Any) -> None:
    """Declare `rolecall score`."""
    parser = declare_command(
        commands,
        'score',
        'show what the verdicts of a run were read from',
        'Show the rows of a run with the characters of the reply that the answer was read from, the rule, how sure the '
        'reading is, and what else was possible.',
        '  rolecall score runs/mmlu --row 17\n  rolecall score runs/mmlu --inferred',
    )
    parser.set_defaults(run=_show_readings)
    parser.add_argument('directory', metavar='RUN', help='a run directory')
    parser.add_argument('--row', metavar='N', type=int, help='only this row')
    parser.add_argument('--inferred', action='store_true', help='only rows whose answer was merely inferred')
    parser.add_argument('--dataset', metavar='NAME', help='only this dataset')
    parser.add_argument('--model', metavar='NAME', help='only this model')


def _show_readings(arguments: argparse.Namespace) -> int:
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.strings import printable

    count = 0
    with RunReader(arguments.directory) as run:
        for dataset, model in run.pairs():
            if arguments.dataset in (None, dataset) and arguments.model in (None, model):
                for result in run.results(dataset, model):
                    if _is_wanted(result, arguments):
                        count += 1
                        for line in _describe(result):
                            print(printable(line))
    return 0 if count else fail(f'{arguments.directory}: no such row.')


def _is_wanted(result: Result, arguments: argparse.Namespace) -> bool:
    inferred = any(place and place[3] == 'inferred' for place in result.read_from)
    return (arguments.row is None or result.row == arguments.row) and (inferred or not arguments.inferred)


def _describe(result: Result) -> Iterator[str]:
    """A row as lines: its verdict, and each reply with the answer in it marked."""
    verdict = {True: 'right', False: 'wrong', None: result.outcome}[result.correct]
    answers = f'read {result.extracted!r}, gold {result.gold!r}'
    yield f'{result.dataset} × {result.model}, row {result.row}: {verdict}, {answers}'
    replies = result.replies or ()
    for number, place in enumerate(result.read_from):
        reply = replies[number] if number < len(replies) else str(result.prediction)
        if place is None:
            continue
        start, end, rule, certainty, *rivals = place
        others = f'; also possible: {", ".join(map(repr, rivals[0]))}' if rivals else ''
        yield f'  {certainty}, by {rule}, characters {start} to {end}{others}'
        yield f'  {_mark(reply, start, end)}'
    if result.reason:
        yield f'  {result.reason}'


def _mark(reply: str, start: int, end: int) -> str:
    """The reply around the answer, which stands in ⟦…⟧."""
    before, after = reply[max(0, start - _BEFORE) : start], reply[end : end + _AFTER]
    cut_before, cut_after = '… ' if start > _BEFORE else '', ' …' if end + _AFTER < len(reply) else ''
    return f'{cut_before}{before}⟦{reply[start:end]}⟧{after}{cut_after}'.replace('\n', '\n  ')
