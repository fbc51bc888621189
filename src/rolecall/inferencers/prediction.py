"""What an inferencer concludes for a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.models.base import Outcome, Usage

__all__ = ['Prediction']


@dataclass(frozen=True, slots=True)
class Prediction:
    """The conclusion for one row, with everything it rests on."""

    value: Any
    """A text, a label, a number, or a list of one of these (turns of a dialogue, samples of one question)."""
    outcome: Outcome = 'ok'
    reason: str = ''
    fingerprints: tuple[str, ...] = ()
    """The identities of the requests that were sent."""
    replies: tuple[str, ...] = ()
    """The raw answers, reasoning left out."""
    reasoning: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """What a kind of inference adds: losses by label, probabilities, votes …, JSON-able."""
    shots_dropped: int = 0
    usage: Usage = field(default_factory=Usage)
