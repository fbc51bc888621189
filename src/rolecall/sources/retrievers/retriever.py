"""The retriever protocol, what a retriever yields, and settings common to all retrievers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

from rolecall import errors
from rolecall.sources.datasets.rows import Row, Rows

Progress: TypeAlias = Callable[[int, 'int | None'], None]


import_extra = partial(errors.import_extra, extra='retrieve')
"""A module of an optional dependency, or the error that says which extra brings it."""


class ColumnReader(Protocol):
    """The columns that a retriever uses; `rolecall.sources.datasets.Reader` is one.

    It may also have an `input_template`: a string with `{column}` fields, a mapping that has one under `template`,
    or a callable from row to text. That is then the text searched, not the input columns joined with a space.
    """

    @property
    def input_columns(self) -> Sequence[str]: ...

    @property
    def output_column(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Picked:
    """The shots of one test row, in prompt order, and the candidates skipped because they are, or equal, that row."""

    ids: tuple[int, ...]
    skipped: tuple[int, ...] = ()


@runtime_checkable
class Retriever(Protocol):
    """Chooses the training rows that become the shots of each test row."""

    @property
    def ice_num(self) -> int:
        """How many shots a row asks for."""

    @property
    def ice_separator(self) -> str:
        """The text between two shots of a string prompt."""

    @property
    def ice_eos_token(self) -> str:
        """The text after the last shot of a string prompt."""

    @property
    def fixed(self) -> bool:
        """Whether every test row gets the same shots, apart from those skipped."""

    def retrieve(
        self,
        train: Rows,
        test: Iterable[Row],
        *,
        reader: ColumnReader,
        same_split: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Picked]:
        """One `Picked` per test row, in order. `same_split` says that test row i is training row i.

        Raises before the first row if the settings do not fit the training set. `progress` receives the number of
        rows done and the total: test rows, plus training rows where they are indexed.
        """
