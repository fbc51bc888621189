"""Ready judges from `rubrics.yaml`: a rubric becomes the evaluator entry that a config would otherwise write out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import Registry
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

    records = yaml.safe_load(Path(__file__).with_suffix('.yaml').read_text('utf-8'))
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
