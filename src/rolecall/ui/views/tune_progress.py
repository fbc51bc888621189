"""The progress of a tuning: a bar with the loss and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import IO, TYPE_CHECKING

from rolecall.apps.tuning.tune import TuneListener
from rolecall.strings import count_noun, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_EVERY = 10.0
"""Seconds between two plain lines."""
_SMOOTHING = 0.9


def tune_progress_for(stream: IO[str] | None = None) -> PlainTuneProgress:
    """The display that suits a stream: live on a terminal, plain in a pipe."""
    stream = stream or sys.stderr
    return LiveTuneProgress(stream) if stream.isatty() else PlainTuneProgress(stream)


class PlainTuneProgress(TuneListener):
    """Lines for logs: how far the tuning is now and then, and every loss on held-out rows."""

    def __init__(self, stream: IO[str], *, every: float = _EVERY) -> None:
        self._stream = stream
        self._every = every
        self._began = self._last = time.monotonic()
        self._steps = self._first = 0
        self._loss: float | None = None
        self._held_out: float | None = None

    def on_message(self, message: str) -> None:
        """Something that a person should know."""
        print(f'rolecall: {printable(message)}', file=self._stream, flush=True)

    def on_start(self, steps: int, done: int) -> None:
        """Training starts."""
        self._began = self._last = time.monotonic()
        self._steps, self._first = steps, done

    def on_step(self, done: int, loss: float, tokens: int) -> None:
        """An update."""
        self._loss = loss if self._loss is None else _SMOOTHING * self._loss + (1 - _SMOOTHING) * loss
        now = time.monotonic()
        if done == self._steps or now - self._last >= self._every:
            self._last = now
            self._show(done, self._facts(tokens, done, now))

    def on_held_out(self, done: int, loss: float) -> None:
        """The loss on held-out rows."""
        self._held_out = loss
        self.on_message(f'held-out loss after {count_noun(done, "update")}: {loss:.4f}')

    def on_end(self) -> None:
        """Training is over."""

    def _facts(self, tokens: int, done: int, now: float) -> str:
        seconds = max(now - self._began, 1e-3)
        parts = [f'loss {self._loss:.4f}'] if self._loss is not None else []
        parts += [f'held-out {self._held_out:.4f}'] if self._held_out is not None else []
        parts.append(f'{tokens / seconds:,.0f} tokens/s')
        if done < self._steps:
            left = round((self._steps - done) * seconds / max(done - self._first, 1))
            parts.append(f'{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left')
        return ', '.join(parts)

    def _show(self, done: int, facts: str) -> None:
        print(f'{done:,}/{self._steps:,} updates, {facts}', file=self._stream, flush=True)


class LiveTuneProgress(PlainTuneProgress):
    """A bar that is redrawn in place."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream, every=0.2)
        self._display: Progress | None = None
        self._bar: TaskID | None = None

    def on_start(self, steps: int, done: int) -> None:
        """Training starts."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().on_start(steps, done)
        columns = (TextColumn('tuning'), BarColumn(), MofNCompleteColumn(), TextColumn('{task.fields[facts]}'))
        self._display = Progress(*columns, console=Console(file=self._stream), transient=False)
        self._bar = self._display.add_task('', total=steps, completed=done, facts='')
        self._display.start()

    def on_message(self, message: str) -> None:
        """Something that a person should know."""
        if self._display is None:
            super().on_message(message)
        else:
            self._display.console.print(f'rolecall: {printable(message)}', markup=False, highlight=False)

    def on_end(self) -> None:
        """Training is over."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _show(self, done: int, facts: str) -> None:
        if self._display is not None and self._bar is not None:
            self._display.update(self._bar, completed=done, facts=facts)
