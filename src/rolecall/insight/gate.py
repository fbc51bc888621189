"""A gate for continuous integration: is a run worse than its baseline, by a paired non-inferiority test?

For each dataset × model, the one-sided 95 % bounds of the difference (new − base) decide. *Not worse*: the loss is
smaller than the margin. *Worse*: there is a loss, estimated at more than the margin. Otherwise there are too few rows
to tell. Requiring every dataset to pass needs no correction for testing several. Rows that failed (a network, a
server) are not measured; rows that the model lost (too long, refused, out of thinking tokens) are wrong.

Of two benchmarks of a server, levels are compared. Requests of one are alike, so intervals are over batches of
neighbours. How much a server differs from one start to the next is not in them: several benchmarks tell.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rolecall.insight.comparison import groups_in_cards, name_models, same_metric
from rolecall.insight.pairing import PairedScores, pair_results
from rolecall.insight.run_source import StoredRun
from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_benchmark import error_by_batches
from rolecall.runs.stopping import measured_score
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import paired_difference
from rolecall.strings import count_noun, printable

Verdict = Literal['worse', 'not worse', 'too few rows to tell', 'not measured']

_TWO_SIDED = 0.90
"""The interval whose ends are one-sided 95 % bounds."""
_Z_SIDE = 1.6449
_Z_POWER = 0.8416
"""For 80 % power."""
NEEDED = (
    'need: enough in 4 of 5 runs, if further rows change as often as these and the true loss is the one seen '
    '(none, where that is over the margin).'
)
"""What the number of rows that would be enough assumes."""
_MOST_ROWS = 10**9
_MOST_LOST = 0.1
"""If a larger share of rows was not measured, the rest may not be representative."""
_EXIT_CODES: Mapping[Verdict, int] = {'not worse': 0, 'worse': 1, 'too few rows to tell': 3, 'not measured': 3}
_MARKS: Mapping[Verdict, str] = {'not worse': '✅', 'worse': '❌', 'too few rows to tell': '❔', 'not measured': '❔'}


@dataclass(frozen=True, slots=True)
class GatedPair:
    """One dataset × model against its baseline. Numbers are on the scale of the report."""

    dataset: str
    model: str
    verdict: Verdict
    rows: int = 0
    base: float | None = None
    new: float | None = None
    difference: float | None = None
    low: float | None = None
    """The one-sided 95 % bounds of the difference."""
    high: float | None = None
    needed: int | None = None
    """About how many rows would be enough, if these are too few."""
    not_measured: int = 0
    """Rows that failed in one of the runs."""
    why: str = ''
    unit: str = 'row'

    @property
    def bounds(self) -> str:
        """The bounds behind the difference; empty where there are none."""
        return '' if self.low is None or self.high is None else f' [{self.low:+.2f}, {self.high:+.2f}]'

    @property
    def line(self) -> str:
        """The verdict with its numbers."""
        parts = []
        if self.difference is not None:
            parts.append(f'{self.difference:+.2f}{self.bounds}')
        parts.append(count_noun(self.rows, self.unit))
        if self.not_measured:
            parts.append(f'{self.not_measured:,} not measured')
        return f'{self.dataset} × {self.model}: {self.verdict}{self.need}, {", ".join(parts)}{self.reason}'

    @property
    def need(self) -> str:
        """How many rows would be enough, behind the verdict."""
        return '' if self.needed is None else f' (need {self.needed:,})'

    @property
    def reason(self) -> str:
        """Why, behind the rest."""
        return f': {self.why}' if self.why else ''


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict on a run: the worst of its datasets."""

    pairs: tuple[GatedPair, ...]
    margin: float
    left: str
    right: str

    @property
    def verdict(self) -> Verdict:
        verdicts = [pair.verdict for pair in self.pairs]
        order: tuple[Verdict, ...] = ('worse', 'not measured', 'too few rows to tell', 'not worse')
        return next((verdict for verdict in order if verdict in verdicts), 'not measured')

    @property
    def passed(self) -> bool:
        """Whether the run is not worse."""
        return self.verdict == 'not worse'

    def __str__(self) -> str:
        return '\n'.join(self.lines())

    @property
    def exit_code(self) -> int:
        """0: not worse; 1: worse; 3: cannot be told."""
        return _EXIT_CODES[self.verdict]

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        return {
            'verdict': self.verdict,
            'margin': self.margin,
            'base': self.left,
            'new': self.right,
            'pairs': [asdict(pair) for pair in self.pairs],
        }

    def lines(self) -> Iterator[str]:
        """The verdicts for people, the overall one last."""
        yield from (pair.line for pair in self.pairs)
        if any(pair.needed is not None for pair in self.pairs):
            yield NEEDED
        yield f'{self.right} against {self.left}, margin {self.margin:g}: {self.verdict.upper()}'


def gate(base: str | Path | Any, new: str | Path | Any, *, margin: float = 2.0) -> GateResult:
    """Compare two run directories, or finished runs: `assert rolecall.gate('runs/main', run).passed`."""
    from rolecall.runs.store.run_reader import RunReader

    with RunReader(getattr(base, 'out', base)) as base_reader, RunReader(getattr(new, 'out', new)) as new_reader:
        return gate_runs(StoredRun(base_reader), StoredRun(new_reader), margin=margin)


