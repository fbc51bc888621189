"""Counts from one pass over the rows: how they ended and why, lengths of prompts and answers, latencies."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from rolecall.runs.store.results import Result, SettledRow
from rolecall.scoring.model_ranking import PairedRow
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

__all__ = [
    'VERDICTS',
    'Pair',
    'RunCounts',
    'Used',
    'Why',
    'count_results',
    'every_card',
    'unjudged_reasons',
    'verdict_of',
]

Pair = tuple[str, str]
"""A dataset and a model."""

VERDICTS = ('correct', 'wrong', 'scored', 'not scored')
"""The verdict on a row: correct, wrong, a partial score, or none."""

_REASONS_KEPT = 1000
_SCORES_KEPT = 100_000
_REASON = 200


def verdict_of(result: Result) -> str:
    """The verdict on a row.

    >>> verdict_of(Result('d', 'm', 0, 'ok', correct=True)), verdict_of(Result('d', 'm', 0, 'ok', score=0.4))
    ('correct', 'scored')
    """
    if result.correct is not None:
        return 'correct' if result.correct else 'wrong'
    return 'not scored' if result.score is None else 'scored'


@dataclass(frozen=True, slots=True)
class Why:
    """One reason that rows have no answer, and where it occurs."""

    outcome: str
    reason: str
    rows: int
    pairs: tuple[Pair, ...]

    @property
    def place(self) -> str:
        """The dataset × model, or how many of them.

        >>> Why('failed', 'HTTP 500', 3, (('gsm8k', 'base'),)).place
        'gsm8k × base'
        """
        return ' × '.join(self.pairs[0]) if len(self.pairs) == 1 else count_noun(len(self.pairs), 'pair')


@dataclass(slots=True)
class Used:
    """What rows used; None where one of them does not say. Cached tokens and reasoning add up where they are told."""

    rows: int = 1
    input_tokens: float | None = 0
    output_tokens: float | None = 0
    seconds: float | None = 0
    cached_tokens: float | None = None
    reasoning_tokens: float | None = None

    @classmethod
    def of(cls, result: Result) -> Used:
        """What one row used."""
        return cls(
            1,
            result.input_tokens,
            result.output_tokens,
            result.seconds,
            result.cached_tokens,
            result.reasoning_tokens,
        )

    def add(self, other: Used) -> None:
        """Add what other rows used."""
        self.rows += other.rows
        for name in ('input_tokens', 'output_tokens', 'seconds'):
            ours, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, None if ours is None or theirs is None else ours + theirs)
        for name in ('cached_tokens', 'reasoning_tokens'):
            told = [one for one in (getattr(self, name), getattr(other, name)) if one is not None]
            setattr(self, name, sum(told) if told else None)

    def add_settled(self, row: SettledRow) -> None:
        """Add what a settled row used."""
        self.rows += 1
        sent, said, seconds = row.input_tokens, row.output_tokens, row.seconds
        self.input_tokens = None if self.input_tokens is None or sent is None else self.input_tokens + sent
        self.output_tokens = None if self.output_tokens is None or said is None else self.output_tokens + said
        self.seconds = None if self.seconds is None or seconds is None else self.seconds + seconds


@dataclass(slots=True)
class RunCounts:
    """The counts of a run. `measures` has the numbers of each model by what was measured."""

    endings: dict[Pair, Counter[str]] = field(default_factory=dict)
    """How many rows ended in which verdict (of those that are `ok`) or outcome."""
    reasons: Counter[tuple[Pair, str, str]] = field(default_factory=Counter)
    measures: dict[str, dict[str, array[float]]] = field(default_factory=dict)
    usage: dict[Pair, Used] = field(default_factory=dict)
    scores: dict[str, dict[Hashable, PairedRow]] = field(default_factory=dict)
    """The scores of each model by dataset and row, for comparing models: those between 0 and 1, up to a limit."""
    scores_capped: bool = False
    rows: int = 0
    measuring: bool = True
    """Whether lengths and times of single rows are kept, for plots."""

    def add(self, result: Result, *, prompt_characters: int | None = None) -> None:
        """Count one row."""
        pair = (result.dataset, result.model)
        self.rows += 1
        self.endings.setdefault(pair, Counter())[verdict_of(result) if result.outcome == 'ok' else result.outcome] += 1
        if result.outcome != 'ok':
            key = (pair, result.outcome, str(result.reason)[:_REASON])
            known = key in self.reasons or len(self.reasons) < _REASONS_KEPT
            self.reasons[key if known else (pair, result.outcome, 'other reasons')] += 1
        if self.measuring:
            self._measure('prompt tokens', result.model, result.input_tokens)
            self._measure('prompt characters', result.model, prompt_characters)
            self._measure('answer tokens', result.model, result.output_tokens)
            self._measure('answer characters', result.model, sum(map(len, result.replies)) if result.replies else None)
            self._measure('seconds', result.model, result.seconds)
        self._add_usage(pair, result)
        self._add_score(result, result.cluster)

    def add_settled(self, row: SettledRow) -> None:
        """Count one row by its numbers."""
        pair = (row.dataset, row.model)
        self.rows += 1
        verdict = 'scored' if row.correct is None else 'correct' if row.correct else 'wrong'
        self.endings.setdefault(pair, Counter())[verdict] += 1
        used = self.usage.get(pair)
        if used is None:
            used = self.usage[pair] = Used(0)
        used.add_settled(row)
        self._add_score(row, None)

    def _add_usage(self, pair: Pair, result: Result) -> None:
        unanswered = result.outcome in ('failed', 'too_long') and result.output_tokens is None
        self.usage.setdefault(pair, Used(0)).add(Used() if unanswered else Used.of(result))

    def _add_score(self, result: Result | SettledRow, cluster: str | None) -> None:
        if result.score is None or not 0 <= result.score <= 1:
            return
        own = self.scores.setdefault(result.model, {})
        if len(own) >= _SCORES_KEPT:
            self.scores_capped = True
            return
        own[result.dataset, result.row] = PairedRow(result.score, result.correct, cluster)

    def reasons_by_count(self) -> list[Why]:
        """Why rows have no answer, most frequent first."""
        found: dict[tuple[str, str], dict[Pair, int]] = {}
        for (pair, outcome, reason), count in self.reasons.items():
            found.setdefault((outcome, reason), {})[pair] = count
        whys = [Why(outcome, reason, sum(pairs.values()), tuple(pairs)) for (outcome, reason), pairs in found.items()]
        return sorted(whys, key=lambda why: -why.rows)

    def measure(self, *names: str) -> tuple[str, dict[str, array[float]]] | None:
        """The first of these measures that as many rows have as any other; None if no row has one."""
        known = {name: sum(map(len, self.measures.get(name, {}).values())) for name in names}
        best = max(names, key=lambda name: known[name])
        return (best, self.measures[best]) if known[best] else None

    def _measure(self, name: str, model: str, value: float | None) -> None:
        if isinstance(value, (int, float)) and math.isfinite(value):
            self.measures.setdefault(name, {}).setdefault(model, array('d')).append(value)


UNFINISHED = 'not finished'


def every_card(cards: Sequence[Scorecard], run_counts: RunCounts) -> list[Scorecard]:
    """The scores (one for each extractor), and one without a number for each dataset × model that is not finished."""
    scored = {(card.dataset, card.model) for card in cards}
    begun = [(pair, endings) for pair, endings in run_counts.endings.items() if pair not in scored]
    return [
        *(column for card in cards for column in card.columns),
        *(_unfinished_card(*pair, endings) for pair, endings in begun),
    ]


def _unfinished_card(dataset: str, model: str, endings: Counter[str]) -> Scorecard:
    outcomes: Counter[str] = Counter()
    for ending, rows in endings.items():
        outcomes['ok' if ending in VERDICTS else ending] += rows
    return Scorecard(dataset, model, UNFINISHED, None, total=outcomes.total(), outcomes=outcomes)


def unjudged_reasons(cards: Iterable[Scorecard]) -> list[Why]:
    """Why answers have no score: the evaluator failed, or a judge returned no verdict.

    >>> silent = {'not_judged': {'model': 'judge', 'reasons': {'refused': 2}}}
    >>> [why.rows for why in unjudged_reasons([Scorecard('d', 'm', 'accuracy', None, details=silent)])]
    [2]
    """
    found: list[Why] = []
    for card in cards:
        place = ((card.dataset, card.model),)
        if card.error:
            found.append(Why('not scored', card.error, card.total, place))
        silent = card.details.get('not_judged', {}).get('reasons', {})
        found += [Why('not judged', str(reason), rows, place) for reason, rows in silent.items()]
    return found


def count_results(results: Iterable[Result | SettledRow]) -> RunCounts:
    """Everything counted that a table needs: no lengths and times of single rows."""
    run_counts = RunCounts(measuring=False)
    for result in results:
        if isinstance(result, SettledRow):
            run_counts.add_settled(result)
        else:
            run_counts.add(result)
    return run_counts
