"""Reports of runs: every number with its denominator, prompts by origin, and nothing in the data that can act."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_runs import HOSTILE, MemoryRun, made_up_run, run_with, sums_config
from rolecall.errors import RolecallError
from rolecall.models.prices import PRICES, Price, find_price, read_prices
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Members, ReplyCount, Scorecard
from rolecall.ui.report import (
    ConfigPreviews,
    StoredRun,
    plots,
    report_csv,
    report_html,
    report_markdown,
    report_terminal,
)
from rolecall.ui.report.counts import RunCounts, count_results, every_card, usage_lines
from rolecall.ui.report.packing import pack
from rolecall.ui.report.palette import DARK, ENDINGS, LIGHT, contrast, css_of_style
from rolecall.ui.report.plots import fold_endings, round_ticks
from rolecall.ui.report.ranking_summary import rank_run, word_headline
from rolecall.ui.report.score_text import grid_of, left_out
from rolecall.ui.views.looks import LOOKS
from rolecall.ui.views.terminal import make_console


class Page(HTMLParser):
    """What a browser would find in a page: tags with their attributes, and the data it carries."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.data, self.words, self._inside = [], {}, [], ''
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = dict(attributes).get('id', '') if tag == 'script' else ''

    def handle_endtag(self, tag):
        self._inside = ''

    def handle_data(self, data):
        if self._inside:
            self.data[self._inside] = json.loads(self.data.get(self._inside, '') or data)
        else:
            self.words.append(data)

    def texts(self, prompt):
        """A packed prompt as text and origins."""
        _, _, blocks = prompt
        runs = [run for _, _, block in blocks for run in block]
        origins = [self.data['about']['origins'][number] for number in runs[1::2]]
        return [self.data['texts'][number] for number in runs[::2]], origins


def on_terminal(run, width=120):
    out = io.StringIO()
    report_terminal(run, make_console(out, width=width))
    return out.getvalue()


def card(**given):
    return Scorecard('gsm8k', 'base', 'accuracy', **{'value': 50.0, **given})


@pytest.mark.parametrize(
    ('given', 'said'),
    [
        ({'scored': 10, 'total': 10, 'outcomes': {'ok': 10}}, ''),
        ({'scored': 8, 'total': 10, 'outcomes': {'failed': 1, 'ok': 8, 'unparsed': 1}}, '1 unparsed, 1 failed'),
        ({'scored': 9, 'total': 10, 'outcomes': {'ok': 10}}, '1 not scored'),
        ({'scored': 4, 'total': 10, 'outcomes': {'ok': 4}}, '6 not asked'),
        ({'scored': 4, 'total': 4}, ''),
        ({'scored': 1, 'total': 2, 'outcomes': {'ok': 1, 'eaten': 1}}, '1 eaten'),
    ],
)
def test_what_is_missing_from_a_score_is_told(given, said):
    assert left_out(card(**given)) == said


@pytest.mark.parametrize(('width', 'down'), [(120, False), (50, True)])
def test_the_terminal_shows_models_across_if_they_fit_and_down_otherwise(width, down):
    run, _ = made_up_run()
    shown = on_terminal(run, width)
    assert ('dataset × model' in shown) is down
    assert shown.count('50.0') == shown.count('[40.0, 60.0]') == shown.count('8/8 scored') == 2


def test_a_remark_on_two_extractors_of_many_models_is_made_once():
    given = {'value': 50.0, 'low': 40.0, 'high': 60.0, 'scored': 8, 'total': 10, 'outcomes': {'ok': 8, 'failed': 2}}
    cards = [Scorecard('d', model, f'accuracy ({name})', **given) for name in 'xy' for model in 'abcde']
    shown = on_terminal(MemoryRun(cards), width=80)
    assert [shown.count(f'* d × {model}: 2 failed') for model in 'abcde'] == [1] * 5


