"""Rows that have been asked about: how they are marked and stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.inferencer import Prediction
from rolecall.models.protocol import Outcome
from rolecall.runs.client.cache import RowClient
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.answers import Scorable
from rolecall.scoring.scorecard import Verdict
from rolecall.sources.retrievers import Picked

_NO_VERDICT = Verdict(-1)
_NO_ANSWER = 'no answer was found in the reply.'


class FinishedRow(NamedTuple):
    """A row that has been asked about, and what was concluded."""

    ask: RowClient
    number: int
    row: Row
    picked: Picked
    prediction: Prediction


def keep_rows(pair: PairRun, rows: Sequence[FinishedRow], store: Store, listener: RunListener) -> None:
    """Store rows with their verdicts, unless they are stored and say the same; tell of each once it is on disk."""
    new: list[FinishedRow] = []
    for row in rows:
        stored = None if row.ask.sent else store.result(pair.dataset, pair.model.name, row.number)
        if stored is not None and _says_the_same(stored, _make_result(pair, row, _make_scorable(pair, row))):
            listener.on_row(stored, asked=False)
        else:
            new.append(row)
    if not new:
        return
    store.add_fields(pair.dataset, pair.model.name, [(row.number, row.row) for row in new])
    scorable = [_make_scorable(pair, row) for row in new]
    results = [_make_result(pair, *each) for each in zip(new, scorable, pair.mark(scorable), strict=True)]
    sent = [row.ask.sent > 0 for row in new]

    def tell() -> None:
        for result, was_sent in zip(results, sent, strict=True):
            listener.on_row(result, asked=was_sent)

    store.add_results(results, then=tell)


def _says_the_same(stored: Result, result: Result) -> bool:
    """Whether a row that is stored, and perhaps scored since, rests on the same requests and says the same."""
    ended = stored.outcome in (result.outcome, 'unparsed', 'truncated_by_server')
    return (
        ended
        and stored.fingerprints == result.fingerprints
        and dumps(_list_replies(stored)) == dumps(_list_replies(result))
    )


def _list_replies(result: Result) -> list[Any]:
    return [result.prediction, result.gold, result.cluster, result.details, result.shots]


def _make_scorable(pair: PairRun, finished: FinishedRow) -> Scorable:
    """The row as the scorer takes it."""
    ask, number, row, _, prediction = finished
    outcome = outcome_to_score(prediction.outcome, prediction.value)
    values = (prediction.value, pair.gold(row), row, pair.cluster(row), prediction.details, pair.usage(ask))
    return Scorable(number, outcome, *values)


def _make_result(pair: PairRun, finished: FinishedRow, scorable: Scorable, verdict: Verdict | None = None) -> Result:
    """The row as it is stored, with the verdict on it if there is one already."""
    ask, number, _, picked, prediction = finished
    dropped, seconds, fingerprints = prediction.shots_dropped, ask.seconds, ask.fingerprints
    outcome, reason = prediction.outcome, prediction.reason
    if verdict is None:
        verdict = _NO_VERDICT
    else:
        outcome, reason = read_verdict(verdict, reason)
    return Result(
        pair.dataset,
        pair.model.name,
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
        read_from=verdict.read_from,
        expected_tokens=ask.expected_tokens,
        served=ask.served,
        first_token_seconds=ask.first_token_seconds,
        beside=verdict.beside,
        settled=verdict.settled,
    )


def outcome_to_score(outcome: Outcome, prediction: Any) -> Outcome:
    """The outcome of a row before it was scored."""
    unmarked = outcome == 'failed' and prediction is not None  # the evaluator failed, not the model
    return 'ok' if outcome == 'unparsed' or unmarked else outcome


def read_verdict(verdict: Verdict, reason: str) -> tuple[Outcome, str]:
    """The outcome of a row with this verdict, and why; `reason` is the one it had before."""
    has_reply = verdict.outcome in ('ok', 'unparsed')
    nothing = _NO_ANSWER if verdict.outcome == 'unparsed' else ''
    return verdict.outcome, (verdict.reason or nothing) if has_reply else verdict.reason or reason
