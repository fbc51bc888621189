"""Counts of pairwise comparisons: wins, ties and losses, and the effect of the order of the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rolecall.scoring.metrics.metric import Mark
from rolecall.scoring.scorecard import HeadToHead
from rolecall.scoring.statistics import Interval, cluster_sums, win_rate_interval


def drop_half_comparisons(marks: Sequence[Mark | None], rivals: Sequence[str]) -> list[Mark]:
    """The marks against rivals that the judge compared in every order; `rivals` has the rival of each mark.

    One order of two says as much about the order as about the answers.
    """
    unread = {name for name, mark in zip(rivals, marks, strict=True) if mark is None}
    return [mark for name, mark in zip(rivals, marks, strict=True) if mark is not None and name not in unread]


def tabulate_comparisons(rows: Sequence[tuple[str | None, Sequence[Mark]]]) -> dict[str, HeadToHead]:
    """By rival: wins, ties and losses over rows, the win rate with its interval, the order's effect.

    A row that is shown in both orders is won if it is won in both, or won once and tied once; one win and one loss are
    a tie. `first` is how often the answer shown first won, of the verdicts that were not ties.
    """
    compared: dict[str, list[tuple[str | None, list[Mark]]]] = defaultdict(list)
    for cluster, marks in rows:
        by_rival: dict[str, list[Mark]] = defaultdict(list)
        for mark in marks:
            if mark.rival is not None:
                by_rival[mark.rival.name].append(mark)
        for name, own in by_rival.items():
            compared[name].append((cluster, own))
    return {name: _count(rows) for name, rows in compared.items()}


def _count(clustered: Sequence[tuple[str | None, Sequence[Mark]]]) -> HeadToHead:
    """The comparisons with one rival."""
    rows = [marks for _, marks in clustered]
    scores = [sum(mark.score for mark in marks) / len(marks) for marks in rows]
    sums = cluster_sums(scores, [cluster for cluster, _ in clustered])
    low, high = win_rate_interval(sums) or Interval(0.0, 1.0)
    decided = [mark for marks in rows for mark in marks if mark.score != 0.5]
    first = sum((mark.score == 1.0) != _stands_second(mark) for mark in decided)
    both = [marks for marks in rows if len({_stands_second(mark) for mark in marks}) > 1]
    return HeadToHead(
        rows=len(rows),
        wins=sum(score > 0.5 for score in scores),
        ties=sum(score == 0.5 for score in scores),
        losses=sum(score < 0.5 for score in scores),
        win_rate=100 * sum(scores) / len(scores),
        low=100 * low,
        high=100 * high,
        first=first,
        decided=len(decided),
        both_orders=len(both),
        always_first=not any(_stands_second(mark) for marks in rows for mark in marks),
        order_changed=sum(len({mark.score for mark in marks}) > 1 for marks in both),
    )


def _stands_second(mark: Mark) -> bool:
    """Whether the marked answer was shown after its rival's."""
    return mark.rival is not None and mark.rival.stands_first
