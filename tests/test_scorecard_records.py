"""Scorecards as runs store them: every stored key comes back, in its order, and damage is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecall.scoring.scorecard import Scorecard

HEAD: dict[str, Any] = {
    'dataset': 'd',
    'model': 'm',
    'metric': 'accuracy',
    'value': 40.0,
    'low': 30.0,
    'high': 50.0,
    'scored': 9,
    'total': 10,
    'outcomes': {'ok': 9, 'failed': 1},
}
DATASET: dict[str, Any] = {
    'unit': '%',
    'lower_is_better': False,
    'interval': 'wilson',
    'confidence': 0.95,
    'clusters': 9,
    'further': {'pass@2': 70.0},
    'further_intervals': {'pass@2': [60.0, 80.0]},
    'short_of_samples': {'pass@5': 2},
    'cut': {'rows': 1, 'of': 9, 'finished': 41.0},
    'empty': {'rows': 2, 'of': 9},
    'without_verdict': {'no letter': 1},
    'groups': [[0, 1], [2]],
    'excluded': {},
    'policies': {'failures': 'exclude', 'unparsed': 'wrong'},
    'extractor': 'gpt',
    'judge': 'gpt',
    'alias': 'short',
    'rows_note': 'a sample',
    'agreement': {'judges': ['gpt', 'claude'], 'rows': 9, 'equal': 80.0, 'alpha': None},
    'judging': {'model': 'gpt', 'rows': 9, 'input_tokens': 90},
    'not_judged': {'model': 'gpt', 'reasons': {'refused': 1}},
}
GROUP: dict[str, Any] = {
    'members': ['a', 'b'],
    'extractor': 'gpt',
    'judge': 'gpt',
    'mixed': ['accuracy', 'rating'],
    'unit': '',
    'interval': 'rows of the datasets as given',
    'confidence': 0.95,
    'clusters': 2,
    'between': [30.0, 50.0],
    'weights': {'a': 0.25, 'b': 0.75},
    'further': {'acc_stderr': 0.1},
    'cut': {'rows': 1, 'of': 9},
}
COMPARED: dict[str, Any] = {
    'unit': '%',
    'compared': {
        'x': {
            'rows': 4,
            'wins': 0,
            'ties': 0,
            'losses': 4,
            'win_rate': 0.0,
            'low': 0.0,
            'high': 60.0,
            'first': 2,
            'decided': 4,
            'both_orders': 0,
            'always_first': False,
            'order_changed': 0,
            'missing': 1,
        },
        'y': {'rows': 0, 'missing': 4},
    },
    'excluded': {'failed': 1},
}


@pytest.mark.parametrize(
    'details',
    [
        *({}, DATASET, GROUP, COMPARED, {'error': 'd × m could not be scored'}, {'baseline': True}),
        {'members': ['a', 'b'], 'missing': ['b'], 'unsupported': 'transforms'},
        {'unit': '', 'interval': '', 'confidence': 0.95, 'further': {}, 'returned': {'by': {'law': 1}}},
    ],
)
def test_a_stored_card_comes_back_with_the_same_bytes(details: dict[str, Any]) -> None:
    stored = json.dumps({**HEAD, 'details': details})
    assert json.dumps(Scorecard.from_record(json.loads(stored)).to_record()) == stored


@pytest.mark.parametrize(
    ('damage', 'place'),
    [
        ({'value': 'high'}, 'value'),
        ({'scored': 2.5}, 'scored'),
        ({'outcomes': {'ok': 'nine'}}, 'outcomes'),
        ({'dataset': None}, 'dataset'),
        ({'details': {'cut': 3}}, 'ReplyCount'),
        ({'details': {'cut': {'rows': 3}}}, "'of'"),
        ({'details': {'members': 'ab'}}, 'members'),
        ({'details': {'further': {'f1': 'high'}}}, 'further'),
        ({'details': {'further_intervals': {'f1': [1.0]}}}, 'further_intervals'),
        ({'details': {'lower_is_better': 'yes'}}, 'lower_is_better'),
    ],
)
def test_a_damaged_card_says_what_is_damaged(damage: dict[str, Any], place: str) -> None:
    with pytest.raises(TypeError, match=place):
        Scorecard.from_record({**HEAD, **damage})
