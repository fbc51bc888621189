"""A run started in a real browser: planned, watched, paused, slowed, without one of its models; its name, slices and sweep."""

import contextlib
import json
import os
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from browser import needs_browser, open_browser, type_into
from rolecall.runs.brake import Control
from rolecall.ui.cli.main import main
from test_web_browser import OWN_WORDS
from test_web_browser_runs import choose
from web_pages import serve_page

pytestmark = [pytest.mark.heavy, needs_browser]

CONFIG = """
models:
  - {abbr: good, type: Function, function: started_bot.good, price: {input: 1.0, output: 2.0}}
  - {abbr: bad, type: Function, function: started_bot.bad}
datasets:
  - abbr: qa
    type: File
    path: qa.jsonl
    reader_cfg: {input_columns: [question], output_column: answer}
    infer_cfg: {prompt_template: {type: PromptTemplate, template: 'Q: {question}'}}
    eval_cfg: {evaluator: {type: AccEvaluator}}
  - abbr: essays
    type: File
    path: qa.jsonl
    reader_cfg: {input_columns: [question], output_column: answer}
    infer_cfg: {prompt_template: {type: PromptTemplate, template: 'Short: {question}'}}
    eval_cfg: {evaluator: {type: RougeEvaluator}}
"""
BOT = """
import time
from pathlib import Path
def good(prompt):
    while Path('hold').exists():
        time.sleep(0.05)
    return str(len(str(prompt)) % 3)
def bad(prompt):
    return 'five'
"""
SIZES = [{'width': 1280, 'height': 860}, {'width': 390, 'height': 860, 'dark': True}]
SUBJECTS = ('sums', 'facts', 'words')


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp('profile')) as opened:
        yield opened


