"""Runs in a real browser: the list, filters, rows of any number, comparisons, live runs, rows asked again, labels."""

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from urllib.parse import quote

import pytest

pytest.importorskip('aiohttp')
from browser import fetch_axe, needs_browser, open_browser, serious_findings, type_into
from report_runs import HOSTILE, made_up_run, run_with
from rolecall.insight.kept_counts import Hit, HitCount, keep_counts
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from test_web_browser import HARMLESS, OWN_WORDS
from test_web_runs import ASKED, make_runs_to_align, store_a_million_rows
from web_pages import serve_page

pytestmark = [pytest.mark.heavy, needs_browser]


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp('profile')) as one:
        yield one


@pytest.fixture(scope='module')
def axe(tmp_path_factory):
    return fetch_axe(tmp_path_factory.mktemp('axe'))


@contextlib.contextmanager
def opened(browser, *paths):
    """A page of these paths, and a function that opens an address of it."""
    with serve_page(*paths) as (port, rules):
        browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
        browser.complaints()

        def show(address, *selectors):
            browser.go(f'http://127.0.0.1:{port}/{address}')
            for selector in selectors:
                browser.wait_for(f'return Boolean(document.querySelector({json.dumps(selector)}))')

        yield show


def choose(browser, label, value):
    """Choose from the field with a label."""
    browser.run(
        f'const one = [...document.querySelectorAll("label")].find((one) => one.querySelector("span")?.innerText === {json.dumps(label)}).querySelector("select, input");'
        f'one.value = {json.dumps(value)}; one.dispatchEvent(new Event("change", {{bubbles: true}}))'
    )


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


def test_rows_of_another_harness_stand_beside_ours_by_content(browser, tmp_path):
    address = '#runs?show=compare&run=0&left_run=0&right_run=1&left_model=qwen'
    with opened(browser, *make_runs_to_align(tmp_path)) as show:
        show(address, '.compare .two .side-row')
        browser.wait_for('return document.querySelectorAll(".rows .item").length === 2')
        places = [text.splitlines()[0] for text in browser.texts('.rows .item')]
        assert places == ['sums · 1 ↔ ours · 1', 'sums · 0 ↔ ours · 2']
        for place in (0, 1):
            browser.run(f'document.querySelectorAll(".rows .item")[{place}].click()')
            question = ('2+2', '1+1')[place]
            browser.wait_for(
                'const sides = [...document.querySelectorAll(".compare .side-row details")].map((one) => one.textContent);'
                f'return sides.length === 2 && sides.every((text) => text.includes("{question}"))'
            )
        assert 'made by OpenCompass' in browser.run('return document.querySelector(".compare > details").textContent')
        assert not browser.complaints()


def test_two_models_of_a_run_are_compared_with_changed_rows(browser, run_page):
    run_page('#runs?show=compare')
    browser.wait_for('return document.querySelectorAll(".compare table tbody tr").length === 1')
    browser.wait_for('return document.querySelectorAll(".compare .two .side-row").length === 2')


def test_a_row_is_labelled_by_a_person(browser, run_page):
    run_page('#runs?model=chatml')
    browser.wait_for('return document.querySelectorAll(".label button").length === 2')
    browser.click('.label button')
    browser.wait_for('return document.querySelector(".label button").getAttribute("aria-pressed") === "true"')
    browser.wait_for('return document.querySelector(".runs .heading").innerText.includes("1 labelled")')


def test_the_queue_is_worked_through_by_keyboard_and_undone(browser, run_page):
    run_page('#runs')
    browser.run('location.hash = "#runs?show=label"')
    browser.wait_for('return document.querySelector(".queue h2.title")')
    first = browser.run('return document.querySelector(".queue h2.title").innerText')
    is_first = f'document.querySelector(".queue h2.title")?.innerText === {json.dumps(first)}'
    browser.press('y')
    browser.wait_for(f'return document.querySelector(".queue h2.title") && !({is_first})')
    browser.wait_for('return document.querySelector(".queue .inspector")?.innerText.includes("labelled row")')
    assert 'Gold' in browser.run('return document.querySelector(".queue").innerText')
    assert not browser.run('return document.querySelector(".queue .badge")')  # the verdict would sway a person
    browser.press('u')
    browser.wait_for(f'return {is_first}')
    assert not browser.complaints()


