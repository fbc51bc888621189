"""The playground: what the worker answers is what the server answers, and the built folder works in a real browser."""

import base64
import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

import rolecall
from browser import needs_browser, open_browser, type_into
from rolecall.ui.web.playground import Pasted, Playground
from tables import in_one

ROOT = Path(__file__).resolve().parent.parent
ROWS = 'q,answer\n1+1=?,2\n"{q}?",4\n'


def pack(**pasted):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(pasted).encode()) + packer.flush()
    return base64.urlsafe_b64encode(packed).decode().rstrip('=')


@pytest.fixture
def ask(tmp_path):
    playground = Playground(str(tmp_path / 'playground'))

    def answer(link, path, **body):
        status, text = playground.answer(link, f'api/{path}', json.dumps(body))
        return status, json.loads(text)

    return answer


def test_the_example_of_the_form_is_free_of_findings_that_matter(ask):
    _, session = ask('', 'session')
    assert session['playground']['error'] == ''
    assert session['playground']['columns'] == ['question', 'A', 'B', 'answer']
    assert [model['abbr'] for model in session['configs'][0]['models']] == ['chatml', 'llama3', 'gpt-4o-mini']
    assert {finding['severity'] for finding in ask('', 'lint')[1]['findings']} <= {'info'}


def test_findings_and_errors_are_in_the_language_of_the_page(tmp_path):
    playground = Playground(str(tmp_path / 'playground'))
    finding = json.loads(playground.answer('', 'api/lint', '', True)[1])['findings'][0]
    assert finding['message'] == '跳过了有关 token 的规则：没有 chatml 的分词器。'
    status, text = playground.answer(pack(rows='q\n', template='{q}'), 'api/lint', '', True)
    assert (status, re.findall('[\u4e00-\u9fff]', json.loads(text)['error']) != []) == (422, True), json.loads(text)


def test_pasted_rows_are_shown_by_origin_linted_compared_and_edited(ask):
    link = pack(rows=ROWS, template='Add: {q} {missing}', answer='answer', models='chatml, openai/gpt-4o')
    status, shown = ask(link, 'prompts?dataset=rows&model=gpt-4o&row=1')
    assert (status, shown['prompts'][0]['request'][0]['content']) == (200, 'Add: {q}? {missing}')
    spans = [(span['text'], span['group']) for block in shown['prompts'][0]['blocks'] for span in block['spans']]
    assert ('{q}?', 'field') in spans
    assert 'unfilled-field' in {finding['rule'] for finding in ask(link, 'lint')[1]['findings']}
    sides = 'left_dataset=rows&left_model=chatml&right_dataset=rows&right_model=gpt-4o'
    assert not ask(link, f'diff?{sides}')[1]['same']
    path = ['dataset', 'infer_cfg', 'prompt_template', 'template', 'round', 0, 'prompt']
    status, edited = ask(link, 'edit', dataset='rows', model='gpt-4o', row=0, edits=[[path, 'Sum: {q}']])
    assert edited['prompts'][0]['request'][0]['content'] == 'Sum: 1+1=?'


def test_the_config_of_the_playground_gives_the_same_prompts(ask, tmp_path):
    _, session = ask(pack(rows=ROWS, template='Add: {q}', answer='answer', models='chatml'), 'session')
    (tmp_path / 'rows.csv').write_text(ROWS)
    (tmp_path / 'own.yaml').write_text(session['playground']['config'])
    requests = [preview.request for preview in rolecall.preview(tmp_path / 'own.yaml')]
    assert requests[0] == '<|im_start|>user\nAdd: 1+1=?<|im_end|>\n<|im_start|>assistant\n'


@in_one
@pytest.mark.parametrize(
    ('link', 'words'),
    [
        (pack(rows='{"q": 1}\n{"q": ', models='chatml'), 'rows.jsonl'),
        (pack(rows='', models='chatml'), 'rows.csv'),
        (pack(rows=ROWS, template='{q}', models='gpt-4o'), "Did you mean 'openai/gpt-4o'?"),
        (pack(rows=ROWS, template='{q}', answer='anwser', models='chatml'), 'anwser'),
        (pack(rows=ROWS, template='{q}', models='chatlm'), "Did you mean 'chatml'?"),
        (pack(rows=ROWS, template='{q}', models='chatml, js:eval'), "'js:eval' is neither a family nor a model"),
        (pack(rows=ROWS, template='{q}', models='http://localhost:1/v1'), "'openai/gpt-4o-mini'"),
        ('not-a-link', 'Copy the whole link.'),
        (pack(rows='x')[:-4], 'Copy the whole link.'),
    ],
)
def test_what_is_wrong_with_a_link_is_said_beside_the_form(link, words):
    with tempfile.TemporaryDirectory() as folder:
        playground = Playground(folder)
        status, text = playground.answer(link, 'api/session', '')
        session = json.loads(text)
        assert (status, session['configs']) == (200, [])
        assert words in session['playground']['error']
        assert folder not in session['playground']['error']
        assert playground.answer(link, 'api/lint', '')[0] == 422


