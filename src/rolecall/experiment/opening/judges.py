"""The judge of a dataset, understood: how its prompt is worded and which model answers. Nothing is asked here.

The viewer, the linter and the run take a judge's requests from here, as they take all others from a `Pair`.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rolecall.checking import Problems
from rolecall.core.program import Program, Trace, compile
from rolecall.core.program.compiled import render_with
from rolecall.core.prompts.messages import has_messages, read_conversation
from rolecall.core.prompts.pieces import Field, Origin, Piece, Pieces, Text, parse, text_of
from rolecall.core.prompts.script import PromptList, item_pieces, spread_item
from rolecall.core.prompts.template import PromptTemplate, Template, build_template
from rolecall.core.prompts.wording import Wording
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.fitting import Step, TokenBudget, fit
from rolecall.experiment.opening.judge_config import JudgeComparison, find_comparison
from rolecall.experiment.opening.model_entries import ModelEntry, build_model_entry
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.opening.tasks import TaskEntry, locate_problems
from rolecall.models.model_names import resolve_model
from rolecall.registry import part_name

_WHERE = 'eval_cfg.evaluator'
_ASKS_FOR = {
    'GenericLLMEvaluator': 'Is the answer right? Reply with A if it is right, or with B if it is wrong.',
    'PairwiseEvaluator': 'Which is better? Reply with [[A]] or [[B]], or with [[C]] if they are equally good.',
    'LMEvaluator': 'Rate the answer from 1 to 10. Reply with the rating in double brackets, for example: [[5]]',
}
"""How the prompt ends that a judge is given where the config has no prompt_template."""
_ANSWER = re.compile(r'prediction[12]?(?:_r\d+|_(?:en|cn)_word_count)?')
"""Fields that stand for answers."""
_FENCED = '<answer-{{answer_mark}}>\n{{{name}}}\n</answer-{{answer_mark}}>'
"""An answer in a judge's prompt: the mark is a hash of the answers, so that no answer can write its own end."""
_WORD_COUNTS: Mapping[str, Callable[[str], int]] = {
    'en': lambda text: len(re.findall(r'\b[A-Za-z]+\b', text)),
    'cn': lambda text: len(re.findall('[\u4e00-\u9fff]', text)),
}