def test_quick_keys_decide_one_row_after_another(browser, run_page):
    run_page('#runs')
    browser.run('location.hash = "#runs?show=label"')
    browser.wait_for('return document.querySelector(".queue [role=status]")')
    decided = browser.run('return parseInt(document.querySelector(".queue [role=status]").innerText)')
    browser.run(
        'const real = window.fetch; window.fetch = async (...sent) => { const reply = await real(...sent);'
        'if (String(sent[0]).includes("queue")) await new Promise((done) => setTimeout(done, 1000)); return reply; }'
    )
    title = 'return document.querySelector(".queue h2.title")?.innerText'
    first = browser.run(title)
    browser.press('y')
    browser.wait_for(f'{title} !== {json.dumps(first)}')
    browser.press('n')  # long before the next queue has come
    browser.wait_for(f'return document.querySelector(".queue [role=status]").innerText.startsWith("{decided + 2} ")')
    assert not browser.complaints()


# -- several runs ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def two_runs(tmp_path_factory):
    """Two runs that differ in some rows; rows of every outcome, one of them cut."""
    folder = tmp_path_factory.mktemp('two')
    for name, wrong in (('first', (3, 4)), ('second', (4, 5))):
        rows = [
            Result(
                'd',
                model,
                row,
                'ok',
                replies=(f'says {row}',),
                extracted=str(row),
                gold=str(row),
                correct=row not in wrong,
                score=float(row not in wrong),
                details={'ended': ['length' if row == 7 else 'stop']},
            )
            for model in ('a', 'b')
            for row in range(9)
        ]
        rows += [Result('d', 'a', 9, 'failed', 'the line is broken'), Result('d', 'a', 10, 'too_long', 'too long')]
        cards = [
            Scorecard('d', model, 'accuracy', 80.0 + len(name), 60.0, 90.0, 9, 9, {'ok': 9}) for model in ('a', 'b')
        ]
        store = Store(folder / name)
        store.record_scores(cards, rows)
        store.close()
    return folder


def test_runs_are_listed_newest_first(browser, two_runs, tmp_path):
    shutil.copytree(two_runs, tmp_path / 'runs')
    for name, day in (('first', '2026-11-01'), ('second', '2026-11-02')):
        with contextlib.closing(sqlite3.connect(tmp_path / 'runs' / name / FILE)) as database, database:
            database.execute('INSERT INTO starts VALUES (1, ?, ?, ?)', (f'{day}T12:00:00+00:00', '{}', ''))
    with opened(browser, tmp_path / 'runs') as show:
        show('#runs', '.run-list table')
        assert [text.split()[0] for text in browser.texts('.run-list tbody th a')] == ['second', 'first']


def test_runs_are_listed_with_scores_sorted_and_compared(browser, two_runs):
    with opened(browser, two_runs) as show:
        show('#runs', '.run-list table')
        assert [text.split()[0] for text in browser.texts('.run-list tbody th a')] == ['first', 'second']
        assert '85.0' in browser.texts('.run-list tbody')[0]
        type_into(browser, '#search', 'SEC b')
        browser.wait_for('return document.querySelectorAll(".run-list tbody th a").length === 1')
        assert browser.texts('.run-list h2') == ['1 / 2 runs']
        type_into(browser, '#search', '')
        browser.wait_for('return document.querySelectorAll(".run-list tbody th a").length === 2')
        browser.click('.run-list thead th button')
        browser.wait_for('return document.querySelector(".run-list tbody a").innerText === "second"')
        browser.run(
            'document.querySelectorAll(".run-list input[type=checkbox]").forEach((one) => one.checked || one.click())'
        )
        browser.wait_for('return !document.querySelector(".run-list .heading button").disabled')
        browser.click('.run-list .heading button')
        browser.wait_for('return document.querySelectorAll(".differences tbody tr").length === 2')
        browser.wait_for('return document.querySelector(".rows .count")?.innerText === "4 changed rows first"')
        browser.wait_for('return document.querySelectorAll(".two .side-row").length === 2')
        flips = [text.replace('\n', ' ') for text in browser.texts('.rows .item')][:5]
        assert all('correct' in text and 'wrong' in text for text in flips[:4])
        assert not ('correct' in flips[4] and 'wrong' in flips[4])
        assert sorted(text.split()[0] for text in browser.texts('.two h3')) == ['first:', 'second:']
        browser.run('document.querySelector(".compare details:has(summary)").open = true')
        browser.wait_for('return document.querySelectorAll(".waterfall").length === 2')
        assert any('points' in text for text in browser.texts('.waterfall p'))
        assert browser.run('return document.querySelector(".waterfall td div").getBoundingClientRect().width') > 2


@pytest.mark.parametrize(
    ('label', 'value', 'count'),
    [
        ('Outcome', 'failed', 1),
        ('Outcome', 'too_long', 1),
        ('Verdict', 'wrong', 4),
        ('Verdict', 'not scored', 2),
        ('Verdict', 'cut', 2),
        ('Model', 'b', 9),
        ('Flipped against', '1:', 4),
        ('From row', '8', 4),
    ],
)
def test_rows_are_filtered(browser, two_runs, label, value, count):
    with opened(browser, two_runs) as show:
        show('#runs?run=0', '.rows .item')
        choose(browser, label, value)
        browser.wait_for(f'return document.querySelectorAll(".rows .item").length === {count}')
        browser.click('.filter-box .clear')
        browser.wait_for('return document.querySelectorAll(".rows .item").length > 10')


