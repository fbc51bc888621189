"""Scores of groups: averages over datasets and over other groups.

A group is the mean of its members; with weights, the weighted mean. Its interval is that of the rows, with the datasets
as given: other rows of the same datasets would score so. `interval.between` takes the datasets, also those of groups in
it, as a sample of such datasets, which few of them cannot say much about. A `summary_groups` entry may also ask for a
sum, a harmonic mean or a standard deviation, which have no interval; one with `transforms` has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, harmonic_mean, pstdev

from rolecall.scoring.accumulate import CONFIDENCE
from rolecall.scoring.groups import DatasetGroup
from rolecall.scoring.reading_choice import OtherReading
from rolecall.scoring.scorecard import IntervalBasis, Judging, Members, ReplyCount, Scorecard
from rolecall.scoring.statistics import Interval

_UNNAMED = 'score'
"""What OpenCompass calls the number of many evaluators; here it says what it is, and groups of its configs find it."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A dataset in a group, and its part of the group's mean."""

    weight: float
    card: Scorecard


@dataclass(frozen=True, slots=True)
class _Summary:
    card: Scorecard
    leaves: Mapping[str, _Leaf]


def summarise_groups(groups: Sequence[DatasetGroup], cards: Iterable[Scorecard]) -> list[Scorecard]:
    """The groups' scores for every model, and for every extractor that all members have.

    A group that lacks a member has no value and names the member. Where a dataset has the same name, the group is
    called `name (group)`.

    >>> from rolecall.scoring.groups import read_groups
    >>> cards = [Scorecard('a', 'm', 'accuracy', 40.0, scored=10), Scorecard('b', 'm', 'accuracy', 60.0, scored=30)]
    >>> [card.value for card in summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)]
    [50.0]
    """
    by_model: dict[str, dict[str, list[Scorecard]]] = {}
    for card in cards:
        by_model.setdefault(card.model, {}).setdefault(card.dataset, []).append(card)
    by_name = {group.name: group for group in groups}
    taken = {name for datasets in by_model.values() for name in datasets}
    scores = []
    for model, datasets in by_model.items():
        done: dict[str, dict[str, _Summary]] = {}
        for group in groups:
            members = [datasets[name] for name in sorted(_leaves(group, by_name) & set(datasets))]
            for extractor in _find_extractors(members) if members else ():
                own_cards = {name: _keep_extractor(cards, extractor) for name, cards in datasets.items()}
                card = _summarise_group(group, model, own_cards, by_name, done.setdefault(extractor, {})).card
                scores.append(replace(card, dataset=f'{card.dataset} (group)') if card.dataset in taken else card)
    return scores


def _find_extractors(members: Iterable[Sequence[Scorecard]]) -> list[str]:
    """The extractors that all members have in common; if there are none, each member's first (`''`)."""
    named = [[card.extractor for card in cards if card.extractor] for cards in members]
    several = [names for names in named if names]
    return [name for name in several[0] if all(name in names for names in several)] or [''] if several else ['']


def _keep_extractor(cards: Sequence[Scorecard], extractor: str) -> Sequence[Scorecard]:
    """The scores by this extractor; all scores of a dataset that does not use it."""
    return [card for card in cards if card.extractor == extractor] or cards


def _leaves(group: DatasetGroup, by_name: Mapping[str, DatasetGroup]) -> set[str]:
    """The datasets of a group and of the groups in it."""
    names = [member.name for member in group.members]
    return {leaf for name in names for leaf in (_leaves(by_name[name], by_name) if name in by_name else {name})}


