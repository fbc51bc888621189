"""A whole config, understood: every dataset and model, or every problem at once."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecall.checking import Problems
from rolecall.core.program import compile
from rolecall.errors import Problem
from rolecall.experiment.opening.judge_config import expand_rubric
from rolecall.experiment.opening.model_entries import ModelEntry, build_model_entry
from rolecall.experiment.opening.tasks import TaskEntry, build_task, collect
from rolecall.registry import part_name
from rolecall.sources.config.files import Config, misspelt_lists

JUDGING_EVALUATORS = ('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator')


def build_entries(
    config: Mapping[str, Any], *, skipped: list[Problem] | None = None
) -> tuple[Mapping[str, Any], tuple[TaskEntry, ...], tuple[ModelEntry, ...]]:
    """Understand a config in the documents' syntax; ready judges stand in it as if they had been written out.

    All its problems are reported together, those of a file with lines. With `skipped`, entries that have problems are
    left out, and their problems added to it.

    >>> _, tasks, _ = build_entries(dict(datasets=[dict(abbr='demo', type='Rows', test=[{'q': '1+1=?'}],
    ...     infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q: {q}')))]))
    >>> [task.abbr for task in tasks]
    ['demo']
    """
    problems = Problems()
    config = _write_out_rubrics(config, problems)
    problems.items += misspelt_lists(config)
    tasks: list[TaskEntry] = []
    judges = _find_default_judges(config, problems)
    for key in dataset_keys(config):
        entries = config[key]
        if judges and isinstance(entries, list | tuple):
            entries = [_with_judges(entry, judges) if isinstance(entry, Mapping) else entry for entry in entries]
        tasks += collect(entries, key, problems, build_task)
    model_entries = collect(
        config.get('models'), 'models', problems, build_model_entry, resolve=lambda name: resolve_name(name, config)
    )
    if not tasks and not problems.items:
        problems.add('datasets', 'the config has no datasets.', 'Add datasets=[dict(…)].')
    for task in tasks:
        for model_entry in model_entries:
            with problems.inside(f'{task.where} × {model_entry.where}'):
                _check_pair(task, model_entry)
    problems.items = [add_line(problem, config) for problem in problems.items]
    if skipped is not None:
        skipped += problems.items
    else:
        problems.raise_all()
    return config, tuple(tasks), tuple(model_entries)


def build_edited_entries(
    dataset: Mapping[str, Any], where: str, model: ModelEntry | Mapping[str, Any] | None, model_where: str
) -> tuple[tuple[TaskEntry, ...], tuple[ModelEntry, ...]]:
    """A dataset and at most one model, each with its place in a config. A model entry is taken as it is."""
    problems = Problems()
    task = build_task(dataset, where, problems)
    model_entry = build_model_entry(model, model_where, problems) if isinstance(model, Mapping) else model
    if task is not None and model_entry is not None:
        with problems.inside(f'{where} × {model_where}'):
            _check_pair(task, model_entry)
    problems.raise_all()
    return (() if task is None else (task,)), (() if model_entry is None else (model_entry,))


def add_line(problem: Problem, config: Mapping[str, Any]) -> Problem:
    """The problem with the file and line of its place (of the dataset's, where a dataset and a model meet)."""
    if not isinstance(config, Config):
        return problem
    place = problem.where.split(' × ')[0]
    return replace(problem, where=f'{config.locate_nearest(place)}: {problem.where}')


def dataset_keys(config: Mapping[str, Any]) -> list[str]:
    """`datasets`, or else every list whose name ends in _datasets."""
    if config.get('datasets') is not None:
        return ['datasets']
    return [key for key, value in config.items() if key.endswith('_datasets') and isinstance(value, (list, tuple))]


def _find_default_judges(config: Mapping[str, Any], problems: Problems) -> list[Any]:
    """The judges of datasets that name none: `judge_models` beside the models, or in OpenCompass' partitioner."""
    evaluation = config.get('eval')
    partitioner = evaluation.get('partitioner') if isinstance(evaluation, Mapping) else None
    nested = partitioner.get('judge_models') if isinstance(partitioner, Mapping) else None
    entry = config.get('judge_models') or nested
    judges = [entry] if isinstance(entry, str | Mapping) else entry or []
    if not isinstance(judges, list | tuple) or not all(isinstance(judge, str | Mapping) for judge in judges):
        problems.add('judge_models', f'expected a list of models, got {entry!r:.60}.', "Write judge_models=['…'].")
        return []
    return list(judges)


def _write_out_rubrics(config: Mapping[str, Any], problems: Problems) -> Mapping[str, Any]:
    """The config with the ready judges of its datasets written out, so that what a run stores says it all."""
    written = {
        key: [_write_out_rubric(entry, f'{key}[{at}]', problems) for at, entry in enumerate(config[key])]
        for key in dataset_keys(config)
        if isinstance(config[key], list | tuple)
    }
    if all(new is old for key, entries in written.items() for new, old in zip(entries, config[key], strict=True)):
        return config
    names = {**config, **written}
    return replace(config, names=names) if isinstance(config, Config) else names


def _write_out_rubric(entry: Any, where: str, problems: Problems) -> Any:
    scoring = entry.get('eval_cfg') if isinstance(entry, Mapping) else None
    evaluator = scoring.get('evaluator') if isinstance(scoring, Mapping) else None
    if not isinstance(scoring, Mapping) or not isinstance(evaluator, Mapping):
        return entry
    reader = entry.get('reader_cfg')
    with problems.inside(where):
        written = expand_rubric(evaluator, reader if isinstance(reader, Mapping) else {})
        return entry if written is evaluator else {**entry, 'eval_cfg': {**scoring, 'evaluator': written}}
    return {**entry, 'eval_cfg': {}}  # its problem is told once


def _with_judges(entry: Mapping[str, Any], judges: list[Any]) -> Mapping[str, Any]:
    """The entry with these judges, if its evaluator, or a part of it, asks one and names none."""
    scoring = entry.get('eval_cfg')
    if not isinstance(scoring, Mapping) or 'evaluator' not in scoring:
        return entry
    return {**entry, 'eval_cfg': {**scoring, 'evaluator': _name_judges(scoring['evaluator'], judges)}}


def _name_judges(evaluator: Any, judges: list[Any]) -> Any:
    """An evaluator with the judges wherever it asks one and names none. A class of another system takes one judge."""
    options = {'type': evaluator} if isinstance(evaluator, str) else evaluator
    if not isinstance(options, Mapping):
        return evaluator
    named = {
        key: _name_judges(value, judges) if str(key).endswith('evaluator') else value for key, value in options.items()
    }
    kind = named.get('type') or ''
    ours = part_name(kind) in JUDGING_EVALUATORS
    if not named.get('judge_cfg') and (ours or _takes_judge(kind)):
        named['judge_cfg'] = judges if ours and len(judges) > 1 else judges[0]
    return named if named != options else evaluator


def _takes_judge(kind: object) -> bool:
    """Whether this is a class that builds a judge of its own."""
    with contextlib.suppress(TypeError, ValueError):  # a class without a signature
        return inspect.isclass(kind) and 'judge_cfg' in inspect.signature(kind).parameters
    return False


def resolve_name(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a model that a config names, in a file in the working directory or beside the config."""
    from rolecall.models.model_names import resolve_model

    file = Path(name.rpartition(':')[0])
    if isinstance(config, Config) and file.suffix == '.py' and not file.is_file():
        beside = config.path.parent / name
        name = str(beside) if beside.with_name(file.name).is_file() else name
    return resolve_model(name, where='')


def _check_pair(task: TaskEntry, model_entry: ModelEntry) -> None:
    """Compile without examples: roles without a home, media for a text model, and the like show here."""
    for label in task.prompt_labels:
        compile(task.wording, model_entry.renderer, mode=task.mode, label=label)


def media_folders(
    tasks: Iterable[TaskEntry], *, base: Path | None, allowed: Any = (), data: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """The folders whose files a row may name: those of the datasets, and what the config's `media_folders` allows.

    `base` is the config's folder, where a dataset with inline rows is and relative paths may start.
    """
    here = base or Path()
    named = [allowed] if isinstance(allowed, str | Path) else [*allowed] if isinstance(allowed, list | tuple) else []
    named += [task.entry.get('path') or here for task in tasks]
    named += (data or {}).values()
    folders: dict[Path, None] = {}
    for name in named:
        path = Path(os.path.expanduser(str(name)))
        for place in (path, here / path):
            if os.path.exists(place):
                folders[place.resolve() if os.path.isdir(place) else place.resolve().parent] = None
    return tuple(folders)
