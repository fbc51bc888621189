"""`eval.yaml`, the tasks that a dataset on a hub brings, from its file to the verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import rolecall
from rolecall.compat.eval_yaml import find_hub_tasks
from rolecall.compat.eval_yaml.hub_scorers import inspect_scorers
from rolecall.compat.eval_yaml.hub_tasks import load_hub_tasks
from rolecall.errors import ConfigError, DataError
from rolecall.experiment.opening.loading import Source
from rolecall.scoring.metrics.metric import Answer
from rolecall.ui.cli.main import main

ROWS = [
    {'question': 'Capital of France?', 'options': ['Rome', 'Paris'], 'answer': 1, 'topic': 'geography'},
    {'question': 'Capital of Italy?', 'options': ['Rome', 'Paris'], 'answer': 0, 'topic': 'geography'},
]
CHOICE = {
    'id': 'choice',
    'field_spec': {'input': 'question', 'target': 'answer', 'choices': 'options', 'metadata': ['topic']},
    'solvers': [
        {'name': 'system_message', 'args': {'template': 'You know {topic} {how}.', 'how': 'well'}},
        {
            'name': 'multiple_choice',
            'args': {'template': '{question}\n{choices}\nEnd with ANSWER: and one of {letters}.'},
        },
    ],
    'scorers': [{'name': 'choice'}],
}
FREE = {
    'id': 'free',
    'field_spec': {'input': 'question', 'target': 'literal:Paris'},
    'solvers': [
        {'name': 'prompt_template', 'args': {'template': '{prompt}\nOne word.'}},
        {'name': 'generate', 'args': {'max_tokens': 20}},
    ],
    'scorers': [{'name': 'includes'}, {'name': 'match', 'args': {'location': 'exact'}}],
}


def write(folder: Path, *tasks: Any, rows: list[dict[str, Any]] = ROWS, place: str = 'test.jsonl') -> Path:
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    (folder / 'eval.yaml').write_text(yaml.safe_dump({'tasks': list(tasks)}))
    return folder


def change(task: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**task, **values}


@pytest.mark.parametrize('given', ['', 'eval.yaml'])
def test_a_folder_or_its_eval_yaml_runs(tmp_path: Path, given: str) -> None:
    write(tmp_path / 'geo', CHOICE)
    done = rolecall.run(
        str(tmp_path / 'geo' / given),
        model=lambda prompt: 'ANSWER: B' if 'France' in str(prompt) else 'ANSWER: C',
        out=tmp_path / 'run',
        quiet=True,
    )
    [card] = done.summary.scorecards
    assert (card.dataset, card.value, card.total) == ('choice', 50.0, 2)


def test_the_prompt_is_that_of_its_solvers_and_keeps_origins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / 'geo', CHOICE)
    assert main(['view', str(tmp_path / 'geo')]) == 0
    shown = capsys.readouterr().out
    assert 'field topic' in shown
    assert 'End with ANSWER: and one of ' in shown
    assert all(part in shown for part in ('│You know', 'Capital of France?', 'A) Rome', 'B) Paris'))


def test_further_scorers_stand_beside_the_first_and_literals_are_targets(tmp_path: Path) -> None:
    rows = [{'question': row['question']} for row in ROWS]
    write(tmp_path / 'geo', FREE, rows=rows)
    done = rolecall.run(str(tmp_path / 'geo'), model=lambda prompt: 'It is Paris.', out=tmp_path / 'run', quiet=True)
    [card] = done.summary.scorecards
    assert card.value == 100.0
    assert (card.further or {})['match'] == 0.0
    assert {result.score for result in done.results()} == {1.0}


def test_epochs_are_samples_and_pass_at_k_is_counted(tmp_path: Path) -> None:
    write(tmp_path / 'geo', change(FREE, epochs=3, epoch_reducer='pass_at_2'))
    [dataset] = load_hub_tasks(tmp_path / 'geo' / 'eval.yaml')['datasets']
    assert dataset['infer_cfg']['inferencer']['num_return_sequences'] == 3
    assert dataset['eval_cfg']['k'] == [2]


def test_rows_are_those_of_the_configuration_and_split(tmp_path: Path) -> None:
    folder = write(
        tmp_path / 'geo', change(CHOICE, config='small', split='dev'), place='small/dev-00000-of-00001.jsonl'
    )
    write(tmp_path / 'geo', change(CHOICE, config='small', split='dev'), rows=ROWS[:1], place='test.jsonl')
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    assert [row['target'] for row in dataset['test']] == ['B', 'A']


def test_the_card_of_the_dataset_says_where_its_rows_are(tmp_path: Path) -> None:
    folder = write(tmp_path / 'geo', CHOICE, place='files/a.jsonl')
    (folder / 'README.md').write_text(
        '---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: files/*.jsonl\n---\n# Geo\n'
    )
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    assert len(dataset['test']) == 2
    (folder / 'README.md').unlink()
    write(tmp_path / 'geo', CHOICE, place='train.jsonl')
    (folder / 'files/a.jsonl').unlink()
    with pytest.raises(DataError, match="no split 'test'. Available: train"):
        load_hub_tasks(folder / 'eval.yaml')


def test_parquet_beside_the_tasks_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip('pyarrow')
    from pyarrow import parquet

    folder = write(tmp_path / 'geo', CHOICE)
    (folder / 'test.jsonl').unlink()
    parquet.write_table(arrow.Table.from_pylist(ROWS), folder / 'test-00000-of-00001.parquet')
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    assert [row['choices_text'] for row in dataset['test']] == ['A) Rome\nB) Paris'] * 2


def test_a_downloaded_dataset_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HF_HUB_CACHE', str(tmp_path))
    write(tmp_path / 'datasets--acme--geo/snapshots/1a', CHOICE)
    assert Source.recognise('hf:acme/geo').kind == 'hub tasks'
    assert find_hub_tasks('hf:acme/other') is None


def test_shuffled_choices_take_their_target_along(tmp_path: Path) -> None:
    options = [f'option {number}' for number in range(8)]
    rows = [{'question': 'q', 'options': options, 'answer': number % 8, 'topic': 't'} for number in range(16)]
    folder = write(tmp_path / 'geo', change(CHOICE, shuffle_choices=True), rows=rows)
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    assert all(f'{row["target"]}) option {row["answer"]}' in row['choices_text'] for row in dataset['test'])
    assert len({row['choices_text'] for row in dataset['test']}) > 8
    assert load_hub_tasks(folder / 'eval.yaml')['datasets'] == [dataset]


def step(name: str, **args: Any) -> dict[str, Any]:
    return {'name': name, 'args': args}


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'solvers': [step('use_tools'), step('generate')]}, r'tasks\[0\].solvers\[0\][\s\S]*use_tools: its tools are functions'),
        ({'solvers': [step('generate'), step('self_critique')]}, 'self_critique: it asks a model about its own reply'),
        ({'solvers': [step('generate'), step('user_message', template='And?')]}, 'user_message comes after the reply'),
        ({'solvers': [step('system_message', template='x')]}, 'none of them asks the model'),
        ({'solvers': [step('prompt_template', template='{prompt} {x}'), step('generate')]}, "'x' has no value"),
        ({'solvers': [step('generate', logprobs=True)]}, r'solvers\[0\].args.logprobs[\s\S]*only max_tokens'),
        ({'scorers': [step('match_it')]}, "'match_it' is not a scorer"),
        ({'scorers': [step('model_graded_qa')]}, 'model_graded_qa is read if it is the only scorer'),
        ({'scorers': []}, 'there are none'),
        ({'epochs': 'two'}, "epochs[\\s\\S]*must be a positive integer, got 'two'"),
        ({'epoch_reducer': 'median'}, "'median': only mean and pass_at_K"),
        ({'field_specs': {}}, "not a key of a task. Did you mean 'field_spec'"),
        ({'field_spec': {'input': 'question'}}, "expected the columns of 'input' and 'target'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = write(tmp_path / 'geo', change(CHOICE, **changes))
    with pytest.raises(ConfigError, match=message):
        load_hub_tasks(folder / 'eval.yaml')


@pytest.mark.parametrize('solvers', [[step('chain_of_thought'), step('generate')], [step('multiple_choice')]])
def test_a_solver_without_a_template_is_refused_and_the_one_that_the_error_names_works(
    tmp_path: Path, solvers: list[dict[str, Any]]
) -> None:
    folder = write(tmp_path / 'geo', change(CHOICE, solvers=solvers))
    with pytest.raises(ConfigError, match="Inspect's own wording is not part of rolecall") as refused:
        load_hub_tasks(folder / 'eval.yaml')
    written = yaml.safe_load(str(refused.value).partition('e.g. ')[2])
    write(tmp_path / 'geo', change(CHOICE, solvers=[step(solvers[0]['name'], **written), *solvers[1:]]))
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    [speech] = dataset['infer_cfg']['prompt_template']['template']['round']
    assert speech['prompt'].startswith('{input}\n')
    assert speech['prompt'].endswith('with a line ANSWER: and your answer.')


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / 'geo', CHOICE, rows=[])
    with pytest.raises(DataError, match="task 'choice' has no rows"):
        load_hub_tasks(folder / 'eval.yaml')


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    folder = write(tmp_path / 'geo', change(FREE, field_spec={'input': 'query', 'target': 'answer'}))
    with pytest.raises(DataError, match=r"'query' is not in a row. Its columns: question, options"):
        load_hub_tasks(folder / 'eval.yaml')


def test_a_judge_is_a_scorer_with_its_model(tmp_path: Path) -> None:
    folder = write(tmp_path / 'geo', change(FREE, scorers=[step('model_graded_fact', model='openai/gpt-4.1')]))
    [dataset] = load_hub_tasks(folder / 'eval.yaml')['datasets']
    assert dataset['eval_cfg']['evaluator']['judge_cfg'] == 'openai/gpt-4.1'


@pytest.mark.parametrize(
    ('scorer', 'reply', 'gold', 'score'),
    [
        ({'name': 'includes'}, 'It is PARIS.', 'Paris', 1),
        ({'name': 'includes', 'ignore_case': False}, 'It is PARIS.', 'Paris', 0),
        ({'name': 'match'}, 'So it is Paris!', 'paris', 1),
        ({'name': 'match'}, 'Paris it is', 'paris', 0),
        ({'name': 'match', 'location': 'begin'}, 'Paris it is', 'paris', 1),
        ({'name': 'match', 'location': 'any'}, 'it: Paris, yes', ['Rome', 'paris'], 1),
        ({'name': 'match', 'numeric': True}, 'That makes $1,250.', '1250', 1),
        ({'name': 'match', 'numeric': True}, 'That makes 25.', '5', 0),
        ({'name': 'match', 'numeric': True, 'location': 'any'}, '3 and (4) make 7', '4.0', 1),
        ({'name': 'match', 'numeric': True, 'location': 'exact'}, '5 apples', '5', 0),
        ({'name': 'pattern', 'pattern': 'is (\\w+)'}, 'It is Paris.', 'paris', 1),
        ({'name': 'pattern', 'pattern': '(\\w+) and (\\w+)', 'match_all': True}, 'Rome and Paris', 'Paris', 0),
        ({'name': 'answer', 'pattern': 'letter'}, 'Answer: B.', 'B', 1),
        ({'name': 'answer', 'pattern': 'word'}, 'ANSWER: Paris\nok', 'Paris', 1),
        ({'name': 'answer', 'pattern': 'line'}, 'ANSWER: New York', 'new york', 1),
        ({'name': 'exact'}, 'The Paris', 'paris', 1),
        ({'name': 'exact'}, '5', '5.0', 1),
        ({'name': 'f1'}, 'the big city', 'big town', 0.5),
        ({'name': 'choice'}, 'ANSWER: B', 'B', 1),
        ({'name': 'choice'}, 'ANSWER: A, B', 'B', 0),
        ({'name': 'choice', 'several': True}, 'ANSWER: B, A', ['A', 'B'], 1),
        ({'name': 'choice'}, 'B', 'B', 0),
    ],
)  # fmt: skip
def test_scorers_rule_as_inspect_does(scorer: dict[str, Any], reply: str, gold: Any, score: float) -> None:
    assert inspect_scorers([scorer]).mark(Answer(reply, gold)).score == score


def test_a_broken_pattern_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match='pattern: .* is not a regular expression: missing'):
        inspect_scorers([{'name': 'pattern', 'pattern': '('}])
