"""Prompts of several turns: what is said again, what is said once, and which turns there are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers import bot, human
from rolecall import (
    ApiRenderer,
    ConfigError,
    DialogueProgram,
    MetaTemplate,
    MultiTurnPromptTemplate,
    PromptTemplate,
    RawPromptTemplate,
    RenderError,
    TemplateError,
    TextRenderer,
    Wording,
)

ROW = {'q': ['1', '2'], 'a': ['x', 'y']}


def dialogue(infer_mode: Any = 'every', side: Any = None, **written: Any) -> DialogueProgram:
    return DialogueProgram(Wording(MultiTurnPromptTemplate(written), output_column='a'), side, infer_mode=infer_mode)


@pytest.mark.parametrize(
    ('round_', 'every', 'gold'),
    [
        ([human('hi'), bot('hello'), human('{q}'), bot('{a}')], 'hi hello 1 R hi hello 2', 'hi hello 1 x hi hello 2'),
        ([human('{q}'), bot('{a}'), human('ok'), bot('fine')], '1 R ok fine 2', '1 x ok fine 2'),
        ([human('{q}'), bot('A:{a}')], '1 R 2', '1 A:x 2'),
        ([human('{q}'), bot('A:')], '1 R 2', '1 A:x 2'),
        ([human('{q}')], '1 R 2', '1 x 2'),
        ([human('{q}{a}?'), bot('{a}')], '1? R 2?', '1? x 2?'),
    ],
)
def test_a_reply_stands_where_the_answer_stands_and_nowhere_else(round_: Any, every: str, gold: str) -> None:
    assert dialogue(round=round_)(ROW, 1, ['R']) == every.replace(' ', '\n')
    for mode in ('every_with_gt', 'last'):
        assert dialogue(mode, round=round_)(ROW, 1) == gold.replace(' ', '\n')


def test_a_reply_is_said_by_a_role_that_the_dataset_leaves_silent() -> None:
    meta = {
        'round': [
            {'role': 'HUMAN', 'begin': '<H>'},
            {'role': 'BOT', 'begin': '<B>', 'prompt': 'default', 'generate': True},
        ]
    }
    round_ = [human('{q}'), {'role': 'BOT'}]
    side = TextRenderer(MetaTemplate.read(meta))
    assert dialogue(round=round_, side=side)(ROW, 1, ['R']) == '<H>1<B>R<H>2<B>'
    assert dialogue('last', round=round_, side=side)(ROW, 1) == '<H>1<B>x<H>2<B>'


def test_raw_messages_go_turn_by_turn() -> None:
    template = RawPromptTemplate([{'role': 'user', 'content': '{q}'}])
    program = DialogueProgram(Wording(template, output_column='a'), ApiRenderer())
    assert [(m['role'], m['content']) for m in program(ROW, 1, ['R'])] == [  # type: ignore[call-overload,index]
        ('user', '1'),
        ('assistant', 'R'),
        ('user', '2'),
    ]


@pytest.mark.parametrize('topics', [['a', 'b'], ['a', 'b', 'c'], 'abc'])
def test_the_beginning_is_the_same_at_every_turn(topics: Any) -> None:
    row = {'q': ['1', '2', '3'], 'a': ['x', 'y', 'z'], 't': topics}
    program = dialogue(begin='Topics: {t}, from {q}{a}', round=[human('{q}'), bot('{a}')])
    whole = topics if isinstance(topics, str) else json.dumps(topics)
    asked = [program(row, turn, ['R'] * turn) for turn in range(3)]
    assert [str(request).split('\n')[0] for request in asked] == [f'Topics: {whole}, from 1'] * 3


def test_the_end_is_said_at_the_last_turn_with_its_values() -> None:
    program = dialogue(round=[human('{q}')], end='{q}{a} of {t}')
    row = {**ROW, 't': ['a', 'b']}
    assert program(row, 0) == '1'
    assert program(row, 1, ['R']) == '1\nR\n2\n2 of ["a", "b"]'


@pytest.mark.parametrize('turn', [-1, 2, 7])
@pytest.mark.parametrize('mode', ['every', 'every_with_gt', 'last'])
def test_a_turn_that_a_row_does_not_have_is_refused(mode: str, turn: int) -> None:
    program = dialogue(mode, round=[human('{q}'), bot('{a}')])
    with pytest.raises(RenderError, match=f'there is no turn {turn}: the row has 2 turns'):
        program(ROW, turn, ['R'] * 7)


def test_a_misspelt_infer_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown infer_mode 'evry'[^?]*Did you mean 'every'\?"):
        dialogue('evry', round=[human('{q}'), bot('{a}')])


def test_a_template_alone_or_what_it_is_made_of_goes_turn_by_turn() -> None:
    written = {'round': [human('{q}'), bot('{a}')]}
    for given in (MultiTurnPromptTemplate(written), written):
        assert DialogueProgram(given)(ROW, 1, ['R']) == '1\nR\n2'


@pytest.mark.parametrize('given', ['Q: {q}', PromptTemplate('{q}'), PromptTemplate({'begin': [human('{q}')]})])
def test_turns_need_a_round(given: Any) -> None:
    with pytest.raises(TemplateError, match='several turns need a dialogue with a round'):
        DialogueProgram(given)
