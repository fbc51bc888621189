"""What people change from one run to the next, without editing the config: examples, sampling, a system message.

`--set PATH=VALUE` changes any value by its place, written with dots: `models.gpt-4.1-mini.temperature`,
`datasets.*.infer_cfg.inferencer.max_out_len`, `datasets[0].abbr`. In a list, a step is an index, an abbr, or a pattern
of abbrs. Only the dicts and lists on the way are copied: everything else still knows the line it was written on.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.checking import Problems
from rolecall.config_keys import MODEL_PLACES, keys_of
from rolecall.errors import ConfigError, Problem, close_match, did_you_mean
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.model_entries import model_abbr
from rolecall.experiment.opening.source_options import Overrides
from rolecall.experiment.opening.tasks import INFERENCER_KINDS, dataset_abbr
from rolecall.registry import bare_name, part_name
from rolecall.sources.datasets.gold_patch import read_gold_patch
from rolecall.sources.retrievers.build import RETRIEVERS

_NOT_GENERATING = ('label', 'whole', 'choices')
_SAMPLING = ('temperature', 'max_out_len', 'seed')
Entry = Mapping[str, Any]


def apply_overrides(config: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """The config with all changes. All problems are raised together.

    >>> config = {'datasets': [{'infer_cfg': {'inferencer': {'type': 'GenInferencer'}}}]}
    >>> apply_overrides(config, Overrides(temperature=0.5))['datasets'][0]['infer_cfg']['inferencer']
    {'type': 'GenInferencer', 'temperature': 0.5}
    """
    changed = dict(config)
    problems = Problems()
    steps = list(_steps(overrides))
    for key in dataset_keys(config) if steps else ():
        entries = list(config[key])
        for i, entry in enumerate(entries):
            for step in steps if isinstance(entry, Mapping) else ():
                with problems.inside(''):
                    entries[i] = step(entries[i], f'{key}[{i}]')
        changed[key] = entries
    if overrides.silence:
        lint = config.get('lint') or {}
        changed['lint'] = {**lint, 'silence': [*lint.get('silence', ()), *overrides.silence]}
    problems.items += _ineffective(overrides, changed)
    for path, value in overrides.settings:
        with problems.inside(''):
            changed = set_value(changed, path, value)
    problems.items = _merge_repeated(problems.items)
    problems.raise_all()
    return changed


def _steps(overrides: Overrides) -> Iterator[Callable[[Entry, str], Entry]]:
    if overrides.shots is not None or overrides.retriever is not None:
        yield partial(_with_shots, overrides)
    if overrides.system is not None:
        yield partial(_with_system, overrides)
    if any(getattr(overrides, name) is not None for name in _SAMPLING):
        yield partial(_with_sampling, overrides)
    if overrides.n is not None:
        yield lambda entry, where: {**entry, 'n': overrides.n}
    if overrides.gold_patch is not None:
        yield _patch_gold(overrides.gold_patch)
    if overrides.read_as is not None:
        yield lambda entry, where: {
            **entry,
            'eval_cfg': {**(entry.get('eval_cfg') or {}), 'read_as': overrides.read_as},
        }


def _patch_gold(patch: str) -> Callable[[Entry, str], Entry]:
    file = Path(patch).absolute()
    named = {row.dataset for row in read_gold_patch(file)}
    return lambda entry, where: {**entry, 'gold_patch': str(file)} if dataset_abbr(entry) in named else dict(entry)


def _with_shots(overrides: Overrides, entry: Entry, where: str) -> Entry:
    from rolecall.experiment.opening.templates import add_examples

    infer = _infer_cfg(entry, where)
    if overrides.shots == 0:
        return {**entry, 'infer_cfg': {**infer, 'retriever': {'type': 'ZeroRetriever'}}}
    entry_retriever = infer.get('retriever') or {'type': 'ZeroRetriever'}
    current = dict(entry_retriever) if isinstance(entry_retriever, Mapping) else {'type': entry_retriever}
    name = find_retriever(overrides.retriever) if overrides.retriever else bare_name(current.get('type'))
    if name == 'ZeroRetriever':
        name = 'FixKRetriever'
    count = overrides.shots if overrides.shots is not None else _count_examples(current)
    if count is None:
        what = f'--retriever {overrides.retriever}: the dataset has no examples so far.'
        raise ConfigError(Problem(f'{where}.infer_cfg.retriever', what, 'Say how many with --shots N.'))
    options = {key: current[key] for key in ('ice_separator', 'ice_eos_token') if key in current}
    options |= {key: value for key, value in current.items() if key not in _COUNTS} if not overrides.retriever else {}
    retriever = {**options, 'type': name or current['type'], **_count_as(name, count)}
    if overrides.seed is not None and name == 'RandomRetriever':
        retriever['seed'] = overrides.seed
    column = (entry.get('reader_cfg') or {}).get('output_column')
    return {**entry, 'infer_cfg': {**add_examples(infer, column, where), 'retriever': retriever}}


def _with_system(overrides: Overrides, entry: Entry, where: str) -> Entry:
    from rolecall.experiment.opening.templates import add_system

    column = (entry.get('reader_cfg') or {}).get('output_column')
    return {**entry, 'infer_cfg': add_system(_infer_cfg(entry, where), overrides.system or '', column, where)}


def _with_sampling(overrides: Overrides, entry: Entry, where: str) -> Entry:
    infer = _infer_cfg(entry, where)
    if not _generates(infer):
        return entry
    entry_inferencer = infer.get('inferencer', {'type': 'GenInferencer'})
    inferencer = dict(entry_inferencer) if isinstance(entry_inferencer, Mapping) else {'type': entry_inferencer}
    sampling = {name: getattr(overrides, name) for name in _SAMPLING if getattr(overrides, name) is not None}
    return {**entry, 'infer_cfg': {**infer, 'inferencer': {**inferencer, **sampling}}}


def _ineffective(overrides: Overrides, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Sampling parameters for a config that generates nothing, a patch of gold answers for other datasets."""
    entries = [entry for key in dataset_keys(config) for entry in config[key] if isinstance(entry, Mapping)]
    if overrides.gold_patch is not None and not any(entry.get('gold_patch') for entry in entries):
        named = dict.fromkeys(row.dataset for row in read_gold_patch(overrides.gold_patch))
        yield Problem(
            '--gold-patch', f'{overrides.gold_patch} is for {", ".join(named)}, not for a dataset of this config.'
        )
    infers = [entry['infer_cfg'] for entry in entries if isinstance(entry.get('infer_cfg'), Mapping)]
    if infers and not any(map(_generates, infers)):
        for name in ('temperature', 'max_out_len'):
            if getattr(overrides, name) is not None:
                option = f'--{name.replace("_", "-")}'
                yield Problem(option, 'no effect: every dataset is scored by log-probabilities, nothing is generated.')


