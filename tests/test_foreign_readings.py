"""A name of another system gives that system's verdict, and our own reading stands beside it.

The expected values in tests/data/foreign_readings.jsonl were given by OpenCompass 0.5.4 and AISBench 3.1
(`benchmarks/foreign_readings.py --cases` writes them anew); the replies are ours.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.group_scores import summarise_groups
from rolecall.scoring.groups import DatasetGroup, Member
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.ui.cli.main import main
from rolecall.ui.web.run_documents import RowFilter, RunDocument
from tables import in_one

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name('data').joinpath('foreign_readings.jsonl').read_text('utf-8').splitlines()
]
OPTION = {'type': 'first_option_postprocess', 'options': 'ABCD'}
REPLIES = ['It could be A, B, C or D', 'b', 'The answer is C.', 'so D']
GOLDS = 'CBCD'


@in_one
@pytest.mark.parametrize('case', CASES)
def test_a_foreign_name_reads_and_judges_as_its_own_system_does(case: dict[str, Any]) -> None:
    reading: Any = case['reply']
    if case['reader']:
        entry = {'type': case['reader'], **case['options']}
        reading = read_postprocessor(entry, read_as=case['system'])(case['reply'])
        assert str('' if reading is None else reading) == case['reads']
    if case['evaluator']:
        metric = read_evaluator({'type': case['evaluator'], **case['settings']}, read_as=case['system'])
        mark = metric.mark(Answer(reading, case['gold']))
        assert mark is not None
        assert mark.correct == case['right']


def scored(**config: Any) -> Any:
    rows = [Scorable(row, 'ok', reply, gold) for row, (reply, gold) in enumerate(zip(REPLIES, GOLDS, strict=True))]
    return build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': OPTION, **config}).score(rows)


def test_our_reading_stands_beside_the_one_that_the_config_names() -> None:
    card = scored()
    assert card.describe_readings() == '50.0 as OpenCompass reads it; 75.0 by our reading; 1 row differs'
    assert [verdict.beside[:4] for verdict in card.verdicts] == [(), ('own', 'B', 1.0, True), (), ()]
    assert card.details['beside']['differ'] == 1


def test_read_as_chooses_whose_reading_makes_the_score() -> None:
    card = scored(read_as='own')
    assert (card.value, card.beside.value) == (75.0, 50.0)
    assert card.describe_readings() == '75.0 by our reading; 50.0 as OpenCompass reads it; 1 row differs'
    assert scored(read_as='aisbench').beside.read_as == 'aisbench'


def test_a_group_has_the_mean_of_both_readings() -> None:
    cards = [replace(scored(), dataset=name, model='m') for name in ('a', 'b')]
    [group] = summarise_groups([DatasetGroup('both', (Member('a'), Member('b')))], cards)
    assert group.describe_readings() == '50.0 as OpenCompass reads it; 75.0 by our reading; 2 rows differ'


def test_names_of_ours_have_one_reading() -> None:
    card = scored(evaluator='accuracy', pred_postprocessor={'type': 'choice_postprocess', 'choices': 'ABCD'})
    assert (card.value, card.beside) == (75.0, None)


@in_one
@pytest.mark.parametrize(
    ('read_as', 'message'),
    [('lm_eval', 'Choose own or opencompass'), ('opencompas', "Did you mean 'opencompass'")],
)
def test_a_system_that_the_config_does_not_name_is_refused(read_as: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scored(read_as=read_as)


def test_an_option_that_only_ours_has_makes_the_metric_ours() -> None:
    metric = read_evaluator({'type': 'EMEvaluator', 'ignore_case': True})
    assert metric.mark(Answer('cat', 'Cat')).correct  # type: ignore[union-attr]


CONFIG = """
replies = dict(q0='It could be A, B, C or D', q1='b', q2='The answer is C.', q3='so D')
def ask(prompt):
    return replies[prompt]
models = [dict(abbr='m', type=ask)]
datasets = [dict(abbr='d', test=[dict(q=q, a=a) for q, a in zip(replies, 'CBCD')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=9)),
    eval_cfg=dict(evaluator='AccEvaluator',
        pred_postprocessor=dict(type='first_option_postprocess', options='ABCD')))]
