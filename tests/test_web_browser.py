"""The page in a real browser: explore, edit, compare, lint, try, keys, hostile data, and what axe says about it."""

import json
import threading
import time
import wave
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

pytest.importorskip('aiohttp')
from browser import fetch_axe, needs_browser, open_browser, serious_findings, type_into
from report_runs import HOSTILE
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
    return fetch_axe(tmp_path_factory.mktemp('axe'))


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


def test_a_prompt_is_tried_with_the_embedded_model(browser, tmp_path):
    """The reply streams in; the embedded model needs its weights on this machine."""
    from rolecall.models.pull import cached_path

    if cached_path('smollm2') is None:
        pytest.skip('the embedded model is not on this machine (rolecall model pull smollm2)')
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


# -- hostile data ------------------------------------------------------------------------------------------------------

HARMLESS = (
    'const app = document.querySelector("#app");'
    'const turns = /[\\u202a-\\u202e\\u2066-\\u2069]/.test(app.textContent) ? 1 : 0;'
    'return [window.hacked ?? null, app.querySelectorAll("img, iframe, script, style").length + turns]'
)


def test_hostile_data_is_shown_and_does_nothing(browser, tmp_path):
    """Rows, templates, names of columns, datasets and models, in every view of a config."""
    path = tmp_path / 'hostile.py'
    path.write_text(
        f'HOSTILE = NAME = {HOSTILE!r}\n'
        'speech = dict(round=[dict(role="HUMAN", prompt=HOSTILE + "{q}"), dict(role="BOT", prompt="{a}")])\n'
        'models = [dict(abbr=NAME, type="OpenAI", path="x"), dict(abbr="b", type="OpenAI", path="x")]\n'
        'datasets = [dict(abbr=NAME, type="Rows", test=[{"q": HOSTILE, "a": "x", HOSTILE: HOSTILE}],'
        ' reader_cfg=dict(input_columns=["q"], output_column="a"),'
        ' infer_cfg=dict(prompt_template=dict(type="PromptTemplate", template=speech), inferencer=dict(type="GenInferencer")))]\n'
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.complaints()
        for address, shown in (
            ('#explore', '.prompt'),
            ('#explore?as=json', '.raw .say'),
            ('#explore?as=tokens', '.main .note'),
            (f'#explore?q={quote("<img")}', '.prompt mark'),
            ('#edit', '.edit textarea'),
            ('#edit?as=changes', '.prompt, .pair, .main .note'),
            ('#compare', '.pair'),
            ('#lint', '.finding'),
        ):
            browser.go(f'http://127.0.0.1:{port}/{address}')
            browser.wait_for(f'return Boolean(document.querySelector({json.dumps(shown)}))')
            assert browser.run(HARMLESS) == [None, 0], address
            assert browser.complaints() == [], address
        browser.go(f'http://127.0.0.1:{port}/#explore')
        browser.wait_for('return Boolean(document.querySelector(".prompt"))')
        assert 'onerror' in browser.texts('.prompt')[0]
        assert 'U+202E' in browser.texts('.prompt')[0]


def test_another_site_learns_nothing_from_the_page(browser, page):
    """A site on another port of loopback asks with the reader's cookies: every answer is refused or unreadable."""
    page()
    origin = browser.run('return location.origin')

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'<!doctype html><title>elsewhere</title>')

        def log_message(self, *_):
            pass

    site = ThreadingHTTPServer(('127.0.0.1', 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        browser.go(f'http://127.0.0.1:{site.server_address[1]}/')
        script = """
            const done = arguments[arguments.length - 1];
            const tries = [['session', {credentials: 'include'}], ['session', {credentials: 'include', mode: 'no-cors'}],
              ['edit', {method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}'}]];
            Promise.all(tries.map(([path, options]) => fetch(`ORIGIN/api/${path}`, options).then((answer) => answer.type + answer.status, () => 'refused'))).then(done);
        """.replace('ORIGIN', origin)
        assert browser.tell('/execute/async', {'script': script, 'args': []}) == ['refused', 'refused', 'refused']
    finally:
        site.shutdown()
        site.server_close()
        browser.complaints()


def test_a_prompt_of_a_million_characters_is_edited_and_compared(browser, tmp_path):
    path = tmp_path / 'long.py'
    path.write_text(
        CONFIG.replace(
            "test=[dict(q=f'{n}+{n}=?', a=str(2 * n)) for n in range(250)]", "test=[dict(q='word ' * 200_000, a='x')]"
        )
    )
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        for address, shown in (('#edit', '.prompt .more'), ('#compare', '.pair .cell')):
            browser.go(f'http://127.0.0.1:{port}/{address}')
            browser.wait_for(f'return Boolean(document.querySelector({json.dumps(shown)}))')


# -- axe, languages, widths --------------------------------------------------------------------------------------------

VIEWS = ['#explore', '#explore?as=json', '#explore?fold=1&blanks=1', '#edit', '#edit?as=changes', '#compare', '#lint']


@pytest.mark.parametrize('address', VIEWS)
@pytest.mark.parametrize('look', ['wide', 'narrow and dark'])
def test_axe_finds_nothing_serious(browser, page, axe, address, look):
    with browser.looking(width=390 if look != 'wide' else 1600, dark=look != 'wide'):
        page(address)
        browser.wait_for('return !document.querySelector("main .loading")')
        assert serious_findings(browser, axe) == []
        assert browser.run('return document.documentElement.scrollWidth - document.documentElement.clientWidth') == 0


OWN_WORDS = """
    const data = '.say, bdi, code, kbd, option, textarea, input, .known dd, .finding, .option > span, .editor label, .item, h1, .name, .problem, .why-not, [lang=en], .inspector h4, .note.missing';
    const walker = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      if (/[a-z]{3,}/i.test(node.data) && !node.parentElement.closest(data)) found.push(node.data.trim());
    return [...new Set(found)];
"""
ALLOWED = {'JSON', 'Token', 'token', 'sums', '(q)'}


@pytest.mark.parametrize('address', [*VIEWS, '#explore?as=tokens'])
def test_in_chinese_no_english_word_is_left(browser, page, address):
    page(f'?lang=zh{address}')
    browser.wait_for('return !document.querySelector("main .loading")')
    left = [words for words in browser.run(OWN_WORDS) if words not in ALLOWED]
    assert left == [], left
    assert browser.run('return document.documentElement.lang') == 'zh'


def test_the_language_is_switched_and_kept(browser, page):
    page('?lang=en#lint')
    browser.run('[...document.querySelectorAll("header button")].find((one) => one.innerText === "中文").click()')
    browser.wait_for('return document.documentElement.lang === "zh" && location.hash === "#lint"')
    page('#explore')
    assert '浏览' in browser.texts('header nav')[0]
    page('?lang=en')
    browser.run('localStorage.clear()')


# -- editing -----------------------------------------------------------------------------------------------------------

SPEECHES = CONFIG.replace(
    "template='</E>Add: {q}'",
    "template=dict(begin=['</E>'], round=[dict(role='HUMAN', prompt='{q}'), dict(role='HUMAN', prompt='Add.'), dict(role='BOT', prompt='')])",
)


@pytest.fixture
def editor(browser, tmp_path):
    """Opens the editor on a dialogue."""
    path = tmp_path / 'talk.py'
    path.write_text(SPEECHES)
    with serve_page(path) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}#edit')
        browser.wait_for('return Boolean(document.querySelector(".edit .prompt"))')
        yield path


def click_button(browser, text, within='document'):
    browser.run(
        f'[...{within}.querySelectorAll("button")].find((one) => one.innerText.trim() === {json.dumps(text)}).click()'
    )


def prompt_says(browser, text):
    browser.wait_for(f'return document.querySelector(".prompt").innerText.includes({json.dumps(text)})')


def test_roles_are_offered_and_changed(browser, editor):
    offered = browser.run(
        'return [...document.querySelectorAll(".role-field datalist")][0].querySelectorAll("option").length'
    )
    assert offered == 3
    type_into(browser, '.role-field input', 'SYSTEM')
    prompt_says(browser, '<|im_start|>system')
    click_button(browser, 'Undo')
    browser.wait_for('return !document.querySelector(".prompt").innerText.includes("system")')
    click_button(browser, 'Redo')
    prompt_says(browser, '<|im_start|>system')


def test_a_part_is_edited_as_source_with_roles_offered(browser, editor):
    click_button(browser, 'Source')
    browser.wait_for('return document.querySelector(".edit textarea").value.startsWith("dict(")')
    source = browser.run('return document.querySelector(".edit textarea").value')
    type_into(browser, '.edit textarea', source.replace("role='HUMAN'", "role='SY"), at="role='SY")
    browser.wait_for('return document.querySelectorAll(".offer:not([hidden]) li").length === 1')
    assert browser.texts('.offer:not([hidden]) li') == ['SYSTEM']
    type_into(browser, '.edit textarea', source.replace("prompt='{q}'", "prompt='Please: {q}'"))
    prompt_says(browser, 'Please: 0+0=?')


def test_a_meta_template_given_by_name_is_exchanged_and_edited(browser, editor):
    group = '[...document.querySelectorAll(".fields fieldset")].at(-1)'
    assert browser.run(f'return {group}.querySelector("select").value') == 'chatml'
    browser.run(
        f'const one = {group}.querySelector("select"); one.value = "llama2"; one.dispatchEvent(new Event("change"))'
    )
    prompt_says(browser, '[INST]')
    browser.wait_for(f'return {group}.querySelector("textarea").value.includes("[INST]")')


def test_examples_are_chosen_from_the_training_rows(browser, editor):
    browser.wait_for('return document.querySelectorAll(".training .item").length === 1')
    prompt_says(browser, '0+1=?')
    browser.click('.training .item')
    browser.wait_for('return !document.querySelector(".prompt").innerText.includes("0+1=?")')


def test_an_edit_is_shown_beside_the_original_and_saved_as_a_new_file(browser, editor):
    type_into(browser, '.edit .speech:last-of-type textarea, .edit textarea', '</E>')
    type_into(browser, '#field--dataset-infer_cfg-prompt_template-template-round-0-prompt-', 'Now {q}')
    prompt_says(browser, 'Now 0+0=?')
    click_button(browser, 'Changes')
    browser.wait_for('return document.querySelectorAll(".pair mark").length > 0')
    assert browser.texts('.pair h3') == ['Before', 'After']
    click_button(browser, 'Show as config')
    browser.wait_for('return document.querySelector(".source pre")?.innerText.includes("Now {q}")')
    click_button(browser, 'Save')
    browser.wait_for('return document.querySelector(".source").innerText.includes("talk_edited.py")')
    assert 'Now {q}' in (editor.parent / 'talk_edited.py').read_text()
    click_button(browser, 'Save')
    browser.wait_for('return document.querySelector(".source .problem")?.innerText.includes("exists")')


# -- comparing harnesses -----------------------------------------------------------------------------------------------


def test_two_harnesses_versions_of_one_benchmark_are_compared(browser, tmp_path):
    (tmp_path / 'rows.jsonl').write_text(json.dumps({'q': '1+1=?', 'a': '2'}) + '\n')
    (tmp_path / 'ours.py').write_text(
        CONFIG.replace("test=[dict(q=f'{n}+{n}=?', a=str(2 * n)) for n in range(250)]", "test=[dict(q='1+1=?', a='2')]")
    )
    (tmp_path / 'task.yaml').write_text(
        'task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: rows.jsonl\ntest_split: test\n'
        'output_type: generate_until\ndoc_to_text: "Question: {{q}}\\nAnswer:"\ndoc_to_target: "{{a}}"\n'
    )
    with serve_page(tmp_path / 'ours.py', tmp_path / 'task.yaml') as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}#compare')
        browser.wait_for('return document.querySelectorAll(".pair .cell").length > 0')
        text = browser.texts('.pair')[0]
    assert 'Add: 1+1=?' in text.replace('\n', '')
    assert 'Question: ' in text


