"""Resuming without wording finished rows again, and rows that are asked about in groups."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rolecall import run_config
from rolecall.runs.listener import NullListener
from rolecall.runs.store.codec import encode_key
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader

ROWS = 400
CALLS: list[str] = []


def add(prompt: str) -> str:
    """Adds; remembers what it was asked."""
    CALLS.append(prompt)
    left, right = prompt.split()[0].split('+')
    return f'It is {int(left) + int(right)}'


class Watching(NullListener):
    """Counts rows that were not looked at again, and rows that were asked about."""

    def __init__(self) -> None:
        self.known: Counter[str] = Counter()
        self.rows: list[int] = []
        self.asked: list[int] = []

    def on_known(self, dataset: str, model: str, outcomes: Mapping[str, int]) -> None:
        self.known.update(outcomes)

    def on_row(self, result: Result, *, asked: bool) -> None:
        self.rows.append(result.row)
        self.asked += [result.row] * asked


def write_rows(path: Path, rows: int = ROWS, wrong: int = -1) -> None:
    lines = [{'q': f'{n}+1', 'a': str(n + (2 if n == wrong else 1))} for n in range(rows)]
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))


def make_config(
    path: Path, template: str = '{q} = ?', evaluator: Any = 'AccEvaluator', model: Any = add
) -> dict[str, Any]:
    return {
        'models': [{'abbr': 'adder', 'type': model}],
        'datasets': [
            {
                'abbr': 'sums',
                'type': 'File',
                'path': str(path),
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}},
                'eval_cfg': {'evaluator': evaluator, 'pred_postprocessor': {'type': 'gsm8k_postprocess'}},
            }
        ],
    }


def run(config: dict[str, Any], out: Path, **options: Any) -> tuple[Any, Watching]:
    CALLS.clear()
    watching = Watching()
    return run_config(config, out=out, progress=watching, lint=False, **options), watching


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_rows(tmp_path / 'rows.jsonl')
    return tmp_path / 'rows.jsonl'


def forget(out: Path, first: int) -> None:
    """Take rows out of a run, as if it had been killed before them."""
    with RunReader(out) as reader:
        keys = [encode_key(result.fingerprint) for result in reader.results() if result.row >= first]
    with sqlite3.connect(out / FILE) as db:
        db.executemany('DELETE FROM requests WHERE fingerprint = ?', [(key,) for key in keys])
        db.execute('DELETE FROM rows WHERE row >= ?', (first,))
        db.execute('DELETE FROM scores')
    db.close()


def test_a_resumed_run_looks_only_at_what_is_missing_and_scores_all_rows(tmp_path: Path, data: Path) -> None:
    out = tmp_path / 'run'
    whole, _ = run(make_config(data), out)
    assert len(CALLS) == ROWS
    forget(out, ROWS - 10)
    resumed, watching = run(make_config(data), out)
    assert len(CALLS) == 10
    assert watching.known == {'ok': ROWS - 10}
    assert sorted(watching.rows) == list(range(ROWS - 10, ROWS))
    assert resumed.scorecards == whole.scorecards
    assert resumed.outcomes == {'ok': ROWS}


def test_a_changed_row_is_asked_and_scored_again(tmp_path: Path, data: Path) -> None:
    run(make_config(data), tmp_path / 'run')
    write_rows(data, wrong=7)
    summary, watching = run(make_config(data), tmp_path / 'run')
    assert not watching.known
    assert CALLS == []  # what is sent is as it was; the gold answer is not
    assert summary.scorecards[0].value == pytest.approx(100 * (ROWS - 1) / ROWS)


@pytest.mark.parametrize('again', ['{q} = ?', '{q} = what?'])
def test_rows_of_two_wordings_are_never_taken_for_one_another(tmp_path: Path, data: Path, again: str) -> None:
    """The wording changes, that run is stopped, and either wording is continued."""
    out = tmp_path / 'run'

    def stop(prompt: str) -> str:
        if prompt.startswith('200+'):
            raise KeyboardInterrupt
        return add(prompt)

    first, second = make_config(data), make_config(data, '{q} = what?')
    run(first, out)
    halted = make_config(data, '{q} = what?', model=stop)
    with pytest.raises(KeyboardInterrupt):
        run(halted, out)
    summary, _ = run(first if again == '{q} = ?' else second, out)
    assert summary.scorecards[0].value == 100.0
    with RunReader(out) as reader:
        sent = {reader.request(result.fingerprint).partition(' ')[2] for result in reader.results()}
    assert sent == {again.partition(' ')[2]}


def test_a_changed_evaluator_scores_all_rows_again(tmp_path: Path, data: Path) -> None:
    out = tmp_path / 'run'
    write_rows(data, wrong=3)
    assert run(make_config(data), out)[0].scorecards[0].value == pytest.approx(100 * (ROWS - 1) / ROWS)
    graded, _ = run(make_config(data, evaluator={'type': 'EMEvaluator'}), out)
    assert CALLS == []
    assert graded.scorecards[0].metric != 'accuracy'
    back, _ = run(make_config(data), out)
    assert back.scorecards[0].value == pytest.approx(100 * (ROWS - 1) / ROWS)


def test_a_damaged_row_is_asked_about_again(tmp_path: Path, data: Path) -> None:
    out = tmp_path / 'run'
    run(make_config(data), out)
    with sqlite3.connect(out / FILE) as db:
        db.execute('UPDATE rows SET score = 0.0 WHERE row = 5')
        db.execute('DELETE FROM scores')
    db.close()
    summary, watching = run(make_config(data), out)
    assert watching.rows == [5]
    assert summary.scorecards[0].value == 100.0


def test_a_store_of_the_format_before_is_resumed(tmp_path: Path, data: Path) -> None:
    out = tmp_path / 'run'
    run(make_config(data), out)
    with sqlite3.connect(out / FILE) as db:
        columns = 'dataset, model, row, outcome, result, checksum'
        db.execute(f'CREATE TABLE older AS SELECT {columns} FROM rows')
        db.execute('UPDATE older SET checksum = NULL')
        db.execute('DROP TABLE rows')
        db.execute('DROP TABLE recipes')
        db.execute('DELETE FROM scores')
        db.execute(
            'CREATE TABLE rows (dataset TEXT, model TEXT, row INTEGER, outcome TEXT NOT NULL, result TEXT NOT NULL,'
            ' checksum INTEGER, PRIMARY KEY (dataset, model, row)) WITHOUT ROWID'
        )
        db.execute('INSERT INTO rows SELECT * FROM older')
        db.execute('DROP TABLE older')
        db.execute('PRAGMA user_version=2')
    db.close()
    with RunReader(out) as reader:
        assert len(list(reader.light_results())) == ROWS
    summary, _ = run(make_config(data), out)
    assert CALLS == []
    assert summary.scorecards[0].value == 100.0


OLDER_CONFIG = """def answer(prompt):
    number = int(prompt.split()[-1])
    return f'The answer is {2 * number}.'

