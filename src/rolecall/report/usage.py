"""Tokens and money, by model and dataset, as the report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rolecall.models.prices import Price
from rolecall.report.counts import RunCounts, Used

__all__ = ['USAGE_HEADS', 'UsageLine', 'usage_lines']

USAGE_HEADS = ('rows', 'input', 'of it cached', 'output', 'of it reasoning', 's/row', 'US$')
_UNKNOWN = '–'


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one model used for one dataset; for all of them, where the dataset is empty."""

    model: str
    dataset: str
    used: Used
    cost: float | None = None

    @property
    def known(self) -> bool:
        """Whether any tokens were reported."""
        return bool(self.used.input_tokens or self.used.output_tokens)

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts under `USAGE_HEADS`."""
        used = self.used
        return (
            f'{used.rows:,}',
            _count(used.input_tokens, 'not known'),
            _count(used.cached_tokens),
            _count(used.output_tokens, 'not known'),
            _count(used.reasoning_tokens),
            _UNKNOWN if used.seconds is None or not used.rows else f'{used.seconds / used.rows:,.2f}',
            _UNKNOWN if self.cost is None else f'{self.cost:,.2f}' if self.cost >= 0.01 else f'{self.cost:.4f}',
        )


def usage_lines(counts: RunCounts, prices: Mapping[str, Price | None]) -> Iterator[UsageLine]:
    """A line for each model, followed by one for each of its datasets where it has several.

    Tokens that a server did not report are not guessed: a sum with a gap is unknown.
    """
    for model in dict.fromkeys(model for _, model in counts.usage):
        own = {dataset: used for (dataset, one), used in counts.usage.items() if one == model}
        if len(own) > 1:
            total = Used(0)
            for used in own.values():
                total.add(used)
            yield _make_line(model, '', total, prices.get(model))
        for dataset, used in own.items():
            yield _make_line(model, dataset, used, prices.get(model))


def _make_line(model: str, dataset: str, used: Used, price: Price | None) -> UsageLine:
    if price is None or used.input_tokens is None or used.output_tokens is None:
        return UsageLine(model, dataset, used)
    cost = price.cost(used.input_tokens, used.output_tokens, cached_tokens=used.cached_tokens or 0)
    return UsageLine(model, dataset, used, cost)


def _count(tokens: float | None, unknown: str = _UNKNOWN) -> str:
    return unknown if tokens is None else f'{tokens:,.0f}'
