"""Config files: Python files whose public names are the config (loading one runs it), or the same as YAML or JSON."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from rolecall.errors import ConfigError, Problem
from rolecall.registry import LocalPath
from rolecall.sources.config.execute import Runner
from rolecall.sources.config.finder import is_standard, resolve, resolve_real, resolve_registered
from rolecall.sources.config.locate import Retrace
from rolecall.sources.config.plain_configs import PlainTrace, is_plain_config, read_plain_config
from rolecall.sources.config.reference import Call, Resolve
from rolecall.sources.config.trouble import not_a_list

_LISTS = ('models', 'datasets')
_NAMING = (
    *('type', 'function', 'prompt_template', 'ice_template', 'retriever', 'inferencer', 'meta_template', 'evaluator'),
    *('pred_postprocessor', 'dataset_postprocessor', 'model_postprocessor', 'dict_postprocessor'),
)
"""Keys whose value may be the name of a part."""
SHEETS = ('.xlsx', '.xls', '.ods')
_NOT_CONFIGS = (*SHEETS, '.toml', '.ini', '.cfg', '.ipynb', '.md', '.html', '.xml', '.sqlite', '.gguf', '.safetensors')
"""Files sometimes passed as a config by mistake; without this check they would be run as Python."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Config(Mapping[str, Any]):
    """The public names of a config file and their values.

    Modules, functions, classes and references that the file imported or defined are in `helpers`.
    """

    path: Path
    names: Mapping[str, Any]
    helpers: Mapping[str, Any] = field(default_factory=dict)
    _trace: Retrace | PlainTrace | None = None

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f'Config({str(self.path)!r}: {", ".join(self)})'

    def locate(self, place: str) -> str | None:
        """Where a value was written, as `file:line`; None if that is uncertain.

        `config.locate('datasets[0].infer_cfg.retriever')` may point to an imported file. The first call runs the files
        once more, with `print` silenced, to find out.
        """
        position = self._trace().find(place, self) if self._trace else None
        return f'{position[0]}:{position[1]}' if position else None

    def locate_nearest(self, place: str) -> str:
        """Where a value, or the innermost known container around it, was written; otherwise the file."""
        while place:
            if location := self.locate(place):
                return location
            place = place[: max(place.rfind('.'), place.rfind('['), 0)]
        return str(self.path)


def load_config_file(
    path: str | Path,
    *,
    foreign: Literal['reference', 'real'] | None = None,
    roots: Sequence[str | Path] = (),
    resolve: Resolve = resolve,
) -> Config:
    """The config in a Python, YAML or JSON file; a Python file is run."""
    if is_plain_config(path):
        return _load_plain_config(Path(path))
    if (suffix := Path(path).suffix.lower()) in _NOT_CONFIGS:
        remedy = 'Save the sheet as CSV (UTF-8).' if suffix in SHEETS else 'Configs end in .py, .yaml or .json.'
        raise ConfigError(Problem(str(path), f'{suffix} files are not read.', remedy))
    foreign = foreign or os.environ.get('ROLECALL_FOREIGN') or 'reference'  # type: ignore[assignment]
    if foreign not in ('reference', 'real'):
        raise ConfigError(Problem('foreign', f"expected 'reference' or 'real', got {foreign!r}."))
    file = os.path.abspath(path)
    folders = tuple(os.path.abspath(root) for root in roots)
    finds = resolve_real if foreign == 'real' else resolve
    names = Runner(finds, folders).run(file)
    public = {name: value for name, value in names.items() if not name.startswith('_')}
    values = {name: value for name, value in public.items() if _is_data(value)}
    helpers = {name: value for name, value in public.items() if name not in values}
    _mark_local_paths(values, Path(file).parent)
    if foreign == 'real':
        _resolve_registered_names(values, set())
    config = Config(Path(path), values, helpers, Retrace(file, finds, folders))
    if problems := list(_shape_problems(config)):
        raise ConfigError(problems)
    return config


