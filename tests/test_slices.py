"""Scores of parts of a dataset: by column, length, place of the answer and class, alone and compared."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError
from rolecall.runs import RunReader
from rolecall.ui.cli.main import main
from rolecall.ui.report.slice_tables import RunSlices
from rolecall.ui.views.chinese import set_language

ROWS = [
    {
        'q': f'{number}',
        'id': f'row {number}',
        'label': 'pos' if number % 3 else 'neg',
        'language': 'de' if number % 2 else 'en',
        'hardness': number,
        'options': ['pos', 'neg'],
        'source': {'half': number % 2},
    }
    for number in range(120)
]


def knows(*languages: str) -> Any:
    """A model that answers right in these languages and says pos in others."""

    def answer(prompt: str) -> str:
        row = ROWS[int(re.findall(r'Q(\d+)', prompt)[0])]
        return str(row['label']) if row['language'] in languages else 'pos'

    answer.__name__ = 'm'
    return answer


def run(folder: Path, model: Any) -> Path:
    rolecall.run(ROWS, template='Q{q} {options}', answer='label', metric='exact', model=model, out=folder, quiet=True)
    return folder


@pytest.fixture(scope='module')
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp('runs')
    return run(folder / 'all', knows('de', 'en')), run(folder / 'english', knows('en'))


def test_a_run_is_scored_by_any_column_of_its_rows(both: tuple[Path, Path]) -> None:
    slices = {part.name: part for part in rolecall.open_run(both[1]).slices('language', 'hardness', 'answer_position')}
    assert {name: (part.rows, part.score) for name, part in slices.items() if part.column == 'language'} == {
        'language=de': (60, 40 / 60),
        'language=en': (60, 1.0),
    }
    parts = [part.value for part in slices.values() if part.column == 'hardness']
    assert parts == ['0 to 29', '30 to 59', '60 to 89', '90 to 119']
    assert (slices['answer_position=1'].score, slices['answer_position=2'].score) == (1.0, 0.5)
    low, high = slices['language=de'].low or 0, slices['language=de'].high or 0
    assert 0.5 < low < 40 / 60 < high < 0.8


def test_classes_have_precision_recall_and_a_confusion(both: tuple[Path, Path]) -> None:
    with RunReader(both[1]) as reader:
        [confusion] = RunSlices.of(reader, ['class']).confusions
    assert dict(confusion.counts) == {('neg', 'neg'): 20, ('neg', 'pos'): 20, ('pos', 'pos'): 80}
    negative, positive = confusion.classes
    assert (negative.precision, negative.recall) == (1.0, 0.5)
    assert (positive.precision, positive.recall) == (0.8, 1.0)
    assert confusion.macro_f1 == pytest.approx((2 / 3 + 8 / 9) / 2)


def test_the_report_shows_slices_in_every_form(
    both: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = ['report', str(both[1]), '--by', 'language,class']
    assert main(report) == 0
    table = capsys.readouterr().out
    assert 'rows by language' in table
    assert re.search(r'de +66\.7 \[5\d\.\d, 7\d\.\d\] +60 rows', table)
    assert 'confusion' in table
    assert main([*report, '--markdown']) == 0
    assert '| en | 100.0' in capsys.readouterr().out
    assert main([*report, '--csv']) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line['value'] for line in lines] == ['de', 'en', 'neg', 'pos']
    assert lines[2]['recall'] == '0.5'
    assert main([*report, '--json']) == 0
    assert {*json.loads(capsys.readouterr().out)} == {'scores', 'slices', 'classes'}
    page = tmp_path / 'report.html'
    assert main([*report, '--html', str(page)]) == 0
    assert '<h3>rows by language</h3>' in page.read_text()
    assert main(['--lang', 'zh', *report, '--html', str(page)]) == 0
    assert '>language</th>' in page.read_text(), 'names of columns are not translated'
    set_language('en')


def test_slices_have_models_in_the_order_of_the_scores_and_heads_that_are_not_translated(tmp_path: Path) -> None:
    zeta, alpha = knows('de'), knows('en')
    zeta.__name__, alpha.__name__ = 'zeta', 'alpha'
    with RunReader(run(tmp_path / 'run', [zeta, alpha])) as reader:
        (table,) = RunSlices.of(reader, ['language']).tables()
        order = dict.fromkeys(card.model for card in reader.scorecards())
    assert (table.heads, table.words) == (('language', *order), 0)


def test_compare_names_the_slices_that_got_worse(both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['compare', *map(str, both), '--by', 'language']) == 0
    assert capsys.readouterr().out.splitlines() == [
        'rows × m: worse in language=de, -33.3 on 60 rows, p <0.001',
        '1 of 2 slices without a difference beyond chance (p corrected by Holm).',
    ]
    assert main(['compare', *map(str, both), '--by', 'language', '--json']) == 0
    by_value = {part['value']: part for part in json.loads(capsys.readouterr().out)['slices']}
    assert by_value['en']['p'] == 1.0
    assert by_value['de']['paired']['difference'] == pytest.approx(-1 / 3)


def test_compare_looks_at_classes_and_inside_objects_and_a_gate_does_not_pass_by_slices(
    both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['compare', *map(str, both), '--by', 'class']) == 0
    assert capsys.readouterr().out.startswith('rows × m: worse in class=neg, -50.0 on 40 rows, p <0.001\n')
    [even, odd] = rolecall.open_run(both[1]).slices('source.half')
    assert (even.name, even.rows, odd.name) == ('source.half=0', 60, 'source.half=1')
    assert main(['compare', *map(str, both), '--by', 'language', '--gate']) == 2
    assert 'does not go with --gate' in capsys.readouterr().err


def test_a_column_that_is_not_there_or_has_too_many_values_is_refused(both: tuple[Path, Path]) -> None:
    opened = rolecall.open_run(both[0])
    with pytest.raises(ConfigError, match="no row has 'langauge'") as refusal:
        opened.slices('langauge')
    assert "Did you mean 'language'?" in str(refusal.value)
    with pytest.raises(ConfigError, match="'id' has 120 values, too many to compare"):
        opened.slices('id')


def test_answers_that_are_no_class_are_not_taken_for_a_class_called_other(tmp_path: Path) -> None:
    rows = [{'q': f'{number}', 'a': ('other', 'food')[number % 2]} for number in range(12)]
    asked = {'template': 'Q{q}', 'answer': 'a', 'metric': 'exact', 'out': tmp_path, 'quiet': True}
    rolecall.run(rows, model=lambda prompt: 'weather', **asked)
    with RunReader(tmp_path) as reader:
        [confusion] = RunSlices.of(reader, ['class']).confusions
    assert confusion.counts == {('other', '(no class)'): 6, ('food', '(no class)'): 6}


def test_classes_of_answers_that_are_all_alike_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{'q': f'{number}', 'a': 'yes'} for number in range(6)]
    rolecall.run(rows, template='Q{q}', answer='a', metric='exact', model=str.lower, out=tmp_path, quiet=True)
    assert main(['report', str(tmp_path), '--by', 'class']) == 2
    assert 'no dataset has 2 to 30 different gold answers' in capsys.readouterr().err
    assert main(['report', str(tmp_path), '--by', 'q']) == 0


def test_frames_have_the_columns_of_the_rows(both: tuple[Path, Path]) -> None:
    pytest.importorskip('pandas')
    frame = rolecall.open_run(both[1]).to_pandas()
    assert frame.groupby('language')['score'].mean().to_dict() == {'de': 40 / 60, 'en': 1.0}


def test_numbers_that_are_missing_belong_to_no_slice(tmp_path: Path) -> None:
    rows = [{'q': f'{number}', 'a': 'yes', 'age': float('nan') if number == 3 else number} for number in range(40)]
    rolecall.run(rows, template='Q{q}', answer='a', metric='exact', model=str.lower, out=tmp_path, quiet=True)
    slices = [(part.value, part.rows) for part in rolecall.open_run(tmp_path).slices('age')]
    assert slices == [('0 to 9', 9), ('10 to 19', 10), ('20 to 29', 10), ('30 to 39', 10)]


def test_numbers_of_a_csv_file_and_lengths_in_characters_are_divided(tmp_path: Path) -> None:
    lines = [f'{"x" * number},yes,{number if number != 3 else ""}' for number in range(1, 41)]
    file = tmp_path / 'rows.csv'
    file.write_text('\n'.join(['q,a,age', *lines]))
    out = tmp_path / 'run'
    rolecall.run(file, template='Q{q}', answer='a', metric='exact', model=str.lower, out=out, quiet=True)
    slices = [(part.name, part.rows) for part in rolecall.open_run(out).slices('age', 'length')]
    assert slices[:4] == [('age=1 to 10', 9), ('age=11 to 20', 10), ('age=21 to 30', 10), ('age=31 to 40', 10)]
    assert slices[4:] == [(f'length={low} to {low + 9}', 10) for low in (2, 12, 22, 32)]
