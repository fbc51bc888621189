"""Where the time of a run went."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecall.models.protocol import Reply
from rolecall.runs import run_config
from rolecall.runs.client.model_client import ComputingTimes
from rolecall.runs.listener import NullListener
from rolecall.runs.store.database import Transactions
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import open_store
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_html, report_markdown


class Heard(NullListener):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, message: str) -> None:
        self.messages.append(message)


CONFIG: dict[str, Any] = {
    'models': [{'type': 'FunctionModel', 'function': lambda _: '1', 'abbr': 'm'}],
    'datasets': [
        {
            'abbr': 'd',
            'type': 'Rows',
            'test': [{'question': f'{n}?', 'answer': '1'} for n in range(5)],
            'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
            'infer_cfg': {
                'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'},
                'inferencer': {'type': 'GenInferencer'},
            },
            'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
        }
    ],
}


@pytest.mark.parametrize('worth_telling', [0.0, 1e9])
def test_a_long_run_says_where_its_time_went(
    worth_telling: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.runs.listener._WORTH_TELLING', worth_telling)
    heard = Heard()
    run_config(CONFIG, out=tmp_path, progress=heard)
    with RunReader(tmp_path) as reader:
        times = StoredRun(reader).times()
    told = [message for message in heard.messages if message.startswith('this process: ')]
    if worth_telling:
        assert (times, told) == ([], [])
        return
    [own] = times
    assert (own.model, own.count, own.computing) == ('', 5, None)
    assert own.rendering is not None
    assert min(own.rendering, own.waiting, own.writing or 0) >= 0
    assert re.search(r's rendering and scoring, .* s writing, .* s waiting', told[0])


def test_a_slow_disk_takes_no_time_from_what_the_rows_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.runs.listener._WORTH_TELLING', 0.0)
    execute = Transactions._put_all

    def put_slowly(self: Transactions, put: str, entries: Any) -> list[str]:
        time.sleep(0.1)
        return execute(self, put, entries)

    monkeypatch.setattr(Transactions, '_put_all', put_slowly)
    run_config(CONFIG, out=tmp_path)
    with RunReader(tmp_path) as reader:
        [own] = StoredRun(reader).times()
    assert own.rendering
    assert (own.writing or 0) > 0.3


def test_every_report_says_where_time_went_on_each_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_config(CONFIG, out=tmp_path / 'run')
    with open_store(tmp_path / 'run') as store:
        store.add_times('m', {'node|1': ComputingTimes(1200, 30.04, 2.5), 'node2': ComputingTimes(1, 0.25, 0)})
        store.add_own_times('here', rows=5, waiting=7.5, rendering=1.25, writing=0.5)
    with RunReader(tmp_path / 'run') as reader:
        run = StoredRun(reader)
        markdown, page = report_markdown(run), report_html(run)
    assert '| m | node\\|1 | 1,200 | 30.0 | 2.5 |  |  |' in markdown
    assert '| (this run) | here |  |  | 7.5 | 1.2 | 0.5 |' in markdown
    assert '<h3>Where time went, in seconds</h3>' in page
    assert (
        '</th><td class="text"><bdi>node|1</bdi></td>'
        + ''.join(f'<td><bdi>{cell}</bdi></td>' for cell in ('1,200', '30.0', '2.5', '', ''))
        in page
    )
    main(['report', str(tmp_path / 'run')])
    terminal = capsys.readouterr().out
    assert re.search(r'm +node\|1 +1,200 +30.0 +2.5', terminal)
    assert re.search(r'\(this run\) +here +7.5 +1.2 +0.5', terminal)


class Account(NullListener):
    """Keeps what it is told about time, and notes when a machine has computed."""

    def __init__(self) -> None:
        self.lines: Sequence[str] = ()
        self.has_machine = threading.Event()

    def on_times(self, lines: Sequence[str]) -> None:
        self.lines = lines
        if len(lines) > 1:
            self.has_machine.set()


class TwoAtOnce:
    """A local model. It answers its second batch when the account has said where the first was computed."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._calls = 0

    async def generate(self, requests: Sequence[Any], sampling: Any) -> list[Reply]:
        self._calls += 1
        if self._calls == 2:
            await asyncio.to_thread(self._account.has_machine.wait, 60)
        return [Reply('1') for _ in requests]


def test_progress_says_where_time_goes_while_a_local_model_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.runs.listener._EVERY', 0.01)
    account = Account()
    config = CONFIG | {'models': [{'type': TwoAtOnce(account), 'batch_size': 2, 'abbr': 'm'}]}
    run_config(config, out=tmp_path, progress=account)
    assert account.has_machine.is_set()
    own, machine = account.lines
    assert own.startswith('this process: ')
    assert re.fullmatch(rf'm on {socket.gethostname()}: \d requests, [\d.]+ s computing, 0.0 s waiting', machine)
