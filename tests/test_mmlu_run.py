"""MMLU's 57 subjects in the layout that the benchmark publishes, from the config to the rows of its groups."""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from rolecall.scoring.evaluators import read_evaluator
from rolecall.ui.cli.main import main

GROUPS = {
    'stem': [
        'abstract_algebra',
        'anatomy',
        'astronomy',
        'college_biology',
        'college_chemistry',
        'college_computer_science',
        'college_mathematics',
        'college_physics',
        'computer_security',
        'conceptual_physics',
        'electrical_engineering',
        'elementary_mathematics',
        'high_school_biology',
        'high_school_chemistry',
        'high_school_computer_science',
        'high_school_mathematics',
        'high_school_physics',
        'high_school_statistics',
        'machine_learning',
    ],
    'humanities': [
        'formal_logic',
        'high_school_european_history',
        'high_school_us_history',
        'high_school_world_history',
        'international_law',
        'jurisprudence',
        'logical_fallacies',
        'moral_disputes',
        'moral_scenarios',
        'philosophy',
        'prehistory',
        'professional_law',
        'world_religions',
    ],
    'social-science': [
        'econometrics',
        'high_school_geography',
        'high_school_government_and_politics',
        'high_school_macroeconomics',
        'high_school_microeconomics',
        'high_school_psychology',
        'human_sexuality',
        'professional_psychology',
        'public_relations',
        'security_studies',
        'sociology',
        'us_foreign_policy',
    ],
    'other': [
        'business_ethics',
        'clinical_knowledge',
        'college_medicine',
        'global_facts',
        'human_aging',
        'management',
        'marketing',
        'medical_genetics',
        'miscellaneous',
        'nutrition',
        'professional_accounting',
        'professional_medicine',
        'virology',
    ],
}
SUBJECTS = sorted(subject for subjects in GROUPS.values() for subject in subjects)
ROWS = 6
CONFIG = """
subjects = {subjects!r}
families = {groups!r}

def answer_well(prompt):
    return 'The answer is ' + prompt.rpartition('[')[2][0] + '.'

def answer_a(prompt):
    return 'A'

template = 'There is a question about {{name}}.\\n</E>Question: {{{{input}}}}\\nA. {{{{A}}}}\\nB. {{{{B}}}}\\nC. {{{{C}}}}\\nD. {{{{D}}}}\\nAnswer: '
datasets = [
    dict(
        abbr='lukaemon_mmlu_' + name, type='MMLUDataset', path='data/mmlu', name=name,
        reader_cfg=dict(input_columns=['input', 'A', 'B', 'C', 'D'], output_column='target', train_split='dev'),
        infer_cfg=dict(
            ice_template=dict(type='PromptTemplate', template='{{input}}\\nAnswer: {{target}}'),
            prompt_template=dict(type='PromptTemplate', template=template.format(name=name), ice_token='</E>'),
            retriever=dict(type='FixKRetriever', fix_id_list=[0, 1, 2, 3, 4]),
            inferencer=dict(type='GenInferencer', max_out_len=20),
        ),
        eval_cfg=dict(evaluator=dict(type='AccwithDetailsEvaluator'), pred_postprocessor=dict(type='first_option_postprocess', options='ABCD')),
    )
    for name in subjects
]
models = [dict(abbr='knows', type='Function', function=answer_well), dict(abbr='guesses', type='Function', function=answer_a)]
members = {{f'mmlu-{{name}}': ['lukaemon_mmlu_' + one for one in names] for name, names in families.items()}}
summarizer = dict(summary_groups=[
    *(dict(name=name, subsets=subsets) for name, subsets in members.items()),
    dict(name='mmlu', subsets=['lukaemon_mmlu_' + one for one in subjects]),
])
"""


