"""Limits and retries as a model's entry sets them, and the budgets that models of one server share.

A server of one's own (a loopback or private address) is one endpoint, whatever its models are called. At a public
address each model is one, because vendors limit requests by model. An entry's own `concurrency` still holds for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rolecall.checking import OptionReader, is_number, is_whole
from rolecall.errors import ConfigError, Problem
from rolecall.models.http.address import Address
from rolecall.models.prices import read_price
from rolecall.models.protocol import Model
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.retry import RetryPolicy


def read_limits(entry: Mapping[str, Any]) -> Limits:
    """Calls in flight: `concurrency` as a number, or `(start, most)`; otherwise they adapt.

    `max_workers` and `batch_size` are upper bounds, as they are in OpenCompass.

    >>> read_limits({'concurrency': (8, 256)})
    Limits(start=8, most=256, per_second=None)
    >>> read_limits({'max_workers': 4, 'query_per_second': 2})
    Limits(start=4, most=4, per_second=2.0)
    """
    rates: list[Any] = [entry.get(key) for key in ('query_per_second', 'request_rate')]
    rate = min((float(value) for value in rates if is_number(value) and value > 0), default=None)
    concurrency: Any = entry.get('concurrency')
    if is_whole(concurrency, least=1):
        return Limits(concurrency, concurrency, rate)
    if concurrency is not None:
        start, most = concurrency
        return Limits(start, most, rate)
    bounds: list[Any] = [entry.get(key) for key in ('max_workers', 'batch_size')]
    bound = min((value for value in bounds if is_whole(value, least=1)), default=None)
    return Limits(per_second=rate) if bound is None else Limits(bound, bound, rate)


def read_retry_policy(entry: Mapping[str, Any]) -> RetryPolicy:
    """How long a call may take, and how often it is retried."""
    usual = RetryPolicy()
    seconds, retries = entry.get('timeout') or 0, entry.get('retry')
    return RetryPolicy(
        seconds=float(seconds) if seconds > 0 else usual.seconds,
        retries=usual.retries if retries is None else retries,
    )


def check_client_options(entry: Mapping[str, Any]) -> list[Problem]:
    """Everything wrong with an entry's limits, retries and prices.

    >>> print(*check_client_options({'concurrency': 0, 'retry': 2}))
    concurrency
      concurrency must be at least 1, got 0.
      Write a whole number, or (start, most): concurrency=(8, 128).
    """
    reader = OptionReader(entry)
    concurrency = entry.get('concurrency')
    if concurrency is not None and not is_whole(concurrency, least=1) and not _is_start_and_most(concurrency):
        wrong = f'concurrency must be at least 1, got {concurrency!r:.60}.'
        reader.refuse('concurrency', wrong, 'Write a whole number, or (start, most): concurrency=(8, 128).')
    for name in ('query_per_second', 'request_rate'):
        reader.number(name, remedy='Write a number of requests per second; 0 means no limit.')
    reader.number('timeout', remedy='Write a number of seconds, or leave it out.')
    reader.whole('retry', remedy='Write how often to retry; 0 means one attempt.')
    return [*reader.problems, *_find_price_problems(entry.get('price'))]


def _find_price_problems(price: object) -> Sequence[Problem]:
    if price is None:
        return ()
    if not isinstance(price, Mapping):
        remedy = 'Write price=dict(input=2.5, output=10).'
        return (Problem('price', f'expected prices per million tokens, got {price!r:.60}.', remedy),)
    try:
        read_price(price, 'price')
    except ConfigError as error:
        return error.problems
    return ()


def _is_start_and_most(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(is_whole(bound, least=1) for bound in value)
        and value[0] <= value[1]
    )


class Budget:
    """The limiter that the clients of one endpoint share."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.limiter = Limiter(limits)
        self._members = 0

    def join(self) -> None:
        """One more client sends through it."""
        self._members += 1

    def leave(self) -> None:
        """A client has given up. Only when all have, waiting calls are let through, to fail."""
        self._members -= 1
        if self._members <= 0:
            self.limiter.open_for_all()


class Budgets:
    """The budgets of a run by endpoint."""

    def __init__(self, models: Iterable[tuple[Model, Mapping[str, Any]]] = ()) -> None:
        limits: dict[str, list[Limits]] = {}
        for model, entry in models:
            if (endpoint := _find_endpoint(model)) is not None:
                limits.setdefault(endpoint, []).append(read_limits(entry))
        self._budgets = {
            endpoint: Budget(_combine(entries)) for endpoint, entries in limits.items() if len(entries) > 1
        }

    def find(self, model: Model) -> Budget | None:
        """The budget that a model shares with others; None if it has its endpoint to itself."""
        return self._budgets.get(_find_endpoint(model) or '')


def _combine(limits: Iterable[Limits]) -> Limits:
    every = list(limits)
    rates = [limit.per_second for limit in every if limit.per_second is not None]
    return Limits(
        max(limit.start for limit in every),
        max(limit.most for limit in every),
        max(rates) if len(rates) == len(every) else None,
    )


def _find_endpoint(model: Model) -> str | None:
    """What names the endpoint of a model; None for a model without a server."""
    identity = model.identity
    server = identity.get('server')
    if not isinstance(server, str) or model.batch > 1:
        return None
    return server if Address(server).is_own else f'{server} {identity.get("model")}'
