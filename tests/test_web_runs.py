"""Runs in the page, over real sockets: scores, rows in pages, comparisons, labels, and rows asked again."""

import contextlib
import json
import os
import sqlite3
import time
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from helpers import sums_config
from report_runs import made_up_run
from rolecall import run_config
from rolecall.errors import ConfigError
from rolecall.runs.store.directory import FILE, is_running
from rolecall.runs.store.results import Result
from rolecall.runs.store.row_codec import encode_result
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from rolecall.ui.web.workspace import Workspace
from web_pages import Client, serve_page


@pytest.fixture(scope='module')
def stored_run(tmp_path_factory):
    """A run of the sums by two models, half of the answers right, one failed."""
    folder = tmp_path_factory.mktemp('runs') / 'friday'
    made, _ = made_up_run(rows=120)
    store = Store(folder)
    store.record_scores(made.cards, [*made.rows, Result('sums', 'api', 500, 'failed', reason='HTTP 500')])
    store.close()
    return folder


@pytest.fixture(scope='module')
def run_client(stored_run):
    with serve_page(stored_run, stored_run) as (port, rules):
        yield Client(port, rules)


def test_a_run_shows_its_scores(run_client):
    found = run_client.get('run')
    assert found['name'] == 'friday'
    assert (found['datasets'], found['models']) == (['sums'], ['api', 'chatml'])
    [line] = found['scores']['lines']
    assert line['dataset'] == 'sums'
    assert all(cell['interval'] for cell in line['cells'])


def test_rows_of_a_run_come_by_key_in_pages(run_client):
    keys, after = [], ''
    while after is not None:
        page = run_client.get('run_rows', after=after)
        keys += [(one['dataset'], one['model'], one['row']) for one in page['rows']]
        after = page['after']
    assert keys == sorted(keys)
    assert len(keys) == len(set(keys)) == 241


@pytest.mark.parametrize(
    ('query', 'count'),
    [
        ({'model': 'chatml'}, 120),
        ({'verdict': 'wrong', 'model': 'api'}, 60),
        ({'outcome': 'failed'}, 1),
        ({'q': 'http 500'}, 1),
        ({'q': 'nowhere'}, 0),
    ],
)
def test_rows_of_a_run_are_filtered(run_client, query, count):
    found, after = [], ''
    while after is not None:
        page = run_client.get('run_rows', after=after, **query)
        found += page['rows']
        after = page['after']
    assert len(found) == count


def test_a_row_of_a_run_has_everything_known_about_it(run_client):
    found = run_client.get('run_row', dataset='sums', model='chatml', row=3)
    assert found['gold'] == '6'
    assert found['replies']
    assert [other['model'] for other in found['others']] == ['api']
    assert run_client.send('/api/run_row?dataset=sums&model=chatml&row=999')[0].status == 422


def test_two_models_of_one_run_are_compared(run_client):
    found = run_client.get('run_compare', left_model='chatml', right_model='api')
    [difference] = found['differences']
    assert difference['rows'] == 120
    assert run_client.get('run_compare', left_run=0, right_run=1)['differences'][0]['difference'] == 0
    explained = run_client.get('run_explain', left_run=0, right_run=1)['explanations']
    assert all('have the same score' in one['sentence'] and not one['bars'] for one in explained)


@pytest.mark.parametrize('after', ['x', '[]', '["a", "b", "c"]', '7'])
def test_a_key_that_is_none_is_refused(run_client, after):
    answer, text = run_client.send(f'/api/run_rows?{urllib.parse.urlencode({"after": after})}')
    assert answer.status == 422
    assert 'not a key of a row' in text


@pytest.mark.heavy
def store_a_million_rows(folder):
    """A run of a million rows, written by one statement."""
    store = Store(folder)
    store.record_scores(
        [Scorecard('big', 'm', 'accuracy', 50.0, scored=1_000_000, total=1_000_000, outcomes={'ok': 1_000_000})], []
    )
    store.close()
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        row = encode_result(Result('big', 'm', 7654321, 'ok', replies=('yes',), correct=True))
        numbers = 'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)'
        columns = 'dataset, model, row, outcome, result'
        db.execute(f"INSERT INTO rows ({columns}) {numbers} SELECT 'big', 'm', i, 'ok', ? FROM n", (row,))
        db.commit()
    return folder


