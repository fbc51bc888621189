"""Tokens and seconds that rows used, or the questions of a judge: added up without guessing what was not reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_NEEDED = ('input_tokens', 'output_tokens', 'seconds')
"""Amounts whose sum is unknown if one is missing."""
_OPTIONAL = ('cached_tokens', 'reasoning_tokens', 'cache_written_tokens')


@dataclass(slots=True)
class Used:
    """What rows used; None where one of them does not say. What few servers report adds up where it is reported."""

    rows: int = 1
    input_tokens: float | None = 0
    output_tokens: float | None = 0
    seconds: float | None = 0
    cached_tokens: float | None = None
    reasoning_tokens: float | None = None
    cache_written_tokens: float | None = None

    @classmethod
    def of(cls, row: Any) -> Used:
        """What one row used: a finished row, or the client that asked about one."""
        return cls(1, *(getattr(row, name) for name in (*_NEEDED, *_OPTIONAL)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Used:
        """What `as_dict` gave; amounts that are missing or not numbers are unknown."""
        reported = (values.get(name) for name in (*_NEEDED, *_OPTIONAL))
        amounts = (amount if isinstance(amount, (int, float)) else None for amount in reported)
        rows = values.get('rows')
        return cls(rows if isinstance(rows, int) else 0, *amounts)

    def as_dict(self) -> dict[str, Any]:
        """What is known, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def add(self, other: Used) -> None:
        """Add what other rows used."""
        self.rows += other.rows
        for name in _NEEDED:
            ours, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, None if ours is None or theirs is None else ours + theirs)
        for name in _OPTIONAL:
            reported = [amount for amount in (getattr(self, name), getattr(other, name)) if amount is not None]
            setattr(self, name, sum(reported) if reported else None)
