"""The meter of a rendering: how much work, memory and time a chat template has left, and how large its values are.

A step is about the time of a short expression, a character about the memory it leaves. Operations are charged before
they run, so one that is too large never starts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import chain
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any, NoReturn

from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.utils import Namespace

MAX_SECONDS = 20
"""The wall-clock guard behind the meter: nothing legitimate comes near it."""
MAX_DEPTH = 100
MAX_DIGITS = 4_200  # Python prints up to 4,300
MAX_BITS = MAX_DIGITS * 10 // 3
NODE_CHARS = 8
PART_CHARS = 64
STEPS_PER_NODE = 2

_STEPS_BETWEEN_CHECKS = 1 << 14
_ATOMS = frozenset({str, bytes, int, float, bool, type(None), range})
_ADDRESSED = (FunctionType, BuiltinFunctionType, MethodType, GeneratorType)


class WorkExceededError(TemplateRuntimeError):
    """A template exceeded its budget."""


class WorkMeter:
    """The budget of one rendering: everything inside `with WorkMeter(…):` is charged to it.

    `steps` is a small advance on the steps that are left; whenever it is used up, `settle` looks at the clock and hands
    out the next one.
    """

    __slots__ = ('_deadline', '_outer', '_reserve', 'chars', 'max_chars', 'max_steps', 'steps')

    def __init__(self, max_steps: int, max_chars: int, *, max_seconds: float = MAX_SECONDS) -> None:
        self.max_steps = max_steps
        self.chars = self.max_chars = max_chars
        self.steps = max_steps if max_steps < _STEPS_BETWEEN_CHECKS else _STEPS_BETWEEN_CHECKS
        self._reserve = max_steps - self.steps
        self._deadline = time.monotonic() + max_seconds

    def __enter__(self) -> None:
        self._outer = METER.set(self)

    def __exit__(self, *_: object) -> None:
        METER.reset(self._outer)

    def spend(self, chars: int, steps: int) -> None:
        """Charge characters and steps, or raise."""
        self.chars -= chars
        self.steps -= steps + (chars >> 6)
        if self.chars < 0 or self.steps < 0:
            self.settle()

    def settle(self) -> None:
        """Raise if the budget is exceeded; otherwise take the next advance."""
        if self.chars < 0:
            self._stop(f'it makes more than {self.max_chars:,} characters')
        if self.steps_left < 0:
            self._stop(f'it takes more than {self.max_steps:,} steps')
        if time.monotonic() > self._deadline:
            self._stop('it runs for too long')
        advance = min(self._reserve, _STEPS_BETWEEN_CHECKS - self.steps)
        self.steps += advance
        self._reserve -= advance

    def _stop(self, why: str) -> NoReturn:
        raise WorkExceededError(why)

    @property
    def steps_left(self) -> int:
        """The steps that may still be taken."""
        return self.steps + self._reserve


METER: ContextVar[WorkMeter] = ContextVar('meter')


def spend(chars: int, steps: int = 2) -> None:
    """Charge the current rendering."""
    METER.get().spend(chars, steps)


def check_number(value: Any) -> Any:
    """The value itself; raise if it is a number with too many digits to print."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise WorkExceededError(f'it computes a number of more than {MAX_DIGITS:,} digits')
    return value


def size_of(value: object, *, printed: bool = True) -> int:
    """About how many characters the text of a value takes. Each item inside it costs a step.

    Raises where that text would contain a memory address, unless the value is not `printed` but only looked at.

    >>> with WorkMeter(1000, 1000):
    ...     size_of('four'), size_of(['four', {'a': 1}])
    (4, 46)
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, range):
        spend(0, STEPS_PER_NODE * len(value))
        return NODE_CHARS * len(value)
    if value is None or isinstance(value, (bool, float)):
        return 1
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if printed:
        _check_printable(value)
    inner = _items_of(value)
    return 1 if inner is None else _measure_items(inner, printed=printed)[0]


def measure(value: object) -> tuple[int, int]:
    """The size of a printed value, and how many levels of containers it has."""
    if type(value) in _ATOMS or (inner := _items_of(value)) is None:
        return size_of(value), 0
    _check_printable(value)
    return _measure_items(inner, printed=True)


def _items_of(value: object) -> Iterator[object] | None:
    """The values inside a container, keys included; None if it is not a container."""
    if isinstance(value, (list, tuple)):
        return iter(value)
    if type(value) in _ATOMS:
        return None
    if isinstance(value, Namespace):
        return chain.from_iterable(value._Namespace__attrs.items())
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    return iter(value) if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else None


def _measure_items(first: Iterator[object], *, printed: bool) -> tuple[int, int]:
    meter = METER.get()
    total, nodes, most = NODE_CHARS, 0, meter.steps_left // STEPS_PER_NODE
    levels, depth = [first], 1
    while levels and nodes <= most and total <= meter.chars:
        for value in levels[-1]:
            nodes += 1
            if type(value) is str:
                total += NODE_CHARS + len(value)
            elif type(value) in _ATOMS:
                total += NODE_CHARS + breadth_of(value)
            else:
                if printed:
                    _check_printable(value)
                total += NODE_CHARS
                if (inner := _items_of(value)) is None:
                    total += breadth_of(value)
                    continue
                levels.append(inner)
                break
        else:
            levels.pop()
        depth = max(depth, len(levels))
        if depth > MAX_DEPTH:
            raise WorkExceededError(f'it nests values more than {MAX_DEPTH} deep')
    meter.spend(0, STEPS_PER_NODE * nodes)
    return total, depth


def _check_printable(value: object) -> None:
    """Raise if the text of a value contains its memory address, which differs from run to run."""
    kind = type(value)
    if isinstance(value, _ADDRESSED) or (kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__):
        raise SecurityError(f'it prints a {kind.__name__}, whose text is a memory address')


def breadth_of(value: object) -> int:
    """How many items or characters a value has, without looking inside the items."""
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    try:
        return len(value)  # type: ignore[arg-type]  # a value without a length counts as one
    except TypeError:
        return 1


def charge_each(items: Iterable[Any], steps: int = 2) -> Iterator[Any]:
    """The same items, each charged when it is taken."""
    meter = METER.get()
    for item in items:
        meter.spend(NODE_CHARS, steps)
        yield item


def materialize(items: Any) -> Any:
    """A list in place of an iterator, whose length is unknown."""
    return list(charge_each(items)) if isinstance(items, Iterator) else items
