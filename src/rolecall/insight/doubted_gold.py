"""Gold answers to doubt: rows where strong models agree with each other, and not with the dataset.

Only certain readings vote: answers that a reply states or concludes. What is listed is for a person to decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import DataError, RunError, did_you_mean
from rolecall.insight.reading_errors import build_stored_scorer
from rolecall.insight.run_source import StoredRun
from rolecall.runs.pair_scoring import scorable_of
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.statistics import wilson
from rolecall.sources.datasets.gold_patch import DoubtedRow, check_patch, read_gold_patch

_FEWEST = 2
"""Models that must agree."""
_STRONG = 0.5
"""The share of rows that a strong model answers as the dataset does."""
_LONGEST = 200
"""Longer texts are replies that nothing was read from."""


@dataclass(frozen=True, slots=True)
class DoubtedScore:
    """A model's score on all rows, without the doubted ones, and with the proposed answers as gold, in per cent."""

    dataset: str
    model: str
    rows: int
    score: float
    without: float
    low: float
    high: float
    patched: float


class _Vote(NamedTuple):
    """A model's answer to a row, empty where the reading is not certain, and whether it is right."""

    answer: str
    correct: bool | None
    gold: str


def doubt_gold(run: RunReader, strong: Collection[str] = ()) -> list[DoubtedRow]:
    """The doubted rows of a run. Strong are the models that are named, or else the better half that is mostly right."""
    parts, pairs = StoredRun(run).parts, run.pairs()
    models = list(dict.fromkeys(model for _, model in pairs))
    if unknown := next((name for name in strong if name not in models), ''):
        raise RunError(f'the run has no model {unknown!r}. {did_you_mean(unknown, models)}')
    if len({*(strong or models)}) < _FEWEST:
        raise RunError(f'doubting gold answers takes two models or more, got {", ".join(strong or models)}.')
    doubted: list[DoubtedRow] = []
    voters = 0
    for dataset in dict.fromkeys(dataset for dataset, _ in pairs):
        votes = {
            model: {result.row: _vote(result) for result in run.results(dataset, model) if result.outcome != 'failed'}
            for name, model in pairs
            if name == dataset
        }
        chosen = [model for model in votes if model in strong] or _better_half(votes)
        voters = max(voters, len(chosen))
        digest = next((own.rows for model in chosen if (own := parts.get((dataset, model)))), None)
        doubted += (
            DoubtedRow(dataset, digest, number, *contradiction)
            for number in sorted(set().union(*votes.values()))
            if (contradiction := _find_contradiction({name: votes[name].get(number) for name in chosen}))
        )
    if voters < _FEWEST:
        raise RunError('fewer than two models are right on half of the rows. Name two or more: --doubted MODEL MODEL')
    return doubted


def find_patched_rows(run: RunReader, file: str | Path) -> list[DoubtedRow]:
    """The rows of a patch, which must be those of the run."""
    digests = {dataset: parts.rows for (dataset, _), parts in StoredRun(run).parts.items()}
    rows = read_gold_patch(file)
    own = [row for row in rows if row.dataset in digests]
    if not own:
        names = ', '.join(dict.fromkeys(row.dataset for row in rows))
        raise DataError(f'{file}: patches {names}, which this run does not have.')
    for dataset in dict.fromkeys(row.dataset for row in own):
        numbers = {number for name, model in run.pairs() if name == dataset for number in run.outcomes(name, model)}
        check_patch([row for row in own if row.dataset == dataset], file, digests[dataset], numbers)
    return own


def score_patched(run: RunReader, rows: Sequence[DoubtedRow]) -> list[DoubtedScore]:
    """The scores of a run with and without doubted rows, and with the proposed answers as gold."""
    scores = []
    for dataset, model in run.pairs():
        proposed = {row.row: row.proposed for row in rows if row.dataset == dataset}
        results = [result for result in run.results(dataset, model) if result.correct is not None] if proposed else []
        if results:
            left = [float(result.correct or False) for result in results if result.row not in proposed]
            marks = left + _mark_patched(run, [result for result in results if result.row in proposed], proposed)
            shares = (_mean(float(result.correct or False) for result in results), _mean(left))
            numbers = (*shares, *wilson(sum(left), len(left)), _mean(marks))
            scores.append(DoubtedScore(dataset, model, len(results), *(100 * number for number in numbers)))
    return scores


def _mark_patched(run: RunReader, results: Sequence[Result], proposed: Mapping[int, str]) -> list[float]:
    """The marks of rows whose gold answer is replaced: by the run's scorer, or by comparing where it has none."""
    rows = [
        replace(scorable_of(result, run.fields(result.dataset, result.row)), gold=proposed[result.row])
        for result in results
    ]
    scorer = build_stored_scorer(run, results[0].dataset, rows) if results else None
    if scorer is None or scorer.needs_judge:
        return [float(_fold(_vote(result).answer) == _fold(proposed[result.row])) for result in results]
    return [float(verdict.correct or False) for verdict in scorer.start(adds_up=False).add(rows)]


def _vote(result: Result) -> _Vote:
    is_certain = (
        (result.outcome, bool(result.judged)) == ('ok', False)
        and result.gold not in (None, '')
        and not any(place is None or place[3] == 'inferred' for place in result.read_from)
    )
    answer = text_of(result.prediction if result.extracted is None else result.extracted).strip() if is_certain else ''
    return _Vote(answer if len(answer) <= _LONGEST else '', result.correct, text_of(result.gold) if is_certain else '')


def _find_contradiction(votes: Mapping[str, _Vote | None]) -> tuple[str, str, dict[str, str]] | None:
    """The gold answer, the one that the models agree on instead, and their votes; None if they do not."""
    answered = {model: vote for model, vote in votes.items() if vote is not None}
    certain = {model: vote for model, vote in answered.items() if vote.answer}
    agreed = {_fold(vote.answer) for vote in certain.values()}
    few = len(certain) < max(_FEWEST, len(answered) / 2)
    if few or len(agreed) > 1 or any(vote.correct for vote in certain.values()):
        return None
    first = next(iter(certain.values()))
    return first.gold, first.answer, {model: vote.answer for model, vote in certain.items()}


def _fold(answer: str) -> str:
    return ' '.join(answer.casefold().strip('.$ ').split())


def _better_half(votes: Mapping[str, Mapping[int, _Vote]]) -> list[str]:
    marked = {
        model: [vote.correct for vote in own.values() if vote.correct is not None] for model, own in votes.items()
    }
    shares = {model: _mean(map(float, marks)) for model, marks in marked.items()}
    ranked = sorted((model for model in votes if shares[model] >= _STRONG), key=shares.__getitem__, reverse=True)
    return ranked[: max(_FEWEST, (len(votes) + 1) // 2)]


def _mean(marks: Iterable[float]) -> float:
    values = list(marks)
    return sum(values) / max(len(values), 1)
