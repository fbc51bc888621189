"""Resolves a config file's imports to files, relative to the importing file and never through sys.path."""

from __future__ import annotations

import difflib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec

from rolecall.sources.config.names import CONFIG_PACKAGES

in_read_base: ContextVar[bool] = ContextVar('in_read_base', default=False)


class _ReadBase(AbstractContextManager[None]):
    def __enter__(self) -> None:
        self.token = in_read_base.set(True)

    def __exit__(self, *exc: object) -> None:
        in_read_base.reset(self.token)


def read_base() -> AbstractContextManager[None]:
    """Marks imports that bring in another config: `with read_base(): from .gsm8k import gsm8k_datasets`.

    Relative imports read config files without it too; inside it, absolute ones do as well.
    """
    return _ReadBase()


def find_relative(folder: str, parts: Sequence[str]) -> str | None:
    """The file of a module inside a folder, or the folder itself where it is a package without `__init__.py`."""
    base = os.path.join(folder, *parts)
    for candidate in (f'{base}.py', os.path.join(base, '__init__.py')):
        if parts and os.path.isfile(candidate):
            return candidate
    return base if os.path.isdir(base) else None


def config_package(module: str) -> tuple[str, tuple[str, ...]] | None:
    """The config package a module belongs to, and its path inside it.

    >>> config_package('opencompass.configs.datasets.gsm8k.gsm8k_gen')
    ('opencompass.configs', ('datasets', 'gsm8k', 'gsm8k_gen'))
    >>> config_package('opencompass.datasets') is None
    True
    """
    for package in CONFIG_PACKAGES:
        if module == package or module.startswith(f'{package}.'):
            return package, tuple(module[len(package) + 1 :].split('.')) if module != package else ()
    return None


def find_config_module(module: str, *, importer: str, roots: Sequence[str]) -> str | None:
    """The file behind an absolute import of a config, as seen from the file that imports it."""
    package_parts = config_package(module)
    package, inner = package_parts if package_parts else ('', ())
    if package_parts:
        for folder in _config_folders(package, importer=importer, roots=roots):
            if file := find_relative(folder, inner):
                return file
    parts = module.split('.')
    for folder in (*roots, *_find_installed(parts[0])):
        if file := find_relative(folder, parts):
            return file
    return None


def near_names(folder: str, parts: Sequence[str]) -> list[str]:
    """Similar names in the folder where a missing module was looked for, nearest first."""
    while parts[:-1] and not os.path.isdir(os.path.join(folder, *parts[:-1])):
        parts = parts[:-1]
    folder = os.path.join(folder, *parts[:-1])
    if not parts or not os.path.isdir(folder):
        return []
    names = sorted({name.removesuffix('.py') for name in os.listdir(folder) if not name.startswith(('_', '.'))})
    return difflib.get_close_matches(parts[-1], names, n=3)


def _config_folders(package: str, *, importer: str, roots: Sequence[str]) -> Iterator[str]:
    tail = package.replace('.', os.sep)
    for root in roots:
        yield root
        yield os.path.join(root, tail)
    folder = os.path.dirname(importer)
    while True:
        if os.path.basename(folder) == 'configs':
            yield folder
        yield os.path.join(folder, tail)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent


def is_installed(package: str) -> bool:
    """Whether Python could import a package; it is not imported to find out."""
    return _spec(package) is not None


def _spec(package: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None


def _find_installed(package: str) -> list[str]:
    """The folders that hold an installed package."""
    spec = _spec(package)
    places = spec.submodule_search_locations if spec else None
    return [os.path.dirname(place) for place in places or ()]
