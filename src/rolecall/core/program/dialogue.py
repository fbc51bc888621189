"""Multi-turn prompts: each turn's request includes the turns before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from rolecall.core.program.answer_turn import roles_of
from rolecall.core.program.compiled import (
    RendererLike,
    Trace,
    WordingLike,
    as_renderer,
    as_wording,
    check_roles,
    render_with,
)
from rolecall.core.prompts.pieces import Field, Origin, Pieces, Row, Text, fold, is_hidden
from rolecall.core.prompts.script import (
    Content,
    Expand,
    Item,
    Parts,
    PromptList,
    Script,
    Section,
    Turn,
    content_pieces,
    map_content,
)
from rolecall.core.render.arrange import Note, Utterance, note_late_speeches
from rolecall.core.render.renderers import DatasetRenderer, TextRenderer
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem, RenderError, TemplateError, did_you_mean

InferMode = Literal['every', 'every_with_gt', 'last']
_ASKING = ('HUMAN', 'SYSTEM', 'user', 'system')
_ANSWERING = ('BOT', 'assistant')
_HIDDEN = Text('', Origin('masked'))
_LINE_BREAK = Text('\n', Origin('joint', 'speeches'))


class DialogueProgram:
    """A prompt of several turns. `infer_mode` chooses the earlier answers and the turns to ask:

    | infer_mode      | earlier answers   | turns the model is asked |
    |-----------------|-------------------|--------------------------|
    | `every`         | the model's own   | every turn               |
    | `every_with_gt` | the row's answers | every turn               |
    | `last`          | the row's answers | the last turn            |

    The answer is the last speech that mentions the output column, or else the model's last speech; the rest of the
    round repeats at every turn. `begin` is filled once: columns that the round takes turn by turn give their first
    value, other columns their whole value. `end` is sent at the last turn, with that turn's values, if the round has
    no answer speech; otherwise it follows the answer and is noted as not sent.

    Renderers receive the answer's speech with the answer hidden, as in single-turn prompts. Where speeches are lines of
    text, the last line ends where the answer begins. If the start of that speech was sent, it also precedes the
    model's reply in later turns.
    """

    def __init__(
        self,
        wording: WordingLike,
        renderer: RendererLike | None = None,
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
        self._script = self._wording.place_shots(self._wording.prompt.script(), shots)
        self._renderer = as_renderer(renderer)
        check_roles(self._wording, self._script, self._renderer)
        self._render = render_with(self._renderer, 'gen', prefill=prefill)
        self._round = self._section('round')
        if self._script.plain or not self._round:
            what = f'a multi-turn prompt needs a dialogue with a round, got {self._wording.prompt!r}.'
            raise TemplateError(
                Problem('prompt_template', what, "Write dict(round=[dict(role='HUMAN', prompt=…), …]).")
            )
        self._turn_columns = Script(self._round).columns | {self._wording.output_column or ''}
        self._speeches = {i: item for i, item in enumerate(self._round) if isinstance(item, Turn)}
        self._answer_at = self._find_answer()
        self._joins_lines = isinstance(self._renderer, TextRenderer) and not self._renderer.has_rounds
        self._asks_in_place = self._answer_at is not None and self._is_models(self._hidden_answer({}))
        self._begins_answer = self._joins_lines or (self._asks_in_place and prefill)

    def turns_to_ask(self, row: Row) -> list[int]:
        """The turns that the model is asked, counted from 0."""
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
            counts = ', '.join(f'{column} has {length}' for column, length in lengths.items())
            raise RenderError(f'the columns of a multi-turn row must have the same length: {counts}.')
        length = next(iter(lengths.values()), 1)
        if length == 0:
            raise RenderError('a multi-turn row needs at least one turn, but its lists are empty.')
        return length

    def __call__(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Request:
        """The request for one turn, given the replies so far."""
        return self._render(self._script_to_send(row, turn, replies)).layout.fill({})

    def trace(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Trace:
        """The same request, with the origin of every character."""
        rendered = self._render(self._script_to_send(row, turn, replies))
        notes = (*rendered.notes, *self._notes(row, turn))
        return Trace(rendered.layout.fill({}), tuple(rendered.layout.trace({})), notes)

    def prompt(self, row: Row, turn: int, replies: Sequence[str] = ()) -> str | PromptList:
        """The prompt before rendering."""
        return self.script(row, turn, replies).fill({})

    def script(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Script:
        """The parsed prompt of one turn up to its answer, with the turns before it."""
        length = self.length(row)
        if not 0 <= turn < length:
            raise RenderError(
                f'turn {turn} is out of range: the row has {length} turn{"s" if length != 1 else ""}, counted from 0.'
            )
        if self._infer_mode == 'every' and len(replies) < turn:
            raise RenderError(f'turn {turn} needs the replies of all turns before it ({turn}), got {len(replies)}.')
        items = [*self._word_items(self._section('begin', 'shots'), self._whole(row, 0))]
        for t in range(turn):
            items += self._finished_turn(_at_turn(row, t), replies[t] if self._infer_mode == 'every' else None)
        items += self._word_items(self._round[: self._answer_at], _at_turn(row, turn))
        if turn == length - 1 and self._answer_at is None:
            items += self._word_items(self._section('end'), self._whole(row, turn))
        return replace(self._script, items=tuple(items))

    def answered_script(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Script:
        """The same prompt followed by the row's own answer."""
        script = self.script(row, turn, replies)
        answer = self._answer()
        if script.items and script.items[-1].section == 'end':
            answer = replace(answer, section='end')
        return replace(script, items=(*script.items, *Script((answer,)).bind(_at_turn(row, turn)).items))

    def reply(self, row: Row, turn: int) -> str:
        """The reply that gives the row's own answer: its speech without the part that was sent."""
        now = _at_turn(row, turn)
        [whole] = _turns(Script((self._answer(),)).bind(now).items)
        return fold(content_pieces(whole.content)).removeprefix(fold(self._first_words(now)))

    def _script_to_send(self, row: Row, turn: int, replies: Sequence[str]) -> Script:
        """The script for the renderer: the prompt, the answer's speech with the answer hidden, and late text."""
        script = self.script(row, turn, replies)
        if self._answer_at is None or not (self._joins_lines or self._asks_in_place):
            return script
        speech = self._hidden_answer(_at_turn(row, turn))
        if self._joins_lines:
            words, _ = _around_answer(speech.content)
            return replace(script, items=(*script.items, replace(speech, content=words, end=None)))
        late = () if self._script.raw else self._late_items(row, turn)
        return replace(script, items=(*script.items, speech, *late))

    def _notes(self, row: Row, turn: int) -> Iterator[Note]:
        """Notes on late text that the renderer does not see and so cannot note itself."""
        if self._answer_at is None or isinstance(self._renderer, DatasetRenderer):
            return
        if self._joins_lines:
            _, rest = _around_answer(self._hidden_answer(_at_turn(row, turn)).content)
            yield from note_late_speeches([Utterance(rest)])
        if self._joins_lines or self._script.raw or not self._asks_in_place:
            yield from note_late_speeches(map(_as_utterance, self._late_items(row, turn)))

    def _late_items(self, row: Row, turn: int) -> tuple[Item, ...]:
        """The dataset's items after the final answer."""
        if self._answer_at is None or turn < self.length(row) - 1:
            return ()
        rest = self._word_items(self._round[self._answer_at + 1 :], _at_turn(row, turn))
        return (*_in_section('end', rest), *self._word_items(self._section('end'), self._whole(row, turn)))

    def _finished_turn(self, row: Row, reply: str | None) -> Iterator[Item]:
        """One finished turn: the question, the reply or the row's own answer, and the rest of the round."""
        answer = self._answer()
        if reply is not None:
            words = (*self._first_words(row), Text(reply, Origin('reply')))
            answer = replace(answer, content=words, silent=False)
        [speech] = Script((answer,)).bind(row).items
        if self._answer_at is None:
            # A finished turn is not part of the round in which the model answers.
            yield from _in_section('shots', (*self._word_items(self._round, row), speech))
            return
        yield from self._word_items(self._round[: self._answer_at], row)
        yield speech
        yield from self._word_items(self._round[self._answer_at + 1 :], row)

    def _first_words(self, row: Row) -> Pieces:
        """The start of the answer's speech, where it is sent for the model to continue."""
        if not self._begins_answer or self._answer_at is None:
            return ()
        content = self._hidden_answer(row).content
        if self._joins_lines:
            content, _ = _around_answer(content)
        return content if isinstance(content, tuple) else _texts_in(content)

    def _hidden_answer(self, row: Row) -> Turn:
        """The answer's speech with the answer hidden. Without an output column, every field is hidden."""
        speech = self._answer()
        if self._answer_at is not None and not self._script.raw:
            speech = replace(speech, silent=self._speeches[self._answer_at].silent)
        if self._wording.output_column is None:
            speech = replace(
                speech,
                content=map_content(speech.content, lambda piece: _HIDDEN if isinstance(piece, Field) else piece),
            )
        [hidden] = _turns(self._word_items((speech,), row))
        if isinstance(hidden.content, tuple) and not any(map(is_hidden, hidden.content)):
            hidden = replace(hidden, content=(*hidden.content, _HIDDEN))
        return hidden

    def _is_models(self, speech: Turn) -> bool:
        """Whether a renderer with roles asks for the answer in this speech."""
        meta = roles_of(self._renderer)
        if meta is None or not any(map(is_hidden, content_pieces(speech.content))):
            return False
        if self._script.raw:
            return speech.role == 'assistant'
        if speech.generate is not None:
            return speech.generate
        role = meta.roles.get(speech.role) or meta.roles.get(speech.fallback_role or '')
        return role is None or role.generate

    def _word_items(self, items: tuple[Item, ...], row: Row) -> tuple[Item, ...]:
        """Fill items from a row, with the output column hidden."""
        return Script(items).map(self._wording.hide(None, 'gen')).bind(row).items

    def _answer(self) -> Turn:
        """The answer's speech. If it does not mention the output column, the answer is appended."""
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

    def _find_answer(self) -> int | None:
        """Which speech of the round is the answer: the last that mentions the output column, or the model's last."""
        mentions = [i for i, turn in self._speeches.items() if turn.role not in _ASKING and self._mentions_answer(turn)]
        positions = mentions or [i for i, turn in self._speeches.items() if turn.role in _ANSWERING]
        return positions[-1] if positions else None

    def _mentions_answer(self, turn: Turn) -> bool:
        column = self._wording.output_column
        return any(isinstance(piece, Field) and piece.column == column for piece in content_pieces(turn.content))

    def _whole(self, row: Row, turn: int) -> Row:
        """The row for `begin` and `end`: columns of the round give one turn's value, others stay whole."""
        return {**row, **_at_turn({column: row[column] for column in self._turn_columns if column in row}, turn)}


