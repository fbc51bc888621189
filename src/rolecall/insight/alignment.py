"""A log of another harness beside a run: rows aligned by content, and why the two may differ.

Harnesses number, name and shuffle rows differently. A row is found again by its columns, else by its prompt, else by
its longest text, which the other side's prompt must hold; where several do, by the most texts in common.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from rolecall.core.render.spans import Request, texts_of
from rolecall.insight.run_source import StoredRun
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import find_entries
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

_LONG_ENOUGH, _STRETCH = 8, 32
"""The fewest characters of a text that may match a row, and the length of the stretch used to look up longer ones."""
_MOST_ALIKE = 500
"""Rows with the same longest text, beyond which they are not told apart by their other texts."""
_SHOWN = 160


@dataclass(frozen=True)
class ContentRow:
    """A row with the texts it is matched by."""

    result: Result
    fields: Mapping[str, Any]
    text: str

    @property
    def key(self) -> str:
        return json.dumps(self.fields, sort_keys=True, default=repr) if self.fields else ''

    @property
    def texts(self) -> list[str]:
        return [value.strip() for value in self.fields.values() if isinstance(value, str)]

    @property
    def longest(self) -> str:
        return max(self.texts, key=len, default='')


class AlignedRun(StoredRun):
    """The left run with the datasets, row numbers and gold answers that the right one has for the same content."""

    def __init__(
        self,
        reader: RunReader,
        pairs: Sequence[tuple[ContentRow, ContentRow]],
        metrics: Mapping[str, str],
        names: Mapping[str, str],
        right_rows: Mapping[str, int],
    ) -> None:
        super().__init__(reader)
        self.reader = reader
        self.pairs = pairs
        self.names = names
        """The right run's name of each dataset."""
        self.right_rows = right_rows
        """How many rows the right run has of each of its datasets."""
        self._metrics = metrics

    def results(self) -> Iterator[Result]:
        """The matched rows, under the right run's numbers."""
        return map(_renumber, self.pairs)

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One of them."""
        match = self._by_key.get((dataset, model, row))
        return None if match is None else _renumber(match)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, int], tuple[ContentRow, ContentRow]]:
        return {
            (right.result.dataset, left.result.model, right.result.row): (left, right) for left, right in self.pairs
        }

    def light_results(self) -> Iterator[Result]:
        return self.results()

    def scorecards(self) -> list[Scorecard]:
        """The scores under the right run's names of datasets and metrics."""
        cards = []
        for card in super().scorecards():
            name = self.names.get(card.dataset)
            if name is not None:
                metric = self._metrics.get(name, card.metric) if card.is_percent else card.metric
                cards.append(replace(card, dataset=name, metric=metric))
        return cards


def _renumber(pair: tuple[ContentRow, ContentRow]) -> Result:
    """The left run's row, as the right one names it.

    Fingerprints of two harnesses never agree: a row has the right one's unless the prompts are known to differ.
    """
    left, right = pair
    differs = left.text and right.text and left.text != right.text
    mark = left.result.fingerprint if differs else right.result.fingerprint
    same = right.result
    return replace(left.result, dataset=same.dataset, row=same.row, gold=same.gold, fingerprint=mark)


def is_imported(run: RunReader) -> bool:
    """Whether a run directory was made from a log of another harness."""
    return isinstance(run.manifest().get('imported'), Mapping)


def align_runs(
    left: RunReader, right: RunReader, *, left_model: str | None = None, right_model: str | None = None
) -> AlignedRun:
    """The left run with its rows matched to the right one; of one model each, if models are named."""
    ours = rows_by_dataset(right, right_model)
    pairs, names = align_rows(rows_by_dataset(left, left_model), ours)
    metrics = {card.dataset: card.metric for card in reversed(right.scorecards()) if card.is_percent}
    return AlignedRun(left, pairs, metrics, names, {name: len(rows) for name, rows in ours.items()})


def align_rows(
    theirs: Mapping[str, Sequence[ContentRow]], ours: Mapping[str, Sequence[ContentRow]]
) -> tuple[list[tuple[ContentRow, ContentRow]], dict[str, str]]:
    """Rows of the left side with those of the right one that have the same content, and the right names of datasets."""
    pairs: list[tuple[ContentRow, ContentRow]] = []
    names: dict[str, str] = {}
    for dataset, rows in sorted(theirs.items(), key=lambda entry: entry[0] not in ours):
        matched = {name: _match(rows, others) for name, others in ours.items() if name not in names.values()}
        largest = max(matched, key=lambda name: len(matched[name]), default=None)
        best = dataset if matched.get(dataset) else largest
        if best is not None and matched[best]:
            names[dataset] = best
            pairs += matched[best]
    return pairs, names


