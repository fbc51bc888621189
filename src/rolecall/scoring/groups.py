"""Groups of datasets, read from a config: OpenCompass' `summary_groups`, and `groups` of our own configs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean

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
class DatasetGroup:
    """A named average. `weights` are by member, or `rows`: as many as a member has scored rows."""

    name: str
    members: tuple[Member, ...]
    weights: Mapping[str, float] | str = field(default_factory=dict)
    metric: str = ''
    """Only scores of this metric; without it, whatever each member was scored by."""
    average: str = 'naive_average'
    transformed: bool = False
    """Whether OpenCompass would evaluate an expression on each score first, which is not done here."""

    @property
    def by_rows(self) -> bool:
        """Whether each member weighs as many as its scored rows."""
        return self.weights == _BY_ROWS


def read_groups(config: Mapping[str, Any]) -> tuple[DatasetGroup, ...]:
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
    groups: dict[str, DatasetGroup] = {}
    for where, declared in places.items():
        for place, entry in _entries(declared, where, problems):
            group = _read_group(entry, place, problems)
            if group is not None:
                groups[_name_apart(group, groups)] = group
    problems += _find_cycles(groups)
    if problems:
        raise ConfigError(problems)
    return tuple(replace(group, name=name) for name, group in groups.items())


def _name_apart(group: DatasetGroup, groups: Mapping[str, DatasetGroup]) -> str:
    """The group's name; a second average of one name says which it is."""
    other = groups.get(group.name)
    return group.name if other is None or other.average == group.average else f'{group.name} ({group.average})'


def _entries(declared: Any, where: str, problems: list[Problem]) -> list[tuple[str, Any]]:
    if declared is None:
        return []
    if isinstance(declared, Mapping):
        return [
            (f'{where}.{name}', {'name': name, **(entry if isinstance(entry, Mapping) else {'datasets': entry})})
            for name, entry in declared.items()
        ]
    if isinstance(declared, (list, tuple)):
        return [(f'{where}[{number}]', entry) for number, entry in enumerate(declared)]
    problems.append(Problem(where, f'expected a dict of names or a list of dicts, got {declared!r:.60}.'))
    return []


def _read_group(entry: Any, where: str, problems: list[Problem]) -> DatasetGroup | None:
    if not isinstance(entry, Mapping) or not entry.get('name'):
        problems.append(Problem(where, f"expected a dict with 'name' and 'subsets', got {entry!r:.60}."))
        return None
    if where.startswith('groups'):
        problems += [
            Problem(f'{where}.{key}', f'a group has no key {key!r}.', did_you_mean(key, _KEYS))
            for key in entry
            if key not in _KEYS
        ]
    datasets = entry.get('datasets') or entry.get('subsets')
    if not isinstance(datasets, (list, tuple)) or not datasets:
        problems.append(Problem(where, 'the group has no members.', "Write datasets=['…', …]."))
        return None
    pairs = [name[:2] if isinstance(name, (list, tuple)) else [name] for name in datasets]
    members = [Member(*map(str, pair)) for pair in pairs]
    weights = entry.get('weights') or {}
    if wrong := _find_wrong_weights(weights, members, f'{where}.weights'):
        problems += wrong
        return None
    metric = str(entry.get('metric') or '')
    average = metric if metric in _AVERAGES else next((_SWITCHES[key] for key in _SWITCHES if entry.get(key)), '')
    return DatasetGroup(
        str(entry['name']),
        tuple(members),
        weights,
        '' if metric in _AVERAGES else metric,
        average or _AVERAGES[0],
        transformed=bool(entry.get('transforms')),
    )


def _find_wrong_weights(weights: Any, members: Sequence[Member], where: str) -> list[Problem]:
    if weights == _BY_ROWS or weights == {}:
        return []
    if not isinstance(weights, Mapping) or not all(
        isinstance(weight, (int, float)) and math.isfinite(weight) and weight >= 0 for weight in weights.values()
    ):
        return [Problem(where, f"expected a dict of numbers or 'rows', got {weights!r:.60}.")]
    if not where.startswith('groups'):  # OpenCompass' files have weights of datasets that a group does not list
        return []
    names = list(dict.fromkeys(name for member in members for name in (member.name, member.label)))
    problems = [
        Problem(where, f'{name!r} is not a member of the group.', did_you_mean(str(name), names))
        for name in weights
        if name not in names
    ]
    if not problems and not any(weights.values()):
        problems.append(Problem(where, 'all weights are 0.', 'Leave weights out for a plain mean.'))
    return problems


def _find_cycles(groups: Mapping[str, DatasetGroup]) -> list[Problem]:
    def reaches(name: str, goal: str, passed: set[str]) -> bool:
        members = groups[name].members if name in groups and name not in passed else ()
        return any(member.name == goal or reaches(member.name, goal, passed | {name}) for member in members)

    return [Problem(f'groups.{name}', 'the group contains itself.') for name in groups if reaches(name, name, set())]
