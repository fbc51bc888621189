"""A user's own class or object as a model: used as it is, whatever it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecall import preview, run_config
from rolecall.errors import ConfigError
from rolecall.models.backends import build_model, model_kind
from rolecall.models.protocol import Capabilities, ModelError, Reply, Sampling, Scored


class OpenAI:
    """Called like one of ours."""

    def __init__(self, volume: int = 1) -> None:
        self.volume = volume

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[str]:
        return [f'{request}{"!" * self.volume}' for request in requests]


class Awaited:
    async def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[Reply]:
        return [Reply(f'{request} at {sampling.temperature}') for request in requests]


class Scoring(Awaited):
    closed = False

    def score(self, requests: Sequence[Any]) -> list[Scored]:
        return [Scored((1, 2), (None, -0.5)) for _ in requests]

    def count(self, request: Any) -> int:
        return len(request)

    def close(self) -> None:
        self.closed = True


class Whole:
    """Everything that the protocol has."""

    name, capabilities, identity, batch, max_seq_len = 'own', Capabilities(), {'model': 'whole'}, 4, 100

    async def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[Reply]:
        return [Reply('whole') for _ in requests]

    async def score(self, requests: Sequence[Any]) -> list[Scored]:
        return []

    def count(self, request: Any) -> int | None:
        return None

    async def close(self) -> None: ...


def ask(entry: dict[str, Any], request: str = 'hi') -> str:
    async def run() -> str:
        model = build_model(entry, name='m')
        try:
            return (await model.generate([request], Sampling(temperature=0.5)))[0].text
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ('entry', 'text'),
    [
        ({'type': OpenAI}, 'hi!'),
        ({'type': OpenAI, 'volume': 3, 'max_out_len': 9, 'run_cfg': {}}, 'hi!!!'),
        ({'type': OpenAI(2)}, 'hi!!'),
        ({'type': Awaited}, 'hi at 0.5'),
        ({'type': Whole}, 'whole'),
        ({'type': f'{__name__}.OpenAI'}, 'hi!'),
    ],
    ids=['class', 'options', 'object', 'awaited', 'whole', 'path'],
)
def test_a_class_or_object_with_generate_answers(entry: dict[str, Any], text: str) -> None:
    assert ask(entry) == text


def test_what_the_object_lacks_is_supplied() -> None:
    model = build_model({'type': OpenAI, 'max_seq_len': 64, 'batch_size': 8, 'volume': 2}, name='m')
    assert (model.name, model.batch, model.max_seq_len, model.capabilities.score) == ('m', 8, 64, False)
    assert model.identity['class'].endswith('OpenAI')
    assert model.identity['volume'] == 2
    with pytest.raises(ModelError, match=r'm has no score\(\)'):
        asyncio.run(model.score(['x']))


def test_what_the_object_has_is_used() -> None:
    own = Scoring()
    model = build_model({'type': own}, name='m')
    assert model.capabilities.score
    assert model.count('four') == 4
    assert asyncio.run(model.score(['x']))[0].logprobs == (None, -0.5)
    asyncio.run(model.close())
    assert own.closed


@pytest.mark.parametrize(
    ('entry', 'expected'),
    [
        ({'type': dict}, r'dict cannot answer: it has no generate\(\)'),
        ({'type': f'{__name__}.ask.nothing'}, "has no 'ask.nothing'"),
        ({'type': type('Picky', (), {'__init__': lambda self, must: None, 'generate': None})}, "Picky needs the option 'must'"),
        ({'type': type('Broken', (), {'__init__': lambda self: 1 / 0, 'generate': None})}, 'making the model Broken raised ZeroDivisionError'),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_a_model_is_refused(entry: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as refused:
        build_model(entry, name='m')
    assert refused.value.problems[0].where.startswith('m.')


@pytest.mark.parametrize('given', [['one', 'two'], 'one', [3]])
def test_generate_returns_one_reply_for_each_request(given: Any) -> None:
    wrong = type('Wrong', (), {'generate': lambda self, requests, sampling: given})
    with pytest.raises(ModelError, match='returned'):
        ask({'type': wrong})


def test_a_class_that_takes_messages_says_so() -> None:
    speaks = type('Speaks', (OpenAI,), {'capabilities': Capabilities(chat=True)})
    assert [model_kind(one) for one in (speaks, OpenAI, 'OpenAI')] == ['api', None, 'api']
    config = {
        'models': [{'abbr': 'own', 'type': speaks}],
        'datasets': [
            {'abbr': 'd', 'type': 'Rows', 'test': [{'q': 'hi'}], 'infer_cfg': {'prompt_template': {'template': '{q}'}}}
        ],
    }
    assert next(preview(config)).request == [{'role': 'user', 'content': 'hi'}]


def test_a_run_asks_a_model_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / 'mymodels.py').write_text(
        'class OpenAI:\n    def generate(self, requests, sampling):\n        return [text.upper() for text in requests]\n'
    )
    (tmp_path / 'config.py').write_text(
        "models = [dict(abbr='loud', type='mymodels.OpenAI')]\n"
        "datasets = [dict(abbr='d', type='Rows', test=[dict(q='hi', a='HI')],\n"
        "    reader_cfg=dict(input_columns=['q'], output_column='a'),\n"
        "    infer_cfg=dict(prompt_template=dict(template='{q}')), eval_cfg=dict(evaluator='AccEvaluator'))]\n"
    )
    summary = run_config(tmp_path / 'config.py', out=tmp_path / 'run')
    assert summary.outcomes == {'ok': 1}
    assert [card.model for card in summary.scorecards] == ['loud']
