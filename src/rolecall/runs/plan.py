"""Planning: a run whose client only counts what it would send, how long that is, and what is known already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rolecall.core.prompts.pieces import Row
from rolecall.errors import ConfigError, MissingExtraError, Problem, RenderError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.generation import GenInferencer
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.prices import find_price
from rolecall.models.protocol import Model, ModelError, Sampling
from rolecall.runs.counting_client import CountingClient, KnownReplies, asks_further
from rolecall.runs.engine import UNANSWERED, conclude_error, run_blocking
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.prepare import prepare
from rolecall.runs.run_options import RunOptions
from rolecall.runs.run_plan import PlannedPair, RunPlan
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.sources.datasets import first
from rolecall.sources.datasets.rows import count_skipped
from rolecall.sources.retrievers import Picked

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
        judge_cfg = f'{pair.pair.task.where}.eval_cfg.evaluator.judge_cfg'
        models = [(pair.model_entry.where, pair.model)]
        models += [(judge_cfg, judge.model_entry.model) for judge in pair.judges]
        lacking += [
            (pair, Problem(where, f'{model.name}: {reason}', 'Nothing was sent or stored.'))
            for where, model in models
            if (reason := _find_lacking_part(model)) is not None
        ]
    if lacking:
        planned = make_plan(prepared).pairs
        waiting = {(line.dataset, line.model) for line in planned if line.requests > line.cached}
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


@contextmanager
def _open_known(out: str | Path | None) -> Iterator[RunReader | None]:
    """The run in a directory, whose requests are known; None if there is none."""
    if out is None or not (Path(out) / FILE).is_file():
        yield None
        return
    with RunReader(out) as reader:
        yield reader


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
        with _open_known(options.out) as reader:
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
    prepared: PairRun,
    client: CountingClient,
    config: PreparedRun,
    rows: _SharedRows,
    deadline: float | None,
) -> PlannedPair:
    numbers = config.numbers(prepared.pair)
    total, only = len(numbers), None if config.is_whole_beginning else numbers
    slow = deadline is not None and not prepared.pair.task.retriever.fixed
    if slow or prepared.pair.task.inferencer.own is not None:
        plan = _estimate(prepared, total)
    else:
        sampling = _find_plain_sampling(prepared)
        for number, row, picked in rows.read(prepared.pair, config.options.limit, only):
            client.begin_row(number)
            if sampling is None or not await client.count_plainly(row, picked, sampling):
                try:
                    prepared.pair.check_row(row)
                    prediction = await prepared.inferencer.infer(prepared.pair, row, picked, client)
                except UNANSWERED as error:
                    prediction = conclude_error(error, client)
                client.end_row(prediction)
            if deadline is not None and time.monotonic() > deadline:
                break
            if number % 64 == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard
        plan = client.plan(total)
    left_out = count_skipped(prepared.pair.data.test)
    plan = replace(plan, left_out=left_out, to_judge=_count_questions(prepared, total, config))
    return _price(prepared, plan, config.options)


def _find_plain_sampling(prepared: PairRun) -> Sampling | None:
    """How answers are sampled, where each row is one request and no reply matters for what is asked."""
    inferencer = prepared.inferencer
    plain = type(inferencer) is GenInferencer and inferencer.samples == 1 and not prepared.pair.waits
    return inferencer.sampling if plain and isinstance(inferencer, GenInferencer) else None


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


def _estimate(prepared: PairRun, rows: int) -> PlannedPair:
    """The plan by the first row alone, where looking at all would take long or run the user's own inferencer."""
    requests = 0
    for row in islice(prepared.pair.data.test, 1):
        try:
            step = prepared.pair.step(row, Picked(()))
            requests = (len(step.requests) if step is not None else 0) * prepared.pair.turns(row)
        except RenderError:
            pass
    times = _samples(prepared) * (2 if asks_further(prepared) else 1)
    return PlannedPair(prepared.dataset, prepared.model.name, rows, rows * requests * times, exact=False)


def _count_questions(prepared: PairRun, rows: int, config: PreparedRun) -> int:
    """How many questions a judge is asked at most: one for each answer, or for each order of each comparison.

    The questions about two models of the run are the same from either side, unless this side always stands first.
    """
    judges = prepared.judges
    if not judges or not prepared.scorer.needs_judge:
        return 0
    questions = _samples(prepared) * len(judges)
    if (comparison := prepared.comparison) is not None:
        own = prepared.model.name
        names = [pair.model.name for pair in config.pairs if pair.dataset == prepared.dataset]
        before = names[: names.index(own)] if comparison.order != 'first' else []
        counted = {name for name in before if any(opponent.name == own for opponent in comparison.against(name))}
        opponents = [opponent for opponent in comparison.against(own) if opponent.name not in counted]
        questions *= len(opponents) * (2 if comparison.order == 'both' else 1)
    once = judges[0].whole_dialogue
    return questions * sum(once or _count_turns(prepared, row) for row in first(prepared.pair.data.test, rows))


def _count_turns(prepared: PairRun, row: Mapping[str, Any]) -> int:
    """How many turns of a row a model answers; none if the row cannot be worded, for then it fails."""
    try:
        return prepared.pair.turns(row)
    except RenderError:
        return 0


def _samples(prepared: PairRun) -> int:
    samples: int = getattr(prepared.inferencer, 'samples', 1)
    return samples


def _price(prepared: PairRun, plan: PlannedPair, options: RunOptions) -> PlannedPair:
    """The plan with what it costs at most, where tokens and price are known."""
    sampling: Sampling | None = getattr(prepared.inferencer, 'sampling', None)
    out = plan.requests * sampling.max_out_len if sampling is not None and sampling.max_out_len else None
    plan = replace(plan, output_tokens=out, remote=_is_remote(prepared.model.identity.get('server')))
    price = find_price(prepared.model_entry.entry, options.prices if isinstance(options.prices, Mapping) else {})
    is_priced = price is not None and (plan.remote or 'price' in prepared.model_entry.entry)
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
