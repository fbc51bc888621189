"""What people see of a run."""

from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rolecall import ConfigError
from rolecall.experiment.lint.subject import Finding
from rolecall.models.backends import MODELS, build_model
from rolecall.runs.client.model_client import Activity, BatchClient
from rolecall.runs.client.retry import RetryPolicy
from rolecall.runs.plan import PlannedPair, RunPlan
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from rolecall.ui.views.run_progress import LiveProgress, PlainProgress, QuietProgress, progress_for, score_line

PLAN = RunPlan((PlannedPair('d', 'm', 3, 12, cached=2, input_tokens=4000, price=1.5, exact=False),))
FINDING = Finding('unfilled-field', 'error', 'd', 'a field stays as written', 'Name a column.')
CARD = Scorecard('d', 'm', 'accuracy', 66.67, 20.1, 93.2, 2, 3, {'ok': 2, 'failed': 1})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(listener: Any) -> None:
    """A short run, as a listener hears of it."""
    listener.on_plan(PLAN, [FINDING])
    listener.on_pair_start('d', 'm', 3)
    for row, outcome in enumerate(['ok', 'ok', 'failed']):
        listener.on_row(Result('d', 'm', row, outcome, input_tokens=10), asked=True)  # type: ignore[arg-type]
    listener.on_message('m: a key was refused')
    listener.on_scores('d', 'm', [CARD])
    listener.on_end()


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    listener = progress_for(stream)
    assert type(listener) is PlainProgress
    watched(listener)
    said = stream.getvalue()
    assert 'd × m: 3 rows, ~12 requests (~2 known), ~4,000 input tokens, at most 1.50' in said
    assert 'lint error: unfilled-field  d: a field stays as written' in said
    assert re.search(r'd × m: 3/3 rows, [\d,.]+ rows/s, 1 failed, 30 tokens', said)
    assert 'accuracy 66.67 [20.10, 93.20], 2 of 3 rows scored (1 failed)' in said
    assert '\x1b' not in said


def test_a_quiet_run_says_only_what_must_be_known() -> None:
    stream = io.StringIO()
    listener = progress_for(stream, quiet=True)
    assert type(listener) is QuietProgress
    watched(listener)
    assert stream.getvalue() == 'rolecall: m: a key was refused\n'


def test_a_terminal_gets_a_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('TERM', 'xterm-256color')
    stream = Terminal()
    listener = progress_for(stream)
    assert type(listener) is LiveProgress
    watched(listener)
    said = stream.getvalue()
    assert '\x1b' in said
    assert 'accuracy 66.67' in said


TIMES = ['this process: 3.0 s, of them 1.0 s rendering and scoring', *(f'm on node{n}: 1 request' for n in range(20))]


def test_a_pipe_gets_where_time_goes_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    listener = PlainProgress(stream)
    listener.on_times(TIMES)
    assert stream.getvalue() == ''
    monkeypatch.setattr('rolecall.ui.views.run_progress._TIMES_EVERY', 0.0)
    listener.on_times(TIMES)
    assert stream.getvalue().splitlines() == [*TIMES[:9], '… and 12 more']


def test_a_terminal_shows_where_time_goes_below_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('TERM', 'xterm-256color')
    stream = Terminal()
    listener = LiveProgress(stream)
    listener.on_pair_start('d', 'm', 3)
    listener.on_times(TIMES[:2])
    assert listener._display is not None
    listener._display.refresh()
    shown = stream.getvalue()
    listener.on_end()
    assert shown.index('d × m') < shown.index(TIMES[0]) < shown.index(TIMES[1])


def test_a_log_repeats_nothing_while_a_server_is_silent_and_guesses_no_end() -> None:
    seconds = itertools.count(1)
    stream = io.StringIO()
    listener = PlainProgress(stream, every=0.01)
    why = 'http://host/v1: the server failed (503).'
    listener.on_pair_start(
        'd', 'm', 8, lambda: Activity(waiting=f'no answer for {next(seconds)} s, still trying: {why}')
    )
    listener.on_row(Result('d', 'm', 0, 'ok'), asked=True)
    time.sleep(0.4)
    listener.on_end()
    lines = stream.getvalue().splitlines()
    waiting = [line for line in lines if 'the server failed (503)' in line]
    assert len(waiting) == 1
    assert 'left' not in waiting[0]
    assert len(waiting[0]) < 200


def test_the_tokens_of_a_batch_under_way_are_counted() -> None:
    model = type('Computing', (), {'batch': 4, 'computed': 1234, 'name': 'm'})()
    assert BatchClient(model, RetryPolicy()).activity.tokens == 1234


def test_a_score_that_is_none_still_counts_its_rows() -> None:
    card = Scorecard('d', 'm', 'accuracy', None, scored=0, total=3, outcomes={'failed': 3})
    assert score_line(card) == 'd × m: accuracy: no score, 0 of 3 rows scored (3 failed)'


CONFIG = """
def shout(request):
    return request.upper()

models = [dict(abbr='f', type=shout)]
datasets = [dict(abbr='d', type='Rows', test=[dict(q='a', a='A'), dict(q='b', a='B')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}')))]
"""


def test_the_command_runs_a_file_and_says_where_the_results_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / 'config.py'
    file.write_text(CONFIG)
    assert main(['run', str(file), '--out', str(tmp_path / 'run'), '--dry-run']) == 0
    assert 'Nothing was sent' in capsys.readouterr().err
    assert not (tmp_path / 'run').exists()
    assert main(['run', str(file), '--out', str(tmp_path / 'run')]) == 0
    assert f'Results are in {tmp_path / "run"}.' in capsys.readouterr().err


def test_failed_rows_are_named_with_the_command_that_asks_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / 'config.py'
    file.write_text(CONFIG.replace('request.upper()', "{'a': 'A'}[request]"))
    monkeypatch.setattr('sys.argv', ['rolecall', 'run', str(file), '--out', str(tmp_path / 'run'), '--quiet'])
    assert main() == 1
    assert f'1 row failed; retry with: rolecall run {file} --out {tmp_path / "run"} --rerun failed' in (
        capsys.readouterr().err
    )


def test_starting_a_run_imports_nothing_heavy(tmp_path: Path) -> None:
    code = 'import sys, json, rolecall.ui.cli.run; print(json.dumps(sorted(sys.modules)))'
    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout
    assert not {'torch', 'transformers', 'aiohttp', 'numpy', 'pyarrow'} & set(json.loads(said))


# -- which backend answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['OpenAy', 'HugingFaceCausalLM'])
def test_an_unknown_type_of_model_gets_a_suggestion(name: str) -> None:
    with pytest.raises(ConfigError, match=r'Did you mean') as refused:
        build_model({'type': name, 'path': 'x'}, name='m')
    assert refused.value.problems[0].where == 'm.type'


def test_a_vendor_without_a_backend_is_told_what_to_use() -> None:
    with pytest.raises(ConfigError, match="type='OpenAI' with its base URL"):
        build_model({'type': 'opencompass.models.SenseTime'}, name='m')


def test_types_are_found_by_name_class_or_dotted_path() -> None:
    for kind in ('OpenAI', 'opencompass.models.OpenAI', 'opencompass.models.openai_api.OpenAISDK'):
        assert build_model({'type': kind, 'path': 'gpt'}, name='m').identity['model'] == 'gpt'
    assert build_model({'type': len}, name='m').name == 'm'
    assert build_model({'type': 'os.path.basename'}, name='m').capabilities.generate
    assert {'Claude', 'LlamaCpp', 'VLLM', 'HuggingFacewithChatTemplate'} <= set(MODELS)