def _around_answer(content: Content) -> tuple[Content, Pieces]:
    """The text before and after a hidden answer."""
    if not isinstance(content, tuple):
        return content, ()
    at = next((i for i, piece in enumerate(content) if is_hidden(piece)), len(content))
    return content[:at], content[at + 1 :]


def _texts_in(parts: Parts) -> Pieces:
    """The text parts of multimodal content, one line each."""
    texts = [part.pieces for part in parts.write({}) if part.part.get('type') == 'text']
    return tuple(piece for i, words in enumerate(texts) for piece in ((_LINE_BREAK, *words) if i else words))


def _turns(items: Iterable[Item]) -> list[Turn]:
    return [item for item in items if isinstance(item, Turn)]


def _in_section(section: Section, items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(replace(item, section=section) for item in items)


def _as_utterance(item: Item) -> Utterance:
    """An item as an utterance, before rendering."""
    content = () if isinstance(item, Expand) else item.content
    begin, end = (item.begin or (), item.end or ()) if isinstance(item, Turn) else ((), ())
    return Utterance(content, begin=begin, end=end)


def _at_turn(row: Row, turn: int) -> Row:
    """The row at one turn: list columns give that turn's value."""
    return {
        column: value[turn] if isinstance(value, (list, tuple)) and turn < len(value) else value
        for column, value in row.items()
    }