def _summarise_group(
    group: DatasetGroup,
    model: str,
    datasets: Mapping[str, Sequence[Scorecard]],
    by_name: Mapping[str, DatasetGroup],
    done: dict[str, _Summary],
) -> _Summary:
    if group.name in done:
        return done[group.name]
    scored: dict[str, Scorecard] = {}
    leaves: dict[str, Mapping[str, _Leaf]] = {}
    without: list[Scorecard] = []
    for member in group.members:
        if member.name in by_name:
            inner = _summarise_group(by_name[member.name], model, datasets, by_name, done)
            card: Scorecard | None = inner.card
            leaves[member.label] = inner.leaves
        else:
            card = _pick_card(datasets.get(member.name, ()), member.metric or group.metric)
        if card is not None and card.value is not None:
            scored[member.label] = card
        elif card is not None:
            without.append(card)
    missing = [member.label for member in group.members if member.label not in scored]
    parts = _spread_weights(group, scored, leaves)
    done[group.name] = _Summary(_make_card(group, model, scored, missing, without, parts), parts)
    return done[group.name]


def _spread_weights(
    group: DatasetGroup, scored: Mapping[str, Scorecard], inner: Mapping[str, Mapping[str, _Leaf]]
) -> dict[str, _Leaf]:
    """The datasets of a group and of its nested groups, with their weights; a dataset may be in several groups.

    A nested sum or standard deviation counts as a single dataset.
    """
    weights = _weights_of(group, scored)
    spread: dict[str, _Leaf] = {}
    for (label, card), weight in zip(scored.items(), weights, strict=True):
        for name, leaf in (inner.get(label) or {label: _Leaf(1.0, card)}).items():
            before = spread.get(name, _Leaf(0.0, leaf.card))
            spread[name] = _Leaf(before.weight + weight / sum(weights) * leaf.weight, leaf.card)
    return {} if group.average in _SPECIAL else spread


def _pick_card(cards: Sequence[Scorecard], metric: str) -> Scorecard | None:
    """The scorecard of a metric, or one built from another card's further numbers."""
    if not metric:
        return cards[0] if cards else None
    for card in cards:
        if metric in (card.metric, _plain_metric(card)):
            return card
        numbers = card.further or {}
        if metric in numbers:
            value, error = numbers[metric], numbers.get(_stderr_key(metric))
            reach = None if error is None else error * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
            low, high = (None, None) if reach is None else (value - reach, value + reach)
            headline = (card.dataset, card.model, metric, value, low, high, card.scored, card.total)
            return Scorecard(*headline, unit=card.unit, further=numbers)
    return cards[0] if cards and metric == _UNNAMED else None


def _plain_metric(card: Scorecard) -> str:
    """The metric without the name of the extractor."""
    return card.metric.removesuffix(f' ({card.extractor})')


def _make_card(
    group: DatasetGroup,
    model: str,
    scored: Mapping[str, Scorecard],
    missing: Sequence[str],
    without: Sequence[Scorecard],
    parts: Mapping[str, _Leaf],
) -> Scorecard:
    """The group's scorecard. Its rows are those of all members, including members without a value."""
    metrics = {_plain_metric(card) for card in scored.values()}
    extractors = {card.extractor for card in scored.values() if card.extractor}
    metric = group.metric or (metrics.pop() if len(metrics) == 1 else 'mean')
    special = _SPECIAL.get(group.average)
    if special is not None:
        metric = group.average
    extractor = extractors.pop() if len(extractors) == 1 else ''
    everyone = [*scored.values(), *without]
    outcomes: dict[str, int] = {}
    for card in everyone:
        for outcome, count in card.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    result = Scorecard(
        group.name,
        model,
        f'{metric} ({extractor})' if extractor else metric,
        None,
        scored=sum(card.scored for card in everyone),
        total=sum(card.total for card in everyone),
        outcomes=outcomes,
        extractor=extractor,
        judging=Judging(extractor) if extractor and all(card.judge for card in scored.values()) else None,
        group=Members(
            names=tuple(dict.fromkeys(member.name for member in group.members)),
            missing=tuple(missing),
            unsupported='transforms' if group.transformed else '',
        ),
    )
    if missing or group.transformed:
        return result
    return _add_value(result, group, scored, parts)


