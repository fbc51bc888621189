"""Two runs compared: differences with intervals, and flipped rows with what changed in their prompts."""

import io
import json
from dataclasses import replace

from report_runs import HOSTILE, MemoryRun
from rolecall.insight.comparison import Comparison, Difference, Flip, compare_runs, comparison_as_json
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report.comparison_view import print_comparison
from rolecall.ui.views.terminal import make_console

GSM8K = Difference('gsm8k', 'base', 'accuracy', 50.0, 62.5, 12.5, 3.1, 21.9, 0.0004, 200)


def two_runs(before='Q: 1+1=?\nA:', after='Question: 1+1=?\nA:'):
    right = Result(
        'gsm8k', 'base', 7, 'ok', extracted='2', gold='2', correct=True, fingerprint='f', fingerprints=('f',)
    )
    wrong = replace(right, extracted='3', correct=False)
    flip = Flip(wrong, right)
    return (
        Comparison([replace(GSM8K, flips=[flip])]),
        MemoryRun(requests={'f': before}, title='monday'),
        MemoryRun(requests={'f': after}, title='tuesday'),
    )


def shown(comparison, left, right, **options):
    out = io.StringIO()
    print_comparison(comparison, make_console(out, width=140), left=left, right=right, **options)
    return out.getvalue()


def test_a_difference_is_shown_with_interval_and_p():
    text = shown(*two_runs())
    assert '+12.5 [+3.1, +21.9]' in text
    assert '<0.001' in text
    assert 'monday' in text


def test_flipped_rows_come_with_the_changes_of_their_prompts():
    text = shown(*two_runs())
    assert 'row 7  left wrong 3  right correct 2  gold 2' in text
    assert '- Q: 1+1=?' in text
    assert '+ Question: 1+1=?' in text
    assert 'A:' not in text.split('row 7')[1]


def test_equal_prompts_are_said_to_be_equal():
    assert 'the prompt is the same' in shown(*two_runs('Q', 'Q'))


def test_many_changes_and_many_flips_are_counted_not_printed():
    comparison, left, right = two_runs(
        '\n'.join(f'line {n}' for n in range(20)), '\n'.join(f'Line {n}!' for n in range(20))
    )
    one = comparison.differences[0]
    comparison = Comparison([replace(one, flips=[*one.flips] * 30)])
    text = shown(comparison, left, right, flips=2)
    assert 'and 16 other changes of the prompt' in text
    assert 'and 28 other rows' in text


def test_unknown_numbers_are_dashes_and_hostile_words_are_harmless():
    unknown = Difference(HOSTILE, HOSTILE, HOSTILE, None, None, None, None, None, None, 0)
    text = shown(Comparison([unknown]), MemoryRun(title=HOSTILE), MemoryRun())
    assert '–' in text
    assert '\u202e' not in text


def test_nothing_in_common_is_said():
    assert 'the runs have no dataset × model in common' in shown(Comparison([]), MemoryRun(), MemoryRun())


def test_json_has_the_same():
    comparison, left, right = two_runs()
    told = json.loads(json.dumps(comparison_as_json(comparison, left=left, right=right)))
    (difference,) = told['differences']
    assert (difference['difference'], difference['p'], difference['rows']) == (12.5, 0.0004, 200)
    (flip,) = difference['flips']
    assert (flip['row'], flip['same_prompt'], flip['left']['correct']) == (7, False, False)
    assert flip['changes'][0]['right'][0] == {'text': 'Q', 'differs': False}
    assert flip['changes'][0]['right'][1] == {'text': 'uestion', 'differs': True}


def test_two_runs_are_paired_row_by_row():
    rows = [Result('gsm8k', 'base', row, 'ok', score=float(row % 2), fingerprint=f'f{row}') for row in range(10)]
    left = MemoryRun(rows=rows)
    right = MemoryRun(rows=[replace(row, model='tuned', score=1.0, fingerprint='g') for row in rows])
    (one,) = compare_runs(left, right).differences
    assert (one.dataset, one.model, one.rows) == ('gsm8k', 'base → tuned', 10)
    assert (one.left, one.right, one.difference) == (0.5, 1.0, 0.5)
    assert [(flip.left.row, flip.right.score) for flip in one.flips] == [(row, 1.0) for row in (0, 2, 4, 6, 8)]


def test_a_comparison_fits_80_columns():
    one = Difference(
        'mmlu-high-school-european-history',
        'qwen2.5-72b-instruct-awq',
        'accuracy',
        61.5,
        64.0,
        2.5,
        -0.4,
        5.4,
        0.092,
        1200,
    )
    out = io.StringIO()
    print_comparison(Comparison([one]), make_console(out, width=80), left=MemoryRun(), right=MemoryRun())
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert '[-0.4, +5.4]' in text
    assert '0.092' in text
    assert '1,200' in text


def test_differences_stand_in_the_order_of_the_scores_and_what_holds_for_all_is_said_once():
    def run(answers, fingerprint):
        rows = [
            Result(dataset, 'm', row, 'ok', score=float(row < answers), correct=row < answers, fingerprint=fingerprint)
            for dataset in ('ape', 'zebra')
            for row in range(4)
        ]
        cards = [Scorecard(name, 'm', 'accuracy', 25.0 * answers, unit='%') for name in ('zebra', 'ape')]
        return MemoryRun(cards, rows)

    left, right = run(0, 'old'), run(1, 'new')
    comparison = compare_runs(left, right)
    assert [one.dataset for one in comparison.differences] == ['zebra', 'ape']
    out = io.StringIO()
    print_comparison(comparison, make_console(out, width=80), left=left, right=right, flips=1)
    assert out.getvalue().count('sent differently') == 1
    assert 'every row was sent differently (prompt, sampling or model)' in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80
