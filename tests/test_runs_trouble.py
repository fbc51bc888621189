"""Rows, judges, options and files that are trouble: each is told, and none takes the rest of a run with it."""

from __future__ import annotations

import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import toys
from helpers import bot, human, template
from rolecall import ConfigError
from rolecall.errors import RunError
from rolecall.models.protocol import Reply
from rolecall.runs import plan_run, run_config
from rolecall.runs.result_files import export_results, result_lines
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_csv, report_html, report_markdown
from servers import prompt_of, serve
from test_runs import api, config, dataset, questions, rows_of, scored
from test_runs_store import nobody

# -- rows that a server will not have ----------------------------------------------------------------------------------


def refusing(status: int, *words: str, says: str = 'fine') -> Any:
    def answer(body: Any) -> Any:
        if any(word in prompt_of(body) for word in words):
            return web.json_response({'error': {'message': 'not this one'}}, status=status)
        return says

    return answer


@pytest.mark.parametrize('status', [403, 404])
@pytest.mark.parametrize('row', [0, 4])
def test_a_row_that_is_refused_fails_alone_and_for_good(tmp_path: Path, status: int, row: int) -> None:
    with serve(refusing(status, f'Question {row}?')) as server:
        written = config(api(server.url, concurrency=1), dataset(questions(8)))
        summary = run_config(written, out=tmp_path)
        assert (dict(summary.outcomes), summary.broken) == ({'ok': 7, 'failed': 1}, {})
        assert len(summary.scorecards) == 1
        again = run_config(written, out=tmp_path)
        assert (again.outcomes, again.broken) == (summary.outcomes, {})


def test_rows_that_always_fail_do_not_keep_others_from_being_asked_again(tmp_path: Path) -> None:
    bad = [f'Question {i}?' for i in range(4)]
    with serve() as server:
        server.answer = refusing(400, *bad, 'Question 9?')
        written = config(api(server.url, concurrency=1), dataset(questions(10)[4:] + questions(4)))
        assert run_config(written, out=tmp_path).outcomes == {'ok': 5, 'failed': 5}
        server.answer = refusing(400, *bad)
        turned = config(api(server.url, concurrency=1), dataset(questions(10)))
        run_config(turned, out=tmp_path)
        summary = run_config(turned, out=tmp_path, rerun={'failed'})
    assert (dict(summary.outcomes), summary.broken) == ({'ok': 6, 'failed': 4}, {})


def test_a_first_row_on_which_the_server_fails_is_a_failed_row(tmp_path: Path) -> None:
    with serve(refusing(500, 'Question 0?')) as server:
        written = config(api(server.url, concurrency=1, retry=0), dataset(questions(5)))
        summary = run_config(written, out=tmp_path)
    assert (dict(summary.outcomes), summary.broken) == ({'ok': 4, 'failed': 1}, {})


# -- judges ------------------------------------------------------------------------------------------------------------


def judged_by(judge: Any) -> dict[str, Any]:
    words = template({'round': [human('Judge {question}: {prediction}')]})
    return {'evaluator': {'type': 'GenericLLMEvaluator', 'prompt_template': words, 'judge_cfg': judge}}


def echo(request: Any) -> str:
    return f'It is {request}'


def test_a_judge_that_cannot_be_reached_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = {**api('http://127.0.0.1:9', retry=1), 'abbr': 'court'}
    summary = run_config(config({'abbr': 'f', 'type': echo}, scored(judged_by(judge))), out=tmp_path)
    assert 'is unreachable' in summary.broken['court']
    assert (summary.unjudged, summary.exit_code) == (4, 1)
    (card,) = summary.scorecards
    assert (card.value, card.scored, card.total) == (None, 0, 4)
    assert sum(card.details['not_judged']['reasons'].values()) == 4
    assert main(['report', str(tmp_path)]) == 0
    assert 'not judged' in capsys.readouterr().out
    with RunReader(tmp_path) as archive:
        assert 'is unreachable' in report_markdown(StoredRun(archive))
        assert 'is unreachable' in report_html(StoredRun(archive))