def test_reasons_are_gathered_over_pairs():
    rows = [Result('d', model, n, 'failed', 'HTTP 500\nagain') for model in 'ab' for n in range(3)]
    shown = on_terminal(MemoryRun([card()], [*rows, Result('d', 'a', 3, 'too_long', '9,000 tokens')]))
    assert re.search(r'6 +failed +HTTP 500 again +2 pairs', shown)
    assert re.search(r'1 +too long +9,000 tokens +d × a', shown)


def test_a_run_without_scores_or_rows_can_be_reported():
    empty = MemoryRun()
    assert 'no scores yet' in on_terminal(empty)
    assert report_markdown(empty)
    assert report_csv(empty).count('\n') == 1
    assert Page(report_html(empty)).data['packed'] == []


@pytest.mark.parametrize('value', [None, 0.0, -3.5, 1e9, float('inf'), float('nan')])
def test_any_value_can_be_shown(value):
    run = MemoryRun([card(value=value, low=value, high=value), Scorecard('x', 'other', 'bleu', 0.5, 0.4, 0.6)])
    for shown in (on_terminal(run), report_markdown(run), report_csv(run), report_html(run)):
        assert 'gsm8k' in shown


def test_csv_has_every_digit_and_all_counts():
    run = MemoryRun([card(value=1 / 3, low=0.1, scored=2, total=3, outcomes={'ok': 2, 'failed': 1}, rows_note='½')])
    (line,) = csv.DictReader(io.StringIO(report_csv(run)))
    assert float(line['value']) == 1 / 3
    assert (line['high'], line['scored'], line['ok'], line['failed'], line['too_long']) == ('', '2', '2', '1', '0')
    assert json.loads(line['details']) == {'rows_note': '½'}


def test_markdown_keeps_hostile_words_in_their_cells():
    lines = report_markdown(run_with(HOSTILE, HOSTILE)).splitlines()
    tables = [line for line in lines if line.startswith('|')]
    widths = {len(re.findall(r'(?<!\\)\|', line)) for line in tables}
    assert widths == {4, 5, 7}
    assert not any(re.search(r'(?<!\\)<', line) for line in lines)


def test_the_page_is_one_file_and_its_data_cannot_leave_it():
    html = report_html(run_with(HOSTILE, HOSTILE))
    html.encode('utf-8')
    page = Page(html)
    assert [tag for tag, _ in page.tags if tag in ('img', 'iframe', 'link', 'object', 'base')] == []
    addresses = [value for _, given in page.tags for name, value in given.items() if name in ('src', 'href')]
    assert all(address.startswith('#') for address in addresses)
    assert not any(name.startswith('on') or name == 'style' for _, given in page.tags for name in given)
    assert html.count('</script>') == 4
    assert html.count('<!--') == 0
    assert not re.search('[\u202a-\u202e\u2066-\u2069]', ''.join(page.words))
    assert page.data['packed'][0][6] == [HOSTILE]


def test_the_content_policy_allows_the_pages_own_script_only():
    ((_, given),) = [tag for tag in Page(report_html(MemoryRun())).tags if 'http-equiv' in tag[1]]
    assert "default-src 'none'" in given['content']
    assert re.search(r"script-src 'sha256-[\w+/=]+';", given['content'])
    assert 'unsafe' not in given['content']


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_packed_data_says_the_same_and_holds_no_markup(value):
    written = pack(value)
    assert json.loads(written) == value
    assert not set(written) & set('<>&\u2028\u2029')


def test_prompts_are_shown_by_origin_where_they_equal_what_was_sent():
    run, previews = made_up_run()
    page = Page(report_html(run, previews=previews))
    texts, origins = page.texts(page.data['packed'][0][5][0])
    assert ''.join(texts) == run.requests[run.rows[0].fingerprint]
    labels = {text: label for text, (_, label, *_) in zip(texts, origins, strict=True)}
    assert labels['0 + 0'] == 'field question'
    assert labels['100 + 1'] == 'shot 1 field question'
    assert page.data['packed'][0][5][0][1] == 0


