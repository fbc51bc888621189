"""Labels from outside: ratings and verdicts in a table, joined with the rows of a run by number or by content."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rolecall.errors import DataError, did_you_mean
from rolecall.experiment.opening.loading import list_rows
from rolecall.insight.calibration import collect_labels
from rolecall.insight.strata import queue_rows, stratify
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.labels import LABELS, Decision, Labels, RowKey, Value, digest_replies
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.sources.datasets.formats import FileOptions, open_file
from rolecall.strings import count_noun

_LABEL_COLUMNS = ('label', 'labels', 'verdict', 'votes', 'rating', 'score', 'preference')
_PERSON_COLUMNS = ('by', 'annotator', 'rater', 'person', 'worker')
PLACE = ('dataset', 'model', 'row')
_WORDS = {
    'correct': ('correct', 'right', 'true', 'yes', 'good', 'pass', 'passed', '1', '1.0', '正确', '对', '是'),
    'wrong': ('wrong', 'incorrect', 'false', 'no', 'bad', 'fail', 'failed', '0', '0.0', '错误', '错', '否'),
    **{name: (name,) for name in ('win', 'tie', 'loss')},
}
_LABEL_OF = {word: label for label, words in _WORDS.items() for word in words}
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Where a table holds labels, and how they are read. What is left out is found by the names of columns."""

    label: Sequence[str] | str = ()
    """Columns with labels; several are several people, named after their columns."""
    by: str = ''
    """The column with the person."""
    on: Sequence[str] | str = ()
    """Columns that say which row is meant."""
    scale: tuple[float, float] | None = None
    """The lowest and the highest rating, which become 0 and 1."""
    correct_from: float | None = None
    """Ratings from here on are correct, others wrong."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Labels by what the table says instead."""
    dataset: str = ''
    model: str = ''
    encoding: str = 'utf-8'


class Joined(NamedTuple):
    """How many labels were added, on how many rows, by how many people; how many changed; what could not be joined."""

    labels: int
    rows: int
    people: int
    changed: int
    problems: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """The same in sentences."""
        people = f' by {count_noun(self.people, "person")}'.replace('persons', 'people')
        yield f'{count_noun(self.labels, "label")} on {count_noun(self.rows, "row")}{people} added.'
        if self.changed:
            yield f'{count_noun(self.changed, "earlier label")} by the same people replaced.'
        if self.problems:
            yield f'{count_noun(len(self.problems), "line")} left out:'
            yield from (f'  {problem}' for problem in self.problems[:_SHOWN])


def read_label_table(source: Any, encoding: str = 'utf-8') -> list[Mapping[str, Any]]:
    """The records of a file, a frame or a list; of a run directory, its labels with the content of their rows."""
    if not isinstance(source, str | Path):
        return list_rows(source)
    is_run = (Path(source) / FILE).is_file()
    return list(_labels_of_run(Path(source)) if is_run else open_file(source, FileOptions(encoding=encoding)))


def _labels_of_run(directory: Path) -> Iterator[Mapping[str, Any]]:
    with RunReader(directory) as run:
        for (dataset, model, row), decisions in Labels(directory).by_row().items():
            content = {'dataset': dataset, 'model': model, **_content(run, (dataset, model, row))}
            for by, decision in decisions.items():
                if decision.is_about(run.result(dataset, model, row)):
                    yield content | {'label': decision.value, 'by': by}


def join_labels(directory: str | Path, source: Any, columns: LabelColumns | None = None) -> Joined:
    """Add the labels of a table to a run. Nothing is added if the table cannot be read as labels."""
    columns = columns or LabelColumns()
    records = read_label_table(source, columns.encoding)
    if not records:
        raise DataError(f'{source}: the table is empty.')
    with RunReader(directory) as run:
        percent = {(card.dataset, card.model): card.is_percent for card in run.scorecards()}
        joiner = _Joiner(run, records, columns)
        decisions: dict[tuple[RowKey, str], Decision] = {}
        unnamed = Counter[RowKey]()
        problems = []
        for number, record in enumerate(records, start=1):
            matches = joiner.find(record)
            if len(matches) != 1:
                problems.append(f'{number}: {joiner.describe(record, matches)}')
                continue
            key = key_of(matches[0])
            for by, value in joiner.votes(record):
                try:
                    label = _read_label(value, columns, percent.get(key[:2], True))
                except DataError as error:
                    raise DataError(f'record {number}: {error}') from error
                if label is None:
                    continue
                unnamed[key] += not by  # a second label of a row without a name is another person's
                name = by or f'{unnamed[key]}' * (unnamed[key] > 1)
                decision = Decision(label, digest_replies(matches[0]))
                if decisions.get((key, name), decision) != decision:
                    problems.append(f'{number}: {name} labels a row again; the earlier label does not count.')
                decisions[key, name] = decision
        labels = Labels(Path(directory))
        stored = labels.by_row()
        changed = sum(stored.get(key, {}).get(by, new).value != new.value for (key, by), new in decisions.items())
        labels.add_all((key, by, decision) for (key, by), decision in decisions.items())
    rows, people = (len({*names}) for names in zip(*decisions, strict=True)) if decisions else (0, 0)
    return Joined(len(decisions), rows, people, changed, tuple(problems))


