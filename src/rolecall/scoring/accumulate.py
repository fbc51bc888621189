"""Aggregate marks row by row, keeping a few numbers of each row and not the row itself.

Metrics over groups of rows are the exception: they keep rows until all groups are complete.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rolecall.scoring.metrics.comparing import tabulate_comparisons
from rolecall.scoring.metrics.metric import Answer, Corpus, Groups, Mark, Metric, PassRate, WinRate
from rolecall.scoring.scorecard import IntervalBasis, Scorecard
from rolecall.scoring.statistics import (
    Interval,
    bootstrap,
    clustered_wilson,
    g_pass_at_k,
    mean_interval,
    pass_at_k,
    wilson,
    win_rate_interval,
)

CONFIDENCE = 0.95
_THRESHOLDS = (0.25, 0.5, 0.75, 1.0)
_MOST_UNITS = 5000
"""Rows of a corpus metric beyond this many are resampled in blocks of neighbours."""


@dataclass(slots=True)
class MarkedRow:
    """A row with its answers and their marks; no marks if it is excluded."""

    cluster: str | None
    answers: tuple[Answer, ...]
    marks: tuple[Mark, ...]
    answered: bool = True
    cut: bool = False
    """Whether the reply was cut off by `max_out_len`."""

    @property
    def score(self) -> float:
        marks = self.marks
        return marks[0].score if len(marks) == 1 else sum(mark.score for mark in marks) / len(marks)


class Means:
    """Means of named numbers."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, name: str, number: float) -> None:
        total = self._sums.setdefault(name, [0.0, 0.0])
        total[0] += number
        total[1] += 1

    def values(self) -> dict[str, float]:
        return {name: total / count for name, (total, count) in self._sums.items()}


class ClusterSums:
    """The sums of numbers by cluster. A row without a cluster is one of its own, and costs eight bytes for each number.

    >>> sums = ClusterSums()
    >>> for score, cluster in [(1.0, 'a'), (0.0, None), (1.0, 'a')]:
    ...     sums.add((score,), cluster)
    >>> list(sums.units())
    [((0.0,), 1), ((2.0,), 2)]
    """

    def __init__(self) -> None:
        self._alone = array('d')
        self._named: dict[str, tuple[tuple[float, ...], int]] = {}
        self._width = 1
        self.totals: tuple[float, ...] = ()

    def add(self, numbers: tuple[float, ...], cluster: str | None) -> None:
        self._width = len(numbers)
        self.totals = _add(self.totals, numbers)
        if cluster is None:
            self._alone.extend(numbers)
        else:
            sums, rows = self._named.get(cluster, ((), 0))
            self._named[cluster] = (_add(sums, numbers), rows + 1)

    def add_alone(self, scores: Sequence[float]) -> None:
        """Add one number for each of many rows without a cluster."""
        [total] = self.totals or (0.0,)
        self.totals = (_sum_from(total, scores),)
        self._alone.extend(scores)

    def __len__(self) -> int:
        return len(self._alone) // self._width + len(self._named)

    @property
    def independent(self) -> bool:
        """Whether no row has a cluster."""
        return not self._named

    def units(self) -> Iterator[tuple[tuple[float, ...], int]]:
        """The sums and the number of rows of each cluster."""
        for start in range(0, len(self._alone), self._width):
            yield tuple(self._alone[start : start + self._width]), 1
        yield from self._named.values()


