"""One answer as it grows: which token comes next, what the tokens say, and when to stop.

What is drawn at random comes from a generator that belongs to this answer alone, so who else is answered at the same
time does not matter.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rolecall.models.answering import Answering
from rolecall.models.llama.streams import Ids
from rolecall.models.llama.vocabulary import Vocabulary
from rolecall.models.telling import Tell

__all__ = ['LlamaAnswering', 'Writing', 'drawn', 'generator']


@dataclass(frozen=True, slots=True)
class LlamaAnswering(Answering):
    """Answers of the embedded engine."""

    ignore_eos: bool = False


def generator(answering: Answering, ids: Ids, *, sample: int) -> np.random.Generator | None:
    """The source of chance for an answer; None if nothing is left to chance.

    A seed, a prompt and which sample of it this is (of those asked for together) decide what comes.
    """
    if not answering.temperature:
        return None
    if answering.seed is None:
        return np.random.default_rng()
    prompt = hashlib.sha256(ids.tobytes()).digest()
    return np.random.default_rng([answering.seed & (1 << 64) - 1, sample, int.from_bytes(prompt[:8], 'little')])


def drawn(logits: npt.NDArray[np.float32], answering: Answering, chance: np.random.Generator | None) -> int:
    """The next token: temperature first, then the `top_k` likeliest, then `top_p` of the mass, then `min_p`.

    >>> drawn(np.array([0, 3, 1], np.float32), Answering(9), None)
    1
    >>> drawn(np.array([0, 3, 1], np.float32), Answering(9, temperature=1, top_k=1), np.random.default_rng(0))
    1
    """
    if chance is None or not answering.temperature:
        return int(logits.argmax())
    order = np.argsort(-logits, kind='stable')
    if answering.top_k and answering.top_k > 0:
        order = order[: answering.top_k]
    scaled = logits[order].astype(np.float64) / answering.temperature
    weights = np.exp(scaled - scaled[0])
    if answering.top_p is not None and answering.top_p < 1:
        before = np.cumsum(weights) - weights
        weights[1:][before[1:] >= answering.top_p * weights.sum()] = 0
    if answering.min_p:
        weights[weights < answering.min_p * weights[0]] = 0
    bounds = np.cumsum(weights)
    place = int(np.searchsorted(bounds, chance.random() * bounds[-1], side='right'))
    return int(order[min(place, int(np.flatnonzero(weights)[-1]))])


class Writing:
    """An answer in the making. `tell` hears its text as it grows; what may be the beginning of a stop waits."""

    def __init__(
        self, vocabulary: Vocabulary, answering: LlamaAnswering, *, room: int, tell: Tell | None = None
    ) -> None:
        """`room`: how many tokens the context has left for it."""
        self._vocabulary = vocabulary
        self._answering = answering
        self._room = room
        self._stops = [stop.encode() for stop in answering.stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self._data = bytearray()
        self._tell = tell
        self._told = 0
        self._decoder = codecs.getincrementaldecoder('utf-8')(errors='replace')
        self.tokens = 0
        self.ended = ''
        """Why it ended: `stop`, `length`, or `room`; empty while it goes on."""

    @property
    def text(self) -> str:
        """What has been written. A character that is not finished is left out; bytes that are none are U+FFFD."""
        return codecs.getincrementaldecoder('utf-8')(errors='replace').decode(bytes(self._data))

    def allowed(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logits, with the tokens ruled out that may not come now."""
        if not self._answering.ignore_eos and self.tokens >= self._answering.min_new:
            return logits
        ruled: npt.NDArray[np.float32] = logits.copy()
        ruled[list(self._vocabulary.ends)] = -np.inf
        return ruled

    def add(self, token: int) -> None:
        """Take down the next token; `ended` says whether it was the last."""
        self.tokens += 1
        vocabulary = self._vocabulary
        piece = vocabulary.bytes_of(token)
        if token in vocabulary.ends or (vocabulary.is_control(token) and _first(piece, self._stops) is not None):
            self.ended = 'stop'
            return
        if not vocabulary.is_control(token):
            seen = max(0, len(self._data) - self._longest + 1)
            self._data += piece
            place = _first(self._data, self._stops, seen)
            if place is not None:
                del self._data[place:]
                self.ended = 'stop'
                return
            if self._tell is not None:
                self._pass_on(self._tell)
        if self.tokens >= self._answering.max_new:
            self.ended = 'length'
        elif self.tokens >= self._room:
            self.ended = 'room'

    def _pass_on(self, tell: Tell) -> None:
        sure = len(self._data) - max((_begun(self._data, stop) for stop in self._stops), default=0)
        text = self._decoder.decode(bytes(self._data[self._told : sure]))
        self._told = max(self._told, sure)
        if text:
            tell(text)


def _begun(data: bytearray, stop: bytes) -> int:
    """How many bytes at the end of the data may be the beginning of a stop."""
    lengths = range(min(len(data), len(stop) - 1), 0, -1)
    return next((length for length in lengths if data.endswith(stop[:length])), 0)


def _first(data: bytes | bytearray, stops: Sequence[bytes], start: int = 0) -> int | None:
    places = [place for stop in stops if (place := data.find(stop, start)) >= 0]
    return min(places, default=None)
