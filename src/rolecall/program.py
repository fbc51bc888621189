"""Prompts × render: a wording, its examples and a model side, compiled once and run for each row.

`compile` gives a `Program`: `program(row)` is the request, `program.trace(row)` the same with every character's origin.
The other programs are for what a row can change beyond its values: which examples it gets (`VaryingProgram`), and how
many turns it has (`DialogueProgram`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from rolecall.errors import RenderError
from rolecall.prompts.multimodal import MediaUrl
from rolecall.prompts.pieces import SHOTS, Field, Origin, Row, Text
from rolecall.prompts.prompt_list import PromptList
from rolecall.prompts.script import Aside, Item, Script, Turn, content_pieces
from rolecall.prompts.template import Template
from rolecall.prompts.wording import Mode, Wording
from rolecall.render.arrange import Note
from rolecall.render.renderers import Rendered, Renderer, TextRenderer
from rolecall.render.spans import Request, Span

__all__ = [
    'DialogueProgram',
    'InferMode',
    'Program',
    'Trace',
    'VaryingProgram',
    'compile',
    'compile_labels',
    'fingerprint',
]

InferMode = Literal['every', 'every_with_gt', 'last']


@dataclass(frozen=True, slots=True)
class Trace:
    """A request with the origin of every character, and what happened to the dataset's words on the way."""

    request: Request
    spans: tuple[Span, ...]
    notes: tuple[Note, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The identity of what is sent."""
        return fingerprint(self.request)


def compile(
    wording: Wording | Template,
    renderer: Renderer | None = None,
    *,
    mode: Mode = 'gen',
    shots: Sequence[Row] = (),
    label: Hashable = None,
    prefill: bool = False,
) -> Program:
    """A wording, the same examples for every row, and a model side, as one program.

    >>> from rolecall import PromptTemplate, Wording
    >>> wording = Wording(
    ...     prompt_template=PromptTemplate('Solve.\\n</E>{q}\\n{a}', ice_token='</E>'),
    ...     ice_template=PromptTemplate('{q}\\n{a}'),
    ...     output_column='a')
    >>> program = compile(wording, shots=[{'q': '1+1=?', 'a': '2'}])
    >>> program({'q': '2+2=?', 'a': '4'})
    'Solve.\\n1+1=?\\n2\\n2+2=?\\n'
    >>> program.prefix
    'Solve.\\n1+1=?\\n2\\n'
    """
    wording = _as_wording(wording)
    script = wording.placed(wording.script(label, mode), shots)
    return Program(script, _render_with(wording, renderer, mode, label, prefill))


def compile_labels(
    wording: Wording | Template,
    renderer: Renderer | None = None,
    *,
    labels: Sequence[Hashable] = (),
    shots: Sequence[Row] = (),
) -> dict[Hashable, Program]:
    """One complete prompt for each label, to be weighed against each other."""
    wording = _as_wording(wording)
    return {
        label: compile(wording, renderer, mode='ppl', shots=shots, label=label)
        for label in labels or wording.prompt.labels
    }


def _as_wording(wording: Wording | Template) -> Wording:
    return wording if isinstance(wording, Wording) else Wording(prompt_template=wording)


Render = Callable[[Script], Rendered]


def _render_with(wording: Wording, renderer: Renderer | None, mode: Mode, label: Hashable, prefill: bool) -> Render:
    """Rendering with the output column hidden on the model side as well (default prompts may mention it)."""
    side = renderer or TextRenderer()
    hide = wording.hide(label, mode)

    def render(script: Script) -> Rendered:
        rendered = side.render(script, mode, prefill=prefill)
        return replace(rendered, layout=rendered.layout.map(hide))

    return render


class Program:
    """One prompt, compiled: call it with a row."""

    __slots__ = ('_fill', '_render', '_rendered', '_script')

    def __init__(self, script: Script, render: Render) -> None:
        self._script = script
        self._render = render
        self._rendered = None if script.depends_on_row else render(script)
        self._fill: Callable[[Row], Request] = self._rendered.layout.fill if self._rendered else self._fill_anew

    def __call__(self, row: Row) -> Request:
        """The request for one row."""
        return self._fill(row)

    def trace(self, row: Row) -> Trace:
        """The request for one row, with the origin of every character."""
        rendered = self._rendered or self._render(self._script.bind(row))
        return Trace(rendered.layout.fill(row), tuple(rendered.layout.trace(row)), rendered.notes)

    def prompt(self, row: Row) -> str | PromptList:
        """The prompt before the model side."""
        return self._script.fill(row)

    @property
    def prefix(self) -> Request:
        """The leading part of the request that is the same for every row."""
        return self._rendered.layout.prefix if self._rendered else ''

    @property
    def notes(self) -> tuple[Note, ...]:
        """What happens to the dataset's words, whatever the row."""
        return self._rendered.notes if self._rendered else ()

    @property
    def script(self) -> Script:
        """The wording with its examples in place and its fields open."""
        return self._script

    def _fill_anew(self, row: Row) -> Request:
        return self._render(self._script.bind(row)).layout.fill(row)


_SHOTS_COLUMN = '\0shots'
_SHOTS_FIELD = Field(_SHOTS_COLUMN, '', Origin('field', 'shots'))


class Indexed(Protocol):
    """Training rows by number."""

    def __getitem__(self, index: int, /) -> Row: ...


class VaryingProgram:
    """A prompt whose examples vary by row. Each training row is worded and rendered once.

    >>> from rolecall import PromptTemplate, Wording
    >>> wording = Wording(PromptTemplate('</E>{q}', ice_token='</E>'), PromptTemplate('{q}={a}'), output_column='a')
    >>> program = VaryingProgram(wording, train=[{'q': '1', 'a': 'one'}, {'q': '2', 'a': 'two'}])
    >>> program({'q': '3'}, [1, 0])
    '2=two\\n1=one\\n3'
    """

    def __init__(
        self,
        wording: Wording,
        renderer: Renderer | None = None,
        *,
        train: Indexed,
        mode: Mode = 'gen',
        label: Hashable = None,
        prefill: bool = False,
    ) -> None:
        self._wording = wording
        self._renderer = renderer or TextRenderer()
        self._train = train
        self._fixed = partial(compile, wording, self._renderer, mode=mode, label=label, prefill=prefill)
        self._texts: dict[int, str] = {}
        script = wording.script(label, mode)
        wording.check_place(script)
        self._open: Program | None = None
        if not wording.shots_are_dialogues or isinstance(self._renderer, TextRenderer):
            with_field = script.map(lambda piece: _SHOTS_FIELD if piece is SHOTS else piece)
            self._open = Program(with_field, _render_with(wording, self._renderer, mode, label, prefill))

    def __call__(self, row: Row, shots: Sequence[int]) -> Request:
        """The request for one row with these training rows as examples."""
        if self._open is None or not shots:
            return self.fixed(shots)(row)
        return self._open({**row, _SHOTS_COLUMN: self._shots_text(shots)})

    def trace(self, row: Row, shots: Sequence[int]) -> Trace:
        """The same request, with the origin of every character."""
        return self.fixed(shots).trace(row)

    def prompt(self, row: Row, shots: Sequence[int]) -> str | PromptList:
        """The prompt before the model side."""
        return self.fixed(shots).prompt(row)

    def fixed(self, shots: Sequence[int]) -> Program:
        """The program with these examples for every row."""
        return self._fixed(shots=[self._train[i] for i in shots])

    def _shots_text(self, shots: Sequence[int]) -> str:
        texts = [self._texts.get(i) or self._word(i) for i in shots]
        joints = self._wording.shot_joints
        if not self._wording.shots_are_dialogues:
            return joints.separator.join(texts) + joints.end
        glue = '' if isinstance(self._renderer, TextRenderer) and self._renderer.has_rounds else '\n'
        if self._wording.shots_have_labels and joints.end:
            texts.append(joints.end)
        return glue.join(filter(None, texts))

    def _word(self, i: int) -> str:
        """The text of one training row as an example, kept for the next row that gets it."""
        shot = self._wording.shot(self._train[i], 0)
        if not self._wording.shots_are_dialogues:
            text = str(shot.fill({}))
        else:
            items: tuple[Item, ...] = shot.items
            if self._wording.shots_have_labels:
                joint = Text(self._wording.shot_joints.separator, Origin('joint', 'shots'))
                items = (*items, Aside((joint,), 'shots'))
            text = self._renderer.fragment(items) if isinstance(self._renderer, TextRenderer) else ''
        self._texts[i] = text
        return text


class DialogueProgram:
    """A prompt of several turns, one after the other: `infer_mode` says what stands for the answers before.

    | infer_mode      | earlier answers   | which turns the model is asked for |
    |-----------------|-------------------|------------------------------------|
    | `every`         | the model's own   | every one                          |
    | `every_with_gt` | the row's answers | every one                          |
    | `last`          | the row's answers | the last                           |
    """

    def __init__(
        self,
        wording: Wording,
        renderer: Renderer | None = None,
        *,
        infer_mode: InferMode = 'every',
        shots: Sequence[Row] = (),
        prefill: bool = False,
    ) -> None:
        self._wording = wording
        self._infer_mode = infer_mode
        self._script = wording.placed(wording.prompt.script(), shots)
        self._render = _render_with(wording, renderer, 'gen', None, prefill)
        self._round = [item for item in self._script.items if item.section == 'round']
        self._answering = self._answering_role()

    def asked(self, row: Row) -> list[int]:
        """The turns for which the model is asked, counted from 0."""
        turns = self.length(row)
        return [turns - 1] if self._infer_mode == 'last' else list(range(turns))

    def length(self, row: Row) -> int:
        """How many turns a row has: the length of its list columns, which must agree."""
        columns = Script(tuple(self._round)).columns | {self._wording.output_column or ''}
        lengths = {column: len(row[column]) for column in sorted(columns) if isinstance(row.get(column), (list, tuple))}
        if len(set(lengths.values())) > 1:
            told = ', '.join(f'{column} has {length}' for column, length in lengths.items())
            raise RenderError(f'the columns of a multi-turn row must be equally long: {told}.')
        length = next(iter(lengths.values()), 1)
        if length == 0:
            raise RenderError('a multi-turn row needs at least one turn; its lists are empty.')
        return length

    def __call__(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Request:
        """The request for one turn, given the model's replies so far."""
        return self._render(self._turns(row, turn, replies)).layout.fill({})

    def trace(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Trace:
        """The same request, with the origin of every character."""
        rendered = self._render(self._turns(row, turn, replies))
        return Trace(rendered.layout.fill({}), tuple(rendered.layout.trace({})), rendered.notes)

    def prompt(self, row: Row, turn: int, replies: Sequence[str] = ()) -> str | PromptList:
        """The prompt before the model side."""
        return self._turns(row, turn, replies).fill({})

    def _turns(self, row: Row, turn: int, replies: Sequence[str]) -> Script:
        if self._infer_mode == 'every' and len(replies) < turn:
            raise RenderError(f'turn {turn} needs the {turn} replies before it; {len(replies)} were given.')
        length = self.length(row)
        items = [item for item in self._script.items if item.section not in ('round', 'end')]
        for t in range(turn):
            items += self._said(_at_turn(row, t), replies[t] if self._infer_mode == 'every' else None)
        items += self._asked_part()
        if turn == length - 1 and self._answer_in_round() is None:
            items += [item for item in self._script.items if item.section == 'end']
        bound = replace(self._script, items=tuple(items)).map(self._wording.hide(None, 'gen'))
        return bound.bind(_at_turn(row, turn))

    def _said(self, row: Row, reply: str | None) -> list[Item]:
        """One finished turn: its speeches, and the model's reply or the row's own answer."""
        own = [Text(reply, Origin('reply'))] if reply is not None else None
        said: list[Item] = []
        for item in Script(tuple(self._round)).bind(row).items:
            answers = isinstance(item, Turn) and item.role == self._answering
            said.append(replace(item, content=tuple(own)) if answers and own else item)  # type: ignore[arg-type]
        if self._answer_in_round() is None:
            gold = (Field(self._wording.output_column or '', '', Origin('field', self._wording.output_column or '')),)
            answer = Turn(self._answering, tuple(own) if own else gold)
            said += Script((answer,)).bind(row).items
        return said

    def _asked_part(self) -> list[Item]:
        at = self._answer_in_round()
        return list(self._round if at is None else self._round[:at])

    def _answer_in_round(self) -> int | None:
        found = [i for i, item in enumerate(self._round) if isinstance(item, Turn) and item.role == self._answering]
        return found[-1] if found else None

    def _answering_role(self) -> str:
        """Who answers: the role that speaks the output column, otherwise BOT."""
        for item in self._round:
            if isinstance(item, Turn) and any(
                isinstance(piece, Field) and piece.column == self._wording.output_column
                for piece in content_pieces(item.content)
            ):
                return item.role
        return 'BOT'


def _at_turn(row: Row, turn: int) -> Row:
    """The row as it is at one turn: of list columns, the value of that turn."""
    return {
        column: value[turn] if isinstance(value, (list, tuple)) and turn < len(value) else value
        for column, value in row.items()
    }


def fingerprint(request: Request, **sent_with: Any) -> str:
    """A stable identity of what is sent: the request, and whatever else is sent with it.

    >>> fingerprint('Hi') == fingerprint('Hi') != fingerprint('Hi', temperature=0.7)
    True
    """
    body = json.dumps([request, sent_with], ensure_ascii=False, sort_keys=True, default=_as_json)
    return hashlib.sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


def _as_json(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f'{type(value).__name__} cannot be part of a request')