def test_a_million_rows_open_and_turn_pages_quickly(tmp_path):
    folder = store_a_million_rows(tmp_path / 'large')
    with serve_page(folder) as address:
        client = Client(*address)
        times = []
        for name, query in [
            ('run', {}),
            ('run_rows', {}),
            ('run_rows', {'after': '["big", "m", 999800]'}),
            ('run_row', {'dataset': 'big', 'model': 'm', 'row': 999_999}),
        ]:
            began = time.process_time()  # the page is served by this process
            client.get(name, **query)
            times.append(time.process_time() - began)
    assert max(times) < 2.0, times


def label(client, **given):
    body = json.dumps({'run': 0, 'dataset': 'sums', 'model': 'chatml', 'row': 3, **given})
    origin = f'http://127.0.0.1:{client.port}'
    answer, text = client.send('/api/label', method='POST', body=body, Origin=origin, Content_Type='application/json')
    return answer.status, json.loads(text)


def test_a_human_label_is_kept_in_the_run_and_compared_with_the_verdicts(run_client, stored_run):
    verdicts = {row: run_client.get('run_row', dataset='sums', model='chatml', row=row)['verdict'] for row in (3, 4)}
    for row, verdict in verdicts.items():
        status, _ = label(run_client, row=row, label=verdict)
        assert status == 200
    assert run_client.get('run_row', dataset='sums', model='chatml', row=3)['labels'] == {'': verdicts[3]}
    assert run_client.get('run')['labelled'] == 2
    assert any('agreement in percent 100.0' in line for line in run_client.get('queue')['lines'])
    label(run_client, row=3, label='wrong' if verdicts[3] == 'correct' else 'correct')
    assert any(
        line.startswith('  agreement in percent') and ' 100.0 [' not in line
        for line in run_client.get('queue')['lines']
    )
    assert len(run_client.get('run_rows', verdict='disagrees')['rows']) == 1
    label(run_client, row=3, label='')
    assert run_client.get('run')['labelled'] == 1
    assert (stored_run / 'labels.jsonl').read_text().count('\n') == 4


@pytest.mark.parametrize(
    'given', [{'label': 'maybe'}, {'row': 9999, 'label': 'wrong'}, {'run': 9, 'label': 'wrong'}, {'label': 7}]
)
def test_a_label_that_is_none_is_refused(run_client, given):
    assert label(run_client, **given)[0] == 422


# -- several runs, groups, judges, rows asked again --------------------------------------------------------------------

ASKED = """
def answer(request):
    from pathlib import Path
    if 'one' in request and not (Path(__file__).parent / 'mended').exists():
        raise ValueError('sk-hidden-key: the line is broken')
    return 'A' if 'judge' in request else request.removeprefix('say ').upper()
models = [dict(abbr='m', type='Function', function=answer, api_key='sk-hidden-key')]
def rows(*words):
    return [dict(q=word, a=word.upper()) for word in words]
infer = dict(prompt_template=dict(type='PromptTemplate', template='say {q}'), inferencer=dict(type='GenInferencer', max_out_len=9))
reader = dict(input_columns=['q'], output_column='a')
datasets = [
    dict(abbr='numbers', type='Rows', test=rows('zero', 'one', 'two'), reader_cfg=reader, infer_cfg=infer, eval_cfg=dict(evaluator=dict(type='AccEvaluator'))),
    dict(abbr='judged', type='Rows', test=rows('three'), reader_cfg=reader, infer_cfg=infer, eval_cfg=dict(evaluator=dict(
        type='GenericLLMEvaluator', judge_cfg='m', prompt_template=dict(type='PromptTemplate', template='judge {prediction}')))),
]
groups = dict(everything=['numbers', 'judged'])
"""


@pytest.fixture(scope='module')
def asked(tmp_path_factory):
    """A config, a run of it with a failed row, and a page of both."""
    folder = tmp_path_factory.mktemp('asked')
    (folder / 'config.py').write_text(ASKED)
    assert main(['run', str(folder / 'config.py'), '--out', str(folder / 'runs/first'), '--quiet']) == 1
    with serve_page(folder / 'config.py', folder / 'runs') as address:
        yield Client(*address), folder


def test_a_directory_of_runs_is_listed_with_scores(asked, tmp_path):
    client, _ = asked
    [run] = client.get('runs')['runs']
    assert (run['name'], run['models'], sorted(run['datasets'])) == ('first', ['m'], ['judged', 'numbers'])
    assert [line['dataset'] for line in run['scores']['lines']] == ['everything', 'numbers', 'judged']
    with pytest.raises(ConfigError, match='not a run directory'):
        Workspace([tmp_path])


