"""Models in worker processes: of this machine, and of a Ray cluster of two nodes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecall import run_config
from rolecall.errors import RunError
from rolecall.models.backends import build_model
from rolecall.models.protocol import Reply, Sampling
from rolecall.runs.client.model_client import ModelCall
from rolecall.runs.client.retry import RetryPolicy
from rolecall.runs.listener import NullListener
from rolecall.runs.run_options import Share, Workers
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.workers.pool_client import PoolClient, SpreadModel
from rolecall.runs.workers.ray_pool import RayCluster, check_reachable
from rolecall.runs.workers.worker_pool import WorkerLoadError, WorkerLostError, WorkerReply
from rolecall.ui.cli.main import main
from rolecall.ui.cli.run import read_places

CONFIG = """
import os, time
from pathlib import Path

HERE = Path(FOLDER)

def add(prompt):
    left, right = prompt.split(' ')[0].split('+')
    with open(HERE / 'calls.txt', 'a') as calls:
        calls.write(f'{os.getpid()} {left}\\n')
    if POISON == int(left):
        os._exit(7)
    while TOGETHER and len({line.split()[0] for line in open(HERE / 'calls.txt')}) < 2:
        time.sleep(0.01)
    time.sleep(SECONDS)
    return f'It is {int(left) + int(right)}'

