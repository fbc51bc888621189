"""What tokens cost: a small table of list prices, and where a user overrides it.

Prices are US dollars for a million tokens. They change; the table is a default, and says when it was written. A model
entry's own `price=dict(input=…, output=…)` wins over a file given by the user, which wins over the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem

__all__ = ['PRICES', 'PRICES_OF', 'Price', 'find_price', 'read_prices']

PRICES_OF = '2025-10'


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input tokens served from the vendor's cache; the price of input where it is not known."""

    def cost(self, input_tokens: float, output_tokens: float, *, cached_tokens: float = 0) -> float:
        """What some tokens cost; cached ones are among the input tokens.

        >>> Price(2.0, 8.0).cost(1_000_000, 500_000), Price(2.0, 8.0, 0.5).cost(1_000_000, 0, cached_tokens=500_000)
        (6.0, 1.25)
        """
        saved = 0.0 if self.cached is None else cached_tokens * (self.input - self.cached)
        return (input_tokens * self.input + output_tokens * self.output - saved) / 1e6


PRICES = {
    'gpt-4o-mini*': Price(0.15, 0.60, 0.075),
    'gpt-4o*': Price(2.50, 10.00, 1.25),
    'gpt-4.1-nano*': Price(0.10, 0.40, 0.025),
    'gpt-4.1-mini*': Price(0.40, 1.60, 0.10),
    'gpt-4.1*': Price(2.00, 8.00, 0.50),
    'gpt-5-nano*': Price(0.05, 0.40, 0.005),
    'gpt-5-mini*': Price(0.25, 2.00, 0.025),
    'gpt-5*': Price(1.25, 10.00, 0.125),
    'o3': Price(2.00, 8.00, 0.50),
    'o4-mini*': Price(1.10, 4.40, 0.275),
    'claude-opus-4*': Price(15.00, 75.00, 1.50),
    'claude-sonnet-4*': Price(3.00, 15.00, 0.30),
    'claude-3-7-sonnet*': Price(3.00, 15.00, 0.30),
    'claude-haiku-4*': Price(1.00, 5.00, 0.10),
    'claude-3-5-haiku*': Price(0.80, 4.00, 0.08),
}
"""List prices by pattern of the model's name; the first that matches counts."""


def find_price(entry: Mapping[str, Any], overrides: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model entry; None if it is not known."""
    own = entry.get('price')
    if isinstance(own, Mapping):
        return _read_price(own, 'price')
    names = [str(entry[key]) for key in ('model', 'path', 'abbr') if isinstance(entry.get(key), str)]
    for table in (overrides or {}, PRICES):
        for pattern, price in table.items():
            if any(fnmatchcase(name, pattern) for name in names):
                return price
    return None


def read_prices(path: str | Path) -> dict[str, Price]:
    """A user's table: a JSON object of `{pattern: {"input": …, "output": …}}`."""
    try:
        written = json.loads(Path(path).read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}.') from error
    except json.JSONDecodeError as error:
        raise DataError(f'{path}:{error.lineno}: not valid JSON: {error.msg}.') from error
    if not isinstance(written, dict) or not all(isinstance(price, dict) for price in written.values()):
        raise DataError(f'{path}: expected a JSON object of {{pattern: {{"input": …, "output": …}}}}.')
    return {pattern: _read_price(price, f'{path}: {pattern}') for pattern, price in written.items()}


def _read_price(written: Mapping[str, Any], where: str) -> Price:
    numbers = [written.get(key, 0) for key in ('input', 'output')]
    numbers += [written['cached']] if written.get('cached') is not None else []
    if not all(isinstance(number, int | float) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise ConfigError(Problem(where, f'expected dollars for a million tokens, got {dict(written)!r:.80}.'))
    return Price(*map(float, numbers))
