"""Rows shared by several processes, and their run directories put together."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rolecall import ConfigError, run_config
from rolecall.errors import RunError
from rolecall.runs.run_options import Share
from rolecall.runs.store.copies import merge_runs
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main

CONFIG = """
def add(prompt):
    left, right = prompt.split(' ')[0].split('+')
    if 'FAIL' in prompt:
        raise ValueError('not this one')
    return f'It is {int(left) + int(right)}'

models = [dict(abbr='adder', type=add)]
datasets = [dict(
    abbr='sums', type='File', path='rows.jsonl',
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q} = ?')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor=dict(type='gsm8k_postprocess')),
)]
"""
ROWS = 31


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = [{'q': f'{n % 10}+1', 'a': str(n % 10 + 1)} for n in range(ROWS)]
    (tmp_path / 'rows.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    (tmp_path / 'config.py').write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_rank(rank: int, of: int, *more: str) -> int:
    return main(['run', 'config.py', '--out', 'big', '--workers', f'{rank}/{of}', '-q', *more])


def rows_of(run: Path) -> list[int]:
    with RunReader(run) as reader:
        return [result.row for result in reader.results()]


def test_ranks_share_the_rows_and_their_merge_scores_as_one_run(folder: Path, capsys: Any) -> None:
    whole = run_config(folder / 'config.py', out=folder / 'whole')
    for rank in range(3):
        assert run_rank(rank, 3) == 0
        assert rows_of(folder / f'big/rank-{rank}-of-3') == list(range(rank, ROWS, 3))
    assert 'rolecall runs merge big big/rank-*' in capsys.readouterr().err
    assert main(['runs', 'merge', 'big', *(f'big/rank-{rank}-of-3' for rank in range(3))]) == 0
    assert f'{ROWS} rows and 10 requests added to big; ' in capsys.readouterr().out
    assert main(['runs', 'merge', 'big', 'big/rank-0-of-3']) == 0
    assert '0 rows and 0 requests added to big; 10 requests known already\n' in capsys.readouterr().out
    assert rows_of(folder / 'big') == list(range(ROWS))
    summary = run_config(folder / 'config.py', out=folder / 'big')
    assert summary.scorecards == whole.scorecards
    with RunReader(folder / 'big') as merged, RunReader(folder / 'whole') as single:
        assert [one.prediction for one in merged.results()] == [one.prediction for one in single.results()]
        assert merged.fields('sums', 5) == single.fields('sums', 5) != {}


def test_a_merge_can_be_repeated_and_takes_what_was_missing(folder: Path) -> None:
    run_rank(0, 2)
    first = merge_runs('big', ['big/rank-0-of-2'])
    assert (first.rows.total(), first.conflicts) == (16, 0)
    run_rank(1, 2)
    second = merge_runs('big', ['big/rank-0-of-2', 'big/rank-1-of-2'])
    assert second.is_clean
    assert dict(second.rows) == {'big/rank-0-of-2': 0, 'big/rank-1-of-2': 15}
    assert rows_of(folder / 'big') == list(range(ROWS))


def test_an_answer_replaces_a_failure(folder: Path) -> None:
    bad = CONFIG.replace("'FAIL' in prompt", "prompt.startswith('3+')")
    (folder / 'config.py').write_text(bad)
    run_config(folder / 'config.py', out=folder / 'failed')
    (folder / 'config.py').write_text(CONFIG)
    run_config(folder / 'config.py', out=folder / 'fine')
    merge_runs('all', ['failed', 'fine'])
    with RunReader(folder / 'all') as reader:
        assert {result.outcome for result in reader.results()} == {'ok'}


def test_different_answers_and_different_wordings_are_named(folder: Path, capsys: Any) -> None:
    run_config(folder / 'config.py', out=folder / 'a')
    with sqlite3.connect(folder / 'a' / FILE) as db:
        db.execute("UPDATE requests SET reply = replace(reply, 'It is 4', 'It is 5'), checksum = NULL")
    db.close()
    run_config(folder / 'config.py', out=folder / 'b')
    (folder / 'config.py').write_text(CONFIG.replace('{q} = ?', '{q} = what?'))
    run_config(folder / 'config.py', out=folder / 'c')
    assert main(['runs', 'merge', 'all', 'a', 'b', 'c']) == 1
    said = capsys.readouterr().out
    assert f'{ROWS + 1} conflicts, in which the first run was kept:' in said
    assert 'b has another answer' in said
    assert 'sums × adder, row 0: c asked something else' in said
    with RunReader(folder / 'all') as reader:
        assert {reader.request(result.fingerprint)[-4:] for result in reader.results()} == {' = ?'}
        assert reader.digests('sums', 'adder') == (None, reader.digests('sums', 'adder')[1])


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--workers', '1/'], "expected 4, ray, ray://HOST:PORT, 0/4 or slurm, got '1/'"),
        (['--workers', '4/4'], 'rank 4 of 4 does not exist'),
        (['--workers', 'slurm'], 'SLURM_ARRAY_TASK_ID or SLURM_PROCID is not set'),
    ],
)
def test_ranks_that_do_not_exist_are_refused(folder: Path, capsys: Any, words: list[str], said: str) -> None:
    assert main(['run', 'config.py', '--out', 'big', *words]) == 2
    assert said in capsys.readouterr().err


def test_slurm_gives_the_rank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {'ID': 5, 'COUNT': 4, 'MIN': 4}.items():
        monkeypatch.setenv(f'SLURM_ARRAY_TASK_{name}', str(value))
    assert main(['run', 'config.py', '--out', 'big', '--workers', 'slurm', '-q']) == 0
    assert rows_of(folder / 'big/rank-1-of-4') == list(range(1, ROWS, 4))


def test_what_cannot_be_merged_is_refused(folder: Path) -> None:
    run_config(folder / 'config.py', out=folder / 'a')
    with pytest.raises(RunError, match='no run found in nowhere, there'):
        merge_runs('all', ['a', 'nowhere', 'there'])
    with pytest.raises(RunError, match='is one of the runs to merge'):
        merge_runs('a', ['a'])
    with pytest.raises(ConfigError):
        Share(-1, 2)