def test_a_changed_config_shows_what_was_sent_and_says_so():
    run, _ = made_up_run()
    page = Page(report_html(run, previews=ConfigPreviews(sums_config(8, prompt='Please add: {question}'))))
    prompt = page.data['packed'][0][5][0]
    texts, origins = page.texts(prompt)
    assert ''.join(texts) == run.requests[run.rows[0].fingerprint]
    assert {label for _, label, *_ in origins} == {'as sent'}
    assert prompt[1] == 1


def test_rows_that_a_config_no_longer_has_are_shown_as_sent():
    run, _ = made_up_run(8)
    page = Page(report_html(run, previews=ConfigPreviews(sums_config(2))))
    assert [row[5][0][1] for row in page.data['packed'][:4]] == [0, 0, 2, 2]


def test_a_dataset_that_is_gone_costs_the_origins_only(tmp_path):
    run, _ = made_up_run(8)
    gone = sums_config(8)
    gone['datasets'][0] |= {'type': 'JsonlDataset', 'path': str(tmp_path / 'gone.jsonl')}
    previews = ConfigPreviews(gone)
    page = Page(report_html(run, previews=previews))
    assert {row[5][0][1] for row in page.data['packed']} == {2}
    assert set(previews.problems) == {('sums', 'chatml'), ('sums', 'api')}


def test_messages_keep_their_roles_and_further_keys():
    (row, *_) = Page(report_html(run_with('Hi'))).data['packed']
    ((_, _, ((heading, extra, _),)),) = row[5]
    assert (heading, json.loads(extra)) == ('Hi', {'name': 'Hi'})


def test_a_text_that_prompts_share_is_written_once():
    shared = 'An example that every prompt begins with. ' * 50
    run = run_with('Hi')
    run.rows = [Result('d', 'm', n, 'ok', fingerprint=str(n), fingerprints=(str(n),)) for n in range(100)]
    run.requests = {str(n): f'{shared}\n\nQuestion {n}?' for n in range(100)}
    assert report_html(run).count(shared.strip()) == 1


def test_rows_beyond_the_room_are_counted_and_said():
    run = MemoryRun([card()])
    run.rows = [Result('gsm8k', 'base', n, 'ok', correct=True, replies=(f'{n} ' * 5000,)) for n in range(100)]
    html = report_html(run, most_bytes=300_000)
    page = Page(html)
    kept = len(page.data['packed'])
    assert 0 < kept < 100
    assert f'{100 - kept} rows left out' in html
    assert '>100</span>' in html  # the bar counts them all
    assert len(html) < 500_000


@pytest.mark.parametrize(('models', 'folded'), [(7, False), (8, True)])
def test_rows_left_out_of_many_pairs_are_listed_in_a_fold(models, folded):
    run = MemoryRun([card()])
    run.rows = [Result('gsm8k', f'm{n % models}', n, 'ok', correct=True) for n in range(300 * models)]
    html = report_html(run, most_rows=100)
    [opening] = re.findall(r'<details( open)?><summary>Rows left out by dataset and model', html)
    assert (opening == '') == folded
    assert 'gsm8k × m6: ' in html


def test_further_numbers_of_a_metric_stand_beside_its_score():
    """Outcomes of programs, ROUGE-2, turns: they were in the CSV only."""
    further = {'pass@1': 50.0, 'timeout': 12.5, 'memory': 25.0, 'pass@4': 62.5}
    intervals = {'pass@4': (50.0, 75.0)}
    run = MemoryRun([Scorecard('code', 'm', 'pass@1', 50.0, unit='%', further=further, further_intervals=intervals)])
    for told in (on_terminal(run), on_terminal(run, width=60), report_markdown(run), report_html(run)):
        assert 'timeout 12.5' in told
        assert 'memory 25.0' in told
        assert 'pass@4 62.5' not in told  # it is a line of its own in a run
    many = MemoryRun([card(further={f'part{n}': float(n) for n in range(9)})])
    assert 'and 3 more in --csv' in on_terminal(many)
    assert 'part8 8.0' in report_markdown(many)


