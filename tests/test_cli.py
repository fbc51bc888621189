"""The command line, through `main`: what it prints, and the exit codes that scripts rely on."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rolecall import __version__
from rolecall.ui.cli import view as view_command
from rolecall.ui.cli.config import show as config_command
from rolecall.ui.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / 'examples'
CONFIG = """
models = [
    dict(abbr='base', type='HuggingFaceBaseModel', path='none'),
    dict(abbr='gpt', type='OpenAI', path='gpt'),
]
datasets = [
    dict(
        abbr=abbr,
        type='Rows',
        test=[dict(q='1+1=?', a='2'), dict(q='2+2=?', a='4')],
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=template)),
    )
    for abbr, template in [('short', '{q}'), ('long', 'Q: {q}\\nA:')]
]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(CONFIG)
    return str(path)


def titles(text):
    return [line[3:] for line in text.splitlines() if line.startswith('== ')]


def test_help_has_examples_and_exit_codes(capsys):
    for command, expected in [
        ([], 'exit codes:'),
        (['view'], 'rolecall view config.py --diff'),
        (['lint'], '--strict'),
    ]:
        with pytest.raises(SystemExit) as left:
            main([*command, '--help'])
        assert left.value.code == 0
        assert expected in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(['--version'])
    assert capsys.readouterr().out == f'rolecall {__version__}\n'


def test_nothing_heavy_is_imported_before_a_command_runs():
    code = 'import sys, rolecall.ui.cli.main; print(*sorted(m for m in sys.modules if m.startswith("rolecall") or m == "rich"))'
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout
    light = ('rolecall._version', 'rolecall.lazy_', 'rolecall.ui', 'rolecall.errors', 'rolecall.plain_files')
    assert [name for name in out.split() if name != 'rolecall' and not name.startswith(light)] == []
    heavy = 'import sys, rolecall.ui.cli.main; print(*{"json", "rich", "jinja2", "asyncio", "sqlite3", "aiohttp", "email"} & set(sys.modules))'
    assert subprocess.run([sys.executable, '-c', heavy], capture_output=True, text=True, check=True).stdout == '\n'


def test_a_command_imports_what_it_needs_and_no_more():
    example = Path(__file__).parent.parent / 'examples' / 'gsm8k.py'
    unneeded = {
        ('config', 'show', str(example)): {
            'jinja2',
            'asyncio',
            'rolecall.sources.retrievers',
            'rolecall.sources.datasets',
            'rolecall.scoring',
        },
        ('view', str(example), '--model', 'qwen*', '--json'): {
            'jinja2',
            'asyncio',
            'rich',
            'yaml',
            'rolecall.experiment.opening.judges',
        },
    }
    for arguments, modules in unneeded.items():
        code = f'import sys; from rolecall.ui.cli.main import main; main({[*arguments]!r}); print(*{modules!r} & set(sys.modules), file=sys.stderr)'
        assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stderr == '\n'


def test_a_run_of_a_function_imports_nothing_for_servers_batches_and_labels(tmp_path):
    (tmp_path / 'rows.jsonl').write_text('{"i": 1, "answer": "1"}')
    (tmp_path / 'answer.py').write_text('def one(prompt):\n    return "1"\n')
    arguments = [
        'run',
        'rows.jsonl',
        '--template',
        '{i}',
        '--answer',
        'answer',
        '--model',
        'answer.py:one',
        '--out',
        'out',
        '-q',
    ]
    modules = {
        f'rolecall.{name}' for name in ('models.http.served_model', 'runs.batches.pending', 'insight.calibration')
    }
    code = f'import sys; from rolecall.ui.cli.main import main; assert main({arguments!r}) == 0; assert not {modules!r} & set(sys.modules)'
    subprocess.run([sys.executable, '-c', code], capture_output=True, check=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ('typed', 'place'),
    [
        (['merge', 'a', 'b'], 'runs merge'),
        (['collect', 'a'], 'runs collect'),
        (['import', 'lm-eval', 'a'], 'runs import'),
        (['runs', 'experiments'], 'runs list'),
        (['list', 'runs'], 'runs list'),
        (['schema'], 'config schema'),
        (['prompter', 'show', 'a.py'], 'config prompter'),
        (['pull', 'smollm2'], 'model pull'),
        (['tune', 'a', 'b'], 'model tune'),
    ],
)
def test_a_command_without_its_group_says_where_it_is(typed, place, capsys):
    assert main(typed) == 2
    assert capsys.readouterr().err == f'rolecall: `rolecall {typed[0]}` is `rolecall {place}`.\n'
    with pytest.raises(SystemExit) as ended:
        main([*place.split(), '--help'])
    assert ended.value.code == 0


