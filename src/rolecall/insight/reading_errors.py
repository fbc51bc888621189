"""Reading errors as part of a score: all readers over the stored replies, and what people say the replies answer.

Rows on which readers disagree are decided first. A few rows on which they agree are decided, too, as controls: such
rows are rarely misread, and how rarely was measured on public logs (design/labels.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from itertools import zip_longest
from typing import Any, NamedTuple

from rolecall.errors import RolecallError
from rolecall.insight.calibration import raw_score, weighted_share
from rolecall.insight.strata import Order, StratifiedRows, check_orders, place_of
from rolecall.runs.pair_scoring import scorable_of
from rolecall.runs.parts import is_data
from rolecall.runs.store.labels import Labels, Value
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import find_entries
from rolecall.scoring.answers import AnswerReader, Scorable
from rolecall.scoring.corrected_scores import Estimate, Stratum, correct_by_strata
from rolecall.scoring.evaluate import DatasetScorer, build_scorer
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.scoring.readers.golds import GoldKind, kind_of_golds
from rolecall.scoring.scorecard import Verdict

DECISIONS = 30
_MOST_ROWS = 2000
_CONTROLS = 4
"""Every so many rows of the queue, one on which readers agree."""
_OURS = 'ours'
_OWN = "the run's"
_READERS: Mapping[str, Mapping[str, str]] = {
    'number': {_OURS: 'stated_number_postprocess', 'last number': 'gsm8k_postprocess'},
    'math': {_OURS: 'stated_expression_postprocess', 'last number': 'gsm8k_postprocess'},
    'accuracy': {
        _OURS: 'choice_postprocess',
        'first option': 'first_option_postprocess',
        'last capital': 'last_capital_postprocess',
    },
    'exact': {
        _OURS: 'stated_text_postprocess',
        'behind "answer is"': 'bbh_freeform_postprocess',
        'first phrase': 'general_postprocess',
    },
}
"""By the metric for a kind of gold answers: readers by name, with their postprocessors."""
_MISREAD = {'right': 30.0, 'wrong': 0.5}
"""Of rows that all readers read alike, how many are read right and wrong: a beta distribution over public logs."""


class ReaderView(NamedTuple):
    """What one reader makes of a reply, and the mark it leads to."""

    value: Any
    mark: float


@dataclass(frozen=True, slots=True)
class RereadRow:
    """A row as each reader reads it; the run's own reading is among them."""

    result: Result
    scorable: Scorable
    views: Mapping[str, ReaderView]
    kind: str
    """How sure our reading is: stated, concluded, inferred, or none."""

    @property
    def mark(self) -> float:
        """The run's mark."""
        return self.views[_OWN].mark

    @property
    def trait(self) -> str:
        """`alike` if our reading is sure and leads to the run's mark, otherwise `doubtful`."""
        sure = self.kind in ('stated', 'concluded') and self.views[_OURS].mark == self.mark
        return 'alike' if sure else 'doubtful'

    @property
    def candidates(self) -> list[tuple[str, list[str]]]:
        """Each answer that a reader found, with the readers that found it."""
        readers: dict[str, list[str]] = defaultdict(list)
        for name, view in self.views.items():
            if view.value not in (None, '', []):
                readers[str(view.value)].append(name)
        return sorted(readers.items(), key=lambda entry: -len(entry[1]))


