"""A comparison on a terminal: a table that fits 80 columns, then the rows that changed and how their prompts differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.experiment.previews.differences import Change, Pieces
from rolecall.insight.comparison import Comparison, Difference, Flip, prompt_changes
from rolecall.insight.run_source import Run
from rolecall.runs.store.results import Result
from rolecall.strings import count_noun, printable
from rolecall.ui.report.counts import verdict_of

_FLIPS = 10
_CHANGES = 4
_WIDEST = 200
_WIDE = 120
_LEFT, _RIGHT = 'bold reverse #d55e00', 'bold reverse #56b4e9'
_BETTER, _WORSE = '#009e73', '#d55e00'
_CERTAIN = 0.05


def print_comparison(
    comparison: Comparison, to: Console, *, left: Run, right: Run, flips: int = _FLIPS, all_words: bool = False
) -> None:
    """Print the differences, and for each pair the first changed rows (`all_words`: with every changed line)."""
    to.print(Text.assemble(('left   ', 'dim'), printable(left.title), ('\nright  ', 'dim'), printable(right.title)))
    if comparison.differences:
        to.print((_wide_table if to.width >= _WIDE else _narrow_table)(comparison.differences))
    else:
        to.print(Text('the runs have no dataset × model in common'))
    for line in _notes(comparison):
        to.print(Text(printable(line), 'dim'))
    for one in comparison.differences:
        if one.flips:
            _print_flips(one, to, left, right, flips, None if all_words else _CHANGES)


def _notes(comparison: Comparison) -> Iterator[str]:
    """What the table does not show: rows left out, and scores that are not the reported number."""
    all_sent = [one for one in comparison.differences if one.rows and one.different_requests == one.rows]
    everywhere = len(all_sent) > 1 and len(all_sent) == len(comparison.differences)
    if everywhere:
        yield 'every row was sent differently (prompt, sampling or model)'
    for one in comparison.differences:
        if notes := ', '.join(_describe_left_out(replace(one, different_requests=0) if everywhere else one)):
            yield f'{one.dataset} × {one.model}: {notes}'
    for side, pairs in (('left', comparison.only_left), ('right', comparison.only_right)):
        if pairs:
            yield f'only on the {side}: {", ".join(" × ".join(pair) for pair in pairs)}'


def _describe_left_out(one: Difference) -> Iterator[str]:
    what = _row_noun(one)
    if one.compared == 'values':
        yield 'scores as reported, not tested: no rows have scores that can be paired'
    for count, side in ((one.only_left, 'left'), (one.only_right, 'right')):
        if count:
            yield f'{count_noun(count, what)} scored only on the {side}'
    if one.different_gold:
        yield f'{count_noun(one.different_gold, what)} left out because the gold answers differ'
    if one.different_requests:
        yield f'{one.different_requests:,} of {count_noun(one.rows, what)} sent differently (prompt, sampling or model)'


def _row_noun(one: Difference) -> str:
    return 'group' if one.compared == 'groups' else 'row'


def _wide_table(differences: Sequence[Difference]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ('dataset', 'model', 'metric'):
        table.add_column(name, overflow='fold')
    for name in ('left', 'right', 'difference', 'p', 'rows', 'flipped'):
        table.add_column(name, justify='right')
    for one in differences:
        digits = _digits(one)
        table.add_row(
            *(Text(printable(name)) for name in (one.dataset, one.model, one.metric)),
            *(_number(value, digits) for value in (one.left, one.right)),
            Text(' ').join([_difference(one, digits), Text(_interval(one, digits))]),
            _p_value(one),
            _rows_compared(one),
            f'{len(one.flips):,}',
        )
    return table


def _narrow_table(differences: Sequence[Difference]) -> Table:
    """The same in five columns of two lines each, for 80 columns."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset × model', overflow='fold')
    table.add_column('left\nright', justify='right', no_wrap=True)
    table.add_column('difference', justify='right', no_wrap=True)
    table.add_column('p', justify='right', no_wrap=True)
    table.add_column('rows\nflipped', justify='right', no_wrap=True)
    for one in differences:
        digits = _digits(one)
        table.add_row(
            Text.assemble(
                (printable(one.dataset), 'bold'), f' × {printable(one.model)}', (f'\n{printable(one.metric)}', 'dim')
            ),
            f'{_number(one.left, digits)}\n{_number(one.right, digits)}',
            Text('\n').join([_difference(one, digits), Text(_interval(one, digits), 'dim')]),
            _p_value(one),
            f'{_rows_compared(one)}\n{len(one.flips):,}',
        )
    return table