def _load_plain_config(path: Path) -> Config:
    """A YAML or JSON config, as data."""
    values = read_plain_config(path)
    _mark_local_paths(values, path.absolute().parent)
    config = Config(path, values, {}, PlainTrace(str(path)))
    if problems := list(_shape_problems(config)):
        raise ConfigError(problems)
    return config


def _mark_local_paths(config: Mapping[str, Any], folder: Path) -> None:
    """Mark every dotted path that names a part and leads to a module in `folder`, the config's own."""
    modules = {path.stem for path in folder.iterdir() if path.suffix == '.py' or path.is_dir()}
    visited: set[int] = set()

    def mark_path(value: Any) -> Any:
        beside = type(value) is str and value.replace(':', '.').partition('.')[0] in modules
        return LocalPath(value, folder) if beside and ('.' in value or ':' in value) else value

    def mark(value: Any) -> None:
        if not isinstance(value, dict | list | tuple) or id(value) in visited:
            return
        visited.add(id(value))
        if isinstance(value, dict):
            value.update({key: mark_path(value[key]) for key in _NAMING if type(value.get(key)) is str})
            if isinstance(value.get('rules'), list):
                value['rules'] = [mark_path(rule) for rule in value['rules']]
        for inner in value.values() if isinstance(value, dict) else value:
            mark(inner)

    for value in config.values():
        mark(value)


def _resolve_registered_names(value: Any, visited: set[int]) -> None:
    """Replace bare names of postprocessors and evaluators by what an installed package registers under them."""
    if not isinstance(value, dict | list | tuple) or id(value) in visited:
        return
    visited.add(id(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        named = inner.get('type') if isinstance(inner, dict) else inner
        part = resolve_registered(key, named) if type(named) is str and '.' not in named else None
        if part is not None and isinstance(inner, dict):
            inner['type'] = part
        elif part is not None and isinstance(value, dict):
            value[key] = part
    for inner in list(value.values()) if isinstance(value, dict) else value:
        _resolve_registered_names(inner, visited)


def _is_data(value: object) -> bool:
    """Whether a top-level value is part of the config, rather than a helper such as `os` or a function."""
    if isinstance(value, Call | dict | list | Path):
        return True
    kind = type(value).__module__
    return not isinstance(value, ModuleType) and not callable(value) and (kind == 'builtins' or not is_standard(kind))


def _shape_problems(config: Config) -> Iterator[Problem]:
    for problem in misspelt_lists(config):
        yield replace(problem, where=f'{config.locate(problem.where) or config.path}: {problem.where}')
    for name in _LISTS:
        value = config.get(name, [])
        where = config.locate(name) if not isinstance(value, list | tuple) else None
        if not isinstance(value, list | tuple):
            yield not_a_list(f'{where or config.path}: {name}', value)
            continue
        for index, entry in enumerate(value):
            if isinstance(entry, list | tuple):
                yield Problem(
                    f'{config.locate(name) or config.path}: {name}[{index}]',
                    f'expected a dict, found a {type(entry).__name__}.',
                    f'Join lists with {name} = [*a_{name}, *b_{name}], and leave no comma after the closing bracket.',
                )


def misspelt_lists(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Lists of dicts named almost `models` or `datasets` in a config that has no such list.

    >>> [problem.remedy for problem in misspelt_lists({'model': [dict(abbr='m')], 'my_datasets': [dict(abbr='d')]})]
    ["Did you mean 'models'?"]
    """
    for name, value in config.items():
        if name in _LISTS or name.endswith(('_models', '_datasets')) or not _is_list_of_dicts(value):
            continue
        for meant in difflib.get_close_matches(name, _LISTS, n=1, cutoff=0.8):
            if not config.get(meant):
                yield Problem(
                    name, f'unknown name {name!r}, and the config has no {meant}.', f'Did you mean {meant!r}?'
                )


def _is_list_of_dicts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(entry, Mapping) for entry in value)
