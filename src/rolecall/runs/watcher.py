"""What a run tells while it goes on. Whoever shows it (a terminal, a log, a test) says what it wants to hear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Silence', 'Watcher']


class Watcher(Protocol):
    """Hears how a run goes. A row is told of when it is safe on disk."""

    def planned(self, plan: Any, findings: Sequence[Any]) -> None:
        """What will be asked, and what the linter calls an error."""

    def began(self, dataset: str, model: str, total: int | None) -> None:
        """A dataset × model is begun."""

    def finished_row(self, result: Result, *, asked: bool, at_once: int) -> None:
        """A row is safe. `asked`: something was sent for it; `at_once`: calls now on their way at most."""

    def scored(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""

    def remarked(self, message: str) -> None:
        """Something that a person should know."""

    def ended(self) -> None:
        """The run is over, one way or the other."""


class Silence:
    """Hears everything and says nothing."""

    def planned(self, plan: Any, findings: Sequence[Any]) -> None: ...
    def began(self, dataset: str, model: str, total: int | None) -> None: ...
    def finished_row(self, result: Result, *, asked: bool, at_once: int) -> None: ...
    def scored(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None: ...
    def remarked(self, message: str) -> None: ...
    def ended(self) -> None: ...
