"""More conditions of scoring that random faults showed to be untested: corrections, ratings, foreign evaluators."""

from __future__ import annotations

import errno
import math
import signal
import struct
from typing import Any

import pytest

from rolecall.compat.benchmark_metrics.short_answers import read_yes_or_no
from rolecall.compat.opencompass.package_evaluators import (
    _describe_gold,
    _in_its_own_system,
    _put_headline_first,
    package_judge_metric,
)
from rolecall.insight.pairwise import rate_models
from rolecall.registry import Part
from rolecall.scoring.accumulate import MarkAccumulator
from rolecall.scoring.answers import AnswerReader, Scorable
from rolecall.scoring.blame import NoVerdictError
from rolecall.scoring.code import seccomp
from rolecall.scoring.code.benchmark_programs import bigcodebench, contest
from rolecall.scoring.code.extraction import longest_program
from rolecall.scoring.confidence_sequence import ConfidenceSequence
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.group_scores import _pick_card, _pool_stderr
from rolecall.scoring.metrics.assertions import assertions
from rolecall.scoring.metrics.comparing import tabulate_comparisons
from rolecall.scoring.metrics.judge_replies import read_rating_by_category
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Rival, WinRate, make_mark
from rolecall.scoring.paired_ranking import ModelPair
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.scoring.readers.native import number_in, read_choice, read_text
from rolecall.scoring.readers.preferences import preference_in
from rolecall.scoring.readers.quotations import leave_out_quotations
from rolecall.scoring.scanners import ScannedReply, find_language_switch
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.session import ScoringSession, _mark_missing_answer
from rolecall.strings import edit_distance


@pytest.mark.parametrize(
    ('reply', 'values', 'score', 'parts'),
    [
        ('[[4]]', {'category': 'law', 'difficulty': 'hard'}, 0.8, {'category/law_hard': 0.8}),
        ('[[4]]', {'category': 'law'}, 0.8, {'category/law': 0.8}),
        ('[[5]]', {}, 1.0, {}),
        ('[[0]]', {}, 0.0, {}),
        ('[[6]]', {}, None, None),
        ('no rating', {}, None, None),
    ],
)
def test_a_rating_up_to_five_is_a_share_and_counts_for_its_category(
    reply: str, values: dict[str, Any], score: float | None, parts: dict[str, float] | None
) -> None:
    found = read_rating_by_category(reply, Answer('x', None, values))
    assert (found and found.score, found and dict(found.parts)) == (score, parts)


def card(scored: int, error: float | None) -> Scorecard:
    further = None if error is None else {'acc_stderr': error}
    return Scorecard('d', 'm', 'acc', 0.5, None, None, scored, scored, {}, further=further)


@pytest.mark.parametrize(
    ('members', 'by_rows', 'pooled'),
    [
        ([(2, 0.5), (3, 0.25)], True, 0.2415229),  # sqrt((1*2*0.5² + 2*3*0.25²) / (5 - 2) / 5)
        ([(2, 0.5), (3, 0.25)], False, 0.2795085),  # sqrt(0.5² + 0.25²) / 2
        ([(1, 0.5), (2, 0.25)], True, 0.2041241),
        ([(1, 0.5), (1, 0.25)], True, None),
        ([(1, 0.5), (1, 0.25)], False, 0.2795085),
        ([(2, 0.5), (3, None)], True, None),
        ([(2, 0.5), (3, None)], False, None),
    ],
)
def test_standard_errors_of_members_are_pooled_as_lm_eval_does(
    members: list[tuple[int, float | None]], by_rows: bool, pooled: float | None
) -> None:
    found = _pool_stderr('acc', [card(*one) for one in members], by_rows=by_rows)
    assert found == (None if pooled is None else {'acc_stderr': pytest.approx(pooled, abs=1e-6)})


@pytest.mark.parametrize(
    ('result', 'first'),
    [
        ({'count': 3, 'accuracy': 50.0}, 'accuracy'),
        ({'accuracy': 50.0, 'count': 3}, 'accuracy'),
        ({'count': 3, 'other': 1}, 'count'),
    ],
)
def test_the_number_that_a_summary_shows_comes_first(result: dict[str, Any], first: str) -> None:
    found = _put_headline_first(result)
    assert (next(iter(found)), found) == (first, result)


