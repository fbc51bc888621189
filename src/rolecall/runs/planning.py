"""Planning: a run whose client only counts what it would send, how long that is, and what is known already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, MissingExtraError, Problem, RenderError, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.inferencer import Prediction
from rolecall.experiment.opening.fitting import cannot_exceed
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.pairs.pair import Pair, stand_in_reply
from rolecall.models.prices import find_price
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.runs.client.cache import RequestKeys
from rolecall.runs.engine import UNANSWERED, conclude_error, run_blocking
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.plan import PlannedPair, RunPlan
from rolecall.runs.prepare import prepare
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import read_pairs
from rolecall.sources.datasets import first
from rolecall.sources.datasets.rows import count_skipped
from rolecall.sources.retrievers import Picked

_UNSCORED = Scored((0, 0), (None, 0.0))
"""Stands for the scores of a request: two tokens, which say nothing."""
_ASKED_OF_VENDOR = 50
"""Requests whose tokens the vendor's endpoint counts, of each pair; the others are estimated."""


def asks_further(pair: PairRun) -> bool:
    """Whether what is asked depends on replies or scores: a search, windows, answers scored without their context."""
    inferencer = pair.inferencer
    return getattr(inferencer, 'normalizing_str', None) is not None or getattr(inferencer, 'asks_further', False)


class KnownReplies:
    """What is known of the requests of a pair, less what is asked again."""

    def __init__(self, pair: PairRun, reader: RunReader | None, rerun: Collection[str]) -> None:
        self._known = reader if reader is not None and reader.anything else None
        ended = self._known.outcomes(pair.dataset, pair.model.name) if self._known and rerun else {}
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

    def __init__(self, pair: PairRun, memory: KnownReplies, sent: set[Hashable], *, asks_vendor: bool) -> None:
        self._pair = pair
        self._count_remotely = getattr(pair.model, 'count_remotely', None) if asks_vendor else None
        self._asked: list[tuple[int, int]] = []
        """Tokens and characters of the requests that the vendor has counted."""
        self._memory = memory
        self._sent = sent
        """What was asked by rows before, of all pairs: equal requests are sent once."""
        self._keys = RequestKeys(dict(pair.model.identity))
        self._goes_on = pair.compiled.waits or asks_further(pair)
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
        compiled = self._pair.compiled
        try:
            compiled.check_row(row)
            step = compiled.step(row, picked)
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
            measure = getattr(self._pair.model, 'shared_part', None)
            self._shared_part = 0.0 if measure is None else measure(request)
        self._cached += is_stored
        tokens = await self._count_tokens(request) if self._countable else None
        self._countable = tokens is not None
        self._tokens += tokens or 0
        budget = self._pair.compiled.budget
        self._unchecked |= tokens is None and budget.tokens is not None and not cannot_exceed(request, budget)
        return is_stored

    async def _count_tokens(self, request: Request) -> int | None:
        """Counted here, or by the vendor; after so many requests, estimated from those the vendor has counted."""
        tokens = self._pair.model_entry.count(request)
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
            self._pair.dataset,
            self._pair.model.name,
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


_KEPT_ROWS = 10_000


def plan_run(config: Experiment | SourceLike, options: RunOptions | None = None, **changes: Any) -> RunPlan:
    """What a run of the config would ask, counted exactly. `changes` are further options by name (`limit=20`).

    `out` names the run directory whose replies are known, `rerun` outcomes whose rows are asked again.
    """
    return make_plan(prepare(config, replace(options or RunOptions(), dry_run=True, **changes)))


