"""How a run goes, for people: a live display on a terminal, plain lines elsewhere, nothing but remarks if quiet."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.plan import RunPlan
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rolecall.lint.finding import Finding

__all__ = ['LiveProgress', 'PlainProgress', 'QuietProgress', 'progress_for', 'score_line']

_EVERY = 5.0
"""Seconds between two plain lines about one pair."""
_REFRESH = 0.1
_MOST_PAIRS = 40
_MOST_FINDINGS = 5


def progress_for(stream: IO[str] | None = None, *, quiet: bool = False) -> RunListener:
    """The display that suits a stream: live on a terminal, plain in a pipe."""
    stream = stream or sys.stderr
    if quiet:
        return QuietProgress(stream)
    return LiveProgress(stream) if stream.isatty() else PlainProgress(stream)


@dataclass(slots=True)
class Tally:
    """How far one dataset × model is.

    >>> tally = Tally('gsm8k × gpt', 100, clock=iter([0.0, 10.0]).__next__)
    >>> for row in range(50):
    ...     tally.add(Result('gsm8k', 'gpt', row, 'ok', input_tokens=100, output_tokens=20), asked=True)
    >>> print(tally.line())
    gsm8k × gpt: 50/100 rows, 5.0 rows/s, 6,000 tokens, 0:10 left
    """

    name: str
    total: int | None
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    asked: int = 0
    tokens: int = 0
    concurrency: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def add(self, result: Result, *, asked: bool, concurrency: int = 0) -> None:
        self.done += 1
        self.outcomes[result.outcome] += 1
        self.concurrency = concurrency
        if asked:
            self.asked += 1
            self.tokens += (result.input_tokens or 0) + (result.output_tokens or 0)

    def line(self) -> str:
        """Everything on one line."""
        total = '' if self.total is None else f'/{self.total:,}'
        return f'{self.name}: {self.done:,}{total} rows{self.facts()}'

    def facts(self) -> str:
        """Rate, trouble, tokens and time left, as far as they say anything."""
        rate = self.asked / max(self.clock() - self.began, 1e-3)
        parts = [f'{rate:,.1f} rows/s'] if self.asked else []
        parts += [f'{count:,} {outcome}' for outcome, count in self.outcomes.items() if outcome != 'ok']
        parts += [f'{self.tokens:,} tokens'] if self.tokens else []
        if self.total is not None and self.asked and self.done < self.total:
            parts.append(f'{_clock((self.total - self.done) / rate)} left')
        return ''.join(f', {part}' for part in parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{rest:02}' if hours else f'{minutes}:{rest:02}'


class QuietProgress(NullListener):
    """Only what a person must know."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def on_message(self, message: str) -> None:
        """Something that a person should know."""
        self._say(f'rolecall: {printable(message)}')

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class PlainProgress(QuietProgress):
    """Lines for logs: the plan, now and then where each pair is, and the scores."""

    def __init__(self, stream: IO[str], *, every: float = _EVERY) -> None:
        super().__init__(stream)
        self._every = every
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._told: dict[tuple[str, str], float] = {}

    def on_plan(self, plan: RunPlan, findings: Sequence[Finding]) -> None:
        """What will be asked, and what the linter calls an error."""
        lines = list(plan.lines())
        hidden = len(lines) - 1 - _MOST_PAIRS
        for line in lines[:_MOST_PAIRS] if hidden > 0 else lines[:-1]:
            self._say(printable(line))
        if hidden > 0:
            self._say(f'… and {hidden:,} more')
        self._say(lines[-1])
        for finding in findings[:_MOST_FINDINGS]:
            self._say(f'lint error: {finding.rule}  {printable(finding.where)}: {printable(finding.message)}')
        if findings:
            self._say(f'{count_noun(len(findings), "lint error")}; `rolecall lint` shows remedies.')

    def on_pair_start(self, dataset: str, model: str, total: int | None) -> None:
        """A dataset × model is begun."""
        self._tallies[dataset, model] = Tally(f'{dataset} × {model}', total)
        self._told[dataset, model] = time.monotonic()

    def on_row(self, result: Result, *, asked: bool, concurrency: int) -> None:
        """A row is safe."""
        key = (result.dataset, result.model)
        tally = self._tallies[key]
        tally.add(result, asked=asked, concurrency=concurrency)
        now = time.monotonic()
        if now - self._told[key] >= self._every:
            self._told[key] = now
            self._tell(key, tally)

    def _tell(self, key: tuple[str, str], tally: Tally) -> None:
        self._say(printable(tally.line()))

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        tally = self._tallies.pop((dataset, model), None)
        if tally is not None:
            self._say(printable(tally.line()))
        for card in cards:
            self._say(printable(score_line(card)))


class LiveProgress(PlainProgress):
    """A bar for each dataset × model that is under way, redrawn in place."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream, every=_REFRESH)
        self._bars: dict[tuple[str, str], TaskID] = {}
        self._shown: Progress | None = None

    def on_pair_start(self, dataset: str, model: str, total: int | None) -> None:
        """A dataset × model is begun."""
        super().on_pair_start(dataset, model, total)
        if self._shown is None:
            self._shown = self._display()
            self._shown.start()
        self._bars[dataset, model] = self._shown.add_task(f'{dataset} × {model}', total=total, facts='')

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        tally = self._tallies.get((dataset, model))
        if tally is not None:
            self._tell((dataset, model), tally)
        bar = self._bars.pop((dataset, model), None)
        if self._shown is not None and bar is not None:
            self._shown.remove_task(bar)
        super().on_scores(dataset, model, cards)

    def on_end(self) -> None:
        """The run is over."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def _tell(self, key: tuple[str, str], tally: Tally) -> None:
        if self._shown is not None:
            busy = f', {tally.concurrency} at once' if tally.concurrency else ''
            facts = tally.facts().removeprefix(', ') + busy
            self._shown.update(self._bars[key], completed=tally.done, facts=facts)

    def _say(self, line: str) -> None:
        if self._shown is None:
            super()._say(line)
        else:
            self._shown.console.print(line, markup=False, highlight=False)

    def _display(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn('{task.description}', markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn('{task.fields[facts]}', markup=False),
        )
        return Progress(*columns, console=Console(file=self._stream), refresh_per_second=8)


def score_line(card: Scorecard) -> str:
    """A score with its interval and what it was counted over."""
    name = f'{card.dataset} × {card.model}: {card.metric or "no evaluator"}'
    others = ', '.join(f'{count:,} {outcome}' for outcome, count in card.outcomes.items() if outcome != 'ok')
    rows = f'{card.scored:,} of {card.total:,} rows scored{f" ({others})" if others else ""}'
    if card.value is None:
        return f'{name}: no score, {rows}'
    interval = '' if card.low is None or card.high is None else f' [{card.low:.2f}, {card.high:.2f}]'
    return f'{name} {card.value:.2f}{interval}, {rows}'