def test_rich_is_imported_only_when_something_is_drawn(config):
    code = f'import sys; from rolecall.ui.cli.main import main; main(["view", {config!r}, "--json"]); assert "rich" not in sys.modules'
    subprocess.run([sys.executable, '-c', code], capture_output=True, check=True)


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ([], ['short × base · row 0', 'short × gpt · row 0', 'long × base · row 0', 'long × gpt · row 0']),
        (['--dataset', 'sh*', '--model', 'gpt'], ['short × gpt · row 0']),
        (['--dataset', 'long', '--model', 'gpt', '-n', '5'], ['long × gpt · row 0', 'long × gpt · row 1']),
        (['--dataset', 'long', '--model', 'gpt', '--row', '1'], ['long × gpt · row 1']),
    ],
)
def test_view_picks_by_pattern_row_and_count(config, capsys, options, expected):
    assert main(['view', config, *options]) == 0
    assert titles(capsys.readouterr().out) == [f'{title} · gen' for title in expected]


def test_view_json_is_one_object_per_line(config, capsys):
    assert main(['view', config, '--json']) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one['request'] for one in shown] == [
        '1+1=?',
        [{'role': 'user', 'content': '1+1=?'}],
        'Q: 1+1=?\nA:',
        [{'role': 'user', 'content': 'Q: 1+1=?\nA:'}],
    ]


def test_view_colour_can_be_had_in_a_pipe(config, capsys, monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setenv('TERM', 'xterm-256color')
    assert main(['view', config, '--model', 'gpt', '--color']) == 0
    assert '\x1b[' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('options', 'reason'),
    [
        (['--dataset', 'lnog'], "no dataset matches 'lnog'.\n  Did you mean 'long'?"),
        (['--row', '7'], 'short has no row 7: it has 2 rows, numbered from 0.'),
        (['--label', 'A'], "short has no label 'A'. Its labels: none."),
        (['--turn', '1'], 'short has no turn 1 in these rows.'),
        (['--tokens'], "the model's tokenizer is not on this machine.\n  Name one with --tokenizer"),
        (['--tokenizer', '/no/such'], 'no tokenizer found'),
        (
            ['--diff', 'base', 'gtp'],
            "'gtp' is not a model or a dataset of this config, nor a file.\n  Did you mean 'gpt'?",
        ),
        (['--diff', 'base', 'short'], 'one is a model and the other a dataset.'),
        (['--replies', '/no/such'], '/no/such: cannot be read'),
        (['--data', 'test=/no/such.jsonl'], '/no/such.jsonl'),
        (['--template', '{q}'], 'a config defines its own'),
    ],
)
def test_view_says_what_is_wrong_and_exits_with_2(config, capsys, options, reason):
    assert main(['view', config, *options]) == 2
    assert reason in capsys.readouterr().err


def test_a_complaint_is_made_once(config, capsys):
    assert main(['view', config, '--row', '7']) == 2
    assert capsys.readouterr().err.count('short has no row 7') == 1


