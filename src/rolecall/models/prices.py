"""What tokens cost: a small table of list prices, and where a user overrides it.

Prices are US dollars for a million tokens. Prices change; the table is a default, and each line is dated. A
model entry's own `price=dict(input=…, output=…)` wins over a file given by the user, which wins over the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rolecall.checking import is_number
from rolecall.errors import ConfigError, DataError, Problem, did_you_mean
from rolecall.plain_files import read_table

_WRITING = {'5m': 1.25, '1h': 2.0}
"""What tokens written to a cache cost, in prices of input, by how long it keeps them (Anthropic)."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input tokens served from the vendor's cache; the price of input where it is not known."""
    written: float | None = None
    """For input tokens written to the vendor's cache, where it charges extra; 1.25 times the price of input where it is
    not known."""
    batch: float = 0.5
    """What part of the price requests in a batch cost."""
    as_of: str = field(default='', compare=False)
    """When the line was last compared with the vendor's price list."""

    def cost(
        self,
        input_tokens: float,
        output_tokens: float,
        *,
        cached_tokens: float = 0,
        written_tokens: float = 0,
    ) -> float:
        """What some tokens cost; cached ones, and those written to a cache at a surcharge, are among the input tokens.

        >>> Price(2.0, 8.0).cost(1_000_000, 500_000), Price(2.0, 8.0, 0.5).cost(1_000_000, 0, cached_tokens=500_000)
        (6.0, 1.25)
        >>> Price(2.0, 8.0).cost(1_000_000, 0, written_tokens=1_000_000)
        2.5
        """
        saved = 0.0 if self.cached is None else cached_tokens * (self.input - self.cached)
        extra = written_tokens * ((_WRITING['5m'] * self.input if self.written is None else self.written) - self.input)
        return (input_tokens * self.input + output_tokens * self.output - saved + extra) / 1e6


PRICES = {
    pattern: Price(float(input_), float(output), float(cached) if cached else None, as_of=as_of)
    for patterns, input_, output, cached, as_of in read_table(__file__)
    for pattern in patterns.split()
}
"""List prices by pattern of the model's name; the first that matches counts. A version that is not here is not known:
prices change between versions (`claude-opus-4-1` costs three times as much as `claude-opus-4-5`). They come from
Anthropic's own list, and from pages that quote OpenAI's; its surcharge beyond 272,000 tokens is not counted."""
PRICES_OF = f'{min(price.as_of for price in PRICES.values())} to {max(price.as_of for price in PRICES.values())}'
"""When the prices were last seen."""


def find_price(entry: Mapping[str, Any], overrides: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model entry; None if it is not known."""
    price = _look_up_price(entry, overrides or {})
    if price is not None and price.written is None and entry.get('prompt_cache') == '1h':
        return replace(price, written=_WRITING['1h'] * price.input)
    return price


def _look_up_price(entry: Mapping[str, Any], overrides: Mapping[str, Price]) -> Price | None:
    own = entry.get('price')
    if isinstance(own, Mapping):
        return read_price(own, 'price')
    sent = next((entry[key] for key in ('model', 'path') if isinstance(entry.get(key), str)), None)
    for table, names in ((overrides, (sent, entry.get('abbr'))), (PRICES, (sent,))):
        for pattern, price in table.items():
            if any(isinstance(name, str) and fnmatchcase(name, pattern) for name in names):
                return price
    return None


def read_prices(path: str | Path) -> dict[str, Price]:
    """A user's table: a JSON object of `{pattern: {"input": …, "output": …}}`."""
    try:
        prices = json.loads(Path(path).read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}.') from error
    except json.JSONDecodeError as error:
        raise DataError(f'{path}:{error.lineno}: not valid JSON: {error.msg}.') from error
    if not isinstance(prices, dict) or not all(isinstance(price, dict) for price in prices.values()):
        raise DataError(f'{path}: expected a JSON object of {{pattern: {{"input": …, "output": …}}}}.')
    return {pattern: read_price(price, f'{path}: {pattern}') for pattern, price in prices.items()}


def read_price(source: Mapping[str, Any], where: str) -> Price:
    """A price as configs and files write it.

    >>> read_price({'input': 2.5, 'ouput': 10}, 'models[0].price')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: models[0].price
      unknown key 'ouput' in a price.
      Did you mean 'output'?
    """
    allowed = ('input', 'output', 'cached', 'written', 'batch')
    amounts = {key: number for key, number in source.items() if number is not None}
    remedy = 'Write US dollars for a million tokens: price=dict(input=2.5, output=10).'
    if unknown := [key for key in amounts if key not in allowed]:
        problem = Problem(where, f'unknown key {unknown[0]!r} in a price.', did_you_mean(unknown[0], allowed))
    elif not {'input', 'output'} <= amounts.keys():
        problem = Problem(where, f"a price needs 'input' and 'output', got {amounts!r:.80}.", remedy)
    elif not all(is_number(number, least=0) for number in amounts.values()):
        problem = Problem(where, f'expected dollars for a million tokens, got {amounts!r:.80}.', remedy)
    elif amounts.get('batch', 0) > 1:
        problem = Problem(where, f'batch must be a part of the price between 0 and 1, got {amounts["batch"]!r}.')
    else:
        numbers: dict[str, Any] = {key: float(number) for key, number in amounts.items()}
        return Price(**numbers)
    raise ConfigError(problem)