def gate_runs(base: StoredRun, new: StoredRun, *, margin: float) -> GateResult:
    """Whether a run is worse than its baseline by more than `margin` (percentage points, where scores are in percent).

    >>> from types import SimpleNamespace
    >>> def a_run(title, right):
    ...     rows = [Result('qa', 'm', row, 'ok', score=float(row < right)) for row in range(200)]
    ...     card = Scorecard('qa', 'm', 'accuracy', right / 2, unit='%')
    ...     return SimpleNamespace(title=title, results=lambda: rows, scorecards=lambda: [card])
    >>> print(*gate_runs(a_run('old', 160), a_run('new', 150), margin=2).lines(), sep='\\n')
    qa × m: worse, -5.00 [-8.49, -2.82], 200 rows
    new against old, margin 2: WORSE
    """
    sides = [{(card.dataset, card.model): card for card in reversed(run.scorecards())} for run in (base, new)]
    cards = {**sides[1], **sides[0]}
    failed: tuple[Counter[tuple[str, str]], ...] = (Counter(), Counter())
    results = (_pass_on(run.results(), cards, lost) for run, lost in zip((base, new), failed, strict=True))
    paired = pair_results(*results, groups=groups_in_cards(cards.values()), confidence=_TWO_SIDED)
    pairs = [_refuse_other_metric(pair, *sides) or _judge(pair, cards, failed, margin) for pair in paired.pairs]
    why = 'the new run has no rows of it'
    pairs += [GatedPair(dataset, model, 'not measured', why=why) for dataset, model in paired.unpaired_a]
    return GateResult(tuple(pairs), margin, base.title, new.title)


def _pass_on(
    results: Iterable[Result], cards: Mapping[tuple[str, str], Scorecard], failed: Counter[tuple[str, str]]
) -> Iterator[Result]:
    """Pass rows on, scoring lost answers as wrong and counting failed rows."""
    for result in results:
        pair = (result.dataset, result.model)
        lower = pair in cards and cards[pair].lower_is_better
        failed[pair] += result.outcome == 'failed' and result.score is None
        score = result.score if lower else measured_score(result)
        yield result if score == result.score else replace(result, score=score)


def _refuse_other_metric(
    pair: PairedScores, base: Mapping[tuple[str, str], Scorecard], new: Mapping[tuple[str, str], Scorecard]
) -> GatedPair | None:
    """Scores of different metrics have no difference."""
    before, after = base.get((pair.dataset, pair.model_a)), new.get((pair.dataset, pair.model_b))
    if before is None or after is None or same_metric(before, after):
        return None
    why = f'the metrics differ ({before.metric} → {after.metric})'
    return GatedPair(pair.dataset, name_models(pair), 'not measured', pair.n, why=why)


def _judge(
    pair: PairedScores,
    cards: Mapping[tuple[str, str], Scorecard],
    failed: Sequence[Counter[tuple[str, str]]],
    margin: float,
) -> GatedPair:
    lost = max(failed[0][pair.dataset, pair.model_a], failed[1][pair.dataset, pair.model_b])
    card = cards.get((pair.dataset, pair.model_a)) or cards.get((pair.dataset, pair.model_b))
    factor = 100.0 if card is not None and card.is_percent else 1.0
    sign = -1.0 if card is not None and card.lower_is_better else 1.0
    judged = GatedPair(pair.dataset, name_models(pair), 'not measured', pair.n, not_measured=lost)
    if pair.n == 0 or pair.difference is None or pair.mean_a is None or pair.mean_b is None:
        return replace(judged, why='no row has a score in both runs')
    difference = factor * pair.difference
    judged = replace(judged, base=factor * pair.mean_a, new=factor * pair.mean_b, difference=difference)
    if pair.low is None or pair.high is None:
        return replace(judged, verdict='too few rows to tell')
    judged = replace(judged, low=factor * pair.low, high=factor * pair.high)
    worst, best = sorted(sign * factor * bound for bound in (pair.low, pair.high))
    too_many_lost = lost > _MOST_LOST * (pair.n + lost)
    if best < 0 and sign * difference < -margin:
        return replace(judged, verdict='worse')
    if too_many_lost:
        return replace(judged, why='too many rows failed: run it again with --rerun failed')
    if worst >= -margin:
        return replace(judged, verdict='not worse')
    needed = need_rows(pair.n, _width_of(pair, factor, best - worst), sign * difference, margin)
    return replace(judged, verdict='too few rows to tell', needed=needed)


def need_rows(rows: int, width_at: Callable[[int], float], difference: float, margin: float) -> int | None:
    """The number of rows needed for 80 % power, if they vary as these do; None if no number is enough.

    `width_at` gives the width of the interval for a number of rows.

    >>> need_rows(100, lambda rows: 12.0 * (100 / rows) ** 0.5, 0.0, 2.0)
    2057
    """
    room = margin + min(difference, 0.0)
    room = (room if room > 0 else margin) / (1 + _Z_POWER / _Z_SIDE)
    enough = rows
    while width_at(enough) / 2 > room:
        if enough > _MOST_ROWS:
            return None
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if width_at(middle) / 2 > room else (few, middle)
    return max(rows + 1, enough)


