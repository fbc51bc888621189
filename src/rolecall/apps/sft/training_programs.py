"""Programs that build training examples: the row's own answer stands where the model would answer."""

from __future__ import annotations

import string
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rolecall.apps.sft.examples import (
    Answer,
    Stretch,
    TrainingExample,
    UntrainableError,
    as_text,
    messages_example,
    text_example,
    with_offsets,
)
from rolecall.core.program.answer_turn import MessagesRenderer, roles_of, show_answer
from rolecall.core.program.compiled import Program, Trace, compile, compile_labels, render_with
from rolecall.core.program.dialogue import DialogueProgram, InferMode
from rolecall.core.prompts.pieces import Pieces, Row, relabel, text_of
from rolecall.core.prompts.script import BareText, Item, Script, Turn
from rolecall.core.prompts.wording import Wording
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.renderers import ApiRenderer, Renderer, TextRenderer
from rolecall.core.render.spans import Request, Span, texts_of
from rolecall.errors import Problem, RenderError, TemplateError
from rolecall.models.http.media import has_media
from rolecall.strings import common_length

_NOT_SAID = ('marker', 'chat_template', 'joint', 'sep')
_LETTERS = f'{string.ascii_letters}{string.digits}_'


@dataclass(frozen=True, slots=True)
class Aim:
    """What is trained on: the answer alone or also those of shots, and a fallback end marker."""

    all_answers: bool = False
    end: str = ''


_ANSWER = Aim()


class TrainingProgram:
    """The training form of a program: `training(row)` begins with what `compile(…)(row)` sends, and goes on to the end
    of the row's answer.

    >>> from rolecall import PromptTemplate
    >>> from rolecall.core import MetaTemplate
    >>> wording = Wording(PromptTemplate(dict(round=[
    ...     dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')])), output_column='a')
    >>> chatty = TextRenderer(MetaTemplate.read(dict(round=[
    ...     dict(role='HUMAN', begin='<H>', end='</H>'), dict(role='BOT', begin='<B>', end='</B>', generate=True)])))
    >>> example = TrainingProgram(wording, chatty)({'q': '1+1=?', 'a': 2})
    >>> example.text, example.asked, example.stretches
    ('<H>1+1=?</H><B>2</B>', '<H>1+1=?</H><B>', ((15, 20),))
    """

    def __init__(
        self,
        wording: Wording,
        renderer: Renderer | None = None,
        *,
        shots: Sequence[Row] = (),
        prefill: bool = False,
        aim: Aim = _ANSWER,
    ) -> None:
        side = renderer or TextRenderer()
        self._teacher = _ExampleWriter(side, _output_column(wording), aim, prefill)
        answered = wording.place_shots(show_answer(wording.script(None, 'gen'), self._teacher.column, side), shots)
        self._asked = compile(wording, side, mode='gen', shots=shots, prefill=prefill)
        self._told = Program(answered, render_with(side, 'gen', prefill=True))
        self._whole = Program(answered, render_with(side, 'ppl'))
        self._refuse_media = _media_refusal(side, answered)
        meta = roles_of(side)
        self._may_stop_early = meta is not None and sum(role.generate for role in meta.roles.values()) > 1

    def __call__(self, row: Row) -> TrainingExample:
        _check_answers([row.get(self._teacher.column)], self._teacher.column)
        self._refuse_media(row)
        answered = _continue_turn(self._told, row)
        answer = text_of(row[self._teacher.column])
        if self._may_stop_early and answer.strip() not in list(texts_of(answered).values())[-1][-len(answer) - 200 :]:
            raise UntrainableError(
                'inference asks for something before the answer',
                'several roles of the model generate, and the one with the answer is not the first',
            )
        return self._teacher.example([(self._asked(row), answered)], lambda: self._trace(row))

    def _trace(self, row: Row) -> Trace:
        script = self._whole.script
        if not (script.raw and self._teacher.aim.all_answers):
            return self._whole.trace(row)
        bound = script.bind(row)
        spoken = replace(bound, items=tuple(map(_with_speaker, bound.items)))
        return Program(spoken, render_with(self._teacher.side, 'ppl')).trace({})


