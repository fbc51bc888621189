"""Fine-tuning a model here: what it learnt comes back through TrainableModule and a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('torch')
pytest.importorskip('peft')
from safetensors.torch import load_file, save_file

from rolecall import ChatPrompter, TrainableModule  # they need the packages above
from rolecall.apps.tuning.tune_settings import TuneSettings
from rolecall.errors import RolecallError
from rolecall.ui.cli.main import main
from small_models import make_model
from tuning_app import FACTS, command, make_app, make_base

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings('ignore::FutureWarning'),  # those of other packages about one another
]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_app(tmp_path)


@pytest.mark.parametrize(('kind', 'lora'), [('llama', None), ('llama', 16), ('gpt2', None)])
def test_what_a_model_learnt_comes_back_through_the_module_and_a_run(app: Path, kind: str, lora: int | None) -> None:
    base = make_base(app, kind)
    rows = [{'input': question, 'answer': answer} for question, answer in FACTS.items()]
    prompter = ChatPrompter('Answer.', system='')
    options: dict[str, Any] = {'lora': lora, 'epochs': 120, 'learning_rate': 1e-2, 'held_out': 0}
    settings = {name: value for name, value in options.items() if value is not None}
    module = TrainableModule(base, engine='transformers').prompt(prompter)
    tuned = module.tune(rows, app / 'tuned', **settings)
    assert tuned.prompter is prompter
    with tuned:
        assert {question: tuned(question, temperature=0, max_tokens=8) for question in FACTS} == FACTS
    with TrainableModule(app / 'tuned', engine='transformers').prompt(prompter) as again:
        reply = again.reply('Sky?', temperature=0)
        assert reply.text == 'blue'
        assert reply.reason == 'stop'  # at the template's end of a turn, which is no end of sequence of the base
    config = app / 'config.py'
    config.write_text(
        f"models = [dict(abbr='tuned', type='HuggingFaceCausalLM', path={str(app / 'tuned')!r}, max_out_len=8)]\n"
        'datasets = [dict(abbr="facts", type="Rows", test=[dict(q="Answer.\\n\\nSky?", a="blue")],\n'
        "    reader_cfg=dict(input_columns=['q'], output_column='a'),\n"
        '    infer_cfg=dict(prompt_template=dict(type="PromptTemplate", template=dict(round=[\n'
        "        dict(role='HUMAN', prompt='{q}')])), inferencer=dict(type='GenInferencer')))]\n"
    )
    assert main(['run', str(config), '--out', str(app / 'run')]) == 0
    assert (app / 'tuned' / 'adapter').is_dir() is (lora is not None)


def test_a_killed_tuning_resumes_and_ends_with_the_same_weights(app: Path) -> None:
    make_base(app)
    given = ('--lora', 4, '--epochs', 60, '--batch-size', 2, '--save-every', 3, '--held-out', 1, '--seed', 5)
    start = [sys.executable, '-m', 'rolecall', *command(app, *given)]
    child = subprocess.Popen(start, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    checkpoint = app / 'tuned' / 'checkpoint.pt'
    give_up = time.monotonic() + 240
    while not checkpoint.exists() and child.poll() is None and time.monotonic() < give_up:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert checkpoint.exists()
    assert not (app / 'tuned' / 'model.safetensors').exists()
    resumed = subprocess.run(start, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert 'resuming after' in resumed.stderr
    weights, log = (app / 'tuned' / 'model.safetensors').read_bytes(), (app / 'tuned' / 'tuning-log.jsonl').read_text()
    whole = subprocess.run([*start[:-1], start[-1], '--overwrite'], capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    assert (app / 'tuned' / 'model.safetensors').read_bytes() == weights
    assert (app / 'tuned' / 'tuning-log.jsonl').read_text() == log


def test_a_finished_or_different_tuning_is_not_replaced(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_base(app)
    assert main(command(app, '--max-steps', 1)) == 0
    shown = capsys.readouterr()
    assert ': 1 update, loss' in shown.out
    assert main(command(app, '--max-steps', 1)) == 2
    assert 'holds a finished tuning' in capsys.readouterr().err
    assert main(command(app, '--max-steps', 1, '--overwrite', model=str(app / 'tuned'))) == 2
    assert 'holds the model itself' in capsys.readouterr().err


@pytest.mark.parametrize('kind', ['gpt2', 'llama', 'mistral', 'bloom', 'mamba'])
def test_the_loss_is_that_of_each_row_alone(tmp_path: Path, kind: str) -> None:
    """Padding, positions and the choice of logits change nothing."""
    import torch

    from rolecall.apps.tuning.sequences import TokenSequence
    from rolecall.apps.tuning.trainer import Trainer
    from rolecall.models.transformers.weights import WeightsSource

    make_model(tmp_path, kind)
    loaded = WeightsSource(str(tmp_path), device='cpu').load()
    rows = [
        TokenSequence(
            array('i', range(5, 5 + length)), array('i', [-100] * (length - 3) + [*range(5, 5 + length)][-3:])
        )
        for length in (6, 11, 30)
    ]
    expected = 0.0
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([list(row.ids)])
            loss = loaded.model(input_ids=ids, labels=torch.tensor([list(row.labels)]), use_cache=False).loss
            expected += float(loss) * row.trained
    trainer = Trainer(loaded, rows, TuneSettings(batch_size=3))
    assert trainer.held_out_loss(rows) * 9 == pytest.approx(expected, rel=1e-4)
    [step, *_] = trainer.steps()
    assert kind == 'gpt2' or step.loss * 9 == pytest.approx(expected, rel=1e-4)  # gpt2 has dropout in training
    assert all(torch.isfinite(one).all() for one in trainer.model.parameters())


def test_a_loss_that_is_not_a_number_stops_the_tuning(app: Path) -> None:
    base = make_base(app)
    weights = load_file(base / 'model.safetensors')
    weights['lm_head.weight'].fill_(float('nan'))
    save_file(weights, base / 'model.safetensors', metadata={'format': 'pt'})
    rows = [{'input': question, 'answer': answer} for question, answer in FACTS.items()]
    with pytest.raises(RolecallError, match='the loss is not a number after 1 update.*Try a lower learning rate'):
        TrainableModule(base, engine='transformers').tune(rows, app / 'tuned', held_out=0)


def test_a_damaged_checkpoint_is_named(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_base(app)
    assert main(command(app, '--max-steps', 1)) == 0
    about = json.loads((app / 'tuned' / 'tuning.json').read_text())
    (app / 'tuned' / 'tuning.json').write_text(json.dumps({**about, 'finished': False}))
    (app / 'tuned' / 'checkpoint.pt').write_bytes(b'not a checkpoint')
    capsys.readouterr()
    assert main(command(app, '--max-steps', 1)) == 2
    assert 'checkpoint.pt: cannot be read' in capsys.readouterr().err
    assert main(command(app, '--max-steps', 2, '--epochs', 5)) == 2
    assert 'an unfinished tuning with other settings (epochs=3, max_steps=1)' in capsys.readouterr().err


def test_a_device_that_is_not_there_is_an_error(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip('this machine has CUDA')
    make_base(app)
    assert main(command(app, '--device', 'cuda')) == 2
    assert 'the model cannot be loaded: Torch not compiled with CUDA' in capsys.readouterr().err