@dataclass(frozen=True)
class JudgeEntry:
    """A dataset's judge: the wording of its prompt, the model that answers, and what it is asked about."""

    wording: Wording
    model_entry: ModelEntry
    where: str
    input_columns: tuple[str, ...] = ()
    comparison: JudgeComparison | None = None
    """What answers are compared with; None where the judge sees one answer."""
    whole_dialogue: bool = False
    """Whether it is asked once about all turns of a dialogue, rather than about each."""
    by_prompt: bool = False
    """Whether rows have lists of its templates (`multi_eval`), and it is asked once by each."""
    packs_turns: bool = False
    """Whether a whole dialogue is written as OpenCompass does (`pack_all_predictions`): a list of dicts."""

    @cached_property
    def program(self) -> Program:
        """The judge's prompt, compiled. (A row may have words of its own for it: `_program_for`.)"""
        return compile(self.wording, self.model_entry.renderer)

    @cached_property
    def budget(self) -> TokenBudget:
        """How long a request to the judge may be."""
        reserved = sampling_of({}, self.model_entry.entry).max_out_len
        return self.model_entry.budget(reserved=reserved)

    def step(self, values: Mapping[str, Any]) -> Step:
        """What the judge receives about one answer, or why that does not fit its context."""
        request = self._program_for(values)(self._word_turns(values))
        return fit(lambda _: [(None, request)], (), self.model_entry.count, self.budget)

    def trace(self, values: Mapping[str, Any]) -> Trace:
        """The same, with the origin of every character."""
        return self._program_for(values).trace(self._word_turns(values))

    def prompt(self, values: Mapping[str, Any]) -> str | PromptList:
        """The judge's prompt before the model side."""
        return self._program_for(values).prompt(self._word_turns(values))

    def misspelt_fields(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Fields of the template that nothing fills, each with the name that was probably meant."""
        for span in self.trace(values).spans:
            if span.origin.kind == 'unfilled':
                names = [name for name in values if isinstance(name, str)]
                if close := difflib.get_close_matches(span.origin.name, names, n=1, cutoff=0.75):
                    yield span.origin.name, close[0]

    @cached_property
    def _worded_by_row(self) -> tuple[str, ...]:
        """The columns whose text may be the judge's template: speeches that consist of one, if no answer is named."""
        script = self.program.script
        if any(map(_ANSWER.fullmatch, script.columns)):
            return ()
        alone = [pieces[0] for item in script.items if len(pieces := list(item_pieces(item))) == 1]
        return tuple(piece.column for piece in alone if isinstance(piece, Field))

    def _program_for(self, values: Mapping[str, Any]) -> Program:
        """The program of a row: its columns may hold the judge's template, in which only answers are filled in."""
        texts = {column: text for column in self._worded_by_row if isinstance(text := values.get(column), str)}
        parsed = {column: _parse_own_template(text, column) for column, text in texts.items()}
        worded = {
            column: pieces for column, pieces in parsed.items() if any(isinstance(part, Field) for part in pieces)
        }
        if not worded:
            return self.program

        def put_in(piece: Piece) -> Pieces:
            return worded.get(piece.column, (piece,)) if isinstance(piece, Field) else (piece,)

        script = self.program.script
        script = replace(script, items=tuple(spread_item(item, put_in) for item in script.items))
        return Program(script, render_with(self.model_entry.renderer, 'gen'))

    def _word_turns(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values with dialogues as texts, and the lengths of answers that OpenCompass' templates name."""
        worded = dict(values)
        turns = values.get('prediction')
        if isinstance(turns, tuple) and not isinstance(values.get('dialogue'), str):
            worded['dialogue'] = self._word_dialogue(turns)
        for name in ('prediction', 'prediction2'):
            if isinstance(values.get(name), tuple):
                worded[name] = (self._pack if self.packs_turns else self._word_dialogue)(values[name])
            for language, count in _WORD_COUNTS.items():
                if f'{name}_{language}_word_count' in self.program.script.columns:
                    worded[f'{name}_{language}_word_count'] = count(text_of(worded.get(name, '')))
        if 'answer_mark' in self.program.script.columns:
            answers = '\0'.join(text_of(worded.get(name, '')) for name in ('prediction', 'prediction2'))
            worded['answer_mark'] = hashlib.sha256(answers.encode('utf-8', 'surrogatepass')).hexdigest()[:8]
        if isinstance(values.get('history'), tuple):
            worded['history'] = ''.join(map(self._word_turn, values['history']))
        for column in self.program.script.columns:
            if has_messages(worded.get(column)):
                worded[column] = _word_messages(worded[column], column)
        return worded

    def _word_dialogue(self, turns: Sequence[Mapping[str, Any]]) -> str:
        return ''.join(map(self._word_turn, turns)).rstrip('\n')

    def _word_turn(self, turn: Mapping[str, Any]) -> str:
        return f'User: {self._word_question(turn)}\nAssistant: {text_of(turn["prediction"])}\n\n'

    def _word_question(self, turn: Mapping[str, Any]) -> str:
        return '\n'.join(text_of(turn[column]) for column in self.input_columns if column in turn)

    def _pack(self, turns: Sequence[Mapping[str, Any]]) -> str:
        return str(
            [
                {'round': number, 'user': self._word_question(turn), 'assistant': text_of(turn['prediction'])}
                for number, turn in enumerate(turns, start=1)
            ]
        )


def describe_scoring(evaluation: Mapping[str, Any], judge: JudgeEntry | None) -> dict[str, Any]:
    """The `eval_cfg` to score by: where answers are compared, the evaluator is a PairwiseEvaluator, however written."""
    evaluator = evaluation.get('evaluator')
    if judge is None or judge.comparison is None:
        return dict(evaluation)
    options = evaluator if isinstance(evaluator, Mapping) else {}
    return {**evaluation, 'evaluator': {**options, 'type': 'PairwiseEvaluator'}}


def find_judge(task: TaskEntry, model_entries: Sequence[ModelEntry]) -> JudgeEntry | None:
    """The first judge of a dataset, whose verdicts are those of its rows; None if it has none."""
    return next(iter(find_judges(task, model_entries)), None)


def find_judges(task: TaskEntry, model_entries: Sequence[ModelEntry]) -> tuple[JudgeEntry, ...]:
    """The judges that a dataset's evaluator describes: the same prompt for each of its models.

    `judge_cfg` is a model entry, the abbr of a model of the config, a model by name (`openai/gpt-4.1`), or a list of
    these; left out or empty, the config's only model.
    Without a `prompt_template`, the judge is shown the dialogue so far, the question, the gold answer and the answer.
    """
    evaluation = task.entry.get('eval_cfg')
    evaluator = evaluation.get('evaluator') if isinstance(evaluation, Mapping) else None
    part = next(_find_judge_parts(evaluator), None)
    if part is None:
        return ()
    by_prompt = bool(part.get('multi_eval'))
    prompt_template = part.get('prompt_template')
    if prompt_template and by_prompt:  # where OpenCompass puts a row's templates, filled in
        prompt_template = replace_text(prompt_template, '{prediction}', '{judge_prompt}')
    with locate_problems(f'{_WHERE}.prompt_template'):
        template = build_template(prompt_template) if prompt_template else None
    named = set() if template is None or template.labels else template.script().columns
    comparison = find_comparison(part, task, model_entries, named='prediction2' in named)
    if comparison is not None and part is not evaluator and not isinstance(evaluator, str):
        what = 'a comparison of two answers cannot be a part of another evaluator.'
        raise ConfigError(Problem(_WHERE, what, 'Make it the evaluator of the dataset.'))
    packs = bool(part.get('pack_all_predictions'))
    whole = packs or comparison is not None or (template is not None and 'prediction' not in named)
    wording = Wording(prompt_template=template or _word_template(part, task, comparison))
    return tuple(
        JudgeEntry(
            wording,
            model,
            _WHERE,
            _find_question_columns(task),
            comparison,
            whole_dialogue=whole and task.inferencer.asks_every_turn,
            by_prompt=by_prompt,
            packs_turns=packs,
        )
        for model in _find_models(part.get('judge_cfg') or {}, model_entries)
    )


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


def _parse_own_template(text: str, column: str) -> Pieces:
    """The judge's template that a row has in a column. Only answers are filled into it: its other words are data."""
    origin = Origin('field', column)
    return tuple(
        piece
        if isinstance(piece, Field) and _ANSWER.fullmatch(piece.column)
        else Text(piece.source if isinstance(piece, Field) else piece.text, origin)
        for piece in parse(text)
        if isinstance(piece, (Field, Text))
    )


def replace_text(value: Any, old: str, new: str) -> Any:
    """A config value, or a request, with a text replaced wherever it stands."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {key: replace_text(inner, old, new) for key, inner in value.items()}
    return [replace_text(inner, old, new) for inner in value] if isinstance(value, (list, tuple)) else value


def _word_messages(messages: object, column: str) -> str:
    """A dialogue as a text, up to the question that the model was asked last."""
    conversation = read_conversation(messages, column)
    system = f'System: {conversation.system}\n\n' if conversation.system else ''
    turns = zip(conversation.questions, (*conversation.answers[:-1], ''), strict=True)
    return (system + ''.join(f'User: {question}\nAssistant: {answer}\n\n' for question, answer in turns)).removesuffix(
        '\nAssistant: \n\n'
    )


def _find_question_columns(task: TaskEntry) -> tuple[str, ...]:
    """The columns that word a question: those that the dataset's template names, if it names its input columns."""
    named = task.wording.prompt.script(task.prompt_labels[0]).columns - {task.wording.output_column}
    inputs = tuple(column for column in task.reader.input_columns if column in named)
    return inputs or task.reader.input_columns or tuple(sorted(column for column in named if column is not None))


def _word_template(evaluator: Mapping[str, Any], task: TaskEntry, comparison: JudgeComparison | None) -> Template:
    """The prompt of a judge for whom the config has none."""
    columns = task.reader.input_columns or tuple(sorted(task.wording.prompt.script(task.prompt_labels[0]).columns))
    question = '\n'.join(f'{{{column}}}' for column in columns if column != task.wording.output_column)
    gold = 'Reference answer: {obj_gold}\n\n' if task.wording.output_column is not None else ''
    if comparison is not None:
        whole = task.inferencer.asks_every_turn
        kind, question = ('Dialogue', '') if whole else ('Answer', f'User: {question}\n\n')
        first, second = (_FENCED.format(name=name) for name in ('prediction', 'prediction2'))
        answers = f'{kind} A:\n{first}\n\n{kind} B:\n{second}'
        words = f'{question}{gold}{answers}\n\n{_ASKS_FOR["PairwiseEvaluator"]}'
    else:
        asks_for = _ASKS_FOR[part_name(evaluator.get('type', ''))]
        answer = _FENCED.format(name='prediction')
        words = f'{{history}}User: {question}\n\n{gold}Answer to judge:\n{answer}\n\n{asks_for}'
    return PromptTemplate({'round': [{'role': 'HUMAN', 'prompt': words}]})


def _find_models(entries: object, model_entries: Sequence[ModelEntry]) -> list[ModelEntry]:
    models = [
        _find_model(entry, model_entries) for entry in (entries if isinstance(entries, list | tuple) else [entries])
    ]
    names = [model.abbr for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        what = f'two judges are called {twice!r}.'
        raise ConfigError(Problem(f'{_WHERE}.judge_cfg', what, 'Give each an abbr of its own.'))
    return models


def _find_model(judge: object, model_entries: Sequence[ModelEntry]) -> ModelEntry:
    where, abbrs = f'{_WHERE}.judge_cfg', [model_entry.abbr for model_entry in model_entries]
    if isinstance(judge, str) and judge not in abbrs:
        is_misspelt = bool(difflib.get_close_matches(judge, abbrs))  # then that model of the config is named below
        with contextlib.suppress(ConfigError) if is_misspelt else contextlib.nullcontext():
            judge = resolve_model(judge, where=where)
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
        remedy = did_you_mean(named, abbrs) if named else "Name one: judge_cfg='its abbr'."
        raise ConfigError(Problem(where, what, remedy))
    return fits[0]
