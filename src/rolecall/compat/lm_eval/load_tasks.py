"""From a task file, a folder of them, or a name in an installed catalogue to the datasets of a config."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.checking import expected
from rolecall.compat.lm_eval import CATALOGUE, SUFFIXES
from rolecall.compat.lm_eval.evaluator import TaskEvaluator
from rolecall.compat.lm_eval.program import LmTemplate
from rolecall.compat.lm_eval.task import LmTask, TaskOptions
from rolecall.compat.lm_eval.task_file import TaskFile, read_task_file
from rolecall.compat.lm_eval.task_rows import LmRows, ShotSampler
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.usercode import short_path

GROUP_KEYS = ('task', 'group', 'group_alias', 'aggregate_metric_list')
"""The keys of a group itself; others override those of its tasks."""
_NO_FILTER = 'none'


def read_aggregates(
    file: TaskFile, members: Sequence[str], entries: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """One config group for each number that a group file aggregates; the first has the group's name.

    A group without `aggregate_metric_list` has no number, as in lm-eval: it only names its tasks. Tasks whose
    `metric_list` lacks a metric do not count for it.
    """
    declared = file.values.get('aggregate_metric_list')
    where = f'{file.places.get("aggregate_metric_list", file.path.name)}: aggregate_metric_list'
    wanted = [declared] if isinstance(declared, Mapping) else declared or []
    if not isinstance(wanted, list) or not all(
        isinstance(metric, Mapping) and metric.get('metric') for metric in wanted
    ):
        raise ConfigError(expected(where, 'a list of entries with metric', declared))
    own = [entry for entry in entries if entry['abbr'] in members]
    name = str(file.values['group'])
    taken = False
    for metric in wanted:
        if metric.get('aggregation', 'mean') != 'mean':
            what = f'a group is averaged; aggregation {metric["aggregation"]!r:.60} is not supported.'
            raise ConfigError(Problem(where, what))
        for key in _keys(metric, own):
            yield {
                'name': f'{name} ({key})' if taken else name,
                'datasets': _with_metric(str(metric['metric']), members, own),
                'metric': key,
                **({'weights': 'rows'} if metric.get('weight_by_size', True) else {}),
            }
            taken = True


def _with_metric(metric: str, members: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    declared = {entry['abbr']: entry['type'].task.get('metric_list') for entry in entries}
    without = {
        name
        for name, metrics in declared.items()
        if isinstance(metrics, list)
        and all(isinstance(declaration, Mapping) and declaration.get('metric') != metric for declaration in metrics)
    }
    return [name for name in members if name not in without] or list(members)


def _keys(wanted: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the numbers here: `acc`, or `exact_match,strict-match` for each selected pipeline."""
    metric, filters = str(wanted['metric']), wanted.get('filter_list')
    if filters is None:
        names = dict.fromkeys(name for entry in entries for name in entry['type'].task.pipeline_names)
    else:
        names = dict.fromkeys([filters] if isinstance(filters, str) else map(str, filters))
    return [metric if name == _NO_FILTER else f'{metric},{name}' for name in names or (_NO_FILTER,)]


_NAME = re.compile(r"^(task|group|tag):[ \t]*['\"]?([^\s'\"#\[\]]+)", re.MULTILINE)


