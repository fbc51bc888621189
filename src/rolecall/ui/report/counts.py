"""Counts from one pass over the rows: how they ended and why, lengths of prompts and answers, latencies."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.models.prices import Price
from rolecall.runs.batches.ledger_reader import BatchTokens
from rolecall.runs.store.results import Result, SettledRows, Used
from rolecall.scoring.paired_ranking import PairedRow
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import cluster_sums, clustered_wilson, mean_interval
from rolecall.strings import count_noun

_HEADS = ('rows', 'input', 'cached', 'cache writes', 'output', 'reasoning', 's/row', 'US$')
_UNKNOWN = '–'


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one model used for one dataset; for all of them, where the dataset is empty."""

    model: str
    dataset: str
    used: Used
    cost: float | None = None
    as_judge: bool = False
    """Whether it judged other models' answers; then each judgement counts as a row."""

    @property
    def name(self) -> str:
        """The model's name, marked if it is a judge."""
        return f'{self.model} (judge)' if self.as_judge else self.model

    def cells(self, decimals: int) -> tuple[str, ...]:
        """The texts under all heads; money with so many decimals."""
        used = self.used
        return (
            f'{used.rows:,}',
            _count(used.input_tokens, 'not known'),
            _count(used.cached_tokens),
            _count(used.cache_written_tokens),
            _count(used.output_tokens, 'not known'),
            _count(used.reasoning_tokens),
            _UNKNOWN if used.seconds is None or not used.rows else f'{used.seconds / used.rows:,.2f}',
            _UNKNOWN if self.cost is None else f'{self.cost:,.{decimals}f}',
        )


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The lines with a text for each head; heads under which nothing is known are left out."""

    heads: tuple[str, ...]
    rows: tuple[tuple[UsageLine, tuple[str, ...]], ...]


def usage_table(counts: RunCounts, prices: Mapping[str, Price | None]) -> UsageTable | None:
    """Tokens and money as a table; None if no tokens were reported."""
    lines = list(usage_lines(counts, prices))
    if not any(line.used.input_tokens or line.used.output_tokens for line in lines):
        return None
    decimals = 4 if any(0 < line.cost < 0.01 for line in lines if line.cost is not None) else 2
    cells = [line.cells(decimals) for line in lines]
    columns = [place for place in range(len(_HEADS)) if any(texts[place] != _UNKNOWN for texts in cells)]
    rows = ((line, tuple(texts[place] for place in columns)) for line, texts in zip(lines, cells, strict=True))
    return UsageTable(tuple(_HEADS[place] for place in columns), tuple(rows))


def usage_lines(counts: RunCounts, prices: Mapping[str, Price | None]) -> Iterator[UsageLine]:
    """A line for each model, followed by one for each of its datasets where it has several; then the judges'.

    Tokens that a server did not report are not guessed: a sum with a gap is unknown.
    """
    yield from _list_lines(counts.usage, counts, prices)
    yield from _list_lines(counts.judging, counts, prices, as_judge=True)


def _list_lines(
    usage: Mapping[Pair, Used], counts: RunCounts, prices: Mapping[str, Price | None], *, as_judge: bool = False
) -> Iterator[UsageLine]:
    for model in dict.fromkeys(model for _, model in usage):
        own = {dataset: used for (dataset, name), used in usage.items() if name == model}
        if len(own) > 1:
            total = Used(0)
            for used in own.values():
                total.add(used)
            batched = [] if as_judge else _list_batched(counts, model, own)
            yield _make_line(UsageLine(model, '', total, as_judge=as_judge), prices.get(model), batched)
        for dataset, used in own.items():
            batched = [] if as_judge else _list_batched(counts, model, [dataset])
            yield _make_line(UsageLine(model, dataset, used, as_judge=as_judge), prices.get(model), batched)


def _list_batched(counts: RunCounts, model: str, datasets: Iterable[str]) -> list[BatchTokens]:
    return [counts.batched[dataset, model] for dataset in datasets if (dataset, model) in counts.batched]


def _make_line(line: UsageLine, price: Price | None, batched: Sequence[BatchTokens]) -> UsageLine:
    """The line with its cost, with batched tokens at the batch price."""
    used = line.used
    if price is None or used.input_tokens is None or used.output_tokens is None:
        return line
    stored = used.cache_written_tokens or 0
    cost = price.cost(
        used.input_tokens, used.output_tokens, cached_tokens=used.cached_tokens or 0, written_tokens=stored
    )
    part = sum(batch.input_tokens for batch in batched) / used.input_tokens if used.input_tokens else 0.0
    full = sum(
        price.cost(batch.input_tokens, batch.output_tokens, cached_tokens=batch.cached_tokens) for batch in batched
    )
    full += price.cost(part * stored, 0, written_tokens=part * stored) - price.cost(part * stored, 0)
    return replace(line, cost=cost - (1 - price.batch) * min(full, cost))


def _count(tokens: float | None, unknown: str = _UNKNOWN) -> str:
    return unknown if tokens is None else f'{tokens:,.0f}'


Pair = tuple[str, str]
"""A dataset and a model."""

VERDICTS = ('correct', 'wrong', 'scored', 'not scored')
"""The verdict on a row: correct, wrong, a partial score, or none."""

_REASONS_KEPT = 1000
_SCORES_KEPT = 100_000
_REASON = 200
_CUT = 'the server read only a part of the prompt'


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
class RunCounts:
    """The counts of a run. `measures` has the numbers of each dataset × model by what was measured."""

    endings: dict[Pair, Counter[str]] = field(default_factory=dict)
    """How many rows ended in which verdict (of those that are `ok`) or outcome."""
    reasons: Counter[tuple[Pair, str, str]] = field(default_factory=Counter)
    measures: dict[str, dict[Pair, array[float]]] = field(default_factory=dict)
    usage: dict[Pair, Used] = field(default_factory=dict)
    scores: dict[str, dict[tuple[str, int], PairedRow]] = field(default_factory=dict)
    """The scores of each model by dataset and row, for comparing models: those between 0 and 1, up to a limit."""
    scores_capped: bool = False
    rows: int = 0
    batched: Mapping[Pair, BatchTokens] = field(default_factory=dict)
    """Tokens billed at the batch price."""
    judging: dict[Pair, Used] = field(default_factory=dict)
    """What judges used, by the dataset they judged and their own name; known once scorecards are."""
    measuring: bool = True
    """Whether lengths and times of single rows are kept, for plots."""

    def add_some(self, some: Result | SettledRows) -> None:
        """Count a row, or many settled ones."""
        self.add_settled(some) if isinstance(some, SettledRows) else self.add(some)

    def add(self, result: Result) -> None:
        """Count one row."""
        pair = (result.dataset, result.model)
        self.rows += 1
        self.endings.setdefault(pair, Counter())[verdict_of(result) if result.outcome == 'ok' else result.outcome] += 1
        if result.outcome != 'ok':
            is_cut = result.outcome == 'truncated_by_server'  # what each row lost is its own
            key = (pair, result.outcome, _CUT if is_cut else str(result.reason)[:_REASON])
            counted = key in self.reasons or len(self.reasons) < _REASONS_KEPT
            self.reasons[key if counted else (pair, result.outcome, 'other reasons')] += 1
        if self.measuring:
            self._measure('prompt tokens', pair, result.input_tokens)
            self._measure('answer tokens', pair, result.output_tokens)
            self._measure('seconds', pair, result.seconds)
            self._measure('seconds to first token', pair, result.first_token_seconds)
            self._measure('milliseconds per output token', pair, _per_token(result))
        unanswered = result.outcome in ('failed', 'too_long') and result.output_tokens is None
        self.usage.setdefault(pair, Used(0)).add(Used() if unanswered else Used.of(result))
        self._add_score(result.dataset, result.model, result.row, result.score, result.correct, result.cluster)

    def measure_texts(self, result: Result, prompt_characters: int | None) -> None:
        """Measure the texts of a row that is shown."""
        pair = (result.dataset, result.model)
        self._measure('prompt characters', pair, prompt_characters)
        self._measure('answer characters', pair, sum(map(len, result.replies)) if result.replies else None)

    def add_settled(self, rows: SettledRows) -> None:
        """Count rows by their numbers."""
        pair = (rows.dataset, rows.model)
        self.rows += len(rows.rows)
        used: Sequence[Sequence[Any]] = (rows.input_tokens, rows.output_tokens, rows.seconds)
        endings = self.endings.setdefault(pair, Counter())
        for verdict, count in Counter(rows.correct).items():
            endings['scored' if verdict is None else 'correct' if verdict else 'wrong'] += count
        totals = [None if None in amounts else sum(amounts) for amounts in used]
        self.usage.setdefault(pair, Used(0)).add(Used(len(rows.rows), *totals))
        if self.measuring:
            for name, amounts in zip(('prompt tokens', 'answer tokens', 'seconds'), used, strict=True):
                numbers = [amount for amount in amounts if amount is not None]
                if numbers:
                    self.measures.setdefault(name, {}).setdefault(pair, array('d')).extend(numbers)
        for row, score, right in zip(rows.rows, rows.scores, rows.correct, strict=True):
            if not self._add_score(rows.dataset, rows.model, row, score, None if right is None else bool(right), None):
                break

    def _add_score(
        self, dataset: str, model: str, row: int, score: float | None, correct: bool | None, cluster: str | None
    ) -> bool:
        """Keep a score for comparing models; False if there is no place for more of this model."""
        if score is None or not 0 <= score <= 1:
            return True
        own = self.scores.setdefault(model, {})
        if len(own) >= _SCORES_KEPT:
            self.scores_capped = True
            return False
        apart = None if cluster is None else f'{dataset}: {cluster}'  # equal names in two datasets are two clusters
        own[dataset, row] = PairedRow(score, correct, apart)
        return True

    def reasons_by_count(self) -> list[Why]:
        """Why rows have no answer, most frequent first. Cut rows whose reasons differ in numbers have one."""
        causes: dict[tuple[str, str], tuple[dict[str, None], Counter[Pair]]] = {}
        for (pair, outcome, reason), count in self.reasons.items():
            form = reason if outcome == 'failed' else re.sub(r'\d[\d,]*', '#', reason)
            reasons, pairs = causes.setdefault((outcome, form), ({}, Counter()))
            reasons[reason] = None
            pairs[pair] += count
        whys = [
            Why(outcome, f'{"e.g. " * (len(reasons) > 1)}{next(iter(reasons))}', pairs.total(), tuple(pairs))
            for (outcome, _), (reasons, pairs) in causes.items()
        ]
        return sorted(whys, key=lambda why: -why.rows)

    def measure(self, *names: str) -> tuple[str, dict[Pair, array[float]]] | None:
        """The measure that most rows have, the first of equals; None if no row has any."""
        sizes = {name: sum(map(len, self.measures.get(name, {}).values())) for name in names}
        best = max(names, key=lambda name: sizes[name])
        return (best, self.measures[best]) if sizes[best] else None

    def sort_as(self, pairs: Iterable[Pair]) -> None:
        """Put datasets and models into the order of these pairs, which is that of the scores."""
        ordered = list(pairs)
        datasets = {dataset: place for place, dataset in enumerate(dict.fromkeys(pair[0] for pair in ordered))}
        models = {model: place for place, model in enumerate(dict.fromkeys(pair[1] for pair in ordered))}

        def place_of(pair: Pair) -> tuple[int, int]:
            return datasets.get(pair[0], len(datasets)), models.get(pair[1], len(models))

        self.endings = {pair: self.endings[pair] for pair in sorted(self.endings, key=place_of)}
        self.usage = {pair: self.usage[pair] for pair in sorted(self.usage, key=place_of)}
        self.scores = {
            model: self.scores[model]
            for model in sorted(self.scores, key=lambda model_name: models.get(model_name, len(models)))
        }
        for name, numbers in self.measures.items():
            self.measures[name] = {pair: numbers[pair] for pair in sorted(numbers, key=place_of)}

    def _measure(self, name: str, pair: Pair, value: float | None) -> None:
        if isinstance(value, (int, float)) and math.isfinite(value):
            self.measures.setdefault(name, {}).setdefault(pair, array('d')).append(value)


def _per_token(result: Result) -> float | None:
    """The milliseconds between the tokens of one streamed reply."""
    first, seconds, tokens = result.first_token_seconds, result.seconds, result.output_tokens or 0
    if first is None or seconds is None or tokens < 2 or len(result.fingerprints) != 1:
        return None
    return 1e3 * (seconds - first) / (tokens - 1)


UNFINISHED = 'not finished'


def every_card(cards: Sequence[Scorecard], run_counts: RunCounts) -> list[Scorecard]:
    """The scores (one for each extractor), and the mean so far of each dataset × model that is not finished.

    The counts are put into the order of the scores, and learn what judges used.
    """
    run_counts.judging = sum_judging(cards)
    run_counts.sort_as((card.dataset, card.model) for card in cards)
    scored = {(card.dataset, card.model) for card in cards}
    begun = [(pair, endings) for pair, endings in run_counts.endings.items() if pair not in scored]
    return [
        *(column for card in cards for column in card.columns),
        *(_unfinished_card(*pair, endings, run_counts) for pair, endings in begun),
    ]


def sum_judging(cards: Iterable[Scorecard]) -> dict[Pair, Used]:
    """What judges used, by the dataset they judged and their own name.

    >>> from rolecall.scoring.scorecard import Judging
    >>> used = {'model': 'gpt', 'rows': 3, 'input_tokens': 90}
    >>> card = Scorecard('qa', 'm', 'accuracy', 1.0, judging=Judging(usage=used))
    >>> sum_judging([card, card])['qa', 'gpt'].input_tokens
    180
    """
    by_pair: dict[Pair, Used] = {}
    for card in cards:
        usage = card.judging.usage if card.judging else None
        if usage is not None and not card.members:
            by_pair.setdefault((card.dataset, str(usage.get('model'))), Used(0)).add(Used.from_dict(usage))
    return by_pair


def _unfinished_card(dataset: str, model: str, endings: Counter[str], run_counts: RunCounts) -> Scorecard:
    outcomes: Counter[str] = Counter()
    for ending, rows in endings.items():
        outcomes['ok' if ending in VERDICTS else ending] += rows
    scores = run_counts.scores.get(model, {})
    scored = [row for (name, _), row in scores.items() if name == dataset]
    card = Scorecard(
        dataset, model, UNFINISHED, None, scored=len(scored), total=outcomes.total(), outcomes=outcomes, unit='%'
    )
    if not scored or run_counts.scores_capped:
        return card
    value, low, high = mean_in_percent(scored)
    return replace(card, value=value, low=low, high=high)


def mean_in_percent(rows: Sequence[PairedRow]) -> tuple[float, float, float]:
    """The mean of rows that are scored from 0 to 1, and its interval."""
    scores = [row.score for row in rows]
    sums = cluster_sums(scores, [row.cluster for row in rows])
    interval = clustered_wilson(sums) if set(scores) <= {0.0, 1.0} else mean_interval(sums, scale=(0.0, 1.0))
    low, high = interval or (0.0, 1.0)
    return 100 * sum(scores) / len(scores), 100 * low, 100 * high


def unjudged_reasons(cards: Iterable[Scorecard]) -> list[Why]:
    """Why answers have no score: the evaluator failed, or a judge returned no verdict.

    >>> from rolecall.scoring.scorecard import Judging, NotJudged
    >>> silent = Judging(not_judged=NotJudged('judge', {'refused': 2}))
    >>> [why.rows for why in unjudged_reasons([Scorecard('d', 'm', 'accuracy', None, judging=silent)])]
    [2]
    """
    whys: list[Why] = []
    for card in cards:
        place = ((card.dataset, card.model),)
        if card.error:
            whys.append(Why('not scored', card.error, card.total, place))
        silent = card.judging.not_judged if card.judging else None
        whys += [Why('not judged', reason, rows, place) for reason, rows in (silent.reasons if silent else {}).items()]
    return whys


def count_results(
    results: Iterable[Result | SettledRows], *, batched: Mapping[Pair, BatchTokens] | None = None
) -> RunCounts:
    """Everything counted that a table needs: no lengths and times of single rows."""
    run_counts = RunCounts(measuring=False, batched=batched or {})
    for result in results:
        run_counts.add_some(result)
    return run_counts
