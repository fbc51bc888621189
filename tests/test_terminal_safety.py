"""Control characters from configs, data, replies and errors never act on a terminal: every command, on a real one."""

import os
import pty
import re
import sys

import pytest

CONFIG = r"""
def answer(request):
    if 'b' in request:
        raise ValueError('bad \x1b[31m\x07 thing')
    return 'x\x1b[2J'
models = [dict(abbr='m\x1b]0;own\x07', type='Function', function=answer)]
datasets = [dict(abbr='d\x1b[5m', type='Rows', test=[dict(q='a\x1b[5m', a='x'), dict(q='b', a='x\x1b')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=4)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""
OURS = re.compile(r'\x1b\[[0-9;?]*[A-HKfhlmnsu]')
"""What rich itself sends: colours, cursor moves, erasing to the end of a line."""


def on_a_terminal(*arguments):
    """What a command writes to a terminal."""
    written = []

    def read(descriptor):
        written.append(os.read(descriptor, 65536))
        return b' '

    pty.spawn([sys.executable, '-m', 'rolecall', *arguments], read)
    return b''.join(written).decode('utf-8', 'replace')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('hostile')
    (folder / 'c.py').write_text(CONFIG)
    return folder


@pytest.mark.skipif(os.name == 'nt', reason='needs a pseudo-terminal')
def test_nothing_from_outside_acts_on_the_terminal(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv('TERM', 'xterm-256color')
    monkeypatch.delenv('NO_COLOR', raising=False)
    commands = [
        ['view', 'c.py', '--all'],
        ['lint', 'c.py'],
        ['run', 'c.py', '--out', 'r'],
        ['report', 'r'],
        ['compare', 'r', 'r'],
        ['export', 'results', 'r'],
        ['config', 'show', 'c.py'],
        ['view', 'c.py', '--dataset', '\x1b[2J'],
    ]
    for command in commands:
        shown = on_a_terminal(*command)
        assert shown.strip(), command
        left = OURS.sub('', shown)
        assert not re.search(r'[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]', left), (command, left)
        assert '\x1b[5m' not in shown
