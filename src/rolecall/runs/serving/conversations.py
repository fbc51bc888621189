"""What a benchmark sends: conversations as plain data, rendered before the clock starts.

Rows come from an experiment, or are made of words so that each request has an exact number of tokens.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from rolecall.core.render.spans import Message, Request
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Sampling, is_messages

_MARK = '\ue0f0reply{}\ue0f1'
"""Stands for the reply to a turn until it is there."""
_MOST_TURNS = 100
_ATTEMPTS = 3
_PROBES = (8, 16)
_WORDS = """
time people way water words house world school state family student group country problem hand part place case week
company system program question work government number night point home room mother area money story fact month lot
right study book eye job word business issue side kind head far black little line car city name team minute idea
"""
Count = Callable[[Request], Awaitable[int | None]]


_UNITS = ((' ', _WORDS.split()), ('', list('etaoinshrdlu')))
"""What made-up prompts are made of, with what stands between: common words are one token each in most vocabularies,
letters in those of bytes."""


@dataclass(frozen=True, slots=True)
class BenchConversation:
    """The requests for one row, one for each turn. In later turns, marks stand for the replies to earlier ones."""

    requests: tuple[Request, ...]
    sampling: Sampling

    def word(self, turn: int, replies: Sequence[str], beginning: str = '') -> Request:
        """The request of a turn after these replies, with `beginning` before its first text."""
        request = self.requests[turn]
        for number, reply in enumerate(replies):
            request = _replace_text(request, _MARK.format(number), reply)
        return _begin_with(request, beginning) if beginning else request


def _replace_text(value: Any, mark: str, text: str) -> Any:
    if isinstance(value, str):
        return value.replace(mark, text)
    if isinstance(value, Mapping):
        return {key: _replace_text(inner, mark, text) for key, inner in value.items()}
    return [_replace_text(inner, mark, text) for inner in value] if isinstance(value, (list, tuple)) else value


def _begin_with(request: Any, beginning: str) -> Any:
    if isinstance(request, str):
        return beginning + request
    if not is_messages(request):
        return [beginning, *request]
    first, *rest = request
    content = first.get('content')
    text = {'type': 'text', 'text': beginning}
    return [{**first, 'content': [text, *content] if isinstance(content, list) else f'{beginning}{content}'}, *rest]


def read_conversations(experiment: Experiment, *, limit: int) -> list[BenchConversation]:
    """The rows of every dataset, at most `limit` of each, as the model of the experiment receives them."""
    conversations: list[BenchConversation] = []
    for pair in experiment.pairs():
        if pair.weighs:
            what = f'{pair.task.abbr} compares log-probabilities; a benchmark times generated replies.'
            raise ConfigError(Problem('bench', what, 'Use --ask generate, or leave it out with --dataset.'))
        conversations += _read_pair(pair, limit)
    if not conversations:
        raise ConfigError(Problem('bench', 'no row fits the context of the model.'))
    return conversations


def _read_pair(pair: Pair, limit: int) -> Iterator[BenchConversation]:
    marks = [_MARK.format(turn) for turn in range(_MOST_TURNS)]
    sampling = sampling_of(pair.task.inferencer.options, pair.model_entry.entry if pair.model_entry else {})
    for _, row, picked in pair.rows(limit):
        steps = [step for step, _ in pair.steps(row, picked, replies=marks) if not step.too_long]
        if steps:
            yield BenchConversation(tuple(step.requests[0][1] for step in steps), sampling)


def fix_output(conversations: list[BenchConversation], tokens: int | None) -> list[BenchConversation]:
    """The same conversations with replies of exactly this many tokens, where the server takes `ignore_eos`."""
    if tokens is None:
        return conversations
    return [replace(talk, sampling=_fix_length(talk.sampling, tokens)) for talk in conversations]


def _fix_length(sampling: Sampling, tokens: int) -> Sampling:
    extra = {**sampling.extra, 'ignore_eos': True}
    return replace(sampling, max_out_len=tokens, stop=(), extra=extra)


class PromptWriter:
    """Writes prompts of an exact number of tokens, of which the first `shared` are the same in all prompts.

    Words are shuffled, never changed, so that one count holds for every prompt of a length.
    """

    def __init__(self, count: Count, *, chat: bool, shared: int = 0) -> None:
        self._count = count
        self._chat = chat
        self._shared = shared
        self._lengths: dict[int, tuple[str, list[str]]] = {}

    async def write(self, tokens: int, reply_tokens: int) -> BenchConversation:
        """One more prompt of this length, and the length of its reply."""
        if tokens not in self._lengths:
            self._lengths[tokens] = await self._find_length(tokens)
        between, pieces = self._lengths[tokens]
        rest = pieces[self._shared + 1 :]
        random.shuffle(rest)
        request = self._request(between, [*pieces[: self._shared + 1], *rest])
        return BenchConversation((request,), _fix_length(Sampling(temperature=0.0), reply_tokens))

    def _request(self, between: str, pieces: Sequence[str]) -> Request:
        text = between.join(pieces)
        message: Message = {'role': 'user', 'content': text}
        return [message] if self._chat else text

    async def _find_length(self, tokens: int) -> tuple[str, list[str]]:
        """The words of a request of so many tokens: two short requests tell how many, and a third confirms it."""
        closest = 0
        for between, words in _UNITS:
            few, more = [await self._count_tokens(between, _repeat(words, count)) for count in _PROBES]
            count = _PROBES[0] + round((tokens - few) * (_PROBES[1] - _PROBES[0]) / max(more - few, 1))
            for _ in range(_ATTEMPTS):
                pieces = _repeat(words, max(count, 1))
                length = await self._count_tokens(between, pieces)
                if length == tokens:
                    return between, pieces
                closest = min(closest, length, key=lambda other: abs(other - tokens))
                count = len(pieces) + tokens - length
        raise ConfigError(Problem('--input-len', f'no prompt of {tokens} tokens was found; the closest has {closest}.'))

    async def _count_tokens(self, between: str, pieces: Sequence[str]) -> int:
        tokens = await self._count(self._request(between, pieces))
        if tokens is None:
            what = 'no tokenizer is on this machine, and the server does not report the tokens of a prompt.'
            remedy = 'Name a tokenizer: --set models.*.tokenizer_path=FOLDER.'
            raise ConfigError(Problem('--input-len', what, remedy))
        return tokens


def _repeat(words: Sequence[str], count: int) -> list[str]:
    return list(islice(cycle(words), count))
