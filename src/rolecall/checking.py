"""Options that users write, read with their types and bounds. All problems are collected and raised together.

`Problems` collects what is wrong; `OptionReader` reads one mapping of options into it, a method per type. Where a value
is already at hand, `is_whole` and `is_number` say whether it can be used, and `argument_problems` compares options with
the parameters of the function they are meant for.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, TypeGuard, TypeVar

from rolecall.config_keys import KEYS
from rolecall.errors import ConfigError, Problem, RolecallError, did_you_mean

C = TypeVar('C')
_NEARLY = 0.85
"""How similar an option must be to a known one to count as a slip."""
_SHOWN = 60
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_whole(value: object, *, least: int | None = None, most: int | None = None) -> TypeGuard[int]:
    """Whether a value is an int within bounds. True and False are not numbers here.

    >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(True), is_whole(3.0)
    (True, False, False, False)
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return (least is None or value >= least) and (most is None or value <= most)


def is_number(value: object, *, least: float | None = None, most: float | None = None) -> TypeGuard[float]:
    """Whether a value is a finite int or float within bounds.

    >>> is_number(0.5, least=0, most=1), is_number(float('nan')), is_number('1')
    (True, False, False)
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    is_finite = isinstance(value, int) or math.isfinite(value)
    return is_finite and (least is None or value >= least) and (most is None or value <= most)


def expected(where: str, what: str, value: object, remedy: str = '') -> Problem:
    """The problem of an unexpected value. Pass its type instead if the value may be secret: only the name is shown.

    >>> print(expected('timeout', 'a number of seconds', 'long', 'Write timeout=60.'))
    timeout
      expected a number of seconds, got 'long'.
      Write timeout=60.
    """
    return Problem(where, f'expected {what}, got {_show(value)}.', remedy)


def argument_problems(
    function: Callable[..., Any], options: Mapping[str, Any], *, name: str = '', skip: int = 0
) -> list[Problem]:
    """Options that a function or class does not take, and parameters that are missing. The first `skip` are given.

    >>> def cut(text, length, side='left'): ...
    >>> print(*argument_problems(cut, {'sde': 'left'}, skip=1), sep='\\n')
    sde
      cut has no option 'sde'.
      Did you mean 'side'?
    length
      cut needs the option 'length'.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):  # built in, and silent about its parameters: calling it will tell
        return []
    name = name or getattr(function, '__name__', type(function).__name__)
    named = {parameter.name: parameter for parameter in parameters if parameter.kind in _NAMED}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [] if takes_any else [option for option in options if option not in named]
    required = [each.name for each in named.values() if each.default is each.empty]
    missing = [option for option in required if option not in options]
    return [
        *(Problem(str(key), f'{name} has no option {key!r}.', did_you_mean(key, named)) for key in unknown),
        *(Problem(key, f'{name} needs the option {key!r}.') for key in missing),
    ]


def explain_arguments(error: type[RolecallError], *names: str) -> Callable[[type[C]], type[C]]:
    """A class decorator: calls of its methods with missing, surplus or unknown arguments raise this error.

    It is for those names, or else for all public methods and the constructor. What a method itself raises stays.
    """

    def decorate(owner: type[C]) -> type[C]:
        for name, method in list(vars(owner).items()):
            wanted = name in names if names else name in ('__init__', '__call__') or name[0] != '_'
            if wanted and inspect.isfunction(method):
                setattr(owner, name, _explained(method, name, error))
        return owner

    return decorate


