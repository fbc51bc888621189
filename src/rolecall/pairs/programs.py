"""How the rows of a dataset are worded for a model, behind one protocol: the requests of a row, given its examples and
the replies so far. `build_program` alone looks at which inferencer asks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Protocol

from rolecall.datasets import Dataset
from rolecall.errors import RenderError
from rolecall.pairs.fitting import Labelled
from rolecall.pairs.tasks import Task
from rolecall.program import DialogueProgram, Program, Trace, VaryingProgram, compile
from rolecall.program.varying import Indexed
from rolecall.prompts.pieces import Origin, Row
from rolecall.prompts.script import PromptList
from rolecall.prompts.values import text_of
from rolecall.render.renderers import Renderer
from rolecall.render.spans import Span

__all__ = ['RowProgram', 'Traced', 'build_program']

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


def build_program(task: Task, renderer: Renderer, data: Dataset) -> RowProgram:
    """The program of a dataset for a model side. A template may have one of its own."""
    own = getattr(task.wording.prompt, 'build_program', None)
    if own is not None:
        program: RowProgram = own(renderer, data)
        return program
    kind, train = task.inferencer.kind, data.train
    if kind == 'dialogue':
        return _Turns(task, renderer, train)
    if kind == 'choices':
        return _Choices(task, renderer, train)
    return _Prompts(task, renderer, train)


class _Prompts:
    """One request for a row, or one for each label."""

    waits = False
    complete = False

    def __init__(self, task: Task, renderer: Renderer, train: Indexed) -> None:
        asks = task.inferencer
        self.weighs = task.mode == 'ppl'
        self._labels = task.prompt_labels
        self._train = train
        self._compile = partial(compile, task.wording, renderer, mode=task.mode, prefill=asks.prefill)
        self._compiled: dict[tuple[int, ...], dict[Hashable, Program]] = {}
        self._varying: dict[Hashable, VaryingProgram] = {}
        if not task.retriever.fixed:
            self._varying = {
                label: VaryingProgram(
                    task.wording, renderer, train=train, mode=task.mode, label=label, prefill=asks.prefill
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
            self._compiled[shots] = {label: self._compile(label=label, shots=rows) for label in self._labels}
        return self._compiled[shots]


class _Choices(_Prompts):
    """The row's prompt with each of its choices behind it."""

    column = 'choices'

    def __init__(self, task: Task, renderer: Renderer, train: Indexed) -> None:
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

    def __init__(self, task: Task, renderer: Renderer, train: Indexed) -> None:
        asks = task.inferencer
        self.waits = asks.infer_mode == 'every'
        self._train = train
        self._compile = partial(
            DialogueProgram, task.wording, renderer, infer_mode=asks.infer_mode, prefill=asks.prefill
        )
        self._compiled: dict[tuple[int, ...], DialogueProgram] = {}

    def turns(self, row: Row) -> Sequence[int | None]:
        return self._program(()).asked(row)

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        return [(None, self._program(shots)(row, turn or 0, replies))]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        program = self._program(shots)
        yield None, program.trace(row, turn or 0, replies), program.prompt(row, turn or 0, replies)

    def _program(self, shots: tuple[int, ...]) -> DialogueProgram:
        """The dialogue with these examples, kept for the next row that gets the same."""
        if shots not in self._compiled:
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            self._compiled[shots] = self._compile(shots=[self._train[i] for i in shots])
        return self._compiled[shots]
