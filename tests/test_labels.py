"""Labels from people: joined with a run, kept with it, and the scores that are corrected by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import rolecall
from rolecall.errors import DataError
from rolecall.insight.calibration import calibrate, carry_calibration
from rolecall.insight.label_files import LabelColumns, join_labels
from rolecall.insight.strata import check_orders, queue_rows, stratify
from rolecall.runs.store.copies import merge_runs, repair_run
from rolecall.runs.store.labels import Decision, Labels
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import cohen_kappa, krippendorff_alpha
from rolecall.ui.cli.main import main
from rolecall.ui.web.label_queue import LabelQueue
from tables import in_one

REFERENCE = json.loads((Path(__file__).parent / 'data' / 'rater_agreement.json').read_text())
"""Values of scikit-learn's cohen_kappa_score (with and without weights) and of the package krippendorff."""

JUDGED = """
def answer(prompt):
    return prompt.removeprefix('say ').upper()
def judge(prompt):
    return 'A' if 'A' in prompt.partition('Answer: ')[2] else 'B'
models = [dict(abbr='m', type='Function', function=answer)]
datasets = [
    dict(abbr='words', type='Rows', test=[dict(id=f'w{n}', q=word) for n, word in enumerate('an bee cat dog ear fox gas hut'.split())],
         reader_cfg=dict(input_columns=['q']),
         infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='say {q}'), inferencer=dict(type='GenInferencer', max_out_len=9)),
         eval_cfg=dict(evaluator=dict(type='GenericLLMEvaluator', judge_cfg=dict(abbr='j', type='Function', function=judge),
                                      prompt_template=dict(type='PromptTemplate', template='PROMPT Answer: {prediction}')))),
]
"""
"""The judge accepts words with an A: an, cat, ear, gas."""


@pytest.fixture(scope='module')
def judged_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp('judged')
    (folder / 'config.py').write_text(JUDGED)
    assert main(['run', str(folder / 'config.py'), '--out', str(folder / 'run'), '--quiet', '--force']) == 0
    return folder / 'run'


@pytest.fixture
def judged(judged_once, tmp_path):
    return Path(shutil.copytree(judged_once, tmp_path / 'run'))


def store_run(directory, marks, *, model='m', clusters=None, replies='r', unit='%'):
    """A run whose rows have these marks."""
    store = Store(directory)
    rows = [
        Result(
            'd',
            model,
            row,
            'ok',
            replies=(f'{replies}{row}',),
            gold='g',
            score=float(mark),
            correct=bool(mark) if mark in (0, 1) else None,
            cluster=clusters[row] if clusters else None,
        )
        for row, mark in enumerate(marks)
    ]
    store.record_scores(
        [
            Scorecard(
                'd', model, 'accuracy', 100 * sum(marks) / len(marks), scored=len(marks), total=len(marks), unit=unit
            )
        ],
        rows,
    )
    store.close()
    return directory


@in_one
@pytest.mark.parametrize('case', REFERENCE)
def test_kappa_and_alpha_equal_those_of_reference_implementations(case):
    both = [(ratings[0], ratings[1]) for ratings in case['ratings'] if '.' not in ratings[:2]]
    weights = [1 + place % 3 for place in range(len(both))]
    numbers = [[int(rating) for rating in ratings if rating != '.'] for ratings in case['ratings']]
    assert cohen_kappa(both) == pytest.approx(case['kappa'])
    assert cohen_kappa(both, weights) == pytest.approx(case['weighted'])
    assert krippendorff_alpha(numbers) == pytest.approx(case['interval'])
    if not {*''.join(case['ratings'])} - {*'01.'}:  # of two classes, the distance of names is that of numbers
        assert krippendorff_alpha(numbers) == pytest.approx(case['nominal'])


def test_a_calibration_does_not_depend_on_the_order_in_which_rows_were_labelled(tmp_path):
    labels = [dict(row=row, label='correct' if row % 3 else 'wrong') for row in range(40)]
    calibrations = []
    for name, table in (('first', labels), ('second', labels[::-1])):
        join_labels(store_run(tmp_path / name, [1, 1, 0, 1] * 10), table)
        with RunReader(tmp_path / name) as run:
            calibrations += calibrate(run)
    assert calibrations[0] == calibrations[1]


