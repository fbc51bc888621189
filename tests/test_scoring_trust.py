"""What is said beside a score: cut and empty replies, several extractors, rows that fail, groups, and rankings."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.errors import ConfigError
from rolecall.scoring.accumulate import ClusterSums
from rolecall.scoring.answers import Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.group_scores import student_t, summarise_groups
from rolecall.scoring.groups import read_groups
from rolecall.scoring.metrics.metric import Answer, Corpus, Mark, Metric, PassRate
from rolecall.scoring.paired_ranking import PairedRow, rank_models
from rolecall.scoring.score_warnings import WarningFilter, warnings_of
from rolecall.scoring.scorecard import ReplyCount, Scorecard
from rolecall.scoring.statistics import bootstrap, mcnemar, mean_interval, wilson
from tables import in_one

CUT = {'ended': ['length']}


def accuracy(rows: list[Scorable], **more: Any) -> Scorecard:
    return build_scorer({'evaluator': 'AccEvaluator', **more}).score(rows)


# Cut and empty replies


def test_cut_replies_are_counted_with_the_score_of_the_finished_ones() -> None:
    rows = [
        *(Scorable(number, 'ok', 'A', 'A' if number < 41 else 'B') for number in range(88)),
        *(Scorable(number, 'ok', 'so', 'A', details=CUT) for number in range(88, 100)),
        Scorable(100, 'failed', None, 'A'),
    ]
    card = replace(accuracy(rows), dataset='gsm8k', model='small')
    assert card.details['cut'] == {'rows': 12, 'of': 100, 'finished': pytest.approx(100 * 41 / 88)}
    assert card.describe_replies() == '12 % cut; 41.0 of all, 46.6 of finished'
    assert card.warnings() == (
        'gsm8k × small: 12 % of the replies were cut off by max_out_len (12 of 100). Raise max_out_len.',
    )
    json.dumps(card.details)


@in_one
@pytest.mark.parametrize(
    ('replies', 'said', 'warnings'),
    [
        (['A'] * 20, '', 0),
        (['A'] * 19 + [''], '5 % empty', 0),
        (['A'] * 18 + [' ', '\n'], '10 % empty', 1),
        ([['', '']], '100 % empty', 1),
        ([['', 'A']], '', 0),
    ],
)
def test_empty_replies_are_counted_and_warned_about_beyond_five_percent(
    replies: list[Any], said: str, warnings: int
) -> None:
    rows = [Scorable(row, 'ok', reply, 'A') for row, reply in enumerate(replies)]
    card = replace(accuracy(rows), dataset='d', model='m')
    assert (card.describe_replies(), len(card.warnings())) == (said, warnings)


@in_one
@pytest.mark.parametrize(
    ('cut', 'total', 'said'), [(1, 1000, '0.1 % cut'), (999, 1000, '99.9 % cut'), (1, 1, '100 % cut')]
)
def test_a_share_is_not_rounded_to_nothing_or_everything(cut: int, total: int, said: str) -> None:
    card = Scorecard('d', 'm', 'accuracy', 50.0, cut=ReplyCount(cut, total))
    assert card.describe_replies() == said


def test_the_finished_replies_of_a_corpus_metric_and_of_groups_have_a_score_too() -> None:
    rows = [
        Scorable(0, 'ok', 'the cat sat on the mat', 'the cat sat on the mat'),
        Scorable(1, 'ok', 'the', 'the cat sat on the mat', details={'ended': ['stop', 'length']}),
    ]
    run = build_scorer({'evaluator': 'BleuEvaluator'}).score(rows)
    assert run.details['cut']['finished'] == pytest.approx(100.0)
    assert run.value < 100
    rotated = [Scorable(n, 'ok', 'A', f'q--{"A"}--ABCD', details=CUT if n else {}) for n in range(2)]
    assert 'finished' not in build_scorer({'evaluator': 'CircularEvaluator'}).score(rotated).details['cut']


# Several extractors of the same replies

EXTRACTORS = {
    'strict': {'type': 'match_answer_pattern', 'answer_pattern': r'^Answer: ([A-D])'},
    'flexible': {'type': 'first_option_postprocess', 'options': 'ABCD'},
    'raw': None,
}


def test_every_extractor_gets_a_score_and_the_first_makes_the_verdicts() -> None:
    replies = ['Answer: A', 'I think B', 'A', 'The answer is C']
    run = accuracy(
        [Scorable(row, 'ok', reply, gold) for row, (reply, gold) in enumerate(zip(replies, 'ABAD', strict=True))],
        pred_postprocessor=EXTRACTORS,
    )
    found = run.details['extractors']
    assert {name: one['value'] for name, one in found.items()} == {'strict': 25.0, 'flexible': 75.0, 'raw': 25.0}
    assert {name: one['unparsed'] for name, one in found.items()} == {'strict': 3, 'flexible': 0, 'raw': 0}
    assert (run.value, [verdict.extracted for verdict in run.verdicts]) == (25.0, ['A', '', '', ''])
    columns = run.columns
    assert [(card.metric, card.value, card.scored) for card in columns] == [
        ('accuracy (strict)', 25.0, 4),
        ('accuracy (flexible)', 75.0, 4),
        ('accuracy (raw)', 25.0, 4),
    ]
    assert columns[1].low == pytest.approx(100 * wilson(3, 4).low)


def test_each_extractor_counts_its_unparsed_rows_and_scores_the_finished_replies_itself() -> None:
    rows = [
        Scorable(0, 'ok', 'Answer: A', 'A'),
        Scorable(1, 'ok', 'I think B', 'B'),
        Scorable(2, 'ok', 'First,', 'B', details=CUT),
        Scorable(3, 'failed', None, 'B'),
    ]
    strict, flexible, _ = accuracy(rows, pred_postprocessor=EXTRACTORS).columns
    assert strict.describe_replies() == '33 % cut; 33.3 of all, 50.0 of finished'
    assert flexible.describe_replies() == '33 % cut; 66.7 of all, 100.0 of finished'
    assert dict(strict.outcomes) == {'ok': 1, 'unparsed': 2, 'failed': 1}
    assert dict(flexible.outcomes) == {'ok': 2, 'unparsed': 1, 'failed': 1}


def test_a_group_counts_replies_and_rows_of_members_without_a_value_too() -> None:
    counted = {'ok': 6, 'unparsed': 2, 'failed': 2}
    cards = [
        Scorecard('a', 'm', 'accuracy', 50.0, scored=8, total=10, outcomes=counted),
        Scorecard('b', 'm', 'accuracy', 50.0, scored=4, total=5, cut=ReplyCount(2, 4)),
        Scorecard('c', 'm', 'accuracy', None, total=7, outcomes={'failed': 7}),
    ]
    both, lacking = summarise_groups(read_groups({'groups': {'both': ['a', 'b'], 'lacking': ['a', 'c']}}), cards)
    assert both.details['cut'] == {'rows': 2, 'of': 12}
    assert 'empty' not in both.details
    assert (lacking.value, lacking.scored, lacking.total) == (None, 8, 17)
    assert dict(lacking.outcomes) == {'ok': 6, 'unparsed': 2, 'failed': 9}


def test_a_group_has_a_row_for_each_extractor_that_its_members_share() -> None:
    def card(name: str, extractor: str, value: float) -> Scorecard:
        return Scorecard(name, 'm', f'accuracy ({extractor})', value, scored=1, extractor=extractor)

    cards = [
        card('a', 'x', 10.0),
        card('a', 'y', 20.0),
        card('b', 'y', 40.0),
        card('b', 'z', 60.0),
        card('c', 'z', 0.0),
    ]
    groups = read_groups({'groups': {'ab': ['a', 'b'], 'ac': ['a', 'c'], 'nested': ['ab', 'a']}})
    made = [(one.dataset, one.metric, one.value) for one in summarise_groups(groups, cards)]
    assert made == [('ab', 'accuracy (y)', 30.0), ('ac', 'accuracy', 5.0), ('nested', 'accuracy (y)', 25.0)]


def test_one_extractor_is_one_column() -> None:
    card = accuracy([Scorable(0, 'ok', 'A', 'A')], pred_postprocessor='first-capital')
    assert card.columns == (card,)
    assert 'extractors' not in card.details


def test_a_problem_of_one_of_several_extractors_names_it() -> None:
    with pytest.raises(ConfigError, match=r'pred_postprocessor\.strict'):
        accuracy([], pred_postprocessor={'strict': 'frist_option', 'other': None})


def test_a_judge_cannot_read_several_answers_of_one_reply() -> None:
    config = {'evaluator': 'GenericLLMEvaluator', 'pred_postprocessor': EXTRACTORS}
    with pytest.raises(ConfigError, match='several extractors'):
        build_scorer(config, judge=lambda values: 'A')


# One row cannot take the others with it


def needs_column(answer: Answer) -> Mark:
    right = answer.values['unit'] == answer.prediction
    return Mark(float(right), correct=right)


@in_one
@pytest.mark.parametrize(('failures', 'value', 'scored'), [('exclude', 100.0, 2), ('wrong', 200 / 3, 3)])
def test_a_row_that_cannot_be_marked_is_failed_with_the_reason(failures: str, value: float, scored: int) -> None:
    rows = [Scorable(n, 'ok', 'm', 'm', {'unit': 'm'} if n != 1 else {}) for n in range(3)]
    run = build_scorer({'evaluator': Metric('units', needs_column), 'failures': failures}).score(rows)
    assert (run.value, run.scored, dict(run.outcomes)) == (pytest.approx(value), scored, {'ok': 2, 'failed': 1})
    assert run.verdicts[1].outcome == 'failed'
    assert run.verdicts[1].reason == "the evaluator units, on row 1, raised KeyError: 'unit'."
    assert run.details['excluded'] == ({'failed': 1} if failures == 'exclude' else {})


def test_a_gold_answer_that_cannot_be_read_fails_its_row_only() -> None:
    run = build_scorer({'evaluator': 'AccEvaluator', 'dataset_postprocessor': lambda text: text.split('#')[1]}).score(
        [Scorable(0, 'ok', '4', '#4'), Scorable(1, 'ok', '4', 'four')]
    )
    assert (run.value, run.verdicts[1].outcome) == (100.0, 'failed')
    assert 'the gold answer of row 1' in run.verdicts[1].reason


@in_one
@pytest.mark.parametrize(
    ('rows', 'more'), [(1, ''), (2, r' The same holds for all 2 rows\.'), (3, r' The same holds for all 3 rows\.')]
)
def test_an_evaluator_that_fails_on_every_row_is_an_error(rows: int, more: str) -> None:
    with pytest.raises(ScoringError, match=rf"raised KeyError: 'unit'\.{more}$"):
        build_scorer({'evaluator': Metric('units', needs_column)}).score(
            [Scorable(n, 'ok', 'm', 'm') for n in range(rows)]
        )


# Rows as they come


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(['ok', 'ok', 'failed']),
            st.sampled_from(['A', 'B', '', ['A', 'B'], ['B', 'B']]),
            st.sampled_from([None, 'x', 'y']),
        ),
        max_size=12,
    ),
    st.integers(1, 5),
)
def test_rows_that_come_in_pieces_give_the_same_score(rows: list[tuple[Any, Any, Any]], size: int) -> None:
    scorer = build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': 'first-capital', 'k': [1, 2]})
    given_rows = [Scorable(n, outcome, said, 'A', cluster=cluster) for n, (outcome, said, cluster) in enumerate(rows)]
    together = scorer.score(given_rows)
    session = scorer.start()
    verdicts = [one for at in range(0, len(rows), size) for one in session.add(given_rows[at : at + size])]
    apart = session.finish()
    assert tuple(verdicts) == together.verdicts
    assert (apart.value, apart.low, apart.high, apart.outcomes) == (
        together.value,
        together.low,
        together.high,
        together.outcomes,
    )
    assert apart.details == together.details


def test_a_mean_of_very_many_rows_has_a_normal_interval() -> None:
    drawn = random.Random(1)
    rows = [Scorable(n, 'ok', drawn.random(), None) for n in range(20_001)]
    run = build_scorer({'evaluator': 'AveragePPLEvaluator'}).score(rows)
    reach = 1.96 * (1 / 12) ** 0.5 / 20_001**0.5
    assert (run.high - run.low) / 2 == pytest.approx(reach, rel=0.02)
    assert run.low < run.value < run.high


# Groups of datasets


def card(dataset: str, value: float | None, scored: int = 100, model: str = 'm', **details: Any) -> Scorecard:
    low, high = (None, None) if value is None else (value - 4, value + 4)
    outcomes = {'ok': scored, 'failed': 1}
    headline = (dataset, model, 'accuracy', value, low, high, scored, scored + 1, outcomes)
    return Scorecard(*headline, **{'unit': '%', **details})


CARDS = [card('physics', 40.0, further={'acc_1': 10.0}), card('chemistry', 60.0, 300), card('law', 80.0)]


@in_one
@pytest.mark.parametrize(
    ('config', 'values'),
    [
        ({'groups': {'stem': ['physics', 'chemistry']}}, {'stem': 50.0}),
        ({'groups': {'stem': {'datasets': ['physics', 'chemistry'], 'weights': 'rows'}}}, {'stem': 55.0}),
        (
            {
                'summary_groups': [
                    {'name': 'stem', 'subsets': ['physics', 'chemistry'], 'weights': {'physics': 3, 'chemistry': 1}}
                ]
            },
            {'stem': 45.0},
        ),
        (
            {
                'summarizer': {
                    'summary_groups': [
                        {'name': 'stem', 'subsets': [['physics', 'accuracy'], ['chemistry', 'accuracy']]},
                        {'name': 'all', 'subsets': ['stem', 'law']},
                    ]
                }
            },
            {'stem': 50.0, 'all': 65.0},
        ),
        ({'groups': {'all': ['stem', 'law'], 'stem': ['physics', 'chemistry']}}, {'all': 65.0, 'stem': 50.0}),
        ({'groups': {'arts': ['music']}}, {}),
        (  # `metric` may name the average, and each member its own metric
            {
                'summary_groups': [
                    {'name': 'both', 'subsets': ['physics', 'chemistry'], 'metric': 'naive_average'},
                    {'name': 'both', 'subsets': ['physics', 'chemistry'], 'metric': 'harmonic_mean'},
                    {'name': 'added', 'subsets': ['physics', 'chemistry'], 'sum': True},
                    {'name': 'spread', 'subsets': ['physics', 'chemistry'], 'std': True},
                    {'name': 'own', 'subsets': [['physics', 'acc_1'], ['chemistry', 'accuracy']]},
                    {'name': 'twice', 'subsets': [['physics', 'acc_1'], ['physics', 'accuracy']]},
                    {
                        'name': 'weighed',
                        'subsets': [['physics', 'acc_1'], ['physics', 'accuracy']],
                        'weights': {'physics@acc_1': 3, 'physics@accuracy': 1},
                    },
                    {'name': 'changed', 'subsets': ['physics'], 'transforms': {'physics': '100 - x'}},
                ]
            },
            {
                'both': 50.0,
                'both (harmonic_mean)': 48.0,
                'added': 100.0,
                'spread': 10.0,
                'own': 35.0,
                'twice': 25.0,
                'weighed': 17.5,
                'changed': None,
            },
        ),
        ({'groups': {'some': ['physics', 'music']}}, {'some': None}),
        ({}, {}),
    ],
)
def test_a_group_is_the_mean_of_its_members(config: dict[str, Any], values: dict[str, float | None]) -> None:
    made = summarise_groups(read_groups(config), CARDS)
    assert {one.dataset: one.value for one in made} == values


def test_a_group_that_is_called_like_a_dataset_does_not_hide_its_score() -> None:
    cards = [Scorecard(name, 'm', 'accuracy', value, scored=10) for name, value in (('a', 10.0), ('b', 30.0))]
    [group] = summarise_groups(read_groups({'groups': {'a': ['b']}}), cards)
    assert (group.dataset, group.value) == ('a (group)', 30.0)


def test_a_group_adds_up_its_members_rows_and_names_them() -> None:
    [one] = summarise_groups(read_groups({'groups': {'stem': ['physics', 'chemistry']}}), CARDS)
    assert (one.metric, one.scored, one.total, one.outcomes) == ('accuracy', 400, 402, {'ok': 400, 'failed': 2})
    assert one.members == ('physics', 'chemistry')
    assert one.details['unit'] == '%'
    json.dumps(one.details)


def test_a_group_lacking_a_member_says_which() -> None:
    [one] = summarise_groups(read_groups({'groups': {'some': ['physics', 'music']}}), CARDS)
    assert (one.value, one.low, one.details['missing']) == (None, None, ['music'])


@in_one
@pytest.mark.parametrize(
    ('entry', 'warning'),
    [
        ({'subsets': ['physics', 'music']}, 'some × m has no value: no score of music.'),
        ({'subsets': ['physics', *'abcde']}, 'some × m has no value: no score of a, b, c and 2 more.'),
        (
            {'subsets': ['physics'], 'transforms': {'physics': '-x'}},
            'some × m has no value: transforms of a group are not supported.',
        ),
    ],
)
def test_a_report_says_why_a_group_has_no_value(entry: dict[str, Any], warning: str) -> None:
    made = summarise_groups(read_groups({'summary_groups': [{'name': 'some', **entry}]}), CARDS)
    assert warnings_of([*CARDS, *made]) == [warning]


def test_datasets_that_agree_by_chance_do_not_make_a_group_certain() -> None:
    [one] = summarise_groups(read_groups({'groups': {'all': ['x', 'y']}}), [card('x', 100.0, 2), card('y', 100.0, 2)])
    assert (one.low, one.high) == (pytest.approx(100 - 8**0.5), 100.0)


def test_every_model_has_its_own_group() -> None:
    cards = [*CARDS, card('physics', 10.0, model='n'), card('chemistry', 20.0, model='n')]
    made = summarise_groups(read_groups({'groups': {'stem': ['physics', 'chemistry']}}), cards)
    assert [(one.model, one.value) for one in made] == [('m', 50.0), ('n', 15.0)]


def test_a_group_s_interval_is_of_its_rows_and_tells_that_of_datasets_as_a_sample() -> None:
    cards = [card(f'd{n}', 50.0 + n) for n in range(-10, 11)]
    [one] = summarise_groups(read_groups({'groups': {'all': [c.dataset for c in cards]}}), cards)
    spread = (sum(n * n for n in range(-10, 11)) / 20) ** 0.5
    low, high = one.details['between']
    assert (high - low) / 2 == pytest.approx(2.086 * spread / 21**0.5, rel=0.001)
    assert (one.low, one.high) == pytest.approx((50 - 4 / 21**0.5, 50 + 4 / 21**0.5))
    assert one.details['interval'] == 'rows of the datasets as given'
    assert one.details['clusters'] == 21


@pytest.mark.parametrize(('right', 'value'), [(0, 0.0), (4, 100.0)])
def test_a_group_of_datasets_without_a_wrong_or_right_row_is_not_surer_than_its_rows(right: int, value: float) -> None:
    low, high = (100 * end for end in wilson(right, 4))
    cards = [Scorecard(name, 'm', 'accuracy', value, low, high, scored=4, total=4) for name in 'ab']
    [both] = summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)
    together = wilson(2 * right, 8)
    assert both.high - both.low == pytest.approx(100 * (together[1] - together[0]), abs=3)


def test_a_group_of_one_keeps_its_interval_and_shares_stay_within_their_scale() -> None:
    alone, apart = summarise_groups(
        read_groups({'groups': {'alone': ['physics'], 'apart': ['x', 'y']}}), [*CARDS, card('x', 2.0), card('y', 99.0)]
    )
    assert (alone.low, alone.high) == (36.0, 44.0)
    assert apart.details['between'] == [0.0, 100.0]
    assert (apart.low, apart.high) == pytest.approx((50.5 - 8**0.5, 50.5 + 8**0.5))


def test_a_metric_among_a_member_s_further_numbers_can_be_averaged() -> None:
    cards = [card('a', 50.0, further={'f1': 10.0}), card('b', 50.0, further={'f1': 30.0})]
    [one] = summarise_groups(read_groups({'groups': {'all': {'datasets': ['a', 'b'], 'metric': 'f1'}}}), cards)
    assert (one.metric, one.value, one.details['unit']) == ('f1', 20.0, '%')


def test_cut_replies_of_members_are_added_up() -> None:
    cards = [card('a', 50.0, 9, cut=ReplyCount(5, 10)), card('b', 50.0, 9)]
    [one] = summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)
    assert one.describe_replies() == '26 % cut'  # 5 of 19 replies: a row of b has none


@in_one
@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ({'groups': 'all'}, 'expected a dict of names'),
        ({'groups': {'all': []}}, 'the group has no members'),
        ({'groups': [{'name': 'all', 'members': ['a']}]}, "a group has no key 'members'"),
        ({'summary_groups': ['x']}, "expected a dict with 'name'"),
        ({'groups': {'all': {'datasets': ['a'], 'wieghts': {}}}}, "Did you mean 'weights'"),
        ({'groups': {'all': {'datasets': ['a'], 'weights': {'a': -1}}}}, "expected a dict of numbers or 'rows'"),
        ({'groups': {'a': ['b'], 'b': ['a']}}, 'the group contains itself'),
    ],
)
def test_a_group_that_cannot_be_made_is_a_problem_of_the_config(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_groups(config)


# Models of one run


def answered(right: int, rows: int = 200, start: int = 0, cluster: int = 0) -> dict[Any, PairedRow]:
    return {
        row: PairedRow(
            float(start <= row < start + right), start <= row < start + right, str(row // cluster) if cluster else None
        )
        for row in range(rows)
    }


def test_models_that_cannot_be_told_apart_share_a_rank() -> None:
    ranked = rank_models({'a': answered(120), 'b': answered(180), 'c': answered(119), 'd': answered(20)})
    assert [(place.model, place.rank, place.value) for place in ranked.places] == [
        ('b', '1', 0.9),
        ('a', '2–3', 0.6),
        ('c', '2–3', 0.595),
        ('d', '4', 0.1),
    ]
    assert ranked.rows == 200
    [pair] = [pair for pair in ranked.pairs if {pair.better, pair.worse} == {'a', 'c'}]
    assert (pair.test, pair.difference, pair.p, pair.told_apart) == (
        'mcnemar',
        pytest.approx(0.005),
        mcnemar(1, 0),
        False,
    )


def test_p_values_are_corrected_for_the_number_of_pairs() -> None:
    models = {'a': answered(110), 'b': answered(100), 'c': answered(90)}
    pairs = {(one.better, one.worse): one for one in rank_models(models).pairs}
    assert pairs['a', 'c'].p == mcnemar(20, 0)
    assert pairs['a', 'c'].adjusted == pytest.approx(3 * mcnemar(20, 0))
    assert pairs['a', 'b'].adjusted == pytest.approx(2 * mcnemar(10, 0))
    assert pairs['b', 'c'].adjusted == pairs['a', 'b'].adjusted


def test_only_rows_that_all_models_were_scored_on_count() -> None:
    ranked = rank_models({'a': answered(50, 100), 'b': {row: one for row, one in answered(99).items() if row % 2}})
    assert (ranked.rows, ranked.places[0].model, ranked.places[0].value) == (50, 'b', 0.98)


def test_lower_is_better_where_the_metric_says_so() -> None:
    scores = {name: {row: PairedRow(value + row % 3) for row in range(50)} for name, value in (('a', 9.0), ('b', 3.0))}
    ranked = rank_models(scores, lower_is_better=True)
    assert [place.model for place in ranked.places] == ['b', 'a']
    assert (ranked.pairs[0].test, ranked.pairs[0].difference, ranked.pairs[0].told_apart) == ('paired mean', -6.0, True)


def test_clustered_rows_are_compared_by_cluster() -> None:
    apart = rank_models({'a': answered(100), 'b': answered(80)}).pairs[0]
    together = rank_models({'a': answered(100, cluster=20), 'b': answered(80, cluster=20)}).pairs[0]
    assert together.test == 'paired mean'
    assert together.p > 0.4  # one cluster of ten
    assert apart.p < 0.001


def test_without_shared_rows_nothing_is_ranked_above_another() -> None:
    ranked = rank_models({'a': answered(5, 5), 'b': {9: PairedRow(1.0, True)}})
    assert (ranked.pairs, ranked.rows) == ((), 0)
    assert {place.rank for place in ranked.places} == {'1–2'}
    assert rank_models({}).places == ()


# Numbers at their edges


@in_one
@pytest.mark.parametrize(
    ('freedom', 'point'), [(2, 4.271), (3, 3.179), (4, 2.776), (5, 2.570), (10, 2.2281), (20, 2.0860), (56, 2.0032)]
)
def test_student_s_t_is_that_of_the_tables_but_for_very_few_members(freedom: int, point: float) -> None:
    assert student_t(freedom) == pytest.approx(point, abs=0.0006)


def test_a_weighted_group_s_interval_weighs_its_members() -> None:
    cards = [card('a', 0.0, unit=''), card('b', 60.0, unit=''), card('c', 50.0, unit='')]
    config = {'groups': {'all': {'datasets': ['a', 'b', 'c'], 'weights': {'a': 2, 'b': 1, 'c': 1}}}}
    [one] = summarise_groups(read_groups(config), cards)
    spread = (0.5 * -27.5) ** 2 + (0.25 * 32.5) ** 2 + (0.25 * 22.5) ** 2
    reach = student_t(2) * (spread * 3 / 2) ** 0.5
    assert one.value == 27.5
    assert one.details['between'] == pytest.approx([27.5 - reach, 27.5 + reach])
    within = ((0.5 * 4) ** 2 + 2 * (0.25 * 4) ** 2) ** 0.5
    assert (one.low, one.high) == pytest.approx((27.5 - within, 27.5 + within))
    assert one.details['weights'] == {'a': 0.5, 'b': 0.25, 'c': 0.25}
    assert one.details['unit'] == ''


def test_a_member_without_an_interval_leaves_the_group_without_one_of_the_rows() -> None:
    cards = [card('a', 40.0), Scorecard('b', 'm', 'f1', 60.0, scored=1, total=1)]
    [one] = summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)
    assert 'between' not in one.details
    assert one.details['interval'] == 'datasets as clusters'
    assert (one.metric, one.details['unit']) == ('mean', '%')


def test_members_that_weigh_nothing_weigh_the_same() -> None:
    config = {'summary_groups': [{'name': 'all', 'subsets': ['physics', 'chemistry'], 'weights': {'law': 1}}]}
    assert summarise_groups(read_groups(config), CARDS)[0].value == 50.0


def test_a_metric_that_members_do_not_have_is_missing() -> None:
    config = {'summary_groups': [{'name': 'all', 'subsets': [['physics', 'f1'], ['law', 'accuracy']]}]}
    [one] = summarise_groups(read_groups(config), CARDS)
    assert (one.value, one.details['missing']) == (None, ['physics@f1'])
    config = {'summary_groups': [{'name': 'all', 'subsets': [['physics', 'f1']]}]}
    assert summarise_groups(read_groups(config), CARDS)[0].details['missing'] == ['physics@f1']


def test_all_problems_of_groups_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_groups({'groups': {'a': [], 'b': {'datasets': ['x'], 'weights': 3}}, 'summary_groups': 5})
    assert [problem.where for problem in caught.value.problems] == ['groups.a', 'groups.b.weights', 'summary_groups']


def samples(*rows: tuple[Any, ...], **more: Any) -> Scorecard:
    given_rows = [Scorable(n, 'ok' if said else 'failed', said, 'A') for n, said in enumerate(rows)]
    return accuracy(given_rows, k=[1, 2], **more)


def test_pass_at_k_of_samples() -> None:
    run = samples(['A', 'A', 'B'], ['B', 'B', 'B'])
    further = run.details['further']
    assert (further['pass@1'], further['pass@2']) == (pytest.approx(100 / 3), 50.0)
    assert further['g-pass@2_1.0'] == pytest.approx(100 / 6)
    assert set(run.details['further_intervals']) == {'pass@1', 'pass@2'}
    assert run.details['further_intervals']['pass@2'] == pytest.approx((9.45, 90.55), abs=0.01)
    shares = mean_interval([(2 / 3, 1), (0.0, 1)], scale=(0.0, 1.0))
    assert shares is not None
    assert run.details['further_intervals']['pass@1'] == pytest.approx([100 * bound for bound in shares])


def test_one_row_has_no_interval_of_pass_at_k_and_one_sample_no_g_pass() -> None:
    assert 'further_intervals' not in samples(['A', 'B']).details
    assert list(samples('A', 'B').details['further']) == ['pass@1']


def test_rows_that_lack_samples_for_pass_at_k_are_told() -> None:
    warn = [
        replace(samples(*rows), dataset='d', model='m').warnings()
        for rows in ((['A', 'B'], 'A', 'B'), 'AB', ([*'AB'], [*'BB']))
    ]
    assert warn == [('d × m: no pass@2; too few samples in 2 rows.',), (), ()]


def test_a_row_that_counts_without_an_answer_is_wrong_in_every_sample() -> None:
    further = samples(['A', 'A'], None, failures='wrong').details['further']
    assert (further['pass@1'], further['pass@2']) == (50.0, 50.0)


def test_grades_between_right_and_wrong_have_no_pass_at_k() -> None:
    rows = [Scorable(0, 'ok', ['big cat', 'cat'], 'cat')]
    assert 'pass@1' not in build_scorer({'evaluator': 'SquadEvaluator', 'k': [1]}).score(rows).details['further']


def test_clusters_and_rows_without_one_are_counted() -> None:
    rows = [Scorable(n, 'ok', 'A', 'A', cluster='ab'[n] if n < 2 else None) for n in range(5)]
    assert accuracy([*rows, Scorable(5, 'ok', 'A', 'A', cluster='a')]).details['clusters'] == 5


def test_a_corpus_metric_of_one_row_has_no_interval_and_of_two_has() -> None:
    pair = ('the cat sat on the mat', 'the cat sat on a mat')
    one = build_scorer({'evaluator': 'BleuEvaluator'}).score([Scorable(0, 'ok', *pair)])
    two = build_scorer({'evaluator': 'BleuEvaluator'}).score([Scorable(n, 'ok', *pair) for n in range(2)])
    assert (one.low, one.details['clusters']) == (None, 1)
    assert (two.low, two.high, two.details['clusters']) == (pytest.approx(two.value), pytest.approx(two.value), 2)


def test_very_many_rows_of_a_corpus_metric_are_resampled_in_blocks() -> None:
    share = Metric(
        'share',
        lambda answer: Mark(answer.prediction, tally=(answer.prediction, 1.0)),
        Corpus(total=lambda tally: tally[0] / tally[1]),
    )
    rows = [Scorable(n, 'ok', float(n % 2), '') for n in range(12_000)]
    run = build_scorer({'evaluator': share}).score(rows)
    assert (run.value, run.details['clusters']) == (50.0, 12_000)
    assert 49.0 < run.low < 50.0 < run.high < 51.0


def test_an_incomplete_group_is_left_out_and_counted() -> None:
    rows = [
        Scorable(0, 'ok', 'A', 'q--A--ABCD'),
        Scorable(1, 'failed', None, 'q--D--BCDA'),
        Scorable(2, 'ok', 'A', 'r--A--ABCD'),
        Scorable(3, 'ok', 'A', 's--B--ABCD'),
    ]
    run = build_scorer({'evaluator': 'CircularEvaluator'}).score(rows)
    assert (run.value, run.scored) == (50.0, 2)
    assert run.details['excluded'] == {'failed': 1, 'incomplete_group': 1}
    assert run.details['groups'] == [[0, 1], [2], [3]]


def test_what_an_evaluator_returns_beyond_numbers_is_kept() -> None:
    class Talkative:
        def score(self, predictions: list[Any], references: list[Any]) -> dict[str, Any]:
            return {'accuracy': 50.0, 'by_topic': {'law': 1}, 'details': [{'correct': True}, {'correct': False}]}

    run = build_scorer({'evaluator': Talkative}).score([Scorable(n, 'ok', 'x', 'x') for n in range(2)])
    assert run.details['returned'] == {'by_topic': {'law': 1}}
    assert [verdict.correct for verdict in run.verdicts] == [True, False]
    assert (run.low, run.high) == pytest.approx([100 * bound for bound in wilson(1, 2)])


def test_rows_counted_by_an_evaluator_of_all_rows_add_up() -> None:
    class Half:
        def score(self, predictions: list[Any], references: list[Any]) -> dict[str, Any]:
            return {'half': len(predictions) / 2}

    rows = [Scorable(0, 'ok', 'x', 'x'), Scorable(1, 'failed', None, 'x'), Scorable(2, 'ok', 'x', 'x')]
    run = build_scorer({'evaluator': Half}).score(rows)
    assert (run.value, run.scored, run.total, run.details['excluded']) == (1.0, 2, 3, {'failed': 1})
    assert 'returned' not in run.details


def test_the_interval_of_a_ranking_s_pair_is_that_of_the_difference() -> None:
    scores = {name: {row: PairedRow(shift + row % 2) for row in range(40)} for name, shift in (('a', 1.0), ('b', 0.0))}
    [pair] = rank_models(scores).pairs
    assert (pair.difference, pair.rows) == (1.0, 40)
    assert (pair.low, pair.high) == pytest.approx((0.905, 1.046), abs=5e-4)  # forty equal differences are not certainty
    clustered = {
        name: {row: PairedRow(one.score, None, 'one') for row, one in rows.items()} for name, rows in scores.items()
    }
    [pair] = rank_models(clustered).pairs
    assert (pair.low, pair.high) == (None, None)  # one cluster says nothing about how clusters vary
    assert pair.p > 0.4


def test_rows_that_are_samples_of_one_problem_count_together() -> None:
    metric = Metric(
        'right',
        lambda answer: Mark(float(answer.prediction == 'A'), correct=answer.prediction == 'A'),
        PassRate(problem=lambda answer: answer.values['task'], k=(1, 2)),
    )
    rows = [Scorable(n, 'ok', said, 'A', {'task': task}) for n, (said, task) in enumerate(['Ax', 'Bx', 'By', 'By'])]
    run = build_scorer({'evaluator': metric}).score(rows)
    assert (run.value, run.details['clusters']) == (25.0, 2)
    assert (run.details['further']['pass@1'], run.details['further']['pass@2']) == (25.0, 50.0)


def test_whole_grades_are_right_or_wrong_for_pass_at_k() -> None:
    run = build_scorer({'evaluator': lambda prediction, gold: float(prediction == gold), 'k': [1]}).score(
        [Scorable(0, 'ok', ['A', 'B'], 'A')]
    )
    assert run.details['further']['pass@1'] == 0.5


def test_a_run_warns_of_the_first_datasets_at_once_and_of_the_others_together() -> None:
    def card(number: int, cut: int, model: str = 'm') -> Scorecard:
        return Scorecard(f'd{number}', model, 'accuracy', 50.0, cut=ReplyCount(cut, 10))

    shown = WarningFilter()
    assert [len(shown.add(card(number, number % 7))) for number in range(10)] == [0, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert [len(shown.add(card(number, 3, 'few'))) for number in range(3)] == [1, 1, 1]
    assert shown.finish() == [
        '8 datasets × m: 30 % of the replies were cut off by max_out_len (24 of 80; most in d6 60 %, d5 50 %, d4 40 %). '
        'Raise max_out_len.'
    ]


def test_a_missing_answer_is_never_right_and_a_corpus_metric_counts_its_gold_answer() -> None:
    rows = [Scorable(0, 'ok', 'the cat sat on', 'the cat sat on'), Scorable(1, 'failed', None, 'a dog')]
    run = build_scorer({'evaluator': 'BleuEvaluator', 'failures': 'wrong'}).score(rows)
    assert run.value == pytest.approx(100 * math.exp(1 - 6 / 4))  # only brevity is amiss
    for evaluator in ('AccEvaluator', 'SquadEvaluator'):
        silent = build_scorer({'evaluator': evaluator, 'failures': 'wrong'}).score([Scorable(0, 'failed', None, '')])
        assert (silent.value, silent.verdicts[0].correct is True) == (0.0, False)

    class Answered:
        def score(self, predictions: list[Any], references: list[Any]) -> dict[str, Any]:
            return {'accuracy': 50.0, 'details': [{'correct': one != ''} for one in predictions]}

    whole = build_scorer({'evaluator': Answered, 'failures': 'wrong'}).score(rows)
    assert [verdict.correct for verdict in whole.verdicts] == [True, False]


def test_a_harmonic_mean_of_small_shares_keeps_them() -> None:
    cards = [card('a', 0.5), card('b', 50.0)]
    summary = {'summary_groups': [{'name': 'both', 'subsets': ['a', 'b'], 'metric': 'harmonic_mean'}]}
    assert [one.value for one in summarise_groups(read_groups(summary), cards)] == [pytest.approx(2 / (2 + 1 / 50))]


def test_rows_added_at_once_are_counted_one_by_one() -> None:
    sums = ClusterSums()
    sums.add_alone([1.0, 0.0, 1.0])
    assert (len(sums), sums.totals) == (3, (2.0,))


def test_a_bootstrap_interval_lies_between_the_quantiles_of_its_confidence() -> None:
    low, high = bootstrap([0.0, 1.0] * 50, lambda drawn: sum(drawn) / len(drawn), confidence=0.5)
    assert (low, high) == pytest.approx((0.466, 0.534), abs=0.008)  # 0.674 standard errors of 0.05


def test_a_group_of_groups_has_the_interval_of_its_datasets() -> None:
    values = [40.0, 52.0, 61.0, 47.0, 55.0, 58.0]
    cards = [
        Scorecard(f'd{n}', 'm', 'accuracy', value, value - 6, value + 6, scored=100) for n, value in enumerate(values)
    ]
    halves = {'one': ['d0', 'd1', 'd2'], 'two': ['d3', 'd4', 'd5']}
    made = summarise_groups(
        read_groups({'groups': {**halves, 'nested': ['one', 'two'], 'flat': [card.dataset for card in cards]}}), cards
    )
    nested, flat = (next(card for card in made if card.dataset == name) for name in ('nested', 'flat'))
    assert (nested.value, nested.low, nested.high) == pytest.approx((flat.value, flat.low, flat.high))
    assert nested.details['between'] == pytest.approx(flat.details['between'])
    assert nested.details['clusters'] == 6


def test_a_dataset_in_two_groups_counts_once_as_a_cluster() -> None:
    cards = [
        Scorecard(name, 'm', 'accuracy', value, value - 6, value + 6) for name, value in (('a', 40.0), ('b', 60.0))
    ]
    groups = {'one': ['a', 'b'], 'two': ['b'], 'all': ['one', 'two']}
    [both] = [one for one in summarise_groups(read_groups({'groups': groups}), cards) if one.dataset == 'all']
    assert (both.value, both.details['clusters']) == (55.0, 2)  # a quarter of a, three quarters of b
    assert (both.low, both.high) == pytest.approx((55 - 6 * (10 / 16) ** 0.5, 55 + 6 * (10 / 16) ** 0.5))


@in_one
@pytest.mark.parametrize(
    ('weights', 'said'),
    [
        ({'a': 0, 'b': 0}, 'all weights are 0.'),
        ({'a': 1, 'bb': 2}, "'bb' is not a member of the group. Did you mean 'b'?"),
        ({'a': math.inf}, "expected a dict of numbers or 'rows'"),
        ({'a': -1}, "expected a dict of numbers or 'rows'"),
    ],
)
def test_weights_that_cannot_be_meant_are_refused(weights: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_groups({'groups': {'g': {'datasets': ['a', 'b'], 'weights': weights}}})
    assert said in ' '.join(str(caught.value).split())


def test_a_group_has_the_mean_of_its_members_finished_replies() -> None:
    cut = Scorecard('a', 'm', 'accuracy', 40.0, cut=ReplyCount(2, 10, 50.0))
    [group] = summarise_groups(
        read_groups({'groups': {'g': {'datasets': ['a', 'b'], 'weights': {'a': 3, 'b': 1}}}}),
        [cut, Scorecard('b', 'm', 'accuracy', 80.0, total=10)],
    )
    assert group.describe_replies() == '10 % cut; 50.0 of all, 57.5 of finished'


def test_a_group_of_an_opencompass_config_finds_the_number_it_calls_score() -> None:
    card = Scorecard('trivia', 'm', 'contains_answer', 40.0)
    config = {'summary_groups': [{'name': 'g', 'subsets': [['trivia', 'score']]}]}
    assert [one.value for one in summarise_groups(read_groups(config), [card])] == [40.0]


@in_one
@pytest.mark.parametrize('details', [{'unit': ''}, {'unit': '%', 'lower_is_better': True}])
def test_a_mean_of_different_scales_or_directions_is_warned_about(details: dict[str, Any]) -> None:
    cards = [
        Scorecard('a', 'm', 'accuracy', 50.0, unit='%'),
        Scorecard('b', 'm', 'rating', 7.0, **details),
    ]
    [group] = summarise_groups(read_groups({'groups': {'g': ['a', 'b']}}), cards)
    assert group.warnings() == (
        'g × m is a mean of different scales or directions (accuracy, rating): it says little.',
    )
