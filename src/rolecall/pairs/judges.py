"""The judge of a dataset, understood: how its prompt is worded and which model answers. Nothing is asked here.

The viewer, the linter and the run take a judge's requests from here, as they take all others from a `Pair`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rolecall.checking import Problems
from rolecall.datasets import Row
from rolecall.errors import ConfigError, Problem, RenderError, did_you_mean
from rolecall.pairs.fitting import Step, TokenBudget, fit
from rolecall.pairs.model_entries import ModelEntry, build_model_entry
from rolecall.pairs.pair import Pair, Preview, stand_in_reply
from rolecall.pairs.sampling import sampling_of
from rolecall.pairs.tasks import Task
from rolecall.program import Program, Trace, compile
from rolecall.prompts.script import PromptList
from rolecall.prompts.template import PromptTemplate, Template, build_template
from rolecall.prompts.values import text_of
from rolecall.prompts.wording import Wording
from rolecall.registry import part_name
from rolecall.retrievers import Picked
from rolecall.scoring.answers import AnswerReader, Scorable
from rolecall.scoring.metrics.judging import judge_values

__all__ = ['JudgeEntry', 'JudgePair', 'find_judge']

_WHERE = 'eval_cfg.evaluator'
_ASKS_FOR = {
    'GenericLLMEvaluator': 'Is the answer right? Reply with A if it is right, or with B if it is wrong.',
    'LMEvaluator': 'Rate the answer from 1 to 10. Reply with the rating in double brackets, for example: [[5]]',
}
"""How the prompt ends that a judge is given where the config has no prompt_template."""


@dataclass(frozen=True)
class JudgeEntry:
    """A dataset's judge: the wording of its prompt, and the model that answers."""

    wording: Wording
    model_entry: ModelEntry
    where: str
    input_columns: tuple[str, ...] = ()

    @cached_property
    def program(self) -> Program:
        """The judge's prompt, compiled."""
        return compile(self.wording, self.model_entry.renderer)

    @cached_property
    def budget(self) -> TokenBudget:
        """How long a request to the judge may be."""
        reserved = sampling_of({}, self.model_entry.entry).max_out_len
        return self.model_entry.budget(reserved=reserved)

    def step(self, values: Mapping[str, Any]) -> Step:
        """What the judge receives about one answer, or why that does not fit its context."""
        request = self.program(self._fill_history(values))
        return fit(lambda _: [(None, request)], (), self.model_entry.count, self.budget)

    def trace(self, values: Mapping[str, Any]) -> Trace:
        """The same, with the origin of every character."""
        return self.program.trace(self._fill_history(values))

    def prompt(self, values: Mapping[str, Any]) -> str | PromptList:
        """The judge's prompt before the model side."""
        return self.program.prompt(self._fill_history(values))

    def misspelt_fields(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Fields of the template that nothing fills, each with the name that was probably meant."""
        for span in self.trace(values).spans:
            if span.origin.kind == 'unfilled':
                known = [name for name in values if isinstance(name, str)]
                if close := difflib.get_close_matches(span.origin.name, known, n=1, cutoff=0.75):
                    yield span.origin.name, close[0]

    def _fill_history(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values with the turns before this one as a text."""
        history = values.get('history')
        if not isinstance(history, tuple):
            return values
        return {**values, 'history': ''.join(map(self._word_turn, history))}

    def _word_turn(self, turn: Mapping[str, Any]) -> str:
        asked = '\n'.join(text_of(turn[column]) for column in self.input_columns if column in turn)
        return f'User: {asked}\nAssistant: {text_of(turn["prediction"])}\n\n'


class JudgePair(Pair):
    """A pair seen by its judge: the previews are the judge's requests about stand-in replies."""

    def __init__(self, pair: Pair, judge: JudgeEntry) -> None:
        super().__init__(pair.task, pair.model_entry, pair.data, picking=pair.picking)
        self.judge = judge
        self.model_entry = judge.model_entry
        self.budget = judge.budget

    def previews(
        self, number: int, row: Row, picked: Picked, *, replies: Sequence[str] | None = None
    ) -> Iterator[Preview]:
        """What the judge receives about each answer to a row."""
        try:
            for turn, values in enumerate(self.values(row, replies)):
                trace, step = self.judge.trace(values), self.judge.step(values)
                yield Preview(
                    dataset=self.task.abbr,
                    model=self.judge.model_entry.abbr,
                    row=number,
                    mode='gen',
                    label=None,
                    turn=turn if self.task.inferencer.asks_every_turn else None,
                    prompt=self.judge.prompt(values),
                    request=trace.request,
                    spans=trace.spans,
                    notes=(*trace.notes, *step.notes),
                    sent=not step.too_long,
                    values=row,
                )
        except RenderError as error:
            raise RenderError(f'{self.task.abbr}, row {number}: the judge: {error}') from error

    def values(self, row: Row, replies: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """What the judge's prompt is filled with for each answer to a row."""
        by_turn = self.task.inferencer.asks_every_turn
        said = [stand_in_reply(replies, turn) for turn in range(self.turns(row))]
        column = self.task.wording.output_column
        reader = AnswerReader(gold_column=column, by_turn=by_turn, needs_gold=False)
        read = reader.read(Scorable(0, 'ok', said if by_turn else said[-1], values=row))
        return [judge_values(answer) for answer in read.answers]


def find_judge(task: Task, model_entries: Sequence[ModelEntry]) -> JudgeEntry | None:
    """The judge that a dataset's evaluator describes; None if it describes none.

    `judge_cfg` is a model entry, or the abbr of a model of the config; left out or empty, the config's only model.
    Without a `prompt_template`, the judge is shown the dialogue so far, the question, the gold answer and the answer.
    """
    evaluation = task.entry.get('eval_cfg')
    evaluator = evaluation.get('evaluator') if isinstance(evaluation, Mapping) else None
    found = next(_find_judge_parts(evaluator), None)
    if found is None:
        return None
    template = _read_template(found['prompt_template']) if found.get('prompt_template') else _word_template(found, task)
    model_entry = _find_model(found.get('judge_cfg') or {}, model_entries)
    columns = task.reader.input_columns or tuple(sorted(task.wording.prompt.script(task.prompt_labels[0]).columns))
    return JudgeEntry(Wording(prompt_template=template), model_entry, _WHERE, columns)


def _find_judge_parts(entry: object) -> Iterator[Mapping[str, Any]]:
    """The evaluator, or the part of it, that asks a judge."""
    if isinstance(entry, str):
        entry = {'type': entry}
    if not isinstance(entry, Mapping):
        return
    if isinstance(entry.get('prompt_template'), Mapping) or part_name(entry.get('type', '')) in _ASKS_FOR:
        yield entry
    for key, inner in entry.items():
        if isinstance(inner, Mapping) or (isinstance(inner, str) and str(key).endswith('evaluator')):
            yield from _find_judge_parts(inner)


def _read_template(written: Mapping[str, Any]) -> Template:
    try:
        return build_template(written)
    except ConfigError as error:
        raise type(error)(problem.inside(f'{_WHERE}.prompt_template') for problem in error.problems) from error


def _word_template(evaluator: Mapping[str, Any], task: Task) -> Template:
    """The prompt of a judge for whom the config has none."""
    columns = task.reader.input_columns or tuple(sorted(task.wording.prompt.script(task.prompt_labels[0]).columns))
    asked = '\n'.join(f'{{{column}}}' for column in columns if column != task.wording.output_column)
    gold = 'Reference answer: {obj_gold}\n\n' if task.wording.output_column is not None else ''
    asks_for = _ASKS_FOR[part_name(evaluator.get('type', ''))]
    words = f'{{history}}User: {asked}\n\n{gold}Answer to judge: {{prediction}}\n\n{asks_for}'
    return PromptTemplate({'round': [{'role': 'HUMAN', 'prompt': words}]})


def _find_model(judge: object, model_entries: Sequence[ModelEntry]) -> ModelEntry:
    where = f'{_WHERE}.judge_cfg'
    if isinstance(judge, Mapping) and 'type' in judge:
        problems = Problems()
        model_entry = build_model_entry({'abbr': 'judge', **judge}, where, problems)
        problems.raise_all()
        if model_entry is not None:
            return model_entry
    named = judge if isinstance(judge, str) else judge.get('abbr') if isinstance(judge, Mapping) else None
    fits = [model_entry for model_entry in model_entries if named is None or model_entry.abbr == named]
    if len(fits) != 1:
        what = f'no model {named!r} in the config.' if named else 'no judge model is specified.'
        known = [model_entry.abbr for model_entry in model_entries]
        remedy = did_you_mean(named, known) if named else "Name one: judge_cfg='its abbr'."
        raise ConfigError(Problem(where, what, remedy))
    return fits[0]