class Votes:
    """A list as Parquet files and frames have it: an array, which has no truth value."""

    def __init__(self, votes):
        self.votes = votes

    def tolist(self):
        return self.votes

    def __bool__(self):
        raise ValueError('ambiguous')


TABLES = [
    ([{'id': 'w0', 'label': 'correct'}], {}, {('', 0): 'correct'}),
    ([{'row': '3', 'verdict': 'No', 'annotator': 'ann'}], {}, {('ann', 3): 'wrong'}),
    ([{'reply': 'CAT', 'label': True}], {}, {('', 2): 'correct'}),
    ([{'q': 'dog', 'ann': '5', 'bob': 3}], {'label': ('ann', 'bob'), 'correct_from': 4}, {('ann', 3): 'correct', ('bob', 3): 'wrong'}),
    ([{'q': 'dog', 'rating': 4}], {'scale': (1, 5)}, {('', 3): 0.75}),
    ([{'q': 'dog', 'votes': [1, 2, 0]}], {'words': {'1': 'win', '2': 'loss', '0': 'tie'}},
     {('votes 1', 3): 'win', ('votes 2', 3): 'loss', ('votes 3', 3): 'tie'}),
    ([{'q': 'bee', 'label': 'yes'}, {'q': 'bee', 'label': 'no'}], {}, {('', 1): 'correct', ('2', 1): 'wrong'}),
    ([{'q': 'bee', 'votes': '["yes", "no"]'}], {}, {('votes 1', 1): 'correct', ('votes 2', 1): 'wrong'}),
    ([{'q': 'bee', 'label': ''}, {'q': 'an', 'label': 'right'}], {}, {('', 0): 'correct'}),
    ([{'dataset': 'words', 'model': 'm', 'row': 7, 'label': 0.5, 'by': 'ann'}], {}, {('ann', 7): 0.5}),
    ([{'row': 3.0, 'label': 1.0}, {'row': 2.0, 'label': float('nan')}], {}, {('', 3): 'correct'}),
    ([{'q': 'bee', 'votes': Votes([1, 0])}], {}, {('votes 1', 1): 'correct', ('votes 2', 1): 'wrong'}),
    ([{'id': 'w1', 'stars': '5'}], {'label': 'stars', 'on': 'id', 'correct_from': 4}, {('', 1): 'correct'}),
]  # fmt: skip


def test_labels_of_a_table_are_joined_by_number_or_content(judged):
    for records, columns, expected in TABLES:
        (judged / 'labels.jsonl').unlink(missing_ok=True)
        join_labels(judged, records, LabelColumns(**columns))
        labels = {
            (by, key[2]): said.value for key, people in Labels(judged).by_row().items() for by, said in people.items()
        }
        assert labels == expected, records


REFUSED = [
    ([], {}, 'the table is empty'),
    ([{'id': 'w0'}], {}, 'no column of labels'),
    ([{'id': 'w0', 'label': 'correct'}], {'by': 'who'}, "no column 'who'"),
    ([{'name': 'w0', 'label': 'correct'}], {}, 'no column of the table says which row is meant'),
    ([{'id': 'w0', 'label': 4}], {}, '--scale 1:5'),
    ([{'id': 'w0', 'label': 'correct'}, {'id': 'w1', 'label': 'splendid'}], {}, "record 2: unknown label 'splendid'"),
    ([{'id': 'w0', 'label': 7}], {'scale': (1, 5)}, 'not on the scale 1:5'),
]


def test_a_table_that_cannot_be_read_as_labels_says_why(judged):
    for records, columns, message in REFUSED:
        with pytest.raises(DataError, match=message):
            join_labels(judged, records, LabelColumns(**columns))
        assert not (judged / 'labels.jsonl').exists(), records


