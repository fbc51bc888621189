"""The catalogues of installed packages: OpenCompass' and AISBench's dataset files, and lm-eval's tasks.

Packages are located but never imported; a file is read only when it is used.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean

CATALOGUES = {
    'opencompass:': ('opencompass', 'configs/datasets'),
    'aisbench:': ('ais_bench', 'benchmark/configs/datasets'),
}
"""The prefix of a name, with its package and the folder of dataset files."""


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A file of a catalogue; `opencompass:gsm8k_gen_1d7fe4` runs it."""

    source: str
    path: Path


def find_package(name: str) -> Path | None:
    """The folder of an installed package; it is not imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return next(map(Path, places), None) if places else None


def list_catalogue(prefix: str) -> Iterator[CatalogueFile]:
    """The files of an installed catalogue, by name; none if the package is not installed."""
    package, inner = CATALOGUES[prefix]
    location = find_package(package)
    root = location / inner if location else None
    if root is None or not root.is_dir():
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith('.py') and not name.startswith('_'):
                yield CatalogueFile(f'{prefix}{name.removesuffix(".py")}', Path(folder, name))


def list_installed() -> dict[str, list[CatalogueFile]]:
    """The files of every installed catalogue, including lm-eval's tasks, groups and tags."""
    catalogues = {prefix.rstrip(':'): list(list_catalogue(prefix)) for prefix in CATALOGUES}
    if find_package('lm_eval') is not None:
        from rolecall.compat.lm_eval.load_tasks import name_installed_tasks

        catalogues['lm_eval'] = [
            CatalogueFile(f'lm_eval:{name}', path) for name, path in name_installed_tasks().items()
        ]
    return {name: files for name, files in catalogues.items() if files}


def find_catalogue_file(source: str) -> Path:
    """The file that `opencompass:NAME` means: by its name, or by its path below the folder of dataset files."""
    prefix, _, name = source.partition(':')
    prefix = f'{prefix}:'
    package, inner = CATALOGUES[prefix]
    if find_package(package) is None:
        what = f'{package} is not installed, so its files have no names here.'
        raise ConfigError(Problem(source, what, f'pip install {_INSTALL[package]}, or give the path of a file.'))
    wanted = name.removesuffix('.py')
    files = list(list_catalogue(prefix))
    for file in files:
        if file.path.stem == wanted or str(file.path.with_suffix('')).endswith(f'{inner}/{wanted}'):
            return file.path
    what = f'no dataset file of {package} is called {wanted!r}.'
    close = did_you_mean(wanted, [file.path.stem for file in files])
    remedy = close if close.startswith('Did') else ''
    word = wanted.partition('_')[0]
    raise ConfigError(
        Problem(source, what, f'{remedy} `rolecall config list benchmarks {word}` shows what there is.'.lstrip())
    )


_INSTALL = {'opencompass': 'opencompass', 'ais_bench': 'ais_bench_benchmark'}


GENERATED = 'reasoning-gym:'
_PROMPT = '{question}\nPut your final answer, and nothing else, between <answer> and </answer>.'


def make_generated_entry(task: str) -> dict[str, Any]:
    """The dataset of a task: 100 rows of one seed, which `size` and `seed` change.

    >>> make_generated_entry('leg_counting')['abbr']
    'reasoning_gym-leg_counting'
    """
    if not task.isidentifier():
        what = f'expected the name of a task, got {task!r}.'
        raise ConfigError(Problem(f'{GENERATED}{task}', what, f'Write, for instance, {GENERATED}leg_counting.'))
    return {
        'abbr': f'reasoning_gym-{task}',
        'type': 'ReasoningGymDataset',
        'name': task,
        'size': 100,
        'seed': 42,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': {
                'type': 'PromptTemplate',
                'template': {'round': [{'role': 'HUMAN', 'prompt': _PROMPT}]},
            },
            'retriever': {'type': 'ZeroRetriever'},
            'inferencer': {'type': 'GenInferencer', 'max_out_len': 1024},
        },
        'eval_cfg': {
            'evaluator': {'type': 'ReasoningGymEvaluator'},
            'pred_postprocessor': {'type': 'xml_tag_postprocessor', 'tag': '<answer>'},
        },
    }