def test_a_run_that_cannot_be_read_does_not_hide_the_others(tmp_path, stored_run):
    (tmp_path / 'bad').mkdir()
    (tmp_path / 'bad' / FILE).write_bytes(b'nothing')
    with serve_page(tmp_path, stored_run) as address:
        bad, good = Client(*address).get('runs')['runs']
    assert 'error' in bad
    assert good['scores']['lines']


def test_groups_are_followed_by_their_members(asked):
    lines = asked[0].get('run')['scores']['lines']
    assert [(line['dataset'], line['isGroup'], line['group']) for line in lines] == [
        ('everything', True, ''),
        ('numbers', False, 'everything'),
        ('judged', False, 'everything'),
    ]


def test_a_row_comes_with_its_judge(asked):
    row = asked[0].get('run_row', dataset='judged', model='m', row=0)
    [judged] = row['judge']
    assert judged['reply'] == 'A'
    assert judged['prompt']['request'] == 'judge THREE'
    assert judged['prompt']['explanations']  # the config words it the same way, so origins are known


def test_a_failed_row_is_asked_again_and_scored(asked):
    client, folder = asked
    before = client.get('run_row', dataset='numbers', model='m', row=1)
    assert (before['outcome'], before['again']) == ('failed', True)
    where = {'run': 0, 'dataset': 'numbers', 'model': 'm'}
    status, [found] = client.post('again', **where, row=0)
    assert (status, 'has an answer' in found['error']) == (422, True)
    (folder / 'mended').touch()
    status, [found] = client.post('again', **where, row=1)
    assert status == 200, found
    assert (found['outcome'], found['verdict'], found['again']) == ('ok', 'correct', False)
    scores = {line['dataset']: line['cells'][0] for line in client.get('run')['scores']['lines']}
    assert scores['numbers']['scored'] == '3/3'
    assert scores['everything']['score'] != '–'


def test_a_row_is_not_asked_again_without_its_config_or_with_another_prompt(tmp_path):
    (tmp_path / 'config.py').write_text(ASKED)
    assert main(['run', str(tmp_path / 'config.py'), '--out', str(tmp_path / 'first'), '--quiet']) == 1
    where = {'run': 0, 'dataset': 'numbers', 'model': 'm', 'row': 1}
    with serve_page(tmp_path / 'first') as address:
        status, [found] = Client(*address).post('again', **where)
        assert (status, 'no config of this page' in found['error']) == (422, True)
    (tmp_path / 'config.py').write_text(ASKED.replace('say {q}', 'shout {q}'))
    with serve_page(tmp_path / 'config.py', tmp_path / 'first') as address:
        status, [found] = Client(*address).post('again', **where)
        assert (status, 'another prompt' in found['error']) == (422, True)


@pytest.fixture(scope='module')
def flipped(tmp_path_factory):
    """Two runs and two models that differ in one row each."""
    folder = tmp_path_factory.mktemp('flipped')
    for name, wrong in (('first', 3), ('second', 5)):
        store = Store(folder / name)
        rows = [
            Result('d', model, row, 'ok', replies=('x',), correct=row != wrong + by, score=float(row != wrong + by))
            for by, model in enumerate(('a', 'b'))
            for row in range(10)
        ]
        cards = [Scorecard('d', model, 'accuracy', 90.0, 80.0, 100.0, 10, 10, {'ok': 10}) for model in ('a', 'b')]
        store.record_scores(cards, rows)
        store.close()
    with serve_page(folder / 'first', folder / 'second') as address:
        yield Client(*address)


@pytest.mark.parametrize(
    ('query', 'rows'),
    [
        ({'run': 0, 'model': 'a', 'against': '0:b'}, [3, 4]),
        ({'run': 0, 'model': 'a', 'against': '1:'}, [3, 5]),
        ({'run': 0, 'model': 'a', 'against': '1:', 'verdict': 'wrong'}, [3]),
        ({'run': 0, 'model': 'a', 'against': '0:a'}, []),
        ({'run': 0, 'model': 'a', 'first': 8}, [8, 9]),
    ],
)
def test_rows_that_flipped_against_another_run_or_model_are_found(flipped, query, rows):
    assert [row['row'] for row in flipped.get('run_rows', **query)['rows']] == rows


def test_a_run_is_live_while_its_directory_is_locked(tmp_path):
    store = Store(tmp_path / 'run')
    with serve_page(tmp_path / 'run') as address:
        client = Client(*address)
        while_open = client.get('run')['live']
        store.close()
        assert (while_open, client.get('run')['live']) == (True, False) or not Path('/proc/locks').exists()