_COUNTS = ('ice_num', 'fix_id_list', 'k')


def find_retriever(name: str) -> str:
    """A retriever by its short name.

    >>> find_retriever('bm25'), find_retriever('random'), find_retriever('FixKRetriever')
    ('BM25Retriever', 'RandomRetriever', 'FixKRetriever')
    """
    short = {full_name.removesuffix('Retriever').lower(): full_name for full_name in RETRIEVERS} | {
        'sliding': 'SlidingWindowRetriever'
    }
    retriever = short.get(name.lower().removesuffix('retriever'))
    if retriever is None and '.' not in name:
        raise ConfigError(Problem('--retriever', f'unknown retriever {name!r}.', did_you_mean(name, short)))
    return retriever or name


def _count_as(name: str | None, count: int) -> dict[str, Any]:
    """How a retriever is told the number of examples."""
    if name == 'FixKRetriever':
        return {'fix_id_list': list(range(count))}
    return {'k': count} if name == 'SlidingWindowRetriever' else {'ice_num': count}


def _count_examples(retriever: Entry) -> int | None:
    ids = retriever.get('fix_id_list')
    count = len(ids) if isinstance(ids, list | tuple) else retriever.get('ice_num') or retriever.get('k')
    return count if isinstance(count, int) and count > 0 else None


