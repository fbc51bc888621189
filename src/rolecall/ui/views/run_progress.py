"""The progress of a run: a live display on a terminal, plain lines elsewhere, only messages if quiet."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from rolecall.runs.client.model_client import Activity
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.plan import RunPlan
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, mask_details, printable, wrap_for
from rolecall.ui.views.chinese import translate_message

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from rolecall.experiment.lint.subject import Finding


_EVERY = 5.0
"""Seconds between two plain lines about one pair."""
_TIMES_EVERY = 60.0
"""Seconds between two plain accounts of where time went."""
_MOST_TIMES = 9
_REFRESH = 0.1
_MOST_PAIRS = 40
_MOST_FINDINGS = 5
_CLEARLY, _FEW_TOKENS = 1.05, 16
"""How much more was sent than read before progress mentions it; the run decides when all rows are there."""
_LONGEST_REASON = 120
_STILL_ALIVE = 60.0
"""Seconds after which a plain line is printed although nothing changed."""


def progress_for(stream: IO[str] | None = None, *, quiet: bool = False) -> RunListener:
    """The display that suits a stream: live on a terminal, plain in a pipe."""
    stream = stream or sys.stderr
    return QuietProgress(stream) if quiet else LiveProgress(stream) if stream.isatty() else PlainProgress(stream)


@dataclass(slots=True)
class PairProgress:
    """How far one dataset × model is.

    >>> pair = PairProgress('gsm8k × gpt', 100, clock=iter([0.0, 10.0]).__next__)
    >>> for row in range(50):
    ...     pair.add(Result('gsm8k', 'gpt', row, 'ok', input_tokens=100, output_tokens=20), sent=True)
    >>> print(pair.line())
    gsm8k × gpt: 50/100 rows, 5.0 rows/s, 6,000 tokens, 0:10 left
    """

    name: str
    total: int | None
    activity: Callable[[], Activity] = Activity
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    sent: int = 0
    tokens: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    """Rows of which the server reports clearly fewer tokens than were sent."""
    began: float = field(init=False)
    tokens_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.tokens_before = self.activity().tokens

    def add(self, result: Result, *, sent: bool) -> None:
        self.done += 1
        self.outcomes[result.outcome] += 1
        self.cut += (result.expected_tokens or 0) > _CLEARLY * (result.input_tokens or 0) + _FEW_TOKENS
        if sent:
            self.sent += 1
            self.tokens += (result.input_tokens or 0) + (result.output_tokens or 0)

    def line(self) -> str:
        """Everything on one line."""
        done = count_noun(self.done, 'row') if self.total is None else f'{self.done:,}/{count_noun(self.total, "row")}'
        facts = self.facts()
        return f'{self.name}: {done}{facts and f", {facts}"}'

    def facts(self) -> str:
        """Rate, trouble, tokens, time left, calls in flight, and why nothing moves."""
        activity = self.activity()
        rate = self.sent / max(self.clock() - self.began, 1e-3)
        tokens = max(self.tokens, activity.tokens - self.tokens_before)
        parts = [f'{rate:,.1f} rows/s'] if self.sent else []
        parts += [f'{count:,} {outcome}' for outcome, count in self.outcomes.items() if outcome != 'ok']
        parts += [f'fewer tokens than expected in {count_noun(self.cut, "prompt")}'] if self.cut else []
        parts += [count_noun(tokens, 'token')] if tokens else []
        if self.total is not None and self.sent and self.done < self.total and not activity.waiting:
            parts.append(f'{_clock((self.total - self.done) / rate)} left')
        parts += [f'{activity.in_flight} in flight'] if activity.in_flight else []
        parts += [activity.where] if activity.where else []
        parts += [activity.waiting[:_LONGEST_REASON]] if activity.waiting else []
        return ', '.join(parts)

    def state(self) -> tuple[object, ...]:
        """What a log should mention once: rows, tokens, outcomes, and why nothing moves, without times."""
        activity = self.activity()
        reason = mask_details(activity.waiting.partition(': ')[2])
        return self.done, self.tokens, activity.tokens, tuple(self.outcomes.items()), activity.where, reason


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{rest:02}' if hours else f'{minutes}:{rest:02}'


class QuietProgress(NullListener):
    """Messages only."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def on_message(self, message: str) -> None:
        """Something that a person should know."""
        self._print(f'rolecall: {printable(translate_message(message))}')

    def _print(self, line: str) -> None:
        print(wrap_for(self._stream, translate_message(line)), file=self._stream, flush=True)


