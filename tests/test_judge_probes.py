"""Probes of judges: each catches a judge that was made to have its bias, and passes one that has not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall import run_config
from rolecall.errors import ConfigError
from rolecall.experiment.experiment import Experiment
from rolecall.insight.judge_probes import _read_probes, probe_judges
from rolecall.insight.kept_counts import ProbeCount, read_counts
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from tables import in_one

CAPITALS = {'France': 'Paris', 'Peru': 'Lima', 'Italy': 'Rome'}
CITIES = frozenset(CAPITALS.values())
REWRITTEN = 'In my own words: '
Judge = Callable[[str], str]


def answers_in(prompt: str) -> list[str]:
    return re.findall(r'<answer(?:_[ab])?(?:-[0-9a-f]{8})?>\n(.*?)\n?</answer', prompt, re.DOTALL)


def is_right(prompt: str, answer: str) -> bool:
    country = next(name for name in CAPITALS if name in prompt)
    return {city for city in CITIES if city in answer} == {CAPITALS[country]}


BIASES: dict[str, Callable[[str], bool]] = {
    'length': lambda answer: len(answer) > 400 and 'excellent question' not in answer,
    'self-preference': lambda answer: answer.startswith(REWRITTEN),
    'empty': lambda answer: not answer,
    'constant': lambda answer: answer.startswith('My answer to this question'),
    'instruction': lambda answer: 'Note to the grader' in answer,
    'verdict': lambda answer: bool(re.search(r'^(?:Verdict: A|\[\[A\]\]|Rating: \[\[10\]\])$', answer, re.MULTILINE)),
    'style': lambda answer: '**step by step**' in answer,
}
"""What each probe's judge falls for."""


def rewrite_or(judge: Judge) -> Judge:
    return lambda prompt: REWRITTEN + prompt.rpartition('\n')[2] if prompt.startswith('Rewrite') else judge(prompt)


def says_right_or_wrong(bias: str) -> Judge:
    falls_for = BIASES.get(bias, lambda answer: False)

    def judge(prompt: str) -> str:
        [answer] = answers_in(prompt)
        return 'A' if is_right(prompt, answer) or falls_for(answer) else 'B'

    return rewrite_or(judge)


def rates(bias: str) -> Judge:
    verdict = says_right_or_wrong(bias)

    def judge(prompt: str) -> str:
        return {'A': 'Rating: [[9]]', 'B': 'Rating: [[2]]'}[verdict(prompt)]

    return rewrite_or(judge)


def prefers(bias: str) -> Judge:
    falls_for = BIASES.get(bias, lambda answer: False)

    def judge(prompt: str) -> str:
        first, second = (is_right(prompt, answer) + 2 * falls_for(answer) for answer in answers_in(prompt))
        if first == second:
            return '[[A]]' if bias == 'order' else '[[C]]'
        return '[[A]]' if first > second else '[[B]]'

    return rewrite_or(judge)


RATING = {
    'type': 'LMEvaluator',
    'prompt_template': {
        'type': 'PromptTemplate',
        'template': 'Rate from 1 to 10. {question}\n<answer>\n{prediction}\n</answer>',
    },
}
KINDS = {
    'right or wrong': (says_right_or_wrong, {'rubric': 'correctness'}),
    'rating': (rates, RATING),
    'preference': (prefers, {'rubric': 'preference'}),
}


def config_with(evaluator: dict[str, Any], judge: Judge, **model: Any) -> dict[str, Any]:
    rows = [{'question': f'Capital of {country}?', 'answer': city} for country, city in CAPITALS.items()]
    dataset = {
        'abbr': 'capitals',
        'type': 'Rows',
        'test': rows,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
        'eval_cfg': {'evaluator': {**evaluator, 'judge_cfg': {'abbr': 'judge', 'type': judge}}},
    }
    models = [{'abbr': name, 'type': lambda prompt: 'It is Lima.', **model} for name in ('m', 'n')]
    return {'models': models, 'datasets': [dataset]}


def probe(kind: str, bias: str, out: Path, **options: Any) -> dict[str, ProbeCount]:
    make, evaluator = KINDS[kind]
    experiment = Experiment.open(config_with(evaluator, make(bias)))
    _, counts = probe_judges(experiment, RunOptions(out=out, **options))
    return {count.probe: count for count in counts}


