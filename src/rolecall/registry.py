"""Finds the parts that a config names. One rule for every kind of part:

- an object or class stands for itself, even if it is called like one of ours;
- a dotted path (`acme.metrics.Overlap`, `acme.metrics:Overlap`) is imported: from beside the config, or as installed;
- a bare name is a built-in, or an entry point of an installed package in the group of its kind (`rolecall.metrics`);
- a class of OpenCompass or AISBench, by path or by reference, is the built-in of that name.

A package declares its built-ins beside its parts, as `name: 'module:attribute'`. They are imported when first used;
entry points are read when a name is not built in, so neither costs anything at start-up.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar

from rolecall.checking import argument_problems
from rolecall.errors import ConfigError, Problem, close_match, did_you_mean
from rolecall.usercode import check_importable, neighbours_of, user_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


REFERENCE_SYSTEMS = frozenset({'opencompass', 'ais_bench', 'mmengine'})
"""Packages whose class names are ours too: a config may name them without having them."""

_SHOWN = 8
_SIMILAR = 0.6
_MISSPELT = 0.9
"""How similar a name must be to be suggested. Names of reference systems are rarely misspelt, but often absent here."""

T = TypeVar('T')


class LocalPath(str):
    """A dotted path in a config file that leads to a module beside that file, in `folder`."""

    folder: Path

    def __new__(cls, path: str, folder: Path) -> LocalPath:
        self = super().__new__(cls, path)
        self.folder = folder
        return self

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]  # what a copy is made of
        return str(self), self.folder


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """What a config's name leads to."""

    name: str
    value: T
    origin: str
    """`rolecall` for a built-in, the package and version of a plugin, a dotted path, or nothing for an object."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the config's entry says besides the name."""
    where: str = ''
    """The entry's place in the config."""

    @property
    def builtin(self) -> bool:
        return self.origin == 'rolecall'

    def option_problems(self, *, skip: int = 0, function: Callable[..., Any] | None = None) -> list[Problem]:
        """Options that the part, a function, does not accept or lacks; its first `skip` arguments are no options."""
        called: Any = function or self.value
        problems = argument_problems(called, self.options, name=self.name, skip=skip)
        return [problem.inside(self.where) for problem in problems]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part that an installed package offers. It is imported by `load`."""

    name: str
    path: str
    """`module:attribute`"""
    origin: str
    """The package and its version."""

    def load(self, *, where: str = 'type') -> Any:
        with user_code(f'loading the plugin {self.name!r} ({self.path}, {self.origin})', where=where):
            return load_object(self.path)


class Registry(Mapping[str, T]):
    """The parts of one kind. As a mapping: the built-ins by name, imported when they are looked at.

    >>> numbers = Registry('number type', {'Fraction': 'fractions:Fraction'})
    >>> numbers.find('Fraction').value
    <class 'fractions.Fraction'>
    >>> numbers.find('decimal.Decimal').value, numbers.find(int).value
    (<class 'decimal.Decimal'>, <class 'int'>)
    >>> numbers.find('Fractoin')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: type
      unknown number type 'Fractoin'.
      Did you mean 'Fraction'?
    """

    def __init__(
        self,
        kind: str,
        builtins: Mapping[str, str | T] | str,
        *,
        spelling: Callable[[str], str] | None = None,
        is_ours: Callable[[str], bool] | None = None,
        adapter: str = '',
    ) -> None:
        """`builtins` is the table of names, or where it is (`module:attribute`), if it belongs to a higher room.

        `spelling` reduces a name to what matters in it, where several spellings mean one part.

        `is_ours` says which classes of OpenCompass or AISBench stand for ours even where the class itself is at hand
        (`load_config(…, foreign='real')`): all, unless it is given. `adapter` is the function that makes such a class
        one of our parts.
        """
        self.kind = kind
        self.plural = f'{kind}s'
        self.group = f'rolecall.{self.plural.replace(" ", "_")}'
        self._declared = builtins
        self._adapter = adapter
        self._spelling = spelling or str
        self._is_ours = is_ours or (lambda name: True)

    @cached_property
    def _builtins(self) -> Mapping[str, str | T]:
        return load_object(self._declared) if isinstance(self._declared, str) else self._declared

    @cached_property
    def _names(self) -> dict[str, str]:
        return {self._spelling(name): name for name in reversed(tuple(self._builtins))}

    def adapt(self, foreign: object) -> Any:
        """A part of an installed reference system as one of ours."""
        return load_object(self._adapter)(foreign)

    def __getitem__(self, name: str) -> T:
        declared = self._builtins[name]
        return load_object(declared) if isinstance(declared, str) else declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._builtins)

    def __len__(self) -> int:
        return len(self._builtins)

    def __contains__(self, name: object) -> bool:
        return name in self._builtins

    def declared(self, name: str) -> object:
        """A built-in as it was declared, not imported."""
        return self._builtins.get(name)

    def builtin_name(self, type_: object) -> str | None:
        """The built-in that a config's type stands for; None if it is something else. Imports nothing."""
        name = bare_name(type_)
        if name is None or self._stands_for_itself(type_):
            return None
        if name in self._builtins:
            return name
        return self._names.get(self._spelling(name))

    def find(self, type_: object, *, where: str = 'type', base: Path | None = None) -> Part[Any]:
        """The part that a config's type stands for. Dotted paths lead to a file below `base`, or to a module."""
        path = _path_of(type_)
        if type_ is None or path == '':
            raise ConfigError(Problem(where, f'no {self.kind} is named.', self._remedy('')))
        if path is None or self._stands_for_itself(type_):
            return Part(part_name(type_), type_, '' if path is None else path)
        name = self.builtin_name(type_)
        if name is not None:
            return Part(name, self[name], 'rolecall')
        package, dot, _ = path.partition('.')
        if dot and package not in REFERENCE_SYSTEMS:
            name = part_name(type_)
            remedy = f'Write {name!r} for the built-in of that name.' if name in self else _CORRECT
            folder = type_.folder if isinstance(type_, LocalPath) else base
            return Part(name, import_dotted(path, self.kind, where=where, base=folder, remedy=remedy), path)
        return self._plugin(path, where)

    def read(self, entry: object, *, where: str = '') -> Part[Any]:
        """The part that an entry names, with its options: `{'type': …}`, or a type alone."""
        kind, options = split_entry(entry, where=where)
        return replace(self.find(kind, where=where), options=options, where=where)

    def build(self, source: object, *, protocol: Sequence[str], where: str = 'type') -> Any:
        """The object that an entry describes: `{'type': …}` with options, a type without any, or the object itself.

        A class or a function is called with the options. `protocol` names what the object must have. All problems
        come at once.
        """
        entry = source if isinstance(source, Mapping) else {'type': source}
        options = {name: value for name, value in entry.items() if name != 'type'}
        part = self.find(entry.get('type'), where=where)
        lacking = [name for name in protocol if not hasattr(part.value, name)]
        if inspect.isclass(part.value) or (lacking and callable(part.value)):
            instance = self._call(part, options, where)
            lacking = [name for name in protocol if not hasattr(instance, name)]
        elif options:
            what = f'{part.name} is an object, which takes no options.'
            raise ConfigError(Problem(str(name), what) for name in options)
        else:
            instance = part.value
        if lacking:
            what = f'{part.name} is not a {self.kind}: it has no {", ".join(lacking)}.'
            raise ConfigError(Problem(where, what, f'docs/plugins.md shows what a {self.kind} must have.'))
        return instance

    def _call(self, part: Part[Any], options: Mapping[str, Any], where: str) -> Any:
        problems = argument_problems(part.value, options, name=part.name)
        unknown = {problem.where for problem in problems if problem.where in options}
        if len(unknown) < len(problems):
            raise ConfigError(problems)
        try:
            with user_code(f'making the {self.kind} {part.name}', where=where):
                instance = part.value(**{name: value for name, value in options.items() if name not in unknown})
        except ConfigError as error:
            raise type(error)([*problems, *error.problems]) from error.__cause__
        if problems:
            raise ConfigError(problems)
        return instance

    def _stands_for_itself(self, type_: object) -> bool:
        """Whether this is a real class or function of a reference system that is used as it is."""
        named = isinstance(type_, str) or isinstance(getattr(type_, 'dotted', None), str)
        return not named and _path_of(type_) is not None and not self._is_ours(part_name(type_))

    def plugins(self) -> tuple[Plugin, ...]:
        """What installed packages offer, by name. Nothing of it is imported."""
        return _plugins(self.group, tuple(sys.path))

    def _plugin(self, path: str, where: str) -> Part[Any]:
        name = path.rpartition('.')[2]
        matches = [plugin for plugin in self.plugins() if self._spelling(plugin.name) == self._spelling(name)]
        if not matches:
            unsupported = '.' in path
            word = 'unsupported' if unsupported else 'unknown'
            cutoff = _MISSPELT if unsupported else _SIMILAR
            remedy = f'{self._remedy(name, cutoff)}{offer_package(path)}'
            raise ConfigError(Problem(where, f'{word} {self.kind} {path!r}.', remedy))
        if len(matches) > 1:
            offers = ' and '.join(f'{plugin.path} ({plugin.origin})' for plugin in matches)
            what = f'two plugins offer the {self.kind} {name!r}: {offers}.'
            raise ConfigError(Problem(where, what, 'Write the dotted path of the one you mean.'))
        return Part(name, matches[0].load(where=where), matches[0].origin)

    def _remedy(self, name: str, cutoff: float = _SIMILAR) -> str:
        names = [*self, *(plugin.name for plugin in self.plugins())]
        spellings = {self._spelling(candidate): candidate for candidate in reversed(names)}
        meant = close_match(self._spelling(name), spellings, cutoff=cutoff)
        close = close_match(name, names, cutoff=cutoff) or (spellings[meant] if meant is not None else None)
        if close:
            return f"Did you mean '{close}'?"
        all_names = f'Known: {", ".join(map(repr, names))}.'
        hint = (
            all_names if len(names) <= _SHOWN else f'`rolecall config list {self.plural.replace(" ", "_")}` shows them.'
        )
        return f"{hint} An object, a class or a path ('module.Name') of your own works too."


