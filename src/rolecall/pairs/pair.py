"""What every model will receive, row by row, before anything is sent."""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import Any, TypeVar

from rolecall.config.files import Config, load_config
from rolecall.datasets import Dataset, Row, first
from rolecall.errors import ConfigError, DataError, Problem, RenderError, did_you_mean
from rolecall.pairs.build import build
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.tasks import Task, placed
from rolecall.program import DialogueProgram, Program, Trace, VaryingProgram, compile, compile_labels
from rolecall.prompts.script import PromptList
from rolecall.prompts.wording import Mode
from rolecall.render.arrange import Note
from rolecall.render.renderers import DatasetRenderer, Renderer
from rolecall.render.spans import Request, Span
from rolecall.retrievers import Picked

__all__ = ['Pair', 'Picking', 'Preview', 'fitting', 'preview']


@dataclass(frozen=True, slots=True)
class Preview:
    """One request before it is sent."""

    dataset: str
    model: str | None
    row: int
    mode: Mode
    label: Hashable
    turn: int | None
    prompt: str | PromptList
    """The prompt before the model side."""
    request: Request | None
    """What the model receives: a string, messages, or token ids. None if the config has no models."""
    spans: tuple[Span, ...] = ()
    notes: tuple[Note, ...] = ()
    shots: tuple[int, ...] = ()
    """The training rows shown as examples."""
    skipped: tuple[int, ...] = ()
    """Training rows passed over because they are, or equal, the row being asked about."""
    values: Row = field(default_factory=dict, repr=False)
    """The row itself."""


def preview(
    config: Mapping[str, Any] | str | Path,
    *,
    dataset: str | None = None,
    model: str | None = None,
    limit: int | None = None,
    replies: Sequence[str] | None = None,
    data: Mapping[str, str] | None = None,
) -> Iterator[Preview]:
    """Yield every request that a config leads to, with the origin of every character.

    `dataset` and `model` pick by abbr (patterns such as `gsm8k*` work), `limit` bounds the rows of each dataset,
    `replies` stand for what the model says in the turns of a dialogue, and `data` supplies rows for datasets whose
    loader is not ours: `{'train': file, 'test': file}`.

    >>> config = dict(
    ...     models=[dict(abbr='m', type='HuggingFaceCausalLM', path='none', meta_template=dict(round=[
    ...         dict(role='HUMAN', begin='<H>', end='</H>'),
    ...         dict(role='BOT', begin='<B>', end='</B>', generate=True)]))],
    ...     datasets=[dict(abbr='demo', type='Rows', test=[{'q': '1+1=?', 'a': '2'}],
    ...         reader_cfg=dict(input_columns=['q'], output_column='a'),
    ...         infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=dict(round=[
    ...             dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')]))))])
    >>> next(preview(config)).request
    '<H>1+1=?</H><B>'
    """
    loaded = _loaded(config)
    base = loaded.path.parent if isinstance(loaded, Config) else None
    plan = build(loaded)
    model_entries: Sequence[ModelEntry | None] = fitting(plan.model_entries, model, 'model') or [None]
    for task in fitting(plan.tasks, dataset, 'dataset'):
        rows = task.open(base=base, data=data)
        picking = Picking(task, rows, keeps=len(model_entries) > 1)
        for model_entry in model_entries:
            pair = Pair(task, model_entry, rows, picking=picking)
            for number, row, picked in pair.rows(limit):
                yield from pair.previews(number, row, picked, replies=replies)