# -- media, trying, links ----------------------------------------------------------------------------------------------

MEDIA = """
models = [dict(abbr='gpt', type='OpenAI', path='gpt')]
def part(kind, key):
    return dict(abbr=kind, type='Rows', test=[dict(medium=FILES[kind], q='What?', a='')], reader_cfg=dict(input_columns=['medium', 'q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='MMPromptTemplate', template=dict(round=[dict(role='HUMAN',
            prompt_mm={kind: {'type': key, key: {'url': 'file://{medium}'}}, 'text': '{q}'})])), inferencer=dict(type='GenInferencer', max_out_len=9)))
FILES = dict(image='cat.png', audio='beep.wav', video='film.webm')
datasets = [part('image', 'image_url'), part('audio', 'audio_url'), part('video', 'video_url')]
"""
RECORD = """
    const done = arguments[arguments.length - 1];
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 16;
    const context = canvas.getContext('2d');
    const recorder = new MediaRecorder(canvas.captureStream(20), { mimeType: 'video/webm' });
    const parts = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    recorder.onstop = async () => done([...new Uint8Array(await new Blob(parts).arrayBuffer())]);
    recorder.start();
    let frame = 0;
    const timer = setInterval(() => { context.fillStyle = frame % 2 ? 'red' : 'blue'; context.fillRect(0, 0, 16, 16); if (++frame > 10) { clearInterval(timer); recorder.stop(); } }, 50);
"""


