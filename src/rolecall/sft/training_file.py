"""Training files from the requests of inference: rows and a prompter, or a dataset and a model.

An example starts with exactly the request that inference sends; a row for which that is impossible is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from rolecall.datasets import Row, first
from rolecall.errors import ConfigError, Problem, PrompterError, RenderError, did_you_mean
from rolecall.models.local_engine import PromptEncoder
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair
from rolecall.pairs.tasks import locate_problems
from rolecall.program.answer_turn import MessagesRenderer
from rolecall.prompters import Prompter
from rolecall.prompts.values import text_of
from rolecall.render.chat_renderer import ChatRenderer
from rolecall.render.renderers import ApiRenderer, Renderer, TextRenderer
from rolecall.render.spans import Span
from rolecall.retrievers import Picked
from rolecall.sft.examples import (
    MessagesExample,
    Stretch,
    TextExample,
    TrainingExample,
    UntrainableError,
    as_text,
    messages_example,
    text_example,
)
from rolecall.sft.training_programs import (
    Aim,
    DialogueTrainingProgram,
    LabelTrainingProgram,
    TrainingProgram,
    end_of_turn,
)
from rolecall.strings import count_noun
from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = [
    'Columns',
    'Form',
    'Given',
    'SftReport',
    'entries',
    'entry_encoder',
    'pair_examples',
    'prompter_encoder',
    'prompter_examples',
]

Form = Literal['messages', 'text', 'tokens']
"""OpenAI messages, text with trained character ranges, or token ids with labels."""

Given = tuple[str, Callable[[], TrainingExample]]
"""The place of a row, and a function that builds its example."""

IGNORED = -100
"""The label of a token outside the loss."""
_KEPT = 64


@dataclass(slots=True)
class SftReport:
    """Counts of what happened during an export, with one example of each kind."""

    examples: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    cases: dict[str, str] = field(default_factory=dict)
    leads: Counter[str] = field(default_factory=Counter)
    endless: int = 0
    """Examples without an end marker."""
    straddling: int = 0
    """Tokens that span an answer and its surroundings."""
    shifted: int = 0
    """Examples whose request tokenizes differently when the answer follows."""

    def leave_out(self, where: str, error: RenderError | PrompterError) -> None:
        """Count a skipped row."""
        reason = error.reason if isinstance(error, UntrainableError) else _REFUSED[isinstance(error, PrompterError)]
        self.left_out[reason] += 1
        self.cases.setdefault(reason, f'{where}: {error}')

    def remarks(self) -> Iterator[str]:
        """Remarks for the user."""
        for reason, count in self.left_out.most_common():
            yield f'{count_noun(count, "row")} left out: {reason}. The first: {self.cases[reason]}'
        for lead, count in self.leads.most_common(3):
            rows = count_noun(count, 'row')
            yield f'{rows}: the model side puts {lead!r:.60} between request and answer, trained on too.'
        if self.endless:
            what = 'no end marker, so the model will not learn where to stop. Add one with --end'
            yield f'{count_noun(self.endless, "row")}: {what}'
        if self.straddling:
            yield f'{count_noun(self.straddling, "token")} spanning the boundary of an answer: not trained on.'
        if self.shifted:
            yield f'{count_noun(self.shifted, "row")}: the request tokenizes differently when the answer follows.'


_REFUSED = {False: 'the row cannot become a request', True: 'the prompter cannot word the row'}


def entries(
    given: Iterable[Given], report: SftReport, *, encoder: PromptEncoder | None = None, skip: bool = False
) -> Iterator[dict[str, Any]]:
    """The examples as lines of a training file: token ids with an `encoder`, otherwise messages or texts.

    A row that gives no example is an error, unless it is to be skipped; then it is counted.
    """
    for where, teach in given:
        try:
            entry = _entry(teach(), report, encoder)
        except (RenderError, PrompterError) as error:
            if not skip:
                raise RenderError(f'{where}: {error}') from error
            report.leave_out(where, error)
            continue
        report.examples += 1
        yield entry


def _entry(example: TrainingExample, report: SftReport, encoder: PromptEncoder | None) -> dict[str, Any]:
    if isinstance(example, MessagesExample):
        return _messages_entry(example)
    entry = _text_entry(example) if encoder is None else _tokens_entry(example, encoder, report)
    report.endless += not example.ending
    if example.lead.strip():
        report.leads[example.lead] += 1
    return entry


def _messages_entry(example: MessagesExample) -> dict[str, Any]:
    """Assistant messages outside the loss get weight 0, as in OpenAI's format."""
    messages = [
        {**message, 'weight': 0} if message['role'] == 'assistant' and i not in example.trained else dict(message)
        for i, message in enumerate(example.messages)
    ]
    return {'messages': messages, 'tools': list(example.tools)} if example.tools else {'messages': messages}