def test_a_large_run_shows_rows_from_all_over_it_and_more_of_those_that_are_wrong():
    run = MemoryRun([card()])
    run.rows = [Result('gsm8k', 'base', n, 'ok', correct=n % 50 != 7, seconds=1.0) for n in range(3000)]
    html = report_html(run, most_rows=200)
    page = Page(html)
    shown = [row[1] for row in page.data['packed']]
    wrong = [n for n in shown if n % 50 == 7]
    assert shown == sorted(shown)
    assert len(wrong) == 60
    assert 75 <= len(shown) - len(wrong) <= 100
    assert all(any(start <= n < start + 100 for n in shown) for start in range(0, 3000, 100))
    assert f'{3000 - len(shown):,} rows left out' in html
    assert '2,940 correct, 60 wrong' in html  # the bar counts them all


def test_one_large_pair_leaves_room_for_the_others():
    names = ('large', 'small', 'late')
    run = MemoryRun([Scorecard(name, 'm', 'acc', 1.0) for name in names])
    run.rows = [
        Result(name, 'm', n, 'ok', replies=(f'{n} ' * (20_000 if name == 'large' else 100),))
        for name in names
        for n in range(50)
    ]
    page = Page(report_html(run, most_bytes=1_000_000))
    pairs = [page.data['about']['pairs'][row[0]][0] for row in page.data['packed']]
    assert pairs.count('large') < 50
    assert pairs.count('small') == pairs.count('late') == 50


def test_a_very_long_text_loses_its_middle_and_says_so():
    run = run_with('x')
    run.rows = [Result('d', 'm', 0, 'ok', replies=('a' * 100_000,))]
    ((reply,),) = [row[6] for row in Page(report_html(run)).data['packed']]
    assert len(reply) < 31_000
    assert '70,000 characters left out' in reply


@pytest.mark.parametrize('paper', [LIGHT, DARK])
@pytest.mark.parametrize('style', [look.style for look in LOOKS.values()])
def test_every_look_of_the_viewer_can_be_read_on_the_page(paper, style):
    css = dict(rule.split(':') for rule in css_of_style(style, paper).split(';') if rule)
    if 'color' in css:
        assert contrast(css['color'], css['background']) >= 4.5
    assert ('font-weight' in css) is ('bold' in style)
    assert (css.get('text-decoration') == 'underline') is ('underline' in style)


def test_every_ending_has_a_hue():
    assert set(plots.ENDINGS) == set(ENDINGS)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_an_axis_covers_its_numbers_with_few_round_ticks(low, span):
    at = round_ticks(low, low + span)
    slack = 1e-6 * (1 + abs(low) + span)
    assert at[0] <= low + slack
    assert at[-1] >= low + span - slack
    assert at == sorted(set(at))
    assert 2 <= len(at) <= 12


def test_a_run_directory_is_reported(tmp_path):
    run, previews = made_up_run()
    store = Store(tmp_path / 'my run')
    store.record_scores(run.cards, run.rows)
    store.close()
    with RunReader(tmp_path / 'my run') as archive:
        stored = StoredRun(archive)
        assert stored.title == 'my run'
        assert report_csv(stored) == report_csv(run)
        page = Page(report_html(stored, previews=previews))
    assert len(page.data['packed']) == len(run.rows)
    assert page.data['packed'][0][5][0][1] == 0


# -- numbers one can trust ---------------------------------------------------------------------------------------------


def grouped_run(members=10):
    names = [f'subject{number}' for number in range(members)]
    cards = [
        Scorecard(name, model, 'accuracy', 40.0 + at, 30.0, 60.0, 20, 20, {'ok': 20})
        for model in 'ab'
        for at, name in enumerate(names)
    ]
    cards += [
        Scorecard('mmlu', model, 'accuracy', 45.0, 40.0, 50.0, 200, 200, {'ok': 200}, group=Members(tuple(names)))
        for model in 'ab'
    ]
    return MemoryRun(cards)


