"""Where the time of a run went."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rolecall.report import StoredRun
from rolecall.runs import run_config
from rolecall.runs.listener import NullListener
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.transactions import Transactions


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
    monkeypatch.setattr('rolecall.runs.run._WORTH_TELLING', worth_telling)
    heard = Heard()
    run_config(CONFIG, out=tmp_path, progress=heard)
    with RunReader(tmp_path) as reader:
        times = StoredRun(reader).times()
    told = [message for message in heard.messages if message.startswith('this process: ')]
    if worth_telling:
        assert (times, told) == ([], [])
        return
    [own] = times
    assert (own.model, own.rows, own.computing) == ('', 5, None)
    assert own.waiting is not None
    assert own.wording is not None
    assert min(own.wording, own.waiting, own.writing or 0) >= 0
    assert 's writing, ' in told[0]
    assert 's computing, reading, wording and scoring, ' in told[0]


def test_a_slow_disk_takes_no_time_from_what_the_rows_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.runs.run._WORTH_TELLING', 0.0)
    execute = Transactions._put_all

    def put_slowly(self: Transactions, put: str, entries: Any) -> list[str]:
        time.sleep(0.1)
        return execute(self, put, entries)

    monkeypatch.setattr(Transactions, '_put_all', put_slowly)
    run_config(CONFIG, out=tmp_path)
    with RunReader(tmp_path) as reader:
        [own] = StoredRun(reader).times()
    assert own.wording
    assert (own.writing or 0) > 0.3
