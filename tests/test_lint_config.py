"""Linting a whole config: what is looked at, counted, ordered and left out; and that the documentation says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.errors import ConfigError
from rolecall.experiment.lint import RULES
from rolecall.experiment.lint.linter import lint_config

DOCUMENTATION = (Path(__file__).parent.parent / 'docs' / 'linter.md').read_text(encoding='utf-8')
ROWS = [{'q': f'Question {i}?', 'a': str(i)} for i in range(7)]
MODEL = {'abbr': 'm', 'type': 'HuggingFaceBaseModel', 'path': 'none', 'max_out_len': 64}
META = {'round': [{'role': 'HUMAN', 'begin': '<H>'}, {'role': 'BOT', 'begin': '<B>', 'generate': True}]}


def dataset(template: Any = 'Q: {q} {hint}', **entry: Any) -> dict[str, Any]:
    return {
        'abbr': 'demo',
        'type': 'Rows',
        'test': ROWS,
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}},
        **entry,
    }


def names(config: dict[str, Any], **options: Any) -> list[str]:
    return [finding.rule for finding in lint_config(config, **options)]


def test_a_thing_that_concerns_many_rows_is_one_finding_with_their_number() -> None:
    (finding,) = lint_config({'datasets': [dataset()]})
    assert (finding.rule, finding.where, finding.row, finding.count, finding.seen) == (
        'unfilled-field',
        'demo',
        0,
        7,
        7,
    )


def test_what_the_dataset_does_alone_is_said_once_however_many_models_there_are() -> None:
    models = [MODEL, {**MODEL, 'abbr': 'n'}]
    findings = lint_config({'datasets': [dataset('Q: {q} {hint} ')], 'models': models})
    assert [finding.where for finding in findings if finding.rule == 'unfilled-field'] == ['demo']
    assert [finding.where for finding in findings if finding.rule == 'trailing-space'] == ['demo × m', 'demo × n']


def test_the_worst_comes_first_and_the_order_is_the_same_every_time() -> None:
    config = {'datasets': [dataset('Q: {q} {hint} {Q} '), dataset(' ')], 'models': [{**MODEL, 'max_out_len': None}]}
    findings = lint_config(config)
    ranks = [('error', 'warning', 'info').index(finding.severity) for finding in findings]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 3
    assert findings == lint_config(config)


@pytest.mark.parametrize(('limit', 'seen'), [(3, 3), (200, 7), (None, 7)])
def test_only_so_many_rows_are_looked_at(limit: int | None, seen: int) -> None:
    (finding,) = lint_config({'datasets': [dataset()]}, limit=limit)
    assert finding.seen == seen


def test_datasets_and_models_are_picked_by_pattern() -> None:
    config = {'datasets': [dataset(), dataset('{q} ', abbr='other')], 'models': [MODEL, {**MODEL, 'abbr': 'n'}]}
    assert {finding.where for finding in lint_config(config, dataset='oth*', model='n')} == {'n', 'other × n'}
    with pytest.raises(ConfigError, match="no dataset matches 'x'"):
        lint_config(config, dataset='x')


@pytest.mark.parametrize(
    'config',
    [
        {'datasets': [dataset()], 'lint': {'silence': ['unfilled-field']}},
        {'datasets': [dataset(lint={'silence': ['unfilled-field']})]},
    ],
)
def test_a_config_or_an_entry_can_silence_a_rule(config: dict[str, Any]) -> None:
    assert names(config) == []


def test_a_rule_is_silenced_by_name_and_for_one_model_alone() -> None:
    quiet = {**MODEL, 'abbr': 'n', 'lint': {'silence': ['trailing-space', 'tokens-not-checked']}}
    config = {'datasets': [dataset('{q} ')], 'models': [MODEL, quiet]}
    assert [finding.where for finding in lint_config(config)] == ['demo × m', 'm']
    assert names(config, silence=['trailing-space']) == ['tokens-not-checked']


@pytest.mark.parametrize(
    ('config', 'options', 'where', 'said'),
    [
        ({'datasets': [dataset()]}, {'silence': ['unfiled-field']}, 'silence', "Did you mean 'unfilled-field'?"),
        ({'datasets': [dataset(lint={'silence': ['bose']})]}, {}, 'datasets[0].lint.silence', "Did you mean 'bos'?"),
        ({'datasets': [dataset(lint={'silence': 'bos'})]}, {}, 'datasets[0].lint.silence', 'expected a list'),
        ({'datasets': [dataset(lint={'silense': []})]}, {}, 'datasets[0].lint', "Did you mean 'silence'?"),
        ({'datasets': [dataset(lint=['bos'])]}, {}, 'datasets[0].lint', 'expected a dict'),
        (
            {'datasets': [dataset()], 'models': [{**MODEL, 'lint': {'silence': ['x']}}]},
            {},
            'models[0].lint.silence',
            'unknown rule',
        ),
    ],
)
def test_silencing_what_does_not_exist_is_an_error(
    config: dict[str, Any], options: dict[str, Any], where: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        lint_config(config, **options)
    assert raised.value.problems[0].where == where
    assert said in str(raised.value)


def test_a_config_that_cannot_be_built_is_an_error_and_no_finding() -> None:
    with pytest.raises(ConfigError, match='prompt_template and ice_template are both missing'):
        lint_config({'datasets': [dataset(infer_cfg={})]})


def test_without_rows_the_settings_are_still_looked_at() -> None:
    config = {'datasets': [dataset(type='NoSuchDataset', test=None)], 'models': [{**MODEL, 'max_out_len': None}]}
    assert names(config) == ['rows-not-at-hand', 'no-max-out-len', 'tokens-not-checked']


@pytest.mark.parametrize('by_dataset', [False, True])
def test_rows_can_be_supplied_for_a_loader_that_is_not_ours(tmp_path: Path, by_dataset: bool) -> None:
    file = tmp_path / 'rows.jsonl'
    file.write_text('{"q": "1+1=?", "a": "2"}\n' * 3, encoding='utf-8')
    files = {'test': str(file)}
    config = {'datasets': [dataset(type='NoSuchDataset', test=None)]}
    (finding,) = lint_config(config, data={'de*': files} if by_dataset else files)
    assert (finding.rule, finding.seen) == ('unfilled-field', 3)


def test_a_config_file_is_linted_with_paths_from_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / 'rows.jsonl').write_text('{"q": "1+1=?", "a": "2"}\n', encoding='utf-8')
    entry = {**dataset(type='File', path='rows.jsonl'), 'test': None}
    (tmp_path / 'config.py').write_text(f'datasets = [{entry!r}]\n', encoding='utf-8')
    assert names(tmp_path / 'config.py') == ['unfilled-field']  # type: ignore[arg-type]


def test_a_row_that_fails_is_a_finding_and_the_others_are_looked_at() -> None:
    turns = {'type': 'MultiTurnGenInferencer'}
    template = {'type': 'MultiTurnPromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt': '{q} {c}'}]}}
    uneven = {'q': ['x', 'y'], 'a': ['z']}
    config = {
        'datasets': [
            dataset(
                test=[uneven, {'q': ['x'], 'a': ['z']}], infer_cfg={'prompt_template': template, 'inferencer': turns}
            )
        ]
    }
    fails, unfilled = lint_config(config)
    assert (fails.rule, fails.row, fails.count) == ('row-fails', 0, 1)
    assert 'the same length' in fails.message
    assert (unfilled.rule, unfilled.row, unfilled.count, unfilled.seen) == ('unfilled-field', 1, 1, 2)


def test_a_row_that_cannot_be_read_ends_the_rows_and_is_a_finding() -> None:
    (fails,) = lint_config({'datasets': [dataset('{q}', test=[*ROWS, {'a': '7'}, *ROWS])]})
    assert (fails.rule, fails.row, fails.count, fails.seen) == ('row-fails', 7, 1, 8)
    assert "no column 'q'" in fails.message


BYTES = {'bytes': b'\x89PNG'}
LABELLED = {'A': '{q} A', 'B': '{q} B'}
EXAMPLES = {'type': 'FixKRetriever', 'fix_id_list': [0]}


def few_shot(retriever: dict[str, Any], train: list[dict[str, Any]], **entry: Any) -> dict[str, Any]:
    infer = {
        'ice_template': {'template': LABELLED},
        'prompt_template': {
            'template': {label: f'</E>{said}' for label, said in LABELLED.items()},
            'ice_token': '</E>',
        },
        'retriever': retriever,
        'inferencer': {'type': 'PPLInferencer'},
    }
    return dataset(infer_cfg=infer, train=train, **entry)


@pytest.mark.parametrize(
    ('entry', 'rule', 'row', 'said'),
    [
        (dataset('{q}', test=[ROWS[0], {'q': BYTES, 'a': ''}, *ROWS]), 'row-fails', 1, 'no text form'),
        (dataset('{q}', test=[ROWS[0], {'q': [BYTES], 'a': ''}, *ROWS]), 'row-fails', 1, 'no text form'),
        (few_shot(EXAMPLES, [{'q': '1+1=?', 'a': 'C'}]), 'row-fails', 0, "an example has the label 'C'"),
        (few_shot(EXAMPLES, [{'q': BYTES, 'a': 'A'}]), 'row-fails', 0, 'no text form'),
        (few_shot({**EXAMPLES, 'fix_id_list': [3]}, ROWS[:2]), 'retriever-fails', None, 'no training row 3'),
        (few_shot({'type': 'RandomRetriever', 'ice_num': 3}, ROWS[:2]), 'retriever-fails', None, 'has 2 rows'),
    ],
)
@pytest.mark.parametrize('models', [[], [MODEL]], ids=['alone', 'with a model'])
def test_a_dataset_that_fails_does_not_keep_the_others_from_being_looked_at(
    entry: dict[str, Any], rule: str, row: int | None, said: str, models: list[dict[str, Any]]
) -> None:
    config = {'datasets': [dataset(abbr='first'), entry, dataset(abbr='last')], 'models': models}
    fails, *others = lint_config(config, silence=['tokens-not-checked', 'label-boundary'])
    assert (fails.rule, fails.where, fails.row) == (rule, 'demo', row)
    assert said in fails.message
    assert [(other.rule, other.where, other.seen) for other in others] == [
        ('unfilled-field', 'first', 7),
        ('unfilled-field', 'last', 7),
    ]


def test_the_rows_after_one_without_a_text_form_are_looked_at() -> None:
    (fails, unfilled) = lint_config({'datasets': [dataset(test=[{'q': BYTES, 'a': ''}, *ROWS])]})
    assert (fails.rule, fails.row, fails.count, fails.seen) == ('row-fails', 0, 1, 8)
    assert (unfilled.rule, unfilled.row, unfilled.count, unfilled.seen) == ('unfilled-field', 1, 7, 8)


def test_an_empty_file_is_a_finding_unless_no_row_was_to_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / 'rows.jsonl').write_text('', encoding='utf-8')
    config = {'datasets': [dataset('{q}', test=str(tmp_path / 'rows.jsonl'))]}
    assert names(config) == ['no-rows']
    assert names(config, limit=0) == []


def test_malformed_lines_that_are_skipped_are_counted(tmp_path: Path) -> None:
    (tmp_path / 'rows.jsonl').write_text('{"q": "1+1=?", "a": "2"}\n{"q": "2+2\n[]\n', encoding='utf-8')
    (finding,) = lint_config(
        {'datasets': [dataset('{q}', test=str(tmp_path / 'rows.jsonl'), on_error='skip')]}, limit=1
    )
    assert (finding.rule, finding.severity, finding.where) == ('lines-left-out', 'warning', 'demo')
    assert finding.message == '2 malformed lines were left out of the test rows.'


def test_progress_is_told_row_by_row() -> None:
    told: list[tuple[int, int | None]] = []
    lint_config({'datasets': [dataset()]}, limit=3, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


VALUES = (
    st.text(max_size=40)
    | st.none()
    | st.floats()
    | st.lists(st.text(max_size=5), max_size=2)
    | st.integers()
    | st.binary(max_size=3)
    | st.lists(st.binary(max_size=3), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.binary(max_size=3), max_size=2)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({'q': VALUES, 'a': VALUES}), min_size=1, max_size=4), st.booleans())
def test_whatever_the_data_every_finding_can_be_read(test: list[dict[str, Any]], api: bool) -> None:
    model = {**MODEL, 'type': 'OpenAI'} if api else {**MODEL, 'meta_template': META}
    speeches = {'round': [{'role': 'HUMAN', 'prompt': 'Q: {q}'}, {'role': 'BOT', 'prompt': 'A: {a}'}]}
    for finding in lint_config({'datasets': [dataset(speeches, test=test)], 'models': [model]}):
        assert finding.rule in RULES
        assert finding.message
        assert finding.remedy
        assert finding.count <= finding.seen <= len(test)
        assert len(finding.example) < 400


SECTIONS = dict(re.findall(r'^### `([a-z-]+)`\n\n(.*?)(?=^##|\Z)', DOCUMENTATION, re.DOTALL | re.MULTILINE))


def test_the_documentation_has_the_rules_in_their_order() -> None:
    assert list(SECTIONS) == list(RULES)


@pytest.mark.parametrize('rule', RULES.values(), ids=list(RULES))
def test_the_documentation_of_a_rule_is_what_the_rule_says(rule: Any) -> None:
    section = SECTIONS[rule.name]
    assert section.startswith(f'*{rule.severity}.* {rule.description}\n')
    assert rule.remedy in section
    (example,) = re.findall(r'```diff\n(.*?)```', section, re.DOTALL)
    assert {'-', '+'} <= {line[0] for line in example.splitlines()}
