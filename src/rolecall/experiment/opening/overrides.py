"""What people change from one run to the next, without editing the config: examples, sampling, a system message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.checking import Problems
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.inferencer_entries import INFERENCER_KINDS
from rolecall.experiment.opening.source_options import Overrides
from rolecall.experiment.opening.tasks import dataset_abbr
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
    from rolecall.experiment.opening.set_values import set_value

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
