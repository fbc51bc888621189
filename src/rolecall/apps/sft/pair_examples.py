"""Training examples of a dataset and a model: each starts with exactly the request that a run sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rolecall.apps.sft.examples import TrainingExample, UntrainableError
from rolecall.apps.sft.training_file import Form, Given, takes_messages
from rolecall.apps.sft.training_programs import Aim, DialogueTrainingProgram, LabelTrainingProgram, TrainingProgram
from rolecall.core.program.answer_turn import MessagesRenderer
from rolecall.core.prompts.pieces import text_of
from rolecall.core.render.renderers import ApiRenderer, Renderer, TextRenderer
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import locate_problems
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.local_engine import PromptEncoder
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.sources.datasets import Row
from rolecall.sources.retrievers import Picked

_KEPT = 64


def pair_examples(pair: Pair, *, form: Form, aim: Aim | None = None, limit: int | None = None) -> Iterator[Given]:
    """The examples of one dataset × model. Rows, shots and requests are those of the pair, fitted to the context."""
    make = _build_program(pair, _renderer_for(pair.model_entry, form), aim or Aim())
    teachers: dict[tuple[int, ...], Callable[[Row], TrainingExample]] = {}
    for number, row, picked in pair.rows(limit):
        yield f'{pair.task.abbr}, row {number}', partial(_teach, pair, row, picked, make, teachers)


def _teach(
    pair: Pair,
    row: Row,
    picked: Picked,
    make: Callable[[Sequence[Row]], Callable[[Row], TrainingExample]],
    teachers: dict[tuple[int, ...], Callable[[Row], TrainingExample]],
) -> TrainingExample:
    """The example of a row, with the shots that a run would send."""
    shots = picked.ids if pair.budget.tokens is None else _fit_shots(pair, row, picked)
    if shots not in teachers:
        if len(teachers) >= _KEPT:
            teachers.clear()
        teachers[shots] = make([pair.data.train[i] for i in shots])
    return teachers[shots](row)


def _fit_shots(pair: Pair, row: Row, picked: Picked) -> tuple[int, ...]:
    """The shots of the row's last request, which is the longest."""
    column = pair.task.wording.output_column
    answers = row.get(column) if column is not None else None
    replies = [text_of(answer) for answer in answers] if isinstance(answers, (list, tuple)) else None
    *_, (step, _) = pair.steps(row, picked, replies=replies)
    if step.too_long or step.cut is not None:
        raise UntrainableError('the request does not fit the context', step.notes[0].message)
    return step.shots


def _build_program(
    pair: Pair, renderer: Renderer, aim: Aim
) -> Callable[[Sequence[Row]], Callable[[Row], TrainingExample]]:
    """How rows with these shots become training examples."""
    task, asks = pair.task, pair.task.inferencer

    def make(shots: Sequence[Row]) -> Callable[[Row], TrainingExample]:
        with locate_problems(task.where):
            if asks.kind == 'dialogue':
                return DialogueTrainingProgram(
                    task.wording, renderer, infer_mode=asks.infer_mode, shots=shots, prefill=asks.prefill, aim=aim
                )
            if asks.kind == 'label':
                return LabelTrainingProgram(task.wording, renderer, labels=task.labels, shots=shots, aim=aim)
            return TrainingProgram(task.wording, renderer, shots=shots, prefill=asks.prefill, aim=aim)

    if asks.kind == 'whole':
        what = f'{asks.name} scores whole texts; there is no answer to train on.'
        raise ConfigError(Problem(f'{task.where}.infer_cfg.inferencer', what, 'Use GenInferencer, or another dataset.'))
    return make


def _renderer_for(model_entry: ModelEntry | None, form: Form) -> Renderer:
    """The renderer that produces the wanted form."""
    if model_entry is None:
        raise ConfigError(Problem('models', 'the config has no models.'))
    is_text = isinstance(model_entry.renderer, TextRenderer)
    if takes_messages(form, chat=not is_text):
        if is_text:
            what = f'{model_entry.abbr} takes text, not messages.'
            raise ConfigError(Problem(model_entry.where, what, 'Use --form text or --form tokens, or a chat model.'))
        return MessagesRenderer(model_entry.renderer)
    if isinstance(model_entry.renderer, ApiRenderer):
        what = f'{model_entry.abbr} takes messages, and no chat template is available to render them as text.'
        remedy = 'Use --form messages, or give the model a chat_template or the folder of its tokenizer.'
        raise ConfigError(Problem(model_entry.where, what, remedy))
    return model_entry.renderer


def entry_encoder(model_entry: ModelEntry, tokenizer: Tokenizer) -> PromptEncoder:
    """How a model's texts become token ids: with a BOS, unless its chat template writes that."""
    return PromptEncoder(tokenizer, begins=model_entry.kind == 'text')
