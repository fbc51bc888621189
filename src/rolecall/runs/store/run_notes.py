"""What people write about a run: a name, a note and tags, kept in `notes.json` in the run directory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.runs.atomic import read_run_json, write_run_json
from rolecall.runs.store.codec import storable

_FILE = 'notes.json'
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
            record = read_run_json(directory / _FILE)
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
        write_run_json(directory / _FILE, asdict(self))

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
