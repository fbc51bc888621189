"""Runs config files, each in its own namespace, with an `import` statement that finds configs and references.

A file is compiled once and cached until it changes. It runs again for every file that imports it, because a config may
modify what it imports. Configs do not enter `sys.modules`, and `sys.path` is neither searched nor changed. Configs
print to standard error; standard output is for results.
"""

from __future__ import annotations

import builtins
import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.sources.config.finder import (
    config_package,
    find_config_module,
    find_relative,
    in_read_base,
    is_foreign,
    is_installed,
    is_standard,
    near_names,
)
from rolecall.sources.config.reference import Reference, Resolve
from rolecall.sources.config.trouble import (
    MissingImportError,
    circular_import,
    imported_from,
    missing_name,
    syntax_problem,
    unreadable,
    user_problem,
)
from rolecall.usercode import printing_to_stderr

Namespace = dict[str, Any]
Compile = Callable[[str], CodeType]

_compiled: dict[str, tuple[tuple[int, int], CodeType]] = {}


def compile_file(path: str) -> CodeType:
    """The code of a config file, from the cache if the file has not changed."""
    try:
        status = os.stat(path)
        stamp = (status.st_mtime_ns, status.st_size)
        cached = _compiled.get(path)
        if cached and cached[0] == stamp:
            return cached[1]
        with open(path, 'rb') as file:
            source = file.read()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        code = compile(source, path, 'exec', dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(syntax_problem(path, error)) from error
    _compiled[path] = (stamp, code)
    return code


@dataclass(slots=True)
class Runner:
    """One load: how imports are resolved, and the files now running, outermost first."""

    resolve: Resolve
    roots: Sequence[str] = ()
    compile: Compile = compile_file
    extra_builtins: Mapping[str, Any] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)

    def run(self, path: str) -> Namespace:
        """The names that a config file defines or imports."""
        if path in self.running:
            raise ConfigError(circular_import([*self.running, path]))
        namespace: Namespace = {
            '__name__': os.path.basename(path).removesuffix('.py'),
            '__file__': path,
            '__builtins__': {**vars(builtins), **self.extra_builtins, '__import__': _Importer(self, path)},
        }
        code = self.compile(path)
        self.running.append(path)
        base = in_read_base.set(False)
        try:
            with printing_to_stderr:
                exec(code, namespace)
            if '_base_' in namespace:
                merge_bases(namespace, path, self.run)
        except ConfigError as error:
            raise imported_from(path, error) from error.__cause__
        except (Exception, SystemExit) as error:  # a config is code: it may raise anything
            raise ConfigError(user_problem(path, error, namespace)) from error
        finally:
            in_read_base.reset(base)
            self.running.pop()
        return namespace


