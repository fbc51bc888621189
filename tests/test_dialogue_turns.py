"""Prompts of several turns: what is said again, what is said once, and which turns there are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers import LM, bot, human, system
from rolecall import ConfigError, PromptTemplate, compile
from rolecall.apps.sft.training_programs import DialogueTrainingProgram
from rolecall.core import (
    ApiRenderer,
    ChatRenderer,
    ChatTemplate,
    DialogueProgram,
    MetaTemplate,
    MultiTurnPromptTemplate,
    RawPromptTemplate,
    TextRenderer,
    Wording,
)
from rolecall.errors import RenderError, TemplateError
from tables import in_one

ROW = {'q': ['1', '2'], 'a': ['x', 'y']}
WITH_SYSTEM = {**LM, 'reserved_roles': [{'role': 'SYSTEM', 'begin': '<S>', 'end': '</S>'}]}
TEXT = TextRenderer(MetaTemplate.read(WITH_SYSTEM))
CHAT = ChatRenderer(
    ChatTemplate(
        '{% for m in messages %}[{{ m.role }}]{{ m.content }}|{% endfor %}'
        '{% if add_generation_prompt %}[assistant]{% endif %}'
    )
)
SIDES = {'lines': TextRenderer(), 'text': TEXT, 'api': ApiRenderer(), 'chat': CHAT}


def dialogue(infer_mode: Any = 'every', side: Any = None, *, prefill: bool = False, **written: Any) -> DialogueProgram:
    wording = Wording(MultiTurnPromptTemplate(written), output_column='a')
    return DialogueProgram(wording, side, infer_mode=infer_mode, prefill=prefill)


def told(request: Any) -> str:
    """A request in one line."""
    if isinstance(request, str):
        return request
    return ' '.join(f'{message["role"]}:{message["content"]}' for message in request)


def noted(program: Any, *args: Any) -> list[tuple[str, str]]:
    return [(note.kind, note.text) for note in program.trace(*args).notes]


@in_one
@pytest.mark.parametrize(
    ('round_', 'every', 'gold'),
    [
        ([human('hi'), bot('hello'), human('{q}'), bot('{a}')], 'hi hello 1 R hi hello 2', 'hi hello 1 x hi hello 2'),
        ([human('{q}'), bot('{a}'), human('ok'), bot('fine')], '1 R ok fine 2', '1 x ok fine 2'),
        ([human('{q}'), bot('A:{a}')], '1 A:R 2 A:', '1 A:x 2 A:'),
        ([human('{q}'), bot('A:{a}.', begin='<', end='>')], '1 <A:R> 2 <A:', '1 <A:x.> 2 <A:'),
        ([human('{q}'), bot('A:')], '1 A:R 2 A:', '1 A:x 2 A:'),
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


@in_one
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


@in_one
@pytest.mark.parametrize('turn', [-1, 2, 7])
@pytest.mark.parametrize('mode', ['every', 'every_with_gt', 'last'])
def test_a_turn_that_a_row_does_not_have_is_refused(mode: str, turn: int) -> None:
    program = dialogue(mode, round=[human('{q}'), bot('{a}')])
    with pytest.raises(RenderError, match=f'turn {turn} is out of range: the row has 2 turns'):
        program(ROW, turn, ['R'] * 7)


def test_a_misspelt_infer_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown infer_mode 'evry'[^?]*Did you mean 'every'\?"):
        dialogue('evry', round=[human('{q}'), bot('{a}')])


def test_a_template_alone_or_what_it_is_made_of_goes_turn_by_turn() -> None:
    written = {'round': [human('{q}'), bot('{a}')]}
    for given in (MultiTurnPromptTemplate(written), written):
        assert DialogueProgram(given)(ROW, 1, ['R']) == '1\nR\n2'


@in_one
@pytest.mark.parametrize('given', ['Q: {q}', PromptTemplate('{q}'), PromptTemplate({'begin': [human('{q}')]})])
def test_turns_need_a_round(given: Any) -> None:
    with pytest.raises(TemplateError, match='a multi-turn prompt needs a dialogue with a round'):
        DialogueProgram(given)


# Where the model finds its place.

OUTSIDE_THE_ROUND = [
    ([system('{q}'), bot('{a}')], '<S>1</S><B>R</B><S>2</S><B>', 'system:1 assistant:R system:2'),
    ([system('{q}')], '<S>1</S><B>R</B><S>2</S><E>End.</E><B>', 'system:1 assistant:R system:2 user:End.'),
]


@in_one
@pytest.mark.parametrize(('round_', 'text', 'messages'), OUTSIDE_THE_ROUND)
@pytest.mark.parametrize('infer_mode', ['every', 'every_with_gt', 'last'])
def test_a_question_outside_the_models_round_is_asked_after_what_was_said(
    round_: Any, text: str, messages: str, infer_mode: str
) -> None:
    said = 'R' if infer_mode == 'every' else 'x'
    written = {'round': round_, 'end': [human('End.', begin='<E>', end='</E>')]}
    assert dialogue(infer_mode, TEXT, **written)(ROW, 1, ['R']) == text.replace('R', said)
    written = {'round': round_, 'end': [human('End.')]}
    assert told(dialogue(infer_mode, ApiRenderer(), **written)(ROW, 1, ['R'])) == messages.replace('R', said)


def test_a_question_that_stands_after_the_answer_in_the_models_round_is_asked_after_what_was_said() -> None:
    late = {'role': 'LATE', 'begin': '<L>', 'end': '</L>'}
    meta = {'round': [{'role': 'HUMAN', 'generate': False}, LM['round'][1], late]}
    for answer in ([bot('{a}')], []):
        written = [{'role': 'LATE', 'prompt': '{q}'}, *answer]
        request = dialogue(side=TextRenderer(MetaTemplate.read(meta)), round=written)(ROW, 1, ['R'])
        assert request == '<L>1</L><B>R</B><L>2</L><B>'


def test_words_that_no_role_speaks_stand_in_begin_or_end() -> None:
    with pytest.raises(TemplateError, match=r"round\[1\]\n  expected a speech, got str 'hint'"):
        PromptTemplate({'round': [human('{q}'), 'hint', bot('{a}')]})
    written = {'begin': ['hint'], 'round': [human('{q}'), bot('A:{a}')]}
    assert told(dialogue(side=ApiRenderer(), **written)(ROW, 1, ['R'])) == 'user:hint\n1 assistant:R user:2'
    program = compile(Wording(PromptTemplate(written), output_column='a'), ApiRenderer(), prefill=True)
    assert told(program({'q': '1', 'a': 'x'})) == 'user:hint\n1 assistant:A:'


# How the answer is begun.

BEGUN = [human('{q}'), bot('A:{a}')]


@in_one
@pytest.mark.parametrize(
    ('side', 'infer_mode', 'sent'),
    [
        ('lines', 'every', '1\nA:R\n2\nA:'),
        ('lines', 'last', '1\nA:x\n2\nA:'),
        ('text', 'every', '<H>1</H><B>A:R</B><H>2</H><B>A:'),
        ('text', 'every_with_gt', '<H>1</H><B>A:x</B><H>2</H><B>A:'),
        ('text', 'last', '<H>1</H><B>A:x</B><H>2</H><B>A:'),
        ('api', 'every', 'user:1 assistant:A:R user:2 assistant:A:'),
        ('api', 'last', 'user:1 assistant:A:x user:2 assistant:A:'),
        ('chat', 'every', '[user]1|[assistant]A:R|[user]2|[assistant]A:'),
    ],
)
def test_a_turns_answer_is_begun_and_the_reply_goes_on_from_there(side: str, infer_mode: str, sent: str) -> None:
    program = dialogue(infer_mode, SIDES[side], prefill=True, round=BEGUN)
    assert told(program(ROW, 1, ['R'])) == sent
    assert noted(program, ROW, 1, ['R']) == []


@in_one
@pytest.mark.parametrize('side', ['text', 'api', 'chat'])
def test_the_first_words_of_an_answer_are_noted_where_they_are_not_sent(side: str) -> None:
    program = dialogue(side=SIDES[side], round=BEGUN)
    assert 'A:' not in told(program(ROW, 1, ['R']))
    assert noted(program, ROW, 1, ['R']) == [('not_sent', 'A:')]


@in_one
@pytest.mark.parametrize('infer_mode', ['every', 'every_with_gt', 'last'])
def test_the_datasets_own_begin_stands_before_the_answer_asked_for(infer_mode: str) -> None:
    said = 'R' if infer_mode == 'every' else 'x'
    written = [human('{q}'), bot('{a}', begin='<MY>', end='</MY>')]
    request = dialogue(infer_mode, TEXT, round=written)(ROW, 1, ['R'])
    assert request == f'<H>1</H><MY>{said}</MY><H>2</H><MY>'
    assert dialogue(infer_mode, round=written)(ROW, 1, ['R']) == f'1\n<MY>{said}</MY>\n2\n<MY>'


@in_one
@pytest.mark.parametrize(
    ('side', 'late'), [('lines', ['after', 'END']), ('text', ['<H>after</H>', 'END']), ('api', ['after', 'END'])]
)
def test_what_comes_after_the_last_answer_is_noted_at_the_last_turn(side: str, late: list[str]) -> None:
    program = dialogue(side=SIDES[side], round=[human('{q}'), bot('{a}'), human('after')], end=['END'])
    assert noted(program, ROW, 0) == []
    assert 'END' not in told(program(ROW, 1, ['R']))
    assert [text for kind, text in noted(program, ROW, 1, ['R']) if kind == 'not_sent'] == late


def test_words_after_a_hidden_answer_are_noted_where_a_text_ends_with_it() -> None:
    assert noted(dialogue(round=[human('{q}'), bot('A:{a}.')]), ROW, 0) == [('not_sent', '.')]


@in_one
@pytest.mark.parametrize('raw', [False, True])
@pytest.mark.parametrize('prefill', [False, True])
@pytest.mark.parametrize('output', ['a', None])
@pytest.mark.parametrize('side', SIDES)
def test_the_answer_asked_for_is_never_shown(side: str, output: str | None, prefill: bool, raw: bool) -> None:
    messages = [
        {'role': 'user', 'content': '{q}'},
        {'role': 'assistant', 'content': [{'type': 'text', 'text': 'A:{a}'}]},
    ]
    template = RawPromptTemplate(messages) if raw else MultiTurnPromptTemplate({'round': BEGUN})
    program = DialogueProgram(Wording(template, output_column=output), SIDES[side], prefill=prefill)
    begun = prefill or side == 'lines'
    row = {'q': ['1', '2'], 'a': ['GOLD', 'GOLD']}
    for turn in range(2):
        traced = program.trace(row, turn, ['R'])
        assert 'GOLD' not in told(traced.request)
        assert not any('GOLD' in note.text for note in traced.notes)
        assert ('A:' in told(traced.request)) == begun
    assert ('A:R' in told(program(row, 1, ['R']))) == begun


@in_one
@pytest.mark.parametrize('prefill', [False, True])
@pytest.mark.parametrize('side', ['text', 'api', 'chat'])
@pytest.mark.parametrize(
    'written',
    [
        {'round': BEGUN},
        {'round': [human('{q}')], 'end': [human('END')]},
        {'round': [human('{q}'), bot('A:{a}.', begin='<MY>', end='</MY>')], 'end': ['END', bot('END')]},
        {'begin': [system('s')], 'round': [system('{q}'), human('Go.'), bot('{a}')]},
    ],
)
def test_one_turn_is_asked_as_a_prompt_without_turns_is(written: Any, side: str, prefill: bool) -> None:
    row = {'q': '1', 'a': 'x'}
    single = compile(Wording(PromptTemplate(written), output_column='a'), SIDES[side], prefill=prefill).trace(row)
    turn = dialogue(side=SIDES[side], prefill=prefill, **written).trace({'q': ['1'], 'a': ['x']}, 0)
    assert (turn.request, turn.notes) == (single.request, single.notes)


@in_one
@pytest.mark.parametrize('infer_mode', ['every', 'every_with_gt'])
@pytest.mark.parametrize('prefill', [False, True])
@pytest.mark.parametrize('side', ['lines', 'text', 'chat'])
@pytest.mark.parametrize(
    'round_', [BEGUN, [system('{q}'), human('Go.'), bot('A:{a}')], [human('{q}'), bot('A:{a}', begin='<', end='>')]]
)
def test_every_turn_is_trained_with_the_answer_begun_as_it_is_asked(
    round_: Any, side: str, prefill: bool, infer_mode: Any
) -> None:
    wording = Wording(MultiTurnPromptTemplate({'round': round_}), output_column='a')
    example: Any = DialogueTrainingProgram(wording, SIDES[side], infer_mode=infer_mode, prefill=prefill)(ROW)
    program = DialogueProgram(wording, SIDES[side], infer_mode=infer_mode, prefill=prefill)
    replies = [program.reply(ROW, turn) for turn in range(2)]
    begun = prefill or side == 'lines'
    assert replies == (['x', 'y'] if begun else ['A:x', 'A:y'])
    sent = [told(program(ROW, turn, replies[:turn])) for turn in range(2)]
    assert [start for start, _ in example.stretches] == list(map(len, sent))
    assert all(example.text.startswith(request) for request in sent)
