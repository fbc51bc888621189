"""The score of one dataset × model: a number, its interval, its denominator, and what to know before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from rolecall.models.protocol import Outcome
from rolecall.scoring.json_records import read_record, write_record
from rolecall.scoring.reading_choice import OtherReading
from rolecall.scoring.receipt import Receipt
from rolecall.strings import count_noun

HEADLINE = ('dataset', 'model', 'metric', 'value', 'low', 'high', 'scored', 'total', 'outcomes')
"""The fields of a scorecard that every score has; the rest are its `details`."""
_GROUPS_FIRST = ('error', 'members', 'extractor', 'judge', 'missing', 'unsupported', 'mixed')
_LAST = (
    *('excluded', 'policies', 'extractor', 'judge', 'alias', 'rows_note', 'receipt', 'baseline'),
    *('agreement', 'judging', 'not_judged'),
)
"""The keys that come first in the details of a group, and last in those of a dataset."""
_WARN_FROM = 0.05
"""Warn where more than this share of the replies was cut off or empty."""
_WARN_ORDER = 0.25
"""Warn where a judge's verdict changed with the order of the answers in more than this share of the rows."""
_WARN_ADDS = 1.0
"""Warn where answers that were merely inferred would add at least this much."""
_NAMED = 3
_FEWEST_CONTAINED = 2
"""Warn where at least this many replies without credit contain the gold answer."""


@dataclass(slots=True)
class Verdict:
    """The score of one row. Rows without a score are not in the denominator."""

    row: int
    extracted: Any = None
    score: float | None = None
    correct: bool | None = None
    outcome: Outcome = 'ok'
    gold: Any = None
    """The gold answer after its postprocessor."""
    reason: str = ''
    """What a postprocessor or the evaluator raised, or why a judge's reply gives no verdict."""
    settled: bool = False
    """Whether `add_settled` with score and verdict does the same as adding the row."""
    read_from: tuple[Any, ...] = ()
    """Where each answer stands in its reply, as `Reading.place` writes it; None where no reader of ours read it."""
    beside: tuple[Any, ...] = ()
    """The other reading's verdict where it differs: whose it is, what it extracted, score, right or wrong, places."""


@dataclass(frozen=True, slots=True)
class IntervalBasis:
    """How the interval was computed."""

    method: str | None = field(default=None, metadata={'key': 'interval'})
    confidence: float | None = None
    clusters: int | None = None
    """The number of independent units: rows, clusters of rows, or datasets."""
    between: tuple[float, float] | None = None
    """The interval of a group with its datasets as a sample of such datasets, not as given."""


@dataclass(frozen=True, slots=True)
class ReplyCount:
    """How many replies were cut off, or empty."""

    rows: int
    of: int
    finished: float | None = None
    """The score over the replies that were not cut off."""
    worst: Mapping[str, float] | None = None
    """The datasets with the largest shares, where several are counted together."""

    @property
    def share(self) -> float:
        return self.rows / self.of if self.of else 0.0

    def __str__(self) -> str:
        worst = ', '.join(f'{dataset} {_percent(share)}' for dataset, share in (self.worst or {}).items())
        return f'{self.rows:,} of {self.of:,}' + (f'; most in {worst}' if worst else '')


@dataclass(frozen=True, slots=True)
class Inferred:
    """Rows whose reply neither states nor concludes an answer, so that the inferred one got no credit."""

    rows: int
    adds: float
    """What these answers would add to the score."""


@dataclass(frozen=True, slots=True)
class ExtractorScore:
    """The score by one of several extractors that read the same replies."""

    value: float | None
    low: float | None
    high: float | None
    scored: int
    unparsed: int
    finished: float | None = None


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """A judge's comparisons with one opponent. Without rows, the other counts are None."""

    rows: int
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    win_rate: float | None = None
    low: float | None = None
    high: float | None = None
    first: int | None = None
    """How often the answer shown first won, of the `decided` verdicts, which are no ties."""
    decided: int | None = None
    both_orders: int | None = None
    """Rows that the judge saw in both orders."""
    always_first: bool | None = None
    order_changed: int | None = None
    """Rows seen in both orders whose verdict changed with the order."""
    missing: int | None = None
    """Rows that the opponent has no answer to."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How far several judges agree: percent of equal verdicts, and Krippendorff's alpha."""

    judges: tuple[str, ...]
    rows: int
    equal: float | None
    alpha: float | None


