"""When the next model is asked in place of one that failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from rolecall.apps.chat.module_errors import BadAnswerError, ModuleError
from rolecall.checking import is_number, is_whole
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
    first_token: float | None = None
    """Seconds within which a model must begin to answer."""

    def __post_init__(self) -> None:
        if self.retries is not None and not is_whole(self.retries, least=0):
            raise ModuleError(f'retries must be a whole number of at least 0, or None, got {self.retries!r:.60}.')
        if self.first_token is not None and not (is_number(self.first_token) and self.first_token > 0):
            raise ModuleError(f'first_token must be a number of seconds above 0, got {self.first_token!r:.60}.')

    @classmethod
    def of(
        cls, when: Collection[FailoverCondition], *, retries: int | None, first_token: float | None
    ) -> FailoverPolicy:
        """The policy, with its conditions checked."""
        names = get_args(FailoverCondition)
        if not isinstance(when, (list, tuple, set, frozenset)):
            raise ModuleError(f'when must be a list of conditions, got {when!r:.60}. Write when=[{when!r:.60}].')
        for name in when:
            if name not in names:
                raise ModuleError(f'when: {name!r:.60} is not a condition. {did_you_mean(str(name), names)}')
        return cls(frozenset(when), retries, first_token)

    def applies_to(self, outcome: Reply | Exception) -> bool:
        """Whether the next model is asked after this reply or error.

        >>> policy = FailoverPolicy(frozenset({'refusal'}))
        >>> policy.applies_to(Reply('', outcome='filtered')), policy.applies_to(Reply('Yes.'))
        (True, False)
        """
        if isinstance(outcome, Reply):
            return _OUTCOMES.get(outcome.outcome) in self.when
        return ('bad_value' if isinstance(outcome, BadAnswerError) else 'error') in self.when