def refuse_unready(prepared: PreparedRun) -> None:
    """Raise for models and judges that have requests to send and lack a key, a package or their weights."""
    lacking: list[tuple[PairRun, Problem]] = []
    for pair in prepared.pairs:
        judge_cfg = f'{pair.compiled.task.where}.eval_cfg.evaluator.judge_cfg'
        models = [(pair.model_entry.where, pair.model)]
        models += [(judge_cfg, judge.model_entry.model) for judge in pair.judges]
        lacking += [
            (pair, Problem(where, f'{model.name}: {reason}', 'Nothing was sent or stored.'))
            for where, model in models
            if (reason := _find_lacking_part(model)) is not None
        ]
    if lacking:
        stored = read_pairs(Path(prepared.options.out)) if prepared.options.out is not None else {}
        waiting = {
            (line.dataset, line.model)
            for line in make_plan(prepared).pairs
            if line.requests > line.cached
            or (line.to_judge and 'judges' not in stored.get((line.dataset, line.model), ()))
        }
        problems = [problem for pair, problem in lacking if (pair.dataset, pair.model.name) in waiting]
        if problems:
            raise ConfigError(dict.fromkeys(problems))


def _find_lacking_part(model: Model) -> str | None:
    """What a model that checks itself (`check_ready`) lacks on this machine."""
    try:
        if callable(check := getattr(model, 'check_ready', None)):
            check()
    except (ModelError, MissingExtraError) as error:
        return str(error)
    return None


def make_plan(prepared: PreparedRun, *, seconds: float | None = None) -> RunPlan:
    """The plan. With `seconds`, counting stops after that time and the rest is estimated from what was counted."""
    return RunPlan(tuple(run_blocking(_plan_pairs(prepared, seconds))))


async def _plan_pairs(prepared: PreparedRun, seconds: float | None) -> list[PlannedPair]:
    options = prepared.options
    asks_vendor = options.count_remotely and seconds is None
    deadline = None if seconds is None else time.monotonic() + seconds
    sent: set[Hashable] = set()
    order = {name: place for place, name in enumerate(dict.fromkeys(pair.dataset for pair in prepared.pairs))}
    rows = _SharedRows('')
    try:
        is_run = options.out is not None and (Path(options.out) / FILE).is_file()
        with RunReader(options.out or '') if is_run else nullcontext() as reader:
            clients = [
                CountingClient(pair, KnownReplies(pair, reader, options.rerun), sent, asks_vendor=asks_vendor)
                for pair in prepared.pairs
            ]
            planned: dict[int, PlannedPair] = {}
            # By dataset, so that its rows are read once for all models.
            for place in sorted(range(len(clients)), key=lambda place: order[prepared.pairs[place].dataset]):
                pair = prepared.pairs[place]
                if pair.dataset != rows.dataset:
                    rows = _SharedRows(pair.dataset)
                planned[place] = await _plan_pair(pair, clients[place], prepared, rows, deadline)
            return [planned[place] for place in range(len(clients))]
    finally:
        if asks_vendor:
            for model in {id(pair.model): pair.model for pair in prepared.pairs}.values():
                await model.close()


async def _plan_pair(
    pair: PairRun,
    client: CountingClient,
    prepared: PreparedRun,
    rows: _SharedRows,
    deadline: float | None,
) -> PlannedPair:
    numbers = prepared.numbers(pair.compiled)
    total, only = len(numbers), None if prepared.is_whole_beginning else numbers
    slow = deadline is not None and not pair.compiled.task.retriever.fixed
    if slow or pair.compiled.task.inferencer.own is not None:
        plan = _estimate(pair, total)
    else:
        plain = pair.single if not pair.compiled.waits else None
        for number, row, picked in rows.read(pair.compiled, prepared.options.limit, only):
            client.begin_row(number)
            if plain is None or not await client.count_plainly(row, picked, plain.sampling):
                try:
                    pair.compiled.check_row(row)
                    prediction = await pair.inferencer.infer(pair.compiled, row, picked, client)
                except UNANSWERED as error:
                    prediction = conclude_error(error, client)
                client.end_row(prediction)
            if deadline is not None and time.monotonic() > deadline:
                break
            if number % 64 == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard
        plan = client.plan(total)
    left_out = count_skipped(pair.compiled.data.test)
    plan = replace(plan, left_out=left_out, to_judge=_count_questions(pair, total, prepared))
    return _price(pair, plan, prepared.options)