def test_labels_rows_to_label_and_calibrations_are_those_of_the_chosen_model(tmp_path, capsys):
    run = store_run(tmp_path / 'run', [1, 0, 1, 0])
    merge_runs(run, [store_run(tmp_path / 'other', [1, 1, 0, 0], model='n')])
    join_labels(run, [{'row': row, 'model': model, 'label': 'correct'} for row in (0, 1) for model in 'mn'])
    for options in (['--model', 'n'], ['--model', 'n', '--calibration', str(run)], ['--model', 'n', '--todo', '9']):
        assert main(['runs', 'label', str(run), *options]) == 0
        printed = capsys.readouterr().out
        assert 'd × n' in printed or 'd,n,' in printed
        assert 'd × m' not in printed
        assert 'd,m,' not in printed
    for option in ('--model', '--dataset'):
        assert main(['runs', 'label', str(run), option, 'nobody']) == 2
        assert f"the run has no {option[2:]} 'nobody'. Known: " in capsys.readouterr().err


def test_lines_that_fit_no_row_or_several_are_left_out_and_named(judged, tmp_path, capsys):
    (tmp_path / 'labels.csv').write_text('id,label\nw1,wrong\nw99,correct\n')
    assert main(['runs', 'label', str(judged), str(tmp_path / 'labels.csv')]) == 1
    printed = capsys.readouterr().out
    assert "1 label on 1 row by 1 person added.\n1 line left out:\n  2: no row of the run has id 'w99'." in printed
    (tmp_path / 'labels.csv').write_text('id,q,label\nw1,a bee,wrong\n')
    assert main(['runs', 'label', str(judged), str(tmp_path / 'labels.csv')]) == 1
    assert '--on chooses the columns that have to be equal.' in capsys.readouterr().out
    assert main(['runs', 'label', str(judged), str(tmp_path / 'labels.csv'), '--on', 'id']) == 0
    two = store_run(tmp_path / 'two', [1, 0])
    merge_runs(two, [store_run(tmp_path / 'other', [1, 1], model='n')])
    joined = join_labels(two, [{'row': 1, 'label': 'wrong'}])
    assert joined.problems == (
        "1: 2 rows have row '1' (d × m, d × n). Name --dataset, --model or more columns with --on.",
    )
    assert join_labels(two, [{'row': 1, 'label': 'wrong'}], LabelColumns(model='n')).labels == 1
    by_gold = LabelColumns(model='n', on=('gold',))
    [problem] = join_labels(two, [{'gold': 'g', 'label': 'wrong'}], by_gold).problems
    assert problem == "1: 2 rows have gold 'g' (d × n, d × n). Name more columns with --on."


def test_labels_of_a_table_that_names_another_reply_or_model_are_left_out(judged):
    table = [{'row': 1, 'reply': 'another', 'label': 'wrong'}, {'row': 2, 'reply': ' CAT\n', 'label': 'correct'}]
    joined = join_labels(judged, [*table, {'row': 3, 'model': 'n', 'label': 'wrong'}])
    assert [problem.partition(' --on')[0] for problem in joined.problems] == [
        "1: no row of the run has row '1', reply 'another'.",
        "3: no row of the run has row '3', model 'n'.",
    ]
    assert join_labels(judged, table, LabelColumns(on='row')).labels == 2
    assert join_labels(judged, [{'row': 2, 'id': 'w1', 'label': 'wrong'}], LabelColumns(on=('row', 'id'))).labels == 0
    assert join_labels(judged, [{'row': 2, 'id': 'w2', 'label': 'wrong'}], LabelColumns(on=('row', 'id'))).labels == 1
    lines = [json.loads(line) for line in (judged / 'labels.jsonl').read_text().splitlines()]
    assert join_labels(judged, lines[:1]).labels == 1  # `reply` is a digest there


def test_a_label_file_may_have_another_encoding_and_replaced_labels_are_counted(judged, tmp_path, capsys):
    file = tmp_path / 'labels.csv'
    file.write_bytes('row,label,by\n0,correct,Jürgen\n1,wrong,Jürgen\n'.encode('latin-1'))
    assert main(['runs', 'label', str(judged), str(file)]) == 2
    assert '--encoding cp1252' in capsys.readouterr().err
    assert main(['runs', 'label', str(judged), str(file), '--encoding', 'cp1252']) == 0
    assert 'replaced' not in capsys.readouterr().out
    file.write_text('row,label,by\n0,correct,Jürgen\n1,correct,Jürgen\n')
    assert main(['runs', 'label', str(judged), str(file)]) == 0
    assert (
        '2 labels on 2 rows by 1 person added.\n1 earlier label by the same people replaced.' in capsys.readouterr().out
    )


