"""What a run tells while it goes on. Whoever shows it (a terminal, a log, a test) says what it wants to hear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['NullListener', 'RunListener']


class RunListener(Protocol):
    """Hears how a run goes. A row is told of when it is safe on disk."""

    def on_plan(self, plan: Any, findings: Sequence[Any]) -> None:
        """What will be asked, and what the linter calls an error."""

    def on_pair_start(self, dataset: str, model: str, total: int | None) -> None:
        """A dataset × model is begun."""

    def on_row(self, result: Result, *, asked: bool, concurrency: int) -> None:
        """A row is safe. `asked`: something was sent for it; `concurrency`: calls now on their way at most."""

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""

    def on_message(self, message: str) -> None:
        """Something that a person should know."""

    def on_end(self) -> None:
        """The run is over, one way or the other."""


class NullListener:
    """Hears everything and says nothing."""

    def on_plan(self, plan: Any, findings: Sequence[Any]) -> None: ...
    def on_pair_start(self, dataset: str, model: str, total: int | None) -> None: ...
    def on_row(self, result: Result, *, asked: bool, concurrency: int) -> None: ...
    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None: ...
    def on_message(self, message: str) -> None: ...
    def on_end(self) -> None: ...
