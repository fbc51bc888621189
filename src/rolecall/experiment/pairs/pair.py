"""One dataset × one model: what the model receives, row by row, fitted to its context.

The viewer, the linter, the plan, the exports, the run and the report all take requests from a `Pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, repeat, takewhile, tee
from typing import Any, get_args

from rolecall.checking import is_whole
from rolecall.core.prompts.script import PromptList
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.arrange import Note
from rolecall.core.render.renderers import DatasetRenderer
from rolecall.core.render.spans import Message, Request, Span, join_spans
from rolecall.errors import DataError, RenderError
from rolecall.experiment.opening.fitting import CutSide, Step, TokenBudget, fit
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.opening.tasks import TaskEntry, locate_problems
from rolecall.experiment.pairs.programs import PlainValues, build_program
from rolecall.models.protocol import is_messages
from rolecall.registry import load_object
from rolecall.sources.datasets import Dataset, Row, Rows, first
from rolecall.sources.retrievers import Picked, ZeroRetriever

_LOOKED_AT = 20
_FEW = 20
"""Rows are looked up one by one if fewer than one in so many is needed."""


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
    shots_dropped: int = 0
    """How many further examples were picked and do not fit the context."""
    skipped: tuple[int, ...] = ()
    """Training rows passed over because they are, or equal, the row being asked about."""
    sent: bool = True
    """False if the request does not fit the context: then the run sends nothing, and a note says why."""
    values: Row = field(default_factory=dict, repr=False)
    """The row itself."""

    @property
    def text(self) -> str:
        """All its words, one text after the other."""
        return '\n'.join(join_spans(self.spans).values())

    @property
    def own(self) -> tuple[Span, ...]:
        """What is about the row itself, not its examples."""
        return tuple(span for span in self.spans if span.origin.shot is None)

    def _repr_html_(self) -> str:
        request_html = load_object('rolecall.ui.views.span_html:request_html')
        model = f' × {self.model}' if self.model else ''
        return str(request_html(f'{self.dataset}{model} · row {self.row}', self.request, self.spans))


class ShotPicker:
    """The examples for the rows of one dataset. Every model is shown the same, so `keeps` saves picking them again."""

    def __init__(self, task: TaskEntry, data: Dataset, *, keeps: bool) -> None:
        self._task = task
        self.data = data
        self._keeps = keeps and not task.retriever.fixed
        self._kept: dict[int | None, list[Picked]] = {}
        self.on_indexing: Callable[[int, int], None] | None = None
        """Told how many of the training rows are indexed, where the retriever looks at all of them first."""

    def rows(self, limit: int | None) -> Iterator[tuple[Row, Picked]]:
        """The rows being asked about, each with its examples."""
        task, data = self._task, self.data
        if limit in self._kept:
            yield from zip(first(data.test, limit), self._kept[limit], strict=True)
            return
        if type(task.retriever) is ZeroRetriever:
            yield from zip(first(data.test, limit), repeat(Picked(())), strict=False)
            return
        test_rows, rows_again = tee(first(data.test, limit))
        # A row that lacks an input column fails when it is asked about, but stops no retriever.
        blank = dict.fromkeys(task.reader.input_columns, '')
        rows = (row if blank.keys() <= row.keys() else {**blank, **row} for row in rows_again)
        options: dict[str, Any] = {}
        tell = self.on_indexing
        if tell is not None and not task.retriever.fixed and type(task.retriever).__module__.startswith('rolecall.'):
            size = len(data.train)
            options['progress'] = lambda done, total: tell(done, size) if done <= size else None
        with locate_problems(f'{task.where}.infer_cfg.retriever'):
            picks = task.retriever.retrieve(
                data.train, rows, reader=task.reader, same_split=data.train is data.test, **options
            )
        picked_rows: list[Picked] = []
        for row, picked in zip(test_rows, picks, strict=True):
            if self._keeps:
                picked_rows.append(picked)
            yield row, picked
        if self._keeps:
            self._kept[limit] = picked_rows

    def rows_at(self, numbers: Sequence[int], limit: int | None) -> Iterator[tuple[int, Row, Picked]]:
        """Some of the rows, by ascending numbers, each with the examples that it has among all rows."""
        task, data = self._task, self.data
        if not task.retriever.fixed or (data.train is data.test and task.retriever.ice_num):
            wanted = _Ascending(numbers)
            upto = islice(enumerate(self.rows(limit)), numbers[-1] + 1 if numbers else 0)
            yield from ((n, row, picked) for n, (row, picked) in upto if wanted.has(n))
            return
        rows, rows_again = tee(_read_at(data.test, numbers))
        with locate_problems(f'{task.where}.infer_cfg.retriever'):
            picks = task.retriever.retrieve(data.train, rows_again, reader=task.reader)
        yield from zip(numbers, rows, picks, strict=False)


class _Ascending:
    """Tells of ascending numbers whether they are among others, which ascend, too."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._left = iter(numbers)
        self._next = next(self._left, None)

    def has(self, number: int) -> bool:
        if number != self._next:
            return False
        self._next = next(self._left, None)
        return True