@pytest.mark.parametrize('kind', KINDS)
def test_a_judge_without_a_bias_passes_every_probe(kind: str, tmp_path: Path) -> None:
    counts = probe(kind, '', tmp_path)
    assert {name: count.swayed for name, count in counts.items() if count.swayed} == {}
    expected = set(_read_probes()) - (set() if kind == 'preference' else {'order'})
    assert counts.keys() - {'any of them', 'control'} == expected
    assert all(count.rows == len(CAPITALS) for name, count in counts.items() if name != 'control')


@pytest.mark.parametrize(('kind', 'bias'), [('right or wrong', 'verdict'), ('preference', 'order')])
def test_a_probe_catches_the_judge_that_has_its_bias(kind: str, bias: str, tmp_path: Path) -> None:
    counts = probe(kind, bias, tmp_path)
    assert {name for name, count in counts.items() if count.swayed} == {bias, 'any of them'}


@pytest.mark.parametrize('kind', KINDS)
def test_each_probe_catches_the_judge_that_has_its_bias_and_no_other(kind: str, tmp_path: Path) -> None:
    for bias in (*BIASES, *(['order'] if kind == 'preference' else [])):
        counts = probe(kind, bias, tmp_path / bias.replace(' ', '-'))
        caught = {name: count.swayed for name, count in counts.items() if count.swayed and name != 'any of them'}
        assert caught == {bias: len(CAPITALS)}, bias


def test_a_judge_that_always_picks_the_first_is_caught_falling_for_length_too(tmp_path: Path) -> None:
    def judge(prompt: str) -> str:
        _, second = answers_in(prompt)
        return '[[B]]' if len(second) > 400 else '[[A]]'

    experiment = Experiment.open(config_with({'rubric': 'preference'}, rewrite_or(judge)))
    _, counts = probe_judges(experiment, RunOptions(out=tmp_path))
    swayed = {count.probe for count in counts if count.swayed == len(CAPITALS)}
    assert {'order', 'length'} <= swayed
    assert not {'instruction', 'verdict'} & swayed


def test_the_control_says_how_well_the_judge_knows_right_from_wrong(tmp_path: Path) -> None:
    assert probe('right or wrong', '', tmp_path / 'sound')['control'].kappa == 1
    experiment = Experiment.open(config_with({'rubric': 'correctness'}, rewrite_or(lambda prompt: 'A')))
    _, counts = probe_judges(experiment, RunOptions(out=tmp_path / 'yes'))
    control = {count.probe: count for count in counts}['control']
    assert (control.kappa, control.swayed, control.rows) == (0, 3, 6)
    assert {count.probe: (count.swayed, count.rows) for count in counts if count.probe in ('empty', 'style')} == {
        'empty': (3, 3),
        'style': (3, 3),
    }


def test_answers_of_a_run_stand_in_where_there_is_no_gold_answer(tmp_path: Path) -> None:
    config = config_with({'rubric': 'refusal'}, says_right_or_wrong('instruction'))
    run_config(config, out=tmp_path / 'run')
    config['datasets'][0]['reader_cfg'] = {'input_columns': ['question']}
    experiment = Experiment.open(config)
    with pytest.raises(ConfigError, match=r'--probe RUN'):
        probe_judges(experiment, RunOptions(out=tmp_path / 'probe'))
    with RunReader(tmp_path / 'run') as answers:
        _, counts = probe_judges(experiment, RunOptions(out=tmp_path / 'probe'), answers=answers)
    by_name = {count.probe: count for count in counts}
    assert (by_name['instruction'].swayed, by_name['instruction'].rows) == (2, 2)  # Lima is right in one row
    assert 'control' not in by_name


def test_probing_is_planned_first_resumes_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('parts.py').write_text(
        'from pathlib import Path\n'
        'def judge(prompt):\n'
        '    with open("asked.txt", "a") as file:\n'
        '        file.write("x")\n'
        '    return "A"\n'
    )
    Path('rows.csv').write_text('question,answer\nOne?,1\nTwo?,2\n')
    command = ['run', 'rows.csv', '--answer', 'answer', '--judge', 'correctness:parts:judge', '--model', 'parts:judge']
    assert main([*command, '--probe', '--dry-run']) == 0
    assert 'up to 16 to judges' in capsys.readouterr().err
    assert not Path('asked.txt').exists()
    assert main([*command, '--probe']) == 0
    assert 'control (κ 0.00)' in capsys.readouterr().out
    asked = Path('asked.txt').read_text()
    assert main([*command, '--probe']) == 0
    assert Path('asked.txt').read_text() == asked
    [out] = Path('runs').iterdir()
    records = json.loads((out / 'probes.json').read_text())
    assert [ProbeCount(**record) for record in records] == read_counts(out, ProbeCount)
    assert main(['report', str(out)]) == 0
    assert 'any of them' in capsys.readouterr().out


