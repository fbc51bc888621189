"""What a template's operations cost, charge_each before they are done.

A step is about the time a short expression takes; a character is what it leaves in memory. Every cost is an
upper bound, so that an operation which would be too large is refused and never begun. What is in no table here
is priced as the product of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any, NoReturn

from jinja2.exceptions import TemplateRuntimeError

__all__ = ['METER', 'WorkExceededError', 'WorkMeter', 'charge_each', 'charge_filter', 'charge_method', 'size', 'spend']

MAX_DEPTH = 100
MAX_BITS = 14_000  # as long as Python still prints a number
NODE_CHARS = 8
PART_CHARS = 64
STEPS_PER_NODE = 2

_ATOMS = frozenset({str, bytes, int, float, bool, type(None), range})


class WorkExceededError(TemplateRuntimeError):
    """A template asked for more than it may have."""


class WorkMeter:
    """What is left to one rendering: all that happens inside `with WorkMeter(…):` is charged to it."""

    __slots__ = ('_outer', 'chars', 'max_chars', 'max_steps', 'steps')

    def __init__(self, max_steps: int, max_chars: int) -> None:
        self.steps = self.max_steps = max_steps
        self.chars = self.max_chars = max_chars

    def __enter__(self) -> None:
        self._outer = METER.set(self)

    def __exit__(self, *_: object) -> None:
        METER.reset(self._outer)

    def spend(self, chars: int, steps: int) -> None:
        """Take `chars` characters and `steps` steps away, or refuse."""
        self.chars -= chars
        self.steps -= steps + (chars >> 6)
        if self.chars < 0 or self.steps < 0:
            self.refuse()

    def refuse(self) -> NoReturn:
        if self.chars < 0:
            raise WorkExceededError(f'it makes more than {self.max_chars:,} characters')
        raise WorkExceededError(f'it takes more than {self.max_steps:,} steps')


METER: ContextVar[WorkMeter] = ContextVar('meter')


def spend(chars: int, steps: int = 2) -> None:
    """Charge the rendering that is under way."""
    METER.get().spend(chars, steps)


def size(value: object) -> int:
    """How many characters the text of a value takes, about. Each item inside it costs a step.

    >>> with WorkMeter(1000, 1000):
    ...     size('four'), size(['four', {'a': 1}])
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
    inner = items_of(value)
    return 1 if inner is None else size_of_items(inner)


def items_of(value: object) -> Iterator[object] | None:
    """The values inside a container, keys before values; None for what is no container."""
    kind = type(value)
    if isinstance(value, (list, tuple)):
        return iter(value)
    if kind in _ATOMS:
        return None
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    return iter(value) if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else None


def size_of_items(first: Iterator[object]) -> int:
    meter = METER.get()
    total, nodes, most = NODE_CHARS, 0, meter.steps // STEPS_PER_NODE
    levels = [first]
    while levels and nodes <= most and total <= meter.chars:
        for value in levels[-1]:
            nodes += 1
            if type(value) is str:
                total += NODE_CHARS + len(value)
            elif (inner := items_of(value)) is None:
                total += NODE_CHARS + breadth(value)
            else:
                total += NODE_CHARS
                levels.append(inner)
                break
        else:
            levels.pop()
        if len(levels) > MAX_DEPTH:
            raise WorkExceededError(f'it nests values more than {MAX_DEPTH} deep')
    meter.spend(0, STEPS_PER_NODE * nodes)
    return total


def breadth(value: object) -> int:
    """How many items or characters a value has, not looking inside them."""
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    try:
        return len(value)  # type: ignore[arg-type]  # what has no length is one thing
    except TypeError:
        return 1


def charge_each(items: Iterable[Any], steps: int = 2) -> Iterator[Any]:
    """The same items, each paid for when it is taken."""
    meter = METER.get()
    for item in items:
        meter.spend(NODE_CHARS, steps)
        yield item


def as_list(items: Any) -> Any:
    """A list in place of an iterator, whose length nobody knows."""
    return list(charge_each(items)) if isinstance(items, Iterator) else items


