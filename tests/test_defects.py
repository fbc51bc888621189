"""Defects that users of the existing systems live with. Each is reproduced there; none may exist here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from helpers import API, LM, bot, config, human, requests, shown, system, template
from rolecall import ConfigError, PromptList
from rolecall.errors import RenderError, TemplateError
from rolecall.experiment.experiment import preview

PPL = {'type': 'PPLInferencer'}
QA = [{'question': 'q', 'answer': 'a'}]
ROUND = {'round': [human('{question}'), bot('{answer}')]}


def test_01_text_of_one_field_is_not_scanned_for_another() -> None:
    row = {'question': r'Find \det of \mathbf{A} and {C}', 'A': '3', 'B': '4', 'C': '5', 'answer': 'A'}
    asked = requests([row], template('{question}\nA. {A}\nB. {B}'), columns=['question', 'A', 'B', 'C'])
    assert asked == ['Find \\det of \\mathbf{A} and {C}\nA. 3\nB. 4']


def test_02_no_column_leaks_through_data() -> None:
    row = {'question': 'What? {solution}', 'solution': 'SECRET-CHAIN', 'answer': '7'}
    assert requests([row], template('Q: {question}\nA: {answer}')) == ['Q: What? {solution}\nA: ']


def test_03_the_gold_answer_does_not_leak_when_labels_are_weighed() -> None:
    row = {'question': 'Fill {answer} in', 'answer': 'GOLD'}
    asked = requests([row], template({'yes': '{question} yes', 'no': '{question} no'}), inferencer=PPL)
    assert asked == ['Fill {answer} in yes', 'Fill {answer} in no']


def test_04_examples_are_not_filled_again_with_the_test_row() -> None:
    train = [{'question': r'\frac{question}{2}', 'answer': '1'}]
    asked = requests(
        [{'question': 'TESTQ', 'answer': '9'}],
        template('</E>{question}\n{answer}', ice_token='</E>'),
        template('{question}\n{answer}'),
        train,
    )
    assert asked == ['\\frac{question}{2}\n1\nTESTQ\n']


def test_05_a_misspelt_field_stays_and_is_told() -> None:
    (one,) = shown([{'question': '1+1', 'answer': '2'}], template('Q: {quesiton}\nA:'))
    assert one.request == 'Q: {quesiton}\nA:'
    assert [span.text for span in one.spans if span.origin.kind == 'unfilled'] == ['{quesiton}']


def test_06_values_that_are_no_strings_have_a_text_form_and_no_python_repr() -> None:
    row = {'question': ['a', 'b'], 'ctx': None, 'answer': '2'}
    assert requests([row], template('{question}|{ctx}|'), columns=['question', 'ctx']) == ['["a", "b"]||']


def test_07_a_users_own_columns_are_left_alone() -> None:
    row = {'question': 'q', 'idx': 'MY-ID-77', 'answer': '2'}
    assert requests([row], template('{idx} {subdivision} {question}')) == ['MY-ID-77 {subdivision} q']


def test_08_raw_messages_hide_the_output_column() -> None:
    raw = {
        'type': 'RawPromptTemplate',
        'messages': [{'role': 'user', 'content': '{question}'}, {'role': 'assistant', 'content': '{answer}'}],
    }
    (asked,) = requests([{'question': '1+1=?', 'answer': 'GOLD2'}], raw, api=True)
    assert asked == [{'role': 'user', 'content': '1+1=?'}]


def test_09_the_sep_token_is_gone_from_examples() -> None:
    asked = requests(
        QA,
        template({'x': '</E>{question}<SEP>x'}, ice_token='</E>', sep_token='<SEP>'),
        template('{question}<SEP>{answer}', sep_token='<SEP>'),
        [{'question': 'tq', 'answer': 'ta'}],
        inferencer=PPL,
    )
    assert asked == ['tqta\nqx']


def test_10_an_empty_ice_token_is_refused() -> None:
    with pytest.raises(ConfigError, match='ice_token is empty'):
        requests(
            QA, template('Q:{question}', ice_token=''), template('[{question}]'), [{'question': 't', 'answer': 'x'}]
        )


def test_11_string_examples_in_a_dialogue_reach_an_api() -> None:
    written = {'begin': ['Intro text', '</E>'], 'round': [human('{question}'), bot('{answer}')]}
    args = (
        QA,
        template(written, ice_token='</E>'),
        template('{question}={answer}'),
        [{'question': 't', 'answer': 'x'}],
    )
    assert requests(*args, meta=LM) == ['Intro textt=x\n<H>q</H><B>']
    (one,) = shown(*args, meta=API, api=True)
    assert one.request == [{'role': 'user', 'content': 'Intro text\nt=x\nq'}]
    assert 'moved' in [note.kind for note in one.notes]


@pytest.mark.parametrize(
    ('prompt', 'remedy'),
    [
        pytest.param({'round': [human('</E>{question}')]}, 'between speeches', id='12 inside a speech'),
        pytest.param('</E>{question}', 'Make the prompt template a dialogue', id='13 in a string'),
        pytest.param({'begin': [system('sys')], 'round': [human('{question}')]}, "Put '</E>'", id='14 nowhere'),
    ],
)
def test_examples_that_no_place_can_carry_are_refused_before_the_run(prompt: Any, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        requests(QA, template(prompt, ice_token='</E>'), template(ROUND), [{'question': 't', 'answer': 'x'}])


def test_15_labels_with_a_generating_inferencer_are_refused() -> None:
    with pytest.raises(ConfigError, match='sends a single prompt'):
        requests(QA, template({'yes': '{question} yes', 'no': '{question} no'}))


def test_16_one_dialogue_weighed_by_labels_has_labels_and_not_section_names() -> None:
    written = {'begin': [system('s')], 'round': [human('{question}'), bot('{answer}')]}
    with pytest.raises(ConfigError, match='compares labels, but none are given'):
        requests(QA, template(written), inferencer=PPL, meta=LM)
    asked = shown(QA, template(written), inferencer={**PPL, 'labels': ['x', 'y']}, meta=LM)
    assert {one.label: one.request for one in asked} == {
        'x': '<H>s</H><H>q</H><B>x</B>',
        'y': '<H>s</H><H>q</H><B>y</B>',
    }


def test_17_labels_keep_their_order_whatever_the_hash_seed() -> None:
    code = (
        'from rolecall.experiment.experiment import preview\n'
        't={l: "{question} "+l for l in "DBCA"}\n'
        'c=dict(datasets=[dict(abbr="d", type="Rows", test=[dict(question="q", answer="A")],'
        ' reader_cfg=dict(input_columns=["question"], output_column="answer"),'
        ' infer_cfg=dict(prompt_template=dict(template=t), inferencer=dict(type="PPLInferencer")))])\n'
        'print([p.label for p in preview(c)])'
    )
    seen = {
        subprocess.run(
            [sys.executable, '-c', code],
            env={**os.environ, 'PYTHONHASHSEED': seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ('1', '2')
    }
    assert seen == {"['D', 'B', 'C', 'A']\n"}


def test_18_the_end_section_works_in_every_mode() -> None:
    written = {'round': [human('{question}'), bot('{answer}')], 'end': [human('bye')]}
    weigh = {**PPL, 'labels': ['x']}
    assert requests(QA, template(written), meta=LM, inferencer=weigh) == ['<H>q</H><B>x</B><H>bye</H>']
    assert requests(QA, template(written), meta=API, api=True, inferencer=weigh) == [
        [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'x'}, {'role': 'user', 'content': 'bye'}]
    ]
    (one,) = shown(QA, template(written), meta=LM)
    assert one.request == '<H>q</H><B>'
    assert [note.text for note in one.notes if note.kind == 'not_sent'] == ['<H>bye</H>']
    before = {'round': [human('{question}')], 'end': [human('Be brief.')]}
    assert requests(QA, template(before), meta=LM) == ['<H>q</H><H>Be brief.</H><B>']
    assert requests(QA, template(before), meta=API, api=True) == [[{'role': 'user', 'content': 'q\nBe brief.'}]]
    assert requests(QA, template({**before, 'end': 'Go.'})) == ['q\nGo.']


def test_19_two_speeches_of_one_role_invent_no_empty_answer() -> None:
    written = {'round': [human('context'), human('{question}'), bot('{answer}')]}
    assert requests(QA, template(written), meta=LM) == ['<H>context</H><H>q</H><B>']
    assert requests(QA, template(written), meta=API, api=True) == [[{'role': 'user', 'content': 'context\nq'}]]


def test_20_a_fallback_works_inside_the_round() -> None:
    written = {'round': [system('sys'), human('{question}'), bot('{answer}')]}
    (one,) = shown(QA, template(written), meta=LM)
    assert one.request == '<H>sys</H><H>q</H><B>'
    assert [note.kind for note in one.notes] == ['fallback']
    assert [span.origin.fallback for span in one.spans if span.text == 'sys'] == ['HUMAN']
    assert requests(QA, template(written), meta=API, api=True) == [[{'role': 'user', 'content': 'sys\nq'}]]


def test_21_speeches_in_another_order_invent_nothing() -> None:
    written = {'round': [bot('Hi, ask me'), human('{question}'), bot('{answer}')]}
    assert requests(QA, template(written), meta=LM) == ['<B>Hi, ask me</B><H>q</H><B>']


def test_22_a_chat_model_gets_no_stray_line_break() -> None:
    written = {'round': [human('Q1'), bot('A1'), human('Q2'), bot('')]}
    model = {'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none'}
    assert requests(QA, template(written), model=model) == [
        [{'role': 'user', 'content': 'Q1'}, {'role': 'assistant', 'content': 'A1'}, {'role': 'user', 'content': 'Q2'}]
    ]


def test_23_an_answer_in_the_begin_section_does_not_stop_an_api() -> None:
    written = {'begin': [human('ex'), bot('ok')], 'round': [human('{question}'), bot('{answer}')]}
    assert requests(QA, template(written), meta=LM) == ['<H>ex</H><B>ok</B><H>q</H><B>']
    assert requests(QA, template(written), meta=API, api=True) == [
        [{'role': 'user', 'content': 'ex'}, {'role': 'assistant', 'content': 'ok'}, {'role': 'user', 'content': 'q'}]
    ]


def test_24_a_template_that_only_answers_gives_an_empty_conversation() -> None:
    only = {'round': [{'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    assert requests(QA, template({'round': [bot('{answer}')]}), meta=only, api=True) == [[]]


def test_25_begin_and_end_of_an_api_meta_template_are_carried() -> None:
    meta = {'begin': 'You are X', 'end': 'bye', **API}
    assert requests(QA, template(ROUND), meta=meta, api=True) == [[{'role': 'user', 'content': 'You are X\nq'}]]
    weigh = {**PPL, 'labels': ['x']}
    assert requests(QA, template(ROUND), meta=meta, api=True, inferencer=weigh) == [
        [
            {'role': 'user', 'content': 'You are X\nq'},
            {'role': 'assistant', 'content': 'x'},
            {'role': 'user', 'content': 'bye'},
        ]
    ]


def test_26_an_unknown_role_is_refused_with_a_remedy() -> None:
    written = {'begin': [{'role': 'TOOL', 'prompt': 'x'}], 'round': [human('{question}')]}
    with pytest.raises(ConfigError, match='a TOOL speech; the model has no role TOOL.*fallback_role'):
        requests(QA, template(written), meta=LM)


def test_27_without_a_meta_template_an_empty_speech_leaves_no_line() -> None:
    written = {'begin': [system('')], 'round': [human('{question}'), bot('Answer: {answer}')]}
    assert requests(QA, template(written)) == ['q\nAnswer: ']


def test_28_raw_messages_work_with_a_text_model() -> None:
    raw = {
        'type': 'RawPromptTemplate',
        'messages': [{'role': 'system', 'content': 's'}, {'role': 'user', 'content': '{question}'}],
    }
    assert requests(QA, raw) == ['s\nq']
    assert requests(QA, raw, meta=LM) == ['<H>s</H><H>q</H><B>']


def test_29_raw_messages_with_string_examples_are_refused_and_can_be_weighed() -> None:
    raw = {'type': 'RawPromptTemplate', 'messages': ['</E>', {'role': 'user', 'content': '{question}'}]}
    with pytest.raises(TemplateError, match='the examples are strings'):
        requests(QA, raw, template('{question}={answer}'), [{'question': 't', 'answer': 'x'}], api=True)
    asked = {'type': 'RawPromptTemplate', 'messages': [{'role': 'user', 'content': '{question} {answer}?'}]}
    assert requests(QA, asked, api=True, inferencer={**PPL, 'labels': ['x']}) == [[{'role': 'user', 'content': 'q x?'}]]


@pytest.mark.parametrize('entry', ['</ICE>', {'expand_colum': 'history'}])
def test_30_a_misspelt_placeholder_is_refused(entry: Any) -> None:
    raw = {'type': 'RawPromptTemplate', 'messages': [entry, {'role': 'user', 'content': '{question}'}]}
    with pytest.raises(ConfigError, match='messages\\[0\\]'):
        requests(QA, raw, api=True)


def test_30_a_missing_column_of_messages_is_told() -> None:
    raw = {
        'type': 'RawPromptTemplate',
        'messages': [{'expand_column': 'history'}, {'role': 'user', 'content': '{question}'}],
    }
    with pytest.raises(RenderError, match="row 0: expand_column 'history' needs a list of messages"):
        requests([{'question': 'q', 'hist': []}], raw, api=True)


def test_31_text_that_mentions_role_and_content_is_text() -> None:
    meta = [{'role': 'user', 'content': 'extra '}]
    assert requests(
        [{'question': 'The role of content', 'answer': ''}], template('{question}'), meta=meta, api=True
    ) == [[{'role': 'user', 'content': 'extra The role of content'}]]


def test_32_a_list_plus_a_prompt_list_is_a_prompt_list() -> None:
    assert ['a'] + PromptList(['b']) == PromptList(['a', 'b']) == PromptList(['a']) + ['b']  # noqa: RUF005
    assert 'a' + PromptList(['b']) == ['a', 'b']


def test_33_multi_turn_last_is_one_history() -> None:
    turns = {'type': 'MultiTurnPromptTemplate', 'template': ROUND}
    (one,) = shown(
        [{'question': ['1+1=?', '2+2=?'], 'answer': ['2', '4']}],
        turns,
        api=True,
        meta=API,
        inferencer={'type': 'MultiTurnGenInferencer', 'infer_mode': 'last'},
    )
    assert one.request == [
        {'role': 'user', 'content': '1+1=?'},
        {'role': 'assistant', 'content': '2'},
        {'role': 'user', 'content': '2+2=?'},
    ]


def test_34_and_35_a_prompt_list_prints_readably() -> None:
    assert str(PromptList([human('你好'), bot('b')])) == 'HUMAN: 你好\nBOT: b'


def test_44_a_row_is_not_its_own_example() -> None:
    rows = [{'question': 'q0', 'answer': 'GOLD0'}, {'question': 'q1', 'answer': 'GOLD1'}]
    asked = shown(
        rows,
        template('</E>{question} -> {answer}', ice_token='</E>'),
        template('{question} -> {answer}'),
        rows,
        retriever={'type': 'FixKRetriever', 'fix_id_list': [0]},
    )
    assert [one.request for one in asked] == ['q1 -> GOLD1\nq0 -> ', 'q0 -> GOLD0\nq1 -> ']
    assert asked[0].skipped == (0,)


def test_50_and_51_a_dialogue_keeps_its_gold_answers_and_does_not_mix_with_others() -> None:
    rows = [
        {'question': ['A1', 'A2'], 'answer': ['2', '4']},
        {'question': ['B1', 'B2'], 'answer': ['6', '8']},
    ]
    before = json.dumps(rows)
    asked = shown(
        rows, template(ROUND), meta=API, api=True, inferencer={'type': 'ChatInferencer', 'infer_mode': 'every_with_gt'}
    )
    assert [(one.row, one.turn, [m['content'] for m in one.request]) for one in asked] == [  # type: ignore[union-attr]
        (0, 0, ['A1']),
        (0, 1, ['A1', '2', 'A2']),
        (1, 0, ['B1']),
        (1, 1, ['B1', '6', 'B2']),
    ]
    assert json.dumps(rows) == before


def test_59_a_config_is_not_changed_by_looking_at_it() -> None:
    whole = config(
        QA, template('</E>{question}', ice_token='</E>'), template('{question}'), [{'question': 't', 'answer': 'x'}]
    )
    before = json.dumps(whole)
    list(preview(whole))
    assert json.dumps(whole) == before


def test_64_a_stray_comma_behind_a_meta_template_does_no_harm() -> None:
    assert requests(QA, template(ROUND), meta=(LM,)) == ['<H>q</H><B>']


MEDIA = {
    'type': 'MMPromptTemplate',
    'template': {
        'round': [
            {
                'role': 'HUMAN',
                'prompt_mm': {
                    'text': {'type': 'text', 'text': '{hint} {question}'},
                    'image': {'type': 'image_url', 'image_url': {'url': 'file://{image}'}},
                },
            }
        ]
    },
}


def test_66_tags_may_stand_in_any_column_and_other_fields_are_filled() -> None:
    row = {
        'hint': 'h',
        'question': '<AIS_TEXT_START>hi<AIS_CONTENT_TAG><AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG>',
        'answer': '',
    }
    picture = {'type': 'image_url', 'image_url': {'url': 'file://a.jpg'}}
    (asked,) = requests([row], MEDIA, api=True, columns=['hint', 'question'])
    assert asked[0]['content'] == [{'type': 'text', 'text': 'h hi'}, picture]
    carried = {'hint': 'h', 'content': row['question'], 'answer': ''}
    (asked,) = requests([carried], MEDIA, api=True, columns=['hint', 'content'])
    assert asked[0]['content'] == [{'type': 'text', 'text': 'h hi'}, picture]


def test_67_untagged_text_stays_and_a_tag_inside_text_does_not_split_it() -> None:
    (asked,) = requests([{'hint': 'h', 'question': 'plain', 'answer': ''}], MEDIA, api=True)
    assert asked[0]['content'] == [{'type': 'text', 'text': 'h plain'}]
    row = {'hint': 'h', 'question': '<AIS_TEXT_START>what is <AIS_IMAGE_START>?<AIS_CONTENT_TAG>', 'answer': ''}
    (asked,) = requests([row], MEDIA, api=True)
    assert asked[0]['content'] == [{'type': 'text', 'text': 'h what is <AIS_IMAGE_START>?'}]


def test_68_media_prompts_take_examples_and_hide_the_answer() -> None:
    written = {
        'begin': ['</E>'],
        'round': [MEDIA['template']['round'][0], bot('{answer}')],  # type: ignore[index]
    }
    prompt = {'type': 'MMPromptTemplate', 'template': written, 'ice_token': '</E>'}
    rows = [{'hint': 'h', 'question': q, 'image': f'{q}.jpg', 'answer': f'is {q}'} for q in ('cat', 'dog')]
    ice = {'type': 'MMPromptTemplate', 'template': {'round': written['round']}}
    (asked,) = requests(rows[1:], prompt, ice, rows[:1], api=True)
    assert [(m['role'], m['content']) for m in asked] == [
        ('user', [{'type': 'text', 'text': 'h cat'}, {'type': 'image_url', 'image_url': {'url': 'file://cat.jpg'}}]),
        ('assistant', 'is cat'),
        ('user', [{'type': 'text', 'text': 'h dog'}, {'type': 'image_url', 'image_url': {'url': 'file://dog.jpg'}}]),
    ]


def test_70_multi_turn_columns_may_have_any_name_and_gold_does_not_leak() -> None:
    turns = {'type': 'MultiTurnPromptTemplate', 'template': {'round': [human('{q}'), bot('{a}')]}}
    asked = requests(
        [{'q': ['what {a}?', 'and?'], 'a': ['GOLD', 'x']}],
        turns,
        columns=['q'],
        output='a',
        meta=API,
        api=True,
        inferencer={'type': 'MultiTurnGenInferencer', 'infer_mode': 'every'},
    )
    assert [[m['content'] for m in one] for one in asked] == [['what {a}?'], ['what {a}?', 'answer1', 'and?']]