def test_the_members_of_a_group_are_folded_under_it():
    run = grouped_run()
    folded = on_terminal(run)
    assert 'mmlu' in folded
    assert 'subject3' not in folded
    assert '10 lines folded into groups; --all shows them.' in folded
    out = io.StringIO()
    report_terminal(run, make_console(out, width=120), everything=True)
    assert out.getvalue().index('mmlu') < out.getvalue().index('  subject0')
    html = report_html(run)
    assert html.count('data-group="mmlu"') == 10
    assert html.count('data-fold="mmlu"') == 1
    assert report_csv(run).count('\n') == 23


def test_a_bar_of_a_group_counts_all_its_rows_also_those_that_a_smaller_group_has():
    cards = [Scorecard(name, 'm', 'accuracy', 50.0) for name in 'abc']
    groups = {'all': ['a', 'b', 'c'], 'some': ['a', 'b']}
    cards += [Scorecard(name, 'm', 'accuracy', 50.0, group=Members(tuple(of))) for name, of in groups.items()]
    folded, members = fold_endings({(name, 'm'): Counter(correct=2) for name in 'abc'}, grid_of(cards))
    assert {pair[0]: counts.total() for pair, counts in folded.items()} == {'all': 6, 'some': 4}
    assert [pair[0] for pair in members] == ['c', 'a', 'b']


def test_cut_and_empty_replies_stand_beside_every_score():
    counts = {'cut': ReplyCount(12, 100, 46.8), 'empty': ReplyCount(6, 100)}
    run = MemoryRun([card(value=41.2, scored=100, total=100, outcomes={'ok': 100}, **counts)])
    for shown in (on_terminal(run), report_markdown(run), report_html(run)):
        assert '12 % cut; 41.2 of all, 46.8 of finished' in shown
        assert '6 % empty' in shown
    assert 'warning: gsm8k × base: 12 % of the replies were cut off' in on_terminal(run)
    (line,) = csv.DictReader(io.StringIO(report_csv(run)))
    assert (line['cut'], line['empty'], line['value_of_finished']) == ('12', '6', '46.8')


def run_of(right, rows=200):
    """A run in which each model answers so many rows correctly."""
    results = [
        Result(
            'd',
            model,
            row,
            'ok',
            correct=row < hits,
            score=float(row < hits),
            input_tokens=1000,
            output_tokens=100,
            seconds=0.5,
        )
        for model, hits in right.items()
        for row in range(rows)
    ]
    return MemoryRun([Scorecard('d', model, 'accuracy', hits / rows * 100) for model, hits in right.items()], results)


@pytest.mark.parametrize(
    ('right', 'headline'),
    [
        ({'a': 100, 'b': 160}, 'b beats a by 30.0 points ('),
        ({'a': 100, 'b': 101}, 'b and a cannot be told apart on 200 rows: they differ by 0.5 points ('),
        ({'a': 100, 'b': 160, 'c': 101}, 'b is best on 200 rows, ahead of c by 29.5 points ('),
        ({'a': 160, 'b': 160, 'c': 101}, 'a and b share first place: they cannot be told apart on 200 rows.'),
    ],
)
def test_a_headline_says_what_the_rows_allow(right, headline):
    run = run_of(right)
    for shown in (on_terminal(run), report_markdown(run), report_html(run)):
        assert headline in shown


def test_models_that_cannot_be_told_apart_share_a_rank():
    shown = on_terminal(run_of({'good': 160, 'poor': 100, 'meagre': 101}))
    assert re.search(r'good +1 +80\.0', shown)
    assert re.search(r'meagre +2–3 +50\.5', shown)
    assert re.search(r'poor +2–3 +50\.0', shown)


def test_tokens_and_money_are_shown_by_model_and_dataset():
    run = run_of({'a': 100, 'b': 160})
    prices = {'a': Price(2.0, 8.0)}
    out = io.StringIO()
    report_terminal(run, make_console(out, width=120), prices=prices)
    for shown in (out.getvalue(), report_markdown(run, prices=prices), report_html(run, prices=prices)):
        assert '200,000' in shown
        assert '0.56' in shown  # 200,000 tokens at 2 dollars, 20,000 at 8
    assert re.search(r'b, d +200 +200,000 +20,000 +0\.50 +–', out.getvalue())


