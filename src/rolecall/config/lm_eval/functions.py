"""`!function`: functions of the task's own folder, run as the user's code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rolecall.config.lm_eval.stand_ins import importable
from rolecall.config.lm_eval.task_file import Function
from rolecall.errors import ConfigError, Problem
from rolecall.usercode import neighbours_of, short_path, user_code

__all__ = ['call_function', 'load_function']


def load_function(function: Function) -> Callable[..., Any]:
    """The function that is meant: in a file beside the one that names it, or else in an installed module."""
    return _load(function.name, str(function.folder), function.place)


def call_function(function: Function, *arguments: Any) -> Any:
    """What a function returns; what it raises is a problem with its place."""
    called = load_function(function)
    with user_code(f'!function {function.name}', where=function.place):
        return called(*arguments)


@lru_cache(maxsize=4096)
def _load(name: str, folder: str, place: str) -> Callable[..., Any]:
    module_name, _, attribute = name.rpartition('.')
    file = _find_file(module_name, Path(folder))
    if not module_name:
        raise ConfigError(Problem(place, f'!function {name}: no module is named.', "Write 'module.function'."))
    module = _module(str(file), module_name, place) if file.is_file() else _import_installed(name, module_name, place)
    if not hasattr(module, attribute):
        raise ConfigError(Problem(place, f'!function {name}: {module_name!r} has no {attribute!r}.'))
    found: Callable[..., Any] = getattr(module, attribute)
    return found


def _find_file(module_name: str, folder: Path) -> Path:
    """The file of a module: beside the task, or for `lm_eval.tasks.…` below the folder `tasks` around it."""
    parts = module_name.split('.')
    if parts[:2] == ['lm_eval', 'tasks']:
        root = next((one for one in (folder, *folder.parents) if one.name == 'tasks'), None)
        if root is not None:
            return Path(root, *parts[2:]).with_suffix('.py')
    return Path(folder, *parts).with_suffix('.py')


def _import_installed(name: str, module_name: str, place: str) -> ModuleType:
    with user_code(f'importing {module_name!r}', where=place):
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            what = f'!function {name}: there is no {module_name}.py beside the file, and no module of that name.'
            raise ConfigError(Problem(place, what)) from error


@lru_cache(maxsize=1024)
def _module(file: str, name: str, place: str) -> ModuleType:
    """The file as a module, under its path, so that `utils` of one task is not that of another."""
    module = ModuleType(file)
    module.__file__ = file
    sys.modules[file] = module
    try:
        with user_code(f'importing {short_path(file)}', where=place), neighbours_of(file), importable(Path(file)):
            exec(compile(Path(file).read_bytes(), file, 'exec', dont_inherit=True), vars(module))
    except ConfigError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError):
            what = f'{short_path(file)} imports {missing.name}, which is not installed.'
            raise ConfigError(Problem(place, what, f'pip install {missing.name}')) from missing
        raise
    return module