class MarkAccumulator:
    """The metric over all rows that were added.

    >>> from rolecall.scoring.metrics.matching import accuracy
    >>> added = MarkAccumulator(accuracy())
    >>> for right in (True, True, False):
    ...     added.add(MarkedRow(None, (), (Mark(float(right), correct=right),)))
    >>> card, _ = added.summarise()
    >>> round(card.value, 1), card.scored
    (66.7, 3)
    """

    def __init__(self, metric: Metric, *, k: Sequence[int] = ()) -> None:
        self.metric = metric
        self._how = metric.aggregation
        self._holds_rows = isinstance(self._how, Groups | WinRate) or self._how.breakdown is not None
        self._total = self._how.total if isinstance(self._how, Corpus) else None
        self._problem = self._how.problem if isinstance(self._how, PassRate) else None
        self._k = k
        self._rows = 0
        self._scores = ClusterSums()
        self._tallies = ClusterSums()
        self._finished = ClusterSums()
        self._binary = self._decided = True
        self._parts, self._turns = Means(), Means()
        self._samples: Counter[tuple[int, int]] = Counter()
        self._unanswered = 0
        self._problems: dict[Hashable, list[int]] = {}
        self._graded = False
        self._held: list[MarkedRow] = []

    def add(self, row: MarkedRow) -> None:
        """Add a row. One without marks counts only as a gap in its group."""
        if self._holds_rows:
            self._held.append(row)
        elif row.marks:
            self._count(row)

    def add_plain(self, scores: Sequence[float], correct: Sequence[int | None]) -> None:
        """Add rows with one mark each, no parts and no cluster."""
        self._rows += len(scores)
        self._scores.add_alone(scores)
        if None in correct:
            self._binary = self._decided = False
        finished, count = self._finished.totals or (0.0, 0.0)
        self._finished.totals = (_sum_from(finished, scores), count + len(scores))

    def summarise(self) -> tuple[Scorecard, float | None]:
        """The score, and the value over the replies that were not cut off (of a mean or a corpus metric)."""
        if not self._held:
            return self._summary({}, self._rows)
        whole = self._whole_groups()
        pairs = [pair for row in whole for pair in zip(row.answers, row.marks, strict=False)]
        breakdown = self._how.breakdown(pairs) if self._how.breakdown and pairs else {}
        counted = MarkAccumulator(self.metric, k=self._k)
        for row in whole if self.metric.group is None else self._one_per_group(whole):
            counted._count(row)
        card, finished = counted._summary(breakdown, len(whole))
        compared = tabulate_comparisons([(row.cluster, row.marks) for row in whole]) if self.metric.compares else None
        return replace(card, compared=compared or None), finished

    def _count(self, row: MarkedRow) -> None:
        problem = self._problem(row.answers[0]) if self._problem and row.answers else None
        cluster = row.cluster or problem
        self._rows += 1
        self._scores.add((row.score,), cluster)
        self._binary = self._binary and len(row.marks) == 1 and row.marks[0].correct is not None
        self._decided = self._decided and all(mark.correct is not None for mark in row.marks)
        numbers = _add(*(mark.tally for mark in row.marks)) if self._total else (row.score, 1.0)
        if self._total:
            self._tallies.add(numbers, cluster)
        if not row.cut:
            self._finished.totals = _add(self._finished.totals, numbers)
        self._count_parts(row.marks)
        if self._k:
            self._count_samples(row, problem)

    def _count_parts(self, marks: Sequence[Mark]) -> None:
        own = Means()
        for number, mark in enumerate(marks, start=1):
            for name, value in mark.parts.items():
                own.add(name, value)
            if self.metric.by_turn:
                self._turns.add(f'turn_{number}', mark.score)
        for name, value in own.values().items():
            self._parts.add(name, value)

    def _count_samples(self, row: MarkedRow, problem: str | None) -> None:
        rights = [_is_right(mark) for mark in row.marks]
        self._graded = self._graded or None in rights
        right = sum(map(bool, rights))
        if problem is not None:
            counts = self._problems.setdefault(problem, [0, 0])
            counts[0] += len(rights)
            counts[1] += right
        elif row.answered:
            self._samples[len(rights), right] += 1
        else:
            self._unanswered += 1

    def _summary(self, breakdown: Mapping[str, float], scored: int) -> tuple[Scorecard, float | None]:
        if not self._rows:
            return Scorecard('', '', self.metric.name, None), None
        percent = self.metric.unit == '%' or self._decided
        factor = 100.0 if percent else 1.0
        value, interval, method, clusters = self._estimate()
        parts = self._parts.values()
        derived = self._how.derive(parts) if self._how.derive and parts else {}
        pass_rates, intervals, short = self._pass_rates()
        further = {**parts, **derived, **self._turns.values(), **breakdown, **pass_rates}
        finished = self._value_of_finished()
        card = Scorecard(
            '',
            '',
            self.metric.name,
            value=value * factor,
            low=None if interval is None else interval.low * factor,
            high=None if interval is None else interval.high * factor,
            scored=scored,
            unit='%' if percent else '',
            lower_is_better=self.metric.lower_is_better,
            interval=IntervalBasis(method, CONFIDENCE, clusters),
            further={name: number * factor for name, number in further.items()} or None,
            further_intervals=intervals or None,
            short_of_samples=short or None,
        )
        return card, None if finished is None else finished * factor

    def _estimate(self) -> tuple[float, Interval | None, str, int]:
        if self._total is not None:
            return self._estimate_corpus(self._total)
        right, clusters = self._scores.totals[0], len(self._scores)
        value = right / self._rows
        if self._binary and not self.metric.compares and self._scores.independent:
            return value, wilson(right, self._rows, confidence=CONFIDENCE), 'wilson', clusters
        sums = [(total, count) for (total,), count in self._scores.units()]
        if self.metric.compares:
            return value, win_rate_interval(sums, confidence=CONFIDENCE), 'paired', clusters
        if self._binary:
            return value, clustered_wilson(sums, confidence=CONFIDENCE), 'wilson', clusters
        shares = self.metric.unit == '%' and all(0 <= total <= count for total, count in sums)
        interval = mean_interval(sums, scale=(0.0, 1.0) if shares else None, confidence=CONFIDENCE)
        return value, interval if clusters > 1 else None, 'score', clusters

    def _estimate_corpus(self, total: Callable[[Sequence[float]], float]) -> tuple[float, Interval | None, str, int]:
        units = [sums for sums, _ in self._tallies.units()]
        size = -(-len(units) // _MOST_UNITS)
        blocks = [_add(*units[start : start + size]) for start in range(0, len(units), size)]
        interval = (
            bootstrap(blocks, lambda drawn: total(_add(*drawn)), confidence=CONFIDENCE) if len(units) > 1 else None
        )
        return total(self._tallies.totals), interval, 'bootstrap', len(units)

    def _value_of_finished(self) -> float | None:
        totals = self._finished.totals
        if not totals:
            return None
        return self._total(totals) if self._total else totals[0] / totals[1]

    def _pass_rates(self) -> tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, int]]:
        """pass@k and G-Pass@k, where every row has enough samples; intervals in percent; rows with too few,
        if others have enough.

        A counted row without an answer is wrong in as many samples as the other rows have.
        """
        counts = Counter(self._samples)
        counts.update((samples, right) for samples, right in self._problems.values())
        most = max((samples for samples, _ in counts), default=1)
        if self._unanswered:
            counts[most, 0] += self._unanswered
        if self._graded or not counts:
            return {}, {}, {}
        rows = counts.total()
        numbers: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}
        short: dict[str, int] = {}
        for k in self._k:
            if few := sum(times for (samples, _), times in counts.items() if samples < k):
                short |= {f'pass@{k}': few} if most >= k else {}
                continue
            chances = [(pass_at_k(*count, k), times) for count, times in counts.items()]
            numbers[f'pass@{k}'] = sum(chance * times for chance, times in chances) / rows
            if rows > 1:
                interval = _interval_of_chances(chances)
                intervals[f'pass@{k}'] = (interval.low * 100, interval.high * 100)
            for threshold in _THRESHOLDS if most > 1 else ():
                total = sum(g_pass_at_k(*count, k, threshold) * times for count, times in counts.items())
                numbers[f'g-pass@{k}_{threshold}'] = total / rows
        return numbers, intervals, short

    def _whole_groups(self) -> list[MarkedRow]:
        """The rows of complete groups. A group with an unmarked row cannot be right, so it is left out."""
        return [row for group in self._groups(self._held) if all(row.marks for row in group) for row in group]

    def _groups(self, rows: Sequence[MarkedRow]) -> list[list[MarkedRow]]:
        groups: dict[Hashable, list[MarkedRow]] = defaultdict(list)
        for place, row in enumerate(rows):
            name = self.metric.group(row.answers[0]) if self.metric.group and row.answers else None
            groups[(place,) if name is None else name].append(row)
        return list(groups.values())

    def _one_per_group(self, rows: Sequence[MarkedRow]) -> Iterator[MarkedRow]:
        for group in self._groups(rows):
            right = all(row.score == 1 for row in group)
            yield replace(group[0], marks=(Mark(float(right), correct=right),), cut=any(row.cut for row in group))


def _sum_from(total: float, numbers: Sequence[float]) -> float:
    """The sum, added one at a time, so that it does not depend on how the numbers are split into batches."""
    for number in numbers:
        total += number
    return total


def _add(*tallies: Sequence[float]) -> tuple[float, ...]:
    filled = [tally for tally in tallies if tally]
    return tuple(map(sum, zip(*filled, strict=True))) if len(filled) > 1 else tuple(filled[0]) if filled else ()


def _is_right(mark: Mark) -> bool | None:
    """Whether a mark is right or wrong; None for a graded one."""
    return mark.correct if mark.correct is not None else bool(mark.score) if mark.score in (0, 1) else None


def _interval_of_chances(chances: Sequence[tuple[float, int]]) -> Interval:
    """The interval of a mean of probabilities, each given with its number of rows."""
    if all(chance in (0.0, 1.0) for chance, _ in chances):
        right = sum(chance * times for chance, times in chances)
        return wilson(right, sum(times for _, times in chances), confidence=CONFIDENCE)
    sums = [(chance, 1) for chance, times in chances for _ in range(times)]
    return mean_interval(sums, scale=(0.0, 1.0), confidence=CONFIDENCE) or Interval(0.0, 1.0)