@pytest.fixture
def page(browser, tmp_path, monkeypatch):
    """A page of a config and its runs in a folder of its own; opens an address of it."""
    monkeypatch.chdir(tmp_path)
    source = Path(main.__code__.co_filename).parents[3]
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(source), str(tmp_path)]))
    monkeypatch.syspath_prepend(str(tmp_path))
    Path('two.yaml').write_text(CONFIG)
    Path('started_bot.py').write_text(BOT)
    rows = [{'question': f'What is {n}?', 'answer': str(n % 3), 'subject': SUBJECTS[n % 3]} for n in range(12)]
    rows[4]['era'] = 'old'
    Path('qa.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
    assert main(['run', 'two.yaml', '--model', 'bad', '-q']) == 0

    @contextlib.contextmanager
    def opened(*paths):
        with serve_page('two.yaml', *paths) as (port, rules):
            browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
            browser.complaints()
            yield lambda address: browser.go(f'http://127.0.0.1:{port}/{address}')

    return opened


def press(browser, text):
    """Press the button that begins with a text, once it can be pressed."""
    button = f'[...document.querySelectorAll("button")].find((one) => one.innerText.startsWith({json.dumps(text)}))'
    browser.wait_for(f'const button = {button}; return button && !button.disabled')
    browser.run(f'{button}.click()')


def is_written(browser, selector, text):
    """Wait until an element says something."""
    browser.wait_for(f'return document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})')


def look_at(browser, folder, name):
    """A picture in two sizes, light and dark; nothing is wider than the window, and the console is silent."""
    for number, size in enumerate(SIZES):
        browser.picture(folder / f'{name}-{number}.png', **size)
        assert browser.run('return document.documentElement.scrollWidth - document.documentElement.clientWidth') == 0
    browser.look(**SIZES[0], dark=False)
    assert browser.complaints() == [], name


def test_a_run_is_started_watched_paused_and_let_go_of(browser, page, tmp_path):
    Path('hold').touch()
    with page('runs') as show:
        show('#start')
        browser.wait_for('return Boolean(document.querySelector(".start"))')
        assert browser.run('return document.querySelector(".start .primary").disabled'), 'nothing starts without a plan'
        press(browser, 'Show the plan')
        is_written(browser, '.plan', '24 requests to send')
        is_written(browser, '.start', 'Results go to runs/two.')
        look_at(browser, tmp_path, 'plan')
        choose(browser, 'Model', 'good')
        browser.wait_for('return !document.querySelector(".plan")')
        choose(browser, 'Model', '')
        press(browser, 'Show the plan')
        browser.wait_for('return !document.querySelector(".start .primary").disabled')
        browser.click('.start .primary')
        browser.wait_for('return location.hash.startsWith("#runs") && Boolean(document.querySelector(".control"))')
        is_written(browser, '.heading', 'live')
        press(browser, 'Pause')
        is_written(browser, '.control', 'Resume')
        look_at(browser, tmp_path, 'paused')
        browser.run(
            'const field = document.querySelector(".control input"); field.value = "3";'
            'field.dispatchEvent(new Event("change", {bubbles: true}))'
        )
        press(browser, 'Let go of good')
        browser.wait_for(
            'return document.querySelector(".control") && !document.querySelector(".control").innerText.includes("good")'
        )
        assert Control.read(Path('runs/two')) == Control(True, 3, ('good',))
        press(browser, 'Resume')
        Path('hold').unlink()
        browser.wait_for_long('return !document.querySelector(".control")')
        assert 'bad' in browser.texts('table.scores')[0]
        look_at(browser, tmp_path, 'ended')


def test_a_run_that_is_refused_shows_why(browser, page, tmp_path):
    Path('two.yaml').write_text(CONFIG.replace('RougeEvaluator', 'NoSuchEvaluator'))
    with page() as show:
        show('#start')
        press(browser, 'Show the plan')
        browser.wait_for('return Boolean(document.querySelector(".problem, .why-not, .plan"))')
        if browser.texts('.plan'):
            press(browser, 'Start')
            browser.wait_for_long('return Boolean(document.querySelector(".why-not"))')
        is_written(browser, '.start', 'NoSuchEvaluator')


def test_runs_are_named_found_and_sliced(browser, page, tmp_path):
    assert main(['run', 'two.yaml', '--model', 'bad', '--dataset', 'qa', '-q', '--out', 'runs/second']) == 0
    with page('runs') as show:
        show('#runs')
        browser.wait_for('return document.querySelectorAll(".run-list tbody tr").length === 2')
        assert browser.run('return document.querySelectorAll(".run-list svg.spark").length') == 1
        look_at(browser, tmp_path, 'runs')
        browser.run('[...document.querySelectorAll(".run-list a")].find((one) => one.innerText === "two").click()')
        browser.wait_for('return Boolean(document.querySelector(".notes"))')
        browser.click('.notes summary')
        for name, text in (('name', 'my first'), ('tags', 'paper, draft'), ('note', 'before the rewording')):
            type_into(browser, f'input[name={name}]', text)
        press(browser, 'Save')
        is_written(browser, '.notes summary', 'before the rewording')
        is_written(browser, '.heading', 'my first')
        press(browser, 'Slices')
        for column in ('subject', 'era', 'class'):
            press(browser, column)
        browser.wait_for('return document.querySelectorAll("table.slices").length > 3')
        look_at(browser, tmp_path, 'slices')
        show('#runs')
        browser.wait_for('return Boolean(document.querySelector(".run-list"))')
        type_into(browser, 'input[type=search], .heading input', 'draft')
        browser.wait_for('return document.querySelectorAll(".run-list tbody tr").length === 1')
        assert 'my first' in browser.texts('.run-list tbody tr')[0]


def test_a_sweep_has_a_bar_for_each_wording(browser, page, tmp_path):
    sweep = ['sweep', 'two.yaml', '--model', 'bad', '--axis', 'casing', '--out', 'runs/sweep', '-q']
    assert main(sweep) == 0
    with page('runs/sweep') as show:
        show('#runs?run=0&show=sweep')
        browser.wait_for('return document.querySelectorAll(".sweep .meter").length > 3')
        look_at(browser, tmp_path, 'sweep')


def test_in_chinese_no_english_word_is_left(browser, page):
    with page('runs') as show:
        show('?lang=zh#start')
        press(browser, '显示计划')
        is_written(browser, '.plan', '24 个请求待发送')
        assert browser.texts('.start .primary') == ['开始运行']
        show('?lang=zh#runs?run=0&show=slices&by=subject')
        browser.wait_for('return Boolean(document.querySelector("table.slices"))')
        browser.wait_for('return !document.querySelector("main .loading")')
        assert browser.run(OWN_WORDS) == []
        show('?lang=en#runs')
