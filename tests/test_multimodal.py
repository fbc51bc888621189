"""Prompts with images, audio and video: nothing of a row is lost, mangled or shown that should be hidden."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import bot, human
from rolecall import PromptTemplate, compile
from rolecall.core import ApiRenderer, MMPromptTemplate, VaryingProgram, Wording
from rolecall.core.program.compiled import Trace
from rolecall.core.prompts.mixed import limit_stand_ins
from rolecall.core.prompts.multimodal import MediaUrl, Segment, part_text
from rolecall.core.render.renderers import DatasetRenderer
from rolecall.core.render.spans import join_spans
from rolecall.errors import RenderError, TemplateError

IMAGE = {'type': 'image_url', 'image_url': {'url': 'file://{image}'}}


def tag(kind: str, content: str) -> str:
    return f'<AIS_{kind.upper()}_START>{content}<AIS_CONTENT_TAG>'


def speech(text: Any, **media: Any) -> dict[str, Any]:
    return {'role': 'HUMAN', 'prompt_mm': {'text': text, **(media or {'image': IMAGE})}}


def mm(*speeches: dict[str, Any], **options: Any) -> MMPromptTemplate:
    return MMPromptTemplate({'round': list(speeches)}, **options)


def trace(template: MMPromptTemplate, row: dict[str, Any], output: str | None = None, **options: Any) -> Trace:
    """The trace for an API; its spans are seen to join to its request."""
    program = compile(Wording(template, output_column=output), ApiRenderer(), **options)
    traced = program.trace(row)
    assert traced.request == program(row)
    assert join_spans(traced.spans) == parts_of(traced.request)
    return traced


def parts_of(request: Any) -> dict[tuple[int, int | None], str]:
    said: dict[tuple[int, int | None], str] = {}
    for i, message in enumerate(request):
        content = message['content']
        for k, part in enumerate([content] if isinstance(content, str) else content):
            text = part if isinstance(part, str) else part_text(part)
            if text:
                said[i, None if isinstance(content, str) else k] = text
    return said


def shown(traced: Any) -> list[str]:
    content = traced.request[0]['content']
    return [part_text(part) or '' for part in content]


@pytest.mark.parametrize(
    ('value', 'parts'),
    [
        (tag('image', 'c.jpg') + '<AIS_TEXT_START>What is it?', ['file://c.jpg', 'What is it?']),
        (tag('text', 'What is it?') + '<AIS_IMAGE_START>c.jpg', ['What is it?', 'file://c.jpg']),
        ('<AIS_TEXT_START>What is it?', ['What is it?']),
        (tag('text', 'Is <AIS_IMAGE_START> a tag?'), ['Is <AIS_IMAGE_START> a tag?']),
        ('What is <AIS_IMAGE_START>?', ['What is <AIS_IMAGE_START>?']),
        (tag('text', 'Is') + ' <AIS_IMAGE_START> a tag?', ['Is <AIS_IMAGE_START> a tag?']),
    ],
)
@pytest.mark.parametrize('column', ['question', 'content'])
def test_the_last_tag_may_stay_open(column: str, value: str, parts: list[str]) -> None:
    if column == 'question' or value.startswith('<'):
        assert shown(trace(mm(speech('{question}')), {column: value})) == parts


@pytest.mark.parametrize('mode', ['gen', 'ppl'])
@pytest.mark.parametrize('row', [{'q': 'what?'}, {}, {'q': ''}, {'q': None}])
def test_the_answer_never_stands_in_for_the_question(mode: Any, row: dict[str, Any]) -> None:
    row = {**row, 'a': tag('text', 'GOLD'), 'image': 'c.jpg'}
    label = 'no' if mode == 'ppl' else None
    assert 'GOLD' not in str(trace(mm(speech('Q: {q}')), row, 'a', mode=mode, label=label).request)


def test_a_tagged_column_stands_in_only_for_a_field_without_a_value() -> None:
    template = mm(speech('{hint}: {question}'))
    row = {'hint': 'h', 'content': tag('text', 'C'), 'image': 'c.jpg'}
    assert shown(trace(template, {**row, 'question': 'Q'})) == ['h: C', 'file://c.jpg']  # `content` is the question
    other = {'hint': 'h', 'text': tag('text', 'C'), 'image': 'c.jpg'}
    assert shown(trace(template, {**other, 'question': 'Q'})) == ['h: Q', 'file://c.jpg']
    assert shown(trace(template, other)) == ['h: C', 'file://c.jpg']
    traced = trace(template, row)
    assert shown(traced) == ['h: C', 'file://c.jpg']
    named = [(span.text, span.origin.name) for span in traced.spans if span.origin.kind in ('field', 'media')]
    assert named == [('h', 'hint'), ('C', 'content'), ('file://c.jpg', 'image')]


def test_only_input_columns_stand_in_where_they_are_known() -> None:
    script = mm(speech('{question}')).script()
    row = {'solution': tag('text', 'S'), 'content': tag('text', 'C'), 'image': 'c.jpg'}

    def text(script: Any) -> str:
        return str(script.fill(row)[0]['prompt'][0]['text'])

    assert text(script) == 'S'
    assert text(limit_stand_ins(script, output='solution')) == 'C'
    assert text(limit_stand_ins(script, ['content'])) == 'C'
    assert text(limit_stand_ins(script, ['solution', 'content'], output='solution')) == 'C'
    assert text(limit_stand_ins(script, ['image'])) == 'C'  # where loaders put question and media, whatever is named
    del row['content']
    assert text(limit_stand_ins(script, ['image'])) == '{question}'


def test_examples_that_hold_tags_are_no_question() -> None:
    template = mm(human('</E>'), speech('Q: {q}'), ice_token='</E>')
    wording = Wording(template, PromptTemplate('{q}={a}'), output_column='a')
    train = [{'q': tag('text', 'see'), 'a': 'dog'}]
    varying = VaryingProgram(wording, ApiRenderer(), train=train)
    row = {'a': 'x', 'image': 't.jpg'}
    assert varying(row, [0]) == varying.trace(row, [0]).request
    assert 'Q: {q}' in str(varying(row, [0]))


CASES = [
    (
        'tagged text keeps the picture of its own column',
        {'q': tag('text', 'T'), 'image': 'c.jpg'},
        ['T.', 'file://c.jpg'],
    ),
    (
        'a tagged picture is shown instead of the one in the column',
        {'q': tag('text', 'T') + tag('image', 'd.jpg'), 'image': 'c.jpg'},
        ['T.', 'file://d.jpg'],
    ),
    ('a tag in the own column is read', {'q': 'Q', 'image': tag('image', 'c.jpg')}, ['Q.', 'file://c.jpg']),
    ('a scheme in it is kept', {'q': 'Q', 'image': tag('image', 'https://x/c')}, ['Q.', 'https://x/c']),
    (
        'a caption in it is said',
        {'q': 'Q', 'image': tag('image', 'c') + 'left' + tag('image', 'd')},
        ['Q.', 'file://c', 'left', 'file://d'],
    ),
    (
        'lists may hold tags and gaps',
        {'q': 'Q', 'image': [tag('image', 'c'), 'd', None, '', 'data:e']},
        ['Q.', 'file://c', 'file://d', 'data:e'],
    ),
    ('no picture is no part', {'q': 'Q', 'image': None}, ['Q.']),
]


@pytest.mark.parametrize(('row', 'expected'), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_no_medium_is_lost_or_mangled(row: dict[str, Any], expected: list[str]) -> None:
    assert shown(trace(mm(speech('{q}.')), row)) == expected


def test_each_kind_of_media_is_taken_from_tags_or_from_its_column() -> None:
    template = mm(speech('{q}', image=IMAGE, audio='file://{sound}'))
    row = {'q': tag('text', 'T') + tag('image', 'd.jpg'), 'image': 'c.jpg', 'sound': 's.wav'}
    traced = trace(template, row)
    assert shown(traced) == ['T', 'file://d.jpg', 'file://s.wav']
    assert [(span.origin.kind, span.origin.name) for span in traced.spans] == [
        ('field', 'q'),
        ('media', 'q'),
        ('media', 'sound'),
    ]


def test_tagged_media_go_where_the_url_has_its_field() -> None:
    template = mm(speech('{q}', image='https://{host}/{pics}?v=1'))
    assert shown(trace(template, {'q': 'Q', 'host': 'h', 'pics': 'p'})) == ['Q', 'https://h/p?v=1']
    assert shown(trace(template, {'q': 'Q', 'host': 'h', 'pics': tag('image', 'p')})) == ['Q', 'https://h/p?v=1']
    assert shown(trace(template, {'q': tag('image', 'p') + 'Q', 'host': 'h'})) == ['https://h/p?v=1', 'Q']
    taken = mm(speech('{q}', image='file://{pics}'))
    assert shown(trace(taken, {'q': tag('image', 'p') + 'Q', 'pics': 'other'})) == ['file://p', 'Q']


def test_parts_keep_the_order_in_which_they_are_written() -> None:
    written = {'role': 'HUMAN', 'prompt_mm': {'image': '{image}', 'text': '{q}', 'audio': '{sound}'}}
    row = {'q': 'Q', 'image': 'i', 'sound': 's'}
    assert shown(trace(mm(written), row)) == ['i', 'Q', 's']
    assert shown(trace(mm(written), {**row, 'q': tag('text', 'T')})) == ['i', 'T', 's']


def test_a_medium_whose_column_is_missing_is_recorded_like_a_field_without_one() -> None:
    traced = trace(mm(speech('{q}')), {'q': 'Q'})
    assert shown(traced) == ['Q']
    assert [(span.text, span.origin.name) for span in traced.spans if span.origin.kind == 'unfilled'] == [('', 'image')]
    tagged = trace(mm(speech('{q}')), {'q': tag('text', 'T')})
    assert not [span for span in tagged.spans if span.origin.kind == 'unfilled']


def test_a_speech_of_which_nothing_is_left_is_an_error_that_names_the_column() -> None:
    alone = mm({'role': 'HUMAN', 'prompt_mm': {'image': '{picture}'}})
    with pytest.raises(RenderError, match="needs column 'picture'"):
        compile(alone, ApiRenderer())({'image': 'a.jpg'})


def test_further_keys_of_a_part_are_sent() -> None:
    template = mm(
        speech(
            {'type': 'text', 'text': '{q}', 'cache_control': {'type': 'ephemeral'}},
            image={**IMAGE, 'uuid': '7', 'image_url': {'url': '{image}', 'detail': 'low'}},
            audio={'type': 'input_audio', 'input_audio': {'data': '{sound}', 'format': 'wav'}},
        )
    )
    (asked,) = trace(template, {'q': 'Q', 'image': 'i.jpg', 'sound': 'UklG'}).request
    assert asked['content'] == [  # type: ignore[index,call-overload]
        {'type': 'text', 'text': 'Q', 'cache_control': {'type': 'ephemeral'}},
        {'type': 'image_url', 'image_url': {'url': 'i.jpg', 'detail': 'low'}, 'uuid': '7'},
        {'type': 'input_audio', 'input_audio': {'data': 'UklG', 'format': 'wav'}},
    ]


def test_a_part_with_further_keys_is_not_joined_with_its_neighbour() -> None:
    kept = speech({'type': 'text', 'text': '{q}', 'cache_control': 1})
    traced = trace(mm(speech('one'), kept, speech('two')), {'q': 'Q', 'image': None})
    assert [dict(part) for part in traced.request[0]['content']] == [  # type: ignore[index,call-overload]
        {'type': 'text', 'text': 'one'},
        {'type': 'text', 'text': 'Q', 'cache_control': 1},
        {'type': 'text', 'text': 'two'},
    ]


def test_values_of_an_example_stay_when_the_answer_is_hidden() -> None:
    bound = mm(speech('{q} {a}')).script().bind({'q': '1', 'a': 'one', 'image': 'i'})
    hidden = bound.map(Wording(output_column='a').hide(None, 'gen'))
    assert hidden.bind({'q': '2', 'a': 'two', 'image': 'k'}).fill({})[0]['prompt'][0]['text'] == '1 one'  # type: ignore[index]


def test_large_media_in_a_tagged_column_of_their_own_are_references() -> None:
    picture = 'A' * 100_000
    (asked,) = compile(mm(speech('{q}')), ApiRenderer())({'q': 'Q', 'image': tag('image', picture)})
    url = asked['content'][1]['image_url']['url']  # type: ignore[index,call-overload]
    assert isinstance(url, MediaUrl)
    assert url == f'file://{picture}'


@pytest.mark.parametrize(
    ('written', 'where', 'what'),
    [
        ({'text': 5}, 'template.round[0].prompt_mm.text', 'int 5'),
        ({'text': {'type': 'text'}}, 'template.round[0].prompt_mm.text', 'expected a string'),
        ({'image': 5}, 'template.round[0].prompt_mm.image', 'int 5'),
        ({'image': {'type': 'image_url'}}, 'template.round[0].prompt_mm.image', 'a url'),
        ({'image': {'image_url': {'url': 5}}}, 'template.round[0].prompt_mm.image', 'a url'),
        ({'text_url': 'x'}, 'template.round[0].prompt_mm', "unknown modality 'text_url'"),
        ({'image': 'file://</E>{image}'}, 'template.round[0].prompt_mm', 'inside the image url'),
    ],
)
def test_a_wrong_prompt_mm_is_refused_with_its_place(written: Any, where: str, what: str) -> None:
    with pytest.raises(TemplateError) as refused:
        mm({'role': 'HUMAN', 'prompt_mm': written}, ice_token='</E>')
    assert [problem.where for problem in refused.value.problems] == [where]
    assert what in str(refused.value)


def test_a_speech_says_one_thing() -> None:
    with pytest.raises(TemplateError, match='has both'):
        mm({'role': 'HUMAN', 'prompt': 'lost', 'prompt_mm': {'text': 'said'}})


VALUES = st.none() | st.lists(
    st.sampled_from(
        ['x', '', tag('image', 'p'), tag('text', 't'), tag('audio', 's'), '{a}', '<AIS_IMAGE_START>', '</E>']
    )
).map(''.join)


@settings(max_examples=100)
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(('q', 'a', 'image', 'sound', 'more'), VALUES)),
    st.permutations(['text', 'image', 'audio']),
    st.sampled_from(['{q}', 'Q: {q} {a}.', '{a}', '</E>{q}']),
    st.booleans(),
)
def test_spans_join_to_the_request_and_the_answer_is_hidden(
    row: dict[str, Any], order: list[str], text: str, with_examples: bool
) -> None:
    media = {'text': text, 'image': IMAGE, 'audio': '{sound}'}
    round_ = [human('Look.'), {'role': 'HUMAN', 'prompt_mm': {kind: media[kind] for kind in order}}, bot('{a}')]
    template = MMPromptTemplate({'round': round_, 'begin': ['</E>']}, ice_token='</E>')
    wording = Wording(template, PromptTemplate('{q}={a}'), output_column='a')
    row = {**row, 'a': f'{row.get("a")}GOLD{tag("text", "GOLD")}'}
    shots = [{'q': tag('image', '1'), 'a': 'one'}] if with_examples else []
    program = compile(wording, ApiRenderer(), shots=shots)
    try:
        traced = program.trace(row)
    except RenderError:
        return
    assert join_spans(traced.spans) == parts_of(traced.request)
    assert 'GOLD' not in str(traced.request)
    if shots:
        assert VaryingProgram(wording, ApiRenderer(), train=shots)(row, [0]) == traced.request


def test_a_modality_may_be_named_like_its_part() -> None:
    assert shown(trace(mm(speech('Q', image_url='file://{image}')), {'image': 'c.jpg'})) == ['Q', 'file://c.jpg']
    with pytest.raises(TemplateError, match="unknown modality 'text_url'"):
        mm(speech('Q', text_url='x'))


def test_speeches_of_one_role_that_are_joined_keep_all_their_parts() -> None:
    traced = trace(mm(human('Look.'), speech('Q: {question}'), human('Well?')), {'question': 'q', 'image': 'c.jpg'})
    assert shown(traced) == ['Look.\nQ: q', 'file://c.jpg', 'Well?']


def test_large_media_know_their_length() -> None:
    url = MediaUrl('file://', Segment('image', 'xx' + 'a' * 5 + 'yy', 2, 7))
    assert (len(url), str(url)) == (12, 'file://aaaaa')
    assert url == 'file://aaaaa'


def test_without_a_model_a_string_is_a_text_and_a_dialogue_messages() -> None:
    row = {'question': 'q', 'image': 'c.jpg'}
    assert compile(PromptTemplate('Q: {question}'), DatasetRenderer())(row) == 'Q: q'
    written = {'begin': ['Solve.'], 'round': [human('{question}'), bot('A')]}
    assert compile(PromptTemplate(written), DatasetRenderer())(row) == [
        {'role': '', 'content': 'Solve.'},
        {'role': 'HUMAN', 'content': 'q'},
        {'role': 'BOT', 'content': 'A'},
    ]
