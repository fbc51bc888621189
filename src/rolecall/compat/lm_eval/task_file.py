"""Task files as data: YAML with `include`, `!function` and the line of every key. Nothing is run here."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.plain_files import open_plain
from rolecall.sources.config.plain_configs import check_depth
from rolecall.usercode import short_path

_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class Function:
    """`!function utils.process_docs`: a function in a file beside the task file, imported when it is called."""

    name: str
    """`module.function`, as written."""
    folder: Path
    place: str = ''
    """`file:line`"""

    def __repr__(self) -> str:
        return f'!function {self.name}'


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file with everything it includes."""

    path: Path
    values: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)
    """`file:line` of each top-level key, in the file whose value wins."""


def read_task_file(path: str | Path) -> TaskFile:
    """Read a task file and everything it includes. Later includes win over earlier ones, and its own keys over all."""
    return _read(os.path.abspath(path), ())


def _read(path: str, including: tuple[str, ...]) -> TaskFile:
    if path in including:
        loop = ' -> '.join(map(short_path, (*including[including.index(path) :], path)))
        raise ConfigError(Problem(short_path(path), f'circular include: {loop}.'))
    try:
        with open_plain(path, largest=_LARGEST, links=True) as file:
            status = os.fstat(file.fileno())
            values, places = _parse(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise _unreadable(path, error, including) from error
    included = values.get('include', ())
    named = included if isinstance(included, list) else [included] if included else []
    merged: dict[str, Any] = {}
    lines: dict[str, str] = {}
    for name in named:
        if not isinstance(name, str):
            raise ConfigError(Problem(places['include'], f'include: expected a path, got {name!r:.60}.'))
        inner = _read(os.path.normpath(os.path.join(os.path.dirname(path), name)), (*including, path))
        merged.update(inner.values)
        lines.update(inner.places)
    merged |= {key: value for key, value in values.items() if key != 'include'}
    return TaskFile(Path(path), merged, {**lines, **places})


def _unreadable(path: str, error: OSError, including: tuple[str, ...]) -> ConfigError:
    folder, name = os.path.split(path)
    near = difflib.get_close_matches(name, os.listdir(folder) if os.path.isdir(folder) else (), n=1)
    by = f' It is included by {short_path(including[-1])}.' if including else ''
    remedy = f"Did you mean '{near[0]}'?{by}" if near else f'Check the path.{by}'
    return ConfigError(Problem(short_path(path), f'cannot be read: {error.strerror or error}.', remedy))


@lru_cache(maxsize=4096)
def _parse(path: str, changed: int, size: int) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """One file's keys with their values and places, kept until the file changes. The values are shared."""
    yaml = importlib.import_module('yaml')
    name = short_path(path)
    with open_plain(path, largest=_LARGEST, links=True) as file:
        text = file.read(_LARGEST)
    try:
        check_depth(yaml, text)
        loader = _loader(yaml)(text)
        loader.folder, loader.shown = Path(path).parent, name
        try:
            node = loader.get_single_node()
            values = {} if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, UnicodeDecodeError) as error:
        mark = getattr(error, 'problem_mark', None)
        where = f'{name}:{mark.line + 1}' if mark else name
        raise ConfigError(Problem(where, f'is not YAML: {getattr(error, "problem", None) or error}.')) from error
    if not isinstance(values, dict):
        raise ConfigError(Problem(name, f'expected keys and values, found {type(values).__name__}.'))
    places = {key.value: f'{name}:{key.start_mark.line + 1}' for key, _ in (node.value if node is not None else ())}
    return {str(key): value for key, value in values.items()}, places


@lru_cache(maxsize=1)
def _loader(yaml: Any) -> Any:
    base: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
    loader_class: Any = type('TaskFileLoader', (base,), {'folder': Path(), 'shown': ''})

    def function(loader: Any, node: Any) -> Function:
        name = loader.construct_scalar(node)
        return Function(name, loader.folder, f'{loader.shown}:{node.start_mark.line + 1}')

    loader_class.add_constructor('!function', function)
    return loader_class
