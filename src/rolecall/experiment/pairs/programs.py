"""How the rows of a dataset are worded for a model, behind one protocol: the requests of a row, given its examples and
the replies so far. `build_program` alone looks at which inferencer asks. In `PlainValues`, a control token that
a row spells stays text."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

from rolecall.core.program import DialogueProgram, Program, Trace, VaryingProgram, compile
from rolecall.core.program.varying import Indexed
from rolecall.core.prompts.messages import find_message_column, has_messages, read_conversation
from rolecall.core.prompts.pieces import Origin, Row, text_of
from rolecall.core.prompts.script import PromptList
from rolecall.core.prompts.template import PromptTemplate
from rolecall.core.prompts.wording import Wording
from rolecall.core.render.renderers import Renderer
from rolecall.core.render.spans import Span
from rolecall.errors import DataError, MissingExtraError, RenderError
from rolecall.experiment.opening.fitting import Labelled
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_tokenizer
from rolecall.sources.datasets import Dataset

_VALUES = ('field', 'reply')
_SHORTEST = 3
_NEVER = re.compile(r'(?!)')
_KEPT = 64
"""Compiled programs kept, each for one selection of examples."""
_ONE_TURN = (None,)
Traced = tuple[Hashable, Trace, 'str | PromptList']
"""A label, its request with origins, and the prompt before the model side."""


class RowProgram(Protocol):
    """Words the requests of a row."""

    weighs: bool
    """Whether requests are scored rather than answered."""
    waits: bool
    """Whether later requests of a row depend on the replies to earlier ones."""
    complete: bool
    """Whether requests are whole without a model: as a text model without a meta template receives them."""

    def turns(self, row: Row) -> Sequence[int | None]:
        """The turns for which the model is asked; one, None, where there are no turns."""

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        """The requests of one turn, each with its label."""

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        """The same requests, with the origin of every character."""


def build_program(task: TaskEntry, renderer: Renderer, data: Dataset) -> RowProgram:
    """The program of a dataset for a model side. A template may have one of its own."""
    own = getattr(task.wording.prompt, 'build_program', None)
    if own is not None:
        program: RowProgram = own(renderer, data)
        return program
    kind, train = task.inferencer.kind, data.train
    if kind == 'dialogue':
        column = _find_message_column(task.wording) if not task.wording.prompt.labels else None
        return _Turns(task, renderer, train) if column is None else _Messages(task, renderer, train, column)
    if kind == 'choices':
        return _Choices(task, renderer, train)
    return _Prompts(task, renderer, train)


def _find_message_column(wording: Wording) -> str | None:
    """The column that may hold a whole dialogue: all that the template says, or the only one where it says nothing."""
    script, columns = wording.prompt.script(), wording.input_columns
    if len(columns) == 1 and script.plain and not any(script.pieces()):
        return columns[0]
    return find_message_column(script)


class _Prompts:
    """One request for a row, or one for each label."""

    waits = False
    complete = False

    def __init__(self, task: TaskEntry, renderer: Renderer, train: Indexed) -> None:
        asks = task.inferencer
        self.weighs = task.mode == 'ppl'
        self._labels = task.prompt_labels
        self._train = train
        self._word = task.wording_of
        self._compile = partial(compile, renderer=renderer, mode=task.mode, prefill=asks.prefill)
        self._compiled: dict[tuple[int, ...], dict[Hashable, Program]] = {}
        self._varying: dict[Hashable, VaryingProgram] = {}
        if not task.retriever.fixed:
            self._varying = {
                label: VaryingProgram(
                    self._word(label), renderer, train=train, mode=task.mode, label=label, prefill=asks.prefill
                )
                for label in self._labels
            }

    def turns(self, row: Row) -> Sequence[int | None]:
        return _ONE_TURN

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        if self._varying and shots:
            return [(label, varying(row, shots)) for label, varying in self._varying.items()]
        return [(label, program(row)) for label, program in self._programs(shots).items()]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        for label, program in self._programs(shots).items():
            yield label, program.trace(row), program.prompt(row)

    def _programs(self, shots: tuple[int, ...]) -> dict[Hashable, Program]:
        """The programs with these examples, kept for the next row that gets the same."""
        if shots not in self._compiled:
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            rows = [self._train[i] for i in shots]
            self._compiled[shots] = {
                label: self._compile(self._word(label), label=label, shots=rows) for label in self._labels
            }
        return self._compiled[shots]


class _Choices(_Prompts):
    """The row's prompt with each of its choices behind it."""

    column = 'choices'

    def __init__(self, task: TaskEntry, renderer: Renderer, train: Indexed) -> None:
        super().__init__(task, renderer, train)
        self.weighs = True

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        [(_, prompt)] = super().requests(row, shots, turn, replies)
        if not isinstance(prompt, str):
            raise RenderError('CLPInferencer appends each choice to the prompt, so the prompt must be a text.')
        return [(choice, prompt + choice) for choice in self._choices(row)]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        [(_, trace, prompt)] = super().traces(row, shots, turn, replies)
        if not isinstance(trace.request, str):
            yield None, trace, prompt  # before the model side, where choices have no place yet
            return
        for choice in self._choices(row):
            spans = (*trace.spans, Span(choice, Origin('field', self.column)))
            worded = prompt + choice if isinstance(prompt, str) else prompt
            yield choice, Trace(trace.request + choice, spans, trace.notes), worded

    def _choices(self, row: Row) -> list[str]:
        choices = row.get(self.column)
        if not isinstance(choices, (list, tuple)) or not choices:
            raise RenderError(f'CLPInferencer needs a list of choices in column {self.column!r}, got {choices!r:.60}.')
        return [text_of(choice) for choice in choices]