def test_a_token_count_with_a_gap_is_not_known():
    rows = [Result('d', 'm', 0, 'ok', input_tokens=5, output_tokens=5), Result('d', 'm', 1, 'ok', output_tokens=5)]
    [line] = usage_lines(count_results(rows), {'m': Price(1.0, 1.0)})
    assert (line.used.input_tokens, line.used.output_tokens, line.cost) == (None, 10, None)


@pytest.mark.parametrize(
    ('entry', 'expected'),
    [
        ({'path': 'gpt-4o-mini-2024-07-18'}, Price(0.15, 0.60, 0.075)),
        ({'path': 'gpt-4o'}, Price(2.5, 10.0, 1.25)),
        ({'path': 'mine'}, Price(1.0, 2.0)),
        ({'path': 'gpt-4o', 'price': {'input': 7, 'output': 8}}, Price(7.0, 8.0)),
        ({'path': 'unknown'}, None),
        ({'path': 'llama-3-8b', 'abbr': 'gpt-4o'}, None),
        ({'abbr': 'gpt-4o'}, None),
        ({'abbr': 'mine'}, Price(1.0, 2.0)),
        ({'path': 'claude-opus-5-20260724'}, Price(5.0, 25.0, 0.5)),
        ({'path': 'claude-opus-5-5'}, Price(4.0, 20.0, 0.2)),
        ({'path': 'claude-haiku-5-5'}, None),
    ],
)
def test_a_price_comes_from_the_entry_the_users_file_or_the_table(tmp_path, entry, expected):
    file = tmp_path / 'prices.json'
    file.write_text('{"mine*": {"input": 1, "output": 2}}')
    found = find_price(entry, read_prices(file))
    assert (found and replace(found, as_of='')) == expected


@pytest.mark.parametrize(
    'text',
    [
        '[]',
        '{',
        '{"a": 1}',
        '{"a": {"input": "x"}}',
        '{"a": {"input": -1, "output": 1}}',
        '{"a": {"input": 1, "output": Infinity}}',
        '{"a": {"input": 1}}',
        '{"a": {"imput": 1, "output": 1}}',
        '{"a": {}}',
        '{"a": {"input": 1, "output": 1, "batch": 2}}',
    ],
)
def test_a_file_of_prices_that_cannot_be_meant_is_refused(tmp_path, text):
    file = tmp_path / 'prices.json'
    file.write_text(text)
    with pytest.raises(RolecallError, match='prices.json'):
        read_prices(file)


def test_cut_rows_that_differ_in_their_lengths_have_one_reason() -> None:
    results = [Result('d', 'm', row, 'too_long', reason=f'too long: {row},031 tokens') for row in (1, 2)]
    results += [Result('d', 'm', row, 'failed', reason=f'HTTP {row}') for row in (429, 500)]
    counts = RunCounts()
    for result in results:
        counts.add(result)
    whys = [(why.rows, why.reason) for why in counts.reasons_by_count()]
    assert whys == [(2, 'e.g. too long: 1,031 tokens'), (1, 'HTTP 429'), (1, 'HTTP 500')]


def headline(counts: RunCounts, cards: Sequence[Scorecard]) -> str:
    return word_headline(rank_run(counts, cards), counts, cards)


def test_every_line_of_the_table_says_when_it_was_seen_and_cached_tokens_cost_less():
    for pattern, price in PRICES.items():
        assert re.fullmatch(r'20\d\d-(0[1-9]|1[0-2])', price.as_of), pattern
        assert 0 < price.input < price.output, pattern
        assert price.cached is None or price.cached < price.input, pattern


