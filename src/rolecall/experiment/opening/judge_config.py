"""What a config says about a judge: a ready rubric in place of its prompt, and what it compares answers with.

A rubric of `rubrics.yaml` becomes the evaluator entry that a config would otherwise write out. Answers are compared
with those of other models of the config, a column of the dataset, or given ones: `eval_cfg.evaluator.against` and
`order` say so. OpenCompass' `base_models`, `given_pred` and `infer_order`, in the dataset's entry, mean the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.registry import Registry, part_name
from rolecall.scoring.metrics.metric import Rival
from rolecall.sources.datasets.columns import PASSAGES

_READER = 'generic_llmjudge_academic_postprocess'
FORM = 'RUBRIC:MODEL, e.g. correctness:openai/gpt-4.1'


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """A judge's prompt, what it reports, and labels of people that would calibrate it."""

    summary: str
    words: str
    type: str = 'GenericLLMEvaluator'
    metric: str = 'win_rate'
    needs: str = ''
    """What a row must have: an `answer`, or a `context`."""
    labels: str = ''
    """Public labels that fit, for a calibration."""
    calibrated: str = ''
    """What was measured with them: a judge, and how far it agrees with people."""

    @property
    def description(self) -> str:
        """What it asks, and how far its verdicts are known to be right."""
        fitting = f'; labels that fit: {self.labels}' if self.labels else ''
        return f'{self.summary} [{self.calibrated or "not calibrated"}{fitting}]'

    def evaluator(self, columns: Sequence[str]) -> dict[str, Any]:
        """The evaluator entry for a dataset with these input columns."""
        context = next((column for column in columns if column.lower() in PASSAGES), 'context')
        asked = [column for column in columns if column != context or self.needs != 'context'] or ['question']
        words = self.words.rstrip('\n').replace('{question}', '\n'.join(f'{{{column}}}' for column in asked))
        words = words.replace('{context}', f'{{{context}}}')
        template = {'round': [{'role': 'HUMAN', 'prompt': words}]}
        entry: dict[str, Any] = {
            'type': self.type,
            'prompt_template': {'type': 'PromptTemplate', 'template': template},
        }
        if self.type == 'GenericLLMEvaluator':
            entry['dict_postprocessor'] = {'type': _READER, 'metric_name': self.metric}
        return entry


def _load() -> dict[str, Rubric]:
    import yaml  # type: ignore[import-untyped]  # not for every config

    records = yaml.safe_load(Path(__file__).with_name('rubrics.yaml').read_text('utf-8'))
    return {name: Rubric(**record) for name, record in records.items()}


RUBRICS: Registry[Rubric] = Registry('judge', f'{__name__}:BUILT_IN')
"""The ready judges, and those of installed packages."""


def __getattr__(name: str) -> Any:
    if name == 'BUILT_IN':  # read when a rubric is named
        return _load()
    raise AttributeError(name)


def expand_rubric(evaluator: Any, reader: Mapping[str, Any], *, where: str = 'eval_cfg.evaluator') -> Any:
    """An evaluator entry with `rubric='…'` written out, in it and inside it. `reader` is the dataset's `reader_cfg`."""
    if not isinstance(evaluator, Mapping):
        return evaluator
    entry = {
        key: expand_rubric(value, reader, where=f'{where}.{key}') if str(key).endswith('evaluator') else value
        for key, value in evaluator.items()
    }
    if 'rubric' not in entry:
        return entry if entry != evaluator else evaluator
    name = entry.pop('rubric')
    rubric: Any = RUBRICS.find(name, where=f'{where}.rubric').value
    if not isinstance(rubric, Rubric):
        raise ConfigError(Problem(f'{where}.rubric', f'expected a Rubric, got {rubric!r:.60}.'))
    if rubric.needs == 'answer' and not reader.get('output_column'):
        what = f'{name} compares with a gold answer, and the dataset names none.'
        remedy = 'Name its column: reader_cfg.output_column, or --answer COLUMN for a file of rows.'
        raise ConfigError(Problem(f'{where}.rubric', what, remedy))
    columns = reader.get('input_columns') or ()
    return {**rubric.evaluator(columns.split() if isinstance(columns, str) else columns), **entry}


def parse_judge(text: str) -> dict[str, Any]:
    """`--judge RUBRIC:MODEL` as an evaluator entry.

    >>> parse_judge('correctness:openai/gpt-4.1')
    {'rubric': 'correctness', 'judge_cfg': 'openai/gpt-4.1'}
    """
    rubric, _, model = text.partition(':')
    if rubric not in RUBRICS or not model:
        what = f'expected {FORM}, got {text!r}.'
        raise ConfigError(Problem('--judge', what, f'Rubrics: {", ".join(RUBRICS)}.'))
    return {'rubric': rubric, 'judge_cfg': model}


Order = Literal['both', 'random', 'first']
"""Each pair of answers in both orders, in one order by lot, or this model's answer always first."""
_ORDERS_THERE: Mapping[str, Order] = {'double': 'both', 'random': 'random'}
_PAIRING_MODES = ('m2n', 'allpair')
_EVALUATOR = 'PairwiseEvaluator'


