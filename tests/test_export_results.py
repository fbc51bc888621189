"""`rolecall export results`: prompts and Parquet, from a run on disk."""

import csv
import json
import sqlite3

import pytest

from rolecall.runs.store.labels import Labels
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import open_store
from rolecall.ui.cli.main import main

CONFIG = """
def answer(request):
    return request[::-1]
models = [dict(abbr='echo', type='Function', function=answer)]
datasets = [dict(abbr='words', type='Rows', test=[dict(q='ab', a='ba'), dict(q='cd', a='xx')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=9)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp('export')
    (folder / 'config.py').write_text(CONFIG)
    assert main(['run', str(folder / 'config.py'), '--out', str(folder / 'first'), '--quiet']) == 0
    return folder / 'first'


def export(run, capsys, *options):
    capsys.readouterr()
    assert main(['export', 'results', str(run), *options]) == 0
    return capsys.readouterr().out


def test_prompts_are_added_when_asked_for(run, capsys):
    rows = [json.loads(line) for line in export(run, capsys, '--prompts').splitlines()]
    assert [row['requests'] for row in rows] == [['ab'], ['cd']]
    assert 'requests' not in json.loads(export(run, capsys).splitlines()[0])
    assert export(run, capsys, '--prompts', '--format', 'csv').splitlines()[0].endswith(',requests')


def test_parquet_holds_the_prompts_too(run, capsys, tmp_path):
    parquet = pytest.importorskip('pyarrow.parquet')
    export(run, capsys, '--prompts', '--format', 'parquet', '-o', str(tmp_path / 'rows.parquet'))
    table = parquet.read_table(tmp_path / 'rows.parquet').to_pylist()
    assert [json.loads(row['requests']) for row in table] == [['ab'], ['cd']]
    assert [row['score'] for row in table] == [1.0, 0.0]


@pytest.mark.parametrize(
    ('name', 'begins'), [('rows.CSV', b'dataset,'), ('rows.parquet', b'PAR1'), ('rows.txt', b'{"dataset"')]
)
def test_the_ending_of_the_file_names_the_format(run, capsys, tmp_path, name, begins):
    export(run, capsys, '-o', str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)
    export(run, capsys, '--format', 'jsonl', '-o', str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(b'{"dataset"')


def test_numbers_that_json_lacks_are_null_and_text_stays_readable(tmp_path, capsys):
    with open_store(tmp_path) as store:
        details = {'loss': float('nan'), 'by': {1: float('inf')}, 'seen': ('ü', 'half \ud800')}
        store.update_rows([Result('d', 'm', 0, 'ok', prediction='ü', details=details)])
    line = export(tmp_path, capsys)
    assert '"prediction": "ü"' in line
    assert json.loads(line)['details'] == {'loss': None, 'by': {'1': None}, 'seen': ['ü', 'half ?']}


@pytest.mark.parametrize('form', ['jsonl', 'csv', 'parquet'])
def test_human_labels_are_exported_beside_their_rows(run, capsys, tmp_path, form):
    labels = Labels(run)
    labels.add(('words', 'echo', 1), 'correct')
    labels.add(('words', 'echo', 0), 'wrong')
    labels.add(('words', 'echo', 0), '')
    if form == 'parquet':
        parquet = pytest.importorskip('pyarrow.parquet')
        export(run, capsys, '--format', form, '-o', str(tmp_path / 'rows.parquet'))
        found = parquet.read_table(tmp_path / 'rows.parquet').column('label').to_pylist()
    else:
        lines = export(run, capsys, '--format', form).splitlines()
        rows = list(csv.DictReader(lines)) if form == 'csv' else map(json.loads, lines)
        found = [row['label'] or None for row in rows]
    assert found == [None, 'correct']


def test_the_rows_own_fields_are_exported(run, capsys, tmp_path):
    rows = [json.loads(line) for line in export(run, capsys).splitlines()]
    assert [row['fields'] for row in rows] == [{'q': 'ab', 'a': 'ba'}, {'q': 'cd', 'a': 'xx'}]
    assert '"{""q"": ""ab"", ""a"": ""ba""}"' in export(run, capsys, '--format', 'csv')
    parquet = pytest.importorskip('pyarrow.parquet')
    export(run, capsys, '--format', 'parquet', '-o', str(tmp_path / 'rows.parquet'))
    table = parquet.read_table(tmp_path / 'rows.parquet').to_pylist()
    assert json.loads(table[1]['fields']) == {'q': 'cd', 'a': 'xx'}


def test_fields_survive_a_repair_and_damage_is_told(run, capsys, tmp_path):
    assert main(['doctor', str(run), '--repair', str(tmp_path / 'saved')]) == 0
    assert json.loads(export(tmp_path / 'saved', capsys).splitlines()[0])['fields'] == {'q': 'ab', 'a': 'ba'}
    with sqlite3.connect(tmp_path / 'saved' / 'run.sqlite') as db:
        db.execute("UPDATE data SET fields = '{}' WHERE row = 0")
    db.close()
    capsys.readouterr()
    assert main(['export', 'results', str(tmp_path / 'saved')]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)['fields'] for line in shown.out.splitlines()] == [{}, {'q': 'cd', 'a': 'xx'}]
    assert '1 data row' in shown.err


def test_a_run_without_kept_fields_is_exported_as_before(run, capsys, tmp_path):
    assert main(['doctor', str(run), '--repair', str(tmp_path / 'old')]) == 0
    with sqlite3.connect(tmp_path / 'old' / 'run.sqlite') as db:
        db.execute('DROP TABLE data')
    db.close()
    assert [json.loads(line)['fields'] for line in export(tmp_path / 'old', capsys).splitlines()] == [{}, {}]


def test_a_count_that_no_column_holds_is_left_out_of_parquet(tmp_path):
    parquet = pytest.importorskip('pyarrow.parquet')
    from rolecall.runs.result_files import _write_parquet
    from rolecall.runs.store.row_codec import result_as_dict

    rows = [result_as_dict(Result('d', 'm', 0, 'ok', 'a\0b\ud800', input_tokens=10**30, output_tokens=-(2**63)))]
    assert _write_parquet(iter(rows), tmp_path / 'rows.parquet', prompts=False) == 1
    [row] = parquet.read_table(tmp_path / 'rows.parquet').to_pylist()
    assert (row['input_tokens'], row['output_tokens'], row['reason'][:3]) == (None, -(2**63), 'a\0b')
