"""What holds for every template, row and model side: properties of the core over generated input."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall import (
    ApiRenderer,
    MetaTemplate,
    PromptTemplate,
    TextRenderer,
    VaryingProgram,
    Wording,
    compile,
    fingerprint,
)
from rolecall.program.compiled import Program, render_with
from rolecall.prompts.shots import Joints
from rolecall.render.chat import ChatRenderer
from rolecall.render.chat_template import ChatTemplate
from rolecall.render.renderers import Renderer
from rolecall.render.spans import joined, texts_of

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
def dialogues(draw: st.DrawFn, *, token: str = '') -> dict[str, Any]:
    """A dialogue, with a place for examples if a token is given."""
    dialogue: dict[str, Any] = {'round': draw(speeches(least=1))}
    if draw(st.booleans()):
        dialogue['end'] = draw(speeches() | wordings)
    begin = draw(speeches())
    if draw(st.booleans()):
        begin.insert(0, draw(wordings))
    dialogue['begin'] = [*begin, token] if token else begin
    return dialogue


@st.composite
def metas(draw: st.DrawFn, *, api: bool = False) -> MetaTemplate:
    def role(name: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {'role': name, **more}
        if not api or draw(st.booleans()):
            made |= {'begin': f'<{name}>', 'end': f'</{name}>'}
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
            meta[key] = f'[{key}]'
    return MetaTemplate.read(meta)


CHATML = ChatTemplate(
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
sides: st.SearchStrategy[Renderer] = (
    st.just(TextRenderer())
    | metas().map(TextRenderer)
    | metas(api=True).map(ApiRenderer)
    | st.just(ApiRenderer())
    | st.just(ChatRenderer(CHATML))
)
modes = st.sampled_from(['gen', 'ppl'])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_spans_join_to_exactly_the_request(data: st.DataObject) -> None:
    written = data.draw(dialogues() | wordings)
    program = compile(
        Wording(PromptTemplate(written), output_column='answer'),
        data.draw(sides),
        mode=data.draw(modes),
        prefill=data.draw(st.booleans()),
    )
    row = data.draw(rows)
    trace = program.trace(row)
    assert trace.request == program(row)
    assert joined(trace.spans) == texts_of(trace.request)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_compiling_changes_nothing(data: st.DataObject) -> None:
    """Filling the compiled prompt equals rendering the prompt of a row that was filled first."""
    wording = Wording(PromptTemplate(data.draw(dialogues() | wordings)), output_column='answer')
    side, mode, row = data.draw(sides), data.draw(modes), data.draw(rows)
    program = compile(wording, side, mode=mode)
    filled_first = Program(program.script.bind(row), render_with(side, mode))
    assert program(row) == filled_first(row)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_examples_that_vary_give_what_fixed_examples_give(data: st.DataObject) -> None:
    labelled = data.draw(st.booleans())
    as_text = data.draw(st.booleans())
    one = wordings if as_text else dialogues()
    ice = data.draw(one)
    wording = Wording(
        PromptTemplate(data.draw(dialogues(token='</E>')), ice_token='</E>'),
        PromptTemplate({'x': ice, 'y': data.draw(one)} if labelled else ice),
        output_column='answer',
        joints=Joints(data.draw(st.sampled_from(['\n', '', '--'])), data.draw(st.sampled_from(['\n', '']))),
    )
    train = [{**data.draw(rows), 'answer': data.draw(st.sampled_from('xy'))} for _ in range(3)]
    side, mode, row = data.draw(sides), data.draw(modes), data.draw(rows)
    ids = data.draw(st.lists(st.integers(0, 2), max_size=4))
    varying = VaryingProgram(wording, side, train=train, mode=mode)
    assert varying(row, ids) == compile(wording, side, mode=mode, shots=[train[i] for i in ids])(row)
    assert varying(row, ids) == varying(row, ids) == varying.trace(row, ids).request


@given(st.lists(st.tuples(st.sampled_from(COLUMNS), st.text(alphabet='ab\n', max_size=3)), min_size=1), rows)
def test_filling_is_a_single_pass(parts: list[tuple[str, str]], row: dict[str, Any]) -> None:
    template = ''.join(f'{{{column}}}{text}' for column, text in parts)
    asked = {column: value for column, value in row.items() if isinstance(value, str)}
    expected = ''.join(asked.get(column, f'{{{column}}}') + text for column, text in parts)
    assert compile(PromptTemplate(template))(asked) == expected


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_request_begins_with_the_prefix(data: st.DataObject) -> None:
    program = compile(
        Wording(PromptTemplate(data.draw(dialogues() | wordings)), output_column='answer'), data.draw(sides)
    )
    for _ in range(3):
        request = program(data.draw(rows))
        assert request[: len(program.prefix)] == program.prefix


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
