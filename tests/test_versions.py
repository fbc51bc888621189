"""Another wording, or fewer rows, is another version: nothing is replaced or ranked without a word."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import rolecall
from rolecall.insight.run_source import StoredRun
from rolecall.runs import RunReader
from rolecall.runs.parts import PART_NAMES, PartDigests, digest_entries
from rolecall.sources.config.reference import Reference
from rolecall.ui.cli.main import main

ROWS = 'q,a\n' + ''.join(f'{number}+4-{number},4\n' for number in range(20))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path('sum.csv').write_text(ROWS)
    Path('answers.py').write_text("def right(prompt):\n    return '4'\n\n\ndef wrong(prompt):\n    return '5'\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], template: str, model: str, *options: str) -> str:
    words = ['run', 'sum.csv', '--template', template, '--answer', 'a', '--model', f'answers.py:{model}', *options]
    assert main(words) == 0
    captured = capsys.readouterr()
    return captured.out + captured.err


def rows_in(directory: str) -> dict[str, int]:
    with RunReader(directory) as reader:
        return {model: sum(1 for _ in reader.results(model=model)) for _, model in reader.pairs()}


def test_models_that_were_asked_differently_are_not_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    output = run(capsys, 'B {q}=', 'wrong')
    assert (
        'runs/sum has results of sum with another prompt: this run is another version; its results go to runs/sum-2.'
        in output
    )
    assert 'beats' not in output
    beside = run(capsys, 'B {q}=', 'wrong', '--out', 'runs/sum')
    assert 'differ in wording on sum: not ranked on it.' in beside
    assert main(['report', 'runs/sum', '--markdown']) == 0
    assert 'differ in wording on sum: not ranked' in capsys.readouterr().out


def test_models_that_were_asked_alike_are_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    assert 'right beats wrong by 100.0 points' in run(capsys, 'A {q}=', 'wrong')
    assert not Path('runs/sum-2').exists()


def test_a_changed_wording_keeps_the_results_of_the_old_one(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    run(capsys, 'C {q}=', 'right')
    assert rows_in('runs/sum') == rows_in('runs/sum-2') == {'right': 20}
    assert 'runs/sum-2 has the results of this version.' in run(capsys, 'C {q}=', 'right')
    replaced = run(capsys, 'D {q}=', 'right', '--out', 'runs/sum')
    assert 'sum × right: the prompt has changed; its results here are replaced. --out DIR keeps both.' in replaced


def test_spaces_and_roles_alone_make_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'Q {q}\\nA: {a}', 'right')
    output = run(capsys, 'Q {q}\\nA:\\n{a}', 'right')
    assert 'runs/sum has results of sum × right with other template' in output
    assert 'Other versions: runs/sum (other template).' in output
    assert rows_in('runs/sum') == rows_in('runs/sum-2') == {'right': 20}
    assert main(['runs', 'list']) == 0
    assert 'other template than runs/sum' in capsys.readouterr().out
    replaced = run(capsys, 'Q {q}\\nA: {a}', 'right', '--out', 'runs/sum-2')
    assert 'sum × right: the prompt has changed; its results here are replaced.' in replaced


def test_fewer_rows_do_not_shrink_a_run_and_more_rows_continue_it(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right', '--limit', '5')
    assert rows_in('runs/sum') == {'right': 5}
    run(capsys, 'A {q}=', 'right')
    assert rows_in('runs/sum') == {'right': 20}
    output = run(capsys, 'A {q}=', 'right', '--limit', '5')
    assert 'runs/sum has results of sum on all rows: this run is another version' in output
    assert (rows_in('runs/sum'), rows_in('runs/sum-2')) == ({'right': 20}, {'right': 5})
    run(capsys, 'A {q}=', 'right')
    assert rows_in('runs/sum-2') == {'right': 5}


def test_fewer_rows_in_a_directory_that_is_named_are_said_and_cost_nothing_to_get_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(capsys, 'A {q}=', 'right', '--out', 'out')
    output = run(capsys, 'A {q}=', 'right', '--out', 'out', '--limit', '5')
    assert 'sum × right: scored on 5 rows, where it had all rows. The other replies are kept' in output
    output = run(capsys, 'A {q}=', 'right', '--out', 'out')
    assert 'where it had' not in output
    assert rows_in('out') == {'right': 20}


def test_a_report_names_the_versions_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    run(capsys, 'C {q}=', 'right')
    run(capsys, 'A {q}=', 'right', '--limit', '5')
    for form in ([], ['--markdown']):
        assert main(['report', 'runs/sum-2', *form]) == 0
        output = ' '.join(capsys.readouterr().out.split())
        assert 'Other versions: runs/sum (other wording), runs/sum-3 (other wording and rows).' in output
    run(capsys, 'A {q}=', 'right', '--out', 'runs/apart-2')
    assert main(['report', 'runs/apart-2']) == 0
    assert 'Other versions' not in capsys.readouterr().out


def test_a_further_model_joins_those_that_were_asked_about_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    run(capsys, 'A {q}=', 'right', '--limit', '5')
    run(capsys, 'A {q}=', 'wrong')
    assert (rows_in('runs/sum'), rows_in('runs/sum-2')) == ({'right': 20, 'wrong': 20}, {'right': 5})
    output = run(capsys, 'A {q}=', 'wrong', '--limit', '3')
    assert 'sum × right on 5 rows: this run is another version; its results go to runs/sum-3' in output
    run(capsys, 'A {q}=', 'wrong', '--limit', '5')
    assert rows_in('runs/sum-2') == {'right': 5, 'wrong': 5}


def test_python_keeps_versions_too() -> None:
    rows = [{'q': '1+1', 'a': '2'}]
    first = rolecall.run(rows, template='A {q}', answer='a', model=lambda prompt: '2', quiet=True)
    other = rolecall.run(rows, template='B {q}', answer='a', model=lambda prompt: '2', quiet=True)
    assert first.out != other.out


def parts_in(directory: str, model: str = 'right') -> PartDigests:
    with RunReader(directory) as reader:
        return StoredRun(reader).parts['sum', model]


CHANGES = {
    'wording': (),
    'examples': ('--shots', '2'),
    'sampling': ('--set', 'datasets.*.infer_cfg.inferencer.max_out_len=7'),
    'reader': ('--extract', 'first-number'),
    'metric': ('--set', 'datasets.*.eval_cfg.unparsed=exclude'),
    'rows': (),
}


def test_each_part_has_a_digest_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}={a}', 'right', '--metric', 'number', '--out', 'runs/base')
    base = parts_in('runs/base')
    assert set(base.as_dict()) == {*PART_NAMES, 'template'} - {'tokenizer'}, 'a function has no tokenizer'
    for part, options in CHANGES.items():
        if part == 'rows':
            Path('sum.csv').write_text(ROWS + '1+3,4\n')
        template = 'Q {q}={a}' if part == 'wording' else 'A {q}={a}'
        run(capsys, template, 'right', '--metric', 'number', *options, '--out', f'runs/{part}')
        assert base.find_differing(parts_in(f'runs/{part}')) == [part]


def test_compare_and_list_name_the_parts_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    run(capsys, 'B {q}=', 'right', '--limit', '5')
    assert main(['compare', 'runs/sum', 'runs/sum-2']) == 0
    assert 'other wording' in capsys.readouterr().out
    assert main(['compare', 'runs/sum', 'runs/sum-2', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['differences'][0]['differing'] == ['wording']
    assert main(['runs', 'list']) == 0
    assert 'other wording than runs/sum' in capsys.readouterr().out


def test_a_mean_over_different_prompts_is_not_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    Path('both.py').write_text(CONFIG.format(template='A', model='right'))
    assert main(['run', 'both.py', '--quiet', '--out', 'runs/both']) == 0
    Path('both.py').write_text(CONFIG.format(template='B', model='wrong'))
    assert main(['run', 'both.py', '--quiet', '--out', 'runs/both']) == 0
    output = ' '.join(capsys.readouterr().out.split())
    assert 'wrong and right differ in wording on sum: not ranked on it, nor by their mean of all.' in output


def test_a_loader_that_is_not_installed_is_a_part_by_its_name() -> None:
    entry = {
        'infer_cfg': {'prompt_template': 'A {q}', 'retriever': {'type': Reference('opencompass.openicl.ZeroRetriever')}}
    }
    other = {
        'infer_cfg': {**entry['infer_cfg'], 'inferencer': {'type': Reference('opencompass.openicl.GenInferencer')}}
    }
    assert digest_entries(entry, {}).find_differing(digest_entries(other, {})) == ['sampling']
    assert digest_entries(entry, {}) == digest_entries(entry, {})


CONFIG = """from answers import right, wrong
groups = {{'all': ['sum']}}
models = [dict(abbr='{model}', type={model})]
datasets = [dict(abbr='sum', type='File', path='sum.csv', reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{template} {{q}}=')), eval_cfg=dict(evaluator='AccEvaluator'))]
"""


def test_a_directory_without_digests_is_a_version_by_its_config(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 'A {q}=', 'right')
    with sqlite3.connect('runs/sum/run.sqlite') as store:
        [(text,)] = store.execute('SELECT manifest FROM starts')
        manifest = json.loads(text)
        del manifest['pairs'][0]['parts']
        store.execute('UPDATE starts SET manifest = ?', (json.dumps(manifest),))
    store.close()
    assert set(parts_in('runs/sum').as_dict()) == {'wording', 'sampling'}
    assert 'another version' in run(capsys, 'B {q}=', 'right')
    assert 'another version' not in run(capsys, 'A {q}=', 'right')
