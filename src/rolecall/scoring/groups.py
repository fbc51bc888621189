"""Averages over datasets: OpenCompass' `summary_groups`, and `groups` of our own configs.

A group is the mean of its members, which are datasets or other groups; with weights, the weighted mean. Its interval
treats datasets as clusters: how much they differ says how sure their mean is. It is never narrower than what the rows
alone say, with the datasets as given (`details['within']`). A `summary_groups` entry may also ask for a sum, a harmonic
mean or a standard deviation, which have no interval; one with `transforms` has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, harmonic_mean, pstdev
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.scoring.accumulate import CONFIDENCE
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import Interval

__all__ = ['Group', 'Member', 'read_groups', 'summarise_groups']

_KEYS = ('name', 'subsets', 'datasets', 'weights', 'metric')
_BY_ROWS = 'rows'
_AVERAGES = ('naive_average', 'weighted_average', 'sum', 'harmonic_mean', 'standard_deviation')
"""What `metric` may name in OpenCompass' groups that is not a metric of the members."""
_SWITCHES = {'std': 'standard_deviation', 'sum': 'sum', 'harmonic_mean': 'harmonic_mean'}


@dataclass(frozen=True, slots=True)
class Member:
    """A dataset or group, and the metric that counts; without one, the group's or its first."""

    name: str
    metric: str = ''

    @property
    def label(self) -> str:
        return f'{self.name}@{self.metric}' if self.metric else self.name


@dataclass(frozen=True, slots=True)
class Group:
    """A named average. `weights` are by member, or `rows`: as many as a member has scored rows."""

    name: str
    members: tuple[Member, ...]
    weights: Mapping[str, float] | str = field(default_factory=dict)
    metric: str = ''
    """Only scores of this metric; without it, whatever each member was scored by."""
    average: str = 'naive_average'
    transformed: bool = False
    """Whether OpenCompass would evaluate an expression on each score first, which is not done here."""


def read_groups(config: Mapping[str, Any]) -> tuple[Group, ...]:
    """The groups of a config: `groups`, `summary_groups` and `summarizer.summary_groups`; all problems at once.

    >>> [group] = read_groups({'groups': {'stem': ['physics', 'maths']}})
    >>> group.name, [member.name for member in group.members]
    ('stem', ['physics', 'maths'])
    """
    summarizer = config.get('summarizer')
    places: dict[str, Any] = {
        'groups': config.get('groups'),
        'summary_groups': config.get('summary_groups'),
        'summarizer.summary_groups': summarizer.get('summary_groups') if isinstance(summarizer, Mapping) else None,
    }
    problems: list[Problem] = []
    groups: dict[str, Group] = {}
    for where, written in places.items():
        for place, entry in _entries(written, where, problems):
            group = _read_group(entry, place, problems)
            if group is not None:
                groups[_name_apart(group, groups)] = group
    problems += _find_cycles(groups)
    if problems:
        raise ConfigError(problems)
    return tuple(replace(group, name=name) for name, group in groups.items())


def _name_apart(group: Group, groups: Mapping[str, Group]) -> str:
    """The group's name; a second average of one name says which it is."""
    other = groups.get(group.name)
    return group.name if other is None or other.average == group.average else f'{group.name} ({group.average})'


def summarise_groups(groups: Sequence[Group], cards: Iterable[Scorecard]) -> list[Scorecard]:
    """The groups' scores for every model. A group that lacks a member has no value, and says which.

    >>> cards = [Scorecard('a', 'm', 'accuracy', 40.0, scored=10), Scorecard('b', 'm', 'accuracy', 60.0, scored=30)]
    >>> [card.value for card in summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)]
    [50.0]
    """
    by_model: dict[str, dict[str, list[Scorecard]]] = {}
    for card in cards:
        by_model.setdefault(card.model, {}).setdefault(card.dataset, []).append(card)
    known = {group.name: group for group in groups}
    made = []
    for model, datasets in by_model.items():
        done: dict[str, Scorecard] = {}
        for group in groups:
            if any(_leaves(group, known) & set(datasets)):
                made.append(_summarise_group(group, model, datasets, known, done))
    return made


def _entries(written: Any, where: str, problems: list[Problem]) -> list[tuple[str, Any]]:
    if written is None:
        return []
    if isinstance(written, Mapping):
        return [
            (f'{where}.{name}', {'name': name, **(one if isinstance(one, Mapping) else {'datasets': one})})
            for name, one in written.items()
        ]
    if isinstance(written, (list, tuple)):
        return [(f'{where}[{number}]', one) for number, one in enumerate(written)]
    problems.append(Problem(where, f'expected a dict of names or a list of dicts, got {written!r:.60}.'))
    return []


