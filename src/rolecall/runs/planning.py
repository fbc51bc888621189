"""Planning: how many requests a run will send, what they weigh, and what of them is known already."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecall.datasets import first
from rolecall.datasets.rows import count_skipped
from rolecall.errors import RenderError
from rolecall.inferencers.asking import Inferencer
from rolecall.inferencers.fitting import Fitted, TooLong, fit
from rolecall.inferencers.likelihood import CLPInferencer
from rolecall.inferencers.perplexity import PPLInferencer
from rolecall.models.base import Sampling
from rolecall.program import DialogueProgram
from rolecall.prompts.pieces import Row
from rolecall.render.spans import Request
from rolecall.retrievers import Picked
from rolecall.runs.client.cache import request_key
from rolecall.runs.plan import PlannedPair, RunPlan
from rolecall.runs.prepare import Readied, Ready, make_ready
from rolecall.runs.store.run_reader import FILE, RunReader

__all__ = ['plan_of', 'plan_run']


def plan_run(
    config: Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | None = None,
    rerun: Collection[str] = (),
    data: Mapping[str, str] | None = None,
) -> RunPlan:
    """What a run of the config would ask, counted exactly.

    `out` names the run directory whose replies are known, `rerun` outcomes whose rows are asked again.
    """
    readied = make_ready(config, dataset=dataset, model=model, limit=limit, data=data)
    with known_requests(out) as known:
        return plan_of(readied, known=known, rerun=rerun)


@contextmanager
def known_requests(out: str | Path | None) -> Iterator[RunReader | None]:
    """The requests that are finished in a run directory; None if there is no run."""
    if out is None or not (Path(out) / FILE).is_file():
        yield None
        return
    with RunReader(out) as archive:
        yield archive


def plan_of(
    readied: Readied, *, known: RunReader | None, rerun: Collection[str] = (), seconds: float | None = None
) -> RunPlan:
    """The plan. With `seconds`, counting stops after that time and the rest is estimated from what was counted."""
    deadline = None if seconds is None else time.monotonic() + seconds
    sent: set[str] = set()
    return RunPlan(
        tuple(
            _planned(ready, _Tally(ready, _Memory(ready, known, rerun), sent), readied.limit, deadline)
            for ready in readied.pairs
        )
    )


def _planned(ready: Ready, tally: _Tally, limit: int | None, deadline: float | None) -> PlannedPair:
    plan = _counted(ready, tally, limit, deadline)
    return _priced(
        ready, replace(plan, left_out=count_skipped(ready.pair.data.test), to_judge=_to_judge(ready, plan.rows))
    )


def _to_judge(ready: Ready, rows: int) -> int:
    """At most so many questions to a judge: one for each answer."""
    if ready.scores.judge is None or not ready.scores.scorer.needs_judge:
        return 0
    if ready.pair.task.inferencer.kind == 'dialogue':
        dialogue = ready.dialogue(Picked(()))
        return sum(_turns_asked(dialogue, row) for row in first(ready.pair.data.test, rows))
    samples: int = getattr(ready.inferencer, 'samples', 1)
    return rows * samples


def _turns_asked(dialogue: DialogueProgram, row: Row) -> int:
    """How many turns of a row a model answers; none if the row cannot be worded, for then it fails."""
    try:
        return len(dialogue.asked(row))
    except RenderError:
        return 0


def _counted(ready: Ready, tally: _Tally, limit: int | None, deadline: float | None) -> PlannedPair:
    rows = len(ready.pair.data.test)
    rows = rows if limit is None else min(rows, limit)
    slow = deadline is not None and not ready.pair.task.retriever.fixed
    if slow:
        times = 2 if _weighs_answers_alone(ready.inferencer) else 1
        requests = rows * _requests_per_row(ready) * times
        return PlannedPair(ready.dataset, ready.model.name, rows, requests, exact=False)
    for number, row, picked in ready.pair.rows(limit):
        tally.add(number, row, picked)
        if deadline is not None and time.monotonic() > deadline:
            break
    return tally.plan(rows)


class _Memory:
    """What is known of the requests of a pair, less what is asked again."""

    def __init__(self, ready: Ready, known: RunReader | None, rerun: Collection[str]) -> None:
        self._known = known if known is not None and known.anything else None
        ended = self._known.outcomes(ready.dataset, ready.model.name) if self._known is not None and rerun else {}
        self._again = {row: outcome for row, outcome in ended.items() if outcome in rerun}

    def knows(self, key: str, row: int) -> bool:
        """Whether a request of this row is not sent: of a failed row only what failed is, of the others everything."""
        if self._known is None or not self._known.knows(key):
            return False
        if row not in self._again:
            return True
        return self._again[row] == 'failed' and not self._known.failed(key)


class _Tally:
    """Adds up what the rows of a pair ask."""

    def __init__(self, ready: Ready, memory: _Memory, sent: set[str]) -> None:
        self._ready = ready
        self._memory = memory
        self._sent = sent
        """What was asked by rows before, of all pairs: equal requests are sent once."""
        self._identity = dict(ready.model.identity)
        self._sampling: Sampling | None = getattr(ready.inferencer, 'sampling', None)
        self._samples: int = getattr(ready.inferencer, 'samples', 1)
        self._rows = self._requests = self._cached = self._dropped = self._too_long = self._tokens = 0
        self._countable = self._exact = True

    def add(self, number: int, row: Row, picked: Picked) -> None:
        ready = self._ready
        self._rows += 1
        try:
            fitted = fit(lambda shots: _first(ready, row, shots), picked, ready.model.count, ready.inferencer.room)
            requests = _sent_first(ready.inferencer, row, fitted)
            later = len(requests) if _weighs_answers_alone(ready.inferencer) else _later_turns(ready, row)
        except TooLong as found:
            self._too_long += 1
            self._dropped += found.dropped
            return
        except RenderError:
            return
        self._dropped += fitted.dropped
        self._exact = self._exact and not later
        unknown = 0
        for request in requests:
            keys = self._new_keys(request)
            cached = sum(self._memory.knows(key, number) for key in keys)
            self._requests += len(keys)
            self._cached += cached
            unknown += len(keys) - cached
            if keys:
                self._weigh(request, len(keys))
        self._requests += later
        self._cached += later if not unknown else 0

    def _new_keys(self, request: Request) -> list[str]:
        """The keys of the request's samples that no row before has asked for."""
        keys = [request_key(request, self._sampling, self._identity, k) for k in range(self._samples)]
        new = [key for key in keys if key not in self._sent]
        self._sent.update(new)
        return new

    def _weigh(self, request: Request, times: int) -> None:
        tokens = self._ready.model.count(request) if self._countable else None
        self._countable = tokens is not None
        self._tokens += times * (tokens or 0)

    def plan(self, rows: int) -> PlannedPair:
        """The plan for so many rows; where not all were looked at, what they showed is taken for all."""
        share = rows / max(1, self._rows)
        return PlannedPair(
            self._ready.dataset,
            self._ready.model.name,
            rows,
            round(self._requests * share),
            cached=round(self._cached * share),
            input_tokens=round(self._tokens * share) if self._countable else None,
            shots_dropped=round(self._dropped * share),
            too_long=round(self._too_long * share),
            exact=self._exact and self._rows == rows,
        )