class _SharedRows:
    """The rows of a dataset with their examples, kept for its other models if they are few."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self._kept: list[tuple[int, Row, Picked]] | None = None

    def read(self, pair: Pair, limit: int | None, only: Sequence[int] | None) -> Iterator[tuple[int, Row, Picked]]:
        """All rows, in order."""
        if self._kept is not None:
            yield from self._kept
            return
        few: list[tuple[int, Row, Picked]] = []
        for count, row in enumerate(pair.rows(limit, strict=False, only=only)):
            if count < _KEPT_ROWS:
                few.append(row)
            else:
                few.clear()
            yield row
        self._kept = few or None


def _estimate(pair: PairRun, rows: int) -> PlannedPair:
    """The plan by the first row alone, where looking at all would take long or run the user's own inferencer."""
    requests = 0
    for row in islice(pair.compiled.data.test, 1):
        try:
            step = pair.compiled.step(row, Picked(()))
            requests = (len(step.requests) if step is not None else 0) * pair.compiled.turns(row)
        except RenderError:
            pass
    times = _samples(pair) * (2 if asks_further(pair) else 1)
    return PlannedPair(pair.dataset, pair.model.name, rows, rows * requests * times, exact=False)


def _count_questions(pair: PairRun, rows: int, prepared: PreparedRun) -> int:
    """How many questions a judge is asked at most: one for each answer, or for each order of each comparison.

    The questions about two models of the run are the same from either side, unless this side always stands first.
    """
    judges = pair.judges
    if not judges or not pair.scorer.needs_judge:
        return 0
    questions = _samples(pair) * len(judges)
    if (comparison := pair.comparison) is not None:
        own = pair.model.name
        names = [other.model.name for other in prepared.pairs if other.dataset == pair.dataset]
        before = names[: names.index(own)] if comparison.order != 'first' else []
        counted = {name for name in before if any(opponent.name == own for opponent in comparison.against(name))}
        opponents = [opponent for opponent in comparison.against(own) if opponent.name not in counted]
        questions *= len(opponents) * (2 if comparison.order == 'both' else 1)
    once = judges[0].whole_dialogue
    return questions * sum(once or _count_turns(pair, row) for row in first(pair.compiled.data.test, rows))


def _count_turns(pair: PairRun, row: Mapping[str, Any]) -> int:
    """How many turns of a row a model answers; none if the row cannot be worded, for then it fails."""
    try:
        return pair.compiled.turns(row)
    except RenderError:
        return 0


def _samples(pair: PairRun) -> int:
    return int(getattr(pair.inferencer, 'samples', 1))


def _price(pair: PairRun, plan: PlannedPair, options: RunOptions) -> PlannedPair:
    """The plan with what it costs at most, where tokens and price are known."""
    sampling: Sampling | None = getattr(pair.inferencer, 'sampling', None)
    out = plan.requests * sampling.max_out_len if sampling is not None and sampling.max_out_len else None
    plan = replace(plan, output_tokens=out, remote=_is_remote(pair.model.identity.get('server')))
    price = find_price(pair.model_entry.entry, options.prices if isinstance(options.prices, Mapping) else {})
    is_priced = price is not None and (plan.remote or 'price' in pair.model_entry.entry)
    if price is None or not is_priced or plan.input_tokens is None:
        return plan
    left = 1 - plan.cached / plan.requests if plan.requests else 0.0
    factor, sent = left * (price.batch if options.batch else 1.0), plan.input_tokens
    plan = replace(plan, price=factor * price.cost(sent, out or 0), batch=options.batch)
    if not plan.shared_part or plan.requests < 2:
        return plan
    tokens_written = plan.shared_part * sent / plan.requests
    tokens_read = plan.shared_part * sent - tokens_written
    cost = price.cost(sent, out or 0, cached_tokens=tokens_read, written_tokens=tokens_written)
    return replace(plan, cached_price=factor * cost)


def _is_remote(server: object) -> bool:
    host = urlsplit(server).hostname if isinstance(server, str) else None
    return host is not None and host != 'localhost' and not host.startswith('127.') and host != '::1'