def part_name(type_: object) -> str:
    """The short name of a type, however it is given: a name, a dotted path, a reference, a class, or an object.

    >>> part_name('opencompass.models.OpenAI'), part_name(dict), part_name(3.5)
    ('OpenAI', 'dict', 'float')
    """
    dotted = type_ if isinstance(type_, str) else getattr(type_, 'dotted', None)
    if isinstance(dotted, str):
        return dotted.replace(':', '.').rpartition('.')[2]
    name = getattr(type_, '__name__', None)
    return name if isinstance(name, str) else type(type_).__name__


def split_entry(entry: object, *, where: str = '') -> tuple[Any, dict[str, Any]]:
    """The type and the options of a config's entry.

    >>> split_entry({'type': 'MATHEvaluator', 'version': 'v2'})
    ('MATHEvaluator', {'version': 'v2'})
    """
    options = {key: value for key, value in entry.items() if key != 'type'} if isinstance(entry, Mapping) else {}
    kind = entry.get('type') if isinstance(entry, Mapping) else entry
    if not kind or isinstance(kind, int | float | list | tuple):
        what = f"expected a name, a function or a dict with 'type', got {entry!r:.80}."
        raise ConfigError(Problem(where, what, "Add type='…'."))
    return kind, options


_CORRECT = 'Correct the path, or install the package.'


