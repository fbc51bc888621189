"""Events of a run, for whatever shows them: a terminal, a log, a test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rolecall.runs.client.model_client import Activity
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

_PROGRAMS_SECONDS = 5.0
_INDEXING_SECONDS = 5.0


class RunListener:
    """Receives the events of a run, and ignores them: a base class for listeners that need some."""

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

    def on_times(self, lines: Sequence[str]) -> None:
        """Where time went so far, about once a second."""

    def on_message(self, message: str) -> None:
        """Something that a person should know."""

    def on_end(self) -> None:
        """The run is over, finished or not."""


NullListener = RunListener
"""Ignores every event."""


def tell_indexing(dataset: str, listener: RunListener) -> Callable[[int, int], None]:
    """Report how many examples a retriever has indexed, every few seconds."""
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > _INDEXING_SECONDS:
            last = time.monotonic()
            listener.on_message(f'{dataset}: {done:,} of {total:,} examples indexed')

    return tell


def tell_programs(pair: str, listener: RunListener) -> Callable[[int, int], None]:
    """Report how many programs of a dataset × model have run, every few seconds; called from another thread."""
    loop, reported = asyncio.get_running_loop(), time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > _PROGRAMS_SECONDS:
            reported = time.monotonic()
            loop.call_soon_threadsafe(listener.on_message, f'{pair}: {done:,} of {total:,} programs run')

    return report
