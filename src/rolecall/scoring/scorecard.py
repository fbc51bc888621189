"""The score of one dataset × model: a number, its interval and its denominator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ['Scorecard']


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One metric with its interval over `scored` rows. `outcomes` counts every row and adds up to `total`."""

    dataset: str
    model: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    scored: int = 0
    total: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further metrics and breakdowns, JSON-able."""

    @property
    def error(self) -> str:
        """Why these rows could not be scored; empty if they were."""
        return str(self.details.get('error') or '')
