"""Single conditions of scoring that random faults showed to be untested: boundaries, and cases that seldom occur."""

from __future__ import annotations

import itertools
import os
import subprocess
from typing import Any

import pytest

from rolecall.compat.benchmark_metrics.ifeval import follow_instructions
from rolecall.errors import ConfigError
from rolecall.scoring import group_scores
from rolecall.scoring.answers import AnswerReader, Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.code import code_metrics, sandbox
from rolecall.scoring.code.execution import CodeProgram, run_program
from rolecall.scoring.code.extraction import ds1000_matplotlib_postprocess, humaneval_postprocess, longest_program
from rolecall.scoring.code.sandbox import SandboxLimits
from rolecall.scoring.code.sandbox_probe import choose_sandbox
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.groups import read_groups
from rolecall.scoring.metrics import symbolic
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.paired_ranking import PairedRow, rank_models
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.scoring.statistics import Interval, compare_paired, mean_interval


def mark(evaluator: Any, prediction: Any, gold: Any = None, **values: Any) -> Any:
    return read_evaluator(evaluator).mark(Answer(prediction, gold, values))


@pytest.mark.parametrize(
    ('reply', 'gold', 'correct', 'score'),
    [('【答案】12', ['12'], True, 1.0), ('【答案】13', ['12'], False, 0.0), ('【答案】1；3', ['1；2'], None, 0.5)],
)
def test_one_blank_is_right_or_wrong_and_several_are_graded(
    reply: str, gold: list[str], correct: bool | None, score: float
) -> None:
    found = mark('GaokaoBenchEvaluator_cloze', reply, gold)
    assert (found.correct, found.score) == (correct, score)


@pytest.mark.parametrize(
    ('reply', 'gold', 'correct', 'score'),
    [('B', ['B'], True, 1.0), ('A', ['B'], False, 0.0), ('AB', ['B'], True, 1.0)],
)
def test_a_single_choice_is_right_or_wrong(reply: str, gold: list[str], correct: bool, score: float) -> None:
    found = mark('GaokaoBenchEvaluator_single_choice', reply, gold)
    assert (found.correct, found.score) == (correct, score)


def test_several_questions_of_one_text_are_graded() -> None:
    found = mark('GaokaoBenchEvaluator_multi_question_choice', 'AB', ['A', 'C'])
    assert (found.correct, found.score) == (None, 0.5)


def test_two_quotation_marks_are_a_quotation() -> None:
    assert follow_instructions('""', ['startend:quotation'], [{}]) == [True]
    assert follow_instructions('"', ['startend:quotation'], [{}]) == [False]


@pytest.mark.parametrize(('ours', 'right'), [('0.000001', False), ('0.0000009', True), ('-0.0000009', True)])
def test_numbers_are_equal_within_a_millionth(ours: str, right: bool) -> None:
    assert mark('Gsm8kEvaluator', ours, '0').correct is right


def test_an_evaluator_that_is_an_object_goes_by_the_name_of_its_class() -> None:
    class Lengths:
        def score(self, predictions: list[str], references: list[str]) -> float:
            return float(sum(map(len, predictions)))

    assert read_evaluator(Lengths()).name == 'Lengths'
    assert read_evaluator(Lengths).name == 'Lengths'
    run = build_scorer({'evaluator': Lengths()}).score([Scorable(0, 'ok', 'abc', None)])
    assert run.value == 3.0


def test_an_evaluator_may_name_its_references_as_it_likes_and_have_keywords_besides() -> None:
    class Shares:
        def score(self, predictions: list[str], labels: list[str], *, ignored: int = 0) -> dict[str, float]:
            return {'share': 100 * sum(map(str.__eq__, predictions, labels)) / len(labels) + ignored}

    run = build_scorer({'evaluator': Shares()}).score([Scorable(0, 'ok', 'a', 'a'), Scorable(1, 'ok', 'b', 'c')])
    assert run.value == 50.0


