"""Token counts, ids and places of tokens where the model's own tokenizer is at hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecall.models.openai.logprobs import read_echo
from rolecall.models.openai.model import build
from rolecall.models.protocol import Sampling, Scored
from rolecall.models.token_counter import TokenCounter
from rolecall.models.tokenizers.text import Offset
from rolecall.models.tokenizers.tokenizer import Tokenizer
from servers import BOS, logprob_of, pieces_of, serve, token_id

PROMPT = 'The answer is forty two'


class Words:
    """The test server's own tokenizer."""

    name = 'words'
    bos_id = 1
    eos_id = None
    special_tokens: Mapping[str, int] = {}

    def __init__(self, *, adds_bos: bool = False) -> None:
        self.adds_bos = adds_bos

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [token_id(piece) for piece in pieces_of(text)]

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def pieces(self, ids: Iterable[int]) -> list[str]:
        raise NotImplementedError

    def offsets(self, text: str) -> list[Offset]:
        found, start = [], 0
        for piece in pieces_of(text):
            found.append((token_id(piece), start, start + len(piece)))
            start += len(piece)
        return found

    def count(self, text: str) -> int:
        return len(pieces_of(text))


def test_the_tokenizer_of_these_tests_is_one() -> None:
    assert isinstance(Words(), Tokenizer)


@pytest.mark.parametrize(
    ('request_', 'count', 'with_bos'),
    [('a b c', 3, 4), ([7, 8], 2, 2), ([7, 'a b', 8], 4, 4), ([{'role': 'user', 'content': 'a'}], None, None)],
)
def test_requests_of_every_kind_are_counted(request_: Any, count: int | None, with_bos: int | None) -> None:
    assert TokenCounter({'tokenizer': Words()}).count(request_) == count
    assert TokenCounter({'tokenizer': Words(adds_bos=True)}).count(request_) == with_bos


def test_messages_are_counted_through_the_chat_template_beside_the_tokenizer(tmp_path: Path) -> None:
    template = '{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}assistant'
    (tmp_path / 'tokenizer_config.json').write_text(json.dumps({'chat_template': template}))
    counter = TokenCounter({'tokenizer': Words(), 'path': str(tmp_path)})
    assert counter.count([{'role': 'user', 'content': 'one two'}]) == 4
    assert counter.count([{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'x'}}]}]) is None
    (tmp_path / 'chat_template.jinja').write_text('{{ raise_exception("no") }}')
    assert TokenCounter({'tokenizer': Words(), 'path': str(tmp_path)}).count([{'role': 'user', 'content': 'x'}]) is None


def test_messages_are_counted_through_the_chat_template_of_the_entry() -> None:
    template = '{% for message in messages %}<{{ message.role }}> {{ message.content }} {% endfor %}'
    counter = TokenCounter({'tokenizer': Words(), 'chat_template': template})
    assert counter.count([{'role': 'user', 'content': 'one two'}]) == counter.count('<user> one two ')


def test_ids_and_texts_together_go_out_as_ids() -> None:
    async def run(url: str) -> None:
        entry = {'type': 'VLLMCustomAPI', 'model': 'toy', 'url': url, 'tokenizer': Words()}
        model = build(entry, name='toy')
        await model.generate([[5, 'a b', 6]], Sampling())
        await model.close()

    with serve() as server:
        asyncio.run(run(server.url))
        assert server.bodies[0]['prompt'] == [5, token_id('a'), token_id(' b'), 6]


@pytest.mark.parametrize('way', ['echo', 'prompt_logprobs'])
@pytest.mark.parametrize('bos', [False, True])
def test_scored_tokens_have_the_ids_of_the_tokenizer(way: str, bos: bool) -> None:
    async def run(url: str) -> Scored:
        entry = {'type': 'VLLMCustomAPI', 'model': 'toy', 'url': url, 'score': way, 'tokenizer': Words(adds_bos=bos)}
        model = build(entry, name='toy')
        try:
            return (await model.score([PROMPT]))[0]
        finally:
            await model.close()

    with serve(bos=bos) as server:
        scored = asyncio.run(run(server.url))
    first = [1] if bos else []
    pieces = pieces_of(PROMPT)
    assert scored.ids == (*first, *map(token_id, pieces))
    assert [PROMPT[start:stop] for start, stop in scored.offsets] == [*([''] if bos else []), *pieces]


def test_a_tokenizer_that_cuts_otherwise_than_the_server_is_not_believed() -> None:
    tokens = ['The answer', ' is', ' forty two']
    answer = {'choices': [{'logprobs': {'tokens': tokens, 'token_logprobs': [None, -1.0, -2.0]}}]}
    scored = read_echo({**answer, 'usage': {'prompt_tokens': 3}}, prompt=PROMPT, tokenizer=Words())
    assert scored.ids == (-1, -1, -1)
    assert scored.offsets == ((0, 10), (10, 13), (13, 23))


@pytest.mark.parametrize(
    ('prompt', 'tokens', 'kept'),
    [
        (PROMPT, [*pieces_of(PROMPT), ' generated'], 5),
        (PROMPT, pieces_of(PROMPT), 5),
        ([4, 5, 6], [BOS, 'x', 'y', 'generated'], 3),
    ],
)
def test_without_usage_the_prompt_ends_where_its_text_does(prompt: Any, tokens: list[str], kept: int) -> None:
    logprobs = [None, *map(logprob_of, tokens[1:])]
    answer = {'choices': [{'logprobs': {'tokens': tokens, 'token_logprobs': logprobs}}]}
    assert read_echo(answer, prompt=prompt).logprobs == tuple(logprobs[:kept])