class PlainProgress(QuietProgress):
    """Lines for logs: the plan, every few seconds where each pair is, and the scores."""

    def __init__(self, stream: IO[str], *, every: float = _EVERY) -> None:
        super().__init__(stream)
        self._every = every
        self._pairs: dict[tuple[str, str], PairProgress] = {}
        self._printed: dict[tuple[str, str], tuple[tuple[object, ...], float]] = {}
        """What was last printed about a pair, and when."""
        self._times_told = time.monotonic()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    def on_plan(self, plan: RunPlan, findings: Sequence[Finding]) -> None:
        """The plan, and the errors that the linter found."""
        lines = list(plan.lines())
        hidden = len(lines) - 1 - _MOST_PAIRS
        for line in lines[:_MOST_PAIRS] if hidden > 0 else lines[:-1]:
            self._print(printable(line))
        if hidden > 0:
            self._print(f'… and {hidden:,} more')
        self._print(lines[-1])
        for finding in findings[:_MOST_FINDINGS]:
            self._print(f'lint error: {finding.rule}  {printable(finding.where)}: {printable(finding.message)}')
        if findings:
            self._print(f'{count_noun(len(findings), "lint error")}; `rolecall lint` shows remedies.')

    def on_pair_start(
        self, dataset: str, model: str, total: int | None, activity: Callable[[], Activity] | None = None
    ) -> None:
        """A dataset × model starts."""
        self._pairs[dataset, model] = PairProgress(f'{dataset} × {model}', total, activity or Activity)
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, name='rolecall-progress', daemon=True)
            self._ticker.start()

    def on_known(self, dataset: str, model: str, outcomes: Mapping[str, int]) -> None:
        """Rows of a dataset × model were finished before."""
        pair = self._pairs[dataset, model]
        pair.done += sum(outcomes.values())
        pair.outcomes.update(outcomes)

    def on_row(self, result: Result, *, asked: bool) -> None:
        """A row is on disk."""
        self._pairs[result.dataset, result.model].add(result, sent=asked)

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        pair = self._pairs.pop((dataset, model), None)
        if pair is not None:
            self._print(printable(pair.line()))
        for card in cards:
            self._print(printable(score_line(card)))

    def on_times(self, lines: Sequence[str]) -> None:
        """Where time went so far."""
        if time.monotonic() - self._times_told >= _TIMES_EVERY:
            self._times_told = time.monotonic()
            for line in _shorten(lines):
                self._print(line)

    def on_end(self) -> None:
        """The run is over."""
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()

    def _tick(self) -> None:
        """Show every pair now and then, also while no row finishes."""
        while not self._ended.wait(self._every):
            for key, pair in tuple(self._pairs.items()):
                with suppress(OSError, ValueError):  # the stream is closed; the run continues
                    self._show(key, pair)

    def _show(self, key: tuple[str, str], pair: PairProgress) -> None:
        before, at = self._printed.get(key, ((), 0.0))
        state, now = pair.state(), time.monotonic()
        if state != before or now - at >= _STILL_ALIVE:
            self._printed[key] = state, now
            self._print(printable(pair.line()))


def _shorten(lines: Sequence[str]) -> list[str]:
    """Shorten the list of machines of a large cluster.

    >>> _shorten(['this process', *(f'm on node {n}' for n in range(64))])[-2:]
    ['m on node 7', '… and 56 more']
    """
    hidden = len(lines) - _MOST_TIMES
    return [*map(printable, lines[:_MOST_TIMES]), *([f'… and {hidden:,} more'] if hidden > 0 else [])]


class LiveProgress(PlainProgress):
    """A bar for each dataset × model in progress, and where time went so far, redrawn in place."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream, every=_REFRESH)
        self._bars: dict[tuple[str, str], TaskID] = {}
        self._display: Progress | None = None
        self._times: list[str] = []

    def on_pair_start(
        self, dataset: str, model: str, total: int | None, activity: Callable[[], Activity] | None = None
    ) -> None:
        """A dataset × model starts."""
        if self._display is None:
            self._display = self._build_display()
            self._display.start()
        self._bars[dataset, model] = self._display.add_task(printable(f'{dataset} × {model}'), total=total, facts='')
        super().on_pair_start(dataset, model, total, activity)

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        super().on_scores(dataset, model, cards)
        bar = self._bars.pop((dataset, model), None)
        if self._display is not None and bar is not None:
            self._display.remove_task(bar)

    def on_times(self, lines: Sequence[str]) -> None:
        """Where time went so far."""
        self._times = _shorten(lines)

    def on_end(self) -> None:
        """The run is over."""
        super().on_end()
        self._times = []
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _show(self, key: tuple[str, str], pair: PairProgress) -> None:
        bar = self._bars.get(key)
        if self._display is not None and bar is not None:
            with suppress(KeyError):  # removed by the other thread
                self._display.update(bar, completed=pair.done, facts=translate_message(printable(pair.facts())))

    def _print(self, line: str) -> None:
        if self._display is None:
            super()._print(line)
        else:
            self._display.console.print(translate_message(line), markup=False, highlight=False)

    def _build_display(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.text import Text

        progress = self

        class Display(Progress):
            def get_renderables(self) -> Iterable[RenderableType]:
                yield from super().get_renderables()
                yield from (Text(line, 'dim') for line in progress._times)

        columns = (
            TextColumn('{task.description}', markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn('{task.fields[facts]}', markup=False),
        )
        return Display(*columns, console=Console(file=self._stream), refresh_per_second=8)


def score_line(card: Scorecard) -> str:
    """A score with its interval and what it was counted over."""
    name = f'{card.dataset} × {card.model}: {card.metric or "no evaluator"}'
    others = ', '.join(f'{count:,} {outcome}' for outcome, count in card.outcomes.items() if outcome != 'ok')
    rows = f'{card.scored:,} of {count_noun(card.total, "row")} scored{f" ({others})" if others else ""}'
    if card.is_baseline:
        return f'{name}: {card.describe_missing()}'
    if card.value is None:
        return f'{name}: no score, {rows}'
    interval = '' if card.low is None or card.high is None else f' [{card.low:.2f}, {card.high:.2f}]'
    return f'{name} {card.value:.2f}{interval}, {rows}'
