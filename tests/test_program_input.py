"""What programs are made of: wordings and renderers in every form they may be given, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers import API, LM, bot, human
from rolecall import ConfigError, PromptTemplate, compile
from rolecall.core import (
    ApiRenderer,
    DialogueProgram,
    MetaTemplate,
    TextRenderer,
    VaryingProgram,
    Wording,
    compile_labels,
)
from rolecall.errors import TemplateError

TALK = {'begin': '</E>', 'round': [human('{q}'), bot('{a}')]}
TEMPLATE = PromptTemplate(TALK, ice_token='</E>')


@pytest.mark.parametrize('given', ['Q: {q}', PromptTemplate('Q: {q}'), Wording(PromptTemplate('Q: {q}'))])
def test_a_wording_a_template_and_its_text_are_the_same(given: Any) -> None:
    assert compile(given)({'q': '1'}) == 'Q: 1'


def test_a_dialogue_and_labels_may_be_given_as_they_are() -> None:
    assert compile({'round': [human('{q}')]}, LM)({'q': '1'}) == '<H>1</H><B>'
    programs = compile_labels({'yes': '{q} Yes.', 'no': '{q} No.'})
    assert [program({'q': '1'}) for program in programs.values()] == ['1 Yes.', '1 No.']


SIDES = [LM, MetaTemplate.read(LM), TextRenderer(MetaTemplate.read(LM))]


@pytest.mark.parametrize('side', SIDES)
def test_a_meta_template_is_the_side_of_a_text_model(side: Any) -> None:
    assert compile(TEMPLATE, side)({'q': '1'}) == '<H>1</H><B>'
    assert DialogueProgram(TEMPLATE, side)({'q': ['1', '2']}, 1, ['R']) == '<H>1</H><B>R</B><H>2</H><B>'
    assert VaryingProgram(TEMPLATE, side, train=[])({'q': '1'}, []) == '<H>1</H><B>'


def programs() -> list[Callable[[Any, Any], Any]]:
    return [compile, DialogueProgram, lambda given, side: VaryingProgram(given, side, train=[])]


@pytest.mark.parametrize('make', programs())
@pytest.mark.parametrize(
    ('given', 'side', 'said'),
    [
        (3, None, r'prompt_template\n  expected a template, got int 3'),
        (['Q: {q}'], None, 'expected a template, got list'),
        (None, None, 'are both missing'),
        (TEMPLATE, 'chatml', "expected a renderer, got str 'chatml'"),
        (TEMPLATE, ApiRenderer, 'expected a renderer, got type'),
        (TEMPLATE, {'rounds': []}, r"unknown key 'rounds'[^?]*Did you mean 'round'\?"),
        (TEMPLATE, API, 'could be for an API or for a text model'),
    ],
)
def test_what_is_neither_is_refused_with_a_sentence(make: Any, given: Any, side: Any, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        make(given, side)


def test_a_wording_is_made_of_templates() -> None:
    with pytest.raises(TemplateError) as caught:
        Wording('Q: {q}', {'round': []}, output_column='a')  # type: ignore[arg-type]
    assert [problem.where for problem in caught.value.problems] == ['prompt_template', 'ice_template']


@pytest.mark.parametrize('mode', ['Gen', 'GEN', 'pppl', '', None])
def test_a_mode_that_does_not_exist_is_refused_and_never_shows_the_answer(mode: Any) -> None:
    wording = Wording(PromptTemplate('{q} {a}'), output_column='a')
    with pytest.raises(ConfigError, match=f'unknown mode {mode!r}'):
        compile(wording, mode=mode)
    with pytest.raises(ConfigError, match=f'unknown mode {mode!r}'):
        VaryingProgram(Wording(TEMPLATE, output_column='a'), train=[], mode=mode)


def test_a_misspelt_mode_is_told_what_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'gen'\?"):
        compile('{q}', mode='Gen')  # type: ignore[arg-type]
