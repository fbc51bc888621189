"""Errors of chat modules. (Models and prompters raise their own.)

ModuleError
├── NotStartedError    a local model was called before `start`
├── NoAnswerError      the model gave no answer (filtered, too long, …); carries the reply
└── ToolRoundsError    the model kept calling tools; carries the messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.errors import RolecallError
from rolecall.models.protocol import Reply

__all__ = ['ModuleError', 'NoAnswerError', 'NotStartedError', 'ToolRoundsError', 'describe_error']


class ModuleError(RolecallError):
    """A chat module was configured or called wrongly."""


class NotStartedError(ModuleError):
    """A local model was called before start() or after stop()."""


class NoAnswerError(ModuleError):
    """The model replied without an answer. `reply` has the outcome."""

    def __init__(self, reply: Reply) -> None:
        why = f': {reply.reason}' if reply.reason else ''
        super().__init__(f'no answer ({reply.outcome}{why}). Use `module.reply(…)` to get the full reply.')
        self.reply = reply


class ToolRoundsError(ModuleError):
    """The model exceeded the limit of tool rounds. `said` holds every message after the prompt."""

    def __init__(self, rounds: int, said: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(f'no answer after {rounds} rounds of tool calls. Raise max_rounds if it needs more.')
        self.said = tuple(said)


def describe_error(error: BaseException) -> str:
    """An exception in one line.

    >>> describe_error(SystemExit(3))
    'SystemExit: 3'
    """
    try:
        return f'{type(error).__name__}: {error}'
    except Exception:  # its __str__ failed
        return type(error).__name__
