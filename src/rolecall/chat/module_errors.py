"""What can go wrong with a chat module, beside what its model or its prompter refuse.

ModuleError
├── NotStartedError    a local model was called before `start`
├── NoAnswerError      the model gave no answer (filtered, too long, …); carries the reply
└── ToolRoundsError    the model went on calling tools; carries what was said
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.errors import RolecallError
from rolecall.models.base import Reply

__all__ = ['ModuleError', 'NoAnswerError', 'NotStartedError', 'ToolRoundsError', 'describe_error']


class ModuleError(RolecallError):
    """A chat module cannot be built, or cannot do this."""


class NotStartedError(ModuleError):
    """A model on this machine was called before it was started, or after it was stopped."""


class NoAnswerError(ModuleError):
    """The model replied, but not with an answer. `reply` says how it ended."""

    def __init__(self, reply: Reply) -> None:
        why = f': {reply.reason}' if reply.reason else ''
        super().__init__(f'no answer ({reply.outcome}{why}). `module.reply(…)` gives the reply as it is.')
        self.reply = reply


class ToolRoundsError(ModuleError):
    """The model asked for tools more often than it was allowed to. `said` holds every message after the prompt."""

    def __init__(self, rounds: int, said: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(f'no answer after {rounds} rounds of tool calls. Raise max_rounds if it needs more.')
        self.said = tuple(said)


def describe_error(error: BaseException) -> str:
    """An error of somebody's code in one line.

    >>> describe_error(SystemExit(3))
    'SystemExit: 3'
    """
    try:
        return f'{type(error).__name__}: {error}'
    except Exception:  # it cannot say itself what it is
        return type(error).__name__
