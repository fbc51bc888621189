"""Two runs compared: the difference of every score with its interval, and the rows that flipped with their prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.runs.results import Result
from rolecall.scoring.compare import compare
from rolecall.views.differences import Change, Pieces, request_lines
from rolecall.views.differences import compare as compare_lines
from rolecall.views.facts import counted
from rolecall.views.report.source import Run, requests_sent
from rolecall.views.report.tally import verdict_of
from rolecall.views.visible import safe

__all__ = ['Comparison', 'Difference', 'Flip', 'compare_json', 'compare_runs', 'compare_terminal']

_FLIPS = 10
_CHANGES = 4
_WIDEST = 200
_LEFT, _RIGHT = 'bold reverse #d55e00', 'bold reverse #56b4e9'
_BETTER, _WORSE = '#009e73', '#d55e00'
_CERTAIN = 0.05


@dataclass(frozen=True, slots=True)
class Flip:
    """A row that came out otherwise in the second run."""

    left: Result
    right: Result


@dataclass(frozen=True, slots=True)
class Difference:
    """How one dataset × model differs between two runs, over the rows that both have scored. Second minus first."""

    dataset: str
    model: str
    metric: str
    left: float | None = None
    right: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """How often chance alone would give such a difference."""
    rows: int = 0
    flips: Sequence[Flip] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, dataset × model by dataset × model."""

    differences: Sequence[Difference]


def compare_runs(left: Run, right: Run) -> Comparison:
    """Two runs, row by row: the paired numbers, and the rows that flipped as both runs have them."""
    rows = [{(one.dataset, one.model, one.row): one for one in run.results()} for run in (left, right)]
    metrics = {(card.dataset, card.model): card.metric for card in left.scorecards()}
    differences = []
    for pair in compare(rows[0].values(), rows[1].values()).pairs:
        flips = [
            Flip(rows[0][pair.dataset, pair.model_a, one.row], rows[1][pair.dataset, pair.model_b, one.row])
            for one in (*pair.lost, *pair.gained)
        ]
        same = pair.model_a == pair.model_b
        differences.append(
            Difference(
                pair.dataset,
                pair.model_a if same else f'{pair.model_a} → {pair.model_b}',
                metrics.get((pair.dataset, pair.model_a), 'score'),
                pair.mean_a,
                pair.mean_b,
                pair.difference,
                pair.low,
                pair.high,
                pair.p,
                pair.n,
                flips,
            )
        )
    return Comparison(differences)


def compare_terminal(
    comparison: Comparison, to: Console, *, left: Run, right: Run, flips: int = _FLIPS, all_words: bool = False
) -> None:
    """Print the differences, and for each pair the first rows that flipped (`all_words`: with every changed line)."""
    to.print(Text.assemble(('left   ', 'dim'), safe(left.title), ('\nright  ', 'dim'), safe(right.title)))
    if not comparison.differences:
        to.print(Text('no dataset × model occurs in both'))
        return
    to.print(_table(comparison.differences))
    for one in comparison.differences:
        if one.flips:
            _print_flips(one, to, left, right, flips, None if all_words else _CHANGES)


