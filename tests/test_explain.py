"""Why two numbers differ: the true cause is named, with its share."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rolecall
from explained_cases import (
    CASES,
    FIRST_NUMBER,
    HOT,
    LONG,
    ROWS,
    choosing,
    config,
    dataset,
    dialogue,
    meta,
    needs_chatml,
    needs_example,
    needs_system,
    noisy_sides,
    number_in,
    reasons,
    right,
    weigh,
)
from helpers import bot, human, system, template
from rolecall import load_config
from rolecall.errors import ConfigError, RunError
from rolecall.insight.cause_shares import explain
from rolecall.insight.explanation import Explanation
from rolecall.insight.ladder import build_ladders
from rolecall.insight.run_source import StoredRun
from rolecall.models.protocol import Reply, Sampling, Scored
from rolecall.runs import RunReader, run_config
from rolecall.ui.cli.main import main

LOGS = Path(__file__).parent / 'data' / 'logs'
FREE = {'metric': 'metric', 'reader': 'reader', 'length': 'length'}
"""Cases whose cause shows in stored replies; of the others, all is left for the prompt."""


def run_sides(folder: Path, *configs: dict[str, Any]) -> tuple[Path, Path]:
    for side, own in zip('ab', configs, strict=True):
        run_config(own, out=folder / side, lint=False)
    return folder / 'a', folder / 'b'


def shares(explanation: Explanation) -> dict[str, float]:
    return {step.cause: round(step.points, 1) for step in explanation.steps}


@pytest.mark.parametrize('cause', sorted(CASES))
def test_stored_replies_say_what_is_not_the_prompt(cause: str, tmp_path: Path) -> None:
    [explanation] = explain(*run_sides(tmp_path, *CASES[cause]))
    assert explanation.difference is not None
    assert shares(explanation) == {FREE.get(cause, 'prompt'): round(explanation.difference, 1)}
    assert cause in [edit.cause for edit in explanation.edits]
    assert (f'{cause} and sampling differ: --ladder' in str(explanation.unknown)) is (cause not in FREE)


@pytest.mark.parametrize('cause', sorted({*CASES} - {*FREE}))
def test_a_single_difference_needs_no_model(cause: str, tmp_path: Path) -> None:
    left, right_side = CASES[cause]
    same = {**left['datasets'][0]['infer_cfg'], 'inferencer': right_side['datasets'][0]['infer_cfg']['inferencer']}
    alike = {**left, 'datasets': [{**left['datasets'][0], 'infer_cfg': same}]}
    [explanation] = explain(*run_sides(tmp_path, alike, right_side))
    assert list(shares(explanation)) == [cause]
    assert not explanation.unknown
    assert explanation.steps[0].changes, 'the requests are compared by origin'


def climb(left: Any, right_side: Any, out: Path, **options: Any) -> Explanation:
    with ExitStack() as stack:
        [(ladder, stored)] = build_ladders(left, right_side, stack, out=out, **options)
        ladder.ask()
        assert ladder.plan().requests == 0, 'everything is known when it is started again'
        return ladder.explain(stored)


@pytest.mark.parametrize('cause', sorted({*CASES} - {'metric'}))
def test_the_ladder_gives_the_true_cause_at_least_nine_tenths(cause: str, tmp_path: Path) -> None:
    left, other = CASES[cause]
    data = other['datasets'][0]
    politely = {
        **data,
        'infer_cfg': {
            **data['infer_cfg'],
            'inferencer': {**HOT, **data['infer_cfg']['inferencer'], 'stopping_criteria': ['\n\n']},
        },
    }
    sides = left, {**other, 'datasets': [politely]}
    explanation = climb(*run_sides(tmp_path, *sides), tmp_path / 'ladder', configs=sides)
    assert explanation.difference is not None
    assert shares(explanation)[cause] / explanation.difference >= 0.9
    assert sum(step.points for step in explanation.steps) == pytest.approx(explanation.difference, abs=0.1)
    assert cause in explanation.sentence or cause == 'reader'


@pytest.mark.parametrize('cause', ['system text', 'format'])
def test_the_ladder_tells_a_cause_from_the_moods_of_a_noisy_model(cause: str, tmp_path: Path) -> None:
    sides = noisy_sides(cause, 300)
    explanation = climb(*run_sides(tmp_path, *sides), tmp_path / 'ladder', configs=sides, rows=300)
    steps = {step.cause: step for step in explanation.steps}
    true = 64.0 if cause == 'format' else -64.0  # 80 % of the rows hang on it, and 80 % of those are not spoilt
    assert (steps[cause].low or 0) < true < (steps[cause].high or 0)
    assert (steps['sampling'].low or 0) < 0 < (steps['sampling'].high or 0)
    assert sum(step.points for step in explanation.steps) == pytest.approx(explanation.difference, abs=0.1)


TEXT = template('{question}\n{answer}')
SPOKEN = template({'begin': ['</E>'], 'round': [human('{question}'), bot('{answer}')]}, ice_token='</E>')
MARKED = template('</E>{question}\n{answer}', ice_token='</E>')
SHOWN = {'retriever': {'type': 'FixKRetriever', 'fix_id_list': [24, 3]}}
OTHERWISE_WORDED = {
    'a text': ({'prompt_template': TEXT}, {'prompt_template': MARKED, 'ice_template': TEXT, **SHOWN}),
    'a dialogue': (
        {'prompt_template': TEXT},
        {'prompt_template': SPOKEN, 'ice_template': dataset()['infer_cfg']['prompt_template'], **SHOWN},
    ),
    'other words': (
        {'prompt_template': template('Sums.\n{question}\n{answer}')},
        {'prompt_template': MARKED, 'ice_template': TEXT, **SHOWN},
    ),
}


@pytest.mark.parametrize('case', OTHERWISE_WORDED)
def test_examples_are_told_from_the_template_that_has_a_place_for_them(case: str, tmp_path: Path) -> None:
    left, other = (dataset(**infer) for infer in OTHERWISE_WORDED[case])
    hot = {**other, 'infer_cfg': {**other['infer_cfg'], 'inferencer': HOT}}
    sides = (config(side, needs_example, meta_template=None) for side in (left, hot))
    assert shares(climb(*sides, tmp_path / 'ladder'))['examples'] == 80.0


def test_a_system_text_is_told_from_the_text_that_it_is_added_to(tmp_path: Path) -> None:
    spoken = dataset(prompt_template=dialogue(system('Think hard.')), inferencer=HOT)
    sides = (config(side, needs_system, meta_template=None) for side in (dataset(prompt_template=TEXT), spoken))
    expected = {'text or dialogue': 0.0, 'system text': 80.0, 'sampling': 0.0}
    assert shares(climb(*sides, tmp_path / 'ladder')) == expected


def needs_no_line(prompt: str) -> str:
    return right(prompt, not prompt.endswith('\n'))


@pytest.mark.parametrize('is_run', [True, False])
def test_what_the_turn_from_a_text_to_a_dialogue_changes_is_a_step_of_its_own(is_run: bool, tmp_path: Path) -> None:
    spoken = dataset(prompt_template=dialogue(system('Think hard.')), inferencer=HOT)
    sides = [config(side, needs_no_line, meta_template=None) for side in (dataset(prompt_template=TEXT), spoken)]
    left, other = run_sides(tmp_path, *sides) if is_run else sides
    explanation = climb(left, other, tmp_path / 'ladder', configs=sides if is_run else ())
    assert (explanation.left_value, explanation.right_value) == (20.0, 100.0)
    assert shares(explanation) == {'text or dialogue': 80.0, 'system text': 0.0, 'sampling': 0.0}
    [change] = explanation.steps[0].changes
    assert (change.origin, change.left, change.right) == ('text', '\n', '')


def test_markers_around_a_dialogue_are_not_taken_for_a_system_text(tmp_path: Path) -> None:
    spoken = dataset(prompt_template=dialogue(system('Be kind.')), inferencer=HOT)
    sides = (config(side, needs_chatml, meta_template='chatml') for side in (dataset(prompt_template=TEXT), spoken))
    assert shares(climb(*sides, tmp_path / 'ladder')) == {'wording': 80.0, 'sampling': 0.0}


def test_settings_that_only_work_together_are_one_step(tmp_path: Path) -> None:
    weighed = choosing('sum')
    written = {
        **weighed,
        'infer_cfg': {'prompt_template': TEXT, 'inferencer': {'type': 'GenInferencer', 'temperature': 0.7}},
    }
    sides = (config(side, lambda prompt: LONG, score=weigh, meta_template=None) for side in (weighed, written))
    assert {'wording and asking', 'sampling'} <= {*(steps := shares(climb(*sides, tmp_path / 'ladder')))}
    assert not {'wording', 'asking'} & {*steps}


def test_a_setting_that_leaves_no_reply_is_an_error_and_no_noise(tmp_path: Path) -> None:
    def fragile(prompt: str, sampling: Sampling) -> str:
        if ('Hi.' in prompt) != bool(sampling.temperature):
            raise ValueError('down')
        return right(prompt, 'Hi.' in prompt)

    greeted = dataset(prompt_template=dialogue(system('Hi.')), inferencer=HOT)
    with ExitStack() as stack:
        sides = config(dataset(), fragile), config(greeted, fragile)
        [(ladder, stored)] = build_ladders(*sides, stack, out=tmp_path / 'ladder')
        ladder.ask()
        with pytest.raises(RunError, match=r'no row was answered with every setting; .*: down'):
            ladder.explain(stored)


def needs_both(prompt: str) -> str:
    return right(prompt, 'Think hard.' in prompt and prompt.startswith('<s>'))


def test_what_two_edits_do_only_together_is_shared(tmp_path: Path) -> None:
    plain = config(dataset(prompt_template=dialogue()), needs_both)
    both = config(
        dataset(prompt_template=dialogue(system('Think hard.')), inferencer=HOT), needs_both, meta_template=meta('<s>')
    )
    explanation = climb(plain, both, tmp_path / 'ladder')
    assert (explanation.left_value, explanation.right_value) == (20.0, 100.0)
    assert shares(explanation) == {'system text': 40.0, 'BOS': 40.0, 'sampling': 0.0}
    assert not explanation.unknown


def test_what_is_left_of_a_moody_model_is_noise(tmp_path: Path) -> None:
    chance = random.Random(1)

    def moody(prompt: str) -> str:
        return right(prompt, chance.random() < 0.5)

    greeted = dataset(inferencer=HOT, prompt_template=dialogue(system('Hi.')))
    noisy = climb(config(dataset(), moody), config(greeted, moody, meta_template=meta('<s>')), tmp_path / 'noise')
    assert noisy.steps[-1].cause == 'noise'
    assert all(step.low is not None and step.low < 0 < (step.high or 0) for step in noisy.steps)


def test_three_ways_to_the_same_end_are_an_interaction(tmp_path: Path) -> None:
    def any_of_them(prompt: str, sampling: Sampling) -> str:
        return right(prompt, 'Think hard.' in prompt or prompt.startswith('<s>') or bool(sampling.temperature))

    plain = config(dataset(prompt_template=dialogue()), any_of_them)
    all_three = config(
        dataset(prompt_template=dialogue(system('Think hard.')), inferencer=HOT), any_of_them, meta_template=meta('<s>')
    )
    steps = {step.cause: step for step in climb(plain, all_three, tmp_path / 'ladder').steps}
    assert round(steps['interaction'].points) == -40
    assert steps['interaction'].high is not None
    assert steps['interaction'].high < 0


def test_a_ladder_of_many_rows_asks_as_many_as_the_paired_test_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [
        {**row, 'number': n, 'question': f'What is {n} plus {n}?', 'answer': str(2 * n)}
        for n, row in enumerate(ROWS * 10)
    ]

    def big(own: dict[str, Any]) -> dict[str, Any]:
        return {**own, 'datasets': [{**own['datasets'][0], 'test': many}]}

    sides = [big(side) for side in CASES['system text']]
    with ExitStack() as stack:
        [(ladder, _)] = build_ladders(*run_sides(tmp_path, *sides), stack, out=tmp_path / 'ladder', configs=sides)
        assert 30 <= len(ladder.pairs) < 200
        assert ladder.plan().requests == 2 * len(ladder.pairs)
    explanation = climb(tmp_path / 'a', tmp_path / 'b', tmp_path / 'ladder', configs=sides, rows=50)
    assert 'the ladder rests on 50 rows of 600.' in explanation.unknown
    assert shares(explanation)['system text'] / explanation.difference >= 0.9  # type: ignore[operator]


def test_a_log_without_replies_is_explained_by_its_marks(tmp_path: Path) -> None:
    for folder in ('whole', 'bare'):
        shutil.copytree(LOGS / 'lm-eval', tmp_path / folder)
    for samples in (tmp_path / 'bare').glob('samples_*'):
        rows = [json.loads(line) for line in samples.read_text().splitlines()]
        samples.write_text(''.join(json.dumps({**row, 'resps': None, 'filtered_resps': None}) + '\n' for row in rows))
    for explanation in explain(tmp_path / 'whole', tmp_path / 'bare'):
        assert f'{tmp_path / "bare"}: the log has no replies.' in explanation.unknown


def test_two_models_are_told_from_two_engines(tmp_path: Path) -> None:
    asked = config(dataset(), reasons), config(dataset(), sometimes, abbr='other')
    sides = run_sides(tmp_path, *asked)
    [explanation] = explain(*sides)
    assert {*shares(explanation)} == {'failures', 'the model'}
    ladder = climb(*sides, tmp_path / 'ladder', configs=asked)
    assert 'the model' in [edit.cause for edit in ladder.edits]


def test_a_number_that_a_run_has_is_called_the_same(tmp_path: Path) -> None:
    left, _ = run_sides(tmp_path, *CASES['reader'])
    [explanation] = explain(left, 100.0)
    assert explanation.sentence == f'{left} has 100.0, too.'


def test_rows_that_say_the_same_are_paired_one_by_one(tmp_path: Path) -> None:
    same = [{**ROWS[5], 'answer': str(10 + (at % 2))} for at in range(20)]
    others = [{**ROWS[5], 'answer': str(10 + (at % 4 == 0))} for at in range(20)]
    sides = ({**dataset(), 'test': rows} for rows in (same, others))
    [explanation] = explain(*run_sides(tmp_path, *(config(data, reasons) for data in sides)))
    assert (explanation.rows, shares(explanation)) == (20, {'gold answers': 25.0})


def test_a_ladder_that_is_interrupted_asks_nothing_more(tmp_path: Path) -> None:
    def interrupted(prompt: str) -> str:
        if climbing:
            os.kill(os.getpid(), signal.SIGINT)
        return reasons(prompt)

    climbing: list[bool] = []
    asked = (
        config(dataset(), interrupted),
        config(
            dataset(prompt_template=dialogue(system('Be kind.')), inferencer={'type': 'GenInferencer'}), interrupted
        ),
    )
    sides = run_sides(tmp_path, *asked)
    climbing.append(True)
    with pytest.raises(KeyboardInterrupt):
        climb(*sides, tmp_path / 'ladder', configs=asked)


def test_the_command_plans_a_ladder_before_it_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    left, other = map(str, run_sides(tmp_path, *CASES['BOS']))
    assert main(['explain', left, other, '--ladder']) == 2
    assert 'is code of its own' in (said := capsys.readouterr().err)
    assert '--config' in said
    for at, name in enumerate(('a.py', 'b.py')):
        Path(name).write_text(f'from explained_cases import CASES\nglobals().update(CASES["BOS"][{at}])\n')
    words = ['explain', left, other, '--ladder', '--config', 'a.py', 'b.py', '--rows', '40']
    assert main([*words, '--dry-run']) == 0
    captured = capsys.readouterr()
    assert '80 requests to send' in captured.err
    assert not captured.out
    assert main(words) == 0
    assert 'is BOS (' in capsys.readouterr().out


def sometimes(prompt: str) -> str:
    """Fails on every tenth row, and answers every seventh without a number."""
    number = number_in(prompt)
    if number % 10 == 3:
        raise ValueError('down')
    return 'I do not know.' if number % 7 == 0 else reasons(prompt)


def test_shares_of_several_causes_add_up(tmp_path: Path) -> None:
    strict = {**dataset()['eval_cfg'], 'unparsed': 'exclude'}
    sides = run_sides(
        tmp_path,
        config({**dataset(), 'eval_cfg': strict}, sometimes),
        config({**dataset(), 'eval_cfg': FIRST_NUMBER}, reasons),
    )
    [explanation] = explain(*sides)
    assert {*shares(explanation)} == {'reader', 'denominator', 'failures', 'engine'}
    assert sum(step.points for step in explanation.steps) == pytest.approx(explanation.difference)
    assert explanation.sentence.startswith('Of -100.0 points, ')
    assert 'is reading' in explanation.sentence


def test_rows_that_one_side_lacks_are_a_cause(tmp_path: Path) -> None:
    few = {**dataset(), 'test': ROWS[:20]}
    [explanation] = explain(*run_sides(tmp_path, config(dataset(), below(20)), config(few, below(20))))
    assert shares(explanation) == {'rows': 53.3}
    assert explanation.rows == 20


def below(number: int) -> Callable[[str], str]:
    return lambda prompt: right(prompt, number_in(prompt) < number).replace('-1', 'x')


def test_option_order_in_rows_is_told_from_other_rows(tmp_path: Path) -> None:
    def pick_first(prompt: str) -> str:
        return 'A' if prompt.index('one') < prompt.index('two') else 'C'

    def rows(first: str, second: str) -> list[dict[str, Any]]:
        return [
            {'q': f'A question of some length, number {n}', 'A': f'{first} {n}', 'B': f'{second} {n}', 'gold': 'A'}
            for n in range(12)
        ]

    def choices(test: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            **dataset(prompt_template=template('{q}\n{A}\n{B}')),
            'test': test,
            'reader_cfg': {'input_columns': ['q', 'A', 'B'], 'output_column': 'gold'},
            'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
        }

    sides = config(choices(rows('one', 'two')), pick_first), config(choices(rows('two', 'one')), pick_first)
    [explanation] = explain(*run_sides(tmp_path, *sides))
    assert shares(explanation) == {'option order': -100.0}


def test_other_gold_letters_of_turned_options_are_their_order(tmp_path: Path) -> None:
    def rows(gold: str) -> list[dict[str, Any]]:
        named = {gold: 'right', 'B' if gold == 'A' else 'A': 'wrong'}
        return [{'q': f'Question {n}?', **{key: named[key] for key in 'AB'}, 'gold': gold} for n in range(12)]

    def choices(gold: str, **infer: Any) -> dict[str, Any]:
        return {
            **dataset(prompt_template=template('{q}\n{A}\n{B}'), **infer),
            'test': rows(gold),
            'reader_cfg': {'input_columns': ['q', 'A', 'B'], 'output_column': 'gold'},
            'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
        }

    def say_first(prompt: str) -> str:
        return 'A'

    sides = config(choices('A'), say_first), config(choices('B', inferencer=HOT), say_first)
    [explanation] = explain(*run_sides(tmp_path, *sides))
    assert shares(explanation) == {'option order': -100.0}
    with pytest.raises(ConfigError, match='with the same content'):
        climb(tmp_path / 'a', tmp_path / 'b', tmp_path / 'ladder', configs=sides)


def write_log(root: Path, replies: dict[int, str], evaluator: str = 'AccEvaluator', *, marks: bool = True) -> Path:
    """A working directory as OpenCompass writes it; without `marks`, as its newer versions do of generated answers."""
    entries = {
        str(n): {
            'origin_prompt': f'##user\n{ROWS[n]["question"]}\n##assistant\n',
            'prediction': reply,
            'gold': ROWS[n]['answer'],
        }
        for n, reply in replies.items()
    }
    details = {
        str(at): {'pred': str(number_read(reply)), 'correct': str(number_read(reply)) == ROWS[n]['answer']}
        for at, (n, reply) in enumerate(replies.items())
    }
    right_rows = sum(detail['correct'] for detail in details.values())
    accuracy = 100 * right_rows / len(details)
    if not marks:
        golds = [ROWS[n]['answer'] for n in replies]
        details = {
            at: {'predictions': detail['pred'], 'references': gold}
            for (at, detail), gold in zip(details.items(), golds, strict=True)
        } | {'type': 'GEN'}
    for name, content in (
        ('predictions/theirs/their_sums.json', entries),
        ('results/theirs/their_sums.json', {'accuracy': accuracy, 'details': details}),
    ):
        file = root / '20260101_120000' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    text = f"datasets = [dict(abbr='their_sums', eval_cfg=dict(evaluator=dict(type='{evaluator}'), pred_postprocessor=dict(type='first_number_postprocess')))]\n"
    (root / '20260101_120000' / 'configs').mkdir()
    (root / '20260101_120000' / 'configs' / 'eval.py').write_text(text)
    return root


def number_read(reply: str) -> int:
    return next(int(word.strip('.,')) for word in reply.split() if word.strip('.,').isdigit())


@pytest.mark.parametrize(
    ('evaluator', 'marks'), [('AccEvaluator', True), ('AccEvaluator', False), ('acme.Evaluator', True)]
)
def test_a_log_of_another_harness_is_explained_by_its_reading(evaluator: str, marks: bool, tmp_path: Path) -> None:
    log = write_log(tmp_path / 'log', {n: reasons(ROWS[n]['question']) for n in range(60)}, evaluator, marks=marks)
    run_config(config(dataset(), reasons), out=tmp_path / 'ours', lint=False)
    [explanation] = explain(log, tmp_path / 'ours')
    assert (explanation.left_value, explanation.right_value, explanation.rows) == (0.0, 100.0, 60)
    assert shares(explanation) == {'reader': 100.0}
    assert ('its marks stand' in str(explanation.unknown)) is (evaluator != 'AccEvaluator')
    [backwards] = explain(tmp_path / 'ours', log)
    assert shares(backwards) == {'reader': -100.0}


def test_a_config_reads_a_log_without_being_run(tmp_path: Path) -> None:
    log = write_log(tmp_path / 'log', {n: reasons(ROWS[n]['question']) for n in range(60)})
    [explanation] = explain(config(dataset(), reasons), log)
    assert (explanation.left_value, explanation.right_value) == (100.0, 0.0)
    assert shares(explanation) == {'reader': -100.0}
    assert 'prompts: 60 of 60 rows equal' in str(explanation.unknown)


def test_a_config_without_models_takes_those_of_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / 'log', {n: reasons(ROWS[n]['question']) for n in range(60)})
    [explanation] = explain({'datasets': [dataset()]}, log)
    assert (explanation.model, explanation.left_value, explanation.right_value) == ('theirs', 100.0, 0.0)
    assert shares(explanation) == {'reader': -100.0}


def test_a_published_number_is_compared_with_other_readings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_config(config({**dataset(), 'eval_cfg': FIRST_NUMBER}, reasons), out=tmp_path / 'a', lint=False)
    [explanation] = explain(tmp_path / 'a', 99.0)
    name, value = explanation.alternatives[0]
    assert (name, value) == ('read by stated_number_postprocess', 100.0)
    assert main(['explain', str(tmp_path / 'a'), '99']) == 0
    assert 'read by stated_number_postprocess' in capsys.readouterr().out
    [explanation] = explain(tmp_path / 'a', 0.99)
    assert 'not 99 (0.99); read by stated_number_postprocess' in explanation.sentence
    [explanation] = explain(tmp_path / 'a', 3)
    assert explanation.sentence.endswith('no other reading comes nearer.')


def test_two_configs_that_were_not_run_have_no_scores(tmp_path: Path) -> None:
    left, other = CASES['length']
    [explanation] = explain(left, other)
    assert (explanation.left_value, explanation.right_value, explanation.steps) == (None, None, ())
    assert 'They differ in length and sampling: --ladder asks the model' in str(explanation.unknown)
    run_config(left, out=tmp_path / 'a', lint=False)
    [explanation] = explain(other, tmp_path / 'a')
    assert explanation.sentence.startswith('Read and scored as')


def test_a_config_beside_a_published_number_is_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('sums.py').write_text('from explained_cases import CASES\nglobals().update(CASES["reader"][1])\n')
    assert main(['explain', 'sums.py', '99']) == 2
    assert 'Run it, then explain the run: rolecall run sums.py' in capsys.readouterr().err
    assert main(['run', 'sums.py', '--quiet', '--force']) == 0
    assert main(['explain', 'sums.py', '99']) == 0
    assert 'read by stated_number_postprocess' in capsys.readouterr().out


def test_the_command_prints_a_waterfall_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, other = map(str, run_sides(tmp_path, *CASES['reader']))
    assert main(['explain', left, other, '--html', str(tmp_path / 'why.html')]) == 0
    output = capsys.readouterr().out
    assert 'Of -100.0 points, -100.0 is reading (60 rows).' in output
    assert '█' in output
    assert "read '2' → 1.0, gold '2'" in output
    page = (tmp_path / 'why.html').read_text()
    assert '-100.0 is reading' in page
    assert 'class="bar loss"' in page
    assert main(['explain', left, other, '--json']) == 0
    record = json.loads(capsys.readouterr().out)
    assert record['steps'][0]['cause'] == 'reader'
    assert main(['compare', left, other]) == 0
    assert f'Why they differ: rolecall explain {left} {other}' in capsys.readouterr().out.replace('\n', ' ')


def test_sides_that_cannot_be_explained_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['explain', '1', '2']) == 2
    assert 'both sides are numbers' in capsys.readouterr().err
    left, _ = run_sides(tmp_path, *CASES['reader'])
    assert main(['explain', str(left), str(left), '--dataset', 'none']) == 2
    assert 'is called like that' in capsys.readouterr().err
    assert main(['explain', str(left), 'nan']) == 2
    assert main(['explain', str(left), str(left), '--rows', '5']) == 2
    assert 'applies to --ladder' in capsys.readouterr().err


def test_answers_that_are_cut_on_both_sides_are_not_the_cause(tmp_path: Path) -> None:
    def endless(prompt: str, sampling: Sampling) -> Reply:
        return Reply('the answer is 2' if 'Hi.' in prompt else 'the answer is 4', reason='length')

    greeted = dialogue(question='Hi. {question}')
    sides = (
        config(dataset(prompt_template=dialogue(), inferencer=HOT), endless),
        config(dataset(prompt_template=greeted), endless),
    )
    [explanation] = explain(*run_sides(tmp_path, *sides))
    assert [step.cause for step in explanation.steps] == ['prompt']


def read_loudly(reply: str) -> str:
    return reply.split()[-1].strip('.')


def test_code_of_a_stored_config_is_taken_from_the_config_alone(tmp_path: Path) -> None:
    own = {**dataset()['eval_cfg'], 'pred_postprocessor': {'type': read_loudly}}
    configs = config({**dataset(), 'eval_cfg': own}, reasons), config({**dataset(), 'eval_cfg': FIRST_NUMBER}, reasons)
    sides = run_sides(tmp_path, *configs)
    [explanation] = explain(*sides)
    assert '--config names the config' in str(explanation.unknown)
    assert shares(explanation) == {'reader': -100.0}
    [explanation] = explain(*sides, configs=configs)
    assert not explanation.unknown
    assert shares(explanation) == {'reader': -100.0}


@pytest.mark.parametrize('harness', ['lm-eval', 'lm-eval-chat', 'opencompass', 'aisbench', 'inspect/sums.eval'])
def test_logs_as_harnesses_write_them_can_be_explained(harness: str) -> None:
    explanations = explain(LOGS / harness, LOGS / harness)
    assert explanations
    assert all(explanation.rows and not explanation.steps for explanation in explanations)


def test_lm_eval_and_opencompass_logs_are_scored_as_those_harnesses_do() -> None:
    logs = {'lm-eval': 'local_arc_easy', 'lm-eval-chat': 'chat_gsm8k', 'opencompass': 'gsm8k'}
    for harness, name in logs.items():
        [explanation] = explain(LOGS / harness, LOGS / harness, dataset=name)
        assert not explanation.unknown, f'{harness}: its marks are given by the scoring that its log describes'


def prefer_long(prompts: list[str]) -> list[Scored]:
    """The longer a continuation, the less likely it is, and the likelier each of its characters."""
    scored = []
    for prompt in prompts:
        at = prompt.rindex('Answer:') + len('Answer:')
        each = -1.0 / (len(prompt) - at) ** 0.5
        logprobs = (None, *(-1.0 if place < at else each for place in range(1, len(prompt))))
        scored.append(
            Scored(tuple(range(len(prompt))), logprobs, offsets=tuple((n, n + 1) for n in range(len(prompt))))
        )
    return scored


def test_acc_against_acc_norm_of_an_lm_eval_task_is_the_metric(tmp_path: Path) -> None:
    rows = [{'q': f'Which is number {n}?', 'options': ['no', 'a long answer'], 'gold': n % 4 > 0} for n in range(40)]
    (tmp_path / 'rows.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    metrics = [{'metric': name, 'aggregation': 'mean', 'higher_is_better': True} for name in ('acc', 'acc_norm')]
    sides = []
    for name, order in (('a', metrics), ('b', metrics[::-1])):
        task = {
            'task': 'choices',
            'dataset_path': 'json',
            'test_split': 'test',
            'output_type': 'multiple_choice',
            'doc_to_text': '{{q}}\nAnswer:',
            'doc_to_choice': '{{options}}',
            'doc_to_target': '{{gold|int}}',
            'dataset_kwargs': {'data_files': {'test': str(tmp_path / 'rows.jsonl')}},
            'metric_list': order,
        }
        (tmp_path / f'{name}.yaml').write_text(json.dumps(task))
        models = [{'abbr': 'm', 'type': reasons, 'score': prefer_long}]
        sides.append({**load_config(tmp_path / f'{name}.yaml'), 'models': models})
    left, other = run_sides(tmp_path / 'runs', *sides)
    [explanation] = explain(left, other, configs=sides)
    assert (explanation.left_value, explanation.right_value) == (25.0, 75.0)
    assert shares(explanation) == {'metric': 50.0}
    with RunReader(left) as first, RunReader(other) as second:
        digests = [StoredRun(reader).parts['choices', 'm'] for reader in (first, second)]
    assert digests[0].find_differing(digests[1]) == ['metric']


def test_marks_that_cannot_be_given_again_stand(tmp_path: Path) -> None:
    left, other = run_sides(tmp_path, *CASES['reader'])
    with sqlite3.connect(left / 'run.sqlite') as store:
        store.execute('UPDATE rows SET score = 0, correct = 0, checksum = NULL')
    store.close()
    [explanation] = explain(left, other)
    assert 'its replies cannot be scored again as they were; its marks stand.' in str(explanation.unknown)


def test_a_model_that_one_side_has_alone_is_not_compared_with_one_that_both_have(tmp_path: Path) -> None:
    rows = [{'question': f'{number}+1?', 'answer': '2'} for number in range(3)]
    models = {name: lambda request, text=text: text for name, text in {'good': '2', 'bad': '3'}.items()}
    for name, model in models.items():
        model.__name__ = name
    for side, chosen in (('a', ('good', 'bad')), ('b', ('good',))):
        options: dict[str, Any] = {'answer': 'answer', 'out': tmp_path / side, 'quiet': True}
        rolecall.run(rows, model=[models[name] for name in chosen], **options)
    assert [explanation.model for explanation in explain(tmp_path / 'a', tmp_path / 'b')] == ['good']