@pytest.mark.parametrize(
    ('line', 'live'),
    [
        ('1: FLOCK  ADVISORY  WRITE {other} {device}:{inode} 0 EOF', True),
        ('1: FLOCK  ADVISORY  WRITE {other} ff:ff:{inode} 0 EOF', False),
        ('1: FLOCK  ADVISORY  WRITE {own} 00:2a:{inode} 0 EOF', True),
        ('1: FLOCK  ADVISORY  WRITE {own} {device}:9{inode} 0 EOF', False),
        ('1: POSIX  ADVISORY  WRITE {own} {device}:{inode} 0 EOF', False),
        ('1: -> FLOCK  ADVISORY  WRITE {other} {device}:{inode} 0 EOF', False),
    ],
)
def test_a_lock_is_known_by_its_device_and_inode_or_by_its_process(tmp_path, monkeypatch, line, live):
    Store(tmp_path / 'run').close()
    found = os.stat(tmp_path / 'run' / 'lock')
    device = f'{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}'
    (tmp_path / 'locks').write_text(
        line.format(own=os.getpid(), other=os.getpid() + 1, device=device, inode=found.st_ino) + '\n'
    )
    monkeypatch.setattr('rolecall.runs.store.directory._LOCKS', tmp_path / 'locks')
    assert is_running(tmp_path / 'run') is live


def test_rows_after_the_end_of_a_growing_run_are_found_from_where_it_ended(flipped):
    found = flipped.get('run_rows', run=0)
    assert json.loads(found['end']) == ['d', 'b', 9]
    assert flipped.get('run_rows', run=0, after=found['end'])['rows'] == []
    assert flipped.get('run')['last'] == {'d × a': 9, 'd × b': 9}


def test_labels_without_a_verdict_are_not_counted_as_disagreeing(tmp_path):
    store = Store(tmp_path / 'run')
    store.record_scores(
        [], [Result('d', 'm', 0, 'ok', replies=('x',), correct=True), Result('d', 'm', 1, 'failed', reason='no')]
    )
    store.close()
    with serve_page(tmp_path / 'run') as address:
        client = Client(*address)
        for row in (0, 1):
            client.post('label', run=0, dataset='d', model='m', row=row, label='correct')
        assert any('corrected by 1 labelled row ' in line for line in client.get('queue')['lines'])
        [remark] = client.get('run')['remarks']
        assert 'corrected by 1 labelled row (1 person)' in remark
        client.post('label', run=0, dataset='d', model='m', row=0, label='')
        client.post('label', run=0, dataset='d', model='m', row=1, label='')
        assert client.get('run')['remarks'] == []


@pytest.mark.parametrize('kind', ['symbolic link', 'hard link', 'pipe'])
def test_labels_are_written_to_a_file_of_the_run_only(tmp_path, kind):
    """A run directory may come from somebody else."""
    store = Store(tmp_path / 'run')
    store.record_scores([], [Result('d', 'm', 0, 'ok')])
    store.close()
    (tmp_path / 'precious').write_text('precious')
    file = tmp_path / 'run' / 'labels.jsonl'
    make = {'symbolic link': file.symlink_to, 'hard link': file.hardlink_to, 'pipe': lambda _: os.mkfifo(file)}[kind]
    make(tmp_path / 'precious')
    with serve_page(tmp_path / 'run') as address:
        client = Client(*address)
        status, [found] = client.post('label', run=0, dataset='d', model='m', row=0, label='wrong')
        assert (status, 'regular file' in found['error']) == (422, True)
        assert client.get('run')['labelled'] == 0
    assert (tmp_path / 'precious').read_text() == 'precious'


def test_rows_that_are_damaged_are_named(tmp_path):
    store = Store(tmp_path / 'run')
    store.record_scores([], [Result('d', 'm', row, 'ok', replies=('x',)) for row in range(3)])
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / 'run' / FILE)) as db, db:
        db.execute("UPDATE rows SET result = '{' WHERE row = 1")
    with serve_page(tmp_path / 'run') as address:
        client = Client(*address)
        assert [row['outcome'] for row in client.get('run_rows', run=0)['rows']] == ['ok', 'failed', 'ok']
        assert '1 row.' in client.get('run')['damage']
        answer, text = client.send('/api/run_row?run=0&dataset=d&model=m&row=1')
        assert (answer.status, 'doctor' in text) == (422, True)