@pytest.mark.parametrize(
    ('results', 'said'),
    [
        ([], ''),
        ([Result('quiz', 'm', 0, 'failed')], ''),
        ([Result('quiz', 'm', 0, 'ok', score=1.0, correct=True)], 'm scores 100.0 [20.7, 100.0] on 1 row of quiz.'),
        (
            [Result(dataset, 'm', row, 'ok', score=float(row < 3)) for dataset in 'ab' for row in range(4)],
            'm scores 75.0 [40.9, 92.9] on 8 rows of 2 datasets.',
        ),
        (
            [Result('quiz', 'm', row, 'unparsed', score=0.0, correct=False) for row in range(4)],
            'm scores 0.0 [0.0, 49.0] on 4 rows of quiz.',
        ),
    ],
)
def test_a_run_of_one_model_has_a_headline_once_rows_are_scored(results, said):
    assert headline(count_results(results), []) == said


def test_the_headline_of_an_unfinished_run_says_so():
    counts = count_results([Result('quiz', 'm', row, 'ok', score=1.0, correct=True) for row in range(4)])
    said = headline(counts, every_card([], counts))
    assert said == 'm scores 100.0 [51.0, 100.0] on 4 rows of quiz. The run is not finished.'
    [card] = every_card([], counts)
    assert (card.metric, card.value, round(card.low), card.scored, card.total) == ('not finished', 100.0, 51, 4, 4)


@pytest.mark.parametrize('scale', [{'unit': ''}, {'unit': '%', 'lower_is_better': True}])
def test_a_headline_leaves_out_scores_that_are_not_points(scale):
    rows = [
        Result(dataset, model, row, 'ok', score=float((model == 'a') == (dataset == 'quiz')))
        for dataset in ('quiz', 'errors')
        for model in 'ab'
        for row in range(20)
    ]
    details = {'quiz': {'unit': '%'}, 'errors': scale}
    cards = [
        Scorecard(dataset, model, 'm', 100.0 * ((model == 'a') == (dataset == 'quiz')), **details[dataset])
        for dataset in details
        for model in 'ab'
    ]
    assert headline(count_results(rows), cards).startswith('a beats b by 100.0 points (')
    assert headline(count_results(rows[40:]), cards) == ''


def test_a_headline_says_what_the_table_says():
    rows = [Result('quiz', 'm', row, 'ok', score=score) for row, score in enumerate([0.2, 0.4, 0.6, 1.0])]
    card = Scorecard('quiz', 'm', 'rouge1', 55.0, 30.0, 70.0, 4, 4, unit='%')
    assert headline(count_results(rows), [card]) == 'm scores 55.0 [30.0, 70.0] on 4 rows of quiz.'
    more = [*rows, Result('other', 'm', 0, 'ok', score=1.0)]
    assert headline(count_results(more), [card]) == 'm scores 64.0 [13.6, 100.0] on 5 rows of 2 datasets.'
    corpus = replace(card, metric='bleu', value=17.0)
    assert headline(count_results(rows), [corpus]) == ''


def test_rows_that_count_as_one_are_ranked_as_one():
    wrong = {'a': {1}, 'b': {1, 4, 8}}
    rows = [
        Result('quiz', model, row, 'ok', score=float(row not in wrong[model])) for model in 'ab' for row in range(12)
    ]
    groups = tuple(tuple(range(first, first + 4)) for first in (0, 4, 8))
    values = {'a': 200 / 3, 'b': 0.0}
    cards = [
        Scorecard('quiz', model, 'perf_circular', value, unit='%', groups=groups) for model, value in values.items()
    ]
    ranking = rank_run(count_results(rows), cards).ranking
    assert ranking.rows == 3
    assert [100 * place.value for place in ranking.places] == pytest.approx(list(values.values()))


def test_clusters_of_two_datasets_are_not_one():
    rows = [Result(dataset, 'm', row, 'ok', score=1.0, cluster=str(row)) for dataset in 'ab' for row in range(3)]
    assert len({row.cluster for row in count_results(rows).scores['m'].values()}) == 6