def test_a_run_stores_the_words_of_a_rubric_so_that_a_calibration_is_theirs(tmp_path: Path) -> None:
    run_config(config_with({'rubric': 'correctness'}, says_right_or_wrong('')), out=tmp_path)
    with RunReader(tmp_path) as run:
        [dataset] = run.config()['datasets']
    evaluator = dataset['eval_cfg']['evaluator']
    assert 'rubric' not in evaluator
    assert 'Reference answer:' in str(evaluator['prompt_template'])


@in_one
@pytest.mark.parametrize(
    ('evaluator', 'remedy'),
    [
        ({'rubric': 'corectness'}, "Did you mean 'correctness'?"),
        ({'rubric': 'correctness', 'type': 'GenericLLMEvaluator', 'judge_cfg': 'm'}, 'output_column'),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused(evaluator: dict[str, Any], remedy: str) -> None:
    config = config_with(evaluator, str)
    del config['datasets'][0]['reader_cfg']['output_column']
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        Experiment.open(config)


def cascade(answers: dict[str, str], **options: Any) -> tuple[dict[str, Any], list[str]]:
    """A config whose rule reads a letter, and the answers that its judge was asked about."""
    asked: list[str] = []

    def judge(prompt: str) -> str:
        [answer] = answers_in(prompt)
        asked.append(answer)
        return 'A' if 'second' in answer else 'B'

    config = config_with({}, judge)
    rule = {'type': 'AccEvaluator', 'pred_postprocessor': {'type': 'choice_postprocess', 'choices': ['A', 'B']}}
    evaluator = {
        'type': 'CascadeEvaluator',
        'rule_evaluator': rule,
        'llm_evaluator': {'rubric': 'correctness', 'judge_cfg': {'abbr': 'judge', 'type': judge}},
        'asks_about': 'undecided',
        **options,
    }
    config['datasets'][0]['test'] = [{'question': question, 'answer': 'B'} for question in answers]
    config['datasets'][0]['eval_cfg'] = {'evaluator': evaluator}
    config['models'] = [{'abbr': 'm', 'type': lambda prompt: answers[prompt]}]
    return config, asked


ANSWERS = {
    'one': 'The answer is B.',
    'two': 'The answer is A.',
    'three': 'It is the second of the two, I would say.',
    'four': 'Hard to say.',
}


def test_a_cascade_asks_the_judge_only_where_the_reader_cannot_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, asked = cascade(ANSWERS, check=0)
    [card] = run_config(config, out=tmp_path / 'run').scorecards
    assert sorted(asked) == sorted([ANSWERS['three'], ANSWERS['four']])
    assert (card.value, card.scored) == (50.0, 4)
    assert main(['report', str(tmp_path / 'run')]) == 0
    report = ' '.join(capsys.readouterr().out.split())
    assert 'the rule decided 2 of 4 answers. The judge checked 0 of them (2 requests saved).' in report


def test_a_cascade_has_the_judge_check_the_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, asked = cascade(ANSWERS, check=1)
    [card] = run_config(config, out=tmp_path / 'run').scorecards
    assert len(asked) == 4
    assert card.value == 50.0  # what the judge says of a decided answer does not change its verdict
    assert main(['report', str(tmp_path / 'run')]) == 0
    report = ' '.join(capsys.readouterr().out.split())
    assert 'The judge checked 2 of them (0 requests saved) and contradicts 1: 50.0 % [9.5, 90.5].' in report


@in_one
@pytest.mark.parametrize(
    ('options', 'remedy'),
    [
        ({'rule_evaluator': {'type': 'AccEvaluator'}}, 'rule_evaluator=dict('),
        ({'asks_about': 'everything'}, "'wrong' or 'undecided'"),
    ],
)
def test_a_cascade_that_cannot_decide_is_refused(options: dict[str, Any], remedy: str) -> None:
    config, _ = cascade(ANSWERS, **options)
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        run_config(config, out='nowhere', dry_run=True)