def bare_name(type_: object) -> str | None:
    """The name of what may be a built-in: a bare name, or a path of ours or of a reference system; else None.

    >>> bare_name('OpenAI'), bare_name('opencompass.models.OpenAI'), bare_name('acme.OpenAI'), bare_name(dict)
    ('OpenAI', 'OpenAI', None, None)
    """
    path = _path_of(type_)
    package, dot, _ = (path or '').partition('.')
    if path is None or (dot and package not in REFERENCE_SYSTEMS | {'rolecall'}):
        return None
    return path.rpartition('.')[2]


def is_reference_class(kind: object) -> TypeGuard[type[Any]]:
    """Whether this is a class of an installed reference system, or derived from one."""
    return inspect.isclass(kind) and any(
        base.__module__.partition('.')[0] in REFERENCE_SYSTEMS for base in kind.__mro__
    )


def is_reference_function(kind: object) -> bool:
    """Whether this is a function of a reference system; functions registered there build objects."""
    return inspect.isfunction(kind) and kind.__module__.partition('.')[0] in REFERENCE_SYSTEMS


def find_registered(name: str, group: str, system: str) -> object | None:
    """The class that a loaded reference system has registered under a bare name; None if there is none."""
    module = {'opencompass': 'opencompass.registry', 'ais_bench': 'ais_bench.benchmark.registry'}.get(system, '')
    registry = getattr(sys.modules.get(module), group, None)
    return None if registry is None else registry.get(name)


