"""Two runs compared: the difference of every score with its interval, and the rows that flipped with their prompts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.report.paired import Versus, compare
from rolecall.report.source import Run, requests_sent
from rolecall.report.tally import verdict_of
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.views.differences import Change, Pieces, request_lines
from rolecall.views.differences import compare as compare_lines
from rolecall.views.facts import counted
from rolecall.views.visible import safe

__all__ = ['Comparison', 'Difference', 'Flip', 'compare_json', 'compare_runs', 'compare_terminal']

_FLIPS = 10
_CHANGES = 4
_WIDEST = 200
_LEFT, _RIGHT = 'bold reverse #d55e00', 'bold reverse #56b4e9'
_BETTER, _WORSE = '#009e73', '#d55e00'
_CERTAIN = 0.05
_ROUNDED = 1e-3
_LEFT_OUT = ('only_left', 'only_right', 'different_gold', 'different_requests')

Compared = Literal['rows', 'groups', 'values']


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
    """Compared rows, or groups of rows."""
    flips: Sequence[Flip] = ()
    compared: Compared = 'rows'
    """What `rows` counts. `values`: no row has a score of its own, so the two scores stand side by side, untested."""
    only_left: int = 0
    """Rows (or groups) that only the first run has scored."""
    only_right: int = 0
    different_gold: int = 0
    """Rows left out because the runs hold them against different gold answers."""
    different_requests: int = 0
    """Compared rows for which the runs did not send the same."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, dataset × model by dataset × model, and the pairs that only one of them has."""

    differences: Sequence[Difference]
    only_left: Sequence[tuple[str, str]] = ()
    only_right: Sequence[tuple[str, str]] = ()


def compare_runs(left: Run, right: Run) -> Comparison:
    """Two runs, row by row: the paired numbers, and the rows that flipped as both runs have them."""
    rows: list[_Rows] = [{(one.dataset, one.model, one.row): one for one in run.results()} for run in (left, right)]
    cards = [{(card.dataset, card.model): card for card in run.scorecards()} for run in (left, right)]
    groups = {
        card.dataset: card.details['groups']
        for side in (cards[1], cards[0])
        for card in side.values()
        if card.details.get('groups')
    }
    found = compare(rows[0].values(), rows[1].values(), groups=groups)
    means = [_means(side.values()) for side in rows]
    differences = []
    for pair in found.pairs:
        keys = (pair.dataset, pair.model_a), (pair.dataset, pair.model_b)
        one, other = (_Side(side.get(key), mean.get(key)) for side, key, mean in zip(cards, keys, means, strict=True))
        flips = _flips(pair, groups.get(pair.dataset, ()), *rows)
        differences.append(_difference_of(pair, one, other, flips))
    return Comparison(differences, found.unpaired_a, found.unpaired_b)


_Rows = dict[tuple[str, str, int], Result]


@dataclass(frozen=True, slots=True)
class _Side:
    """What one run says of a dataset × model: its scorecard, and the mean of its rows' scores."""

    card: Scorecard | None
    mean: float | None

    @property
    def metric(self) -> str:
        return self.card.metric if self.card else 'score'

    @property
    def factor(self) -> float:
        """From rows' scores to the scale of the report."""
        return 100.0 if self.card and self.card.details.get('unit') == '%' else 1.0

    @property
    def value(self) -> float | None:
        return self.card.value if self.card else None

    @property
    def is_the_mean(self) -> bool:
        """Whether the reported number is the mean of the rows' scores."""
        if self.value is None or self.mean is None:
            return True
        return math.isclose(self.value, self.mean * self.factor, rel_tol=_ROUNDED, abs_tol=_ROUNDED)


def _means(results: Iterable[Result]) -> dict[tuple[str, str], float]:
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in results:
        if one.score is not None:
            scores[one.dataset, one.model].append(one.score)
    return {key: sum(each) / len(each) for key, each in scores.items()}