@dataclass(frozen=True, slots=True)
class Opponent:
    """What answers are compared with: a model by its abbr, unless it is a column or a file of answers."""

    name: str
    column: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """The opponents of every model of a config, and the orders in which a judge sees two answers."""

    opponents: tuple[Opponent, ...]
    order: Order = 'both'

    def against(self, model: str) -> tuple[Opponent, ...]:
        """The opponents of one model; a model is not compared with itself."""
        return tuple(opponent for opponent in self.opponents if opponent.name != model or opponent.column is not None)

    def arrange(self, model: str, number: int, find: Callable[[Opponent], Rival]) -> tuple[Rival, ...]:
        """The rivals of a model's answer to a row, once for each order in which the judge sees the two.

        >>> rivals = JudgeComparison((Opponent('b'),)).arrange('a', 0, lambda opponent: Rival(opponent.name))
        >>> [rival.stands_first for rival in rivals]
        [False, True]
        """
        return tuple(
            replace(rival, stands_first=place)
            for rival in map(find, self.against(model))
            for place in self._places(model, rival.name, number)
        )

    def _places(self, model: str, rival: str, number: int) -> Iterator[bool]:
        """Whether the rival stands first, for each question. By lot, two models get the same lot from either side."""
        if self.order != 'random':
            yield from (False, True) if self.order == 'both' else (False,)
            return
        drawn = hashlib.sha256('\n'.join([*sorted((model, rival)), str(number)]).encode()).digest()[0] % 2
        yield bool(drawn) == (model < rival)


def find_comparison(
    evaluator: Mapping[str, Any], task: TaskEntry, model_entries: Sequence[ModelEntry], *, named: bool
) -> JudgeComparison | None:
    """How an evaluator compares two answers; None if it judges one. `named`: its prompt names `{prediction2}`."""
    entry = task.entry
    baselines = entry.get('base_models')
    listed_models = part_name(evaluator.get('type', '')) == _EVALUATOR or evaluator.get('against') is not None
    pairing = entry.get('mode') in _PAIRING_MODES or bool(baselines)
    if not (listed_models or named or pairing or _reads_preferences(evaluator.get('dict_postprocessor'))):
        return None
    where = 'eval_cfg.evaluator'
    order = evaluator.get('order') or _ORDERS_THERE.get(str(entry.get('infer_order')), 'both')
    if order not in get_args(Order):
        what = f'unknown order {order!r}.'
        raise ConfigError(Problem(f'{where}.order', what, did_you_mean(order, get_args(Order))))
    by_name = {model_entry.name: model_entry for model_entry in _read_opponents(entry.get('given_pred'), 'given_pred')}
    against = evaluator.get('against')
    if against is not None and not against:
        what = 'against is empty, so there is nothing to compare with.'
        raise ConfigError(Problem(f'{where}.against', what, 'Leave it out to compare all models of the config.'))
    if against is not None:
        opponents = list(_read_opponents(against, f'{where}.against'))
    else:
        opponents = list(_read_opponents(baselines, 'base_models')) or [
            Opponent(model_entry.abbr) for model_entry in model_entries
        ]
    models = [model_entry.abbr for model_entry in model_entries]
    compared = tuple(
        opponent
        if opponent.column or opponent.path or opponent.name in models
        else _find_given(opponent.name, by_name, models)
        for opponent in opponents
    )
    names = [model_entry.name for model_entry in compared]
    if twice := next((name for name in names if names.count(name) > 1), None):
        what = f'{twice!r} is named twice, so its answers would be mixed up.'
        raise ConfigError(Problem(f'{where}.against', what, 'Give each opponent an abbr of its own.'))
    if against is None and not baselines and model_entries and len(compared) < 2:
        what = 'the judge compares the answers of two models, but the config has one model.'
        remedy = "Add a model, or compare with a column of the dataset: against=dict(column='…')."
        raise ConfigError(Problem(f'{where}.against', what, remedy))
    if len(models) == 1 and not JudgeComparison(compared).against(models[0]):
        what = f'{models[0]!r} is the only model of the config, and a model is not compared with itself.'
        remedy = "Add a model, or compare with a column of the dataset: against=dict(column='…')."
        raise ConfigError(Problem(f'{where}.against', what, remedy))
    return JudgeComparison(compared, order)


def _reads_preferences(entry: Any) -> bool:
    kind = entry.get('type') if isinstance(entry, Mapping) else entry
    if kind is None:
        return False
    from rolecall.scoring.metrics.judge_replies import READINGS  # many patterns, for configs with judges alone

    name = READINGS.builtin_name(kind)
    return name is not None and READINGS[name].compares


def _read_opponents(entries: Any, where: str) -> Iterator[Opponent]:
    """Opponents as configs write them: names, and dicts with an `abbr`, a `column` or a `path`."""
    for entry in entries if isinstance(entries, (list, tuple)) else [] if entries is None else [entries]:
        options = {'abbr': entry} if isinstance(entry, str) else entry
        if not isinstance(options, Mapping) or not any(options.get(key) for key in ('abbr', 'column')):
            what = f'expected the abbr of a model, dict(column=…) or dict(abbr=…, path=…), got {entry!r:.60}.'
            raise ConfigError(Problem(where, what))
        name = str(options.get('abbr') or options['column'])
        column, path = options.get('column'), options.get('path') if where != 'base_models' else None
        yield Opponent(name, None if column is None else str(column), None if path is None else str(path))


def _find_given(name: str, by_name: Mapping[str, Opponent], models: Sequence[str]) -> Opponent:
    if name in by_name:
        return by_name[name]
    what = f'no model {name!r} in the config, and no answers of it are given.'
    give = f"against=dict(abbr={name!r}, path='answers.json')"
    remedy = f'{did_you_mean(name, models)} Add it to models, or give a file of its answers: {give}.'
    raise ConfigError(Problem('eval_cfg.evaluator.against', what, remedy))
