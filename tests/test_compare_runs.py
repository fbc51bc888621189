"""Two whole runs compared: what is tested, on which scale, and what was left out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from helpers import template
from rolecall.insight.comparison import Comparison, compare_runs, comparison_as_json
from rolecall.runs import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.statistics import mcnemar
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun
from rolecall.ui.report.comparison_view import print_comparison
from rolecall.ui.views.terminal import make_console


def dataset(abbr: str, answers: dict[str, Any], evaluator: Any, **columns: list[Any]) -> dict[str, Any]:
    more = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rows = [{'question': question, 'answer': answer} for question, answer in answers.items()]
    return {
        'abbr': abbr,
        'type': 'Rows',
        'test': [{**row, **(more[place] if more else {})} for place, row in enumerate(rows)],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': template('{question}'), 'inferencer': {'type': 'GenInferencer'}},
        'eval_cfg': {'evaluator': evaluator},
    }


def asked(out: Path, said: Any, *datasets: dict[str, Any], model: str = 'm') -> Path:
    run_config({'models': [{'abbr': model, 'type': said}], 'datasets': list(datasets)}, out=out, lint=False)
    return out


def compared(left: Path, right: Path) -> tuple[Comparison, str, dict[str, Any]]:
    out = io.StringIO()
    with RunReader(left) as one, RunReader(right) as other:
        runs = {'left': StoredRun(one), 'right': StoredRun(other)}
        comparison = compare_runs(**runs)
        print_comparison(comparison, make_console(out, width=200), **runs)
        return comparison, out.getvalue(), comparison_as_json(comparison, **runs)


NUMBERS = {str(number): 'A' for number in range(20)}


class Whole:
    """An evaluator that says nothing about single rows."""

    def score(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {'share': 100 * sum(map(str.__eq__, predictions, references)) / len(references)}


def below(number: int) -> Any:
    return lambda prompt: 'A' if int(prompt) < number else 'B'


def test_a_score_over_all_rows_at_once_is_compared_without_a_test(tmp_path: Path) -> None:
    left = asked(tmp_path / 'a', below(10), dataset('d', NUMBERS, {'type': Whole}))
    right = asked(tmp_path / 'b', below(11), dataset('d', NUMBERS, {'type': Whole}))
    with RunReader(left) as archive:
        assert {row.score for row in archive.results()} == {None}
    comparison, text, _ = compared(left, right)
    (one,) = comparison.differences
    assert (one.metric, one.left, one.right, one.difference) == ('share', 50.0, 55.0, 5.0)
    assert (one.p, one.low, one.high, one.compared, one.flips) == (None, None, None, 'values', ())
    assert 'd × m: scores as reported, not tested' in text


def test_numbers_are_on_the_scale_of_the_report(tmp_path: Path) -> None:
    left = asked(tmp_path / 'a', below(10), dataset('d', NUMBERS, 'AccEvaluator'))
    right = asked(tmp_path / 'b', below(17), dataset('d', NUMBERS, 'AccEvaluator'))
    (one,) = compared(left, right)[0].differences
    assert (one.metric, one.left, one.right, one.rows) == ('accuracy', 50.0, 85.0, 20)
    assert one.difference == pytest.approx(35.0)
    assert one.p == pytest.approx(mcnemar(7, 0)) == pytest.approx(0.014, abs=5e-4)
    assert one.low < 35.0 < one.high


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    def fails_once(prompt: str) -> str:
        return 'A' if prompt != '9' else str(1 / 0)

    ten = {str(number): 'A' for number in range(10)}
    changed = {question: 'B' if int(question) < 4 else 'A' for question in ten}
    left = asked(tmp_path / 'a', below(10), dataset('d', ten, 'AccEvaluator'), dataset('old', ten, 'AccEvaluator'))
    right = asked(
        tmp_path / 'b', fails_once, dataset('d', changed, 'AccEvaluator'), dataset('new', ten, 'AccEvaluator')
    )
    comparison, text, told = compared(left, right)
    (one,) = comparison.differences
    assert (one.rows, one.only_left, one.only_right, one.different_gold, one.different_requests) == (5, 1, 0, 4, 5)
    assert '1 row scored only on the left, 4 rows left out because the gold answers differ' in text
    assert '5 of 5 rows sent differently' in text
    assert 'only on the left: old × m' in text
    assert 'only on the right: new × m' in text
    assert (told['only_left'], told['only_right']) == (
        [{'dataset': 'old', 'model': 'm'}],
        [{'dataset': 'new', 'model': 'm'}],
    )
    names = ('only_left', 'only_right', 'different_gold', 'different_requests', 'compared')
    assert [told['differences'][0][name] for name in names] == [1, 0, 4, 5, 'rows']


def test_runs_with_nothing_in_common_say_what_each_has(tmp_path: Path) -> None:
    left = asked(tmp_path / 'a', below(10), dataset('old', NUMBERS, 'AccEvaluator'))
    right = asked(tmp_path / 'b', below(10), dataset('new', NUMBERS, 'AccEvaluator'))
    _, text, _ = compared(left, right)
    assert 'the runs have no dataset × model in common' in text
    assert 'only on the left: old × m' in text
    assert 'only on the right: new × m' in text


ROTATIONS = {'ABCD': 'A', 'BCDA': 'D', 'CDAB': 'C', 'DABC': 'B'}


@pytest.mark.parametrize('in_columns', [True, False])
def test_of_a_circular_evaluation_questions_are_compared_not_rotations(tmp_path: Path, in_columns: bool) -> None:
    keys = [(question, pattern) for question in range(4) for pattern in ROTATIONS]
    golds = {f'{question} {pattern}': ROTATIONS[pattern] for question, pattern in keys}
    written = {
        text: gold if in_columns else f'q{text.split()[0]}--{gold}--{text.split()[1]}' for text, gold in golds.items()
    }
    columns = {'qid': [f'q{q}' for q, _ in keys], 'circular_pattern': [p for _, p in keys]} if in_columns else {}
    rotated = dataset('circ', written, 'CircularEvaluator', **columns)

    def one_rotation_wrong(but: str) -> Any:
        return lambda prompt: golds[prompt] if not prompt.endswith('DABC') or prompt[0] in but else 'Z'

    left = asked(tmp_path / 'a', one_rotation_wrong(but=''), rotated)
    right = asked(tmp_path / 'b', one_rotation_wrong(but='01'), rotated)
    comparison, text, told = compared(left, right)
    (one,) = comparison.differences
    assert (one.metric, one.compared, one.rows) == ('perf_circular', 'groups', 4)
    assert (one.left, one.right, one.difference) == (0.0, 50.0, 50.0)
    assert one.p == mcnemar(2, 0) == pytest.approx(0.289, abs=5e-4)
    assert [flip['row'] for flip in told['differences'][0]['flips']] == [3, 7]
    assert '2 groups flipped' in text


def test_a_number_of_the_whole_corpus_is_not_what_the_test_is_about_and_that_is_said(tmp_path: Path) -> None:
    golds = {'1': 'the cat is on the mat', '2': 'there is one big dog here', '3': 'a bird sings in the tree'}
    worse = {'1': 'the cat sat on mat', '2': 'there is a dog', '3': 'a bird sings'}
    left = asked(tmp_path / 'a', worse.__getitem__, dataset('mt', golds, 'BleuEvaluator'))
    right = asked(tmp_path / 'b', golds.__getitem__, dataset('mt', golds, 'BleuEvaluator'))
    (one,) = compared(left, right)[0].differences
    with RunReader(left) as archive:
        scores = [row.score for row in archive.results()]
    assert one.metric == 'bleu, mean of rows'
    assert one.left == pytest.approx(100 * sum(scores) / 3)
    assert one.right == pytest.approx(100.0)


def test_different_metrics_are_shown_and_not_subtracted(tmp_path: Path) -> None:
    left = asked(tmp_path / 'a', below(10), dataset('d', NUMBERS, 'AccEvaluator'))
    right = asked(tmp_path / 'b', below(10), dataset('d', NUMBERS, 'SquadEvaluator'))
    (one,) = compared(left, right)[0].differences
    assert (one.metric, one.left, one.difference, one.p) == ('accuracy → f1', 50.0, None, None)


def test_two_models_of_one_run_are_compared_by_the_first_extractor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = {'type': 'PromptTemplate', 'template': '{q}'}
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': f'{row}', 'a': 'B'} for row in range(4)],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': prompt, 'inferencer': {'type': 'GenInferencer'}},
        'eval_cfg': {
            'evaluator': 'AccEvaluator',
            'pred_postprocessor': {
                'strict': {'type': 'first_capital_postprocess'},
                'flexible': {'type': 'first_option_postprocess', 'options': 'ABCD'},
            },
        },
    }
    models = [{'abbr': 'terse', 'type': _say_b}, {'abbr': 'wordy', 'type': _say_b_in_words}]
    run_config({'datasets': [dataset], 'models': models}, out=tmp_path)
    assert main(['compare', str(tmp_path), '--models', 'terse', 'wordy', '--json']) == 0
    [found] = json.loads(capsys.readouterr().out)['differences']
    assert (found['metric'], found['left'], found['right']) == ('accuracy (strict)', 100.0, 0.0)
    assert main(['compare', str(tmp_path), '--models', 'terse', 'wrody']) == 2
    assert "Did you mean 'wordy'?" in capsys.readouterr().err
    assert main(['compare', str(tmp_path)]) == 2
    assert 'two models of the first with --models' in capsys.readouterr().err


def _say_b(prompt: str) -> str:
    return 'B'


def _say_b_in_words(prompt: str) -> str:
    return 'The answer is B'