def _infer_cfg(entry: Entry, where: str) -> Mapping[str, Any]:
    infer = entry.get('infer_cfg')
    if not isinstance(infer, Mapping):
        what = 'infer_cfg is missing.' if infer is None else f'expected a dict, got {type(infer).__name__}.'
        raise ConfigError(Problem(f'{where}.infer_cfg', what))
    return infer


def _generates(infer: Mapping[str, Any]) -> bool:
    inferencer = infer.get('inferencer', 'GenInferencer')
    kind = inferencer.get('type', 'GenInferencer') if isinstance(inferencer, Mapping) else inferencer
    name = bare_name(kind) or part_name(kind)
    return INFERENCER_KINDS.get(name, 'gen') not in _NOT_GENERATING


def _merge_repeated(problems: list[Problem]) -> list[Problem]:
    """A problem that many datasets share, once."""
    distinct: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        distinct.setdefault((problem.what, problem.remedy), problem)
    return list(distinct.values())


_STEP = re.compile(r'\[([^\]]*)\]|([^.\[\]]+)')
_MISSPELT = 0.8
_PARTS = ('inferencer', 'retriever', 'evaluator', 'prompt_template', 'ice_template', 'pred_postprocessor')
"""Entries that may be written as a bare type, or left out: setting an option of one makes it a dict."""
_CONTAINERS = (
    *_PARTS,
    'reader_cfg',
    'infer_cfg',
    'eval_cfg',
    'generation_kwargs',
    'model_kwargs',
    'extra_body',
    'lint',
)
_KNOWN: Mapping[str, Collection[str]] = {
    'inferencer': keys_of('inferencer', 'sampling'),
    'infer_cfg': keys_of('infer'),
    'retriever': keys_of('retriever'),
    'eval_cfg': keys_of('eval'),
    'reader_cfg': keys_of('reader'),
    'datasets': keys_of('dataset'),
    'models': keys_of('sampling', *(place for places in MODEL_PLACES.values() for place in places)),
}
"""Keys that are known at a place, besides those that are there: a new key close to one of them is a slip."""


def parse_setting(text: str) -> tuple[str, Any]:
    """A path and a value.

    >>> parse_setting('models.*.temperature=0.2'), parse_setting('datasets.qa.abbr=small')
    (('models.*.temperature', 0.2), ('datasets.qa.abbr', 'small'))
    """
    path, equals, value = text.partition('=')
    if not equals or not path.strip():
        what = f'{text!r} is not PATH=VALUE.'
        raise ConfigError(Problem('--set', what, 'Write it like models.*.temperature=0.2.'))
    return path.strip(), parse_value(value)