def test_an_evaluator_of_all_rows_sees_probabilities_as_they_are() -> None:
    seen: list[Any] = []

    class Looks:
        def score(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
            seen.extend(predictions)
            return {'n': float(len(predictions))}

    details = {'choices': [{'choice': 'A'}, {'choice': 'B'}]}
    build_scorer({'evaluator': Looks()}).score([Scorable(0, 'ok', [0.25, 0.75], 'B', details=details)])
    assert seen == [[0.25, 0.75]]


@pytest.mark.parametrize('verdict', [2, 0.5, 'yes', None])
def test_a_verdict_that_is_neither_right_nor_wrong_is_refused(verdict: Any) -> None:
    class Grades:
        def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
            return {'accuracy': 50.0, 'details': [{'correct': verdict}]}

    with pytest.raises(ScoringError, match="'correct' is not True or False for each of 1 answers"):
        build_scorer({'evaluator': Grades()}).score([Scorable(0, 'ok', 'a', 'a')])


def test_verdicts_of_zero_and_one_are_verdicts() -> None:
    class Grades:
        def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
            return {'accuracy': 50.0, 'details': [{'correct': 1}, {'correct': 0}]}

    run = build_scorer({'evaluator': Grades()}).score([Scorable(0, 'ok', 'a', 'a'), Scorable(1, 'ok', 'b', 'a')])
    assert [verdict.correct for verdict in run.verdicts] == [True, False]


@pytest.mark.parametrize('members', ['physics', [], {'a': 1}, None])
def test_a_group_needs_a_list_of_members(members: Any) -> None:
    with pytest.raises(ConfigError, match='the group has no members'):
        read_groups({'summarizer': {'summary_groups': [{'name': 'all', 'subsets': members}]}})


def test_students_t_is_the_published_expansion() -> None:
    z = 1.959963984540054
    for freedom in (3, 4, 10, 56):
        expansion = (
            z
            + (z**3 + z) / 4 / freedom
            + (5 * z**5 + 16 * z**3 + 3 * z) / 96 / freedom**2
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / freedom**3
            + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160 / freedom**4
        )
        assert group_scores.student_t(freedom) == pytest.approx(expansion, rel=1e-9)


def test_differences_that_cancel_out_are_no_evidence() -> None:
    assert compare_paired([0.0, 0.5] * 30, [0.5, 0.0] * 30, [None] * 60).p == 1.0
    assert (compare_paired([0.0] * 60, [0.5] * 60, [None] * 60).p or 1) < 1e-12


def test_clusters_of_different_sizes_weigh_by_their_rows() -> None:
    low, high = mean_interval([(9.0, 9), (0.0, 1)] * 30)
    assert low > 0.8
    assert high <= 1.0
    assert mean_interval([(1.0, 2)] * 4) == Interval(0.5, 0.5)


def test_models_compared_on_one_cluster_may_differ_by_anything() -> None:
    def rows(score: float) -> dict[int, PairedRow]:
        return {row: PairedRow(score, None, 'one') for row in range(5)}

    [pair] = rank_models({'a': rows(0.75), 'b': rows(0.25)}).pairs
    assert (pair.difference, pair.low, pair.high) == (0.5, -1.0, 1.0)


def test_a_missing_gold_answer_is_not_read() -> None:
    reader = AnswerReader(extract_gold=read_postprocessor('gsm8k_dataset'))
    assert reader.read(Scorable(0, 'ok', '4')).gold is None
    assert reader.read(Scorable(0, 'ok', '4', '#### 1,000')).gold == '1000'


@pytest.mark.parametrize('sign', ['-', ' + '])
def test_plain_sums_are_the_expressions_that_math_verify_reads(sign: str) -> None:
    import sympy

    numbers = ('', '0', '007', '3.50', '0.7216455264871337')
    terms = [number + letters or '1' for number, letters in itertools.product(numbers, ('', 'xy', 'k^2p^{05}', 'n^1'))]
    texts = [*terms, f'${sign.join(terms[:5])}$', sign.join(terms[5:11]), f'-{sign.join(terms[-3:])}', '$5', '5$']
    library = symbolic.math_library()
    for text in texts:
        ours = symbolic._read(text)
        theirs = library.parse(text if '$' in text else f'${text}$', parsing_timeout=None)
        assert list(map(sympy.srepr, ours)) == list(map(sympy.srepr, theirs)), text


def test_expressions_that_are_too_long_or_too_large_are_compared_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> Any:
        raise AssertionError('evaluated')

    monkeypatch.setattr(symbolic, '_read', refuse)
    for large in ('2^{3^{4}}', '100!', '2^{10!}', '10!^{9}', '2**9!', '(9!)!', '+'.join('1' * 1500), '9' * 300):
        assert not symbolic.equal_expressions(large, '5')
        assert not symbolic.equal_expressions('5', large)
        assert symbolic.equal_expressions(large, large)
        assert symbolic.value_of(large) is None


@pytest.mark.parametrize(
    ('reply', 'right'),
    [
        ('YES', True),
        ('NO', False),
        ('I say YES, not NO. YES', True),
        ('YES at first, then NO', False),
        ('neither', None),
    ],
)
def test_tags_may_be_words(reply: str, right: bool | None) -> None:
    assert verdict_in(reply, 'YES', 'NO') is right


def test_a_letter_that_is_merely_mentioned_counts_only_for_tags_of_one_letter() -> None:
    assert verdict_in('perhaps A', 'A', 'B') is True
    assert verdict_in('perhaps AB', 'AB', 'CD') is True
    assert verdict_in('perhaps A', 'AA', 'BB') is None


@pytest.mark.parametrize(
    ('ours', 'gold', 'score'), [('', '', 1.0), ('', 'a cat', 0.0), ('the', 'an', 1.0), ('dog', '', 0.0), ('', [], 1.0)]
)
def test_an_empty_answer_is_right_if_nothing_was_asked_for(ours: str, gold: Any, score: float) -> None:
    assert mark('f1', ours, gold).score == score


def test_the_first_option_of_a_rotation_is_an_option_too() -> None:
    rows = [
        Scorable(0, 'ok', 'A', 'q--A--ABCD'),
        Scorable(1, 'ok', 'A', 'q--D--BCDA'),
        Scorable(2, 'ok', 'C', 'q--C--CDAB'),
    ]
    numbers = build_scorer({'evaluator': 'CircularEvaluator'}).score(rows, dataset='d', model='m').details['further']
    assert numbers['vote_circular'] == 100.0
    assert numbers['acc_origin'] == 100.0


@pytest.mark.parametrize(
    ('ours', 'right', 'share'),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1.0),
        ((0, 0, 10, 10), (5, 0, 15, 10), 1 / 3),
        ((0, 0, 10, 10), (0, 5, 10, 15), 1 / 3),
        ((0, 0, 4, 10), (2, 5, 6, 15), 1 / 7),
        ((0, 0, 1, 1), (2, 2, 3, 3), 0.0),
        ((0, 0, 0, 0), (0, 0, 0, 0), 0.0),
    ],
)
def test_boxes_overlap_by_their_areas(ours: Any, right: Any, share: float) -> None:
    from rolecall.compat.benchmark_metrics.pictures import _overlap

    assert _overlap(ours, right) == pytest.approx(share)


