"""Raw messages: what is filled, what is passed on as it is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import LM
from rolecall import compile
from rolecall.core import ApiRenderer, MetaTemplate, RawPromptTemplate, TextRenderer, Wording
from rolecall.core.prompts.multimodal import MediaUrl, part_text
from rolecall.core.render.spans import join_spans
from rolecall.errors import RenderError, TemplateError


def content_of(parts: list[Any], row: dict[str, Any]) -> list[Any]:
    """The content of one message; its spans are seen to join to it."""
    program = compile(RawPromptTemplate([{'role': 'user', 'content': parts}]), ApiRenderer())
    traced = program.trace(row)
    content: list[Any] = traced.request[0]['content']  # type: ignore[index,call-overload]
    assert join_spans(traced.spans) == {(0, k): text for k, part in enumerate(content) if (text := part_text(part))}
    return [dict(part) for part in content]


@pytest.mark.parametrize(
    ('part', 'sent'),
    [
        (
            {'type': 'text', 'text': '{q}', 'cache_control': {'type': 'ephemeral'}},
            {'type': 'text', 'text': 'Q', 'cache_control': {'type': 'ephemeral'}},
        ),
        (
            {'type': 'image_url', 'image_url': {'url': 'file://{i}', 'detail': 'low'}, 'uuid': '{q}'},
            {'type': 'image_url', 'image_url': {'url': 'file://I', 'detail': 'low'}, 'uuid': '{q}'},
        ),
        ({'type': 'image', 'image': '{i}', 'min_pixels': 4}, {'type': 'image', 'image': 'I', 'min_pixels': 4}),
        (
            {'type': 'input_audio', 'input_audio': {'data': '{i}', 'format': 'wav'}},
            {'type': 'input_audio', 'input_audio': {'data': 'I', 'format': 'wav'}},
        ),
        (
            {'type': 'image', 'source': {'type': 'base64', 'data': '{i}'}},
            {'type': 'image', 'source': {'type': 'base64', 'data': 'I'}},
        ),
        ({'type': 'input_text', 'text': '{q}'}, {'type': 'input_text', 'text': 'Q'}),
        ({'type': 'file', 'file': {'file_id': '{q}'}}, {'type': 'file', 'file': {'file_id': '{q}'}}),
        ({'type': 'video', 'video': ['a', 'b']}, {'type': 'video', 'video': ['a', 'b']}),
    ],
)
def test_texts_and_urls_are_filled_and_the_rest_is_sent_as_it_is(part: dict[str, Any], sent: dict[str, Any]) -> None:
    assert content_of([part], {'q': 'Q', 'i': 'I'}) == [sent]


def test_a_url_is_labelled_with_its_column_and_with_what_is_not_filled() -> None:
    parts = [
        {'type': 'image_url', 'image_url': {'url': 'file://{pic}'}},
        {'type': 'input_audio', 'input_audio': {'data': '{nope}'}},
    ]
    traced = compile(RawPromptTemplate([{'role': 'user', 'content': parts}]), ApiRenderer()).trace({'pic': 'x'})
    labelled = [(span.text, span.origin.kind, span.origin.name) for span in traced.spans]
    assert labelled == [('file://x', 'media', 'pic'), ('{nope}', 'unfilled', 'nope')]


def test_the_answer_is_hidden_in_a_url() -> None:
    parts = [{'type': 'image_url', 'image_url': {'url': 'file://{a}'}}]
    wording = Wording(RawPromptTemplate([{'role': 'user', 'content': parts}]), output_column='a')
    assert 'GOLD' not in str(compile(wording, ApiRenderer())({'a': 'GOLD'}))


def test_a_large_picture_in_a_raw_part_is_a_reference() -> None:
    picture = 'A' * 100_000
    parts = [{'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,{i}'}}]
    (asked,) = compile(RawPromptTemplate([{'role': 'user', 'content': parts}]), ApiRenderer())({'i': picture})
    url = asked['content'][0]['image_url']['url']  # type: ignore[index,call-overload]
    assert isinstance(url, MediaUrl)
    assert url == f'data:image/png;base64,{picture}'


@pytest.mark.parametrize(
    ('message', 'where', 'what'),
    [
        ({'content': ['hi']}, 'messages[0].content[0]', "got str 'hi'"),
        ({'content': [{'type': 'text', 'text': 5}]}, 'messages[0].content[0].text', 'got int 5'),
        ({'content': [{'type': 'text'}]}, 'messages[0].content[0].text', 'got None'),
        (
            {'content': [{'type': 'image_url', 'image_url': {'url': 5}}]},
            'messages[0].content[0].image_url.url',
            'got int 5',
        ),
        ({'content': 5}, 'messages[0].content', 'got int 5'),
        ({'content': 5, 'tool_calls': []}, 'messages[0].content', 'got int 5'),
        ({'content': None}, 'messages[0].content', 'got None'),
        (
            {'content': [{'type': 'image_url', 'image_url': {'url': '</E>'}}]},
            'messages[0].content',
            'inside the image_url url',
        ),
    ],
)
def test_a_wrong_content_is_refused_with_its_place(message: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(TemplateError) as refused:
        RawPromptTemplate([{'role': 'user', **message}])
    assert [problem.where for problem in refused.value.problems] == [where]
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ('role', 'remedy'),
    [('usre', "Did you mean 'user'?"), ('asistant', "Did you mean 'assistant'?"), ('HUMAN', "Known: 'system'")],
)
def test_an_unknown_role_is_refused_with_a_suggestion(role: str, remedy: str) -> None:
    with pytest.raises(TemplateError) as refused:
        RawPromptTemplate([{'role': 'user', 'content': 'Hi'}, {'role': role, 'content': 5}])
    first, second = refused.value.problems
    assert (first.where, first.what) == ('messages[1].role', f'unknown role {role!r}.')
    assert first.remedy.startswith(remedy)
    assert second.where == 'messages[1].content'


@pytest.mark.parametrize('content', [5, ['hi'], [{'type': 'text', 'text': 5}]])
def test_a_wrong_content_in_a_column_of_messages_is_an_error_that_names_the_column(content: Any) -> None:
    program = compile(RawPromptTemplate([{'expand_column': 'history'}]), ApiRenderer())
    with pytest.raises(RenderError, match="column 'history': message content"):
        program({'history': [{'role': 'user', 'content': content}]})


def test_parts_in_a_column_of_messages_are_data() -> None:
    parts = [{'type': 'text', 'text': '{q}', 'cache_control': 1}, {'type': 'image_url', 'image_url': {'url': '</E>'}}]
    program = compile(RawPromptTemplate([{'expand_column': 'history'}]), ApiRenderer())
    traced = program.trace({'q': 'Q', 'history': [{'role': 'user', 'content': parts}]})
    assert traced.request == [{'role': 'user', 'content': parts}]
    assert [(span.origin.kind, span.origin.name) for span in traced.spans] == [
        ('field', 'history'),
        ('media', 'history'),
    ]


# What a text model can be told.

TEXT_SIDES = {'lines': TextRenderer(), 'roles': TextRenderer(MetaTemplate.read(LM))}
CALLS = [{'id': '1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}]


@pytest.mark.parametrize('side', TEXT_SIDES)
@pytest.mark.parametrize('key', ['tool_calls', 'function_call'])
def test_a_message_that_calls_tools_is_refused_for_a_model_that_takes_text(side: str, key: str) -> None:
    called = {'role': 'assistant', 'content': 'Wait.', key: CALLS}
    with pytest.raises(TemplateError, match=f'the assistant message has {key}, but this model only takes text'):
        compile(RawPromptTemplate([{'role': 'user', 'content': '{q}'}, called]), TEXT_SIDES[side])
    program = compile(RawPromptTemplate([{'expand_column': 'history'}]), TEXT_SIDES[side])
    with pytest.raises(TemplateError, match='this model only takes text'):
        program({'history': [called]})
    assert program({'history': [{'role': 'user', 'content': 'Hi', key: []}]}) in ('Hi', '<H>Hi</H><B>')


@pytest.mark.parametrize('side', TEXT_SIDES)
def test_further_keys_of_a_message_are_noted_where_the_model_takes_text(side: str) -> None:
    messages = [{'role': 'user', 'content': '{q}', 'name': 'Ann'}]
    traced = compile(RawPromptTemplate(messages), TEXT_SIDES[side]).trace({'q': 'Hi'})
    assert traced.request in ('Hi', '<H>Hi</H><B>')
    assert [(note.kind, note.text) for note in traced.notes] == [('not_sent', 'name')]
    assert compile(RawPromptTemplate(messages), ApiRenderer()).trace({'q': 'Hi'}).notes == ()


def test_parts_that_are_all_text_are_a_text() -> None:
    parts = [{'type': 'text', 'text': 'Hi {q}'}, {'type': 'text', 'text': '{q}?'}]
    template = RawPromptTemplate([{'role': 'user', 'content': parts}])
    for side, words in (('lines', 'Hi Q\nQ?'), ('roles', '<H>Hi Q\nQ?</H><B>')):
        traced = compile(template, TEXT_SIDES[side]).trace({'q': 'Q'})
        assert traced.request == words
        assert ''.join(span.text for span in traced.spans) == words
    shown = [*parts, {'type': 'image_url', 'image_url': {'url': '{q}'}}]
    with pytest.raises(TemplateError, match='has images, audio or video'):
        compile(RawPromptTemplate([{'role': 'user', 'content': shown}]), TEXT_SIDES['roles'])


def test_media_of_an_example_belong_to_the_example() -> None:
    def message(*urls: str) -> dict[str, Any]:
        return {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': url}} for url in urls]}

    wording = Wording(RawPromptTemplate(['</E>', message('{i}', '')]), RawPromptTemplate([message('{i}')]))
    traced = compile(wording, ApiRenderer(), shots=[{'i': 'a.jpg'}, {'i': 'b.jpg'}]).trace({'i': 'c.jpg'})
    found = [(str(span.text), span.origin.kind, span.origin.shot) for span in traced.spans]
    assert found == [('a.jpg', 'media', 0), ('b.jpg', 'media', 1), ('c.jpg', 'media', None), ('', 'media', None)]