def page_rows(run):
    page = Page(report_html(run))
    return page.data['about'], page.data['packed']


def row_with(**given):
    return MemoryRun([card()], [Result('gsm8k', 'base', 0, 'ok', score=1.0, **given)])


def test_rows_of_the_page_carry_losses_turns_and_endings_as_tables_not_as_json():
    label = {'whole': 1.5, 'sum': 3.0, 'per_token': 1.0, 'per_character': 0.5, 'tokens': 9}
    labels = [{'label': 'A', **label}, {'label': 'B', **label, 'whole': 1.25}]
    weighed = {'details': {'decide_by': 'whole', 'labels': labels, 'note': 1}}
    talk = {'replies': ('Paris', 'Rome'), 'gold': ['Paris', 'Rome'], 'details': {'ended': ['stop', 'length']}}
    [[*_, more]] = page_rows(row_with(**weighed))[1]
    heads, *lines = more['losses']
    assert heads == ['label', 'per token', 'sum', 'per answer token', 'per character', 'tokens']
    assert lines == [['A', 1.5, 3.0, 1.0, 0.5, 9], ['B', 1.25, 3.0, 1.0, 0.5, 9]]
    assert json.loads(more['details']) == {'note': 1}
    [[*_, more]] = page_rows(row_with(**talk))[1]
    assert (more['golds'], more['ended']) == (['Paris', 'Rome'], ['stop', 'length'])
    assert 'details' not in more


@pytest.mark.parametrize('labels', [[], ['A'], [{'label': 'A'}], [{'label': 'A', 'whole': None}], 'AB', {'A': 1}])
def test_details_that_are_no_losses_stay_as_they_are(labels):
    [[*_, more]] = page_rows(row_with(details={'labels': labels}))[1]
    assert 'losses' not in more
    assert json.loads(more['details']) == {'labels': labels}


def several_datasets(datasets, models, rows=3):
    results = [
        Result(dataset, model, row, 'ok', score=1.0, correct=True, input_tokens=10, output_tokens=5, seconds=0.1)
        for dataset in sorted(datasets)
        for model in sorted(models)
        for row in range(rows)
    ]
    cards = [
        Scorecard(dataset, model, 'accuracy', 72.25, 60.5, 81.0, rows, rows, {'ok': rows})
        for model in models
        for dataset in datasets
    ]
    return MemoryRun(cards, results)


def test_datasets_and_models_stand_in_the_order_of_the_scores_everywhere():
    run = several_datasets(['zebra', 'ape'], ['small', 'large'])
    about, _ = page_rows(run)
    assert about['pairs'] == [['zebra', 'small'], ['zebra', 'large'], ['ape', 'small'], ['ape', 'large']]
    for said in (report_html(run), report_markdown(run), on_terminal(run, width=80)):
        tokens = said[said.lower().index('tokens') :]
        assert tokens.index('zebra') < tokens.index('ape')
        assert tokens.index('small') < tokens.index('large')


@pytest.mark.parametrize(('datasets', 'models'), [(3, 2), (57, 6), (57, 1), (2, 12)])
@pytest.mark.parametrize('width', [80, 160])
def test_a_report_of_many_subjects_and_models_fits_the_terminal(datasets, models, width):
    names = [f'lukaemon_mmlu_college_subject_{number}' for number in range(datasets)]
    run = several_datasets(names, [f'some-model-{number}b-instruct' for number in range(models)])
    said = on_terminal(run, width=width)
    assert max(map(len, said.splitlines())) <= width
    assert said.count('72.2') == datasets * models
    if datasets == 57:
        assert '--all shows the tokens of each dataset.' in said or models == 1


def test_lengths_are_drawn_for_each_dataset():
    html = report_html(several_datasets(['zebra', 'ape'], ['small', 'large']))
    lengths = html[html.index('id="lengths"') : html.index('id="rows"')]
    assert 'zebra × small median 10, 10 to 10' in lengths
    assert lengths.index('>zebra<') < lengths.index('>ape<')