def label_rows(directory, labels, by=''):
    """Label rows of `d × m` by number."""
    store = Labels(directory)
    with RunReader(directory) as run:
        for row, label in labels.items():
            store.add(('d', 'm', row), label, by=by, result=run.result('d', 'm', row))


def calibration_of(directory):
    with RunReader(directory) as run:
        [calibration] = calibrate(run)
    return calibration


def test_a_score_is_corrected_by_labels_and_says_what_would_halve_its_interval(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 60 + [0] * 40)
    label_rows(
        run, {row: 'correct' if row % 4 else 'wrong' for row in range(20)} | dict.fromkeys(range(60, 80), 'wrong')
    )
    calibration = calibration_of(run)
    assert calibration.raw.value == 0.6
    assert calibration.corrected.value == pytest.approx(0.45)
    assert calibration.corrected.low < 0.4 < 0.5 < calibration.corrected.high < 0.6
    assert (calibration.corrected.labels, calibration.people, calibration.alpha) == (40, 1, None)
    assert calibration.rogan_gladen.value == pytest.approx(0.45)
    right, wrong = calibration.classes
    assert (right.name, right.precision.value, right.recall.value) == ('correct', 0.75, 1.0)
    assert wrong.recall.value == pytest.approx(40 / 55)  # each label stands for as many rows as its verdict has
    assert calibration.agreement.value == pytest.approx(0.85)
    more = calibration.corrected.halved_by
    assert more is None or more > 40


def test_labels_and_the_rows_to_label_next_come_in_one_command(tmp_path, capsys):
    run = store_run(tmp_path / 'run', [1, 0, 1, 0])
    (tmp_path / 'labels.csv').write_text('row,label\n0,correct\n1,wrong\n')
    assert main(['runs', 'label', str(run), str(tmp_path / 'labels.csv'), '--todo', '9']) == 0
    printed = capsys.readouterr()
    assert '2 labels on 2 rows' in printed.err
    assert [line.split(',')[:3] for line in printed.out.splitlines()[1:]] in (
        [['d', 'm', '2'], ['d', 'm', '3']],
        [['d', 'm', '3'], ['d', 'm', '2']],
    )
    label_rows(run, {2: 'correct', 3: 'wrong'})
    assert main(['runs', 'label', str(run), '--todo', '9']) == 0
    printed = capsys.readouterr()
    assert (printed.out, 'Every row with a verdict is labelled.' in printed.err) == ('', True)
    assert calibration_of(run).corrected.halved_by is None  # there are no more rows


def test_all_rows_labelled_leave_only_the_uncertainty_of_the_rows(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 60 + [0] * 40)
    label_rows(run, {row: 'correct' if row < 60 else 'wrong' for row in range(100)})
    calibration = calibration_of(run)
    assert calibration.corrected.value == 0.6
    assert calibration.kappa.value == 1.0
    assert 0.48 < calibration.corrected.low < calibration.corrected.high < 0.72
    assert calibration.corrected.halved_by is None


def test_rows_of_one_cluster_count_once(tmp_path):
    marks = [row % 2 for row in range(100)]
    widths = []
    for name, clusters in (('alone', None), ('together', [f'c{row // 10}' for row in range(100)])):
        run = store_run(tmp_path / name, marks, clusters=clusters)
        label_rows(run, {row: 'correct' if row % 2 else 'wrong' for row in range(0, 60, 3)})
        corrected = calibration_of(run).corrected
        widths.append(corrected.high - corrected.low)
    assert widths[1] > 1.5 * widths[0]


def test_reports_show_the_corrected_score(tmp_path, capsys):
    run = store_run(tmp_path / 'run', [1] * 60 + [0] * 40)
    label_rows(run, {row: 'correct' if row < 30 else 'wrong' for row in range(100)})
    corrected = 'd × m: accuracy 60.0 [50.2, 69.1]; corrected by 100 labelled rows (1 person): 30.0 ['
    for command in (['report'], ['report', '--markdown'], ['report', '--html', str(tmp_path / 'report.html')]):
        assert main([*command, str(run)]) == 0
    assert ' '.join(capsys.readouterr().out.replace('\\', '').split()).count(corrected) == 2
    assert corrected.split(';')[1] in (tmp_path / 'report.html').read_text()