def _p_value(one: Difference) -> str:
    return '–' if one.p is None else '<0.001' if one.p < 0.001 else f'{one.p:.3f}'


def _rows_compared(one: Difference) -> str:
    if one.compared == 'values':
        return '–'
    return count_noun(one.rows, 'group') if one.compared == 'groups' else f'{one.rows:,}'


def _digits(one: Difference) -> int:
    numbers = (one.left, one.right, one.low, one.high)
    largest = max((abs(value) for value in numbers if value is not None), default=0.0)
    return 3 if largest <= 1 else 2 if largest <= 10 else 1


def _number(value: float | None, digits: int) -> str:
    return '–' if value is None else f'{value:,.{digits}f}'


def _difference(one: Difference, digits: int) -> Text:
    if one.difference is None:
        return Text('–')
    certain = one.p is not None and one.p < _CERTAIN
    return Text(f'{one.difference:+,.{digits}f}', 'bold' if certain else '')


def _interval(one: Difference, digits: int) -> str:
    if one.low is None or one.high is None:
        return ''
    return f'[{one.low:+,.{digits}f}, {one.high:+,.{digits}f}]'


def _print_flips(one: Difference, to: Console, left: Run, right: Run, most: int, changes: int | None) -> None:
    head = f'{one.dataset} × {one.model}: {count_noun(len(one.flips), _row_noun(one))} flipped'
    to.rule(Text(printable(head), 'bold'), style='dim')
    for flip in one.flips[:most]:
        to.print(_verdicts(flip))
        found = list(prompt_changes(flip, left, right))
        if not found:
            to.print(Text('  the prompt is the same', 'dim'))
        for change in found[:changes]:
            _print_change(change, to)
        rest = len(found) - len(found[:changes])
        if rest:
            to.print(Text(f'  and {count_noun(rest, "other change")} of the prompt', 'dim'))
    if len(one.flips) > most:
        to.print(Text(f'and {count_noun(len(one.flips) - most, "other row")}', 'dim'))


def _verdicts(flip: Flip) -> Text:
    sides = ((flip.left, 'left'), (flip.right, 'right'))
    text = Text().append(f'row {flip.left.row}', 'bold')
    for result, side in sides:
        verdict = _describe_outcome(result)
        style = _BETTER if verdict == 'correct' else _WORSE if verdict == 'wrong' else ''
        text.append(f'  {side} ', 'dim').append(verdict, style).append(f' {_brief(result.extracted)}')
    return text.append(f'  gold {_brief(flip.left.gold)}', 'dim')


def _describe_outcome(result: Result) -> str:
    if result.outcome != 'ok':
        return result.outcome
    return f'score {result.score:g}' if result.correct is None and result.score is not None else verdict_of(result)


def _brief(value: Any) -> str:
    words = printable(' '.join(str(value).split()))
    return words if len(words) <= 60 else f'{words[:59]}…'


def _print_change(change: Change, to: Console) -> None:
    for sign, side, style in (('-', change.left, _LEFT), ('+', change.right, _RIGHT)):
        if side is not None:
            to.print(Text.assemble((f'  {sign} ', style), _draw_pieces(side, style)))


def _draw_pieces(pieces: Pieces, style: str) -> Text:
    text = Text(overflow='fold')
    for words, differs in pieces:
        shown = printable(words.replace('\n', '⏎'))
        short = shown if differs or len(shown) <= _WIDEST else f'{shown[: _WIDEST // 2]} … {shown[-_WIDEST // 2 :]}'
        text.append(short, style if differs else '')
    return text
