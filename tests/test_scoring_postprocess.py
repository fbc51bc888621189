"""What is taken out of a reply."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall import patterns
from rolecall.errors import ConfigError
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.code.extraction import longest_program
from rolecall.scoring.postprocessors import POSTPROCESSORS, extract_role, read_postprocessor
from rolecall.scoring.readers.native import last_number

CASES: list[tuple[str, dict[str, Any], str, Any]] = [
    ('first_capital_postprocess', {}, 'the answer is C.', 'C'),
    ('first_capital_postprocess', {}, 'none', ''),
    ('last_capital_postprocess', {}, 'A or B?', 'B'),
    ('first_capital_postprocess_multi', {}, '答案：ACD', 'ACD'),
    ('multiple_select_postprocess', {}, 'D, C, A and D', 'ACD'),
    ('first_number_postprocess', {}, '1,000 apples and 2', 1000.0),
    ('first_number_postprocess', {}, 'about -3.5', -3.5),
    ('first_number_postprocess', {}, 'x=1e5', 1e5),
    ('first_number_postprocess', {}, 'no number', None),
    ('gsm8k_postprocess', {}, 'The answer is 42.', '42'),
    ('gsm8k_postprocess', {}, 'So 3 + 4 = 7. #### 1,234', '1234'),
    ('gsm8k_postprocess', {}, '#### 5\nChecked in 2 ways', '5'),
    ('gsm8k_postprocess', {}, 'A total of $1,234.50.', '1234.50'),
    ('gsm8k_postprocess', {}, 'It is 10.\n\nQuestion: Next one 55', '10'),
    ('gsm8k_postprocess', {}, 'that is 2-3', '3'),
    ('gsm8k_postprocess', {}, 'it is -7 degrees', '-7'),
    ('gsm8k_postprocess', {}, 'no number', ''),
    ('gsm8k_dataset_postprocess', {}, 'They ate 1,000.\n#### 1,200', '1200'),
    ('gsm8k_dataset_postprocess', {}, '1,200', '1200'),
    ('math_postprocess', {}, 'x = 5. The answer is 6', '6'),
    ('math_postprocess', {}, 'The final answer is $x+1$. I hope it is correct.', 'x+1'),
    ('math_postprocess_v2', {}, r'so \boxed{\frac{1}{2}}', r'\frac{1}{2}'),
    ('math_postprocess_v2', {}, r'\boxed{a}, no, \boxed{\boxed{b}}', 'b'),
    ('math_postprocess_v2', {}, r'\boxed{3} and then \boxed{cut', '3'),
    ('math_postprocess_v2', {}, '"B"', 'B'),
    ('math_postprocess_v2', {}, '“北京”。', '北京'),
    ('math_postprocess_v2', {}, '**Paris**', 'Paris'),
    ('math_postprocess_v2', {}, r'\boxed{\{1, 2\}}', r'\{1, 2\}'),
    ('math_postprocess_v2', {}, 'The final answer is 12,000.', '12000'),
    ('math_postprocess_v2', {}, r'hence \(x = 3\)', 'x = 3'),
    ('math_postprocess_v2', {}, 'we have 0.5', '0.5'),
    ('math_postprocess_v2', {}, 'who knows', None),
    ('bbh_mcq_postprocess', {}, 'So the answer is (B).', 'B'),
    ('bbh_mcq_postprocess', {}, 'the answer is not (A) but (B)', 'B'),
    ('bbh_mcq_postprocess', {}, 'I think B', 'B'),
    ('bbh_freeform_postprocess', {}, 'So the answer is **False**.', 'False'),
    ('bbh_freeform_postprocess', {}, '**Answer**: True', 'True'),
    ('bbh_freeform_postprocess', {}, 'the answer is ) } ].', ') } ]'),
    ('bbh_freeform_postprocess', {}, 'no', 'No'),
    ('bbh_freeform_postprocess', {}, 'So the answer is 18.\n\nQ: What is next?\nA: So the answer is 99.', '18'),
    ('general_postprocess', {}, 'The Eiffel Tower.', 'Eiffel Tower'),
    ('general_postprocess', {}, 'It is a dog, and more', 'It is dog'),
    ('general_postprocess', {}, 'U.S.A.', 'USA'),
    ('general_postprocess', {}, '3.14 is pi', '3.14 is pi'),
    ('general_cn_postprocess', {}, '我不知道', '我 不 知道'),
    ('triviaqa_postprocess', {}, '\nParis\nIt is', 'Paris'),
    ('match_answer_pattern', {'answer_pattern': r'(?i)Answer\s*:\s*([A-D])'}, 'answer: C', 'C'),
    ('match_answer_pattern', {'answer_pattern': 'yes|no'}, 'oh no', 'no'),
    ('match_answer_pattern', {'answer_pattern': '(x)?y'}, 'y', ''),
    ('xml_tag_postprocessor', {'tag': '<answer>'}, '<answer>x</answer><answer>y</answer>', 'y'),
    ('think_pred_postprocess', {'re_pattern': '</think>(.*)'}, 'hm</think> 4', '4'),
    ('extract_non_reasoning_content', {}, '<think>a</think>x<think>b</think>y', 'xy'),
    ('extract_non_reasoning_content', {}, 'so </think> 42', '42'),
    ('extract_non_reasoning_content', {}, '<think>never ending', ''),
    ('extract_non_reasoning_content', {}, '<think>a<think>b</think>c</think>d', 'd'),
    (
        'extract_non_reasoning_content',
        {'think_start_token': '[T]', 'think_end_token': '[/T]'},
        '[T]hm[/T] <think>',
        '<think>',
    ),
    ('humaneval_postprocess_v2', {}, 'Here:\n```python\nx = 1\n```\n```\ny\n```', 'x = 1\n'),
    ('humaneval_postprocess_v2', {}, 'Here:\n```python\nx = 1', 'x = 1'),
    ('humaneval_postprocess_v2', {}, '\n    return 1\n', '    return 1'),
    ('humaneval_postprocess_v3', {}, '```\nx\n```\n```\ny\n```', 'y\n'),
]


@pytest.mark.parametrize(('name', 'options', 'reply', 'found'), CASES)
def test_a_postprocessor_finds_what_people_mean(name: str, options: dict[str, Any], reply: str, found: Any) -> None:
    assert read_postprocessor({'type': name, **options}, read_as='own')(reply) == found


@pytest.mark.parametrize(
    ('reply', 'begin', 'end', 'said'),
    [
        ('<BOT>: 42<eob>\nHUMAN: next', '<BOT>: ', '<eob>', '42'),
        (' <BOT>:42', '<BOT>: ', '<eob>', '42'),
        ('42<eob>\nHUMAN: more\n<BOT>: 43<eob>', '<BOT>: ', '<eob>', '42'),
        ('line one\nline two', '', '\n', 'line one\nline two'),
    ],
)
def test_only_what_the_role_itself_said_is_read(reply: str, begin: str, end: str, said: str) -> None:
    assert extract_role(reply, begin=begin, end=end) == said


@pytest.mark.parametrize('name', ['first-option', 'first_option', 'opencompass.utils.first_option_postprocess'])
def test_a_postprocessor_has_short_and_dotted_names(name: str) -> None:
    assert read_postprocessor({'type': name, 'options': 'AB'})('B') == 'B'


def test_a_function_of_the_user_is_a_postprocessor_with_its_own_options() -> None:
    def shout(text: str, times: int = 1) -> str:
        return text.upper() + '!' * times

    assert read_postprocessor({'type': shout, 'times': 2})('hi') == 'HI!!'
    assert read_postprocessor(shout)(7) == '7!'


@pytest.mark.parametrize(
    ('entry', 'message'),
    [
        ({'type': 'first_option_postproces', 'options': 'AB'}, "Did you mean 'first_option_postprocess'"),
        ({'type': 'first_option_postprocess'}, "needs the option 'options'"),
        ({'type': 'first_option_postprocess', 'option': 'AB'}, "Did you mean 'options'"),
        ({'type': 'match_answer_pattern', 'answer_pattern': '('}, 'not a regular expression'),
        ({'type': 'match_answer_pattern', 'answer_pattern': 3}, 'not a regular expression'),
        ({'options': 'AB'}, "expected a name, a function or a dict with 'type'"),
        (3, "expected a name, a function or a dict with 'type'"),
    ],
)
def test_a_postprocessor_that_cannot_be_used_says_why(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_postprocessor(entry, where='pred_postprocessor')


NEEDED = {
    'first_option_postprocess': {'options': 'ABCD'},
    'last_option_postprocess': {'options': 'ABCD'},
    'match_answer_pattern': {'answer_pattern': 'x(y)'},
    'xml_tag_postprocessor': {'tag': 'answer'},
    'choice_postprocess': {'choices': ['A', 'B']},
    'think_pred_postprocess': {'re_pattern': 'x(y)'},
}


@pytest.mark.parametrize('name', POSTPROCESSORS)
@given(reply=st.text(alphabet='AB ab1.,$\\{}()*<>\n答案是：Iis', max_size=60))
def test_no_reply_makes_a_postprocessor_fail(name: str, reply: str) -> None:
    read_postprocessor({'type': name, **NEEDED.get(name, {})})(reply)


@pytest.mark.parametrize('name', [name for name in POSTPROCESSORS if name != 'general_cn_postprocess'])
def test_reading_takes_time_in_proportion_to_the_reply(name: str) -> None:
    extract = read_postprocessor({'type': name, **NEEDED.get(name, {})})
    pieces = ('answer is ', 'A, ', '\\boxed{', '\\(', '$', '<answer>', '```\n', '1,', 'not A ', '*', '\n', 'Wait, ')

    def seconds(size: int) -> float:
        before = time.process_time()
        for piece in pieces:
            extract(piece * (size // len(piece)))
        return time.process_time() - before

    short, long = (min(seconds(size) for _ in range(2)) for size in (2_000, 16_000))
    assert long / max(short, 4e-3) < 32


@pytest.mark.parametrize('line', ['(', 'x = (', 'Some words of prose.', '"""', 'if x:'])
def test_a_program_before_hundreds_of_broken_lines_is_found(line: str) -> None:
    assert longest_program(f'x = 1\n{line}\n' + f'{line}\n' * 500).startswith('x = 1')


_PIECES = [
    'a',
    'is',
    'minus',
    'Negative',
    ' ',
    '1',
    '12',
    '345',
    '.',
    ',',
    '-',
    '/',
    '×',
    'x',
    '^',
    ':',
    '\n',
    '$',
    '½',
    '10',
]


@given(st.lists(st.sampled_from(_PIECES), max_size=8).map(''.join), st.sampled_from([' ', 's ', ': ', 'minus ']))
def test_a_number_at_the_end_is_read_as_it_is_before_other_words(text: str, word: str) -> None:
    assert last_number(f'{text}{word}27.') == last_number(f'{text}{word}27. Yes')


@pytest.mark.parametrize(
    'entry',
    [
        {'type': 'match_answer_pattern', 'answer_pattern': '(a+)+$'},
        {'type': 'think_pred_postprocess', 're_pattern': '(a+)+$'},
    ],
)
def test_a_pattern_of_a_config_that_takes_forever_fails_the_row_alone(
    entry: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, 'PATTERN_SECONDS', 0.5)
    with pytest.raises(ScoringError, match='took more than'):
        read_postprocessor(entry)('a' * 40 + 'b')
    assert read_postprocessor(entry)('aaa') == 'aaa'
