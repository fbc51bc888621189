"""A whole config, understood: every dataset and model, or every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rolecall.checking import Problems
from rolecall.config.files import Config, misspelt_lists
from rolecall.errors import Problem
from rolecall.pairs.model_entries import ModelEntry, build_model_entry
from rolecall.pairs.tasks import Task, build_task, collect
from rolecall.program import compile

__all__ = ['Entries', 'build_entries']


@dataclass(frozen=True, slots=True)
class Entries:
    """Every dataset and every model of a config."""

    tasks: tuple[Task, ...]
    model_entries: tuple[ModelEntry, ...]


def build_entries(config: Mapping[str, Any]) -> Entries:
    """Understand a config in the documents' syntax. All its problems are reported together, those of a file with lines.

    >>> plan = build_entries(dict(datasets=[dict(abbr='demo', type='Rows', test=[{'q': '1+1=?'}],
    ...     infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q: {q}')))]))
    >>> [task.abbr for task in plan.tasks]
    ['demo']
    """
    problems = Problems()
    problems.found += misspelt_lists(config)
    tasks: list[Task] = []
    for key in _dataset_keys(config):
        tasks += collect(config[key], key, problems, build_task)
    model_entries = collect(config.get('models'), 'models', problems, build_model_entry)
    if not tasks and not problems.found:
        problems.add('datasets', 'the config has no datasets.', 'Add datasets=[dict(…)].')
    for task in tasks:
        for model_entry in model_entries:
            with problems.inside(f'{task.where} × {model_entry.where}'):
                _check_pair(task, model_entry)
    if isinstance(config, Config):
        problems.found = [_with_line(problem, config) for problem in problems.found]
    problems.raise_all()
    return Entries(tuple(tasks), tuple(model_entries))


def _with_line(problem: Problem, config: Config) -> Problem:
    """The problem with the file and line of its place (of the dataset's, where a dataset and a model meet)."""
    place = problem.where.split(' × ')[0]
    return replace(problem, where=f'{config.nearest(place)}: {problem.where}')


def _dataset_keys(config: Mapping[str, Any]) -> list[str]:
    """`datasets`, or else every list whose name ends in _datasets."""
    if config.get('datasets') is not None:
        return ['datasets']
    return [key for key, value in config.items() if key.endswith('_datasets') and isinstance(value, (list, tuple))]


def _check_pair(task: Task, model_entry: ModelEntry) -> None:
    """Compile without examples: roles without a home, media for a text model, and the like show here."""
    for label in task.prompt_labels:
        compile(task.wording, model_entry.renderer, mode=task.mode, label=label)
