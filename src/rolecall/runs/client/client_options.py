"""How fast and how patiently a model is asked, as its entry says. What cannot be meant is refused before the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecall.errors import Problem
from rolecall.runs.client.limiter import Limits
from rolecall.runs.client.model_client import RetryPolicy

__all__ = ['check_client_options', 'read_limits', 'read_retry_policy']


def read_limits(entry: Mapping[str, Any]) -> Limits:
    """Calls at once: `concurrency` as a number, or `(start, most)`; otherwise they adapt, from what it hints at.

    >>> read_limits({'concurrency': (8, 256)})
    Limits(start=8, most=256, per_second=None)
    """
    given: Any = entry.get('concurrency')
    rates: tuple[Any, ...] = (entry.get('query_per_second'), entry.get('request_rate'))
    rate = next((float(value) for value in rates if _is_number(value) and value > 0), None)
    if _is_count(given):
        return Limits(given, given, rate)
    if given is not None:
        start, most = given
        return Limits(start, most, rate)
    hints: list[Any] = [entry.get(key) for key in ('max_workers', 'batch_size')]
    start = next((value for value in hints if _is_count(value)), Limits().start)
    return Limits(min(start, Limits().most), Limits().most, rate)


def read_retry_policy(entry: Mapping[str, Any]) -> RetryPolicy:
    """How long a call may take, and how often it is tried again."""
    usual = RetryPolicy()
    seconds, retries = entry.get('timeout') or 0, entry.get('retry')
    return RetryPolicy(
        seconds=float(seconds) if seconds > 0 else usual.seconds,
        retries=usual.retries if retries is None else retries,
    )


def check_client_options(entry: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything in an entry by which nobody could be asked, or nothing be counted.

    >>> print(*check_client_options({'concurrency': 0, 'retry': 2}))
    concurrency
      expected calls at once, got 0.
      Write a whole number from 1, or (start, most): concurrency=(8, 128).
    """
    given = entry.get('concurrency')
    if given is not None and not _is_count(given) and not _is_start_and_most(given):
        remedy = 'Write a whole number from 1, or (start, most): concurrency=(8, 128).'
        yield Problem('concurrency', f'expected calls at once, got {given!r:.60}.', remedy)
    for name in ('query_per_second', 'request_rate'):
        if entry.get(name) is not None and not _is_number(entry[name]):
            remedy = 'Write a number; 0 is no limit.'
            yield Problem(name, f'expected calls per second, got {entry[name]!r:.60}.', remedy)
    seconds, retries = entry.get('timeout'), entry.get('retry')
    if seconds is not None and not _is_number(seconds):
        yield Problem('timeout', f'expected seconds, got {seconds!r:.60}.', 'Write a number, or leave it out.')
    if retries is not None and not (_is_whole(retries) and retries >= 0):
        remedy = 'Write a whole number; 0 is one attempt.'
        yield Problem('retry', f'expected how often to try again, got {retries!r:.60}.', remedy)
    price = entry.get('price')
    if price is not None and not (isinstance(price, Mapping) and all(map(_is_number, price.values()))):
        remedy = 'Write price=dict(input=2.5, output=10), for a million tokens.'
        yield Problem('price', f'expected prices, got {price!r:.60}.', remedy)


def _is_start_and_most(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and len(given) == 2 and all(map(_is_count, given)) and given[0] <= given[1]


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value > 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