class DialogueTrainingProgram:
    """The training form of a dialogue: one example with every answer of the row, each as it would be asked for."""

    def __init__(
        self,
        wording: Wording,
        renderer: Renderer | None = None,
        *,
        infer_mode: InferMode = 'every',
        shots: Sequence[Row] = (),
        prefill: bool = False,
        aim: Aim = _ANSWER,
    ) -> None:
        side = renderer or TextRenderer()
        self._teacher = _ExampleWriter(side, _output_column(wording), aim, prefill)
        mode: InferMode = 'every' if infer_mode == 'every' else 'every_with_gt'
        self._dialogue = DialogueProgram(wording, side, infer_mode=mode, shots=shots, prefill=prefill)

    def __call__(self, row: Row) -> TrainingExample:
        side, column = self._teacher.side, self._teacher.column
        length = self._dialogue.length(row)
        gold = row.get(column)
        _check_answers(gold if isinstance(gold, (list, tuple)) else [gold], column)
        answers: list[Answer] = []
        replies: list[str] = []
        answered = Script(())
        for turn in range(length):
            answered = self._dialogue.answered_script(row, turn, replies)
            _media_refusal(side, answered)({})
            request = self._dialogue(row, turn, replies)
            answers.append((request, _continue_turn(Program(answered, render_with(side, 'gen', prefill=True)), {})))
            replies.append(self._dialogue.reply(row, turn))
        return self._teacher.example(answers, lambda: Program(answered, render_with(side, 'ppl')).trace({}))


class LabelTrainingProgram:
    """The training form of prompts by label: the one that is weighed for the row's own label.

    What is trained on begins where the model speaks; where nobody does, at the `sep_token`, at the label, or where the
    prompts for the labels begin to differ.
    """

    def __init__(
        self,
        wording: Wording,
        renderer: Renderer | None = None,
        *,
        labels: Sequence[Hashable] = (),
        shots: Sequence[Row] = (),
        aim: Aim = _ANSWER,
    ) -> None:
        self._teacher = _ExampleWriter(renderer or TextRenderer(), _output_column(wording), aim)
        self._programs = compile_labels(wording, self._teacher.side, labels=labels, shots=shots)

    def __call__(self, row: Row) -> TrainingExample:
        column = self._teacher.column
        _check_answers([row.get(column)], column)
        program = self._programs[self._label(row[column])]
        _media_refusal(self._teacher.side, program.script)(row)
        whole = program.trace(row)
        if _takes_messages(self._teacher.side):
            return self._teacher.example([(whole.request[:-1], whole.request)], lambda: whole)
        text = as_text(whole.request)
        start, stop = self._answer_in(whole.spans, [str(prompt(row)) for prompt in self._programs.values()])
        return self._teacher.example([(text[:start], text[:stop])], lambda: whole)

    def _label(self, value: object) -> Hashable:
        alike = [label for label in self._programs if text_of(label) == text_of(value)]
        if not alike:
            labels = ', '.join(map(repr, self._programs))
            raise UntrainableError('the answer is not one of the labels', f'{value!r:.60}; known labels: {labels}')
        return next((label for label in alike if type(label) is type(value)), alike[0])

    def _answer_in(self, spans: Sequence[Span], prompts: Sequence[str]) -> Stretch:
        """The range of the answer in a scored prompt."""
        spoken = [(at, span) for at, span in with_offsets(spans) if span.origin.kind not in _NOT_SAID and span.text]
        if not spoken:
            raise UntrainableError('the answer cannot be located in the text of the chat template')
        stop = spoken[-1][0] + len(spoken[-1][1].text)
        is_spoken = _speeches_of(self._teacher.side)
        if is_spoken and is_spoken(spoken[-1][1]):
            first = len(spoken) - 1
            while first:
                at, before = spoken[first - 1]
                if not is_spoken(before) or at + len(before.text) != spoken[first][0]:
                    break
                first -= 1
            return spoken[first][0], stop
        for kind in ('sep', 'label'):
            places = [at for at, span in with_offsets(spans) if span.origin.kind == kind and span.origin.shot is None]
            if places:
                return places[0], stop
        return len(prompts[0][: common_length(prompts)].rstrip(_LETTERS)), stop


