"""A toy model for tests of inferencers: words are tokens, and every word has its own loss wherever it stands."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from rolecall.inferencers.fitting import TooLong
from rolecall.inferencers.prediction import Prediction
from rolecall.models.base import Reply, Sampling, Scored
from rolecall.runs.prepare import make_ready

WORD = re.compile(r'\s*\S+|\s+$')


def words_of(text: str) -> list[str]:
    return WORD.findall(text)


def loss_of(word: str) -> float:
    return 0.25 * (1 + zlib.crc32(word.strip().encode()) % 16)


def text_of(request: Any) -> str:
    return request if isinstance(request, str) else ' '.join(str(message['content']) for message in request)


def weigh(request: Any, *, places: bool = True, ids: bool = True) -> Scored:
    """The scores of a request: a loss for every word but the first."""
    words = words_of(text_of(request))
    ends = [sum(map(len, words[: i + 1])) for i in range(len(words))]
    offsets = tuple(zip([0, *ends], ends, strict=False)) if places and isinstance(request, str) else ()
    return Scored(
        tuple(zlib.crc32(word.encode()) % 10_000 if ids else -1 for word in words),
        tuple(None if i == 0 else -loss_of(word) for i, word in enumerate(words)),
        offsets,
    )


def score(requests: Sequence[Any]) -> list[Scored]:
    return [weigh(request) for request in requests]


class ToyAsk:
    """An `Ask` without a run around it. It remembers what it was asked."""

    def __init__(self, say: Callable[..., Any] = lambda request: 'yes', **weighing: bool) -> None:
        self._say = say
        self._weighing = weighing
        self.generated: list[Any] = []
        self.scored: list[Any] = []
        self.sampled: list[int] = []

    async def generate(self, request: Any, sampling: Sampling, *, sample: int = 0) -> Reply:
        self.generated.append(request)
        self.sampled.append(sample)
        said = self._say(request)
        return said if isinstance(said, Reply) else Reply(said)

    async def score(self, requests: Sequence[Any]) -> list[Scored]:
        self.scored += requests
        return [weigh(request, **self._weighing) for request in requests]

    def count(self, request: Any) -> int:
        return len(words_of(text_of(request)))


def model(**options: Any) -> dict[str, Any]:
    return {'abbr': 'm', 'type': _answer, 'score': score, **options}


def _answer(request: Any) -> str:
    return 'yes'


def infer_all(config: dict[str, Any], ask: Any | None = None) -> list[Prediction]:
    """What the config's inferencer concludes for each row."""

    async def conclude() -> list[Prediction]:
        concluded = []
        for ready in make_ready(config).pairs:
            for _, row, picked in ready.pair.rows():
                try:
                    concluded.append(await ready.inferencer.infer(ready, row, picked, ask or ToyAsk()))
                except TooLong as found:
                    concluded.append(Prediction(None, 'too_long', found.reason, shots_dropped=found.dropped))
        return concluded

    return asyncio.run(conclude())
