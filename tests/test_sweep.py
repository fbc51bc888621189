"""How much of a score is the wording: variants, their variance, what they cost, and the best of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.insight.sweep import read_sweep, variance_between
from rolecall.insight.sweep_axes import Entries, find_variants
from rolecall.ui.cli.main import main
from tables import in_one

MODELS = """
from zlib import crc32

asked = []


def _luck(prompt):
    return crc32(prompt.split('?')[0].split()[-1].encode()) % 100


def sensitive(prompt):
    asked.append(prompt)
    return 'yes' if _luck(prompt) >= (60 if 'QUESTION' in prompt else 20) else 'no'


def steady(prompt):
    return 'The answer is: yes' if _luck(prompt) >= 35 else 'no'
"""
TEMPLATE = 'Question: is it {q}?\\nAnswer: {a}'
ASKED = ['--answer', 'a', '--metric', 'exact', '--model', 'models.py:sensitive', '-q']


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path('models.py').write_text(MODELS)
    Path('qs.csv').write_text('q,a\n' + ''.join(f'{7 * number},yes\n' for number in range(120)))


def sweep(*words: str, models: tuple[str, ...] = ('sensitive',)) -> int:
    named = [word for model in models for word in ('--model', f'models.py:{model}')]
    return main(['sweep', 'qs.csv', '--template', TEMPLATE, '--answer', 'a', '--metric', 'exact', *named, '-q', *words])


def test_the_axis_that_matters_is_found_and_the_others_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'casing', 'spacing', '--repeat', '1', '--json', models=('sensitive', 'steady')) == 0
    output = json.loads(capsys.readouterr().out)
    sensitive, steady = output['swept']
    assert sensitive['axes']['casing'] > 0.1
    assert sensitive['axes']['spacing'] == steady['spread'] == sensitive['noise'] == 0.0
    assert sensitive['variants']['casing=upper'] < sensitive['variants']['casing=lower'] == sensitive['score']
    assert 'qs: sensitive and steady change places in 1 of 5 variants' in output['notes']


def test_a_sweep_prints_a_line_for_a_paper_and_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'casing') == 0
    first = capsys.readouterr().out
    assert first.startswith('qs × sensitive: 75.0 ± 4.0 (rows)')
    assert '(casing; 3 variants)' in first
    assert '360 requests, 0 not sent again' in first
    assert sweep('--axis', 'casing') == 0
    again = capsys.readouterr().out
    assert '360 requests, 360 not sent again' in again
    assert again.splitlines()[:2] == first.splitlines()[:2]


def test_a_model_that_cannot_be_run_leaves_the_others_their_scores(capsys: pytest.CaptureFixture[str]) -> None:
    Path('models.py').write_text(f'{MODELS}\n\ndef broken(prompt):\n    raise ValueError(prompt)\n')
    assert sweep('--axis', 'casing', '--best', '--save-config', 'best.yaml', models=('broken', 'steady')) == 1
    output = capsys.readouterr()
    assert 'qs × broken: no row has a score under every variant' in output.out
    assert 'qs × steady: ' in output.out
    assert sweep('--axis', 'casing', '--save-config', 'none.yaml', '--out', 'b', '--json', models=('broken',)) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)['swept'] == [
        {'dataset': 'qs', 'model': 'broken', 'rows': 0, 'score': None, 'line': ''}
    ]
    assert 'none.yaml is not written: qs has no scores.' in output.err


def test_one_row_and_wordings_that_begin_alike(capsys: pytest.CaptureFixture[str]) -> None:
    wordings = '|'.join(f'a wording that takes quite some time to begin {{q}}? {end}' for end in 'xy')
    assert sweep('--axis', f'template={wordings}', '--limit', '1') == 0
    assert 'a wording that takes quite so… (2)' in capsys.readouterr().out


def test_without_an_axis_only_the_noise_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--repeat', '1', '--limit', '20') == 0
    assert '(rows) ± 0.0 (noise, asked 2 times)\n' in capsys.readouterr().out


def test_a_cap_holds_for_all_stages_and_repeats_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'casing', '--repeat', '2', '--max-minutes', '1e-7') == 1
    assert 'Not finished, ' in capsys.readouterr().out
    assert not Path('sweeps/qs/again-1').exists()


def test_a_sweep_of_another_wording_is_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'casing', '--limit', '20') == 0
    assert main(['sweep', 'qs.csv', '--template', 'is it: {q}?', *ASKED, '--axis', 'separator', '--limit', '20']) == 0
    assert 'its results go to sweeps/qs-2' in capsys.readouterr().err
    assert sweep('--axis', 'casing', '--best') == 0, 'drawn rows do not join the first ones'
    assert Path('sweeps/qs-3').is_dir()
    capsys.readouterr()
    assert sweep('--axis', 'casing', '--limit', '20') == 0
    assert '60 requests, 60 not sent again' in capsys.readouterr().out


def test_wordings_of_a_run_are_not_averaged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['run', 'qs.csv', '--template', TEMPLATE, '--template', 'QUESTION {q}?', *ASKED]) == 0
    assert 'sensitive scores 40.0 to 75.0 over 2 wordings of qs.' in ' '.join(capsys.readouterr().out.split())


def test_a_reader_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'reader=first_capital_postprocess', '--limit', '20') == 0
    assert '40 requests, 20 not sent again (reader 20 of 20)' in capsys.readouterr().out


def test_hopeless_variants_are_given_up_and_the_best_becomes_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    words = ('--axis', 'casing', 'template=QUESTION {q}?|is it {q}?', '--best', '--save-config', 'best.yaml')
    assert sweep(*words) == 0
    output = capsys.readouterr().out
    assert 'casing=upper]: given up after' in output
    assert main(['run', 'best.yaml', '--out', 'runs/best', '-q']) == 0
    capsys.readouterr()
    assert sweep(*words[:-2]) == 0, 'a sweep that was stopped goes on'
    again = capsys.readouterr().out
    assert again.splitlines()[:3] == output.splitlines()[:3]
    assert 'casing=upper]: given up after' in again


def test_all_mixes_of_levels_say_what_axes_do_only_together(capsys: pytest.CaptureFixture[str]) -> None:
    both = MODELS.replace("'QUESTION' in prompt", "'QUESTION' in prompt and '\\n\\n' in prompt")
    Path('models.py').write_text(both)
    words = ('--axis', 'casing', 'spacing', '--full', '--json', '--html', 'sweep.html', '--save-robust', 'robust.yaml')
    assert sweep(*words, models=('sensitive', 'steady')) == 0
    captured = capsys.readouterr()
    sensitive, steady = json.loads(captured.out)['swept']
    assert len(sensitive['variants']) == 9
    assert sensitive['shares']['interactions'] > 0.4
    assert sum(sensitive['shares'].values()) == pytest.approx(1)
    assert sum(steady['shares'].values()) == 0
    robust = sensitive['robust']
    assert sensitive['variants'][robust['variant']] == max(sensitive['variants'].values())
    low, high = robust['held_out_interval']
    assert low < robust['held_out'] < high
    assert 'most robust for qs × sensitive: ' in captured.err
    assert 'on the rows it was not chosen on (as written: ' in captured.err
    page = Path('sweep.html').read_text()
    assert 'Models that it beats, by variant' in page
    assert 'interactions: ' in page
    assert read_sweep('sweeps/qs') == [sensitive, steady]
    assert not read_sweep('.')
    assert main(['run', 'robust.yaml', '--out', 'runs/robust', '-q']) == 0


def test_draws_of_examples_are_mixed_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    words = ('--axis', 'draw=1,2', 'shots=0,2', '--full', '--limit', '20')
    assert sweep(*words, '--json') == 0
    captured = json.loads(capsys.readouterr().out)
    names = ['as written', 'shots=2', 'draw=1', 'draw=1, shots=2', 'draw=2', 'draw=2, shots=2']
    assert list(captured['swept'][0]['variants']) == names
    assert '120 requests, 40 not sent again (draw 40 of 40)' in captured['notes']
    assert sweep('--axis', 'draw=1,2', '--full', '--out', 'sweeps/other') == 2
    assert 'Say how many with --shots N.' in capsys.readouterr().err


def test_what_should_not_matter_is_noise(capsys: pytest.CaptureFixture[str]) -> None:
    counting = (
        'asked = []\n\n\ndef moody(prompt):\n    asked.append(prompt)\n    return "yes" if len(asked) % 3 else "no"\n'
    )
    Path('models.py').write_text(counting)
    words = ('--axis', 'spacing', '--repeat', '1', '--noise', 'models.*.concurrency=1,2', '--limit', '40', '--json')
    assert sweep(*words, models=('moody',)) == 0
    [moody] = json.loads(capsys.readouterr().out)['swept']
    assert ' (noise, concurrency=1, concurrency=2, asked 4 times)' in moody['line']
    assert list(moody['axes']) == ['spacing'], 'noise is not an axis'
    assert sorted(file.parent.name for file in Path('sweeps/qs').glob('*/run.sqlite')) == [
        'again-1',
        'noise-1',
        'noise-2',
    ]


OPTIONS = 'Which?\nA. {A}\nB. {B}\nAnswer: {gold}'


@in_one
@pytest.mark.parametrize(
    ('axis', 'expected'),
    [
        ('asking', ['gen', 'ppl']),
        ('format=chat,plain,chatml', ['chat', 'plain', 'chatml']),
        ('models.*.max_seq_len=512', ['512']),
        ('retriever=random', ['random']),
    ],
)
def test_an_axis_changes_how_a_model_is_asked(axis: str, expected: list[str]) -> None:
    dataset = {
        'abbr': 'd',
        'reader_cfg': {'output_column': 'gold'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': OPTIONS},
            'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]},
            'inferencer': {'type': 'PPLInferencer', 'labels': ['A', 'B']},
        },
    }
    models = ({'abbr': 'm', 'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': 'llama2'},)
    base, *variants = find_variants(Entries(dataset, models), [axis])
    labels = [label for label in expected if label != 'ppl']
    assert [variant.levels[0].label for variant in variants] == labels, 'what is asked already is no variant'
    for variant in variants:
        names = variant.renamed.dataset['abbr'], variant.renamed.models[0]['abbr']
        changed = (variant.entries.dataset != base.entries.dataset, variant.entries.models != base.entries.models)
        assert names == tuple(
            f'{abbr} [{variant.name}]' if differs else abbr for abbr, differs in zip('dm', changed, strict=True)
        )


def test_a_plan_asks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                'sweep',
                'qs.csv',
                '--template',
                TEMPLATE,
                '--answer',
                'a',
                '--model',
                'models.py:steady',
                '--axis',
                'casing',
                '--dry-run',
            ]
        )
        == 0
    )
    assert '360 requests to send' in capsys.readouterr().err
    assert not Path('sweeps').exists()


@in_one
@pytest.mark.parametrize(
    ('template', 'axis', 'expected'),
    [
        ('Q: {q}\nA: {a}', 'separator', ['Q - {q}\nA - {a}', 'Q:\n{q}\nA:\n{a}', 'Q {q}\nA {a}']),
        ('Ask: {q}', 'casing', ['ASK: {q}', 'ask: {q}']),
        ('Q: {q}\nA:', 'spacing', ['Q: {q}\n\nA:', 'Q: {q} A:']),
        ('{q}\nA. {A}\nB. {B}', 'labels', ['{q}\n(A) {A}\n(B) {B}', '{q}\nA) {A}\nB) {B}', '{q}\nA: {A}\nB: {B}']),
        ('{q}\nA. {A}\nB. {B}', 'order', ['{q}\nB. {B}\nA. {A}']),
        ('{q}', 'casing', []),
        ('{q}', 'template={q}!|{q}?', ['{q}!', '{q}?']),
    ],
)
def test_an_axis_changes_words_and_leaves_fields(template: str, axis: str, expected: list[str]) -> None:
    entry: dict[str, Any] = {'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}}}
    variants = find_variants(Entries(entry), [axis])
    texts = [variant.entries.dataset['infer_cfg']['prompt_template']['template'] for variant in variants]
    assert texts == [template, *expected]


@in_one
@pytest.mark.parametrize(
    ('axis', 'message'),
    [
        ('casings', "Did you mean 'casing'?"),
        ('casing=upper', 'its variants are fixed'),
        ('reader', 'its variants are missing'),
        ('shots=many', 'expected whole numbers'),
        ('format=chatlm', "Did you mean 'chatml'?"),
        ('asking=gen', "Name them as 'A. {A} B. {B}'"),
        ('asking=both', 'Write --axis asking=gen,ppl.'),
        ('shots=few', 'Write --axis shots=1,2.'),
        ('format=klingon', '--axis format'),
        ('format=klingon', 'rolecall config list meta_templates'),
    ],
)
def test_an_axis_that_means_nothing_is_refused(axis: str, message: str) -> None:
    entry = {'infer_cfg': {'prompt_template': {'template': 'Q: {q}'}}, 'reader_cfg': {'output_column': 'a'}}
    with pytest.raises(ConfigError) as refusal:
        find_variants(Entries(entry), [axis])
    assert message in str(refusal.value)


def test_an_axis_that_changes_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep('--axis', 'labels') == 2
    assert 'none of the axes changes anything about it' in capsys.readouterr().err
    assert sweep() == 2
    assert 'nothing is varied' in capsys.readouterr().err
    assert sweep('--axis', 'labels', 'casing', '--dry-run') == 0
    assert 'labels changes nothing about it, and is not varied.' in capsys.readouterr().err


def test_the_variance_of_variants_is_told_from_that_of_rows() -> None:
    chance = random.Random(2)
    estimates = []
    for _ in range(150):
        rows = [chance.random() for _ in range(100)]
        shifts = [chance.gauss(0, 0.06) for _ in range(8)]
        groups = [[float(chance.random() < min(max(row + shift, 0), 1)) for row in rows] for shift in shifts]
        estimates.append(variance_between(groups))
    assert 0.8 * 0.06**2 < mean(estimates) < 1.25 * 0.06**2


def test_two_templates_are_two_datasets_of_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ['--template', 'Is it {q}?', '--template', 'QUESTION {q}?', '--answer', 'a', '--metric', 'exact']
    assert main(['run', 'qs.csv', *words, '--model', 'models.py:sensitive', '--out', 'both', '-q']) == 0
    report = capsys.readouterr().out
    assert 'qs [Is it {q}?]' in report
    assert 'qs [QUESTION {q}?]' in report
    assert main(['compare', 'both', '--flips', '0']) == 0
    compared = capsys.readouterr().out
    assert 'left   both: qs [Is it {q}?]' in compared
    assert 'right  both: qs [QUESTION {q}?]' in compared
    assert 'other wording' in compared
    assert main(['compare', 'both', '--gate']) == 2
    capsys.readouterr()


def test_templates_that_begin_alike_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    begin = 'This is a question that begins as the other one does'
    words = ['--template', f'{begin} {{q}}?', '--template', f'{begin}: {{q}}?', '--answer', 'a', '--metric', 'exact']
    run = ['run', 'qs.csv', *words, '--model', 'models.py:sensitive', '--out', 'alike', '--limit', '3', '-q']
    assert main(run) == 0
    assert main(['report', 'alike', '--csv']) == 0
    assert '[This is a question that begins as the ot] (2)' in capsys.readouterr().out
