"""Versions of an evaluation: another wording, or fewer rows, is another version, kept in a directory of its own.

`runs/NAME` is the first version, `runs/NAME-2` the next. A run with the same wording, with a further model or with more
rows goes on where it was, so nothing is replaced and no models are ranked over different prompts.

The manifest of a run says how it was made, a seal what was planned before the first request.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

from rolecall._version import __version__
from rolecall.core.program import fingerprint
from rolecall.errors import ConfigError, Problem, RolecallError, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.model_entries import model_abbr
from rolecall.experiment.opening.tasks import dataset_abbr
from rolecall.redaction import mask_config
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.parts import PartDigests, digest_entries, digest_pair
from rolecall.runs.run_options import RunOptions
from rolecall.runs.stopping import Goal
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.strings import count_noun, join_words

Pairs = Mapping[tuple[str, str], Mapping[str, Any]]
"""What is known of each dataset × model of a run directory: the digests of its parts, its limit."""
Planned = Mapping[tuple[str, str], PartDigests]
_SENT = ('wording', 'template', 'examples', 'format', 'sampling')
"""Parts that decide what a model is sent: with another of them, its results are another version."""


def parts_of(pair: Mapping[str, Any]) -> PartDigests:
    """The digests that a run has stored of a dataset × model."""
    record = pair.get('parts')
    return PartDigests.from_record(record) if isinstance(record, Mapping) else PartDigests()


def describe_rows(options: RunOptions) -> dict[str, Any]:
    """Which rows of its datasets a run asks about; empty if all.

    >>> describe_rows(RunOptions(sample=200)), describe_rows(RunOptions())
    ({'sample': 200, 'seed': 0}, {})
    """
    chosen = {name: getattr(options, name) for name in ('limit', 'sample', 'until')}
    rows = {name: value for name, value in chosen.items() if value is not None}
    return rows if options.limit is not None or not rows else {**rows, 'seed': options.sample_seed}


def describe_rows_of(rows: Mapping[str, Any]) -> str:
    """Which rows a dataset × model was asked about, in words."""
    drawn = f', drawn with seed {rows["seed"]}' if 'seed' in rows else ''
    if rows.get('until') is not None:
        return f'rows until {rows["until"]}{drawn}'
    count = rows.get('limit') or rows.get('sample')
    return f'{count} rows{drawn}' if count else 'all rows'


def _holds(now: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether a run asks about all the rows that results are stored for.

    >>> _holds({'limit': 5}, {'limit': 3}), _holds({'sample': 5, 'seed': 0}, {'limit': 3}), _holds({}, {'limit': 3})
    (True, False, True)
    """
    if not now:
        return True
    goals = [Goal.read(str(rows['until'])) for rows in (now, stored) if rows.get('until')]
    if now.get('seed') != stored.get('seed') or len(goals) == 1 or (goals and not goals[0].goes_on_from(goals[1])):
        return False
    name = 'limit' if 'limit' in now else 'sample'
    return name not in now or (isinstance(stored.get(name), int) and stored[name] <= now[name])


def refuse_other_rows(before: Pairs, now: Sequence[Mapping[str, Any]]) -> None:
    """Rows that were not drawn must not stand among those that were."""
    for pair in now:
        stored = before.get((pair['dataset'], pair['model']))
        if stored is not None and 'seed' in pair and not _holds(_rows_of(pair), stored):
            name = f'{pair["dataset"]} × {pair["model"]}'
            what = (
                f'has results of {name} on {describe_rows_of(stored)}, which are no part of {describe_rows_of(pair)}.'
            )
            raise ConfigError(Problem('out', f'the run directory {what}', 'Name another one with --out.'))


def _rows_of(pair: Mapping[str, Any]) -> dict[str, Any]:
    return {name: pair[name] for name in ('limit', 'sample', 'until', 'seed') if name in pair}