def parse_value(text: str) -> Any:
    """A value as typed: JSON, a Python literal, or the text itself.

    >>> [parse_value(text) for text in ('64', 'true', "['a']", 'None', 'a b')]
    [64, True, ['a'], None, 'a b']
    """
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def set_value(config: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The config with one value changed, at every place that the path names.

    >>> config = {'models': [{'abbr': 'a'}, {'abbr': 'b'}]}
    >>> set_value(config, 'models.*.temperature', 0)
    {'models': [{'abbr': 'a', 'temperature': 0}, {'abbr': 'b', 'temperature': 0}]}
    >>> set_value(config, 'models.a.temperatur', 0)
    Traceback (most recent call last):
    rolecall.errors.ConfigError: --set models.a.temperatur
      unknown key 'temperatur'.
      Did you mean 'temperature'?
    """
    steps = [bracketed or plain for bracketed, plain in _STEP.findall(path)]
    if not steps or _STEP.sub('', path).strip('.'):
        raise ConfigError(Problem(f'--set {path}', 'not a path.', 'Write it like models.*.temperature=0.2.'))
    try:
        changed: dict[str, Any] = dict(config)
        for head in _heads(config, steps[0]):
            changed[head] = _set(config.get(head), steps[1:], value, head) if len(steps) > 1 else value
    except ConfigError as error:
        raise ConfigError(
            Problem(f'--set {path}', problem.what, problem.remedy) for problem in error.problems
        ) from None
    return changed


def _heads(config: Mapping[str, Any], name: str) -> Iterator[str]:
    """The top-level names that a first step means: `datasets` also means every list called `…_datasets`."""
    lists = [key for key in config if name == 'datasets' and key.endswith('_datasets')]
    if name in config or not lists:
        known_keys = dict.fromkeys((*config, *keys_of('config')))
        if name not in known_keys and name not in ('summarizer', 'summary_groups'):
            place = next((place for place in ('models', 'datasets') if name in _KNOWN[place]), None)
            remedy = f'Write {place}.*.{name}.' if place else did_you_mean(name, known_keys)
            raise ConfigError(Problem('', f'unknown key {name!r}.', remedy))
        yield name
    else:
        yield from lists


def _set(here: Any, steps: Sequence[str], value: Any, place: str) -> Any:
    """What stands at a place, with the value set further in."""
    if isinstance(here, list | tuple):
        return _set_in_list(here, steps, value, place)
    if place in _PARTS and here is not None and not isinstance(here, Mapping):
        here = {'type': here}
    if here is None:
        here = {}
    if not isinstance(here, Mapping):
        raise ConfigError(Problem('', f'{place} is {here!r:.60}, not a dict.'))
    step, rest = steps[0], steps[1:]
    known_keys = _KNOWN.get(place, ())
    if any(mark in step for mark in '*?'):
        keys = [key for key in here if fnmatch.fnmatchcase(str(key), step)]
        if not keys:
            raise ConfigError(Problem('', f'no key of {place} matches {step!r}.', did_you_mean(step, here)))
    else:
        _refuse_misspelt(step, here, known_keys)
        if rest and step not in here and step not in _CONTAINERS:
            raise ConfigError(Problem('', f'{place} has no {step!r}.', did_you_mean(step, [*here, *known_keys])))
        keys = [step]
    return {**here, **{key: _set(here.get(key), rest, value, str(key)) if rest else value for key in keys}}


def _set_in_list(here: Sequence[Any], steps: Sequence[str], value: Any, place: str) -> list[Any]:
    abbr = model_abbr if place == 'models' else dataset_abbr
    names = [abbr(entry) if isinstance(entry, Mapping) else '' for entry in here]
    for length in range(len(steps), 0, -1):  # an abbr may have dots in it
        chosen = list(_choose(names, '.'.join(steps[:length])))
        if chosen:
            rest = steps[length:]
            inner = 'models' if place.endswith('models') else 'datasets' if place.endswith('datasets') else ''
            return [
                (_set(entry, rest, value, inner) if rest else value) if i in chosen else entry
                for i, entry in enumerate(here)
            ]
    what = f'nothing in {place} is called {steps[0]!r}.' if here else f'{place} is empty.'
    raise ConfigError(Problem('', what, did_you_mean(steps[0], filter(None, names)) if any(names) else ''))


def _choose(names: Sequence[str], step: str) -> Iterator[int]:
    for i, name in enumerate(names):
        if step == name or step == str(i) or fnmatch.fnmatchcase(name, step) or step == '*':
            yield i


def _refuse_misspelt(key: str, here: Mapping[str, Any], keys: Collection[str]) -> None:
    if key in here or key in keys:
        return
    close = close_match(key, [*here, *keys], cutoff=_MISSPELT)
    if close is not None:
        raise ConfigError(Problem('', f'unknown key {key!r}.', f"Did you mean '{close}'?"))
