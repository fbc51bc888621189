"""A local instruct model without a template in its entry is addressed with its own, and that is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.experiment.experiment import Experiment
from rolecall.models.pull import PACKAGED, cached_path
from rolecall.models.tokenizers.tokenizer import find_tokenizer
from rolecall.runs.run import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from small_gguf import make_gguf
from test_runs import dataset
from test_tokenizers import put

TEMPLATE = '{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{{ "<|im_start|>" }}'
ASKED = '<|im_start|>user: hello<|im_end|><|im_start|>'


def gguf(folder: Path) -> str:
    path = folder / 'model.gguf'
    make_gguf(path, **{'tokenizer.chat_template': TEMPLATE})
    return str(path)


def huggingface(folder: Path) -> str:
    put(folder, 'tokenizer_config.json', {'chat_template': TEMPLATE})
    return str(folder)


def config_of(entry: dict[str, Any]) -> dict[str, Any]:
    rows = dataset([{'question': 'hello', 'answer': 'x'}], '{question}', max_out_len=4)
    return {'models': [{'abbr': 'm', **entry}], 'datasets': [rows]}


@pytest.mark.parametrize(
    ('kind', 'make', 'further', 'request_'),
    [
        ('LlamaCpp', gguf, {}, ASKED),
        ('LlamaCpp', gguf, {'chat_template': True}, ASKED),
        ('LlamaCpp', gguf, {'chat_template': False}, 'hello'),
        ('LlamaCpp', gguf, {'chat_template': 'T {{ messages[0].content }}'}, 'T hello'),
        ('LlamaCpp', gguf, {'meta_template': {'begin': '<H>', 'round': [{'role': 'HUMAN'}]}}, 'hello'),
        ('HuggingFaceCausalLM', huggingface, {}, ASKED),
        ('HuggingFace', huggingface, {'chat_template': False}, 'hello'),
        ('VLLM', huggingface, {}, ASKED),
        ('HuggingFaceBaseModel', huggingface, {}, 'hello'),
    ],
)
def test_which_template_a_local_model_is_addressed_with(
    tmp_path: Path, kind: str, make: Callable[[Path], str], further: dict[str, Any], request_: str
) -> None:
    config = config_of({'type': kind, 'path': make(tmp_path), **further})
    assert next(rolecall.preview(config)).request == request_
    [entry] = Experiment.open(config).models
    by_default = request_ == ASKED and not further
    assert entry.uses_own_template is by_default
    assert ('own chat template' in entry.note) is by_default


def test_a_model_without_a_template_of_its_own_gets_bare_text(tmp_path: Path) -> None:
    path = tmp_path / 'model.gguf'
    make_gguf(path, **{'tokenizer.chat_template': ''})
    assert next(rolecall.preview(config_of({'type': 'LlamaCpp', 'path': str(path)}))).request == 'hello'


def test_a_broken_template_of_its_own_is_a_problem_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / 'model.gguf'
    make_gguf(path, **{'tokenizer.chat_template': '{% for %}'})
    with pytest.raises(rolecall.ConfigError, match=r'models\[0\]\.chat_template'):
        next(rolecall.preview(config_of({'type': 'LlamaCpp', 'path': str(path)})))


def test_a_run_sends_what_the_viewer_shows_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of({'type': 'LlamaCpp', 'path': gguf(tmp_path)})
    file = put(tmp_path, 'config.py', '\n'.join(f'{name} = {value!r}' for name, value in config.items()))
    assert main(['view', str(file), '--json']) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out.splitlines()[0])['request'] == ASKED
    assert "m: uses the model's own chat template; chat_template=False sends bare text." in seen.err
    assert main(['run', str(file), '--out', str(tmp_path / 'run')]) in (0, 1)
    assert "m: uses the model's own chat template" in capsys.readouterr().err
    with RunReader(tmp_path / 'run') as archive:
        [result] = archive.results()
        [key] = archive.fingerprints()
        assert archive.request(key) == ASKED
    assert result.outcome == 'ok'


@pytest.mark.skipif(cached_path('smollm2') is None, reason='the embedded model is not on this machine')
@pytest.mark.parametrize(
    'entry', [{'type': 'smollm2'}, {'type': 'Embedded'}, {'type': 'LlamaCpp', 'path': 'smollm2'}], ids=str
)
def test_the_embedded_model_is_the_same_however_it_is_named(
    tmp_path: Path, entry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = find_tokenizer(entry)
    assert tokenizer is not None
    assert tokenizer.name == str(cached_path('smollm2'))
    config = config_of(entry)
    preview = next(rolecall.preview(config))
    assert isinstance(preview.request, str)
    assert preview.request.endswith('<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n')
    [model_entry] = Experiment.open(config).models
    assert model_entry.max_seq_len == PACKAGED['smollm2'].context
    assert model_entry.count(preview.request) == tokenizer.count(preview.request)
    file = put(tmp_path, 'config.py', '\n'.join(f'{name} = {value!r}' for name, value in config.items()))
    assert main(['view', str(file), '--tokens', '--plain']) == 0
    assert main(['lint', str(file)]) in (0, 1)
    run_config(config, out=tmp_path / 'run')
    with RunReader(tmp_path / 'run') as archive:
        [result] = archive.results()
    assert result.outcome == 'ok'
    assert result.prediction
