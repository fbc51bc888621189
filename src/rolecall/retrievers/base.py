"""What every retriever shares: the protocol, what it hands out, and its checked settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from rolecall import errors
from rolecall.errors import ConfigError, Problem

__all__ = ['Meter', 'Picked', 'Progress', 'Reader', 'Retriever', 'Row', 'Rows', 'Settings', 'needed', 'no_examples']

Row: TypeAlias = Mapping[str, Any]
Progress: TypeAlias = Callable[[int, 'int | None'], None]


class Rows(Protocol):
    """The training rows: a list, or any source that can count its rows and give one by its index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...

    def __iter__(self) -> Iterator[Row]: ...


needed = partial(errors.needed, extra='retrieve')
"""A module of an optional dependency, or the error that says which extra brings it."""


class Reader(Protocol):
    """What a retriever needs to know about columns; `rolecall.datasets.Reader` is one.

    It may also have an `input_template`: a string with `{column}` fields, a mapping that has one under `template`,
    or a callable from row to text. That is then the text searched, not the input columns joined with a space.
    """

    @property
    def input_columns(self) -> Sequence[str]: ...

    @property
    def output_column(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Picked:
    """The shots of one test row, in prompt order, and the rows passed over because they are, or equal, that row."""

    ids: tuple[int, ...]
    skipped: tuple[int, ...] = ()


@runtime_checkable
class Retriever(Protocol):
    """Says which training rows become the shots of each test row."""

    @property
    def ice_num(self) -> int:
        """How many shots a row asks for."""

    @property
    def ice_separator(self) -> str:
        """What stands between two shots of a string prompt."""

    @property
    def ice_eos_token(self) -> str:
        """What stands after the last shot of a string prompt."""

    @property
    def fixed(self) -> bool:
        """Whether every test row gets the same shots, apart from those skipped."""

    def retrieve(
        self,
        train: Rows,
        test: Iterable[Row],
        *,
        reader: Reader,
        same_split: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Picked]:
        """One `Picked` per test row, in order. `same_split` says that test row i is training row i.

        Settings that cannot work with this training set raise here, before the first row. `progress` is told how
        many rows have been gone through, of how many: the test rows, and the training rows where they are indexed.
        """


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings all retrievers have, and the check of all settings that are numbers or texts."""

    ice_separator: str = field(default='\n', kw_only=True)
    ice_eos_token: str = field(default='\n', kw_only=True)
    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = tuple(self.problems())
        if problems:
            raise ConfigError(problems)

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with the settings that can be seen without data."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type == 'str' and not isinstance(value, str):
                yield Problem(setting.name, f'{value!r} is not a text.')
            if setting.type == 'float' and not isinstance(value, (int, float)):
                yield Problem(setting.name, f'{value!r} is not a number.')
            if setting.type == 'int' and (type(value) is not int or not 0 <= value < 2**32):
                yield Problem(setting.name, f'{value!r} is not a whole number from 0 to 4294967295.')


def no_examples(test: Iterable[Row], progress: Progress | None) -> Iterator[Picked]:
    """What every retriever hands out when it is asked for none."""
    nothing = Picked(())
    return Meter(progress, test).counted(nothing for _ in test)


class Meter:
    """Adds up finished work and reports it; the total is unknown if that of a part is."""

    def __init__(self, progress: Progress | None, *parts: Iterable[Any]) -> None:
        self.progress = progress
        self.done = 0
        sizes = [len(part) for part in parts if isinstance(part, Sized)]
        self.total = sum(sizes) if len(sizes) == len(parts) else None

    def add(self, amount: int = 1) -> None:
        self.done += amount
        if self.progress is not None and amount:
            self.progress(self.done, self.total)

    def counted(self, picks: Iterable[Picked]) -> Iterator[Picked]:
        for picked in picks:
            self.add()
            yield picked