def _text_entry(example: TextExample) -> dict[str, Any]:
    return {'text': example.text, 'spans': [list(stretch) for stretch in example.stretches]}


def _tokens_entry(example: TextExample, encoder: PromptEncoder, report: SftReport) -> dict[str, Any]:
    for token in encoder.tokenizer.special_tokens:
        if any(token in words for words in example.data):
            raise UntrainableError('the row contains a special token', f'{token!r} would end or begin a turn')
    whole = encoder.encode(example.text)
    trained, straddling = trained_tokens(whole.ids, whole.offsets, example.stretches, encoder.tokenizer)
    if not any(trained):
        raise UntrainableError('no token lies inside the answer')
    asked = encoder.encode(example.asked).ids
    report.straddling += straddling
    report.shifted += whole.ids[: len(asked)] != asked
    labels = [number if chosen else IGNORED for number, chosen in zip(whole.ids, trained, strict=True)]
    return {'input_ids': list(whole.ids), 'labels': labels}


def trained_tokens(
    ids: Sequence[int], offsets: Sequence[Stretch], stretches: Sequence[Stretch], tokenizer: Tokenizer
) -> tuple[list[bool], int]:
    """Which tokens are trained on, and how many are left out because they span the boundary of an answer.

    A token without characters goes with the character it is a part of, or with the word it was put in front of.
    """
    inside: list[bool | None] = []
    straddling = 0
    rest = iter(stretches)
    first, last = next(rest, (0, 0))
    for start, stop in offsets:
        while start >= last > 0 and (following := next(rest, None)) is not None:
            first, last = following
        if start == stop:
            inside.append(None)
            continue
        within = first <= start and stop <= last
        straddling += not within and start < last and first < stop
        inside.append(within)
    for i, decided in enumerate(inside):
        if decided is None and i and '<0x' in tokenizer.pieces([ids[i]])[0]:
            inside[i] = inside[i - 1]
    for i in reversed(range(len(inside))):
        if inside[i] is None:
            inside[i] = offsets[i][0] > 0 and i + 1 < len(inside) and inside[i + 1]
    return list(map(bool, inside)), straddling


# A dataset of a config and a model.


def pair_examples(pair: Pair, *, form: Form, aim: Aim | None = None, limit: int | None = None) -> Iterator[Given]:
    """The examples of one dataset × model. Rows, shots and requests are those of the pair, fitted to the context."""
    make = _build_program(pair, _renderer_for(pair.model_entry, form), aim or Aim())
    kept: dict[tuple[int, ...], Callable[[Row], TrainingExample]] = {}
    for number, row, picked in pair.rows(limit):
        yield f'{pair.task.abbr}, row {number}', partial(_teach, pair, row, picked, make, kept)


def _teach(
    pair: Pair,
    row: Row,
    picked: Picked,
    make: Callable[[Sequence[Row]], Callable[[Row], TrainingExample]],
    kept: dict[tuple[int, ...], Callable[[Row], TrainingExample]],
) -> TrainingExample:
    """The example of a row, with the shots that a run would send."""
    shots = picked.ids if pair.budget.tokens is None else _fit_shots(pair, row, picked)
    if shots not in kept:
        if len(kept) >= _KEPT:
            kept.clear()
        kept[shots] = make([pair.data.train[i] for i in shots])
    return kept[shots](row)


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
            if asks.asks_turns:
                return DialogueTrainingProgram(
                    task.wording, renderer, infer_mode=asks.infer_mode, shots=shots, prefill=asks.prefill, aim=aim
                )
            if asks.compares_labels:
                return LabelTrainingProgram(task.wording, renderer, labels=task.labels, shots=shots, aim=aim)
            return TrainingProgram(task.wording, renderer, shots=shots, prefill=asks.prefill, aim=aim)

    if asks.scores_whole_text:
        what = f'{asks.name} scores whole texts; there is no answer to train on.'
        raise ConfigError(Problem(f'{task.where}.infer_cfg.inferencer', what, 'Use GenInferencer, or another dataset.'))
    return make


def _renderer_for(model_entry: ModelEntry | None, form: Form) -> Renderer:
    """The renderer that produces the wanted form."""
    if model_entry is None:
        raise ConfigError(Problem('models', 'the config has no models.'))
    if form == 'messages':
        if isinstance(model_entry.renderer, TextRenderer):
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


# Rows and a prompter.


@dataclass(frozen=True, slots=True)
class Columns:
    """The roles of a row's columns. Slots of a prompter are filled from columns of the same name."""

    answer: str
    input: str | None = None
    """None: the column `input`, if present."""
    history: str | None = None
    tools: str | None = None


