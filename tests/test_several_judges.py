"""Several judges of the same answers: a score for each, and how far they agree."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rolecall.errors import ConfigError
from rolecall.insight.pairwise import pairwise_tables
from rolecall.insight.run_source import StoredRun
from rolecall.runs.planning import plan_run
from rolecall.runs.run import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.statistics import AgreementCounter
from rolecall.ui.cli.main import main
from rolecall.ui.report.page import report_html
from rolecall.ui.report.terminal_report import report_terminal
from rolecall.ui.report.text_reports import report_markdown

ROWS = [{'question': f'{n}?'} for n in range(10)]


def number_in(prompt: str) -> int:
    return int(prompt.partition('?')[0])


def says_right_below(most: int) -> Callable[[str], str]:
    return lambda prompt: 'A' if number_in(prompt) < most else 'B'


def judged(*judges: Mapping[str, Any], rows: Any = ROWS, **evaluator: Any) -> dict[str, Any]:
    template = {'type': 'PromptTemplate', 'template': '{question} {prediction}'}
    return {
        'models': [{'abbr': 'm', 'type': lambda prompt: 'so be it'}],
        'judge_models': list(judges),
        'datasets': [
            {
                'abbr': name,
                'type': 'Rows',
                'test': rows,
                'reader_cfg': {'input_columns': ['question']},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
                'eval_cfg': {'evaluator': {'type': 'GenericLLMEvaluator', 'prompt_template': template, **evaluator}},
            }
            for name in 'de'
        ],
        'groups': {'all': ['d', 'e']},
    }


MILD, STRICT = ({'abbr': name, 'type': says_right_below(most)} for name, most in (('mild', 8), ('strict', 5)))


def test_each_judge_has_a_score_and_the_rows_have_the_first_ones_verdicts(tmp_path: Path) -> None:
    config = judged(MILD, STRICT)
    summary = run_config(config, out=tmp_path, lint=False)
    scores = {(card.dataset, card.metric): card.value for card in summary.scorecards}
    expected = {'accuracy (mild)': 80.0, 'accuracy (strict)': 50.0}
    assert scores == {(name, metric): value for name in ('d', 'e', 'all') for metric, value in expected.items()}
    assert sum(pair.to_judge for pair in plan_run(config).pairs) == 2 * 2 * len(ROWS)
    with RunReader(tmp_path) as reader:
        rows = [result for result in reader.results() if result.dataset == 'd']
    assert [row.correct for row in rows] == [True] * 8 + [False] * 2
    assert [(one['judge'], one['reply']) for one in rows[6].judged if one] == [('mild', 'A'), ('strict', 'B')]


def test_reports_say_how_far_judges_agree(tmp_path: Path) -> None:
    run_config(judged(MILD, STRICT), out=tmp_path, lint=False)
    console = Console(record=True, width=140, file=io.StringIO())
    with RunReader(tmp_path) as reader:
        run = StoredRun(reader)
        report_terminal(run, console)
        told = [report_markdown(run), report_html(run), console.export_text()]
    for text in told:
        words = text.replace('&#39;', "'")
        assert "d × m: mild and strict agree on 70.0 % of 10 rows (Krippendorff's alpha 0.37)." in words
        assert 'd × m: 30.0 between mild (80.0) and strict (50.0).' in words
        assert 'xtraction' not in words
    assert 'mild: A' in told[1]


def test_a_judge_that_fails_leaves_the_others_their_scores(tmp_path: Path) -> None:
    def fails(prompt: str) -> str:
        if number_in(prompt) % 2:
            raise ValueError('overloaded')
        return 'A'

    config = judged(MILD, {'abbr': 'flaky', 'type': fails}, {'abbr': 'mute', 'type': lambda prompt: 'Hm.'})
    summary = run_config(config, out=tmp_path, lint=False)
    mild, flaky, mute = [card for card in summary.scorecards if card.dataset == 'd']
    assert (mild.value, mild.scored, flaky.value, flaky.scored) == (80.0, 10, 100.0, 5)
    assert (mute.metric, mute.value) == ('accuracy (mute)', None)
    assert 'no verdict' in mute.error
    assert mild.details['agreement']['rows'] == 5
    assert flaky.details['not_judged']['model'] == 'flaky'
    assert summary.unjudged == 2 * 5


def test_judges_of_a_comparison_have_a_table_each(tmp_path: Path) -> None:
    def prefers(name: str) -> Callable[[str], str]:
        return lambda prompt: '[[A]]' if f'first: {name}' in prompt else '[[B]]'

    template = {'type': 'PromptTemplate', 'template': '{question} first: {prediction} second: {prediction2}'}
    judges = ({'abbr': f'likes {name}', 'type': prefers(name)} for name in 'xy')
    config = judged(*judges, type='PairwiseEvaluator', prompt_template=template)
    config['models'] = [{'abbr': name, 'type': lambda prompt, name=name: name} for name in 'xy']
    run_config(config, out=tmp_path, lint=False)
    with RunReader(tmp_path) as reader:
        cards = [card for card in StoredRun(reader).scorecards() if card.dataset == 'd']
    tables = pairwise_tables(cards)
    assert tables is not None
    assert [(line[0], line[4]) for line in tables.pairs] == [('d (likes x)', '10–0–0'), ('d (likes y)', '0–0–10')]
    agreement = cards[0].details['agreement']
    assert agreement['equal'] == 0
    assert agreement['alpha'] == pytest.approx(-0.9)


@pytest.mark.parametrize('where', ['judge_models', 'judge_cfg'])
def test_judges_need_names_of_their_own(where: str, tmp_path: Path) -> None:
    config = judged(MILD, MILD) if where == 'judge_models' else judged(judge_cfg=[MILD, MILD])
    with pytest.raises(ConfigError, match="two judges are called 'mild'"):
        run_config(config, out=tmp_path)


def test_view_shows_the_prompt_of_each_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'config.py').write_text(
        'def first(prompt): return "A"\n'
        'def second(prompt): return "B"\n'
        'models = [dict(abbr="m", type="Function", function=first)]\n'
        'judge_models = [dict(abbr=f.__name__, type="Function", function=f) for f in (first, second)]\n'
        'datasets = [dict(abbr="d", type="Rows", test=[dict(q="1?")], reader_cfg=dict(input_columns=["q"]),\n'
        '    infer_cfg=dict(prompt_template=dict(type="PromptTemplate", template="{q}")),\n'
        '    eval_cfg=dict(evaluator=dict(type="GenericLLMEvaluator")))]\n'
    )
    assert main(['view', str(tmp_path / 'config.py'), '--judge', '--json']) == 0
    shown = [json.loads(line)['model'] for line in capsys.readouterr().out.splitlines()]
    assert shown == ['first', 'second']


@pytest.mark.parametrize(
    ('rows', 'equal', 'alpha'),
    [
        ([], None, None),
        ([[1.0, None]], None, None),
        ([[1.0, 1.0], [1.0, 1.0]], 100.0, None),
        ([[1.0, 1.0], [0.0, 0.0]], 100.0, 1.0),
        ([[1.0, 0.0], [0.0, 1.0]], 0.0, -0.5),
        ([[1.0, 2.0, None], [4.0, 4.0, 5.0], [9.0, 7.0, 8.0], [None, None, 3.0]], 100 / 7, 0.9219),
    ],
)
def test_agreement(rows: list[list[float | None]], equal: float | None, alpha: float | None) -> None:
    """The last alpha was computed with the package krippendorff 0.9 (interval)."""
    agreement = AgreementCounter()
    for scores in rows:
        agreement.add(scores)
    told = agreement.describe()
    assert told['equal'] == (None if equal is None else pytest.approx(equal))
    assert told['alpha'] == (None if alpha is None else pytest.approx(alpha, abs=1e-4))


@pytest.mark.parametrize('written', [5, [3], 'no such model', ['no such model']])
def test_judges_that_are_not_models_are_refused(written: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='judge'):
        run_config({**judged(), 'judge_models': written}, out=tmp_path)


@pytest.mark.parametrize(
    ('written', 'remedy'), [('nosuch/model', 'hf:nosuch/model'), ('gpt-4o', 'openai/gpt-4o'), ('m.', "'m'")]
)
def test_a_judge_that_is_unknown_is_named_with_what_was_probably_meant(
    written: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match='judge_cfg') as error:
        run_config(judged(judge_cfg=written), out=tmp_path)
    assert remedy in error.value.problems[0].remedy


def test_the_judge_of_all_datasets_is_that_of_a_cascade_too(tmp_path: Path) -> None:
    """The only model of the config used to judge its own answers there."""
    config = judged(STRICT, rows=[{**row, 'gold': 'that'} for row in ROWS])
    for dataset in config['datasets']:
        dataset['reader_cfg']['output_column'] = 'gold'
        rule = {'type': lambda prediction, gold: False}
        asks = {**dataset['eval_cfg']['evaluator'], 'judge_cfg': {}}
        dataset['eval_cfg']['evaluator'] = {'type': 'CascadeEvaluator', 'rule_evaluator': rule, 'llm_evaluator': asks}
    assert [card.value for card in run_config(config, out=tmp_path, lint=False).scorecards] == [50.0] * 3


class OwnJudging:
    """An evaluator that builds its own judge, as classes of other packages do."""

    def __init__(self, judge_cfg: Mapping[str, Any] | None = None) -> None:
        self.judge_cfg = judge_cfg or {}

    def score(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {'score': float(len(self.judge_cfg['abbr']))}


def test_an_evaluator_that_builds_its_own_judge_gets_the_first_of_the_config(tmp_path: Path) -> None:
    config = judged(MILD, STRICT)
    for dataset in config['datasets']:
        dataset['eval_cfg']['evaluator'] = {'type': OwnJudging}
    assert [card.value for card in run_config(config, out=tmp_path, lint=False).scorecards] == [4.0] * 3
