"""Models in worker processes: of this machine, and of a Ray cluster of two nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecall import run_config
from rolecall.cli.main import main
from rolecall.errors import RunError
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.workers.settings import Workers

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


def write(folder: Path, *, rows: int = ROWS, poison: int = -1, seconds: float = 0.0) -> Path:
    lines = [{'q': f'{n}+1', 'a': str(n + 1)} for n in range(rows)]
    (folder / 'rows.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    config = CONFIG.replace('FOLDER', repr(str(folder))).replace('POISON', str(poison))
    (folder / 'config.py').write_text(config.replace('SECONDS', str(seconds)))
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
    summary = run_config(write(tmp_path, seconds=0.005), out=tmp_path / 'run', workers=PROCESSES)
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
        (['--on', 'ray', '--processes', '2'], 'Leave one out'),
        (['--address', 'x:1'], '--address belongs to --on ray'),
        (['--workers', '2'], '--workers belongs to --on ray'),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, capsys: Any, words: list[str], said: str) -> None:
    assert main(['run', str(write(tmp_path)), '--out', str(tmp_path / 'run'), *words]) == 2
    assert said in capsys.readouterr().err


# -- a Ray cluster of two nodes ----------------------------------------------------------------------------------------


class TwoNodes:
    """A real cluster on this machine: a head and a second node, one CPU each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 1, 'include_dashboard': False})
        self._second = self._cluster.add_node(num_cpus=1)
        self._cluster.wait_for_nodes()
        self.workers = Workers('ray', address=self._cluster.address)

    def kill_second(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)

    def add_second(self) -> None:
        self._second = self._cluster.add_node(num_cpus=1)
        self._cluster.wait_for_nodes()

    def shutdown(self) -> None:
        self._cluster.shutdown()


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
    summary = run_config(write(tmp_path, seconds=0.01), out=tmp_path / 'run', workers=cluster.workers)
    assert summary.scorecards[0].value == 100.0
    asked = calls_of(tmp_path)
    assert sorted(number for _, number in asked) == list(range(ROWS))
    with RunReader(tmp_path / 'run') as reader:
        times = reader.times()
    assert len(times) == 2
    assert sum(line.rows for line in times) == ROWS
    assert all(line.computing > 0 for line in times)
    main(['report', str(tmp_path / 'run')])
    assert 'where rows were computed' in capsys.readouterr().out
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
    command = [sys.executable, '-m', 'rolecall', 'run', str(path), '--out', str(out), '--on', 'ray', '-q']
    driver = subprocess.Popen([*command, '--address', str(cluster.workers.address)], stderr=subprocess.DEVNULL)
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
def test_a_cluster_that_is_not_there_or_too_small_is_told(tmp_path: Path, cluster: TwoNodes) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace('type=add)', 'type=add, run_cfg=dict(num_gpus=8))'))
    with pytest.raises(RunError, match='no node of the cluster has 1 CPU, 8 GPU'):
        run_config(path, out=tmp_path / 'run', workers=cluster.workers)