def test_pictures_sound_and_film_of_a_request_are_shown(browser, tmp_path):
    """The picture is a pixel, the sound is written here, the film is recorded by the browser itself."""
    (tmp_path / 'cat.png').write_bytes(PNG)
    with wave.open(str(tmp_path / 'beep.wav'), 'wb') as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(8000))
    browser.go('about:blank')
    (tmp_path / 'film.webm').write_bytes(bytes(browser.tell('/execute/async', {'script': RECORD, 'args': []})))
    (tmp_path / 'mm.py').write_text(MEDIA)
    with serve_page(tmp_path / 'mm.py') as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.complaints()
        browser.wait_for('return document.querySelector(".media img")?.naturalWidth === 1')
        browser.go(f'http://127.0.0.1:{port}/#explore?dataset=audio')
        browser.wait_for('return document.querySelector(".media audio")?.duration === 0.5')
        browser.go(f'http://127.0.0.1:{port}/#explore?dataset=video')
        browser.wait_for('return document.querySelector(".media video")?.videoWidth === 16')
        assert browser.complaints() == []


WEIGHED = """
from rolecall.models.protocol import Capabilities, Reply, Scored
class Weigher:
    name, batch, max_seq_len, identity, capabilities = 'w', 1, None, {}, Capabilities(score=True)
    def __init__(self, **options): pass
    def count(self, request): return len(request)
    async def generate(self, requests, sampling): return [Reply(' yes') for _ in requests]
    async def score(self, requests):
        return [Scored(tuple(range(len(one))), (None, *(-0.5 * (at % 9) for at in range(1, len(one)))), tuple((at, at + 1) for at in range(len(one)))) for one in requests]
    async def close(self): pass
models = [dict(abbr='w', type=Weigher)]
def part(abbr, template, inferencer):
    return dict(abbr=abbr, type='Rows', test=[dict(q='Is it <b>so</b>?', a='A')], reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=template), inferencer=dict(type=inferencer)))
datasets = [part('gen', '{q}', 'GenInferencer'), part('ppl', dict(A='{q} yes', B='{q} no'), 'PPLInferencer')]
"""