def _read_at(rows: Rows, numbers: Sequence[int]) -> Iterator[Row]:
    """The rows at ascending numbers: looked up if they are few, otherwise read in order."""
    if len(numbers) * _FEW < len(rows):
        return (rows[number] for number in numbers if number < len(rows))
    wanted = _Ascending(numbers)
    return (row for number, row in enumerate(rows) if wanted.has(number))


class Pair:
    """One dataset × one model, compiled. Everything that shows, exports or sends requests takes them from here."""

    def __init__(self, task: TaskEntry, model_entry: ModelEntry | None, picker: ShotPicker) -> None:
        self.task = task
        self.model_entry = model_entry
        self.data = picker.data
        self.picker = picker
        self._program = build_program(task, model_entry.renderer if model_entry else DatasetRenderer(), self.data)
        if model_entry is not None and model_entry.takes_token_ids:
            self._program = PlainValues(self._program, model_entry, self.data.train)
        self.weighs, self.waits = self._program.weighs, self._program.waits
        template, columns = task.wording.prompt, task.reader.input_columns
        self._needed = list(columns)
        """The input columns that the wording mentions or the retriever compares: a row needs them to be asked about."""
        if not task.picks_shots or task.retriever.fixed:
            mentioned = {name for label in template.labels or (None,) for name in template.script(label).needed_columns}
            self._needed = [column for column in columns if column in mentioned]

    @cached_property
    def budget(self) -> TokenBudget:
        """The shorter of the dataset's and the model's context limit, less the length of the answer."""
        if self.model_entry is None:
            return TokenBudget()
        options = self.task.inferencer.options
        stated, truncate = options.get('max_seq_len'), options.get('truncate')
        return self.model_entry.budget(
            reserved=None if self.weighs else sampling_of(options, self.model_entry.entry).max_out_len,
            max_seq_len=stated if is_whole(stated, least=1) else None,
            truncate=truncate if truncate in get_args(CutSide) else None,
        )

    def refit(self) -> None:
        """Find the budget anew: the model's server has been asked for its window."""
        self.__dict__.pop('budget', None)

    def rows(
        self, limit: int | None = None, *, strict: bool = True, only: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Row, Picked]]:
        """The rows being asked about, or `only` those with these ascending numbers, with the examples picked for each.

        A row without a needed column is an error; if not `strict`, only where none of the first rows has it.
        """
        everything = ((number, row, picked) for number, (row, picked) in enumerate(self.picker.rows(limit)))
        for number, row, picked in everything if only is None else self.picker.rows_at(only, limit):
            if strict or (number == 0 and self.lacks_columns):
                try:
                    self.check_row(row)
                except RenderError as error:
                    raise DataError(f'{self.task.abbr}, row {number}: {error}') from error
            yield number, row, picked

    def turns(self, row: Row) -> int:
        """How many times the model is asked about a row, one reply after the other."""
        return len(self._program.turns(row))

    def step(self, row: Row, picked: Picked, replies: Sequence[str] = ()) -> Step | None:
        """What is sent for a row after these replies, made to fit the context; None if nothing is left to ask.

        Without a model, a step has no requests.
        """
        program, turns = self._program, self._program.turns(row)
        if len(replies) >= len(turns):
            return None
        turn = turns[len(replies)]
        if self.model_entry is None:
            return Step((), picked.ids, turn)
        if self.budget.max_seq_len is None:
            return Step(program.requests(row, picked.ids, turn, replies), picked.ids, turn)
        fitted = fit(
            lambda shots: program.requests(row, shots, turn, replies), picked.ids, self.model_entry.count, self.budget
        )
        return fitted if turn is None else replace(fitted, turn=turn)

    def steps(
        self, row: Row, picked: Picked, *, replies: Sequence[str] | None = None
    ) -> Iterator[tuple[Step, list[str]]]:
        """Every step of a row, with the replies before it: those given, then stand-ins. A step too long is the last."""
        earlier: list[str] = []
        while (step := self.step(row, picked, earlier)) is not None:
            yield step, earlier
            if step.too_long:
                return
            earlier = [*earlier, stand_in_reply(replies, len(earlier))]

    def answers_at(self, row: Row, step: Step) -> dict[Hashable, int]:
        """The character at which each label's answer begins, where the template says so with its sep_token."""
        if getattr(self.task.wording.prompt, 'sep_token', None) is None:
            return {}
        places: dict[Hashable, int] = {}
        for label, trace, _ in self._program.traces(row, step.shots, step.turn, ()):
            at = 0
            for span in trace.spans if not is_messages(trace.request) else ():
                if span.origin.kind == 'sep' and span.origin.shot is None:
                    places[label] = at if step.cut is None else step.cut.place(at)
                    break
                at += len(span.text)
        return places

    def previews(
        self, number: int, row: Row, picked: Picked, *, replies: Sequence[str] | None = None
    ) -> Iterator[Preview]:
        """Everything that is sent for one row, with origins. `replies` stand for what the model says in between."""
        sends = self.model_entry is not None or self._program.complete
        try:
            for step, earlier in self.steps(row, picked, replies=replies):
                cut = step.cut
                for label, trace, prompt in self._program.traces(row, step.shots, step.turn, earlier):
                    yield Preview(
                        dataset=self.task.abbr,
                        model=self.model_entry.abbr if self.model_entry else None,
                        row=number,
                        mode=self.task.mode,
                        label=label,
                        turn=step.turn,
                        prompt=prompt,
                        request=(trace.request if cut is None else cut.apply(trace.request)) if sends else None,
                        spans=trace.spans if cut is None else tuple(cut.apply_to_spans(trace.spans)),
                        notes=(*trace.notes, *step.notes),
                        shots=step.shots,
                        shots_dropped=step.shots_dropped,
                        skipped=picked.skipped,
                        sent=not step.too_long,
                        values=row,
                    )
        except RenderError as error:
            raise RenderError(f'{self.task.abbr}, row {number}: {error}') from error

    def check_row(self, row: Row) -> None:
        """Raise a RenderError if the row has not all columns that it is worded with."""
        missing = [column for column in self._needed if column not in row]
        if missing:
            has = ', '.join(map(str, row))
            raise RenderError(
                f'no column {", ".join(map(repr, missing))}, which '
                'reader_cfg.input_columns names and the template or the retriever uses. '
                f'The row has: {has}. Correct one of them.'
            )

    @property
    def lacks_columns(self) -> bool:
        """Whether none of the first rows has all needed columns; False without rows."""
        first = list(islice(self.data.test, _LOOKED_AT))
        return bool(first) and all(any(column not in row for column in self._needed) for row in first)