def test_several_people_are_settled_by_most_and_divided_ones_named(tmp_path, capsys):
    run = store_run(tmp_path / 'run', [1] * 10 + [0] * 10)
    label_rows(run, dict.fromkeys(range(20), 'correct'), by='ann')
    label_rows(run, dict.fromkeys(range(10), 'correct') | dict.fromkeys(range(10, 15), 'wrong'), by='bob')
    label_rows(run, dict.fromkeys(range(10, 13), 'wrong'), by='eve')
    calibration = calibration_of(run)
    assert (calibration.people, calibration.conflicts) == (3, 2)
    assert calibration.alpha == pytest.approx(krippendorff_alpha([[1, 1]] * 10 + [[1, 0, 0]] * 3 + [[1, 0]] * 2))
    assert main(['runs', 'label', str(run)]) == 0
    assert 'people are divided on 2 rows; one more label decides.' in capsys.readouterr().out
    label_rows(run, dict.fromkeys((13, 14), 'wrong'), by='eve')
    assert calibration_of(run).conflicts == 0


def test_preferences_and_ratings_are_corrected_on_their_own_scales(tmp_path):
    games = store_run(tmp_path / 'games', [1, 0.5, 0] * 40)
    label_rows(games, {row: ('win', 'tie', 'loss')[row % 3] for row in range(30)} | {30: 'tie', 33: 'tie'})
    calibration = calibration_of(games)
    assert [kind.name for kind in calibration.classes] == ['win', 'tie', 'loss']
    assert calibration.rogan_gladen is None
    assert calibration.corrected.value == pytest.approx(0.5 - 40 / 120 * 2 / 12 / 2)
    ratings = store_run(tmp_path / 'ratings', [(row % 9) / 10 for row in range(200)])
    label_rows(ratings, {row: (row % 9) / 10 + 0.1 for row in range(0, 60, 2)})
    calibration = calibration_of(ratings)
    assert calibration.corrected.value == pytest.approx(calibration.raw.value + 0.1, abs=1e-6)
    assert calibration.corrected.low > calibration.raw.value
    assert calibration.kappa.value < 1
    stars = store_run(tmp_path / 'stars', [1 + row % 9 for row in range(90)], unit='')
    label_rows(stars, {row: float(1 + row % 9) for row in range(30)})
    calibration = calibration_of(stars)
    assert (calibration.factor, calibration.raw.value, calibration.corrected.value) == (1.0, 5.0, 5.0)
    assert 1 <= calibration.raw.low < 5 < calibration.raw.high <= 9


def test_labels_of_a_rating_are_numbers_on_its_scale(tmp_path):
    stars = store_run(tmp_path / 'stars', [1 + row % 9 for row in range(90)], unit='')
    for label, columns in [('correct', {}), (4, {'scale': (1, 5)}), (4, {'correct_from': 4})]:
        with pytest.raises(DataError, match='record 1: the score is a rating: use numbers on its scale'):
            join_labels(stars, [{'row': 0, 'label': label}], LabelColumns(**columns))
    assert join_labels(stars, [{'row': 0, 'label': '4'}]).labels == 1


def test_a_label_belongs_to_the_reply_it_was_made_about(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 5)
    label_rows(run, {0: 'wrong', 1: 'correct'})
    store = Store(run)
    store.update_rows([Result('d', 'm', 0, 'ok', replies=('another',), score=1.0, correct=True)])
    store.close()
    calibration = calibration_of(run)
    assert (calibration.corrected.labels, calibration.stale) == (1, 1)


def test_labels_and_answers_come_along_when_runs_are_merged_or_repaired(tmp_path):
    run = store_run(tmp_path / 'run', [1, 0, 1])
    label_rows(run, {0: 'wrong'}, by='ann')
    label_rows(run, {0: 'correct', 1: 0.25}, by='bob')
    Labels(run, 'answer').add(('d', 'm', 2), None, by='ann')
    for _ in range(2):
        merge_runs(tmp_path / 'merged', [run])
    assert (tmp_path / 'merged' / 'labels.jsonl').read_text().count('\n') == 4
    repair_run(run, tmp_path / 'saved')
    for target in ('merged', 'saved'):
        for kind in ('label', 'answer'):
            assert Labels(tmp_path / target, kind).by_row() == Labels(run, kind).by_row()