@pytest.mark.parametrize('log', ['lm-eval', 'inspect/sums.eval'])
def test_a_run_of_another_harness_looks_like_any_other(tmp_path, log):
    source = Path(__file__).parent / 'data' / 'logs' / log
    assert main(['runs', 'import', log.partition('/')[0], str(source), '--out', str(tmp_path / 'run')]) == 0
    with serve_page(tmp_path / 'run') as address:
        client = Client(*address)
        assert client.get('run', run=0)['scores']['lines'][0]['cells'][0]['score']
        row = client.get('run_rows', run=0)['rows'][0]
        found = client.get('run_row', run=0, dataset=row['dataset'], model=row['model'], row=row['row'])
        assert found['gold']
        assert found['prompts'][0]['request']


def write_opencompass_log(folder, answers):
    """OpenCompass' layout with one dataset: questions in an order of their own, each with a reply and whether it is right."""
    stamp = folder / '20260101_120000'
    predictions = {
        q: {'origin_prompt': f'Brief.\n{q}', 'prediction': reply, 'gold': gold} for q, reply, gold in answers
    }
    details = [{'pred': reply, 'correct': reply == gold} for _, reply, gold in answers]
    for kind, content in [
        ('predictions', dict(zip(map(str, range(len(answers))), predictions.values(), strict=True))),
        ('results', {'accuracy': 200 / 3, 'details': {str(at): one for at, one in enumerate(details)}}),
    ]:
        for model in ('internlm', 'qwen'):
            (stamp / kind / model).mkdir(parents=True)
            (stamp / kind / model / 'sums.json').write_text(json.dumps(content))
    return folder


def make_runs_to_align(tmp_path):
    """A run of another harness with two models, and ours of one, which has the same questions in another order."""
    theirs = [('What is 1+1?', '2', '2'), ('What is 2+2?', '5', '4'), ('Only theirs: 3+3?', '6', '6')]
    log = write_opencompass_log(tmp_path / 'outputs', theirs)
    assert main(['runs', 'import', 'opencompass', str(log), '--out', str(tmp_path / 'theirs')]) == 0
    rows = [{'q': 'Only ours: 9-3?', 'a': '6'}, {'q': 'What is 2+2?', 'a': '4'}, {'q': 'What is 1+1?', 'a': '2'}]
    config = sums_config(rows, lambda request: '4' if '2+2' in str(request) else '2')
    run_config(config, out=tmp_path / 'ours')
    return tmp_path / 'theirs', tmp_path / 'ours'


@pytest.fixture
def aligned_client(tmp_path):
    with serve_page(*make_runs_to_align(tmp_path)) as address:
        yield Client(*address)


@pytest.mark.parametrize('model', ['internlm', 'qwen'])
def test_a_run_of_another_harness_is_compared_with_ours_by_content(aligned_client, model):
    found = aligned_client.get('run_compare', left_run=0, left_model=model, right_run=1, right_model='m')
    assert found['aligned'] == {'sums': {'dataset': 'ours', 'rows': {'0': 2, '1': 1}}}
    [difference] = found['differences']
    assert (difference['dataset'], difference['rows']) == ('ours', 2)
    assert (difference['left_model'], difference['right_model']) == (model, 'm')
    [[left, right]] = difference['flips']
    assert (left['dataset'], left['model'], left['row'], left['verdict']) == ('sums', model, 1, 'wrong')
    assert (right['dataset'], right['model'], right['row'], right['verdict']) == ('ours', 'm', 1, 'correct')
    assert any('2 rows found again by content; 1 of the right run' in note for note in found['notes'])
    back = aligned_client.get('run_compare', left_run=1, left_model='m', right_run=0, right_model=model)
    assert back['aligned'] == {'ours': {'dataset': 'sums', 'rows': {'1': 1, '2': 0}}}
    [[left, right]] = back['differences'][0]['flips']
    assert (left['dataset'], left['row'], right['dataset'], right['row']) == ('ours', 1, 'sums', 1)


def test_every_model_of_a_run_is_aligned(aligned_client):
    found = aligned_client.get('run_compare', left_run=0, right_run=0)
    assert found['aligned'] is None
    assert [one['rows'] for one in found['differences']] == [3, 3]
    found = aligned_client.get('run_compare', left_run=0, right_run=1)
    assert found['aligned']['sums']['rows'] == {'0': 2, '1': 1}
    assert {tuple(pair) for pair in found['only_left']} == {('ours', 'internlm'), ('ours', 'qwen')}
    assert any(note.startswith('ours: 4 rows found again by content; 1 of the right') for note in found['notes'])
