"""`rolecall export results`: prompts, Parquet and the Every Eval Ever schema, from a run on disk."""

import csv
import hashlib
import json
import re
import sqlite3
from pathlib import Path

import pytest

from rolecall.runs.store.labels import Labels
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store, open_store
from rolecall.scoring.scorecard import Scorecard
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


def test_a_run_becomes_records_of_every_eval_ever(run, capsys, tmp_path):
    [path] = export(run, capsys, '--prompts', '--format', 'every-eval-ever', '-o', str(tmp_path)).splitlines()
    record = json.loads(Path(path).read_text())
    assert record['eval_library']['name'] == 'rolecall'
    [score] = record['evaluation_results']
    assert score['evaluation_name'] == 'words'
    assert score['score_details']['score'] == 50.0
    assert score['score_details']['uncertainty']['confidence_interval']['confidence_level'] == 0.95
    assert score['metric_config']['lower_is_better'] is False
    detailed = record['detailed_evaluation_results']
    uuid4 = r'[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'
    assert re.fullmatch(rf'data/[^/]+/[^/]+/[^/]+/{uuid4}_samples\.jsonl', detailed['file_path'])
    content = (tmp_path / detailed['file_path']).read_bytes()
    assert hashlib.sha256(content).hexdigest() == detailed['checksum']
    samples = [json.loads(line) for line in content.splitlines()]
    assert len(samples) == detailed['total_rows'] == 2
    assert [sample['evaluation']['is_correct'] for sample in samples] == [True, False]
    assert samples[0]['input'] == {'raw': 'ab', 'formatted': 'ab', 'reference': ['ba']}
    assert samples[0]['output']['raw'] == ['ba']
    assert {sample['evaluation_id'] for sample in samples} == {record['evaluation_id']}


SEVERAL = """
def answer(request):
    if 'fail' in str(request):
        raise ValueError('no')
    return '[[7]] [[A]]'
models = [dict(abbr='m', type='Function', function=answer, path='../weights/small.gguf')]
rows = [dict(q='ab', a='ba'), dict(q='fail', a=['xx', 3])]
def dataset(abbr, **parts):
    infer = dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=9))
    return dict(abbr=abbr, type='Rows', test=rows, reader_cfg=dict(input_columns=['q'], output_column='a'), infer_cfg=infer, **parts)
talk = [dict(role='user', content='ab'), dict(role='assistant', content=''), dict(role='user', content='cd'), dict(role='assistant', content='')]
datasets = [
    dataset('words', eval_cfg=dict(evaluator=dict(type='AccEvaluator'))),
    dataset('rated', eval_cfg=dict(evaluator=dict(type='LMEvaluator', judge_cfg='m'))),
    dataset('compared', eval_cfg=dict(evaluator=dict(type='PairwiseEvaluator', judge_cfg='m', against=dict(column='a')))),
    dataset('read twice', eval_cfg=dict(evaluator=dict(type='AccEvaluator'), pred_postprocessor=dict(first='first-capital', whole=None))),
    dataset('unscored'),
    dict(abbr='talk', type='Rows', test=[dict(d=talk)], reader_cfg=dict(input_columns=['d']),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{d}'), inferencer=dict(type='ChatInferencer', infer_mode='every')),
        eval_cfg=dict(evaluator=dict(type='LMEvaluator', judge_cfg='m'))),
]
groups = dict(all=['words', 'read twice'])
"""


def test_records_fit_the_published_schema(tmp_path, capsys):
    """Percentages and ratings, groups, extractors, comparisons, dialogues, failed and unscored rows."""
    jsonschema = pytest.importorskip('jsonschema')
    schemas = json.loads((Path(__file__).parent / 'data' / 'every_eval_ever.json').read_text())
    record_schema, sample_schema = (jsonschema.Draft7Validator(schemas[name]) for name in ('record', 'sample'))
    (tmp_path / 'several.py').write_text(SEVERAL)
    assert main(['run', str(tmp_path / 'several.py'), '--out', str(tmp_path / 'run'), '--quiet']) == 1
    told = export(tmp_path / 'run', capsys, '--prompts', '--format', 'every-eval-ever', '-o', str(tmp_path / 'out'))
    [path] = map(Path, told.splitlines())
    assert path.is_relative_to(tmp_path / 'out' / 'data' / 'run' / 'unknown' / 'weights_small.gguf')
    record = json.loads(path.read_text())
    assert [error.message for error in record_schema.iter_errors(record)] == []
    scores = {one['evaluation_result_id']: one for one in record['evaluation_results']}
    assert set(scores) == {
        'words/accuracy',
        'rated/rating',
        'compared/win_rate',
        'read twice/accuracy (first)',
        'read twice/accuracy (whole)',
        'talk/rating',
        'all/accuracy (first)',
        'all/accuracy (whole)',
    }
    assert scores['rated/rating']['metric_config']['max_score'] is None
    lines = path.with_name(f'{path.stem}_samples.jsonl').read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert len(samples) == 11
    assert {sample['interaction_type'] for sample in samples} == {'single_turn', 'multi_turn'}
    assert [error.message for sample in samples for error in sample_schema.iter_errors(sample)] == []


def test_exporting_again_gives_the_same_records(run, capsys, tmp_path):
    first, second = (export(run, capsys, '--format', 'every-eval-ever', '-o', str(tmp_path / name)) for name in 'ab')
    assert first.replace('/a/', '/b/') == second
    assert Path(first.strip()).read_text() == Path(second.strip()).read_text()


def test_failed_rows_and_dialogues_are_records_too(tmp_path, capsys):
    store = Store(tmp_path / 'run')
    rows = [
        Result('d', 'm', 0, 'failed', reason='HTTP 500'),
        Result(
            'd',
            'm',
            1,
            'ok',
            replies=('a', 'b'),
            fingerprints=('x', 'y'),
            score=0.5,
            gold=['p', 'q'],
            input_tokens=9,
            output_tokens=2,
            cached_tokens=7,
        ),
    ]
    store.record_scores([Scorecard('d', 'm', 'ppl', 3.0, scored=1, total=2)], rows)
    store.close()
    [path] = export(tmp_path / 'run', capsys, '--format', 'every-eval-ever', '-o', str(tmp_path / 'out')).splitlines()
    record = json.loads(Path(path).read_text())
    assert record['evaluation_results'][0]['metric_config']['lower_is_better'] is True
    samples = [json.loads(line) for line in Path(path.replace('.json', '_samples.jsonl')).read_text().splitlines()]
    assert samples[0]['error'] == 'failed: HTTP 500'
    assert samples[1]['token_usage']['input_tokens_cache_read'] == 7
    assert samples[1]['interaction_type'] == 'multi_turn'
    assert [message['content'] for message in samples[1]['messages']] == ['a', 'b']
    assert samples[1]['input']['reference'] == ['p', 'q']


@pytest.mark.parametrize(
    ('options', 'reason'), [([], 'name it with -o'), (['-o', 'x', '--model', 'm'], 'do not apply')]
)
def test_records_need_a_folder_and_the_whole_run(run, capsys, options, reason):
    assert main(['export', 'results', str(run), '--format', 'every-eval-ever', *options]) == 2
    assert reason in capsys.readouterr().err


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
