"""Ctrl-C, Ctrl-\\, SIGTERM and a closed terminal stop a run cleanly, and concern no process that it forks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_DEFAULTS: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_DEFAULTS |= {getattr(signal, name): signal.SIG_DFL for name in ('SIGHUP', 'SIGQUIT') if hasattr(signal, name)}
_handled: set[signal.Signals] = set()
"""The signals that a run in this process handles."""


@contextmanager
def stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C, Ctrl-\\, SIGTERM or SIGHUP calls `stop`; a second one stops the process."""
    loop = asyncio.get_running_loop()
    ours = threading.current_thread() is threading.main_thread()

    def stop_once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        _handled.discard(number)
        stop()

    added = []
    for number in _DEFAULTS if ours else ():
        if signal.getsignal(number) is signal.SIG_IGN:  # nohup
            continue
        try:
            loop.add_signal_handler(number, stop_once, number)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            continue
        added.append(number)
    _handled.update(added)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
        _handled.difference_update(added)


def _restore_defaults() -> None:
    """In a forked child: let signals end it.

    It inherits the handlers of the loop, which is not running there. An evaluator's `multiprocessing.Pool` would wait
    forever for workers that it told to end, and their signals would reach this process and stop the run.
    """
    if not _handled:
        return
    with suppress(ValueError):  # the fork came from a thread that is not the main one
        signal.set_wakeup_fd(-1)
        for number in _handled:
            signal.signal(number, _DEFAULTS[number])
    _handled.clear()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_restore_defaults)