def rows_by_dataset(run: RunReader, model: str | None, dataset: str | None = None) -> dict[str, list[ContentRow]]:
    """The rows of a run, with their columns and prompts."""
    rows: dict[str, list[ContentRow]] = {}
    for result in run.results(dataset, model):
        request: Request | None = run.request(result.fingerprint) if result.fingerprint else None
        text = '' if request is None else '\n'.join(texts_of(request).values())
        rows.setdefault(result.dataset, []).append(ContentRow(result, run.fields(result.dataset, result.row), text))
    return rows


def _match(left: Sequence[ContentRow], right: Sequence[ContentRow]) -> list[tuple[ContentRow, ContentRow]]:
    """Each model's rows with those of the model of the same name, else of the first model."""
    ours = _rows_by_model(right)
    first = next(iter(ours.values()), [])
    return [pair for model, rows in _rows_by_model(left).items() for pair in _match_model(rows, ours.get(model, first))]


def _rows_by_model(rows: Sequence[ContentRow]) -> dict[str, list[ContentRow]]:
    by_model: dict[str, list[ContentRow]] = {}
    for row in rows:
        by_model.setdefault(row.result.model, []).append(row)
    return by_model


def _match_model(left: Sequence[ContentRow], right: Sequence[ContentRow]) -> list[tuple[ContentRow, ContentRow]]:
    matches: dict[int, ContentRow] = {}
    free = {row.result.row: row for row in right}
    for name in ('key', 'text'):
        others = _number_equals(free.values(), name)
        for mark, row in _number_equals((row for row in left if id(row) not in matches), name).items():
            if mark in others:
                matches[id(row)] = free.pop(others[mark].result.row)
    for at, other in _find_by_text([row for row in left if id(row) not in matches], right).items():
        if free.pop(other.result.row, None) is not None:
            matches[at] = other
    return [(row, matches[id(row)]) for row in left if id(row) in matches]


def _number_equals(rows: Iterable[ContentRow], name: Literal['key', 'text']) -> dict[tuple[str, int], ContentRow]:
    """Rows by what they say, the first, second, … of equals."""
    seen: Counter[str] = Counter()
    numbered = {}
    for row in rows:
        if mark := getattr(row, name):
            seen[mark] += 1
            numbered[mark, seen[mark]] = row
    return numbered


def _find_by_text(rows: Sequence[ContentRow], others: Sequence[ContentRow]) -> dict[int, ContentRow]:
    """Match each row to the only other row whose prompt contains its longest text, or vice versa."""
    if not rows:
        return {}
    own, theirs = _LongestTexts(rows), _LongestTexts(others)
    holding: dict[int, list[ContentRow]] = {}
    for other in others:
        for row in own.held_by(other.text):
            holding.setdefault(id(row), []).append(other)
    matches = {}
    for row in rows:
        above, below = holding.get(id(row), []), theirs.held_by(row.text)
        both = {id(other) for other in above} & {id(other) for other in below}
        candidates = (above, below, [other for other in above if id(other) in both])
        if (only := next((same for same in candidates if len(same) == 1), None)) is not None:
            matches[id(row)] = only[0]
        elif (closest := _find_closest(row, above or below)) is not None:
            matches[id(row)] = closest
    return matches


def _find_closest(row: ContentRow, others: Sequence[ContentRow]) -> ContentRow | None:
    """Of rows with the same longest text, the one with the most other texts in common; of equals, the same number."""
    if not 1 < len(others) <= _MOST_ALIKE:
        return None
    shared = [
        sum(text in other.text for text in row.texts) + sum(text in row.text for text in other.texts)
        for other in others
    ]
    best = [other for other, count in zip(others, shared, strict=True) if count == max(shared)]
    return best[0] if len(best) == 1 else next((same for same in best if same.result.row == row.result.row), None)


class _LongestTexts:
    """The longest texts of rows, found in a prompt by a stretch of their middle, place by place."""

    def __init__(self, rows: Sequence[ContentRow]) -> None:
        self._by_stretch: dict[int, dict[str, list[tuple[str, ContentRow]]]] = {}
        for row in rows:
            text = row.longest
            if len(text) >= _LONG_ENOUGH:
                size = _STRETCH if len(text) >= _STRETCH else _LONG_ENOUGH
                start = (len(text) - size) // 2
                by_text = self._by_stretch.setdefault(size, {})
                by_text.setdefault(text[start : start + size], []).append((text, row))

    def held_by(self, prompt: str) -> list[ContentRow]:
        """The rows whose longest text is in a prompt."""
        matches: dict[int, ContentRow] = {}
        for size, by_text in self._by_stretch.items():
            for at in range(len(prompt) - size + 1):
                for text, row in by_text.get(prompt[at : at + size], ()):
                    if id(row) not in matches and text in prompt:
                        matches[id(row)] = row
        return list(matches.values())


