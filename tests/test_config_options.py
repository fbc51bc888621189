"""The options of an inferencer in a config: misspelt ones are reported, those of other systems left alone."""

from __future__ import annotations

import pytest

from rolecall.errors import ConfigError, Problem
from rolecall.inferencers.build import build_inferencer
from rolecall.pairs.entries import build_entries
from rolecall.pairs.inferencer_entries import INFERENCER_OPTIONS, InferencerEntry


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
        build_entries(inferring(**{misspelt: 1}))
    assert caught.value.problems == (
        Problem('datasets[0].infer_cfg.inferencer', f'unknown key {misspelt!r}.', f"Did you mean '{meant}'?"),
    )


@pytest.mark.parametrize(
    'option',
    ['save_every', 'output_json_filepath', 'max_infer_workers', 'min_new_tokens', 'original_prompt_list', 'example'],
)
def test_options_that_other_systems_know_are_left_alone(option: str) -> None:
    assert build_entries(inferring(**{option: 1})).tasks[0].inferencer.options == {option: 1}


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
