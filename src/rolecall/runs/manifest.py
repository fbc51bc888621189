"""What a run directory says about how its run was made: the config without keys, models, digests, versions."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from typing import Any

from rolecall._version import __version__
from rolecall.redaction import mask_config
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.parts import digest_pair
from rolecall.runs.versions import describe_rows, parts_of
from rolecall.strings import count_noun

_MOST_ROWS = 100
_PACKAGES = ('jinja2', 'tokenizers', 'tiktoken', 'transformers', 'torch', 'vllm', 'llama-cpp-python', 'datasets')
_SPLITS = ('train', 'test', 'validation')


def hide_secrets(value: Any) -> Any:
    """The config with every secret hidden, and long lists of inline rows counted, not kept.

    >>> hide_secrets({'models': [{'abbr': 'gpt', 'key': 'sk-1', 'path': 'gpt-4o'}]})
    {'models': [{'abbr': 'gpt', 'key': '***', 'path': 'gpt-4o'}]}
    """
    return mask_config(_without_rows(value))


def _without_rows(value: Any) -> Any:
    """The config with long lists of inline rows counted, not kept."""
    if isinstance(value, Mapping):
        return {name: _count_rows(name, inner) for name, inner in value.items()}
    return [_without_rows(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _count_rows(name: object, value: Any) -> Any:
    if name in _SPLITS and isinstance(value, (list, tuple)) and len(value) > _MOST_ROWS:
        return count_noun(len(value), 'row')
    return _without_rows(value)


def describe_run(prepared: PreparedRun) -> dict[str, Any]:
    """With what a run was made: versions, models, each dataset × model with the digests of its parts, overrides."""
    overrides = dict(prepared.experiment.overrides)
    rows_digests: dict[int, str | None] = {}
    pairs = [
        {
            'dataset': pair.dataset,
            'model': pair.model.name,
            'parts': digest_pair(pair.pair, pair.model, rows_digests).as_dict(),
            **describe_rows(prepared.options),
            **({'path': path} if isinstance(path := pair.pair.task.entry.get('path'), str) else {}),
        }
        for pair in prepared.pairs
    ]
    versions = describe_surroundings()
    return {
        'rolecall': versions.pop('rolecall'),
        'python': versions.pop('python'),
        'platform': platform.platform(),
        'packages': versions,
        'models': {name: hide_secrets(dict(model.identity)) for name, model in prepared.models.items()},
        'pairs': pairs,
        **({'servers': servers} if (servers := _describe_servers(prepared)) else {}),
        **({'overrides': hide_secrets(dict(overrides))} if overrides else {}),
    }


def describe_surroundings() -> dict[str, str]:
    """The versions of what prompts and replies depend on, as far as it is installed."""
    versions = {'rolecall': __version__, 'python': platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _describe_servers(prepared: PreparedRun) -> dict[str, Any]:
    """What is known of the servers of models, by the models' names."""
    facts = {name: getattr(model, 'facts', None) for name, model in prepared.models.items()}
    return {
        name: {key: fact for key, fact in asdict(server).items() if fact or fact is False}
        for name, server in facts.items()
        if server
    }


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What a person should know who starts a run again: other rows than before, or a new model beside old ones."""
    entries = before.get('pairs')
    pairs = [pair for pair in entries if isinstance(pair, dict)] if isinstance(entries, list) else []
    servers = [
        f'{name}: the server has changed since this run began, from {_name_server(was)} to {_name_server(facts)}.'
        for name, facts in now.get('servers', {}).items()
        if isinstance(was := (before.get('servers') or {}).get(name), dict) and _name_server(was) != _name_server(facts)
    ]
    return [*_describe_changed_rows(pairs, now['pairs']), *_describe_other_models(pairs, now['pairs']), *servers]


def _name_server(facts: Mapping[str, Any]) -> str:
    return ' '.join(str(facts[key]) for key in ('engine', 'version', 'model', 'quantization', 'window') if key in facts)


def _describe_changed_rows(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Datasets that are read from another file, or benchmarks with other rows, than when this run began."""
    by_dataset = {pair.get('dataset'): pair for pair in before}
    messages: dict[str, str] = {}
    for pair in now:
        name, was = pair['dataset'], by_dataset.get(pair['dataset'], pair)
        if was.get('path', pair.get('path')) != pair.get('path'):
            messages[name] = (
                f'{name}: this run began with the rows of {was["path"]}; those of {pair.get("path")} replace them.'
            )
        elif parts_of(was).find_differing(parts_of(pair), ('rows',)):
            messages[name] = (
                f'{name}: its rows have changed since this run began; those with another prompt are asked again.'
            )
    return list(messages.values())


def _describe_other_models(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Models whose results stay in this directory, where a new one joins them."""
    stored, planned = ({str(pair.get('model')) for pair in pairs} for pairs in (before, now))
    if stored >= planned or stored <= planned:
        return []
    names = ', '.join(sorted(stored - planned))
    return [f'This directory has results of {names}, too; they stay beside the new ones. --out DIR keeps runs apart.']