"""


def test_a_run_shows_both_readings_and_the_rows_that_differ_are_one_command_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rolecall(*arguments: str) -> str:
        main([*arguments])
        printed = capsys.readouterr()
        return printed.out + printed.err

    (tmp_path / 'config.py').write_text(CONFIG)
    config, run = str(tmp_path / 'config.py'), str(tmp_path / 'run')
    both = '50.0 as OpenCompass reads it; 75.0 by our reading; 1 row differs'
    assert both in ' '.join(rolecall('run', config, '--out', run, '--force').split())
    assert both in rolecall('report', run, '--markdown')
    differ = rolecall('score', run, '--differ')
    assert 'row 1: wrong' in differ
    assert "'B' by our reading: right" in differ
    assert 'row 2' not in differ
    assert 'row 1: right' in rolecall('score', run, '--read-as', 'own', '--row', '1')
    rolecall('report', run, '--html', str(tmp_path / 'report.html'))
    assert 'verdict=readings+differ' in (tmp_path / 'report.html').read_text('utf-8')  # one click
    document = RunDocument(Path(run))
    assert document.overview()['scores']['lines'][0]['cells'][0]['readings'] == both
    assert [row['row'] for row in document.rows(RowFilter(verdict='readings differ'))['rows']] == [1]
    assert document.row('d', 'm', 1, None)['beside'] == "'B' by our reading: right"
    assert f'--out {run} --read-as aisbench' in rolecall('score', run, '--read-as', 'aisbench')
    again = rolecall('run', config, '--out', run, '--force', '--read-as', 'aisbench')  # as the message says
    assert '50.0 as AISBench reads it' in ' '.join(again.split())
    rows = [json.loads(line) for line in rolecall('export', 'results', run).splitlines() if line.startswith('{')]
    assert rows[1]['beside'] == {'read_as': 'own', 'extracted': 'B', 'score': 1.0, 'correct': True}
    assert rows[2]['beside'] is None


TASK = """
task: sums
output_type: generate_until
test_split: test
doc_to_text: '{{q}}'
doc_to_target: '{{a}}'
filter_list:
  - name: strict
    filter:
      - {function: regex, regex_pattern: '#### (-?[0-9.,]+)'}
      - {function: take_first}
metric_list:
  - {metric: exact_match, regexes_to_ignore: ['(?s).*#### ']}
"""


def test_our_reading_stands_beside_the_filters_of_a_task_file(tmp_path: Path) -> None:
    (tmp_path / 'sums.yaml').write_text(TASK)
    rows = [{'q': '1 + 1?', 'a': 'so\n#### 2'}, {'q': '2 + 2?', 'a': 'so\n#### 4'}]
    (tmp_path / 'rows.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
    done = rolecall.run(
        tmp_path / 'sums.yaml',
        model=lambda prompt: '#### 2' if '1 + 1' in str(prompt) else 'The answer is 4.',
        data={'test': str(tmp_path / 'rows.jsonl')},
        out=tmp_path / 'run',
        quiet=True,
        force=True,
    )
    [card] = done.summary.scorecards
    assert card.describe_readings() == '50.0 as lm-eval reads it; 100.0 by our reading; 1 row differs'


HOSTILE = [
    '\n',
    '[',
    '{',
    '(',
    '1',
    '1.',
    ',',
    '$',
    '\\boxed{',
    '\\text{',
    '答案是',
    '**',
    'answer is ',
    'The correct answer is',
]


@in_one
@pytest.mark.parametrize('piece', HOSTILE)
def test_foreign_readers_take_time_that_grows_with_the_reply(piece: str) -> None:
    readers = {case['reader']: case['options'] for case in CASES if case['reader']}
    work: dict[str, Any] = {name: read_postprocessor({'type': name, **options}) for name, options in readers.items()}
    for name in {case['evaluator'] for case in CASES} - {'', 'MATHVerifyEvaluator'}:
        metric = read_evaluator(name)
        work[name] = lambda reply, metric=metric: metric.mark(Answer(reply, '42'))
    for name, read in sorted(work.items()):
        spent = []
        for size in (10_000, 40_000):
            start = time.process_time()
            read(piece * (size // len(piece)))
            spent.append(time.process_time() - start)
        assert spent[1] < 0.2 + 10 * spent[0], name
