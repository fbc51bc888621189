"""Gold answers in doubt: rows where strong models agree, with certain readings, on another answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rolecall import run_config
from rolecall.insight.doubted_gold import doubt_gold
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main

GOLD = {'a': '1', 'b': '2', 'c': '3', 'd': '4', 'e': '5'}


def run_models(folder: Path, **models: Mapping[str, str]) -> Path:
    """A run in which each model gives the gold answer, unless it has another reply to a row."""
    dataset = {
        'abbr': 'letters',
        'type': 'Rows',
        'test': [{'question': letter, 'answer': number} for letter, number in GOLD.items()],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
        'eval_cfg': {'evaluator': 'AccEvaluator', 'pred_postprocessor': 'stated_number_postprocess'},
    }
    entries = [
        {'abbr': name, 'type': lambda prompt, own=own: own.get(prompt, f'The answer is {GOLD[prompt]}.')}
        for name, own in models.items()
    ]
    run_config({'models': entries, 'datasets': [dataset]}, out=folder / 'run')
    return folder / 'run'


NINE = 'The answer is 9.'


def test_a_row_that_strong_models_contradict_with_one_voice_is_doubted(tmp_path: Path) -> None:
    run = run_models(tmp_path, x={'c': NINE}, y={'c': NINE, 'a': NINE}, weak=dict.fromkeys('abde', 'The answer is 7.'))
    with RunReader(run) as reader:
        [row], scores = doubt_gold(reader)
    assert (row.row, row.gold, row.proposed, row.votes) == (2, '3', '9', {'x': '9', 'y': '9'})
    assert row.digest
    assert {score.model: (score.score, score.without, score.patched) for score in scores} == {
        'x': (80.0, 100.0, 100.0),
        'y': (60.0, 75.0, 80.0),
        'weak': (20.0, 0.0, 0.0),
    }


@pytest.mark.parametrize(
    ('x', 'y'),
    [
        ({'c': NINE}, {}),
        ({'c': NINE}, {'c': 'The answer is 8.'}),
        ({'c': NINE}, {'c': 'Nine or so, or 8, hard to tell, maybe 7 too'}),
    ],
    ids=['one model has the gold answer', 'they disagree', 'one answer is not certain'],
)
def test_other_rows_are_not_doubted(x: Mapping[str, str], y: Mapping[str, str], tmp_path: Path) -> None:
    with RunReader(run_models(tmp_path, x=x, y=y)) as reader:
        assert doubt_gold(reader) == ([], [])


def test_the_command_lists_scores_and_writes_a_patch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(run_models(tmp_path, x={'c': NINE}, y={'c': NINE}, z={'d': NINE}))
    patch = tmp_path / 'patch.jsonl'
    assert main(['score', run, '--doubted', 'x', 'y', '--patch', str(patch)]) == 0
    out = capsys.readouterr().out
    assert "letters, row 2: gold '3', but '9' by 2 models: x, y" in out
    assert 'letters × x: 80.0; 100.0 [51.0, 100.0] without them; 100.0 with the other answer as gold' in out
    [line] = map(json.loads, patch.read_text().splitlines())
    assert (line['dataset'], line['row'], line['gold'], line['proposed']) == ('letters', 2, '3', '9')
    assert main(['score', run, '--doubted', '--json']) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == line
    assert main(['score', run, '--doubted', 'x', 'z']) == 0
    assert not capsys.readouterr().out
