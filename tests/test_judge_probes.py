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
from rolecall.insight.kept_counts import HitCount, read_counts
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


def probe(kind: str, bias: str, out: Path, **options: Any) -> dict[str, HitCount]:
    make, evaluator = KINDS[kind]
    experiment = Experiment.open(config_with(evaluator, make(bias)))
    _, counts = probe_judges(experiment, RunOptions(out=out, **options))
    return {count.name: count for count in counts}


@pytest.mark.parametrize('kind', KINDS)
def test_a_judge_without_a_bias_passes_every_probe(kind: str, tmp_path: Path) -> None:
    counts = probe(kind, '', tmp_path)
    assert {name: count.hits for name, count in counts.items() if count.hits} == {}
    expected = set(_read_probes()) - (set() if kind == 'preference' else {'order'})
    assert counts.keys() - {'attack rate', 'control'} == expected
    assert all(count.total == len(CAPITALS) for name, count in counts.items() if name != 'control')


@pytest.mark.parametrize(('kind', 'bias'), [('right or wrong', 'verdict'), ('preference', 'order')])
def test_a_probe_catches_the_judge_that_has_its_bias(kind: str, bias: str, tmp_path: Path) -> None:
    counts = probe(kind, bias, tmp_path)
    assert {name for name, count in counts.items() if count.hits} == {bias, 'attack rate'}


@pytest.mark.parametrize('kind', KINDS)
def test_each_probe_catches_the_judge_that_has_its_bias_and_no_other(kind: str, tmp_path: Path) -> None:
    for bias in (*BIASES, *(['order'] if kind == 'preference' else [])):
        counts = probe(kind, bias, tmp_path / bias.replace(' ', '-'))
        caught = {name: count.hits for name, count in counts.items() if count.hits and name != 'attack rate'}
        assert caught == {bias: len(CAPITALS)}, bias


def test_a_judge_that_always_picks_the_first_is_caught_falling_for_length_too(tmp_path: Path) -> None:
    def judge(prompt: str) -> str:
        _, second = answers_in(prompt)
        return '[[B]]' if len(second) > 400 else '[[A]]'

    experiment = Experiment.open(config_with({'rubric': 'preference'}, rewrite_or(judge)))
    _, counts = probe_judges(experiment, RunOptions(out=tmp_path))
    swayed = {count.name for count in counts if count.hits == len(CAPITALS)}
    assert {'order', 'length'} <= swayed
    assert not {'instruction', 'verdict'} & swayed


def test_the_control_says_how_well_the_judge_knows_right_from_wrong(tmp_path: Path) -> None:
    sound = probe('right or wrong', '', tmp_path / 'sound')
    assert sound['control'].kappa == sound['attack rate'].kappa == 1
    experiment = Experiment.open(config_with({'rubric': 'correctness'}, rewrite_or(lambda prompt: 'A')))
    _, counts = probe_judges(experiment, RunOptions(out=tmp_path / 'yes'))
    control = {count.name: count for count in counts}['control']
    assert (control.kappa, control.hits, control.total) == (0, 3, 6)
    assert {count.name: (count.hits, count.total) for count in counts if count.name in ('empty', 'style')} == {
        'empty': (3, 3),
        'style': (3, 3),
    }


def test_an_attack_rate_counts_only_rows_with_a_verdict(tmp_path: Path) -> None:
    experiment = Experiment.open(config_with({'rubric': 'correctness'}, lambda prompt: 'Hm.'))
    _, counts = probe_judges(experiment, RunOptions(out=tmp_path))
    assert [(count.hits, count.total, count.share) for count in counts if count.name == 'attack rate'] == [(0, 0, '')]


def test_answers_of_a_run_stand_in_where_there_is_no_gold_answer(tmp_path: Path) -> None:
    config = config_with({'rubric': 'refusal'}, says_right_or_wrong('instruction'))
    run_config(config, out=tmp_path / 'run')
    config['datasets'][0]['reader_cfg'] = {'input_columns': ['question']}
    experiment = Experiment.open(config)
    with pytest.raises(ConfigError, match=r'--probe RUN'):
        probe_judges(experiment, RunOptions(out=tmp_path / 'probe'))
    with RunReader(tmp_path / 'run') as answers:
        _, counts = probe_judges(experiment, RunOptions(out=tmp_path / 'probe'), answers=answers)
    by_name = {count.name: count for count in counts}
    assert (by_name['instruction'].hits, by_name['instruction'].total) == (2, 2)  # Lima is right in one row
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
    assert 'attack rate (κ 0.00)' in capsys.readouterr().out
    asked = Path('asked.txt').read_text()
    assert main([*command, '--probe']) == 0
    assert Path('asked.txt').read_text() == asked
    [out] = Path('runs').iterdir()
    records = json.loads((out / 'probes.json').read_text())
    assert [(record['name'], record['hits']) for record in records] == [
        (count.name, count.hits) for count in read_counts(out, 'probes')
    ]
    assert main(['report', str(out)]) == 0
    assert 'attack rate' in capsys.readouterr().out


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
    with pytest.raises(ConfigError, match=re.escape(remedy)) as error:
        Experiment.open(config)
    assert len(error.value.problems) == 1


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


