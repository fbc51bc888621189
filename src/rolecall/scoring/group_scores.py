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
from rolecall.scoring.group_intervals import Leaf, interval_between, interval_within
from rolecall.scoring.groups import Group
from rolecall.scoring.scorecard import IntervalBasis, Judging, Members, ReplyCount, Scorecard

_UNNAMED = 'score'
"""What OpenCompass calls the number of many evaluators; here it says what it is, and groups of its configs find it."""


@dataclass(frozen=True, slots=True)
class _Summary:
    card: Scorecard
    leaves: Mapping[str, Leaf]


def summarise_groups(groups: Sequence[Group], cards: Iterable[Scorecard]) -> list[Scorecard]:
    """The groups' scores for every model, and for every extractor that all members have.

    A group that lacks a member has no value, and says which. One that is called like a dataset is told apart from it.

    >>> from rolecall.scoring.groups import read_groups
    >>> cards = [Scorecard('a', 'm', 'accuracy', 40.0, scored=10), Scorecard('b', 'm', 'accuracy', 60.0, scored=30)]
    >>> [card.value for card in summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)]
    [50.0]
    """
    by_model: dict[str, dict[str, list[Scorecard]]] = {}
    for card in cards:
        by_model.setdefault(card.model, {}).setdefault(card.dataset, []).append(card)
    known = {group.name: group for group in groups}
    taken = {name for datasets in by_model.values() for name in datasets}
    made = []
    for model, datasets in by_model.items():
        done: dict[str, dict[str, _Summary]] = {}
        for group in groups:
            members = [datasets[name] for name in sorted(_leaves(group, known) & set(datasets))]
            for extractor in _find_extractors(members) if members else ():
                read = {name: _keep_extractor(cards, extractor) for name, cards in datasets.items()}
                card = _summarise_group(group, model, read, known, done.setdefault(extractor, {})).card
                made.append(replace(card, dataset=f'{card.dataset} (group)') if card.dataset in taken else card)
    return made


def _find_extractors(members: Iterable[Sequence[Scorecard]]) -> list[str]:
    """The extractors that all members with several have; if there are none, each member's first (`''`)."""
    named = [[card.extractor for card in cards if card.extractor] for cards in members]
    several = [names for names in named if names]
    return [name for name in several[0] if all(name in names for names in several)] or [''] if several else ['']


def _keep_extractor(cards: Sequence[Scorecard], extractor: str) -> Sequence[Scorecard]:
    """The scores by this extractor; all of them where it is not one of theirs."""
    return [card for card in cards if card.extractor == extractor] or cards


def _leaves(group: Group, known: Mapping[str, Group]) -> set[str]:
    """The datasets of a group and of the groups in it."""
    names = [one.name for one in group.members]
    return {leaf for name in names for leaf in (_leaves(known[name], known) if name in known else {name})}


def _summarise_group(
    group: Group,
    model: str,
    datasets: Mapping[str, Sequence[Scorecard]],
    known: Mapping[str, Group],
    done: dict[str, _Summary],
) -> _Summary:
    if group.name in done:
        return done[group.name]
    found: dict[str, Scorecard] = {}
    leaves: dict[str, Mapping[str, Leaf]] = {}
    without: list[Scorecard] = []
    for member in group.members:
        if member.name in known:
            inner = _summarise_group(known[member.name], model, datasets, known, done)
            card: Scorecard | None = inner.card
            leaves[member.label] = inner.leaves
        else:
            card = _pick_card(datasets.get(member.name, ()), member.metric or group.metric)
        if card is not None and card.value is not None:
            found[member.label] = card
        elif card is not None:
            without.append(card)
    missing = [member.label for member in group.members if member.label not in found]
    parts = _spread_weights(group, found, leaves)
    done[group.name] = _Summary(_make_card(group, model, found, missing, without, parts), parts)
    return done[group.name]


def _spread_weights(
    group: Group, found: Mapping[str, Scorecard], inner: Mapping[str, Mapping[str, Leaf]]
) -> dict[str, Leaf]:
    """The datasets in a group with their weights, through the groups in it; a dataset may be in several of them.

    What is not a mean (a sum, a standard deviation) counts as one.
    """
    given = _weights_of(group, found)
    spread: dict[str, Leaf] = {}
    for (label, card), weight in zip(found.items(), given, strict=True):
        for name, leaf in (inner.get(label) or {label: Leaf(1.0, card)}).items():
            before = spread.get(name, Leaf(0.0, leaf.card))
            spread[name] = Leaf(before.weight + weight / sum(given) * leaf.weight, leaf.card)
    return {} if group.average in _SPECIAL else spread