@in_one
@pytest.mark.parametrize(
    ('rows', 'suffix'),
    [('{"a": 1}', '.jsonl'), (' [{"a": 1}]', '.json'), ('a\tb\n1\t2', '.tsv'), ('a,b\n1,2', '.csv')],
)
def test_the_format_of_rows_is_seen_from_how_they_begin(rows, suffix):
    with tempfile.TemporaryDirectory() as folder:
        Pasted(rows=rows, template='{a}', answer='', models='chatml').write(Path(folder))
        assert Path(folder, f'rows{suffix}').is_file()


def test_without_npm_the_manual_is_built_and_a_line_says_what_is_missing(tmp_path):
    command = [sys.executable, ROOT / 'tools/playground.py', tmp_path / 'playground']
    done = subprocess.run(command, env={**os.environ, 'PATH': ''}, capture_output=True, text=True, check=True)
    assert done.stdout == 'The playground needs npm and node to be built; the manual is without it.\n'
    assert not (tmp_path / 'playground').exists()


class _Host(SimpleHTTPRequestHandler):
    """A static web host that notes what is asked for."""

    paths: ClassVar[list[str]] = []
    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, '.wasm': 'application/wasm'}

    def do_GET(self):
        self.paths.append(self.path)
        super().do_GET()

    def log_message(self, *words):
        pass


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """The built folder, and where it is served."""
    if not (shutil.which('npm') and shutil.which('node')):
        pytest.skip('needs npm and node')
    folder = tmp_path_factory.mktemp('site') / 'playground'
    subprocess.run([sys.executable, ROOT / 'tools/playground.py', folder], check=True, timeout=300)
    with ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(_Host, directory=folder.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f'http://127.0.0.1:{server.server_port}/playground/'
        server.shutdown()
        thread.join(20)


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp('profile')) as window:
        yield window


def wait_for_prompt(browser, words):
    """Wait until the prompt shows some words: Python has to start first."""
    for _ in range(1200):
        if any(words in text for text in browser.texts('.prompt .say')):
            return
        time.sleep(0.1)
    pytest.fail(f'{words!r} is not shown; problems: {browser.texts(".problem")}')


@pytest.mark.heavy
@needs_browser
def test_the_folder_is_small_enough_to_visit(site):
    folder, _ = site
    sizes = [len(gzip.compress(path.read_bytes())) for path in folder.rglob('*') if path.is_file()]
    assert sum(sizes) < 15_000_000


@pytest.mark.heavy
@needs_browser
def test_rows_are_pasted_seen_by_origin_linted_compared_and_shared_in_a_real_browser(site, browser):
    _, address = site
    browser.go(address)
    wait_for_prompt(browser, 'Which gas do plants take in?')
    assert 'field of the row (question, A, B)' in browser.texts('.origins')[0]
    _Host.paths.clear()
    type_into(browser, '#field--rows-', ROWS)
    type_into(browser, '#field--template-', 'Add: {q} {missing}')
    wait_for_prompt(browser, 'Add: 1+1=? {missing}')
    browser.wait_for('return document.querySelector(".findings")?.innerText.includes("unfilled-field")')
    link = browser.run('return location.href')
    assert '1+1' not in link
    browser.click('header nav a[href^="#compare"]')
    browser.wait_for('return document.querySelectorAll(".pair mark").length > 0')
    assert _Host.paths == []  # what was pasted is nowhere but in the address

    browser.go(link.replace('#playground?', '#playground?row=1&'))
    wait_for_prompt(browser, 'Add: {q}? {missing}')
    assert browser.run('return document.querySelector("#field--rows-").value') == ROWS
    assert browser.complaints() == []
