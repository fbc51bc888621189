"""Gold answers to doubt: rows where strong models agree with each other, and not with the dataset.

Only certain readings vote: answers that a reply states or concludes. What is listed is for a person to decide.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from rolecall.core.prompts.values import text_of
from rolecall.insight.run_source import StoredRun, find_parts
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.statistics import wilson

_FEWEST = 2
"""Models that must agree."""
_STRONG = 0.5
"""The share of rows that a strong model answers as the dataset does."""
_LONGEST = 200
"""Longer texts are replies that nothing was read from."""


@dataclass(frozen=True, slots=True)
class DoubtedRow:
    """A row whose gold answer strong models contradict with one voice."""

    dataset: str
    digest: str | None
    """Of the rows of the dataset: the patch is for these and no others."""
    row: int
    gold: str
    proposed: str
    votes: Mapping[str, str]
    """The answer of each strong model that gave one."""


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


def doubt_gold(run: RunReader, strong: Collection[str] = ()) -> tuple[list[DoubtedRow], list[DoubtedScore]]:
    """The doubted rows of a run. Strong are the models that are named, or else the better half that is mostly right."""
    parts, pairs = find_parts(StoredRun(run)), run.pairs()
    doubted: list[DoubtedRow] = []
    scores: list[DoubtedScore] = []
    for dataset in dict.fromkeys(dataset for dataset, _ in pairs):
        votes = {
            model: {result.row: _vote(result) for result in run.results(dataset, model) if result.outcome != 'failed'}
            for name, model in pairs
            if name == dataset
        }
        chosen = [model for model in votes if model in strong] or _better_half(votes)
        digest = next((own.rows for model in chosen if (own := parts.get((dataset, model)))), None)
        rows = {
            number: DoubtedRow(dataset, digest, number, *contradiction)
            for number in sorted(set().union(*votes.values()))
            if (contradiction := _find_contradiction({name: votes[name].get(number) for name in chosen}))
        }
        doubted += rows.values()
        scores += (_score(dataset, model, votes[model], rows) for model in votes if rows)
    return doubted, scores


def write_patch(file: Path, rows: Sequence[DoubtedRow]) -> None:
    """Write the doubted rows as JSON lines: dataset, digest of its rows, row, gold answer, proposed one, votes."""
    with write_atomically(file) as part:
        part.write_text(''.join(json.dumps(asdict(row)) + '\n' for row in rows), 'utf-8')


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
    if (
        len(certain) < max(_FEWEST, len(answered) / 2)
        or len(agreed) > 1
        or any(vote.correct for vote in certain.values())
    ):
        return None
    first = next(iter(certain.values()))
    return first.gold, first.answer, {model: vote.answer for model, vote in certain.items()}


def _fold(answer: str) -> str:
    return ' '.join(answer.casefold().strip('.$ ').split())


def _better_half(votes: Mapping[str, Mapping[int, _Vote]]) -> list[str]:
    shares = {model: _share(own.values()) for model, own in votes.items()}
    ranked = sorted((model for model in votes if shares[model] >= _STRONG), key=shares.__getitem__, reverse=True)
    return ranked[: max(_FEWEST, (len(votes) + 1) // 2)]


def _share(votes: Iterable[_Vote]) -> float:
    marked = [vote.correct for vote in votes if vote.correct is not None]
    return sum(marked) / max(len(marked), 1)


def _score(dataset: str, model: str, votes: Mapping[int, _Vote], doubted: Mapping[int, DoubtedRow]) -> DoubtedScore:
    left = [vote for number, vote in votes.items() if number not in doubted and vote.correct is not None]
    patched = [
        vote._replace(correct=_fold(vote.answer) == _fold(doubted[number].proposed)) if number in doubted else vote
        for number, vote in votes.items()
    ]
    low, high = wilson(sum(bool(vote.correct) for vote in left), len(left))
    shares = (_share(votes.values()), _share(left), low, high, _share(patched))
    return DoubtedScore(dataset, model, len(votes), *(100 * share for share in shares))
