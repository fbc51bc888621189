"""How far several judges agree on the same rows: the share of equal verdicts, and Krippendorff's alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any


@dataclass(slots=True)
class Agreement:
    """The verdicts of several judges, added up row by row. A judge without a verdict is left out of that row.

    Alpha is 1 where they always agree and 0 where they agree no more than by chance. Its distance is the squared
    difference, which for right and wrong is that of names.

    >>> agreement = Agreement()
    >>> for scores in ([1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [None, 1.0]):
    ...     agreement.add(scores)
    >>> told = agreement.describe()
    >>> told['rows'], told['equal'], round(told['alpha'], 3)
    (4, 75.0, 0.533)
    """

    rows: int = 0
    _pairs: int = 0
    _equal: int = 0
    _verdicts: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _apart: float = 0.0

    def add(self, scores: Sequence[float | None]) -> None:
        """Take the judges' scores of one row into account."""
        given = [score for score in scores if score is not None]
        if len(given) < 2:
            return
        differences = [one - other for one, other in combinations(given, 2)]
        self.rows += 1
        self._pairs += len(differences)
        self._equal += sum(math.isclose(one, 0.0, abs_tol=1e-9) for one in differences)
        self._verdicts += len(given)
        self._total += sum(given)
        self._squares += sum(score * score for score in given)
        self._apart += sum(one * one for one in differences) / (len(given) - 1)

    def describe(self) -> dict[str, Any]:
        """The rows with two verdicts or more, the share of equal pairs of verdicts in percent, and alpha.

        Alpha is None where all verdicts are the same: then nothing tells agreement from chance.
        """
        if not self.rows:
            return {'rows': 0, 'equal': None, 'alpha': None}
        expected = (self._verdicts * self._squares - self._total**2) / (self._verdicts - 1)
        alpha = None if expected <= 1e-12 else 1 - self._apart / expected
        return {'rows': self.rows, 'equal': 100 * self._equal / self._pairs, 'alpha': alpha}