models = [dict(abbr='adder', type=add)]
datasets = [dict(
    abbr='sums', type='File', path='rows.jsonl',
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q} = ?')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor=dict(type='gsm8k_postprocess')),
)]
"""
ROWS = 300


def write(folder: Path, *, rows: int = ROWS, poison: int = -1, seconds: float = 0.0, together: bool = False) -> Path:
    """A config whose function takes so many seconds, and answers nothing before two processes were asked."""
    lines = [{'q': f'{n}+1', 'a': str(n + 1)} for n in range(rows)]
    (folder / 'rows.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    config = CONFIG.replace('FOLDER', repr(str(folder))).replace('POISON', str(poison))
    (folder / 'config.py').write_text(config.replace('SECONDS', str(seconds)).replace('TOGETHER', str(together)))
    return folder / 'config.py'


def calls_of(folder: Path) -> list[tuple[int, int]]:
    """The processes that were asked, and what."""
    file = folder / 'calls.txt'
    lines = file.read_text().split('\n') if file.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines if line.count(' ') == 1 and line.split()[1:]]


def outcomes_of(out: Path) -> dict[int, str]:
    with RunReader(out) as reader:
        return reader.outcomes('sums', 'adder')


def when_asked(folder: Path, count: int, act: Callable[[], Any]) -> threading.Thread:
    """Do something once the workers were asked this often."""

    def watch() -> None:
        end = time.monotonic() + 60
        while len(calls_of(folder)) < count and time.monotonic() < end:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


# -- processes of this machine -----------------------------------------------------------------------------------------

PROCESSES = Workers('processes', 2)


def test_processes_share_the_rows_of_a_local_model(tmp_path: Path) -> None:
    summary = run_config(write(tmp_path, together=True), out=tmp_path / 'run', workers=PROCESSES)
    assert summary.scorecards[0].value == 100.0
    asked = calls_of(tmp_path)
    assert sorted(number for _, number in asked) == list(range(ROWS))
    assert len({process for process, _ in asked} - {os.getpid()}) == 2


@pytest.mark.heavy
def test_a_request_that_ends_its_process_fails_alone(tmp_path: Path) -> None:
    summary = run_config(write(tmp_path, rows=100, poison=37), out=tmp_path / 'run', workers=PROCESSES)
    assert summary.outcomes == {'ok': 99, 'failed': 1}
    assert outcomes_of(tmp_path / 'run')[37] == 'failed'
    with RunReader(tmp_path / 'run') as reader:
        [failed] = [result for result in reader.results() if result.outcome == 'failed']
    assert '4 workers died while computing this request' in failed.reason


@pytest.mark.heavy
def test_a_model_that_cannot_be_built_in_a_process_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path)
    config = path.read_text()
    path.write_text(
        f"import multiprocessing\nif multiprocessing.parent_process() is not None:\n    raise OSError('no weights here')\n{config}"
    )
    summary = run_config(path, out=tmp_path / 'run', workers=PROCESSES)
    assert 'no weights here' in summary.broken['adder']


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--workers', 'ray', '--workers', '2'], "'2' contradicts what stands before it"),
        (['--workers', '0/2', '--workers', '1/2'], "'1/2' contradicts what stands before it"),
        (['--workers', '2', '--batch'], 'a batch is computed by the server'),
        (['--workers', '0'], "expected 4, ray, ray://HOST:PORT, 0/4 or slurm, got '0'"),
        (['--workers', 'ray#x'], "got 'ray#x'"),
        (['--workers', 'x:1'], "got 'x:1'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, capsys: Any, words: list[str], said: str) -> None:
    assert main(['run', str(write(tmp_path)), '--out', str(tmp_path / 'run'), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ('texts', 'expected'),
    [
        ([], {}),
        (['4'], {'workers': Workers('processes', 4)}),
        (['ray'], {'workers': Workers('ray')}),
        (['ray#8'], {'workers': Workers('ray', 8)}),
        (['ray:head:6379'], {'workers': Workers('ray', None, 'head:6379')}),
        (['ray://head:10001#2'], {'workers': Workers('ray', 2, 'ray://head:10001')}),
        (['1/4', '2'], {'share': Share(1, 4), 'workers': Workers('processes', 2)}),
    ],
)
def test_one_option_says_where_models_are_computed_and_which_rows_are_asked(
    texts: list[str], expected: dict[str, object]
) -> None:
    assert read_places(argparse.Namespace(workers=texts, batch=False)) == expected


class SlowPool:
    """Workers that are ready when a test says so. `answered` says which of them were given requests."""

    size, loading = 2, 0

    def __init__(self) -> None:
        self.ready = [asyncio.Event(), asyncio.Event()]
        self.answered: list[int] = []
        self.broken = ''

    async def start(self) -> None: ...
    async def close(self) -> None: ...

    async def wait_until_ready(self, worker: int) -> None:
        await self.ready[worker].wait()
        if self.broken:
            raise WorkerLoadError(f'node {worker}: {self.broken}')

    async def answer(self, worker: int, kind: Any, requests: Any, sampling: Any) -> WorkerReply:
        self.answered.append(worker)
        await asyncio.sleep(0.01)
        return WorkerReply([Reply('yes') for _ in requests], f'node {worker}', 0.0)


def test_a_server_is_called_from_nodes_that_have_started_and_from_the_idlest() -> None:
    async def ask() -> list[int]:
        pool = SlowPool()
        model = SpreadModel(build_model({'type': 'OpenAI', 'path': 'toy', 'key': 'k'}, name='m'), pool, tell=print)
        pool.ready[1].set()
        await asyncio.gather(*(model.generate(['a'], Sampling()) for _ in range(3)))
        first = list(pool.answered)
        pool.ready[0].set()
        await asyncio.sleep(0.01)
        await asyncio.gather(*(model.generate(['a'], Sampling()) for _ in range(4)))
        await model.close()
        return [*first, *sorted(pool.answered[3:])]

    assert asyncio.run(ask()) == [1, 1, 1, 0, 0, 1, 1]


def test_a_server_that_no_node_can_call_ends_with_every_reason() -> None:
    async def ask() -> list[str]:
        pool, heard = SlowPool(), []
        pool.broken = 'no module named acme'
        model = SpreadModel(
            build_model({'type': 'OpenAI', 'path': 'toy', 'key': 'k'}, name='m'), pool, tell=heard.append
        )
        for ready in pool.ready:
            ready.set()
        with pytest.raises(RunError, match=r'no worker can load the model.\nnode 0: no module.*\nnode 1: no module'):
            await model.generate(['a'], Sampling())
        await model.close()
        return heard

    assert asyncio.run(ask()) == [f'm: a worker is left out: node {n}: no module named acme' for n in (0, 1)]


async def ask_pool(pool: SlowPool) -> tuple[list[Any], str]:
    """The answers to 16 requests, and what was said at the end about where they were computed."""
    model = build_model({'type': 'FunctionModel', 'function': lambda _: ''}, name='m')
    client = PoolClient(model, RetryPolicy(), pool, tell=lambda _: None)
    answers = await asyncio.gather(*(client.send(ModelCall('generate', f'row {n}', Sampling())) for n in range(16)))
    where = client.activity.where
    await client.close()
    return answers, where


class LatePool(SlowPool):
    """Its second worker is ready when the first has work, and no work ends before the second has some, too."""

    def __init__(self) -> None:
        super().__init__()
        self.ready[0].set()
        self.sizes: list[int] = []

    async def answer(self, worker: int, kind: Any, requests: Any, sampling: Any) -> WorkerReply:
        self.answered.append(worker)
        self.sizes.append(len(requests))
        self.ready[1].set()
        while 1 not in self.answered:
            await asyncio.sleep(0.01)
        return WorkerReply([Reply('yes') for _ in requests], f'node {worker}', 0.0)


def test_a_few_rows_are_shared_with_a_worker_that_still_loads_the_model() -> None:
    pool = LatePool()
    assert len(asyncio.run(asyncio.wait_for(ask_pool(pool), 60))[0]) == 16
    assert (pool.answered, pool.sizes) == ([0, 1], [8, 8])


class DyingPool(SlowPool):
    """Its first batch ends a worker. After that, no batch is answered before the other worker has one, too."""

    def __init__(self) -> None:
        super().__init__()
        self.both = asyncio.Event()
        for ready in self.ready:
            ready.set()

    async def answer(self, worker: int, kind: Any, requests: Any, sampling: Any) -> WorkerReply:
        self.answered.append(worker)
        if len(self.answered) == 1:
            raise WorkerLostError('node 0: gone')
        if len(set(self.answered[1:])) == 2:
            self.both.set()
        await asyncio.wait_for(self.both.wait(), 60)
        return WorkerReply([Reply('yes') for _ in requests], f'node {worker}', 0.0)


def test_what_a_lost_worker_computed_is_divided_among_all_workers() -> None:
    answers, where = asyncio.run(ask_pool(DyingPool()))
    assert [answer.text for answer in answers] == ['yes'] * 16
    assert where == '2 workers, 1 worker lost'


# -- a Ray cluster of two nodes ----------------------------------------------------------------------------------------


class Heard(NullListener):
    """Keeps the messages of a run."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, message: str) -> None:
        self.messages.append(message)