@pytest.mark.parametrize(('dataset', 'letters'), [('ppl', 'Is it <b>so</b>? yes'), ('gen', ' yes')])
def test_log_probabilities_are_shown_where_there_are_any(browser, tmp_path, dataset, letters):
    (tmp_path / 'weighed.py').write_text(WEIGHED)
    with serve_page(tmp_path / 'weighed.py') as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}#explore?dataset={dataset}')
        browser.wait_for('return Boolean(document.querySelector(".try button"))')
        browser.click('.try button')
        browser.wait_for('return document.querySelectorAll(".logprobs span").length > 0')
        assert (
            browser.run('return document.querySelector(".logprobs").textContent.replaceAll("\\n", "")').strip()
            == letters.strip()
        )
        assert browser.run('return [...document.querySelectorAll(".logprobs span")].at(-1).title').startswith('-')


def test_a_link_leads_to_the_same_row_and_model(browser, page):
    page('#explore?row=7&model=gpt&as=json')
    link = browser.run('return location.href')
    page('#lint')
    browser.go(link)
    browser.wait_for('return document.querySelector("main .title")?.innerText === "sums × gpt · row 7 · gen"')
    browser.wait_for('return Boolean(document.querySelector(".raw"))')


@pytest.mark.parametrize('address', ['#explore?row=third', '#edit?row=1e9', '#compare?right_row=third'])
def test_a_row_number_in_a_link_that_is_not_a_number_is_named(browser, page, address):
    page(address)
    browser.wait_for('return Boolean(document.querySelector("main .problem"))')
    said = browser.run('return document.querySelector("main .problem").innerText')
    assert said.strip() == f"The link's row number is not a whole number: {address.rpartition('=')[2]}"
    browser.click('main > button')
    browser.wait_for('return Boolean(document.querySelector("main h2")) && !document.querySelector("main .problem")')


def test_the_mouse_over_a_part_explains_it(browser, page):
    page('#explore?row=3')
    browser.wait_for('return document.querySelectorAll(".prompt span[role=button]").length > 0')
    browser.run(
        'document.querySelectorAll(".prompt .say span[role=button]").forEach((one) => { if (one.innerText === "3+3=?") one.dispatchEvent(new MouseEvent("mouseenter")) })'
    )
    browser.wait_for('return document.querySelector(".why").innerText.includes("sums.py:")')


def test_a_server_that_is_gone_is_told(browser, tmp_path):
    (tmp_path / 'gone.py').write_text(CONFIG)
    with serve_page(tmp_path / 'gone.py') as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.wait_for('return Boolean(document.querySelector(".prompt"))')
    browser.press('j')
    browser.wait_for('return document.querySelector(".problem")?.innerText.includes("does not answer")')
    browser.complaints()