@dataclass(frozen=True)
class RereadPair:
    """The rows of a dataset × model, or a sample of them, read by all readers."""

    dataset: str
    model: str
    rows: Mapping[int, RereadRow]
    total: int
    scorer: DatasetScorer = field(repr=False)
    reader: Any = None
    """Our reader of this kind of answers, which reads those of people, too."""

    @cached_property
    def sampled(self) -> StratifiedRows:
        """The rows by the run's mark, and by whether readers agree."""
        stratified = StratifiedRows(self.dataset, self.model, priors={'alike': _MISREAD})
        for number, row in self.rows.items():
            stratified.add(number, row.mark, trait=row.trait, cluster=row.result.cluster)
        return stratified

    def mark(self, row: int, answer: Value) -> float:
        """The mark of an answer that a person reads in a reply; None stands for no answer."""
        if answer is None:
            return 0.0
        answered = replace(self.rows[row].scorable, prediction=str(answer))
        verdicts = [_read_with(self.scorer, reader, [answered])[0] for reader in (None, self.reader)]
        return max(map(_mark, verdicts))

    def decided(self, answers: Labels) -> dict[int, float]:
        """The marks that people's answers lead to, by row: that of most people, a half where they are divided."""
        marks = {}
        for (dataset, model, number), decisions in answers.by_row().items():
            if (dataset, model) == (self.dataset, self.model) and number in self.rows:
                result = self.rows[number].result
                current = [decision.value for decision in decisions.values() if decision.is_about(result)]
                if votes := [self.mark(number, answer) for answer in current]:
                    marks[number] = (1 + (2 * sum(votes) > len(votes)) - (2 * sum(votes) < len(votes))) / 2
        return marks

    def queue(self, decided: Mapping[int, float], length: int) -> list[int]:
        """The rows to decide next: doubtful ones, the most helpful first, and every fourth a control."""
        ranked = [row for _, row in self.sampled.queue(decided, len(self.rows))]
        by_trait = {trait: [row for row in ranked if self.rows[row].trait == trait] for trait in ('doubtful', 'alike')}
        queue: list[int] = []
        while any(by_trait.values()) and len(queue) < length:
            first = 'alike' if (len(decided) + len(queue)) % _CONTROLS == _CONTROLS - 1 else 'doubtful'
            queue.append((by_trait[first] or by_trait['alike'] or by_trait['doubtful']).pop(0))
        return queue


@dataclass(frozen=True, slots=True)
class Misreading:
    """How often a reader misreads replies of one kind."""

    reader: str
    kind: str
    rows: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class ReadingError:
    """The score of a dataset × model with its reading error."""

    dataset: str
    model: str
    raw: Estimate
    corrected: Estimate
    rows: int
    total: int
    doubtful: int
    readers: Mapping[str, float]
    """The score that each reader would give."""
    misread: tuple[Misreading, ...] = ()


def reread_pair(run: RunReader, dataset: str, model: str, *, most: int = _MOST_ROWS) -> RereadPair | None:
    """The rows of a dataset × model read by all readers; None where verdicts do not rest on reading one answer."""
    numbers = [row for row, outcome in run.outcomes(dataset, model).items() if outcome in ('ok', 'unparsed')]
    chosen = nsmallest(most, numbers, key=lambda row: place_of(dataset, model, row))
    results = [result for row in sorted(chosen) if (result := run.whole_result(dataset, model, row)) is not None]
    results = [result for result in results if isinstance(result.prediction, str) and result.correct is not None]
    scorables = [scorable_of(result, run.fields(dataset, result.row)) for result in results]
    scorer = build_stored_scorer(run, dataset, scorables)
    golds = [scorer.read(scorable).gold for scorable in scorables] if scorer is not None else []
    kind = kind_of_golds([gold for gold in golds if gold not in (None, '')])
    if scorer is None or not any(golds) or kind.metric not in _READERS:
        return None
    rows = read_rows(scorer, kind, results, scorables)
    return RereadPair(dataset, model, rows, len(numbers), scorer, _list_readers(kind)[_OURS])


def read_rows(
    scorer: DatasetScorer, kind: GoldKind, results: Sequence[Result], scorables: Sequence[Scorable]
) -> dict[int, RereadRow]:
    """Rows as all readers of this kind of gold answers read them, by number."""
    verdicts = {name: _read_with(scorer, entry, scorables) for name, entry in _list_readers(kind).items()}
    rows = {}
    for place, (result, scorable) in enumerate(zip(results, scorables, strict=True)):
        views = {name: ReaderView(marked[place].extracted, _mark(marked[place])) for name, marked in verdicts.items()}
        views[_OWN] = ReaderView(result.extracted, _mark(result))
        places = verdicts[_OURS][place].read_from
        rows[result.row] = RereadRow(result, scorable, views, places[0][3] if places and places[0] else 'none')
    return rows


def _list_readers(kind: GoldKind) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {
        'choice_postprocess': {'choices': list(kind.choices)},
        'first_option_postprocess': {'options': ''.join(kind.choices)},
    }
    return {
        name: {'type': entry, **options.get(entry, {})}
        for name, entry in _READERS[kind.metric].items()
        if entry not in ('first_option_postprocess', 'last_capital_postprocess') or kind.name == 'letters'
    }


