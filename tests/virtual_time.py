"""An event loop whose time jumps to the next timer: minutes of waiting pass in milliseconds, the same in every run."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ['run_in_virtual_time']

T = TypeVar('T')


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # differs by platform
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError('nothing will ever happen: every task waits, and no timer is set.')
        if not ready and timeout:
            self.now += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run the work; `asyncio.sleep` takes no time, and `loop.time()` says how much it would have taken."""
    loop, chance = _VirtualLoop(), random.getstate()
    random.seed(0)  # retries wait for random times
    try:
        return loop.run_until_complete(work)
    finally:
        random.setstate(chance)
        loop.close()