def test_keywords_of_a_chinese_question_may_be_missing() -> None:
    evaluator = {'type': 'LVEvalOPTF1Evaluator', 'language': 'zh'}
    assert mark(evaluator, '天气很好', ['北京大学', '']).score == 0.0
    assert mark(evaluator, '北京大学', ['北京大学', '']).score == 1.0
    english = {'type': 'LVEvalOPTF1Evaluator', 'language': 'en'}
    assert mark(english, 'a red house stands there', ['a red barn', '']).score > 0
    assert mark(english, 'the red house', ['the red barn', 'barn']).score == 0.0


def test_prose_has_no_program() -> None:
    assert longest_program('There is no code here!\nNor here, sorry.') == ''
    assert longest_program('Well:\nx = 1\ny = 2\nThat is all, folks.') == 'x = 1\ny = 2'


def test_lines_that_clear_the_figure_are_left_out() -> None:
    code = 'plt.plot(x)\nplt.show()\nplt.title("t")\nplt.savefig("f.png")\nplt.close()'
    assert ds1000_matplotlib_postprocess(code) == 'plt.plot(x)\nplt.title("t")'


def test_a_program_larger_than_a_pipe_arrives_whole() -> None:
    program = CodeProgram(f'text = "{"a" * 3_000_000}"\ndef f(): return len(text)', checks='assert f() == 3_000_000')
    ended = run_program(program, choose_sandbox(), SandboxLimits(seconds=20))
    assert (ended.outcome, ended.detail) == ('passed', '')


def test_pass_at_k_is_a_score_of_its_own_with_an_interval() -> None:
    rows = [Scorable(row, 'ok', ['4', '4', '5'] if row % 2 else ['5', '5', '5'], '4') for row in range(20)]
    card = build_scorer({'evaluator': 'AccEvaluator', 'k': [1, 2, 3]}).score(rows, dataset='sums', model='m')
    shown = {column.metric: column for column in card.columns}
    assert list(shown) == ['accuracy', 'pass@2', 'pass@3']
    assert shown['pass@2'].value == pytest.approx(50.0)
    assert shown['pass@3'].value == pytest.approx(50.0)
    assert (shown['pass@3'].low, shown['pass@3'].high) == pytest.approx((29.9, 70.1), abs=0.1)


def test_pass_at_k_of_problems_that_all_pass_is_not_certain() -> None:
    rows = [Scorable(row, 'ok', ['4', '5'], '4') for row in range(10)]
    card = build_scorer({'evaluator': 'AccEvaluator', 'k': 2}).score(rows, dataset='sums', model='m')
    column = card.columns[1]
    assert (column.value, column.high) == (100.0, 100.0)
    assert column.low is not None
    assert 60 < column.low < 80


