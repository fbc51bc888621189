"""Tokens and money, by model and dataset, as the report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rolecall.models.prices import Price
from rolecall.runs.batches.ledger_reader import BatchTokens
from rolecall.runs.store.results import Used
from rolecall.ui.report.counts import Pair, RunCounts

_HEADS = ('rows', 'input', 'cached', 'cache writes', 'output', 'reasoning', 's/row', 'US$')
_UNKNOWN = '–'


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one model used for one dataset; for all of them, where the dataset is empty."""

    model: str
    dataset: str
    used: Used
    cost: float | None = None
    as_judge: bool = False
    """Whether it judged other models' answers; then each judgement counts as a row."""

    @property
    def name(self) -> str:
        """The model's name, marked if it is a judge."""
        return f'{self.model} (judge)' if self.as_judge else self.model

    def cells(self, decimals: int) -> tuple[str, ...]:
        """The texts under all heads; money with so many decimals."""
        used = self.used
        return (
            f'{used.rows:,}',
            _count(used.input_tokens, 'not known'),
            _count(used.cached_tokens),
            _count(used.cache_written_tokens),
            _count(used.output_tokens, 'not known'),
            _count(used.reasoning_tokens),
            _UNKNOWN if used.seconds is None or not used.rows else f'{used.seconds / used.rows:,.2f}',
            _UNKNOWN if self.cost is None else f'{self.cost:,.{decimals}f}',
        )


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The lines with a text for each head; heads under which nothing is known are left out."""

    heads: tuple[str, ...]
    rows: tuple[tuple[UsageLine, tuple[str, ...]], ...]


def usage_table(counts: RunCounts, prices: Mapping[str, Price | None]) -> UsageTable | None:
    """Tokens and money as a table; None if no tokens were reported."""
    lines = list(usage_lines(counts, prices))
    if not any(line.used.input_tokens or line.used.output_tokens for line in lines):
        return None
    decimals = 4 if any(0 < line.cost < 0.01 for line in lines if line.cost is not None) else 2
    cells = [line.cells(decimals) for line in lines]
    columns = [place for place in range(len(_HEADS)) if any(texts[place] != _UNKNOWN for texts in cells)]
    rows = ((line, tuple(texts[place] for place in columns)) for line, texts in zip(lines, cells, strict=True))
    return UsageTable(tuple(_HEADS[place] for place in columns), tuple(rows))


def usage_lines(counts: RunCounts, prices: Mapping[str, Price | None]) -> Iterator[UsageLine]:
    """A line for each model, followed by one for each of its datasets where it has several; then the judges'.

    Tokens that a server did not report are not guessed: a sum with a gap is unknown.
    """
    yield from _list_lines(counts.usage, counts, prices)
    yield from _list_lines(counts.judging, counts, prices, as_judge=True)


def _list_lines(
    usage: Mapping[Pair, Used], counts: RunCounts, prices: Mapping[str, Price | None], *, as_judge: bool = False
) -> Iterator[UsageLine]:
    for model in dict.fromkeys(model for _, model in usage):
        own = {dataset: used for (dataset, name), used in usage.items() if name == model}
        if len(own) > 1:
            total = Used(0)
            for used in own.values():
                total.add(used)
            batched = [] if as_judge else _list_batched(counts, model, own)
            yield _make_line(UsageLine(model, '', total, as_judge=as_judge), prices.get(model), batched)
        for dataset, used in own.items():
            batched = [] if as_judge else _list_batched(counts, model, [dataset])
            yield _make_line(UsageLine(model, dataset, used, as_judge=as_judge), prices.get(model), batched)


def _list_batched(counts: RunCounts, model: str, datasets: Iterable[str]) -> list[BatchTokens]:
    return [counts.batched[dataset, model] for dataset in datasets if (dataset, model) in counts.batched]


def _make_line(line: UsageLine, price: Price | None, batched: Sequence[BatchTokens]) -> UsageLine:
    """The line with its cost, with batched tokens at the batch price."""
    used = line.used
    if price is None or used.input_tokens is None or used.output_tokens is None:
        return line
    stored = used.cache_written_tokens or 0
    cost = price.cost(
        used.input_tokens, used.output_tokens, cached_tokens=used.cached_tokens or 0, written_tokens=stored
    )
    part = sum(batch.input_tokens for batch in batched) / used.input_tokens if used.input_tokens else 0.0
    full = sum(
        price.cost(batch.input_tokens, batch.output_tokens, cached_tokens=batch.cached_tokens) for batch in batched
    )
    full += price.cost(part * stored, 0, written_tokens=part * stored) - price.cost(part * stored, 0)
    return replace(line, cost=cost - (1 - price.batch) * min(full, cost))


def _count(tokens: float | None, unknown: str = _UNKNOWN) -> str:
    return unknown if tokens is None else f'{tokens:,.0f}'
