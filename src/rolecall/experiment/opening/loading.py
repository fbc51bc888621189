"""What a user gives, recognised once: a benchmark's name, a task file, rows or a config; and `load_config`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rolecall.compat.benchmarks import is_benchmark_name
from rolecall.compat.benchmarks.catalogues import CATALOGUES, find_catalogue_file
from rolecall.compat.eval_yaml import find_hub_tasks
from rolecall.compat.lm_eval import CATALOGUE, is_task_source
from rolecall.errors import ConfigError, Problem
from rolecall.sources.config.files import Config, load_config_file
from rolecall.sources.config.finder import resolve
from rolecall.sources.config.plain_configs import is_plain_config
from rolecall.sources.config.reference import Resolve

if TYPE_CHECKING:
    from rolecall.experiment.opening.source_options import Task

SourceLike: TypeAlias = 'str | Path | Task | Mapping[str, Any] | Iterable[Mapping[str, Any]]'
SourceKind = Literal['benchmark', 'catalogue', 'task', 'hub tasks', 'rows', 'config']
"""Benchmarks by name, a file of a package's catalogue (`opencompass:NAME`), task files of lm-evaluation-harness, the
`eval.yaml` of a dataset, rows or a file of them, a config file or a mapping."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a user gave, and what it is."""

    kind: SourceKind
    value: Any

    @classmethod
    def recognise(cls, value: SourceLike) -> Source:
        """Decide what was given. Nothing is loaded.

        >>> [Source.recognise(text).kind for text in ('gsm8k', 'lm_eval:arc_easy', 'rows.csv', 'config.py')]
        ['benchmark', 'task', 'rows', 'config']
        """
        if isinstance(value, Mapping):
            return cls('config', value)
        if not isinstance(value, str | Path):
            return cls('rows', list_rows(value))
        if (file := find_hub_tasks(value)) is not None:
            return cls('hub tasks', file)
        if Path(value).suffix != '.py':
            from rolecall.sources.datasets.formats import is_data_file  # not for every config

            if is_data_file(Path(value)) and not is_plain_config(value):
                return cls('rows', Path(value))
        if is_task_source(value):
            return cls('task', value)
        if is_benchmark_name(value):
            return cls('catalogue' if str(value).startswith(tuple(CATALOGUES)) else 'benchmark', str(value))
        return cls('config', value)

    @property
    def run_name(self) -> str:
        """What a run of it is called, if nothing else is said."""
        if not isinstance(self.value, str | Path):
            return 'rows'
        name = str(self.value)
        if self.kind == 'hub tasks':
            return Path(name).absolute().parent.name
        if self.kind in ('benchmark', 'catalogue') or name.startswith(CATALOGUE):
            name = name.rpartition(':')[2].replace(',', '+')
        return Path(name).name.split('.')[0]

    def __str__(self) -> str:
        return str(self.value) if isinstance(self.value, str | Path) else self.kind


def list_rows(rows: Any) -> list[Mapping[str, Any]]:
    """Rows, an iterator of them or a frame, as a list."""
    records: list[Any] = [None]
    if hasattr(rows, 'to_dict'):
        records = rows.to_dict('records')
    elif isinstance(rows, Iterable):
        records = list(rows)
    if not all(isinstance(row, Mapping) for row in records):
        what = f'expected a path, a config, or rows (dicts), got {type(rows).__name__}.'
        raise ConfigError(Problem('source', what))
    return records


def load_config(
    path: str | Path,
    *,
    foreign: Literal['reference', 'real'] | None = None,
    roots: Sequence[str | Path] = (),
    resolve: Resolve = resolve,
    num_fewshot: int | None = None,
    fewshot_seed: int | None = None,
    fewshot_as_multiturn: bool = False,
    system_instruction: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    emulate: Literal['lm-eval', 'opencompass'] | None = None,
    hub: bool = False,
    data_folder: str | Path | None = None,
) -> Config:
    """Run a config file and return its public names.

    Imports from OpenCompass, AISBench and other packages become rolecall's own parts where `resolve` knows the name,
    and inert `Reference`s otherwise. With `foreign='real'`, or ROLECALL_FOREIGN=real, loaders, evaluators and
    postprocessors are the package's own where it is installed. `roots` are further folders to search for
    `opencompass.configs` and `ais_bench.benchmark.configs`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, 'gsm8k.py')
    ...     _ = file.write_text('from opencompass.datasets import GSM8KDataset\\n'
    ...                         "datasets = [dict(abbr='gsm8k', type=GSM8KDataset)]\\n")
    ...     load_config(file)['datasets']
    [{'abbr': 'gsm8k', 'type': opencompass.datasets.GSM8KDataset}]

    A task file of lm-evaluation-harness (`arc_easy.yaml`, a folder of them, or `lm_eval:arc_easy` where the package is
    installed) is read as it is; the other options are for these, in lm-eval's words. See docs/lm-eval.md.

    The name of a benchmark (`gsm8k`, `mmlu`, …) stands for its config: `emulate` chooses whose wording, `data_folder`
    says where its rows are, and `hub` lets them be downloaded. See docs/benchmarks.md.
    """
    options = {
        'num_fewshot': num_fewshot,
        'fewshot_seed': fewshot_seed,
        'fewshot_as_multiturn': fewshot_as_multiturn,
        'system_instruction': system_instruction,
        'emulate': emulate,
        'hub': hub,
    }
    source = Source.recognise(path)
    return load_source(
        source, options, data_folder=data_folder, overrides=overrides, foreign=foreign, roots=roots, resolve=resolve
    )


def load_source(
    source: Source,
    options: Mapping[str, Any],
    *,
    data_folder: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    **reading: Any,
) -> Config:
    """The config that a source names; `options` are those of task files and benchmarks, `reading` those of files."""
    stated = {name: value for name, value in options.items() if value is not None and value is not False}
    if source.kind == 'task':
        from rolecall.compat.lm_eval.load_tasks import load_tasks
        from rolecall.compat.lm_eval.task import read_options

        return Config(Path(source.value), load_tasks(source.value, read_options(stated), overrides))
    if source.kind == 'benchmark':
        from rolecall.compat.benchmarks.load_benchmarks import load_benchmarks, read_benchmark_options

        chosen = read_benchmark_options(source.value, stated, data_folder)
        return Config(Path(source.value), load_benchmarks(source.value, chosen))
    if stated or overrides:
        named = ', '.join([*stated, *(['overrides'] if overrides else [])])
        raise ConfigError(Problem(str(source), f'{named}: only for task files of lm-evaluation-harness (.yaml).'))
    if source.kind == 'hub tasks':
        from rolecall.compat.eval_yaml.hub_tasks import load_hub_tasks

        return Config(source.value, load_hub_tasks(source.value))
    path = find_catalogue_file(source.value) if source.kind == 'catalogue' else source.value
    if is_plain_config(path):
        from rolecall.compat.promptfoo import is_promptfoo_file, load_promptfoo

        if is_promptfoo_file(path):
            return Config(Path(path), load_promptfoo(path))
    return load_config_file(path, **reading)