class _Turns:
    """The turns of a dialogue, one request each."""

    weighs = False
    complete = False

    def __init__(self, task: TaskEntry, renderer: Renderer, train: Indexed) -> None:
        asks = task.inferencer
        self.waits = asks.infer_mode == 'every'
        self._train = train
        self._compile = partial(
            DialogueProgram, task.wording, renderer, infer_mode=asks.infer_mode, prefill=asks.prefill
        )
        self._compiled: dict[tuple[int, ...], DialogueProgram] = {}

    def turns(self, row: Row) -> Sequence[int | None]:
        program, filled = self._find(row, ())
        return program.turns_to_ask(filled)

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        program, filled = self._find(row, shots)
        return [(None, program(filled, turn or 0, replies))]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        program, filled = self._find(row, shots)
        yield None, program.trace(filled, turn or 0, replies), program.prompt(filled, turn or 0, replies)

    def _find(self, row: Row, shots: tuple[int, ...]) -> tuple[DialogueProgram, Row]:
        """The dialogue with these examples, kept for the next row that gets the same, and the row that it takes."""
        if shots not in self._compiled:
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            self._compiled[shots] = self._compile(shots=[self._train[i] for i in shots])
        return self._compiled[shots], row


class _Messages(_Turns):
    """The turns of a dialogue that a column holds as messages; the model is asked for the assistant's.

    A column that holds one question for each turn is worded as any other multi-turn prompt.
    """

    def __init__(self, task: TaskEntry, renderer: Renderer, train: Indexed, column: str) -> None:
        self._column, self._answer, self._system = column, f'{column}.assistant', f'{column}.system'
        if task.wording.prompt.script().plain:
            question = PromptTemplate(
                {'round': [self._speak('HUMAN', column)]}, ice_token=task.wording.prompt.ice_token
            )
            task = replace(task, wording=replace(task.wording, prompt_template=question))
        super().__init__(task, renderer, train)
        self._compile_messages = partial(
            DialogueProgram,
            renderer=renderer,
            infer_mode=task.inferencer.infer_mode,
            prefill=task.inferencer.prefill,
        )
        self._replacement = task.inferencer.replacement
        self._by_form: dict[bool, DialogueProgram] = {}

    def _find(self, row: Row, shots: tuple[int, ...]) -> tuple[DialogueProgram, Row]:
        if not has_messages(row.get(self._column)):
            return super()._find(row, shots)
        conversation = read_conversation(row[self._column], self._column)
        has_system = bool(conversation.system)
        if has_system not in self._by_form:
            self._by_form[has_system] = self._compile_messages(self._word(has_system))
        filled = {
            self._column: conversation.questions,
            self._answer: conversation.answers,
            self._system: conversation.system,
        }
        return self._by_form[has_system], filled

    def _word(self, has_system: bool) -> Wording:
        begin = [{**self._speak('SYSTEM', self._system), 'fallback_role': 'HUMAN'}] if has_system else []
        turns = [self._speak('HUMAN', self._column), self._speak('BOT', self._answer)]
        template = PromptTemplate({**({'begin': begin} if begin else {}), 'round': turns})
        return Wording(template, None, self._answer, self._replacement)

    @staticmethod
    def _speak(role: str, column: str) -> dict[str, str]:
        return {'role': role, 'prompt': f'{{{column}}}'}