class Picking:
    """The examples for the rows of one dataset. Every model is shown the same, so `keeps` saves picking them again."""

    def __init__(self, task: Task, data: Dataset, *, keeps: bool) -> None:
        self._task = task
        self._data = data
        self._keeps = keeps and not task.retriever.fixed
        self._kept: dict[int | None, list[Picked]] = {}

    def rows(self, limit: int | None) -> Iterator[tuple[Row, Picked]]:
        """The rows being asked about, each with its examples."""
        if limit in self._kept:
            return zip(first(self._data.test, limit), self._kept[limit], strict=True)
        return self._picked(limit)

    def _picked(self, limit: int | None) -> Iterator[tuple[Row, Picked]]:
        task, data = self._task, self._data
        asked, seen = tee(first(data.test, limit))
        with placed(f'{task.where}.infer_cfg.retriever'):
            picks = task.retriever.retrieve(data.train, seen, reader=task.reader, same_split=data.train is data.test)
        kept: list[Picked] = []
        for row, picked in zip(asked, picks, strict=True):
            if self._keeps:
                kept.append(picked)
            yield row, picked
        if self._keeps:
            self._kept[limit] = kept


class Pair:
    """One dataset × one model, compiled. Whoever shows, exports or sends requests takes them from here."""

    def __init__(
        self, task: Task, model_entry: ModelEntry | None, data: Dataset, *, picking: Picking | None = None
    ) -> None:
        self.task = task
        self.model_entry = model_entry
        self.data = data
        self._picking = picking or Picking(task, data, keeps=False)
        self._renderer: Renderer = model_entry.renderer if model_entry else DatasetRenderer()
        self._compiled: dict[tuple[int, ...], dict[Hashable, Program] | DialogueProgram] = {}
        self._varying = self._compile_varying() if self._examples_vary else {}
        self._needed = self._needed_columns()

    @property
    def mode(self) -> Mode:
        """`ppl` where prompts are weighed, `gen` where an answer is asked for."""
        return 'ppl' if self.task.inferencer.kind in ('label', 'whole') else 'gen'

    def rows(self, limit: int | None = None) -> Iterator[tuple[int, Row, Picked]]:
        """The rows being asked about, with the examples picked for each."""
        for number, (row, picked) in enumerate(self._picking.rows(limit)):
            self._check_row(number, row)
            yield number, row, picked

    def requests(self, row: Row, picked: Picked) -> Iterator[tuple[Hashable, Request]]:
        """What is sent for one row: one request, or one for each label. (Dialogues go turn by turn: `dialogue`.)"""
        if self._varying and picked.ids:
            for label, varying in self._varying.items():
                yield label, varying(row, picked.ids)
            return
        for label, program in self._programs(picked.ids).items():
            yield label, program(row)

    def answers_at(self, row: Row, picked: Picked) -> dict[Hashable, int]:
        """The character at which each label's answer begins, where the template says so with its sep_token."""
        if self.task.wording.prompt.sep_token is None:
            return {}
        found: dict[Hashable, int] = {}
        for label, program in self._programs(picked.ids).items():
            at = 0
            for span in program.trace(row).spans:
                if span.origin.kind == 'sep':
                    found[label] = at
                at += len(span.text)
        return found

    def previews(
        self, number: int, row: Row, picked: Picked, *, replies: Sequence[str] | None = None
    ) -> Iterator[Preview]:
        """Everything that is sent for one row, with origins."""
        try:
            if self.task.inferencer.kind == 'dialogue':
                dialogue = self.dialogue(picked)
                for turn in dialogue.asked(row):
                    said = [_reply(replies, t) for t in range(turn)]
                    trace = dialogue.trace(row, turn, said)
                    yield self._preview(number, row, picked, trace, dialogue.prompt(row, turn, said), turn=turn)
                return
            for label, program in self._programs(picked.ids).items():
                yield self._preview(number, row, picked, program.trace(row), program.prompt(row), label=label)
        except RenderError as error:
            raise RenderError(f'{self.task.abbr}, row {number}: {error}') from error

    def dialogue(self, picked: Picked) -> DialogueProgram:
        """The program of a dialogue with these examples."""
        compiled = self._compile(picked.ids)
        if not isinstance(compiled, DialogueProgram):
            raise TypeError(f'{self.task.abbr} is not asked turn by turn')
        return compiled

    def _programs(self, shots: tuple[int, ...]) -> dict[Hashable, Program]:
        compiled = self._compile(shots)
        if isinstance(compiled, DialogueProgram):
            raise TypeError(f'{self.task.abbr} is asked turn by turn')
        return compiled

    def _compile(self, shots: tuple[int, ...]) -> dict[Hashable, Program] | DialogueProgram:
        """The programs with these examples, kept for the next row that gets the same."""
        if shots not in self._compiled:
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            self._compiled[shots] = self._compile_anew([self.data.train[i] for i in shots])
        return self._compiled[shots]

    def _compile_anew(self, shots: Sequence[Row]) -> dict[Hashable, Program] | DialogueProgram:
        task, asks = self.task, self.task.inferencer
        if asks.kind == 'dialogue':
            return DialogueProgram(
                task.wording, self._renderer, infer_mode=asks.infer_mode, shots=shots, prefill=asks.prefill
            )
        if asks.kind == 'label':
            return compile_labels(task.wording, self._renderer, labels=task.labels, shots=shots)
        label = task.whole_label
        return {
            label: compile(task.wording, self._renderer, mode=self.mode, shots=shots, label=label, prefill=asks.prefill)
        }

    @property
    def _examples_vary(self) -> bool:
        return not self.task.retriever.fixed and self.task.inferencer.kind != 'dialogue'

    def _compile_varying(self) -> dict[Hashable, VaryingProgram]:
        asks = self.task.inferencer
        return {
            label: VaryingProgram(
                self.task.wording,
                self._renderer,
                train=self.data.train,
                mode=self.mode,
                label=label,
                prefill=asks.prefill,
            )
            for label in (self.task.labels if asks.kind == 'label' else (self.task.whole_label,))
        }

    def _needed_columns(self) -> list[str]:
        """The input columns that the wording mentions: a row without them cannot be asked about."""
        template = self.task.wording.prompt
        mentioned = {column for label in template.labels or (None,) for column in template.script(label).needed_columns}
        return [column for column in self.task.reader.input_columns if column in mentioned]

    def _check_row(self, number: int, row: Row) -> None:
        missing = [column for column in self._needed if column not in row]
        if missing:
            has = ', '.join(map(str, row))
            raise DataError(
                f'{self.task.abbr}, row {number}: no column {", ".join(map(repr, missing))}, which '
                f'reader_cfg.input_columns names and the template uses. The row has: {has}. Correct one of them.'
            )

    def _preview(
        self,
        number: int,
        row: Row,
        picked: Picked,
        trace: Trace,
        prompt: str | PromptList,
        *,
        label: Hashable = None,
        turn: int | None = None,
    ) -> Preview:
        return Preview(
            dataset=self.task.abbr,
            model=self.model_entry.abbr if self.model_entry else None,
            row=number,
            mode=self.mode,
            label=label,
            turn=turn,
            prompt=prompt,
            request=trace.request if self.model_entry else None,
            spans=trace.spans,
            notes=trace.notes,
            shots=picked.ids,
            skipped=picked.skipped,
            values=row,
        )


_KEPT = 64
_Named = TypeVar('_Named', Task, ModelEntry)


def _reply(replies: Sequence[str] | None, turn: int) -> str:
    """The canned reply of a turn; `answer1`, `answer2`, … where none is given."""
    return replies[turn] if replies is not None and turn < len(replies) else f'answer{turn + 1}'


def _loaded(config: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    return load_config(config) if isinstance(config, (str, Path)) else config


def fitting(named: Sequence[_Named], pattern: str | None, what: str) -> list[_Named]:
    """Those whose abbr fits the pattern; a pattern that fits none is an error."""
    fits = [one for one in named if pattern is None or fnmatch.fnmatchcase(one.abbr, pattern)]
    if pattern is not None and not fits:
        names = [one.abbr for one in named]
        raise ConfigError(Problem(f'{what}s', f'no {what} fits {pattern!r}.', did_you_mean(pattern, names)))
    return fits