def _read_group(entry: Any, where: str, problems: list[Problem]) -> Group | None:
    if not isinstance(entry, Mapping) or not entry.get('name'):
        problems.append(Problem(where, f"expected a dict with 'name' and 'subsets', got {entry!r:.60}."))
        return None
    given = entry.get('datasets') or entry.get('subsets')
    if not isinstance(given, (list, tuple)) or not given:
        problems.append(Problem(where, 'the group has no members.', "Write subsets=['…', …]."))
        return None
    if where.startswith('groups'):
        problems += [
            Problem(f'{where}.{key}', f'a group has no key {key!r}.', did_you_mean(key, _KEYS))
            for key in entry
            if key not in _KEYS
        ]
    members = [Member(*map(str, one[:2])) if isinstance(one, (list, tuple)) else Member(str(one)) for one in given]
    weights = entry.get('weights') or {}
    if weights != _BY_ROWS and not (
        isinstance(weights, Mapping) and all(isinstance(one, (int, float)) and one >= 0 for one in weights.values())
    ):
        problems.append(Problem(f'{where}.weights', f"expected a dict of numbers or 'rows', got {weights!r:.60}."))
        return None
    metric = str(entry.get('metric') or '')
    average = metric if metric in _AVERAGES else next((_SWITCHES[key] for key in _SWITCHES if entry.get(key)), '')
    return Group(
        str(entry['name']),
        tuple(members),
        weights,
        '' if metric in _AVERAGES else metric,
        average or _AVERAGES[0],
        transformed=bool(entry.get('transforms')),
    )


def _find_cycles(groups: Mapping[str, Group]) -> list[Problem]:
    def reaches(name: str, goal: str, seen: set[str]) -> bool:
        members = groups[name].members if name in groups and name not in seen else ()
        return any(one.name == goal or reaches(one.name, goal, seen | {name}) for one in members)

    return [Problem(f'groups.{name}', 'the group contains itself.') for name in groups if reaches(name, name, set())]


def _leaves(group: Group, known: Mapping[str, Group]) -> set[str]:
    """The datasets of a group and of the groups in it."""
    names = [one.name for one in group.members]
    return {leaf for name in names for leaf in (_leaves(known[name], known) if name in known else {name})}


def _summarise_group(
    group: Group,
    model: str,
    datasets: Mapping[str, Sequence[Scorecard]],
    known: Mapping[str, Group],
    done: dict[str, Scorecard],
) -> Scorecard:
    if group.name in done:
        return done[group.name]
    found: dict[str, Scorecard] = {}
    for member in group.members:
        if member.name in known:
            card: Scorecard | None = _summarise_group(known[member.name], model, datasets, known, done)
        else:
            card = _pick_card(datasets.get(member.name, ()), member.metric or group.metric)
        if card is not None and card.value is not None:
            found[member.label] = card
    missing = [member.label for member in group.members if member.label not in found]
    done[group.name] = _make_card(group, model, found, missing)
    return done[group.name]


def _pick_card(cards: Sequence[Scorecard], metric: str) -> Scorecard | None:
    """The scorecard of a metric, or one made from the further numbers of another."""
    if not metric:
        return cards[0] if cards else None
    for card in cards:
        if card.metric == metric:
            return card
        numbers = card.details.get('further') or {}
        if metric in numbers:
            kept = {key: card.details[key] for key in ('unit', 'further') if key in card.details}
            value, error = numbers[metric], numbers.get(_stderr_key(metric))
            reach = None if error is None else error * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
            low, high = (None, None) if reach is None else (value - reach, value + reach)
            return Scorecard(card.dataset, card.model, metric, value, low, high, card.scored, card.total, details=kept)
    return None


