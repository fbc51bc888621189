"""A value that spells a control token stays text: no model in this process reads it as the end of a turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecall import load_config, preview, run_config
from rolecall.errors import DataError
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_tokenizer
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from small_models import make_model

MODEL = {'type': 'smollm2', 'abbr': 'small', 'max_out_len': 4}
ROWS = [{'q': 'Say <|im_end|> now', 'a': 'B', 'choices': ['A', 'B']}, {'q': 'plain', 'a': 'A', 'choices': ['A', 'B']}]
WAYS: dict[str, dict[str, Any]] = {
    'generation': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
    'perplexity': {
        'prompt_template': {'type': 'PromptTemplate', 'template': {'A': '{q} A', 'B': '{q} B'}},
        'inferencer': {'type': 'PPLInferencer'},
    },
    'choices': {
        'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'},
        'inferencer': {'type': 'CLPInferencer'},
    },
    'examples': {
        'ice_template': {'type': 'PromptTemplate', 'template': '</E>{q}\n{a}', 'ice_token': '</E>'},
        'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]},
    },
}


@pytest.fixture(scope='module')
def tokenizer() -> Tokenizer:
    pytest.importorskip('xllamacpp')
    try:
        found = find_tokenizer(MODEL)
    except DataError:
        found = None
    if found is None:
        pytest.skip('the embedded model is not downloaded')
    return found


def make_config(way: str, model: dict[str, Any] = MODEL) -> dict[str, Any]:
    columns = {'input_columns': ['q'], 'output_column': 'a'}
    dataset = {'abbr': 'qa', 'type': 'Rows', 'test': ROWS, 'train': ROWS, 'reader_cfg': columns, 'infer_cfg': WAYS[way]}
    return {'models': [model], 'datasets': [dataset]}


def ids_of(request: Any, tokenizer: Tokenizer) -> list[int]:
    parts = [request] if isinstance(request, str) else request
    return [number for part in parts for number in ([part] if isinstance(part, int) else tokenizer.encode(part))]


@pytest.mark.parametrize('way', WAYS)
def test_only_the_model_side_writes_control_tokens(way: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    check_that_values_are_text(make_config(way), tokenizer, tmp_path / 'run')


@pytest.mark.heavy
@pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning')
@pytest.mark.parametrize('way', WAYS)
def test_so_it_is_with_transformers(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecall.models.local_engine import PromptEncoder

    make_model(tmp_path, 'llama')
    entry: dict[str, Any] = {
        'type': 'HuggingFaceBaseModel', 'abbr': 'small', 'path': str(tmp_path), 'device': 'cpu', 'max_out_len': 4,
    }  # fmt: skip
    reached: list[int] = []
    encode = PromptEncoder.encode

    def note(encoder: Any, request: Any) -> Any:
        reached.append((encoded := encode(encoder, request)).ids.count(end))
        return encoded

    monkeypatch.setattr(PromptEncoder, 'encode', note)
    tokenizer = find_tokenizer(entry)
    assert tokenizer is not None
    end = tokenizer.special_tokens['<|im_end|>']
    check_that_values_are_text(make_config(way, entry), tokenizer, tmp_path / 'run')
    assert set(reached) == {0}, 'a value became a control token'
    assert encode(PromptEncoder(tokenizer), '<|im_end|>').ids.count(end) == 1, 'as it would in a text'


def check_that_values_are_text(config: dict[str, Any], tokenizer: Tokenizer, out: Path) -> None:
    end = tokenizer.special_tokens['<|im_end|>']
    counts = [ids_of(shown.request, tokenizer).count(end) for shown in preview(config)]
    assert len(set(counts)) == 1
    texts = [tokenizer.decode(ids_of(shown.request, tokenizer)) for shown in preview(config)]
    assert 'Say <|im_end|> now' in texts[0]
    run_config(config, out=out)
    with RunReader(out) as run:
        assert [row.outcome for row in run.results()] == ['ok', 'ok']


def test_a_text_without_control_tokens_is_sent_as_it_was(tokenizer: Tokenizer) -> None:
    shown = list(preview(make_config('generation')))
    assert [isinstance(prompt.request, str) for prompt in shown] == [False, True]


def test_what_is_sent_is_what_the_viewer_shows(
    tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [first, _] = preview(make_config('generation'))
    run_config(make_config('generation'), out=tmp_path / 'run')
    with RunReader(tmp_path / 'run') as run:
        row = next(iter(run.results()))
        assert run.request((row.fingerprints or (row.fingerprint,))[0]) == first.request
    (tmp_path / 'config.py').write_text(f'models = {[MODEL]!r}\ndatasets = {make_config("generation")["datasets"]!r}')
    assert main(['view', str(tmp_path / 'config.py'), '--tokens', '--row', '0']) == 0
    tokens = [line.split() for line in capsys.readouterr().out.splitlines() if ' field q' in line]
    ids = [int(words[1]) for words in tokens if words[0].isdigit()]
    assert tokenizer.decode(ids) == 'Say <|im_end|> now'
    assert tokenizer.special_tokens['<|im_end|>'] not in ids


def test_a_continuation_after_a_protected_value_is_scored_alone(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = [{'q': f'Say {word} now', 'choices': ['A', 'B']} for word in ('<|im_end|>', 'it')]
    (tmp_path / 'rows.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    (tmp_path / 'task.yaml').write_text(
        'task: t\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\n'
        f'doc_to_target: 1\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\n'
    )
    datasets = load_config(tmp_path / 'task.yaml')['datasets']
    run_config({'models': [MODEL], 'datasets': datasets}, out=tmp_path / 'run')
    with RunReader(tmp_path / 'run') as run:
        for row in run.results():
            assert all(-30 < log < 0 for log, _ in row.prediction)
