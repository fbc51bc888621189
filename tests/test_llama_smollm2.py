"""The embedded model with the real weights: SmolLM2-135M-Instruct, pulled on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from rolecall.models.llama.model import LlamaModel, build
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.protocol import Sampling
from rolecall.models.pull import model_path
from rolecall.models.tokenizers.tokenizer import load_tokenizer

pytestmark = pytest.mark.heavy

T = TypeVar('T')
SHOT = 'Question: Tom has {} apples and buys {} more. How many has he?\nAnswer: {}\n\n'
SHOTS = ''.join(SHOT.format(one, two, one + two) for one, two in ((3, 4), (12, 30), (7, 9), (21, 5)))
CHAT = '<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n'


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture(scope='module')
def model() -> Iterator[LlamaModel]:
    made = build({'type': 'Embedded', 'max_seq_len': 2048, 'parallel': 4}, name='smollm2')
    yield made
    run(made.close())


def test_tokens_are_those_of_the_tokenizer_in_the_file() -> None:
    ours, theirs = LlamaVocabulary(model_path('smollm2')), load_tokenizer(model_path('smollm2'))
    for text in (SHOTS, CHAT.format('你好 😀 é'), '  12345\n\n\tx', '<|im_end|>', "it's 3.14 — “quoted”"):
        assert ours.offsets(text) == theirs.offsets(text)


def test_a_greedy_answer_is_the_same_alone_and_beside_others(model: LlamaModel) -> None:
    prompts = [CHAT.format(f'What is the capital of {country}?') for country in ('France', 'Italy', 'Japan')]
    together = run(model.generate(prompts, Sampling(max_out_len=16)))
    assert together[0].text == 'The capital of France is Paris.'
    assert together[0].reason == 'stop'
    alone = [run(model.generate([prompt], Sampling(max_out_len=16)))[0] for prompt in prompts]
    assert [reply.text for reply in alone] == [reply.text for reply in together]


def test_a_stop_string_ends_an_answer(model: LlamaModel) -> None:
    [reply] = run(model.generate([SHOTS + SHOT.format(2, 2, '')[:-3]], Sampling(max_out_len=30, stop=('\n\n', 'tion'))))
    assert reply.reason == 'stop'
    assert '\n\n' not in reply.text


def test_shared_and_full_scores_are_the_same_to_the_bit(model: LlamaModel) -> None:
    prompts = [
        f'{SHOTS}Question: {question}\nAnswer: {answer}'
        for question in ('Ann has 5 pens and loses 2. How many has she?', 'A box holds 6 eggs. How many in 3?')
        for answer in ('3', '18', 'none of them', 'I do not know')
    ]
    ours = run(model.score(prompts))
    full = LlamaModel(model._settings, name='full', share=False)
    theirs = run(full.score(prompts))
    run(full.close())
    assert [scored.logprobs for scored in ours] == [scored.logprobs for scored in theirs]


def test_the_model_knows_some_english(model: LlamaModel) -> None:
    [scored] = run(model.score(['The capital of France is Paris.']))
    assert sum(value for value in scored.logprobs[2:] if value is not None) > -8