def explain_differences(aligned: AlignedRun, right: RunReader) -> Iterator[str]:
    """How harness, settings, prompts and extraction differ, dataset by dataset."""
    left = aligned.reader
    for side, run in (('left', left), ('right', right)):
        imported = run.manifest().get('imported')
        made_by = (
            f'{imported["harness"]}, version {imported["version"]}' if isinstance(imported, Mapping) else 'rolecall'
        )
        yield f'{side}: made by {made_by}'
    for name in dict.fromkeys(aligned.names.values()):
        pairs = [(row, other) for row, other in aligned.pairs if other.result.dataset == name]
        missing = aligned.right_rows[name] - len({(other.result.model, other.result.row) for _, other in pairs})
        note = f'; {missing:,} of the right run have no counterpart' if missing > 0 else ''
        yield f'{name}: {count_noun(len(pairs), "row")} found again by content{note}'
        settings = list(_describe_settings(left, right, pairs))
        if len({text for _, text in settings}) == 1:
            yield '  settings: equal'
        else:
            yield from (f'  settings, {side}: {text}' for side, text in settings)
        yield from (f'  {line}' for line in _describe_prompts(pairs))
        yield from (f'  {line}' for line in _describe_extraction(pairs))


def _describe_settings(
    left: RunReader, right: RunReader, pairs: Sequence[tuple[ContentRow, ContentRow]]
) -> Iterator[tuple[str, str]]:
    for number, (side, run) in enumerate((('left', left), ('right', right))):
        result = pairs[0][number].result
        imported = run.manifest().get('imported')
        if isinstance(imported, Mapping):
            settings = (imported.get('settings') or {}).get(result.model)
            task = result.dataset.partition(',')[0]
            own = settings.get(task, settings) if isinstance(settings, Mapping) else settings
            yield side, json.dumps(own, ensure_ascii=False)[:400]
            continue
        entry = find_entries(run.config(), result.dataset)[0] or {}
        inferencer = (entry.get('infer_cfg') or {}).get('inferencer', 'not recorded')
        yield (
            side,
            f'{len(result.shots)} examples in the first row, inferencer {json.dumps(inferencer, default=repr)[:300]}',
        )


def _describe_prompts(pairs: Sequence[tuple[ContentRow, ContentRow]]) -> Iterator[str]:
    recorded = [(row, other) for row, other in pairs if row.text and other.text]
    if not recorded:
        yield 'prompts: not recorded on one side'
        return
    same = sum(row.text == other.text for row, other in recorded)
    yield f'prompts: {same:,} of {len(recorded):,} equal'
    for row, other in recorded:
        if row.text != other.text:
            at = next((i for i, (a, b) in enumerate(zip(row.text, other.text, strict=False)) if a != b), None)
            at = min(len(row.text), len(other.text)) if at is None else at
            start = max(0, at - _SHOWN // 4)
            yield f'  row {other.result.row}, left:  {row.text[start : start + _SHOWN]!r}'
            yield f'  row {other.result.row}, right: {other.text[start : start + _SHOWN]!r}'
            return


def _describe_extraction(pairs: Sequence[tuple[ContentRow, ContentRow]]) -> Iterator[str]:
    """Rows whose replies are equal and whose scores are not: only reading and scoring differ there."""
    if not any(result.replies for pair in pairs for result in (pair[0].result, pair[1].result)):
        yield 'replies: none; log-probabilities were compared, or replies are not recorded'
        return
    same = [(row.result, other.result) for row, other in pairs if row.result.replies == other.result.replies]
    if not any(row.replies for row, _ in same):
        yield 'replies: none are equal, so reading cannot be told apart from the model'
        return
    differ = [(row, other) for row, other in same if row.score != other.score]
    yield f'equal replies: {len(same):,} of {len(pairs):,}; scored differently: {len(differ):,}'
    for row, other in differ[:1]:
        reply = row.replies[0] if row.replies else ''
        yield f'  row {other.row}: {reply!r:.120} read as {row.extracted!r:.60} (left), {other.extracted!r:.60} (right)'
