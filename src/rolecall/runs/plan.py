"""Planning: a run whose client only counts what it would send, how long that is, and what is known already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rolecall.datasets import first
from rolecall.datasets.rows import count_skipped
from rolecall.errors import RenderError, RunError
from rolecall.inferencers.inferencer import Prediction
from rolecall.models.prices import Price, find_price
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored
from rolecall.pairs.fitting import cannot_exceed
from rolecall.pairs.pair import stand_in_reply
from rolecall.render.spans import Request
from rolecall.retrievers import Picked
from rolecall.runs.client.cache import RequestKeys
from rolecall.runs.engine import infer_row, run_blocking
from rolecall.runs.prepare import Prepared, PreparedPair, prepare
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.run_reader import FILE, RunReader
from rolecall.strings import count_noun

__all__ = ['Costs', 'PlannedPair', 'RunPlan', 'make_plan', 'plan_run']

_UNSCORED = Scored((0, 0), (None, 0.0))
"""Stands for the scores of a request: two tokens, which say nothing."""


_ASKED_OF_VENDOR = 50
"""Requests whose tokens the vendor's endpoint counts, of each pair; the others are estimated."""


@dataclass(frozen=True, slots=True)
class Costs:
    """How tokens and money are planned."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    """The user's own, by pattern of the model's name."""
    ask_vendor: bool = False
    """Whether the vendor's counting endpoint may be asked, where no tokenizer is at hand."""


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """One dataset × model. What is not known is None; what was counted on a part of the rows is not `exact`."""

    dataset: str
    model: str
    rows: int
    requests: int
    cached: int = 0
    """Requests that were finished before and will not be sent."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    """At most."""
    price: float | None = None
    """At most, in US dollars (or the currency of the entry's own `price`)."""
    remote: bool = False
    """Whether a server elsewhere is asked, so that tokens cost money."""
    shots_dropped: int = 0
    too_long: int = 0
    left_out: int = 0
    """Malformed lines of the data that are passed over (`on_error='skip'`)."""
    to_judge: int = 0
    """Requests to a judge about the answers, at most; they stand in no other number."""
    unchecked: bool = False
    """Whether it is not known here that all requests fit the context."""
    exact: bool = True

    @property
    def about(self) -> str:
        return '' if self.exact else '~'


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Every dataset × model of a run.

    >>> print(RunPlan((PlannedPair('gsm8k', 'gpt', rows=100, requests=100, cached=40, input_tokens=81200),)))
    gsm8k × gpt: 100 rows, 100 requests (40 known), 81,200 input tokens
    60 requests to send
    """

    pairs: tuple[PlannedPair, ...]

    @property
    def requests(self) -> int:
        """How many requests are to be sent."""
        return sum(pair.requests - pair.cached for pair in self.pairs)

    @property
    def input_tokens(self) -> int | None:
        """Input tokens of all requests; None if a tokenizer is missing."""
        return _sum([pair.input_tokens for pair in self.pairs])

    @property
    def price(self) -> float | None:
        """The price of all requests, at most; None if no entry has one."""
        known = [pair.price for pair in self.pairs if pair.price is not None]
        return sum(known) if known else None

    @property
    def exact(self) -> bool:
        return all(pair.exact for pair in self.pairs)

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        for pair in self.pairs:
            yield f'{pair.dataset} × {pair.model}: {", ".join(_parts(pair))}'
        about = '' if self.exact else '~'
        judging = sum(pair.to_judge for pair in self.pairs)
        more = f', and up to {judging:,} to judges' if judging else ''
        some = ' for those whose price is known' if any(one.remote and one.price is None for one in self.pairs) else ''
        without = ' without the judges' if judging else ''
        price = '' if self.price is None else f', at most {self.price:.2f}{some}{without}'
        yield f'{about}{count_noun(self.requests, "request")} to send{more}{price}'

    def __str__(self) -> str:
        return '\n'.join(self.lines())


def _parts(pair: PlannedPair) -> Iterator[str]:
    known = f' ({pair.about}{pair.cached:,} known)' if pair.cached else ''
    yield count_noun(pair.rows, 'row')
    yield f'{pair.about}{count_noun(pair.requests, "request")}{known}'
    if pair.input_tokens is not None:
        yield f'{pair.about}{count_noun(pair.input_tokens, "input token")}'
    elif pair.remote:
        yield 'input tokens not known'
    if pair.unchecked:
        yield 'not known here whether they fit the context'
    if pair.shots_dropped:
        yield f'{pair.about}{count_noun(pair.shots_dropped, "example")} dropped to fit'
    if pair.too_long:
        yield f'{pair.about}{count_noun(pair.too_long, "row")} too long'
    if pair.left_out:
        yield f'{count_noun(pair.left_out, "malformed line")} left out'
    if pair.to_judge:
        yield f'up to {count_noun(pair.to_judge, "request")} to its judge'
    if pair.price is not None:
        yield f'at most {pair.price:.2f}'
    elif pair.remote:
        yield 'price not known'


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def plan_run(
    config: Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | Sequence[str] | None = None,
    rerun: Collection[str] = (),
    data: Mapping[str, str] | None = None,
    costs: Costs | None = None,
) -> RunPlan:
    """What a run of the config would ask, counted exactly.

    `out` names the run directory whose replies are known, `rerun` outcomes whose rows are asked again.
    """
    prepared = prepare(config, dataset=dataset, model=model, limit=limit, data=data)
    return make_plan(prepared, out=out, rerun=rerun, costs=costs)


@contextmanager
def _open_known(out: str | Path | None) -> Iterator[RunReader | None]:
    """The run in a directory, whose requests are known; None if there is none."""
    if out is None or not (Path(out) / FILE).is_file():
        yield None
        return
    with RunReader(out) as reader:
        yield reader


def make_plan(
    prepared: Prepared,
    *,
    out: str | Path | None,
    rerun: Collection[str] = (),
    seconds: float | None = None,
    costs: Costs | None = None,
) -> RunPlan:
    """The plan. With `seconds`, counting stops after that time and the rest is estimated from what was counted."""
    return RunPlan(tuple(run_blocking(_plan_pairs(prepared, out, rerun, seconds, costs or Costs()))))


async def _plan_pairs(
    prepared: Prepared, out: str | Path | None, rerun: Collection[str], seconds: float | None, costs: Costs
) -> list[PlannedPair]:
    deadline = None if seconds is None else time.monotonic() + seconds
    sent: set[Hashable] = set()
    try:
        with _open_known(out) as known:
            clients = [_CountingClient(one, _Memory(one, known, rerun), sent, costs) for one in prepared.pairs]
            return [
                await _plan_pair(one, client, prepared, deadline, costs)
                for one, client in zip(prepared.pairs, clients, strict=True)
            ]
    finally:
        if costs.ask_vendor:
            for model in {id(one.model): one.model for one in prepared.pairs}.values():
                await model.close()


async def _plan_pair(
    prepared: PreparedPair, client: _CountingClient, config: Prepared, deadline: float | None, costs: Costs
) -> PlannedPair:
    numbers = config.numbers(prepared.pair)
    total, only = len(numbers), numbers if config.share is not None else None
    slow = deadline is not None and not prepared.pair.task.retriever.fixed
    if slow or prepared.pair.task.inferencer.own is not None:
        plan = _estimate(prepared, total)
    else:
        for number, row, picked in prepared.pair.rows(config.limit, strict=False, only=only):
            client.begin_row(number)
            client.end_row(await infer_row(prepared.inferencer, prepared.pair, row, picked, client))
            if deadline is not None and time.monotonic() > deadline:
                break
            if number % 64 == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard
        plan = client.plan(total)
    left_out = count_skipped(prepared.pair.data.test)
    return _price(prepared, replace(plan, left_out=left_out, to_judge=_count_questions(prepared, total)), costs)


def _estimate(prepared: PreparedPair, rows: int) -> PlannedPair:
    """The plan by the first row alone, where looking at all would take long or run the user's own inferencer."""
    requests = 0
    for row in islice(prepared.pair.data.test, 1):
        try:
            step = prepared.pair.step(row, Picked(()))
            requests = (len(step.requests) if step is not None else 0) * prepared.pair.turns(row)
        except RenderError:
            pass
    times = _samples(prepared) * (2 if _normalises(prepared) else 1)
    return PlannedPair(prepared.dataset, prepared.model.name, rows, rows * requests * times, exact=False)


def _count_questions(prepared: PreparedPair, rows: int) -> int:
    """How many questions a judge is asked at most: one for each answer."""
    if prepared.scores.judge is None or not prepared.scores.scorer.needs_judge:
        return 0
    return _samples(prepared) * sum(_count_turns(prepared, row) for row in first(prepared.pair.data.test, rows))


def _count_turns(prepared: PreparedPair, row: Mapping[str, Any]) -> int:
    """How many turns of a row a model answers; none if the row cannot be worded, for then it fails."""
    try:
        return prepared.pair.turns(row)
    except RenderError:
        return 0


def _samples(prepared: PreparedPair) -> int:
    samples: int = getattr(prepared.inferencer, 'samples', 1)
    return samples


def _normalises(prepared: PreparedPair) -> bool:
    """Whether each answer is scored once more, without its context. Where it begins shows in the first scores."""
    return getattr(prepared.inferencer, 'normalizing_str', None) is not None


class _Memory:
    """What is known of the requests of a pair, less what is asked again."""

    def __init__(self, prepared: PreparedPair, known: RunReader | None, rerun: Collection[str]) -> None:
        self._known = known if known is not None and known.anything else None
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


class _CountingClient:
    """The `Asker` of a plan: it adds up what would be sent and answers with the stored reply, or a stand-in."""

    def __init__(self, prepared: PreparedPair, memory: _Memory, sent: set[Hashable], costs: Costs) -> None:
        self._prepared = prepared
        self._count_remotely = getattr(prepared.model, 'count_remotely', None) if costs.ask_vendor else None
        self._asked: list[tuple[int, int]] = []
        """Tokens and characters of the requests that the vendor has counted."""
        self._memory = memory
        self._sent = sent
        """What was asked by rows before, of all pairs: equal requests are sent once."""
        self._keys = RequestKeys(dict(prepared.model.identity))
        self._goes_on = prepared.pair.waits or _normalises(prepared)
        """Whether what is asked later depends on the replies."""
        self._row = self._rows = self._requests = self._cached = self._dropped = self._too_long = self._tokens = 0
        self._countable = self._exact = True
        self._unchecked = False
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

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request: the stored one where later requests depend on it."""
        reply = await self._find(self._key(request, sampling, sample), request)
        if not isinstance(reply, Reply):
            reply = Reply(stand_in_reply(None, len(self.said)))
        self.said.append(reply.text)
        return reply

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The scores of requests: the stored ones where later requests depend on them."""
        found = [await self._find(self._key(request, None, 0), request) for request in requests]
        return [scored if isinstance(scored, Scored) else _UNSCORED for scored in found]

    def _key(self, request: Request, sampling: Sampling | None, sample: int) -> Hashable:
        """The key of a request: where nothing is stored, one that only tells equal requests apart from others."""
        if self._memory.empty and isinstance(request, str):
            return self._keys.hash_text(request, sampling, sample)
        return self._keys(request, sampling, sample)

    async def _find(self, key: Hashable, request: Request) -> Reply | Scored | None:
        """Count a request. The stored reply to it, where that matters for what is asked next."""
        self._exact = self._exact and not self._made_up
        known = await self._count(key, request)
        if not self._goes_on:
            return None
        reply = self._memory.find_reply(key) if known else None
        self._made_up = self._made_up or reply is None
        return reply

    async def _count(self, key: Hashable, request: Request) -> bool:
        """Add up one request; whether a stored reply is reused."""
        known = self._memory.knows(key, self._row)
        if key in self._sent:
            return known
        self._sent.add(key)
        self._requests += 1
        self._cached += known
        tokens = await self._count_tokens(request) if self._countable else None
        self._countable = tokens is not None
        self._tokens += tokens or 0
        budget = self._prepared.pair.budget
        self._unchecked |= tokens is None and budget.tokens is not None and not cannot_exceed(request, budget)
        return known

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
        return round(size * sum(one for one, _ in self._asked) / max(1, sum(one for _, one in self._asked)))

    def plan(self, rows: int) -> PlannedPair:
        """The plan for this many rows, scaled up from those that were checked."""
        share = rows / max(1, self._rows)
        return PlannedPair(
            self._prepared.dataset,
            self._prepared.model.name,
            rows,
            round(self._requests * share),
            cached=round(self._cached * share),
            input_tokens=round(self._tokens * share) if self._countable else None,
            shots_dropped=round(self._dropped * share),
            too_long=round(self._too_long * share),
            unchecked=self._unchecked,
            exact=self._exact and self._rows == rows,
        )


def _price(prepared: PreparedPair, plan: PlannedPair, costs: Costs) -> PlannedPair:
    """The plan with what it costs at most, where tokens and price are known."""
    sampling: Sampling | None = getattr(prepared.inferencer, 'sampling', None)
    out = plan.requests * sampling.max_out_len if sampling is not None and sampling.max_out_len else None
    plan = replace(plan, output_tokens=out, remote=_is_remote(prepared.model.identity.get('server')))
    price = find_price(prepared.model_entry.entry, costs.prices)
    known = price is not None and (plan.remote or 'price' in prepared.model_entry.entry)
    if price is None or not known or plan.input_tokens is None:
        return plan
    left = 1 - plan.cached / plan.requests if plan.requests else 0.0
    return replace(plan, price=left * price.cost(plan.input_tokens, out or 0))


def _is_remote(server: object) -> bool:
    host = urlsplit(server).hostname if isinstance(server, str) else None
    return host is not None and host != 'localhost' and not host.startswith('127.') and host != '::1'
