"""`load_config`: a config by whatever names it, a file, a task file of lm-evaluation-harness or a benchmark's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rolecall.compat.benchmarks import is_benchmark_name
from rolecall.compat.benchmarks.catalogues import CATALOGUES, find_catalogue_file
from rolecall.compat.lm_eval import is_task_source
from rolecall.errors import ConfigError, Problem
from rolecall.sources.config.files import Config, load_config_file
from rolecall.sources.config.names import resolve
from rolecall.sources.config.reference import Resolve


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
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if is_task_source(path):
        return _load_task_files(path, given, overrides)
    if is_benchmark_name(path):
        if str(path).startswith(tuple(CATALOGUES)):
            path = find_catalogue_file(str(path))
        else:
            return _load_named(str(path), given, data_folder)
    if given or overrides:
        named = ', '.join([*given, *(['overrides'] if overrides else [])])
        raise ConfigError(Problem(str(path), f'{named}: only for task files of lm-evaluation-harness (.yaml).'))
    return load_config_file(path, foreign=foreign, roots=roots, resolve=resolve)


def _load_task_files(path: str | Path, given: dict[str, Any], overrides: Mapping[str, Any] | None) -> Config:
    from rolecall.compat.lm_eval.load_tasks import load_tasks
    from rolecall.compat.lm_eval.task import read_options

    return Config(Path(path), load_tasks(path, read_options(given), overrides))


def _load_named(names: str, given: dict[str, Any], folder: str | Path | None) -> Config:
    from rolecall.compat.benchmarks.load_benchmarks import load_benchmarks, read_benchmark_options

    return Config(Path(names), load_benchmarks(names, read_benchmark_options(names, given, folder)))
