"""Reading error as part of a score: all readers over stored replies, and what people say the replies answer."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

import rolecall
from rolecall.insight.reading_errors import Rereading
from rolecall.runs.store.labels import Labels
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from web_pages import Client, serve_page

MODELS = """
def strong(prompt):
    number = int(prompt.split()[2])
    total = 2 * number if number % 4 else 2 * number + 3
    return [f'The answer is {total}.', f'So it must be {total} (checked 3 times)'][number % 2]
def weak(prompt):
    number = int(prompt.split()[2])
    return f'The answer is {2 * number if number % 5 < 2 else 7}.'
def reader(prompt):
    return prompt.partition('<reply>')[2].split('answer is ')[-1].split('must be ')[-1].split()[0]
"""


@pytest.fixture(scope='module')
def sums_once(tmp_path_factory):
    """A run whose reader takes the last number, which is wrong for every second reply of `strong`."""
    folder = tmp_path_factory.mktemp('sums')
    names: dict[str, object] = {}
    exec(MODELS, names)
    dataset = {
        'abbr': 'rows',
        'type': 'Rows',
        'test': [{'question': f'What is {n} + {n}?', 'answer': f'It doubles.\n#### {2 * n}'} for n in range(1, 121)],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
        'eval_cfg': {
            'evaluator': {'type': 'Gsm8kEvaluator'},
            'pred_postprocessor': {'type': 'gsm8k'},
            'dataset_postprocessor': {'type': 'gsm8k_dataset'},
        },
    }
    models = [{'abbr': name, 'type': 'Function', 'function': names[name]} for name in ('strong', 'weak')]
    rolecall.run({'datasets': [dataset], 'models': models}, out=folder / 'run', quiet=True)
    return folder / 'run'


@pytest.fixture
def sums(sums_once, tmp_path):
    return shutil.copytree(sums_once, tmp_path / 'run')


def decide(run, count):
    """What a person would say of the first rows of the queue."""
    with RunReader(run) as reader:
        queue = Rereading(reader, reader.pairs()).queue(count)
        for row in queue:
            said = (
                row.result.replies[0].rstrip('.').replace('The answer is ', '').replace('So it must be ', '').split()[0]
            )
            key = (row.result.dataset, row.result.model, row.result.row)
            Labels(run, 'answer').add(key, said, by='ann', result=row.result)
    return queue


def errors_of(run):
    with RunReader(run) as reader:
        rereading = Rereading(reader, reader.pairs())
        return {error.model: error for error in rereading.errors()}, rereading.orders()


def test_rows_on_which_readers_disagree_come_first_with_controls_between(sums):
    queue = decide(sums, 30)
    strong = [row.trait for row in queue if row.result.model == 'strong']
    assert strong[:8] == ['doubtful', 'doubtful', 'doubtful', 'alike'] * 2
    doubtful = next(row for row in queue if row.trait == 'doubtful')
    assert [readers for value, readers in doubtful.candidates if value == '3'] == [['last number', "the run's"]]
    assert len({(row.result.model, row.result.row) for row in queue}) == 30


def test_thirty_decisions_correct_a_misread_score_and_its_interval(sums):
    before, orders = errors_of(sums)
    assert before['strong'].raw.value == pytest.approx(0.25)  # 75 % are right, half of the replies are misread
    assert orders[0].low <= 0
    decide(sums, 30)
    after, [order] = errors_of(sums)
    assert after['strong'].corrected.labels + after['weak'].corrected.labels == 30
    assert after['strong'].corrected.low < 0.75 < after['strong'].corrected.high
    assert after['strong'].raw.high < after['strong'].corrected.low
    assert after['weak'].corrected.value == after['weak'].raw.value
    misread = {(entry.reader, entry.kind): entry.share.value for entry in after['strong'].misread}
    assert misread["the run's", 'concluded'] > 0.5
    assert misread['ours', 'concluded'] == 0
    assert (order.better, order.low > 0) == ('weak', False)  # by the raw score; corrected, it is the other way round
    assert order.high < 0


def test_a_decision_against_readers_that_agree_widens_the_interval(sums):
    decide(sums, 30)
    narrow = errors_of(sums)[0]['weak'].corrected
    with RunReader(sums) as reader:
        row = next(
            row
            for row in Rereading(reader, [('rows', 'weak')]).pairs[0].rows.values()
            if row.mark and row.result.row > 100
        )
        Labels(sums, 'answer').add(('rows', 'weak', row.result.row), None, by='ann', result=row.result)
    wide = errors_of(sums)[0]['weak'].corrected
    assert wide.value < narrow.value
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_the_command_prints_scores_with_reading_error_and_whether_orders_survive(sums, capsys):
    decide(sums, 30)
    assert main(['runs', 'reread', str(sums)]) == 0
    printed = capsys.readouterr().out
    assert 'rows × strong: 25.0 [' in printed
    assert 'with reading error, by 15 decided rows: 7' in printed
    assert "misread by the run's, of 60 concluded: 100.0 [" in printed
    assert 'rows: weak before strong: the order is reversed (-' in printed
    assert main(['runs', 'reread', str(sums), '--json', '--rows', '50']) == 0
    strong, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (strong['rows'], strong['total']) == (50, 120)
    assert main(['export', 'results', str(sums), '--labels']) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first['by'], first['read'], first['answer'] != '3', first['current']) == ('ann', '3', True, True)


def test_a_model_decides_a_sample(sums, tmp_path):
    (tmp_path / 'judges.py').write_text(MODELS)
    judge = f'{tmp_path}/judges.py:reader'
    assert main(['runs', 'reread', str(sums), '--judge', judge, '--json']) == 0
    errors, _ = errors_of(sums)
    assert errors['strong'].corrected.value > 0.6
    assert all([*said] == [judge[:80]] for said in Labels(sums, 'answer').by_row().values())


def test_a_run_without_readings_says_so(tmp_path, capsys):
    rolecall.run([{'q': 'a', 'a': 'A'}], model=str.upper, template='{q}', out=tmp_path / 'run', quiet=True)
    assert main(['runs', 'reread', str(tmp_path / 'run')]) == 2
    printed = capsys.readouterr().err
    assert 'no verdict of this run rests on an answer that our readers can read from a reply' in printed
    assert main(printed.rpartition('labels: rolecall ')[2].split()) == 0  # the remedy


def test_code_that_a_run_names_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / 'own_marks.py').write_text('def same(prediction, gold):\n    return prediction == gold\n')
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{'q': 'a', 'a': 'A'}] * 3
    own = {'template': '{q}', 'answer': 'a', 'metric': 'own_marks.same'}
    rolecall.run(rows, model=str.upper, **own, out=tmp_path / 'run', quiet=True)
    del sys.modules['own_marks']
    with RunReader(tmp_path / 'run') as reader:
        assert Rereading(reader, reader.pairs()).pairs == []
    assert 'own_marks' not in sys.modules


def test_the_queue_of_the_page_takes_decisions_undoes_them_and_names_divided_rows(sums):
    with serve_page(sums) as address:
        client = Client(*address)
        first, second, *_ = client.get('queue', task='answer', by='ann')['rows']
        for choice, answer in ((first, first['choices'][0]), (second, None)):
            place = {name: choice[name] for name in ('dataset', 'model', 'row')}
            assert client.post('label', run=0, **place, answer=answer, by='ann')[0] == 200
        found = client.get('queue', task='answer', by='ann')
        assert (found['done'], found['people']) == (2, [['ann', 2]])
        assert first not in found['rows']
        assert client.post('label', run=0, **place, answer='', by='ann')[0] == 200
        assert client.get('queue', task='answer', by='ann')['done'] == 1
        row = client.get('queue', by='ann')['rows'][0]
        place = {name: row[name] for name in ('dataset', 'model', 'row')}
        assert row['choices'] == ['correct', 'wrong']
        for by, label in (('ann', 'correct'), ('bob', 'wrong')):
            client.post('label', run=0, **place, label=label, by=by)
        found = client.get('queue', task='second', by='eve')
        assert found['divided'] == [list(place.values())]
        assert found['rows'][0]['row'] == place['row']
        assert client.get('queue', task='second', by='bob')['rows'] == []
        assert any('labelled row' in line for line in found['lines'])
        assert client.post('label', run=0, **place, answer=5, by='ann')[0] == 422