def reach(value: object) -> int:
    """What an argument can stretch a result by: a number counts as itself, a text as its length."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return int(min(abs(value), 1e18)) if value == value else 1
    return size(value)


def total_reach(rest: Iterable[object]) -> int:
    return sum(map(reach, rest))


_DIGITS = re.compile(r'\d+')
_NESTED_FIELD = re.compile(r'\{[^{}]*\{')


def cost_of_formatting(pattern: str, args: Iterable[object], *, width_from_args: bool) -> int:
    """Each field may print every argument, padded to all the numbers that stand in the pattern."""
    values = list(args)
    width = sum(int(digits[:18]) for digits in _DIGITS.findall(pattern))
    if width_from_args:
        width += total_reach(value for value in values if isinstance(value, int))
    fields = 1 + pattern.count('%') + pattern.count('{')
    return len(pattern) + fields * (sum(map(size, values)) + width)


def cost_of_percent(pattern: str, args: object) -> int:
    values = args if isinstance(args, tuple) else (args,)
    return cost_of_formatting(pattern, values, width_from_args='*' in pattern)


def cost_of_format(pattern: str, args: Iterable[object]) -> int:
    return cost_of_formatting(pattern, args, width_from_args=_NESTED_FIELD.search(pattern) is not None)


def cost_of_joining(separator: object, items: object) -> int:
    return size(items) + (breadth(items) + 1) * size(separator)


def cost_of_replacing(text: object, old: object = '', new: object = '', *_: object) -> int:
    length = size(text)
    times = text.count(old) if isinstance(text, str) and isinstance(old, str) else length + 1
    return length + times * size(new)


def cost_of_padding(text: object, *rest: object) -> int:
    return max(size(text), total_reach(value for value in rest if not isinstance(value, str)))


def cost_of_splitting(text: object, separator: object = None, *_: object) -> int:
    length = size(text)
    if isinstance(text, str) and isinstance(separator, str) and separator:
        return length + PART_CHARS * (text.count(separator) + 1)
    return (length + 1) * PART_CHARS // 2


def cost_of_indenting(text: object, width: object = 4, *_: object) -> int:
    length = size(text)
    lines = len(text.splitlines()) + 1 if isinstance(text, str) else length + 1
    return length + lines * reach(width)


def cost_of_adding_up(items: object, *rest: object) -> int:
    """Numbers are added in place; lists are copied once for each that is added."""
    copies = any(not isinstance(value, (str, int, float)) for value in rest)
    return size(items) * (breadth(items) + 1 if copies else 1)


def linear(value: object, *rest: object) -> int:
    return size(value) + sum(map(size, rest))


def shallow(value: object, *_: object) -> int:
    """A list of the same items; the letters of a text become items too."""
    return breadth(value) * (PART_CHARS if isinstance(value, (str, bytes)) else NODE_CHARS)


def of_arguments(_: object, *rest: object) -> int:
    return sum(map(size, rest))


def free(*_: object) -> int:
    return 0


def product(value: object, *rest: object) -> int:
    return (size(value) + breadth(value) + 1) * (total_reach(rest) + 1)


def slow(value: object, *rest: object) -> int:
    """For what is written in Python, letter by letter or word by word."""
    return 16 * linear(value, *rest)


def quadratic(value: object, *rest: object) -> int:
    """For what is slow and rare (tags, links, wrapping, pretty-printing)."""
    return product(value, *rest) + size(value) ** 2 // 16


Cost = Callable[..., int]


def _table(**names_by_cost: str) -> dict[str, Cost]:
    costs: dict[str, Cost] = {
        'free': free,
        'of_arguments': of_arguments,
        'linear': linear,
        'shallow': shallow,
        'slow': slow,
        'quadratic': quadratic,
    }
    return {name: costs[cost] for cost, names in names_by_cost.items() for name in names.split()}


_METHODS: dict[str, Cost] = {
    **_table(
        free='items keys values',
        of_arguments='get startswith endswith removeprefix removesuffix',
        linear='strip lstrip rstrip upper lower casefold capitalize title swapcase find rfind index rindex count'
        ' partition rpartition isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable'
        ' isspace istitle isupper encode decode',
        shallow='copy',
        quadratic='striptags unescape',
    ),
    'split': cost_of_splitting,
    'rsplit': cost_of_splitting,
    'splitlines': cost_of_splitting,
    'replace': cost_of_replacing,
    'join': cost_of_joining,
    'center': cost_of_padding,
    'ljust': cost_of_padding,
    'rjust': cost_of_padding,
    'zfill': cost_of_padding,
}

_FILTERS: dict[str, Cost] = {
    **_table(
        free='length count first last default d attr items map select reject selectattr rejectattr',
        linear='upper lower capitalize trim string safe escape e forceescape truncate sort'
        ' unique groupby dictsort min max abs float int',
        shallow='list reverse',
        slow='title wordcount urlencode',
        quadratic='striptags urlize wordwrap xmlattr pprint',
    ),
    'replace': cost_of_replacing,
    'join': lambda items, separator='', *_: cost_of_joining(separator, items),
    'center': cost_of_padding,
    'sum': cost_of_adding_up,
    'indent': cost_of_indenting,
    'format': lambda pattern, *args: cost_of_percent(str(pattern), args),
}

_NAMED_ARGUMENTS_ARE_FINE = frozenset(
    {free, of_arguments, linear, shallow, slow, quadratic, cost_of_padding, cost_of_adding_up}
)


def charge_method(owner: object, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Pay for a method of a built-in value, before it is called."""
    _charge(_METHODS.get(name, product), (owner, *args), kwargs)


def charge_filter(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Pay for a filter, before it is applied; `args` begins with the value it is applied to."""
    _charge(_FILTERS.get(name, product), args, kwargs)


def _charge(cost: Cost, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    if not kwargs:
        spend(cost(*args))
    elif cost in _NAMED_ARGUMENTS_ARE_FINE:
        spend(cost(*args, *kwargs.values()))
    else:
        spend(product(*args, *kwargs.values()))