def test_rows_are_found_by_their_text(browser, two_runs):
    with opened(browser, two_runs) as show:
        show('#runs?run=0', '.rows .item')
        type_into(browser, '#search', 'the line is BROKEN')
        browser.wait_for('return document.querySelectorAll(".rows .item").length === 1')
        type_into(browser, '#search', 'nowhere to be found')
        browser.wait_for('return document.querySelector(".rows .list").innerText.includes("No matching rows.")')


def test_a_link_leads_to_a_row_of_a_run(browser, two_runs):
    at = quote(json.dumps(['d', 'b', 7]))
    with opened(browser, two_runs) as show:
        show(f'#runs?run=1&at={at}', '.outcome')
        assert browser.texts('.title') == ['d × b · row 7']


@pytest.mark.parametrize(
    'address',
    ['#runs', '#runs?run=0', '#runs?run=0&outcome=failed', '#runs?run=0&show=compare', '#runs?run=0&show=label'],
)
@pytest.mark.parametrize('look', ['wide', 'narrow and dark'])
def test_axe_finds_nothing_serious_in_runs(browser, two_runs, axe, address, look):
    with opened(browser, two_runs) as show, browser.looking(width=390 if look != 'wide' else 1600, dark=look != 'wide'):
        show(address, 'main table, main .item, main .queue h2')
        browser.wait_for('return !document.querySelector("main .loading")')
        assert serious_findings(browser, axe) == []
        assert browser.run('return document.documentElement.scrollWidth - document.documentElement.clientWidth') == 0


@pytest.mark.parametrize(
    'address',
    ['#runs', '#runs?run=0', '#runs?run=0&outcome=failed', '#runs?run=0&show=compare', '#runs?run=0&show=label'],
)
def test_in_chinese_no_english_word_is_left_in_runs(browser, two_runs, address):
    with opened(browser, two_runs) as show:
        show(f'?lang=zh{address}', 'main table, main .item, main .queue h2')
        browser.wait_for('return !document.querySelector("main .loading")')
        assert browser.run(OWN_WORDS) == []
        show('?lang=en#runs')


def test_runs_can_be_used_without_a_mouse(browser, two_runs):
    with opened(browser, two_runs) as show:
        show('#runs', '.run-list a')
        browser.run('document.querySelector(".run-list a").focus()')
        browser.press('\ue007')
        browser.wait_for('return document.querySelectorAll(".rows .item").length > 0')
        browser.run('document.querySelector(".rows .list").focus()')
        for key, row in (('\ue015', 1), ('\ue015', 2), ('\ue013', 1), ('j', 2), ('k', 1)):
            browser.press(key)
            browser.wait_for(f'return document.querySelector(".title")?.innerText.includes("row {row}")')
        browser.press('/')
        assert browser.run('return document.activeElement.id') == 'search'
        browser.press('\ue00c')
        browser.press('?')
        browser.wait_for('return Boolean(document.querySelector("[role=dialog]"))')
        browser.press('\ue00c')
        browser.wait_for('return !document.querySelector("[role=dialog]")')


def test_hostile_replies_do_nothing(browser, tmp_path):
    made = run_with(HOSTILE, HOSTILE.replace('\ud800', ''), rows=3)
    for name in ('one', 'two'):
        store = Store(tmp_path / name)
        store.record_scores(made.cards, made.rows)
        store.close()
    with opened(browser, tmp_path) as show:
        for address, shown in (
            ('#runs', '.run-list table'),
            ('#runs?run=0', '.outcome .say'),
            ('#runs?run=0&outcome=failed', '.why-not'),
            (f'#runs?run=0&q={quote("<img")}', '.outcome mark'),
            ('#runs?run=0&show=compare', '.two .say'),
        ):
            show(address, shown)
            assert browser.run(HARMLESS) == [None, 0], address
            assert browser.complaints() == [], address


# -- a run in progress, and rows asked again ---------------------------------------------------------------------------

SLOW = (
    ASKED.replace(
        '    from pathlib import Path\n', '    import time\n    from pathlib import Path\n    time.sleep(0.15)\n'
    )
    .replace("rows('zero', 'one', 'two')", "rows(*(f'w{n}' for n in range(60)))")
    .replace('a=word.upper()', "a='x'")
    .replace("type='Function'", "type='Function', concurrency=1")
)


