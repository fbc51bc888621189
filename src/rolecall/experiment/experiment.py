"""`Experiment`: what a user gave, opened. Viewer, linter, plan, run, exports, report and page all work on it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.entries import build_edited_entries, build_entries, media_folders
from rolecall.experiment.opening.loading import Source, SourceLike
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.source import assemble
from rolecall.experiment.opening.source_options import SourceOptions, Task, list_models
from rolecall.experiment.opening.tasks import TaskEntry, locate_problems
from rolecall.experiment.pairs.pair import Pair, Preview, ShotPicker
from rolecall.sources.config.files import Config
from rolecall.sources.datasets import Dataset, open_dataset
from rolecall.sources.datasets.gold_patch import patch_gold

if TYPE_CHECKING:
    from rolecall.models.model_names import ModelName

_Named = TypeVar('_Named', TaskEntry, ModelEntry)
Files = Mapping[str, str] | Mapping[str, Mapping[str, str]]
"""Files of rows by split; for all datasets, or by the dataset's abbr or a pattern of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """The datasets and models of a config, a task file, a benchmark or rows; every dataset meets every model.

    >>> experiment = Experiment.open([{'question': '1+1=?'}], SourceOptions(models=('openai/gpt-4o',)))
    >>> [(task.abbr, model.abbr) for task in experiment.tasks for model in experiment.models]
    [('rows', 'gpt-4o')]
    >>> next(experiment.previews()).request
    [{'role': 'user', 'content': '1+1=?'}]
    """

    source: Source
    name: str
    """What a run of it is called, if nothing else is said."""
    config: Mapping[str, Any]
    """The config with all overrides."""
    tasks: tuple[TaskEntry, ...]
    models: tuple[ModelEntry, ...]
    all_tasks: tuple[TaskEntry, ...]
    """Every dataset of the config, selected or not."""
    all_models: tuple[ModelEntry, ...]
    """Every model of the config; judges are found among them."""
    files: Files = field(default_factory=dict)
    """Files of rows in place of the datasets' own."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """What was changed beside the config, for the manifest of a run."""
    notes: tuple[str, ...] = ()
    """What people should know about how the source was understood."""
    problems: tuple[Problem, ...] = ()
    """Why entries were left out (`collects_problems`)."""
    _datasets: dict[str, Dataset] = field(default_factory=dict, repr=False)
    _pairs: dict[tuple[str, str | None], Pair] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, source: Experiment | SourceLike, options: SourceOptions | None = None) -> Experiment:
        """Open what was given. All problems of its entries are raised together, or kept with `collects_problems`."""
        if isinstance(source, Experiment):
            return source
        options = options or SourceOptions()
        if isinstance(source, Task):
            for first in options.rows.given:
                what = f'--{first.replace("_", "-")} does not apply: a Task defines its own.'
                raise ConfigError(Problem('source', what, 'Put it into the Task.'))
            options = replace(options, rows=source)
        recognised = Source.recognise(source.rows if isinstance(source, Task) else source)
        notes: list[str] = []
        config, selected = assemble(recognised, options, notes)
        skipped: list[Problem] | None = [] if options.collects_problems else None
        config, tasks, models = build_entries(config, skipped=skipped)
        in_entry = recognised.kind == 'rows' and isinstance(recognised.value, Path) and options.train_only
        opened = cls(
            source=recognised,
            name=options.rows.name or recognised.run_name,
            config=config,
            tasks=tasks,
            models=models,
            all_tasks=tasks,
            all_models=models,
            files={} if in_entry else options.data,
            overrides={**options.rows.given, **options.overrides.as_dict()},
            notes=tuple(dict.fromkeys(notes)),
            problems=tuple(skipped or ()),
        )
        return opened.select(model=selected)

    @classmethod
    def choose(
        cls,
        source: Experiment | SourceLike,
        *,
        dataset: str | Sequence[str] | None,
        model: ModelName | Sequence[ModelName] | None,
        data: Files | None,
    ) -> Experiment:
        """Open a source, with datasets by abbr, and models by abbr or name."""
        if isinstance(source, Experiment):
            return source.select(dataset=dataset, model=[str(name) for name in list_models(model)] or None)
        options = SourceOptions(models=list_models(model), data=data or {})
        return cls.open(source, options).select(dataset=dataset)

    @property
    def base(self) -> Path | None:
        """The folder that relative paths start from: that of the config file."""
        return self.config.path.parent if isinstance(self.config, Config) else None

    @cached_property
    def media_folders(self) -> tuple[Path, ...]:
        """The folders whose files rows may name."""
        allowed = self.config.get('media_folders')
        return media_folders(self.tasks, base=self.base, allowed=allowed, data=_files_of('', self.files))

    def select(
        self, *, dataset: str | Sequence[str] | None = None, model: str | Sequence[str] | None = None
    ) -> Experiment:
        """The same with the datasets and models whose abbr is, or fits, one of the patterns."""
        if dataset is None and model is None:
            return self
        try:
            tasks = self.tasks if dataset is None else match_abbr(self.all_tasks, dataset, 'dataset')
            models = self.models if model is None else match_abbr(self.all_models, model, 'model')
        except ConfigError as error:
            raise ConfigError([*self.problems, *error.problems]) from None
        return replace(self, tasks=tasks, models=models)

    def edit(
        self,
        task: TaskEntry,
        model: ModelEntry | None,
        *,
        dataset_entry: Mapping[str, Any],
        model_entry: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """One dataset and at most one model with these entries instead of theirs. Rows stay opened.

        A model without another entry is taken as it is, with the tokenizer that it has read.
        """
        where = model.where if model is not None else ''
        tasks, models = build_edited_entries(dataset_entry, task.where, model_entry or model, where)
        return replace(self, tasks=tasks, models=models, all_tasks=tasks, all_models=models, _pairs={})

    def dataset(self, task: TaskEntry) -> Dataset:
        """The rows of a dataset, opened when first needed."""
        if task.where not in self._datasets:
            self._datasets[task.where] = self._open(task)
        return self._datasets[task.where]

    def pair(self, task: TaskEntry, model: ModelEntry | None) -> Pair:
        """One dataset × model, compiled when first needed. Without a model, prompts are as the dataset words them."""
        key = (task.where, model.where if model is not None else None)
        if key not in self._pairs:
            peer = next((pair for (where, _), pair in self._pairs.items() if where == task.where), None)
            picker = peer.picker if peer is not None else ShotPicker(task, self.dataset(task), keeps=True)
            self._pairs[key] = _compile(task, model, picker)
        return self._pairs[key]

    def pairs(self, *, split: Literal['test', 'train'] = 'test') -> Iterator[Pair]:
        """Each dataset × model, one after the other; none is kept. Without models, each dataset as it is worded.

        The rows asked about are those of the `split`.
        """
        for task in self.tasks:
            yield from self.pairs_of(task, split=split)

    def pairs_of(self, task: TaskEntry, *, split: Literal['test', 'train'] = 'test') -> Iterator[Pair]:
        """One dataset with each model. Every model is shown the same examples."""
        data = self._datasets.get(task.where) or self._open(task)
        rows = replace(data, test=data.train) if split == 'train' else data
        picker = ShotPicker(task, rows, keeps=len(self.models) > 1)
        return (_compile(task, model, picker) for model in self.models or (None,))

    def previews(self, *, limit: int | None = None, replies: Sequence[str] | None = None) -> Iterator[Preview]:
        """Every request, with the origin of every character. `limit` bounds the rows of each dataset, `replies` stand
        for what the model says in the turns of a dialogue."""
        for pair in self.pairs():
            for number, row, picked in pair.rows(limit):
                yield from pair.previews(number, row, picked, replies=replies)

    def _open(self, task: TaskEntry) -> Dataset:
        with locate_problems(task.where):
            data = open_dataset(task.entry, base=self.base, data=_files_of(task.abbr, self.files))
            patch = task.entry.get('gold_patch')
            return data if patch is None else patch_gold(data, (self.base or Path()) / str(patch), task.abbr)


def _files_of(abbr: str, files: Files) -> Mapping[str, str] | None:
    """The files given for a dataset: those under its abbr, under a pattern that fits it, or for all."""
    by_abbr = {key: splits for key, splits in files.items() if isinstance(splits, Mapping)}
    for_all = {split: path for split, path in files.items() if not isinstance(path, Mapping)}
    fits = [splits for key, splits in by_abbr.items() if fnmatch.fnmatchcase(abbr, key)]
    return by_abbr.get(abbr) or next(iter(fits), None) or for_all or None


def _compile(task: TaskEntry, model: ModelEntry | None, picker: ShotPicker) -> Pair:
    return Pair(task, model, picker)


def match_abbr(named: Sequence[_Named], pattern: str | Sequence[str], what: str) -> tuple[_Named, ...]:
    """Those whose abbr is, or fits, one of the patterns; a pattern that fits none is an error."""
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    names = [entry.abbr for entry in named]
    problems = [
        Problem(f'{what}s', f'no {what} matches {unmatched!r}.', did_you_mean(unmatched, names))
        for unmatched in patterns
        if not any(_fits(name, unmatched) for name in names)
    ]
    if problems:
        raise ConfigError(problems)
    return tuple(entry for entry in named if any(_fits(entry.abbr, pattern) for pattern in patterns))


def _fits(abbr: str, pattern: str) -> bool:
    return abbr == pattern or fnmatch.fnmatchcase(abbr, pattern)


def preview(
    source: Experiment | SourceLike,
    *,
    dataset: str | None = None,
    model: ModelName | Sequence[ModelName] | None = None,
    limit: int | None = None,
    replies: Sequence[str] | None = None,
    data: Files | None = None,
) -> Iterator[Preview]:
    """Yield every request that a config leads to, with the origin of every character.

    `dataset` and `model` pick by abbr (patterns such as `gsm8k*` work); a model may also be given by name, as an entry
    or as a function. `limit` bounds the rows of each dataset,
    `replies` stand for what the model says in the turns of a dialogue, and `data` supplies rows for datasets whose
    loader is not ours: `{'train': file, 'test': file}`.

    >>> config = dict(
    ...     models=[dict(abbr='m', type='HuggingFaceCausalLM', path='none', meta_template=dict(round=[
    ...         dict(role='HUMAN', begin='<H>', end='</H>'),
    ...         dict(role='BOT', begin='<B>', end='</B>', generate=True)]))],
    ...     datasets=[dict(abbr='demo', type='Rows', test=[{'q': '1+1=?', 'a': '2'}],
    ...         reader_cfg=dict(input_columns=['q'], output_column='a'),
    ...         infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=dict(round=[
    ...             dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')]))))])
    >>> next(preview(config)).request
    '<H>1+1=?</H><B>'
    """
    experiment = Experiment.choose(source, dataset=dataset, model=model, data=data)
    return experiment.previews(limit=limit, replies=replies)
