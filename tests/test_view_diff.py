"""Two requests beside each other: every word is shown once on its side, and what differs is marked."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.experiment.experiment import preview
from rolecall.experiment.previews import differences
from rolecall.experiment.previews.differences import align_lines, diff_as_json, plain_diff
from rolecall.ui.views.side_by_side import show_diff
from rolecall.ui.views.terminal import make_console

LINES = st.lists(st.text(alphabet='ab <|>中\t', max_size=12), min_size=1, max_size=8)


def config(*models):
    return {
        'models': models,
        'datasets': [
            {
                'abbr': 'demo',
                'type': 'Rows',
                'test': [{'q': 'How are you today?', 'a': 'Fine'}],
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {
                    'prompt_template': {
                        'type': 'PromptTemplate',
                        'template': {'round': [{'role': 'HUMAN', 'prompt': '{q}'}, {'role': 'BOT', 'prompt': '{a}'}]},
                    }
                },
            }
        ],
    }


def text_model(abbr, begin, end):
    human = {'role': 'HUMAN', 'begin': begin, 'end': end}
    bot = {'role': 'BOT', 'generate': True}
    return {
        'abbr': abbr,
        'type': 'HuggingFaceCausalLM',
        'path': 'none',
        'meta_template': {'round': [human, bot]},
    }


@pytest.fixture
def two():
    return list(preview(config(text_model('one', '<|user|>', '\n'), text_model('two', '[INST] ', ' [/INST]\n'))))


def side(changes, name):
    return '\n'.join(
        ''.join(text for text, _ in getattr(change, name)) for change in changes if getattr(change, name) is not None
    )


@pytest.mark.parametrize('long', [0, 10**9])
@given(left=LINES, right=LINES)
def test_each_side_keeps_all_its_words(long, left, right):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, '_LONG', long)
        changes = align_lines(left, right)
    assert side(changes, 'left').replace('\n', '') == ''.join(left)
    assert side(changes, 'right').replace('\n', '') == ''.join(right)


@given(LINES)
def test_equal_requests_have_no_difference(lines):
    changes = align_lines(lines, lines)
    assert all(change.same for change in changes)
    assert len(changes) == len(lines)


def test_words_are_matched_across_different_line_breaks():
    (change, *_) = align_lines(['<|user|>', 'How are you?'], ['[INST] How are you?'])
    assert change.left == (('<|user|>\n', True), ('How are you?', False))
    assert change.right == (('[INST] ', True), ('How are you?', False))


def test_scripts_without_spaces_are_compared_by_character():
    (change,) = align_lines(['今天天气好'], ['今天心情好'])
    assert change.left == (('今天', False), ('天气', True), ('好', False))


def test_a_special_token_differs_as_a_whole():
    (change,) = align_lines(['a<|im_start|>b'], ['a<|im_end|>b'])
    assert change.left == (('a', False), ('<|im_start|>', True), ('b', False))


def test_plain_differences_stand_in_brackets(two):
    assert list(plain_diff(*two)) == [
        '--- demo × one · row 0 · gen',
        '+++ demo × two · row 0 · gen',
        '- [-<|user|>-]How are you today?',
        '+ {+[INST] +}How are you today?{+ [/INST]+}',
        '  ',
    ]


def test_json_has_both_requests_and_the_changes(two):
    shown = diff_as_json(*two)
    assert shown['same'] is False
    assert (shown['left']['model'], shown['right']['model']) == ('one', 'two')
    (change,) = shown['changes']
    assert change['left'][0] == {'text': '<|user|>', 'differs': True}
    assert diff_as_json(two[0], two[0])['changes'] == []


@pytest.mark.parametrize(('width', 'mark'), [(60, '+ [INST] How are you today? [/INST]'), (140, '≠')])
def test_wide_terminals_show_columns_and_narrow_ones_show_lines(two, width, mark):
    out = io.StringIO()
    show_diff(*two, make_console(out, width=width))
    assert mark in out.getvalue()
    assert '1 of 2 rows differ' in out.getvalue()


def test_a_long_prompt_is_compared_in_moderate_time():
    left = [f'line {n} says something about {n * 7 % 13}' for n in range(4000)]
    right = [line if n % 50 else f'{line}, changed' for n, line in enumerate(left)]
    assert sum(not change.same for change in align_lines(left, right)) == 80