def prompter_examples(
    prompter: Prompter,
    rows: Iterable[Row],
    columns: Columns,
    *,
    form: Form,
    aim: Aim | None = None,
    limit: int | None = None,
) -> Iterator[Given]:
    """The examples of rows formatted by a prompter.

    >>> from rolecall import ChatPrompter
    >>> chat = ChatPrompter('Add.', system='').bind({'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'}, system='')
    >>> rows = [{'input': '1+1', 'sum': 2}]
    >>> list(entries(prompter_examples(chat, rows, Columns(answer='sum'), form='text'), SftReport()))
    [{'text': 'Add.\\n\\n\\n\\n\\n<u>\\n1+1\\n<a>\\n2</a>', 'spans': [[21, 26]]}]
    """
    if columns.answer in prompter.slots or columns.answer == (columns.input or 'input'):
        raise PrompterError(f'the answer column {columns.answer!r} is an input of the prompter: it would be shown.')
    quiet = replace(prompter, show=False)
    for number, row in enumerate(rows if limit is None else first(rows, limit)):
        yield f'row {number}', _prompter_example(quiet, row, columns, form, aim or Aim())


def _prompter_example(
    prompter: Prompter, row: Row, columns: Columns, form: Form, aim: Aim
) -> Callable[[], TrainingExample]:
    def teach() -> TrainingExample:
        _check_columns(row, columns)
        answer = text_of(row[columns.answer])
        if not answer.strip():
            raise UntrainableError('the answer is missing', f'column {columns.answer!r} is empty')
        asked = (
            _input(prompter, row, columns),
            row[columns.history] if columns.history else None,
            row[columns.tools] if columns.tools else None,
        )
        return (_messages if form == 'messages' else _text)(prompter, asked, answer, aim)

    return teach


def _check_columns(row: Row, columns: Columns) -> None:
    """Reject a row that lacks a named column."""
    for name in (columns.answer, columns.input, columns.history, columns.tools):
        if name is not None and name not in row:
            raise PrompterError(f'the row has no column {name!r}. {did_you_mean(name, map(str, row))}')


def _input(prompter: Prompter, row: Row, columns: Columns) -> dict[str, Any]:
    """The row as input of a prompter: its slots and the user's message."""
    given = {slot: row[slot] for slot in prompter.slots if slot in row}
    spoken = columns.input or 'input'
    is_slot = 'input' in prompter.slots
    takes_input = '{input}' in prompter.template or is_slot
    if columns.input is not None and not takes_input:
        raise PrompterError(f'the prompter has no input for the column {columns.input!r}; it only has slots.')
    if takes_input and spoken in row:
        given['input'] = row[spoken]
    elif takes_input and not prompter.slots:
        raise PrompterError(f'the row has no column {spoken!r} for the input. It has: {", ".join(map(str, row))}.')
    return given


def _messages(prompter: Prompter, asked: tuple[Any, Any, Any], answer: str, aim: Aim) -> MessagesExample:
    request = prompter.generate_prompt(*asked, return_dict=True)
    told = prompter.generate_prompt(*asked, answer, return_dict=True)
    if request.get('tools') != told.get('tools'):
        raise UntrainableError('the tools differ from those that inference sends')
    answers = [(request['messages'], told['messages'])]
    return messages_example(answers, all_answers=aim.all_answers, tools=request.get('tools') or ())


def _text(prompter: Prompter, asked: tuple[Any, Any, Any], answer: str, aim: Aim) -> TextExample:
    request = as_text(prompter.generate_prompt(*asked))
    whole = prompter.trace(*asked, answer)
    text = as_text(whole.request)
    stop = _end_of_label(whole.spans) or _end_of_words(answer, text, request)
    earlier = _is_reply if aim.all_answers else None
    model: Any = prompter.model
    return text_example([(request, text[:stop])], whole, earlier=earlier, end=aim.end, eos=end_of_turn(model))


def _is_reply(span: Span) -> bool:
    return span.origin.kind == 'reply'


def _end_of_label(spans: Sequence[Span]) -> int:
    """Where the answer ends by its origin; 0 if unknown."""
    at = stop = 0
    for span in spans:
        at += len(span.text)
        if span.origin.kind == 'label' and span.text:
            stop = at
    return stop


def _end_of_words(answer: str, text: str, request: str) -> int:
    """Where the answer ends after the request, for chat templates that inspect contents and hide origins."""
    words = answer.strip()
    after = text.removeprefix(request).lstrip()
    if not text.startswith(request) or not after.startswith(words):
        raise UntrainableError('the answer cannot be located in the text of the chat template')
    return len(text) - len(after) + len(words)


def prompter_encoder(prompter: Prompter, tokenizer: Tokenizer) -> PromptEncoder:
    """How a prompter's texts become token ids: with a BOS, unless a chat template writes that."""
    return PromptEncoder(tokenizer, begins=not isinstance(prompter.model, ChatRenderer))
