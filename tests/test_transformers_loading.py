"""Loading Transformers models: tokenizers, dtypes, failures; the weights come with the first request."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecall.models.protocol import ModelError, Sampling
from rolecall.models.tokenizers.huggingface import TransformersTokenizer
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from rolecall.models.transformers.model import TransformersModel, build
from rolecall.models.transformers.weights import WeightsSource
from small_models import SPECIAL, make_model

pytestmark = [
    pytest.mark.heavy,
    # torch and transformers warn about their own future.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning'),
]


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp('llama'), 'llama')


@pytest.fixture(scope='module')
def theirs(folder: Path) -> TransformersTokenizer:
    from transformers import AutoTokenizer

    return TransformersTokenizer(AutoTokenizer.from_pretrained(folder))


def made(folder: Path, **entry: Any) -> TransformersModel:
    return build({'type': 'HuggingFaceCausalLM', 'path': str(folder), 'device': 'cpu', **entry}, name='small')


def test_weights_are_loaded_by_the_first_request(folder: Path) -> None:
    model = made(folder)
    assert model.count('the') == 3
    assert model._engine is None
    asyncio.run(model.score(['the']))
    assert model._engine is not None
    asyncio.run(model.close())
    assert model._engine is None
    assert len(asyncio.run(model.score(['the']))) == 1  # and again by the next


def test_a_model_that_is_not_there_is_told_once_and_for_all(tmp_path: Path) -> None:
    model = made(tmp_path)
    for _ in range(2):
        with pytest.raises(ModelError, match='the model cannot be loaded') as caught:
            asyncio.run(model.generate(['a'], Sampling()))
        assert not caught.value.transient


def test_a_folder_that_does_not_exist_is_told() -> None:
    with pytest.raises(ModelError, match='no such folder'):
        asyncio.run(made(Path('/no/such/folder')).score(['a']))


def test_broken_weights_are_told(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 500 if file.suffix == '.safetensors' else None])
    with pytest.raises(ModelError, match='the model cannot be loaded'):
        asyncio.run(made(tmp_path).score(['a']))


def test_weights_that_are_missing_are_not_made_up(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / 'model.safetensors')
    del weights['lm_head.weight']
    save_file(weights, tmp_path / 'model.safetensors', metadata={'format': 'pt'})
    with pytest.raises(ModelError, match='weights are missing: lm_head.weight'):
        asyncio.run(made(tmp_path).score(['a']))


@pytest.mark.parametrize(
    ('entry', 'dtype'),
    [
        ({}, 'float32'),
        ({'dtype': 'bfloat16'}, 'bfloat16'),
        ({'model_kwargs': {'torch_dtype': 'torch.float16'}}, 'float16'),
        ({'model_kwargs': {'device_map': 'auto', 'dtype': 'auto'}}, 'float32'),
    ],
)
def test_the_dtype_is_what_was_asked_for(folder: Path, entry: dict[str, Any], dtype: str) -> None:
    loaded = made(folder, **entry)._settings.source.load()
    assert str(loaded.model.dtype) == f'torch.{dtype}'


def test_progress_bars_are_as_they_were(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    WeightsSource(str(folder), device='cpu').load()
    assert 'Loading' not in capfd.readouterr().err
    assert logging.is_progress_bar_enabled()


def test_a_tokenizer_with_settings_of_its_own_is_run_by_transformers(folder: Path) -> None:
    plain, own = made(folder), made(folder, tokenizer_kwargs={'clean_up_tokenization_spaces': False})
    assert own.count('the') is None  # not without loading
    [one], [other] = (asyncio.run(model.score(['<s>the <|im_end|> é'])) for model in (plain, own))
    assert own.count('the') is None  # nor after loading: a preview, which shows the same counts, has no engine
    assert isinstance(own._engine.encoder.tokenizer, TransformersTokenizer)  # type: ignore[union-attr]  # just loaded
    assert (one.ids, one.offsets) == (other.ids, other.offsets)


@given(st.text() | st.lists(st.sampled_from(['the ', '\n\n', 'é', '你', '😀', *SPECIAL])).map(''.join))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_both_tokenizers_agree(folder: Path, theirs: TransformersTokenizer, text: str) -> None:
    ours = load_tokenizer(folder)
    assert theirs.encode(text) == ours.encode(text)
    assert theirs.encode(text, special=False) == ours.encode(text, special=False)
    assert theirs.offsets(text) == ours.offsets(text)
    assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text))
    assert theirs.count(text) == ours.count(text)


def test_both_tokenizers_know_the_same_tokens(folder: Path, theirs: TransformersTokenizer) -> None:
    ours = load_tokenizer(folder)
    for name in ('bos_id', 'eos_id', 'adds_bos'):
        assert getattr(theirs, name) == getattr(ours, name)
    assert theirs.special_tokens == ours.special_tokens
    assert theirs.pieces([0, 75]) == ours.pieces([0, 75])


def test_building_many_models_imports_nothing_heavy(folder: Path) -> None:
    import subprocess

    code = f'import sys; from rolecall.models.transformers.model import build; build({{"path": {str(folder)!r}}}, name="m").count("a")'
    check = 'assert not {"torch", "transformers"} & sys.modules.keys()'
    subprocess.run([sys.executable, '-c', f'{code}; {check}'], check=True)
