"""The client of a plan: it sends nothing and adds up what a run would send."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError, RunError
from rolecall.experiment.inferencers.inferencer import Prediction
from rolecall.experiment.opening.fitting import cannot_exceed
from rolecall.experiment.pairs.pair import stand_in_reply
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored
from rolecall.runs.client.cache import RequestKeys
from rolecall.runs.pair_run import PairRun
from rolecall.runs.run_plan import PlannedPair
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.run_reader import RunReader
from rolecall.sources.retrievers import Picked

_UNSCORED = Scored((0, 0), (None, 0.0))
"""Stands for the scores of a request: two tokens, which say nothing."""
_ASKED_OF_VENDOR = 50
"""Requests whose tokens the vendor's endpoint counts, of each pair; the others are estimated."""


def asks_further(prepared: PairRun) -> bool:
    """Whether what is asked depends on replies or scores: a search, windows, answers scored without their context."""
    inferencer = prepared.inferencer
    return getattr(inferencer, 'normalizing_str', None) is not None or getattr(inferencer, 'asks_further', False)


class KnownReplies:
    """What is known of the requests of a pair, less what is asked again."""

    def __init__(self, prepared: PairRun, reader: RunReader | None, rerun: Collection[str]) -> None:
        self._known = reader if reader is not None and reader.anything else None
        ended = self._known.outcomes(prepared.dataset, prepared.model.name) if self._known and rerun else {}
        self._again = {row: outcome for row, outcome in ended.items() if outcome in rerun}

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self._known is None

    def knows(self, key: Hashable, row: int) -> bool:
        """Whether a stored reply is reused. Failed rows send only their failed requests again, others send all."""
        if self._known is None or not isinstance(key, str) or not self._known.knows(key):
            return False
        if row not in self._again:
            return True
        return self._again[row] == 'failed' and not self._known.failed(key)

    def find_reply(self, key: Hashable) -> Reply | Scored | None:
        """The stored reply to a request."""
        reply = self._known.reply(key) if self._known is not None and isinstance(key, str) else None
        return None if isinstance(reply, str) else reply


class CountingClient:
    """The `Asker` of a plan: it adds up what would be sent and answers with the stored reply, or a stand-in."""

    def __init__(self, prepared: PairRun, memory: KnownReplies, sent: set[Hashable], *, asks_vendor: bool) -> None:
        self._prepared = prepared
        self._count_remotely = getattr(prepared.model, 'count_remotely', None) if asks_vendor else None
        self._asked: list[tuple[int, int]] = []
        """Tokens and characters of the requests that the vendor has counted."""
        self._memory = memory
        self._sent = sent
        """What was asked by rows before, of all pairs: equal requests are sent once."""
        self._keys = RequestKeys(dict(prepared.model.identity))
        self._goes_on = prepared.pair.waits or asks_further(prepared)
        """Whether what is asked later depends on the replies."""
        self._row = self._rows = self._requests = self._cached = self._dropped = self._too_long = self._tokens = 0
        self._repeated = 0
        self._countable = self._exact = True
        self._unchecked = False
        self._shared_part: float | None = None
        self.said: list[str] = []
        self._made_up = False

    def begin_row(self, number: int) -> None:
        self._row = number
        self._rows += 1
        self.said = []
        self._made_up = False

    def end_row(self, prediction: Prediction) -> None:
        self._dropped += prediction.shots_dropped
        self._too_long += prediction.outcome == 'too_long'

    async def count_plainly(self, row: Row, picked: Picked, sampling: Sampling) -> bool:
        """Count a row that is one request; False, and nothing is counted, where it cannot be worded or does not fit."""
        pair = self._prepared.pair
        try:
            pair.check_row(row)
            step = pair.step(row, picked)
        except RenderError:
            return False
        if step is None or step.too_long:
            return False
        request = step.requests[0][1]
        await self._count(self._key(request, sampling, 0), request)
        self._dropped += step.shots_dropped
        return True

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request: the stored one where later requests depend on it."""
        reply = await self._find(self._key(request, sampling, sample), request)
        if not isinstance(reply, Reply):
            reply = Reply(stand_in_reply(None, len(self.said)))
        self.said.append(reply.text)
        return reply

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The scores of requests: the stored ones where later requests depend on them."""
        scores = [await self._find(self._key(request, None, 0), request) for request in requests]
        return [scored if isinstance(scored, Scored) else _UNSCORED for scored in scores]

    def _key(self, request: Request, sampling: Sampling | None, sample: int) -> Hashable:
        """The key of a request: where nothing is stored, one that only tells equal requests apart from others."""
        if self._memory.empty and isinstance(request, str):
            return self._keys.hash_text(request, sampling, sample)
        return self._keys(request, sampling, sample)

    async def _find(self, key: Hashable, request: Request) -> Reply | Scored | None:
        """Count a request. The stored reply to it, where that matters for what is asked next."""
        self._exact = self._exact and not self._made_up
        is_stored = await self._count(key, request)
        if not self._goes_on:
            return None
        reply = self._memory.find_reply(key) if is_stored else None
        self._made_up = self._made_up or reply is None
        return reply

    async def _count(self, key: Hashable, request: Request) -> bool:
        """Add up one request; whether a stored reply is reused."""
        is_stored = self._memory.knows(key, self._row)
        if key in self._sent:
            self._repeated += 1
            return is_stored
        self._sent.add(key)
        self._requests += 1
        if self._shared_part is None:
            measure = getattr(self._prepared.model, 'shared_part', None)
            self._shared_part = 0.0 if measure is None else measure(request)
        self._cached += is_stored
        tokens = await self._count_tokens(request) if self._countable else None
        self._countable = tokens is not None
        self._tokens += tokens or 0
        budget = self._prepared.pair.budget
        self._unchecked |= tokens is None and budget.tokens is not None and not cannot_exceed(request, budget)
        return is_stored

    async def _count_tokens(self, request: Request) -> int | None:
        """Counted here, or by the vendor; after so many requests, estimated from those the vendor has counted."""
        tokens = self._prepared.model_entry.count(request)
        if tokens is not None or self._count_remotely is None:
            return tokens
        size = len(dumps(request))
        if len(self._asked) < _ASKED_OF_VENDOR:
            try:
                counted: int = await self._count_remotely(request)
            except ModelError as error:
                raise RunError(f'the tokens cannot be counted: {error}') from error
            self._asked.append((counted, size))
            return counted
        self._exact = False
        return round(size * sum(amount for amount, _ in self._asked) / max(1, sum(length for _, length in self._asked)))

    def plan(self, rows: int) -> PlannedPair:
        """The plan for this many rows, scaled up from those that were checked."""
        share = rows / max(1, self._rows)
        return PlannedPair(
            self._prepared.dataset,
            self._prepared.model.name,
            rows,
            round(self._requests * share),
            cached=round(self._cached * share),
            repeated=round(self._repeated * share),
            input_tokens=round(self._tokens * share) if self._countable else None,
            shots_dropped=round(self._dropped * share),
            too_long=round(self._too_long * share),
            unchecked=self._unchecked,
            shared_part=self._shared_part or 0.0,
            exact=self._exact and self._rows == rows,
        )
