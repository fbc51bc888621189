"""What a run tells whatever shows it (a terminal, a log, a test): its events, and where its time goes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rolecall.runs.client.model_client import Activity, ComputingTimes, ModelClient
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

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


_WORTH_TELLING = 60.0
"""Seconds from which on a run says at its end where they went."""
_EVERY = 1.0
"""Seconds between two accounts."""


class RunTimes:
    """The account of one run. Made and asked in the thread of its event loop, where rows are rendered and scored."""

    def __init__(self, store: Store, clients: Mapping[str, ModelClient]) -> None:
        self._store = store
        self._clients = clients
        self._began = time.monotonic()
        self._computed = time.thread_time()

    @contextmanager
    def tell(self, listener: RunListener) -> Iterator[None]:
        """Give a listener the account, again and again."""

        async def tell() -> None:
            while True:
                await asyncio.sleep(_EVERY)
                listener.on_times(self.lines())

        telling = asyncio.get_running_loop().create_task(tell())
        try:
            yield
        finally:
            telling.cancel()

    def lines(self) -> list[str]:
        """A line for this process, and one for each model and each machine that computes it."""
        seconds, rendering, writing, waiting = self._measure()
        own = f'{rendering:.1f} s rendering and scoring, {writing:.1f} s writing, {waiting:.1f} s waiting'
        return [
            f'this process: {seconds:.1f} s, of them {own}',
            *(
                f'{name} on {node}: {count_noun(computed.requests, "request")}, '
                f'{computed.computing:.1f} s computing, {computed.waiting:.1f} s waiting'
                for name, times in self._find_computing().items()
                for node, computed in sorted(times.items())
            ),
        ]

    def keep(self, listener: RunListener, *, rows: int, always: bool) -> None:
        """Store the account and tell it, if the run took long; otherwise only with `always`."""
        seconds, rendering, writing, waiting = self._measure()
        if self._store.failure is not None or not (always or seconds >= _WORTH_TELLING):
            return
        for name, times in self._find_computing().items():
            self._store.add_times(name, times)
        here = socket.gethostname()
        self._store.add_own_times(here, rows=rows, waiting=waiting, rendering=rendering, writing=writing)
        for line in self.lines():
            listener.on_message(line)

    def _measure(self) -> tuple[float, float, float, float]:
        """Seconds so far, and how many of them this process was rendering and scoring, writing, and waiting."""
        seconds = time.monotonic() - self._began
        rendering = time.thread_time() - self._computed
        writing = self._store.seconds_writing
        return seconds, rendering, writing, max(0.0, seconds - rendering - writing)

    def _find_computing(self) -> dict[str, Mapping[str, ComputingTimes]]:
        timed = {name: (client, client.model) for name, client in self._clients.items()}
        return {
            name: times
            for name, either in timed.items()
            for timed_by in either
            if isinstance(times := getattr(timed_by, 'times', None), defaultdict)  # of clients and models with workers
        }