def _difference_of(pair: Versus, one: _Side, other: _Side, flips: Sequence[Flip]) -> Difference:
    same_metric = one.card is None or other.card is None or (one.metric, one.factor) == (other.metric, other.factor)
    told = one if one.card is not None else other
    common = Difference(
        dataset=pair.dataset,
        model=pair.model_a if pair.model_a == pair.model_b else f'{pair.model_a} → {pair.model_b}',
        metric=told.metric if same_metric else f'{one.metric} → {other.metric}',
        only_left=pair.only_a,
        only_right=pair.only_b,
        different_gold=pair.different_gold,
    )
    if not same_metric or (one.mean is None and other.mean is None):
        gap = None if one.value is None or other.value is None or not same_metric else other.value - one.value
        return replace(common, left=one.value, right=other.value, difference=gap, compared='values')
    of_rows = not pair.grouped and not (one.is_the_mean and other.is_the_mean)
    return replace(
        common,
        metric=f'{common.metric}, mean of rows' if of_rows else common.metric,
        left=_times(pair.mean_a, told.factor),
        right=_times(pair.mean_b, told.factor),
        difference=_times(pair.difference, told.factor),
        low=_times(pair.low, told.factor),
        high=_times(pair.high, told.factor),
        p=pair.p,
        rows=pair.n,
        flips=flips,
        compared='groups' if pair.grouped else 'rows',
        different_requests=pair.different_requests,
    )


def _times(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _flips(pair: Versus, groups: Sequence[Sequence[int]], left: _Rows, right: _Rows) -> list[Flip]:
    """The rows that flipped; of a group, the first of its rows that did."""
    members = {group[0]: group for group in groups}
    found = []
    for one in (*pair.lost, *pair.gained):
        both = [
            Flip(left[pair.dataset, pair.model_a, row], right[pair.dataset, pair.model_b, row])
            for row in members.get(one.row, (one.row,))
        ]
        found.append(next((flip for flip in both if flip.left.score != flip.right.score), both[0]))
    return found


def compare_terminal(
    comparison: Comparison, to: Console, *, left: Run, right: Run, flips: int = _FLIPS, all_words: bool = False
) -> None:
    """Print the differences, and for each pair the first rows that flipped (`all_words`: with every changed line)."""
    to.print(Text.assemble(('left   ', 'dim'), safe(left.title), ('\nright  ', 'dim'), safe(right.title)))
    if comparison.differences:
        to.print(_table(comparison.differences))
    else:
        to.print(Text('no dataset × model occurs in both'))
    for line in _remarks(comparison):
        to.print(Text(safe(line), 'dim'))
    for one in comparison.differences:
        if one.flips:
            _print_flips(one, to, left, right, flips, None if all_words else _CHANGES)


def _remarks(comparison: Comparison) -> Iterator[str]:
    """What the table does not show: what was left out, and what is compared where that is not the reported number."""
    for one in comparison.differences:
        if told := ', '.join(_left_out(one)):
            yield f'{one.dataset} × {one.model}: {told}'
    for side, pairs in (('left', comparison.only_left), ('right', comparison.only_right)):
        if pairs:
            yield f'only on the {side}: {", ".join(" × ".join(pair) for pair in pairs)}'


def _left_out(one: Difference) -> Iterator[str]:
    what = _unit(one)
    if one.compared == 'values':
        yield 'the scores as reported, without a test: no rows with scores of one kind can be paired'
    for count, side in ((one.only_left, 'left'), (one.only_right, 'right')):
        if count:
            yield f'{counted(count, what)} scored only on the {side}'
    if one.different_gold:
        yield f'{counted(one.different_gold, what)} left out because the gold answers differ'
    if one.different_requests:
        yield f'{one.different_requests:,} of {counted(one.rows, what)} sent otherwise (prompt, sampling or model)'


def _unit(one: Difference) -> str:
    return 'group' if one.compared == 'groups' else 'row'


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
            '–'
            if one.compared == 'values'
            else f'{one.rows:,} groups'
            if one.compared == 'groups'
            else f'{one.rows:,}',
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
    head = f'{one.dataset} × {one.model}: {counted(len(one.flips), _unit(one))} flipped'
    to.rule(Text(safe(head), 'bold'), style='dim')
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
        **{
            side: [{'dataset': dataset, 'model': model} for dataset, model in pairs]
            for side, pairs in (('only_left', comparison.only_left), ('only_right', comparison.only_right))
        },
        'differences': [
            {
                **{name: getattr(one, name) for name in ('dataset', 'model', 'metric', 'left', 'right')},
                **{name: getattr(one, name) for name in ('difference', 'low', 'high', 'p', 'rows', 'compared')},
                **{name: getattr(one, name) for name in _LEFT_OUT},
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
