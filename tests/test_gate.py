"""The gate: worse, not worse, or too few rows to tell; what was not measured is neither right nor wrong."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import rolecall
from report_runs import MemoryRun
from rolecall.insight.gate import GateResult, Verdict, gate_markdown, gate_runs
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main


def run_of(
    scores: list[float | None],
    *,
    title: str = 'a',
    outcomes: dict[int, str] | None = None,
    unit: str = '%',
    lower_is_better: bool = False,
) -> MemoryRun:
    rows = [
        Result('qa', 'm', row, (outcomes or {}).get(row, 'ok'), score=score)  # type: ignore[arg-type]
        for row, score in enumerate(scores)
    ]
    card = Scorecard('qa', 'm', 'accuracy', 50.0, unit=unit, lower_is_better=lower_is_better)
    return MemoryRun([card], rows, title=title)


def verdict_of(base: list[float | None], new: list[float | None], *, margin: float = 2.0) -> Verdict:
    return gate_runs(run_of(base), run_of(new, title='b'), margin=margin).verdict


@pytest.mark.parametrize(
    ('base', 'new', 'verdict'),
    [
        ([1.0] * 500, [1.0] * 500, 'not worse'),
        ([1.0] * 30, [1.0] * 30, 'too few rows to tell'),
        ([1.0] * 500, [0.0] * 50 + [1.0] * 450, 'worse'),
        ([1.0] * 500, [0.0] * 9 + [1.0] * 491, 'too few rows to tell'),
        ([1.0] * 20, [0.0] * 20, 'worse'),
        ([0.0] * 100 + [1.0] * 400, [1.0] * 500, 'not worse'),
        ([1.0] * 100, [0.0] * 3 + [1.0] * 97, 'too few rows to tell'),
        ([0.5] * 1000, [0.5] * 1000, 'not worse'),
        ([0.5] * 5, [0.5] * 5, 'too few rows to tell'),
        ([], [], 'not measured'),
    ],
)
def test_the_verdict_follows_from_the_rows(base: list[float | None], new: list[float | None], verdict: Verdict) -> None:
    assert verdict_of(base, new) == verdict


def test_too_few_rows_say_how_many_are_needed_and_so_many_are_enough() -> None:
    [pair] = gate_runs(run_of([1.0] * 30), run_of([1.0] * 30), margin=2).pairs
    assert pair.needed is not None
    assert 30 < pair.needed < 1000
    assert verdict_of([1.0] * pair.needed, [1.0] * pair.needed) == 'not worse'


def test_a_wider_margin_accepts_a_larger_loss() -> None:
    base, new = [1.0] * 400, [0.0] * 10 + [1.0] * 390
    assert [verdict_of(base, new, margin=margin) for margin in (0, 2, 5)] == ['worse', 'worse', 'not worse']


def test_failed_rows_are_not_measured_and_rows_the_model_lost_are_wrong() -> None:
    base = run_of([1.0] * 400)
    failed = run_of([None] * 20 + [1.0] * 380, outcomes=dict.fromkeys(range(20), 'failed'))
    [pair] = gate_runs(base, failed, margin=2).pairs
    assert (pair.verdict, pair.not_measured, pair.rows) == ('not worse', 20, 380)
    lost = run_of([None] * 40 + [1.0] * 360, outcomes=dict.fromkeys(range(40), 'too_long'))
    [pair] = gate_runs(base, lost, margin=2).pairs
    assert (pair.verdict, pair.not_measured, pair.rows) == ('worse', 0, 400)


def test_a_run_that_lost_many_rows_is_not_measured() -> None:
    failed = run_of([None] * 100 + [1.0] * 300, outcomes=dict.fromkeys(range(100), 'failed'))
    result = gate_runs(run_of([1.0] * 400), failed, margin=2)
    assert (result.verdict, result.exit_code) == ('not measured', 3)
    assert 'run it again with --rerun failed' in result.pairs[0].line


def test_a_dataset_that_the_new_run_lacks_is_not_measured() -> None:
    base = run_of([1.0] * 400)
    base.rows.append(Result('other', 'm', 0, 'ok', score=1.0))
    result = gate_runs(base, run_of([1.0] * 400), margin=2)
    assert (result.verdict, result.pairs[1].why) == ('not measured', 'the new run has no rows of it')


def test_scores_of_different_metrics_are_not_measured() -> None:
    new = run_of([0.0] * 400)
    new.cards[:] = [replace(card, metric='exact') for card in new.cards]
    [pair] = gate_runs(run_of([1.0] * 400), new, margin=2).pairs
    assert (pair.verdict, pair.difference, pair.rows) == ('not measured', None, 400)
    assert pair.why == 'the metrics differ (accuracy → exact)'


def test_where_lower_is_better_a_rise_is_worse() -> None:
    options = {'unit': '', 'lower_is_better': True}
    base, new = [2.0 + row % 3 for row in range(300)], [3.0 + row % 3 for row in range(300)]
    assert gate_runs(run_of([*base], **options), run_of([*new], **options), margin=0.1).verdict == 'worse'  # type: ignore[arg-type]
    assert gate_runs(run_of([*new], **options), run_of([*base], **options), margin=0.1).verdict == 'not worse'  # type: ignore[arg-type]


def test_the_error_rates_are_those_that_are_promised() -> None:
    draw = random.Random(7)

    def rows(loss: float) -> tuple[list[float | None], list[float | None]]:
        base: list[float | None] = [float(draw.random() < 0.7) for _ in range(800)]
        new = [1 - score if draw.random() < 0.04 else score for score in base if score is not None]
        return base, [0.0 if score and draw.random() < loss / 0.7 else score for score in new]

    at_margin = Counter(verdict_of(*rows(0.02 - 0.016)) for _ in range(150))
    unchanged = Counter(verdict_of([1.0] * 800, [1.0] * 800) for _ in range(3))
    assert at_margin['not worse'] <= 0.1 * 150
    assert unchanged == {'not worse': 3}


def test_the_command_tells_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / 'answers.py'
    answers.write_text(
        'def right(prompt): return "yes"\n'
        'def wrong(prompt): return "no" if int(prompt.split("#")[1].split()[0]) < 40 else "yes"\n'
    )
    rows = tmp_path / 'qa.csv'
    rows.write_text('question,answer\n' + ''.join(f'Row #{i} ?,yes\n' for i in range(400)))
    for name in ('right', 'wrong'):
        model = ['--model', f'{answers}:{name}', '--set', 'models.*.abbr=m']
        assert main(['run', str(rows), '--answer', 'answer', *model, '--out', str(tmp_path / name), '-q']) == 0
    capsys.readouterr()
    base, new = str(tmp_path / 'right'), str(tmp_path / 'wrong')
    assert main(['compare', base, base, '--gate']) == 0
    assert capsys.readouterr().out.endswith('right against right, margin 2: NOT WORSE\n')
    assert main(['compare', base, new, '--gate', '--json']) == 1
    assert json.loads(capsys.readouterr().out)['verdict'] == 'worse'
    assert main(['compare', base, new, '--gate', '--markdown']) == 1
    shown = capsys.readouterr().out
    assert shown.startswith('### ❌ wrong: **worse**\n')
    assert '| ❌ | qa | m | 100.00 | 90.00 | -10.00 [' in shown
    assert main(['compare', base, new, '--markdown']) == 2
    assert main(['compare', base, str(tmp_path / 'nowhere'), '--gate']) == 2
    verdict = rolecall.gate(base, new)
    assert not verdict.passed
    assert str(verdict).endswith('wrong against right, margin 2: WORSE')


def test_names_in_markdown_are_harmless() -> None:
    result = GateResult((), 2.0, '<b>|`', 'x')
    assert 'Against &lt;b>\\|\\`, margin 2' in gate_markdown(result)


def test_bounds_of_percentages_stay_within_a_hundred_points() -> None:
    def a_run(right: int) -> MemoryRun:
        rows = [Result('qa', 'm', row, 'ok', score=float(row < right)) for row in range(4)]
        card = Scorecard('qa', 'm', 'accuracy', 25.0 * right, unit='%')
        return MemoryRun([card], rows)

    [up] = gate_runs(a_run(0), a_run(4), margin=2).pairs
    [down] = gate_runs(a_run(4), a_run(0), margin=2).pairs
    assert (up.high, down.low) == (100.0, -100.0)
