"""A toy model for tests of inferencers: words are tokens, and every word has its own loss wherever it stands."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rolecall.experiment.inferencers.inferencer import Prediction
from rolecall.models.protocol import Reply, Sampling, Scored
from rolecall.runs.engine import UNANSWERED, conclude_error
from rolecall.runs.pair_run import PairRun
from rolecall.runs.prepare import prepare

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
    """An `Asker` without a run around it. It remembers what it was asked."""

    def __init__(self, say: Callable[..., Any] = lambda request: 'yes', **weighing: bool) -> None:
        self._say = say
        self._weighing = weighing
        self.generated: list[Any] = []
        self.scored: list[Any] = []
        self.sampled: list[int] = []
        self.said: list[str] = []

    async def generate(self, request: Any, sampling: Sampling, *, sample: int = 0) -> Reply:
        self.generated.append(request)
        self.sampled.append(sample)
        said = self._say(request)
        return said if isinstance(said, Reply) else Reply(said)

    async def score(self, requests: Sequence[Any], *, shown: bool = True) -> list[Scored]:
        self.scored += requests
        return [weigh(request, **self._weighing) for request in requests]


class WordTokenizer:
    """Words are tokens."""

    name = 'words'
    bos_id = eos_id = None
    adds_bos = False
    special_tokens: Mapping[str, int] = {}

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [zlib.crc32(word.encode()) % 10_000 for word in words_of(text)]

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [str(number) for number in ids]

    def offsets(self, text: str) -> list[tuple[int, int, int]]:
        ends = list(accumulate(map(len, words_of(text))))
        return list(zip(self.encode(text), [0, *ends], ends, strict=False))

    def count(self, text: str) -> int:
        return len(words_of(text))


def model(**options: Any) -> dict[str, Any]:
    return {'abbr': 'm', 'type': _answer, 'score': score, 'tokenizer': WordTokenizer(), **options}


def _answer(request: Any) -> str:
    return 'yes'


def infer_all(config: dict[str, Any], ask: Any | None = None) -> list[Prediction]:
    """What the config's inferencer concludes for each row."""

    async def conclude(run: PairRun, row: Any, picked: Any) -> Prediction:
        asker = ask or ToyAsk()
        try:
            run.compiled.check_row(row)
            return await run.inferencer.infer(run.compiled, row, picked, asker)
        except UNANSWERED as error:
            return conclude_error(error, asker)

    async def conclude_all() -> list[Prediction]:
        return [
            await conclude(run, row, picked) for run in prepare(config).pairs for _, row, picked in run.compiled.rows()
        ]

    return asyncio.run(conclude_all())
