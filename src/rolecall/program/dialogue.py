"""Prompts of several turns: what is asked next depends on what was said before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from rolecall.errors import ConfigError, Problem, RenderError, TemplateError, did_you_mean
from rolecall.program.compiled import DatasetSide, ModelSide, Trace, as_wording, render_with
from rolecall.prompts.pieces import Field, Origin, Row, Text
from rolecall.prompts.prompt_list import PromptList
from rolecall.prompts.script import Item, Script, Section, Turn, content_pieces
from rolecall.render.spans import Request

__all__ = ['DialogueProgram', 'InferMode']

InferMode = Literal['every', 'every_with_gt', 'last']
_ASKING = ('HUMAN', 'SYSTEM', 'user', 'system')
_ANSWERING = ('BOT', 'assistant')


class DialogueProgram:
    """A prompt of several turns, one after the other: `infer_mode` says what stands for the answers before.

    | infer_mode      | earlier answers   | which turns the model is asked for |
    |-----------------|-------------------|------------------------------------|
    | `every`         | the model's own   | every one                          |
    | `every_with_gt` | the row's answers | every one                          |
    | `last`          | the row's answers | the last                           |

    The answer stands in the last speech that mentions the output column, otherwise in the model's last speech; what the
    round says besides is said at every turn. `begin` is worded once: of columns that the round takes turn by turn, it
    has the first turn's value, of all others the whole. `end` is said at the last turn, if the round leaves the answer
    out, with that turn's values.
    """

    def __init__(
        self,
        wording: DatasetSide,
        renderer: ModelSide | None = None,
        *,
        infer_mode: InferMode = 'every',
        shots: Sequence[Row] = (),
        prefill: bool = False,
    ) -> None:
        if infer_mode not in get_args(InferMode):
            what = f'unknown infer_mode {infer_mode!r}.'
            raise ConfigError(Problem('infer_mode', what, did_you_mean(infer_mode, get_args(InferMode))))
        self._wording = as_wording(wording)
        self._infer_mode = infer_mode
        self._script = self._wording.placed(self._wording.prompt.script(), shots)
        self._render = render_with(renderer, 'gen', prefill=prefill)
        self._round = self._section('round')
        if self._script.plain or not self._round:
            what = f'several turns need a dialogue with a round, got {self._wording.prompt!r}.'
            raise TemplateError(
                Problem('prompt_template', what, "Write dict(round=[dict(role='HUMAN', prompt=…), …]).")
            )
        self._turn_columns = Script(self._round).columns | {self._wording.output_column or ''}
        self._speeches = {i: item for i, item in enumerate(self._round) if isinstance(item, Turn)}
        self._answer_at = self._place_of_answer()

    def asked(self, row: Row) -> list[int]:
        """The turns for which the model is asked, counted from 0."""
        turns = self.length(row)
        return [turns - 1] if self._infer_mode == 'last' else list(range(turns))

    def length(self, row: Row) -> int:
        """How many turns a row has: the length of its list columns, which must agree."""
        lengths = {
            column: len(row[column])
            for column in sorted(self._turn_columns)
            if isinstance(row.get(column), (list, tuple))
        }
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
        length = self.length(row)
        if not 0 <= turn < length:
            raise RenderError(f'there is no turn {turn}: the row has {length} turns, counted from 0.')
        if self._infer_mode == 'every' and len(replies) < turn:
            raise RenderError(f'turn {turn} needs the {turn} replies before it; {len(replies)} were given.')
        items = [*self._worded(self._section('begin', 'shots'), self._whole(row, 0))]
        for t in range(turn):
            items += self._said(_at_turn(row, t), replies[t] if self._infer_mode == 'every' else None)
        items += self._worded(self._round[: self._answer_at], _at_turn(row, turn))
        if turn == length - 1 and self._answer_at is None:
            items += self._worded(self._section('end'), self._whole(row, turn))
        return replace(self._script, items=tuple(items))

    def answered(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Script:
        """The same wording with the row's own answer behind it. A speech that does not mention it ends with it."""
        asked = self.script(row, turn, replies)
        answer = Script((self._answer(),)).bind(_at_turn(row, turn))
        return replace(asked, items=(*asked.items, *answer.items))

    def _said(self, row: Row, reply: str | None) -> Iterator[Item]:
        """One finished turn: what was asked, the model's reply or the row's own answer, and what comes after it."""
        answer = self._answer()
        if reply is not None:
            answer = replace(answer, content=(Text(reply, Origin('reply')),), silent=False)
        yield from self._worded(self._round[: self._answer_at], row)
        yield from Script((answer,)).bind(row).items
        if self._answer_at is not None:
            yield from self._worded(self._round[self._answer_at + 1 :], row)

    def _worded(self, items: tuple[Item, ...], row: Row) -> tuple[Item, ...]:
        """Items with a row's values, the output column hidden."""
        return Script(items).map(self._wording.hide(None, 'gen')).bind(row).items

    def _answer(self) -> Turn:
        """The speech that holds the row's own answer. One that does not mention it ends with it."""
        column = self._wording.output_column
        speech = Turn('assistant' if self._script.raw else 'BOT', ())
        if self._answer_at is not None:
            speech = self._speeches[self._answer_at]
        if column is not None and column not in Script((speech,)).columns and isinstance(speech.content, tuple):
            answer = Field(column, '', Origin('field', column))
            speech = replace(speech, content=(*speech.content, answer), silent=False)
        return speech

    def _section(self, *names: Section) -> tuple[Item, ...]:
        return tuple(item for item in self._script.items if item.section in names)

    def _place_of_answer(self) -> int | None:
        """Which speech of the round is the answer: the last that mentions it, or else the model's last."""
        mentions = [i for i, turn in self._speeches.items() if turn.role not in _ASKING and self._mentions_answer(turn)]
        found = mentions or [i for i, turn in self._speeches.items() if turn.role in _ANSWERING]
        return found[-1] if found else None

    def _mentions_answer(self, turn: Turn) -> bool:
        column = self._wording.output_column
        return any(isinstance(piece, Field) and piece.column == column for piece in content_pieces(turn.content))

    def _whole(self, row: Row, turn: int) -> Row:
        """The row as `begin` and `end` see it: only what the round takes turn by turn is one turn's."""
        return {**row, **_at_turn({column: row[column] for column in self._turn_columns if column in row}, turn)}


def _at_turn(row: Row, turn: int) -> Row:
    """The row as it is at one turn: of list columns, the value of that turn."""
    return {
        column: value[turn] if isinstance(value, (list, tuple)) and turn < len(value) else value
        for column, value in row.items()
    }