def test_replies_of_a_judge_without_a_verdict_are_reported_and_the_run_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = {'abbr': 'court', 'type': lambda prompt: 'A' if 'Judge 2+2' in prompt else 'A lovely day.'}
    written = config({'abbr': 'f', 'type': echo}, scored(judged_by(court)))
    summary = run_config(written, out=tmp_path)
    (card,) = summary.scorecards
    assert (card.value, card.scored, card.total) == (100.0, 1, 4)
    assert (summary.unjudged, summary.without_verdict, summary.exit_code) == (0, 3, 1)
    assert list(card.details['not_judged']['reasons'].values()) == [3]
    assert main(['report', str(tmp_path)]) == 0
    assert 'no verdict' in capsys.readouterr().out


def test_a_judge_that_failed_is_asked_again_where_that_is_wished(tmp_path: Path) -> None:
    heard: list[str] = []

    class Ear:
        def __getattr__(self, name: str) -> Any:
            return heard.append if name == 'on_message' else lambda *_, **__: None

    with serve(refusing(400, 'Judge 2+2', says='A')) as server:
        judge = {**api(server.url), 'abbr': 'court'}
        written = config({'abbr': 'f', 'type': echo}, scored(judged_by(judge)))
        summary = run_config(written, out=tmp_path, progress=Ear())
        assert (summary.unjudged, summary.broken, summary.exit_code) == (1, {}, 1)
        assert 'demo × f: 1 answer not judged: ' in heard[0]
        assert 'not this one' in heard[0]
        server.answer = lambda body: 'A'
        assert run_config(written, out=tmp_path).unjudged == 1
        assert len(server.calls) == 4
        mended = run_config(written, out=tmp_path, rerun={'failed'})
        assert (mended.unjudged, mended.exit_code) == (0, 0)
        assert len(server.calls) == 5
    assert 'not_judged' not in mended.scorecards[0].details


def test_a_judge_that_was_filtered_is_asked_again_where_that_is_wished(tmp_path: Path) -> None:
    said: list[Any] = [{'finish_reason': 'content_filter', 'message': {'content': ''}}]
    with serve(lambda body: said[0]) as server:
        written = config({'abbr': 'f', 'type': echo}, scored(judged_by({**api(server.url), 'abbr': 'court'})))
        assert run_config(written, out=tmp_path).unjudged == 4
        said[0] = 'A'
        assert run_config(written, out=tmp_path, rerun={'failed'}).unjudged == 4
        assert run_config(written, out=tmp_path, rerun={'filtered'}).unjudged == 0
        assert len(server.calls) == 8


# -- scores of rows that changed ---------------------------------------------------------------------------------------


def test_a_score_goes_with_the_first_of_its_rows_that_changes(tmp_path: Path) -> None:
    seen: list[int] = []

    def answer(request: str) -> str:
        if 'again' in request:
            time.sleep(0.03)  # too slow to be asked about several rows at once
            seen.append(1)
            if len(seen) > 2:
                raise KeyboardInterrupt
        return 'It is 2'

    evaluation = {'evaluator': {'type': 'AccEvaluator'}}
    model = {'abbr': 'f', 'type': answer, 'concurrency': 1, 'max_workers': 1}
    run_config(config(model, scored(evaluation)), out=tmp_path)
    changed = scored(evaluation)
    changed['infer_cfg']['prompt_template'] = template('{question} again')
    with pytest.raises(KeyboardInterrupt):
        run_config(config(model, changed), out=tmp_path)
    with RunReader(tmp_path) as archive:
        assert archive.scorecards() == []
        run = StoredRun(archive)
        for report in (report_csv, report_markdown, report_html):
            assert 'not finished' in report(run)


def test_rows_that_are_no_longer_there_take_the_score_with_them(tmp_path: Path) -> None:
    run_config(config({'abbr': 'f', 'type': echo}, scored({'evaluator': 'AccEvaluator'})), out=tmp_path)
    store = Store(tmp_path)
    store.drop_rows_from('demo', 'f', 4)
    with RunReader(tmp_path) as archive:
        assert len(archive.scorecards()) == 1
        store.drop_rows_from('demo', 'f', 3)
        assert archive.scorecards() == []
    store.close()