def write_mmlu(folder: Path) -> Path:
    """Made-up questions; each carries its answer in brackets, and a fifth of the answers is A."""
    for number, subject in enumerate(SUBJECTS):
        for split, rows in (('dev', 5), ('val', 2), ('test', ROWS)):
            place = folder / 'data' / 'mmlu' / split / f'{subject}_{split}.csv'
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open('w', newline='') as file:
                for row in range(rows):
                    gold = 'ABCD'[(number + row) % 4]
                    hint = gold if row % 3 or split != 'test' else 'ABCD'[(number + row + 1) % 4]
                    csv.writer(file).writerow(
                        [f'"{subject}", question {row}, line\n2 [{hint}]', 'a', 'b,b', 'c', 'd', gold]
                    )
    config = folder / 'mmlu.py'
    config.write_text(CONFIG.format(subjects=SUBJECTS, groups=GROUPS))
    return config


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('mmlu')
    config = write_mmlu(folder)
    told = io.StringIO()
    with redirect_stderr(told):
        assert main(['run', str(config), '--out', str(folder / 'run'), '--quiet']) == 0
    first, last = (f'lukaemon_mmlu_{SUBJECTS[place]} × guesses' for place in (0, -1))
    warning = f"WARNING: {first} and 56 more, to {last}: every row has the same answer, 'A'."
    assert [line for line in told.getvalue().splitlines() if 'WARNING' in line] == [warning]
    return folder / 'run'


def report(run: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(['report', str(run), *options]) == 0
    return capsys.readouterr().out


def test_there_are_57_subjects() -> None:
    assert len(SUBJECTS) == len(set(SUBJECTS)) == 57
    assert read_evaluator('AccwithDetailsEvaluator').name == 'accuracy'


def test_mmlu_and_its_four_groups_are_rows_of_the_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO(report(run, capsys, '--csv'))))
    found = {(line['dataset'], line['model']): line for line in lines}
    assert len(found) == 2 * (57 + 5)
    for model, right in (
        ('knows', lambda number, row: row % 3 != 0),
        ('guesses', lambda number, row: (number + row) % 4 == 0),
    ):
        share = {
            subject: 100 * sum(right(number, row) for row in range(ROWS)) / ROWS
            for number, subject in enumerate(SUBJECTS)
        }
        for subject in SUBJECTS:
            assert float(found[f'lukaemon_mmlu_{subject}', model]['value']) == pytest.approx(share[subject])
        for group, subjects in {**{f'mmlu-{name}': one for name, one in GROUPS.items()}, 'mmlu': SUBJECTS}.items():
            line = found[group, model]
            mean = sum(share[subject] for subject in subjects) / len(subjects)
            assert float(line['value']) == pytest.approx(mean)
            assert float(line['low']) <= mean <= float(line['high'])
            assert (line['scored'], line['total']) == (str(ROWS * len(subjects)),) * 2


def test_subjects_are_folded_under_their_group(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = report(run, capsys)
    assert 'mmlu-stem' in shown
    assert 'lukaemon_mmlu_anatomy' not in shown
    assert 'lukaemon_mmlu_anatomy' in report(run, capsys, '--all')
    assert 'knows beats guesses by' in shown
    assert main(['report', str(run), '--html', str(tmp_path / 'mmlu.html')]) == 0
    page = (tmp_path / 'mmlu.html').read_text()
    assert page.count('lukaemon_mmlu_') >= 57
    assert '57 datasets in groups' in page
    assert page.count('class="fold"') == 4  # the fields are folded; MMLU itself stands before them
    assert page.index('<bdi>mmlu</bdi>') < page.index('<bdi>mmlu-stem</bdi>')


def test_every_row_of_the_run_has_its_question_and_five_examples(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(['export', 'results', str(run), '--prompts', '--model', 'knows']) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 57 * ROWS
    first = rows[0]
    assert first['fields']['B'] == 'b,b'
    assert first['requests'][0].count('Answer:') == 6
    assert first['requests'][0].startswith('There is a question about abstract_algebra.')
    assert {row['outcome'] for row in rows} == {'ok'}
