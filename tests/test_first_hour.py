"""The first hour with rolecall, from the wheel: install, init, view, run, report, compare and the gate, on a real terminal.

What every step shows fits the terminal, has no traceback, and ends with the exit code that is promised.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from terminal import Shown, run_in_terminal

ROOT = Path(__file__).parents[1]
ROWS = 'question,answer\n' + ''.join(
    f'What is the capital of {country}?,{city}\n'
    for country, city in [('France', 'Paris'), ('Japan', 'Tokyo'), ('Italy', 'Rome'), ('Spain', 'Madrid')]
)
pytestmark = pytest.mark.heavy


@pytest.fixture(scope='module')
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `rolecall` command of an empty environment that the wheel was installed into."""
    folder = tmp_path_factory.mktemp('installed')
    uv = shutil.which('uv')
    wheel = [uv, 'build', '--wheel', '--out-dir', folder] if uv else [
        *(sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '-w', folder)
    ]  # fmt: skip
    subprocess.run([*map(str, wheel), str(ROOT)], check=True)
    [built] = folder.glob('*.whl')
    python = folder / 'venv/bin/python'
    if uv:
        subprocess.run([uv, 'venv', '--python', sys.executable, str(folder / 'venv')], check=True)
        install = [uv, 'pip', 'install', '--python', str(python)]
    else:
        subprocess.run([sys.executable, '-m', 'venv', str(folder / 'venv')], check=True)
        install = [str(python), '-m', 'pip', 'install', '--quiet']
    subprocess.run([*install, f'{built}[llama]'], check=True)
    return folder / 'venv/bin/rolecall'


@pytest.mark.parametrize('columns', [80, 160])
def test_the_first_hour_goes_from_a_wheel_and_a_csv_to_a_gated_comparison(
    columns: int, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / 'capitals.csv').write_text(ROWS, encoding='utf-8')

    def rolecall(*arguments: str, code: int = 0, answers: tuple[str, ...] = ()) -> str:
        shown: Shown = run_in_terminal(
            [str(installed), *arguments],
            columns=columns,
            folder=tmp_path,
            answers=answers,
            environment={'PYTHONPATH': ''},
        )
        assert shown.code == code, shown.text
        assert 'Traceback' not in shown.text
        assert not shown.lines_wider_than(columns)
        return re.sub(r'\s+', ' ', shown.text)

    assert 'write a first config' in rolecall('--help')
    assert 'extra llama installed' in rolecall('doctor', '--offline')
    asked = rolecall('init', 'capitals.csv', answers=('', '', ''))
    assert asked.count('?') >= 3
    assert 'the answers are short texts: scored by --metric exact.' in asked
    assert 'What is the capital of France?' in rolecall('view', 'capitals.py')
    assert 'nothing found' in rolecall('lint', 'capitals.py')
    assert '4 requests' in rolecall('run', 'capitals.py', '--dry-run', '--out', 'runs/first')
    first = rolecall('run', 'capitals.py', '--out', 'runs/first', '--max-out-len', '24')
    assert re.search(r'smollm2 scores [\d.]+ \[[\d., ]+\] on 4 rows of capitals\.', first)
    assert rolecall('run', 'capitals.py', '--out', 'runs/first', '--max-out-len', '24')  # nothing is asked again
    rolecall('run', 'capitals.py', '--out', 'runs/second', '--max-out-len', '24', '--system', 'Answer with one word.')
    assert 'capitals' in rolecall('report', 'runs/first')
    assert 'Wrote report.html' in rolecall('report', 'runs/first', '--html', 'report.html')
    assert '</html>' in (tmp_path / 'report.html').read_text(encoding='utf-8')
    assert 'sent differently' in rolecall('compare', 'runs/first', 'runs/second')
    assert 'TOO FEW ROWS TO TELL' in rolecall('compare', 'runs/first', 'runs/first', '--gate', code=3)
    assert 'NOT WORSE' in rolecall('compare', 'runs/first', 'runs/first', '--gate', '--margin', '100')
    assert 'runs/second' in rolecall('runs', 'list')
    assert 'capitals.cvs: no such file' in rolecall('init', 'capitals.cvs', code=2)
    assert "Did you mean 'smollm2'?" in rolecall('run', 'capitals.py', '--model', 'smolm2', code=2)
