"""The page in a real browser: explore, compare, lint, keys, hostile data, and what axe says about it."""

import json
import shutil
import subprocess
import tarfile
import time

import pytest

pytest.importorskip('aiohttp')
from browser import needs_browser, open_browser
from report_runs import HOSTILE, made_up_run
from rolecall.runs.store.writer import Store
from web_pages import CONFIG, PNG, serve_page

pytestmark = [pytest.mark.heavy, needs_browser]


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp('profile')) as one:
        yield one


@pytest.fixture(scope='module')
def page(tmp_path_factory, browser):
    """Opens an address of the page, signed in."""
    path = tmp_path_factory.mktemp('web') / 'sums.py'
    path.write_text(CONFIG)
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')

        def show(address=''):
            browser.go(f'http://127.0.0.1:{port}/{address}')
            browser.wait_for('return Boolean(document.querySelector("main h2, main .problem"))')

        yield show


@pytest.fixture(scope='module')
def axe(tmp_path_factory):
    """The source of axe, from the package registry."""
    if not shutil.which('npm'):
        pytest.skip('needs npm to fetch axe-core')
    folder = tmp_path_factory.mktemp('axe')
    done = subprocess.run(['npm', 'pack', '--silent', 'axe-core@4.14.0'], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        pytest.skip('axe-core cannot be fetched')
    with tarfile.open(next(folder.glob('*.tgz'))) as tar:
        return tar.extractfile('package/axe.min.js').read().decode()


def test_explore_shows_a_prompt_by_origin(browser, page):
    page()
    assert browser.texts('main .title') == ['sums × chatml · row 0 · gen']
    assert 'field of the row (q)' in browser.texts('.origins')[0]
    assert browser.texts('.side .count') == ['250 rows']
    assert 10 < len(browser.texts('.list .item')) < 60  # only those that can be seen
    assert browser.complaints() == []


def test_a_click_explains_where_a_part_comes_from(browser, page):
    page('#explore?row=3')
    browser.run(
        '[...document.querySelectorAll(".prompt span[role=button]")].find((one) => one.innerText === "3+3=?").click()'
    )
    browser.wait_for('return document.querySelector(".inspector").innerText.includes("sums.py:")')
    assert 'field of the row' in browser.texts('.inspector')[0]
    assert 'datasets[0].infer_cfg.prompt_template' in browser.texts('.inspector')[0]


def test_keys_step_through_rows_and_models_and_the_address_follows(browser, page):
    page()
    browser.press('j', 'j', 'k')
    browser.wait_for('return document.querySelector("main .title").innerText.includes("row 1 ")')
    assert 'row=1' in browser.run('return location.hash')
    browser.press(']')
    browser.wait_for('return document.querySelector("main .title").innerText.includes("gpt")')
    browser.press('/')
    assert browser.run('return document.activeElement.id') == 'search'


def test_searching_narrows_the_rows(browser, page):
    page('#explore?q=77%2B77')
    browser.wait_for('return document.querySelectorAll(".list .item").length === 1')
    assert '77+77=?' in browser.texts('.list .item')[0]


@pytest.mark.parametrize(('as_', 'expected'), [('json', '"role": "user"'), ('tokens', 'Not known here')])
def test_a_request_is_shown_as_json_and_tokens(browser, page, as_, expected):
    page(f'#explore?model=gpt&as={as_}')
    browser.wait_for(f'return document.querySelector("main .main").innerText.includes({json.dumps(expected)})')


def test_two_models_are_compared_line_by_line(browser, page):
    page('#compare')
    browser.wait_for('return document.querySelectorAll(".pair mark").length === 1')
    assert browser.texts('.compare .count') == ['1 of 2 lines differ']
    titles = browser.texts('.pair h3')
    assert ['chatml' in titles[0], 'gpt' in titles[1]] == [True, True]


def test_a_finding_leads_to_its_prompt(browser, page):
    page('#lint')
    browser.wait_for('return document.querySelectorAll(".finding").length > 0')
    browser.click('button.finding')
    browser.wait_for('return location.hash.startsWith("#explore")')


def test_hostile_data_is_shown_and_does_nothing(browser, tmp_path):
    path = tmp_path / 'hostile.py'
    path.write_text(
        CONFIG.replace(
            "test=[dict(q=f'{n}+{n}=?', a=str(2 * n)) for n in range(250)]", f'test=[dict(q={HOSTILE!r}, a="x")]'
        )
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.wait_for('return Boolean(document.querySelector("main .title"))')
        assert browser.run(
            'return [window.hacked ?? null, document.querySelectorAll("#app img, #app iframe, #app script").length]'
        ) == [None, 0]
        assert 'onerror' in browser.texts('.prompt')[0]
        assert 'U+202E' in browser.texts('.prompt')[0]
        assert browser.complaints() == []


def test_a_prompt_of_a_million_characters_does_not_freeze_the_page(browser, tmp_path):
    path = tmp_path / 'long.py'
    path.write_text(
        CONFIG.replace(
            "test=[dict(q=f'{n}+{n}=?', a=str(2 * n)) for n in range(250)]", "test=[dict(q='word ' * 200_000, a='x')]"
        )
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.wait_for('return Boolean(document.querySelector(".prompt .more"))')
        assert browser.texts('.prompt .more') == ['show 940,000 more characters']
        browser.click('.prompt .more')
        assert browser.texts('.prompt .more') == ['show 740,000 more characters']


@pytest.mark.parametrize('address', ['#explore', '#explore?as=json', '#compare', '#lint'])
def test_axe_finds_nothing_serious(browser, page, axe, address):
    page(address)
    browser.wait_for('return !document.querySelector("main").innerText.includes("Loading")')
    assert serious_findings(browser, axe) == []


def serious_findings(browser, axe):
    """What axe calls serious or critical on the page as it is."""
    script = 'const done = arguments[arguments.length - 1]; axe.run().then((found) => done(found.violations.map((one) => [one.impact, one.id, one.nodes.slice(0, 3).map((node) => node.html)])));'
    found = browser.tell('/execute/async', {'script': f'{axe}; {script}', 'args': []})
    return [one for one in found if one[0] in ('serious', 'critical')]


@pytest.fixture(scope='module')
def run_page(tmp_path_factory, browser):
    folder = tmp_path_factory.mktemp('runs') / 'friday'
    made, _ = made_up_run(rows=120)
    store = Store(folder)
    store.record_scores(made.cards, made.rows)
    store.close()
    with serve_page(folder) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')

        def show(address='#runs'):
            browser.go(f'http://127.0.0.1:{port}/{address}')
            browser.wait_for('return document.querySelectorAll(".rows .item, .compare table").length > 0')

        yield show


def test_a_run_shows_scores_and_rows_and_opens_one(browser, run_page):
    run_page()
    browser.wait_for('return Boolean(document.querySelector(".outcome"))')
    assert 'sums' in browser.texts('table.scores')[0]
    browser.press('j')
    browser.wait_for('return location.hash.includes("at=")')
    assert browser.complaints() == []


def test_rows_load_on_as_the_list_is_scrolled(browser, run_page):
    run_page()
    height = 'document.querySelector(".rows .list").scrollHeight'
    before = browser.run(f'return {height}')
    browser.run('const list = document.querySelector(".rows .list"); list.scrollTop = list.scrollHeight')
    browser.wait_for(f'return {height} > {before}')
    assert len(browser.texts('.rows .item')) < 60


def test_a_score_leads_to_its_rows(browser, run_page):
    run_page()
    browser.click('table.scores button')
    browser.wait_for('return new URLSearchParams(location.hash.split("?")[1]).get("model") !== null')
    browser.wait_for(
        'return [...document.querySelectorAll(".rows .item")].every((one) => one.textContent.includes(new URLSearchParams(location.hash.split("?")[1]).get("model")))'
    )


def test_two_models_of_a_run_are_compared_with_changed_rows(browser, run_page):
    run_page('#runs?show=compare')
    browser.wait_for('return document.querySelectorAll(".compare table tbody tr").length === 1')
    browser.wait_for('return document.querySelectorAll(".compare .two .side-row").length === 2')


@pytest.mark.parametrize('address', ['#runs', '#runs?show=compare'])
def test_axe_finds_nothing_serious_in_a_run(browser, run_page, axe, address):
    run_page(address)
    assert serious_findings(browser, axe) == []


def type_into(browser, selector, text):
    browser.run(
        f'const node = document.querySelector({json.dumps(selector)}); node.focus(); node.value = {json.dumps(text)};'
        'node.selectionStart = node.selectionEnd = node.value.length; node.dispatchEvent(new Event("input", {bubbles: true}))'
    )


def test_the_prompt_follows_as_you_type(browser, page):
    page('#edit')
    browser.wait_for(
        'return document.querySelectorAll(".edit textarea").length > 0 && Boolean(document.querySelector(".prompt"))'
    )
    type_into(browser, '.edit textarea', '</E>Please add: {q}')
    browser.wait_for('return document.querySelector(".prompt").innerText.includes("Please add: 0+0=?")')
    browser.run('[...document.querySelectorAll("button")].find((one) => one.innerText === "Undo").click()')
    browser.wait_for('return !document.querySelector(".prompt").innerText.includes("Please")')


def test_columns_are_offered_after_a_brace(browser, page):
    page('#edit')
    browser.wait_for('return document.querySelectorAll(".edit textarea").length > 0')
    type_into(browser, '.edit textarea', '</E>{')
    browser.wait_for('return document.querySelectorAll(".offer:not([hidden]) li").length === 2')
    browser.press('\ue007')
    browser.wait_for('return document.querySelector(".edit textarea").value === "</E>{q}"')


def test_an_edit_that_breaks_the_config_says_why(browser, page):
    page('#edit')
    browser.wait_for('return document.querySelectorAll(".edit textarea").length > 0')
    type_into(browser, '.edit textarea', 'no place for examples')
    browser.wait_for('return document.querySelector(".problem")?.innerText.includes("ice_token")')


def test_axe_finds_nothing_serious_in_the_editor(browser, page, axe):
    page('#edit')
    browser.wait_for('return Boolean(document.querySelector(".prompt"))')
    assert serious_findings(browser, axe) == []


def test_a_prompt_is_tried_with_the_embedded_model(browser, tmp_path):
    """The reply streams in; the embedded model needs its weights on this machine."""
    from rolecall.models.pull import kept_path

    if kept_path('smollm2') is None:
        pytest.skip('the embedded model is not on this machine (rolecall models pull smollm2)')
    path = tmp_path / 'embedded.py'
    path.write_text(
        "models = [dict(abbr='smollm2', type='LlamaCpp', path='smollm2', chat_template=True, max_out_len=16)]\n"
        "datasets = [dict(abbr='one', type='Rows', test=[dict(q='Say hello.', a='')], reader_cfg=dict(input_columns=['q'], output_column='a'),"
        " infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=dict(round=[dict(role='HUMAN', prompt='{q}')])), inferencer=dict(type='GenInferencer', max_out_len=16)))]\n"
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.wait_for('return Boolean(document.querySelector(".try button"))')
        browser.click('.try button')
        for _ in range(60):
            if browser.run('return document.querySelector(".try").innerText.includes("outcome")'):
                break
            time.sleep(1)
        assert browser.texts('.try .known')[0].split()[:2] == ['outcome', 'ok']
        assert browser.texts('.try .say')[0].strip()


def test_a_row_is_labelled_by_a_person(browser, run_page):
    run_page('#runs?model=chatml')
    browser.wait_for('return document.querySelectorAll(".label button").length === 2')
    browser.click('.label button')
    browser.wait_for('return document.querySelector(".label button").getAttribute("aria-pressed") === "true"')


def test_a_picture_of_a_request_is_shown(browser, tmp_path):
    (tmp_path / 'cat.png').write_bytes(PNG)
    path = tmp_path / 'mm.py'
    path.write_text(
        "models = [dict(abbr='gpt', type='OpenAI', path='gpt')]\n"
        "datasets = [dict(abbr='mm', type='Rows', test=[dict(image='cat.png', q='What?', a='')], reader_cfg=dict(input_columns=['image', 'q'], output_column='a'),"
        " infer_cfg=dict(prompt_template=dict(type='MMPromptTemplate', template=dict(round=[dict(role='HUMAN', prompt_mm={'image': {'type': 'image_url', 'image_url': {'url': 'file://{image}'}}, 'text': '{q}'})])), inferencer=dict(type='GenInferencer', max_out_len=9)))]\n"
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.wait_for('return document.querySelector(".media img")?.naturalWidth === 1')


def test_the_page_can_be_used_without_a_mouse(browser, page):
    page()
    browser.wait_for('return document.querySelectorAll(".prompt span[role=button]").length > 0')
    reached = []
    for _ in range(60):
        browser.press('\ue004')
        reached.append(
            browser.run('const one = document.activeElement; return one.getAttribute("role") || one.tagName')
        )
        if reached[-1] == 'button':
            break
    assert {'A', 'SELECT', 'INPUT', 'listbox', 'tab', 'button'} <= set(reached)
    browser.press('\ue007')
    browser.wait_for('return document.querySelector(".inspector dl")?.innerText.includes("origin")')
    for view, key in (('edit', '2'), ('compare', '3'), ('lint', '4'), ('explore', '1')):
        browser.run('document.activeElement.blur()')
        browser.press(key)
        browser.wait_for(f'return location.hash.startsWith("#{view}")')
