"""What the methods, filters and operators of a chat template cost, in characters, before they run.

Every price is an upper bound that depends on the size of the operands. An operation without an entry costs the product
of its operands, so an unknown one is expensive and never free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from jinja2.exceptions import SecurityError

from rolecall.core.render.metering import (
    MAX_BITS,
    MAX_DIGITS,
    NODE_CHARS,
    PART_CHARS,
    WorkExceededError,
    breadth_of,
    check_number,
    size_of,
    spend,
)

_DIGITS = re.compile(r'\d+')
_BITS_PER_LIMB = 30
_ESCAPED = 6  # characters that one can grow to: '&#34;' or '\\u0000'
_NAMED = 100  # '\\N{ARABIC LIGATURE UIGHUR KIRGHIZ YEH WITH HAMZA ABOVE WITH ALEF MAKSURA ISOLATED FORM}'
_ENCODINGS = frozenset({'utf8', 'utf16', 'utf16le', 'utf16be', 'utf32', 'utf32le', 'utf32be', 'ascii', 'latin1'})
_NAIVE_SEARCH = 30_000  # Python searches shorter texts without its linear algorithm
_LONGEST_NAIVE_NEEDLE = 100


def reach_of(value: object) -> int:
    """How far an argument can stretch a result: a number counts as itself, a text as its length."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return int(min(abs(value), 1e18)) if value == value else 1
    return size_of(value)


def _total_reach(rest: Iterable[object]) -> int:
    return sum(map(reach_of, rest))


# --- operators ---------------------------------------------------------------


