"""What is said beside a score: cut and empty replies, several extractors, rows that fail, groups, and rankings."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.errors import ConfigError
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import Scorable, ScoredRun, build_scorer
from rolecall.scoring.groups import read_groups, summarise_groups
from rolecall.scoring.metrics.metric import Answer, Mark, Metric
from rolecall.scoring.ranking import PairedRow, rank_models
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import mcnemar, wilson

CUT = {'ended': ['length']}


def accuracy(rows: list[Scorable], **more: Any) -> ScoredRun:
    return build_scorer({'evaluator': 'AccEvaluator', **more}).score(rows)


# Cut and empty replies


def test_cut_replies_are_counted_with_the_score_of_the_finished_ones() -> None:
    rows = [
        *(Scorable(number, 'ok', 'A', 'A' if number < 41 else 'B') for number in range(88)),
        *(Scorable(number, 'ok', 'so', 'A', details=CUT) for number in range(88, 100)),
        Scorable(100, 'failed', None, 'A'),
    ]
    card = accuracy(rows).scorecard('gsm8k', 'small')
    assert card.details['cut'] == {'rows': 12, 'of': 100, 'finished': pytest.approx(100 * 41 / 88)}
    assert card.describe_replies() == '12 % cut; 41.0 of all, 46.6 of finished'
    assert card.warnings() == (
        'gsm8k × small: 12 % of the replies were cut off by max_out_len (12 of 100). Raise max_out_len.',
    )
    json.dumps(card.details)


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
    card = accuracy([Scorable(row, 'ok', reply, 'A') for row, reply in enumerate(replies)]).scorecard('d', 'm')
    assert (card.describe_replies(), len(card.warnings())) == (said, warnings)


@pytest.mark.parametrize(
    ('cut', 'total', 'said'), [(1, 1000, '0.1 % cut'), (999, 1000, '99.9 % cut'), (1, 1, '100 % cut')]
)
def test_a_share_is_not_rounded_to_nothing_or_everything(cut: int, total: int, said: str) -> None:
    card = Scorecard('d', 'm', 'accuracy', 50.0, details={'cut': {'rows': cut, 'of': total}})
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
    columns = run.scorecard('d', 'm').columns
    assert [(card.metric, card.value, card.scored) for card in columns] == [
        ('accuracy (strict)', 25.0, 4),
        ('accuracy (flexible)', 75.0, 4),
        ('accuracy (raw)', 25.0, 4),
    ]
    assert columns[1].low == pytest.approx(100 * wilson(3, 4).low)


def test_one_extractor_is_one_column() -> None:
    card = accuracy([Scorable(0, 'ok', 'A', 'A')], pred_postprocessor='first-capital').scorecard('d', 'm')
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


def test_an_evaluator_that_fails_on_every_row_is_an_error() -> None:
    rows = [Scorable(n, 'ok', 'm', 'm') for n in range(3)]
    with pytest.raises(ScoringError, match=r"raised KeyError: 'unit'\. The same holds for all 3 rows\."):
        build_scorer({'evaluator': Metric('units', needs_column)}).score(rows)


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
    return Scorecard(
        dataset, model, 'accuracy', value, low, high, scored, scored + 1, outcomes, {'unit': '%', **details}
    )


CARDS = [card('physics', 40.0), card('chemistry', 60.0, 300), card('law', 80.0)]


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
        ({'groups': {'some': ['physics', 'music']}}, {'some': None}),
        ({}, {}),
    ],
)
def test_a_group_is_the_mean_of_its_members(config: dict[str, Any], values: dict[str, float | None]) -> None:
    made = summarise_groups(read_groups(config), CARDS)
    assert {one.dataset: one.value for one in made} == values


def test_a_group_adds_up_its_members_rows_and_names_them() -> None:
    [one] = summarise_groups(read_groups({'groups': {'stem': ['physics', 'chemistry']}}), CARDS)
    assert (one.metric, one.scored, one.total, one.outcomes) == ('accuracy', 400, 402, {'ok': 400, 'failed': 2})
    assert one.members == ('physics', 'chemistry')
    assert one.details['unit'] == '%'
    json.dumps(one.details)


def test_a_group_lacking_a_member_says_which() -> None:
    [one] = summarise_groups(read_groups({'groups': {'some': ['physics', 'music']}}), CARDS)
    assert (one.value, one.low, one.details['missing']) == (None, None, ['music'])


def test_every_model_has_its_own_group() -> None:
    cards = [*CARDS, card('physics', 10.0, model='n'), card('chemistry', 20.0, model='n')]
    made = summarise_groups(read_groups({'groups': {'stem': ['physics', 'chemistry']}}), cards)
    assert [(one.model, one.value) for one in made] == [('m', 50.0), ('n', 15.0)]


def test_a_group_s_interval_takes_datasets_as_clusters_and_tells_the_rows_own() -> None:
    cards = [card(f'd{n}', 50.0 + n) for n in range(-10, 11)]
    [one] = summarise_groups(read_groups({'groups': {'all': [c.dataset for c in cards]}}), cards)
    spread = (sum(n * n for n in range(-10, 11)) / 20) ** 0.5
    assert (one.high - one.low) / 2 == pytest.approx(2.086 * spread / 21**0.5, rel=0.001)
    assert one.details['within'] == pytest.approx([50 - 4 / 21**0.5, 50 + 4 / 21**0.5])
    assert one.details['clusters'] == 21


def test_a_group_of_one_keeps_its_interval_and_shares_stay_within_their_scale() -> None:
    alone, apart = summarise_groups(
        read_groups({'groups': {'alone': ['physics'], 'apart': ['x', 'y']}}), [*CARDS, card('x', 2.0), card('y', 99.0)]
    )
    assert (alone.low, alone.high) == (36.0, 44.0)
    assert (apart.low, apart.high) == (0.0, 100.0)


def test_a_metric_among_a_member_s_further_numbers_can_be_averaged() -> None:
    cards = [card('a', 50.0, further={'f1': 10.0}), card('b', 50.0, further={'f1': 30.0})]
    [one] = summarise_groups(read_groups({'groups': {'all': {'datasets': ['a', 'b'], 'metric': 'f1'}}}), cards)
    assert (one.metric, one.value) == ('f1', 20.0)


def test_cut_replies_of_members_are_added_up() -> None:
    cards = [card('a', 50.0, 9, cut={'rows': 5, 'of': 10}), card('b', 50.0, 9)]
    [one] = summarise_groups(read_groups({'groups': {'all': ['a', 'b']}}), cards)
    assert one.describe_replies() == '25 % cut'


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ({'groups': 'all'}, 'expected a dict of names'),
        ({'groups': {'all': []}}, 'the group has no members'),
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
    assert (pair.test, pair.difference, pair.p, pair.told_apart) == ('mcnemar', pytest.approx(0.005), 1.0, False)


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
    assert (ranked.pairs[0].test, ranked.pairs[0].difference, ranked.pairs[0].told_apart) == ('permutation', -6.0, True)


def test_clustered_rows_are_compared_by_cluster() -> None:
    apart = rank_models({'a': answered(100), 'b': answered(80)}).pairs[0]
    together = rank_models({'a': answered(100, cluster=20), 'b': answered(80, cluster=20)}).pairs[0]
    assert (together.test, together.p) == ('permutation', 1.0)
    assert apart.p < 0.001


def test_without_shared_rows_nothing_is_ranked_above_another() -> None:
    ranked = rank_models({'a': answered(5, 5), 'b': {9: PairedRow(1.0, True)}})
    assert (ranked.pairs, ranked.rows) == ((), 0)
    assert {place.rank for place in ranked.places} == {'1–2'}
    assert rank_models({}).places == ()
