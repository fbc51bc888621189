"""How sure a number is."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.insight.pairing import pair_results
from rolecall.runs.store.results import Result
from rolecall.scoring.statistics import (
    bootstrap,
    cluster_sums,
    clustered_wilson,
    compare_paired,
    g_pass_at_k,
    mcnemar,
    mean_interval,
    paired_difference,
    pass_at_k,
    quantile,
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


def test_mcnemar_lies_between_the_plain_and_the_exact_test() -> None:
    stats = pytest.importorskip('scipy.stats')
    assert mcnemar(0, 0) == mcnemar(5, 5) == 1.0
    for gained, lost in [(1, 0), (2, 11), (30, 55), (700, 800)]:
        plain = stats.chi2.sf((gained - lost) ** 2 / (gained + lost), 1)
        assert plain < mcnemar(gained, lost) == mcnemar(lost, gained) < stats.binomtest(gained, gained + lost).pvalue


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_an_interval_excludes_0_where_the_test_of_right_and_wrong_rejects(
    gained: int, lost: int, unchanged: int, confidence: float
) -> None:
    pairs = gained + lost + unchanged or 1
    low, high = paired_difference(gained, lost, pairs, confidence=confidence)
    assert (not low <= 0 <= high) == (mcnemar(gained, lost) < 1 - confidence)


_SCORES = st.floats(0, 1).map(lambda one: round(one, 2))


@given(st.lists(st.tuples(_SCORES, _SCORES, st.integers(0, 9)), min_size=1, max_size=40), st.booleans())
def test_an_interval_excludes_0_where_the_test_of_numbers_rejects(
    rows: list[tuple[float, float, int]], clustered: bool
) -> None:
    before, after, clusters = ([row[place] for row in rows] for place in range(3))
    found = compare_paired(before, after, clusters if clustered else [None] * len(rows))
    mirrored = compare_paired(after, before, clusters if clustered else [None] * len(rows))
    assert found.p is not None
    assert found.p == pytest.approx(mirrored.p)
    assert found.interval is not None
    low, high = found.interval
    assert mirrored.interval == pytest.approx((-high, -low))
    difference = (sum(after) - sum(before)) / len(rows)
    assert -1 <= low <= difference + 1e-9
    assert difference - 1e-9 <= high <= 1
    if abs(found.p - 0.05) > 1e-6:
        assert (not low <= 0 <= high) == (found.p < 0.05)


@pytest.mark.parametrize(('gained', 'lost', 'pairs'), [(14, 0, 50), (3, 9, 40), (29, 29, 60), (12, 2, 14)])
def test_bounds_of_a_paired_difference_are_where_the_likeliest_shares_are_just_rejected(
    gained: int, lost: int, pairs: int
) -> None:
    def likelihood(difference: float, down: float) -> float:
        cells = ((gained, down + difference), (lost, down), (pairs - gained - lost, 1 - 2 * down - difference))
        return sum(count * math.log(max(share, 1e-300)) for count, share in cells if count)

    for difference in paired_difference(gained, lost, pairs):
        first, last = max(0.0, -difference), (1 - difference) / 2
        for _ in range(200):
            third = (last - first) / 3
            worse = likelihood(difference, first + third) < likelihood(difference, last - third)
            first, last = (first + third, last) if worse else (first, last - third)
        variance = pairs * (2 * first + difference - difference**2)
        off = abs(gained - lost - pairs * difference) - 0.5
        assert off / math.sqrt(variance) == pytest.approx(1.959964, abs=1e-4)


@pytest.mark.parametrize(('share', 'correlation'), [(0.9, 0.0), (0.9, 0.6), (0.5, 0.3), (0.05, 0.0)])
@pytest.mark.parametrize('pairs', [20, 50])
def test_equal_models_are_told_apart_in_at_most_5_of_100_runs(pairs: int, share: float, correlation: float) -> None:
    flipped = share * (1 - share) * (1 - correlation)
    told_apart = sum(
        math.comb(pairs, up) * math.comb(pairs - up, down) * flipped ** (up + down) * (1 - 2 * flipped) ** (pairs - up - down)
        for up in range(pairs + 1)
        for down in range(pairs - up + 1)
        if mcnemar(up, down) < 0.05
    )  # fmt: skip
    assert told_apart < 0.05


def test_a_mean_of_many_rows_has_the_usual_interval() -> None:
    values = [random.Random(number).expovariate(1) for number in range(2000)]
    mean = sum(values) / 2000
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / 1999 / 2000)
    assert mean_interval([(value, 1) for value in values]) == pytest.approx(
        (mean - 1.96 * error, mean + 1.96 * error), abs=0.01
    )


@pytest.mark.parametrize(
    ('sums', 'scale', 'expected'),
    [
        ([], None, None),
        ([(1.0, 1)], (0.0, 1.0), (0.0, 1.0)),
        ([(3.0, 1), (5.0, 1)], None, None),
        ([(3.0, 1)] * 4, None, (3.0, 3.0)),
        ([(1.0, 1)] * 4, (0.0, 1.0), (0.3537, 1.0)),
        ([(2.0, 2), (1.0, 2), (0.0, 2)] * 4, (0.0, 1.0), (0.2306, 0.7694)),
    ],
)
def test_the_interval_of_a_mean(
    sums: list[tuple[float, int]], scale: tuple[float, float] | None, expected: tuple[float, float] | None
) -> None:
    assert mean_interval(sums, scale=scale) == (expected and pytest.approx(expected, abs=5e-5))


def test_one_large_cluster_leaves_the_interval_open_on_one_side() -> None:
    clusters = ['large'] * 100 + [str(number) for number in range(30)]
    found = compare_paired([0.0] * 130, [0.0] * 100 + [1.0] * 30, clusters)
    assert found.p is not None
    assert found.p < 0.05
    assert found.interval is not None
    assert 0 < found.interval.low < 30 / 130
    assert found.interval.high == 1


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
    pairs = gained + lost + unchanged or 1
    low, high = paired_difference(gained, lost, pairs)
    mirrored = paired_difference(lost, gained, pairs)
    assert (low, high) == pytest.approx((-mirrored.high, -mirrored.low))
    assert low <= (gained - lost) / pairs <= high


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


def test_rows_are_paired_by_number_in_whatever_order_they_come() -> None:
    before = [
        *results([1.0, None, 0.0, 1.0, 1.0], gold=[-1, {'a': 1.0}]),
        Result('d', 'm', 9, 'ok', score=1.0, gold=-1),
    ]
    after = [*results([0.0, 1.0, 0.0, None, 1.0], gold=[-1.0, {'a': 1}]), Result('d', 'm', 9, 'ok', score=1.0, gold=-2)]
    [pair] = pair_results(before, after).pairs
    assert pair_results(before[::-1], after[2:] + after[:2]).pairs == (pair,)
    assert (pair.n, pair.only_a, pair.only_b, pair.different_gold) == (3, 1, 1, 1)
    assert [one.row for one in pair.lost] == [0]


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


def test_numbers_are_compared_by_their_mean() -> None:
    drawn = random.Random(2)
    before = [drawn.random() for _ in range(80)]
    after = [score + 0.05 + 0.02 * drawn.random() for score in before]
    [pair] = pair_results(results(before), results(after)).pairs
    assert (pair.test, pair.p < 0.001) == ('paired mean', True)
    assert 0.05 < pair.low < pair.difference < pair.high < 0.07


def test_rows_that_belong_together_are_flipped_together() -> None:
    before = [Result('d', 'm', row, 'ok', score=0.0, cluster=str(row // 10)) for row in range(50)]
    after = [Result('d', 'm', row, 'ok', score=1.0, cluster=str(row // 10)) for row in range(50)]
    [pair] = pair_results(before, after).pairs
    assert pair.clusters == 5
    assert pair.p == pytest.approx(math.erfc(5 / math.sqrt(5 + 1) / math.sqrt(2)))


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
    assert quantile([float(n) for n in range(11)], share) == pytest.approx(value)


def test_clusters_that_agree_are_worth_fewer_rows() -> None:
    inflation = 22 * 22 / 21 / (0.25 * 44)  # twenty clusters and the two added ones, each one off its share
    assert clustered_wilson([(2, 2), (0, 2)] * 10) == pytest.approx(wilson(20 / inflation, 40 / inflation))
