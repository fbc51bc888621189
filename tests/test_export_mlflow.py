"""A run in MLflow, by the real package, on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecall.errors import MissingExtraError
from rolecall.runs.run import run_config
from rolecall.ui.cli.main import main
from servers import serve

KEY = 'sk-not-for-mlflow-0123456789'
IN_ROW = 'sk-stood/in-a-row-42'


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('mlflow')
    rows = folder / 'rows.jsonl'
    some = [{'q': '1+1', 'a': '2'}, {'q': '2+2', 'a': f'4 {IN_ROW}'}]
    rows.write_text(''.join(f'{json.dumps(row)}\n' for row in some))
    dataset = {
        'abbr': 'sums: all',
        'path': str(rows),
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'},
            'retriever': {'type': 'ZeroRetriever'},
            'inferencer': {'type': 'GenInferencer'},
        },
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }
    with serve('2') as server:
        model = {'type': 'OpenAI', 'path': 'toy', 'openai_api_base': server.url, 'key': KEY, 'temperature': 0.5}
        models = [{'abbr': name, **model} for name in ('first', 'second')]
        run_config({'models': models, 'datasets': [dataset]}, out=folder / 'run')
    return folder / 'run'


def test_scores_rows_and_report_of_each_model_are_logged_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mlflow: Any = pytest.importorskip('mlflow')
    monkeypatch.setenv('MLFLOW_ALLOW_FILE_STORE', 'true')
    place = (tmp_path / 'mlruns').as_uri()
    ids = []
    for _ in range(2):
        assert main(['export', 'mlflow', str(run), '--tracking-uri', place, '--experiment', 'nightly']) == 0
        ids.append(capsys.readouterr().out.split())
    assert ids[0] == ids[1]
    assert len(ids[0]) == 2
    client = mlflow.MlflowClient(place)
    logged = client.get_run(ids[0][0])
    assert logged.info.run_name == 'first'
    assert logged.data.metrics['sums: all/accuracy'] == 50.0
    assert logged.data.metrics['sums: all/accuracy.rows'] == 2
    assert logged.data.metrics['sums: all/rows.ok'] == 2
    assert logged.data.params['temperature'] == '0.5'
    assert {artifact.path for artifact in client.list_artifacts(ids[0][0])} == {'report.html', 'results.json'}
    table = json.loads(Path(client.download_artifacts(ids[0][0], 'results.json')).read_text())
    assert [dict(zip(table['columns'], row, strict=True))['gold'] for row in table['data']] == ['2', f'4 {IN_ROW}']
    assert all(KEY not in path.read_text('utf-8', 'replace') for path in tmp_path.rglob('*') if path.is_file())


@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # of SQLAlchemy, for what MLflow calls
def test_by_default_a_run_is_logged_where_mlflow_keeps_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ('mlflow', 'sqlalchemy', 'alembic'):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    assert main(['export', 'mlflow', str(run)]) == 0
    assert len(capsys.readouterr().out.split()) == 2


def test_a_key_of_this_environment_that_stands_in_a_row_is_hidden(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rolecall.ui.report.mlflow_export import export_mlflow

    class Client:
        """MLflow's client, as far as artifacts go: the real package is not on every machine."""

        def __init__(self, _uri: object) -> None: ...

        def log_artifact(self, _run: str, path: str) -> None:
            (tmp_path / Path(path).name).write_text(Path(path).read_text('utf-8'), 'utf-8')

        def log_text(self, _run: str, text: str, name: str) -> None:
            (tmp_path / name).write_text(text, 'utf-8')

        def search_runs(self, *_: object) -> list[object]:
            return [SimpleNamespace(info=SimpleNamespace(run_id='1'))]

        def __getattr__(self, _name: str) -> Any:
            return lambda *_: SimpleNamespace(experiment_id='1')

    mlflow = SimpleNamespace(MlflowClient=Client, exceptions=SimpleNamespace(MlflowException=OSError))
    monkeypatch.setitem(__import__('sys').modules, 'mlflow', mlflow)
    texts = []
    for variable in ('SOME_WORD', 'OTHER_API_KEY'):
        monkeypatch.setenv(variable, IN_ROW)
        export_mlflow(run)
        texts.append([(tmp_path / name).read_text('utf-8') for name in ('report.html', 'results.json')])
    assert all(IN_ROW in text for text in texts[0])
    assert texts[1] == [text.replace(IN_ROW, '[key]') for text in texts[0]]


def test_without_the_package_the_extra_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecall.ui.report.mlflow_export import export_mlflow

    monkeypatch.setitem(__import__('sys').modules, 'mlflow', None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rolecall\[mlflow\]'"):
        export_mlflow(run)
