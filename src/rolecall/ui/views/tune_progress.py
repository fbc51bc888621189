"""The progress of a tuning: a bar with the loss and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import IO, TYPE_CHECKING

from rolecall.apps.tuning.tune import TuneListener
from rolecall.strings import count_noun, printable

if TYPE_CHECKING:
    from rich.progress import Progress


_EVERY_LINE, _EVERY_DRAWING = 10.0, 0.2
"""Seconds between two plain lines, and between two drawings of the bar."""
_SMOOTHING = 0.9


class TuneProgress(TuneListener):
    """Shows on stderr how far a tuning is, and every loss on held-out rows."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._every = _EVERY_DRAWING if self._stream.isatty() else _EVERY_LINE
        self._display: Progress | None = None
        self._began = self._last = time.monotonic()
        self._steps = self._first = 0
        self._loss: float | None = None
        self._held_out: float | None = None

    def on_message(self, message: str) -> None:
        """Something that a person should know."""
        self._print(f'rolecall: {printable(message)}')

    def on_start(self, steps: int, done: int) -> None:
        """Training starts."""
        self._began = self._last = time.monotonic()
        self._steps, self._first = steps, done
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn('tuning'), BarColumn(), MofNCompleteColumn(), TextColumn('{task.fields[facts]}'))
            self._display = Progress(*columns, console=Console(file=self._stream))
            self._display.add_task('', total=steps, completed=done, facts='')
            self._display.start()

    def on_step(self, done: int, loss: float, tokens: int) -> None:
        """An update."""
        self._loss = loss if self._loss is None else _SMOOTHING * self._loss + (1 - _SMOOTHING) * loss
        now = time.monotonic()
        if done == self._steps or now - self._last >= self._every:
            self._last = now
            facts = self._facts(tokens, done, now)
            if self._display is None:
                self._print(f'{done:,}/{self._steps:,} updates, {facts}')
            else:
                self._display.update(self._display.task_ids[0], completed=done, facts=facts)

    def on_held_out(self, done: int, loss: float) -> None:
        """The loss on held-out rows."""
        self._held_out = loss
        self.on_message(f'held-out loss after {count_noun(done, "update")}: {loss:.4f}')

    def on_end(self) -> None:
        """Training is over."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _facts(self, tokens: int, done: int, now: float) -> str:
        seconds = max(now - self._began, 1e-3)
        parts = [f'loss {self._loss:.4f}'] if self._loss is not None else []
        parts += [f'held-out {self._held_out:.4f}'] if self._held_out is not None else []
        parts.append(f'{tokens / seconds:,.0f} tokens/s')
        if done < self._steps:
            left = round((self._steps - done) * seconds / max(done - self._first, 1))
            parts.append(f'{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left')
        return ', '.join(parts)

    def _print(self, line: str) -> None:
        if self._display is None:
            print(line, file=self._stream, flush=True)
        else:
            self._display.console.print(line, markup=False, highlight=False)