class TwoNodes:
    """A real cluster on this machine: a head and a second node, one CPU each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 1, 'include_dashboard': False})
        self._second = self._cluster.add_node(num_cpus=1)
        self._cluster.wait_for_nodes()
        self.workers = Workers('ray', address=self._cluster.address)

    def find_nodes(self) -> list[str]:
        """The beginnings of the nodes' ids."""
        import ray

        with RayCluster(self.workers.address):
            return [node['NodeID'][:6] for node in ray.nodes() if node['Alive']]

    def kill_second(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)

    def add_second(self) -> None:
        self._second = self._cluster.add_node(num_cpus=1)
        self._cluster.wait_for_nodes()

    def shutdown(self) -> None:
        self._cluster.shutdown()


@pytest.mark.parametrize(
    ('address', 'said'),
    [
        ('127.0.0.1:1', 'no Ray cluster could be reached at 127.0.0.1:1: Connection refused'),
        ('no.such.host.invalid:6379', 'no Ray cluster could be reached at no.such.host.invalid:6379'),
        (':6379', 'expected HOST:PORT'),
        ('head:x', 'expected HOST:PORT'),
        ('head:99999', 'expected HOST:PORT'),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(address: str, said: str) -> None:
    with pytest.raises(RunError, match=said):
        check_reachable(address)


@pytest.fixture(scope='session')
def cluster() -> Iterator[TwoNodes]:
    pytest.importorskip('ray')
    two = TwoNodes()
    yield two
    two.shutdown()


@pytest.mark.heavy
def test_the_nodes_of_a_cluster_share_the_rows_and_the_report_says_where_time_went(
    tmp_path: Path, cluster: TwoNodes, capsys: Any
) -> None:
    summary = run_config(write(tmp_path, together=True), out=tmp_path / 'run', workers=cluster.workers)
    assert summary.scorecards[0].value == 100.0
    asked = calls_of(tmp_path)
    assert sorted(number for _, number in asked) == list(range(ROWS))
    with RunReader(tmp_path / 'run') as reader:
        times = reader.times()
    *nodes, own = times
    assert len(nodes) == 2
    assert sum(line.count for line in nodes) == ROWS
    assert all(line.computing and line.computing > 0 for line in nodes)
    assert (own.model, own.count) == ('', ROWS)
    assert own.rendering is not None
    assert own.writing is not None
    assert min(own.rendering, own.writing) > 0
    main(['report', str(tmp_path / 'run')])
    assert 'Where time went' in capsys.readouterr().out
    again = run_config(tmp_path / 'config.py', out=tmp_path / 'run')  # the same run goes on without the cluster
    assert (again.scorecards, len(calls_of(tmp_path))) == (summary.scorecards, ROWS)


@pytest.mark.heavy
def test_a_worker_that_is_killed_costs_only_rows_in_flight(tmp_path: Path, cluster: TwoNodes) -> None:
    killed: list[int] = []

    def kill() -> None:
        killed.append(calls_of(tmp_path)[-1][0])
        os.kill(killed[0], signal.SIGKILL)

    watcher = when_asked(tmp_path, 40, kill)
    summary = run_config(write(tmp_path, seconds=0.02), out=tmp_path / 'run', workers=cluster.workers)
    watcher.join()
    assert summary.outcomes == {'ok': ROWS}
    assert summary.scorecards[0].value == 100.0
    asked = calls_of(tmp_path)
    assert ROWS < len(asked) <= ROWS + 2 * 64
    assert killed[0] not in {process for process, _ in asked[-50:]}


@pytest.mark.heavy
def test_a_poison_row_fails_alone_on_a_cluster(tmp_path: Path, cluster: TwoNodes) -> None:
    summary = run_config(write(tmp_path, rows=20, poison=13), out=tmp_path / 'run', workers=cluster.workers)
    assert (summary.broken, summary.outcomes) == ({}, {'ok': 19, 'failed': 1})
    assert outcomes_of(tmp_path / 'run')[13] == 'failed'


@pytest.mark.heavy
def test_a_driver_that_is_killed_is_resumed_and_loses_nothing_that_was_stored(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    path, out = write(tmp_path, seconds=0.02), tmp_path / 'run'
    command = [sys.executable, '-m', 'rolecall', 'run', str(path), '--out', str(out), '-q']
    place = f'ray:{cluster.workers.address}'
    driver = subprocess.Popen([*command, '--workers', place], stderr=subprocess.DEVNULL)
    when_asked(tmp_path, 200, driver.kill).join()
    driver.wait()
    stored = len(outcomes_of(out))
    assert stored < ROWS
    before = len(calls_of(tmp_path))
    summary = run_config(path, out=out, workers=cluster.workers)
    assert summary.outcomes == {'ok': ROWS}
    assert len(calls_of(tmp_path)) - before <= ROWS - stored + 2 * 64


@pytest.mark.heavy
def test_an_api_is_asked_from_the_nodes_within_one_limit(tmp_path: Path, cluster: TwoNodes) -> None:
    from servers import serve

    path = write(tmp_path, rows=40)
    with serve(lambda body: 'It is 1') as server:
        text = path.read_text()
        entry = f"dict(abbr='adder', type='OpenAI', path='toy', key='k', base_url={server.url!r}, concurrency=3)"
        path.write_text(text.replace("dict(abbr='adder', type=add)", entry))
        summary = run_config(path, out=tmp_path / 'run', workers=cluster.workers)
        assert summary.outcomes == {'ok': 40}
        assert len(server.calls) == 40


@pytest.mark.heavy
def test_a_node_that_dies_costs_only_rows_in_flight(tmp_path: Path, cluster: TwoNodes) -> None:
    watcher = when_asked(tmp_path, 60, cluster.kill_second)
    try:
        summary = run_config(write(tmp_path, seconds=0.02), out=tmp_path / 'run', workers=cluster.workers)
    finally:
        watcher.join()
        cluster.add_second()
    assert summary.outcomes == {'ok': ROWS}
    assert summary.scorecards[0].value == 100.0


@pytest.mark.heavy
def test_two_nodes_with_a_token_as_the_manual_starts_them(tmp_path: Path) -> None:
    ray = pytest.importorskip('ray')
    if not hasattr(ray.exceptions, 'AuthenticationError'):
        pytest.skip('before Ray 2.52 there are no tokens')
    command, path = str(Path(sys.executable).with_name('ray')), write(tmp_path, seconds=0.02)
    with socket.socket() as free:
        free.bind(('', 0))
        port = free.getsockname()[1]
    address = f'{ray.util.get_node_ip_address()}:{port}'
    token = {**os.environ, 'RAY_AUTH_MODE': 'token', 'HOME': str(tmp_path)}
    subprocess.run([command, 'get-auth-token', '--generate'], env=token, check=True, capture_output=True)
    places = (('--head', f'--port={port}', '--include-dashboard=false'), (f'--address={address}',))
    nodes = []
    try:
        for place in places:
            start = [command, 'start', *place, '--num-cpus=1', '--block', f'--node-ip-address={address.split(":")[0]}']
            nodes.append(subprocess.Popen(start, env=token, stdout=subprocess.PIPE, text=True))
            assert any('Ray runtime started' in line for line in nodes[-1].stdout or ())
        run = [sys.executable, '-m', 'rolecall', 'run', str(path), '--workers', f'ray:{address}', '--out']
        done = subprocess.run([*run, 'with'], cwd=tmp_path, env=token, capture_output=True, text=True, check=True)
        assert '100.0' in done.stdout
        for left_out in ('HOME', 'RAY_AUTH_MODE'):
            bare = {**token, left_out: str(tmp_path / 'empty') if left_out == 'HOME' else 'disabled'}
            refused = subprocess.run([*run, left_out], cwd=tmp_path, env=bare, capture_output=True, text=True)
            assert refused.returncode == 2
            assert f'no Ray cluster could be reached at {address}' in refused.stderr
            assert 'set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from the head.' in refused.stderr
            assert 'Traceback' not in refused.stderr
    finally:
        for node in reversed(nodes):  # the head last: others end with it, but after half a minute
            node.terminate()
            node.communicate()


LOCAL = """
models = [dict(abbr='small', type='HuggingFaceCausalLM', path=MODEL, device='cpu', batch_size=8, max_seq_len=512)]
reader = dict(input_columns=['q'], output_column='a')
written = dict(
    abbr='written', type='File', path='rows.jsonl', reader_cfg=reader,
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='The quotient: {q} ='),
                   inferencer=dict(type='GenInferencer', max_out_len=12)),
    eval_cfg=dict(evaluator='AccEvaluator'))
weighed = dict(
    abbr='weighed', type='File', path='rows.jsonl', reader_cfg=reader,
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template={n: '{q} = ' + n for n in ('1', '2', '3')}),
                   inferencer=dict(type='PPLInferencer')),
    eval_cfg=dict(evaluator='AccEvaluator'))
datasets = [written, weighed]
"""


@pytest.mark.heavy
def test_a_transformers_model_answers_on_a_cluster_as_it_does_here(tmp_path: Path, cluster: TwoNodes) -> None:
    pytest.importorskip('torch')
    from small_models import make_model

    (tmp_path / 'model').mkdir()
    model = make_model(tmp_path / 'model', 'llama')
    path = write(tmp_path, rows=200)
    path.write_text(LOCAL.replace('MODEL', repr(str(model))))
    here = run_config(path, out=tmp_path / 'here')
    there = run_config(path, out=tmp_path / 'there', workers=cluster.workers)
    assert there.outcomes == here.outcomes == {'ok': 400}
    with RunReader(tmp_path / 'here') as one, RunReader(tmp_path / 'there') as other:
        assert [row.prediction for row in other.results()] == [row.prediction for row in one.results()]
        computed = [line for line in other.times() if line.model]
    assert sum(line.count for line in computed) == 200 + 3 * 200


FRAGILE = """
class Weights:
    def __reduce__(self):
        return read_weights, ()

def read_weights():
    import sys
    if 'ray' in sys.modules and sys.modules['ray'].get_runtime_context().get_node_id()[:6] in (HERE / 'bad').read_text():
        (HERE / 'failed').touch()
        raise FileNotFoundError('no /models/weights.safetensors')
    return Weights()

WEIGHTS = Weights()
"""


@pytest.mark.heavy
@pytest.mark.parametrize('share', ['one', 'all'])
def test_a_node_that_cannot_load_the_model_is_named(tmp_path: Path, cluster: TwoNodes, share: str) -> None:
    path = write(tmp_path, seconds=0.02)
    wait = "    while WEIGHTS and not (HERE / 'failed').exists():\n        time.sleep(0.1)"
    text = path.read_text().replace('def add(prompt):', f'{FRAGILE}def add(prompt):\n{wait}')
    path.write_text(text)
    nodes = cluster.find_nodes()
    bad = nodes[:1] if share == 'one' else nodes
    (tmp_path / 'bad').write_text(' '.join(bad))
    heard = Heard()
    summary = run_config(path, out=tmp_path / 'run', workers=cluster.workers, progress=heard)
    reason = 'the model cannot be loaded: FileNotFoundError: no /models/weights.safetensors'
    assert all(any(node in one and reason in one for one in heard.messages) for node in bad)
    if share == 'one':
        assert (summary.broken, summary.outcomes) == ({}, {'ok': ROWS})
    else:
        assert 'no worker can load the model' in summary.broken['adder']
        assert all(node in summary.broken['adder'] for node in nodes)


@pytest.mark.heavy
def test_a_cluster_that_is_not_there_or_too_small_is_told(tmp_path: Path, cluster: TwoNodes) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace('type=add)', 'type=add, run_cfg=dict(num_gpus=8))'))
    with pytest.raises(RunError, match='no node of the cluster has 1 CPU, 8 GPU'):
        run_config(path, out=tmp_path / 'run', workers=cluster.workers)
