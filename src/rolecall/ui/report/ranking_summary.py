"""The headline of a run, and the ranking of its models with ties."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rolecall.insight.run_source import name_without_wording
from rolecall.runs.parts import COMPARED, PartDigests
from rolecall.scoring.paired_ranking import ModelPair, PairedRow, Ranking, rank_models
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, join_words
from rolecall.ui.report.counts import UNFINISHED, RunCounts, mean_in_percent

_ROUNDED = 0.05
"""By how many points a score may differ from the mean of its rows: logs of other programs are rounded."""


@dataclass(frozen=True, slots=True)
class RankingSummary:
    """The ranking of a run's models in points of 100, and one sentence about it."""

    headline: str
    ranking: Ranking
    complete: bool
    """Whether every scored row was compared, not only the first ones."""


_Scores = Mapping[tuple[str, int], PairedRow]


def _scores_in_percent(counts: RunCounts, cards: Sequence[Scorecard]) -> dict[str, _Scores]:
    groups = {card.dataset: card.groups for card in cards if card.groups}
    scores = {model: _count_groups(rows, groups) for model, rows in counts.scores.items()}
    left_out = {card.dataset for card in cards if card.lower_is_better or card.unit not in (None, '%')}
    left_out |= set() if counts.scores_capped else _not_means_of_rows(scores, cards)
    percent = {
        model: {place: row for place, row in rows.items() if place[0] not in left_out} if left_out else rows
        for model, rows in scores.items()
    }
    return {model: _join_wordings(rows) for model, rows in percent.items() if rows}


def _join_wordings(rows: _Scores) -> _Scores:
    """The scores with a row's wordings as one cluster: asked twice, it says hardly more than once."""
    bases = {dataset: name_without_wording(dataset) for dataset, _ in rows}
    if len({*bases.values()}) == len(bases):
        return rows
    return {
        (dataset, number): replace(row, cluster=f'{bases[dataset]}{(row.cluster or str(number)).removeprefix(dataset)}')
        for (dataset, number), row in rows.items()
    }


def _count_groups(rows: _Scores, groups: Mapping[str, Sequence[Sequence[int]]]) -> _Scores:
    """The scores with one for each whole group of rows that count as one (rotated options): right if all are."""
    if not groups:
        return rows
    merged = {place: row for place, row in rows.items() if place[0] not in groups}
    for dataset, some in groups.items():
        for group in some:
            members = [rows[dataset, row] for row in group if (dataset, row) in rows]
            if members and len(members) == len(group):
                right = all(member.score == 1 for member in members)
                merged[dataset, group[0]] = PairedRow(float(right), right, members[0].cluster)
    return merged


def _not_means_of_rows(scores: Mapping[str, _Scores], cards: Iterable[Scorecard]) -> set[str]:
    """Datasets whose score is not the mean of its rows (corpus BLEU), so a mean of rows would contradict it."""
    points: dict[tuple[str, str], list[float]] = defaultdict(list)
    for model, rows in scores.items():
        for (dataset, _), row in rows.items():
            points[dataset, model].append(100 * row.score)
    first = {(card.dataset, card.model): card.value for card in reversed(list(cards))}
    return {
        dataset
        for (dataset, model), own in points.items()
        if (value := first.get((dataset, model))) is not None and abs(sum(own) / len(own) - value) > _ROUNDED
    }


PartsByPair = Mapping[tuple[str, str], PartDigests]


def rank_run(counts: RunCounts, cards: Sequence[Scorecard], parts: PartsByPair | None = None) -> RankingSummary | None:
    """Rank the models of a run; None if fewer than two have rows in common.

    Datasets on which models had other prompts, rows or scoring are left out of the ranking.
    """
    apart = find_incomparable(cards, parts or {})
    scores = {
        model: {place: row for place, row in rows.items() if place[0] not in apart} if apart else rows
        for model, rows in _scores_in_percent(counts, cards).items()
    }
    scores = {model: rows for model, rows in scores.items() if rows}
    if len(scores) < 2:
        return None
    ranking = rank_models(scores)
    if not ranking.rows:
        return None
    return RankingSummary(describe_ranking(ranking), ranking, not counts.scores_capped)