class PlainValues:
    """A program whose requests hold no control tokens but those of the template and the model side."""

    def __init__(self, program: RowProgram, model_entry: ModelEntry, train: Indexed) -> None:
        self._program = program
        self._entry = model_entry.entry
        self._train = train
        self._shots: dict[int, bool] = {}
        self.weighs, self.waits, self.complete = program.weighs, program.waits, program.complete

    def turns(self, row: Row) -> Sequence[int | None]:
        return self._program.turns(row)

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        requests = self._program.requests(row, shots, turn, replies)
        if not (self._spells_token(row.values()) or self._spells_token(replies) or any(map(self._shot_does, shots))):
            return requests
        return [(label, trace.request) for label, trace, _ in self.traces(row, shots, turn, replies)]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        for label, trace, prompt in self._program.traces(row, shots, turn, replies):
            yield label, self._protect(trace), prompt

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        try:
            return find_tokenizer(self._entry)
        except (DataError, MissingExtraError):
            return None

    @cached_property
    def _control(self) -> re.Pattern[str]:
        """What becomes a control token where it stands in a text."""
        special = self._tokenizer.special_tokens if self._tokenizer else ()
        tokens = [token for token in special if len(token) >= _SHORTEST]
        return re.compile('|'.join(map(re.escape, sorted(tokens, key=len, reverse=True)))) if tokens else _NEVER

    def _spells_token(self, values: Any) -> bool:
        control = self._control
        return control is not _NEVER and any(control.search(v if isinstance(v, str) else str(v)) for v in values)

    def _shot_does(self, number: int) -> bool:
        if number not in self._shots:
            self._shots[number] = self._spells_token(self._train[number].values())
        return self._shots[number]

    def _protect(self, trace: Trace) -> Trace:
        if not isinstance(trace.request, str) or self._tokenizer is None:
            return trace
        spans = [part for span in trace.spans for part in self._split(span, self._tokenizer)]
        if not any(span.token is not None for span in spans):
            return trace
        request: list[int | str] = []
        for span in spans:
            if span.token is not None:
                request.append(span.token)
            elif request and isinstance(request[-1], str):
                request[-1] += span.text
            elif span.text:
                request.append(span.text)
        return replace(trace, request=request, spans=tuple(spans))

    def _split(self, span: Span, tokenizer: Tokenizer) -> Iterator[Span]:
        """The span with each control token that a value spells as the ids of its characters."""
        at = 0
        for match in self._control.finditer(span.text) if span.origin.kind in _VALUES else ():
            if match.start() > at:
                yield replace(span, text=span.text[at : match.start()])
            ids = tokenizer.encode(match[0], special=False)
            for number, piece in zip(ids, tokenizer.pieces(ids), strict=True):
                yield replace(span, text=piece, token=number)
            at = match.end()
        if at < len(span.text) or not at:
            yield replace(span, text=span.text[at:]) if at else span
