"""When a model is given up, and what of that is kept: a row's own failure stays, all else is asked at the next start."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import toys
from rolecall.models.protocol import ModelError, Sampling
from rolecall.runs import run_config
from rolecall.runs.client.model_client import BatchClient, ModelCall
from rolecall.runs.client.retry import Attempts, ModelUnavailableError, Retrier, RetryPolicy
from rolecall.runs.prepare import prepare
from servers import prompt_of, running, serve
from test_runs import Local, api, config, dataset, questions, rows_of, run_local

# -- models in this process --------------------------------------------------------------------------------------------

LABELS = {label: f'{{question}} {label}' for label in 'ABCD'}


@pytest.mark.parametrize('batch', [2, 4, 8])
def test_a_row_whose_labels_all_fail_leaves_the_other_rows_their_answers(tmp_path: Path, batch: int) -> None:
    written = config(toys.model(), dataset(questions(8), LABELS, type='PPLInferencer'))
    rows = run_local(Local(batch=batch, poison='Question 0?'), written, tmp_path)
    assert [row.outcome for row in rows] == ['failed', *['ok'] * 7]


def test_a_local_model_that_fails_at_everything_is_given_up_once_all_that_wait_are_heard() -> None:
    async def ask(count: int) -> list[Any]:
        client = BatchClient(model, RetryPolicy(retries=0))
        calls = [client.send(ModelCall('generate', f'Question {i}?', Sampling())) for i in range(count)]
        return await asyncio.gather(*calls, return_exceptions=True)

    model = Local(batch=4, poison='Question')
    came = asyncio.run(ask(8))
    assert [type(one) for one in came].count(ModelUnavailableError) == 6
    assert sum(len(batch) for batch in model.batches) == 16


@pytest.mark.parametrize(('dataset_says', 'model_says', 'limit'), [(4096, 128, 128), (64, 128, 64), (None, 128, 128)])
def test_the_smaller_limit_holds(dataset_says: int | None, model_says: int, limit: int) -> None:
    entry = toys.model(max_seq_len=model_says)
    written = config(entry, dataset([{'question': 'q'}], '{question}', max_seq_len=dataset_says))
    assert prepare(written).pairs[0].compiled.budget.tokens == limit


# -- servers -----------------------------------------------------------------------------------------------------------


class Moody:
    """A server's answers: fine for the first so many calls, then this status until it is mended."""

    def __init__(self, fine: int, status: int, code: str = 'x') -> None:
        self._fine = fine
        self._status = status
        self._code = code
        self._heard = 0
        self.mended = False

    def __call__(self, body: Any) -> Any:
        self._heard += 1
        if self.mended or self._heard <= self._fine:
            return 'fine'
        error = {'message': f'No. Request id req_{self._heard}', 'code': self._code}
        return web.json_response({'error': error}, status=self._status)


@pytest.mark.parametrize(('status', 'code'), [(401, 'invalid_api_key'), (402, 'x'), (429, 'insufficient_quota')])
@pytest.mark.parametrize('fine', [0, 10])
def test_trouble_with_the_account_gives_the_model_up_and_is_no_rows_own(
    tmp_path: Path, status: int, code: str, fine: int
) -> None:
    mood = Moody(fine, status, code)
    with serve(mood) as server:
        written = config(api(server.url, concurrency=4), dataset(questions(60)))
        summary = run_config(written, out=tmp_path)
        assert f'({status})' in summary.broken['toy']
        assert len(server.calls) <= fine + 8
        mood.mended = True
        before = len(server.calls)
        assert run_config(written, out=tmp_path).outcomes == {'ok': 60}
        assert len(server.calls) == before + 60 - fine


def test_what_a_server_failed_at_for_the_moment_is_asked_again_at_the_next_start(tmp_path: Path) -> None:
    mood = Moody(2, 500)
    with serve(mood) as server:
        written = config(api(server.url, concurrency=1, retry=0), dataset(questions(6)))
        assert run_config(written, out=tmp_path).outcomes == {'ok': 2, 'failed': 4}
        mood.mended = True
        assert run_config(written, out=tmp_path).outcomes == {'ok': 6}
        assert len(server.calls) == 10