@pytest.mark.parametrize('command', [['view'], ['lint'], ['export', 'requests'], ['config', 'show']])
@pytest.mark.parametrize(
    ('written', 'reason'),
    [(None, 'cannot be read'), ('models = [', 'does not parse'), ('x = 1 / 0', 'ZeroDivisionError')],
)
def test_a_broken_config_is_an_error_without_traceback(tmp_path, capsys, command, written, reason):
    path = tmp_path / 'broken.py'
    if written is not None:
        path.write_text(written)
    assert main([*command, str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith('rolecall: ')
    assert reason in shown
    assert 'Traceback' not in shown


@pytest.mark.parametrize('arguments', [['view', 'x', '--row', '-1'], ['view', 'x', '--data', 'oops'], ['nothing'], []])
def test_a_wrong_command_line_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2


@pytest.mark.parametrize('arguments', [['view'], ['lint'], ['view', '--diff', 'a', 'b']])
def test_a_missing_config_exits_with_2(arguments, capsys):
    assert main(arguments) == 2
    assert 'CONFIG' in capsys.readouterr().err


def test_data_supplies_rows_for_a_loader_that_is_not_ours(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"q": "from the file"}\n')
    path = tmp_path / 'config.py'
    path.write_text(CONFIG.replace("type='Rows'", "type='SomeoneElses'").replace('test=[dict(', 'other=[dict('))
    assert main(['view', str(path), '--model', 'gpt']) == 2
    assert "datasets[0].type\n  unknown dataset 'SomeoneElses'" in capsys.readouterr().err
    assert main(['view', str(path), '--model', 'gpt', '--data', f'test={rows}']) == 0
    assert 'from the file' in capsys.readouterr().out


def test_a_dataset_that_cannot_be_opened_does_not_hide_the_others(tmp_path, capsys):
    path = tmp_path / 'config.py'
    path.write_text(CONFIG + "datasets[0]['type'] = 'SomeoneElses'\n")
    assert main(['view', str(path), '--model', 'gpt']) == 2
    assert titles(capsys.readouterr().out) == ['long × gpt · row 0 · gen']


@pytest.mark.parametrize(
    ('flags', 'request_'),
    [
        ([], None),
        (['--api'], [{'role': 'user', 'content': 'Q: 1+1=?\nA:'}]),
        (['--meta-template', 'chatml'], '<|im_start|>user\nQ: 1+1=?\nA:<|im_end|>\n<|im_start|>assistant\n'),
    ],
)
@pytest.mark.parametrize(
    ('name', 'rows'),
    [('qa.jsonl', '{"question": "1+1=?", "answer": "2"}\n'), ('qa.csv', 'question,answer\n1+1=?,2\n')],
)
def test_rows_and_a_template_do_without_a_config(tmp_path, capsys, flags, request_, name, rows):
    path = tmp_path / name
    path.write_text(rows)
    template = ['--template', r'Q: {question}\nA: {answer}', '--output-column', 'answer']
    assert main(['view', str(path), *template, *flags, '--json']) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown['request'] == request_
    assert shown['prompt'] == 'Q: 1+1=?\nA: ' if request_ is None else shown['prompt']


def test_rows_without_a_template_are_an_error(tmp_path, capsys):
    path = tmp_path / 'qa.jsonl'
    path.write_text('{}')
    assert main(['view', str(path)]) == 2
    assert '--template' in capsys.readouterr().err


def test_diff_compares_models_datasets_and_files(config, tmp_path, capsys):
    other = tmp_path / 'other.py'
    other.write_text(CONFIG.replace('Q: ', 'Question: '))
    assert main(['view', config, '--diff', 'base', 'gpt', '--dataset', 'short']) == 1
    assert '+++ short × gpt' in capsys.readouterr().out
    assert main(['view', config, '--diff', 'short', 'long', '--model', 'base']) == 1
    assert '+ {+Q: +}1+1=?\n+ {+A:+}' in capsys.readouterr().out
    assert main(['view', '--diff', config, str(other), '--model', 'base', '--dataset', 'long', '--json']) == 1
    assert json.loads(capsys.readouterr().out)['changes'][0]['right'][1] == {'text': 'uestion', 'differs': True}
    assert main(['view', '--diff', config, config]) == 0


def test_turns_take_canned_replies(tmp_path, capsys):
    replies = tmp_path / 'replies.json'
    replies.write_text('["Said before."]')
    config = str(EXAMPLES / 'mt_bench.py')
    assert main(['view', config, '--model', 'gpt', '--turn', '1', '--replies', str(replies), '--json']) == 0
    request = json.loads(capsys.readouterr().out)['request']
    assert [message['role'] for message in request] == ['user', 'assistant', 'user']
    assert request[1]['content'] == 'Said before.'


@pytest.mark.parametrize('text', ['[1]', '{', '{"a": 1}'])
def test_replies_must_be_strings(tmp_path, capsys, text):
    replies = tmp_path / 'replies.json'
    replies.write_text(text)
    assert main(['view', str(EXAMPLES / 'mt_bench.py'), '--replies', str(replies)]) == 2
    assert str(replies) in capsys.readouterr().err


@pytest.fixture
def typed(monkeypatch):
    """A user at a terminal who types these lines."""

    def type_(*lines):
        answers = iter(lines)

        def ask(_prompt):
            answer = next(answers, None)
            if answer is None:
                raise EOFError
            return answer

        monkeypatch.setattr('builtins.input', ask)
        monkeypatch.setattr(view_command, '_is_interactive', lambda arguments: True)

    return type_


@pytest.mark.parametrize(
    ('answers', 'expected'),
    [
        (['2', 'gpt'], ['long × gpt']),
        (['7', 'x', 'l*', 'a'], ['long × base', 'long × gpt']),
        (['', ''], ['short × base']),
        (['q'], []),
        ([], []),
    ],
)
def test_several_pairs_are_chosen_from_a_menu(config, capsys, typed, answers, expected):
    typed(*answers)
    assert main(['view', config]) == 0
    shown = capsys.readouterr().out
    assert titles(shown) == [f'{pair} · row 0 · gen' for pair in expected]
    assert '  1  short\n  2  long\n' in shown


def test_examples_are_picked_once_for_all_models(tmp_path, capsys, monkeypatch):
    from rolecall.sources.retrievers import BM25Retriever

    called = []
    retrieve = BM25Retriever.retrieve
    monkeypatch.setattr(
        BM25Retriever, 'retrieve', lambda self, *rows, **options: called.append(1) or retrieve(self, *rows, **options)
    )
    config = tmp_path / 'config.py'
    config.write_text("""
models = [dict(abbr=f'm{i}', type='HuggingFaceBaseModel', path='none') for i in range(3)]
datasets = [dict(abbr='d', type='Rows', train=[dict(q=f'one {i}', a=i) for i in range(9)], test=[dict(q='one 3', a=0)] * 2,
    reader_cfg=dict(input_columns=['q'], output_column='a'), infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template='{q} {a}'),
        prompt_template=dict(type='PromptTemplate', template='</E>{q}', ice_token='</E>'),
        retriever=dict(type='BM25Retriever', ice_num=2)))]
""")
    assert main(['view', str(config), '--all', '--json', '-n', '2']) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (len(shown), len(called)) == (6, 1)
    assert len({one['request'] for one in shown}) == 1


def test_all_asks_nothing(config, capsys, typed):
    typed()
    assert main(['view', config, '--all']) == 0
    assert len(titles(capsys.readouterr().out)) == 4


def test_ctrl_c_exits_with_130(config, monkeypatch, capsys):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(config_command, 'execute', interrupt)
    assert main(['config', 'show', config]) == 130


@pytest.mark.skipif(os.name == 'nt', reason='pipes of a POSIX shell')
def test_a_reader_that_leaves_is_no_error(config):
    command = f'{sys.executable} -m rolecall view {config} -n 2 --json | head -c 10; echo " ${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ['bash', '-c', f'export PYTHONUNBUFFERED=1; {command}'], capture_output=True, text=True, check=True
    )
    assert done.stderr == ''
    assert done.stdout.split()[-1] in ('0', '141')


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['view', 'CONFIG', '--api'], '--api applies to a file of rows'),
        (['view', 'CONFIG', '--output-column', 'a'], '--answer applies to a file of rows'),
        (['run', 'CONFIG', '--choices', 'A,B'], '--choices applies to a file of rows'),
        (['view', '/dev/null', '--template', '{q}'], 'Files of rows end in .csv'),
        (['view', 'CONFIG', '--diff', 'a', 'b', '--tokens'], 'cannot be combined with --diff'),
        (['lint', '--silence', 'bos', 'CONFIG'], 'put CONFIG before --silence'),
        (['lint', 'ROWS'], 'Give a template for the rows'),
        (['config', 'show', 'ROWS'], 'not a config; configs are Python files'),
    ],
)
def test_options_that_would_be_ignored_are_refused(config, tmp_path, capsys, arguments, reason):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"colour": 1}\n')
    named = {'CONFIG': str(config), 'ROWS': str(rows)}
    assert main([named.get(argument, argument) for argument in arguments]) == 2
    assert reason in capsys.readouterr().err


