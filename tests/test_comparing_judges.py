"""Judges that compare two answers or read whole dialogues: what they are sent, and what the numbers say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rolecall.core.prompts.messages import read_conversation
from rolecall.errors import ConfigError, RenderError
from rolecall.experiment.experiment import Experiment, preview
from rolecall.experiment.lint.linter import lint_config
from rolecall.experiment.opening.judge_config import JudgeComparison, Opponent
from rolecall.experiment.opening.judges import find_judge
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.insight.pairwise import pairwise_tables, rate_models
from rolecall.insight.run_source import StoredRun
from rolecall.runs.planning import plan_run
from rolecall.runs.run import run_config
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.metrics.metric import Rival
from rolecall.scoring.score_warnings import WarningFilter, warnings_of
from rolecall.scoring.scorecard import HeadToHead, Scorecard
from rolecall.sources.retrievers import Picked
from rolecall.ui.cli.main import main
from rolecall.ui.report.counts import count_results
from rolecall.ui.report.page import report_html
from rolecall.ui.report.ranking_summary import rank_run
from rolecall.ui.report.terminal_report import report_terminal
from rolecall.ui.report.text_reports import report_markdown
from servers import serve

ROWS = [{'question': f'Question {n}?', 'reference': f'gold {n}'} for n in range(4)]
TEMPLATE = '{question}\nA: {prediction}\nB: {prediction2}'
API = {
    'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}],
    'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
}


def answers_with(words: str) -> Callable[[str], str]:
    return lambda prompt: f'{words} to {prompt}'


def prefers(*ranking: str) -> Callable[[str], str]:
    """A judge that likes one model best, then the next, and calls the others a tie."""

    def judge(prompt: str) -> str:
        places = [
            next((place for place, name in enumerate(ranking) if line.startswith(f'{letter}: {name}')), len(ranking))
            for letter in 'AB'
            for line in prompt.splitlines()
            if line.startswith(f'{letter}: ')
        ]
        return '[[C]]' if places[0] == places[1] else '[[A]]' if places[0] < places[1] else '[[B]]'

    return judge


def compared(
    judge: Callable[[str], str], models: Sequence[str] = ('one', 'two'), *, rows: Any = ROWS, **evaluator: Any
) -> dict[str, Any]:
    entry = {'type': 'PairwiseEvaluator', 'prompt_template': {'type': 'PromptTemplate', 'template': TEMPLATE}}
    return {
        'models': [{'abbr': name, 'type': answers_with(name), 'revision': name} for name in models],
        'datasets': [
            {
                'abbr': 'd',
                'type': 'Rows',
                'test': rows,
                'reader_cfg': {'input_columns': ['question']},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
                'eval_cfg': {'evaluator': {**entry, 'judge_cfg': {'abbr': 'judge', 'type': judge}, **evaluator}},
            }
        ],
    }


def cards_of(config: Mapping[str, Any], out: Path) -> dict[str, Scorecard]:
    return {card.model: card for card in run_config(config, out=out, lint=False).scorecards}


def results_of(out: Path, model: str) -> list[Result]:
    with RunReader(out) as reader:
        return [result for result in reader.results() if result.model == model]


# Two models of one run


def test_every_pair_of_models_is_compared_in_both_orders_and_each_question_is_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []
    judge = prefers('one', 'two')

    def listening(prompt: str) -> str:
        asked.append(prompt)
        return judge(prompt)

    config = compared(listening, ('one', 'two', 'three'))
    cards = cards_of(config, tmp_path)
    assert {name: card.value for name, card in cards.items()} == {'one': 100.0, 'two': 50.0, 'three': 0.0}
    assert cards['two'].details['further'] == {'vs one': 0.0, 'vs three': 100.0}
    assert len(asked) == len(set(asked)) == 3 * 2 * len(ROWS)
    plan = plan_run(config)
    assert sum(pair.to_judge for pair in plan.pairs) == len(asked)


def test_a_judge_that_always_prefers_the_first_answer_makes_ties_and_the_order_is_reported(tmp_path: Path) -> None:
    card = cards_of(compared(lambda prompt: '[[A]]'), tmp_path)['one']
    assert card.value == 50.0
    told = card.details['compared']['two']
    assert (told['wins'], told['ties'], told['losses'], told['rows']) == (0, 4, 0, 4)
    assert (told['first'], told['decided'], told['order_changed'], told['both_orders']) == (8, 8, 4, 4)


def test_wins_ties_and_losses_have_an_interval_that_is_never_empty(tmp_path: Path) -> None:
    cards = cards_of(compared(prefers('one')), tmp_path)
    assert (cards['one'].value, cards['two'].value) == (100.0, 0.0)
    assert cards['one'].low == pytest.approx(45.0, abs=0.01)
    assert cards['one'].high == 100.0
    told = cards['two'].details['compared']['one']
    assert (told['wins'], told['losses'], told['first'], told['decided']) == (0, 4, 4, 8)
    assert (told['low'], told['high']) == (cards['two'].low, cards['two'].high)


@pytest.mark.parametrize('clustered', [False, True])
@pytest.mark.parametrize(('wins', 'ties'), [(60, 0), (61, 0), (55, 10), (8, 90), (7, 93)])
def test_card_pair_table_and_headline_agree_on_whether_two_models_are_told_apart(
    wins: int, ties: int, clustered: bool, tmp_path: Path
) -> None:
    """Wilson's interval would exclude 50 at 60 of 100, where the paired test has p = 0.051."""

    def judge(prompt: str) -> str:
        number = int(prompt.split()[1].rstrip('?'))
        order = '[[A]]', '[[B]]'
        better = order[('A: two' in prompt) == (number < wins)]
        return '[[C]]' if wins <= number < wins + ties else better

    config = compared(judge, rows=[{'question': f'Question {number}?', 'pair': number // 2} for number in range(100)])
    if clustered:
        config['datasets'][0]['eval_cfg']['cluster'] = 'pair'
    cards = cards_of(config, tmp_path)
    one, two = cards['one'], cards['two']
    told = one.details['compared']['two']
    assert (one.value, told['wins'], told['ties']) == (wins + ties / 2, wins, ties)
    assert (one.low, one.high) == (told['low'], told['high'])
    assert one.low is not None
    assert two.high == pytest.approx(100 - one.low)
    with RunReader(tmp_path) as reader:
        run = StoredRun(reader)
        ranked = rank_run(count_results(run.results()), run.scorecards())
    assert ranked is not None
    [pair] = ranked.ranking.pairs
    assert pair.told_apart == (one.low > 50)
    assert (pair.low, pair.high) == (pytest.approx(one.low / 50 - 1), pytest.approx(one.high / 50 - 1))


@pytest.mark.parametrize(('order', 'questions'), [('both', 8), ('random', 4), ('first', 8)])
def test_orders(order: str, questions: int, tmp_path: Path) -> None:
    """By lot, both models are judged by the same question; with `first`, each model's answers stand first in its own."""
    asked: set[str] = set()

    def judge(prompt: str) -> str:
        asked.add(prompt)
        return prefers('one')(prompt)

    config = compared(judge, order=order)
    cards = cards_of(config, tmp_path)
    assert {name: card.value for name, card in cards.items()} == {'one': 100.0, 'two': 0.0}
    assert len(asked) == questions == sum(pair.to_judge for pair in plan_run(config).pairs)


def test_by_lot_either_side_may_stand_first() -> None:
    drawn = JudgeComparison((Opponent('two'), Opponent('one')), 'random')
    places = [drawn.arrange('one', n, lambda one: Rival(one.name))[0].stands_first for n in range(40)]
    assert {True, False} == set(places)
    mirrored = [drawn.arrange('two', n, lambda one: Rival(one.name))[0].stands_first for n in range(40)]
    assert mirrored == [not place for place in places]


@pytest.mark.parametrize('policy', ['exclude', 'wrong'])
def test_a_missing_answer_of_the_other_model_is_a_failure_with_the_reason_and_neither_a_win_nor_a_loss(
    policy: str, tmp_path: Path
) -> None:
    """Rows without an answer of its own count as lost with `failures='wrong'`; others' failures never do."""
    config = compared(lambda prompt: '[[A]]', order='first')
    config['datasets'][0]['eval_cfg']['failures'] = policy

    def fails_on_two(prompt: str) -> str:
        if '2' in prompt:
            raise ValueError('out of order')
        return 'two'

    config['models'][1] |= {'type': fails_on_two}
    cards = cards_of(config, tmp_path)
    assert (cards['one'].value, cards['one'].scored, cards['one'].total) == (100.0, 3, 4)
    (failed,) = [result for result in results_of(tmp_path, 'one') if result.outcome == 'failed']
    assert (failed.row, failed.score, failed.prediction) == (2, None, 'one to Question 2?')
    assert failed.reason.startswith('no answer of two to compare with: failed: two: ValueError: out of order')
    assert cards['one'].details['compared']['two']['missing'] == 1
    assert (cards['two'].value, cards['two'].scored) == ((100.0, 3) if policy == 'exclude' else (75.0, 4))


def test_with_several_opponents_a_missing_answer_leaves_the_other_comparisons(tmp_path: Path) -> None:
    config = compared(prefers('one'), ('one', 'two', 'three'))

    def fails(prompt: str) -> str:
        raise ValueError('down')

    config['models'][2]['type'] = fails
    card = cards_of(config, tmp_path)['one']
    assert (card.value, card.scored) == (100.0, 4)
    assert card.details['compared']['two']['rows'] == 4
    assert card.details['compared']['three'] == {'rows': 0, 'missing': 4}


def test_a_verdict_that_cannot_be_read_in_one_order_leaves_the_comparison_out(tmp_path: Path) -> None:
    """Half of a comparison would count the order as much as the answers."""
    config = compared(lambda prompt: '[[A]]' if '\nA: one' in prompt else 'Hm.')
    summary = run_config(config, out=tmp_path, lint=False)
    assert [card.value for card in summary.scorecards] == [None, None]
    assert all("no verdict in the judge's reply: 'Hm.'" in card.error for card in summary.scorecards)


# What answers are compared with


@pytest.mark.parametrize('named', [{'column': 'reference'}, [{'abbr': 'gold', 'column': 'reference'}]])
def test_answers_are_compared_with_a_column_of_the_dataset(named: Any, tmp_path: Path) -> None:
    missing: list[dict[str, Any]] = [{}, {'reference': ' '}, {'reference': None}]
    rows = [*ROWS[:3], *({'question': f'Question {n}?'} | more for n, more in enumerate(missing, start=3))]
    cards = cards_of(compared(prefers('gold'), ('one',), rows=rows, against=named), tmp_path)
    assert (cards['one'].value, cards['one'].scored) == (0.0, 3)
    reasons = [result.reason.partition('with: ')[2] for result in results_of(tmp_path, 'one')[3:]]
    assert reasons == ["the row has no column 'reference'.", *["the column 'reference' is empty."] * 2]


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('d.json', json.dumps({str(n): {'prediction': f'given {n}'} for n in range(4)})),
        ('answers.json', json.dumps([f'given {n}' for n in range(4)])),
        ('answers.jsonl', '\n'.join(json.dumps({'output': f'given {n}'}) for n in range(4))),
    ],
)
def test_answers_are_compared_with_those_in_a_file(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    path = str(tmp_path if name == 'd.json' else tmp_path / name)
    config = compared(prefers('given'), ('one',))
    config['datasets'][0] |= {'base_models': [{'abbr': 'gpt4'}], 'given_pred': [{'abbr': 'gpt4', 'path': path}]}
    card = cards_of(config, tmp_path / 'run')['one']
    assert (card.value, card.details['further']) == (0.0, {'vs gpt4': 0.0})


def test_a_baseline_is_compared_with_the_others_and_has_no_score_of_its_own(tmp_path: Path) -> None:
    config = compared(prefers('one', 'two'), ('base', 'one', 'two'), against='base')
    assert [pair.to_judge for pair in plan_run(config).pairs] == [0, 8, 8]
    cards = cards_of(config, tmp_path)
    assert {name: card.value for name, card in cards.items()} == {'one': 100.0, 'two': 100.0, 'base': None}
    assert set(cards['one'].details['compared']) == {'base'}
    assert cards['base'].describe_missing() == 'the baseline of the others'


def test_answers_of_both_models_are_read_before_they_are_shown(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '[[A]]'

    config = compared(judge, ('base', 'one'), rows=ROWS[:1], against='base', order='first')
    config['datasets'][0]['eval_cfg']['pred_postprocessor'] = {'type': 'first_capital_postprocess'}
    for model in config['models']:
        model['type'] = lambda prompt: 'so B.'
    cards_of(config, tmp_path)
    assert asked == ['Question 0?\nA: B\nB: B']


def test_a_model_left_out_of_this_run_is_compared_by_the_rows_it_has(tmp_path: Path) -> None:
    config = compared(prefers('one'))
    summary = run_config(config, out=tmp_path, model='one', lint=False)
    assert 'no answer of two to compare with: the model was not asked.' in summary.scorecards[0].error
    cards_of(config, tmp_path)
    (again,) = run_config(config, out=tmp_path, model='one', lint=False).scorecards
    assert (again.value, again.scored) == (100.0, 4)


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({'against': 'tow'}, "no model 'tow' in the config, and no answers of it are given. Did you mean 'two'?"),
    ({'against': {'column': 'referenc'}}, "no row has the column 'referenc'. Did you mean 'reference'?"),
    ({'against': {'abbr': 'x', 'path': 'nowhere.json'}}, 'nowhere.json: no such file, and no folder with d.json.'),
    ({'against': 5}, 'expected the abbr of a model'),
    ({'against': ['two', 'two']}, "'two' is named twice, so its answers would be mixed up."),
    ({'against': []}, 'against is empty, so there is nothing to compare with.'),
    ({'order': 'twice'}, "unknown order 'twice'."),
]


@pytest.mark.parametrize(('evaluator', 'told'), PROBLEMS)
def test_a_comparison_that_cannot_work_is_refused_before_anything_is_sent(
    evaluator: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        run_config(compared(prefers('one'), **evaluator), out=tmp_path)
    assert told in ' '.join(str(caught.value).split())


def test_a_comparison_needs_two_models(tmp_path: Path) -> None:
    config = compared(prefers('one'), ('one',))
    with pytest.raises(ConfigError, match='compares the answers of two models, but the config has one model'):
        run_config(config, out=tmp_path)
    assert any('the config has one model' in finding.message for finding in lint_config(config))
    with pytest.raises(ConfigError, match='a model is not compared with itself'):
        run_config(compared(prefers('one'), ('one',), against='one'), out=tmp_path)


@pytest.mark.parametrize('kind', ['LMEvaluator', 'GenericLLMEvaluator'])
def test_a_prompt_that_names_a_second_answer_compares(kind: str, tmp_path: Path) -> None:
    assert cards_of(compared(prefers('two'), type=kind), tmp_path)['two'].value == 100.0


def test_a_reader_of_ones_own_says_which_answer_is_better(tmp_path: Path) -> None:
    config = compared(lambda prompt: 'left', dict_postprocessor=lambda reply: {'left': 'A'}.get(reply), order='first')
    assert cards_of(config, tmp_path)['one'].value == 100.0


@pytest.mark.parametrize('nested', [True, False])
def test_a_config_may_name_the_judge_of_all_datasets(nested: bool, tmp_path: Path) -> None:
    """As OpenCompass' configs do, beside the models or in the partitioner."""
    config = compared(prefers('one'))
    judges = [config['datasets'][0]['eval_cfg']['evaluator'].pop('judge_cfg')]
    told = {'eval': {'partitioner': {'judge_models': judges}}} if nested else {'judge_models': judges}
    assert cards_of({**config, **told}, tmp_path)['one'].value == 100.0


# What the judge receives


def test_the_judge_receives_what_view_shows_and_both_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(body: Mapping[str, Any]) -> str:
        text = body['messages'][-1]['content']
        return '[[A]]' if body['model'] == 'judge' else f'{body["model"]} says {text} {{prediction2}}'

    with serve(answer=answer, models=('one', 'two', 'judge')) as server:
        entry = {'type': 'OpenAI', 'base_url': server.url, 'key': 'k', 'meta_template': API, 'max_out_len': 9}
        evaluator = {
            'type': 'PairwiseEvaluator',
            'judge_cfg': {**entry, 'abbr': 'judge', 'path': 'judge'},
            'prompt_template': {'type': 'PromptTemplate', 'template': TEMPLATE},
        }
        config = compared(str.upper) | {'models': [{**entry, 'abbr': name, 'path': name} for name in ('one', 'two')]}
        config['datasets'][0]['eval_cfg'] = {'evaluator': evaluator}
        run_config(config, out=tmp_path / 'run')
        received = [call.body['messages'] for call in server.calls if call.body['model'] == 'judge']
    replies = tmp_path / 'replies.txt'
    shown = []
    for n in range(4):
        replies.write_text('\n'.join(f'{name} says Question {n}? {{prediction2}}' for name in ('one', 'two')))
        file = tmp_path / 'config.json'
        file.write_text(json.dumps(config))
        assert main(['view', str(file), '--judge', '--json', '--row', str(n), '--replies', str(replies)]) == 0
        shown += [json.loads(line)['request'] for line in capsys.readouterr().out.splitlines()]
    assert sorted(map(str, received)) == sorted(map(str, shown))
    assert len(received) == 8
    first = 'Question 0?\nA: one says Question 0? {prediction2}\nB: two says Question 0? {prediction2}'
    swapped = 'Question 0?\nA: two says Question 0? {prediction2}\nB: one says Question 0? {prediction2}'
    assert [messages[0]['content'] for messages in shown[:2]] == [first, swapped]


def test_the_questions_and_replies_of_the_judge_are_stored_and_exported(tmp_path: Path) -> None:
    cards_of(compared(prefers('one')), tmp_path)
    result = results_of(tmp_path, 'one')[0]
    assert [one['reply'] for one in result.judged if one] == ['[[A]]', '[[B]]']


def test_a_second_run_asks_the_judge_nothing(tmp_path: Path) -> None:
    asked = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '[[A]]'

    config = compared(judge)
    before = cards_of(config, tmp_path)
    count = len(asked)
    assert cards_of(config, tmp_path) == before
    assert len(asked) == count


# Reports


def test_reports_show_every_pair_once_with_the_effect_of_the_order_and_ratings(tmp_path: Path) -> None:
    cards_of(compared(prefers('one', 'two'), ('one', 'two', 'three'), order='both'), tmp_path)
    with RunReader(tmp_path) as reader:
        run = StoredRun(reader)
        tables = pairwise_tables(run.scorecards())
        told = [report_markdown(run), report_html(run)]
        console = Console(record=True, width=140, file=io.StringIO())
        report_terminal(run, console)
    assert tables is not None
    assert [line[1:] for line in tables.pairs] == [
        ('one', 'two', '100.0 [45.0, 100.0]', '4–0–0', '4 of 8', '0 of 4'),
        ('one', 'three', '100.0 [45.0, 100.0]', '4–0–0', '4 of 8', '0 of 4'),
        ('two', 'three', '100.0 [45.0, 100.0]', '4–0–0', '4 of 8', '0 of 4'),
    ]
    assert [line[1] for line in tables.ratings] == ['one', 'two', 'three']
    for text in (*told, console.export_text()):
        assert all(words in text for words in ('Bradley-Terry ratings', 'by order', '4–0–0', '0 of 4'))


def test_a_judge_that_goes_by_the_order_is_warned_about_once_for_two_models(tmp_path: Path) -> None:
    cards = cards_of(compared(lambda prompt: '[[B]]'), tmp_path)
    told = 'd × one: the order of the answers decided 4 of 4 rows against two.'
    assert cards['one'].warnings() == (told,)
    assert warnings_of(cards.values()) == [told]
    shown = WarningFilter()
    assert [warning for card in cards.values() for warning in shown.add(card)] == [told]


def test_models_that_are_each_shown_first_have_a_line_each_and_ratings_do_not_go_by_the_order_of_the_config(
    tmp_path: Path,
) -> None:
    cards = cards_of(compared(lambda prompt: '[[A]]', ('one', 'two', 'three'), order='first'), tmp_path)
    tables = pairwise_tables(list(cards.values()))
    assert tables is not None
    assert [line[4] for line in tables.pairs] == ['4–0–0'] * 6
    assert {line[2] for line in tables.ratings} == {'1000'}


def test_models_without_a_common_opponent_are_not_rated_together() -> None:
    told = {'rows': 9, 'win_rate': 60, 'low': 30, 'high': 80, 'wins': 5, 'ties': 1, 'losses': 3}
    told |= {'first': 4, 'decided': 8, 'both_orders': 0, 'order_changed': 0}
    pairs = {'a': ['b', 'c'], 'd': ['e']}
    cards = [
        Scorecard('d', model, 'win_rate', 60.0, compared=dict.fromkeys(rivals, HeadToHead(**told)))
        for model, rivals in pairs.items()
    ]
    tables = pairwise_tables(cards)
    assert tables is not None
    assert {line[1] for line in tables.ratings} == {'a', 'b', 'c'}


def test_ratings_are_the_most_likely_ones() -> None:
    """The points were computed with scipy's optimiser from the same likelihood."""
    rated = rate_models({('a', 'b'): (9, 12), ('b', 'c'): (8, 12), ('a', 'c'): (11, 12)})
    assert [one.points for one in rated] == pytest.approx([1183.8497, 976.3022, 839.8481], abs=0.01)
    one_sided = rate_models({('a', 'b'): (1000, 1000)})
    assert one_sided[0].model == 'a'
    assert 1000 < one_sided[0].low < one_sided[0].high < 3000


# Whole dialogues

TALK = [
    {'role': 'system', 'content': 'Be kind.'},
    {'role': 'user', 'content': 'Hi {prediction}'},
    {'role': 'assistant', 'content': 'gold 1'},
    {'role': 'user', 'content': 'And now?'},
    {'role': 'assistant', 'content': ''},
]


def dialogues(
    judge: Callable[[str], str], template: Any, *, infer_mode: str = 'every', **evaluator: Any
) -> dict[str, Any]:
    row = {
        'dialogue': TALK,
        'own': 'Rate {prediction_r1} and {prediction_r2}, not {dialogue}.',
        'judge': {'task': 'CM'},
    }
    return {
        'models': [{'abbr': 'm', 'type': lambda prompt: f'<{len(prompt.splitlines())} lines>'}],
        'datasets': [
            {
                'abbr': 'd',
                'type': 'Rows',
                'test': [row],
                'reader_cfg': {'input_columns': ['dialogue', 'own'], 'output_column': 'judge'},
                'infer_cfg': {
                    'prompt_template': {'type': 'PromptTemplate', 'template': '{dialogue}'},
                    'inferencer': {'type': 'ChatInferencer', 'infer_mode': infer_mode},
                },
                'eval_cfg': {
                    'evaluator': {
                        'type': 'LMEvaluator',
                        'judge_cfg': {'abbr': 'judge', 'type': judge},
                        'prompt_template': {'type': 'PromptTemplate', 'template': template},
                        **evaluator,
                    }
                },
            }
        ],
    }


WHOLE = 'User: Hi {prediction}\nAssistant: <2 lines>\n\nUser: And now?\nAssistant: <4 lines>'
JUDGED: list[tuple[str, dict[str, Any], list[str]]] = [
    ('{dialogue}', {}, [WHOLE]),
    ('{prediction_r1} | {prediction_r2}', {}, ['<2 lines> | <4 lines>']),
    ('{own}', {}, ['Rate <2 lines> and <4 lines>, not {dialogue}.']),
    (
        '{prediction}',
        {'pack_all_predictions': True},
        [
            "[{'round': 1, 'user': 'Hi {prediction}', 'assistant': '<2 lines>'}, "
            "{'round': 2, 'user': 'And now?', 'assistant': '<4 lines>'}]"
        ],
    ),
    (
        '{history}Q: {dialogue}\nA: {prediction}',
        {},
        [
            'Q: Hi {prediction}\nA: <2 lines>',
            'User: Hi {prediction}\nAssistant: <2 lines>\n\nQ: And now?\nA: <4 lines>',
        ],
    ),
    (
        '{dialogue}\nA: {prediction}',
        {'infer_mode': 'last'},
        ['System: Be kind.\n\nUser: Hi {prediction}\nAssistant: gold 1\n\nUser: And now?\nA: <4 lines>'],
    ),
]


@pytest.mark.parametrize(('template', 'options', 'expected'), JUDGED, ids=range(len(JUDGED)))
def test_a_dialogue_is_judged_turn_by_turn_or_as_a_whole_as_its_prompt_says(
    template: str, options: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return f'Rating: [[{5 + len(asked)}]]'

    config = dialogues(judge, template, **options)
    (card,) = run_config(config, out=tmp_path).scorecards
    assert sorted(asked) == sorted(expected)
    assert card.value == (6.0 if len(expected) == 1 else 6.5)
    assert sum(pair.to_judge for pair in plan_run(config).pairs) == len(expected)
    experiment = Experiment.open(config)
    pair = next(experiment.pairs())
    entry = find_judge(pair.task, experiment.models)
    assert entry is not None
    replies = ['<2 lines>', '<4 lines>'] if options.get('infer_mode') != 'last' else ['<4 lines>']
    shown = JudgePair(pair, entry).previews(0, pair.data.test[0], Picked(()), replies=replies)
    assert [one.request for one in shown] == expected


def test_the_linter_takes_a_column_of_messages_for_a_dialogue() -> None:
    config = dialogues(lambda prompt: '[[1]]', '{dialogue}')
    assert not {finding.rule for finding in lint_config(config)} & {'non-string-value', 'judge-prompt', 'row-fails'}


def test_whole_dialogues_of_two_models_are_compared(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '[[A>>B]]'

    config = dialogues(judge, 'A: {prediction}\nB: {prediction2}\n{prediction_r1}/{prediction1_r2}', order='first')
    config['models'].append({'abbr': 'n', 'type': lambda prompt: 'no', 'revision': 'n'})
    cards = cards_of(config, tmp_path)
    other = 'User: Hi {prediction}\nAssistant: no\n\nUser: And now?\nAssistant: no'
    assert f'A: {WHOLE}\nB: {other}\n<2 lines>/no' in asked
    assert (cards['m'].value, cards['m'].details['further']['margin']) == (100.0, 100.0)


def test_a_template_in_a_column_gets_answers_only_and_an_answer_is_never_read_as_a_template(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '[[4]]'

    row = {'question': 'Q {own}', 'own': 'Q {question} was answered with {prediction}', 'gold': 'secret'}
    config = compared(judge, ('one',), rows=[row])
    config['models'][0]['type'] = lambda prompt: '{gold} {prediction}'
    config['datasets'][0]['eval_cfg']['evaluator'] = {
        'type': 'LMEvaluator',
        'judge_cfg': {'abbr': 'judge', 'type': judge},
        'prompt_template': {'type': 'PromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt': '{own}'}]}},
    }
    assert cards_of(config, tmp_path)['one'].value == 4.0
    assert asked == ['Q {question} was answered with {gold} {prediction}']


BAD_TALKS: list[tuple[Any, str]] = [
    ([{'role': 'robot', 'content': 'x'}], "unknown role 'robot'"),
    ([{'role': 'assistant', 'content': 'x'}], "the first message must be the user's"),
    ([{'role': 'user', 'content': 'x'}, {'role': 'system', 'content': 'y'}], 'a system message may only come first'),
    ([{'role': 'user', 'content': ['x']}], 'the content of a message must be a text'),
    ([{'role': 'user'}], 'expected messages with a role and a content'),
    ([{'role': 'user', 'content': 'x'}, 'y'], "got 'y'"),
    ([], 'expected messages'),
    (None, 'expected messages'),
]


@pytest.mark.parametrize(('talk', 'told'), BAD_TALKS, ids=range(len(BAD_TALKS)))
def test_messages_that_are_no_dialogue_are_refused_with_the_reason(talk: Any, told: str) -> None:
    with pytest.raises(RenderError, match=r"column 'dialogue': .*"):
        read_conversation(talk, 'dialogue')
    with pytest.raises(RenderError) as caught:
        read_conversation(talk, 'dialogue')
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ('infer_mode', 'expected'),
    [
        ('every', ['Be kind.\nHi {prediction}', 'Be kind.\nHi {prediction}\nanswer1\nAnd now?']),
        ('every_with_gt', ['Be kind.\nHi {prediction}', 'Be kind.\nHi {prediction}\ngold 1\nAnd now?']),
        ('last', ['Be kind.\nHi {prediction}\ngold 1\nAnd now?']),
    ],
)
@pytest.mark.parametrize('template', ['{dialogue}', {'round': [{'role': 'HUMAN', 'prompt': '{dialogue}'}]}])
def test_a_column_of_messages_is_asked_turn_by_turn(infer_mode: str, expected: list[str], template: Any) -> None:
    config = dialogues(str.upper, '{prediction}', infer_mode=infer_mode)
    config['datasets'][0]['infer_cfg']['prompt_template']['template'] = template
    assert [one.request for one in preview(config)] == expected
    config['datasets'][0]['test'] = [{'dialogue': ['Hi', 'And now?'], 'own': '', 'judge': ''}]
    assert [one.request for one in preview(config)][-1].endswith('And now?')


@pytest.mark.parametrize('nested', [True, False])
def test_a_row_may_have_several_templates_of_its_judge(nested: bool, tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return f'{{"score": {len(prompt)}}}'

    prompts = {'judge_prompt_list': ['Is {prediction} long?', 'Is {prediction} {question}?']}
    told = {'domain1': 'law', **prompts}
    rows = [{'question': 'Q', **({'judge': told} if nested else told)}, {'question': 'Q', 'judge': {}}]
    config = compared(judge, ('one',), rows=rows, multi_eval=True, type='LMEvaluator')
    evaluator = config['datasets'][0]['eval_cfg']['evaluator']
    evaluator['prompt_template'] = {'type': 'PromptTemplate', 'template': '{prediction}'}
    evaluator['dict_postprocessor'] = {'type': 'writingbench_postprocess'}
    card = cards_of(config, tmp_path)['one']
    assert sorted(asked) == ['Is one to Q long?', 'Is one to Q {question}?']
    assert (card.value, card.scored) == (pytest.approx(20.0), 1)
    assert card.details['further'] == {'category/law': pytest.approx(20.0)}
    assert 'judge_prompt_list' in results_of(tmp_path, 'one')[1].reason


def test_mt_bench_101_values_a_dialogue_by_its_weakest_turn(tmp_path: Path) -> None:
    rows = [{'question': f'{n}', 'judge': {'task': 'CM', 'multi_id': n // 2}} for n in (9, 4, 8, 6)]
    config = compared(lambda prompt: f'Score: [[{prompt[-2]}]]', ('one',), rows=rows)
    config['datasets'][0]['eval_cfg']['evaluator'] |= {
        'type': 'LMEvaluator',
        'dict_postprocessor': {'type': 'mtbench101_postprocess'},
        'prompt_template': {'type': 'PromptTemplate', 'template': '{question}.'},
    }
    card = cards_of(config, tmp_path)['one']
    assert card.value == 6.75
    assert card.details['further'] == {'weakest_turn': pytest.approx((8 + 4 + 6) / 3), 'task/CM': pytest.approx(6.0)}
