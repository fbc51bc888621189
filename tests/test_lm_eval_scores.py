"""Scores of lm-evaluation-harness tasks: filters, metrics and aggregates as lm-eval has them, in whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolecall import load_config, preview, run_config
from rolecall.compat.lm_eval.task import LmTask
from rolecall.compat.lm_eval.task_file import read_task_file
from rolecall.compat.lm_eval.task_scores import TaskScores
from rolecall.errors import ConfigError
from rolecall.insight.run_source import StoredRun
from rolecall.models.protocol import Scored
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.report.page import report_html
from rolecall.ui.report.text_reports import report_markdown

GENERATE = 'task: t\ntest_split: test\ndoc_to_text: question\ndoc_to_target: answer\n'
CHOOSE = 'task: t\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: question\ndoc_to_choice: options\ndoc_to_target: right\n'
DOC = {
    'question': 'q',
    'answer': 'B',
    'options': ['x', 'yyyy'],
    'right': 1,
    'choices': ['Guilty', 'Guilty of Romance', 'Not'],
}


def scores(folder: Path, text: str, **modes: bool) -> TaskScores:
    path = folder / 'task.yaml'
    path.write_text(text)
    return TaskScores(LmTask(read_task_file(path)), **modes)


def pipeline(steps: str) -> str:
    return f'filter_list: [{{name: f, filter: [{steps}]}}]\n'


@pytest.mark.parametrize(
    ('steps', 'replies', 'expected'),
    [
        ('{function: take_first}', ['a', 'b'], 'a'),
        ('{function: take_first_k, k: 2}', ['a', 'b', 'c'], ['a', 'b']),
        ('{function: majority_vote}, {function: take_first}', ['a', 'b', 'b'], 'b'),
        ('{function: remove_whitespace}, {function: lowercase}', [' A '], ['a']),
        ('{function: uppercase}', ['a'], ['A']),
        ('{function: map, mapping_dict: {a: 1}, default_value: 0}', ['a', 'b'], [1, 0]),
        ('{function: regex}', ['x #### 1,000', 'none'], ['1,000', '[invalid]']),
        ('{function: regex, regex_pattern: "(-?[0-9]+)", group_select: -1}', ['1 then 2'], ['2']),
        ('{function: regex, regex_pattern: "(a)|(b)", fallback: none}', ['xb', 'c'], ['b', 'none']),
        ('{function: multi_choice_regex, regex_pattern: "answer is (\\\\([A-C]\\\\))"}', ['the answer is (C)'], ['(C)']),
        ('{function: multi_choice_regex, ignore_case: true}', ['guilty of romance!'], ['(B)']),
        ('{function: multi_choice_regex}', ['Final: B'], ['(B)']),
        ('{function: multi_choice_regex}', ['who knows'], ['[invalid]']),
        ('{function: regex_pos}', ["[('dog', 'NOUN'), ('runs', 'VERB')]", 'no'], [['NOUN', 'VERB'], ['invalid']]),
        ('{function: format_span}', ['Person: Ada, none $$ Country: Kenya'], ['per: ada $ loc: kenya']),
    ],
)  # fmt: skip
def test_filters(steps: str, replies: list[str], expected: Any, tmp_path: Path) -> None:
    assert scores(tmp_path, GENERATE + pipeline(steps)).apply_filters([replies], DOC) == {'f': [expected]}


def metric(text: str) -> str:
    return f'metric_list: [{text}]\n'


@pytest.mark.parametrize(
    ('options', 'reply', 'expected'),
    [
        ('', 'B', 1.0),
        ('', 'b', 0.0),
        (', ignore_case: true', 'b', 1.0),
        (', ignore_punctuation: true', 'B.', 1.0),
        (', ignore_numbers: true', 'B2', 1.0),
        (', regexes_to_ignore: ["<.*?>"]', '<x>B', 1.0),
        ('', 'B\0', 1.0),
    ],
)
def test_exact_match_has_its_options(options: str, reply: str, expected: float, tmp_path: Path) -> None:
    task = scores(tmp_path, GENERATE + metric(f'{{metric: exact_match{options}}}'))
    assert task.process(DOC, [reply]) == {'exact_match': expected}


@pytest.mark.parametrize(
    ('name', 'logs', 'expected'),
    [
        ('acc', [-2.0, -1.0], 1.0),
        ('acc', [-1.0, -1.0], 0.0),
        ('acc_norm', [-2.0, -4.0], 1.0),
        ('acc_bytes', [-2.0, -9.0], 0.0),
        ('acc_mutual_info', [-1.0, -2.0, -1.0, -9.0], 1.0),
        ('f1', [-2.0, -1.0], (1, 1)),
        ('likelihood', [-2.0, -1.0], (1, [-2.0, -1.0])),
    ],
)
def test_metrics_of_choices(name: str, logs: list[float], expected: Any, tmp_path: Path) -> None:
    task = scores(tmp_path, CHOOSE + metric(f'{{metric: {name}}}'))
    assert task.process(DOC, [(log, False) for log in logs])[name] == expected


@pytest.mark.parametrize(
    ('right', 'expected'), [('1', 1.0), ('7', 0.0), ('yyyy', 1.0), ('z', 0.0), ('[0, 1]', 1.0), ('[0]', 0.0)]
)
def test_gold_is_an_index_a_text_or_a_list(right: str, expected: float, tmp_path: Path) -> None:
    text = CHOOSE.replace('doc_to_target: right', f'doc_to_target: "{right}"')
    task = scores(tmp_path, text, many_targets=right.startswith('['))
    assert task.process(DOC, [(-2.0, False), (-1.0, False)])['acc'] == expected


def test_aggregates(tmp_path: Path) -> None:
    rolling = GENERATE + 'output_type: loglikelihood_rolling\n'
    task = scores(tmp_path, rolling)
    items = task.process({**DOC, 'answer': 'two words'}, [-9.0])
    assert items == {'word_perplexity': (-9.0, 2), 'byte_perplexity': (-9.0, 9), 'bits_per_byte': (-9.0, 9)}
    assert task.aggregate('word_perplexity', [(-9.0, 2), (-3.0, 2)]) == math.exp(3)
    assert task.aggregate('bits_per_byte', [(-9.0, 9)]) == 1 / math.log(2)
    assert scores(tmp_path, CHOOSE + metric('{metric: brier_score}')).aggregate('brier_score', [(1, [0.5, 0.5])]) == 0.5
    likelihood = scores(tmp_path, GENERATE + 'output_type: loglikelihood\n')
    assert likelihood.aggregate('perplexity', [-1.0, -3.0]) == math.exp(2)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        (metric('{metric: exact_mach}'), "unknown metric 'exact_mach'.\n  Did you mean 'exact_match'?"),
        (metric('{metric: bleu, aggregation: meen}'), "unknown aggregation 'meen'.\n  Did you mean 'mean'?"),
        (metric('{metric: rouge, hf_evaluate: true}'), 'metrics of the package `evaluate` are not supported'),
        (pipeline('{function: regx}'), "unknown filter 'regx'.\n  Did you mean 'regex'?"),
        (pipeline('{function: regex, regex_pattern: "("}'), 'not a regular expression'),
        ('metric_list: {metric: acc}\n', 'expected a list of entries with metric'),
        ('filter_list: [1]\n', 'expected a list of pipelines'),
    ],
)
def test_what_is_wrong_with_scores_stops_a_run_but_not_a_preview(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / 'task.yaml'
    path.write_text(GENERATE + text)
    config = {**load_config(path), 'models': [{'abbr': 'm', 'type': str.upper}]}
    assert next(preview(config, data={'test': ROWS})).request == 'one'  # type: ignore[dict-item]  # rows, not files
    with pytest.raises(ConfigError) as refused:
        run_config(config, out=tmp_path / 'run', data={'test': ROWS})  # type: ignore[dict-item]  # rows, not files
    assert expected in str(refused.value)


# -- whole runs --------------------------------------------------------------------------------------------------------


def run(folder: Path, text: str, rows: list[dict[str, Any]], model: dict[str, Any]) -> Any:
    path = folder / 'task.yaml'
    path.write_text(text)
    config = {**load_config(path), 'models': [{'abbr': 'm', **model}]}
    return run_config(config, out=folder / 'run', data={'test': rows})  # type: ignore[dict-item]  # rows in place of files


def score_by_letters(requests: list[str]) -> list[Scored]:
    """A token for each character, less likely the further down the alphabet it is."""
    return [
        Scored(
            tuple(map(ord, text)),
            (None, *(-float(ord(char) % 32) for char in text[1:])),
            tuple((i, i + 1) for i in range(len(text))),
        )
        for text in requests
    ]


ROWS = [
    {'question': 'one', 'options': ['aaaa', 'c'], 'right': 0, 'answer': 'A'},
    {'question': 'two', 'options': ['b', 'y'], 'right': 0, 'answer': 'B'},
]


def test_a_multiple_choice_task_runs_and_scores(tmp_path: Path) -> None:
    model = {'type': lambda request: '', 'score': score_by_letters}
    summary = run(tmp_path, CHOOSE, ROWS, model)
    [card] = summary.scorecards
    assert (card.metric, card.value, card.scored) == ('acc', 50.0, 2)  # aaaa costs 4, c costs 3
    assert card.details['further']['acc_norm'] == 100.0
    assert card.details['further']['acc_stderr'] == 50.0
    assert card.details['further']['acc_bytes'] == 100.0


def test_numbers_that_are_not_shares_stay_as_they_are(tmp_path: Path) -> None:
    text = GENERATE + metric('{metric: exact_match}, {metric: bleu}')
    [card] = run(tmp_path, text, ROWS, {'type': lambda request: 'A'}).scorecards
    assert (card.metric, card.value, card.details['unit']) == ('exact_match', 0.5, '')
    assert card.details['further']['exact_match_stderr'] == 0.5
    assert 'bleu' in card.details['further']


def test_a_rolling_task_runs_and_scores(tmp_path: Path) -> None:
    model = {'type': lambda request: '', 'score': score_by_letters}
    summary = run(
        tmp_path, GENERATE.replace('answer', 'question') + 'output_type: loglikelihood_rolling\n', ROWS, model
    )
    [card] = summary.scorecards
    lost = sum(ord(char) % 32 for char in 'ne' + 'wo')
    assert card.metric == 'word_perplexity'
    assert card.value == pytest.approx(math.exp(lost / 2))


def test_a_generation_task_runs_through_several_pipelines_and_repeats(tmp_path: Path) -> None:
    replies = iter(['A', 'B', 'B', 'B', 'b', 'B'])
    text = GENERATE + 'repeats: 3\nfilter_list:\n'
    text += '  - {name: first, filter: [{function: take_first}]}\n'
    text += '  - {name: vote, filter: [{function: majority_vote}, {function: take_first}]}\n'
    summary = run(tmp_path, text, ROWS, {'type': lambda request: next(replies), 'max_workers': 1, 'concurrency': 1})
    [card] = summary.scorecards
    assert card.metric == 'exact_match,first'
    assert card.details['further']['exact_match,first'] == 100.0
    assert card.details['further']['exact_match,vote'] == 50.0


def score_likeliest_a(requests: list[str]) -> list[Scored]:
    """As `score_by_letters`, with the word that only `a` is what the model would have written."""
    return [replace(one, greedy=tuple(chr(token) in 'a ' for token in one.ids)) for one in score_by_letters(requests)]


def test_accuracy_of_a_continuation_is_whether_the_model_would_have_written_it(tmp_path: Path) -> None:
    text = 'task: t\ntest_split: test\noutput_type: loglikelihood\n'
    text += 'doc_to_text: question\ndoc_to_target: "{{options[0]}}"\n'
    [card] = run(tmp_path, text, ROWS, {'type': lambda request: '', 'score': score_likeliest_a}).scorecards
    assert card.metric == 'perplexity'
    assert card.details['further']['acc'] == 0.5  # aaaa, not b


def test_without_knowing_what_a_model_would_have_written_there_is_no_accuracy(tmp_path: Path) -> None:
    text = 'task: t\ntest_split: test\noutput_type: loglikelihood\n'
    text += 'doc_to_text: question\ndoc_to_target: "{{options[0]}}"\n'
    [card] = run(tmp_path, text, ROWS, {'type': lambda request: '', 'score': score_by_letters}).scorecards
    assert 'this model does not say' in card.error


def test_a_group_averages_its_tasks_by_size_or_plainly_with_lm_evals_standard_error(tmp_path: Path) -> None:
    (tmp_path / 'small.yaml').write_text(CHOOSE.replace('task: t', 'task: small\ntask_alias: few'))
    (tmp_path / 'large.yaml').write_text(
        CHOOSE.replace('task: t', 'task: large').replace('test_split: test', 'test_split: more')
    )
    (tmp_path / 'group.yaml').write_text(
        'group: both\ntask: [small, large]\naggregate_metric_list:\n'
        '  - {metric: acc}\n  - {metric: acc_norm, weight_by_size: false}\n'
    )
    config = {
        **load_config(tmp_path / 'group.yaml'),
        'models': [{'abbr': 'm', 'type': lambda request: '', 'score': score_by_letters}],
    }
    data = {'test': ROWS, 'more': [ROWS[1]] * 3 + [ROWS[0]]}
    summary = run_config(config, out=tmp_path / 'run', data=data)  # type: ignore[arg-type]  # rows in place of files
    cards = {(card.dataset, card.metric): card for card in summary.scorecards}
    assert cards['both', 'acc'].value == pytest.approx(100 * (2 * 0.5 + 4 * 0.75) / 6)
    errors = [0.5, 0.25]  # of 1 of 2 and 3 of 4
    pooled = math.sqrt((1 * 2 * errors[0] ** 2 + 3 * 4 * errors[1] ** 2) / (6 - 2) / 6)
    assert cards['both', 'acc'].details['further']['acc_stderr'] == pytest.approx(100 * pooled)
    assert cards['both (acc_norm)', 'acc_norm'].value == 100.0
    assert cards['small', 'acc'].details['alias'] == 'few'
    with RunReader(tmp_path / 'run') as reader:
        markdown, page = report_markdown(StoredRun(reader)), report_html(StoredRun(reader))
    for said in (markdown, page):
        assert '(few)' in said
        assert 'acc 50.0 ± 50.0 stderr' in said


def test_a_task_that_does_not_list_a_metric_is_no_member_for_it(tmp_path: Path) -> None:
    (tmp_path / 'one.yaml').write_text(CHOOSE.replace('task: t', 'task: one'))
    (tmp_path / 'two.yaml').write_text(CHOOSE.replace('task: t', 'task: two') + 'metric_list:\n  - {metric: acc}\n')
    (tmp_path / 'three.yaml').write_text(
        CHOOSE.replace('task: t', 'task: three') + 'metric_list:\n  - {metric: acc}\n  - {metric: acc_norm}\n'
    )
    (tmp_path / 'group.yaml').write_text(
        'group: all\ntask: [one, two, three]\naggregate_metric_list:\n  - {metric: acc}\n  - {metric: acc_norm}\n'
    )
    groups = {group['name']: group['datasets'] for group in load_config(tmp_path / 'group.yaml')['groups']}
    assert groups == {'all': ['one', 'two', 'three'], 'all (acc_norm)': ['one', 'three']}
