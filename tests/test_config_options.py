"""The options of an inferencer in a config: misspelt ones are reported, those of other systems left alone."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rolecall import plan_run
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.build import build_inferencer
from rolecall.experiment.opening.tasks import INFERENCER_OPTIONS, InferencerEntry


def inferring(**inferencer: object) -> dict[str, object]:
    infer = {'prompt_template': {'template': '{q}'}, 'inferencer': {'type': 'GenInferencer', **inferencer}}
    return {'datasets': [{'abbr': 'demo', 'type': 'Rows', 'test': [{'q': '1+1=?'}], 'infer_cfg': infer}]}


@pytest.mark.parametrize(
    ('misspelt', 'meant'),
    [
        ('max_out_lem', 'max_out_len'),
        ('stoping_criteria', 'stopping_criteria'),
        ('temprature', 'temperature'),
        ('generation_kwarg', 'generation_kwargs'),
        ('infer_mod', 'infer_mode'),
    ],
)
def test_a_misspelt_option_of_an_inferencer_is_an_error_with_a_suggestion(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Experiment.open(inferring(**{misspelt: 1}))
    assert caught.value.problems == (
        Problem('datasets[0].infer_cfg.inferencer', f'unknown key {misspelt!r}.', f"Did you mean '{meant}'?"),
    )


@pytest.mark.parametrize(
    'option',
    ['save_every', 'output_json_filepath', 'max_infer_workers', 'min_new_tokens', 'original_prompt_list', 'example'],
)
def test_options_that_other_systems_know_are_left_alone(option: str) -> None:
    assert Experiment.open(inferring(**{option: 1})).tasks[0].inferencer.options == {option: 1}


class Noting(dict[str, object]):
    """Options that note what they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for: set[str] = set()

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]  # one overload is enough
        self.asked_for.add(key)
        return super().get(key, default)


@pytest.mark.parametrize('name', ['GenInferencer', 'SCInferencer', 'PPLInferencer', 'CLPInferencer', 'ChatInferencer'])
def test_every_option_that_an_inferencer_asks_for_is_a_known_one(name: str) -> None:
    options = Noting()
    InferencerEntry.read(name, options)
    build_inferencer(name, options, entry={})
    assert {'labels', 'stop_words', 'tool_choice', 'max_seq_len'} <= options.asked_for <= set(INFERENCER_OPTIONS)


def test_problems_of_models_data_and_scoring_have_a_file_a_line_and_a_place(tmp_path: Path) -> None:
    file = tmp_path / 'config.py'
    file.write_text(
        """models = [dict(abbr='m', type='OpenIA', path='toy'), dict(abbr='n', type='OpenAI', path='toy', retry=-1),
    dict(abbr='o', type=lambda request: 'x')]
datasets = [dict(abbr='d', type='Rowz', infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'))),
    dict(abbr='e', type='Rows', test=[dict(q='1', a='2')], eval_cfg=dict(evaluator=dict(type='AccEvaluater')),
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}')))]
"""
    )
    with pytest.raises(ConfigError) as refused:
        plan_run(file)
    places = {
        (int(line), place.strip())
        for _, line, place in (problem.where.rsplit(':', 2) for problem in refused.value.problems)
    }
    expected = {(1, 'models[0].type'), (1, 'models[1].retry'), (3, 'datasets[0].type')}
    assert places == {*expected, (4, 'datasets[1].eval_cfg.evaluator')}
    assert len(refused.value.problems) == len(places)


@pytest.mark.parametrize(('ice_num', 'refused'), [(0, False), (1, True)])
def test_a_retriever_of_ones_own_needs_an_ice_template_only_if_it_picks_examples(ice_num: int, refused: bool) -> None:
    class Own:
        ice_separator, ice_eos_token, fixed = '\n', '\n', True

        def __init__(self) -> None:
            self.ice_num = ice_num

        def retrieve(self, train: Any, test: Any, **options: Any) -> Any:
            return iter(())

    infer_cfg = {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}, 'retriever': {'type': Own}}
    config = {'datasets': [{'abbr': 'd', 'type': 'Rows', 'test': [{'q': '1'}], 'infer_cfg': infer_cfg}]}
    with pytest.raises(ConfigError, match='no ice_template') if refused else nullcontext():
        Experiment.open(config)
