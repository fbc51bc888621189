"""Slices of a run as tables: for the terminal, Markdown, CSV, JSON and the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rolecall.insight.slices import CLASS, Confusion, Slice, SliceChange, find_confusions, slice_run
from rolecall.runs.result_files import quote_formula
from rolecall.runs.store.run_reader import RunReader
from rolecall.strings import count_noun
from rolecall.ui.report.document import ReportTable
from rolecall.ui.views.chinese import translate_head, translate_message

_LEVEL = 0.05
_CSV = ('dataset', 'model', 'column', 'value', 'rows', 'score', 'low', 'high', 'precision', 'recall', 'f1')


@dataclass(frozen=True, slots=True)
class RunSlices:
    """The slices and classes of a run."""

    slices: tuple[Slice, ...]
    confusions: tuple[Confusion, ...]
    models: tuple[str, ...]
    """In the order of the scores."""
    percent: frozenset[tuple[str, str]]
    """The datasets × models whose scores are percentages."""

    @classmethod
    def of(cls, reader: RunReader, by: Sequence[str]) -> RunSlices:
        """Read a run by these columns; `class` asks for the classes of its answers."""
        columns, cards = [column for column in by if column != CLASS], reader.scorecards()
        return cls(
            tuple(slice_run(reader, columns) if columns else ()),
            tuple(find_confusions(reader) if CLASS in by else ()),
            tuple(dict.fromkeys(card.model for card in cards)),
            frozenset((card.dataset, card.model) for card in cards if card.is_percent),
        )

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values; scores from 0 to 1."""
        slices = [asdict(each) for each in self.slices]
        return {'slices': slices, 'classes': [confusion.as_json() for confusion in self.confusions]}

    def as_csv(self) -> str:
        """One line for each slice and each class; scores from 0 to 1."""
        out = io.StringIO(newline='')
        writer = csv.writer(out, lineterminator='\n')
        writer.writerow(_CSV)
        for part in self.slices:
            names = map(quote_formula, (part.dataset, part.model, part.column, part.value))
            writer.writerow((*names, part.rows, part.score, part.low, part.high, '', '', ''))
        for confusion in self.confusions:
            for each in confusion.classes:
                names = map(quote_formula, (confusion.dataset, confusion.model, CLASS, each.label))
                writer.writerow((*names, each.gold, '', '', '', each.precision, each.recall, each.f1))
        return out.getvalue()

    def tables(self) -> Iterator[ReportTable]:
        """For each dataset and column a table with a column for each model; then the classes."""
        for dataset, column in dict.fromkeys((each.dataset, each.column) for each in self.slices):
            yield self._slice_table(dataset, column)
        for confusion in self.confusions:
            yield _class_table(confusion)
            yield _confusion_table(confusion)

    def _slice_table(self, dataset: str, column: str) -> ReportTable:
        own = [each for each in self.slices if (each.dataset, each.column) == (dataset, column)]
        models = [model for model in self.models if any(each.model == model for each in own)]
        by_place = {(each.value, each.model): each for each in own}
        rows = tuple(
            (value, *(self._cell(by_place.get((value, model))) for model in models))
            for value in dict.fromkeys(each.value for each in own)
        )
        return ReportTable(f'{dataset} {translate_head("by")} {column}', (column, *models), rows, words=0)

    def _cell(self, part: Slice | None) -> str:
        if part is None or part.score is None:
            return '–'
        factor = 100 if (part.dataset, part.model) in self.percent else 1
        ends = '' if part.low is None or part.high is None else f' [{factor * part.low:.1f}, {factor * part.high:.1f}]'
        return f'{factor * part.score:.1f}{ends}  {translate_message(count_noun(part.rows, "row"))}'


def _class_table(confusion: Confusion) -> ReportTable:
    rows = tuple(
        (each.label, *map(_share, (each.precision, each.recall, each.f1)), f'{each.gold:,}', f'{each.predicted:,}')
        for each in confusion.classes
        if each.gold
    )
    mean = (translate_head('mean'), '', '', _share(confusion.macro_f1), '', '')
    heads = ('class', 'precision', 'recall', 'F1', 'gold', 'predicted')
    title = f'{confusion.dataset} × {confusion.model}: {translate_head("classes")}'
    return ReportTable(title, heads, (*rows, mean))


def _confusion_table(confusion: Confusion) -> ReportTable:
    labels = confusion.labels
    rows = tuple(
        (gold, *(f'{confusion.counts.get((gold, answer), 0):,}' for answer in labels))
        for gold in dict.fromkeys(gold for gold, _ in confusion.counts)
    )
    heads = ('gold ↓ answer →', *(label or 'none read' for label in labels))
    title = f'{confusion.dataset} × {confusion.model}: {translate_head("confusion")}'
    return ReportTable(title, heads, tuple(sorted(rows)), words=1)


def _share(share: float | None) -> str:
    return '–' if share is None else f'{100 * share:.1f}'


def describe_changes(changes: Sequence[SliceChange], left: RunReader) -> Iterator[str]:
    """Where the second run is worse or better than `left`, in a line each; the rest in one."""
    cards = {(card.dataset, card.model): card for card in reversed(left.scorecards())}
    sure = [change for change in changes if change.p is not None and change.p < _LEVEL]
    for change in sure:
        pair, difference = change.paired, change.paired.difference or 0.0
        card = cards.get((pair.dataset, pair.model_a))
        word = 'worse in' if (difference < 0) != (card is not None and card.lower_is_better) else 'better in'
        factor = 1 if card is None or not card.is_percent else 100
        p = '<0.001' if (change.p or 0) < 0.001 else f'= {change.p:.3f}'
        name = pair.model_a if pair.model_a == pair.model_b else f'{pair.model_a} → {pair.model_b}'
        yield (
            f'{pair.dataset} × {name}: {word} {change.column}={change.value}, {factor * difference:+.1f} on '
            f'{count_noun(pair.n, "row")}, p {p}'
        )
    others = len(changes) - len(sure)
    if not changes:
        yield 'the runs have no rows of the same dataset × model that these columns divide.'
        return
    yield f'{others:,} of {len(changes):,} slices without a difference beyond chance (p corrected by Holm).'