def test_a_result_that_is_a_number_stays_one() -> None:
    assert _put_headline_first(50.0) == 50.0
    assert _put_headline_first(['accuracy']) == ['accuracy']


def test_an_evaluator_that_takes_no_rows_is_called_without_them() -> None:
    class Sum:
        _out_dir: str

        def score(self, predictions: list[int]) -> dict[str, Any]:
            assert self._out_dir.endswith('/results')
            return {'n': len(predictions), 'accuracy': sum(predictions)}

    assert list(_in_its_own_system(Sum())(predictions=[1, 2]).items()) == [('accuracy', 3), ('n', 2)]


@pytest.mark.parametrize(
    ('result', 'score'),
    [
        ({'accuracy': 100.0}, 1.0),
        ({'accuracy': 0.0}, 0.0),
        (100.0, 1.0),
        ({'details': [{'correct': True}]}, 1.0),
        ({'details': {'0': {'correct': [False]}}}, 0.0),
        ({'details': 'none'}, None),
        ({}, None),
    ],
)
def test_a_package_marks_one_reply_of_a_judge_with_a_number_or_a_verdict(result: Any, score: float | None) -> None:
    metric = package_judge_metric(Part('their_judge', lambda output, output_path: result, ''), unit='')
    assert not metric.needs_gold
    assert metric.mark(Answer('x', None, {})) is None
    judged = Answer('x', None, {}, judge_reply='A')
    if score is None:
        with pytest.raises(NoVerdictError, match='their_judge found no verdict'):
            metric.mark(judged)
    else:
        found = metric.mark(judged)
        assert found is not None
        assert (found.score, found.correct) == (score, score == 1.0)


@pytest.mark.parametrize(
    ('text', 'written'),
    [
        ('二〇二四', '2024'),
        ('三〇〇', '300'),
        ('两百', '200'),
        ('一', '1'),
        ('共一', ''),
        ('答案是一', '1'),
        ('三万', '30000'),
        ('三万五千', '35000'),
        ('二十亿', '2000000000'),
        ('3万', '30000'),
        ('五千', '5000'),
        ('$5k', '5000'),
        ('$5m', '5000000'),
        ('$5mn', '5000000'),
        ('$5b', '5000000000'),
        ('$5bn', '5000000000'),
        ('half a million', '500000'),
        ('5 trillion', '5000000000000'),
        ('three fourths', '0.75'),
        ('five eighths', '0.625'),
        ('Therefore it must be step 5.', '5'),
        ('2^10', '1024'),
        ('2^20', '1048576'),
        ('2^{-3}', '0.125'),
        ('10^20', '1e+20'),
        ('0^{-1}', ''),
    ],
)
def test_a_number_in_words_is_written_in_digits(text: str, written: str) -> None:
    assert number_in(text) == written


@pytest.mark.parametrize(
    ('entry', 'reply', 'found'),
    [
        ({'type': 'stated_number'}, 'The answer is 5. Wait, it is 6. Actually, it is 7.', '7'),
        ({'type': 'choice', 'choices': ['yes', 'no', 'maybe']}, 'Yes. Wait, no. Actually, maybe.', 'maybe'),
    ],
)
def test_the_last_of_several_corrections_counts(entry: dict[str, Any], reply: str, found: str) -> None:
    assert read_postprocessor(entry)(reply) == found


@pytest.mark.parametrize(
    ('reply', 'found'),
    [
        ('Some say yes.\n\nThe answer is no.', 'no'),
        ('The answer is yes.\n\nThe answer is no.', 'yes'),
        ('Yes.\n\nNo.', 'yes'),
        ('The answer is open.\n\nNo.', 'no'),
    ],
)
def test_yes_or_no_is_read_where_the_reply_states_its_answer(reply: str, found: str) -> None:
    assert read_yes_or_no(reply) == found


