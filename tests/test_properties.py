"""What holds for every template, row and renderer: properties of the core over generated input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from rolecall import PromptTemplate, RolecallError, compile
from rolecall.core import (
    ApiRenderer,
    MetaTemplate,
    MMPromptTemplate,
    RawPromptTemplate,
    TextRenderer,
    VaryingProgram,
    Wording,
    fingerprint,
)
from rolecall.core.program.compiled import Program, render_with
from rolecall.core.prompts.script import Joints
from rolecall.core.prompts.template import Template
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.renderers import Renderer
from rolecall.core.render.spans import join_spans, texts_of
from rolecall.errors import TemplateError

COLUMNS = ['question', 'answer', 'option A', '题目', 'a.b']
NASTY = st.sampled_from(
    [
        '{question}',
        '{answer}',
        '</E>',
        '<|im_end|>',
        '{',
        '}',
        '{}',
        '\n',
        ' ',
        '',
        '<H>',
        '你好',
        '\\frac{1}{2}',
        '{missing}',
        '\ue0000.',
        '<AIS_TEXT_START>see<AIS_CONTENT_TAG>',
        '<AIS_IMAGE_START>p.jpg<AIS_CONTENT_TAG>',
    ]
)
values = st.lists(NASTY | st.text(max_size=8), max_size=4).map(''.join)
rows = st.fixed_dictionaries(
    {column: values | st.integers() | st.none() | st.lists(values, max_size=2) for column in COLUMNS}
)
wordings = st.lists(
    st.sampled_from(
        ['Q: ', '\n', '{question}', '{answer}', '{option A}', '{题目}', '{a.b}', '{missing}', '{ question }', '{{']
    ),
    max_size=5,
).map(''.join)
roles = st.sampled_from(['HUMAN', 'BOT', 'SYSTEM'])


@st.composite
def speeches(draw: st.DrawFn, *, least: int = 0) -> list[Any]:
    said = []
    for _ in range(draw(st.integers(least, 4))):
        speech: dict[str, Any] = {'role': draw(roles), 'prompt': draw(wordings)}
        if speech['role'] == 'SYSTEM':
            speech['fallback_role'] = 'HUMAN'
        if draw(st.booleans()):
            speech[draw(st.sampled_from(['begin', 'end']))] = draw(wordings)
        said.append(speech)
    return said


@st.composite
def dialogues(draw: st.DrawFn, *, ice: bool = False, media: bool = False) -> dict[str, Any]:
    """A dialogue, with a place for examples in any section if there are some, and a speech with a picture."""
    dialogue: dict[str, Any] = {'round': draw(speeches(least=1))}
    if draw(st.booleans()):
        dialogue['end'] = draw(speeches() if ice else speeches() | wordings)
    dialogue['begin'] = draw(speeches())
    if draw(st.booleans()):
        dialogue['begin'].insert(0, draw(wordings))
    if media:
        shown = {'text': draw(wordings), 'image': draw(st.sampled_from(['file://{题目}', '{image}']))}
        _put(draw, dialogue['round'], {'role': draw(roles), 'fallback_role': 'HUMAN', 'prompt_mm': shown})
    if ice:
        place = draw(places)
        told: Any = {'role': 'HUMAN', 'prompt': place} if draw(st.integers(0, 4)) == 0 else place
        _put(draw, dialogue[draw(st.sampled_from(['begin', *(key for key in dialogue if key != 'round')]))], told)
    return dialogue


def _put(draw: st.DrawFn, among: list[Any], entry: Any) -> None:
    among.insert(draw(st.integers(0, len(among))), entry)


places = st.sampled_from(['</E>', '</E>', 'Solve:</E>', '</E>{question}', '{question}\n</E>~', '</E></E>'])


@st.composite
def raw_messages(draw: st.DrawFn, *, ice: bool = False) -> list[Any]:
    """Messages as an API takes them, one of them perhaps with a picture."""
    messages: list[Any] = [
        {'role': draw(st.sampled_from(['user', 'assistant', 'system'])), 'content': draw(wordings)}
        for _ in range(draw(st.integers(1, 3)))
    ]
    if draw(st.booleans()):
        parts = [{'type': 'text', 'text': draw(wordings)}, {'type': 'image_url', 'image_url': {'url': '{题目}'}}]
        _put(draw, messages, {'role': 'user', 'content': parts})
    if ice:
        _put(draw, messages, '</E>' if draw(st.booleans()) else {'role': 'user', 'content': draw(places)})
    return messages


@st.composite
def templates(draw: st.DrawFn, *, ice: bool = False) -> Template:
    """A template of any kind; with `ice`, one that has a place for examples."""
    kind = draw(st.sampled_from(['string', 'dialogue', 'dialogue', 'labels', 'media', 'raw']))
    token = '</E>' if ice else None
    if kind == 'raw':
        return RawPromptTemplate(draw(raw_messages(ice=ice)))
    if kind == 'media':
        return MMPromptTemplate(draw(dialogues(ice=ice, media=True)), ice_token=token)
    if kind == 'labels' and not ice:
        one = draw(st.sampled_from([wordings, dialogues()]))
        return PromptTemplate({'x': draw(one), 'y': draw(one)})
    if kind == 'string':
        return PromptTemplate(draw(wordings) + (draw(places) + draw(wordings) if ice else ''), ice_token=token)
    return PromptTemplate(draw(dialogues(ice=ice)), ice_token=token)


@st.composite
def metas(draw: st.DrawFn, *, api: bool = False, tokens: bool = False) -> MetaTemplate:
    def affix(text: str) -> Any:
        return draw(st.sampled_from([text, [7, text], [text, 8], 9, []])) if tokens else text

    def role(name: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {'role': name, **more}
        if not api or draw(st.booleans()):
            made |= {'begin': affix(f'<{name}>'), 'end': affix(f'</{name}>')}
        return made

    round_: list[Any] = [role('HUMAN')]
    if draw(st.booleans()):
        round_.append(
            '~'
            if draw(st.booleans())
            else role('THOUGHT', prompt='hm {question}', **({'api_role': 'BOT'} if api else {}))
        )
    round_.append(role('BOT', generate=draw(st.booleans())))
    meta: dict[str, Any] = {'round': round_}
    if draw(st.booleans()):
        meta['reserved_roles'] = [role('SYSTEM')]
    for key in ('begin', 'end'):
        if draw(st.booleans()):
            meta[key] = affix(f'[{key}]')
    if tokens and draw(st.integers(0, 3)) == 0:
        meta = {key: meta[key] for key in ('begin', 'end') if key in meta}
    return MetaTemplate.read(meta)


CHATML = ChatTemplate(
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
sides: st.SearchStrategy[Renderer] = (
    st.just(TextRenderer())
    | metas().map(TextRenderer)
    | metas(tokens=True).map(TextRenderer)
    | metas(api=True).map(ApiRenderer)
    | st.just(ApiRenderer())
    | st.just(ChatRenderer(CHATML))
)


MODES: list[tuple[Mode, bool]] = [('gen', False), ('gen', True), ('ppl', False)]
"""The modes, each with its prefill."""


def compile_spoken(wording: Wording, side: Renderer, **options: Any) -> Program:
    """The compiled prompt; a dialogue that leaves out a role of the model is refused, and says no more here."""
    try:
        return compile(wording, side, **options)
    except TemplateError as refusal:
        if 'of the round has no prompt' not in str(refusal):
            raise
        reject()


@settings(max_examples=100)
@given(st.data())
def test_spans_join_to_exactly_the_request(data: st.DataObject) -> None:
    wording = Wording(PromptTemplate(data.draw(dialogues() | wordings)), output_column='answer')
    side, row = data.draw(sides), data.draw(rows)
    for mode, prefill in MODES:
        program = compile_spoken(wording, side, mode=mode, prefill=prefill)
        trace = program.trace(row)
        assert trace.request == program(row)
        assert join_spans(trace.spans) == texts_of(trace.request)


@settings(max_examples=100)
@given(st.data())
def test_compiling_changes_nothing(data: st.DataObject) -> None:
    """Filling the compiled prompt equals rendering the prompt of a row that was filled first."""
    wording = Wording(PromptTemplate(data.draw(dialogues() | wordings)), output_column='answer')
    side, row = data.draw(sides), data.draw(rows)
    for mode, prefill in MODES:
        program = compile_spoken(wording, side, mode=mode, prefill=prefill)
        filled_first = Program(program.script.bind(row), render_with(side, mode, prefill=prefill))
        assert program(row) == filled_first(row)


@settings(max_examples=120)
@given(st.data())
def test_examples_that_vary_give_what_fixed_examples_give(data: st.DataObject) -> None:
    wording = Wording(
        data.draw(templates(ice=True)),
        data.draw(templates()),
        output_column='answer',
        joints=Joints(data.draw(st.sampled_from(['\n', '', '--'])), data.draw(st.sampled_from(['\n', '']))),
    )
    row, one = data.draw(rows), data.draw(rows)
    train = [{**one, 'answer': 'x'}, {**row, 'answer': 'y'}, {**one, 'question': '', 'answer': 'x'}]
    side = data.draw(sides)
    varied = data.draw(st.lists(st.integers(0, 2), max_size=4))
    for (mode, prefill), ids in zip(MODES, (varied, varied[::-1], [0, 2]), strict=True):
        options: dict[str, Any] = {'mode': mode, 'prefill': prefill}
        fixed = outcome(partial(run_fixed, wording, side, row, [train[i] for i in ids], options))
        varying = outcome(partial(VaryingProgram, wording, side, train=train, **options))
        if isinstance(varying, VaryingProgram):
            first, again = (outcome(partial(varying, row, ids)) for _ in range(2))
            assert first == again == fixed
            assert outcome(partial(run_trace, varying, row, ids)) == fixed
        elif ids:
            assert varying == fixed == TemplateError


def run_fixed(wording: Wording, side: Renderer, row: Any, shots: Any, options: dict[str, Any]) -> Any:
    return compile(wording, side, shots=shots, **options)(row)


def run_trace(program: VaryingProgram, row: Any, ids: list[int]) -> Any:
    return program.trace(row, ids).request


def outcome(ask: Callable[[], Any]) -> Any:
    """What comes of it: a value, or the kind of error that refuses it."""
    try:
        return ask()
    except RolecallError as error:
        return type(error)


@given(st.lists(st.tuples(st.sampled_from(COLUMNS), st.text(alphabet='ab\n', max_size=3)), min_size=1), rows)
def test_filling_is_a_single_pass(parts: list[tuple[str, str]], row: dict[str, Any]) -> None:
    template = ''.join(f'{{{column}}}{text}' for column, text in parts)
    asked = {column: value for column, value in row.items() if isinstance(value, str)}
    expected = ''.join(asked.get(column, f'{{{column}}}') + text for column, text in parts)
    assert compile(PromptTemplate(template))(asked) == expected


@given(rows)
def test_the_answer_is_not_in_the_prompt(row: dict[str, Any]) -> None:
    wording = Wording(PromptTemplate('{question}|{answer}|{题目}'), output_column='answer')
    secret = {**row, 'answer': 'SECRET'}
    spans = compile(wording).trace(secret).spans
    assert [span.text for span in spans if span.origin.name == 'answer'] == ['']


@given(rows, rows)
def test_a_fingerprint_tells_requests_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    program = compile(PromptTemplate(dict(round=[dict(role='HUMAN', prompt='{question}')])), ApiRenderer())
    same = program(one) == program(other)
    assert (fingerprint(program(one)) == fingerprint(program(other))) is same
    assert fingerprint(program(one), temperature=1) != fingerprint(program(one))
