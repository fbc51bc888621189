"""Show what the verdicts of a run were read from.

Show the rows of a run with the characters of the reply that the answer was read from, the rule, how sure the reading
is, and what else was possible.

  rolecall score runs/mmlu --row 17
  rolecall score runs/mmlu --inferred
  rolecall score runs/mmlu --doubted --patch patch.jsonl
  rolecall score runs/mmlu --gold-patch patch.jsonl
  rolecall score runs/mmlu --differ                     rows that OpenCompass reads differently
  rolecall score runs/mmlu --read-as own --row 17       the verdict by our own reading
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rolecall.scoring.reading_choice import OWN, word_other_verdict
from rolecall.ui.cli.output import fail, print_json, print_lines, print_note

if TYPE_CHECKING:
    from rolecall.runs.store.results import Result
    from rolecall.scoring.scorecard import Scorecard

_BEFORE, _AFTER = 400, 160
"""Characters of a reply that are shown before and behind the answer."""


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.store.run_reader import RunReader

    if arguments.doubted is not None or arguments.gold_patch:
        return _show_doubted(arguments)
    if arguments.patch:
        return fail('--patch goes with --doubted: rolecall score RUN --doubted --patch FILE.')
    count = 0
    with RunReader(arguments.directory) as run:
        cards = {(card.dataset, card.model): card for card in run.scorecards() if card.beside}
        for dataset, model in run.pairs():
            if arguments.dataset not in (None, dataset) or arguments.model not in (None, model):
                continue
            if (card := cards.get((dataset, model))) and (words := card.describe_readings()):
                print_lines([f'{dataset} × {model}: {words}'])
            if problem := _check_reading(arguments, card):
                return fail(problem)
            for result in run.results(dataset, model):
                if _is_wanted(result, arguments):
                    count += 1
                    print_lines(_describe(_read_as(result, arguments.read_as)))
    return 0 if count else fail(f'{arguments.directory}: no such row.')


def _show_doubted(arguments: argparse.Namespace) -> int:
    """The rows whose gold answer is in doubt, and what they do to the scores."""
    from rolecall.insight.doubted_gold import doubt_gold, find_patched_rows, score_patched
    from rolecall.runs.atomic import write_atomically
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.sources.datasets.gold_patch import write_gold_patch
    from rolecall.strings import count_noun

    with RunReader(arguments.directory) as run:
        patch = arguments.gold_patch
        rows = find_patched_rows(run, patch) if patch else doubt_gold(run, arguments.doubted or ())
        scores = score_patched(run, rows)
    if arguments.json:
        print_json(*rows, *scores)
    if not rows:
        print_note(f'{arguments.directory}: no gold answer is in doubt: strong models never agree on a different one.')
    for row in () if arguments.json else rows:
        votes = f' by {count_noun(len(row.votes), "model")}: {", ".join(row.votes)}' if row.votes else ''
        print_lines([f'{row.dataset}, row {row.row}: gold {row.gold!r}, but {row.proposed!r}{votes}'])
    for score in () if arguments.json else scores:
        without = f'{score.without:.1f} [{score.low:.1f}, {score.high:.1f}] without them'
        names = f'{score.dataset} × {score.model}'
        print_lines([f'{names}: {score.score:.1f}; {without}; {score.patched:.1f} with the other answer as gold'])
    if arguments.patch:
        with write_atomically(arguments.patch) as part:
            part.write_text(write_gold_patch(rows), 'utf-8')
        print_note(f'wrote {count_noun(len(rows), "row")} to {arguments.patch}: check each before you trust it.')
    return 0


def _check_reading(arguments: argparse.Namespace, card: Scorecard | None) -> str:
    """Why the rows of a pair have no verdicts by the reading that was chosen; empty if they have."""
    stored = (card.beside.read_as, card.beside.other) if card and card.beside else (OWN,)
    if arguments.read_as in (None, *stored):
        return ''
    return (
        f'{arguments.directory} was read as {" and ".join(stored)}. Read its replies again, without sending anything: '
        f'rolecall run CONFIG --out {arguments.directory} --read-as {arguments.read_as}'
    )


def _read_as(result: Result, read_as: str | None) -> Result:
    """The row with the verdict of the reading that was chosen."""
    if not result.beside or result.beside[0] != read_as:
        return result
    _, extracted, score, correct, *places = result.beside
    return replace(
        result, extracted=extracted, score=score, correct=correct, read_from=tuple(places), beside=(), reason=''
    )


def _is_wanted(result: Result, arguments: argparse.Namespace) -> bool:
    inferred = any(place and place[3] == 'inferred' for place in result.read_from)
    return (
        arguments.row in (None, result.row)
        and (inferred or not arguments.inferred)
        and bool(result.beside or not arguments.differ)
    )


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
    if other := word_other_verdict(result.beside):
        yield f'  {other}'
    if result.reason:
        yield f'  {result.reason}'


def _mark(reply: str, start: int, end: int) -> str:
    """The reply around the answer, which stands in ⟦…⟧."""
    before, after = reply[max(0, start - _BEFORE) : start], reply[end : end + _AFTER]
    cut_before, cut_after = '… ' if start > _BEFORE else '', ' …' if end + _AFTER < len(reply) else ''
    return f'{cut_before}{before}⟦{reply[start:end]}⟧{after}{cut_after}'.replace('\n', '\n  ')
