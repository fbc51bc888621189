"""When the next model is asked in place of one that failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from rolecall.apps.chat.module_errors import BadAnswerError, ModuleError
from rolecall.checking import is_whole
from rolecall.errors import did_you_mean
from rolecall.models.protocol import Outcome, Reply

FailoverCondition = Literal['error', 'refusal', 'too_long', 'bad_value']
ON_ERROR: tuple[FailoverCondition, ...] = ('error',)
_OUTCOMES: dict[Outcome, FailoverCondition] = {
    'filtered': 'refusal',
    'too_long': 'too_long',
    'thinking_exhausted': 'too_long',
}


@dataclass(frozen=True, slots=True)
class FailoverPolicy:
    """What counts as a failure of a model, and how often a request is repeated before the next model gets it."""

    when: frozenset[FailoverCondition] = frozenset(ON_ERROR)
    retries: int | None = 1

    @classmethod
    def of(cls, when: Collection[FailoverCondition], retries: int | None) -> FailoverPolicy:
        """The policy, checked."""
        names = get_args(FailoverCondition)
        if isinstance(when, str):
            raise ModuleError(f"when must be a list of conditions, got {when!r:.60}. Write when=['{when:.60}'].")
        for name in when:
            if name not in names:
                raise ModuleError(f'when: {name!r:.60} is not a condition. {did_you_mean(str(name), names)}')
        if retries is not None and not is_whole(retries, least=0):
            raise ModuleError(f'retries must be a whole number of at least 0, or None, got {retries!r:.60}.')
        return cls(frozenset(when), retries)

    def applies_to(self, outcome: Reply | Exception) -> bool:
        """Whether the next model is asked after this reply or error.

        >>> policy = FailoverPolicy(frozenset({'refusal'}))
        >>> policy.applies_to(Reply('', outcome='filtered')), policy.applies_to(Reply('Yes.'))
        (True, False)
        """
        if isinstance(outcome, Reply):
            return _OUTCOMES.get(outcome.outcome) in self.when
        return ('bad_value' if isinstance(outcome, BadAnswerError) else 'error') in self.when
