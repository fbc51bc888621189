"""`!function`: functions of the task's own folder, run as the user's code."""

from __future__ import annotations

import importlib
import importlib.util
import random
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rolecall.compat.lm_eval.stand_ins import importable
from rolecall.compat.lm_eval.task_file import Function
from rolecall.errors import ConfigError, Problem
from rolecall.usercode import check_importable, neighbours_of, short_path, user_code

_GENERATORS: dict[str, list[tuple[random.Random, Any]]] = {}
"""The generators at the top of each file that was run, with the state they had then."""


def seed_generators() -> None:
    """Seed the shared generators as lm-eval does at start-up, and reset those of task files."""
    random.seed(0)
    if (numpy := sys.modules.get('numpy')) is not None:
        numpy.random.seed(1234)
    for states in _GENERATORS.values():
        for generator, state in states:
            generator.setstate(state)


def load_function(function: Function) -> Callable[..., Any]:
    """The function: in a file beside the one that names it, or else in an installed module."""
    check_importable(function.name, function.place)
    return _load(function.name, str(function.folder), function.place)


def call_function(function: Function, *arguments: Any, **options: Any) -> Any:
    """Call a function; exceptions become problems with its place."""
    called = load_function(function)
    with user_code(f'!function {function.name}', where=function.place):
        try:
            return called(*arguments, **options)
        except ModuleNotFoundError as error:
            if (error.name or '').partition('.')[0] not in ('datasets', 'lm_eval'):
                raise
        with importable(Path(function.folder, 'any.py')):  # imported where it is used, not at the top of the file
            return called(*arguments, **options)


@lru_cache(maxsize=4096)
def _load(name: str, folder: str, place: str) -> Callable[..., Any]:
    module_name, _, attribute = name.rpartition('.')
    if not module_name:
        raise ConfigError(Problem(place, f'!function {name}: no module is named.', "Write 'module.function'."))
    if not all(re.fullmatch(r'[\w-]+', part) for part in module_name.split('.')):
        remedy = "Write 'module.function', with a module in the task's folder or an installed one."
        raise ConfigError(Problem(place, f'!function {name}: {module_name!r} is a path, not a module.', remedy))
    file = _find_file(module_name, Path(folder))
    module = _module(str(file), module_name, place) if file.is_file() else _import_installed(name, module_name, place)
    if not hasattr(module, attribute):
        raise ConfigError(Problem(place, f'!function {name}: {module_name!r} has no {attribute!r}.'))
    function: Callable[..., Any] = getattr(module, attribute)
    return function


def _find_file(module_name: str, folder: Path) -> Path:
    """The file of a module: beside the task, or for `lm_eval.tasks.…` below the folder `tasks` around it."""
    parts = module_name.split('.')
    if parts[:2] == ['lm_eval', 'tasks']:
        root = next((parent for parent in (folder, *folder.parents) if parent.name == 'tasks'), None)
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
    """The file as a module named by its path, so that the `utils` of two tasks do not collide."""
    module = ModuleType(file)
    module.__file__ = file
    sys.modules[file] = module
    try:
        try:
            _run_file(module, place)
        except ConfigError as error:
            if not _needs_datasets(error):
                raise
            vars(module).clear()
            vars(module).update(vars(ModuleType(file)), __file__=file)
            _run_file(module, place, installed=True)
    except ConfigError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError):
            what = f'{short_path(file)} imports {missing.name}, which is not installed.'
            raise ConfigError(Problem(place, what, f'pip install {missing.name}')) from missing
        raise
    own = [value for value in vars(module).values() if isinstance(value, random.Random)]
    _GENERATORS[file] = [(value, value.getstate()) for value in own]
    return module


def _run_file(module: ModuleType, place: str, *, installed: bool = False) -> None:
    file = module.__file__ or ''
    code = user_code(f'importing {short_path(file)}', where=place)
    with code, neighbours_of(file), importable(Path(file), installed=installed):
        exec(compile(Path(file).read_bytes(), file, 'exec', dont_inherit=True), vars(module))


def _needs_datasets(error: ConfigError) -> bool:
    """Whether a package needs more of `datasets` than the stand-in has, and the real one is installed."""
    cause = error.__cause__
    name = getattr(cause, 'name', None) or ''
    wanted = isinstance(cause, ImportError | AttributeError) and (
        name.partition('.')[0] == 'datasets' or "'datasets'" in str(cause)
    )
    return wanted and importlib.util.find_spec('datasets') is not None