def select_pairs(run: RunReader, dataset: str = '', model: str = '') -> list[tuple[str, str]]:
    """The pairs of a run with this dataset and model; an empty name stands for all."""
    pairs = run.pairs()
    for kind, name, names in zip(('dataset', 'model'), (dataset, model), zip(*pairs, strict=True), strict=False):
        if name and name not in names:
            raise DataError(f'the run has no {kind} {name!r}. {did_you_mean(name, dict.fromkeys(names))}')
    return [pair for pair in pairs if dataset in ('', pair[0]) and model in ('', pair[1])]


def rows_to_label(
    run: RunReader, length: int, pairs: Sequence[tuple[str, str]] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows that narrow the intervals of a run's scores most, as a table with an empty column for labels."""
    labelled, _ = collect_labels(run, Labels(run.directory))
    strata = {pair: rows for pair, rows in stratify(run).items() if pairs is None or pair in pairs}
    keys = queue_rows(strata, {key: entry.label for key, entry in labelled.items()}, length)
    contents = [{name: value for name, value in _content(run, key).items() if name != 'prediction'} for key in keys]
    names = dict.fromkeys(name for content in contents for name in content if name not in PLACE)
    for key, content in zip(keys, contents, strict=True):
        place = dict(zip(PLACE, key, strict=True))
        yield place | {name: content.get(name) for name in names} | {'label': '', 'by': ''}


def key_of(result: Result) -> RowKey:
    """What labels are filed under."""
    return result.dataset, result.model, result.row


class _Joiner:
    """Finds the row of the run that a record is about."""

    def __init__(self, run: RunReader, records: Sequence[Mapping[str, Any]], columns: LabelColumns) -> None:
        self._run = run
        names = dict.fromkeys(name for record in records for name in record)
        self._labels = _list(columns.label) or [name for name in _LABEL_COLUMNS if name in names][:1]
        self._by = columns.by or next((name for name in names if name in _PERSON_COLUMNS), '')
        on = _list(columns.on)
        missing = [name for name in (*self._labels, *on, *filter(None, [columns.by])) if name not in names]
        if missing or not self._labels:
            what = f'no column {missing[0]!r}' if missing else f'no column of labels ({", ".join(_LABEL_COLUMNS)})'
            raise DataError(f'{what}. The table has {", ".join(names)}. Name it: --label, --by, --on.')
        self._pairs = select_pairs(run, columns.dataset, columns.model)
        taken = {*self._labels, self._by, *PLACE}
        self._implied = ('dataset', 'model', 'reply')[: 2 if on else 3]
        self._on = on or (['row'] if 'row' in names else self._find_common(names, taken))
        self._index = self._build_index() if self._on != ['row'] else {}

    def votes(self, record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Who says what in a record. A list is one vote of each person."""
        for name in self._labels:
            value: Any = record.get(name)
            person = str(record.get(self._by) or '') if self._by else name if len(self._labels) > 1 else ''
            if isinstance(value, str) and value.startswith('['):
                with suppress(ValueError):
                    value = json.loads(value)
            if hasattr(value, 'tolist'):  # of numpy
                value = value.tolist()
            if isinstance(value, list | tuple):
                yield from ((f'{name} {place}', vote) for place, vote in enumerate(value, 1))
            else:
                yield person, value

    def find(self, record: Mapping[str, Any]) -> list[Result]:
        """The rows that a record may be about."""
        content = tuple(_plain(record.get(name)) for name in self._on)
        keys: Iterable[RowKey] = self._index.get(content, ())
        if self._on == ['row']:
            keys = [(*pair, int(content[0])) for pair in self._pairs if content[0].isdecimal()]
        results = [self._run.result(*key) for key in keys]
        return [result for result in results if result is not None and self._fits(record, result)]

    def _fits(self, record: Mapping[str, Any], result: Result) -> bool:
        """Whether a record names this dataset, model and reply, or none."""
        names = [result.dataset], [result.model], ['\n'.join(result.replies), digest_replies(result)]
        entries = [(_plain(record.get(name) or ''), own) for name, own in zip(self._implied, names, strict=False)]
        return all(entry in ('', 'NaN', *map(_plain, own)) for entry, own in entries)

    def describe(self, record: Mapping[str, Any], matches: Sequence[Result]) -> str:
        """Why a record belongs to no row."""
        wanted = dict.fromkeys([*self._on, *(name for name in self._implied if record.get(name))])
        content = ', '.join(f'{name} {_plain(record.get(name))!r:.60}' for name in wanted)
        if not matches:
            return f'no row of the run has {content}. --on chooses the columns that have to be equal.'
        names = ', '.join(f'{result.dataset} × {result.model}' for result in matches[:_SHOWN])
        pairs = len({(result.dataset, result.model) for result in matches})
        advice = 'Name --dataset, --model or more columns with --on.' if pairs > 1 else 'Name more columns with --on.'
        return f'{len(matches)} rows have {content} ({names}). {advice}'

    def _find_common(self, names: Iterable[str], taken: set[str]) -> list[str]:
        """The columns of the table that the run's rows have, too."""
        first = next((result for pair in self._pairs for result in self._run.results(*pair)), None)
        content = {} if first is None else {'reply': '', **self._run.fields(first.dataset, first.row)}
        common = [name for name in names if name in content and name not in taken]
        if not common:
            has = f'The rows of the run have row, {", ".join(content)}.'
            raise DataError(f'no column of the table says which row is meant. {has} Name columns with --on.')
        return common

    def _build_index(self) -> dict[tuple[str, ...], list[RowKey]]:
        index: dict[tuple[str, ...], list[RowKey]] = defaultdict(list)
        for pair in self._pairs:
            for result in self._run.results(*pair):
                content = _content(self._run, result) | {'row': result.row}
                index[tuple(_plain(content.get(name)) for name in self._on)].append(key_of(result))
        return index


def _content(run: RunReader, row: Result | RowKey) -> dict[str, Any]:
    """What a row can be recognised by: the dataset's columns, the reply and the answer."""
    result = row if isinstance(row, Result) else run.result(*row)
    if result is None:
        return {}
    texts = {'gold': result.gold, 'prediction': result.prediction, 'reply': '\n'.join(result.replies)}
    return dict(run.fields(result.dataset, result.row)) | texts


def _list(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # a column of numbers with a gap in it
        value = int(value)
    return ' '.join(value.split()) if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _read_label(value: Any, columns: LabelColumns, percent: bool) -> Value:
    """A label as it is stored; None for an empty cell."""
    text = '' if str(value) in ('None', 'nan', 'NaN', 'NaT', '<NA>') else str(value).strip()
    label = columns.words.get(text) or columns.words.get(text.removesuffix('.0')) or text
    if not label:
        return None
    if not percent and (label in LABELS or columns.scale or columns.correct_from is not None):
        raise DataError(f'the score is a rating: use numbers on its scale, without conversion; got {text!r:.40}.')
    if label in LABELS:
        return label
    number = None
    with suppress(ValueError):
        number = float(label)
    if number is not None and columns.correct_from is not None:
        return 'correct' if number >= columns.correct_from else 'wrong'
    if number is not None and columns.scale is not None:
        low, high = columns.scale
        if not low <= number <= high:
            raise DataError(f'the label {text!r:.40} is not on the scale {low:g}:{high:g}.')
        return (number - low) / (high - low)
    word = _LABEL_OF.get(label.lower())
    if word is not None and percent:
        return word
    if number is None or (percent and not 0 <= number <= 1):
        words = f'Use {", ".join(LABELS)}, or say what it means'
        raise DataError(f'unknown label {label!r:.40}. {words}: --map X=correct, --scale 1:5, --correct-from 4.')
    return number