def test_a_metric_beside_a_judge_asks_it_only_about_what_the_metric_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    judge = 'def judge(prompt):\n    return "A" if "second" in prompt.partition("<answer-")[2] else "B"\n'
    Path('parts.py').write_text(
        f'replies = {ANSWERS}\ndef writer(prompt):\n    return replies[prompt.strip()]\n{judge}'
    )
    Path('rows.csv').write_text('question,answer\n' + ''.join(f'{question},B\n' for question in ANSWERS))
    judged = ['rows.csv', '--answer', 'answer', '--template', '{question}', '--model', 'parts:writer', '-q']
    judged += ['--judge', 'correctness:parts:judge', '--out', 'run']
    assert main(['run', *judged, '--metric', 'accuracy', '--choices', 'A,B']) == 0
    printed = ' '.join(capsys.readouterr().out.split())
    assert 'the rule decided 2 of 4 answers. The judge checked 0 of them (2 requests saved).' in printed
    assert main(['run', *judged, '--metric', 'f1']) == 2
    assert 'Name how it is read (--extract NAME), or leave --metric out.' in capsys.readouterr().err
    assert main(['run', *judged, '--metric', 'f1', '--extract', 'stated_text_postprocess', '--dry-run']) == 0
    assert main(['run', *judged, '--dry-run']) == 0


@in_one
@pytest.mark.parametrize(
    ('options', 'remedy'),
    [
        ({'rule_evaluator': {'type': 'AccEvaluator'}}, 'rule_evaluator=dict('),
        ({'asks_about': 'everything'}, "'wrong' or 'undecided'"),
        ({'check': 5}, 'expected a share of answers from 0 to 1, got 5.'),
    ],
)
def test_a_cascade_that_cannot_decide_is_refused(options: dict[str, Any], remedy: str) -> None:
    config, _ = cascade(ANSWERS, **options)
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        run_config(config, out='nowhere', dry_run=True)


def test_the_attack_rate_of_a_judge_stands_beside_its_kappa(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('parts.py').write_text('def judge(prompt):\n    return "A"\ndef writer(prompt):\n    return "1"\n')
    Path('rows.csv').write_text('question,answer\nOne?,1\nTwo?,2\n')
    Path('labels.csv').write_text('row,label\n0,correct\n1,wrong\n')
    command = [
        'run',
        'rows.csv',
        '--answer',
        'answer',
        '--model',
        'parts:writer',
        '-q',
        '--judge',
        'correctness:parts:judge',
    ]
    assert main([*command, '--out', 'run']) == 0
    assert main([*command, '--out', 'run-probe', '--probe']) == 0
    capsys.readouterr()
    assert main(['runs', 'label', 'run', 'labels.csv']) == 0
    assert 'attack rate in percent 100.0 [34.2, 100.0] (probed on 2 rows)' in capsys.readouterr().out
    assert main([*command[:-1], 'relevance:parts:judge', '--out', 'run', '--force']) == 0
    capsys.readouterr()
    assert main(['runs', 'label', 'run']) == 0
    assert 'attack rate' not in capsys.readouterr().out  # another judge was probed


def test_the_attack_rate_of_each_of_several_judges_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('parts.py').write_text(
        'def kind(prompt):\n    return "A"\ndef strict(prompt):\n    return "B"\ndef writer(prompt):\n    return "1"\n'
    )
    judges = ['parts.py:kind', 'parts.py:strict']
    dataset = {
        'abbr': 'rows',
        'type': 'Rows',
        'test': [{'question': 'One?', 'answer': '1'}, {'question': 'Two?', 'answer': '2'}],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
        'eval_cfg': {'evaluator': {'rubric': 'correctness', 'judge_cfg': judges}},
    }
    Path('config.json').write_text(json.dumps({'models': ['parts.py:writer'], 'datasets': [dataset]}))
    Path('labels.csv').write_text('row,label\n0,correct\n1,wrong\n')
    assert main(['run', 'config.json', '--out', 'run', '-q']) == 0
    assert main(['run', 'config.json', '--out', 'run-probe', '--probe', '-q']) == 0
    capsys.readouterr()
    assert main(['runs', 'label', 'run', 'labels.csv']) == 0
    printed = capsys.readouterr().out
    assert 'attack rate of kind in percent 100.0 [34.2, 100.0] (probed on 2 rows)' in printed
    assert 'attack rate of strict in percent 0.0 [0.0, 65.8] (probed on 2 rows)' in printed