def _explained(method: Callable[..., Any], name: str, error: type[RolecallError]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except TypeError as refusal:
            if refusal.__traceback__ is not None and refusal.__traceback__.tb_next is not None:
                raise  # the method was entered
        signature = inspect.signature(method)
        try:
            signature.bind(*args, **options)
        except TypeError as mismatch:
            parameters = list(signature.parameters.values())[1:]
            usage = ', '.join(str(parameter.replace(annotation=parameter.empty)) for parameter in parameters)
            shown = {'__init__': type(args[0]).__name__, '__call__': 'module'}.get(name, name)
            raise error(f'{shown}(): {mismatch}. Write {shown}({usage}).') from None
        raise AssertionError('a call that fits its signature was refused')

    return call


def on_command_line(
    text: str, metavar: str | None = None, *, least: int | None = None, also: tuple[str, ...] = (), **argument: Any
) -> dict[str, Any]:
    """The metadata of a dataclass field that is an option of a command: its help, its least value, other names, and
    what argparse cannot tell from its type."""
    shown = argument if metavar is None else {'metavar': metavar, **argument}
    return {'help': text, 'least': least, 'also': also, 'argument': shown}


class Problems:
    """Everything wrong with a config, collected while it is read.

    >>> problems = Problems()
    >>> problems.add('models', 'the config has no models.')
    >>> with problems.inside('datasets[0]'):
    ...     raise ConfigError(Problem('reader_cfg', 'expected a dict, got 5.'))
    >>> problems.raise_all()
    Traceback (most recent call last):
    rolecall.errors.ConfigError: models
      the config has no models.
    datasets[0].reader_cfg
      expected a dict, got 5.
    """

    error: ClassVar[type[ConfigError]] = ConfigError

    def __init__(self) -> None:
        self.items: list[Problem] = []

    def add(self, where: str, what: str, remedy: str = '') -> None:
        self.items.append(Problem(where, what, remedy))

    @contextmanager
    def inside(self, where: str) -> Iterator[None]:
        """Collect the problems raised by a part, with its place in front, and carry on."""
        try:
            yield
        except ConfigError as error:
            self.items += [problem.inside(where) for problem in error.problems]

    def mapping(self, where: str, value: object) -> Mapping[str, Any]:
        """The value if it is a mapping; otherwise a problem, and an empty mapping."""
        if isinstance(value, Mapping):
            return value
        self.add(where, f'expected a dict, got {"" if value is None else type(value).__name__ + " "}{_show(value)}.')
        return {}

    def unknown_keys(self, where: str, keys: Mapping[str, Any], allowed: Collection[str]) -> None:
        """Report every key that is not known."""
        for key in keys:
            if key not in allowed:
                self.add(where, f'unknown key {key!r}.', did_you_mean(key, allowed))

    def misspelt_keys(self, where: str, keys: Mapping[str, Any], allowed: Collection[str]) -> None:
        """Report keys that nearly match a known one. (Others may be meant for another reader.)"""
        for key, meant in _slips(keys, allowed):
            self.add(where, f'unknown key {key!r}.', f"Did you mean '{meant}'?")

    def raise_all(self) -> None:
        """Raise an error with everything found, if anything was."""
        if self.items:
            raise self.error(self.items)


class OptionReader:
    """Reads the options of one mapping. Each method takes the names an option goes by: the first that is set counts.

    Bounds that are not passed are those declared for the key (`config_keys.tsv`).

    A wrong value is recorded and read as None, so that one pass finds every problem; an option that is absent is None
    too. Pass `problems` to collect into a list that is raised later; otherwise call `raise_problems`.

    >>> reader = OptionReader({'max_out_len': 'many', 'top_p': 5, 'mode': 'fst', 'stop': 'END'}, 'gpt')
    >>> reader.whole('max_out_len', least=1), reader.texts('stop'), reader.number('temperature')
    (None, ('END',), None)
    >>> reader.number('top_p', least=0, most=1, remedy='Write top_p=0.9, or leave it out.')
    >>> reader.one_of('mode', ('fast', 'exact'))
    >>> reader.raise_problems()
    Traceback (most recent call last):
    rolecall.errors.ConfigError: gpt.max_out_len
      expected a whole number of at least 1, got 'many'.
    gpt.top_p
      expected a number from 0 to 1, got 5.
      Write top_p=0.9, or leave it out.
    gpt.mode
      expected one of 'fast', 'exact', got 'fst'.
      Did you mean 'fast'?
    """

    def __init__(self, options: Mapping[str, Any], where: str = '', *, problems: Problems | None = None) -> None:
        self._options = options
        self._where = where
        self._collected = problems or Problems()

    @property
    def problems(self) -> list[Problem]:
        """What is wrong so far."""
        return self._collected.items

    def raise_problems(self) -> None:
        """Raise a ConfigError with everything found, if anything was."""
        self._collected.raise_all()

    def text(self, *names: str, remedy: str = '') -> str | None:
        """A string; an empty one is None."""
        name, value = self._find(names)
        if value is None or isinstance(value, str):
            return value or None
        self._reject(name, 'a string', value, remedy)
        return None

    def texts(self, *names: str, remedy: str = '') -> tuple[str, ...] | None:
        """A string or a list of strings, also empty ones. A wrong value is shown by its type only: it may be secret."""
        name, value = self._find(names)
        values = (value,) if isinstance(value, str) else value
        if values is None:
            return None
        if isinstance(values, (list, tuple)) and all(isinstance(item, str) for item in values):
            return tuple(values)
        self._reject(name, 'a string or a list of strings', type(value), remedy)
        return None

    def whole(self, *names: str, least: int | None = None, remedy: str = '') -> int | None:
        """A whole number within bounds."""
        name, value = self._find(names)
        least, most = (least, None) if least is not None else _declared_bounds(name)
        if value is None or is_whole(value, least=least, most=most):
            return value
        self._reject(name, f'a whole number{_bounds(least, most)}', value, remedy)
        return None

    def number(
        self, *names: str, least: float | None = None, most: float | None = None, remedy: str = ''
    ) -> float | None:
        """A finite number within bounds."""
        name, value = self._find(names)
        if least is None and most is None:
            least, most = _declared_bounds(name)
        if value is None or is_number(value, least=least, most=most):
            return value
        self._reject(name, f'a number{_bounds(least, most)}', value, remedy)
        return None

    def limit(self, *names: str) -> float | None:
        """A number; 0 and less mean no limit and give None.

        >>> OptionReader({'query_per_second': 0}).limit('query_per_second')
        """
        value = self.number(*names)
        return value if value is not None and value > 0 else None

    def flag(self, *names: str) -> bool | None:
        """True or False."""
        name, value = self._find(names)
        if value is None or isinstance(value, bool):
            return value
        self._reject(name, 'True or False', value)
        return None

    def one_of(self, name: str, allowed: Iterable[str] = ()) -> str | None:
        """One of the known words; without any, of those that are declared for the key."""
        words = tuple(allowed) or KEYS[name].words
        value = self._options.get(name)
        if value is None or (isinstance(value, str) and value in words):
            return value
        remedy = did_you_mean(value, words) if difflib.get_close_matches(str(value), words, n=1) else ''
        self._reject(name, f'one of {", ".join(map(repr, words))}', value, remedy)
        return None

    def mapping(self, *names: str) -> dict[str, Any]:
        """The dicts under all these names, merged; later names win."""
        merged: dict[str, Any] = {}
        for name in names:
            value = self._options.get(name)
            if isinstance(value, Mapping):
                merged |= value
            elif value is not None:
                self._reject(name, 'a dict', type(value))
        return merged

    def refuse(self, name: str, what: str, remedy: str = '') -> None:
        """Record any other problem with an option."""
        self.problems.append(Problem(name, what, remedy).inside(self._where))

    def refuse_misspelt(self, allowed: Iterable[str]) -> None:
        """Record options that nearly match a known one. (Others may be meant for another reader.)"""
        for name, meant in _slips(self._options, tuple(allowed)):
            self.refuse(name, 'unknown option.', f"Did you mean '{meant}'?")

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        """The first of the names that is set, with its value."""
        for name in names:
            value = self._options.get(name)
            if value is not None and not (isinstance(value, str) and not value):
                return name, value
        return names[0], self._options.get(names[0])

    def _reject(self, name: str, what: str, value: object, remedy: str = '') -> None:
        self.problems.append(expected(name, what, value, remedy).inside(self._where))


def _show(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    try:
        return f'{value!r:.{_SHOWN}}'
    except (ValueError, RecursionError):  # a number of thousands of digits, a list nested too deeply
        return f'something of type {type(value).__name__}'


def _declared_bounds(name: str) -> tuple[int | None, int | None]:
    key = KEYS.get(name)
    return (None, None) if key is None else (key.least, key.most)


def _bounds(least: float | None, most: float | None) -> str:
    """The bounds, as the end of a sentence."""
    if least is not None and most is not None:
        return f' from {least} to {most}'
    return f' of at least {least}' if least is not None else f' of at most {most}' if most is not None else ''


def _slips(names: Iterable[object], allowed: Collection[str]) -> Iterator[tuple[str, str]]:
    """Names that nearly match a known one, with the one that was meant."""
    for name in map(str, names):
        if name not in allowed and (close := difflib.get_close_matches(name, allowed, n=1, cutoff=_NEARLY)):
            yield name, close[0]