def charge_operator(symbol: str, left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _charge_arithmetic(symbol, left, right)
    elif symbol == '%' and isinstance(left, (str, bytes)):
        spend(price_of_percent(left, right))
    elif symbol == '*':
        spend(NODE_CHARS * (breadth_of(left) * _times(right) + breadth_of(right) * _times(left)))
    else:
        spend(NODE_CHARS * (breadth_of(left) + breadth_of(right)))


def _charge_arithmetic(symbol: str, left: int, right: int) -> None:
    bits, others = check_number(left).bit_length(), check_number(right).bit_length()
    if symbol == '**' and bits * max(right, 1) > MAX_BITS:
        raise WorkExceededError(f'it computes a number of more than {MAX_DIGITS:,} digits')
    spend(0, 2 + ((bits // _BITS_PER_LIMB) * (others // _BITS_PER_LIMB) >> 8))


def _times(factor: object) -> int:
    return max(factor, 0) if isinstance(factor, int) else 0


# --- texts -------------------------------------------------------------------


def width_in(pattern: str) -> int:
    """All the numbers in a format, any of which may be a width."""
    return sum(int(digits[:18]) for digits in _DIGITS.findall(pattern))


def price_of_percent(pattern: str | bytes, args: object) -> int:
    """Each field may print every argument, padded to all the numbers in the pattern."""
    text = pattern if isinstance(pattern, str) else repr(pattern)
    values = args if isinstance(args, tuple) else (args,)
    width = width_in(text)
    if '*' in text:
        width += _total_reach(value for value in values if isinstance(value, int))
    fields = 1 + text.count('%')
    price = len(text) + fields * (sum(map(size_of, values)) + width)
    return price * _ESCAPED if hasattr(pattern, '__html__') else price


def _price_of_joining(separator: object, items: object, *_: object) -> int:
    price = size_of(items) + (breadth_of(items) + 1) * size_of(separator)
    return price * _ESCAPED if hasattr(separator, '__html__') else price


def _price_of_join_filter(items: object, separator: object = '', *rest: object) -> int:
    return _price_of_joining(separator, items) + _linear(*rest)


def _price_of_replacing(text: object, old: object = '', new: object = '', *_: object) -> int:
    length = size_of(text)
    times = text.count(old) if isinstance(text, str) and isinstance(old, str) else length + 1
    return _price_of_search(text, old) + times * size_of(new)


def _price_of_padding(text: object, *rest: object) -> int:
    return max(size_of(text), _total_reach(value for value in rest if not isinstance(value, str)))


def _price_of_search(text: object, needle: object = '', *rest: object) -> int:
    """Searching forwards is linear, but for short texts only up to a factor of the needle's length."""
    length, sought = size_of(text), size_of(needle)
    if length < _NAIVE_SEARCH:
        sought += length * min(sought, _LONGEST_NAIVE_NEEDLE) >> 3
    return length + sought + _linear(*rest)


def _price_of_search_backwards(text: object, needle: object = '', *rest: object) -> int:
    """Searching backwards compares the whole needle at every place."""
    length, sought = size_of(text), size_of(needle)
    return length + sought + (length * sought >> 3) + _linear(*rest)


def _price_of_splitting(text: object, separator: object = None, *_: object) -> int:
    if isinstance(text, str) and isinstance(separator, str) and separator:
        return _price_of_search(text, separator) + PART_CHARS * (text.count(separator) + 1)
    return (size_of(text) + 1) * PART_CHARS // 2


def _price_of_splitting_backwards(text: object, separator: object = None, *rest: object) -> int:
    price = _price_of_splitting(text, separator)
    return price + _price_of_search_backwards(text, separator) if isinstance(separator, str) else price


def _price_of_stripping(text: object, letters: object = None, *_: object) -> int:
    """Each letter at an end is sought among those to strip."""
    return size_of(text) * (1 + (size_of(letters) >> 4 if isinstance(letters, (str, bytes)) else 0))


def _price_of_encoding(text: object, encoding: object = 'utf-8', errors: object = 'strict', *_: object) -> int:
    name = re.sub('[^a-z0-9]', '', str(encoding).lower())
    if name not in _ENCODINGS:
        raise SecurityError(f'the encoding {encoding!r:.40} is not supported')
    return size_of(text) * (4 if errors in ('strict', 'ignore', 'replace') else _NAMED)


def _price_of_indenting(text: object, width: object = 4, *_: object) -> int:
    length = size_of(text)
    lines = len(text.splitlines()) + 1 if isinstance(text, str) else length + 1
    return length + lines * reach_of(width)


def _price_of_escaping(text: object, *_: object) -> int:
    return size_of(text) * _ESCAPED


# --- numbers -----------------------------------------------------------------


def _price_of_adding_up(items: object, *rest: object) -> int:
    """Numbers are added in place; lists are copied once for each that is added, what they start with included."""
    copies = any(not isinstance(value, (str, int, float)) for value in rest)
    return (size_of(items) + NODE_CHARS * sum(map(breadth_of, rest))) * (breadth_of(items) + 1 if copies else 1)


def _price_of_reading_number(value: object, _: object = 0, base: object = 10, *__: object) -> int:
    """Python's own limit on digits does not hold for bases that are powers of two."""
    if isinstance(value, (str, bytes)) and base != 10 and len(value) > MAX_BITS:
        raise WorkExceededError(f'it computes a number of more than {MAX_DIGITS:,} digits')
    return size_of(value)


def _price_of_rounding(value: object, precision: object = 0, *_: object) -> int:
    if reach_of(precision) > MAX_DIGITS:
        raise WorkExceededError(f'it computes a number of more than {MAX_DIGITS:,} digits')
    return size_of(value) + PART_CHARS * reach_of(precision)


# --- everything else ---------------------------------------------------------


def _linear(*values: object) -> int:
    return sum(map(size_of, values))


def _shallow(value: object, *_: object) -> int:
    """A list of the same items; the letters of a text become items too."""
    return breadth_of(value) * (PART_CHARS if isinstance(value, (str, bytes)) else NODE_CHARS)


def _of_arguments(_: object, *rest: object) -> int:
    return sum(map(size_of, rest))


def _free(*_: object) -> int:
    return 0


def _product(value: object, *rest: object) -> int:
    return (size_of(value) + breadth_of(value) + 1) * (_total_reach(rest) + 1)


def _slow(value: object, *rest: object) -> int:
    """For what is written in Python, letter by letter or word by word."""
    return 16 * _linear(value, *rest)


def _quadratic(value: object, *rest: object) -> int:
    """For what is slow and rare: tags, links, wrapping, pretty-printing."""
    return _product(value, *rest) + PART_CHARS * size_of(value) + size_of(value) ** 2 // 16


Price = Callable[..., int]


def _table(prices: Mapping[Price, str]) -> dict[str, Price]:
    return {name: price for price, names in prices.items() for name in names.split()}


_METHODS = _table(
    {
        _free: 'items keys values',
        _of_arguments: 'get startswith endswith removeprefix removesuffix',
        _linear: 'upper lower casefold capitalize title swapcase isalnum isalpha isascii isdecimal isdigit'
        ' isidentifier islower isnumeric isprintable isspace istitle isupper',
        _shallow: 'copy',
        _quadratic: 'striptags unescape',
        _price_of_search: 'find index count partition',
        _price_of_search_backwards: 'rfind rindex rpartition',
        _price_of_splitting: 'split splitlines',
        _price_of_splitting_backwards: 'rsplit',
        _price_of_stripping: 'strip lstrip rstrip',
        _price_of_encoding: 'encode decode',
        _price_of_replacing: 'replace',
        _price_of_joining: 'join',
        _price_of_padding: 'center ljust rjust zfill',
        _price_of_escaping: 'escape',
    }
)
_METHODS_OF_A_LIST = frozenset({'index', 'count'})

_FILTERS = _table(
    {
        _free: 'length count first last default d attr items map select reject selectattr rejectattr',
        _linear: 'upper lower capitalize string safe truncate sort unique groupby dictsort min max abs',
        _shallow: 'list reverse',
        _slow: 'title wordcount urlencode',
        _quadratic: 'striptags urlize wordwrap xmlattr pprint',
        _price_of_escaping: 'escape e forceescape',
        _price_of_stripping: 'trim',
        _price_of_reading_number: 'int float',
        _price_of_rounding: 'round',
        _price_of_replacing: 'replace',
        _price_of_join_filter: 'join',
        _price_of_padding: 'center',
        _price_of_adding_up: 'sum',
        _price_of_indenting: 'indent',
    }
)

_PRICES_OF_NAMED_ARGUMENTS = frozenset(
    {_free, _of_arguments, _linear, _shallow, _slow, _quadratic}
    | {_price_of_padding, _price_of_adding_up, _price_of_escaping}
)
"""Prices to which it does not matter which argument is which."""
_DEFAULTS: dict[Price, dict[str, object]] = {
    _price_of_encoding: {'encoding': 'utf-8', 'errors': 'strict'},
    _price_of_reading_number: {'default': 0, 'base': 10},
    _price_of_rounding: {'precision': 0, 'method': 'common'},
    _price_of_stripping: {'chars': None},
}
"""The arguments of an operation by name, for prices to which it matters which is which."""


def charge_method(owner: object, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Charge a method of a built-in value."""
    price = _METHODS.get(name, _product)
    if name in _METHODS_OF_A_LIST and not isinstance(owner, (str, bytes)):
        price = _product
    _charge(price, (owner, *args), kwargs)


def charge_filter(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Charge a filter; `args` begins with the value that it is applied to."""
    if name == 'format' and args:
        spend(size_of(args[0]))
        spend(price_of_percent(str(args[0]), (*args[1:], *kwargs.values())))
    else:
        _charge(_FILTERS.get(name, _product), args, kwargs)


def _charge(price: Price, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    if not kwargs:
        spend(price(*args))
    elif price in _PRICES_OF_NAMED_ARGUMENTS:
        spend(price(*args, *kwargs.values()))
    elif price in _DEFAULTS:
        names = list(_DEFAULTS[price])[len(args) - 1 :]
        spend(price(*args, *[kwargs.get(name, _DEFAULTS[price][name]) for name in names]))
    else:
        spend(_product(*args, *kwargs.values()))
