"""Gold answers in doubt: rows where strong models agree, with certain readings, on another answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rolecall import run_config
from rolecall.insight.doubted_gold import doubt_gold, score_patched
from rolecall.insight.run_source import StoredRun
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main

GOLD = {'a': '1', 'b': '2', 'c': '3', 'd': '4', 'e': '5'}


PATCHES = [
    ('', 'is empty. rolecall score RUN --doubted --patch FILE writes one.'),
    ('{"dataset": "sums", "row": 0}', 'is not a patch of gold answers'),
    (
        '{"dataset": "sums", "digest": "DIGEST", "row": "0", "gold": "8", "proposed": "9"}',
        "line 1: expected a whole number as row and a text as proposed, got '0' and '9'.",
    ),
    (
        '{"dataset": "sums", "digest": "DIGEST", "row": 0, "gold": "8", "proposed": 9}',
        'line 1: expected a whole number as row and a text as proposed, got 0 and 9.',
    ),
]


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
        [row] = doubt_gold(reader)
        scores = score_patched(reader, [row])
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
        assert doubt_gold(reader) == []


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


def test_a_patch_replaces_gold_answers_of_the_rows_that_it_was_written_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('parts.py').write_text(
        'def model(prompt):\n    with open("asked.txt", "a") as file:\n        file.write("x")\n    return "9"\n'
    )
    Path('sums.csv').write_text('question,answer\n4 + 5?,8\n4 + 4?,8\n')
    run = [
        'run',
        'sums.csv',
        '--answer',
        'answer',
        '--metric',
        'number',
        '--model',
        'parts:model',
        '--out',
        'run',
        '-q',
    ]
    assert main(run) == 0
    with RunReader('run') as reader:
        digest = next(iter(StoredRun(reader).parts.values())).rows
    record = {'dataset': 'sums', 'digest': digest, 'row': 0, 'gold': '8', 'proposed': '9'}
    Path('patch.jsonl').write_text(json.dumps(record) + '\n')
    capsys.readouterr()
    assert main(['score', 'run', '--gold-patch', 'patch.jsonl']) == 0
    assert '0.0; 0.0 [0.0, 79.3] without them; 50.0 with the other answer as gold' in capsys.readouterr().out
    assert main([*run, '--gold-patch', 'patch.jsonl']) == 0
    assert 'sums: 1 gold answer replaced by patch.jsonl.' in ' '.join(capsys.readouterr().out.split())
    assert Path('asked.txt').read_text() == 'xx'  # nothing is sent again
    with RunReader('run') as reader:
        assert [(result.gold, result.correct) for result in reader.results()] == [('9', True), ('8', False)]
    assert main(['score', 'run', '--gold-patch', 'patch.jsonl']) == 2  # its rows are patched now
    assert 'digest' in capsys.readouterr().err
    Path('far.jsonl').write_text(json.dumps(record | {'row': 2}) + '\n')
    assert main([*run, '--gold-patch', 'far.jsonl']) == 2
    assert 'sums has no row 2' in ' '.join(capsys.readouterr().err.split())
    for text, message in PATCHES:
        Path('bad.jsonl').write_text(text.replace('DIGEST', digest))
        for command in (['score', 'run', '--gold-patch', 'bad.jsonl'], [*run, '--gold-patch', 'bad.jsonl']):
            assert main(command) == 2
            assert f'bad.jsonl: {message}' in ' '.join(capsys.readouterr().err.split())
    Path('sums.csv').write_text('question,answer\n4 + 6?,8\n4 + 4?,8\n')
    assert main([*run, '--gold-patch', 'patch.jsonl']) == 2
    error = ' '.join(capsys.readouterr().err.split())
    assert 'Write a patch of these rows: rolecall score RUN --doubted --patch FILE' in error
    Path('patch.jsonl').write_text(json.dumps(record | {'dataset': 'others'}) + '\n')
    assert main([*run, '--gold-patch', 'patch.jsonl']) == 2
    assert 'is for others, not for a dataset of this config' in ' '.join(capsys.readouterr().err.split())
    assert main(['score', 'run', '--gold-patch', 'patch.jsonl']) == 2
    assert 'patches others, which this run does not have' in capsys.readouterr().err
    Path('patch.jsonl').write_text('{"row": 0}\n')
    assert main(['score', 'run', '--gold-patch', 'patch.jsonl']) == 2
    assert 'is not a patch of gold answers' in capsys.readouterr().err


def test_a_difference_that_a_gold_patch_makes_is_called_gold_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sums = [{'question': f'{n} + {n}?', 'answer': str(2 * n + (n == 3))} for n in range(6)]
    (tmp_path / 'sums.jsonl').write_text('\n'.join(map(json.dumps, sums)))
    (tmp_path / 'adder.py').write_text('def add(prompt):\n    return str(2 * int(prompt.split()[0]))\n')
    run = ['run', 'sums.jsonl', '--answer', 'answer', '--metric', 'number', '--model', 'adder:add', '-q', '--out']
    assert main([*run, 'before']) == 0
    with RunReader('before') as reader:
        digest = next(iter(StoredRun(reader).parts.values())).rows
    record = {'dataset': 'sums', 'digest': digest, 'row': 3, 'gold': '7', 'proposed': '6'}
    Path('patch.jsonl').write_text(json.dumps(record) + '\n')
    assert main([*run, 'after', '--gold-patch', 'patch.jsonl']) == 0
    capsys.readouterr()
    assert main(['explain', 'before', 'after']) == 0
    assert 'Of +16.7 points, +16.7 is gold answers (1 row).' in capsys.readouterr().out


def test_models_that_a_run_does_not_have_and_a_patch_without_doubts_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path('rows.jsonl').write_text('{"question": "a", "answer": "a"}\n{"question": "b", "answer": "c"}\n')
    Path('same.py').write_text('def say(prompt):\n    return prompt\n')
    assert main(['run', 'rows.jsonl', '--answer', 'answer', '--model', 'same:say', '--out', 'run', '-q']) == 0
    capsys.readouterr()
    assert main(['score', 'run', '--doubted', 'nobody']) == 2
    assert "the run has no model 'nobody'. Known: 'say'." in capsys.readouterr().err
    assert main(['score', 'run', '--doubted', 'say']) == 2
    assert 'takes two models or more, got say.' in capsys.readouterr().err
    assert main(['score', 'run', '--doubted']) == 2
    assert 'takes two models or more, got say.' in capsys.readouterr().err
    two = ['run', 'rows.jsonl', '--answer', 'answer', '--model', 'same:say', '--model', 'same:say_c', '--out', 'two']
    with Path('same.py').open('a') as stream:
        stream.write("def say_c(prompt):\n    return 'ac'['b' in prompt]\n")
    assert main([*two, '-q']) == 0
    assert main(['score', 'two', '--doubted', '--patch', 'patch.jsonl']) == 0
    assert 'no gold answer is in doubt' in capsys.readouterr().err
    Path('rows.jsonl').write_text('{"question": "a", "answer": "x"}\n{"question": "b", "answer": "y"}\n')
    assert main([*two[:-1], 'weak', '-q']) == 0
    capsys.readouterr()
    assert main(['score', 'weak', '--doubted']) == 2
    assert 'Name two or more: --doubted MODEL MODEL' in capsys.readouterr().err
    assert main(['score', 'weak', '--doubted', 'say', 'say_c']) == 0
    assert main(['score', 'run', '--patch', 'patch.jsonl']) == 2
    assert 'rolecall score RUN --doubted --patch FILE' in capsys.readouterr().err
    assert Path('patch.jsonl').read_text() == ''
