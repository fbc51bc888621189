"""The report in a real browser: it renders from a file, filters, answers to keys, and runs nothing that data says."""

import json

import pytest

from browser import needs_browser, open_browser
from report_runs import HOSTILE, made_up_run, run_with
from rolecall.ui.report import report_html

pytestmark = [pytest.mark.heavy, needs_browser]


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp('profile')) as one:
        yield one


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    run, previews = made_up_run(rows=120)
    file = tmp_path_factory.mktemp('report') / 'report.html'
    file.write_text(report_html(run, previews=previews), 'utf-8')
    return file.as_uri()


def test_the_page_draws_scores_and_rows_without_complaint(browser, page):
    browser.go(page)
    assert browser.texts('#browser .count') == ['240 rows']
    assert len(browser.texts('.item')) == 50
    assert browser.run('return document.querySelectorAll("svg.scores polygon, svg.scores circle").length') == 2
    assert 'sums × chatml · row 0' in browser.texts('.detail h3')[0]
    assert 'field of the row' in browser.texts('.origins')[0]
    assert browser.complaints() == []


def test_an_entry_of_the_list_starts_with_a_whole_word(browser, tmp_path):
    run = run_with()
    run.requests = dict.fromkeys(run.requests, 'alphabet ' * 100)
    (tmp_path / 'report.html').write_text(report_html(run), 'utf-8')
    browser.go((tmp_path / 'report.html').as_uri())
    assert browser.texts('.item p')[0].startswith('… alphabet alphabet')


def test_the_characters_that_the_answer_was_read_from_are_underlined(browser, tmp_path):
    run = run_with('😀 The answer is B.', read_from=([16, 17, 'statement', 'stated'],))
    (tmp_path / 'report.html').write_text(report_html(run), 'utf-8')
    browser.go((tmp_path / 'report.html').as_uri())
    assert browser.texts('.detail u.read.stated') == ['B']


def test_filters_narrow_the_list_and_stand_in_the_address(browser, page):
    browser.go(f'{page}#model=api&verdict=wrong')
    assert browser.texts('#browser .count') == ['60 of 240 rows']
    assert all('wrong' in text and 'api' in text for text in browser.texts('.item'))
    search(browser, 'Add: 7 + 7')  # across two origins
    browser.wait_for('return document.querySelector("#browser .count").innerText === "1 of 240 rows"')
    search(browser, '77 + 77')
    browser.wait_for('return document.querySelector(".item mark")?.innerText === "77 + 77"')
    assert 'q=77' in browser.run('return location.hash')


def search(browser, words):
    box = 'document.querySelector("[name=q]")'
    browser.run(f'{box}.value = {json.dumps(words)}; {box}.dispatchEvent(new Event("input"))')


def test_keys_step_through_the_rows(browser, page):
    browser.go(page)
    browser.press('j', 'j', 'k')
    assert 'row 1 ' in browser.texts('.detail h3')[0].replace('\n', ' ') + ' '
    browser.press('n')
    assert browser.texts('.item[aria-selected=true] .top')[0].startswith('sums · 50')
    browser.press('/')
    assert browser.run('return document.activeElement.name') == 'q'


def test_a_bar_leads_to_its_rows(browser, page):
    browser.go(page)
    browser.run(
        'document.querySelector("svg.outcomes a:has(rect.e-wrong)").dispatchEvent(new MouseEvent("click", {bubbles: true}))'
    )
    browser.wait_for('return document.querySelector("[name=verdict]").value === "wrong"')
    assert browser.texts('#browser .count') == ['60 of 240 rows']


def test_hostile_text_is_shown_and_does_nothing(browser, tmp_path):
    run = run_with(text=HOSTILE, name=HOSTILE)
    file = tmp_path / 'hostile.html'
    file.write_text(report_html(run), 'utf-8')
    browser.go(file.as_uri())
    assert browser.run('return [window.hacked, document.querySelectorAll("img, iframe, main script").length]') == [
        None,
        0,
    ]
    assert 'onerror' in browser.texts('.detail .say')[0]
    assert 'U+202E' in browser.texts('.detail .say')[0]
    assert browser.complaints() == []
