"""docs/fine-tuning.md is executed: its commands and its Python, in order, on a small model."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('torch')
pytest.importorskip('peft')

from chat_template_corpus import CHATML  # it needs the packages above
from rolecall.ui.cli.main import main
from small_models import make_model

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings('ignore::FutureWarning'),  # those of other packages about one another
]

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / 'docs' / 'fine-tuning.md').read_text(encoding='utf-8')
PAGES = ('trainers-trl.md', 'trainers-llama-factory.md', 'trainers-axolotl.md')


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the application, with a small model in models/base."""
    shutil.copytree(ROOT / 'examples' / 'tuning', tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / 'rows.jsonl', tmp_path / 'questions.jsonl')
    (tmp_path / 'data').mkdir()
    base = tmp_path / 'models' / 'base'
    base.mkdir(parents=True)
    make_model(base, 'llama', spread=0.05)
    (base / 'chat_template.jinja').write_text(CHATML.source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them wait for each other on busy cores: minutes instead of seconds
    yield tmp_path
    torch.set_num_threads(threads)


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r'```console\n(.*?)```', page, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith('$ rolecall ')]
    return [shlex.split(line.removeprefix('$ rolecall ')) for line in lines if 'config.py' not in line]


def test_the_help_desk_learns_its_answers(home: Path) -> None:
    shown = re.findall(r'```python\n(# app\.py\n.*?)```', PAGE, re.DOTALL)[0]
    assert shown.splitlines()[-1] in (home / 'app.py').read_text()
    tune, run, *exports = commands(PAGE)
    assert tune[:2] == ['model', 'tune']
    assert run[0] == 'run'
    assert main(tune) == 0
    space: dict[str, Any] = {}
    blocks = [block for block in re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL) if '>>>' not in block]
    for block in blocks[1:]:
        exec(block, space)
    assert space['answer'] == 'At nine.'
    assert space['tuned'].model == 'tuned-in-python'
    assert main(run) == 0
    for export in exports:
        assert main(export) == 0
    assert json.loads(Path('trl.jsonl').read_text().splitlines()[0])['completion'][0]['content'] == 'At nine.'
    assert 'factory' in json.loads(Path('dataset_info.json').read_text())


@pytest.mark.parametrize('page', PAGES)
def test_the_commands_of_a_trainers_page_work(home: Path, page: str) -> None:
    made = commands((ROOT / 'docs' / page).read_text(encoding='utf-8'))
    assert made
    assert [main(command) for command in made] == [0] * len(made)