def import_dotted(
    path: str, kind: str = 'object', *, where: str = 'type', base: Path | None = None, remedy: str = _CORRECT
) -> Any:
    """What a dotted path leads to: the longest part of it that is a module, and the names inside."""
    check_importable(path, where)
    parts = path.replace(':', '.').split('.')
    lengths = range(len(parts) - 1, 0, -1) if all(part.isidentifier() for part in parts) else ()
    for import_module in (_module_beside, _module_installed):
        for length in lengths:
            if module := import_module(parts[:length], base, where):
                return _find_in_module(module, parts[length:], path, kind, where)
    missing = '.'.join(parts[:-1])
    place = 'is installed' if base is None else 'is installed or lies beside the config'
    raise ConfigError(Problem(where, f'cannot import the {kind} {path!r}: no module {missing!r} {place}.', remedy))


def offer_package(path: str) -> str:
    """How to use a part of an installed package as it is; nothing where that package is not installed."""
    package, dot, _ = path.partition('.')
    if not dot or package not in REFERENCE_SYSTEMS or importlib.util.find_spec(package) is None:
        return ''
    return f" {package} is installed: ROLECALL_FOREIGN=real, or load_config(path, foreign='real'), uses its own."


def _path_of(type_: object) -> str | None:
    """The name or dotted path of a string, a reference, or a class of a reference system; None for an object."""
    dotted = type_ if isinstance(type_, str) else getattr(type_, 'dotted', None)
    if isinstance(dotted, str):
        return dotted.replace(':', '.')
    module, name = getattr(type_, '__module__', None), getattr(type_, '__name__', None)
    if isinstance(module, str) and isinstance(name, str) and module.partition('.')[0] in REFERENCE_SYSTEMS:
        return f'{module}.{name}'
    return None


def load_object(path: str) -> Any:
    """What `module:attribute` leads to, imported now."""
    module, _, attributes = path.partition(':')
    target: Any = importlib.import_module(module)
    for name in attributes.split('.') if attributes else ():
        target = getattr(target, name)
    return target


@lru_cache(maxsize=64)
def _plugins(group: str, search_path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """The entry points of a group, cached by the `search_path` they come from."""
    from importlib.metadata import entry_points

    plugins = [Plugin(point.name, point.value, _origin(point)) for point in entry_points(group=group)]
    return tuple(sorted(plugins, key=lambda plugin: (plugin.name, plugin.path)))


def _origin(point: EntryPoint) -> str:
    return f'{point.dist.name} {point.dist.version}' if point.dist else 'unknown package'


def _find_in_module(module: ModuleType, names: list[str], path: str, kind: str, where: str) -> Any:
    target: Any = module
    for name in names:
        if not hasattr(target, name):
            public = [key for key, value in vars(module).items() if callable(value) and key[0] != '_']
            what = f'cannot import the {kind} {path!r}: {module.__name__!r} has no {".".join(names)!r}.'
            raise ConfigError(Problem(where, what, did_you_mean(name, public)))
        target = getattr(target, name)
    return target


def _module_beside(parts: list[str], base: Path | None, where: str) -> ModuleType | None:
    """The module in a file below a folder, keyed by its path so that it cannot clash with another module."""
    for inner in (f'{"/".join(parts)}.py', f'{"/".join(parts)}/__init__.py') if base is not None else ():
        file = Path(base or '', inner).absolute()
        if file.is_file():
            return _run(file, '.'.join(parts), where)
    return None


def _module_installed(parts: list[str], base: Path | None, where: str) -> ModuleType | None:
    name = '.'.join(parts)
    with user_code(f'importing {name!r}', where=where):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and f'{name}.'.startswith(f'{error.name}.'):
                return None
            raise


def _run(file: Path, name: str, where: str) -> ModuleType:
    module = sys.modules[str(file)] = ModuleType(str(file))
    module.__file__ = str(file)
    with user_code(f'importing {name!r}', where=where), neighbours_of(file):
        exec(compile(file.read_bytes(), file, 'exec', dont_inherit=True), vars(module))
    return module