@dataclass(slots=True)
class _Importer:
    """The `import` statement as one config file sees it."""

    runner: Runner
    path: str
    modules: dict[str, ModuleType] = field(default_factory=dict)

    def __call__(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names Python gives them
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        wanted = tuple(fromlist or ())
        if level:
            return self._relative(name, wanted, level)
        if is_standard(name) or name.partition('.')[0] == 'rolecall':
            return builtins.__import__(name, globals, locals, wanted, 0)
        if config_package(name) or in_read_base.get():
            file = find_config_module(name, importer=self.path, roots=self.runner.roots)
            if file:
                return self._bound(name, self._module(file, wanted), wanted)
            if config_package(name):
                raise self._missing(name)
        if is_foreign(name):
            return self._reference(name, wanted)
        sibling = find_relative(os.path.dirname(self.path), name.split('.'))
        if sibling and sibling.endswith('.py'):
            return self._bound(name, self._module(sibling, wanted), wanted)
        if is_installed(name.partition('.')[0]):
            return builtins.__import__(name, globals, locals, wanted, 0)
        return self._reference(name, wanted)

    def _relative(self, name: str, wanted: tuple[str, ...], level: int) -> ModuleType:
        folder = os.path.dirname(self.path)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        parts = name.split('.') if name else []
        file = find_relative(folder, parts)
        if file is None:
            raise MissingImportError(
                f"config file not found: '{'.' * level}{name}'.",
                looked_for=f'{os.path.join(folder, *parts)}.py',
                near=near_names(folder, parts),
            )
        return self._module(file, wanted)

    def _module(self, path: str, wanted: tuple[str, ...]) -> ModuleType:
        """A config file as a module, run once per importing file, with the submodules it imports."""
        module = self.modules.get(path)
        if module is None:
            module = self.modules[path] = ModuleType(os.path.basename(path).removesuffix('.py'))
            if os.path.isfile(path):
                names = self.runner.run(path)
                shared: dict[int, Any] = {}
                values = {name: value for name, value in names.items() if not name.startswith('__')}
                vars(module).update({name: with_attributes(value, shared) for name, value in values.items()})
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        is_package = folder == path or os.path.basename(path) == '__init__.py'
        for name in wanted:
            if name == '*' or hasattr(module, name):
                continue
            inner = find_relative(folder, [name]) if is_package else None
            if inner is None:
                raise missing_name(name, path, vars(module))
            setattr(module, name, self._module(inner, ()))
        return module

    def _bound(self, name: str, module: ModuleType, wanted: tuple[str, ...]) -> ModuleType:
        """The value of an absolute import: the module for `from a.b import c`, the package for `import a.b`."""
        for part in () if wanted else reversed(name.split('.')[1:]):
            outer = ModuleType(part)
            setattr(outer, part, module)
            module = outer
        return module

    def _reference(self, name: str, wanted: tuple[str, ...]) -> Any:
        if '*' in wanted:
            return self._everything(name)
        return Reference(name if wanted else name.partition('.')[0], self.runner.resolve)

    def _everything(self, name: str) -> ModuleType:
        """`from somewhere import *`: a reference for every name that the file uses but does not define."""
        module = ModuleType(name)
        reference = Reference(name, self.runner.resolve)
        names = _free_names(self.runner.compile(self.path))
        vars(module).update({free: getattr(reference, free) for free in names})
        vars(module)['__all__'] = names
        return module

    def _missing(self, name: str) -> MissingImportError:
        _, inner = config_package(name) or ('', (name,))
        folder = os.path.dirname(self.path)
        while os.path.basename(folder) != 'configs' and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        return MissingImportError(
            f"config file not found: '{name}'.",
            looked_for=f'{os.path.join("configs", *inner)}.py above this file and in the installed package',
            near=near_names(folder, inner),
        )


def _free_names(code: CodeType) -> list[str]:
    stored = {instruction.argval for instruction in _instructions(code) if instruction.opname.startswith('STORE_')}
    used = {
        instruction.argval for instruction in _instructions(code) if instruction.opname in ('LOAD_NAME', 'LOAD_GLOBAL')
    }
    return sorted(used - stored - set(vars(builtins)))


def _instructions(code: CodeType) -> list[Any]:
    import dis

    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [*dis.get_instructions(code), *(step for part in inner for step in _instructions(part))]


def merge_bases(namespace: dict[str, Any], path: str, run: Callable[[str], dict[str, Any]]) -> None:
    """Merge the names of the files in `_base_` under those of the file itself."""
    bases = namespace['_base_']
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list | tuple) or not all(isinstance(base, str) for base in bases):
        raise ConfigError(Problem(path, f'_base_ must be a path or a list of paths, got {bases!r}.'))
    under: dict[str, Any] = {}
    for base in bases:
        names = run(os.path.normpath(os.path.join(os.path.dirname(path), base)))
        public = {name: value for name, value in names.items() if not name.startswith('_')}
        if twice := sorted(set(public) & set(under)):
            raise ConfigError(
                Problem(path, f'two files of _base_ define {", ".join(twice)}.', 'Let one of them define it.')
            )
        under.update(public)
    for name, value in under.items():
        namespace[name] = merge(value, namespace[name]) if name in namespace else value


def merge(under: Any, over: Any) -> Any:
    """`over` laid on `under`: dicts key by key, everything else replaced; `_delete_=True` replaces a dict too.

    >>> merge(dict(a=1, b=dict(c=2, d=3)), dict(b=dict(c=9)))
    {'a': 1, 'b': {'c': 9, 'd': 3}}
    >>> merge(dict(a=1), dict(_delete_=True, b=2))
    {'b': 2}
    """
    if not isinstance(over, Mapping):
        return over
    values = {key: value for key, value in over.items() if key != '_delete_'}
    if not isinstance(under, Mapping) or over.get('_delete_'):
        return values
    merged = {key: merge(under[key], value) if key in under else value for key, value in values.items()}
    return {**under, **merged}


class Settings(dict[str, Any]):
    """A dict that also answers to `settings.key` and has `copy()` and `deepcopy()`.

    >>> reader = Settings(input_columns=['question'], output_column='answer')
    >>> reader.output_column
    'answer'
    >>> reader.train_split = 'dev'
    >>> reader == {'input_columns': ['question'], 'output_column': 'answer', 'train_split': 'dev'}
    True
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this dict has no '{name}'; it has {', '.join(map(repr, self))}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(name)
        del self[name]

    def copy(self) -> Settings:
        """A new dict with the same values."""
        return Settings(self)

    def deepcopy(self) -> Settings:
        """A new dict with copies of the values."""
        return copy.deepcopy(self)


def with_attributes(value: Any, done: dict[int, Any]) -> Any:
    """The same value with every dict in it a `Settings`. Lists are changed in place; shared values stay shared.

    >>> with_attributes([dict(a=dict(b=1))], {})[0].a.b
    1
    """
    kind = type(value)
    if kind is not dict and kind is not list and kind is not Settings and kind is not tuple:
        return value
    converted = done.get(id(value))
    if converted is not None:
        return converted[1]
    if kind is tuple:
        parts = tuple([with_attributes(part, done) for part in value])
        return value if all(map(_is, parts, value)) else parts
    if kind is list:
        done[id(value)] = (value, value)
        for index, part in enumerate(value):
            if type(part) in _CONTAINERS:
                value[index] = with_attributes(part, done)
        return value
    settings = value if kind is Settings else Settings(value)
    done[id(value)] = (value, settings)
    for key, part in value.items():
        if type(part) in _CONTAINERS:
            settings[key] = with_attributes(part, done)
    return settings


_CONTAINERS = frozenset({dict, list, tuple, Settings})


def _is(left: object, right: object) -> bool:
    return left is right
