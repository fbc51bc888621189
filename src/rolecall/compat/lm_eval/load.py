"""From a task file, a folder of them, or a name in an installed catalogue to the datasets of a config."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.compat.lm_eval import CATALOGUE, SUFFIXES
from rolecall.compat.lm_eval.aggregates import GROUP_KEYS, read_aggregates
from rolecall.compat.lm_eval.evaluator import TaskEvaluator
from rolecall.compat.lm_eval.program import LmTemplate
from rolecall.compat.lm_eval.sampler import ShotSampler
from rolecall.compat.lm_eval.task import LmTask, TaskOptions
from rolecall.compat.lm_eval.task_file import TaskFile, read_task_file
from rolecall.compat.lm_eval.task_rows import LmRows
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.usercode import short_path

_NAME = re.compile(r"^(task|group|tag):[ \t]*['\"]?([^\s'\"#\[\]]+)", re.MULTILINE)


def load_tasks(source: str | Path, options: TaskOptions, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The datasets of a source and the groups they belong to. `overrides` are laid over the keys of each task."""
    found = _Found()
    seen: dict[Path, list[Mapping[str, Any]]] = {}
    for file in _files(source, found):
        known = seen.setdefault(file.path, [])
        if file.values not in known:
            known.append(file.values)
            found.files.append(file)
    problems: list[Problem] = []
    entries: list[dict[str, Any]] = []
    for file in found.files:
        try:
            values = {**file.values, **(overrides or {})}
            entries.append(make_task_entry(LmTask(replace(file, values=values), options)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    groups = [entry for given in found.groups.values() for entry in read_aggregates(*given, entries)]
    return {'datasets': entries, **({'groups': groups} if groups else {})}


def describe_tasks(source: str | Path) -> dict[str, Any]:
    """Every task of a source with its includes merged and lm-eval's defaults filled in, and the groups."""
    loaded = load_tasks(source, TaskOptions())
    return {'tasks': [entry['type'].task.describe() for entry in loaded.pop('datasets')], **loaded}


def name_installed_tasks() -> dict[str, Path]:
    """The tasks, groups and tags of the installed package, each with its (first) file."""
    return {name: paths[0] for name, paths in sorted(_Catalogue.of_installed_package().by_name.items())}


@dataclass
class _Found:
    """What a source comes to: task files, and groups by name with their file and members."""

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
    given = dict(task.generation_kwargs)
    until = given.pop('until')
    length = given.pop('max_gen_toks', 256)
    if not given.pop('do_sample', False):
        given['temperature'] = 0.0
    sampling = {key: value for key, value in given.items() if key in ('temperature', 'top_p', 'top_k', 'seed')}
    stops = [until] if isinstance(until, str) else list(until or ())
    others = {key: value for key, value in given.items() if key not in sampling}
    return {
        'type': 'RepeatsInferencer' if task['repeats'] > 1 else 'GenInferencer',
        **({'num_return_sequences': task['repeats']} if task['repeats'] > 1 else {}),
        'max_out_len': length,
        'stopping_criteria': [stop for stop in stops if stop],
        **sampling,
        **({'generation_kwargs': others} if others else {}),
    }


def _files(source: str | Path, found: _Found) -> Iterator[TaskFile]:
    text = str(source)
    if text.startswith(CATALOGUE):
        yield from _Catalogue.of_installed_package().find(text.removeprefix(CATALOGUE), found)
        return
    path = Path(text)
    if path.is_dir():
        yield from _files_in_folder(path, found)
        return
    file = read_task_file(path)
    if 'group' in file.values or isinstance(file.values.get('task'), list):
        yield from _Catalogue.around(path).expand(file, found)
    else:
        yield file


def _files_in_folder(folder: Path, found: _Found) -> Iterator[TaskFile]:
    """The tasks of a folder. Its groups are averaged where all their members are in it."""
    read = [read_task_file(one) for one in sorted(folder.rglob('*')) if one.suffix in SUFFIXES]
    tasks = [file for file in read if isinstance(file.values.get('task'), str) and 'group' not in file.values]
    if not tasks and not any('group' in file.values for file in read):
        what = 'no task file is in this folder.'
        raise ConfigError(Problem(short_path(str(folder)), what, 'A task file has a key `task` and ends in .yaml.'))
    yield from tasks
    catalogue = _Catalogue.around(folder / 'any.yaml')
    names = {str(file.values['task']) for file in tasks}
    for file in read:
        if 'group' in file.values:
            groups = _Found()
            for _ in catalogue.expand(file, groups):
                pass
            found.groups |= {name: one for name, one in groups.groups.items() if names.issuperset(one[1])}


@dataclass(frozen=True)
class _Catalogue:
    """Task files by the names that they give themselves: tasks, groups and tags. They are read when asked for."""

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
        """The catalogue that a file belongs to: that of the folder `tasks` around it, or of its own folder."""
        folder = path.absolute().parent
        return _index(next((one for one in (folder, *folder.parents) if one.name == 'tasks'), folder))

    def find(self, patterns: str, found: _Found) -> Iterator[TaskFile]:
        """The tasks of names or patterns, with commas between them; those of a group or tag are its members."""
        for pattern in filter(None, map(str.strip, patterns.split(','))):
            names = [name for name in self.by_name if fnmatch.fnmatchcase(name, pattern)]
            if not names:
                what = f'no task, group or tag is called {pattern!r}.'
                raise ConfigError(Problem(short_path(str(self.root)), what, did_you_mean(pattern, self.by_name)[:300]))
            for name in names:
                for path in self.by_name[name]:
                    yield from self.expand(read_task_file(path), found)

    def expand(
        self, file: TaskFile, found: _Found, over: Mapping[str, Any] | None = None, inside: tuple[Path, ...] = ()
    ) -> Iterator[TaskFile]:
        """The tasks of a file: itself, or the members of a group, which is noted. `inside`: the groups around it."""
        members = file.values.get('task')
        if 'group' not in file.values and not isinstance(members, list):
            yield replace(file, values={**file.values, **(over or {})})
            return
        leaves: list[str] = []
        for member in members if isinstance(members, list) else [members]:
            for one in self._expand_member(member, file, found, over or {}, inside):
                leaves.append(str(one.values.get('task')))
                yield one
        if file.values.get('group'):
            found.groups[str(file.values['group'])] = (file, list(dict.fromkeys(leaves)))

    def _expand_member(
        self, member: Any, group: TaskFile, found: _Found, over: Mapping[str, Any], inside: tuple[Path, ...]
    ) -> Iterator[TaskFile]:
        entry = member if isinstance(member, dict) else {'task': member}
        name = entry.get('task') or entry.get('group')
        more = {key: value for key, value in entry.items() if key not in GROUP_KEYS}
        if isinstance(name, list):
            yield from self.expand(replace(group, values=entry), found, {**over, **more}, inside)
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
            yield from self.expand(read_task_file(path), found, {**over, **more}, (*inside, path))


@lru_cache(maxsize=8)
def _index(root: Path) -> _Catalogue:
    """The names in a folder, found by a look at the beginning of lines; nothing is parsed."""
    by_name: dict[str, list[Path]] = {}
    tags: dict[str, list[Path]] = {}
    for path in sorted(one for suffix in SUFFIXES for one in root.rglob(f'*{suffix}')):
        text = path.read_text(encoding='utf-8', errors='replace')
        found = dict(_NAME.findall(text))
        name = found.get('group') or found.get('task')
        if name and name != '-':
            by_name.setdefault(name, []).append(path)
        for tag in _tags(text):
            tags.setdefault(tag, []).append(path)
    names = {name: tuple(paths[:1]) for name, paths in by_name.items()}
    return _Catalogue(root, {**{tag: tuple(paths) for tag, paths in tags.items()}, **names})


def _tags(text: str) -> list[str]:
    block = re.search(r'^tag:[ \t]*(.*(?:\n[ \t]*-.*)*)', text, re.MULTILINE)
    return re.findall(r'[\w./:-]*\w[\w./:-]*', block.group(1)) if block else []