def end_of_turn(renderer: Renderer) -> str:
    """The token that ends a turn in a chat template's text, if known."""
    if not isinstance(renderer, ChatRenderer):
        return ''
    template = renderer.template
    return template.eos_token or str(template.tokens.get('eos_token') or '')


@dataclass(frozen=True, slots=True)
class _ExampleWriter:
    """Builds examples from rendered prompts."""

    side: Renderer
    column: str
    aim: Aim
    prefilled: bool = False

    def example(self, answers: Sequence[Answer], whole: Callable[[], Trace]) -> TrainingExample:
        if _takes_messages(self.side):
            return messages_example(answers, all_answers=self.aim.all_answers, prefilled=self.prefilled)
        earlier = self._is_answer if self.aim.all_answers else None
        return text_example(answers, whole(), earlier=earlier, end=self.aim.end, eos=end_of_turn(self.side))

    def _is_answer(self, span: Span) -> bool:
        """Whether a span is an answer: the model's speech, or the answer of a string shot."""
        is_spoken = _speeches_of(self.side)
        if is_spoken is not None and span.origin.role:
            return is_spoken(span)
        return span.origin.kind == 'field' and span.origin.name == self.column and span.origin.shot is not None


def _takes_messages(side: Renderer) -> bool:
    return isinstance(side, (ApiRenderer, MessagesRenderer))


def _speeches_of(side: Renderer) -> Callable[[Span], bool] | None:
    """A test for spans spoken by the model; None without roles."""
    meta = roles_of(side)
    if meta is None:
        return None
    names = {'assistant', *(role.name for role in meta.roles.values() if role.generate)}
    return lambda span: span.origin.kind not in _NOT_SAID and (span.origin.fallback or span.origin.role) in names


def _output_column(wording: Wording) -> str:
    if wording.output_column is None:
        what = 'output_column is missing, so there is no answer to train on.'
        raise TemplateError(Problem('reader_cfg', what, 'Name the column of the answer.'))
    return wording.output_column


def _check_answers(values: Sequence[object], column: str) -> None:
    for turn, value in enumerate(values):
        if not text_of(value).strip():
            where = f' at turn {turn}' if len(values) > 1 else ''
            raise UntrainableError('the answer is missing', f'column {column!r} is empty{where}')


def _continue_turn(program: Program, row: Row) -> Request:
    """The request with the answer; UntrainableError if the chat template changes the answer."""
    try:
        return program(row)
    except RenderError as error:
        raise UntrainableError(str(error).rstrip('.')) from error


def _with_speaker(item: Item) -> Item:
    """A raw message with the role recorded in each origin, as other templates do."""
    if not isinstance(item, Turn) or not isinstance(item.content, tuple):
        return item
    words: Pieces = relabel(item.content, partial(replace, role=item.role))
    return replace(item, content=words)


def _media_refusal(side: Renderer, script: Script) -> Callable[[Row], None]:
    """Rejects rows with images, audio or video if the example is text."""
    if not isinstance(side, ChatRenderer) or all(map(_is_text, script.items)):
        return lambda row: None
    messages = Program(script, render_with(MessagesRenderer(side), 'ppl'))

    def refuse(row: Row) -> None:
        if any(isinstance(entry, Mapping) and has_media(entry) for entry in messages(row)):
            raise UntrainableError('the prompt contains images, audio or video, which text cannot hold')

    return refuse


def _is_text(item: Item) -> bool:
    return isinstance(item, BareText) or (isinstance(item, Turn) and isinstance(item.content, tuple))
