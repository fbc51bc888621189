"""The first day with own data: what is typed wrong, missing or unusual is named before anything is sent, with a remedy that works."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall import ConfigError, RunReader
from rolecall.sources.datasets.columns import spread_choices
from rolecall.ui.cli.main import main
from servers import serve

ROWS = [{'question': f'What is {i} + {i}?', 'answer': str(2 * i)} for i in range(4)]
MODEL = "def two(request):\n    return '2'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows('rows.jsonl', ROWS)
    Path('mine.py').write_text(MODEL)
    return tmp_path


def write_rows(name: str, rows: list[Any]) -> None:
    Path(name).write_text(''.join(f'{json.dumps(row)}\n' for row in rows))


def message(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What a command that cannot be carried out prints."""
    capsys.readouterr()
    try:
        code = main(list(command))
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    return capsys.readouterr().err


def test_malformed_rows_are_skipped_in_every_command_where_the_error_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('broken.jsonl').write_text(f'{json.dumps(ROWS[0])}\n{{"question": \n{json.dumps(ROWS[1])}\n')
    ask = ['broken.jsonl', '--answer', 'answer', '--model', 'mine:two']
    assert '--on-error skip' in message(capsys, 'run', *ask)
    for command in (['view'], ['lint'], ['run', '--out', 'out'], ['export', 'requests', '-o', 'requests.jsonl']):
        assert main([*command, *ask, '--on-error', 'skip']) == 0, capsys.readouterr()
    with RunReader('out') as run:
        assert (len(list(run.results())), run.manifest()['overrides']['on_error']) == (2, 'skip')
    options: dict[str, Any] = {'answer': 'answer', 'model': 'mine:two', 'quiet': True}
    done = rolecall.run('broken.jsonl', on_error='skip', out='python', **options)
    assert done.scores.value() == 50.0


