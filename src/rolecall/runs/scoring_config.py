"""How a dataset × model is scored, read from the dataset's `eval_cfg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from rolecall.core.prompts.pieces import Row
from rolecall.core.prompts.script import PromptList
from rolecall.core.render.families import meta_template
from rolecall.errors import ConfigError, Problem, RenderError
from rolecall.experiment.opening.judges import JudgeEntry, describe_scoring, find_judges
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.scoring.evaluate import DatasetScorer, build_scorer


class Scoring(NamedTuple):
    """How a dataset × model is scored, as its config says."""

    scorer: DatasetScorer
    judges: tuple[JudgeEntry, ...]
    is_baseline: bool


def read_scoring(task: TaskEntry, model_entry: ModelEntry, model_entries: Sequence[ModelEntry]) -> Scoring:
    """The scoring that a dataset's `eval_cfg` describes, for one model."""
    section = task.entry.get('eval_cfg')
    if section is not None and not isinstance(section, Mapping):
        named = f'eval_cfg=dict(evaluator={section!r})' if isinstance(section, str) else "eval_cfg=dict(evaluator='…')"
        raise ConfigError(Problem('eval_cfg', f'expected a dict, got {section!r:.60}.', f'Write {named}.'))
    evaluation = {key: value for key, value in (section or {}).items() if key != 'cluster'}
    own = model_entry.entry.get('pred_postprocessor')
    if isinstance(own, Mapping) and 'type' in own:
        evaluation.setdefault('model_postprocessor', own)
    column = task.wording.output_column
    try:
        judge_entries = find_judges(task, model_entries)
    except ConfigError as error:
        problems = [*error.problems, *_find_further_problems(evaluation, column)]
        raise ConfigError(dict.fromkeys(map(_in_eval_cfg, problems))) from error
    judge_entry = judge_entries[0] if judge_entries else None
    comparison = judge_entry.comparison if judge_entry is not None else None
    is_baseline = comparison is not None and not comparison.against(model_entry.abbr)
    whole = judge_entry is not None and judge_entry.whole_dialogue
    try:
        for judge in judge_entries:
            _ = judge.model_entry.model  # built here, so that what is wrong with it is reported
        scorer = build_scorer(
            describe_scoring(evaluation, judge_entry),
            output_column=column,
            judge=_unasked if judge_entries else None,
            turns=task.inferencer.asks_every_turn and not whole,
            whole_dialogue=whole,
            by_prompt=judge_entry is not None and judge_entry.by_prompt,
            role_marks=_role_marks(model_entry, evaluation.get('pred_role')),
            word_prompt=partial(_word_prompt, task),
        )
    except ConfigError as error:
        raise ConfigError(map(_in_eval_cfg, error.problems)) from error
    if is_baseline:
        return Scoring(replace(scorer, metric=None), (), is_baseline)
    return Scoring(scorer, tuple(judge_entries), is_baseline)


def _unasked(values: Mapping[str, Any]) -> str:
    """Stands for the judge while a config is read: a run gives the scorer its judges."""
    raise TypeError('a judge is asked in a run')


def _find_further_problems(evaluation: Mapping[str, Any], output_column: str | None) -> list[Problem]:
    """What else is wrong with the scoring, where the judge cannot be asked."""
    try:
        build_scorer(evaluation, output_column=output_column, judge=_unasked)
    except ConfigError as error:
        return list(error.problems)
    return []


def _word_prompt(task: TaskEntry, row: Row) -> Any:
    """The prompt of a row as OpenCompass records it: without examples, and before the model's own template.

    Where labels have a prompt each, it is a dict of them; nothing for a row that cannot be worded.
    """
    labels = task.prompt_labels
    try:
        prompts = [_as_plain_data(task.wording.script(label, task.mode).fill(row)) for label in labels]
    except RenderError:
        return ''
    return (
        prompts[0] if labels == (None,) else {str(label): prompt for label, prompt in zip(labels, prompts, strict=True)}
    )


def _as_plain_data(prompt: str | PromptList) -> Any:
    return prompt if isinstance(prompt, str) else [dict(turn) if isinstance(turn, Mapping) else turn for turn in prompt]


def _in_eval_cfg(problem: Problem) -> Problem:
    return problem if problem.where.startswith('eval_cfg') else problem.inside('eval_cfg')


def _role_marks(model_entry: ModelEntry, role: object) -> Mapping[str, Any] | None:
    """What the model's meta template puts around a role."""
    entry = model_entry.entry.get('meta_template')
    meta = meta_template(entry) if isinstance(entry, str) else entry
    rounds = meta.get('round') if isinstance(meta, Mapping) and role is not None else None
    return next((turn for turn in rounds or () if isinstance(turn, Mapping) and turn.get('role') == role), None)
