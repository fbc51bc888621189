"""Every rule by its name. Rules are small functions of one shape; a table beside them says what they are called."""

from __future__ import annotations

from collections.abc import Mapping

from rolecall.lint.finding import Rule
from rolecall.lint.rules.data import DATA_RULES
from rolecall.lint.rules.leaks import LEAK_RULES
from rolecall.lint.rules.scoring import SCORING_RULES
from rolecall.lint.rules.sending import SENDING_RULES
from rolecall.lint.rules.state import STATE_RULES
from rolecall.lint.rules.tokens import TOKEN_RULES
from rolecall.lint.rules.wording import WORDING_RULES

__all__ = ['RULES']

RULES: Mapping[str, Rule] = {
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
}
