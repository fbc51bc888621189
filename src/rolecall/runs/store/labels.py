"""What people decide about a run's rows, kept in `labels.jsonl` in its directory, and write about it, in `notes.json`.

A line is a *label*, the mark that a row deserves, or an *answer*, what its reply says. Several people may decide about
a row; of each person the newest line counts. A decision belongs to the reply that it was made about.
"""

from __future__ import annotations

import hashlib
import json
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from rolecall.errors import ConfigError, DataError, Problem, RunError
from rolecall.runs.atomic import read_run_json, write_run_json
from rolecall.runs.store.codec import storable
from rolecall.runs.store.directory import LABELS_FILE
from rolecall.runs.store.results import Result

LABELS: Mapping[str, float] = {'correct': 1.0, 'wrong': 0.0, 'win': 1.0, 'tie': 0.5, 'loss': 0.0}
"""The labels that are words, with their marks; others are numbers on the scale of the score."""
Kind = Literal['label', 'answer']
KINDS: tuple[Kind, ...] = ('label', 'answer')
_LARGEST = 256 << 20
_LONGEST_NAME = 80

RowKey = tuple[str, str, int]
"""A dataset, a model and the number of a row."""
Value = str | float | None
"""A label, or an answer; as an answer, None says that the reply gives none."""


class Decision(NamedTuple):
    """What a person decided about a row, and a digest of the reply that it is about."""

    value: Value
    reply: str = ''

    def is_about(self, result: Result | None) -> bool:
        """Whether the row still has that reply."""
        return result is not None and self.reply in ('', digest_replies(result))


def digest_replies(result: Result) -> str:
    """A short digest of what a row's model replied."""
    return hashlib.sha256(json.dumps(result.replies or result.prediction, default=str).encode()).hexdigest()[:12]


def mark_of(label: Value) -> float:
    """The mark that a label stands for.

    >>> mark_of('correct'), mark_of('tie'), mark_of(7.5)
    (1.0, 0.5, 7.5)
    """
    return LABELS[label] if isinstance(label, str) else float(label or 0.0)


def settle(labels: Sequence[Value]) -> Value:
    """What most people say, or the mean of their numbers; None where as many say one thing as another.

    >>> settle(['correct', 'wrong', 'correct']), settle(['correct', 'wrong']), settle([3.0, 4.0])
    ('correct', None, 3.5)
    """
    if labels and all(isinstance(label, float) for label in labels):
        return fmean(map(mark_of, labels))
    (first, most), *others = Counter(labels).most_common(2) or [(None, 0)]
    return None if others and others[0][1] == most else first


class Labels:
    """The labels of one run, or its answers. What another process appends is read, too."""

    def __init__(self, directory: Path, kind: Kind = 'label') -> None:
        self._file = directory / LABELS_FILE
        self._kind = kind
        self._decisions: dict[RowKey, dict[str, Decision]] = {}
        self._state = (0, 0)

    def by_row(self) -> Mapping[RowKey, Mapping[str, Decision]]:
        """The decisions about every row that has some, by person."""
        self._read_changes()
        return self._decisions

    def items(self) -> Iterator[tuple[RowKey, Value]]:
        """Every row with what most people say; without rows on which they are divided."""
        for key, decisions in self.by_row().items():
            value = settle([decision.value for decision in decisions.values()])
            if value is not None or self._kind == 'answer':
                yield key, value

    def add(self, key: RowKey, value: Value, *, by: str = '', result: Result | None = None) -> None:
        """Keep what a person decides about a row; an empty text takes it back."""
        self.add_all([(key, by, Decision(value, digest_replies(result) if result else ''))])

    def add_all(self, decisions: Iterable[tuple[RowKey, str, Decision]]) -> None:
        """Keep what people decide about rows."""
        records = []
        for (dataset, model, row), by, (value, reply) in decisions:
            if self._kind == 'label' and not (value in (*LABELS, '') or isinstance(value, int | float)):
                raise DataError(f'expected a label of {", ".join(LABELS)}, a number, or none; got {value!r:.40}.')
            place = {'dataset': dataset, 'model': model, 'row': row, 'by': by[:_LONGEST_NAME]}
            records.append(json.dumps(place | {self._kind: value, 'reply': reply}) + '\n')
        if not records:
            return
        self._refuse_others()
        try:
            with open(self._file, 'a', encoding='utf-8') as stream:
                stream.writelines(records)
        except OSError as error:
            raise RunError(f'{self._file}: cannot be written: {error.strerror or error}.') from error
        self._read_changes()

    def _read_changes(self) -> None:
        """Read the file again if it has changed."""
        try:
            status = self._file.lstat()
            state = status.st_size, status.st_mtime_ns
            if state == self._state or not stat.S_ISREG(status.st_mode):
                return
            if status.st_size > _LARGEST:
                raise RunError(
                    f'{self._file}: has {state[0]:,} bytes, more than labels can take. Remove or shorten it.'
                )
            *lines, _ = self._file.read_bytes().split(b'\n')  # a line that is being written has no end yet
        except OSError:
            return
        self._decisions, self._state = {}, state
        for line in lines:
            self._read_line(line.decode('utf-8', 'replace'))

    def _read_line(self, line: str) -> None:
        try:
            record = json.loads(line)
            key = (storable(str(record['dataset'])), storable(str(record['model'])), int(record['row']))
            value = storable(record[self._kind]) if isinstance(record[self._kind], str) else record[self._kind]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        by, people = storable(str(record.get('by') or '')), self._decisions.setdefault(key, {})
        if self._is_valid(value):
            people[by] = Decision(float(value) if isinstance(value, int) else value, str(record.get('reply') or ''))
        else:
            people.pop(by, None)
        if not people:
            del self._decisions[key]

    def _is_valid(self, value: Any) -> bool:
        if self._kind == 'answer':
            return value is None or (isinstance(value, str) and value != '')
        if isinstance(value, str):
            return value in LABELS
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max

    def _refuse_others(self) -> None:
        """Refuse to write to anything but a regular file of this run: the directory may come from elsewhere."""
        try:
            status = self._file.lstat()
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise RunError(f'{self._file}: a link, or not a regular file. Run directories hold neither; remove it.')


