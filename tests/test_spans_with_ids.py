"""What spans promise: they join to the request, also where it has token ids."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import LM, bot, human, system
from rolecall import PromptTemplate, compile
from rolecall.core import ApiRenderer, MetaTemplate, MMPromptTemplate, TextRenderer, Wording
from rolecall.core.render.spans import Span, join_spans, texts_of

ROUND = {'round': [human('{question}'), bot('{answer}')]}
IDS = {
    'begin': [1],
    'round': [
        {'role': 'HUMAN', 'begin': ['<H>', 2, 'x'], 'end': ['</H>']},
        {'role': 'BOT', 'begin': [3, '<B>'], 'generate': True},
    ],
}


def codes(text: str) -> list[int]:
    """A tokenizer in which neighbours matter: pairs of characters are one id."""
    return [sum(map(ord, text[i : i + 2])) for i in range(0, len(text), 2)]


class Letter(str, Enum):
    A = 'a'


@pytest.mark.parametrize('written', ['{question}', ROUND])
@pytest.mark.parametrize('side', [TextRenderer(), ApiRenderer(), TextRenderer(MetaTemplate.read(IDS))])
def test_a_value_that_is_a_kind_of_string_is_its_characters(written: Any, side: Any) -> None:
    trace = compile(PromptTemplate(written), side).trace({'question': Letter.A, 'answer': ''})
    assert join_spans(trace.spans) == texts_of(trace.request)
    assert [(span.text, type(span.text)) for span in trace.spans if span.origin.name == 'question'] == [('a', str)]


def encoded(spans: tuple[Span, ...]) -> list[int]:
    """What the spans say, with each stretch of text between two ids encoded as a whole."""
    request: list[int] = []
    text = ''
    for span in (*spans, Span('', spans[0].origin, token=-1)):
        if span.token is None:
            text += span.text
        else:
            request += [*codes(text), span.token]
            text = ''
    return request[:-1]


@pytest.mark.parametrize('meta', [IDS, {'begin': [1, 'y'], 'end': ['z', 2]}])
def test_spans_join_to_the_request_before_it_is_encoded(meta: Any) -> None:
    row = {'question': 'one', 'answer': 'two'}
    trace = compile(PromptTemplate(ROUND), TextRenderer(MetaTemplate.read(meta), encode=codes), mode='ppl').trace(row)
    plain = compile(PromptTemplate(ROUND), TextRenderer(MetaTemplate.read(meta)), mode='ppl').trace(row)
    assert trace.spans == plain.spans
    assert join_spans(trace.spans) == texts_of(plain.request)
    assert encoded(trace.spans) == trace.request


affixes = st.lists(st.sampled_from(['<', 'ab', '\n', 7, 8]), max_size=3)


@st.composite
def metas_with_ids(draw: st.DrawFn) -> MetaTemplate:
    meta: dict[str, Any] = {'begin': draw(affixes), 'end': draw(affixes)}
    if draw(st.booleans()):
        meta['round'] = [
            {
                'role': 'HUMAN',
                'begin': draw(affixes),
                'end': draw(affixes),
                'prompt': draw(st.sampled_from(['', 'me'])),
            },
            {'role': 'BOT', 'begin': draw(affixes), 'end': draw(affixes), 'generate': draw(st.booleans())},
        ]
    return MetaTemplate.read(meta)


@settings(max_examples=150)
@given(
    metas_with_ids(),
    st.lists(st.sampled_from(['{question}', 'x', '', 'Q {answer}', '{answer}{question}']), min_size=1, max_size=4),
    st.lists(st.sampled_from(['', 'v', '\n', 'ab']), min_size=2, max_size=2),
    st.booleans(),
)
def test_spans_join_to_the_request_with_ids_too(
    meta: MetaTemplate, said: list[str], values: list[str], tokenizer: bool
) -> None:
    speeches = [human(words) if i % 2 else bot(words) for i, words in enumerate(said)]
    row = dict(zip(('question', 'answer'), values, strict=True))
    program = compile(PromptTemplate({'round': speeches}), TextRenderer(meta, encode=codes if tokenizer else None))
    request: Any = program(row)
    trace = program.trace(row)
    assert trace.request == request
    if isinstance(request, str) or not tokenizer:
        assert join_spans(trace.spans) == texts_of(request)
    elif request:
        assert all(isinstance(entry, int) for entry in request)
        assert encoded(trace.spans) == request


@pytest.mark.parametrize('encode', [None, codes])
def test_ids_around_lines_change_nothing_about_the_lines(encode: Any) -> None:
    written = {'round': [human('{question}'), human('{answer}'), bot('')]}
    side = TextRenderer(MetaTemplate.read({'begin': [1], 'end': [2]}), encode=encode)
    for row, words in (
        ({'question': '', 'answer': '2'}, '2'),
        ({'question': '1', 'answer': '2'}, '1\n2'),
        ({'question': '1', 'answer': ''}, '1'),
    ):
        assert compile(PromptTemplate(written), TextRenderer())(row) == words
        assert compile(PromptTemplate(written), side)(row) == [1, *(encode(words) if encode else [words]), 2]


def test_everything_in_an_example_belongs_to_it() -> None:
    meta = MetaTemplate.read(
        {
            'round': [
                '|',
                LM['round'][0],
                {'role': 'THOUGHT', 'begin': '<T>', 'end': '</T>', 'prompt': 'hm'},
                LM['round'][1],
                '!',
            ]
        }
    )
    for shot in ({'round': [human('{question}'), bot('{answer}')]}, {'round': [human('a'), {'role': 'THOUGHT'}]}):
        wording = Wording(
            PromptTemplate({'begin': ['</E>'], **ROUND}, ice_token='</E>'),
            PromptTemplate(shot),
            output_column='answer',
        )
        rows = [{'question': '1', 'answer': 'one'}, {'question': '2', 'answer': 'two'}]
        spans = compile(wording, TextRenderer(meta), shots=rows).trace({'question': '3'}).spans
        shots = [span.origin.shot for span in spans]
        last = ''.join(span.text for span in spans if span.origin.shot is None)
        assert last == '|<H>3</H><T>hm</T><B>'
        assert shots == sorted(shots, key=lambda k: 2 if k is None else k)


def test_speeches_with_pictures_say_who_speaks() -> None:
    parts = {'text': 'See {question}', 'image': 'file://{image}'}
    written = {'begin': [system('s') | {'prompt_mm': parts}], 'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}
    del written['begin'][0]['prompt']
    side = MetaTemplate.read(
        {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    )
    trace = compile(MMPromptTemplate(written), ApiRenderer(side)).trace({'question': 'q', 'image': 'i.png'})
    assert join_spans(trace.spans) == texts_of(trace.request)
    said = [(span.origin.kind, span.origin.role, span.origin.fallback) for span in trace.spans]
    once = [('text', 'HUMAN', ''), ('field', 'HUMAN', ''), ('media', 'HUMAN', '')]
    assert said == [(kind, 'SYSTEM', 'HUMAN') for kind, _, _ in once] + once