def _table(differences: Sequence[Difference]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ('dataset', 'model', 'metric'):
        table.add_column(name, overflow='fold')
    for name in ('left', 'right', 'difference', 'p', 'rows', 'flipped'):
        table.add_column(name, justify='right')
    for one in differences:
        digits = _digits(one)
        table.add_row(
            *(Text(safe(name)) for name in (one.dataset, one.model, one.metric)),
            *(_number(value, digits) for value in (one.left, one.right)),
            _difference(one, digits),
            '–' if one.p is None else '<0.001' if one.p < 0.001 else f'{one.p:.3f}',
            f'{one.rows:,}',
            f'{len(one.flips):,}',
        )
    return table


def _digits(one: Difference) -> int:
    largest = max((abs(value) for value in (one.left, one.right) if value is not None), default=0.0)
    return 3 if largest <= 1 else 2 if largest <= 10 else 1


def _number(value: float | None, digits: int) -> str:
    return '–' if value is None else f'{value:,.{digits}f}'


def _difference(one: Difference, digits: int) -> Text:
    if one.difference is None:
        return Text('–')
    certain = one.p is not None and one.p < _CERTAIN
    style = 'bold' if certain else ''
    known = one.low is not None and one.high is not None
    interval = f' [{one.low:+,.{digits}f}, {one.high:+,.{digits}f}]' if known else ''
    return Text.assemble((f'{one.difference:+,.{digits}f}', style), (interval, ''))


def _print_flips(one: Difference, to: Console, left: Run, right: Run, most: int, changes: int | None) -> None:
    to.rule(Text(safe(f'{one.dataset} × {one.model}: {counted(len(one.flips), "row")} flipped'), 'bold'), style='dim')
    for flip in one.flips[:most]:
        to.print(_verdicts(flip))
        found = list(_prompt_changes(flip, left, right))
        if not found:
            to.print(Text('  the prompt is the same', 'dim'))
        for change in found[:changes]:
            _print_change(change, to)
        rest = len(found) - len(found[:changes])
        if rest:
            to.print(Text(f'  and {counted(rest, "other change")} of the prompt', 'dim'))
    if len(one.flips) > most:
        to.print(Text(f'and {counted(len(one.flips) - most, "other row")}', 'dim'))


def _verdicts(flip: Flip) -> Text:
    sides = ((flip.left, 'left'), (flip.right, 'right'))
    text = Text().append(f'row {flip.left.row}', 'bold')
    for result, side in sides:
        verdict = _ended(result)
        style = _BETTER if verdict == 'correct' else _WORSE if verdict == 'wrong' else ''
        text.append(f'  {side} ', 'dim').append(verdict, style).append(f' {_brief(result.extracted)}')
    return text.append(f'  gold {_brief(flip.left.gold)}', 'dim')


def _ended(result: Result) -> str:
    if result.outcome != 'ok':
        return result.outcome
    return f'score {result.score:g}' if result.correct is None and result.score is not None else verdict_of(result)


def _brief(value: Any) -> str:
    words = safe(' '.join(str(value).split()))
    return words if len(words) <= 60 else f'{words[:59]}…'


def _prompt_changes(flip: Flip, left: Run, right: Run) -> Iterator[Change]:
    """The lines of the prompts that differ."""
    sides = [
        [line for sent in requests_sent(run, result) for line in request_lines(sent.preview)]
        for run, result in ((left, flip.left), (right, flip.right))
    ]
    if sides[0] != sides[1]:
        yield from (change for change in compare_lines(*sides) if not change.same)


def _print_change(change: Change, to: Console) -> None:
    for sign, side, style in (('-', change.left, _LEFT), ('+', change.right, _RIGHT)):
        if side is not None:
            to.print(Text.assemble((f'  {sign} ', style), _drawn(side, style)))


def _drawn(pieces: Pieces, style: str) -> Text:
    text = Text(overflow='fold')
    for words, differs in pieces:
        shown = safe(words.replace('\n', '⏎'))
        short = shown if differs or len(shown) <= _WIDEST else f'{shown[: _WIDEST // 2]} … {shown[-_WIDEST // 2 :]}'
        text.append(short, style if differs else '')
    return text


def compare_json(comparison: Comparison, *, left: Run, right: Run) -> dict[str, Any]:
    """Everything in plain values: each difference, and the rows that flipped with the changes of their prompts."""
    return {
        'left': left.title,
        'right': right.title,
        'differences': [
            {
                **{name: getattr(one, name) for name in ('dataset', 'model', 'metric', 'left', 'right')},
                **{name: getattr(one, name) for name in ('difference', 'low', 'high', 'p', 'rows')},
                'flips': [_flip_as_json(flip, left, right) for flip in one.flips],
            }
            for one in comparison.differences
        ],
    }


def _flip_as_json(flip: Flip, left: Run, right: Run) -> dict[str, Any]:
    changes = list(_prompt_changes(flip, left, right))
    return {
        'row': flip.left.row,
        'gold': flip.left.gold,
        'left': _result_as_json(flip.left),
        'right': _result_as_json(flip.right),
        'same_prompt': not changes,
        'changes': [{'left': _pieces(change.left), 'right': _pieces(change.right)} for change in changes],
    }


def _result_as_json(result: Result) -> dict[str, Any]:
    names = ('outcome', 'extracted', 'score', 'correct', 'fingerprint')
    return {name: getattr(result, name) for name in names}


def _pieces(pieces: Pieces | None) -> list[dict[str, Any]] | None:
    return None if pieces is None else [{'text': text, 'differs': differs} for text, differs in pieces]