def test_a_dataset_without_rows_is_reported_with_none(tmp_path: Path) -> None:
    empty = {**dataset([], '{question}', 'empty'), 'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}}}
    summary = run_config(config({'abbr': 'f', 'type': echo}, empty, dataset(questions(2), '{question}')), out=tmp_path)
    card = summary.scorecards[0]
    assert (card.dataset, card.metric, card.value, card.scored, card.total) == ('empty', 'accuracy', None, 0, 0)
    with RunReader(tmp_path) as archive:
        assert 'empty,f,accuracy,,,,0,0' in report_csv(StoredRun(archive))
        assert 'empty' in report_markdown(StoredRun(archive))
        assert 'empty' in report_html(StoredRun(archive))


# -- reading a run -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run() -> Iterator[Path]:
    """A finished run where everybody may look."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        out = Path(folder, 'run')
        run_config(config({'abbr': 'f', 'type': echo}, scored({'evaluator': 'AccEvaluator'})), out=out)
        yield out


@pytest.mark.parametrize('journal', [False, True])
def test_a_finished_run_can_be_read_where_nobody_may_write(run: Path, journal: bool) -> None:
    if journal:
        (run / f'{FILE}-wal').touch()
    run.chmod(0o555)
    with nobody(), RunReader(run) as archive:
        assert len(list(archive.results())) == 4
        assert len(archive.scorecards()) == 1
        assert len(list(result_lines(run))) == 4
    run.chmod(0o755)


@pytest.mark.parametrize('trouble', ['empty', 'foreign', 'damaged'])
def test_a_file_that_holds_no_run_is_an_error_and_no_traceback(
    run: Path, trouble: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / FILE
    if trouble == 'damaged':
        whole = file.read_bytes()
        file.write_bytes(whole[:4096] + b'\xff' * (len(whole) - 4096))
    else:
        file.unlink()
        db = sqlite3.connect(file)
        db.execute('PRAGMA user_version=0' if trouble == 'empty' else 'CREATE TABLE theirs (x)')
        db.close()
        file.touch()
    for command in (['report'], ['report', '--csv'], ['export', 'results'], ['compare', str(run)]):
        assert main([*command, str(run)]) == 2
        assert FILE in capsys.readouterr().err
    if trouble == 'foreign':
        with pytest.raises(RunError, match='created by another program'):
            Store(run)


@pytest.mark.parametrize(
    'command',
    [
        ['report', '--html', '/nosuch/x.html'],
        ['export', 'results', '-o', '/nosuch/x'],
        ['export', 'results', '-o', '/nosuch/x.csv', '--format', 'csv'],
        ['export', 'results', '-o', '/nosuch/x.parquet', '--format', 'parquet'],
    ],
)
def test_a_file_that_cannot_be_written_is_an_error(
    run: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command[: 1 + (command[0] == 'export')], str(run), *command[1 + (command[0] == 'export') :]]) == 2
    assert 'cannot be written: No such file or directory' in capsys.readouterr().err


def test_a_page_that_cannot_be_made_leaves_the_old_one(run: Path, tmp_path: Path) -> None:
    page = tmp_path / 'a.html'
    page.write_text('the old one')
    page.chmod(0o640)
    assert main(['report', str(run), '--html', str(page), '--config', str(tmp_path / 'missing.py')]) == 2
    assert page.read_text() == 'the old one'
    assert main(['report', str(run), '--html', str(page)]) == 0
    assert page.read_text().startswith('<!doctype html>')
    assert page.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ['a.html']
    assert main(['report', str(run), '--html', '/dev/null']) == 0
    assert not Path('/dev/null').is_file()


def test_a_name_that_no_row_has_is_an_error(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / 'rows.jsonl'
    kept.write_text('before')
    for option, close in (('--dataset', 'dmo'), ('--model', 'x')):
        assert main(['export', 'results', str(run), option, close, '-o', str(kept)]) == 2
        told = capsys.readouterr().err
        assert f'no {option[2:]} of this run fits {close!r}.' in told
        assert "'demo'" in told or "'f'" in told
    assert kept.read_text() == 'before'
    assert export_results(run, kept, dataset='de*') == 4


def test_odd_words_of_a_server_stop_no_export_and_no_page(tmp_path: Path) -> None:
    odd = {'finish_reason': 7, 'message': {'content': 'half \ud800', 'reasoning_content': 7}}
    with serve(lambda body: odd) as server:
        summary = run_config(config(api(server.url), dataset(questions(2))), out=tmp_path / 'run')
    assert summary.outcomes == {'ok': 2}
    assert rows_of(tmp_path / 'run')[0].reasoning == ('7',)
    with RunReader(tmp_path / 'run') as archive:
        assert 'half' in report_html(StoredRun(archive))
    for form in ('jsonl', 'csv'):
        assert export_results(tmp_path / 'run', tmp_path / form, format=form) == 2  # type: ignore[arg-type]
        assert 'half ?' in (tmp_path / form).read_text(encoding='utf-8')
    parquet = pytest.importorskip('pyarrow.parquet')
    assert export_results(tmp_path / 'run', tmp_path / 'rows', format='parquet') == 2
    assert parquet.read_table(tmp_path / 'rows').to_pylist()[0]['prediction'] == 'half ?'


def test_a_function_that_replies_oddly_can_be_reported(tmp_path: Path) -> None:
    model = {'abbr': 'f', 'type': lambda request: Reply('x', reasoning=7)}  # type: ignore[arg-type]
    run_config(config(model, dataset(questions(1), '{question}')), out=tmp_path)
    with RunReader(tmp_path) as archive:
        assert report_html(StoredRun(archive)).rstrip().endswith('</html>')


# -- plans -------------------------------------------------------------------------------------------------------------

CHOICES = [
    {'question': f'Is it {i}?', 'choices': [' yes', ' no', ' perhaps'][: 2 + i % 2], 'answer': 0} for i in range(4)
]
NORMALISED = {label: f'So {label} to {{question}}' for label in ('yes', 'no')}


@pytest.mark.parametrize(
    ('rows', 'prompt', 'inferencer', 'requests', 'exact'),
    [
        (CHOICES, '{question}', {'type': 'CLPInferencer'}, 10, True),
        (questions(4), NORMALISED, {'type': 'PPLInferencer', 'normalizing_str': 'Answer:'}, 16, False),
    ],
)
def test_the_plan_counts_every_request_that_is_sent(
    tmp_path: Path, rows: Any, prompt: Any, inferencer: dict[str, Any], requests: int, exact: bool
) -> None:
    sent: list[Any] = []

    def score(given: Any) -> Any:
        sent.extend(given)
        return toys.score(given)

    written = config(toys.model(score=score), dataset(rows, prompt, **inferencer))
    (pair,) = plan_run(written, out=tmp_path).pairs
    assert (pair.requests, pair.cached, pair.exact) == (requests, 0, exact)
    assert run_config(written, out=tmp_path).outcomes == {'ok': 4}
    assert len(sent) == requests
    plan = plan_run(written, out=tmp_path)
    assert (plan.requests, plan.exact) == (0, True)
    assert str(plan).startswith(f'demo × m: 4 rows, {requests} requests ({requests} known)')


def test_the_later_turns_of_a_finished_dialogue_are_known(tmp_path: Path) -> None:
    from test_runs import dialogues

    with serve() as server:
        written = config(api(server.url), dialogues(3))
        run_config(written, out=tmp_path)
        plan = plan_run(written, out=tmp_path)
    assert (plan.requests, plan.exact) == (0, True)


def test_the_plan_names_what_a_judge_is_asked(tmp_path: Path) -> None:
    written = config({'abbr': 'f', 'type': echo}, scored(judged_by(api('http://127.0.0.1:9'))))
    plan = plan_run(written, out=tmp_path)
    assert plan.pairs[0].to_judge == 4
    assert str(plan) == (
        'demo × f: 4 rows, 4 requests, up to 4 requests to its judge\n4 requests to send, and up to 4 to judges'
    )


def test_equal_requests_are_planned_once(tmp_path: Path) -> None:
    rows = [*questions(2), *questions(2), *questions(3)]
    written = config({'abbr': 'f', 'type': echo}, dataset(rows, '{question}'), dataset(rows, '{question}', 'twin'))
    plan = plan_run(written)
    assert [(pair.rows, pair.requests, pair.exact) for pair in plan.pairs] == [(7, 3, True), (7, 0, True)]
    assert run_config(written, out=tmp_path).plan.requests == 3
    with RunReader(tmp_path) as archive:
        assert len(archive.fingerprints()) == 3


@pytest.mark.parametrize(('outcome', 'to_send'), [('failed', 1), ('filtered', 2), ('too_long', 0)])
def test_the_plan_counts_what_is_asked_again(tmp_path: Path, outcome: str, to_send: int) -> None:
    silent = {'finish_reason': 'content_filter', 'message': {'content': ''}}

    def answer(body: Any) -> Any:
        if any(word in prompt_of(body) for word in ('Question 1?', 'Question 2?')):
            return silent
        return refusing(400, 'Question 5?')(body)

    with serve(answer) as server:
        written = config(api(server.url, concurrency=1), dataset(questions(8)))
        assert run_config(written, out=tmp_path).outcomes == {'ok': 5, 'filtered': 2, 'failed': 1}
        for plan in (
            plan_run(written, out=tmp_path, rerun={outcome}),
            run_config(written, out=tmp_path, rerun={outcome}, dry_run=True).plan,
        ):
            assert plan.requests == to_send
        before = len(server.calls)
        assert run_config(written, out=tmp_path, rerun={outcome}).plan.requests == to_send
        assert len(server.calls) == before + to_send


@pytest.mark.parametrize('mode', ['every', 'last'])
def test_a_dialogue_that_cannot_be_worded_fails_alone_before_a_judge_too(tmp_path: Path, mode: str) -> None:
    rows = [{'question': ['a', 'b'], 'answer': ['A', 'B']}, {'question': ['a', 'b'], 'answer': ['x']}]
    words = {'round': [human('{question}'), bot('{answer}')]}
    talks = dataset(rows, words, type='MultiTurnGenInferencer', infer_mode=mode)
    talks['infer_cfg']['prompt_template']['type'] = 'MultiTurnPromptTemplate'
    talks['eval_cfg'] = judged_by({'abbr': 'court', 'type': lambda request: 'A'})
    model = {'abbr': 'f', 'type': lambda request: 'fine', 'chat': True}
    summary = run_config(config(model, talks), out=tmp_path)
    assert summary.outcomes == {'ok': 1, 'failed': 1}
    assert summary.plan.pairs[0].to_judge == (2 if mode == 'every' else 1)


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('option', 'value'),
    [
        ('concurrency', (0, 0)),
        ('concurrency', ('a', 'b')),
        ('concurrency', 'x'),
        ('concurrency', 0),
        ('concurrency', (8, 2)),
        ('concurrency', True),
        ('retry', -1),
        ('retry', 'x'),
        ('timeout', 'x'),
        ('query_per_second', 'x'),
        ('price', 5),
        ('price', {'input': 'x', 'output': 1}),
        ('price', {}),
        ('stop', 5),
    ],
)
@pytest.mark.parametrize('judges', [False, True])
def test_an_option_that_cannot_be_meant_is_refused_before_the_run(
    tmp_path: Path, option: str, value: Any, judges: bool
) -> None:
    odd = {**api('http://127.0.0.1:9'), option: value}
    written = (
        config({'abbr': 'f', 'type': echo}, scored(judged_by(odd))) if judges else config(odd, dataset(questions(1)))
    )
    with pytest.raises(ConfigError) as refused:
        run_config(written, out=tmp_path / 'run')
    (told,) = [problem for problem in refused.value.problems if re.split(r'[. ]', problem.where)[-1] == option]
    assert 'got' in told.what
    assert not (tmp_path / 'run').exists()


def test_all_options_that_are_wrong_are_told_at_once(tmp_path: Path) -> None:
    model = {'abbr': 'f', 'type': echo, 'concurrency': 'x', 'retry': -1}
    written = config(model, dataset(questions(1), '{question}', stopping_criteria=5, max_out_len='x'))
    with pytest.raises(ConfigError) as refused:
        run_config(written, out=tmp_path)
    told = [re.split(r'[. ]', problem.where)[-1] for problem in refused.value.problems]
    assert sorted(told) == ['concurrency', 'max_out_len', 'retry', 'stopping_criteria']


@pytest.mark.parametrize('prompt', ['{question}', {'round': [human('{question}')]}])
def test_a_function_that_says_so_receives_messages(tmp_path: Path, prompt: Any) -> None:
    got: list[Any] = []
    model = {'abbr': 'f', 'type': lambda request: got.append(request) or 'fine', 'chat': True}
    assert run_config(config(model, dataset(questions(1), prompt)), out=tmp_path).outcomes == {'ok': 1}
    assert got == [[{'role': 'user', 'content': 'Question 0?'}]]