def choose_version(experiment: Experiment, folder: Path, *, rows: Mapping[str, Any]) -> tuple[Path, str]:
    """The directory for this run: the newest version that it continues, or a new one; and a line if it is another."""
    planned = _digest_planned(experiment)
    first = folder / experiment.name
    versions = list(_list_versions(first))
    stored = {version: read_pairs(version) for version in reversed(versions)}
    differences = {version: _find_difference(pairs, planned, rows) for version, pairs in stored.items()}
    continued = [version for version, difference in differences.items() if difference is None]
    if not continued:
        new = first.with_name(f'{first.name}-{len(versions) + 1}')
        newest = versions[-1]
        return new, f'{newest} has results {differences[newest]}: this run is another version; its results go to {new}.'
    alike = [version for version in continued if _has_results(stored[version], planned, rows)]
    version = (alike or continued)[0]
    return version, '' if version == first else f'{version} has the results of this version.'


def _digest_planned(experiment: Experiment) -> dict[tuple[str, str], PartDigests]:
    rows_digests: dict[int, str | None] = {}
    planned = {}
    for task in experiment.tasks:
        for model in experiment.models:
            try:
                parts = digest_pair(experiment.pair(task, model), None, rows_digests)
            except RolecallError:  # the run will say what is wrong
                parts = digest_entries(task.entry, model.entry)
            planned[task.abbr, model.abbr] = parts
    return planned


def _has_results(pairs: Pairs, planned: Planned, rows: Mapping[str, Any]) -> bool:
    """Whether a directory has results of these datasets, on as many rows."""
    datasets = {dataset for dataset, _ in planned}
    return any(_rows_of(pair) == rows for (dataset, _), pair in pairs.items() if dataset in datasets)


def _find_difference(pairs: Pairs, planned: Planned, rows: Mapping[str, Any]) -> str | None:
    """How the results of a directory differ from those of a run, so that they cannot stand side by side."""
    wordings = {dataset: parts for (dataset, _), parts in planned.items()}
    for (dataset, model), stored in pairs.items():
        own = planned.get((dataset, model))
        others = parts_of(stored)
        if dataset in wordings and others.find_differing(wordings[dataset], ('wording',)):
            return f'of {dataset} with another prompt'
        if own is None:
            if dataset in wordings and _rows_of(stored) != rows:
                return f'of {dataset} × {model} on {describe_rows_of(stored)}'
            continue
        if differing := others.find_differing(own, _SENT):
            return f'of {dataset} × {model} with other {differing[0]}'
        if not _holds(rows, stored):
            return f'of {dataset} on {describe_rows_of(stored)}'
    return None


def describe_other_versions(directory: Path, own: Pairs) -> Iterator[str]:
    """The versions beside a run directory that have results of the same datasets × models, and how they differ."""
    base = directory.with_name(re.sub(r'-\d+$', '', directory.name))
    if not (base / FILE).is_file():
        base = directory
    others = []
    for version in _list_versions(base):
        stored = {} if version.name == directory.name else read_pairs(version)
        shared = [(own[names], stored[names]) for names in own if names in stored]
        differing = [part for ours, theirs in shared for part in parts_of(ours).list_differing(parts_of(theirs))]
        if any(_rows_of(ours) != _rows_of(theirs) for ours, theirs in shared):
            differing.append('rows')
        if shared:
            how = f'other {join_words(list(dict.fromkeys(differing)))}' if differing else 'the same'
            others.append(f'{version} ({how})')
    if others:
        yield f'Other versions: {", ".join(others)}.'


def _list_versions(first: Path) -> Iterator[Path]:
    """`runs/NAME`, `runs/NAME-2` and so on, as far as they exist."""
    yield first
    for number in count(2):
        if not (version := first.with_name(f'{first.name}-{number}')).exists():
            return
        yield version


