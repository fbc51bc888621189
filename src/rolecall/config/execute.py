"""Runs config files, each in a namespace of its own whose `import` statement finds configs, ours and references.

A file is compiled once and kept until it changes; it is run anew for every file that imports it, because a config is
free to change what it imports. Nothing enters `sys.modules`, and `sys.path` is neither read for configs nor changed.
What a config prints goes to standard error: standard output is for what was asked for.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from rolecall.config.finder import (
    config_package,
    find_config_module,
    find_relative,
    in_read_base,
    is_installed,
    near_names,
)
from rolecall.config.merge import merge_bases
from rolecall.config.names import is_foreign, is_standard
from rolecall.config.reference import Reference, Resolve
from rolecall.config.settings import with_attributes
from rolecall.config.trouble import (
    MissingImportError,
    circular_import,
    imported_from,
    missing_name,
    syntax_problem,
    unreadable,
    user_problem,
)
from rolecall.errors import ConfigError
from rolecall.usercode import printing_to_stderr

__all__ = ['Compile', 'Namespace', 'Runner', 'compiled']

Namespace = dict[str, Any]
Compile = Callable[[str], CodeType]

_compiled: dict[str, tuple[tuple[int, int], CodeType]] = {}


def compiled(path: str) -> CodeType:
    """The code of a config file, from memory if the file is as it was."""
    try:
        status = os.stat(path)
        stamp = (status.st_mtime_ns, status.st_size)
        known = _compiled.get(path)
        if known and known[0] == stamp:
            return known[1]
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
    """One load: the rules for imports, and the files being run at the moment, outermost first."""

    resolve: Resolve
    roots: Sequence[str] = ()
    compile: Compile = compiled
    extra_builtins: Mapping[str, Any] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)

    def run(self, path: str) -> Namespace:
        """The names a config file leaves behind, its own and those it imported."""
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
            found = find_config_module(name, importer=self.path, roots=self.runner.roots)
            if found:
                return self._bound(name, self._module(found, wanted), wanted)
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
        found = find_relative(folder, parts)
        if found is None:
            raise MissingImportError(
                f"there is no config file '{'.' * level}{name}'.",
                looked_for=f'{os.path.join(folder, *parts)}.py',
                near=near_names(folder, parts),
            )
        return self._module(found, wanted)

    def _module(self, found: str, wanted: tuple[str, ...]) -> ModuleType:
        """A config file as a module, run once for the file that imports it, with the submodules it asks for."""
        module = self.modules.get(found)
        if module is None:
            module = self.modules[found] = ModuleType(os.path.basename(found).removesuffix('.py'))
            if os.path.isfile(found):
                names = self.runner.run(found)
                shared: dict[int, Any] = {}
                values = {name: value for name, value in names.items() if not name.startswith('__')}
                vars(module).update({name: with_attributes(value, shared) for name, value in values.items()})
        folder = found if os.path.isdir(found) else os.path.dirname(found)
        is_package = folder == found or os.path.basename(found) == '__init__.py'
        for name in wanted:
            if name == '*' or hasattr(module, name):
                continue
            inner = find_relative(folder, [name]) if is_package else None
            if inner is None:
                raise missing_name(name, found, vars(module))
            setattr(module, name, self._module(inner, ()))
        return module

    def _bound(self, name: str, module: ModuleType, wanted: tuple[str, ...]) -> ModuleType:
        """What an absolute import evaluates to: the module for `from a.b import c`, the outermost for `import a.b`."""
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
        """`from somewhere import *`: a reference for every name the file uses and nobody else defines."""
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
            f"there is no config file '{name}'.",
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
