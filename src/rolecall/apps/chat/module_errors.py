"""Errors of chat modules. (Models and prompters raise their own.)

ModuleError
├── NoSuchMethodError  a module has no such method or attribute; also an AttributeError
├── NotStartedError    a local model was called before `start`
├── StoppedError       the module was stopped during the call; carries the conversation
├── NoAnswerError      the model gave no answer (filtered, too long, …); carries the reply
│   └── ToolCallsError it wants tools to be called
├── ToolRoundsError    the model kept calling tools; carries the conversation
├── CostLimitError     the call has cost as much as `max_cost` allows; carries the conversation
├── BadAnswerError     the answer is not of the type asked for; carries the reply and the conversation
└── BatchError         an input of a batch failed; carries the replies so far

ModelError
└── UnfinishedCallError  models failed after tools had run; carries the conversation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.errors import RolecallError
from rolecall.models.protocol import ModelError, Reply
from rolecall.strings import end_sentence


class ModuleError(RolecallError):
    """A chat module was configured or called wrongly."""


class NoSuchMethodError(ModuleError, AttributeError):
    """A module has no method or attribute of that name."""


class NotStartedError(ModuleError):
    """A local model was called before start() or after stop()."""


class StoppedError(ModuleError):
    """The module was stopped during the call. `history` is the conversation so far, with the results of tools."""

    def __init__(self) -> None:
        super().__init__('the module was stopped before the answer was complete.')
        self.history: list[Any] = []


class NoAnswerError(ModuleError):
    """The model replied without an answer. `reply` has the outcome."""

    def __init__(self, reply: Reply) -> None:
        why = f': {reply.reason}' if reply.reason else ''
        super().__init__(f'no answer ({reply.outcome}{why}). Use `module.reply(…)` to get the full reply.')
        self.reply = reply


class ToolRoundsError(ModuleError):
    """The model exceeded the limit of tool rounds. `said` holds every message after the prompt.

    `history` is the conversation without the last calls, which were not run.
    """

    def __init__(self, rounds: int, said: Sequence[Mapping[str, Any]], before: Sequence[Any]) -> None:
        remedy = 'To continue, call again with history=error.history; with_tools(…, max_rounds=…) allows more.'
        super().__init__(f'no answer after {rounds} rounds of tool calls. {remedy}')
        self.said = tuple(said)
        self.history = [*before, *said[:-1]]


class CostLimitError(ModuleError):
    """No answer for the money that `max_cost` allows. `history` has the conversation, `cost` the dollars spent."""

    def __init__(self, cost: float, most: float, history: Sequence[Any]) -> None:
        remedy = 'To continue, call again with history=error.history and a higher max_cost.'
        super().__init__(f'no answer for ${cost:.6f}; max_cost is ${most:g}. {remedy}')
        self.cost = cost
        self.history = list(history)


class ToolCallsError(NoAnswerError):
    """The model wants tools to be called, and has said nothing else. `reply.tool_calls` has the calls."""

    def __init__(self, reply: Reply) -> None:
        names = ', '.join(str(call['function']['name'])[:64] for call in reply.tool_calls[:8])
        ModuleError.__init__(
            self,
            f'the model answered with tool calls ({names}), not with text. Use `module.reply(…).tool_calls`, '
            'or `module.with_tools([…])`, which runs them.',
        )
        self.reply = reply


class BadAnswerError(ModuleError):
    """The answer is not of the type that `returns=` asked for, however often it was asked for. `reply` is the last.

    `history` is the conversation without these answers, with the results of tools that have run.
    """

    def __init__(self, reply: Reply, why: str, tries: int) -> None:
        times = 'once' if tries == 1 else f'{tries} times'
        super().__init__(f'the answer does not fit `returns`, asked for {times}: {why}.')
        self.reply = reply
        self.history: list[Any] = []


class BatchError(ModuleError):
    """An input of a batch failed. `replies` has the replies so far, by input; None where there is none.

    Calls under way were finished, further ones were not begun: what has no reply and no error was never sent.
    `errors` has what failed, by the number of the input. The first is also the error's cause.
    """

    def __init__(self, results: Sequence[Any], first: Exception) -> None:
        self.replies = [None if isinstance(result, RolecallError) else result for result in results]
        self.errors = {number: error for number, error in enumerate(results) if isinstance(error, RolecallError)}
        number = next((number for number, error in self.errors.items() if error is first), None)
        what = 'on_progress failed' if number is None else f'input {number} failed'
        done = sum(reply is not None for reply in self.replies)
        more = f'{done} of {len(results)} inputs were answered: error.replies has them.'
        super().__init__(f'{what}: {end_sentence(str(first))} {more}')


class UnfinishedCallError(ModelError):
    """No model answered, and tools have run. `history` has their results, so that a later call need not repeat them.

    `attempts` are the models asked, with their usage and cost.
    """

    def __init__(self, error: ModelError, history: Sequence[Any], attempts: Sequence[Any]) -> None:
        more = 'Tools have run: to continue, call again with history=error.history.'
        super().__init__(
            f'{end_sentence(str(error))} {more}',
            transient=error.transient,
            retry_after=error.retry_after,
            status=error.status,
        )
        self.history = list(history)
        self.attempts = tuple(attempts)
