"""How sure a number is."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.report.pairing import pair_results
from rolecall.runs.store.results import Result
from rolecall.scoring.statistics import (
    _quantile,
    bootstrap,
    cluster_sums,
    clustered_wilson,
    g_pass_at_k,
    mcnemar,
    mean_interval,
    paired_difference,
    pass_at_k,
    sign_flip,
    wilson,
)


@pytest.mark.parametrize(
    ('right', 'rows', 'low', 'high'),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_values(right: int, rows: int, low: float, high: float) -> None:
    assert wilson(right, rows) == pytest.approx((low, high), abs=5e-5)  # Newcombe 1998, table I, method 3


def test_wilson_agrees_with_scipy() -> None:
    stats = pytest.importorskip('scipy.stats')
    for right, rows in [(0, 1), (3, 7), (50, 100), (999, 1000)]:
        theirs = stats.binomtest(right, rows).proportion_ci(0.9, method='wilson')
        assert wilson(right, rows, confidence=0.9) == pytest.approx((theirs.low, theirs.high))


def test_mcnemar_agrees_with_the_binomial_test() -> None:
    stats = pytest.importorskip('scipy.stats')
    for gained, lost in [(0, 0), (1, 0), (5, 5), (2, 11), (30, 55), (700, 800)]:
        expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
        assert mcnemar(gained, lost) == pytest.approx(expected)


def test_the_permutation_test_agrees_with_scipy() -> None:
    np, stats = pytest.importorskip('numpy'), pytest.importorskip('scipy.stats')
    few = [0.3, -0.1, 0.5, 0.2, 0.4, -0.2, 0.1]
    many = [random.Random(number).gauss(0.3, 1) for number in range(60)]
    for differences, tolerance in ((few, 1e-12), (many, 0.02)):
        theirs = stats.permutation_test(
            (np.array(differences), np.zeros(len(differences))),
            lambda a, b: np.mean(a - b),
            permutation_type='samples',
            n_resamples=20_000,
            rng=1,
        )
        assert sign_flip(differences) == pytest.approx(theirs.pvalue, abs=tolerance)


def test_the_bootstrap_agrees_with_scipy() -> None:
    np, stats = pytest.importorskip('numpy'), pytest.importorskip('scipy.stats')
    values = [random.Random(number).expovariate(1) for number in range(200)]
    theirs = stats.bootstrap((np.array(values),), np.mean, method='percentile', rng=1).confidence_interval
    ours = mean_interval([(value, 1) for value in values])
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_the_bootstrap_draws_the_same_every_time() -> None:
    values = [random.Random(1).random() for _ in range(50)]
    assert bootstrap(values, max) == bootstrap(values, max)


def test_clusters_of_one_are_independent_rows() -> None:
    scores = [1.0] * 30 + [0.0] * 12
    assert clustered_wilson(cluster_sums(scores, [None] * 42)) == wilson(30, 42)


def test_copies_of_a_row_are_no_evidence() -> None:
    once = clustered_wilson(cluster_sums([1.0, 0.0] * 25, [None] * 50))
    copied = clustered_wilson(cluster_sums([1.0, 0.0] * 250, [str(place % 50) for place in range(500)]))
    assert copied == pytest.approx(once, abs=0.01)
    assert clustered_wilson([(10.0, 10)] * 8) == pytest.approx(wilson(8, 8), abs=0.03)


@pytest.mark.parametrize(('clusters', 'share', 'agreement'), [(100, 0.6, 0.7), (20, 0.5, 0.5), (30, 0.95, 0.7)])
def test_clustered_intervals_hold_the_truth_as_often_as_they_say(clusters: int, share: float, agreement: float) -> None:
    drawn, held, naive = random.Random(3), 0, 0
    for _ in range(400):
        sums = []
        for _ in range(clusters):
            common = drawn.random() < share
            rows = [common if drawn.random() < agreement else drawn.random() < share for _ in range(5)]
            sums.append((float(sum(rows)), 5))
        low, high = clustered_wilson(sums)
        held += low <= share <= high
        low, high = wilson(sum(total for total, _ in sums), 5 * clusters)
        naive += low <= share <= high
    assert held / 400 > 0.925 > naive / 400


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_the_paired_interval_turns_with_the_sides(gained: int, lost: int, unchanged: int) -> None:
    pairs = gained + lost + unchanged
    low, high = paired_difference(gained, lost, pairs)
    mirrored = paired_difference(lost, gained, pairs)
    assert (low, high) == pytest.approx((-mirrored.high, -mirrored.low))
    assert low <= (gained - lost) / (pairs + 2) <= high


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_a_permutation_p_is_a_probability_that_ignores_the_sides(differences: list[float]) -> None:
    p = sign_flip(differences)
    assert 0 < p <= 1
    assert p == sign_flip([-one for one in differences])


def test_pass_at_k_is_the_share_of_draws_with_a_right_sample() -> None:
    assert pass_at_k(5, 0, 3) == 0
    assert pass_at_k(5, 3, 3) == pytest.approx(1 - 0 / 10)
    assert pass_at_k(10, 3, 2) == pytest.approx(1 - math.comb(7, 2) / math.comb(10, 2))
    assert g_pass_at_k(10, 3, 2, 1.0) == pytest.approx(3 / 45)


def results(scores: list[float | None], *, model: str = 'm', fingerprint: str = 'a', **more: object) -> list[Result]:
    return [
        Result('d', model, row, 'ok' if score is not None else 'failed', score=score, fingerprint=fingerprint, **more)
        for row, score in enumerate(scores)
    ]


def test_a_comparison_pairs_rows_and_shows_those_that_flipped() -> None:
    before = results([1.0] * 10 + [0.0] * 20)
    after = results([0.0] + [1.0] * 21 + [0.0] * 8, fingerprint='b')
    [pair] = pair_results(before, after).pairs
    assert (pair.n, pair.test, len(pair.gained), len(pair.lost)) == (30, 'mcnemar', 12, 1)
    assert pair.p == pytest.approx(mcnemar(12, 1))
    assert pair.difference == pytest.approx(11 / 30)
    assert pair.low < pair.difference < pair.high
    assert pair.different_requests == 30
    [flip] = pair.lost
    assert (flip.row, flip.before, flip.after) == (0, 1.0, 0.0)
    assert flip.fingerprint_a != flip.fingerprint_b


def test_a_pairing_finds_what_two_unpaired_intervals_do_not() -> None:
    before = [float(row < 100) for row in range(200)]
    after = [float(row < 112) for row in range(200)]
    [pair] = pair_results(results(before), results(after)).pairs
    assert pair.p < 0.001
    assert wilson(100, 200).high > wilson(112, 200).low


def test_rows_that_are_not_in_both_runs_are_counted_and_not_compared() -> None:
    [pair] = pair_results(results([1.0, None, 0.0, 1.0]), results([1.0, 1.0, None])).pairs
    assert (pair.n, pair.only_a, pair.only_b) == (1, 2, 1)


def test_rows_with_different_gold_answers_are_different_questions() -> None:
    [pair] = pair_results(results([1.0, 0.0], gold='x'), results([1.0, 1.0], gold='y')).pairs
    assert (pair.n, pair.different_gold, pair.p, pair.difference) == (0, 2, None, None)


def test_numbers_are_compared_by_permutation_and_bootstrap() -> None:
    drawn = random.Random(2)
    before = [drawn.random() for _ in range(80)]
    after = [score + 0.05 + 0.02 * drawn.random() for score in before]
    [pair] = pair_results(results(before), results(after)).pairs
    assert (pair.test, pair.p < 0.001) == ('permutation', True)
    assert 0.05 < pair.low < pair.difference < pair.high < 0.07


def test_rows_that_belong_together_are_flipped_together() -> None:
    before = [Result('d', 'm', row, 'ok', score=0.0, cluster=str(row // 10)) for row in range(50)]
    after = [Result('d', 'm', row, 'ok', score=1.0, cluster=str(row // 10)) for row in range(50)]
    [pair] = pair_results(before, after).pairs
    assert (pair.clusters, pair.p) == (5, 2 / 2**5)


def test_models_are_paired_by_name_or_because_only_they_are_left() -> None:
    one = [*results([1.0], model='old'), *results([1.0], model='same')]
    two = [*results([1.0], model='same'), *results([0.0], model='new')]
    comparison = pair_results(one, two)
    assert [(pair.model_a, pair.model_b) for pair in comparison.pairs] == [('old', 'new'), ('same', 'same')]
    lonely = pair_results(one, [*two, *results([1.0], model='third')])
    assert lonely.unpaired_a == (('d', 'old'),)
    assert lonely.unpaired_b == (('d', 'new'), ('d', 'third'))


@pytest.mark.parametrize(('share', 'value'), [(0.0, 0.0), (0.025, 0.25), (0.5, 5.0), (0.975, 9.75), (1.0, 10.0)])
def test_a_quantile_lies_between_its_neighbours(share: float, value: float) -> None:
    assert _quantile([float(n) for n in range(11)], share) == pytest.approx(value)


def test_clusters_of_very_many_rows_have_a_normal_interval_too() -> None:
    sums = [(2.0, 2), (0.0, 2)] * 10_001
    low, high = mean_interval(sums)
    assert (low + high) / 2 == pytest.approx(0.5)
    assert (high - low) / 2 == pytest.approx(1.96 * 0.5 / 20_002**0.5, rel=0.001)
    assert mean_interval([(2.0, 2), (0.0, 2)] * 10_000) != (low, high)


def test_the_interval_of_paired_proportions_is_agresti_and_min_s() -> None:
    reach = 1.959964 * (41 - 20**2 / 102) ** 0.5 / 102
    assert paired_difference(30, 10, 100) == pytest.approx((20 / 102 - reach, 20 / 102 + reach))
    assert paired_difference(0, 1, 1) == pytest.approx((-1.0, -1 / 3 + 1.959964 * (2 - 1 / 3) ** 0.5 / 3))


def test_clusters_that_agree_are_worth_fewer_rows() -> None:
    inflation = 22 * 22 / 21 / (0.25 * 44)  # twenty clusters and the two added ones, each one off its share
    assert clustered_wilson([(2, 2), (0, 2)] * 10) == pytest.approx(wilson(20 / inflation, 40 / inflation))