def find_incomparable(cards: Sequence[Scorecard], parts: PartsByPair) -> dict[str, tuple[list[str], list[str]]]:
    """Datasets on which models differ in more than the model's side: the models, and the parts that differ."""
    apart: dict[str, tuple[list[str], list[str]]] = {}
    for dataset in dict.fromkeys(card.dataset for card in cards):
        models = list(dict.fromkeys(card.model for card in cards if card.dataset == dataset))
        digests = [parts[dataset, model] for model in models if (dataset, model) in parts]
        differing = {name for other in digests[1:] for name in digests[0].find_differing(other, COMPARED)}
        if differing:
            apart[dataset] = models, [name for name in COMPARED if name in differing]
    return apart


def word_headline(
    ranked: RankingSummary | None,
    counts: RunCounts,
    cards: Sequence[Scorecard],
    parts: PartsByPair | None = None,
) -> str:
    """How the models of a run rank, or how its only model scores, in a sentence. Empty if none is scored."""
    stopped = next((card.stopped for card in cards if card.stopped), '')
    headline = stopped or (_describe_only_model(counts, cards) if ranked is None else ranked.headline)
    for dataset, (models, differing) in find_incomparable(cards, parts or {}).items():
        groups = dict.fromkeys(card.dataset for card in cards if dataset in card.members)
        means = f', nor by their mean of {" and ".join(groups)}' if groups else ''
        what = f'{join_words(models)} differ in {join_words(differing)} on {dataset}'
        headline = f'{headline} {what}: not ranked on it{means}.'.strip()
    unfinished = any(card.metric == UNFINISHED for card in cards)
    return f'{headline} The run is not finished.' if headline and unfinished else headline


def _describe_only_model(counts: RunCounts, cards: Sequence[Scorecard]) -> str:
    scores = _scores_in_percent(counts, cards)
    if len(scores) != 1:
        return ''
    [(model, rows)] = scores.items()
    datasets = list(dict.fromkeys(dataset for dataset, _ in rows))
    where = datasets[0] if len(datasets) == 1 else f'{len(datasets)} datasets'
    if len(datasets) > 1 and len(bases := {*map(name_without_wording, datasets)}) == 1:
        values = [card.value for card in cards if card.dataset in datasets and card.value is not None]
        span = f'{min(values):.1f} to {max(values):.1f}'
        return f'{model} scores {span} over {len(datasets)} wordings of {min(bases)}.'
    whole = [card for card in cards if (card.dataset, card.model) == (where, model) and card.value is not None]
    if whole and None not in (points := (whole[0].value, whole[0].low, whole[0].high)):
        return _describe_one(model, points, whole[0].scored, where)
    return _describe_one(model, mean_in_percent(list(rows.values())), len(rows), where)


def _describe_one(model: str, points: Sequence[float | None], rows: int, where: str) -> str:
    value, low, high = points
    return f'{model} scores {value:.1f} [{low:.1f}, {high:.1f}] on {count_noun(rows, "row")} of {where}.'


def describe_ranking(ranking: Ranking) -> str:
    """One sentence: the best model and its lead, or that the models cannot be told apart."""
    first = ranking.places[0].model
    ahead = [pair for pair in ranking.pairs if pair.better == first and pair.told_apart]
    rows = count_noun(ranking.rows, 'row')
    if len(ranking.places) == 2:
        pair = ranking.pairs[0]
        if ahead:
            return f'{pair.better} beats {pair.worse} by {_points(pair)} on {rows}.'
        return f'{pair.better} and {pair.worse} cannot be told apart on {rows}: they differ by {_points(pair)}.'
    tied = [place.model for place in ranking.places if place.best == 1]
    if len(tied) == 1:
        next_best = min(ahead, key=lambda pair: pair.difference)
        return f'{first} is best on {rows}, ahead of {next_best.worse} by {_points(next_best)}.'
    return f'{join_words(tied)} share first place: they cannot be told apart on {rows}.'


def _points(pair: ModelPair) -> str:
    bounds = '' if pair.low is None or pair.high is None else f' ({100 * pair.low:.1f} to {100 * pair.high:.1f})'
    return f'{100 * pair.difference:.1f} points{bounds}'
