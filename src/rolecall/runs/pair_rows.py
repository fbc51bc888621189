"""The rows of a dataset × model: which have to be asked about, and how finished ones are marked and stored."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.inferencer import Prediction
from rolecall.models.protocol import Outcome
from rolecall.runs.client.cache import RequestKeys, RowClient
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.parts import digest_asking
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.answers import Scorable
from rolecall.scoring.scorecard import Verdict
from rolecall.sources.retrievers import Picked

_FINISHED = ('ok', 'unparsed')


class RowChooser:
    """Chooses the rows that a run asks about. `rows` limits it to some; the prepared share, to those of one process."""

    def __init__(
        self,
        prepared: PreparedRun,
        store: Store,
        listener: RunListener,
        *,
        rows: Collection[int] | None = None,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._rerun = prepared.options.rerun
        self._rows = rows
        self._digests: dict[int, str | None] = {}

    @property
    def is_whole(self) -> bool:
        """Whether the run is to have every row of its datasets."""
        return self._rows is None and self._prepared.is_whole_beginning

    def count(self, pair: PairRun) -> int:
        """How many rows of a dataset × model this run is about."""
        return len(self._prepared.numbers(pair.compiled))

    def digest(self, pair: PairRun) -> str | None:
        """What the requests of a dataset × model depend on; None if that cannot be told."""
        return digest_asking(pair.compiled, pair.model, pair.inferencer, self._digests)

    def choose(self, pair: PairRun) -> Iterator[tuple[int, Row, Picked]]:
        """The rows that have to be worded. While everything they depend on is as it was, finished rows have not."""
        store, names = self._store, (pair.dataset, pair.model.name)
        limit, everything = self._prepared.options.limit, self._prepared.numbers(pair.compiled)
        if self._rows is not None:
            return pair.compiled.rows(limit, strict=False, only=sorted(set(everything) & set(self._rows)))
        digest, marking = self.digest(pair), pair.scoring_digest
        asking, scoring = store.digests(*names)
        alike = digest is not None and asking == digest and self._is_worded_alike(pair, everything)
        if new := not store.has_rows(*names):
            store.trust_rows(*names)
        # Rows that are replaced from here on are of the new kind, the others not yet.
        store.record_digests(
            *names,
            asking=digest if new or alike else None,
            scoring=marking if new or scoring == marking else None,
        )
        if alike:
            return pair.compiled.rows(limit, strict=False, only=self._find_unfinished(pair, everything))
        return pair.compiled.rows(limit, strict=False, only=None if self._prepared.is_whole_beginning else everything)

    def _find_unfinished(self, pair: PairRun, everything: Sequence[int]) -> array[int]:
        """The numbers of the rows without an answer in the store, and of those that are asked again."""
        stop = everything[-1] + 1 if everything else 0
        unfinished = bytearray(stop)
        for number in everything:
            unfinished[number] = True
        is_beginning = len(everything) == stop
        outcomes: Counter[str] = Counter()
        reused = [outcome for outcome in _FINISHED if outcome not in self._rerun]
        for numbers, ended in self._store.finished_rows(pair.dataset, pair.model.name, reused):
            first, last = numbers[0], numbers[-1]
            is_stretch = last - first + 1 == len(numbers)
            if is_stretch and is_beginning and last < stop:
                unfinished[first : last + 1] = bytes(len(numbers))
                outcomes.update(ended)
                continue
            for number, outcome in zip(numbers, ended, strict=True):
                if number < stop and unfinished[number]:
                    unfinished[number] = False
                    outcomes[outcome] += 1
        self._listener.on_known(pair.dataset, pair.model.name, outcomes)
        return array('Q', compress(range(stop), unfinished))

    def _is_worded_alike(self, pair: PairRun, everything: Sequence[int]) -> bool:
        """Whether the first, second, third, fifth, ninth, … row still lead to the requests that were sent.

        This code may have changed, too.
        """
        find_key = RequestKeys(dict(pair.model.identity))
        sampling = getattr(pair.inferencer, 'sampling', None)
        places = [0, *(1 << bit for bit in range(len(everything).bit_length()))]
        probes: Sequence[int] = [everything[place] for place in places if place < len(everything)]
        for number, row, picked in pair.compiled.rows(self._prepared.options.limit, strict=False, only=probes):
            stored = self._store.result(pair.dataset, pair.model.name, number)
            if stored is None or stored.outcome not in _FINISHED:
                continue
            step = pair.compiled.step(row, picked)
            request = step.requests[0][1] if step is not None and step.requests else None
            key = '' if request is None else find_key(request, None if pair.compiled.weighs else sampling)
            if key != stored.fingerprint:
                return False
        return True


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
    used = pair.usage(*map(ask.used.get, ('seconds', 'input_tokens', 'output_tokens')))
    return Scorable(number, outcome, prediction.value, pair.gold(row), row, pair.cluster(row), prediction.details, used)


def _make_result(pair: PairRun, finished: FinishedRow, scorable: Scorable, verdict: Verdict | None = None) -> Result:
    """The row as it is stored, with the verdict on it if there is one already."""
    ask, number, _, picked, prediction = finished
    dropped, fingerprints, used = prediction.shots_dropped, ask.fingerprints, ask.used
    if 'seconds' in used:
        used = {**used, 'seconds': round(used['seconds'], 6)}
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
        read_from=verdict.read_from,
        expected_tokens=ask.expected_tokens,
        served=ask.served,
        beside=verdict.beside,
        settled=verdict.settled,
        **used,
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