@pytest.mark.parametrize(
    ('rows', 'both_orders', 'changed', 'first', 'always_first'),
    [  # a verdict: its score, and whether the rival's answer was shown first
        ([[(1.0, False)], [(0.0, False)]], 0, 0, 1, True),
        ([[(1.0, False)], [(0.0, True)]], 0, 0, 2, False),
        ([[(1.0, False), (1.0, False)]], 0, 0, 2, True),
        ([[(1.0, False), (1.0, True)]], 1, 0, 1, False),
        ([[(1.0, False), (0.0, True)], [(0.5, False)]], 1, 1, 2, False),
    ],
)
def test_only_rows_shown_in_both_orders_tell_what_the_order_changes(
    rows: list[list[tuple[float, bool]]], both_orders: int, changed: int, first: int, always_first: bool
) -> None:
    marks = [[Mark(score, rival=Rival('other', stands_first=second)) for score, second in row] for row in rows]
    found = tabulate_comparisons([(None, own) for own in marks])['other']
    numbers = [getattr(found, key) for key in ('both_orders', 'order_changed', 'first', 'always_first')]
    assert numbers == [both_orders, changed, first, always_first]


def test_a_rival_on_which_the_judge_is_silent_leaves_the_verdicts_on_the_others() -> None:
    def mark(answer: Answer) -> Mark:
        if answer.rival is None or answer.rival.name == 'silent':
            raise NoVerdictError('no verdict')
        return Mark(1.0, correct=True, rival=answer.rival)

    metric = Metric('win_rate', mark, WinRate(), needs_gold=False)
    rivals = (Rival('other', 'x'), Rival('silent', 'y'))
    [verdict] = ScoringSession(metric, {'': AnswerReader()}).add([Scorable(0, 'ok', 'a', rivals=rivals)])
    assert (verdict.score, verdict.reason) == (1.0, 'no verdict')


def test_of_programs_of_one_length_the_first_is_taken() -> None:
    assert longest_program('x = 1\nSome words of prose.\ny = 2\nMore of them.') == 'x = 1'


@pytest.mark.parametrize(('prediction', 'score'), [(12.5, 12.5), (1e-07, 1e-07), ('12.5', 12.5), ('five', None)])
def test_perplexities_are_numbers_or_their_texts(prediction: object, score: float | None) -> None:
    found = read_evaluator('AveragePPLEvaluator').mark(Answer(prediction, None, {}))
    assert (found and found.score) == score


@pytest.mark.parametrize(
    ('reply', 'side'),
    [
        ('Both are fine.\nTie', 'tie'),
        ('Because of its length.\n**B**', 'second'),
        ('A\nBecause the other is wordy.', 'first'),
        ('A\nIt is long.\nB', 'second'),
        ('B', 'second'),
    ],
)
def test_a_verdict_that_is_the_last_or_the_first_line_counts(reply: str, side: str) -> None:
    found = preference_in(reply)
    assert found is not None
    assert found.side == side


_ALLOWED, _KILLED, _REFUSED = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSED_CALLS = {  # numbers of the kernel's tables: x86-64, and the generic one of 64-bit Arm
    'ptrace': (101, 117),
    'process_vm_readv': (310, 270),
    'process_vm_writev': (311, 271),
    'unshare': (272, 97),
    'setns': (308, 268),
    'add_key': (248, 217),
    'request_key': (249, 218),
    'keyctl': (250, 219),
    'bpf': (321, 280),
    'userfaultfd': (323, 282),
    'perf_event_open': (298, 241),
    'pivot_root': (155, 41),
    'mount': (165, 40),
    'umount2': (166, 39),
    'open_by_handle_at': (304, 265),
    'io_uring_setup': (425, 425),
    'io_uring_enter': (426, 426),
    'io_uring_register': (427, 427),
    'vmsplice': (278, 75),
    'splice': (275, 76),
    'tee': (276, 77),
    'sendfile': (40, 71),
    'inotify_init1': (294, 26),
}


