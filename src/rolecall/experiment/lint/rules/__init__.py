"""Every rule by its name. Rules are small functions of one shape; a table beside them says what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.lint.finding import Rule, Violation
from rolecall.experiment.lint.rules.data import DATA_RULES
from rolecall.experiment.lint.rules.entry_rules import ENTRY_RULES
from rolecall.experiment.lint.rules.leaks import LEAK_RULES
from rolecall.experiment.lint.rules.scoring import SCORING_RULES
from rolecall.experiment.lint.rules.sending import SENDING_RULES
from rolecall.experiment.lint.rules.state import STATE_RULES
from rolecall.experiment.lint.rules.template_rules import WORDING_RULES
from rolecall.experiment.lint.rules.tokenization import TOKEN_RULES
from rolecall.registry import Part, Registry
from rolecall.usercode import user_code

__all__ = ['RULES', 'collect_rules']

RULES: Registry[Rule] = Registry(
    'lint rule',
    {
        rule.name: rule
        for rule in (
            *STATE_RULES,
            *ENTRY_RULES,
            *LEAK_RULES,
            *WORDING_RULES,
            *DATA_RULES,
            *SENDING_RULES,
            *TOKEN_RULES,
            *SCORING_RULES,
        )
    },
)


def collect_rules(named: Iterable[object] = (), *, where: str = 'lint.rules') -> dict[str, Rule]:
    """The rules to apply: ours, those of installed packages, and those that a config names."""
    parts = [Part(plugin.name, plugin.load(), plugin.origin) for plugin in RULES.plugins()]
    parts += [RULES.find(entry, where=f'{where}[{i}]') for i, entry in enumerate(named)]
    wrong = [part for part in parts if not isinstance(part.value, Rule)]
    if wrong:
        what = '{} is not a lint rule, but a {}.'
        raise ConfigError(Problem(where, what.format(part.name, type(part.value).__name__)) for part in wrong)
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