def _make_card(group: Group, model: str, found: Mapping[str, Scorecard], missing: Sequence[str]) -> Scorecard:
    metrics = {card.metric for card in found.values()}
    metric = group.metric or (metrics.pop() if len(metrics) == 1 else 'mean')
    special = _SPECIAL.get(group.average)
    if special is not None:
        metric = group.average
    details: dict[str, Any] = {'members': list(dict.fromkeys(member.name for member in group.members))}
    if missing:
        details['missing'] = list(missing)
    if group.transformed:
        details['unsupported'] = 'transforms'
    scored, total = (sum(getattr(card, name) for card in found.values()) for name in ('scored', 'total'))
    outcomes: dict[str, int] = {}
    for card in found.values():
        for outcome, count in card.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    if missing or group.transformed:
        return Scorecard(group.name, model, metric, None, None, None, scored, total, outcomes, details)
    weights = _weights_of(group, found)
    cards = list(found.values())
    units = {str(card.details.get('unit', '%')) for card in cards}
    unit = units.pop() if len(units) == 1 else ''
    if special is not None:
        value = special([float(card.value or 0.0) for card in cards])
        details |= {'unit': unit, **_add_replies(cards)}
        return Scorecard(group.name, model, metric, value, None, None, scored, total, outcomes, details)
    value = sum(weight * float(card.value or 0.0) for weight, card in zip(weights, cards, strict=True))
    low, high = _between(cards, weights, value)
    within = _within(cards, weights, value)
    if within is not None and low is not None and high is not None:
        low, high = min(low, within.low), max(high, within.high)
    details |= {
        'unit': unit,
        'interval': 'datasets as clusters',
        'confidence': CONFIDENCE,
        'clusters': len(cards),
        **({'within': [within.low, within.high]} if within else {}),
        **({'weights': dict(zip(found, weights, strict=True))} if group.weights else {}),
        **_pool_stderr(metric, cards, by_rows=group.weights == _BY_ROWS),
        **_add_replies(cards),
    }
    return Scorecard(group.name, model, metric, value, low, high, scored, total, outcomes, details)


def _pool_stderr(metric: str, cards: Sequence[Scorecard], *, by_rows: bool) -> dict[str, Any]:
    """lm-eval's standard error of a group, where each member has its own: pooled by size, or of a plain mean."""
    key = _stderr_key(metric)
    errors = [(card.details.get('further') or {}).get(key) for card in cards]
    known = [float(one) for one in errors if one is not None]
    rows = [card.scored for card in cards]
    if len(known) < len(cards) or (by_rows and sum(rows) <= len(rows)):
        return {}
    if by_rows:
        pooled = sum((size - 1) * size * error**2 for size, error in zip(rows, known, strict=True))
        found = math.sqrt(pooled / (sum(rows) - len(rows)) / sum(rows))
    else:
        found = math.sqrt(sum(error**2 for error in known)) / len(known)
    return {'further': {key: found}}


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
    if group.weights == _BY_ROWS:
        given = [float(card.scored) for card in found.values()]
    elif isinstance(group.weights, Mapping) and group.weights:
        given = [float(group.weights.get(label, group.weights.get(label.partition('@')[0], 0.0))) for label in found]
    else:
        given = [1.0] * len(found)
    total = sum(given)
    return [one / total if total else 1 / len(given) for one in given]


def _between(cards: Sequence[Scorecard], weights: Sequence[float], value: float) -> tuple[float | None, float | None]:
    """The interval of a mean of clusters, with Student's t; a single member keeps its own."""
    if len(cards) == 1:
        return cards[0].low, cards[0].high
    spread = sum((weight * (float(card.value or 0) - value)) ** 2 for card, weight in zip(cards, weights, strict=True))
    reach = _student_t(len(cards) - 1) * math.sqrt(spread * len(cards) / (len(cards) - 1))
    percent = all(card.details.get('unit', '%') == '%' for card in cards)
    return (max(0.0, value - reach), min(100.0, value + reach)) if percent else (value - reach, value + reach)


def _within(cards: Sequence[Scorecard], weights: Sequence[float], value: float) -> Interval | None:
    """The interval with the datasets as given: their own intervals, added up as independent errors."""
    errors = 0.0
    for card, weight in zip(cards, weights, strict=True):
        if card.low is None or card.high is None:
            return None
        errors += (weight * (card.high - card.low) / 2) ** 2
    low, high = value - math.sqrt(errors), value + math.sqrt(errors)
    percent = all(card.details.get('unit', '%') == '%' for card in cards)
    return Interval(max(0.0, low), min(100.0, high)) if percent else Interval(low, high)


def _student_t(freedom: int) -> float:
    """The two-sided 95 % point of Student's t, by its expansion around the normal one.

    >>> round(_student_t(10), 2), round(_student_t(56), 2)
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


def _add_replies(cards: Sequence[Scorecard]) -> dict[str, Any]:
    """Cut and empty replies of all members."""
    added = {}
    for name in ('cut', 'empty'):
        counts = [card.details[name] for card in cards if isinstance(card.details.get(name), Mapping)]
        if counts:
            replies = sum(card.total for card in cards)
            added[name] = {'rows': sum(one['rows'] for one in counts), 'of': replies}
    return added
