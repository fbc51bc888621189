"""Versions of an evaluation: another wording, or fewer rows, is another version, kept in a directory of its own.

`runs/NAME` is the first version, `runs/NAME-2` the next. A run with the same wording, with a further model or with more
rows goes on where it was, so nothing is replaced and no models are ranked over different prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.errors import RolecallError
from rolecall.experiment.experiment import Experiment
from rolecall.redaction import mask_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.sources.config.printing import format_config

Pairs = Mapping[tuple[str, str], Mapping[str, Any]]
"""What is known of each dataset × model of a run directory: the digest of its wording, its limit."""


def digest_wording(infer_cfg: Mapping[str, Any]) -> str:
    """A digest of what a dataset says and how it is asked, whether as a string or as a dialogue.

    >>> dialogue = {'round': [{'role': 'HUMAN', 'prompt': 'Add {q}'}, {'role': 'BOT', 'prompt': '{a}'}]}
    >>> digest_wording({'prompt_template': dialogue}) == digest_wording({'prompt_template': 'Add {q}\\n{a}'})
    True
    """
    wording = {
        key: ''.join(''.join(_texts_in(value)).split()) if key.endswith('_template') else value
        for key, value in infer_cfg.items()
    }
    return fingerprint(format_config(mask_config(wording), style='json'))


def _texts_in(value: Any) -> Iterator[str]:
    """The words of a template, without its roles and types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ('role', 'fallback_role', 'type'):
                yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def choose_version(experiment: Experiment, folder: Path, *, limit: int | None) -> tuple[Path, str]:
    """The directory for this run: the newest version that it continues, or a new one; and a line if it is another."""
    wordings = {task.abbr: digest_wording(task.entry.get('infer_cfg') or {}) for task in experiment.tasks}
    models = {model.abbr for model in experiment.models}
    first = folder / experiment.name
    versions = [first]
    for number in count(2):
        if not (version := first.with_name(f'{first.name}-{number}')).exists():
            break
        versions.append(version)
    stored = {version: read_pairs(version) for version in reversed(versions)}
    differences = {version: _find_difference(pairs, wordings, models, limit) for version, pairs in stored.items()}
    continued = [version for version, difference in differences.items() if difference is None]
    if not continued:
        new = first.with_name(f'{first.name}-{len(versions) + 1}')
        newest = versions[-1]
        return new, f'{newest} has results {differences[newest]}: this run is another version, kept in {new}.'
    alike = [version for version in continued if _has_results(stored[version], wordings, models, limit)]
    version = (alike or continued)[0]
    return version, '' if version == first else f'{version} has the results of this version.'


def _has_results(pairs: Pairs, wordings: Mapping[str, str], models: set[str], limit: int | None) -> bool:
    """Whether a directory has results of these models, on as many rows."""
    return any(
        pair.get('limit') == limit
        for (dataset, model), pair in pairs.items()
        if dataset in wordings and model in models
    )


def _find_difference(pairs: Pairs, wordings: Mapping[str, str], models: set[str], limit: int | None) -> str | None:
    """How the results of a directory differ from those of a run, so that they cannot stand side by side."""
    for (dataset, model), stored in pairs.items():
        if dataset not in wordings:
            continue
        if stored.get('wording') not in (None, wordings[dataset]):
            return f'of {dataset} with another prompt'
        if model in models and limit is not None and (stored.get('limit') or limit + 1) > limit:
            rows = stored.get('limit')
            return f'of {dataset} on {f"{rows} rows" if rows else "all rows"}'
    return None


def read_pairs(directory: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The datasets × models that a run directory has results of, as the last start of each says."""
    try:
        with RunReader(directory) as reader:
            return pairs_of(reader)
    except (RolecallError, OSError):  # nothing is there, or nothing that can be read: opening it will say so
        return {}


def pairs_of(reader: RunReader) -> dict[tuple[str, str], Mapping[str, Any]]:
    """What each start of a run says about its datasets × models; later starts replace earlier ones."""
    pairs: dict[tuple[str, str], Mapping[str, Any]] = {}
    for _, manifest, _ in reader.starts():
        try:
            listed = json.loads(manifest)['pairs']
        except (ValueError, TypeError, KeyError):  # damaged, or a log of another program
            continue
        for pair in listed if isinstance(listed, list) else ():
            if isinstance(pair, Mapping):
                pairs[str(pair.get('dataset')), str(pair.get('model'))] = pair
    return pairs


def describe_other_wordings(before: Pairs, now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Results in a directory that a run replaces, because its prompt is another; and those that stay beside it."""
    messages = []
    for pair in now:
        stored = before.get((pair['dataset'], pair['model']), {}).get('wording')
        if stored is not None and stored != pair['wording']:
            name = f'{pair["dataset"]} × {pair["model"]}'
            messages.append(f'{name}: the prompt has changed; its results here are replaced. --out DIR keeps both.')
    return messages
