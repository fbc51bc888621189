"""Log-probabilities of prompts over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.models.openai.logprobs import place_tokens, read_echo, read_prompt_logprobs
from rolecall.models.openai.model import build
from rolecall.models.protocol import ModelError, Scored
from servers import BOS, logprob_of, pieces_of, serve, token_id

PROMPT = 'The answer is forty two'


def score(entry: dict[str, Any], *requests: Any) -> list[Scored]:
    async def run() -> list[Scored]:
        model = build({'type': 'VLLMCustomAPI', 'model': 'toy', 'score': 'echo', **entry}, name='toy')
        try:
            assert model.capabilities.score == ('score' not in entry or entry['score'] is not None)
            return await model.score(list(requests))
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize('way', ['echo', 'prompt_logprobs'])
@pytest.mark.parametrize('bos', [False, True])
def test_a_prompts_tokens_are_scored_and_placed(way: str, bos: bool) -> None:
    with serve(bos=bos) as server:
        (scored,) = score({'url': server.url, 'score': way}, PROMPT)
        assert server.bodies[0]['max_tokens'] == 1
    pieces = [BOS, *pieces_of(PROMPT)] if bos else pieces_of(PROMPT)
    assert scored.logprobs == (None, *map(logprob_of, pieces[1:]))
    assert [PROMPT[start:stop] for start, stop in scored.offsets] == ['' if piece == BOS else piece for piece in pieces]
    told = (-1, *map(token_id, pieces[1:])) if way == 'prompt_logprobs' else (-1,) * len(pieces)
    assert scored.ids == told
    assert scored.usage.input_tokens == len(pieces)


@pytest.mark.parametrize('way', ['echo', 'prompt_logprobs'])
def test_token_ids_are_scored_as_they_are(way: str) -> None:
    with serve() as server:
        (scored,) = score({'url': server.url, 'score': way}, [11, 12, 13])
        assert server.bodies[0]['prompt'] == [11, 12, 13]
    assert scored.ids == (11, 12, 13)
    assert scored.logprobs[0] is None
    assert len(scored.logprobs) == 3


def test_messages_are_scored_without_asking_for_an_answer() -> None:
    messages = [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Ho'}]
    with serve() as server:
        (scored,) = score({'type': 'VLLMCustomAPIChat', 'url': server.url, 'score': 'prompt_logprobs'}, messages)
        assert server.bodies[0]['add_generation_prompt'] is False
        assert server.bodies[0]['prompt_logprobs'] == 0
    assert scored.logprobs[0] is None
    assert all(logprob is not None for logprob in scored.logprobs[1:])


def test_several_prompts_keep_their_order() -> None:
    prompts = [f'{PROMPT} {label}' for label in 'ABCD']
    with serve() as server:
        scored = score({'url': server.url}, *prompts)
    assert [len(each.logprobs) for each in scored] == [6] * 4
    assert [each.logprobs[-1] for each in scored] == [logprob_of(f' {label}') for label in 'ABCD']


@pytest.mark.parametrize(
    'logprobs',
    [
        None,
        {'tokens': [' generated'], 'token_logprobs': [-1.0]},
        {'tokens': [*pieces_of(PROMPT), ' x'], 'token_logprobs': [None] * 6},
        {'tokens': pieces_of(PROMPT), 'token_logprobs': [None, -1.0]},
    ],
)
def test_a_server_that_scores_only_what_it_generates_is_found_out(logprobs: Any) -> None:
    whole = {'choices': [{'text': 'x', 'logprobs': logprobs, 'finish_reason': 'length'}], 'usage': {'prompt_tokens': 5}}
    with serve(whole) as server, pytest.raises(ModelError, match='returned no prompt log-probabilities') as caught:
        score({'url': server.url}, PROMPT)
    assert not caught.value.transient


def test_a_model_that_is_not_said_to_score_says_how() -> None:
    with pytest.raises(ModelError, match="score='echo' or score='prompt_logprobs'"):
        score({'url': 'http://127.0.0.1:9', 'score': None}, PROMPT)


def test_tokens_given_as_ids_are_ids() -> None:
    tokens = [f'token_id:{number}' for number in (5, 6, 7)]
    found = {'tokens': tokens, 'token_logprobs': [None, -1.0, -2.0]}
    scored = read_echo({'choices': [{'logprobs': found}], 'usage': {'prompt_tokens': 3}}, prompt='a b c')
    assert (scored.ids, scored.logprobs, scored.offsets) == ((5, 6, 7), (None, -1.0, -2.0), ())


@pytest.mark.parametrize(
    ('tokens', 'text', 'places'),
    [
        (['a', ' b'], 'a b', ((0, 1), (1, 3))),
        (['<s>', 'a', ' b'], 'a b', ((0, 0), (0, 1), (1, 3))),
        ([None, ' b'], 'a b', ((0, 1), (1, 3))),
        (['a', ' ', '�', '�', '!'], 'a 你!', ((0, 1), (1, 2), (2, 3), (3, 3), (3, 4))),
        (['<s>', 'bytes:\\xe4', 'bytes:\\xbd\\xa0', 'x'], '你x', ((0, 0), (0, 1), (1, 1), (1, 2))),
        (['a', ' c'], 'a b', ()),
        (['a'], 'a b', ()),
        ([], 'a', ()),
        (['a', None], 'ab', ()),
    ],
)
def test_tokens_find_their_places(tokens: list[str | None], text: str, places: tuple[tuple[int, int], ...]) -> None:
    assert place_tokens(tokens, text) == places


@given(st.lists(st.text(st.characters(exclude_characters='�'), min_size=1, max_size=5), min_size=1, max_size=8))
def test_places_cut_the_text_into_its_tokens(tokens: list[str]) -> None:
    if any('bytes:' in token for token in tokens):
        return
    text = ''.join(tokens)
    assert [text[start:stop] for start, stop in place_tokens(tokens, text)] == tokens


TOPS: list[Any] = [None, {'b': -0.5}, {'z': -0.2, 'c': -1.0}]


@pytest.mark.parametrize(
    ('tops', 'greedy'),
    [
        (TOPS, (False, True, False)),
        ([None, {'b': -0.5, 'x': -0.5}, {'c': -1.0}], (False, True, True)),  # a tie: no other is likelier
        (None, ()),
        ([None, {}, {'c': -1.0}], ()),
        ([None, {'b': 'high'}, {'c': -1.0}], ()),
        (TOPS[:2], ()),
    ],
    ids=['listed', 'a tie', 'not listed', 'an empty place', 'no number', 'too few places'],
)
def test_echo_says_which_tokens_are_the_likeliest(tops: Any, greedy: tuple[bool, ...]) -> None:
    found = {'tokens': ['a', 'b', 'c', '!'], 'token_logprobs': [None, -0.5, -1.0, -0.1], 'top_logprobs': tops}
    answer = {'choices': [{'logprobs': found}], 'usage': {'prompt_tokens': 3}}
    assert read_echo(answer, prompt='abc').greedy == greedy


@pytest.mark.parametrize(
    ('ranks', 'greedy'), [((1, 2), (False, True, False)), ((1, None), ()), (('1', 2), ())], ids=str
)
def test_prompt_logprobs_say_it_by_rank(ranks: tuple[Any, Any], greedy: tuple[bool, ...]) -> None:
    entries = [{str(i): {'logprob': -1.0, 'rank': rank, 'decoded_token': 'x'}} for i, rank in enumerate(ranks, 1)]
    answer = {'choices': [{}], 'prompt_logprobs': [None, *entries]}
    assert read_prompt_logprobs(answer, prompt=[0, 1, 2]).greedy == greedy