def test_lint_looks_at_a_file_of_rows(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"question": "1+1", "answer": "2"}\n')
    assert main(['lint', str(rows), '--template', 'Q: {qestion}', '--output-column', 'answer']) == 1
    assert 'Did you mean {question}?' in capsys.readouterr().out


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='no /dev/full')
def test_a_full_disk_is_an_error_without_traceback(config):
    command = [sys.executable, '-m', 'rolecall.ui.cli.main', 'view', str(config), '--all']
    with open('/dev/full', 'w') as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, 'Traceback' in done.stderr) == (2, False)
    assert 'cannot write the output: No space left on device.' in done.stderr
    closed = subprocess.run(['sh', '-c', '"$@" >&-', 'sh', *command], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, '')


def test_config_show_prints_what_was_understood(config, capsys):
    assert main(['config', 'show', config, '--json']) == 0
    assert [model['abbr'] for model in json.loads(capsys.readouterr().out)['models']] == ['base', 'gpt']
    assert main(['config', 'show', config]) == 0
    assert "abbr='gpt'" in capsys.readouterr().out


LEAKS = textwrap.dedent("""
    datasets = [dict(abbr='demo', type='Rows', test=[dict(q='x', a='y')],
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q} {nope}')))]
""")


def test_lint_exits_with_1_when_findings_count(tmp_path, capsys):
    path = tmp_path / 'config.py'
    path.write_text(LEAKS)
    main(['lint', str(path), '--json'])
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert 'unfilled-field' in [finding['rule'] for finding in findings]
    assert main(['lint', str(path), '--strict']) == 1
    assert 'unfilled-field' in capsys.readouterr().out
    silenced = sorted({finding['rule'] for finding in findings})
    assert main(['lint', str(path), '--strict', '--silence', *silenced]) == 0
    assert capsys.readouterr().out == 'nothing found\n'


