"""Whole runs: against servers that fail, processes that are killed, and models in this process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toys
from helpers import bot, human, template
from rolecall import ConfigError
from rolecall.errors import DataError, RunError
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Capabilities, ModelError, Reply, Sampling, Scored
from rolecall.runs import plan_run, run_config
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.concurrent_client import build_client
from rolecall.runs.client.limiter import Limits
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.client.retry import RetryPolicy
from rolecall.runs.engine import Engine
from rolecall.runs.listener import NullListener
from rolecall.runs.pair_rows import keep_rows
from rolecall.runs.pair_run import PairRun
from rolecall.runs.prepare import prepare
from rolecall.runs.run import ask_rows_again
from rolecall.runs.store.database import open_for_writing
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from servers import Server, by_share, in_order, serve

KILLS = int(os.environ.get('ROLECALL_KILLS', '3'))
API = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
ASKED = {'round': [human('{question}'), bot('{answer}')]}


def dataset(
    rows: Sequence[dict[str, Any]], prompt: Any = ASKED, abbr: str = 'demo', **inferencer: Any
) -> dict[str, Any]:
    return {
        'abbr': abbr,
        'type': 'Rows',
        'test': list(rows),
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': prompt if 'type' in prompt else template(prompt),
            'inferencer': {'type': 'GenInferencer', **inferencer},
        },
    }


def questions(count: int) -> list[dict[str, str]]:
    return [{'question': f'Question {i}?', 'answer': str(i)} for i in range(count)]


def dialogues(count: int) -> dict[str, Any]:
    rows = [{'question': [f'First {i}?', f'Second {i}?'], 'answer': ['a', 'b']} for i in range(count)]
    prompt = {'type': 'MultiTurnPromptTemplate', 'template': ASKED}
    return dataset(rows, prompt, 'talk', type='MultiTurnGenInferencer', infer_mode='every')


def api(url: str, **options: Any) -> dict[str, Any]:
    return {'abbr': 'toy', 'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': 'sk-secret', **options}


def config(model: dict[str, Any], *datasets: dict[str, Any]) -> dict[str, Any]:
    return {'models': [model], 'datasets': list(datasets)}


def stored(run: Path) -> tuple[dict[str, Any], list[Any]]:
    """What a run has kept, without what depends on time."""
    with RunReader(run) as archive:
        replies = {}
        for key in archive.fingerprints():
            reply = archive.reply(key)
            replies[key] = (
                replace(reply, usage=replace(reply.usage, seconds=None)) if isinstance(reply, Reply) else reply
            )
        return replies, [replace(result, seconds=None) for result in archive.results()]


def rows_of(run: Path) -> list[Result]:
    with RunReader(run) as archive:
        return list(archive.results())


def prompts(server: Server, since: int = 0) -> list[str]:
    return [json.dumps(call.body['messages']) for call in server.calls[since:] if call.body is not None]


# -- servers that fail -------------------------------------------------------------------------------------------------


def test_every_row_finishes_under_faults_and_nothing_is_answered_twice(tmp_path: Path) -> None:
    faults = by_share(rate_limit=0.05, error=0.05, drop=0.02, malformed=0.01, seed=4)
    with serve(faults=faults, latency=0.002) as server:
        summary = run_config(config(api(server.url), dataset(questions(400)), dialogues(40)), out=tmp_path)
    assert summary.outcomes == {'ok': 440}
    assert summary.exit_code == 0
    assert len(server.calls) > 480
    assert set(Counter(p for c, p in zip(server.calls, prompts(server), strict=True) if c.fault is None).values()) == {
        1
    }
    with RunReader(tmp_path) as archive:
        rows = list(archive.results('demo'))
    assert [row.prediction for row in rows] == [f'Answer to Question {i}?' for i in range(400)]


def test_a_request_that_fails_for_good_is_a_failed_row_and_no_answer(tmp_path: Path) -> None:
    def faults(_: int, body: Any) -> str | None:
        return '400' if 'Question 3?' in str(body) else None

    with serve(faults=faults) as server:
        written = config(api(server.url, concurrency=1), dataset(questions(6)))
        summary = run_config(written, out=tmp_path)
        assert summary.outcomes == {'ok': 5, 'failed': 1}
        assert summary.exit_code == 1
        failed = next(row for row in rows_of(tmp_path) if row.outcome == 'failed')
        assert failed.row == 3
        assert failed.prediction is None
        assert 'This is a 400' in failed.reason
        before = len(server.calls)
        assert run_config(written, out=tmp_path).outcomes == {'ok': 5, 'failed': 1}
        assert len(server.calls) == before
        server.faults = None
        assert run_config(written, out=tmp_path, rerun={'failed'}).outcomes == {'ok': 6}
        assert len(server.calls) == before + 1


def test_one_failed_row_can_be_asked_again_alone(tmp_path: Path) -> None:
    bad = ('Question 1?', 'Question 3?')
    with serve(faults=lambda _, body: '400' if any(one in str(body) for one in bad) else None) as server:
        scored = {'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}}}
        one, other = dataset(questions(6), abbr='one') | scored, dataset(questions(2), abbr='other') | scored
        written = {**config(api(server.url, concurrency=1), one, other), 'groups': {'both': ['one', 'other']}}
        run_config(written, out=tmp_path)
        before, server.faults = len(server.calls), None
        summary = ask_rows_again(written, out=tmp_path, dataset='one', model=written['models'][0]['abbr'], rows=[3])
        assert len(server.calls) == before + 1
    assert summary.outcomes == {'ok': 5, 'failed': 1}
    with RunReader(tmp_path) as run:
        cards = {card.dataset: card for card in run.scorecards()}
        assert run.outcomes('one', cards['one'].model)[3] == 'ok'
    assert cards['one'].outcomes == {'ok': 5, 'failed': 1}
    assert cards['both'].value is not None


def test_asking_a_row_again_does_not_finish_or_score_the_run(tmp_path: Path) -> None:
    with serve(faults=lambda _, body: '400' if 'Question 1?' in str(body) else None) as server:
        whole = config(api(server.url, concurrency=1), dataset(questions(6)))
        model = whole['models'][0]['abbr']
        run_config(config(api(server.url, concurrency=1), dataset(questions(3))), out=tmp_path)
        with closing(sqlite3.connect(tmp_path / FILE)) as db:
            db.execute('DELETE FROM scores')
            db.commit()
        server.faults = None
        ask_rows_again(whole, out=tmp_path, dataset='demo', model=model, rows=[1])
    with RunReader(tmp_path) as run:
        assert run.outcomes('demo', model) == {0: 'ok', 1: 'ok', 2: 'ok'}
        assert run.scorecards() == []


def test_replies_that_were_filtered_can_be_asked_for_again(tmp_path: Path) -> None:
    said: list[Any] = [{'finish_reason': 'content_filter', 'message': {'content': ''}}]
    with serve(lambda body: said[0]) as server:
        written = config(api(server.url), dataset(questions(3)))
        assert run_config(written, out=tmp_path).outcomes == {'filtered': 3}
        said[0] = 'fine'
        assert run_config(written, out=tmp_path).outcomes == {'filtered': 3}
        assert run_config(written, out=tmp_path, rerun=['filtered']).outcomes == {'ok': 3}
        assert len(server.calls) == 6


@pytest.mark.parametrize(
    ('options', 'told'), [({'key': 'not-it'}, 'the key is missing, wrong'), ({'path': 'other'}, 'no such model')]
)
def test_a_bad_key_or_an_unknown_model_is_one_clear_error(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with serve(key='sk-secret') as server:
        summary = run_config(config(api(server.url, concurrency=4) | options, dataset(questions(50))), out=tmp_path)
        assert told in summary.broken['toy']
        assert summary.exit_code == 1
        assert len(server.calls) <= 8
        fixed = run_config(config(api(server.url), dataset(questions(50))), out=tmp_path)
    assert fixed.outcomes == {'ok': 50}


def test_an_unreachable_server_is_one_clear_error(tmp_path: Path) -> None:
    model = api('http://127.0.0.1:9', concurrency=2, retry=1)
    summary = run_config(config(model, dataset(questions(20))), out=tmp_path)
    assert 'no answer after 2 attempts' in summary.broken['toy']
    with RunReader(tmp_path) as archive:
        assert list(archive.results()) == []


def test_one_model_that_cannot_be_asked_does_not_stop_the_other(tmp_path: Path) -> None:
    with serve() as server:
        both = [api(server.url), api('http://127.0.0.1:9', retry=0) | {'abbr': 'gone'}]
        summary = run_config({'models': both, 'datasets': [dataset(questions(5))]}, out=tmp_path)
    assert list(summary.broken) == ['gone']
    assert summary.outcomes == {'ok': 5}


def test_no_key_is_written_anywhere(tmp_path: Path) -> None:
    with serve(key='sk-secret') as server:
        run_config(config(api(server.url), dataset(questions(5))), out=tmp_path)
    assert all(b'sk-secret' not in file.read_bytes() for file in tmp_path.iterdir())


# -- going on ----------------------------------------------------------------------------------------------------------


def test_what_is_known_is_not_asked_again_and_what_changed_is(tmp_path: Path) -> None:
    with serve() as server:
        rows = questions(10)
        model = api(server.url)
        run_config(config(model, dataset(rows)), out=tmp_path, limit=4)
        assert len(server.calls) == 4
        run_config(config(model, dataset(rows)), out=tmp_path)
        assert len(server.calls) == 10
        shuffled = rows[::-1]
        run_config(config(model, dataset(shuffled)), out=tmp_path)
        assert len(server.calls) == 10
        assert [row.gold for row in rows_of(tmp_path)] == [row['answer'] for row in shuffled]
        shuffled[0] = {'question': 'Another?', 'answer': 'x'}
        run_config(config(model, dataset(shuffled)), out=tmp_path)
        assert len(server.calls) == 11
        run_config(config(model, dataset(shuffled, max_out_len=7)), out=tmp_path)
        assert len(server.calls) == 21
        run_config(config(model, dataset(rows[:3])), out=tmp_path)
        assert len(server.calls) == 21
        assert len(rows_of(tmp_path)) == 3


def test_equal_requests_are_sent_once(tmp_path: Path) -> None:
    with serve(latency=0.01) as server:
        summary = run_config(config(api(server.url), dataset(questions(1) * 20)), out=tmp_path)
    assert summary.outcomes == {'ok': 20}
    assert len(server.calls) == 1


def test_samples_of_one_request_are_each_sent(tmp_path: Path) -> None:
    with serve() as server:
        written = config(api(server.url), dataset(questions(3), num_return_sequences=4))
        run_config(written, out=tmp_path)
        run_config(written, out=tmp_path)
    assert len(server.calls) == 12
    assert [len(row.prediction) for row in rows_of(tmp_path)] == [4, 4, 4]


RUN = """
import json, sys
from rolecall.runs import run_config
run_config(json.load(open(sys.argv[1])), out=sys.argv[2], lint=False)
"""


def start(written: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, '-c', RUN, str(written), str(out)])


def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(tmp_path: Path) -> None:
    draw = random.Random(7)
    out, whole, written = tmp_path / 'killed', tmp_path / 'whole', tmp_path / 'config.json'
    with serve(latency=0.02, max_seconds=300) as server:
        model = api(server.url, concurrency=3)
        datasets = (dataset(questions(40 * KILLS)), dialogues(8 * KILLS))
        written.write_text(json.dumps(config(model, *datasets)))
        seen = 0
        for _ in range(KILLS):
            known = _finished(out)
            process = start(written, out)
            enough = seen + draw.randrange(40)
            _wait_for(lambda more=enough: len(server.calls) > more, process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert not known & set(prompts(server, seen))
            seen = len(server.calls)
        known = _finished(out)
        assert start(written, out).wait() == 0
        assert not known & set(prompts(server, seen))
        assert start(written, whole).wait() == 0
    assert len(known) > 10
    assert stored(out) == stored(whole)


def _finished(out: Path) -> set[str]:
    """The messages of every request that is finished."""
    if not (out / FILE).is_file():
        return set()
    with RunReader(out) as archive:
        return {json.dumps(archive.request(key)) for key in archive.fingerprints()}


def _wait_for(happened: Any, process: subprocess.Popen[bytes]) -> None:
    for _ in range(12_000):
        if happened() or process.poll() is not None:
            return
        time.sleep(0.01)


def test_ctrl_c_stops_cleanly_and_the_run_goes_on(tmp_path: Path) -> None:
    with serve(latency=0.05) as server:
        written = tmp_path / 'config.json'
        written.write_text(json.dumps(config(api(server.url, concurrency=2), dataset(questions(60)))))
        code = RUN.replace('\nrun_config', '\nsummary = run_config') + 'print(summary.interrupted, summary.exit_code)'
        process = subprocess.Popen(
            [sys.executable, '-c', code, str(written), str(tmp_path / 'run')], stdout=subprocess.PIPE, text=True
        )
        _wait_for(lambda: len(server.calls) > 8, process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        assert said.split() == ['True', '130']
        assert 0 < len(rows_of(tmp_path / 'run')) < 60
        summary = run_config(json.loads(written.read_text()), out=tmp_path / 'run')
    assert summary.outcomes == {'ok': 60}


def test_a_second_run_in_the_same_directory_is_turned_away(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RunError, match='another process is running here'), serve() as server:
        run_config(config(api(server.url), dataset(questions(2))), out=tmp_path)
    store.close()


def test_a_store_that_breaks_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[Result] = []

    class Counting(NullListener):
        def on_row(self, result: Result, *, asked: bool) -> None:
            finished.append(result)

    def nearly_full(file: Path) -> Any:
        db = open_for_writing(file)
        db.execute('PRAGMA max_page_count=14')
        return db

    monkeypatch.setattr('rolecall.runs.store.database.open_for_writing', nearly_full)
    with serve() as server, pytest.raises(RunError, match='disk is full'):
        run_config(config(api(server.url), dataset(questions(500))), out=tmp_path, progress=Counting())
    monkeypatch.undo()
    kept = {row.row for row in rows_of(tmp_path)}
    assert {row.row for row in finished} <= kept
    with serve() as server:
        again = run_config(config(api(server.url), dataset(questions(20))), out=tmp_path)
    assert again.outcomes == {'ok': 20}


# -- models in this process --------------------------------------------------------------------------------------------


class Local:
    """A model that computes batches, and remembers them."""

    name, max_seq_len, identity = 'local', None, {'weights': 'toy'}
    capabilities = Capabilities(score=True)

    def __init__(self, batch: int = 4, poison: str = '\0') -> None:
        self.batch = batch
        self.batches: list[list[Any]] = []
        self._poison = poison

    async def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[Reply]:
        self._take(requests)
        await asyncio.sleep(0.001)
        return [Reply(request[::-1]) for request in requests]

    async def score(self, requests: Sequence[Any]) -> list[Scored]:
        self._take(requests)
        return toys.score(requests)

    def _take(self, requests: Sequence[Any]) -> None:
        self.batches.append(list(requests))
        if any(self._poison in request for request in requests):
            raise ModelError('it cannot be computed')

    def count(self, request: Any) -> int:
        return len(request)

    async def close(self) -> None: ...


async def ask_all(client: ModelClient, pair: PairRun, store: Store, choose_rows: Any) -> None:
    async for asked, rows in Engine(CachedClient(client, store), [pair], store=store, choose_rows=choose_rows).rows():
        keep_rows(asked, rows, store, NullListener())
    await client.close()
    await store.wait_until_saved()


def run_local(model: Local, written: dict[str, Any], out: Path) -> list[Result]:
    store = Store(out)
    ready = replace(prepare(written).pairs[0], model=model)
    client = build_client(model, limits=Limits(), retry_policy=RetryPolicy())  # type: ignore[arg-type]
    try:
        asyncio.run(ask_all(client, ready, store, lambda pair: pair.compiled.rows()))
        return list(store.results('demo', 'local'))
    finally:
        store.close()


def test_a_local_model_gets_full_batches_of_what_belongs_together(tmp_path: Path) -> None:
    model = Local(batch=4)
    labels = {label: f'{{question}} {label}' for label in 'ABCD'}
    rows = run_local(model, config(toys.model(), dataset(questions(32), labels, type='PPLInferencer')), tmp_path)
    assert [row.outcome for row in rows] == ['ok'] * 32
    assert [len(batch) for batch in model.batches] == [4] * 32
    assert all(len({text[:-2] for text in batch}) == 1 for batch in model.batches)


def test_a_request_that_cannot_be_computed_spoils_no_other(tmp_path: Path) -> None:
    written = config(toys.model(), dataset(questions(12), '{question}'))
    rows = run_local(Local(batch=4, poison='Question 5?'), written, tmp_path)
    assert [row.row for row in rows if row.outcome == 'failed'] == [5]
    assert rows[6].prediction == 'Question 6?'[::-1]


def test_an_error_in_a_models_own_code_ends_the_run_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    class Buggy(Local):
        async def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[Reply]:
            raise ZeroDivisionError('a bug')

    with pytest.raises(ZeroDivisionError, match='a bug'):
        run_local(Buggy(), config(toys.model(), dataset(questions(12), '{question}')), tmp_path)


@pytest.mark.parametrize('place', [0, 5])
def test_a_row_without_a_needed_column_fails_and_the_others_are_asked(tmp_path: Path, place: int) -> None:
    rows = questions(5)
    rows.insert(place, {'answer': 'no question'})
    summary = run_config(
        config({'abbr': 'f', 'type': _shout}, dataset(rows, '{question}'), dataset(questions(2), abbr='other')),
        out=tmp_path,
    )
    assert summary.outcomes == {'ok': 7, 'failed': 1}
    [failed] = [row for row in rows_of(tmp_path) if row.outcome == 'failed']
    assert (failed.dataset, failed.row) == ('demo', place)
    assert "no column 'question'" in failed.reason
    assert 'The row has: answer' in failed.reason


@pytest.mark.parametrize('retriever', ['BM25Retriever', 'RandomRetriever'])
def test_a_row_without_a_column_that_the_retriever_compares_fails_alone(tmp_path: Path, retriever: str) -> None:
    rows = [{'question': f'Question {i}?', 'topic': f'topic {i}', 'answer': str(i)} for i in range(4)]
    del rows[2]['topic']
    entry = dataset(rows, template('</E>{question} {answer}', ice_token='</E>'))
    entry['train'] = [{'question': f'Shot {i}?', 'topic': f'topic {i}', 'answer': str(i)} for i in range(3)]
    entry['reader_cfg']['input_columns'] = ['question', 'topic']
    entry['infer_cfg'] |= {
        'ice_template': template('</E>{question} {answer}', ice_token='</E>'),
        'retriever': {'type': retriever, 'ice_num': 1},
    }
    summary = run_config(config({'abbr': 'f', 'type': _shout}, entry), out=tmp_path)
    assert summary.outcomes == {'ok': 3, 'failed': 1}
    [failed] = [row for row in rows_of(tmp_path) if row.outcome == 'failed']
    assert failed.row == 2
    assert "no column 'topic'" in failed.reason


def test_a_column_that_no_row_has_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 0: no column 'question'"):
        run_config(config({'abbr': 'f', 'type': _shout}, dataset([{'answer': 'x'}] * 30, '{question}')), out=tmp_path)


def test_a_dataset_that_breaks_off_stops_the_run_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = config({'abbr': 'f', 'type': _shout}, dataset(questions(5), '{question}'))
    all_rows = Pair.rows

    def break_off(pair: Pair, limit: int | None = None, *, strict: bool = True, only: Any = None) -> Any:
        yield from all_rows(pair, 4, strict=strict)
        raise DataError('the file ends early.')

    with monkeypatch.context() as patched:
        patched.setattr(Pair, 'rows', break_off)
        with pytest.raises(DataError, match='the file ends early'):
            run_config(written, out=tmp_path)
    assert len(rows_of(tmp_path)) <= 5
    assert run_config(written, out=tmp_path).outcomes == {'ok': 5}


def test_rows_on_their_way_are_bounded(tmp_path: Path) -> None:
    taken: list[int] = []
    model = Local(batch=4)
    store = Store(tmp_path)
    ready = prepare(config(toys.model(), dataset(questions(500), '{question}'))).pairs[0]
    client = build_client(model, limits=Limits(), retry_policy=RetryPolicy())  # type: ignore[arg-type]

    def rows(pair: PairRun) -> Any:
        for number, row, picked in pair.compiled.rows():
            taken.append(number - sum(map(len, model.batches)))
            yield number, row, picked

    asyncio.run(ask_all(client, ready, store, rows))
    store.close()
    assert max(taken) <= client.window + model.batch


def test_perplexity_over_a_server_is_resumed_exactly(tmp_path: Path) -> None:
    labels = {label: f'{{question}} {label}' for label in ('yes', 'no indeed')}
    with serve() as server:
        model = {**api(server.url, score='echo', endpoint='completions'), 'type': 'VLLMCustomAPI', 'model': 'toy'}
        written = config(model, dataset(questions(6), labels, type='PPLInferencer'))
        run_config(written, out=tmp_path)
        first = stored(tmp_path)
        assert len(server.calls) == 12
        run_config(written, out=tmp_path)
        assert len(server.calls) == 12
    assert stored(tmp_path) == first
    assert {row.prediction for row in first[1]} <= {'yes', 'no indeed'}
    assert first[1][0].details['labels'][1]['answer_tokens'] == 2


# -- before the run ----------------------------------------------------------------------------------------------------


def test_what_models_lack_is_reported_for_all_pairs_at_once(tmp_path: Path) -> None:
    chat_labels = {word: {'round': [human('{question}'), bot(word)]} for word in ('yes', 'no')}
    text_only = {'abbr': 'f', 'type': _shout, 'meta_template': API, 'chat': False}
    written = {
        'models': [api('http://127.0.0.1:9'), text_only],
        'datasets': [dataset(questions(1), chat_labels, 'weighed', type='PPLInferencer'), dataset(questions(1))],
    }
    with pytest.raises(ConfigError) as refused:
        run_config(written, out=tmp_path / 'run')
    told = str(refused.value)
    assert 'needs prompt log-probabilities; model toy' in told
    assert 'needs prompt log-probabilities; model f' in told
    assert 'f takes text, but its entry renders messages' in told
    assert not (tmp_path / 'run').exists()


def _shout(request: Any) -> str:
    return str(request).upper()


def test_two_datasets_of_one_name_are_refused(tmp_path: Path) -> None:
    written = config({'abbr': 'f', 'type': _shout}, dataset(questions(1)), dataset(questions(2)))
    with pytest.raises(ConfigError, match="the abbr 'demo' is also used by"):
        run_config(written, out=tmp_path)


def test_the_plan_says_what_is_known_and_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    with serve() as server:
        price = {'input': 2.0, 'output': 10.0}
        model = api(server.url, tokenizer=_Words(), price=price, endpoint='completions')
        model |= {'type': 'VLLMCustomAPI', 'model': 'toy'}
        written = config(model, dataset(questions(10), '{question}', max_out_len=100))
        run_config(written, out=tmp_path, limit=4)
        plan = plan_run(written, out=tmp_path)
        assert run_config(written, out=tmp_path, dry_run=True).plan == plan
        assert len(server.calls) == 4
    (pair,) = plan.pairs
    assert (pair.rows, pair.requests, pair.cached, pair.exact) == (10, 10, 4, True)
    assert pair.input_tokens == 20
    assert pair.price == pytest.approx(0.6 * (pair.input_tokens * 2 + 1000 * 10) / 1e6)
    assert '10 rows, 10 requests (4 known)' in str(plan)


class _Words:
    """A tokenizer of words."""

    name, bos_id, adds_bos, eos_id, special_tokens = 'words', None, False, None, {}

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [1] * len(text.split())

    def decode(self, ids: Sequence[int]) -> str:
        return ' '.join(map(str, ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return ['w' for _ in ids]

    def offsets(self, text: str) -> list[Any]:
        return []

    def count(self, text: str) -> int:
        return len(text.split())


def test_a_row_that_cannot_be_worded_fails_alone(tmp_path: Path) -> None:
    written = dialogues(3)
    written['test'][1]['answer'] = ['too', 'many', 'answers']
    with serve() as server:
        summary = run_config(config(api(server.url), written), out=tmp_path)
    assert summary.outcomes == {'ok': 2, 'failed': 1}
    failed = next(row for row in rows_of(tmp_path) if row.outcome == 'failed')
    assert 'same length' in failed.reason


def test_a_function_is_a_model_and_gold_stays_gold(tmp_path: Path) -> None:
    summary = run_config(config({'abbr': 'f', 'type': _shout}, dataset(questions(3), '{question}')), out=tmp_path)
    assert summary.outcomes == {'ok': 3}
    assert [(row.prediction, row.gold) for row in rows_of(tmp_path)][1] == ('QUESTION 1?', '1')


def test_an_outcome_that_does_not_exist_cannot_be_run_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'failed'"):
        run_config(config({'abbr': 'f', 'type': _shout}, dataset(questions(1))), out=tmp_path, rerun=['faild'])


def test_a_run_can_be_started_where_a_loop_is_running(tmp_path: Path) -> None:
    async def notebook() -> Any:
        return run_config(config({'abbr': 'f', 'type': _shout}, dataset(questions(2), '{question}')), out=tmp_path)

    assert asyncio.run(notebook()).outcomes == {'ok': 2}


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    with serve(faults=in_order('rate_limit'), retry_after='0.3') as server:
        began = time.monotonic()
        run_config(config(api(server.url), dataset(questions(3))), out=tmp_path)
    assert time.monotonic() - began >= 0.3
    assert len(server.calls) == 4


# -- scores ------------------------------------------------------------------------------------------------------------


def scored(evaluation: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{'question': f'{i}+{i}', 'answer': str(2 * i)} for i in range(4)]
    return {**dataset(rows, '{question}'), 'eval_cfg': evaluation, **more}


def _sum(request: str) -> str:
    one, other = request.split('+')
    return {0: 'I cannot say', 3: 'It is 7'}.get(int(one), f'It is {int(one) + int(other)}')


def test_rows_are_scored_and_the_numbers_add_up(tmp_path: Path) -> None:
    evaluation = {'evaluator': {'type': 'AccEvaluator'}, 'pred_postprocessor': {'type': 'gsm8k_postprocess'}}
    written = config({'abbr': 'f', 'type': _sum}, scored(evaluation))
    summary = run_config(written, out=tmp_path)
    (card,) = summary.scorecards
    assert (card.metric, card.value, card.scored, card.total) == ('accuracy', 50.0, 4, 4)
    assert dict(card.outcomes) == {'unparsed': 1, 'ok': 3} == dict(summary.outcomes)
    rows = rows_of(tmp_path)
    assert [row.outcome for row in rows] == ['unparsed', 'ok', 'ok', 'ok']
    assert [row.correct for row in rows] == [False, True, True, False]
    assert (rows[0].reason, rows[1].gold) == ('no answer was found in the reply.', '2')
    with RunReader(tmp_path) as archive:
        assert archive.scorecards() == [card]
    again = run_config(written, out=tmp_path)
    assert again.scorecards == summary.scorecards
    assert rows_of(tmp_path) == rows


def test_scoring_otherwise_asks_nothing_again(tmp_path: Path) -> None:
    with serve(lambda body: '4') as server:
        model = {**api(server.url, endpoint='completions'), 'type': 'VLLMCustomAPI', 'model': 'toy'}
        run_config(config(model, scored({'evaluator': {'type': 'AccEvaluator'}})), out=tmp_path)
        summary = run_config(config(model, scored({'evaluator': {'type': 'EMEvaluator'}})), out=tmp_path)
        assert len(server.calls) == 4
    assert [card.value for card in summary.scorecards] == [25.0]
    with RunReader(tmp_path) as archive:
        assert len(archive.scorecards()) == 1


def test_a_wrong_eval_cfg_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"eval_cfg.evaluator\n.*unknown metric 'AccEvalutor'"):
        run_config(config({'abbr': 'f', 'type': _sum}, scored({'evaluator': {'type': 'AccEvalutor'}})), out=tmp_path)


@pytest.mark.parametrize('named', [True, False])
def test_a_model_of_the_config_or_one_of_its_own_is_the_judge(tmp_path: Path, named: bool) -> None:
    def answer(body: Any) -> str:
        asked = body['messages'][-1]['content']
        return (
            ('A' if asked == 'Is It is 2 right for 1+1? Gold: 2' else 'B') if asked.startswith('Is ') else _sum(asked)
        )

    with serve(answer) as server:
        judge = 'toy' if named else {**api(server.url), 'abbr': 'other', 'temperature': 0.5}
        words = 'Is {prediction} right for {question}? Gold: {obj_gold}'
        evaluator = {
            'type': 'GenericLLMEvaluator',
            'prompt_template': template({'round': [human(words)]}),
            'judge_cfg': judge,
        }
        rows = scored({'evaluator': evaluator})
        rows['infer_cfg']['prompt_template'] = template(ASKED)
        written = config(api(server.url), rows)
        (card,) = run_config(written, out=tmp_path).scorecards
        assert len(server.calls) == 8
        run_config(written, out=tmp_path)
        assert len(server.calls) == 8
    assert (card.value, card.scored) == (25.0, 4)


def test_self_consistency_votes_by_what_the_postprocessor_finds(tmp_path: Path) -> None:
    said = iter(['so 7', 'it is 4', 'clearly 4', 'well, 9'])
    evaluation = {'evaluator': {'type': 'AccEvaluator'}, 'pred_postprocessor': {'type': 'gsm8k_postprocess'}}
    rows = [{'question': '2+2', 'answer': '4'}]
    written = {**dataset(rows, '{question}', type='SCInferencer', sc_size=4), 'eval_cfg': evaluation}
    summary = run_config(
        config({'abbr': 'f', 'type': lambda request: next(said), 'concurrency': 1}, written), out=tmp_path
    )
    assert summary.scorecards[0].value == 100.0
    assert rows_of(tmp_path)[0].prediction == 'it is 4'
