"""Several workers with the same model, and which of them can be given work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from rolecall.core.render.spans import Request
from rolecall.models.protocol import Sampling
from rolecall.runs.workers.model_worker import Kind, WorkerReply

Tell = Callable[[str], None]
"""Takes a message for the person who waits."""

_SILENT_SECONDS = 300.0
"""Seconds without any worker after which the model is given up."""


class WorkerLostError(Exception):
    """A worker ended before it answered."""


class WorkerLoadError(Exception):
    """A worker cannot load its model. It says where and why."""


class WorkerPool(Protocol):
    """Several workers with the same model. They are started again when they die."""

    @property
    def size(self) -> int:
        """How many workers there are."""

    @property
    def loading(self) -> int:
        """How many workers are loading the model."""

    async def start(self) -> None:
        """Start the workers."""

    async def wait_until_ready(self, worker: int) -> None:
        """Wait until a worker has loaded its model; `WorkerLoadError` if it cannot."""

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        """What each request came to; `WorkerLostError` if the worker ended before that."""

    async def close(self) -> None:
        """End the workers."""


class ReadyWorkers:
    """Which workers have loaded their model. A worker that is lost comes back; one that cannot load is left out."""

    def __init__(self, model: str, pool: WorkerPool, tell: Tell) -> None:
        self._model = model
        self._pool = pool
        self._tell = tell
        self._started: asyncio.Task[None] | None = None
        self._welcoming: dict[int, asyncio.Task[None]] = {}
        self._failures: dict[int, str] = {}
        self._changed = asyncio.Event()
        self._last_ready = time.monotonic()
        self.workers: set[int] = set()

    @property
    def expected(self) -> int:
        """How many workers there are or will be, at least one: those that cannot load the model are left out."""
        return max(1, self._pool.size - len(self._failures))

    async def start(self) -> None:
        """Start the workers, once."""
        if self._started is None:
            self._started = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        await self._pool.start()
        self._last_ready = time.monotonic()
        for worker in range(self._pool.size):
            self._welcome(worker)

    def lose(self, worker: int) -> None:
        """Give a worker no work until it is back."""
        self.workers.discard(worker)
        if worker not in self._welcoming:
            self._welcome(worker)

    def signal(self) -> None:
        """End every `wait`."""
        self._changed.set()

    async def wait(self) -> str:
        """Wait a second, or until something changes; why no worker is to be expected any more, or ''."""
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 1.0)
        if len(self._failures) == self._pool.size:
            return f'no worker can load the model.\n{self._describe_failures()}'
        if not self.workers and not self._pool.loading and time.monotonic() - self._last_ready > _SILENT_SECONDS:
            why = self._describe_failures() or 'The cluster has no free place for one, or every one ended.'
            return f'no worker for {_SILENT_SECONDS:.0f} s. {why}'
        return ''

    def _describe_failures(self) -> str:
        return '\n'.join(dict.fromkeys(self._failures.values()))

    def describe(self) -> str:
        """Why no work is given out; '' where some is."""
        if self.workers:
            return ''
        return 'loading the model' if self._pool.loading else 'waiting for workers'

    async def close(self) -> None:
        """Wait for no worker any more."""
        tasks = [task for task in (self._started, *self._welcoming.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._started, self._welcoming, self._failures, self.workers = None, {}, {}, set()

    def _welcome(self, worker: int) -> None:
        task = asyncio.get_running_loop().create_task(self._wait_for(worker))
        self._welcoming[worker] = task
        task.add_done_callback(lambda _: self._welcoming.pop(worker, None))

    async def _wait_for(self, worker: int) -> None:
        try:
            await self._pool.wait_until_ready(worker)
        except WorkerLoadError as error:
            if str(error) not in self._failures.values():
                self._tell(f'{self._model}: a worker is left out: {error}')
            self._failures[worker] = str(error)
        else:
            self.workers.add(worker)
            self._last_ready = time.monotonic()
        self._changed.set()
