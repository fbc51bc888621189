"""What servers announce about their rate limits, in the headers of every answer (OpenAI's and Anthropic's names)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

Unit = Literal['requests', 'tokens']
_UNITS: tuple[Unit, ...] = ('requests', 'tokens')
_FORMS = ('x-ratelimit-{part}-{unit}', 'anthropic-ratelimit-{unit}-{part}')
_NAMES: tuple[tuple[Unit, str, str, str], ...] = tuple(
    (unit, *(form.format(part=part, unit=unit) for part in ('limit', 'remaining', 'reset')))  # type: ignore[misc]
    for unit in _UNITS
    for form in _FORMS
)
_PART = re.compile(r'(\d+(?:\.\d+)?)(ms|s|m|h|d)')
_SECONDS = {'ms': 0.001, 's': 1.0, 'm': 60.0, 'h': 3600.0, 'd': 86400.0}
_LONGEST = 24


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many are left of a limit, and the seconds until it is full again."""

    limit: float | None
    remaining: float
    reset: float


def read_rate_limits(headers: Mapping[str, str]) -> dict[Unit, RateLimit]:
    """The limits that the headers of an answer announce.

    >>> said = {'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': '59'}
    >>> read_rate_limits({**said, 'x-ratelimit-reset-requests': '1m0.5s'})
    {'requests': RateLimit(limit=60.0, remaining=59.0, reset=60.5)}
    """
    limits: dict[Unit, RateLimit] = {}
    for unit, limit, remaining, reset in _NAMES:
        if remaining in headers:
            left, seconds = _number(headers.get(remaining)), _seconds(headers.get(reset))
            if left is not None and seconds is not None:
                limits[unit] = RateLimit(_number(headers.get(limit)), left, seconds)
    return limits


def _number(text: str | None) -> float | None:
    if text is None or len(text) > _LONGEST or not text.strip().isdecimal():
        return None
    return float(text)


def _seconds(text: str | None) -> float | None:
    """A duration (`8.64s`, `6m0s`, `12ms`, a number of seconds) or a moment (RFC 3339), as seconds from now.

    >>> _seconds('6m0s'), _seconds('12ms'), _seconds('1.5'), _seconds('soon'), _seconds('1e30')
    (360.0, 0.012, 1.5, None, 86400.0)
    """
    seconds = _parse_seconds(text)
    return None if seconds is None else min(max(0.0, seconds), _SECONDS['d'])


def _parse_seconds(text: str | None) -> float | None:
    if text is None or len(text) > 40:
        return None
    if _PART.sub('', text.strip()) == '':
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip().replace('Z', '+00:00'))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (moment - datetime.now(timezone.utc)).total_seconds()
    except (ValueError, OverflowError):
        return None