def test_a_refusal_after_a_passing_fault_is_still_the_rows_own(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(body: Any) -> Any:
        if 'Question 3?' not in prompt_of(body):
            return 'fine'
        seen.append('')
        return web.json_response({'error': {'message': 'no'}}, status=500 if len(seen) == 1 else 400)

    with serve(answer) as server:
        written = config(api(server.url, concurrency=1, retry=1), dataset(questions(6)))
        for _ in range(2):
            assert run_config(written, out=tmp_path).outcomes == {'ok': 5, 'failed': 1}
    assert len(seen) == 2


def test_a_server_that_goes_away_is_given_up_and_asked_again_when_it_is_back(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    with serve(port=port) as server:
        model = api(server.url, concurrency=2, retry=1)
        run_config(config(model, dataset(questions(4))), out=tmp_path)
    written = config(model, dataset(questions(40)))
    summary = run_config(written, out=tmp_path)
    assert 'is unreachable' in summary.broken['toy']
    assert len(rows_of(tmp_path)) <= 4 + 2
    with serve(port=port) as server:
        assert run_config(written, out=tmp_path).outcomes == {'ok': 40}
        assert len(server.calls) == 36


@pytest.mark.parametrize('concurrency', [1, 16])
@pytest.mark.parametrize('bad', [range(6), range(34, 40)])
def test_rows_whose_connections_never_work_fail_alone_and_are_asked_again(
    tmp_path: Path, bad: range, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetryPolicy, 'pause', lambda self, attempt, calm=False: 0.01)
    dropped = [f'Question {i}?' for i in bad]
    mended: list[bool] = []

    def find_fault(_number: int, body: Any) -> str | None:
        return 'drop' if not mended and any(question in prompt_of(body) for question in dropped) else None

    with serve(faults=find_fault) as server:
        written = config(api(server.url, concurrency=concurrency, retry=2), dataset(questions(40)))
        summary = run_config(written, out=tmp_path)
        assert (dict(summary.outcomes), summary.broken) == ({'ok': 34, 'failed': 6}, {})
        failed = [row for row in rows_of(tmp_path) if row.outcome == 'failed']
        assert [row.row for row in failed] == [*bad]
        assert all('after 3 attempts' in row.reason and 'connection broke' in row.reason for row in failed)
        mended.append(True)
        assert run_config(written, out=tmp_path).outcomes == {'ok': 40}
        assert max(server.answered.values()) == 1


@pytest.mark.parametrize('answers', [0, 8])
def test_a_server_that_drops_every_connection_is_given_up_early(
    tmp_path: Path, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetryPolicy, 'pause', lambda self, attempt, calm=False: 0.01)
    heard: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        heard.append(request.path)
        if len(heard) > answers and request.transport is not None:
            request.transport.abort()
        return web.json_response({'choices': [{'message': {'content': 'fine'}, 'finish_reason': 'stop'}]})

    with running(handle) as url:
        summary = run_config(config(api(url, concurrency=4, retry=2), dataset(questions(200))), out=tmp_path)
    assert 'the connection broke' in summary.broken['toy']
    assert len(heard) < answers + 40


@pytest.mark.parametrize('bad', [3, 5])
def test_a_start_goes_on_after_the_rows_on_which_the_one_before_gave_up(tmp_path: Path, bad: int) -> None:
    refused = [f'Question {i}?' for i in range(bad)]

    def answer(body: Any) -> Any:
        if any(question in prompt_of(body) for question in refused):
            return web.json_response({'error': {'message': 'invalid prompt'}}, status=400)
        return 'fine'

    with serve(answer) as server:
        written = config(api(server.url, concurrency=1), dataset(questions(10)))
        first = run_config(written, out=tmp_path)
        assert 'invalid prompt' in first.broken['toy']
        assert [(row.row, row.outcome) for row in rows_of(tmp_path)] == [(i, 'failed') for i in range(3)]
        second = run_config(written, out=tmp_path)
        assert (dict(second.outcomes), second.broken) == ({'failed': bad, 'ok': 10 - bad}, {})
        assert len(server.calls) == 10


def test_a_model_that_is_trusted_leaves_nobody_in_doubt() -> None:
    async def ask() -> list[Any]:
        retrier, gate = Retrier('m', RetryPolicy(retries=0)), asyncio.Event()

        async def call(number: int) -> None:
            await retrier.begin()
            if number == 0:
                await gate.wait()
            retrier.end()
            await retrier.handle(ModelError('no', status=400), Attempts())

        calls = [asyncio.create_task(call(number)) for number in range(5)]
        await asyncio.sleep(0.01)
        retrier.trust()
        await asyncio.wait(calls[1:], timeout=60)
        gate.set()
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)

    assert [str(one) for one in asyncio.run(ask())] == ['no'] * 5


def test_a_closed_local_port_is_reported_within_seconds(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(('127.0.0.1', 0))  # held and not listened to, so that nothing else takes the port meanwhile
        began = time.monotonic()
        url = f'http://127.0.0.1:{closed.getsockname()[1]}'
        summary = run_config(config(api(url), dataset(questions(200))), out=tmp_path)
    assert 'unreachable' in summary.broken['toy']
    assert time.monotonic() - began < 60  # a server elsewhere is waited for two minutes


def test_an_outage_without_end_is_described_by_its_length_and_the_attempts() -> None:
    error = ModelError('http://host/v1: the server failed (503).', transient=True, status=503)
    retrier = Retrier('m', RetryPolicy(longest_outage=600))
    with pytest.raises(ModelUnavailableError) as gone:
        asyncio.run(retrier.handle(error, Attempts(failed=3), down=640.0))
    assert str(gone.value) == (
        'm: no answer for 11 min, the last request tried 4 times: http://host/v1: the server failed (503).'
    )
