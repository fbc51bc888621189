"""What people change from one run to the next, without editing the config: examples, sampling, a system message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rolecall.checking import OptionReader, Problems
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.inferencer_entries import INFERENCER_KINDS
from rolecall.redaction import mask_config
from rolecall.registry import bare_name, part_name
from rolecall.sources.retrievers.build import RETRIEVERS

_NOT_GENERATING = ('label', 'whole', 'choices')
_SAMPLING = ('temperature', 'max_out_len', 'seed')
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Changes to every dataset of a config. What is None stays as it is.

    >>> config = {'datasets': [{'infer_cfg': {'inferencer': {'type': 'GenInferencer'}}}]}
    >>> Overrides(temperature=0.5).apply(config)['datasets'][0]['infer_cfg']['inferencer']
    {'type': 'GenInferencer', 'temperature': 0.5}
    """

    shots: int | None = None
    retriever: str | None = None
    system: str | None = None
    temperature: float | None = None
    max_out_len: int | None = None
    seed: int | None = None
    n: int | None = None
    read_as: str | None = None
    """Whose reading makes the score (`eval_cfg.read_as`)."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Values by their place (`--set PATH=VALUE`)."""
    silence: tuple[str, ...] = ()
    """Lint rules to leave out."""

    def __post_init__(self) -> None:
        if not self.given:
            return
        reader = OptionReader({field.name: getattr(self, field.name) for field in fields(self)})
        reader.whole('shots', least=0)
        reader.whole('max_out_len')
        reader.whole('n', least=1)
        reader.whole('seed')
        reader.number('temperature', least=0)
        reader.text('system')
        reader.text('retriever')
        reader.text('read_as')
        reader.raise_problems()

    @property
    def given(self) -> bool:
        """Whether anything is changed."""
        return any(getattr(self, field.name) not in (None, ()) for field in fields(self))

    def as_dict(self) -> dict[str, Any]:
        """What is changed, for the manifest; secrets are hidden."""
        if not self.given:
            return {}
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != 'settings'}
        changes = {name: value for name, value in values.items() if value not in (None, ())}
        for path, value in self.settings:
            key = path.rpartition('.')[2]
            changes[path] = mask_config({key: value})[key]
        return changes

    def apply(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config with all changes. All problems are raised together."""
        from rolecall.experiment.opening.set_values import set_value

        changed = dict(config)
        problems = Problems()
        steps = list(self._steps())
        for key in dataset_keys(config) if steps else ():
            entries = list(config[key])
            for i, entry in enumerate(entries):
                for step in steps if isinstance(entry, Mapping) else ():
                    with problems.inside(''):
                        entries[i] = step(entries[i], f'{key}[{i}]')
            changed[key] = entries
        if self.silence:
            lint = config.get('lint') or {}
            changed['lint'] = {**lint, 'silence': [*lint.get('silence', ()), *self.silence]}
        problems.items += self._ineffective(changed)
        for path, value in self.settings:
            with problems.inside(''):
                changed = set_value(changed, path, value)
        problems.items = _merge_repeated(problems.items)
        problems.raise_all()
        return changed

    def _steps(self) -> Iterator[Callable[[Entry, str], Entry]]:
        if self.shots is not None or self.retriever is not None:
            yield self._with_shots
        if self.system is not None:
            yield self._with_system
        if any(getattr(self, name) is not None for name in _SAMPLING):
            yield self._with_sampling
        if self.n is not None:
            yield lambda entry, where: {**entry, 'n': self.n}
        if self.read_as is not None:
            yield lambda entry, where: {**entry, 'eval_cfg': {**(entry.get('eval_cfg') or {}), 'read_as': self.read_as}}

    def _with_shots(self, entry: Entry, where: str) -> Entry:
        from rolecall.experiment.opening.templates import add_examples

        infer = _infer_cfg(entry, where)
        if self.shots == 0:
            return {**entry, 'infer_cfg': {**infer, 'retriever': {'type': 'ZeroRetriever'}}}
        entry_retriever = infer.get('retriever') or {'type': 'ZeroRetriever'}
        current = dict(entry_retriever) if isinstance(entry_retriever, Mapping) else {'type': entry_retriever}
        name = find_retriever(self.retriever) if self.retriever else bare_name(current.get('type'))
        if name == 'ZeroRetriever':
            name = 'FixKRetriever'
        count = self.shots if self.shots is not None else _count_examples(current)
        if count is None:
            what = f'--retriever {self.retriever}: the dataset has no examples so far.'
            raise ConfigError(Problem(f'{where}.infer_cfg.retriever', what, 'Say how many with --shots N.'))
        options = {key: current[key] for key in ('ice_separator', 'ice_eos_token') if key in current}
        options |= {key: value for key, value in current.items() if key not in _COUNTS} if not self.retriever else {}
        retriever = {**options, 'type': name or current['type'], **_count_as(name, count)}
        if self.seed is not None and name == 'RandomRetriever':
            retriever['seed'] = self.seed
        column = (entry.get('reader_cfg') or {}).get('output_column')
        return {**entry, 'infer_cfg': {**add_examples(infer, column, where), 'retriever': retriever}}

    def _with_system(self, entry: Entry, where: str) -> Entry:
        from rolecall.experiment.opening.templates import add_system

        column = (entry.get('reader_cfg') or {}).get('output_column')
        return {**entry, 'infer_cfg': add_system(_infer_cfg(entry, where), self.system or '', column, where)}

    def _with_sampling(self, entry: Entry, where: str) -> Entry:
        infer = _infer_cfg(entry, where)
        if not _generates(infer):
            return entry
        entry_inferencer = infer.get('inferencer', {'type': 'GenInferencer'})
        inferencer = dict(entry_inferencer) if isinstance(entry_inferencer, Mapping) else {'type': entry_inferencer}
        sampling = {name: getattr(self, name) for name in _SAMPLING if getattr(self, name) is not None}
        return {**entry, 'infer_cfg': {**infer, 'inferencer': {**inferencer, **sampling}}}

    def _ineffective(self, config: Mapping[str, Any]) -> Iterator[Problem]:
        """Sampling parameters for a config that generates nothing."""
        entries = [entry for key in dataset_keys(config) for entry in config[key] if isinstance(entry, Mapping)]
        infers = [entry['infer_cfg'] for entry in entries if isinstance(entry.get('infer_cfg'), Mapping)]
        if infers and not any(map(_generates, infers)):
            for name in ('temperature', 'max_out_len'):
                if getattr(self, name) is not None:
                    option = f'--{name.replace("_", "-")}'
                    yield Problem(
                        option, 'no effect: every dataset is scored by log-probabilities, nothing is generated.'
                    )


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