def copy_decisions(source: Path, target: Path) -> None:
    """Add the labels and answers of one run directory to those of another."""
    for kind in KINDS:
        stored = Labels(target, kind)
        stored.add_all(
            (key, by, decision)
            for key, decisions in Labels(source, kind).by_row().items()
            for by, decision in decisions.items()
            if stored.by_row().get(key, {}).get(by) != decision
        )


_NOTES_FILE = 'notes.json'
_LONGEST = {'name': 120, 'note': 10_000, 'tag': 60}


@dataclass(frozen=True, slots=True)
class RunNotes:
    """The name, the note and the tags of a run; all of them empty at first."""

    name: str = ''
    note: str = ''
    tags: tuple[str, ...] = ()

    @classmethod
    def read(cls, directory: Path) -> RunNotes:
        """The notes of a run; empty if it has none that can be read."""
        with suppress(TypeError, LookupError):
            record = read_run_json(directory / _NOTES_FILE)
            name, note = (storable(str(record[kind]))[: _LONGEST[kind]] for kind in ('name', 'note'))
            return cls(name, note, tuple(storable(str(tag))[: _LONGEST['tag']] for tag in record['tags']))
        return cls()

    def change(
        self, *, name: str | None = None, note: str | None = None, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> RunNotes:
        """The notes with another name or note (None leaves it), and with tags added or removed.

        >>> RunNotes(tags=('draft',)).change(name='baseline', add=['paper'], remove=['draft'])
        RunNotes(name='baseline', note='', tags=('paper',))
        """
        added = [tag.strip() for tag in add if tag.strip()]
        texts = {'name': [name or ''], 'note': [note or ''], 'tag': added}
        for kind, most in _LONGEST.items():
            if any(len(text) > most for text in texts[kind]):
                raise ConfigError(Problem(kind, f'longer than {most:,} characters.'))
        tags = tuple(tag for tag in dict.fromkeys((*self.tags, *added)) if tag not in set(remove))
        return replace(
            self,
            name=self.name if name is None else ' '.join(name.split()),
            note=self.note if note is None else note.strip(),
            tags=tags,
        )

    def write(self, directory: Path) -> None:
        """Keep the notes with a run."""
        write_run_json(directory / _NOTES_FILE, asdict(self))

    def as_json(self) -> dict[str, Any]:
        """The notes in plain values."""
        return {**asdict(self), 'tags': list(self.tags)}


def matches_words(words: str, texts: Iterable[str]) -> bool:
    """Whether every word is in one of the texts, in upper or lower case.

    >>> matches_words('gpt gsm', ['runs/gsm8k', 'GPT-4.1']), matches_words('llama', ['runs/gsm8k'])
    (True, False)
    """
    lowered = [text.lower() for text in texts]
    return all(any(word in text for text in lowered) for word in words.lower().split())