def _first(ready: Ready, row: Row, picked: Picked) -> Iterator[tuple[Hashable, Request]]:
    """What is asked about a row before any reply is known."""
    if ready.pair.task.inferencer.kind != 'dialogue':
        yield from ready.requests(row, picked)
        return
    dialogue = ready.dialogue(picked)
    waits = ready.pair.task.inferencer.infer_mode == 'every'
    for turn in [0] if waits else dialogue.asked(row):
        yield turn, dialogue(row, turn)


def _sent_first(inferencer: Inferencer, row: Row, fitted: Fitted) -> list[Request]:
    """What is sent before any reply is known: the row's requests, or its one request with each choice."""
    if isinstance(inferencer, CLPInferencer):
        return [*inferencer.texts(row, fitted)]
    return [request for _, request in fitted.requests]


def _weighs_answers_alone(inferencer: Inferencer) -> bool:
    """Whether each answer is weighed once more, without its context; where it begins shows in the first weighing."""
    return isinstance(inferencer, PPLInferencer) and inferencer.normalizing_str is not None


def _later_turns(ready: Ready, row: Row) -> int:
    """Turns whose requests depend on replies."""
    asks = ready.pair.task.inferencer
    if asks.kind != 'dialogue' or asks.infer_mode != 'every':
        return 0
    return len(ready.dialogue(Picked(())).asked(row)) - 1


def _requests_per_row(ready: Ready) -> int:
    asks = ready.pair.task
    labels = len(asks.labels) if asks.inferencer.kind == 'label' else 1
    samples: int = getattr(ready.inferencer, 'samples', 1)
    return labels * samples


def _priced(ready: Ready, plan: PlannedPair) -> PlannedPair:
    """The plan with what it costs at most, where the entry has a `price` for a million tokens."""
    sampling: Sampling | None = getattr(ready.inferencer, 'sampling', None)
    out = plan.requests * sampling.max_out_len if sampling is not None and sampling.max_out_len else None
    plan = replace(plan, output_tokens=out)
    price = ready.model_entry.entry.get('price')
    if not isinstance(price, Mapping) or plan.input_tokens is None:
        return plan
    left = 1 - plan.cached / plan.requests if plan.requests else 0.0
    cost = plan.input_tokens * float(price.get('input', 0)) + (out or 0) * float(price.get('output', 0))
    return replace(plan, price=left * cost / 1e6)