def test_a_judge_reads_one_answer_per_reply() -> None:
    extractors = {'strict': 'gsm8k', 'flexible': 'first_number'}
    judged = {'evaluator': {'type': 'GenericLLMEvaluator'}, 'pred_postprocessor': extractors}
    with pytest.raises(ConfigError, match='several extractors are given'):
        build_scorer(judged, judge=lambda values: 'A')
    assert build_scorer({**judged, 'pred_postprocessor': {'only': 'gsm8k'}}, judge=lambda values: 'A').judge is not None
    assert len(build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': extractors}).readers) == 2


@pytest.mark.parametrize('k', [0, -1, True, '1', 1.0, [1, 0], [2, 'a'], [True]])
def test_k_is_a_positive_integer(k: Any) -> None:
    with pytest.raises(ConfigError, match='expected positive integers'):
        build_scorer({'evaluator': 'AccEvaluator', 'k': k})


def test_the_score_of_finished_replies_is_told_only_if_there_are_any() -> None:
    def score(*ended: str) -> Any:
        rows = [Scorable(row, 'ok', '4', '4', details={'ended': [how]}) for row, how in enumerate(ended)]
        return (
            build_scorer({'evaluator': 'AccEvaluator'})
            .score(rows, dataset='d', model='m')
            .details['cut']
            .get('finished')
        )

    assert score('length', 'stop') == 100.0
    assert score('length', 'length') is None


def test_models_compared_on_several_clusters_have_an_interval() -> None:
    def rows(*scores: float) -> dict[int, PairedRow]:
        return {row: PairedRow(score, None, f'c{row % 4}') for row, score in enumerate(scores)}

    ours, theirs = rows(*(0.9, 0.5, 0.8, 0.6) * 3), rows(*(0.2, 0.4, 0.1, 0.5) * 3)
    [pair] = rank_models({'a': ours, 'b': theirs}).pairs
    assert pair.low < pair.difference < pair.high


def test_an_area_needs_two_probabilities() -> None:
    for shares in ([0.5], 'no numbers'):
        rows = [Scorable(0, 'ok', shares, '1'), Scorable(1, 'ok', [0.5, 0.5], '0')]
        with pytest.raises(ScoringError, match='needs the probabilities of two choices'):
            build_scorer({'evaluator': 'AUCROCEvaluator'}).score(rows)


def test_letters_of_a_multiple_choice_are_read_at_the_end() -> None:
    assert mark('GaokaoBenchEvaluator_multi_choice', 'A' + '一' * 9 + 'C', ['C']).score == 1.0
    assert mark('GaokaoBenchEvaluator_multi_choice', '一' * 3 + 'A' + '一' * 8 + 'C', ['AC']).score == 1.0


@pytest.mark.parametrize(
    ('reply', 'option'),
    [
        ('A: wrong\nB: wrong\nC: it depends', ''),
        ('A. Correct\nB. Correct\nC. Incorrect', ''),
        ('C. Correct', 'C'),
    ],
)
def test_verdicts_on_options_name_an_option_only_if_one_is_approved(reply: str, option: str) -> None:
    assert read_postprocessor({'type': 'first_option', 'options': 'ABCD'}, read_as='own')(reply) == option


@pytest.mark.parametrize(
    ('written', 'body'),
    [
        ('   return 1', '    return 1'),
        ('  if x:\n    return 1', '    if x:\n      return 1'),
        ('      return 1', '    return 1'),
        ('    return 1', '    return 1'),
    ],
)
def test_a_body_is_moved_to_four_spaces(written: str, body: str) -> None:
    assert humaneval_postprocess(written) == body


@pytest.mark.parametrize(('ended', 'signal'), [('exit 0', 0), ('exit 3', 0), ('exit 139', 11), ('kill -9 $$', 9)])
def test_the_signal_that_ended_a_process_is_told(ended: str, signal: int) -> None:
    process = subprocess.Popen(['sh', '-c', ended], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.wait(60)
    assert sandbox._Spawned(process, lambda: None).end() == signal


@pytest.mark.parametrize(('parallel', 'workers'), [(-1, None), (0, None), (1, 1), (4, 4)])
def test_bigcodebench_runs_as_many_programs_at_once_as_asked(
    monkeypatch: pytest.MonkeyPatch, parallel: int, workers: int | None
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(code_metrics, '_code_metric', lambda make, **options: given.update(options))
    code_metrics.bigcodebench(parallel=parallel, pass_k='1,5')
    assert (given['workers'], given['k']) == (workers, [1, 5])


def test_a_confined_process_does_not_hear_the_terminal() -> None:
    process = sandbox._spawn(['sleep', '5'], {'PATH': '/usr/bin:/bin'}, lambda: None)
    assert isinstance(process, sandbox._Spawned)
    try:
        assert os.getsid(process.process.pid) != os.getsid(0)
    finally:
        assert process.end() == 9
