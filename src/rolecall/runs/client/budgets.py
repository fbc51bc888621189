"""One budget for each endpoint: models of a run that one server answers share a limiter.

A server of one's own (a loopback or private address) is one endpoint, whatever its models are called. At a public
address each model is one, because vendors limit requests by model. An entry's own `concurrency` still holds for itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from rolecall.models.protocol import Model
from rolecall.runs.client.client_options import read_limits
from rolecall.runs.client.limiter import Limiter, Limits


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

    def own_places(self, limits: Limits) -> asyncio.Semaphore | None:
        """The places of a client that may have fewer calls in flight than the endpoint; None if it may have all."""
        return asyncio.Semaphore(limits.most) if limits.most < self.limits.most else None


class Budgets:
    """The budgets of a run by endpoint."""

    def __init__(self, models: Iterable[tuple[Model, Mapping[str, Any]]] = ()) -> None:
        limits: dict[str, list[Limits]] = {}
        for model, entry in models:
            if (endpoint := _find_endpoint(model)) is not None:
                limits.setdefault(endpoint, []).append(read_limits(entry))
        self._budgets = {endpoint: Budget(_combine(found)) for endpoint, found in limits.items() if len(found) > 1}

    def find(self, model: Model) -> Budget | None:
        """The budget that a model shares with others; None if it has its endpoint to itself."""
        return self._budgets.get(_find_endpoint(model) or '')


def _combine(limits: Iterable[Limits]) -> Limits:
    found = list(limits)
    rates = [one.per_second for one in found if one.per_second is not None]
    return Limits(
        max(one.start for one in found),
        max(one.most for one in found),
        max(rates) if len(rates) == len(found) else None,
    )


def _find_endpoint(model: Model) -> str | None:
    """What names the endpoint of a model; None for a model without a server."""
    identity = model.identity
    server = identity.get('server')
    if not isinstance(server, str) or model.batch > 1:
        return None
    host = urlsplit(server).hostname or ''
    return server if _is_own(host) else f'{server} {identity.get("model")}'


def _is_own(host: str) -> bool:
    if host == 'localhost':
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return '.' not in host