def test_decisions_are_exported_as_a_table_that_can_be_joined_again(tmp_path, capsys):
    run, file = store_run(tmp_path / 'run', [1, 0]), str(tmp_path / 'labels.csv')
    label_rows(run, {0: 'wrong', 1: 0.25}, by='ann')
    assert main(['export', 'results', str(run), '--labels', '-o', file]) == 0
    first = Path(file).read_text().splitlines()[:2]
    assert first == [
        'dataset,model,row,by,label,answer,reply,gold,read,score,current',
        'd,m,0,ann,wrong,,r0,g,,1.0,True',
    ]
    before = Labels(run).by_row()
    (run / 'labels.jsonl').unlink()
    assert main(['runs', 'label', str(run), file]) == 0
    assert Labels(run).by_row() == before
    assert main(['export', 'results', str(run), '--labels', '-o', str(tmp_path / 'labels.parquet')]) == 2
    assert 'name a .jsonl or .csv file' in capsys.readouterr().err


def test_labels_of_one_run_are_joined_with_another_by_content(judged, judged_once, tmp_path):
    join_labels(judged, [{'id': 'w0', 'label': 'correct', 'by': 'ann'}, {'id': 'w1', 'label': 'wrong', 'by': 'ann'}])
    other = Path(shutil.copytree(judged_once, tmp_path / 'other'))
    assert main(['runs', 'label', str(other), str(judged)]) == 0
    assert Labels(other).by_row() == Labels(judged).by_row()


def test_a_calibration_is_stale_where_the_judge_has_another_model_prompt_or_reader(judged, tmp_path, capsys):
    join_labels(judged, [{'row': row, 'label': label} for row, label in enumerate(['correct', 'wrong'] * 4)])
    changes = {
        '': ('', ''),
        'prompt': ('PROMPT', 'Is this right?'),
        'model': ("abbr='j'", "abbr='k'"),
        'model ': ("'A' in prompt.", "'B' in prompt."),  # what the function does
        'reader': ('eval_cfg=dict(', "eval_cfg=dict(unparsed='exclude', "),
    }
    for part, (before, after) in changes.items():
        folder = tmp_path / f'changed {part}'
        folder.mkdir()
        (folder / 'config.py').write_text(JUDGED.replace(before, after) if part else JUDGED)
        main(['run', str(folder / 'config.py'), '--out', str(folder / 'new'), '--quiet', '--force'])
        with RunReader(folder / 'new') as run:
            [(carried, why)] = carry_calibration(run, judged)
        assert why == (f'the calibration is stale: {part.strip()} changed' if part else '')
        assert (carried.rogan_gladen is None) == bool(part)
    capsys.readouterr()
    assert main(['runs', 'label', str(folder / 'new'), '--calibration', str(judged)]) == 0
    assert 'not corrected: the calibration is stale: reader changed. Label 30 rows' in capsys.readouterr().out


def test_labels_of_one_person_about_one_row_count_once(judged):
    lines = [{'row': 0, 'by': 'ann', 'label': label} for label in ('correct', 'correct', 'wrong')]
    joined = join_labels(judged, lines)
    assert (joined.labels, joined.rows, joined.people) == (1, 1, 1)
    assert joined.problems == ('3: ann labels a row again; the earlier label does not count.',)
    [(_, decisions)] = Labels(judged).by_row().items()
    assert [decision.value for decision in decisions.values()] == ['wrong']


def test_grades_of_rows_that_are_right_or_wrong_have_no_classes(judged):
    join_labels(judged, [{'row': row, 'rating': row % 5 + 1} for row in range(8)], LabelColumns(scale=(1, 5)))
    with RunReader(judged) as run:
        [calibration] = calibrate(run)
    assert (calibration.agreement, calibration.classes) == (None, ())
    assert calibration.kappa is not None
    assert calibration.corrected.value == pytest.approx(0.4, abs=0.1)


def test_carried_calibrations_are_json_too(judged, capsys):
    join_labels(judged, [{'row': row, 'label': 'wrong'} for row in range(4)])
    assert main(['runs', 'label', str(judged), '--json', '--calibration', str(judged)]) == 0
    own, carried = map(json.loads, capsys.readouterr().out.splitlines())
    assert 'carried_from' not in own
    assert carried['stale'].endswith('needs labelled rows of both kinds, judged better than by chance')


