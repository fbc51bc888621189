"""Receipts against real inference engines: llama.cpp's server, and vLLM on a CPU.

vLLM runs in an environment of its own; `VLLM_PYTHON` names its Python.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llama_servers import free_port, llama_server
from rolecall.models.model_names import resolve_model
from rolecall.runs import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scorecard import Scorecard
from small_models import make_model

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)


def dataset(*passages: str, inferencer: str = 'GenInferencer') -> dict[str, Any]:
    template: Any = {
        'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Answer with a number.'}],
        'round': [{'role': 'HUMAN', 'prompt': '{q}'}, {'role': 'BOT', 'prompt': '{a}'}],
    }
    if inferencer == 'PPLInferencer':
        template = {label: f'{{q}} {label}' for label in ('yes', 'no')}
    return {
        'abbr': 'qa',
        'test': [{'q': text, 'a': 'yes'} for text in passages],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': template},
            'inferencer': {'type': inferencer},
        },
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }


def run(model: dict[str, Any], rows: dict[str, Any], out: Path) -> tuple[Scorecard, dict[str, Any]]:
    [card] = run_config({'models': [{'max_out_len': 4, **model}], 'datasets': [rows]}, out=out).scorecards
    with RunReader(out) as reader:
        return card, next(iter(reader.manifest()['servers'].values()))


def check_receipt(card: Scorecard, facts: dict[str, Any], *, engine: str, window: int) -> None:
    """The engine is recognised, its window is the budget, and every prompt has the tokens that were expected."""
    assert (facts['engine'], facts['window']) == (engine, window)
    assert facts['keeps_system']
    assert facts['logprobs']
    assert card.receipt is not None
    assert (card.receipt.checked, card.receipt.findings) == (3, ())
    assert card.outcomes.get('too_long') == 1  # the long row was fitted to the window, not cut by the server


PASSAGES = ('How many legs has a spider?', '中文 and ünïcode', 'a ' * 40, 'word ' * 5000)


def test_llama_cpp_reads_every_prompt_as_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with llama_server(free_port()) as url:
        model = resolve_model(f'{url}/v1')
        monkeypatch.setattr('rolecall.models.http.server_facts.cache_directory', lambda: tmp_path / 'cache')
        card, facts = run(model, dataset(*PASSAGES), tmp_path / 'run')
    assert model['abbr'] == 'SmolLM2-135M-Instruct.Q4_1'
    check_receipt(card, facts, engine='llama.cpp', window=2048)
    assert (facts['quantization'], facts['temperature'], facts['seed'], facts['stop']) == ('Q4_1', 0.8, True, True)


@pytest.fixture(scope='module')
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM server with a small random Llama and a window of 512 tokens."""
    python = os.environ.get('VLLM_PYTHON') or (sys.executable if importlib.util.find_spec('vllm') else '')
    if not python or not importlib.util.find_spec('torch'):
        pytest.skip('needs vLLM (VLLM_PYTHON) and torch')
    folder = make_model(tmp_path_factory.mktemp('model'), 'llama', width=256, spread=0.05)
    settings = json.loads((folder / 'tokenizer_config.json').read_text('utf-8'))
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings | {'chat_template': CHAT}), encoding='utf-8')
    port = free_port()
    command = [python, '-m', 'vllm.entrypoints.openai.api_server', '--model', str(folder), '--port', str(port)]
    command += ['--dtype', 'float32', '--enforce-eager', '--max-model-len', '512', '--served-model-name', 'tiny']
    environment = {**os.environ, 'VLLM_CPU_KVCACHE_SPACE': '1', 'PYTHONPATH': ''}
    log = (folder / 'log').open('wb')
    with log, subprocess.Popen([*command, '--host', '127.0.0.1'], env=environment, stdout=log, stderr=log) as process:
        try:
            _wait_until_healthy(f'http://127.0.0.1:{port}/health', process)
            yield f'http://127.0.0.1:{port}/v1'
        finally:
            process.terminate()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            assert process.poll() is None, 'vLLM ended'
            time.sleep(1)
        else:
            return
    raise AssertionError('vLLM does not answer')


@pytest.mark.heavy
def test_vllm_reads_every_prompt_as_expected(vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))
    model = resolve_model(vllm)
    card, facts = run(model, dataset(*PASSAGES), tmp_path / 'run')
    assert model['abbr'] == 'tiny'
    check_receipt(card, facts, engine='vLLM', window=512)
    assert (facts['bos'], facts['seed'], facts['stop']) == (1, True, True)
    assert card.receipt is not None
    assert card.receipt.served is not None
    assert next(iter(card.receipt.served)).startswith('tiny, vllm-')


@pytest.mark.heavy
def test_vllm_is_asked_for_perplexity_without_a_setting(
    vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))
    model = {'abbr': 'tiny', 'type': 'VLLMCustomAPI', 'url': vllm}
    card, _ = run(model, dataset('Is it?', 'Was it?', inferencer='PPLInferencer'), tmp_path / 'run')
    assert (card.scored, card.receipt and card.receipt.checked) == (2, 2)


@pytest.mark.heavy
def test_another_template_on_vllm_is_found_by_its_ids(
    vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))
    [card_of_server] = json.loads(urllib.request.urlopen(f'{vllm}/models', timeout=5).read())['data']
    other = CHAT.replace('{{ bos_token }}', '')
    model = resolve_model(vllm) | {'tokenizer_path': card_of_server['root'], 'chat_template': other}
    card, _ = run(model, dataset('Hi', 'How many?'), tmp_path / 'run')
    warnings = ' '.join(card.warnings())
    assert (
        "token 0 of the first prompt should be '<|im_start|>' (2) of chat template, the server has '<s>' (0)"
        in warnings
    )
    assert '1 prompt token more than expected in every request' in warnings
