"""From rows to a number: extraction, marks, outcomes, intervals."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.compat.opencompass.evaluator_names import UNSUPPORTED
from rolecall.errors import ConfigError, MissingExtraError, RolecallError
from rolecall.models.protocol import ModelError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import METRICS, judge_entry, read_evaluator
from rolecall.scoring.metrics.judge_replies import READINGS
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.postprocessors import POSTPROCESSORS
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import mean_interval, wilson
from rolecall.scoring.texts import plain_words
from rolecall.sources.config.reference import Reference
from tables import in_one


def scored(evaluator: Any, *pairs: tuple[Any, Any], judge: Any = None, **more: Any) -> Scorecard:
    rows = [Scorable(row, 'ok', prediction, gold) for row, (prediction, gold) in enumerate(pairs)]
    return build_scorer({'evaluator': evaluator, **more}, judge=judge).score(rows)


RIGHT_OR_WRONG = [
    ('AccEvaluator', 'B', 'B', True),
    ('AccEvaluator', 'b', 'B', False),
    ('AccEvaluator', 1, '1 ', True),
    ('AccEvaluator', 'B', ['A', 'B'], True),
    ('AccwithDetailsEvaluator', 'B', 'C', False),
    ('EMEvaluator', 'The cat.', 'cat', True),
    ('EMEvaluator', 'cat', ['dog', 'a cat'], True),
    ('EMEvaluator', 'cat', 'Cat', False),
    ({'type': 'EMEvaluator', 'ignore_case': True}, 'cat', 'Cat', True),
    ('WholeMatchEvaluator', 'Yes, within 30 days.', 'Yes, within ten days.', False),
    ('WholeMatchEvaluator', 'yes within ten days', 'Yes, within ten days.', True),
    ('WholeMatchEvaluator', 'Yes, within 30 days.', 'Yes', True),
    ('WholeMatchEvaluator', 'Yes.', 'Yes, within ten days.', False),
    ('WholeMatchEvaluator', '-3.5', '3.5', False),
    ({'type': 'WholeMatchEvaluator', 'ignore_case': False}, 'cat', 'Cat', False),
    ('Gsm8kEvaluator', '42.0', '42', True),
    ('Gsm8kEvaluator', '$1,000', '1000', True),
    ('Gsm8kEvaluator', '41', '42', False),
    ('Gsm8kEvaluator', '', '42', False),
    ('BBHEvaluator', 'the answer is yes', 'Yes', True),
    ('BBHEvaluator', 'No', 'Yes', False),
    ('BBHEvaluator_mcq', 'B', '(B)', True),
    ('BBHEvaluator_mcq', 'A', '(B)', False),
    ('TriviaQAEvaluator', 'It is the Eiffel Tower.\nReally', ['eiffel tower', 'la tour'], True),
    ('TriviaQAEvaluator', 'They started', ['art'], False),
    ('TriviaQAEvaluator', 'About 1.8 km.', ['18 km'], False),
    ('TriviaQAEvaluator', 'About 1,800.5 km.', ['1800.5 km'], True),
    ('TriviaQAEvaluator', r'So it is $\boxed{Paris}$.', ['Paris'], True),
    ('TriviaQAEvaluator', r'所以答案为\boxed{18}', ['18'], True),
    ('TriviaQAEvaluator', r'So it is $\boxed{Parisian}$.', ['Paris'], False),
    ('TriviaQAEvaluator', 'I know nothing', ['-'], False),
    ('NQEvaluator', '是巴黎。', ['巴黎'], True),
    ('MATHEvaluator', '0.5', r'\frac{1}{2}', True),
    ('MATHEvaluator', r'\frac12', r'\frac{1}{2}', True),
    ('MATHEvaluator', r'2\sqrt{3}', r'\sqrt{12}', True),
    ('MATHEvaluator', '12,000', '12000', True),
    ('MATHEvaluator', r'3 \text{ cm}', '3', True),
    ('MATHEvaluator', r'\boxed{x+1}', '1 + x', True),
    ('MATHEvaluator', r'\{2, 1\}', r'\{1, 2\}', True),
    ('MATHEvaluator', '7', '8', False),
    ('MATHEvaluator', '', '8', False),
    ({'type': 'MATHEvaluator', 'version': 'v1'}, r'\text{Evelyn}', 'Evelyn', True),
]


@in_one
@pytest.mark.parametrize(('evaluator', 'prediction', 'gold', 'right'), RIGHT_OR_WRONG)
def test_an_answer_is_right_or_wrong(evaluator: Any, prediction: Any, gold: Any, right: bool) -> None:
    run = scored(evaluator, (prediction, gold), read_as='own')
    assert (run.verdicts[0].correct, run.value) == (right, 100.0 * right)


@in_one
@pytest.mark.parametrize(
    'tower', ['10^{10^{10}}', '9^{9^{9^9}}', '1000000!!', '2**3**4**5', '7^{99999999}', '9' * 5000]
)
def test_an_expression_that_would_explode_is_compared_as_text(tower: str) -> None:
    assert scored('math', (tower, '3'), (tower, tower)).value == 50.0


def test_mathematics_is_compared_outside_the_main_thread_too() -> None:
    values: list[float | None] = []
    work = threading.Thread(target=lambda: values.append(scored('math', ('77/14', r'\frac{11}{2}')).value))
    work.start()
    work.join()
    assert values == [100.0]


NUMBERS = [
    ('SquadEvaluator', 'the cat sat', ['cat sat', 'dog'], 'f1', 100.0),
    ('SquadEvaluator', 'a black cat', 'cat', 'f1', 200 / 3),
    ('SQuAD20Evaluator', '', '', 'f1', 100.0),
    ('RougeEvaluator', 'the cat sat', 'a cat sat', 'rouge1', 200 / 3),
    ('RougeEvaluator', '我爱猫', '我爱狗', 'rouge1', 200 / 3),
    ('JiebaRougeEvaluator', '我爱北京', '我爱上海', 'rouge1', 200 / 3),
    ('BleuEvaluator', 'the cat sat on mat', 'the cat sat on the mat', 'bleu', 57.89300674674101),
    ('AveragePPLEvaluator', 12.5, None, 'average_ppl', 12.5),
]


@in_one
@pytest.mark.parametrize(('evaluator', 'prediction', 'gold', 'metric', 'value'), NUMBERS)
def test_an_answer_is_worth_a_number(evaluator: Any, prediction: Any, gold: Any, metric: str, value: float) -> None:
    run = scored(evaluator, (prediction, gold), read_as='own')
    assert (run.metric, run.value) == (metric, pytest.approx(value))


def test_bleu_is_that_of_the_corpus_with_an_interval() -> None:
    sacrebleu = pytest.importorskip('sacrebleu')
    pairs = [
        (f'the cat number {n} sat on a mat', f'the cat number {n} sat on the {"mat" * (n % 3)}') for n in range(40)
    ]
    run = scored('BleuEvaluator', *pairs)
    theirs = sacrebleu.corpus_bleu([said for said, _ in pairs], [[gold for _, gold in pairs]])
    assert run.value == pytest.approx(theirs.score)
    assert run.low < run.value < run.high


def test_bleu_of_few_words_is_smoothed_as_the_library_does() -> None:
    run = scored(
        'BleuEvaluator', ('the cat sat on mat', 'the cat is on the mat'), ('there is a dog', 'there is one big dog')
    )
    assert run.value == pytest.approx(16.610843066115375)


WORDS = st.lists(st.sampled_from(['the', 'cat', 'Cat', 'sat', 'on', 'a', 'mat', '.']), min_size=1, max_size=9).map(
    ' '.join
)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), st.booleans())
def test_bleu_is_the_library_s_whatever_is_said(pairs: list[tuple[str, str]], lowercase: bool) -> None:
    sacrebleu = pytest.importorskip('sacrebleu')
    run = scored({'type': 'BleuEvaluator', 'lowercase': lowercase}, *pairs)
    said, gold = zip(*pairs, strict=True)
    assert run.value == pytest.approx(sacrebleu.corpus_bleu(list(said), [list(gold)], lowercase=lowercase).score)


def test_bleu_of_dialogues_is_that_of_all_their_turns() -> None:
    turns = [('the cat sat on the mat', 'the cat sat on a mat'), ('there is a dog here', 'there is one dog here')]
    apart = scored('BleuEvaluator', *turns)
    said, gold = map(list, zip(*turns, strict=True))
    together = build_scorer({'evaluator': 'BleuEvaluator'}, turns=True).score([Scorable(0, 'ok', said, gold)])
    assert together.value == pytest.approx(apart.value)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80))
def test_words_in_ascii_are_those_of_the_rouge_library(text: str) -> None:
    tokenizers = pytest.importorskip('rouge_score.tokenizers')
    assert plain_words(text) == tokenizers.DefaultTokenizer(use_stemmer=False).tokenize(text)


def test_the_further_numbers_of_a_metric_are_reported_beside_it() -> None:
    run = scored('RougeEvaluator', ('the cat sat', 'a cat sat'))
    assert run.details['further'] == pytest.approx(
        {'rouge1': 200 / 3, 'rouge2': 50.0, 'rougeL': 200 / 3, 'rougeLsum': 200 / 3}
    )


# Outcomes: every row is counted once.

OUTCOMES = ('ok', 'failed', 'too_long', 'filtered', 'thinking_exhausted')


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(['A', 'B', 'none', '']), st.sampled_from(['A', None]))
    ),
    failures=st.sampled_from([None, 'exclude', 'wrong']),
    unparsed=st.sampled_from([None, 'exclude', 'wrong']),
)
def test_the_numbers_add_up(rows: list[tuple[Any, str, Any]], failures: str | None, unparsed: str | None) -> None:
    scorer = build_scorer(
        {
            'evaluator': 'AccEvaluator',
            'pred_postprocessor': 'first-capital',
            'failures': failures,
            'unparsed': unparsed,
        }
    )
    run = scorer.score([Scorable(number, *row) for number, row in enumerate(rows)])
    assert sum(run.outcomes.values()) == run.total == len(rows)
    assert run.scored + sum(run.details['excluded'].values()) == run.total
    assert run.scored == sum(verdict.score is not None for verdict in run.verdicts)
    scores = [verdict.score for verdict in run.verdicts if verdict.score is not None]
    assert run.value == (pytest.approx(100 * sum(scores) / len(scores)) if scores else None)


ROWS = [
    Scorable(0, 'ok', 'Yes: B', 'Y'),
    Scorable(1, 'ok', 'nothing', 'A'),
    Scorable(2, 'failed', None, 'A'),
    Scorable(3, 'too_long', None, 'A'),
]


@in_one
@pytest.mark.parametrize(
    ('policy', 'scored_rows', 'value'),
    [
        ({}, 2, 50.0),
        ({'failures': 'wrong'}, 4, 25.0),
        ({'unparsed': 'exclude'}, 1, 100.0),
        ({'unparsed': 'exclude', 'failures': 'wrong'}, 3, 100 / 3),
    ],
)
def test_what_has_no_answer_is_counted_as_the_config_says(
    policy: dict[str, str], scored_rows: int, value: float
) -> None:
    run = build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': 'first-capital', **policy}).score(ROWS)
    assert (run.scored, run.value) == (scored_rows, pytest.approx(value))
    assert run.outcomes == {'ok': 1, 'unparsed': 1, 'failed': 1, 'too_long': 1}


def test_a_row_without_a_gold_answer_is_not_scored() -> None:
    run = scored('AccEvaluator', ('A', 'A'), ('A', None))
    assert (run.scored, run.details['excluded'], run.verdicts[1].score) == (1, {'without_gold': 1}, None)


def test_the_gold_answer_comes_from_the_output_column_and_its_postprocessor() -> None:
    scorer = build_scorer(
        {'evaluator': 'Gsm8kEvaluator', 'dataset_postprocessor': {'type': 'gsm8k_dataset_postprocess'}},
        output_column='answer',
    )
    run = scorer.score([Scorable(0, 'ok', '1200', values={'answer': 'They ate.\n#### 1,200'})])
    assert (run.value, run.verdicts[0].gold) == (100.0, '1200')


def test_a_postprocessor_that_finds_nothing_in_a_gold_answer_leaves_it() -> None:
    run = scored('AccEvaluator', ('(B)', 'True'), dataset_postprocessor='bbh-mcq', read_as='own')
    assert run.verdicts[0].gold == 'True'


def test_the_role_s_marks_are_taken_off_the_reply_before_it_is_read() -> None:
    scorer = build_scorer({'evaluator': 'AccEvaluator'}, role_marks={'role': 'BOT', 'begin': '<BOT>: ', 'end': '<eob>'})
    assert scorer.score([Scorable(0, 'ok', '<BOT>: 42<eob>\nHUMAN: 43', '42')]).value == 100.0


def test_the_model_s_postprocessor_comes_before_the_dataset_s() -> None:
    scorer = build_scorer(
        {
            'evaluator': 'AccEvaluator',
            'model_postprocessor': 'extract-non-reasoning-content',
            'pred_postprocessor': 'first_capital_postprocess',
        }
    )
    assert scorer.extract('<think>A? B?</think>C') == 'C'


def test_an_evaluator_may_bring_a_postprocessor_of_its_own() -> None:
    entry = {'type': 'GenericLLMEvaluator', 'pred_postprocessor': {'type': 'triviaqa_postprocess'}}
    run = scored(
        entry, ('Paris\nbecause', 'Paris'), judge=lambda values: 'A' if values['prediction'] == 'Paris' else 'B'
    )
    assert (run.value, run.verdicts[0].extracted) == (100.0, 'Paris')


def test_no_evaluator_means_no_number_and_every_outcome() -> None:
    run = build_scorer(None).score(ROWS)
    assert (run.metric, run.value, run.scored, run.total) == ('', None, 0, 4)
    assert sum(run.outcomes.values()) == 4
    assert build_scorer({'evaluator': 'AccEvaluator'}).score([]).value is None


def test_a_scorecard_takes_the_numbers_and_is_json() -> None:
    run = scored('SquadEvaluator', ('a', 'a'), ('b', 'a'))
    card = replace(run, dataset='squad', model='m')
    assert (card.dataset, card.metric, card.value, card.scored) == ('squad', 'f1', 50.0, 2)
    json.dumps([dict(card.outcomes), dict(card.details)])


# Intervals


def test_right_and_wrong_get_wilson_s_interval() -> None:
    run = scored('AccEvaluator', *[('A', 'A')] * 7, *[('A', 'B')] * 3)
    assert (run.low, run.high) == pytest.approx([100 * bound for bound in wilson(7, 10)])
    assert run.details['interval'] == 'wilson'


def test_rows_of_one_cluster_widen_the_interval() -> None:
    def run(clusters: int | None) -> Scorecard:
        rows = [
            Scorable(n, 'ok', 'A', 'A' if (n % 10) < 6 else 'B', cluster=clusters and str(n % clusters))
            for n in range(100)
        ]
        return build_scorer({'evaluator': 'AccEvaluator'}).score(rows)

    alone, together = run(None), run(10)
    assert (alone.value, together.details['clusters']) == (together.value, 10)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_shares_get_an_interval_between_0_and_100() -> None:
    run = scored('SquadEvaluator', *[('x y', 'x y')] * 3, ('x y', 'x z'), ('x y', 'z'))
    shares = mean_interval([(1.0, 1)] * 3 + [(0.5, 1), (0.0, 1)], scale=(0.0, 1.0))
    assert shares is not None
    assert (run.low, run.high) == pytest.approx([100 * bound for bound in shares])
    assert run.details['interval'] == 'score'


def test_numbers_get_a_score_interval() -> None:
    run = scored('AveragePPLEvaluator', *[(float(n), None) for n in range(50)])
    assert run.details['interval'] == 'score'
    assert run.low < run.value < run.high
    assert run.details['lower_is_better']
    assert scored('AveragePPLEvaluator', (3.0, None)).low is None


# Several rows or answers that belong together

ROTATIONS = ('ABCD', 'BCDA', 'CDAB', 'DABC')


def circular_rows(predictions: str, columns: bool) -> list[Scorable]:
    rows = []
    for number, said in enumerate(predictions):
        question, pattern = str(number // 4), ROTATIONS[number % 4]
        gold = 'ABCD'[pattern.index('A')]
        values = {'qid': question, 'circular_pattern': pattern} if columns else {}
        rows.append(Scorable(number, 'ok', said, gold if columns else f'{question}--{gold}--{pattern}', values))
    return rows


@in_one
@pytest.mark.parametrize('columns', [True, False])
def test_a_question_is_right_if_it_is_in_every_rotation(columns: bool) -> None:
    run = build_scorer({'evaluator': 'CircularEvaluator'}).score(circular_rows('ADCBADCA', columns))
    assert (run.metric, run.value, run.scored) == ('perf_circular', 50.0, 8)
    assert run.details['further']['acc_all'] == 87.5
    assert run.details['further']['acc_origin'] == 100.0
    assert run.details['further']['vote_circular'] == 100.0
    assert run.details['further']['prior_A'] == 37.5
    assert (run.low, run.high) == pytest.approx([100 * bound for bound in wilson(1, 2)])


def test_a_question_with_a_failed_rotation_is_left_out() -> None:
    rows = circular_rows('ADCBADCB', columns=False)
    rows[5] = Scorable(5, 'failed', None, rows[5].gold)
    run = build_scorer({'evaluator': 'CircularEvaluator'}).score(rows)
    assert (run.value, run.scored) == (100.0, 4)
    assert run.details['excluded'] == {'incomplete_group': 3, 'failed': 1}


def test_several_samples_are_averaged_and_pass_at_k_is_computed() -> None:
    rows = [Scorable(0, 'ok', ['A', 'B', 'B', 'B'], 'A'), Scorable(1, 'ok', ['A', 'A', 'A', 'A'], 'A')]
    run = build_scorer({'evaluator': 'AccEvaluator', 'k': [1, 2]}).score(rows)
    assert run.value == pytest.approx(62.5)
    assert [verdict.correct for verdict in run.verdicts] == [None, True]
    assert run.details['further']['pass@2'] == pytest.approx(75.0)
    assert run.details['further']['g-pass@2_1.0'] == pytest.approx(50.0)


TURNS = [(['A', 'B', 'C'], 200 / 3), (['A'], 100 / 3), ([], 0.0), ('X', 100.0)]


@in_one
@pytest.mark.parametrize(('said', 'value'), TURNS)
@pytest.mark.parametrize('named', [True, False])
def test_a_dialogue_is_worth_the_mean_of_its_turns(said: Any, value: float, named: bool) -> None:
    evaluator = {'type': 'MultiTurnEvaluator', 'evaluator': {'type': 'AccEvaluator'}} if named else 'AccEvaluator'
    scorer = build_scorer({'evaluator': evaluator}, turns=not named)
    assert scorer.score([Scorable(0, 'ok', said, ['A', 'B', 'X'])]).value == pytest.approx(value)


# A model as the judge

GRADES = [
    ('A', True),
    ('B', False),
    ('b', False),
    ('**B**', False),
    ('[[A]]', True),
    ('Grade: A', True),
    ('My grade is B.', False),
    ('C: not attempted', False),
    ('The reply is CORRECT.', True),
    ('INCORRECT', False),
    ('The response is NOT CORRECT.', False),
    ('B: INCORRECT', False),
    ('A. CORRECT', True),
    ('A: CORRECT\nB: INCORRECT\n\nB', False),
    ('Judgement: INCORRECT', False),
    ('INCORRECT: A student should know this.', False),
    ('Incorrect: A student should know this.', False),
    ('This is not right.', False),
    ("The answer isn't correct.", False),
    ('The answer isn’t correct.', False),
    ('It is never correct', False),
    ('I do not think that the answer is correct.', False),
    ('This cannot be considered correct.', False),
    ('It is neither correct nor complete.', False),
    ('This is not wrong.', True),
    ('It is not only correct but complete.', True),
    ("It doesn't match so it is wrong.", False),
    ('Yes, that is the right answer.', True),
    ('This is not the right answer.', False),
    ('Correct? No, it is wrong.', False),
    ('The correct answer is A but the response says C, so it is wrong.', False),
    ('The reply is partially correct but A is missing. B', False),
    ('The first step is right but overall the result is wrong.', False),
    ('A\n\nExplanation: the wrong sign was put right.', True),
    ('The response matches the reference, so A', True),
    ('<think>Is it A?</think>B', False),
]


@in_one
@pytest.mark.parametrize(('judge_reply', 'right'), GRADES)
def test_a_judge_s_words_become_right_or_wrong(judge_reply: str, right: bool) -> None:
    run = scored('GenericLLMEvaluator', ('4', '4'), judge=lambda values: judge_reply)
    assert (run.verdicts[0].correct, run.value) == (right, 100.0 * right)


UNCLEAR = [
    '',
    'Hm.',
    'A or B',
    'The correct answer is A.',
    'The gold answer is: A',
    'Partly correct.',
    'Is it correct?',
]
UNCLEAR += ['The first step is right but the result is wrong.', 'It may be CORRECT or INCORRECT.']


@in_one
@pytest.mark.parametrize('judge_reply', UNCLEAR)
def test_words_that_do_not_decide_are_no_verdict(judge_reply: str) -> None:
    said = {'4': judge_reply, '5': 'A'}
    run = scored('GenericLLMEvaluator', ('4', '4'), ('5', '5'), judge=lambda values: said[values['prediction']])
    assert (run.value, run.scored, run.details['excluded']) == (100.0, 1, {'unmarked': 1})
    with pytest.raises(RolecallError, match="no verdict in the judge's reply"):
        scored('GenericLLMEvaluator', ('4', '4'), judge=lambda values: judge_reply)


@in_one
@pytest.mark.parametrize('piece', ['A ', ': ', 'grade is ', 'not ', 'so ', '* ', '\n', 'INCORRECT: '])
def test_a_long_verdict_is_read_in_time_that_grows_with_its_length(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        began = time.process_time()
        for _ in range(3):
            READINGS['generic_llmjudge_postprocess'].read(text, Answer(''))
        return time.process_time() - began

    short, long = (min(seconds(size) for _ in range(2)) for size in (4_000, 32_000))
    assert long / max(short, 4e-3) < 32


def test_a_judge_s_words_that_the_user_s_function_cannot_read_leave_the_row_unmarked() -> None:
    def verdict(words: str) -> bool:
        return bool(json.loads(words)['right'])

    def judge(values: Mapping[str, Any]) -> str:
        return str(values['prediction'])

    evaluator = {'type': 'GenericLLMEvaluator', 'dict_postprocessor': {'type': verdict}}
    run = scored(evaluator, ('{"right": true}', ''), ('Yes!', ''), judge=judge)
    assert (run.value, run.scored, run.details['excluded']) == (100.0, 1, {'unmarked': 1})
    assert run.verdicts[1].reason.startswith('verdict raised JSONDecodeError')
    with pytest.raises(ScoringError, match='verdict raised'):
        scored(evaluator, ('Yes!', ''), judge=judge)


def test_a_dialogue_with_a_turn_on_which_the_judge_says_nothing_is_left_out() -> None:
    evaluator = {'type': 'MultiTurnEvaluator', 'evaluator': 'GenericLLMEvaluator'}
    run = scored(evaluator, (['A', 'Hm.'], ['x', 'y']), (['A', 'B'], None), judge=lambda values: values['prediction'])
    assert (run.value, run.scored, run.details['excluded']) == (50.0, 1, {'unmarked': 1})


def test_a_judge_sees_the_row_the_extracted_answer_and_the_gold_one() -> None:
    seen: list[Mapping[str, Any]] = []

    async def judge(values: Mapping[str, Any]) -> str:
        seen.append(values)
        return 'A'

    scorer = build_scorer({'evaluator': 'GenericLLMEvaluator', 'pred_postprocessor': str.strip}, judge=judge)
    rows = [Scorable(0, 'ok', ' 4 ', '4', {'question': '2+2'}), Scorable(1, 'failed', None, '5')]
    run = asyncio.run(scorer.score_with_judge(rows))
    assert seen == [{'question': '2+2', 'prediction': '4', 'obj_gold': '4', 'history': ()}]
    assert (run.value, run.scored, run.details['excluded']) == (100.0, 1, {'failed': 1})


def test_a_judge_that_says_nothing_or_fails_leaves_the_row_unmarked() -> None:
    def judge(values: Mapping[str, Any]) -> str:
        if values['prediction'] == 'x':
            raise ModelError('down')
        return 'Hm.' if values['prediction'] == 'y' else '[[7]]'

    run = scored('LMEvaluator', ('x', ''), ('y', ''), ('z', ''), judge=judge)
    assert (run.value, run.scored, run.details['excluded'], run.details['unit']) == (7.0, 1, {'unmarked': 2}, '')


def test_a_cascade_asks_the_judge_only_about_what_the_rule_finds_wrong() -> None:
    asked: list[Any] = []

    def judge(values: Mapping[str, Any]) -> str:
        asked.append(values['prediction'])
        return 'A'

    rule = {'type': 'AccEvaluator', 'pred_postprocessor': {'type': 'first_capital_postprocess'}}
    entry = {'type': 'CascadeEvaluator', 'rule_evaluator': rule, 'llm_evaluator': {'type': 'GenericLLMEvaluator'}}
    assert scored(entry, ('is B', 'B'), ('is C', 'B'), judge=judge).value == 100.0
    assert asked == ['is C']
    assert judge_entry(entry) == {'type': 'GenericLLMEvaluator'}


def test_a_judge_is_awaited_where_a_loop_runs_already() -> None:
    async def inside() -> None:
        build_scorer({'evaluator': 'LMEvaluator'}, judge=lambda values: '3').score(ROWS)

    with pytest.raises(RolecallError, match='await scorer.score_with_judge'):
        asyncio.run(inside())


# Users' own


def test_a_function_of_prediction_and_gold_is_an_evaluator() -> None:
    def near(prediction: str, gold: str, within: float = 0.5) -> bool:
        return math.isclose(float(prediction), float(gold), abs_tol=within)

    run = scored({'type': near, 'within': 1}, ('3', '4'), ('3', '5'))
    assert (run.metric, run.value, run.details['unit']) == ('near', 50.0, '%')
    assert scored(lambda prediction, gold: 40.0, ('a', 'b')).value == 40.0


class Lengths:
    """An evaluator in the form of the reference systems."""

    def __init__(self, per_row: bool = True) -> None:
        self.per_row = per_row

    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        right = [len(one) == len(other) for one, other in zip(predictions, references, strict=True)]
        details = [{'correct': one} for one in right] if self.per_row else []
        return {'accuracy': 100 * sum(right) / len(right), 'rows': len(right), 'details': details}


def test_a_class_with_a_score_method_is_an_evaluator() -> None:
    run = scored(Lengths, ('aa', 'bb'), ('a', 'bb'))
    assert (run.metric, run.value, run.details['further']) == ('accuracy', 50.0, {'rows': 2.0})
    assert [verdict.correct for verdict in run.verdicts] == [True, False]
    assert (run.low, run.high) == pytest.approx([100 * bound for bound in wilson(1, 2)])
    assert scored({'type': Lengths, 'per_row': False}, ('aa', 'bb')).low is None


def test_without_details_no_row_has_a_score_of_its_own_though_all_count() -> None:
    run = scored({'type': Lengths, 'per_row': False}, ('aa', 'bb'), ('a', 'bb'))
    assert (run.value, run.scored, run.details['excluded']) == (50.0, 2, {})
    assert [(verdict.score, verdict.correct) for verdict in run.verdicts] == [(None, None)] * 2


class Shares:
    """An evaluator whose number is a share, or something that its rows do not add up to."""

    def __init__(self, value: float) -> None:
        self.value = value

    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        details = [{'correct': one == other} for one, other in zip(predictions, references, strict=True)]
        return {'share': self.value, 'details': details}


@in_one
@pytest.mark.parametrize(('value', 'factor', 'unit'), [(50.0, 100, '%'), (0.5, 1, ''), (7.0, 0, '')])
def test_the_interval_of_a_users_number_is_on_its_scale(value: float, factor: int, unit: str) -> None:
    run = scored({'type': Shares, 'value': value}, ('a', 'a'), ('a', 'b'))
    expected = [factor * bound for bound in wilson(1, 2)] if factor else [None, None]
    assert [run.low, run.high] == (pytest.approx(expected) if factor else expected)
    assert (run.value, run.details['unit'], run.verdicts[0].correct) == (value, unit, True)


def test_a_class_gets_every_sample_and_every_turn() -> None:
    samples = scored(Lengths, (['aa', 'a'], 'bb'), (['cc', 'cc'], 'bb'))
    assert ([verdict.score for verdict in samples.verdicts], samples.details['further']) == ([0.5, 1.0], {'rows': 4.0})
    turns = build_scorer({'evaluator': Lengths}, turns=True).score([Scorable(0, 'ok', ['aa', 'b'], ['cc', 'dd'])])
    assert (turns.value, turns.verdicts[0].score) == (50.0, 0.5)


def test_a_class_that_cannot_be_made_is_a_problem_of_the_config() -> None:
    class Fussy:
        def __init__(self) -> None:
            raise OSError('no table')

        def score(self) -> None: ...

    with pytest.raises(ConfigError, match='Fussy raised OSError: no table'):
        build_scorer({'evaluator': Fussy})


# Configs that cannot be used

WRONG = [
    ({'evaluator': 'AccEvalutor'}, "Did you mean 'AccEvaluator'"),
    ({'evaluator': {'type': Reference('opencompass.datasets.SciCodeEvaluator')}}, 'runs model-written code'),
    ({'evaluator': {'type': Reference('opencompass.datasets.PEERRuleEvaluator')}}, 'unsupported metric'),
    ({'evaluator': 'SciCodeEvaluator'}, 'SciCodeEvaluator is not supported'),
    ({'evaluator': {'type': 'GenericLLMEvaluator', 'promt_template': 1}}, "Did you mean 'prompt_template'"),
    ({'evaluator': {'type': 'AccEvaluator', 'pred_postprocessor': 'x'}}, 'evaluator.pred_postprocessor'),
    ({'evaluator': {'type': 'AccEvaluator', 'metric': 1}}, "has no option 'metric'"),
    ({'evaluator': {'type': 'BleuEvaluator', 'tokenize': '13b'}}, "Did you mean '13a'"),
    ({'evaluator': 'GenericLLMEvaluator'}, 'no judge is configured'),
    ({'evaluator': {'type': 'LMEvaluator', 'dict_postprocessor': 'mtbench_postproces'}}, "'mtbench_postprocess'"),
    ({'evaluator': {'type': 'MultiTurnEvaluator', 'evaluator': 'Nope'}}, 'evaluator.evaluator'),
    ({'evaluator': 3}, 'expected a name'),
    ({'evaluator': Scorable}, 'needs the option'),
    ({'evaluater': 'AccEvaluator'}, "Did you mean 'evaluator'"),
    ({'failures': 'ignore'}, "Known: 'exclude', 'wrong'"),
    ({'k': 0}, 'positive integers'),
    ({'k': ['1']}, 'positive integers'),
]


@in_one
@pytest.mark.parametrize(('config', 'message'), WRONG)
def test_a_config_that_cannot_be_scored_says_why(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        build_scorer(config)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build_scorer({'evaluator': 'Nope', 'pred_postprocessor': 'nope', 'dataset_postprocessor': 3, 'k': -1, 'x': 1})
    assert {problem.where for problem in caught.value.problems} == {
        'evaluator',
        'pred_postprocessor',
        'dataset_postprocessor',
        'k',
        'x',
    }


@pytest.mark.parametrize(
    ('package', 'evaluator'),
    [('math_verify', 'math'), ('rouge_score', 'RougeEvaluator'), ('jieba', 'JiebaRougeEvaluator')],
)
def test_a_missing_library_is_named_with_its_extra(
    package: str, evaluator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.split('.')[0] == package] or [package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'rolecall[score]'")):
        scored(evaluator, ('a', 'b'))


def test_a_reference_to_the_reference_system_means_ours() -> None:
    assert read_evaluator({'type': Reference('opencompass.openicl.AccEvaluator')}).mark(Answer('A', 'A')).correct


# The page tells the tables

DOCS = Path(__file__).parent.parent / 'docs'
PAGE = ''.join((DOCS / f'{name}.md').read_text(encoding='utf-8') for name in ('scoring', 'benchmark-scoring', 'code'))


@in_one
@pytest.mark.parametrize(
    ('name', 'function'),
    [*METRICS.items(), *POSTPROCESSORS.items(), *((name, one.read) for name, one in READINGS.items())],
)
def test_the_page_describes_every_name_as_its_function_does(name: str, function: Any) -> None:
    first = (function.__doc__ or '').strip().splitlines()[0]
    assert f'| `{name}` | {first} |' in PAGE


def test_no_name_is_both_supported_and_not() -> None:
    assert not set(METRICS) & set(UNSUPPORTED)
