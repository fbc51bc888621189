"""Where examples stand: wherever the example token counts as a place, the examples are there, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import LM, bot, human
from rolecall import PromptTemplate, compile
from rolecall.core import (
    ApiRenderer,
    MetaTemplate,
    MMPromptTemplate,
    RawPromptTemplate,
    TextRenderer,
    VaryingProgram,
    Wording,
)
from rolecall.core.render.spans import join_spans, texts_of
from rolecall.errors import TemplateError

SHOTS = [{'q': '1', 'a': 'one', 'image': '1.jpg'}, {'q': '2', 'a': 'two', 'image': '2.jpg'}]
ROW = {'q': '3', 'a': 'GOLD', 'image': '3.jpg'}
STRING = PromptTemplate('{q}={a}')
DIALOGUE = PromptTemplate({'round': [human('{q}'), bot('{a}')]})
TEXT, API = TextRenderer(MetaTemplate.read(LM)), ApiRenderer()


def media(text: str) -> MMPromptTemplate:
    parts = {'text': text, 'image': 'file://{image}'}
    return MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}, ice_token='</E>')


def dialogue(*speeches: Any) -> PromptTemplate:
    return PromptTemplate({'round': [*speeches, bot('{a}')]}, ice_token='</E>')


def raw(content: Any) -> RawPromptTemplate:
    return RawPromptTemplate([{'role': 'user', 'content': content}])


IN_A_SPEECH = [
    (media('</E>{q}'), API),
    (media('{q}</E>'), API),
    (raw('</E>{q}'), API),
    (raw([{'type': 'text', 'text': '</E>{q}', 'cache_control': 1}]), API),
    (raw([{'type': 'text', 'text': '{q}'}, {'type': 'text', 'text': '</E>'}]), API),
    (dialogue(human('{q}', begin='</E>')), API),
    (dialogue(human('{q}', begin='</E>')), TEXT),
    (dialogue(human('{q}', end='[</E>]')), TEXT),
    (dialogue(human('{q}</E>')), TextRenderer()),
]


@pytest.mark.parametrize(('prompt', 'side'), IN_A_SPEECH)
def test_string_examples_stand_wherever_the_token_does(prompt: Any, side: Any) -> None:
    wording = Wording(prompt, STRING, output_column='a')
    traced = compile(wording, side, shots=SHOTS).trace(ROW)
    said = join_spans(traced.spans)
    assert said == texts_of(traced.request)
    assert [text.count('1=one\n2=two\n') for text in said.values()].count(1) == 1
    assert 'GOLD' not in str(traced.request)
    assert {span.origin.shot for span in traced.spans} == {None, 0, 1}
    assert VaryingProgram(wording, side, train=SHOTS)(ROW, [0, 1]) == traced.request


@pytest.mark.parametrize(('prompt', 'side'), IN_A_SPEECH)
def test_nothing_stands_there_without_examples(prompt: Any, side: Any) -> None:
    traced = compile(Wording(prompt, output_column='a'), side).trace(ROW)
    assert '</E>' not in str(traced.request)
    assert join_spans(traced.spans) == texts_of(traced.request)


@pytest.mark.parametrize('prompt', [prompt for prompt, _ in IN_A_SPEECH])
def test_dialogue_examples_are_refused_inside_a_speech(prompt: Any) -> None:
    with pytest.raises(TemplateError, match='is inside a (HUMAN|BOT|user|SYSTEM) speech'):
        compile(Wording(prompt, DIALOGUE, output_column='a'), API, shots=SHOTS)


def test_an_example_has_no_place_for_examples() -> None:
    ice = MMPromptTemplate(
        {'round': [{'role': 'HUMAN', 'prompt_mm': {'text': '</E>{q}'}, 'begin': '</E>'}]}, ice_token='</E>'
    )
    assert not ice.shot().has_place_for_shots


@pytest.mark.parametrize('mixed', [{'A': '{q}', 'B': {'round': [human('{q}')]}}, {'A': [human('{q}')], 'B': '{q}'}])
def test_labels_with_strings_and_dialogues_are_refused(mixed: Any) -> None:
    with pytest.raises(TemplateError, match='in the same form'):
        PromptTemplate(mixed)


def test_none_is_a_label_like_any_other() -> None:
    template = PromptTemplate({None: '{q} n', 'a': '{q} y'})
    assert template.labels == (None, 'a')
    assert [template.script(label).fill({'q': 'Q'}) for label in template.labels] == ['Q n', 'Q y']
    with pytest.raises(TemplateError, match="no prompt for the label \\['a'\\]"):
        template.script(['a'])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('options', 'where'),
    [
        ({'ice_token': '</E>', 'sep_token': '</E>'}, 'sep_token'),
        ({'column_token_map': {'a': '<x>', 'b': '<x>'}}, "column_token_map['b']"),
        ({'ice_token': '</E>', 'column_token_map': {'a': '</E>'}}, "column_token_map['a']"),
    ],
)
def test_a_token_has_one_meaning(options: dict[str, Any], where: str) -> None:
    with pytest.raises(TemplateError, match='already') as refused:
        PromptTemplate('</E>{q}<x>', **options)
    assert [problem.where for problem in refused.value.problems] == [where]
