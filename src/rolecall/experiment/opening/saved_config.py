"""`run --save-config`: what was run, as a config file that gives the same requests."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.loading import load_config
from rolecall.experiment.opening.tasks import dataset_abbr
from rolecall.redaction import find_secrets
from rolecall.registry import LocalPath
from rolecall.sources.config.printing import format_config

_SUFFIXES = ('.py', '.yaml', '.yml', '.json')


def save_config(config: Mapping[str, Any], target: Path, *, places: Collection[str], limit: int | None = None) -> None:
    """Write the datasets and models at these places of a config to a file.

    What would not read back the same is refused.
    """
    if target.exists():
        raise ConfigError(Problem(f'--save-config {target}', 'the file exists.', 'Give another name.'))
    text = format_saved(config, target, places=places, limit=limit)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix='.saving-') as folder:
        part = Path(folder, target.name)
        part.write_text(text, encoding='utf-8')
        os.replace(part, target)


def format_saved(config: Mapping[str, Any], target: Path, *, places: Collection[str], limit: int | None = None) -> str:
    """The text of a config file with these datasets and models, in the format of the target's suffix."""
    selected = dict(config)
    for key in (*dataset_keys(config), 'models'):
        selected[key] = [entry for i, entry in enumerate(config.get(key) or ()) if f'{key}[{i}]' in places]
    for key in dataset_keys(config):
        selected[key] = [_with_relative_path(_limit(entry, limit), target.parent) for entry in selected[key]]
    if problem := next(_find_obstacles(selected, target), None):
        raise ConfigError(problem)
    text = _format(selected, target.suffix)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix='.saving-') as folder:
        part = Path(folder, target.name)
        part.write_text(text, encoding='utf-8')
        if _as_data(load_config(part)) != _as_data(selected):
            what = 'the config holds objects that cannot be written to a file.'
            raise ConfigError(Problem(f'--save-config {target}', what, 'Change the original config instead.'))
    return text


def _limit(entry: Mapping[str, Any], limit: int | None) -> Mapping[str, Any]:
    """A dataset of which only the first rows are asked about."""
    if limit is None:
        return entry
    reader = entry.get('reader_cfg') or {}
    before = reader.get('test_range') or ''
    if not isinstance(before, str):
        what = f'--limit {limit} and the test_range {before!r} of {dataset_abbr(entry)} cannot be written as one.'
        raise ConfigError(Problem('--save-config', what, 'Leave --limit out.'))
    return {**entry, 'reader_cfg': {**reader, 'test_range': f'{before}[:{limit}]'}}


def _with_relative_path(entry: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A dataset whose file stands below the config's folder, named from there."""
    path = entry.get('path')
    if not isinstance(path, str) or not Path(path).is_relative_to(folder.absolute()):
        return entry
    return {**entry, 'path': str(Path(path).relative_to(folder.absolute()))}


def _find_obstacles(config: Mapping[str, Any], target: Path) -> Iterator[Problem]:
    where = f'--save-config {target}'
    if target.suffix not in _SUFFIXES:
        yield Problem(where, f'the name must end in {", ".join(_SUFFIXES)}.')
    if find_secrets(config):
        yield Problem(where, 'the config holds a key.', "Set it in the environment, and write key='ENV'.")
    for entry in config['models']:
        kind = entry.get('type') if isinstance(entry, Mapping) else None
        if isinstance(kind, LocalPath) and kind.folder.resolve() != target.parent.resolve():
            yield Problem(where, f'{kind} is found from {kind.folder} alone.', f'Save to {kind.folder / target.name}.')
    if any(type(entry.get('type')).__module__.startswith('rolecall.compat') for entry in config.get('datasets') or ()):
        yield Problem(where, 'the datasets are a benchmark.', 'Write them with: rolecall config show NAME > FILE.py')


def _format(config: Mapping[str, Any], suffix: str) -> str:
    if suffix == '.py':
        return f'{format_config(config)}\n'
    data = _as_data(config)
    if suffix == '.json':
        return f'{json.dumps(data, ensure_ascii=False, indent=2)}\n'
    yaml = importlib.import_module('yaml')
    dumper: Any = type('_Dumper', (yaml.SafeDumper,), {})
    dumper.add_representer(str, _write_text)
    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110))


def _write_text(dumper: Any, text: str) -> Any:
    """Texts of several lines, such as templates, keep their lines."""
    return dumper.represent_scalar('tag:yaml.org,2002:str', text, style='|' if '\n' in text else None)


def _as_data(config: Mapping[str, Any]) -> Any:
    return json.loads(format_config(dict(config), style='json'))