def _pick_card(cards: Sequence[Scorecard], metric: str) -> Scorecard | None:
    """The scorecard of a metric, or one made from the further numbers of another."""
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
    group: Group,
    model: str,
    found: Mapping[str, Scorecard],
    missing: Sequence[str],
    without: Sequence[Scorecard],
    parts: Mapping[str, Leaf],
) -> Scorecard:
    """The group's scorecard. Its rows are those of all members, also of those without a value."""
    metrics = {_plain_metric(card) for card in found.values()}
    extractors = {card.extractor for card in found.values() if card.extractor}
    metric = group.metric or (metrics.pop() if len(metrics) == 1 else 'mean')
    special = _SPECIAL.get(group.average)
    if special is not None:
        metric = group.average
    extractor = extractors.pop() if len(extractors) == 1 else ''
    everyone = [*found.values(), *without]
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
        judging=Judging(extractor) if extractor and all(card.judge for card in found.values()) else None,
        group=Members(
            names=tuple(dict.fromkeys(member.name for member in group.members)),
            missing=tuple(missing),
            unsupported='transforms' if group.transformed else '',
        ),
    )
    if missing or group.transformed:
        return result
    return _add_value(result, group, found, parts)


def _add_value(result: Scorecard, group: Group, found: Mapping[str, Scorecard], parts: Mapping[str, Leaf]) -> Scorecard:
    """The group's scorecard with its value and interval."""
    cards, weights = list(found.values()), _weights_of(group, found)
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
    between = interval_between(leaves, value)
    within = interval_within(leaves, value)
    low, high = between if within is None else (within.low, within.high)
    sample = None if within is None or between[0] is None or between[1] is None else (between[0], between[1])
    method = 'datasets as clusters' if within is None else 'rows of the datasets as given'
    return replace(
        result,
        value=value,
        low=low,
        high=high,
        unit=unit,
        group=replace(members, weights=dict(zip(found, shares, strict=True)) if group.weights else None),
        interval=IntervalBasis(method, CONFIDENCE, len(leaves), sample),
        further=_pool_stderr(result.metric, cards, by_rows=group.by_rows),
        cut=_sum_replies(cards, 'cut', _mean_of_finished(cards, shares)),
        empty=_sum_replies(cards, 'empty'),
    )


def _pool_stderr(metric: str, cards: Sequence[Scorecard], *, by_rows: bool) -> dict[str, float] | None:
    """lm-eval's standard error of a group, where each member has its own: pooled by size, or of a plain mean."""
    key = _stderr_key(metric)
    errors = [(card.further or {}).get(key) for card in cards]
    known = [float(error) for error in errors if error is not None]
    rows = [card.scored for card in cards]
    if len(known) < len(cards) or (by_rows and sum(rows) <= len(rows)):
        return None
    if by_rows:
        pooled = sum((size - 1) * size * error**2 for size, error in zip(rows, known, strict=True))
        stderr = math.sqrt(pooled / (sum(rows) - len(rows)) / sum(rows))
    else:
        stderr = math.sqrt(sum(error**2 for error in known)) / len(known)
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


def _weights_of(group: Group, found: Mapping[str, Scorecard]) -> list[float]:
    if group.by_rows:
        given = [float(card.scored) for card in found.values()]
    elif isinstance(group.weights, Mapping) and group.weights:
        given = [float(group.weights.get(label, group.weights.get(label.partition('@')[0], 0.0))) for label in found]
    else:
        given = [1.0] * len(found)
    return given if sum(given) else [1.0] * len(given)


def _mean_of_finished(cards: Sequence[Scorecard], weights: Sequence[float]) -> float | None:
    """The mean of the members' scores of finished replies; None where one has none."""
    scores = [card.cut.finished if card.cut else card.value for card in cards]
    finished = [float(score) for score in scores if score is not None]
    if len(finished) < len(cards):
        return None
    return sum(weight * score for weight, score in zip(weights, finished, strict=True))


def _sum_replies(cards: Sequence[Scorecard], kind: str, finished: float | None = None) -> ReplyCount | None:
    """The cut or empty replies of all members."""
    counts: list[ReplyCount] = [getattr(card, kind) or ReplyCount(0, _count_replies(card)) for card in cards]
    rows = sum(count.rows for count in counts)
    return ReplyCount(rows, sum(count.of for count in counts), finished) if rows else None


def _count_replies(card: Scorecard) -> int:
    """The rows that have a reply, whether or not an answer was found in it."""
    return card.outcomes.get('ok', 0) + card.outcomes.get('unparsed', 0) if card.outcomes else card.total
