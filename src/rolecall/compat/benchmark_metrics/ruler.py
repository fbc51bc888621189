"""RULER: strings that a reply must contain, in any case."""

from __future__ import annotations

from typing import Any

from rolecall.scoring.metrics.metric import comparison
from rolecall.scoring.texts import alternatives, strip_text


@comparison('recall')
def contain_share(prediction: str, gold: Any) -> float:
    """The share of the gold strings that a reply contains, in any case."""
    wanted = alternatives(gold)
    return sum(_contains(prediction, text) for text in wanted) / len(wanted) if wanted else 0.0


@comparison('contains_answer')
def contain_any(prediction: str, gold: Any) -> bool:
    """The share of replies that contain one of the gold strings, in any case."""
    return any(_contains(prediction, text) for text in alternatives(gold))


def _contains(prediction: str, wanted: Any) -> bool:
    return strip_text(wanted).lower() in prediction.lower()
