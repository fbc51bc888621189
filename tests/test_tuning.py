"""What is wrong with a tuning is told before any weights are loaded, and without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecall import TrainableModule
from rolecall.apps.tuning.sequences import order_batches
from rolecall.apps.tuning.tune import OutputFolder
from rolecall.errors import ConfigError
from rolecall.ui.cli.main import main
from tuning_app import command, make_app


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_app(tmp_path)


# Before anything is loaded.


@pytest.mark.parametrize(
    ('rows', 'given', 'reason'),
    [
        ([], [], 'there are no rows to train on: the file is empty'),
        ([{'input': 'q', 'answer': ''}], [], "row 0: the answer is missing: column 'answer' is empty"),
        ([{'input': 'q', 'answer': ''}], ['--skip'], '1 row left out: the answer is missing'),
        ([{'input': 'q', 'anwser': 'x'}], [], "the row has no column 'answer'. Did you mean 'anwser'"),
        ([{'input': 'q' * 999, 'answer': 'x'}], [], 'no row fits: 1 row longer than 128 tokens'),
        ([{'input': 'q', 'answer': 'x'}], ['--held-out', 1], 'all 1 row are held out'),
        ([{'input': '<|im_end|>', 'answer': 'x'}], [], 'the row contains a special token'),
        ([{'input': 'q', 'answer': 'x'}], ['--lora', 0], 'expected a whole number of at least 1, got 0'),
        ([{'input': 'q', 'answer': 'x'}], ['--dtype', 'bf16'], "Did you mean 'bfloat16'"),
        ([{'input': 'q', 'answer': 'x'}], ['--dtype', 'float16'], 'float16 is too narrow to train all weights'),
        ([{'input': 'q', 'answer': 'x'}], ['--device', 'banana'], "unknown device 'banana'"),
        ([{'input': 'q', 'answer': 'x'}], ['--learning-rate', 0], 'expected a number above 0, got 0'),
    ],
)
def test_rows_that_cannot_be_trained_on_are_told_before_weights_are_loaded(
    app: Path, rows: list[Any], given: list[Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (app / 'rows.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    assert main(command(app, *given)) == 2
    assert reason in capsys.readouterr().err
    assert not (app / 'tuned').exists()


@pytest.mark.parametrize(
    ('model', 'reason'),
    [
        ('smollm2', 'smollm2 is a GGUF file, whose quantised weights cannot be trained'),
        ('openai/gpt-4o', 'gpt-4o is not a local Hugging Face model'),
        ('hf:./nowhere', 'no such folder'),
        ('nowhere.gguf', 'no such file: nowhere.gguf'),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(
    app: Path, model: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(app, model=model)) == 2
    assert reason in capsys.readouterr().err


def test_an_output_folder_may_be_a_link_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'disk').mkdir()
    (tmp_path / 'link').symlink_to('disk')
    monkeypatch.chdir(tmp_path / 'disk')
    for path in (tmp_path / 'link', Path('.')):
        (tmp_path / 'disk' / 'adapter').mkdir(exist_ok=True)
        assert not OutputFolder(path, {'rows': 1}).open(overwrite=True)
        assert [file.name for file in (tmp_path / 'disk').iterdir()] == ['tuning.json']


def test_an_output_folder_with_something_else_in_it_is_refused(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (app / 'tuned').mkdir()
    (app / 'tuned' / 'thesis.txt').write_text('mine')
    for given in ([], ['--overwrite']):
        assert main(command(app, *given)) == 2
        assert 'exists, and is not a tuning of rolecall' in capsys.readouterr().err
    assert (app / 'tuned' / 'thesis.txt').read_text() == 'mine'


def test_a_module_refuses_what_the_command_refuses(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='cannot be trained'):
        TrainableModule('smollm2').tune([{'input': 'q', 'answer': 'a'}], tmp_path / 'tuned')
    with pytest.raises(ConfigError, match="Did you mean 'lora'"):
        TrainableModule('folder').tune([], tmp_path / 'tuned', lorra=16)


def test_batches_hold_every_row_once_and_depend_on_the_seed() -> None:
    lengths = [i % 7 for i in range(100)]
    one, again, other = (order_batches(lengths, 8, seed=seed, epoch=0) for seed in (1, 1, 2))
    assert sorted(index for batch in one for index in batch) == list(range(100))
    assert one == again != other
    assert order_batches(lengths, 8, seed=1, epoch=1) != one
