"""Events of a run, for whatever shows them: a terminal, a log, a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rolecall.runs.client.model_client import Activity
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['NullListener', 'RunListener']


class RunListener(Protocol):
    """Receives the events of a run."""

    def on_plan(self, plan: Any, findings: Sequence[Any]) -> None:
        """The plan, and the errors that the linter found."""

    def on_pair_start(
        self, dataset: str, model: str, total: int | None, activity: Callable[[], Activity] | None = None
    ) -> None:
        """A dataset × model starts. `activity` says at any time what its client is doing; call it from any thread."""

    def on_known(self, dataset: str, model: str, outcomes: Mapping[str, int]) -> None:
        """Rows of a dataset × model were finished before and are not looked at again: how many, by outcome."""

    def on_row(self, result: Result, *, asked: bool) -> None:
        """A row is on disk. `asked`: a request was sent for it."""

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""

    def on_message(self, message: str) -> None:
        """Something that a person should know."""

    def on_end(self) -> None:
        """The run is over, finished or not."""


class NullListener:
    """Ignores every event. A base class for listeners that need only some."""

    def on_plan(self, plan: Any, findings: Sequence[Any]) -> None: ...
    def on_pair_start(
        self, dataset: str, model: str, total: int | None, activity: Callable[[], Activity] | None = None
    ) -> None: ...
    def on_known(self, dataset: str, model: str, outcomes: Mapping[str, int]) -> None: ...
    def on_row(self, result: Result, *, asked: bool) -> None: ...
    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None: ...
    def on_message(self, message: str) -> None: ...
    def on_end(self) -> None: ...