def test_a_run_in_progress_updates_by_itself(browser, tmp_path):
    (tmp_path / 'slow.py').write_text(SLOW)
    command = [
        sys.executable,
        '-m',
        'rolecall',
        'run',
        str(tmp_path / 'slow.py'),
        '--out',
        str(tmp_path / 'run'),
        '--quiet',
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / 'run' / FILE).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        with opened(browser, tmp_path / 'run') as show:
            show('#runs', '.live')
            rows = 'Number(/([0-9]+) rows? so far/.exec(document.querySelector(".live").innerText)[1])'
            first = browser.run(f'return {rows}')
            seen = browser.run('return document.querySelector(".rows .list").scrollHeight')
            for _ in range(4):
                with contextlib.suppress(pytest.fail.Exception):
                    browser.wait_for(
                        f'const live = document.querySelector(".live"); return !live || {rows} > {first} + 5'
                    )
                    break
            browser.wait_for(f'return document.querySelector(".rows .list").scrollHeight > {seen}')
            assert process.poll() is None or browser.texts('.live') == []
            process.wait(60)
            for _ in range(4):
                with contextlib.suppress(pytest.fail.Exception):
                    browser.wait_for(
                        'return !document.querySelector(".live") && document.querySelector("table.scores").innerText.includes("60/60")'
                    )
                    break
            assert '60/60' in browser.texts('table.scores')[0]
    finally:
        process.kill()
        process.wait()


def test_a_failed_row_is_asked_again_from_the_page(browser, tmp_path):
    (tmp_path / 'config.py').write_text(ASKED)
    assert main(['run', str(tmp_path / 'config.py'), '--out', str(tmp_path / 'run'), '--quiet']) == 1
    (tmp_path / 'mended').touch()
    with opened(browser, tmp_path / 'config.py', tmp_path / 'run') as show:
        show('#runs?outcome=failed', '.again')
        assert 'the line is broken' in browser.texts('.why-not')[0]
        browser.click('.again')
        browser.wait_for('return document.querySelector(".outcome .badge").innerText.includes("correct")')
        assert browser.texts('.again') == []
    with opened(browser, tmp_path / 'run') as show:
        show('#runs', '.outcome')
        assert browser.texts('.again') == []


def test_a_row_shows_what_its_judge_was_asked_and_said(browser, tmp_path):
    (tmp_path / 'config.py').write_text(ASKED)
    assert main(['run', str(tmp_path / 'config.py'), '--out', str(tmp_path / 'run'), '--quiet']) == 1
    with opened(browser, tmp_path / 'config.py', tmp_path / 'run') as show:
        show('#runs?dataset=judged', '.judged')
        browser.click('.judged summary')
        assert 'judge THREE' in browser.texts('.judged .prompt')[0]


# -- a million rows ----------------------------------------------------------------------------------------------------


def test_a_million_rows_open_and_scroll(browser, tmp_path):
    """However far the list is scrolled, only what can be seen is in the page."""
    folder = store_a_million_rows(tmp_path / 'big')
    with opened(browser, folder) as show:
        show('#runs', '.rows .item', '.outcome')
        for _ in range(5):
            height = browser.run(
                'const list = document.querySelector(".rows .list"); list.scrollTop = list.scrollHeight; return list.scrollHeight'
            )
            browser.wait_for(f'return document.querySelector(".rows .list").scrollHeight > {height}')
        assert len(browser.texts('.rows .item')) < 60
        choose(browser, 'From row', '999990')
        browser.wait_for('return document.querySelectorAll(".rows .item").length === 10')


def test_a_scan_of_replies_is_shown_and_opens_its_rows(browser, tmp_path, axe):
    made, _ = made_up_run(rows=30)
    store = Store(tmp_path / 'scanned')
    store.record_scores(made.cards, made.rows)
    store.close()
    hits = (Hit(17, 'again ⟦and again⟧'), Hit(21, HOSTILE))
    keep_counts(tmp_path / 'scanned', 'scan', [HitCount('loop', 'sums', 'api', 2, 30, hits)])
    with opened(browser, tmp_path / 'scanned') as show:
        show('#runs', 'details.table summary', '.outcome')
        browser.run(
            '[...document.querySelectorAll("details.table summary")].find((one) => one.innerText === "Replies").click()'
        )
        [line] = [text for text in browser.texts('details.table tbody tr') if text.startswith('loop')]
        assert line.split('\t')[:4] == ['loop', 'sums', 'api', '2 / 30']
        assert not serious_findings(browser, axe)
        browser.run(
            '[...document.querySelectorAll("details.table button")].find((one) => one.innerText === "17").click()'
        )
        browser.wait_for('return document.querySelector(".rows .content").innerText.includes("row 17")')
        assert not browser.complaints()
