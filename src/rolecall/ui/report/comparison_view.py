"""A comparison on a terminal: a table that fits 80 columns, then the rows that changed and how their prompts differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.experiment.previews.differences import Pieces
from rolecall.insight.comparison import Comparison, Difference, Flip, prompt_changes
from rolecall.insight.run_source import StoredRun
from rolecall.runs.store.results import Result
from rolecall.strings import count_noun, join_words, printable
from rolecall.ui.report.counts import verdict_of
from rolecall.ui.report.terminal_report import new_table

_FLIPS = 10
_CHANGES = 4
_WIDEST = 200
_BEFORE, _AFTER = 60, 20
"""Characters of a reply that are shown before and behind what was read from it."""
_WIDE = 120
_LEFT, _RIGHT = 'bold reverse #d55e00', 'bold reverse #56b4e9'
_BETTER, _WORSE = '#009e73', '#d55e00'
_CERTAIN = 0.05


def print_comparison(
    comparison: Comparison,
    to: Console,
    *,
    left: StoredRun,
    right: StoredRun,
    flips: int = _FLIPS,
) -> None:
    """Print the differences, and for each pair the first changed rows."""
    to.print(Text.assemble(('left   ', 'dim'), printable(left.title), ('\nright  ', 'dim'), printable(right.title)))
    if comparison.differences:
        to.print((_wide_table if to.width >= _WIDE else _narrow_table)(comparison.differences))
    else:
        to.print(Text('the runs have no dataset × model in common'))
    for line in _notes(comparison):
        to.print(Text(printable(line), 'dim'))
    for diff in comparison.differences:
        if diff.flips:
            _print_flips(diff, to, left, right, flips)


def _notes(comparison: Comparison) -> Iterator[str]:
    """Notes below the table: rows left out, and scores that differ from the reported number."""
    all_sent = [diff for diff in comparison.differences if diff.rows and diff.different_requests == diff.rows]
    everywhere = len(all_sent) > 1 and len(all_sent) == len(comparison.differences)
    if everywhere:
        yield 'every row was sent differently (prompt, sampling or model)'
    for diff in comparison.differences:
        if notes := ', '.join(_describe_left_out(replace(diff, different_requests=0) if everywhere else diff)):
            yield f'{diff.dataset} × {diff.model}: {notes}'
    for where, pairs in (('only on the left', comparison.only_left), ('only on the right', comparison.only_right)):
        if pairs:
            yield f'{where}: {", ".join(" × ".join(pair) for pair in pairs)}'


def _describe_left_out(diff: Difference) -> Iterator[str]:
    what = _row_noun(diff)
    if diff.compared == 'values':
        yield 'scores as reported, not tested: no rows have scores that can be paired'
    for count, side in ((diff.only_left, 'left'), (diff.only_right, 'right')):
        if count:
            yield f'{count_noun(count, what)} scored only on the {side}'
    if diff.different_gold:
        yield f'{count_noun(diff.different_gold, what)} left out because the gold answers differ'
    if diff.different_requests:
        compared = count_noun(diff.rows, what)
        yield f'{diff.different_requests:,} of {compared} sent differently (prompt, sampling or model)'
    if diff.differing:
        yield f'other {join_words(diff.differing)}'


def _row_noun(diff: Difference) -> str:
    return 'group' if diff.compared == 'groups' else 'row'


def _wide_table(differences: Sequence[Difference]) -> Table:
    heads = ('left', 'right', 'difference', 'p', 'rows', 'flipped')
    served = ('answered by',) if any(diff.served for diff in differences) else ()
    table = new_table('', heads, ('dataset', 'model', 'metric'), served, no_wrap=True)
    for diff in differences:
        left, right, difference, interval, *counts = _cells(diff)
        names = (diff.dataset, diff.model, diff.metric)
        both = Text(' ').join([difference, Text(interval)])
        who = [_printable(diff.served) for _ in served]
        table.add_row(*map(_printable, names), left, right, both, *counts, *who)
    return table


def _narrow_table(differences: Sequence[Difference]) -> Table:
    """The same in five columns of two lines each, for 80 columns."""
    table = new_table('', ('left\nright', 'difference', 'p', 'rows\nflipped'), ('dataset × model',), no_wrap=True)
    for diff in differences:
        left, right, difference, interval, chance, rows, flipped = _cells(diff)
        name = Text.assemble(
            (printable(diff.dataset), 'bold'),
            f' × {printable(diff.model)}',
            *((f'\n{printable(line)}', 'dim') for line in (diff.metric, diff.served) if line),
        )
        both = Text('\n').join([difference, Text(interval, 'dim')])
        table.add_row(name, f'{left}\n{right}', both, chance, f'{rows}\n{flipped}')
    return table


def _printable(name: str) -> Text:
    return Text(printable(name))


def _cells(diff: Difference) -> tuple[str, str, Text, str, str, str, str]:
    """Left, right, the difference, its interval, p, rows and flipped rows."""
    numbers = (diff.left, diff.right, diff.low, diff.high)
    largest = max((abs(value) for value in numbers if value is not None), default=0.0)
    digits = 3 if largest <= 1 else 2 if largest <= 10 else 1
    left, right = ('–' if value is None else f'{value:,.{digits}f}' for value in numbers[:2])
    certain = diff.p is not None and diff.p < _CERTAIN
    size = '–' if diff.difference is None else f'{diff.difference:+,.{digits}f}'
    known = diff.low is not None and diff.high is not None
    interval = f'[{diff.low:+,.{digits}f}, {diff.high:+,.{digits}f}]' if known else ''
    p = '–' if diff.p is None else '<0.001' if diff.p < 0.001 else f'{diff.p:.3f}'
    compared = {'values': '–', 'groups': count_noun(diff.rows, 'group')}.get(diff.compared, f'{diff.rows:,}')
    return left, right, Text(size, 'bold' if certain else ''), interval, p, compared, f'{len(diff.flips):,}'


def _print_flips(diff: Difference, to: Console, left: StoredRun, right: StoredRun, most: int) -> None:
    head = f'{diff.dataset} × {diff.model}: {count_noun(len(diff.flips), _row_noun(diff))} flipped'
    to.rule(Text(printable(head), 'bold'), style='dim')
    for flip in diff.flips[:most]:
        to.print(_verdicts(flip))
        for result, side in ((flip.left, 'left'), (flip.right, 'right')):
            for line in _underline_readings(result, side, marked=not to.is_terminal):
                to.print(line)
        changed = list(prompt_changes(flip, left, right))
        if not changed:
            to.print(Text('  the prompt is the same', 'dim'))
        for change in changed[:_CHANGES]:
            for sign, side_words, style in (('-', change.left, _LEFT), ('+', change.right, _RIGHT)):
                if side_words is not None:
                    to.print(Text.assemble((f'  {sign} ', style), _draw_pieces(side_words, style)))
        if len(changed) > _CHANGES:
            to.print(Text(f'  and {count_noun(len(changed) - _CHANGES, "other change")} of the prompt', 'dim'))
    if len(diff.flips) > most:
        to.print(Text(f'and {count_noun(len(diff.flips) - most, "other row")}', 'dim'))


def _verdicts(flip: Flip) -> Text:
    sides = ((flip.left, 'left'), (flip.right, 'right'))
    text = Text().append(f'row {flip.left.row}', 'bold')
    for result, side in sides:
        verdict = _describe_outcome(result)
        style = _BETTER if verdict == 'correct' else _WORSE if verdict == 'wrong' else ''
        text.append(f'  {side} ', 'dim').append(verdict, style).append(f' {_brief(result.extracted)}')
    return text.append(f'  gold {_brief(flip.left.gold)}', 'dim')


def _underline_readings(result: Result, side: str, *, marked: bool) -> Iterator[Text]:
    """The end of each reply up to what was read from it, underlined; in ⟦…⟧ where there is no terminal."""
    replies = result.replies or (str(result.prediction),)
    for reply, place in zip(replies, result.read_from, strict=False):
        if place is None:
            continue
        start, end, rule, certainty = place[:4]
        before, answer, after = (
            printable(' '.join(reply[a:b].split()))
            for a, b in ((max(0, start - _BEFORE), start), (start, end), (end, end + _AFTER))
        )
        gap = ' ' if reply[max(0, start - 1) : start].isspace() else ''
        text = Text(f'  {side:5} ', 'dim').append(f'{"…" if start > _BEFORE else ""}{before}{gap}', 'not dim')
        text.append(f'⟦{answer}⟧' if marked else answer, 'not dim bold underline')
        space = ' ' if reply[end : end + 1].isspace() and after else ''
        yield text.append(f'{space}{after}', 'not dim').append(f'  {certainty}, by {rule}')


def _describe_outcome(result: Result) -> str:
    if result.outcome != 'ok':
        return result.outcome
    return f'score {result.score:g}' if result.correct is None and result.score is not None else verdict_of(result)


def _brief(value: Any) -> str:
    words = printable(' '.join(str(value).split()))
    return words if len(words) <= 60 else f'{words[:59]}…'


def _draw_pieces(pieces: Pieces, style: str) -> Text:
    text = Text(overflow='fold')
    for words, differs in pieces:
        drawn = printable(words.replace('\n', '⏎'))
        short = drawn if differs or len(drawn) <= _WIDEST else f'{drawn[: _WIDEST // 2]} … {drawn[-_WIDEST // 2 :]}'
        text.append(short, style if differs else '')
    return text