def _add_value(
    result: Scorecard, group: DatasetGroup, scored: Mapping[str, Scorecard], parts: Mapping[str, _Leaf]
) -> Scorecard:
    """The group's scorecard with its value and interval."""
    cards, weights = list(scored.values()), _weights_of(group, scored)
    units = {'%' if card.unit is None else card.unit for card in cards}
    directions = {bool(card.lower_is_better) for card in cards}
    mixed = tuple(dict.fromkeys(card.metric for card in cards)) if max(len(units), len(directions)) > 1 else ()
    members = replace(result.group or Members(), mixed=mixed)
    unit = units.pop() if len(units) == 1 else ''
    special = _SPECIAL.get(group.average)
    if special is not None:
        value = special([float(card.value or 0.0) for card in cards])
        cut, empty = _sum_replies(cards, 'cut'), _sum_replies(cards, 'empty')
        return replace(result, value=value, unit=unit, group=members, cut=cut, empty=empty)
    value = sum(weight * float(card.value or 0.0) for weight, card in zip(weights, cards, strict=True)) / sum(weights)
    shares = [weight / sum(weights) for weight in weights]
    leaves = [leaf for leaf in parts.values() if leaf.weight]
    between = _interval_between(leaves, value)
    within = _interval_within(leaves, value)
    low, high = between if within is None else (within.low, within.high)
    sample = None if within is None or between[0] is None or between[1] is None else (between[0], between[1])
    method = 'datasets as clusters' if within is None else 'rows of the datasets as given'
    return replace(
        result,
        value=value,
        low=low,
        high=high,
        unit=unit,
        group=replace(members, weights=dict(zip(scored, shares, strict=True)) if group.weights else None),
        interval=IntervalBasis(method, CONFIDENCE, len(leaves), sample),
        further=_pool_stderr(result.metric, cards, by_rows=group.by_rows),
        cut=_sum_replies(cards, 'cut', _mean_of_finished(cards, shares)),
        beside=_mean_beside(cards, shares),
        empty=_sum_replies(cards, 'empty'),
    )


def _pool_stderr(metric: str, cards: Sequence[Scorecard], *, by_rows: bool) -> dict[str, float] | None:
    """lm-eval's standard error of a group, where each member has its own: pooled by size, or of a plain mean."""
    key = _stderr_key(metric)
    errors = [(card.further or {}).get(key) for card in cards]
    stderrs = [float(error) for error in errors if error is not None]
    rows = [card.scored for card in cards]
    if len(stderrs) < len(cards) or (by_rows and sum(rows) <= len(rows)):
        return None
    if by_rows:
        pooled = sum((size - 1) * size * error**2 for size, error in zip(rows, stderrs, strict=True))
        stderr = math.sqrt(pooled / (sum(rows) - len(rows)) / sum(rows))
    else:
        stderr = math.sqrt(sum(error**2 for error in stderrs)) / len(stderrs)
    return {key: stderr}


def _stderr_key(metric: str) -> str:
    """What lm-eval calls the standard error of a number.

    >>> _stderr_key('acc'), _stderr_key('exact_match,strict')
    ('acc_stderr', 'exact_match_stderr,strict')
    """
    name, comma, pipeline = metric.partition(',')
    return f'{name}_stderr{comma}{pipeline}'


def _harmonic_mean(values: Sequence[float]) -> float:
    """As OpenCompass computes it: where a value is not positive, values below 1 count as 1."""
    least = 1.0 if min(values) <= 0 else 0.0
    return harmonic_mean([max(value, least) for value in values])


_SPECIAL: Mapping[str, Callable[[Sequence[float]], float]] = {
    'sum': sum,
    'harmonic_mean': _harmonic_mean,
    'standard_deviation': pstdev,
}