def _read_with(scorer: DatasetScorer, entry: Any, rows: Sequence[Scorable]) -> list[Verdict]:
    """The verdicts on rows whose answers are read by another reader; without one, the predictions are the answers."""
    base = next(iter(scorer.readers.values()), AnswerReader())
    reader = replace(base, extract=(read_postprocessor(entry),) if entry else ())
    return replace(scorer, readers={'': reader}).start(adds_up=False).add(rows)


def _mark(verdict: Verdict | Result) -> float:
    return float(verdict.correct or False)


def build_stored_scorer(run: RunReader, dataset: str, rows: Sequence[Scorable]) -> DatasetScorer | None:
    """The scorer of the stored config, or one for such gold answers; None for judges and code of others."""
    entry = find_entries(run.config(), dataset)[0] or {}
    scoring = entry.get('eval_cfg') or {'evaluator': kind_of_golds([row.gold for row in rows]).metric}
    columns = entry.get('reader_cfg') or {}
    with suppress(RolecallError):
        return build_scorer(scoring, output_column=columns.get('output_column')) if is_data(scoring) else None
    return None


def measure_reading_error(run: RunReader, pair: RereadPair, decided: Mapping[int, float]) -> ReadingError:
    """The score with its reading error, and how often each reader misreads each kind of reply."""
    rows, readers = pair.sampled, next(iter(pair.rows.values())).views
    return ReadingError(
        pair.dataset,
        pair.model,
        raw_score(run, rows),
        correct_by_strata(sampled_strata(pair, decided), units=rows.units),
        rows.count,
        pair.total,
        sum(row.trait == 'doubtful' for row in pair.rows.values()),
        {name: sum(row.views[name].mark for row in pair.rows.values()) / rows.count for name in readers},
        tuple(_measure_misreading(pair, decided)),
    )


def sampled_strata(pair: RereadPair, decided: Mapping[int, float]) -> list[Stratum]:
    """The strata with what was decided. What is known beforehand is dropped where a decision contradicts it."""
    return [
        replace(stratum, prior={}) if any(label != stratum.verdict for label in stratum.labels) else stratum
        for stratum in pair.sampled.strata(decided)
    ]


def _measure_misreading(pair: RereadPair, decided: Mapping[int, float]) -> Iterator[Misreading]:
    sizes = Counter((row.mark, row.trait) for row in pair.rows.values())
    counts = Counter((pair.rows[number].mark, pair.rows[number].trait) for number in decided)
    for name in next(iter(pair.rows.values())).views:
        for kind, size in Counter(row.kind for row in pair.rows.values()).most_common():
            entries = [
                (row.views[name].mark != label, sizes[row.mark, row.trait] / counts[row.mark, row.trait])
                for row, label in ((pair.rows[number], label) for number, label in decided.items())
                if row.kind == kind
            ]
            if (share := weighted_share(entries)) is not None:
                yield Misreading(name, kind, size, share)


class Rereading:
    """The rows of a run read by all readers, with what people decided so far."""

    def __init__(self, run: RunReader, names: Iterable[tuple[str, str]], *, most: int = _MOST_ROWS) -> None:
        self._run = run
        self._labels = Labels(run.directory, 'answer')
        self.pairs = [pair for pair in (reread_pair(run, *name, most=most) for name in names) if pair is not None]

    def queue(self, length: int) -> list[RereadRow]:
        """The rows to decide next, of each dataset × model in turn."""
        numbers = [pair.queue(pair.decided(self._labels), length) for pair in self.pairs]
        turns = zip_longest(*([pair.rows[row] for row in rows] for pair, rows in zip(self.pairs, numbers, strict=True)))
        return [row for turn in turns for row in turn if row is not None][:length]

    def errors(self) -> list[ReadingError]:
        """Each score with its reading error."""
        return [measure_reading_error(self._run, pair, pair.decided(self._labels)) for pair in self.pairs]

    def orders(self) -> list[Order]:
        """Whether the order of every two models of a dataset survives the reading errors of both."""
        strata = [(pair, sampled_strata(pair, pair.decided(self._labels))) for pair in self.pairs]
        return check_orders(self._run, {(pair.dataset, pair.model): (pair.sampled, own) for pair, own in strata})
