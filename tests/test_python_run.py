"""`rolecall.run` in Python and notebooks: the words of the command line, tables, HTML, and progress that redraws."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas
import pytest

import rolecall
from rolecall import ConfigError, RunReader, run_config
from rolecall.runs import RunOptions
from rolecall.runs.listener import NullListener
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from rolecall.ui.notebook import NotebookProgress, choose_progress
from rolecall.ui.views.run_progress import PlainProgress
from test_runs import config, dataset

ROWS = [{'question': f'What is {i}+0?', 'answer': str(i), 'hint': '<b>'} for i in range(4)]


def two(prompt: Any) -> str:
    return '2'


def asked(folder: Path, **options: Any) -> rolecall.FinishedRun:
    given = {'model': two, 'answer': 'answer', 'out': folder / 'run', 'quiet': True, **options}
    return rolecall.run(given.pop('rows', ROWS), **given)


def test_rows_and_a_function_give_scores_and_rows(tmp_path: Path) -> None:
    run = asked(tmp_path)
    assert run.ok
    assert run.scores.value() == 25.0
    assert run.scores.value('rows', 'two') == 25.0
    assert repr(run.scores).startswith('rows × two: accuracy 25.00 [')
    frame = run.to_pandas()
    assert list(frame['prediction']) == ['2'] * 4
    assert list(frame['correct']) == [False, False, True, False]
    assert list(run.scores.to_pandas()['value']) == [25.0]
    assert run.reply_warnings == ("rows × two: every row has the same answer, '2'.",)
    assert repr(run).splitlines()[-1] == f'Results are in {tmp_path / "run"}.'


@pytest.mark.parametrize('kind', ['frame', 'generator', 'file', 'config'])
def test_every_kind_of_source_works(kind: str, tmp_path: Path) -> None:
    file = tmp_path / 'rows.csv'
    frame = pandas.DataFrame(ROWS)
    frame.to_csv(file, index=False)
    config = {
        'datasets': [
            {
                'abbr': 'rows',
                'type': 'Rows',
                'test': ROWS,
                'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
                'eval_cfg': {'evaluator': 'EMEvaluator'},
            }
        ]
    }
    source: Any = {'frame': frame, 'generator': (row for row in ROWS), 'file': str(file), 'config': config}[kind]
    run = asked(tmp_path, rows=source, answer=None if kind == 'config' else 'answer')
    assert run.scores.value() == 25.0


def test_several_models_overrides_and_settings_are_noted(tmp_path: Path) -> None:
    run = asked(tmp_path, model=[two, lambda prompt: 'x'], temperature=0.5, settings={'datasets.*.n': 1}, limit=2)
    assert [card.model for card in run.scores] == ['two', 'lambda']
    with RunReader(run.out) as reader:
        assert reader.manifest()['overrides'] == {'answer': 'answer', 'temperature': 0.5, 'datasets.*.n': 1}
    with pytest.raises(ConfigError, match='2 scores'):
        run.scores.value('rows')


@pytest.mark.parametrize('kind', ['list', 'iterator', 'frame', 'file'])
def test_a_task_is_shown_checked_and_run_as_the_same_rows_with_options(kind: str, tmp_path: Path) -> None:
    rows: Any = [{'q': '1+1=?', 'a': '2'}, {'q': '2+2=?', 'a': '4'}]
    stated = {'template': 'Add: {q}', 'answer': 'a', 'metric': 'number'}
    file = tmp_path / 'sums.csv'
    pandas.DataFrame(rows).to_csv(file, index=False)
    make = {'list': lambda: rows, 'iterator': lambda: iter(rows), 'frame': lambda: pandas.DataFrame(rows)}
    source = make.get(kind, lambda: file)
    shown = [preview.request for preview in rolecall.preview(rolecall.Task(source(), **stated), model='openai/gpt-4o')]
    assert shown == [[{'role': 'user', 'content': f'Add: {row["q"]}'}] for row in rows]
    assert not [one for one in rolecall.lint_config(rolecall.Task(source(), **stated)) if one.severity == 'error']
    task = rolecall.Task(source(), **stated, name='sums')
    of_task = rolecall.run(task, model=lambda prompt: '2', out=tmp_path / 'task', quiet=True)
    of_rows = rolecall.run(source(), model=lambda prompt: '2', out=tmp_path / 'rows', quiet=True, **stated)
    assert of_task.scores.value() == of_rows.scores.value() == 50.0
    assert {result.dataset for result in of_task.results()} == {'sums'}


def test_options_of_rows_stand_in_the_task_alone(tmp_path: Path) -> None:
    task = rolecall.Task([{'q': '1', 'a': '2'}], template='{q}', answer='a')
    with pytest.raises(ConfigError, match='--metric does not apply: a Task defines its own'):
        rolecall.run(task, model=len, metric='f1', out=tmp_path)
    with pytest.raises(ConfigError, match='names a choice twice'):
        rolecall.Task([{'q': '1', 'a': 'A'}], answer='a', choices='A,A')


def test_a_metric_may_be_a_function(tmp_path: Path) -> None:
    assert asked(tmp_path, metric=lambda prediction, gold: True).scores.value() == 100.0


def test_lint_errors_stop_it_unless_forced(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='same-prompt'):
        asked(tmp_path, template='What?')
    assert asked(tmp_path, template='What?', force=True).scores.value() == 25.0


@pytest.mark.parametrize('source', [5, [1, 2], ['rows.csv']])
def test_what_is_not_rows_is_refused(source: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='expected a path, a config, or rows'):
        asked(tmp_path, rows=source)


def test_what_is_not_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='expected the name of a model, got 5'):
        asked(tmp_path, model=5)


def test_html_is_escaped_everywhere(tmp_path: Path) -> None:
    run = asked(tmp_path, rows=[{**row, 'question': '<script>' + row['question']} for row in ROWS])
    table = run._repr_html_()
    assert '<th>score</th>' in table
    assert '<td>25.00</td>' in table
    template = {'type': 'PromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt': '<i>{question}</i>'}]}}
    rows = {
        'type': 'Rows',
        'abbr': 'demo',
        'test': [{'question': '<script>'}],
        'infer_cfg': {'prompt_template': template},
    }
    [preview] = rolecall.preview({'datasets': [rows], 'models': [{'abbr': 'm', 'type': 'OpenAI', 'path': 'x'}]})
    shown = preview._repr_html_()
    assert '<script>' not in shown
    assert '&lt;script&gt;' in shown
    assert '<b>demo × m · row 0</b>' in shown
    assert '<i>user</i>' in shown
    assert 'title="field question"' in shown
    trace = rolecall.compile('Q: {q}').trace({'q': '<b>'})
    assert '&lt;b&gt;' in trace._repr_html_()


def test_progress_in_a_notebook_is_redrawn_in_one_place() -> None:
    shown: list[str] = []
    progress = NotebookProgress(shown.append, every=60)
    progress.on_message('a <note>')
    progress.on_pair_start('qa', 'm', 4)
    progress.on_row(Result('qa', 'm', 0, 'ok'), asked=True)
    progress._redraw()
    assert '<progress value="1" max="4"></progress> qa × m: 1/4 rows' in shown[-1]
    assert 'rolecall: a &lt;note&gt;' in shown[-1]
    progress.on_scores('qa', 'm', [Scorecard('qa', 'm', 'accuracy', 50.0, scored=4, total=4)])
    progress.on_end()
    assert '<progress' not in shown[-1]
    assert 'qa × m: accuracy 50.00' in shown[-1]


def test_outside_a_notebook_progress_is_that_of_the_command_line() -> None:
    assert isinstance(choose_progress(quiet=False), PlainProgress)


def test_a_model_that_joins_the_run_of_another_is_told_of(tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(NullListener):
        def on_message(self, message: str) -> None:
            said.append(message)

    dataset = {
        'abbr': 'rows', 'type': 'Rows', 'test': [{'q': '1+1', 'a': '2'}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
    }  # fmt: skip
    for names in ('a', 'a', 'b', 'ab', 'a'):
        models = [{'abbr': name, 'type': lambda request: '2'} for name in names]
        run_config({'models': models, 'datasets': [dataset]}, out=tmp_path / 'run', progress=Listener())
    [told] = [line for line in said if '--out' in line]
    assert told == 'This directory has results of a, too; they stay beside the new ones. --out DIR keeps runs apart.'
    with RunReader(tmp_path / 'run') as run:
        assert {card.model for card in run.scorecards()} <= {'a', 'b'}
        assert {row.model for row in run.results()} == {'a', 'b'}


def test_a_run_says_that_another_file_takes_the_place_of_its_rows(tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(NullListener):
        def on_message(self, message: str) -> None:
            said.append(message)

    for name in ('a/rows.csv', 'b/rows.csv'):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f'question,answer\n{name[0]}+1,2\n')
    reader = {'input_columns': ['question'], 'output_column': 'answer'}
    prompt = {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}}
    for folder in ('a', 'a', 'b'):
        path = str(tmp_path / folder / 'rows.csv')
        dataset = {'abbr': 'rows', 'type': 'File', 'path': path, 'reader_cfg': reader, 'infer_cfg': prompt}
        config = {'models': [{'abbr': 'm', 'type': lambda request: '2'}], 'datasets': [dataset]}
        run_config(config, out=tmp_path / 'run', progress=Listener())
    [told] = [line for line in said if 'this run began' in line]
    assert told.startswith(f'rows: this run began with the rows of {tmp_path / "a" / "rows.csv"}')


def test_an_option_of_a_run_is_declared_once_for_python_and_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(['run', '--help'])
    text = ' '.join(capsys.readouterr().out.split())
    for option in fields(RunOptions):
        if option.metadata:
            assert f'--{option.name.replace("_", "-")}' in text
            assert option.metadata['help'] in text
    with pytest.raises(TypeError, match='limt'):
        run_config({'models': [], 'datasets': []}, out=tmp_path, limt=3)
    with pytest.raises(ConfigError, match="unknown outcome 'faild'.\n  Did you mean 'failed'"):
        RunOptions(rerun='faild')


def test_a_run_without_a_directory_says_how_to_name_one() -> None:
    rows = [{'question': 'q', 'answer': 'a'}]
    with pytest.raises(ConfigError, match="the run directory is missing.\n  Write out='runs/first'."):
        run_config(config({'abbr': 'm', 'type': two}, dataset(rows)))