def load_tasks(source: str | Path, options: TaskOptions, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The datasets of a source and the groups they belong to. `overrides` replace keys of each task."""
    collected = _TaskCollector()
    by_path: dict[Path, list[Mapping[str, Any]]] = {}
    for file in _files(source, collected):
        earlier = by_path.setdefault(file.path, [])
        if file.values not in earlier:
            earlier.append(file.values)
            collected.files.append(file)
    problems: list[Problem] = []
    entries: list[dict[str, Any]] = []
    for file in collected.files:
        try:
            values = {**file.values, **(overrides or {})}
            entries.append(make_task_entry(LmTask(replace(file, values=values), options)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    groups = [entry for group in collected.groups.values() for entry in read_aggregates(*group, entries)]
    return {'datasets': entries, **({'groups': groups} if groups else {})}


def describe_tasks(source: str | Path) -> dict[str, Any]:
    """Every task of a source with its includes merged and lm-eval's defaults filled in, and the groups."""
    loaded = load_tasks(source, TaskOptions())
    return {'tasks': [entry['type'].task.describe() for entry in loaded.pop('datasets')], **loaded}


def name_installed_tasks() -> dict[str, Path]:
    """The tasks, groups and tags of the installed package, each with its (first) file."""
    return {name: paths[0] for name, paths in sorted(_Catalogue.of_installed_package().by_name.items())}


@dataclass
class _TaskCollector:
    """The contents of a source: task files, and groups by name with their file and members."""

    files: list[TaskFile] = field(default_factory=list)
    groups: dict[str, tuple[TaskFile, list[str]]] = field(default_factory=dict)


def make_task_entry(task: LmTask) -> dict[str, Any]:
    template, rows = LmTemplate(task), LmRows(task)
    return {
        'abbr': task.name,
        **({'alias': task.alias} if task.alias else {}),
        'type': rows,
        'infer_cfg': {
            'prompt_template': template,
            **({'ice_template': template} if task.num_fewshot else {}),
            'retriever': ShotSampler(task),
            'inferencer': _inferencer(task),
        },
        'eval_cfg': {'evaluator': TaskEvaluator(rows)},
    }


def _inferencer(task: LmTask) -> dict[str, Any]:
    if task['output_type'] != 'generate_until':
        exact = task.options.emulate == 'lm-eval'
        rolling = task['output_type'] == 'loglikelihood_rolling'
        return {
            'type': 'LikelihoodInferencer',
            'counts_spaces': exact,
            'counts_bos': exact and rolling,
            'adds_plainly': exact,
        }
    kwargs = dict(task.generation_kwargs)
    until = kwargs.pop('until')
    length = kwargs.pop('max_gen_toks', 256)
    if not kwargs.pop('do_sample', False):
        kwargs['temperature'] = 0.0
    sampling = {key: value for key, value in kwargs.items() if key in ('temperature', 'top_p', 'top_k', 'seed')}
    stops = [until] if isinstance(until, str) else list(until or ())
    others = {key: value for key, value in kwargs.items() if key not in sampling}
    return {
        'type': 'RepeatsInferencer' if task['repeats'] > 1 else 'GenInferencer',
        **({'num_return_sequences': task['repeats']} if task['repeats'] > 1 else {}),
        'max_out_len': length,
        'stopping_criteria': [stop for stop in stops if stop],
        **sampling,
        **({'generation_kwargs': others} if others else {}),
    }


def _files(source: str | Path, collected: _TaskCollector) -> Iterator[TaskFile]:
    text = str(source)
    if text.startswith(CATALOGUE):
        yield from _Catalogue.of_installed_package().find(text.removeprefix(CATALOGUE), collected)
        return
    path = Path(text)
    if path.is_dir():
        yield from _files_in_folder(path, collected)
        return
    file = read_task_file(path)
    if 'group' in file.values or isinstance(file.values.get('task'), list):
        yield from _Catalogue.around(path).expand(file, collected)
    else:
        yield file


def _files_in_folder(folder: Path, collected: _TaskCollector) -> Iterator[TaskFile]:
    """The tasks of a folder. Its groups are averaged where all their members are in it."""
    task_files = [read_task_file(entry) for entry in sorted(folder.rglob('*')) if entry.suffix in SUFFIXES]
    tasks = [file for file in task_files if isinstance(file.values.get('task'), str) and 'group' not in file.values]
    if not tasks and not any('group' in file.values for file in task_files):
        what = 'no task file is in this folder.'
        raise ConfigError(Problem(short_path(str(folder)), what, 'A task file has a key `task` and ends in .yaml.'))
    yield from tasks
    catalogue = _Catalogue.around(folder / 'any.yaml')
    names = {str(file.values['task']) for file in tasks}
    for file in task_files:
        if 'group' in file.values:
            groups = _TaskCollector()
            for _ in catalogue.expand(file, groups):
                pass
            collected.groups |= {name: entry for name, entry in groups.groups.items() if names.issuperset(entry[1])}


@dataclass(frozen=True)
class _Catalogue:
    """Task files by the names they declare: tasks, groups and tags. A file is read when it is used."""

    root: Path
    by_name: Mapping[str, tuple[Path, ...]]

    @classmethod
    def of_installed_package(cls) -> _Catalogue:
        spec = importlib.util.find_spec('lm_eval')
        places = spec.submodule_search_locations if spec else None
        if not places:
            what = 'lm_eval is not installed, so its tasks have no names here.'
            raise ConfigError(Problem('lm_eval', what, 'pip install lm-eval, or give the path of a task file.'))
        return _index(Path(next(iter(places)), 'tasks'))

    @classmethod
    def around(cls, path: Path) -> _Catalogue:
        """The catalogue of a file: the enclosing folder `tasks`, or its own folder."""
        folder = path.absolute().parent
        return _index(next((parent for parent in (folder, *folder.parents) if parent.name == 'tasks'), folder))

    def find(self, patterns: str, collected: _TaskCollector) -> Iterator[TaskFile]:
        """The tasks matching names or patterns separated by commas; a group or tag stands for its members."""
        for pattern in filter(None, map(str.strip, patterns.split(','))):
            names = [name for name in self.by_name if fnmatch.fnmatchcase(name, pattern)]
            if not names:
                what = f'no task, group or tag is called {pattern!r}.'
                raise ConfigError(Problem(short_path(str(self.root)), what, did_you_mean(pattern, self.by_name)[:300]))
            for name in names:
                for path in self.by_name[name]:
                    yield from self.expand(read_task_file(path), collected)

    def expand(
        self,
        file: TaskFile,
        collected: _TaskCollector,
        over: Mapping[str, Any] | None = None,
        inside: tuple[Path, ...] = (),
    ) -> Iterator[TaskFile]:
        """The tasks in a file. Groups are expanded and recorded; `inside` lists the enclosing groups."""
        members = file.values.get('task')
        if 'group' not in file.values and not isinstance(members, list):
            yield replace(file, values={**file.values, **(over or {})})
            return
        leaves: list[str] = []
        for member in members if isinstance(members, list) else [members]:
            for task in self._expand_member(member, file, collected, over or {}, inside):
                leaves.append(str(task.values.get('task')))
                yield task
        if file.values.get('group'):
            collected.groups[str(file.values['group'])] = (file, list(dict.fromkeys(leaves)))

    def _expand_member(
        self, member: Any, group: TaskFile, collected: _TaskCollector, over: Mapping[str, Any], inside: tuple[Path, ...]
    ) -> Iterator[TaskFile]:
        entry = member if isinstance(member, dict) else {'task': member}
        name = entry.get('task') or entry.get('group')
        more = {key: value for key, value in entry.items() if key not in GROUP_KEYS}
        if isinstance(name, list):
            yield from self.expand(replace(group, values=entry), collected, {**over, **more}, inside)
            return
        if str(name) not in self.by_name:
            if 'doc_to_text' in entry or 'dataset_path' in entry:
                yield replace(group, values={**entry, **over})
                return
            what = f'{name!r} is not a task, group or tag in {short_path(str(self.root))}.'
            raise ConfigError(Problem(group.places.get('task', ''), what, did_you_mean(name, self.by_name)[:300]))
        for path in self.by_name[str(name)]:
            if path in inside:
                raise ConfigError(Problem(group.places.get('task', ''), f'the group {name!r} is a member of itself.'))
            yield from self.expand(read_task_file(path), collected, {**over, **more}, (*inside, path))


@lru_cache(maxsize=8)
def _index(root: Path) -> _Catalogue:
    """The names in a folder, found by searching line starts; nothing is parsed."""
    by_name: dict[str, list[Path]] = {}
    tags: dict[str, list[Path]] = {}
    for path in sorted(file for suffix in SUFFIXES for file in root.rglob(f'*{suffix}') if file.is_file()):
        text = path.read_text(encoding='utf-8', errors='replace')
        declared = dict(_NAME.findall(text))
        name = declared.get('group') or declared.get('task')
        if name and name != '-':
            by_name.setdefault(name, []).append(path)
        for tag in _tags(text):
            tags.setdefault(tag, []).append(path)
    names = {name: tuple(paths[:1]) for name, paths in by_name.items()}
    return _Catalogue(root, {**{tag: tuple(paths) for tag, paths in tags.items()}, **names})


def _tags(text: str) -> list[str]:
    block = re.search(r'^tag:[ \t]*(.*(?:\n[ \t]*-.*)*)', text, re.MULTILINE)
    return re.findall(r'[\w./:-]*\w[\w./:-]*', block.group(1)) if block else []
