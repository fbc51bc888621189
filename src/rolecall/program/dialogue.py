"""Prompts of several turns: what is asked next depends on what was said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rolecall.errors import RenderError
from rolecall.program.compiled import Trace, render_with
from rolecall.prompts.pieces import Field, Origin, Pieces, Row, Text
from rolecall.prompts.prompt_list import PromptList
from rolecall.prompts.script import Item, Script, Turn, content_pieces
from rolecall.prompts.wording import Wording
from rolecall.render.renderers import Renderer
from rolecall.render.spans import Request

__all__ = ['DialogueProgram', 'InferMode']

InferMode = Literal['every', 'every_with_gt', 'last']


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
        self._render = render_with(renderer, 'gen', prefill=prefill)
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
        return self._render(self.script(row, turn, replies)).layout.fill({})

    def trace(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Trace:
        """The same request, with the origin of every character."""
        rendered = self._render(self.script(row, turn, replies))
        return Trace(rendered.layout.fill({}), tuple(rendered.layout.trace({})), rendered.notes)

    def prompt(self, row: Row, turn: int, replies: Sequence[str] = ()) -> str | PromptList:
        """The prompt before the model side."""
        return self.script(row, turn, replies).fill({})

    def script(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Script:
        """The wording of one turn, with everything that was said before it."""
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

    def answered(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Script:
        """The same wording with the row's own answer behind it. A speech that does not mention it ends with it."""
        asked = self.script(row, turn, replies)
        answer = Script((self._answer(),)).bind(_at_turn(row, turn))
        return replace(asked, items=(*asked.items, *answer.items))

    def _said(self, row: Row, reply: str | None) -> list[Item]:
        """One finished turn: its speeches, and the model's reply or the row's own answer."""
        own = () if reply is None else (Text(reply, Origin('reply')),)
        said: list[Item] = []
        for item in Script(tuple(self._round)).bind(row).items:
            if own and isinstance(item, Turn) and item.role == self._answering:
                item = replace(item, content=own)
            said.append(item)
        if self._answer_in_round() is None:
            answer = Turn(self._answering, own) if own else self._spoken_answer()
            said += Script((answer,)).bind(row).items
        return said

    def _answer(self) -> Item:
        at = self._answer_in_round()
        speech = self._spoken_answer() if at is None else self._round[at]
        mentioned = self._wording.output_column in Script((speech,)).columns
        if mentioned or not isinstance(speech, Turn) or not isinstance(speech.content, tuple):
            return speech
        return replace(speech, content=(*speech.content, *self._output), silent=False)

    def _spoken_answer(self) -> Turn:
        return Turn(self._answering, self._output)

    @property
    def _output(self) -> Pieces:
        column = self._wording.output_column or ''
        return (Field(column, '', Origin('field', column)),)

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
