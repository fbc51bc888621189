"""One finished row of a run, as it is stored, exported and reported; and what rows used, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from rolecall.models.protocol import NOT_STATED, Outcome, Served
from rolecall.quick_init import quick_init


class SettledMarks(NamedTuple):
    """Scores and verdicts (1, 0 or none) of settled rows that follow each other."""

    scores: Sequence[float]
    correct: Sequence[int | None]


class SettledRows(NamedTuple):
    """Rows with answers, by their numbers alone: enough for counting, and read in a fraction of the time."""

    dataset: str
    model: str
    rows: Sequence[int]
    scores: Sequence[float]
    correct: Sequence[int | None]
    """1, 0 or none."""
    input_tokens: Sequence[int | None]
    output_tokens: Sequence[int | None]
    seconds: Sequence[float | None]


@quick_init
@dataclass(frozen=True, slots=True)
class Result:
    """One row of one dataset × model. Everything is JSON-able."""

    dataset: str
    model: str
    row: int
    outcome: Outcome
    reason: str = ''
    prediction: Any = None
    """What the inferencer concluded."""
    extracted: Any = None
    """The prediction after the postprocessors: what was compared with the gold answer."""
    gold: Any = None
    score: float | None = None
    correct: bool | None = None
    judged: tuple[Mapping[str, str] | None, ...] = ()
    """What a judge replied about each answer (`reply`), and the `fingerprint` of the request it answers."""
    fingerprint: str = ''
    """The identity of the (first) request that was sent."""
    fingerprints: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    shots: tuple[int, ...] = ()
    shots_dropped: int = 0
    cluster: str | None = None
    """Rows that belong together (one passage, one dialogue) share a cluster."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    cached_tokens: int | None = None
    """Input tokens served from the server's or the engine's cache."""
    reasoning_tokens: int | None = None
    """Output tokens spent on reasoning."""
    cache_written_tokens: int | None = None
    """Input tokens written to the server's cache, where it charges extra for that."""
    read_from: tuple[Any, ...] = ()
    """Where each answer stands in its reply: start, end, rule, certainty, and the rivals' values if it has any."""
    expected_tokens: int | None = None
    """Input tokens by the model's own tokenizer and chat template; `input_tokens` are those the server reports."""
    served: Served = NOT_STATED
    """Who answered, as the replies say."""
    first_token_seconds: float | None = None
    """Until the first piece of the first reply, if it was streamed."""
    beside: tuple[Any, ...] = ()
    """The other reading's verdict where it differs: whose it is, what it extracted, score, right or wrong, places."""
    settled: bool = field(default=False, compare=False, repr=False)
    """Whether outcome, score and verdict are all that a summary needs of this row; not part of the row itself."""

    @property
    def is_cut(self) -> bool:
        """Whether `max_out_len` ended a reply of the row."""
        ended = self.details.get('ended')
        return isinstance(ended, list | tuple) and 'length' in ended


_NEEDED = ('input_tokens', 'output_tokens', 'seconds')
"""Amounts whose sum is unknown if one is missing."""
_OPTIONAL = ('cached_tokens', 'reasoning_tokens', 'cache_written_tokens')


@dataclass(slots=True)
class Used:
    """What rows used; None where one of them does not say. What few servers report adds up where it is reported."""

    rows: int = 1
    input_tokens: float | None = 0
    output_tokens: float | None = 0
    seconds: float | None = 0
    cached_tokens: float | None = None
    reasoning_tokens: float | None = None
    cache_written_tokens: float | None = None

    @classmethod
    def of(cls, row: Result) -> Used:
        """What one finished row used."""
        return cls(1, *(getattr(row, name) for name in (*_NEEDED, *_OPTIONAL)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Used:
        """What `as_dict` gave; amounts that are missing or not numbers are unknown."""
        reported = (values.get(name) for name in (*_NEEDED, *_OPTIONAL))
        amounts = (amount if isinstance(amount, (int, float)) else None for amount in reported)
        rows = values.get('rows')
        return cls(rows if isinstance(rows, int) else 0, *amounts)

    def as_dict(self) -> dict[str, Any]:
        """What is known, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def add(self, other: Used) -> None:
        """Add what other rows used."""
        self.rows += other.rows
        for name in _NEEDED:
            ours, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, None if ours is None or theirs is None else ours + theirs)
        for name in _OPTIONAL:
            reported = [amount for amount in (getattr(self, name), getattr(other, name)) if amount is not None]
            setattr(self, name, sum(reported) if reported else None)
