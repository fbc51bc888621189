"""The history of runs: newest first, found by words and tags, with the names and notes that people give them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolecall.runs.store.labels import RunNotes
from rolecall.ui.cli.main import main


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two runs, the older of which was written to last."""
    monkeypatch.chdir(tmp_path)
    Path('own.py').write_text('def answer(prompt):\n    return "4"\n')
    for name, rows in (('sums', '1+1,2\n2+2,4\n'), ('quiz', '4?,4\n')):
        Path(f'{name}.csv').write_text(f'q,a\n{rows}')
        run = ['run', f'{name}.csv', '--template', '{q}', '--answer', 'a', '--model', 'own.py:answer', '-q']
        assert main([*run, '--out', f'runs/{name}']) == 0
    assert main(['runs', 'note', 'runs/sums', '--name', 'the baseline', '--tag', 'paper', '--tag', 'draft']) == 0
    assert main(['runs', 'note', 'runs/sums', '--text', 'before the prompt\nwas shortened', '--untag', 'draft']) == 0
    capsys.readouterr()
    return tmp_path


def list_names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(['runs', 'list', *arguments, '--json']) == 0
    return [Path(json.loads(line)['run']).name for line in capsys.readouterr().out.splitlines()]


def test_the_newest_run_comes_first_and_words_and_tags_find_runs(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        ([], ['quiz', 'sums']),
        (['runs', 'BASELINE'], ['sums']),
        (['runs', 'shortened', 'paper'], ['sums']),
        (['runs', 'quiz'], ['quiz']),
        (['runs', 'answer'], ['quiz', 'sums']),
        (['--tag', 'paper'], ['sums']),
    ]
    assert [list_names(capsys, *words) for words, _ in cases] == [names for _, names in cases]


def test_a_list_shows_names_tags_and_notes(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['runs', 'list']) == 0
    shown = capsys.readouterr().out
    assert '  the baseline  #paper\n  before the prompt\n  was shortened\n' in shown
    assert main(['runs', 'note', 'runs/sums']) == 0
    assert capsys.readouterr().out == 'the baseline\nbefore the prompt\nwas shortened\n#paper\n'


def test_a_filter_that_finds_nothing_says_so(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['runs', 'list', 'runs', 'nothing']) == 2
    assert 'runs: none of 2 runs matches.' in capsys.readouterr().err


def test_notes_that_cannot_be_read_are_none_and_links_are_refused(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path('runs/quiz/notes.json')
    for text in ('{', '[]', '{"name": 1}', '[' * 100_000):
        file.write_text(text)
        assert RunNotes.read(file.parent) == RunNotes()
    file.unlink()
    file.symlink_to(history / 'elsewhere')
    assert main(['runs', 'note', 'runs/quiz', '--name', 'x']) == 2
    assert 'a link' in capsys.readouterr().err
    assert not (history / 'elsewhere').exists()


def test_a_name_that_is_too_long_is_refused(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['runs', 'note', 'runs/sums', '--name', 'x' * 121]) == 2
    assert 'longer than 120 characters' in capsys.readouterr().err