def test_a_calibration_is_not_carried_to_another_model(judged, tmp_path):
    join_labels(judged, [{'row': row, 'label': label} for row, label in enumerate(['correct', 'wrong'] * 4)])
    (tmp_path / 'config.py').write_text(JUDGED.replace("abbr='m'", "abbr='other'"))
    main(['run', str(tmp_path / 'config.py'), '--out', str(tmp_path / 'new'), '--quiet', '--force'])
    with RunReader(tmp_path / 'new') as run:
        [(carried, why)] = carry_calibration(run, judged)
    assert carried.rogan_gladen is None
    assert 'no labels of this dataset and model' in why


def test_labels_without_a_verdict_beside_them_are_not_called_missing(tmp_path, capsys):
    run = store_run(tmp_path / 'run', [1, 0])
    store = Store(run)
    store.record_scores([], [Result('d', 'm', 2, 'unjudged', replies=('r2',))])
    store.close()
    (tmp_path / 'labels.csv').write_text('row,label\n2,correct\n')
    assert main(['runs', 'label', str(run), str(tmp_path / 'labels.csv')]) == 0
    assert 'No labelled row has a verdict yet.' in capsys.readouterr().err


def test_rows_to_label_next_are_those_that_narrow_the_interval_most(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 80 + [0] * 20)
    with RunReader(run) as reader:
        pairs = stratify(reader)
        first = queue_rows(pairs, {}, 20)
        surely_wrong = {('d', 'm', row): 0.0 for row in range(80, 90)}
        unsure = {('d', 'm', row): float(row % 2) for row in range(10)}
        later = queue_rows(pairs, surely_wrong | unsure, 10)
    assert len(set(first)) == 20
    assert any(row >= 80 for *_, row in first)
    assert all(10 <= row < 80 for *_, row in later)
    assert [row for *_, row in first] != sorted(row for *_, row in first)  # drawn, not in order


def test_the_queue_of_the_page_goes_on_behind_skipped_rows_and_lists_changed_replies_again(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 30)
    Labels(run).add_all([(('d', 'm', row), 'ann', Decision('correct', 'of another reply')) for row in range(30)])
    with RunReader(run) as reader:
        queue = LabelQueue(reader)
        counts = [len(queue.next_rows('label', '', skipped)['rows']) for skipped in (0, 5, 20)]
    assert counts == [20, 25, 30]


def test_an_order_of_models_stays_only_if_the_labels_leave_it(tmp_path):
    run = store_run(tmp_path / 'run', [1] * 90 + [0] * 10)
    merge_runs(run, [store_run(tmp_path / 'other', [1] * 50 + [0] * 50, model='n')])
    with RunReader(run) as reader:
        pairs = stratify(reader)
        for labels, survives in ((1.0, True), (0.0, False)):
            sampled = {
                pair: (rows, rows.strata({row: labels if row < 50 else 0.0 for row in range(0, 100, 2)}))
                for pair, rows in pairs.items()
            }
            [order] = check_orders(
                reader,
                {
                    ('d', 'm'): (
                        pairs['d', 'm'],
                        pairs['d', 'm'].strata(
                            {row: 1.0 if row < 90 else 0.0 for row in range(100)} if survives else {}
                        ),
                    ),
                    ('d', 'n'): sampled['d', 'n'],
                },
            )
            assert (order.better, order.worse, order.low > 0) == ('m', 'n', survives)


def test_the_python_result_of_a_run_takes_labels(tmp_path):
    rows = [{'question': f'{number} + 1', 'answer': str(number + 1)} for number in range(6)]
    run = rolecall.run(
        rows,
        model=lambda prompt: str(eval(prompt)),
        template='{question}',
        answer='answer',
        out=tmp_path / 'run',
        quiet=True,
    )
    [calibration] = run.label(
        [{'question': '0 + 1', 'label': 'correct', 'by': 'ann'}, {'question': '3 + 1', 'label': 'wrong', 'by': 'ann'}]
    )
    assert (calibration.corrected.labels, calibration.agreement.value) == (2, 0.5)
    assert run.label() == [calibration]