@pytest.mark.parametrize('command', [['run'], ['export', 'requests', '-o', 'x'], ['export', 'sft', '-o', 'x']])
def test_no_rows_at_all_is_not_a_limit(command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert '--limit\n  expected a whole number of at least 1, got ' in message(
        capsys, *command, 'rows.jsonl', '--limit', '0'
    )
    with pytest.raises(ConfigError, match=r'^limit\n  limit must be at least 1, got 0\.$'):
        rolecall.run('rows.jsonl', model='mine:two', limit=0)


@pytest.mark.parametrize(
    ('command', 'printed'),
    [
        (
            ['run', 'rows.jsonl', '--anwser', 'answer'],
            "unknown option: --anwser answer\n  Did you mean '--answer'?\n  `rolecall run --help` lists the options.",
        ),
        (['lint', 'rows.jsonl', '--dataste=x'], "unknown option: --dataste=x\n  Did you mean '--dataset'?"),
        (['export', 'requests', 'rows.jsonl', '--fromat', 'x'], '`rolecall export requests --help` lists the options.'),
        (['rnu', 'rows.jsonl'], "Did you mean 'run'?\n  `rolecall --help` lists the options."),
        (['run', 'rows.jsonl', '--rerun', 'faild'], "Did you mean 'failed'?"),
    ],
)
def test_a_misspelt_option_or_command_is_suggested(
    command: list[str], printed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed in message(capsys, *command)


def test_models_that_are_only_shown_are_refused_by_run_and_served_by_the_commands_it_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (['--api'], ['--meta-template', 'chatml']):
        rows = ['rows.jsonl', '--answer', 'answer', *option]
        assert message(capsys, 'run', *rows) == (
            f'rolecall: {option[0]}\n  shows prompts and has no model to ask. Use {option[0]} with view, lint or export; '
            '--model asks a model.\n  `rolecall run --help` lists the options.\n'
        )
        assert main(['view', *rows]) == 0
        assert main(['lint', *rows]) == 0
        assert main(['export', 'requests', '-o', 'x.jsonl', *rows]) == 0
    assert not Path('runs').exists()


@pytest.mark.parametrize(
    ('name', 'config'), [('math', 'math_eval.py'), ('yaml', 'yaml_eval.py'), ('mine-2', 'mine-2.py')]
)
def test_init_never_hides_a_module_of_python(
    name: str, config: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(f'{name}.jsonl', ROWS)
    assert main(['init', '--yes', f'{name}.jsonl', '--model', 'mine:two']) == 0
    assert [path.name for path in folder.glob('*.py') if path.name != 'mine.py'] == [config]
    subprocess.run([sys.executable, '-c', 'import math, yaml, random'], check=True)
    assert main(['run', config, '--out', 'out', '-q']) == 0
    if name != 'mine-2':
        refusal = message(capsys, 'init', '--yes', 'rows.jsonl', '-o', f'{name}.py')
        assert refusal == f"rolecall: {name}.py would hide the Python module '{name}'. Choose another: -o {config}\n"


@pytest.mark.parametrize(
    ('model', 'printed'),
    [
        (
            'openai/gpt-4.1-mini',
            'no key: set the environment variable OPENAI_API_KEY, or give the model a `key` (OnlineChatModule: `api_key`).',
        ),
        (
            'anthropic/claude-x',
            'no key: set the environment variable ANTHROPIC_API_KEY, or give the model a `key` (OnlineChatModule: `api_key`).',
        ),
        ({'type': 'HuggingFaceCausalLM', 'path': '/nowhere/at/all'}, 'there is no such folder.'),
        (
            {'type': 'HuggingFaceCausalLM', 'path': 'org/name'},
            "is needed to run a Transformers model: pip install 'rolecall[hf]'",
        ),
    ],
    ids=str,
)
def test_a_missing_key_package_or_folder_is_found_before_anything_is_stored(
    model: Any, printed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'OPENAI_BASE_URL'):
        monkeypatch.delenv(name, raising=False)
    packages = {'torch', 'transformers'} if 'needed' not in printed else {'transformers'}
    find_spec = importlib.util.find_spec
    if 'needed' in printed and find_spec('torch') is not None:
        pytest.skip('torch is installed')
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name, *more: name in packages or find_spec(name, *more))
    monkeypatch.delitem(sys.modules, 'torch', raising=False)
    with pytest.raises(ConfigError) as refused:
        rolecall.run('rows.jsonl', model=model, answer='answer')
    assert printed in str(refused.value)
    assert str(refused.value).endswith('\n  Nothing was sent or stored.')
    assert not Path('runs').exists()


def test_the_embedded_model_without_its_packages_is_refused_before_anything_is_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'xllamacpp', None)
    refusal = message(capsys, 'run', 'rows.jsonl', '--answer', 'answer', '--out', 'out')
    assert "xllamacpp is needed to run or tokenize for a .gguf file: pip install 'rolecall[llama]'" in refusal
    assert not Path('out').exists()


def test_a_finished_run_is_scored_again_without_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {'answer': 'answer', 'out': 'out', 'quiet': True}
    with serve('2') as server:
        entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': 'MY_API_KEY'}
        with pytest.raises(ConfigError, match='the environment variable MY_API_KEY is not set'):
            rolecall.run('rows.jsonl', model=entry, **options)
        monkeypatch.setenv('MY_API_KEY', 'k')
        rolecall.run('rows.jsonl', model=entry, **options)
        monkeypatch.delenv('MY_API_KEY')
        server.calls.clear()
        assert rolecall.run('rows.jsonl', model=entry, metric='contains', **options).scores.value() == 25.0
        assert server.calls == []


def test_a_judge_without_its_key_is_refused_before_it_replaces_a_score(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    command = ['run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']
    assert main(command) == 0
    refusal = message(capsys, *command, '--judge', 'correctness:openai/gpt-4o')
    assert 'gpt-4o: no key: set the environment variable OPENAI_API_KEY' in refusal
    with RunReader('out') as run:
        assert [card.value for card in run.scorecards()] == [25.0]


PASSAGE = 'The lighthouse stands on the north cape. It was built by a company of Welsh masons in the year 1871 and painted red.'
EXTRACTIVE = [{'context': PASSAGE, 'question': 'Who built it?', 'answer': 'a company of Welsh masons'}] * 2


def test_answers_in_a_passage_are_noted_and_the_run_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows('squad.jsonl', EXTRACTIVE)
    ask = ['squad.jsonl', '--answer', 'answer', '--model', 'mine:two']
    assert main(['run', *ask, '--out', 'out', '-q']) == 0
    capsys.readouterr()
    assert main(['lint', *ask]) == 0
    assert (
        "info: answer-visible  squad\n  the answers stand in column 'context', a passage to find them in. (2 of 2 rows"
        in capsys.readouterr().out
    )


def test_answers_at_the_end_of_a_passage_are_noted_too(folder: Path) -> None:
    rows = [{'context': f'The town of Ely{i} has a mayor called Ann {i}.', 'answer': f'Ann {i}'} for i in range(6)]
    write_rows('mayors.jsonl', [{**row, 'question': 'Who?'} for row in rows])
    assert main(['run', 'mayors.jsonl', '--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']) == 0


def test_a_rule_that_refuses_a_run_is_silenced_as_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows('hints.jsonl', [{**row, 'hint': row['context']} for row in EXTRACTIVE])
    ask = ['hints.jsonl', '--template', '{hint} {question}', '--answer', 'answer', '--model', 'mine:two']
    assert '--silence answer-visible' in message(capsys, 'run', *ask)
    assert main(['run', *ask, '--silence', 'answer-visible', '--out', 'out', '-q']) == 0
    with RunReader('out') as run:
        assert run.manifest()['overrides']['silence'] == ['answer-visible']
    assert "unknown rule 'answer-visibel'" in message(capsys, 'run', *ask, '--silence', 'answer-visibel')
    options: dict[str, Any] = {'template': '{hint} {question}', 'answer': 'answer', 'model': 'mine:two', 'quiet': True}
    assert rolecall.run('hints.jsonl', silence='answer-visible', out='python', **options).scores.value() == 0.0


def test_one_row_that_is_too_long_is_an_outcome_and_is_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows('long.jsonl', [*ROWS, {'question': 'word ' * 3000, 'answer': '1'}])
    ask = ['run', 'long.jsonl', '--answer', 'answer', '--metric', 'exact', '--max-out-len', '2', '--out', 'out']
    assert main([*ask, '--model', 'smollm2', '--set', 'models.*.max_seq_len=200']) == 0
    assert '1 row too long' in capsys.readouterr().err
    with RunReader('out') as run:
        assert [result.outcome for result in run.results()] == ['ok'] * 4 + ['too_long']


OPTIONS = ['the heart', 'the liver', 'the lung']
FORMS: dict[str, Any] = {
    'MedQA': {
        'question': 'Which?',
        'options': dict(zip('ABC', OPTIONS, strict=False)),
        'answer': 'the liver',
        'answer_idx': 'B',
    },
    'ARC': {'question': 'Which?', 'choices': {'text': OPTIONS, 'label': ['1', '2', '3']}, 'answerKey': '2'},
    'ARC as published': {
        'question': {
            'stem': 'Which?',
            'choices': [{'text': text, 'label': label} for text, label in zip(OPTIONS, 'ABC', strict=False)],
        },
        'answerKey': 'B',
    },
    'objects': {
        'question': 'Which?',
        'options': [{'key': f'{i}', 'text': text} for i, text in enumerate(OPTIONS)],
        'label': '1',
    },
    'nested': {'input': {'question': 'Which?', 'options': OPTIONS}, 'target': {'answer': 1}},
    'list': {'question': 'Which?', 'choices': OPTIONS, 'answer': 'the liver'},
    'columns': {'question': 'Which?', **dict(zip('ABC', OPTIONS, strict=False)), 'answer': 'B'},
    'named columns': {
        'question': 'Which?',
        **dict(zip(('opa', 'opb', 'opc'), OPTIONS, strict=False)),
        'answer': 'B',
    },
}
ANSWERS = {'ARC': 'answerKey', 'ARC as published': 'answerKey', 'objects': 'label', 'nested': 'target.answer'}


@pytest.mark.parametrize('form', FORMS)
def test_options_in_every_usual_form_are_asked_and_scored(
    form: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows('exam.jsonl', [FORMS[form]] * 4)
    Path('mine.py').write_text("def two(request):\n    return 'The answer is B.'\n")
    assert main(['init', '--yes', 'exam.jsonl', '--model', 'mine:two']) == 0
    assert ('not in the prompt' in capsys.readouterr().err) == (form == 'MedQA')  # answer_idx
    ask = ['--answer', ANSWERS.get(form, 'answer'), '--model', 'mine:two']
    for command in (['exam.jsonl', *ask], ['exam.py']):
        assert main(['view', *command, '--json']) == 0
        request = json.loads(capsys.readouterr().out)['request']
        text = request if isinstance(request, str) else request[-1]['content']
        asks = 'Which?\nA. the heart\nB. the liver\nC. the lung\nAnswer with one of: A, B, C.\nAnswer:'
        assert text.strip() == asks
        assert main(['lint', *command]) == 0
        out = f'out{Path(command[0]).suffix}'
        assert main(['run', *command, '--out', out, '-q']) == 0
        with RunReader(out) as run:
            assert [(card.value, card.scored) for card in run.scorecards()] == [(100.0, 4)]
        capsys.readouterr()


@pytest.mark.parametrize('in_columns', [False, True])
def test_rows_may_have_different_numbers_of_options(in_columns: bool, folder: Path) -> None:
    def make_row(options: list[str], answer: str) -> dict[str, Any]:
        listed = dict(zip('ABCD', options, strict=False)) if in_columns else {'options': options}
        return {'question': 'Which?', **listed, 'answer': answer}

    write_rows('exam.jsonl', [make_row(OPTIONS, 'B'), make_row([*OPTIONS, 'the skin'], 'D')])
    Path('mine.py').write_text("def two(request):\n    return 'D' if 'D. the skin' in request else 'B'\n")
    ask = ['exam.jsonl', '--answer', 'answer', '--model', 'mine:two', '--choices', 'A,B,C,D']
    assert main(['lint', *ask]) == 0
    assert main(['run', *ask, '--out', 'out', '-q']) == 0
    with RunReader('out') as run:
        assert [(card.value, card.scored) for card in run.scorecards()] == [(100.0, 2)]


def test_options_in_numbered_columns_are_not_guessed_and_the_remedy_works(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows('copa.jsonl', [{'question': 'Why?', 'choice1': 'the rain', 'choice2': 'the sun', 'label': 1}] * 2)
    ask = ['copa.jsonl', '--answer', 'label', '--model', 'mine:two']
    refusal = message(capsys, 'run', *ask)
    assert 'one of the options in columns choice1, choice2, and the prompt shows none of them' in refusal
    assert main(['run', *ask, '--choices', 'A,B', '--out', 'out', '-q']) == 0
    capsys.readouterr()
    assert main(['view', *ask, '--choices', 'A,B', '--json']) == 0
    assert 'Why?\nA. the rain\nB. the sun\nAnswer with' in json.loads(capsys.readouterr().out)['request']


def test_answers_that_are_objects_are_refused_and_the_remedy_works(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows('squad.jsonl', [{'question': 'Who?', 'answers': {'text': ['two', '2'], 'answer_start': [5, 9]}}] * 2)
    ask = ['squad.jsonl', '--model', 'mine:two', '--answer']
    assert message(capsys, 'run', *ask, 'answers') == (
        "rolecall: --answer\n  the column 'answers' holds objects.\n"
        '  Name a value inside: --answer answers.text, --answer answers.answer_start.\n'
    )
    assert main(['run', *ask, 'answers.text', '--out', 'out', '-q']) == 0
    assert main(['init', '--yes', 'squad.jsonl', '--model', 'mine:two']) == 0
    assert "answer 'answers.text'" in capsys.readouterr().out


def test_a_template_that_hides_the_options_is_refused_and_both_remedies_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows('exam.jsonl', [FORMS['MedQA']] * 4)
    ask = ['exam.jsonl', '--answer', 'answer', '--model', 'mine:two']
    refusal = message(capsys, 'run', *ask, '--template', '{question}')
    assert refusal.partition('\n')[2].startswith(
        "rolecall: exam (options-hidden)\n  the answer is one of the options in column 'options', and the prompt shows none "
        'of them.\n  Without --template, --choices A,B,C writes them into the prompt; in a config, '
    )
    assert main(['run', *ask, '--choices', 'A,B,C', '--out', 'out', '-q']) == 0
    changes = ['--set', 'datasets.*.choices_from=options', '--template', '{question} {A} {B} {C}']
    assert main(['run', *ask, *changes, '--out', 'config', '-q']) == 0


def test_a_brace_that_nothing_closes_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ['rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']
    assert (
        message(capsys, 'run', *ask, '--template', r'{question}\n{answer')
        .partition('\n')[2]
        .startswith(
            'rolecall: rows (unfilled-field)\n'
            "  the template has '{answer' without a closing brace: it is sent as written.\n  Write {answer}."
        )
    )
    assert main(['run', *ask, '--template', r'{question}\n{answer}']) == 0


def test_an_argument_too_many_is_not_said_to_stand_behind_options(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = 'Arguments stand before options.'
    assert behind not in message(capsys, 'run', 'rows.jsonl', 'more.jsonl', '--model', 'mine:two')
    assert f'-q takes no value.\n  {behind}' in message(
        capsys, 'run', 'rows.jsonl', '--model', 'mine:two', '-q', 'more.jsonl'
    )


ENCODED = 'question,answer\n{},2\n'


@pytest.mark.parametrize(
    ('content', 'printed', 'remedy'),
    [
        (ENCODED.format('Café élan?').encode('cp1252'), 'name it: --encoding cp1252', ['--encoding', 'cp1252']),
        (ENCODED.format('Grüße?').encode('latin-1'), 'name it: --encoding cp1252', ['--encoding', 'cp1252']),
        (ENCODED.format('多少？').encode('gb18030'), 'name it: --encoding gb18030', ['--encoding', 'gb18030']),
        (
            b'\x89PNG\r\n\x1a\n\0\0\0\rIHDR',
            'this is a binary file, not text.\n  Save the rows as CSV or JSON Lines',
            None,
        ),
        (
            ENCODED.format('1+1').replace('\n', '\r').encode(),
            "the lines end in a carriage return alone (CR), as on old Macs.\n  Convert them: tr '\\r' '\\n' < OLD > NEW",
            [],
        ),
        (
            b'{"question": "1+1", "answer": "2"}\r{"question": "2+2", "answer": "4"}\r',
            "the lines end in a carriage return alone (CR), as on old Macs.\n  Convert them: tr '\\r' '\\n' < OLD > NEW",
            [],
        ),
    ],
    ids=['western', 'German', 'chinese', 'picture', 'CR in CSV', 'CR in JSON lines'],
)
def test_a_file_that_cannot_be_read_is_named_by_its_fault_and_read_after_the_remedy(
    content: bytes, printed: str, remedy: list[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = 'data.jsonl' if content.startswith(b'{') else 'data.csv'
    Path(name).write_bytes(content)
    ask = ['view', name, '--answer', 'answer']
    assert printed in message(capsys, *ask)
    if remedy == []:
        subprocess.run(f"mv {name} OLD; tr '\\r' '\\n' < OLD > NEW; mv NEW {name}", shell=True, check=True)
    if remedy is not None:
        assert main([*ask, *remedy]) == 0


SEVEN = """
models:
- mine:two
- smolm2
- {abbr: api, type: OpenAI, path: x, temperatur: 0.5}
datasets:
- abbr: one
  type: File
  path: rowz.jsonl
  reader_cfg: {input_columns: [question], output_column: answer}
  infer_cfg:
    prompt_templat: {type: PromptTemplate, template: "{question}"}
  eval_cfg: {evaluator: {type: AccEvaluatr}}
- abbr: two
  type: Fil
  path: rows.jsonl
  reader_cfg: {input_columns: [question], output_column: answer, test_range: "[0:2"}
  infer_cfg: {prompt_template: {type: PromptTemplate, template: "{question}"}}
- abbr: three
  type: File
  path: rows.jsonl
  reader_cfg: {input_columns: [question], output_column: answer}
  infer_cfg: {prompt_template: {type: PromptTemplate, template: "{question} {qestion}"}}
"""
MENDS = {
    'smolm2': 'mine:two',
    'abbr: api, type: OpenAI, path: x, temperatur: 0.5': 'abbr: m, type: "mine:two"',
    'rowz': 'rows',
    'prompt_templat:': 'prompt_template:',
    'AccEvaluatr': 'AccEvaluator',
    'Fil\n': 'File\n',
    '[0:2"': '[0:2]"',
    ' {qestion}': '',
}


def test_all_faults_of_a_config_are_reported_in_one_round(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path('seven.yaml').write_text(SEVEN)
    printed = message(capsys, 'run', 'seven.yaml', '--out', 'out')
    for fault in (
        "seven.yaml:4: models[1]\n  unknown model 'smolm2'.\n  Did you mean 'smollm2'?",
        "seven.yaml:5: models[2].temperatur\n  unknown option.\n  Did you mean 'temperature'?",
        'seven.yaml:7: datasets[0]\n  rowz.jsonl: no such file or folder.',
        "seven.yaml:11: datasets[0].infer_cfg\n  unknown key 'prompt_templat'.\n  Did you mean 'prompt_template'?",
        "seven.yaml:13: datasets[0].eval_cfg.evaluator\n  unknown metric 'AccEvaluatr'.\n  Did you mean 'AccEvaluator'?",
        "seven.yaml:15: datasets[1].type\n  unknown dataset 'Fil'.\n  Did you mean 'File'?",
        "seven.yaml:17: datasets[1].reader_cfg.test_range\n  '[0:2' is not a range",
        'three (unfilled-field)\n  the template has the field {qestion}',
    ):
        assert fault in printed
    printed = message(capsys, 'lint', 'seven.yaml')
    for fault in ("unknown model 'smolm2'", "unknown key 'prompt_templat'", "'[0:2' is not a range", 'field {qestion}'):
        assert fault in printed
    mended = SEVEN.replace('- smolm2\n', '')
    for fault, mend in MENDS.items():
        mended = mended.replace(fault, mend)
    Path('mended.yaml').write_text(mended)
    assert main(['run', 'mended.yaml', '--out', 'out', '-q']) == 0


@pytest.mark.parametrize('answer', ['7', 7, ['x'], '', None])
def test_an_answer_that_is_none_of_the_options_is_left_alone(
    answer: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {'question': 'Which?', 'choices': OPTIONS, 'answer': answer}
    assert spread_choices(row, 'choices', 'answer')['answer'] == answer
    write_rows('exam.jsonl', [row] * 4)
    main(['lint', 'exam.jsonl', '--template', '{question}', '--answer', 'answer', '--json'])
    assert 'options in column' not in capsys.readouterr().out


def test_duplicate_rows_are_mentioned_in_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows('twice.jsonl', [*ROWS, *ROWS[:3]])
    assert main(['run', 'twice.jsonl', '--answer', 'answer', '--model', 'mine:two']) == 0
    assert 'twice × two: 7 rows, 4 requests, 3 duplicates (not sent)' in capsys.readouterr().err


def test_generation_because_of_another_model_is_mentioned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows('exam.jsonl', [FORMS['MedQA']] * 2)
    ask = ['run', 'exam.jsonl', '--answer', 'answer', '--choices', 'A,B,C', '--dry-run', '--model', 'smollm2']
    assert main([*ask, '--model', 'mine:two']) == 0
    printed = ' '.join(capsys.readouterr().err.split())
    assert (
        'smollm2 can compare choices by log-probability, but two cannot: all are asked to generate. '
        'Run smollm2 alone to compare.' in printed
    )
    assert 'exam × smollm2: 2 rows, 1 request, 1 duplicate (not sent)' in printed
    assert main(ask) == 0
    printed = capsys.readouterr().err
    assert 'choices are compared by log-probability' in printed
    assert 'exam × smollm2: 2 rows, 3 requests' in printed


@pytest.mark.parametrize('suffix', ['.py', '.yaml', '.json'])
def test_a_saved_config_sends_the_same_requests(suffix: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows('exam.jsonl', [{**FORMS['nested'], 'id': i} for i in range(6)])
    ask = ['exam.jsonl', '--answer', 'target.answer', '--model', 'mine:two', '--shots', '2', '--system', 'Be brief.']
    more = ['--limit', '3', '--temperature', '0.5', '--set', 'datasets.*.abbr=quiz', '--silence', 'same-prompt']
    assert main(['run', *ask, *more, '--out', 'out', '-q', '--save-config', f'quiz{suffix}']) == 0
    assert f'wrote quiz{suffix}: rolecall run quiz{suffix} sends the same requests.' in capsys.readouterr().err
    assert main(['run', f'quiz{suffix}', '--out', 'again', '-q']) == 0
    prints = []
    for out in ('out', 'again'):
        with RunReader(out) as run:
            prints.append([(one.dataset, one.model, one.row, one.fingerprints, one.gold) for one in run.results()])
    assert prints[0] == prints[1]
    assert len(prints[0]) == 3
    assert 'the file exists.' in message(capsys, 'run', *ask, '--save-config', f'quiz{suffix}')
    assert main(['init', *ask, *more[2:], '-o', f'quiz{suffix}', '--force']) == 0
    assert main(['run', f'quiz{suffix}', '--limit', '3', '--out', 'third', '-q']) == 0
    with RunReader('third') as run:
        assert [one.fingerprints for one in run.results()] == [one[3] for one in prints[0]]


@pytest.mark.parametrize(
    ('options', 'printed'),
    [
        (['--save-config', 'x.toml'], 'the name must end in .py, .yaml, .yml, .json.'),
        (['--save-config', 'sub/x.py'], 'mine:two is found from'),
        (['--save-config', 'x.py', '--set', 'models.*.key=sk-1234567890'], 'the config holds a key.'),
        (
            ['--save-config', 'x.py', '--data', 'test=rows.jsonl', 'train=rows.jsonl'],
            '--data replaces rows for one run',
        ),
    ],
)
def test_what_cannot_be_saved_is_refused_before_the_run(
    options: list[str], printed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('sub').mkdir()
    assert printed in message(capsys, 'run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', *options)
    assert not Path('runs').exists()


def test_a_task_of_another_catalogue_is_saved_as_the_error_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('quiz.yaml').write_text(
        'task: quiz\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n'
        'doc_to_text: "{{question}}"\ndoc_to_target: "{{answer}}"\noutput_type: generate_until\n'
    )
    refusal = message(capsys, 'run', 'quiz.yaml', '--model', 'mine:two', '--save-config', 'saved.py')
    assert 'Write them with: rolecall config show NAME > FILE.py' in refusal
    assert main(['config', 'show', 'quiz.yaml']) == 0
    assert 'question' in capsys.readouterr().out


GROUPED = """
from mine import two

def make(name, every):
    rows = [dict(q=f'{name} {i}', a='2' if i % every == 0 else '3') for i in range(8)]
    prompt = dict(prompt_template=dict(type='PromptTemplate', template='{q}'))
    reader, scoring = dict(input_columns=['q'], output_column='a'), dict(evaluator=dict(type='AccEvaluator'))
    return dict(abbr=name, type='Rows', test=rows, reader_cfg=reader, infer_cfg=prompt, eval_cfg=scoring)

models = [dict(abbr='m', type=two)]
datasets = [make(*one) for one in (('other', 3), ('music', 5), ('physics', 2), ('law', 4), ('art', 2), ('maths', 3))]
groups = dict(arts=['art', 'music'], all=['science', 'humanities'], science=['physics', 'maths'], humanities=['law', 'arts'])
"""
HIERARCHY = ['all', ' science', '  physics', '  maths', ' humanities', '  law', '  arts', '   art', '   music', 'other']


def test_nested_groups_keep_their_order_and_depth_everywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path('grouped.py').write_text(GROUPED)
    assert main(['run', 'grouped.py', '-q']) == 0
    names = [name.strip() for name in HIERARCHY]
    capsys.readouterr()
    assert main(['report', 'runs/grouped', '--csv']) == 0
    assert [line.partition(',')[0] for line in capsys.readouterr().out.splitlines()[1:]] == names
    assert main(['report', 'runs/grouped', '--markdown']) == 0
    printed = capsys.readouterr().out
    scores, _, rows = printed.partition('## Rows')
    first = [line.split('|')[1][1:-1] for line in scores.splitlines() if '| accuracy |' in line]
    assert first == [name.replace(' ', '· ') for name in HIERARCHY]
    assert [line.split('|')[1].strip() for line in rows.splitlines() if '| accuracy |' in line] == names
    assert main(['runs', 'list', '--json']) == 0
    assert [score['dataset'] for score in json.loads(capsys.readouterr().out)['scores']] == names
    assert main(['report', 'runs/grouped', '--all']) == 0
    printed = capsys.readouterr().out
    depths = [re.match(r'( *)([a-z]+) +[\d.]+ \[', line[1:]) for line in printed.splitlines() if line.startswith(' ')]
    assert [f'{" " * (len(found[1]) // 2)}{found[2]}' for found in depths if found] == HIERARCHY
    assert 'Intervals of groups are over rows, with the datasets as given.' in printed


def test_the_interval_of_a_group_of_two_datasets_says_something(folder: Path) -> None:
    Path('grouped.py').write_text(GROUPED)
    rolecall.run_config('grouped.py', out='out')
    with RunReader('out') as run:
        cards = {card.dataset: card for card in run.scorecards()}
    assert (round(cards['arts'].low), round(cards['arts'].high)) == (21, 60)
    assert cards['arts'].details['between'] == [0.0, 100.0]


@pytest.mark.parametrize('code_of_the_user', [False, True])
def test_a_report_takes_origins_from_the_config_that_the_run_has_stored_and_imports_nothing_for_them(
    code_of_the_user: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve('2') as server:
        entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': 'k'}
        model = 'mine:two' if code_of_the_user else entry
        rolecall.run('rows.jsonl', model=model, answer='answer', out='out', quiet=True)
    Path('mine.py').write_text("raise RuntimeError('imported')")
    subprocess.run([sys.executable, '-m', 'rolecall', 'report', 'out', '--html', 'page.html'], check=True)
    assert 'field question' in Path('page.html').read_text()


def test_rows_are_the_same_whatever_would_have_been_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ['run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']
    for options in ([], ['--on-error', 'skip'], ['--on-error', 'stop']):
        assert main([*ask, *options]) == 0
    assert 'rows have changed' not in capsys.readouterr().err
    with Path('rows.jsonl').open('a') as rows:
        rows.write('{"question": \n')
    assert main([*ask, '--on-error', 'skip']) == 0
    assert 'rows have changed' in capsys.readouterr().err


def test_the_first_rows_of_a_file_compare_as_the_same_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ['run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--limit', '2', '-q']
    assert main([*ask, '--out', 'typed', '--save-config', 'saved.yaml']) == 0
    assert main(['run', 'saved.yaml', '--out', 'saved', '-q']) == 0
    capsys.readouterr()
    assert main(['compare', 'typed', 'saved']) == 0
    assert 'other rows' not in capsys.readouterr().out


def test_a_config_of_another_folder_finds_the_model_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('inner').mkdir()
    monkeypatch.chdir(folder / 'inner')
    assert main(['init', '--yes', '../rows.jsonl', '--model', '../mine.py:two', '-o', 'rows_eval.py']) == 0
    monkeypatch.chdir(folder)
    assert main(['run', 'inner/rows_eval.py', '--out', 'out', '-q']) == 0
    assert 'two scores' in capsys.readouterr().out


def test_a_column_that_the_rows_cannot_be_divided_by_is_not_suggested(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']) == 0
    refusal = message(capsys, 'report', 'out', '--by', 'answer_position')
    assert "no row has 'answer_position'.\n  Known: 'length', 'class', 'question', 'answer'." in refusal


def test_run_suggests_the_answer_that_init_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {'text': ['Oslo', 'Rome'], 'label': ['A', 'B']}
    write_rows('arc.jsonl', [{'question': f'Capital {i}?', 'choices': options, 'answerKey': 'B'} for i in range(3)])
    assert main(['run', 'arc.jsonl', '--model', 'mine:two', '--dry-run']) == 0
    assert 'Is it --answer answerKey?' in capsys.readouterr().err
    write_rows('sheet.jsonl', [{'colour': 'red', 'answer': '2'}])
    refusal = message(capsys, 'run', 'sheet.jsonl', '--model', 'mine:two')
    assert "Give a template for the rows: --template '{colour}' --answer answer." in refusal


def test_the_same_rows_from_another_file_replace_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ['--answer', 'answer', '--model', 'mine:two', '--out', 'out', '-q']
    assert main(['run', 'rows.jsonl', *options]) == 0
    Path('inner').mkdir()
    for rows in (ROWS, ROWS[1:]):
        assert 'replace them' not in capsys.readouterr().err
        write_rows('inner/rows.jsonl', rows)
        assert main(['run', 'inner/rows.jsonl', *options]) == 0
    assert 'rows have changed' in capsys.readouterr().err
    write_rows('rows.jsonl', ROWS[2:])
    assert main(['run', 'rows.jsonl', *options]) == 0
    assert 'rows.jsonl replace them' in capsys.readouterr().err


def test_runs_of_models_by_name_are_explained_from_what_they_have_stored(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('mine.py').write_text("def two(request):\n    return '2'\n\n\ndef four(request):\n    return '4'\n")
    assert main(['init', '--yes', 'rows.jsonl', '-o', 'both.py']) == 0
    text = Path('both.py').read_text()
    Path('both.py').write_text(text.replace("'smollm2',  #", "'mine.py:two', 'mine.py:four',  #"))
    assert main(['run', 'both.py', '--out', 'left', '-q']) == 0
    assert main(['run', 'both.py', '--out', 'right', '-q', '--system', 'Count.']) == 0
    capsys.readouterr()
    assert main(['explain', 'left', 'right']) == 0
    assert 'cannot be opened' not in capsys.readouterr().out
    assert main(['run', 'rows.jsonl', '--model', 'mine:two', '--out', 'other', '-q', '--template', '{question}']) == 0
    assert main(['compare', 'other', 'left', '--by', 'question']) == 0
    assert 'no rows of the same dataset' in capsys.readouterr().out
    with RunReader('left') as run:
        assert [card.model for card in run.scorecards()] == ['two', 'four']


def test_a_setting_that_has_no_place_in_a_config_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ['run', 'rows.jsonl', '--answer', 'answer', '--model', 'mine:two', '--dry-run', '--set']
    assert "unknown key 'temperature'.\n  Write models.*.temperature." in message(capsys, *ask, 'temperature=1')
    assert "Did you mean 'datasets'?" in message(capsys, *ask, 'dataset.0.n=2')
