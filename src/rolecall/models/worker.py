"""The one thread in which a local model does its work: weights belong to one thread, and calls wait their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

__all__ = ['Worker']

T = TypeVar('T')


class Worker:
    """A thread that is made when there is work, and made anew when there is work after it was closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[Event], T]) -> T:
        """Do the work in the thread. Who stops waiting stops the work: the event it is given is set then.

        >>> asyncio.run(Worker('small').run(lambda stopped: stopped.is_set()))
        False
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f'rolecall-{self._name}')
        stopped = Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, stopped)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def close(self, let_go: Callable[[], object]) -> None:
        """End the thread after what it is doing; the last it does is to let go of what it has."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(pool, let_go)
            await asyncio.to_thread(pool.shutdown)
