"""The `lint` key: rules that a config adds, and rules that it, its datasets and its models silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.lint.finding import Rule
from rolecall.experiment.lint.rules import collect_rules
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """Every rule, and the names of those that are silenced: everywhere, and by entry."""

    rules: Mapping[str, Rule]
    silenced: frozenset[str]
    silenced_by_place: Mapping[str, frozenset[str]]

    @classmethod
    def read(
        cls,
        config: Mapping[str, Any],
        tasks: Sequence[TaskEntry],
        model_entries: Sequence[ModelEntry],
        silence: Collection[str],
    ) -> ChosenRules:
        """The rules for these entries; `silence` names more of them to leave out."""
        rules = _collect_rules(config)
        problems: list[Problem] = []
        silenced = _check_rule_names(silence, 'silence', problems, rules)
        silenced |= _find_silenced_rules(config, 'lint', problems, rules, ('silence', 'rules'))
        entries: list[TaskEntry | ModelEntry] = [*tasks, *model_entries]
        by_place = {
            entry.where: _find_silenced_rules(entry.entry, f'{entry.where}.lint', problems, rules) for entry in entries
        }
        if problems:
            raise ConfigError(problems)
        return cls(rules, silenced, by_place)

    def for_entries(self, *entries: TaskEntry | ModelEntry) -> list[Rule]:
        """The rules that none of these entries silences."""
        silenced = self.silenced.union(*(self.silenced_by_place[entry.where] for entry in entries))
        return [rule for rule in self.rules.values() if rule.name not in silenced]


def _collect_rules(config: Mapping[str, Any]) -> dict[str, Rule]:
    """Every rule to apply, with those that the config's `lint=dict(rules=[…])` adds."""
    lint = config.get('lint')
    named = lint.get('rules', ()) if isinstance(lint, Mapping) else ()
    if not isinstance(named, (list, tuple)):
        what = f'expected a list of lint rules, got {named!r:.60}.'
        raise ConfigError(Problem('lint.rules', what, "Write lint=dict(rules=['mytools.my_rule'])."))
    return collect_rules(named)


def _find_silenced_rules(
    entry: Mapping[str, Any],
    where: str,
    problems: list[Problem],
    rules: Mapping[str, Rule],
    keys: Sequence[str] = ('silence',),
) -> frozenset[str]:
    """The rules that `lint=dict(silence=[…])` names."""
    lint = entry.get('lint')
    if lint is None:
        return frozenset()
    if not isinstance(lint, Mapping):
        problems.append(
            Problem(where, f'expected a dict, got {lint!r:.60}.', "Write lint=dict(silence=['rule-name']).")
        )
        return frozenset()
    problems += [Problem(where, f'unknown key {key!r}.', did_you_mean(key, keys)) for key in lint if key not in keys]
    named = lint.get('silence', ())
    if isinstance(named, str) or not isinstance(named, Collection):
        problems.append(Problem(f'{where}.silence', f'expected a list of rule names, got {named!r:.60}.'))
        return frozenset()
    return _check_rule_names(named, f'{where}.silence', problems, rules)


def _check_rule_names(
    named: Collection[str], where: str, problems: list[Problem], rules: Mapping[str, Rule]
) -> frozenset[str]:
    problems += [
        Problem(where, f'unknown rule {name!r}.', did_you_mean(name, rules)) for name in named if name not in rules
    ]
    return frozenset(named)