def _weights_of(group: DatasetGroup, scored: Mapping[str, Scorecard]) -> list[float]:
    if group.by_rows:
        weights = [float(card.scored) for card in scored.values()]
    elif isinstance(group.weights, Mapping) and group.weights:
        weights = [float(group.weights.get(label, group.weights.get(label.partition('@')[0], 0.0))) for label in scored]
    else:
        weights = [1.0] * len(scored)
    return weights if sum(weights) else [1.0] * len(weights)


def _mean_of_finished(cards: Sequence[Scorecard], weights: Sequence[float]) -> float | None:
    """The mean of the members' scores over finished replies; None if a member has no such score."""
    scores = [card.cut.finished if card.cut else card.value for card in cards]
    finished = [float(score) for score in scores if score is not None]
    if len(finished) < len(cards):
        return None
    return sum(weight * score for weight, score in zip(weights, finished, strict=True))


def _mean_beside(cards: Sequence[Scorecard], shares: Sequence[float]) -> OtherReading | None:
    """The mean by the other reading; members that have none count as they are. None if no member has one."""
    readings = [card.beside for card in cards if card.beside]
    if not readings or len({(reading.read_as, reading.other) for reading in readings}) > 1:
        return None
    values = [card.beside.value if card.beside else card.value for card in cards]
    mean = sum(share * float(value or 0.0) for share, value in zip(shares, values, strict=True))
    scored = sum(reading.scored for reading in readings)
    differ = sum(reading.differ for reading in readings)
    return OtherReading(readings[0].read_as, readings[0].other, mean, None, None, scored, differ)


def _sum_replies(cards: Sequence[Scorecard], kind: str, finished: float | None = None) -> ReplyCount | None:
    """The cut or empty replies of all members."""
    counts: list[ReplyCount] = [getattr(card, kind) or ReplyCount(0, _count_replies(card)) for card in cards]
    rows = sum(count.rows for count in counts)
    return ReplyCount(rows, sum(count.of for count in counts), finished) if rows else None


def _count_replies(card: Scorecard) -> int:
    """The number of rows with a reply, parsed or not."""
    return card.outcomes.get('ok', 0) + card.outcomes.get('unparsed', 0) if card.outcomes else card.total


def _interval_between(leaves: Sequence[_Leaf], mean: float) -> tuple[float | None, float | None]:
    """The interval of a mean of clusters, with Student's t; a single dataset keeps its own."""
    if len(leaves) == 1:
        return leaves[0].card.low, leaves[0].card.high
    spread = sum((leaf.weight * (float(leaf.card.value or 0) - mean)) ** 2 for leaf in leaves)
    reach = student_t(len(leaves) - 1) * math.sqrt(spread * len(leaves) / (len(leaves) - 1))
    return _keep_in_scale(leaves, mean - reach, mean + reach)


def _interval_within(leaves: Sequence[_Leaf], mean: float) -> Interval | None:
    """The interval with the datasets as given: the arms of their own intervals, added up as independent errors.

    Sides are kept apart (the method of variance estimates recovery): shares near 0 and 100 keep their long arm.
    """
    below = above = 0.0
    for leaf in leaves:
        if leaf.card.value is None or leaf.card.low is None or leaf.card.high is None:
            return None
        below += (leaf.weight * (leaf.card.value - leaf.card.low)) ** 2
        above += (leaf.weight * (leaf.card.high - leaf.card.value)) ** 2
    return _keep_in_scale(leaves, mean - math.sqrt(below), mean + math.sqrt(above))


def _keep_in_scale(leaves: Sequence[_Leaf], low: float, high: float) -> Interval:
    percent = all(leaf.card.unit in (None, '%') for leaf in leaves)
    return Interval(max(0.0, low), min(100.0, high)) if percent else Interval(low, high)


def student_t(freedom: int) -> float:
    """The two-sided 95 % point of Student's t, by its expansion around the normal one.

    >>> round(student_t(10), 2), round(student_t(56), 2)
    (2.23, 2.0)
    """
    z = float(NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom**power) for power, term in enumerate(terms, start=1))
