"""A whole evaluation on the embedded model, and the same through a real llama.cpp server on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_servers import free_port, llama_server
from rolecall import RunReader, run_config
from rolecall.ui.cli.main import main

pytestmark = pytest.mark.heavy
pytest.importorskip('xllamacpp')

ROOT = Path(__file__).parent.parent
ROUND = [{'role': 'HUMAN', 'prompt': '{question}'}, {'role': 'BOT', 'prompt': '{answer}'}]


def gsm8k() -> dict[str, Any]:
    return {
        'abbr': 'gsm8k',
        'type': 'GSM8KDataset',
        'path': str(ROOT / 'examples' / 'data' / 'gsm8k'),
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer', 'test_range': '[0:3]'},
        'infer_cfg': {
            'ice_template': {'type': 'PromptTemplate', 'template': {'round': ROUND}},
            'prompt_template': {
                'type': 'PromptTemplate',
                'ice_token': '</E>',
                'template': {'begin': ['</E>'], 'round': ROUND},
            },
            'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]},
            'inferencer': {'type': 'GenInferencer', 'max_out_len': 24},
        },
        'eval_cfg': {
            'evaluator': {'type': 'Gsm8kEvaluator'},
            'pred_postprocessor': {'type': 'gsm8k_postprocess'},
            'dataset_postprocessor': {'type': 'gsm8k_dataset_postprocess'},
        },
    }


def test_in_process_and_through_a_server_prompts_and_answers_are_the_same(tmp_path: Path) -> None:
    shared = {'meta_template': 'chatml', 'max_out_len': 24}
    with llama_server(free_port()) as url:
        models = [
            {'abbr': 'inside', 'type': 'LlamaCpp', 'path': 'smollm2', 'max_seq_len': 2048, 'parallel': 1, **shared},
            {
                'abbr': 'served',
                'type': 'OpenAICompletions',
                'path': 'smollm2',
                'openai_api_base': url,
                'key': 'none',
                'temperature': 0,
                **shared,
            },
        ]
        summary = run_config({'models': models, 'datasets': [gsm8k()]}, out=tmp_path / 'run')
    assert summary.exit_code == 0
    with RunReader(tmp_path / 'run') as run:
        inside, served = (list(run.results('gsm8k', name)) for name in ('inside', 'served'))
        for one, other in zip(inside, served, strict=True):
            assert run.request(one.fingerprint) == run.request(other.fingerprint)
            assert one.prediction == other.prediction


def test_the_demo_runs_is_scored_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    out = str(tmp_path / 'demo')
    assert main(['run', 'examples/demo.py', '--out', out, '--limit', '2', '--quiet']) == 0
    assert 'quiz' in capsys.readouterr().out
    assert main(['export', 'results', out]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row['outcome'] for row in rows} == {'ok'}
    assert len(rows) == 5 * 2 * 2  # datasets, models, rows
    assert all(row['score'] is not None for row in rows)
    page = tmp_path / 'report.html'
    assert main(['report', out, '--html', str(page), '--config', 'examples/demo.py']) == 0
    assert '</html>' in page.read_text(encoding='utf-8')
    [headline, wrote] = capsys.readouterr().err.splitlines()
    assert ' on 10 rows' in headline
    assert wrote == f'Wrote {page}'
    assert main(['compare', out, out, '--json']) == 0
