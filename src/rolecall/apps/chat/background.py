"""One event loop in a thread of its own, on which all modules talk to their models.

So a module can be called from plain code, from a notebook and from any event loop, and keeps its connections between
calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from rolecall.apps.chat.module_errors import ModuleError

T = TypeVar('T')
S = TypeVar('S', bound='Startable')
_STARTING = threading.Lock()
_CLOSING_SECONDS = 2.0


class _Thread:
    """The event loop and its thread. Both end with the process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name='rolecall-modules', daemon=True)
        self.thread.start()

    @property
    def serves(self) -> bool:
        """Whether the thread is alive in this process. Threads do not survive a fork."""
        return self.process == os.getpid() and self.thread.is_alive()

    def _run(self) -> None:
        """Run the loop. SystemExit or KeyboardInterrupt fails one call only; the loop is restarted for the others."""
        over = False
        while not over:
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
                over = True


_running: _Thread | None = None


def _forget_after_fork() -> None:
    """In a forked child: a lock that another thread held is never released there, and the loop's thread is gone."""
    global _running, _STARTING
    _running, _STARTING = None, threading.Lock()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_forget_after_fork)


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the loop. Cancelling the future stops it."""
    global _running
    with _STARTING:
        if _running is None or not _running.serves:
            _running = _Thread()
    return asyncio.run_coroutine_threadsafe(work, _running.loop)


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. It is cancelled if the caller stops waiting."""
    if _is_here():
        work.close()
        raise ModuleError(
            'an async function that a module calls cannot wait for a module: use `await module.acall(…)`.'
        )
    future = submit(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run user code in a thread of its own, so it may block or call other modules."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    inherited = contextvars.copy_context()

    def run() -> None:
        try:
            result = inherited.run(work)
        except BaseException as error:  # raised again in the caller
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name='rolecall-thread', daemon=True).start()
    return await asyncio.wrap_future(future)


async def run_user_code(
    work: Callable[[], Any], home: asyncio.AbstractEventLoop | None
) -> tuple[Any, BaseException | None]:
    """What user code returned, and what it raised, even SystemExit. Async code runs on the loop `home`, if given."""
    function = work.func if isinstance(work, partial) else work
    if not any(map(inspect.iscoroutinefunction, (function, getattr(function, '__call__', None)))):  # noqa: B004
        return await run_in_thread(lambda: _attempt(work))
    if home is None or home is asyncio.get_running_loop():
        return await _attempt_async(work)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_attempt_async(work), home))


def _attempt(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:
        return None, error


async def _attempt_async(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """In a task of its own, so that code which cancels itself is not taken for a cancellation of the call."""

    async def attempt() -> tuple[Any, BaseException | None]:
        try:
            return await work(), None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return None, error

    task = asyncio.ensure_future(attempt())
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    return (None, asyncio.CancelledError('it cancelled itself')) if task.cancelled() else task.result()


class Startable:
    """What is started and stopped, also by `with` and `async with`."""

    def start(self: S) -> S:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self: S) -> S:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self: S) -> S:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.stop)


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run a clean-up coroutine, from any thread and at any time."""
    if _running is None or not _running.serves:
        work.close()
        return
    future = asyncio.run_coroutine_threadsafe(work, _running.loop)
    if not _is_here():
        with suppress(Exception):  # clean-up has no caller to report to
            future.result(_CLOSING_SECONDS)


def _is_here() -> bool:
    return _running is not None and threading.current_thread() is _running.thread
