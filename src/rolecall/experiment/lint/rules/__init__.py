"""Every rule by its name. Rules are small functions of one shape; `rules.tsv` says what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.lint.subject import Rule, Violation
from rolecall.plain_files import read_table
from rolecall.registry import Part, Registry, load_object
from rolecall.usercode import user_code

__all__ = ['RULES', 'collect_rules']


def _read_rules() -> Iterator[Rule]:
    for name, severity, levels, checks, description, remedy in read_table(__file__, 'rules.tsv'):
        functions = {when: _find_check(path) for when, path in (check.split('=') for check in checks.split())}
        texts = {'name': name, 'severity': severity, 'description': description, 'remedy': remedy}
        yield Rule(**texts, levels=tuple(levels.split()), **functions)  # type: ignore[arg-type]  # of our own table


def _find_check(path: str) -> Any:
    return load_object(f'{__name__}.{path.replace(".", ":")}')


RULES: Registry[Rule] = Registry('lint rule', {rule.name: rule for rule in _read_rules()})


def collect_rules(named: Iterable[object] = ()) -> dict[str, Rule]:
    """The rules to apply: ours, those of installed packages, and those that a config names."""
    parts = [Part(plugin.name, plugin.load(), plugin.origin) for plugin in RULES.plugins()]
    parts += [RULES.find(entry, where=f'lint.rules[{i}]') for i, entry in enumerate(named)]
    wrong = [part for part in parts if not isinstance(part.value, Rule)]
    if wrong:
        what = '{} is not a lint rule, but a {}.'
        raise ConfigError(Problem('lint.rules', what.format(part.name, type(part.value).__name__)) for part in wrong)
    return {**RULES, **{part.value.name: _guard(part.value) for part in parts if not part.builtin}}


def _guard(rule: Rule) -> Rule:
    """The rule of a user, whose exceptions are problems that name it."""

    def guard_rule(find: Callable[..., Iterator[Violation]] | None) -> Callable[..., Iterator[Violation]] | None:
        def found(*arguments: Any) -> Iterator[Violation]:
            try:
                with user_code(f'the lint rule {rule.name!r}', where='lint.rules'):
                    return iter(list(find(*arguments)) if find is not None else ())
            except ConfigError as error:  # of the rule, not of what it looks at
                raise RolecallError(str(error)) from error

        return None if find is None else found

    return replace(rule, once=guard_rule(rule.once), each=guard_rule(rule.each), after=guard_rule(rule.after))
