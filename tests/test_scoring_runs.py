"""Scores of whole runs: dialogues, choices, votes, and code of the user's own that raises."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import toys
from helpers import bot, human, template
from rolecall import ConfigError
from rolecall.runs import RunSummary, run_config
from rolecall.runs.result_files import result_objects
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.metrics.judge_replies import READINGS
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_html, report_markdown, report_terminal

ROUND = {'round': [human('{question}'), bot('{answer}')]}
CAPITALS = [{'question': ['capital of France?', 'capital of Germany?'], 'answer': ['Paris', 'Berlin']}]


def dataset(rows: list[dict[str, Any]], evaluation: Any, abbr: str = 'd', **inferencer: Any) -> dict[str, Any]:
    dialogue = inferencer.get('type') == 'MultiTurnGenInferencer'
    prompt = {'type': 'MultiTurnPromptTemplate', 'template': ROUND} if dialogue else template('{question}')
    return {
        'abbr': abbr,
        'type': 'Rows',
        'test': rows,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': prompt, 'inferencer': {'type': 'GenInferencer', **inferencer}},
        'eval_cfg': evaluation,
    }


def ran(run: Path, model: dict[str, Any], *datasets: dict[str, Any]) -> tuple[RunSummary, list[Result]]:
    summary = run_config({'models': [model], 'datasets': list(datasets)}, out=run, lint=False)
    with RunReader(run) as archive:
        return summary, list(archive.results())


def echo(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else str(prompt[-1]['content'])


def paris(prompt: Any) -> str:
    return 'Paris'


ECHO = {'abbr': 'm', 'type': echo}


# Dialogues


@pytest.mark.parametrize('evaluator', ['AccEvaluator', 'MultiTurnEvaluator', 'TriviaQAEvaluator'])
@pytest.mark.parametrize('infer_mode', ['every', 'every_with_gt'])
def test_each_turn_of_a_run_is_held_against_its_own_gold_answer(
    tmp_path: Path, evaluator: str, infer_mode: str
) -> None:
    talk = dataset(CAPITALS, {'evaluator': evaluator}, type='MultiTurnGenInferencer', infer_mode=infer_mode)
    summary, (row,) = ran(tmp_path, {'abbr': 'm', 'type': paris}, talk)
    (card,) = summary.scorecards
    assert (card.value, row.score, row.prediction) == (50.0, 0.5, ['Paris', 'Paris'])
    assert card.details['further'] == {'turn_1': 100.0, 'turn_2': 0.0}


@pytest.mark.parametrize(('answers', 'value'), [(['Paris', 'Berlin'], 0.0), ([['x'], ['Rome', 'Paris']], 100.0)])
def test_a_dialogue_asked_for_its_last_turn_has_the_last_gold_answer(
    tmp_path: Path, answers: list[Any], value: float
) -> None:
    rows = [{'question': CAPITALS[0]['question'], 'answer': answers}]
    talk = dataset(rows, {'evaluator': 'AccEvaluator'}, type='MultiTurnGenInferencer', infer_mode='last')
    summary, _ = ran(tmp_path, {'abbr': 'm', 'type': paris}, talk)
    assert summary.scorecards[0].value == value


def test_a_judge_is_asked_about_each_turn_with_its_own_question_and_gold_answer(tmp_path: Path) -> None:
    seen: list[str] = []

    def judge(prompt: Any) -> str:
        seen.append(echo(prompt))
        said, gold = seen[-1].split('|')[1:]
        return 'A' if said == gold else 'B'

    evaluator = {
        'type': 'GenericLLMEvaluator',
        'prompt_template': template('{question}|{prediction}|{obj_gold}'),
        'judge_cfg': {'abbr': 'judge', 'type': judge},
    }
    talk = dataset(CAPITALS, {'evaluator': evaluator}, type='MultiTurnGenInferencer', infer_mode='every')
    summary, (row,) = ran(tmp_path, {'abbr': 'm', 'type': paris}, talk)
    assert sorted(seen) == ['capital of France?|Paris|Paris', 'capital of Germany?|Paris|Berlin']
    assert (summary.scorecards[0].value, row.score) == (50.0, 0.5)


# Judges are part of what is shown


def judged(words: str | None, judge: Any) -> dict[str, Any]:
    asked = {} if words is None else {'prompt_template': template(words)}
    return {'evaluator': {'type': 'GenericLLMEvaluator', **asked, 'judge_cfg': {'abbr': 'judge', 'type': judge}}}


def test_a_field_of_a_judge_that_nothing_fills_stops_the_run_before_it_begins(tmp_path: Path) -> None:
    asked: list[Any] = []
    wrong = dataset(CAPITALS[:1], judged('{question}: {predction}', asked.append))
    with pytest.raises(ConfigError, match=r'(?s)prompt_template\n.*\{predction\}.*Did you mean \{prediction\}'):
        ran(tmp_path, {'abbr': 'm', 'type': asked.append}, wrong)
    assert asked == []


def test_what_a_judge_is_asked_and_replies_is_in_results_exports_and_reports(tmp_path: Path) -> None:
    rows = [{'question': 'capital of France?', 'answer': 'Paris'}]
    _, (row,) = ran(
        tmp_path, {'abbr': 'm', 'type': paris}, dataset(rows, judged('{question} {prediction}', lambda _: 'A'))
    )
    ((one,),) = [row.judged]
    assert one is not None
    assert one['reply'] == 'A'
    (exported,) = result_objects(tmp_path)
    assert exported['judged'] == [{'request': 'capital of France? Paris', **one}]
    with RunReader(tmp_path) as archive:
        assert archive.reply(one['fingerprint']).text == 'A'  # type: ignore[union-attr]
        html = report_html(StoredRun(archive))
    assert 'capital of France? Paris' in html


def test_the_judge_of_a_later_turn_sees_the_turns_before_it(tmp_path: Path) -> None:
    seen: list[str] = []

    def judge(prompt: Any) -> str:
        seen.append(echo(prompt))
        return 'A'

    talk = dataset(CAPITALS, judged('{history}{question}|{prediction}', judge), type='MultiTurnGenInferencer')
    ran(tmp_path, {'abbr': 'm', 'type': paris}, talk)
    assert sorted(seen) == [
        'User: capital of France?\nAssistant: Paris\n\ncapital of Germany?|Paris',
        'capital of France?|Paris',
    ]


def test_a_judge_without_a_template_has_one_that_shows_the_dialogue(tmp_path: Path) -> None:
    seen: list[str] = []

    def judge(prompt: Any) -> str:
        seen.append(echo(prompt))
        return 'A'

    talk = dataset(CAPITALS, judged(None, judge), type='MultiTurnGenInferencer')
    summary, _ = ran(tmp_path, {'abbr': 'm', 'type': paris}, talk)
    assert summary.scorecards[0].value == 100.0
    assert max(seen, key=len) == (
        'User: capital of France?\nAssistant: Paris\n\nUser: capital of Germany?\n\nReference answer: Berlin\n\n'
        'Answer to judge:\n<answer-767714e6>\nParis\n</answer-767714e6>\n\n'
        'Is the answer right? Reply with A if it is right, or with B if it is wrong.'
    )


def test_the_judge_s_prompt_is_shown_as_it_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def judge(prompt: Any) -> str:
        seen.append(echo(prompt))
        return 'A'

    talk = dataset(
        CAPITALS, judged('{history}{question}|{prediction}|{obj_gold}', judge), type='MultiTurnGenInferencer'
    )
    ran(tmp_path / 'run', {'abbr': 'm', 'type': paris}, talk)
    talk['eval_cfg']['evaluator']['judge_cfg'] = {'abbr': 'judge', 'type': 'HuggingFaceCausalLM', 'path': 'none'}
    file = tmp_path / 'config.py'
    file.write_text(f"models = [dict(abbr='m', type='HuggingFaceCausalLM', path='none')]\ndatasets = [{talk!r}]")
    (tmp_path / 'replies.json').write_text('["Paris", "Paris"]')
    assert main(['view', str(file), '--judge', '--json', '--replies', str(tmp_path / 'replies.json')]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one['request'] for one in shown) == sorted(seen)
    assert {one['model'] for one in shown} == {'judge'}
    kinds = {span['name'] for one in shown for span in one['spans'] if span['kind'] == 'field'}
    assert kinds >= {'question', 'prediction', 'obj_gold', 'history'}


# Code of the user's own


def to_int(reply: str) -> int:
    return int(reply)


def divides(prediction: str, gold: str) -> float:
    return 1 / 0


def forgets(prediction: str, gold: str) -> None:
    return None


class Undecided:
    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        return {'accuracy': 50.0, 'details': [{'correct': True}, {'correct': None}]}


class Complains:
    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        return {'error': 'lengths differ'}


class Breaks:
    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        raise RuntimeError('no file')


ROWS = [{'question': '3', 'answer': '3'}, {'question': 'three', 'answer': '3'}]
GOOD = dataset(ROWS, {'evaluator': 'AccEvaluator'}, 'good')


def test_a_postprocessor_that_raises_leaves_its_row_unparsed_with_the_reason(tmp_path: Path) -> None:
    bad = dataset(ROWS, {'evaluator': 'AccEvaluator', 'pred_postprocessor': {'type': to_int}}, 'bad')
    summary, rows = ran(tmp_path, ECHO, bad, GOOD)
    assert {card.dataset: card.value for card in summary.scorecards} == {'bad': 50.0, 'good': 50.0}
    first, second = [row for row in rows if row.dataset == 'bad']
    assert (first.outcome, first.extracted, first.correct, first.reason) == ('ok', 3, True, '')
    assert (second.outcome, second.correct) == ('unparsed', False)
    assert second.reason.startswith('the postprocessor to_int raised ValueError: invalid literal')


def test_the_reason_goes_once_the_postprocessor_is_mended(tmp_path: Path) -> None:
    bad = dataset(ROWS, {'evaluator': 'AccEvaluator', 'pred_postprocessor': {'type': to_int}})
    ran(tmp_path, ECHO, bad)
    _, rows = ran(tmp_path, ECHO, dataset(ROWS, {'evaluator': 'AccEvaluator'}))
    assert [(row.outcome, row.reason) for row in rows] == [('ok', ''), ('ok', '')]


RAISING = [
    (ROWS, divides, 'the evaluator divides, on row 0, raised ZeroDivisionError: division by zero.'),
    (ROWS, forgets, 'the evaluator forgets, on row 0, returned None; expected right or wrong'),
    (ROWS, Undecided, "the evaluator Undecided returned details whose 'correct' is not True or False for each of 2"),
    (ROWS, Complains, 'the evaluator Complains returned an error: lengths differ'),
    (ROWS, Breaks, 'the evaluator Breaks raised RuntimeError: no file.'),
    ([{'question': 'x', 'answer': []}], 'RougeEvaluator', 'the evaluator rouge1, on row 0, needs a gold answer'),
    ([{'question': 'x', 'answer': []}], 'BleuEvaluator', 'the evaluator bleu, on row 0, needs a gold answer'),
]


@pytest.mark.parametrize(('rows', 'evaluator', 'why'), RAISING)
def test_an_evaluator_that_raises_is_one_error_of_its_dataset_and_the_others_are_scored(
    tmp_path: Path, rows: list[dict[str, Any]], evaluator: Any, why: str
) -> None:
    summary, kept = ran(tmp_path, ECHO, dataset(rows, {'evaluator': {'type': evaluator}}, 'bad'), GOOD)
    bad, good = summary.scorecards
    assert bad.error.startswith(f'bad × m could not be scored: {why}')
    assert (bad.value, bad.scored, bad.total, dict(bad.outcomes)) == (None, 0, len(rows), {'ok': len(rows)})
    assert (good.value, good.error) == (50.0, '')
    assert summary.exit_code == 1
    with RunReader(tmp_path) as archive:
        assert why[:30] in report_markdown(StoredRun(archive))
    assert [(row.outcome, row.score) for row in kept if row.dataset == 'bad'] == [('ok', None)] * len(rows)


def test_a_gold_answer_that_cannot_be_read_is_an_error_not_a_wrong_answer(tmp_path: Path) -> None:
    evaluation = {'evaluator': 'AccEvaluator', 'dataset_postprocessor': {'type': to_int}}
    summary, _ = ran(tmp_path, ECHO, dataset([{'question': 'x', 'answer': 'x'}], evaluation))
    assert 'the gold answer of row 0: the postprocessor to_int raised ValueError' in summary.scorecards[0].error


def test_a_dataset_without_rows_is_scored_as_such(tmp_path: Path) -> None:
    summary, _ = ran(tmp_path, ECHO, dataset([], {'evaluator': 'AccEvaluator'}, 'empty'), GOOD)
    assert [(card.dataset, card.value, card.total) for card in summary.scorecards] == [
        ('empty', None, 0),
        ('good', 50.0, 2),
    ]


# Votes and choices


def voting(said: list[str]) -> dict[str, Any]:
    replies = iter(said)
    return {'abbr': 'm', 'type': lambda prompt: next(replies), 'max_workers': 1}


VOTES = [
    (['A', ' A', 'B', 'B', 'A\n'], {}, 'A', {'A': 3, 'B': 2}),
    (['7', 'seven', 'sept', ' 7', '8'], {'pred_postprocessor': {'type': to_int}}, '7', {'7': 2, '8': 1}),
]


@pytest.mark.parametrize(('said', 'reading', 'winner', 'votes'), VOTES)
def test_replies_vote_without_the_space_around_them_and_only_with_an_answer(
    tmp_path: Path, said: list[str], reading: dict[str, Any], winner: str, votes: dict[str, int]
) -> None:
    once = dataset([{'question': '?', 'answer': winner}], {'evaluator': 'AccEvaluator', **reading})
    once['infer_cfg']['inferencer'] = {'type': 'SCInferencer', 'sc_size': 5}
    summary, (row,) = ran(tmp_path, voting(said), once)
    assert (row.prediction, row.details['votes']) == (winner, votes)
    assert summary.scorecards[0].value == 100.0


def test_the_likeliest_choice_is_compared_with_the_gold_choice_or_its_place(tmp_path: Path) -> None:
    losses = {letter: toys.loss_of(letter) for letter in 'ABC'}
    best = min(losses, key=lambda letter: losses[letter])
    golds = ['A', 'B', 'C', 0, 1, 2]
    rows = [{'question': 'q', 'choices': ['A', 'B', 'C'], 'answer': gold} for gold in golds]
    pick = dataset(rows, {'evaluator': 'AccEvaluator'}, type='CLPInferencer')
    pick['infer_cfg']['prompt_template'] = template('Pick {question}: ')
    summary, kept = ran(tmp_path, toys.model(), pick)
    assert [row.correct for row in kept] == [gold in (best, 'ABC'.index(best)) for gold in golds]
    assert {row.extracted for row in kept} == {best}
    assert summary.scorecards[0].value == pytest.approx(100 / 3)


def test_an_evaluator_of_ones_own_gets_the_probabilities(tmp_path: Path) -> None:
    def mass(prediction: list[float], gold: str) -> float:
        return sum(prediction)

    pick = dataset([{'question': 'q', 'choices': ['A', 'B'], 'answer': 'A'}], {'evaluator': {'type': mass}})
    pick['infer_cfg']['inferencer'] = {'type': 'CLPInferencer'}
    summary, _ = ran(tmp_path, toys.model(), pick)
    assert summary.scorecards[0].value == pytest.approx(1.0)


# Configs that cannot be used


@pytest.mark.parametrize(
    ('written', 'message'),
    [('AccEvaluator', "Write eval_cfg=dict(evaluator='AccEvaluator')."), ([1], 'expected a dict, got [1].')],
)
def test_an_eval_cfg_that_is_no_dict_is_refused_before_the_run(tmp_path: Path, written: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ran(tmp_path, ECHO, dataset(ROWS, written))
    assert message in str(caught.value)


def test_a_cluster_that_no_row_has_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no row has the column 'qestion'") as caught:
        ran(tmp_path, ECHO, dataset(ROWS, {'evaluator': 'AccEvaluator', 'cluster': 'qestion'}))
    assert "Did you mean 'question'?" in str(caught.value)


@pytest.mark.parametrize(
    ('evaluation', 'message'),
    [
        ({'evaluator': 'AccEvaluator', 'k': [1]}, 'k counts samples, but this dataset is scored by turn.'),
        ({'evaluator': 'CircularEvaluator'}, 'counts rotations of a question; it cannot score turns.'),
    ],
)
def test_what_a_dialogue_cannot_have_is_refused_before_the_run(
    tmp_path: Path, evaluation: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ran(tmp_path, ECHO, dataset(CAPITALS, evaluation, type='MultiTurnGenInferencer', infer_mode='every'))
    assert message in str(caught.value)


def test_a_scorecard_without_an_error_says_nothing() -> None:
    assert Scorecard('d', 'm', 'accuracy', 50.0).error == ''


# Judges, and what cannot be counted


VERDICTS = [
    ('Student answer: B', None),
    ('Gold: A\nPredicted: A', None),
    ('Ground truth: A', None),
    ('Expected: A', None),
    ('The model answered: A', None),
    ('There is nothing incorrect about this answer.', True),
    ('Grade: B', False),
    ('A', True),
    ('The answer is correct.', True),
]


@pytest.mark.parametrize(('words', 'right'), VERDICTS)
def test_whose_answer_a_letter_is(words: str, right: bool | None) -> None:
    assert verdict_in(words, 'A', 'B') is right


RATINGS = [('Score: -3', -3.0), ('Score: .5', 0.5), ('**Score**: **7**', 7.0), ('[[8]]', 8.0), ('rating is good', None)]


@pytest.mark.parametrize(('words', 'rating'), RATINGS)
def test_ratings_are_read_with_sign_and_point(words: str, rating: float | None) -> None:
    assert READINGS['mtbench_postprocess'].read(words, Answer('')) == rating


def sure(prediction: Any, gold: Any) -> float:
    return 1.0 if prediction == gold else 0.0


def endless(prediction: Any, gold: Any) -> float:
    return float('nan')


def test_numbers_that_are_none_or_all_count_as_right_or_wrong_for_pass_at_k(tmp_path: Path) -> None:
    rows = [{'question': 'x', 'answer': 'x'}, {'question': 'y', 'answer': 'n'}]
    several = {**dataset(rows, {'evaluator': {'type': sure}, 'k': [1, 2]}, num_return_sequences=2), 'n': 2, 'k': [1, 2]}
    card, *_ = ran(tmp_path, ECHO, several)[0].scorecards
    assert (card.details['further']['pass@1'], card.details['further']['pass@2']) == (0.5, 0.5)


def test_a_score_that_is_no_number_is_an_error(tmp_path: Path) -> None:
    [card] = ran(tmp_path, ECHO, dataset(ROWS, {'evaluator': {'type': endless}}))[0].scorecards
    assert 'returned nan; expected right or wrong, a number' in card.error


# Groups and extractors of a run

SUMS = [{'question': 'Answer: 4', 'answer': '4'}, {'question': 'it is 5', 'answer': '5'}]


def test_a_run_scores_its_groups_and_keeps_them(tmp_path: Path) -> None:
    config = {
        'models': [ECHO],
        'datasets': [
            dataset(SUMS, {'evaluator': 'Gsm8kEvaluator', 'pred_postprocessor': 'gsm8k'}, abbr='sums'),
            dataset(SUMS, {'evaluator': 'AccEvaluator'}, abbr='texts'),
        ],
        'groups': {'all': ['sums', 'texts']},
    }
    summary = run_config(config, out=tmp_path, lint=False)
    assert [(card.dataset, card.value) for card in summary.scorecards] == [
        ('sums', 100.0),
        ('texts', 0.0),
        ('all', 50.0),
    ]
    with RunReader(tmp_path) as archive:
        stored = {card.dataset: card for card in archive.scorecards()}
    assert (stored['all'].value, stored['all'].members) == (50.0, ('sums', 'texts'))


def test_a_group_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    entry = dataset(SUMS, {'evaluator': 'AccEvaluator'})
    with pytest.raises(ConfigError, match='the group has no members'):
        run_config({'models': [ECHO], 'datasets': [entry], 'groups': {'all': []}}, out=tmp_path / 'run')
    assert not (tmp_path / 'run').exists()


def test_several_extractors_of_a_run_are_score_columns_of_their_own(tmp_path: Path) -> None:
    extractors = {'strict': {'type': 'match_answer_pattern', 'answer_pattern': 'Answer: (.+)'}, 'flexible': 'gsm8k'}
    summary, results = ran(
        tmp_path, ECHO, dataset(SUMS, {'evaluator': 'Gsm8kEvaluator', 'pred_postprocessor': extractors})
    )
    assert [(card.metric, card.value) for card in summary.scorecards] == [
        ('accuracy (strict)', 50.0),
        ('accuracy (flexible)', 100.0),
    ]
    assert [result.outcome for result in results] == ['ok', 'unparsed']


def test_each_extractor_has_its_group_row_and_the_report_says_what_extraction_does(tmp_path: Path) -> None:
    extractors = {'strict': {'type': 'match_answer_pattern', 'answer_pattern': 'Answer: (.+)'}, 'flexible': 'gsm8k'}
    several = dataset(SUMS, {'evaluator': 'Gsm8kEvaluator', 'pred_postprocessor': extractors}, abbr='several')
    single = dataset(SUMS, {'evaluator': 'Gsm8kEvaluator', 'pred_postprocessor': 'gsm8k'}, abbr='single')
    groups = {'all': {'datasets': ['several', 'single'], 'metric': 'accuracy'}, 'lacking': ['several', 'nowhere']}
    summary = run_config({'models': [ECHO], 'datasets': [several, single], 'groups': groups}, out=tmp_path)
    made = {(card.dataset, card.metric): (card.value, card.outcomes.get('unparsed', 0)) for card in summary.scorecards}
    assert made == {
        ('several', 'accuracy (strict)'): (50.0, 1),
        ('several', 'accuracy (flexible)'): (100.0, 0),
        ('single', 'accuracy'): (100.0, 0),
        ('all', 'accuracy (strict)'): (75.0, 1),
        ('all', 'accuracy (flexible)'): (100.0, 0),
        ('lacking', 'accuracy (strict)'): (None, 1),
        ('lacking', 'accuracy (flexible)'): (None, 0),
    }
    with RunReader(tmp_path) as archive:
        run = StoredRun(archive)
        report_terminal(run, Console(file=(shown := StringIO()), width=120))
        pages = shown.getvalue(), report_markdown(run), report_html(run)
    model = summary.scorecards[0].model
    for page in pages:
        assert f'several × {model}: 50.0 between flexible (100.0) and strict (50.0, 1 of 2 unparsed).' in page
        assert 'no score of nowhere' in page


def test_a_row_that_cannot_be_marked_is_failed_and_the_others_are_scored(tmp_path: Path) -> None:
    def by_column(prediction: Any, gold: Any) -> bool:
        return bool({'4': True}[gold])

    summary, results = ran(tmp_path, ECHO, dataset(SUMS, {'evaluator': by_column}))
    assert [(card.value, card.scored, card.total) for card in summary.scorecards] == [(100.0, 1, 2)]
    assert (results[1].outcome, results[1].score) == ('failed', None)
    assert "on row 1, raised KeyError: '5'" in results[1].reason
    assert summary.exit_code == 1