@dataclass(frozen=True, slots=True)
class NotJudged:
    """Why answers have no verdict, with the number of answers for each reason."""

    model: str
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Judging:
    """What the judges did."""

    judge: str = ''
    """Whose score this is, where there are several judges."""
    usage: Mapping[str, Any] | None = field(default=None, metadata={'key': 'judging'})
    """The judge's name (`model`), and the rows, tokens and seconds it used."""
    not_judged: NotJudged | None = None
    agreement: JudgeAgreement | None = None
    without_verdict: Mapping[str, int] | None = None
    """Rows whose judge replied without a verdict, by reason."""


@dataclass(frozen=True, slots=True)
class Members:
    """The datasets that a group's score is the mean of."""

    names: tuple[str, ...] = field(default=(), metadata={'key': 'members'})
    missing: tuple[str, ...] = ()
    unsupported: str = ''
    """What the config asks of a group that is not supported, so that it has no value."""
    mixed: tuple[str, ...] = ()
    """The metrics of the members, where their scales or directions differ."""
    weights: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One metric with its interval over `scored` rows. `outcomes` counts every row and adds up to `total`."""

    dataset: str
    model: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    scored: int = 0
    total: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    _: KW_ONLY
    error: str = ''
    """Why these rows could not be scored."""
    unit: str | None = None
    """`%`, or nothing for numbers on a scale of their own."""
    imported: str = ''
    """The program whose log this score was read from."""
    lower_is_better: bool | None = None
    interval: IntervalBasis | None = field(default=None, metadata={'inline': True})
    group: Members | None = field(default=None, metadata={'inline': True})
    """Of a group of datasets, what it is made of."""
    further: Mapping[str, float] | None = None
    """Further numbers: parts of the score, pass@k, standard errors."""
    further_intervals: Mapping[str, tuple[float, float]] | None = None
    short_of_samples: Mapping[str, int] | None = None
    """By pass@k, the rows that have too few samples for it."""
    compared: Mapping[str, HeadToHead] | None = None
    """By opponent, where a judge compared answers."""
    returned: Mapping[str, Any] | None = None
    """What an evaluator returned beside numbers."""
    cut: ReplyCount | None = None
    """Replies that `max_out_len` cut off."""
    empty: ReplyCount | None = None
    """Replies without a word."""
    inferred: Inferred | None = None
    contained: ReplyCount | None = None
    """Replies without credit that contain the gold answer."""
    beside: OtherReading | None = None
    extractors: Mapping[str, ExtractorScore] | None = None
    judging: Judging | None = field(default=None, metadata={'inline': True})
    groups: tuple[tuple[int, ...], ...] | None = None
    """Rows that are counted together, as rotations of one question."""
    excluded: Mapping[str, int] | None = None
    """Rows that are not in the denominator, by reason."""
    policies: Mapping[str, str] | None = None
    extractor: str = ''
    """Which of several extractors, or judges, this score goes by."""
    alias: str = ''
    """The dataset's other name, where a task file has one."""
    rows_note: str = ''
    """What is special about the rows: that they are a sample, or not the published ones."""
    receipt: Receipt | None = None
    """What the server did with the requests, by its own reports."""
    stopped: str = ''
    """Of a run that stopped when it knew enough, what it found. The interval is one that may be watched."""
    is_baseline: bool = field(default=False, metadata={'key': 'baseline'})
    """Whether the other models are compared with this one, which then has no score of its own."""
    verdicts: tuple[Verdict, ...] = field(default=(), repr=False, compare=False, metadata={'stored': False})
    """The verdicts on the rows, where they were scored in memory."""

    @property
    def details(self) -> dict[str, Any]:
        """What a card says beyond its headline, as JSON: a run stores it, and `report --csv` writes it."""
        record = {key: value for key, value in write_record(self).items() if key not in HEADLINE}
        first = [key for key in (_GROUPS_FIRST if self.group else ()) if key in record]
        last = [key for key in _LAST if key in record and key not in first]
        middle = [key for key in record if key not in first and key not in last]
        return {key: record[key] for key in (*first, *middle, *last)}

    def to_record(self) -> dict[str, Any]:
        """The card as a run stores it."""
        return {**{name: getattr(self, name) for name in HEADLINE}, 'details': self.details}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Scorecard:
        """The card that a run has stored. A TypeError says what is damaged.

        >>> Scorecard.from_record({'dataset': 'd', 'model': 'm', 'metric': 'acc', 'value': 40.0, 'details': {}}).value
        40.0
        """
        return read_record(cls, {**record, **(record.get('details') or {})})

    @property
    def members(self) -> tuple[str, ...]:
        """The datasets a group's score is the mean of; empty for a dataset."""
        return self.group.names if self.group else ()

    @property
    def judge(self) -> str:
        """The judge whose score this is, where there are several."""
        return self.judging.judge if self.judging else ''

    @property
    def is_percent(self) -> bool:
        return self.unit == '%'

    @property
    def columns(self) -> tuple[Scorecard, ...]:
        """One scorecard for each extractor, where several read the same replies; else this one, and each pass@k of it.

        The metric is followed by the extractor's name: `accuracy (strict)`.

        >>> numbers, intervals = {'pass@1': 50.0, 'pass@5': 80.0}, {'pass@5': (70.0, 90.0)}
        >>> card = Scorecard('d', 'm', 'pass@1', 50.0, further=numbers, further_intervals=intervals)
        >>> [(column.metric, column.low) for column in card.columns]
        [('pass@1', None), ('pass@5', 70.0)]
        """
        return tuple(
            replace(
                self,
                metric=f'{self.metric} ({name})',
                value=score.value,
                low=score.low,
                high=score.high,
                scored=score.scored,
                outcomes=_count_unparsed(self.outcomes, score.unparsed),
                cut=self.cut and replace(self.cut, finished=score.finished),
                extractor=name,
                extractors=None,
                further=None,
            )
            for name, score in (self.extractors or {}).items()
        ) or (self, *self._pass_rates())

    def _pass_rates(self) -> Iterator[Scorecard]:
        """pass@k for k above 1, with its interval."""
        numbers = self.further or {}
        headline = {name: getattr(self, name) for name in (*HEADLINE, 'unit', 'lower_is_better')}
        basis = self.interval and IntervalBasis(confidence=self.interval.confidence)
        for name, (low, high) in (self.further_intervals or {}).items():
            if name not in (self.metric, 'pass@1') and name in numbers:
                changes = {'metric': name, 'value': numbers[name], 'low': low, 'high': high, 'interval': basis}
                yield Scorecard(**{**headline, **changes})

    def describe_replies(self, digits: int = 1) -> str:
        """How many replies were cut off, empty, or without a stated answer, and what that does to the score.

        >>> Scorecard('d', 'm', 'accuracy', 41.2, cut=ReplyCount(12, 100, finished=46.8)).describe_replies()
        '12 % cut; 41.2 of all, 46.8 of finished'
        """
        parts = []
        if self.cut and self.cut.share:
            scores = ''
            if self.value is not None and self.cut.finished is not None:
                scores = f'; {self.value:,.{digits}f} of all, {self.cut.finished:,.{digits}f} of finished'
            parts.append(f'{_percent(self.cut.share)} cut{scores}')
        if self.empty and self.empty.share:
            parts.append(f'{_percent(self.empty.share)} empty')
        if self.inferred:
            parts.append(f'{self.inferred.rows:,} inferred, would add {self.inferred.adds:,.{digits}f}')
        return '; '.join(parts)

    def describe_receipt(self) -> str:
        """What is not set in the requests, and what the server reports of them."""
        return self.receipt.describe() if self.receipt else ''

    def describe_readings(self, digits: int = 1) -> str:
        """The score by each of two readings, and how many rows differ; empty if none does."""
        return self.beside.describe(self.value, digits) if self.beside and self.value is not None else ''

    def warnings(self) -> tuple[str, ...]:
        """Why this score should not be trusted: more than 5 % of the replies were cut off, or empty, rows lack samples
        for pass@k, or a judge went by the order of the answers.

        Of a group, why it has no value, or why that says little; its members have warnings of their own.

        >>> Scorecard('d', 'm', 'accuracy', 41.2, empty=ReplyCount(1, 4)).warnings()
        ('d × m: 25 % of the replies are empty (1 of 4).',)
        """
        name = f'{self.dataset} × {self.model}'
        if self.members:
            return self._explain_missing(name)
        messages = []
        if self.cut and self.cut.share > _WARN_FROM:
            messages.append(
                f'{name}: {_percent(self.cut.share)} of the replies were cut off by max_out_len '
                f'({self.cut}). Raise max_out_len.'
            )
        if self.empty and self.empty.share > _WARN_FROM:
            messages.append(f'{name}: {_percent(self.empty.share)} of the replies are empty ({self.empty}).')
        if self.inferred and self.inferred.adds >= _WARN_ADDS:
            messages.append(
                f'{name}: {count_noun(self.inferred.rows, "answer")} merely inferred, without credit; they would add '
                f'{self.inferred.adds:,.1f}. See them: rolecall score RUN --inferred.'
            )
        if self.contained and self._loses_contained(self.contained):
            messages.append(
                f'{name}: {self.contained} replies contain the gold answer but are not it, and get no credit. '
                "To give it, repeat the command with --metric contains (config: evaluator 'contains'); nothing is sent."
            )
        for opponent, comparisons in (self.compared or {}).items():
            changed, both = comparisons.order_changed or 0, comparisons.both_orders or 0
            if changed > _WARN_ORDER * both:
                rows = f'{changed:,} of {count_noun(both, "row")}'
                judge = f' ({self.judge})' if self.judge else ''
                messages.append(f'{name}{judge}: the order of the answers decided {rows} against {opponent}.')
        messages += [f'{name}: {finding}' for finding in (self.receipt.findings if self.receipt else ())]
        for rate, short in (self.short_of_samples or {}).items():
            messages.append(f'{name}: no {rate}; too few samples in {count_noun(short, "row")}.')
        return tuple(messages)

    def _loses_contained(self, count: ReplyCount) -> bool:
        """Whether texts are compared whole; if `yes` or a letter may be gold, only where no row is right."""
        share = _WARN_FROM if self.metric == 'exact_match' else 1.0 if self.metric == 'accuracy' else math.inf
        return count.rows >= _FEWEST_CONTAINED and (count.share > share or (not self.value and share <= 1))

    def notes(self) -> tuple[str, ...]:
        """What is special about the rows of the dataset: that they are a sample, or not the published ones.

        >>> Scorecard('d', 'm', 'accuracy', 41.2, rows_note='a sample of 8 rows').notes()
        ('d: a sample of 8 rows.',)
        """
        return (f'{self.dataset}: {self.rows_note}.',) if self.rows_note else ()

    def describe_missing(self) -> str:
        """Why a group, or the baseline of comparisons, has no value; empty otherwise.

        >>> Scorecard('all', 'm', 'accuracy', None, group=Members(('a', 'b'), missing=('b',))).describe_missing()
        'no score of b'
        """
        if self.is_baseline:
            return 'the baseline of the others'
        if self.group is None:
            return ''
        if self.group.unsupported:
            return f'{self.group.unsupported} of a group are not supported'
        missing = self.group.missing
        more = f' and {len(missing) - _NAMED:,} more' if len(missing) > _NAMED else ''
        return f'no score of {", ".join(missing[:_NAMED])}{more}' if missing else ''

    def _explain_missing(self, name: str) -> tuple[str, ...]:
        why = self.describe_missing()
        if not why and self.group and self.group.mixed:
            mixed = ', '.join(self.group.mixed)
            return (f'{name} is a mean of different scales or directions ({mixed}): it says little.',)
        return (f'{name} has no value: {why}.',) if why else ()


def _count_unparsed(outcomes: Mapping[str, int], unparsed: int) -> dict[str, int]:
    """The outcomes where this many of the answered rows are unparsed.

    >>> _count_unparsed({'ok': 1, 'unparsed': 3, 'failed': 2}, 0), _count_unparsed({'unparsed': 3}, 2)
    ({'ok': 4, 'failed': 2}, {'ok': 1, 'unparsed': 2})
    """
    answered = outcomes.get('ok', 0) + outcomes.get('unparsed', 0)
    others = {name: rows for name, rows in outcomes.items() if name not in ('ok', 'unparsed')}
    counted = {'ok': answered - unparsed, 'unparsed': unparsed, **others}
    return {name: rows for name, rows in counted.items() if rows}


def _percent(share: float) -> str:
    """A share in percent, never rounded to 0 or 100 unless it is."""
    percent = f'{share:.0%}'[:-1]
    if percent in ('0', '100') and share not in (0, 1):
        percent = f'{100 * share:.1f}'
    return f'{percent} %'
