"""Where a text stops for the answer: several roles that generate, and speeches that say themselves who does."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import API, LM, bot, config, human, template
from rolecall import ConfigError, PromptTemplate, compile
from rolecall.core import ApiRenderer, MetaTemplate, TextRenderer, Wording
from rolecall.core.program.answer_turn import show_answer
from rolecall.core.program.compiled import Program, render_with
from rolecall.errors import TemplateError
from rolecall.experiment.experiment import preview

ROW = {'question': 'q', 'answer': 'GOLD', 'thought': 'IDEA'}


def thoughts(prompt: str, **more: Any) -> dict[str, Any]:
    return {'role': 'THOUGHTS', 'prompt': prompt, **more}


def meta(*generating: str, default: str | None = None, **more: Any) -> dict[str, Any]:
    """A round of HUMAN, THOUGHTS and BOT, of which some generate."""
    roles: list[dict[str, Any]] = [
        {'role': name, 'begin': f'<{name[0]}>', 'end': f'</{name[0]}>'} for name in ('HUMAN', 'THOUGHTS', 'BOT')
    ]
    for role in roles:
        if role['role'] in generating:
            role['generate'] = True
    if default is not None:
        roles[1]['prompt'] = default
    return {'round': roles, 'end': '.', **more}


BOTH = meta('THOUGHTS', 'BOT')
QUESTION, THOUGHT, ANSWER = human('{question}'), thoughts('I think {thought}'), bot('It is {answer}')


def text(written: Any, side: Any, **options: Any) -> Any:
    wording = Wording(PromptTemplate(written), output_column='answer')
    return compile(wording, TextRenderer(MetaTemplate.read(side)), **options)(ROW)


@pytest.mark.parametrize(
    ('said', 'side', 'expected'),
    [
        pytest.param([QUESTION, THOUGHT, ANSWER], BOTH, '<H>q</H><T>', id='all speak'),
        pytest.param([QUESTION, ANSWER], BOTH, '<H>q</H><T>', id='the first that generates is left out'),
        pytest.param([QUESTION], BOTH, '<H>q</H><T>', id='both are left out'),
        pytest.param([QUESTION, THOUGHT], BOTH, '<H>q</H><T>', id='the second is left out'),
        pytest.param([human(''), ANSWER], BOTH, '<H></H><T>', id='only the second says something'),
        pytest.param(
            [QUESTION, ANSWER], meta('THOUGHTS', 'BOT', default='hm'), '<H>q</H><T>', id='a default is no answer'
        ),
        pytest.param(
            [human('1'), thoughts('2'), bot('3'), QUESTION, THOUGHT, ANSWER],
            BOTH,
            '<H>1</H><T>2</T><B>3</B><H>q</H><T>',
            id='earlier rounds are complete',
        ),
        pytest.param([QUESTION, THOUGHT, ANSWER], meta('BOT'), '<H>q</H><T>I think IDEA</T><B>', id='only one'),
        pytest.param([QUESTION, ANSWER], meta('THOUGHTS'), '<H>q</H><T>', id='the only one is left out'),
        pytest.param(
            [QUESTION, ANSWER], meta('THOUGHTS', default='None'), '<H>q</H><T>', id='the only one, with a default'
        ),
        pytest.param([ANSWER, QUESTION], meta('THOUGHTS'), '<B>It is </B><H>q</H><T>', id='a question that comes late'),
        pytest.param(
            [human('1'), bot('2'), QUESTION, ANSWER],
            meta('THOUGHTS'),
            '<H>1</H><B>2</B><H>q</H><T>',
            id='the only one is left out in every round',
        ),
    ],
)
def test_generation_stops_at_the_first_role_that_generates(said: list[Any], side: Any, expected: str) -> None:
    assert text({'round': said}, side) == expected
    assert 'GOLD' in text({'round': [*said, bot('{answer}')]}, side, mode='ppl')


@pytest.mark.parametrize(
    ('said', 'side', 'expected'),
    [
        pytest.param(
            [QUESTION, THOUGHT, {**ANSWER, 'generate': True}],
            meta(),
            '<H>q</H><T>I think IDEA</T><B>',
            id='one who does not otherwise',
        ),
        pytest.param([QUESTION, {**ANSWER, 'generate': False}], LM, '<H>q</H><B>It is </B>', id='nobody after all'),
        pytest.param(
            [QUESTION, {**THOUGHT, 'generate': False}, ANSWER], BOTH, '<H>q</H><T>I think IDEA</T><B>', id='the second'
        ),
        pytest.param([{**QUESTION, 'generate': True}, ANSWER], BOTH, '<H>', id='even the one who asks'),
        pytest.param(
            [QUESTION, bot('1', generate=False), QUESTION, ANSWER],
            LM,
            '<H>q</H><B>1</B><H>q</H><B>',
            id='in the last round only',
        ),
    ],
)
def test_a_speech_says_itself_whether_the_model_gives_it(said: list[Any], side: Any, expected: str) -> None:
    assert text({'round': said}, side) == expected


NEVER = {'role': 'THOUGHTS', 'begin': '<T>', 'end': '</T>', 'generate': False}


@pytest.mark.parametrize(
    ('said', 'role', 'expected', 'whole'),
    [
        pytest.param([QUESTION, ANSWER], NEVER, '<H>q</H><T></T><B>', '<H>q</H><T></T><B>It is GOLD</B>', id='skipped'),
        pytest.param([QUESTION], NEVER, '<H>q</H><T></T><B>', '<H>q</H><T></T>', id='at the end'),
        pytest.param(
            [human('1'), bot('2'), QUESTION, ANSWER],
            NEVER,
            '<H>1</H><T></T><B>2</B><H>q</H><T></T><B>',
            '<H>1</H><T></T><B>2</B><H>q</H><T></T><B>It is GOLD</B>',
            id='in every round',
        ),
        pytest.param(
            [QUESTION, THOUGHT, ANSWER],
            NEVER,
            '<H>q</H><T>I think IDEA</T><B>',
            '<H>q</H><T>I think IDEA</T><B>It is GOLD</B>',
            id='spoken',
        ),
        pytest.param(
            [QUESTION, ANSWER],
            {**NEVER, 'prompt': 'hm'},
            '<H>q</H><T>hm</T><B>',
            '<H>q</H><T>hm</T><B>It is GOLD</B>',
            id='with a default',
        ),
    ],
)
def test_a_role_that_never_generates_is_written_without_words(
    said: list[Any], role: Any, expected: str, whole: str
) -> None:
    side = {'round': [LM['round'][0], role, LM['round'][1]]}
    assert text({'round': said}, side) == expected
    assert text({'round': said}, side, mode='ppl') == whole
    assert MetaTemplate.read({'round': [{'role': 'X', 'generate': False}]}).roles['X'].default is None


SILENT = {'role': 'THOUGHTS', 'begin': '<T>', 'end': '</T>'}


@pytest.mark.parametrize('inferencer', ['GenInferencer', 'PPLInferencer', 'MultiTurnGenInferencer'])
@pytest.mark.parametrize('api', [False, True], ids=['text', 'api'])
def test_a_role_without_a_prompt_in_dataset_and_meta_template_is_refused_and_the_remedies_work(
    api: bool, inferencer: str
) -> None:
    kind = 'MultiTurnPromptTemplate' if inferencer.startswith('Multi') else 'PromptTemplate'

    def prompts(role: dict[str, Any], *speeches: Any) -> Any:
        side = {'round': [LM['round'][0], role, LM['round'][1]]}
        if api:
            side = {
                'round': [
                    {**item, 'api_role': 'BOT' if item is not side['round'][0] else 'HUMAN'} for item in side['round']
                ]
            }
        round_: Any = {'round': [QUESTION, *speeches, ANSWER]}
        written = {'a': round_, 'b': round_} if inferencer.startswith('PPL') else round_
        given = config([ROW], template(written, type=kind), meta=side, api=api, inferencer={'type': inferencer})
        return str([shown.request for shown in preview(given)])

    with pytest.raises(ConfigError) as refused:
        prompts(SILENT)
    assert str(refused.value) == (
        'datasets[0] × models[0].meta_template\n'
        '  the role THOUGHTS of the round has no prompt, and the dataset has no THOUGHTS speech.\n'
        '  Add a THOUGHTS speech to the dataset, or give the role prompt=… in the meta template '
        "(prompt='' sends its markers alone), or generate=True if the model writes it."
    )
    assert 'I think IDEA' in prompts(SILENT, THOUGHT)
    assert '<T>hm</T>' in prompts({**SILENT, 'prompt': 'hm'})
    assert '<T></T>' in prompts({**SILENT, 'prompt': ''})
    assert prompts({**SILENT, 'generate': True})


@pytest.mark.parametrize(
    ('side', 'expected'),
    [
        pytest.param([LM['round'][0], {**SILENT, 'role': 'SYSTEM'}, LM['round'][1]], '<H>q</H><B>', id="the system's"),
        pytest.param([LM['round'][0], '~', LM['round'][1]], '<H>q</H>~<B>', id='a bare string'),
    ],
)
def test_a_dataset_may_leave_out_the_system_and_the_model(side: list[Any], expected: str) -> None:
    assert text({'round': [QUESTION]}, {'round': side}) == expected
    assert text({'round': [QUESTION]}, {'round': side}, mode='ppl') == expected.removesuffix('<B>')
    assert text('plain {question}', {'round': [SILENT, *side]}) == 'plain q'


def test_a_role_that_only_the_examples_speak_has_its_prompt() -> None:
    wording = Wording(
        PromptTemplate({'begin': ['</E>'], 'round': [QUESTION]}, ice_token='</E>'),
        PromptTemplate({'round': [QUESTION, THOUGHT]}),
        output_column='answer',
    )
    assert compile(wording, TextRenderer(MetaTemplate.read(meta('BOT'))))(ROW) == '<H>q</H><B>'


def test_a_role_that_never_generates_is_no_message() -> None:
    never = {'role': 'THOUGHTS', 'api_role': 'BOT', 'generate': False}
    side = {'round': [API['round'][0], never, API['round'][1]]}
    program = compile(
        Wording(PromptTemplate({'round': [QUESTION, ANSWER]}), output_column='answer'),
        ApiRenderer(MetaTemplate.read(side)),
    )
    assert program(ROW) == [{'role': 'user', 'content': 'q'}]


@pytest.mark.parametrize(
    ('end', 'expected'),
    [
        pytest.param(['Mind.'], '<H>q</H>Mind.<T>', id='words'),
        pytest.param([thoughts('t'), bot('b')], '<H>q</H><T>', id='both'),
        pytest.param([human('go'), bot('b')], '<H>q</H><H>go</H><B>', id='the second'),
        pytest.param([human('now', generate=True)], '<H>q</H><H>', id='a speech that says so'),
    ],
)
def test_an_end_section_is_not_lost_before_several_that_generate(end: list[Any], expected: str) -> None:
    assert text({'round': [QUESTION], 'end': end}, BOTH) == expected


def test_words_behind_the_place_of_the_answer_are_noted_and_hidden_ones_are_not() -> None:
    def told(*said: Any) -> list[tuple[str, str]]:
        wording = Wording(PromptTemplate({'round': list(said)}), output_column='answer')
        return [(note.kind, note.text) for note in compile(wording, TextRenderer(MetaTemplate.read(BOTH))).notes]

    assert told(QUESTION, ANSWER) == [('not_sent', '<B>It is </B>')]
    assert told(QUESTION, bot('{answer}')) == []


def test_messages_stop_there_as_well() -> None:
    side = meta('THOUGHTS', 'BOT')
    for role, name in zip(side['round'], ('HUMAN', 'BOT', 'BOT'), strict=True):
        role['api_role'] = name
    written = {'round': [QUESTION, ANSWER]}
    program = compile(Wording(PromptTemplate(written), output_column='answer'), ApiRenderer(MetaTemplate.read(side)))
    assert program(ROW) == [{'role': 'user', 'content': '<H>q</H>'}]
    own = {'round': [QUESTION, bot('So: {answer}', generate=False)]}
    spoken = compile(Wording(PromptTemplate(own), output_column='answer'), ApiRenderer(MetaTemplate.read(API)))
    assert spoken(ROW) == [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'So: '}]


def test_generate_shows_in_the_prompt_and_must_be_true_or_false() -> None:
    written = {'round': [QUESTION, bot('{answer}', generate=True)]}
    (one,) = preview(config([ROW], template(written), meta=meta(default='hm')))
    assert one.prompt == [human('q'), bot('', generate=True)]
    with pytest.raises(TemplateError, match=r'round\[0\]\.generate\n  expected True or False'):
        PromptTemplate({'round': [human('{question}', generate='yes')]})
    with pytest.raises(ConfigError, match='expected True or False'):
        list(preview(config([ROW], template({'round': [bot('x', generate=1)]}), meta=LM)))


def test_a_reserved_role_that_generates_answers_without_the_defaults_of_the_round() -> None:
    side = {
        'round': [{'role': 'HUMAN', 'begin': '<H>', 'end': '</H>', 'prompt': 'hello'}],
        'reserved_roles': [{'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True}],
    }
    assert text({'begin': ['{question}'], 'round': []}, side) == 'q<B>'
    assert text({'round': [QUESTION]}, side) == '<H>q</H><B>'


def test_a_prompt_for_each_label_is_refused_for_generation_unless_a_label_is_given() -> None:
    wording = Wording(PromptTemplate({'yes': '{question} Yes.', 'no': '{question} No.'}))
    with pytest.raises(TemplateError, match='one prompt per label; generation needs a single prompt'):
        compile(wording, mode='gen')
    assert compile(wording, mode='gen', label='no')(ROW) == 'q No.'
    with pytest.raises(TemplateError, match='a label is needed'):
        compile(wording, mode='ppl')


def test_what_the_model_itself_says_after_the_answer_is_not_noted() -> None:
    after = {'role': 'AFTER', 'begin': '<A>', 'end': '</A>', 'prompt': 'bye'}
    side = MetaTemplate.read({'round': [*LM['round'], 'and', after]})
    for said in ([QUESTION, ANSWER], [QUESTION]):
        program = compile(Wording(PromptTemplate({'round': said}), output_column='answer'), TextRenderer(side))
        assert program(ROW) == '<H>q</H><B>'
        assert [note.text for note in program.notes] == (['It is '] if ANSWER in said else [])


@pytest.mark.parametrize(
    ('markers', 'content'),
    [({'begin': 'Q: '}, 'Q: q'), ({'end': '!'}, 'q!'), ({'begin': '(', 'end': ')'}, '(q)'), ({}, 'q')],
)
def test_messages_keep_the_markers_of_their_role(markers: dict[str, str], content: str) -> None:
    side = MetaTemplate.read({'round': [{**API['round'][0], **markers}, API['round'][1]]})
    wording = Wording(PromptTemplate({'round': [QUESTION, ANSWER]}), output_column='answer')
    assert compile(wording, ApiRenderer(side))(ROW) == [{'role': 'user', 'content': content}]


@pytest.mark.parametrize('affix', [{'a': 1}, 5.5, {1, 2}, [True], [-1], [None], True])
def test_an_affix_is_text_or_token_ids(affix: Any) -> None:
    with pytest.raises(TemplateError, match=r'round\[0\]\.begin.*\n  expected a string'):
        MetaTemplate.read({'round': [{'role': 'HUMAN', 'begin': affix}]})
    assert MetaTemplate.read({'begin': ['a', 0, 7]}).begin


@pytest.mark.parametrize(
    ('speech', 'whole'),
    [
        ({'role': 'BOT'}, '<H>q</H><B>It is GOLD</B>'),
        ({'role': 'EXPERT', 'fallback_role': 'BOT'}, '<H>q</H><B>It is GOLD</B>'),
        ({'role': 'HUMAN'}, '<H>q</H><H>It is </H><B>GOLD</B>'),
        ({'role': 'EXPERT', 'fallback_role': 'HUMAN'}, '<H>q</H><H>It is </H><B>GOLD</B>'),
    ],
)
def test_the_answer_is_shown_in_the_speech_of_the_model_alone(speech: dict[str, str], whole: str) -> None:
    wording = Wording(
        PromptTemplate({'round': [QUESTION, {**speech, 'prompt': 'It is {answer}'}]}), output_column='answer'
    )
    renderer = TextRenderer(MetaTemplate.read(LM))
    script = show_answer(wording.script(None, 'gen'), 'answer', renderer)
    assert Program(script, render_with(renderer, 'ppl'))(ROW) == whole