def read_pairs(directory: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The datasets × models that a run directory has results of, as the last start of each says."""
    try:
        with RunReader(directory) as reader:
            return pairs_of(reader)
    except (RolecallError, OSError):  # nothing is there, or nothing that can be read: opening it will say so
        return {}


def pairs_of(reader: RunReader) -> dict[tuple[str, str], Mapping[str, Any]]:
    """What each start of a run says about its datasets × models; later starts replace earlier ones.

    Of a run that has stored no digests, those that its config decides are computed.
    """
    pairs: dict[tuple[str, str], Mapping[str, Any]] = {}
    for _, manifest, config in reader.starts():
        try:
            listed, entries = json.loads(manifest)['pairs'], json.loads(config)
        except (ValueError, TypeError, KeyError):  # damaged, or a log of another program
            continue
        for pair in listed if isinstance(listed, list) else ():
            if isinstance(pair, Mapping):
                names = str(pair.get('dataset')), str(pair.get('model'))
                pairs[names] = pair if 'parts' in pair else {**pair, 'parts': _digest_stored(entries, *names)}
    return pairs


def _digest_stored(config: Any, dataset: str, model: str) -> dict[str, str]:
    """The wording and the sampling of a dataset × model, from the config that a run has stored."""
    if not isinstance(config, Mapping):
        return {}
    dataset_entry, model_entry = find_entries(config, dataset, model)
    if dataset_entry is None or model_entry is None:
        return {}
    digests = digest_entries(dataset_entry, model_entry).as_dict()
    return {name: digests[name] for name in ('wording', 'sampling')}


def find_entries(
    config: Mapping[str, Any], dataset: str, model: str = ''
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The entries of a dataset and a model in a config; None for one that it does not spell out."""
    datasets = [entry for key in dataset_keys(config) for entry in config[key] if isinstance(entry, Mapping)]
    models = [entry for entry in config.get('models') or () if isinstance(entry, Mapping)]
    return (
        next((entry for entry in datasets if dataset_abbr(entry) == dataset), None),
        next((entry for entry in models if model_abbr(entry) == model), None),
    )


def describe_other_parts(before: Pairs, now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Results in a directory that a run replaces: what is sent differs, or fewer rows are asked."""
    messages = []
    for pair in now:
        stored = before.get((pair['dataset'], pair['model']), {})
        name = f'{pair["dataset"]} × {pair["model"]}'
        if differing := parts_of(stored).find_differing(parts_of(pair), _SENT):
            what = 'prompt' if differing[0] in ('wording', 'template') else differing[0]
            messages.append(f'{name}: the {what} has changed; its results here are replaced. --out DIR keeps both.')
        elif stored and not _holds(_rows_of(pair), stored):
            rows = f'{describe_rows_of(pair)}, where it had {describe_rows_of(stored)}'
            messages.append(
                f'{name}: scored on {rows}. The other replies are kept: without that limit, they count again.'
            )
    return messages


_ANALYSIS = 'paired test on the rows that both have, with 95 % intervals; rows count as eval_cfg says'


def make_seal(manifest: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """What a run plans: the margin, the analysis, and of each dataset × model its rows and the digests of its parts."""
    return {'margin': margin, 'analysis': _ANALYSIS, 'pairs': manifest['pairs']}


def is_seal_due(margin: float, before: Pairs, directory: Path) -> bool:
    """Whether a run writes a seal: before the first request, and once."""
    sealed = None
    with suppress(RunError), RunReader(directory) as reader:
        sealed = read_seal(reader)
    if sealed is None and not before:
        return True
    what = f'{directory} has results already: a seal is written before the first request.'
    if sealed is not None:
        if sealed[1].get('margin') == margin:
            return False
        what = f'{directory} was sealed with a margin of {sealed[1].get("margin", 0):g}, not {margin:g}.'
    raise ConfigError(Problem('--seal', what, 'Name another directory with --out, or leave --seal out.'))


def read_seal(reader: RunReader) -> tuple[str, Mapping[str, Any]] | None:
    """The seal of a run with the time it was written; None if it was not sealed."""
    for started, manifest, _ in reader.starts():
        try:
            seal = json.loads(manifest).get('seal')
        except (ValueError, AttributeError):  # damaged
            continue
        if isinstance(seal, Mapping):
            return str(started), seal
    return None


def describe_seal(reader: RunReader) -> str:
    """Whether a sealed run went as planned, or what was changed afterwards; nothing if it was not sealed."""
    seal = read_seal(reader)
    if seal is None:
        return ''
    started, planned = seal
    changes = list(_find_changes(planned, pairs_of(reader)))
    head = f'Sealed {started}, margin {planned.get("margin", 0):g}'
    return f'{head}: as planned.' if not changes else f'{head}; changed afterwards: {"; ".join(changes)}.'


def _find_changes(planned: Mapping[str, Any], now: Pairs) -> Iterator[str]:
    before = {(pair['dataset'], pair['model']): pair for pair in planned.get('pairs', ()) if isinstance(pair, Mapping)}
    for names, pair in before.items():
        if names not in now:
            yield f'{" × ".join(names)} is missing'
            continue
        differing = parts_of(pair).find_differing(parts_of(now[names]))
        rows = [describe_rows_of(each) for each in (pair, now[names])]
        if differing:
            yield f'{join_words(differing)} of {" × ".join(names)}'
        if rows[0] != rows[1]:
            yield f'{" × ".join(names)} on {rows[1]} instead of {rows[0]}'
    if added := [' × '.join(names) for names in now if names not in before]:
        yield f'{join_words(added)} added'


_MOST_ROWS = 100
_PACKAGES = ('jinja2', 'tokenizers', 'tiktoken', 'transformers', 'torch', 'vllm', 'llama-cpp-python', 'datasets')
_SPLITS = ('train', 'test', 'validation')


def hide_secrets(value: Any) -> Any:
    """The config with every secret hidden, and long lists of inline rows counted, not kept.

    >>> hide_secrets({'models': [{'abbr': 'gpt', 'key': 'sk-1', 'path': 'gpt-4o'}]})
    {'models': [{'abbr': 'gpt', 'key': '***', 'path': 'gpt-4o'}]}
    """
    return mask_config(_without_rows(value))


def _without_rows(value: Any, name: object = None) -> Any:
    """The config, or what has this name in it, with long lists of inline rows counted, not kept."""
    if isinstance(value, Mapping):
        return {key: _without_rows(inner, key) for key, inner in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    is_long = name in _SPLITS and len(value) > _MOST_ROWS
    return count_noun(len(value), 'row') if is_long else [_without_rows(inner) for inner in value]


def identify_judges(judges: Iterable[JudgeEntry]) -> list[str]:
    """A digest of each judge's model; of a function its source counts, and not the folder of its file."""
    identities = [dict(judge.model_entry.model.identity) for judge in judges]
    return [fingerprint('', model=own | {'function': ''} if own.get('source') else own) for own in identities]


def describe_run(prepared: PreparedRun) -> dict[str, Any]:
    """With what a run was made: versions, models, each dataset × model with the digests of its parts, overrides."""
    overrides = dict(prepared.experiment.overrides)
    rows_digests: dict[int, str | None] = {}
    pairs = [
        {
            'dataset': pair.dataset,
            'model': pair.model.name,
            'parts': digest_pair(pair.compiled, pair.model, rows_digests).as_dict(),
            **describe_rows(prepared.options),
            **({'judges': judges} if (judges := identify_judges(pair.judges)) else {}),
            **({'path': path} if isinstance(path := pair.compiled.task.entry.get('path'), str) else {}),
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
        if not parts_of(was).find_differing(parts_of(pair), ('rows',)):
            continue
        if was.get('path', pair.get('path')) != pair.get('path'):
            messages[name] = (
                f'{name}: this run began with the rows of {was["path"]}; those of {pair.get("path")} replace them.'
            )
        else:
            messages[name] = (
                f'{name}: its rows have changed since this run began; those with another prompt are asked again.'
            )
    return list(messages.values())


def _describe_other_models(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Models whose results stay in this directory, where a new one joins them; not variants of one (`name [level]`)."""
    stored, planned = ({str(pair.get('model')).partition(' [')[0] for pair in pairs} for pairs in (before, now))
    if stored >= planned or stored <= planned:
        return []
    names = ', '.join(sorted(stored - planned))
    return [f'This directory has results of {names}, too; they stay beside the new ones. --out DIR keeps runs apart.']