models = [dict(abbr='doubler', type=answer)]
datasets = [dict(
    abbr='doubles', type='File', path='rows.jsonl',
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Double {q}')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor=dict(type='gsm8k_postprocess')),
)]
"""


def open_older_run(folder: Path) -> Path:
    """A run of six rows in format 3 of the store, beside its config, which has eight."""
    (folder / 'config.py').write_text(OLDER_CONFIG)
    (folder / 'rows.jsonl').write_text(''.join(f'{{"q": "{i}", "a": "{2 * i}"}}\n' for i in range(8)))
    (folder / 'out').mkdir()
    with sqlite3.connect(folder / 'out' / FILE) as db:
        db.executescript((Path(__file__).parent / 'data' / 'run_format_3.sql').read_text())
    db.close()
    return folder / 'out'


def test_a_store_of_format_3_is_read_and_resumed(tmp_path: Path) -> None:
    out = open_older_run(tmp_path)
    with RunReader(out) as reader:
        before = list(reader.results())
        assert [row.extracted for row in before] == ['0', '2', '4', '6', '8', '10']
        assert [row.row for row in reader.light_results()] == [0, 1, 2, 3, 4, 5]
        assert reader.request(before[3].fingerprint) == 'Double 3'
        assert not reader.damage
    watching = Watching()
    summary = run_config(tmp_path / 'config.py', out=out, progress=watching, lint=False)
    assert sorted(watching.asked) == [6, 7]
    assert (summary.scorecards[0].value, summary.scorecards[0].scored) == (100.0, 8)
    with RunReader(out) as reader:
        assert list(reader.results())[:6] == before
        assert reader.reply(before[3].fingerprint).text == 'The answer is 6.'
        assert len(reader.fingerprints()) == 8
        assert not reader.damage


@pytest.mark.parametrize('change', ["outcome = 'failed'", 'score = 1.0', 'correct = 1', "result = '[]'"])
def test_a_damaged_row_of_format_3_is_noticed(tmp_path: Path, change: str) -> None:
    out = open_older_run(tmp_path)
    with sqlite3.connect(out / FILE) as db:
        db.execute('UPDATE rows SET score = 0.0, correct = 0 WHERE row = 2')
        db.execute(f'UPDATE rows SET {change} WHERE row = 2')
    db.close()
    with RunReader(out) as reader:
        assert [row.row for row in reader.light_results()] == [0, 1, 3, 4, 5]
        assert reader.damage.counts == {'row': 1}


# -- groups ------------------------------------------------------------------------------------------------------------


def test_in_a_group_every_row_fails_alone_and_slow_ones_hold_up_no_other(tmp_path: Path, data: Path) -> None:
    asked: Counter[str] = Counter()

    def answer(prompt: str) -> str:
        asked[prompt] += 1
        number = int(prompt.split('+')[0])
        if number % 50 == 17:
            raise ValueError(f'not {number}')
        if number % 90 == 80:
            time.sleep(0.05)
        return add(prompt)

    summary, watching = run(make_config(data, model=answer), tmp_path / 'run')
    assert summary.outcomes == {'ok': ROWS - 8, 'failed': 8}
    assert set(asked.values()) == {1}
    assert sorted(watching.rows) == list(range(ROWS))
    with RunReader(tmp_path / 'run') as reader:
        failed = [result for result in reader.results() if result.outcome == 'failed']
    assert [result.row for result in failed] == list(range(17, ROWS, 50))
    assert all(f'not {result.row}' in result.reason for result in failed)


def test_a_function_that_returns_an_awaitable_answers_a_group(tmp_path: Path, data: Path) -> None:
    async def later(prompt: str) -> str:
        return add(prompt)

    summary, _ = run(make_config(data, model=lambda prompt: later(prompt)), tmp_path / 'run')
    assert summary.scorecards[0].value == 100.0
    assert len(CALLS) == ROWS


def test_equal_requests_in_a_group_are_sent_once(tmp_path: Path, data: Path) -> None:
    data.write_text(''.join(json.dumps({'q': f'{n % 10}+1', 'a': str(n % 10 + 1)}) + '\n' for n in range(ROWS)))
    summary, _ = run(make_config(data), tmp_path / 'run')
    assert len(CALLS) == 10
    assert summary.outcomes == {'ok': ROWS}


def test_a_large_index_of_examples_says_how_far_it_is(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.runs.listener._INDEXING_SECONDS', -1.0)
    config = make_config(data, template='</E>{q} = ?')
    infer = config['datasets'][0]['infer_cfg']
    infer['prompt_template'] |= {'ice_token': '</E>'}
    infer['ice_template'] = {'type': 'PromptTemplate', 'template': '{q} = {a}'}
    infer['retriever'] = {'type': 'BM25Retriever', 'ice_num': 1}
    said: list[str] = []

    class Listening(NullListener):
        def on_message(self, message: str) -> None:
            said.append(message)

    run_config(config, out=tmp_path / 'run', progress=Listening(), lint=False, limit=3)
    assert said[0].startswith('sums: ')
    assert said[0].endswith(f' of {ROWS} examples indexed')
