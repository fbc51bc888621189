"""One finished row of a run, as it is stored, exported and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