def stand_in_reply(replies: Sequence[str] | None, turn: int) -> str:
    """The reply that stands for the model's in a preview: `answer1`, `answer2`, … where none is given."""
    return replies[turn] if replies is not None and turn < len(replies) else f'answer{turn + 1}'


_OF_THE_ROW = ('field', 'masked', 'unfilled', 'label', 'reply', 'media')
"""Origins of text that may differ from row to row."""


def find_shared_prefix(pair: Pair) -> tuple[list[Message], str] | None:
    """The messages that all rows share, and the text that the next message begins with; None if nothing is shared.

    Examples are shared where the retriever picks the same for every row.
    """
    try:
        for number, row, picked in islice(pair.rows(1, strict=False), 1):
            for preview in islice(pair.previews(number, row, picked), 1):
                request = preview.request
                if not isinstance(request, list):
                    return None
                messages = [message for message in request if not isinstance(message, (int, str))]
                return _cut(messages, preview.spans, fixed=pair.task.retriever.fixed)
    except (RenderError, DataError):
        pass
    return None


def _cut(messages: list[Message], spans: tuple[Span, ...], *, fixed: bool) -> tuple[list[Message], str] | None:
    def varies(span: Span) -> bool:
        return span.origin.kind in _OF_THE_ROW if span.origin.shot is None else not fixed

    # Of media, only whole messages before them are compared.
    ends = (span.message for span in spans if varies(span) or span.part is not None)
    at = next((message for message in ends if message is not None), None)
    if at is None:
        return None
    own = (span for span in spans if span.message == at and span.part is None)
    beginning = ''.join(span.text for span in takewhile(lambda span: not varies(span), own))
    return (messages[:at], beginning) if at or beginning.strip() else None
