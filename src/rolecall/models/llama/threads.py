"""Chooses the number of threads: as many as help right now.

Threads that share a core with other work wait for each other, so on a busy machine two can be far slower than one.
The result does not depend on the number, so it is measured, using a small part of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_MOST = 16
_TRIAL_SHARE = 20
"""After a trial that took a second, this many seconds pass before the next."""
_LEAST_WAIT = 1.0
_SMALL = 8


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_threads() -> int:
    """How many other threads on the machine are running; 0 where the system does not say."""
    try:
        with open('/proc/stat', encoding='ascii') as file:
            running = next((line.split()[1] for line in file if line.startswith('procs_running')), '1')
    except OSError:
        return 0
    return max(0, int(running) - 1)


class ThreadTuner:
    """Chooses the number of threads from how long the work took with each.

    >>> pace = ThreadTuner(most=1)
    >>> pace.threads(512), pace.portion(512)
    (1, 8)
    """

    def __init__(
        self,
        *,
        most: int | None = None,
        fixed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        others: Callable[[], int] = busy_threads,
    ) -> None:
        most = min(available_cores(), _MOST) if most is None else most
        self._counts = [fixed] if fixed else sorted({most, *(2**power for power in range(most.bit_length()))})
        self._clock = clock
        self._others = others
        self._rates: dict[tuple[int, int], float] = {}
        self._favourite = self._counts[0]
        self._next_trial = 0.0
        self._tried = 0

    def portion(self, most: int) -> int:
        """How many tokens to compute next: few at first, and before trying another number of threads."""
        measured = (_is_prompt(most), self._best(most)) in self._rates
        return min(most, _SMALL) if not measured or self._trial_due(most) else most

    def threads(self, tokens: int) -> int:
        """How many threads to use for this many tokens."""
        best = self._best(tokens)
        if tokens > _SMALL or not self._trial_due(tokens):
            return best
        other = self._neighbour(best)
        # Our own threads that just finished may still count as running.
        if other > best and other + max(0, self._others() - (best - 1)) > self._counts[-1]:
            self._next_trial = self._clock() + _LEAST_WAIT
            self._tried += 1
            return best
        return other

    def note(self, tokens: int, threads: int, seconds: float) -> None:
        """Record how long it took."""
        was_trial = threads != self._best(tokens)
        key = _is_prompt(tokens), threads
        rate = tokens / max(seconds, 1e-9)
        self._rates[key] = rate if was_trial else (rate + self._rates.get(key, rate)) / 2
        if was_trial:
            self._tried += 1
            self._next_trial = self._clock() + max(_LEAST_WAIT, _TRIAL_SHARE * seconds)
        self._favourite = self._best(tokens)

    def _trial_due(self, tokens: int) -> bool:
        measured = (_is_prompt(tokens), self._best(tokens)) in self._rates
        return len(self._counts) > 1 and measured and self._clock() >= self._next_trial

    def _best(self, tokens: int) -> int:
        """The fastest for this kind of work once two were tried; otherwise the best of the other kind."""
        measured = [count for count in self._counts if (_is_prompt(tokens), count) in self._rates]
        if len(measured) < 2:
            return self._favourite
        return max(measured, key=lambda count: self._rates[_is_prompt(tokens), count])

    def _neighbour(self, count: int) -> int:
        place = self._counts.index(count)
        beside = [self._counts[near] for near in (place + 1, place - 1) if 0 <= near < len(self._counts)]
        return beside[self._tried % len(beside)]


def _is_prompt(tokens: int) -> bool:
    """Only similar work is compared: short steps are bound by memory, prompts by compute."""
    return tokens >= _SMALL
