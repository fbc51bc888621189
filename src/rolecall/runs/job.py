"""A job of the engine, one dataset × model, and its finished rows: how they are scored and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.generation import GenInferencer
from rolecall.experiment.inferencers.inferencer import Inferencer, Prediction
from rolecall.experiment.pairs.pair import Pair
from rolecall.runs.client.cache import RowClient
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.scores import outcome_to_score, read_verdict
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.results import Result
from rolecall.scoring.answers import Scorable
from rolecall.scoring.scorecard import Verdict
from rolecall.sources.retrievers import Picked

NumberedRow = tuple[int, Row, Picked]
_NO_VERDICT = Verdict(-1)


@dataclass(frozen=True, slots=True)
class Job:
    """One dataset × model: its rows, how they are worded and asked, and who answers."""

    dataset: str
    client: ModelClient
    pair: Pair
    inferencer: Inferencer
    rows: Callable[[], Iterable[NumberedRow]]
    gold: Callable[[Row], Any]
    total: int | None = None
    cluster: Callable[[Row], str | None] = field(default=lambda row: None)
    is_whole: bool = True
    """Whether `rows` gives every row that the run should have; otherwise the stored ones stay."""
    mark: Callable[[Sequence[Scorable]], Sequence[Verdict] | None] = field(default=lambda rows: None)
    """The verdicts on finished rows, where they can be known at once."""

    @property
    def model(self) -> str:
        return self.client.model.name

    @property
    def single(self) -> GenInferencer | None:
        """The inferencer, if it asks once for each row: then rows can be asked about in groups."""
        found = self.inferencer
        return found if type(found) is GenInferencer and found.samples == 1 and self.pair is not None else None


class FinishedRow(NamedTuple):
    """A row that has been asked about, and what was concluded."""

    ask: RowClient
    number: int
    row: Row
    picked: Picked
    prediction: Prediction


def says_the_same(known: Result, result: Result) -> bool:
    """Whether a row that was kept, and perhaps scored since, rests on the same requests and says the same."""
    ended = known.outcome in (result.outcome, 'unparsed')
    return (
        ended
        and known.fingerprints == result.fingerprints
        and dumps(_list_replies(known)) == dumps(_list_replies(result))
    )


def _list_replies(result: Result) -> list[Any]:
    return [result.prediction, result.gold, result.cluster, result.details, result.shots]


def make_scorable(job: Job, finished: FinishedRow) -> Scorable:
    """The row as the scorer takes it."""
    _, number, row, _, prediction = finished
    outcome = outcome_to_score(prediction.outcome, prediction.value)
    return Scorable(number, outcome, prediction.value, job.gold(row), row, job.cluster(row), prediction.details)


def make_result(job: Job, finished: FinishedRow, scorable: Scorable, verdict: Verdict | None = None) -> Result:
    """The row as it is stored, with the verdict on it if there is one already."""
    ask, number, _, picked, prediction = finished
    dropped, seconds, fingerprints = prediction.shots_dropped, ask.seconds, ask.fingerprints
    outcome, reason = prediction.outcome, prediction.reason
    if verdict is None:
        verdict = _NO_VERDICT
    else:
        outcome, reason = read_verdict(verdict, reason)
    return Result(
        job.dataset,
        job.model,
        number,
        outcome,
        reason,
        prediction.value,
        verdict.extracted,
        scorable.gold,
        verdict.score,
        verdict.correct,
        fingerprint=fingerprints[0] if fingerprints else '',
        fingerprints=tuple(fingerprints),
        replies=prediction.replies,
        reasoning=prediction.reasoning,
        details=prediction.details,
        shots=picked.ids[: len(picked.ids) - dropped],
        shots_dropped=dropped,
        cluster=scorable.cluster,
        input_tokens=ask.input_tokens,
        output_tokens=ask.output_tokens,
        seconds=None if seconds is None else round(seconds, 6),
        cached_tokens=ask.cached_tokens,
        reasoning_tokens=ask.reasoning_tokens,
        cache_written_tokens=ask.cache_written_tokens,
        settled=verdict.settled,
    )
