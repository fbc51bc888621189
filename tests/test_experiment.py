"""What a user gave, opened as one object: recognised once, selected, paired, and shared by all who work on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall import ConfigError, Experiment, Task
from rolecall.experiment import SourceOptions
from rolecall.experiment.opening import loading
from rolecall.experiment.opening.loading import Source
from rolecall.runs.prepare import prepare
from rolecall.ui.cli.main import main

ROWS = [{'q': '1+1=?', 'a': '2'}, {'q': '2+2=?', 'a': '4'}]


def dataset(abbr: str, **more: Any) -> dict[str, Any]:
    reading = {'input_columns': ['q'], 'output_column': 'a'}
    asking = {'prompt_template': {'type': 'PromptTemplate', 'template': f'{abbr}: {{q}}'}}
    return {'abbr': abbr, 'type': 'Rows', 'test': ROWS, 'reader_cfg': reading, 'infer_cfg': asking, **more}


def config(*datasets: str) -> dict[str, Any]:
    models = [{'abbr': name, 'type': 'OpenAI', 'path': name, 'key': 'k'} for name in ('one', 'two')]
    return {'models': models, 'datasets': [dataset(name) for name in datasets or ('sums', 'more')]}


@pytest.mark.parametrize(
    ('source', 'kind', 'name'),
    [
        ('gsm8k', 'benchmark', 'gsm8k'),
        ('gsm8k,mmlu', 'benchmark', 'gsm8k+mmlu'),
        ('opencompass:gsm8k_gen', 'catalogue', 'gsm8k_gen'),
        ('lm_eval:arc_easy', 'task', 'arc_easy'),
        ('tasks/arc.yaml', 'task', 'arc'),
        ('data/rows.jsonl.gz', 'rows', 'rows'),
        (Path('sums.csv'), 'rows', 'sums'),
        ('configs/first.py', 'config', 'first'),
        ('plain.json', 'config', 'plain'),
        ('rows.json', 'rows', 'rows'),
        (ROWS, 'rows', 'rows'),
        ({'datasets': []}, 'config', 'rows'),
    ],
)
def test_what_was_given_is_recognised(
    source: Any, kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('plain.json').write_text(json.dumps(config()))
    Path('rows.json').write_text(json.dumps(ROWS))
    recognised = Source.recognise(source)
    assert (recognised.kind, recognised.run_name) == (kind, name)


@pytest.mark.parametrize('command', [['view', '--all', '--json'], ['lint', '--json'], ['run', '--dry-run', '--quiet']])
def test_one_command_decides_once_what_it_was_given(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked: list[object] = []
    for name in ('is_benchmark_name', 'is_task_source'):
        decide = getattr(loading, name)
        monkeypatch.setattr(
            loading, name, lambda source, name=name, decide=decide: (looked.append((name, source)), decide(source))[1]
        )
    file = tmp_path / 'config.py'
    file.write_text(f'models = {config()["models"]!r}\ndatasets = {config()["datasets"]!r}\n')
    assert main([command[0], str(file), *command[1:]]) in (0, 1)
    assert sorted(name for name, _ in looked) == ['is_benchmark_name', 'is_task_source']
    capsys.readouterr()


def test_datasets_and_models_are_selected_by_pattern_and_every_dataset_meets_every_model() -> None:
    experiment = Experiment.open(config())
    assert [(pair.task.abbr, pair.model_entry.abbr) for pair in experiment.pairs() if pair.model_entry] == [
        ('sums', 'one'), ('sums', 'two'), ('more', 'one'), ('more', 'two'),
    ]  # fmt: skip
    chosen = experiment.select(dataset='s*', model=['t*'])
    assert ([task.abbr for task in chosen.tasks], [model.abbr for model in chosen.models]) == (['sums'], ['two'])
    assert [model.abbr for model in chosen.all_models] == ['one', 'two']
    assert [preview.prompt for preview in chosen.previews(limit=1)] == ['sums: 1+1=?']
    with pytest.raises(ConfigError, match=r"no dataset matches 'sum'\.\n  Did you mean 'sums'"):
        experiment.select(dataset='sum')


def test_files_may_be_given_for_one_dataset(tmp_path: Path) -> None:
    file = tmp_path / 'rows.jsonl'
    file.write_text(json.dumps({'q': '3+3=?', 'a': '6'}) + '\n')
    previews = rolecall.preview(config(), model='one', data={'mo*': {'test': str(file)}})
    assert [preview.prompt for preview in previews] == ['sums: 1+1=?', 'sums: 2+2=?', 'more: 3+3=?']


def test_problems_of_entries_are_raised_together_or_kept_with_what_is_left() -> None:
    broken = config()
    broken['datasets'].append({'abbr': 'bare', 'type': 'Rows'})
    broken['models'].append({'abbr': 'odd', 'type': 'NoSuchModel'})
    with pytest.raises(ConfigError) as error:
        Experiment.open(broken)
    experiment = Experiment.open(broken, SourceOptions(collects_problems=True))
    assert experiment.problems == tuple(error.value.problems)
    assert {problem.where for problem in experiment.problems} >= {'datasets[2]'}
    assert [task.abbr for task in experiment.tasks] == ['sums', 'more']


def test_linter_and_run_work_on_the_pairs_of_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment.open(config('sums'))
    pairs = [experiment.pair(experiment.tasks[0], model) for model in experiment.models]
    assert pairs[0].picker is pairs[1].picker
    rolecall.lint_config(experiment)
    assert [experiment.pair(experiment.tasks[0], model) for model in experiment.models] == pairs
    assert [run.compiled for run in prepare(experiment).pairs] == pairs


def test_an_edited_entry_keeps_the_rows_and_a_model_without_edits_its_tokenizer() -> None:
    experiment = Experiment.open(config('sums'))
    [task], model = experiment.tasks, experiment.models[0]
    rows = experiment.dataset(task)
    edited = experiment.edit(task, model, dataset_entry=dataset('sums', infer_cfg=dataset('plus')['infer_cfg']))
    assert [preview.prompt for preview in edited.previews(limit=1)] == ['plus: 1+1=?']
    assert (edited.dataset(edited.tasks[0]), edited.models) == (rows, (model,))
    with pytest.raises(ConfigError, match=r'infer_cfg is missing'):
        experiment.edit(task, model, dataset_entry={'abbr': 'sums', 'type': 'Rows'})


def test_a_task_in_a_file_of_rows_refuses_a_config(tmp_path: Path) -> None:
    file = tmp_path / 'config.py'
    file.write_text('datasets = []\n')
    with pytest.raises(ConfigError, match=r'--template applies to a file of rows; a config defines its own'):
        Experiment.open(Task(file, template='{q}'))