def _width_of(pair: PairedScores, factor: float, width: float) -> Callable[[int], float]:
    """The width of a pair's interval by the number of rows, if they change as often and as much as these."""
    if pair.test != 'mcnemar':
        return lambda rows: width * math.sqrt(pair.n / rows)
    gained, lost = len(pair.gained) / pair.n, len(pair.lost) / pair.n

    def width_at(rows: int) -> float:
        low, high = paired_difference(gained * rows, lost * rows, rows, confidence=_TWO_SIDED)
        return factor * (high - low)

    return width_at


def gate_markdown(result: GateResult) -> str:
    """The verdict as Markdown, for a pull request."""
    head = f'### {_MARKS[result.verdict]} {_words(result.right)}: **{result.verdict}**'
    lines = [
        head,
        '',
        f'Against {_words(result.left)}, margin {result.margin:g}; one-sided 95 % bounds of the difference.',
        '',
        '| | dataset | model | base | new | difference | rows | verdict |',
        '|---|---|---|---:|---:|---:|---:|---|',
    ]
    for pair in result.pairs:
        numbers = ['–', '–', '–']
        if pair.difference is not None:
            numbers = [f'{pair.base:.2f}', f'{pair.new:.2f}', f'{pair.difference:+.2f}{pair.bounds}']
        rows = f'{pair.rows:,}' + (f' ({pair.not_measured:,} not measured)' if pair.not_measured else '')
        verdict = _words(f'{pair.verdict}{pair.need}{pair.reason}')
        cells = [_MARKS[pair.verdict], _words(pair.dataset), _words(pair.model), *numbers, rows, verdict]
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def _words(text: str) -> str:
    return printable(' '.join(text.split())).replace('|', '\\|').replace('<', '&lt;').replace('`', '\\`')


_T_SIDE = 1.73
"""Student's t for a one-sided bound of 95 % over 20 batches."""
_MEASURES = {'TTFT (ms)': 'ttft', 'TPOT (ms)': 'tpot', 'E2EL (ms)': 'latency'}
Requests = Sequence[Mapping[str, Any]]


def gate_benches(base: StoredBench, new: StoredBench, *, margin: float) -> GateResult:
    """Whether a server became slower, by more than `margin` percent, at any level that both benchmarks have."""
    levels = {str(level['level']): number for number, level in enumerate(new.levels)}
    pairs: list[GatedPair] = []
    for number, level in enumerate(base.levels):
        name = str(level['level'])
        if name in levels:
            pairs += _compare_level(name, _list_measured(base, number), _list_measured(new, levels[name]), margin)
        else:
            pairs.append(GatedPair(name, 'all', 'not measured', why='the new benchmark has no such level'))
    return GateResult(tuple(pairs), margin, str(base.directory), str(new.directory))


def _list_measured(bench: StoredBench, number: int) -> Requests:
    """The requests of a level in its steady state; all of them where it has none."""
    steady = bench.levels[number]['steady'] or {'from_seconds': 0.0, 'to_seconds': math.inf}
    begin, end = steady['from_seconds'], steady['to_seconds']
    return [request for request in bench.requests[number] if begin <= request['start_time'] <= end]


def _compare_level(name: str, base: Requests, new: Requests, margin: float) -> Iterator[GatedPair]:
    lost = max(sum(request['outcome'] != 'ok' for request in side) for side in (base, new))
    for measure, key in _MEASURES.items():
        sides = [
            [1e3 * request[key] for request in side if request['outcome'] == 'ok' and request[key] is not None]
            for side in (base, new)
        ]
        judged = GatedPair(name, measure, 'not measured', min(map(len, sides)), not_measured=lost, unit='request')
        yield _judge_measure(judged, sides, margin) if all(map(any, sides)) else judged


def _judge_measure(pair: GatedPair, sides: Sequence[Sequence[float]], margin: float) -> GatedPair:
    """The ratio of two means with one-sided bounds, in percent."""
    base, new = map(fmean, sides)
    ratio = math.log(new / base)
    error = _T_SIDE * math.hypot(error_by_batches(sides[0]) / base, error_by_batches(sides[1]) / new)
    pair = replace(pair, base=base, new=new, difference=100 * math.expm1(ratio))
    if not math.isfinite(error):
        return replace(pair, verdict='too few rows to tell')
    low, high = (100 * math.expm1(bound) for bound in (ratio - error, ratio + error))
    pair = replace(pair, low=low, high=high)
    if low > 0 and math.expm1(ratio) > margin / 100:
        return replace(pair, verdict='worse')
    if pair.not_measured > _MOST_LOST * (pair.rows + pair.not_measured):
        return replace(pair, why='too many requests failed')
    return replace(pair, verdict='not worse' if high <= margin else 'too few rows to tell')
