"""Another wording, or fewer rows, is another version: nothing is replaced or ranked without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolecall
from rolecall.runs import RunReader
from rolecall.ui.cli.main import main

ROWS = 'q,a\n' + ''.join(f'{number}+4-{number},4\n' for number in range(20))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path('sum.csv').write_text(ROWS)
    Path('answers.py').write_text("def right(prompt):\n    return '4'\n\n\ndef wrong(prompt):\n    return '5'\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], template: str, model: str, *options: str) -> str:
    words = ['run', 'sum.csv', '--template', template, '--answer', 'a', '--model', f'answers.py:{model}', *options]
    assert main(words) == 0
    captured = capsys.readouterr()
    return captured.out + captured.err


def rows_in(directory: str) -> dict[str, int]:
    with RunReader(directory) as reader:
        return {model: sum(1 for _ in reader.results(model=model)) for _, model in reader.pairs()}


def test_models_that_were_asked_differently_are_not_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    output = run(capsys, 'B {q}=', 'wrong')
    assert 'runs/sum has results of sum with another prompt: this run is another version, kept in runs/sum-2.' in output
    assert 'beats' not in output
    beside = run(capsys, 'B {q}=', 'wrong', '--out', 'runs/sum')
    assert 'were asked about sum with different prompts: not ranked on it.' in beside
    assert main(['report', 'runs/sum', '--markdown']) == 0
    assert 'with different prompts: not ranked' in capsys.readouterr().out


def test_models_that_were_asked_alike_are_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    assert 'right beats wrong by 100.0 points' in run(capsys, 'A {q}=', 'wrong')
    assert not Path('runs/sum-2').exists()


def test_a_changed_wording_keeps_the_results_of_the_old_one(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    run(capsys, 'C {q}=', 'right')
    assert rows_in('runs/sum') == rows_in('runs/sum-2') == {'right': 20}
    assert 'runs/sum-2 has the results of this version.' in run(capsys, 'C {q}=', 'right')
    replaced = run(capsys, 'D {q}=', 'right', '--out', 'runs/sum')
    assert 'sum × right: the prompt has changed; its results here are replaced. --out DIR keeps both.' in replaced


def test_fewer_rows_do_not_shrink_a_run_and_more_rows_continue_it(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right', '--limit', '5')
    assert rows_in('runs/sum') == {'right': 5}
    run(capsys, 'A {q}=', 'right')
    assert rows_in('runs/sum') == {'right': 20}
    output = run(capsys, 'A {q}=', 'right', '--limit', '5')
    assert 'runs/sum has results of sum on all rows: this run is another version' in output
    assert (rows_in('runs/sum'), rows_in('runs/sum-2')) == ({'right': 20}, {'right': 5})
    run(capsys, 'A {q}=', 'right')
    assert rows_in('runs/sum-2') == {'right': 5}


def test_python_keeps_versions_too() -> None:
    rows = [{'q': '1+1', 'a': '2'}]
    first = rolecall.run(rows, template='A {q}', answer='a', model=lambda prompt: '2', quiet=True)
    other = rolecall.run(rows, template='B {q}', answer='a', model=lambda prompt: '2', quiet=True)
    assert first.out != other.out
