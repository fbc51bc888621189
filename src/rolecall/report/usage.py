"""Tokens and money, by model and dataset, as the report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rolecall.report.counts import RunCounts
from rolecall.report.prices import Price

__all__ = ['UsageLine', 'usage_lines']


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one model used for one dataset; for all of them, where the dataset is empty."""

    model: str
    dataset: str
    rows: int
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    cost: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Rows, input tokens, output tokens, seconds a row, and dollars."""
        return (
            f'{self.rows:,}',
            _count(self.input_tokens),
            _count(self.output_tokens),
            '–' if self.seconds is None or not self.rows else f'{self.seconds / self.rows:,.2f}',
            '–' if self.cost is None else f'{self.cost:,.2f}' if self.cost >= 0.01 else f'{self.cost:.4f}',
        )


def usage_lines(counts: RunCounts, prices: Mapping[str, Price | None]) -> Iterator[UsageLine]:
    """A line for each model, followed by one for each of its datasets where it has several.

    Tokens that a server did not report are not guessed: a sum with a gap is unknown.
    """
    models = dict.fromkeys(model for _, model in counts.usage)
    for model in models:
        own = {dataset: usage for (dataset, one), usage in counts.usage.items() if one == model}
        lines = [_make_line(model, dataset, *usage, prices.get(model)) for dataset, usage in own.items()]
        if len(lines) > 1:
            sums = [_sum([usage[place] for usage in own.values()]) for place in range(4)]
            yield _make_line(model, '', int(sums[0] or 0), sums[1], sums[2], sums[3], prices.get(model))
        yield from lines


def _make_line(
    model: str,
    dataset: str,
    rows: int,
    input_tokens: float | None,
    output_tokens: float | None,
    seconds: float | None,
    price: Price | None,
) -> UsageLine:
    known = price is not None and input_tokens is not None and output_tokens is not None
    cost = price.cost(input_tokens or 0, output_tokens or 0) if known and price is not None else None
    tokens = [None if number is None else int(number) for number in (input_tokens, output_tokens)]
    return UsageLine(model, dataset, rows, tokens[0], tokens[1], seconds, cost)


def _sum(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _count(tokens: int | None) -> str:
    return 'not known' if tokens is None else f'{tokens:,}'
