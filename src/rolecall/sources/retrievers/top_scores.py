"""The highest of many scores, in a deterministic order."""

from __future__ import annotations

from typing import Any

from rolecall.sources.retrievers.retriever import import_extra

GROUP = 64


def numpy() -> Any:
    return import_extra('numpy', purpose='to rank training rows')


def top_indexes(scores: Any, count: int, *, slack: float = 0.0) -> Any:
    """Indexes of the `count` highest scores, the highest first; of equal scores the later row comes first.

    With `slack`, at least all indexes whose score is within it of the last one taken: for a second, exact ranking.

    >>> import numpy
    >>> top_indexes(numpy.array([1.0, 3.0, 2.0, 3.0]), 3).tolist()
    [3, 1, 2]
    """
    np = numpy()
    count = min(count, len(scores))
    if count == 0:
        return np.empty(0, dtype=np.intp)
    last = lower_bound(scores, count)
    candidates = np.flatnonzero(scores >= last - slack)
    ordered = candidates[np.lexsort((candidates, scores[candidates]))][::-1]
    return ordered if slack else ordered[:count]


def lower_bound(scores: Any, count: int) -> Any:
    """A value that at least `count` scores reach, close to the highest such value.

    The count-th highest of the maxima of many groups is one: each of those maxima is a score.
    """
    np = numpy()
    groups = len(scores) // GROUP
    values = scores[: GROUP * groups].reshape(GROUP, groups).max(axis=0) if groups >= 4 * count else scores
    return np.partition(values, len(values) - count)[len(values) - count]
