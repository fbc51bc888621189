"""Judges' replies, and the verdict or rating a person reads in each."""

from __future__ import annotations

import pytest

from rolecall.scoring.metrics.judge_replies import read_attempt, read_rating
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.verdicts import verdict_in

VERDICTS = [  # reply, right; None: no verdict
    ('A', True),
    ('B', False),
    ('C', False),
    ('**A**', True),
    ('Grade: A', True),
    ('Grade: B', False),
    ('Judgement: B', False),
    ('Verdict: CORRECT', True),
    ('INCORRECT', False),
    ('The answer is correct.', True),
    ('The answer is not correct.', False),
    ("It isn't correct.", False),
    ('A: CORRECT', True),
    ('B: INCORRECT', False),
    ('A. The predicted answer matches the gold target.', True),
    ('The predicted answer matches the gold target, so A', True),
    ('The gold answer is B, the model answered B. Grade: A', True),
    ('The standard answer is A but the model said B. So the grade is B.', False),
    ('[[A]]', True),
    ('<answer>A</answer>', True),
    ('\\boxed{B}', False),
    ('```\nA\n```', True),
    ('My judgement is: A', True),
    ('Final verdict: **B**', False),
    ('I would grade this as A.', True),
    ('I would mark this as B (incorrect).', False),
    ('The response is correct. Therefore A.', True),
    ('正确', True),
    ('错误', False),
    ('判断：A', True),
    ('答案正确，评为A', True),
    ('不正确', False),
    ('<think>B?</think>A', True),
    ('A\n', True),
    ('a', True),
    ('Yes', None),
    ('Hmm, hard to say.', None),
    ('', None),
    ('A or B', None),
    ('CORRECT', True),
    ('Correct!', True),
    ('Incorrect.', False),
    ('Wrong.', False),
    ('Right.', True),
    ('The two answers are equivalent, hence A', True),
    ('They are not equivalent, hence B', False),
    ('{"grade": "A"}', True),
    ('{"judgement": "B", "reason": "A is the gold"}', False),
    ('Option A', True),
    ('A (correct)', True),
    ('B - the final number differs', False),
    ('GRADE: CORRECT', True),
    ('Final grade: **INCORRECT**', False),
    ('The student answer matches the reference. **A**', True),
    ('Since the answer differs, I choose B.', False),
    ('My verdict is B: INCORRECT', False),
    ('Result: A', True),
    ('"A"', True),
    ('(A)', True),
    ('A)', True),
    ('评判：B', False),
    ('结论：正确', True),
    ('该回答是错误的', False),
    ('回答与标准答案一致，因此判为A', True),
    ('The candidate answer is incorrect because the correct answer is 5.', False),
    ('Both are the same value; correct.', True),
]

RATINGS = [  # reply, rating
    ('Rating: [[7]]', 7),
    ('[[7.5]]', 7.5),
    ('Rating: 8', 8),
    ('Score: 8/10', 8),
    ('**Rating:** 8', 8),
    ('**Score: 9**', 9),
    ('I rate this 8 out of 10.', 8),
    ('8/10', 8),
    ('The score is 7.', 7),
    ('Overall rating: 6.5/10', 6.5),
    ('评分：8', 8),
    ('得分: 9分', 9),
    ('评分为8分', 8),
    ('综合得分：7', 7),
    ('[[10]]', 10),
    ('Rating: [[7]] ... Rating: [[8]]', 8),
    ('My final score: 4', 4),
    ('good', None),
    ('', None),
    ('Score of 8', 8),
    ('I give it an 8.', 8),
    ('Rating: ten', None),
    ('rating 8', 8),
    ('Rating: [8]', 8),
    ('{"rating": 8}', 8),
    ("{'score': 7}", 7),
    ('The final rating is [[9]].', 9),
    ('Rating:\n\n[[5]]', 5),
    ('Rating: 3 (out of 5)', 3),
    ('8', 8),
    ('On a scale of 1 to 10, I rate it 7.', 7),
    ('<rating>6</rating>', 6),
    ('Score = 6', 6),
]

ATTEMPTS = [  # reply, SimpleQA's grade
    ('A', 'A'),
    ('B', 'B'),
    ('C', 'C'),
    ('CORRECT', 'A'),
    ('INCORRECT', 'B'),
    ('NOT_ATTEMPTED', 'C'),
    ('NOT ATTEMPTED', 'C'),
    ('C: NOT_ATTEMPTED', 'C'),
    ('**C**', 'C'),
    ('Grade: C', 'C'),
    ('The model did not attempt the question. C', 'C'),
    ('The model said it does not know. Not attempted.', 'C'),
    ('B (INCORRECT)', 'B'),
    ('A\n\nThe answer is right', 'A'),
    ('Grade: B', 'B'),
    ('The answer is correct, not C, so A', 'A'),
    ('Vitamin C is right, so A.', 'A'),
]


@pytest.mark.parametrize(('reply', 'right'), VERDICTS)
def test_a_verdict_is_read(reply: str, right: bool | None) -> None:
    assert verdict_in(reply, 'A', 'B') is right


@pytest.mark.parametrize(('reply', 'rating'), RATINGS)
def test_a_rating_is_read(reply: str, rating: float | None) -> None:
    assert read_rating(reply, Answer('')) == rating


@pytest.mark.parametrize(('reply', 'grade'), ATTEMPTS)
def test_an_attempt_is_graded(reply: str, grade: str) -> None:
    mark = read_attempt(reply, Answer(''))
    assert mark is not None
    assert ('A' if mark.correct else 'B' if mark.parts['attempted'] else 'C') == grade
