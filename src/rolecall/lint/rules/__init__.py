"""Every rule by its name. Rules are small functions of one shape; a table beside them says what they are called."""

from __future__ import annotations

from collections.abc import Iterable

from rolecall.errors import ConfigError, Problem
from rolecall.lint.finding import Rule
from rolecall.lint.rules.data import DATA_RULES
from rolecall.lint.rules.leaks import LEAK_RULES
from rolecall.lint.rules.scoring import SCORING_RULES
from rolecall.lint.rules.sending import SENDING_RULES
from rolecall.lint.rules.state import STATE_RULES
from rolecall.lint.rules.tokens import TOKEN_RULES
from rolecall.lint.rules.wording import WORDING_RULES
from rolecall.registry import Part, Registry

__all__ = ['RULES', 'collect_rules']

RULES: Registry[Rule] = Registry(
    'lint rule',
    {
        rule.name: rule
        for rule in (
            *STATE_RULES,
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
    found = [Part(plugin.name, plugin.load(), plugin.origin) for plugin in RULES.plugins()]
    found += [RULES.find(one, where=f'{where}[{i}]') for i, one in enumerate(named)]
    wrong = [part for part in found if not isinstance(part.value, Rule)]
    if wrong:
        what = '{} is not a lint rule, but a {}.'
        raise ConfigError(Problem(where, what.format(part.name, type(part.value).__name__)) for part in wrong)
    return {**RULES, **{part.value.name: part.value for part in found}}
