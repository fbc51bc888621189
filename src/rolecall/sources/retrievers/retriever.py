"""The retriever protocol, what a retriever yields, and settings common to all retrievers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from rolecall import errors
from rolecall.errors import ConfigError, Problem
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


@dataclass(frozen=True, slots=True)
class RetrieverSettings:
    """Settings common to all retrievers, with type checks for numbers and strings."""

    ice_separator: str = field(default='\n', kw_only=True)
    ice_eos_token: str = field(default='\n', kw_only=True)
    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = tuple(self.problems())
        if problems:
            raise ConfigError(problems)

    def problems(self) -> Iterator[Problem]:
        """Problems that can be found without data."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type == 'str' and not isinstance(value, str):
                yield Problem(setting.name, f'{value!r} is not a string.')
            if setting.type == 'float' and not isinstance(value, (int, float)):
                yield Problem(setting.name, f'{value!r} is not a number.')
            if setting.type == 'int' and (type(value) is not int or not 0 <= value < 2**32):
                yield Problem(setting.name, f'{value!r} is not a whole number from 0 to 4294967295.')


def pick_nothing(test: Iterable[Row], progress: Progress | None) -> Iterator[Picked]:
    """Yield an empty `Picked` for every test row."""
    nothing = Picked(())
    return ProgressCounter(progress, test).track(nothing for _ in test)


class ProgressCounter:
    """Count finished rows and report progress; the total is None if any part has no length."""

    def __init__(self, progress: Progress | None, *parts: Iterable[Any]) -> None:
        self.progress = progress
        self.done = 0
        sizes = [len(part) for part in parts if isinstance(part, Sized)]
        self.total = sum(sizes) if len(sizes) == len(parts) else None

    def add(self, amount: int = 1) -> None:
        self.done += amount
        if self.progress is not None and amount:
            self.progress(self.done, self.total)

    def track(self, picks: Iterable[Picked]) -> Iterator[Picked]:
        for picked in picks:
            self.add()
            yield picked
