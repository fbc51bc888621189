"""Runs of many small datasets: one model is asked about several at once, and results come in the order of the plan."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecall.runs import run_config
from rolecall.runs.listener import NullListener
from rolecall.runs.pair_scoring import PairScorer
from rolecall.runs.store.run_reader import RunReader
from test_runs import config, dataset, questions

NAMES = [f'part-{part:02}' for part in range(20)]


class Slow:
    """A model that answers after a while, and counts what it is asked at once."""

    def __init__(self, seconds: float = 0.02) -> None:
        self._seconds = seconds
        self.active = self.most = self.calls = 0

    async def ask(self, request: Any) -> str:
        self.calls += 1
        self.active += 1
        self.most = max(self.most, self.active)
        await asyncio.sleep(self._seconds)
        self.active -= 1
        return 'yes'


class Order(NullListener):
    """Notes in which order pairs were scored."""

    def __init__(self) -> None:
        self.scored: list[str] = []

    def on_scores(self, dataset: str, model: str, cards: Sequence[Any]) -> None:
        self.scored.append(dataset)


def many(model: Slow, rows: int = 3, *, same: bool = False) -> dict[str, Any]:
    def wording(name: str) -> str:
        return '{question}' if same else f'{name}: {{question}}'

    entry = {'abbr': 'slow', 'type': model.ask, 'concurrency': 16}
    return config(entry, *(dataset(questions(rows), wording(name), abbr=name) for name in NAMES))


def test_a_model_is_asked_about_several_datasets_at_once(tmp_path: Path) -> None:
    model = Slow()
    summary = run_config(many(model), out=tmp_path)
    assert summary.outcomes == {'ok': 60}
    assert model.most == 16


def test_scores_come_in_the_order_of_the_plan_whichever_dataset_is_scored_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, started = PairScorer.score, []

    async def score_late(self: PairScorer, *, marked: bool) -> Any:
        started.append(self)
        await asyncio.sleep(0.3 if len(started) == 1 else 0)
        return await score(self, marked=marked)

    monkeypatch.setattr(PairScorer, 'score', score_late)
    order = Order()
    summary = run_config(many(Slow()), out=tmp_path, progress=order)
    assert order.scored == NAMES
    assert [card.dataset for card in summary.scorecards] == NAMES
    with RunReader(tmp_path) as reader:
        assert [card.dataset for card in reader.scorecards()] == NAMES


def test_equal_requests_of_datasets_that_are_asked_at_once_are_sent_once(tmp_path: Path) -> None:
    model = Slow()
    assert run_config(many(model, same=True), out=tmp_path).outcomes == {'ok': 60}
    assert model.calls == 3


def test_a_run_of_many_datasets_that_is_stopped_resumes_without_asking_again(tmp_path: Path) -> None:
    class Stopping(Slow):
        async def ask(self, request: Any) -> str:
            if self.calls == 30:
                os.kill(os.getpid(), signal.SIGINT)
            return await super().ask(request)

    model = Stopping()
    assert run_config(many(model), out=tmp_path).exit_code == 130
    with RunReader(tmp_path) as reader:
        stored = len(list(reader.results()))
    asked, model.calls = model.calls, 100
    summary = run_config(many(model), out=tmp_path)
    assert summary.outcomes == {'ok': 60}
    assert 60 - asked <= model.calls - 100 <= 60 - stored