def run_filter(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What a kernel would answer: classic BPF over the number, the architecture and the first argument of a call."""
    steps, data, held, at = list(struct.iter_unpack('HBBI', program)), {0: number, 4: architecture, 16: argument}, 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            held = data.get(value, 0)
        else:
            at += then if {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code] else otherwise


@pytest.mark.parametrize(('machine', 'column', 'architecture'), [('x86_64', 0, 0xC000003E), ('aarch64', 1, 0xC00000B7)])
def test_the_filter_of_bubblewrap_refuses_the_system_calls_it_should(
    monkeypatch: pytest.MonkeyPatch, machine: str, column: int, architecture: int
) -> None:
    monkeypatch.setattr('platform.machine', lambda: machine)
    seccomp.build_filter.cache_clear()
    program = seccomp.build_filter(namespaces=True)
    refused = {name: run_filter(program, architecture, numbers[column]) for name, numbers in _REFUSED_CALLS.items()}
    assert refused == dict.fromkeys(_REFUSED_CALLS, _REFUSED | errno.EPERM)
    clone, clone3, forks, thread = (56, 220)[column], 435, ((57, 58), ())[column], 0x10400
    child_ends = int(signal.SIGCHLD)  # what a fork says that is a clone
    assert run_filter(program, architecture, clone, argument=child_ends) == _REFUSED | errno.EAGAIN
    assert run_filter(program, architecture, clone, argument=thread) == _ALLOWED
    without_files = 0x10000  # a thread with descriptors of its own, which no limit counts
    assert run_filter(program, architecture, clone, argument=without_files) == _REFUSED | errno.EAGAIN
    assert run_filter(program, architecture, clone3) == _REFUSED | errno.ENOSYS
    assert [run_filter(program, architecture, fork) for fork in forks] == [_REFUSED | errno.EAGAIN] * len(forks)
    allowed = {'read': (0, 63), 'write': (1, 64), 'mmap': (9, 222), 'openat': (257, 56), 'exit_group': (231, 94)}
    assert {run_filter(program, architecture, numbers[column]) for numbers in allowed.values()} == {_ALLOWED}
    assert run_filter(program, architecture + 1, 1) == _KILLED
    seccomp.build_filter.cache_clear()


def test_a_further_number_has_the_interval_of_its_standard_error() -> None:
    further = {'acc': 0.5, 'acc_stderr': 0.1, 'f1': 0.75}
    cards = [Scorecard('d', 'm', 'exact', 0.25, None, None, 9, 9, {}, further=further)]
    found, without = _pick_card(cards, 'acc'), _pick_card(cards, 'f1')
    assert found is not None
    assert without is not None
    assert (found.value, found.low, found.high) == (
        0.5,
        pytest.approx(0.304004, abs=1e-6),
        pytest.approx(0.695996, abs=1e-6),
    )
    assert (without.value, without.low, without.high) == (0.75, None, None)


@pytest.mark.parametrize(('adjusted', 'apart'), [(0.0499, True), (0.05, False), (0.0501, False)])
def test_models_are_told_apart_below_the_level_only(adjusted: float, apart: bool) -> None:
    assert ModelPair('a', 'b', 0.1, None, None, 0.01, adjusted, 9, 'exact').told_apart is apart


def test_a_rating_has_an_interval_from_its_games_and_one_against_an_average_model() -> None:
    strength, scale = (
        0.5213683,
        400 / math.log(10),
    )  # of a; b's is the opposite: 9.5 = 1 / (1 + e^-s) + 12 / (1 + e^-2s)
    chance, alone = 1 / (1 + math.exp(-2 * strength)), 1 / (1 + math.exp(-strength))
    information = 4 * 12 * chance * (1 - chance) + 2 * alone * (1 - alone)
    reach = 1.959964 * scale / math.sqrt(information)
    points = [1000 + scale * strength, 1000 - scale * strength]
    rated = rate_models({('a', 'b'): (9, 12)})
    assert [(one.points, one.low, one.high) for one in rated] == [
        pytest.approx((one, one - reach, one + reach), abs=1e-3) for one in points
    ]


def test_only_an_evaluator_that_takes_prompts_waits_for_them() -> None:
    class Plain:
        def score(self, predictions: list[str], references: list[str]) -> float:
            return 1.0

    class Prompted:
        def score(self, predictions: list[str], references: list[str], origin_prompt: list[str]) -> float:
            return 1.0

    assert read_evaluator(Plain()).aggregation.with_prompts is None
    assert read_evaluator(Prompted()).aggregation.with_prompts is not None


def test_a_boolean_of_numpy_is_right_or_wrong() -> None:
    numpy = pytest.importorskip('numpy')
    assert [make_mark(numpy.bool_(one)).correct for one in (True, False)] == [True, False]
    assert make_mark(numpy.float64(1.0)).correct is None


@pytest.mark.parametrize(
    ('left', 'right', 'distance'),
    [
        ('', 'abc', 3),
        ('abc', '', 3),
        ('ab', 'ba', 2),
        ('flaw', 'lawn', 2),
        ('b', 'abc', 2),
        ('ac', 'abbbc', 3),
        ('a', 'bcd', 3),
    ],
)
def test_the_edit_distance_counts_insertions_deletions_and_replacements(left: str, right: str, distance: int) -> None:
    assert (edit_distance(left, right), edit_distance(right, left)) == (distance, distance)


def test_rows_that_come_in_batches_all_count_as_finished() -> None:
    marks = MarkAccumulator(read_evaluator('AccEvaluator'))
    marks.add_plain([1.0, 0.0], [1, 0])
    marks.add_plain([1.0, 1.0], [1, 1])
    card, finished = marks.summarise()
    assert (card.value, finished, card.scored) == (75.0, 75.0, 4)


@pytest.mark.parametrize(('columns', 'start'), [({'code_prompt': 'def f():'}, 'def f():\n    pass\n'), ({}, '')])
def test_a_program_of_bigcodebench_starts_with_the_prompt_where_there_is_one(
    columns: dict[str, str], start: str
) -> None:
    program = bigcodebench(Answer('def f():\n    return 1', None, {'test': 'T', **columns}), eval_type='instruct')
    assert program.source.startswith(f'{start}def f():\n    return 1\nT\n')


def test_a_contest_is_checked_with_the_inputs_that_have_an_output() -> None:
    program = contest(Answer('print(1)', None, {'input_output': {'inputs': ['1', '2'], 'outputs': ['1']}}))
    assert [test.given for test in program.tests] == ['1']


@pytest.mark.parametrize(
    ('rival', 'given'),
    [
        (None, {'q': 1}),
        (Rival('other', 'theirs'), ('', 'other', 'ours', 'theirs')),
        (Rival('other', 'theirs', stands_first=True), ('other', '', 'theirs', 'ours')),
    ],
)
def test_a_package_gets_both_answers_of_a_comparison_in_the_order_shown(rival: Rival | None, given: Any) -> None:
    found = _describe_gold(Answer('ours', {'q': 1}, {}, rival=rival))
    keys = ('answer1', 'answer2', 'prediction1', 'prediction2')
    assert found == (
        given if rival is None else {'q': 1, 'base_models': ['other'], **dict(zip(keys, given, strict=True))}
    )


@pytest.mark.parametrize('scale', [10, 8])
def test_an_interval_that_is_watched_has_the_scale_of_its_values(scale: float) -> None:
    values, ends = [(17 * number % 10) / 10 for number in range(300)], []
    for factor in (1, scale):
        sequence = ConfidenceSequence(low=0, high=factor, half_width=0.05 * factor)
        for begin in range(0, 300, 50):
            sequence.add([factor * value for value in values[begin : begin + 50]])
        ends.append([end / factor for end in sequence.interval()])
    assert ends[1] == pytest.approx(ends[0], abs=1e-6)


def test_a_score_at_the_threshold_reaches_it() -> None:
    metric = assertions(asserts=[{'type': 'rouge-n', 'value': 'a b c d', 'threshold': 1}])
    mark = metric.mark(Answer('a b c d'))
    assert mark is not None
    assert mark.correct


def test_texts_that_stand_for_probabilities_are_no_weights() -> None:
    details = {'choices': [{'choice': 'x'}, {'choice': 'y'}]}
    assert AnswerReader().read(Scorable(0, 'ok', ['b', 'a'], 'x', details=details)).extracted == ['b', 'a']
    assert AnswerReader().read(Scorable(0, 'ok', [0.25, 0.75], 'x', details=details)).extracted == 'y'
    assert AnswerReader().read(Scorable(0, 'ok', [True, False], 'x', details=details)).extracted == [True, False]


@pytest.mark.parametrize(
    ('reply', 'value'),
    [
        ('{"answer": {"x": 3, "y": 4}, "sure": 9}', '{"x": 3, "y": 4}'),
        ('{"answer": [[1, 2], [3, 4]], "sure": 9}', '[[1, 2], [3, 4]]'),
    ],
)
def test_a_field_that_holds_an_object_ends_where_the_object_ends(reply: str, value: str) -> None:
    reading = read_text(reply)
    assert reading is not None
    assert reading.value == value


@pytest.mark.parametrize(('reply', 'value'), [('2√3', 'B'), ('The answer is 2√3.', 'B'), ('2√35', None)])
def test_an_option_is_known_in_another_layout(reply: str, value: str | None) -> None:
    reading = read_choice(reply, 'AB', {'options': ['3√{2}', '2√{3}']})
    assert (reading.value if reading and reading.counts else None) == value


def test_a_row_without_gold_and_answer_is_wrong_without_asking_its_metric() -> None:
    def refuse(answer: Answer) -> Mark:
        raise AssertionError(answer)

    reader = AnswerReader()
    row = reader.read(Scorable(0, 'failed', None, None))
    for metric in (Metric('m', refuse), Metric('m', refuse, needs_judge=bool)):
        assert [mark.score for mark in _mark_missing_answer(metric, row)] == [0.0]


def test_only_rows_of_which_the_verdict_says_all_are_settled_by_it() -> None:
    rows = [Scorable(0, 'ok', 'A', 'A'), Scorable(1, 'ok', ' ', 'A')]
    rows += [Scorable(3, 'ok', 'A', 'A', cluster='c'), Scorable(4, 'ok', 'A', 'A', details={'ended': ['length']})]
    run = build_scorer({'evaluator': 'AccEvaluator'}).score(rows)
    assert [verdict.settled for verdict in run.verdicts] == [True, False, False, False]


@pytest.mark.parametrize(('depth', 'passed'), [(100, True), (101, False)])
def test_elements_that_lie_too_deep_are_not_looked_for(depth: int, passed: bool) -> None:
    wanted = {'type': 'is-xml', 'value': {'requiredElements': ['.'.join('a' * depth)]}}
    mark = assertions(asserts=[wanted]).mark(Answer('<a>' * depth + '1' + '</a>' * depth))
    assert mark is not None
    assert mark.correct is passed


def test_a_correction_may_be_in_small_letters() -> None:
    reading = read_text('The answer is Paris. Wait, no, it is rome.')
    assert reading is not None
    assert reading.value == 'rome'


@pytest.mark.parametrize(('foreign', 'switched'), [(1, True), (2, False)])
def test_a_fiftieth_of_a_prompt_asks_for_its_language(foreign: int, switched: bool) -> None:
    prompt = 'x' * (100 - foreign) + '中' * foreign
    reply = ScannedReply('我认为答案是选项二，因为它最符合题意要求。' * 2, prompt=prompt)
    assert (find_language_switch(reply) is not None) is switched


@pytest.mark.parametrize(('length', 'own'), [(40, True), (41, False)])
def test_a_short_line_is_the_judge_s_own_though_the_answer_has_its_words(length: int, own: bool) -> None:
    line = 'The grade is B'.ljust(length, '.')
    reply = f'It is well done.\nThe candidate repeats what was asked.\n{line}'
    assert ('grade is B' in leave_out_quotations(reply, [line])) is own
