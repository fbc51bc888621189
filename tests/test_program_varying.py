"""Examples that vary by row: what is sent is what the viewer shows, whatever the template, the examples and the model."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import bot, config, human, template
from rolecall import PromptTemplate
from rolecall.core import ApiRenderer, MetaTemplate, MMPromptTemplate, RawPromptTemplate, TextRenderer, Wording
from rolecall.core.program import VaryingProgram, compile
from rolecall.core.prompts.script import Joints
from rolecall.core.prompts.template import Template
from rolecall.core.render.renderers import Renderer
from rolecall.experiment.experiment import Experiment, preview
from tables import in_one

ROUND = [human('{q}'), bot('{a}')]
ICE = PromptTemplate({'round': ROUND})
TEXT = PromptTemplate('{q}{a}')
IDS = {
    'round': [
        {'role': 'HUMAN', 'begin': [1, '<H>'], 'end': [2]},
        {'role': 'BOT', 'begin': [3], 'end': [4], 'generate': True},
    ]
}
MARKS = {
    'round': [
        {'role': 'HUMAN', 'begin': '<H>', 'end': '</H>'},
        {'role': 'THOUGHTS', 'begin': '<T>', 'end': '</T>', 'prompt': 'hm'},
        {'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True},
    ]
}
TRAIN = [{'q': 's1', 'a': 'A'}, {'q': '<AIS_TEXT_START>see<AIS_CONTENT_TAG>', 'a': 'B'}, {'q': '', 'a': ''}]


def prompt(**dialogue: Any) -> PromptTemplate:
    return PromptTemplate(dialogue, ice_token='</E>')


def text(meta: Any = None) -> TextRenderer:
    return TextRenderer(MetaTemplate.read(meta) if meta else None)


@in_one
@pytest.mark.parametrize('shots', [[0], [1, 0], [2], [2, 2], [0, 2, 1]])
@pytest.mark.parametrize(
    ('asked', 'ice', 'side'),
    [
        pytest.param(prompt(begin='</E>', round=ROUND), ICE, text(IDS), id='token ids around speeches'),
        pytest.param(prompt(begin='</E>', round=ROUND), TEXT, text(IDS), id='token ids, examples are strings'),
        pytest.param(prompt(begin='</E>', round=ROUND), ICE, text({'begin': [1]}), id='token ids around the whole'),
        pytest.param(prompt(begin='Solve:</E>', round=ROUND), ICE, text(), id='words beside the token'),
        pytest.param(prompt(begin='</E></E>', round=ROUND), ICE, text(), id='the token twice'),
        pytest.param(prompt(begin='Solve:</E>~', round=ROUND), ICE, text(MARKS), id='words beside it, with roles'),
        pytest.param(
            prompt(begin=[human('{q}'), '</E>'], round=[bot('{a}')]), ICE, text(MARKS), id='the token after a speech'
        ),
        pytest.param(prompt(round=[human('{q}')], end=[bot('x'), '</E>', bot('y')]), ICE, text(MARKS), id='at the end'),
        pytest.param(prompt(begin='</E>', round=[human('{q}')]), TEXT, ApiRenderer(), id='strings for an API'),
        pytest.param(
            prompt(begin='</E>', round=ROUND),
            PromptTemplate(
                {'A': {'round': ROUND}, 'B': {'begin': ['Mind this.'], 'round': ROUND}, '': {'round': ROUND}}
            ),
            ApiRenderer(),
            id='one label has a bare string',
        ),
        pytest.param(
            MMPromptTemplate(
                {'round': [human('</E>'), {'role': 'HUMAN', 'prompt_mm': {'text': 'Q: {q}', 'image': 'file://{i}'}}]},
                ice_token='</E>',
            ),
            TEXT,
            ApiRenderer(),
            id='tagged values of an example',
        ),
        pytest.param(
            prompt(begin='</E>', round=ROUND),
            MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': {'text': '{q}'}}, bot('{a}')]}),
            ApiRenderer(),
            id='examples with parts',
        ),
        pytest.param(
            RawPromptTemplate(['</E>', {'role': 'user', 'content': '{q}'}]),
            RawPromptTemplate([{'role': 'user', 'content': '{q}'}, {'role': 'assistant', 'content': '{a}'}]),
            text(MARKS),
            id='raw messages',
        ),
    ],
)
@pytest.mark.parametrize('joints', [Joints(), Joints('', '')])
def test_what_is_sent_is_what_is_shown(
    asked: Template, ice: Template, side: Renderer, shots: list[int], joints: Joints
) -> None:
    program = VaryingProgram(Wording(asked, ice, output_column='a', joints=joints), side, train=TRAIN)
    row = {'q': '2', 'a': 'GOLD', 'i': 'cat.jpg'}
    assert program(row, shots) == program.trace(row, shots).request == program.with_shots(shots)(row)


def test_a_run_sends_the_token_ids_that_the_preview_shows() -> None:
    whole = config(
        [{'q': '2', 'a': 'GOLD'}],
        template({'begin': ['</E>'], 'round': ROUND}, ice_token='</E>'),
        template({'round': ROUND}),
        [{'q': 's1', 'a': 'A'}],
        meta=IDS,
        columns=['q'],
        output='a',
        retriever={'type': 'RandomRetriever', 'ice_num': 1},
    )
    experiment = Experiment.open(whole)
    pair = experiment.pair(experiment.tasks[0], experiment.models[0])
    sent = [request for _, row, picked in pair.rows() for _, request in pair.step(row, picked).requests]
    assert sent == [one.request for one in preview(whole)] == [[1, '<H>s1', 2, 3, 'A', 4, 1, '<H>2', 2, 3]]


@in_one
@pytest.mark.parametrize('side', [text(), text(MARKS), ApiRenderer()])
def test_a_training_row_is_worded_once(side: Renderer) -> None:
    class Counted:
        def __init__(self) -> None:
            self.taken: list[int] = []

        def __getitem__(self, index: int) -> dict[str, str]:
            self.taken.append(index)
            return {'q': f'q{index}', 'a': f'a{index}'}

    train = Counted()
    program = VaryingProgram(Wording(prompt(begin='</E>', round=ROUND), ICE, output_column='a'), side, train=train)
    for shots in ([0, 1], [1, 0], [1]):
        program({'q': '2'}, shots)
    assert train.taken == [0, 1]


@in_one
@pytest.mark.parametrize('speakers', [['BOT'], ['HUMAN'], ['THOUGHTS', 'BOT'], ['HUMAN', 'BOT'], ['THOUGHTS', 'HUMAN']])
def test_examples_that_share_a_round_with_their_neighbours_are_sent_as_shown(speakers: list[str]) -> None:
    ice = PromptTemplate({'round': [{'role': speaker, 'prompt': '{q}'} for speaker in speakers]})
    wording = Wording(prompt(begin='</E>', round=ROUND), ice, output_column='a')
    for meta in (MARKS, {'round': ['BARE', *MARKS['round']]}, {'round': [*MARKS['round'], 'BARE']}):
        varying = VaryingProgram(wording, text(meta), train=TRAIN)
        fixed = compile(wording, text(meta), shots=TRAIN[:2])
        assert varying({'q': '2'}, [0, 1]) == fixed({'q': '2'})


def test_messages_of_examples_that_meet_in_one_role_are_joined() -> None:
    system = {'role': 'SYSTEM', 'prompt': 'sys'}
    asked = prompt(begin=[system, human('first'), '</E>'], round=[human('{q}'), bot('{a}')])
    ice = PromptTemplate({'round': [human('{q}')]})
    program = VaryingProgram(Wording(asked, ice, output_column='a'), ApiRenderer(), train=TRAIN)
    assert program({'q': '2'}, [0, 0]) == [
        {'role': 'system', 'content': 'sys'},
        {'role': 'user', 'content': 'first\ns1\ns1\n2'},
    ]
    ice = PromptTemplate({'round': [human('{q}'), bot('{a}'), human('next')]})
    program = VaryingProgram(Wording(asked, ice, output_column='a'), ApiRenderer(), train=TRAIN)
    assert [message['content'] for message in program({'q': '2'}, [0])] == ['sys', 'first\ns1', 'A', 'next\n2']
