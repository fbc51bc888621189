"""Bad input gets an error that says what is wrong, where, and what to do; all problems of a config at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import API, LM, bot, config, human, requests, template
from rolecall import ConfigError, PromptTemplate, compile
from rolecall.core import MetaTemplate
from rolecall.errors import DataError, RenderError, TemplateError
from rolecall.experiment.experiment import preview
from rolecall.ui.cli.main import main

QA = [{'question': 'q', 'answer': 'a'}]
CIRCLE: dict[str, Any] = {}
CIRCLE['A'] = CIRCLE


@pytest.mark.parametrize(
    ('written', 'where', 'what'),
    [
        (3, 'template', 'expected a string or a dialogue, got int 3'),
        ({}, 'template', 'the template is empty'),
        ({'A': 3}, "template['A']", 'expected a string or a dialogue'),
        (CIRCLE, "template['A']", 'expected a string or a dialogue'),
        ({'round': 'x'}, 'template.round', 'expected a list of speeches'),
        ({'round': [3]}, 'template.round[0]', 'expected a speech, got int 3'),
        ({'round': [human('x'), '{q}']}, 'template.round[1]', 'bare strings go into begin or end'),
        ({'round': [{'prompt': 'x'}]}, 'template.round[0].role', 'expected a string, got None'),
        ({'round': [human('x', fallback_roel='B')]}, 'template.round[0]', "Did you mean 'fallback_role'?"),
        ({'round': [{'role': 'HUMAN', 'prompt': None}]}, 'template.round[0].prompt', 'expected a string'),
        ({'begin': {'role': 'X'}, 'round': []}, 'template.begin', 'a list of strings and speeches'),
        ({'round': [{'role': 'HUMAN', 'prompt_mm': {}}]}, 'template.round[0]', 'MMPromptTemplate'),
        ('x' * 9_000_000, 'template', 'the limit is 8,000,000'),
        ({'round': [human('x')] * 10_001}, 'template', '10,001 speeches'),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_template_is_refused_with_its_place(written: Any, where: str, what: str) -> None:
    with pytest.raises(TemplateError) as refused:
        PromptTemplate(written)
    assert where in [problem.where for problem in refused.value.problems]
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ('written', 'what'),
    [
        ('chatml', 'expected a mapping with a round, or a list of messages'),
        ({'rounds': []}, "Did you mean 'round'?"),
        ({'round': 'x'}, 'expected a list of roles'),
        ({'round': [{'begin': 'x'}]}, "Name the role, e.g. role='HUMAN'"),
        ({'round': [{'role': 'H', 'begni': 'x'}]}, "Did you mean 'begin'?"),
        ({'round': [{'role': 'H', 'begin': [1.5]}]}, 'expected a string or a token id, got 1.5'),
        ({'round': [{'role': 'H'}, {'role': 'H'}]}, "the role 'H' is defined twice"),
        ({'round': [{'role': 'H', 'generate': 'yes'}]}, 'expected True or False'),
        ({'round': [{'role': 'H', 'api_role': 'HUMANN'}]}, "unknown api_role 'HUMANN'"),
        ({'round': [], 'eos_token_id': 'x'}, 'expected a token id'),
        ({'round': [], 'reserved_roles': ['x']}, "expected a role, got the string 'x'"),
        ([{'role': 'user'}], 'expected a message with role and content'),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_meta_template_is_refused(written: Any, what: str) -> None:
    with pytest.raises(TemplateError) as refused:
        MetaTemplate.read(written)
    assert what in str(refused.value)


def test_all_problems_of_a_config_are_reported_together() -> None:
    whole = {
        'models': [{'type': 'OpenAI', 'meta_template': {'rond': []}}],
        'datasets': [
            {
                'type': 'Rows',
                'infer_cfg': {'prompt_template': {'template': {'round': [{'rol': 'HUMAN'}]}}, 'retriver': {}},
            },
            {
                'type': 'Rows',
                'reader_cfg': {'output_colum': 'a'},
                'infer_cfg': {'inferencer': {'type': 'GenInferenser'}},
            },
        ],
    }
    with pytest.raises(ConfigError) as refused:
        list(preview(whole))
    places = [problem.where for problem in refused.value.problems]
    assert 'datasets[0].infer_cfg' in places
    assert 'datasets[0].infer_cfg.prompt_template.template.round[0]' in places
    assert 'datasets[1].reader_cfg.output_colum' in places
    assert 'datasets[1].infer_cfg.inferencer.type' in places
    assert any(place.startswith('models[0].meta_template') for place in places)
    assert "Did you mean 'retriever'?" in str(refused.value)
    assert "Did you mean 'GenInferencer'?" in str(refused.value)


@pytest.mark.parametrize(
    ('whole', 'what'),
    [
        ({}, 'the config has no datasets'),
        ({'datasets': 'x'}, 'expected a list of dicts'),
        ({'datasets': [3]}, 'expected a dict, got int 3'),
        ({'datasets': [{'type': 'Rows'}]}, 'infer_cfg is missing'),
        ({'datasets': [{'type': 'Rows', 'infer_cfg': {}}]}, 'prompt_template and ice_template are both missing'),
        ({'datasets': [{'type': 'Rows', 'infer_cgf': {}}]}, "Did you mean 'infer_cfg'?"),
        (config(QA, {'type': 'PromptTemplat', 'template': 'x'}), "Did you mean 'PromptTemplate'?"),
        (config(QA, {'template': 'x', 'ice_tokn': 'x'}), "Did you mean 'ice_token'?"),
        (config(QA, {'type': 'PromptTemplate'}), "PromptTemplate needs the option 'template'"),
        (
            config(QA, template('x'), inferencer={'type': 'MultiTurnGenInferencer', 'infer_mode': 'evry'}),
            "Did you mean 'every'?",
        ),
        (
            config(QA, template({'A': 'a', 'B': 'b'}), inferencer={'type': 'PPLInferencer', 'labels': ['A', 'C']}),
            "no prompt for the label 'C'",
        ),
        (config(QA, template('</E>{question}', ice_token='</E>'), None, QA), 'there is no ice_template'),
        (config(QA, template('{question}'), template('{question}'), QA), 'no ice_token'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_config_is_refused(whole: Any, what: str) -> None:
    with pytest.raises(ConfigError) as refused:
        list(preview(whole))
    assert what in str(refused.value)


def test_a_row_without_a_needed_column_is_told_with_what_it_has() -> None:
    with pytest.raises(DataError, match=r"demo, row 1: no column 'question'.*The row has: quesiton, answer"):
        requests([*QA, {'quesiton': 'q', 'answer': 'a'}], template('{question}'))


def test_an_example_with_an_unknown_label_is_told() -> None:
    ice = template({'A': '{question} A', 'B': '{question} B'})
    prompt = template({'A': '</E>{question} A', 'B': '</E>{question} B'}, ice_token='</E>')
    with pytest.raises(TemplateError, match="an example has the label 'C'; the template has prompts for 'A', 'B'"):
        requests(QA, prompt, ice, [{'question': 't', 'answer': 'C'}], inferencer={'type': 'PPLInferencer'})


def test_turns_of_unequal_length_name_the_row() -> None:
    turns = {'type': 'MultiTurnPromptTemplate', 'template': {'round': [human('{question}'), bot('{answer}')]}}
    with pytest.raises(RenderError, match='demo, row 0: .*the same length: answer has 1, question has 2'):
        requests([{'question': ['a', 'b'], 'answer': ['x']}], turns, inferencer={'type': 'MultiTurnGenInferencer'})


def test_a_value_without_a_text_form_names_its_column() -> None:
    with pytest.raises(RenderError, match="column 'question': a value of type object has no text form"):
        requests([{'question': object(), 'answer': ''}], template('{question}'))


def test_a_row_that_is_no_mapping_is_told() -> None:
    with pytest.raises(RenderError, match='expected a row'):
        compile(PromptTemplate('{a}'))(['a'])  # type: ignore[arg-type]


def test_media_for_a_text_model_are_refused_before_the_run() -> None:
    media = {'type': 'MMPromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt_mm': {'image': '{image}'}}]}}
    with pytest.raises(ConfigError, match='this model only takes text'):
        requests([{'image': 'a.jpg'}], media, meta=LM)
    with pytest.raises(ConfigError, match="unknown modality 'picture'"):
        requests(
            [{'image': 'a.jpg'}], {**media, 'template': {'round': [{'role': 'HUMAN', 'prompt_mm': {'picture': ''}}]}}
        )


def test_token_ids_for_an_api_are_refused() -> None:
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN', 'begin': [1]}, API['round'][1]]}
    with pytest.raises(ConfigError, match='an API takes text'):
        requests(QA, template({'round': [human('{question}')]}), meta=meta, api=True)


def test_a_pattern_that_fits_nothing_is_told() -> None:
    with pytest.raises(ConfigError, match="no dataset matches 'dmo'.*\n.*Did you mean 'demo'"):
        list(preview(config(QA, template('{question}')), dataset='dmo'))


@pytest.mark.parametrize('model', [{'type': 'LlamaCpp'}, {'type': 'HuggingFaceCausalLM'}, {'type': 'OpenAI'}])
def test_a_path_in_the_home_of_nobody_is_an_error_or_a_name(model: dict[str, str], tmp_path: Path) -> None:
    rows = [{'question': 'q', 'answer': 'a'}]
    written = config(rows, template('{question}')) | {
        'models': [{'abbr': 'm', 'path': '~nobody-has-this-name/x.gguf', **model}]
    }
    path = tmp_path / 'config.py'
    path.write_text(''.join(f'{name} = {value!r}\n' for name, value in written.items()))
    assert main(['view', str(path)]) in (0, 1)


@pytest.mark.parametrize('api', [True, False], ids=['api', 'text'])
@pytest.mark.parametrize('meta', [LM, None], ids=['meta', 'no meta'])
def test_a_speech_without_a_prompt_is_refused_and_both_remedies_work(meta: Any, api: bool) -> None:
    if meta is None and api:
        meta = API
    speechless = {'role': 'HUMAN'}
    rows = [{'question': 'q', 'answer': 'a'}]
    with pytest.raises(ConfigError) as refused:
        list(preview(config(rows, template({'round': [speechless, bot('{answer}')]}), meta=meta, api=api)))
    assert str(refused.value) == (
        'datasets[0] × models[0].prompt_template\n'
        '  the HUMAN speech has no prompt, and the model has no default prompt for it.\n'
        "  Add prompt=… to the speech, or to the role in the meta template; prompt='' sends the markers alone."
    )
    for speech in ({**speechless, 'prompt': 'Go.'}, {**speechless, 'prompt': ''}):
        assert list(preview(config(rows, template({'round': [speech, bot('{answer}')]}), meta=meta, api=api)))
    if meta is not None:
        first, *others = meta['round']
        defaults = {**meta, 'round': [{**first, 'prompt': 'Go.'}, *others]}
        [shown] = preview(config(rows, template({'round': [speechless, bot('{answer}')]}), meta=defaults, api=api))
        assert 'Go.' in str(shown.request)