def test_lint_lists_its_rules(capsys):
    assert main(['lint', '--rules']) == 0
    assert 'unfilled-field' in capsys.readouterr().out


@pytest.mark.parametrize('name', ['gsm8k', 'bbh', 'mt_bench'])
def test_the_examples_are_shown_and_linted(name, capsys, monkeypatch):
    monkeypatch.delenv('ROLECALL_DATA', raising=False)
    config = str(EXAMPLES / f'{name}.py')
    assert main(['view', config, '--all']) == 0
    assert titles(capsys.readouterr().out)
    assert main(['lint', config]) == 0


@pytest.mark.parametrize(
    'arguments',
    [['view', '/tmp/\x1b]0;owned\x07.py'], ['report', '/tmp/\x1b[31mrun'], ['view', 'CONFIG', '--dataset', '\x1b[2J']],
)
def test_control_characters_of_an_error_never_reach_the_terminal(config, capsys, arguments):
    assert main([config if argument == 'CONFIG' else argument for argument in arguments]) == 2
    shown = capsys.readouterr().err
    assert '\x1b' not in shown
    assert '\x07' not in shown
    assert '␛' in shown or '\\x1b' in shown


def test_control_characters_of_a_wrong_argument_never_reach_the_terminal(capsys):
    with pytest.raises(SystemExit):
        main(['view', 'x', '--row', '\x1b[31m'])
    assert '\x1b' not in capsys.readouterr().err


def test_every_command_has_help_with_an_example(capsys):
    leaves = [['view'], ['lint'], ['run'], ['report'], ['compare'], ['config', 'show'], ['model', 'pull']]
    leaves += [['config', 'prompter'], ['export', 'requests'], ['export', 'results'], ['export', 'sft']]
    for command in leaves:
        with pytest.raises(SystemExit):
            main([*command, '--help'])
        assert f'examples:\n  rolecall {" ".join(command)}' in capsys.readouterr().out
