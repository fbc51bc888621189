"""What holds a run back, or stops it: caps on money, tokens and time, what people say from outside, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.models.prices import Price, find_price
from rolecall.runs.atomic import read_run_json, write_run_json
from rolecall.runs.client.model_client import Answer, ModelClient, count_tokens, read_token_count
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.store.directory import CONTROL_FILE, is_running
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import pairs_of

_LOOK_EVERY = 0.5
_UNTRIED = 4
"""Rows that are asked about under a cap before the first answer says what one takes."""
_SHORT_WAIT = 0.02
_FREE = Price(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Control:
    """What a person wants of a run under way. It is kept in the run directory, and the run looks at it between rows."""

    paused: bool = False
    concurrency: int | None = None
    """Requests to each model that may be under way; None for what the run began with."""
    dropped: tuple[str, ...] = ()
    """Models that are not asked any more."""

    @classmethod
    def read(cls, directory: Path) -> Control:
        """What was last written; nothing if that cannot be read."""
        values = read_run_json(directory / CONTROL_FILE)
        if not isinstance(values, dict):
            return cls()
        concurrency, dropped = values.get('concurrency'), values.get('dropped')
        return cls(
            values.get('paused') is True,
            concurrency if type(concurrency) is int and concurrency > 0 else None,
            tuple(map(str, dropped)) if isinstance(dropped, list) else (),
        )

    def __str__(self) -> str:
        parts = ['paused' if self.paused else 'running']
        parts += [f'at most {self.concurrency} requests to each model at once'] if self.concurrency else []
        parts += [f'without {", ".join(self.dropped)}'] if self.dropped else []
        return '; '.join(parts)


def change_control(directory: Path, *, drop: Sequence[str] = (), **changes: Any) -> Control:
    """Tell a run what is wanted of it from now on. Refuses models it does not ask, and runs that have ended."""
    with RunReader(directory) as reader:
        models = sorted({str(pair.get('model')) for pair in pairs_of(reader).values()})
    if unknown := [model for model in drop if model not in models]:
        what = f'{unknown[0]:.80} is not a model of {directory}: {", ".join(models)}.'
        raise ConfigError(Problem('drop', what))
    if is_running(directory) is False:
        raise RunError(f'{directory}: no run is under way here.')
    control = Control.read(directory)
    control = replace(control, **changes, dropped=tuple(dict.fromkeys((*control.dropped, *drop))))
    write_run_json(directory / CONTROL_FILE, asdict(control))
    return control


class Brake:
    """Says before each row whether it may be asked about, and waits while the run is paused."""

    def __init__(self, prepared: PreparedRun, directory: Path, *, tell: Callable[[str], None]) -> None:
        self._options = prepared.options
        self._prices = _find_prices(prepared)
        self._directory, self._tell = directory, tell
        self._began, self._control = time.monotonic(), Control()
        self._clients: dict[str, ModelClient] = {}
        self._rows: dict[str, Collection[object]] = {}
        self._answers = self._uncounted = 0
        self._models = frozenset(prepared.models)
        self._local = {model.name for model, _ in prepared.asked_models if 'server' not in model.identity}
        self._free: set[str] = set()
        self.tokens = 0
        self.cost = 0.0
        self.reason = ''
        """Which cap ended the run, with what it came to."""
        with suppress(OSError):
            (directory / CONTROL_FILE).unlink()  # of an earlier run

    @property
    def dropped(self) -> str:
        """Which models were let go of."""
        return f'{", ".join(self._control.dropped)} let go of from outside' if self._control.dropped else ''

    def watch(self, client: ModelClient) -> None:
        """Count what the answers of a model cost, and change how many are under way when that is wanted."""
        self._clients[client.model.name] = client
        client.on_answer = lambda answer: self._count(client.model.name, answer)

    @contextmanager
    def keep_looking(self) -> Iterator[None]:
        """Look at the control file and the clock, again and again."""

        async def look() -> None:
            while True:
                self._look()
                await asyncio.sleep(_LOOK_EVERY)

        looking = asyncio.get_running_loop().create_task(look())
        try:
            yield
        finally:
            looking.cancel()

    async def allows(self, model: str, rows: Collection[object]) -> bool:
        """Whether a model may be asked about another row, beside the `rows` that it is being asked about.

        It waits while the run is paused, and while rows under way may use up what a cap leaves.
        """
        self._rows[model] = rows
        while self._control.paused and model not in self._control.dropped and not self._find_reason(0):
            await asyncio.sleep(_LOOK_EVERY)
        while self._has_caps and (under_way := sum(map(len, self._rows.values()))):
            untried = not (self._answers or self._uncounted) and under_way >= _UNTRIED
            if not untried and not self._find_reason(under_way + 1):
                break
            await asyncio.sleep(_SHORT_WAIT)
        self.reason = self.reason or self._find_reason(1)
        return not self.reason and model not in self._control.dropped

    def _count(self, model: str, answer: Answer) -> None:
        usage = answer.usage
        if count_tokens(answer) is None:
            self._miss_count(model)
            return
        sent, received = (read_token_count(count) or 0 for count in (usage.input_tokens, usage.output_tokens))
        cached, written = (read_token_count(count) or 0 for count in (usage.cached_tokens, usage.cache_written_tokens))
        self._answers += 1
        self.tokens += sent + received
        self.cost += self._prices.get(model, _FREE).cost(sent, received, cached_tokens=cached, written_tokens=written)

    def _miss_count(self, model: str) -> None:
        """An answer does not say what it took. It is counted as others; a server that never says cannot be capped."""
        options = self._options
        caps = {'--max-cost': options.max_cost, '--max-total-tokens': options.max_total_tokens}
        if model not in self._local:
            self._uncounted += 1
            names = ' and '.join(name for name, cap in caps.items() if cap is not None)
            if names and not self._answers and self._uncounted >= _UNTRIED:
                self.reason = f'{names} cannot be kept, as {model} reports no tokens; use --max-minutes'
        elif options.max_total_tokens is not None and model not in self._free:
            self._free.add(model)
            self._tell(f'{model} reports no tokens, and --max-total-tokens counts none for it.')

    @property
    def _has_caps(self) -> bool:
        options = self._options
        return (options.max_cost, options.max_total_tokens, options.max_minutes) != (None, None, None)

    def _is_late(self) -> bool:
        minutes = self._options.max_minutes
        return minutes is not None and time.monotonic() - self._began >= 60 * minutes

    def _find_reason(self, under_way: int) -> str:
        """Which cap is reached if rows under way use what others did, on average; empty if none is."""
        options, share = self._options, 1 + (under_way + self._uncounted) / max(self._answers, 1)
        if options.max_cost is not None and self.cost * share >= options.max_cost:
            return f'--max-cost {options.max_cost:g} is reached: {self.cost:.2f} spent'
        if options.max_total_tokens is not None and self.tokens * share >= options.max_total_tokens:
            return f'--max-total-tokens {options.max_total_tokens:,} is reached: {self.tokens:,} used'
        if self._is_late():
            return f'--max-minutes {options.max_minutes:g} is reached'
        return ''

    def _look(self) -> None:
        """Do what the control file says, if it changed. Rows that wait to be sent are not under way."""
        before, self._control = self._control, Control.read(self._directory)
        dropped = {*self._control.dropped} - {*before.dropped}
        is_late = not self.reason and self._is_late()
        if is_late:
            self.reason = self._find_reason(0)
        if self._control.paused != before.paused:
            self._tell('paused from outside; rows under way are finished.' if self._control.paused else 'goes on.')
        for model in sorted(dropped):
            self._tell(f'{model}: let go of from outside; what it answered is kept.')
        for name, client in self._clients.items():
            if name in (self._models if is_late else dropped):
                client.drop_waiting()
            if is_late or self._control.paused != before.paused:
                client.hold(self._control.paused and not is_late)  # judges are asked to the end
            if self._control.concurrency not in (None, before.concurrency):
                self._tell(f'{name}: {client.resize(self._control.concurrency or 1)}')


def _find_prices(prepared: PreparedRun) -> dict[str, Price]:
    """The price of each model that is asked, judges among them; those computed here are free."""
    options = prepared.options
    overrides = options.prices if isinstance(options.prices, Mapping) else {}
    prices: dict[str, Price] = {}
    problems = []
    for model, entry in prepared.asked_models:
        price = find_price(entry, overrides)
        if price is None and 'server' in model.identity and options.max_cost is not None:
            what = f'the price of {model.name} is not known, so a cap on cost cannot be kept.'
            problems.append(
                Problem('max_cost', what, 'Give it with --prices FILE, or use --max-total-tokens or --max-minutes.')
            )
        prices[model.name] = price or _FREE
    if problems:
        raise ConfigError(problems)
    return prices


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
