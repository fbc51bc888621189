"""Losses of parts of a text: of marked characters, and of all tokens in windows of a fixed size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, only_step, text_of_request
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Scored
from rolecall.sources.retrievers import Picked

_SPANS = 'label'
"""The column with the places of the characters that count: `[[start, end], …]`, as OpenCompass names it."""


@dataclass(frozen=True, slots=True)
class InferencePPLOnlyInferencer:
    """The loss of those tokens that carry marked characters, as `{'loss': sum, 'tokens': count}`."""

    needs: ClassVar[tuple[str, ...]] = ('score',)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude."""
        step = only_step(pair, row, picked)
        spans = _read_spans(row.get(_SPANS))
        if spans is None:
            return _fail(step, f'column {_SPANS!r} must be a list of [start, end], got {row.get(_SPANS)!r:.60}.')
        request = step.requests[0][1]
        [scored] = await ask.score([request])
        if not scored.offsets or text_of_request(request) is None:
            return _fail(step, 'this model does not say where its tokens stand, so marked characters have no loss.')
        counted = [
            -logprob
            for logprob, (start, stop) in zip(scored.logprobs, scored.offsets, strict=True)
            if logprob is not None and any(start < end and begin < stop for begin, end in spans)
        ]
        value = {'loss': math.fsum(counted), 'tokens': len(counted)}
        return Prediction(value, details=step.details, shots_dropped=step.shots_dropped)


@dataclass(frozen=True, slots=True)
class SWCELossInferencer:
    """The loss of a text's tokens in windows, as `{'loss': sum, 'tokens': count, 'characters': count}`.

    Each token is weighed once, after at most `block_size` tokens. A window begins `stride` tokens after the one before,
    and weighs those tokens that no window before has reached. The first token of a text has no loss.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    asks_further: ClassVar[bool] = True
    """Windows are made from the tokens of the whole text."""
    block_size: int = 1900
    stride: int = 512

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude."""
        step = only_step(pair, row, picked)
        request = step.requests[0][1]
        text = text_of_request(request)
        if text is None:
            return _fail(step, 'losses in windows need a model that takes text.')
        [scored] = await ask.score([request])
        counted = [-logprob for logprob in scored.logprobs if logprob is not None]
        if len(scored.ids) > self.block_size + 1:
            if -1 in scored.ids:
                return _fail(step, f'{len(scored.ids)} tokens need windows, and this model does not tell token ids.')
            counted = await self._weigh_windows(scored, ask)
        value = {'loss': math.fsum(counted), 'tokens': len(counted), 'characters': len(text)}
        return Prediction(value, details=step.details, shots_dropped=step.shots_dropped)

    async def _weigh_windows(self, scored: Scored, ask: Asker) -> list[float]:
        """The losses of all tokens but the first. Windows are token ids, made from the scores of the whole text."""
        windows = list(split_windows(len(scored.ids), self.block_size + 1, self.stride))
        ids = list(scored.ids)
        answers = await ask.score([ids[start:stop] for start, _, stop in windows], shown=False)
        return [
            -logprob
            for answer, (start, counts_from, _) in zip(answers, windows, strict=True)
            for logprob in answer.logprobs[counts_from - start :]
            if logprob is not None
        ]


def split_windows(length: int, size: int, stride: int) -> list[tuple[int, int, int]]:
    """Windows over `length` tokens: where each begins, the first token that it weighs, and where it ends.

    >>> split_windows(10, 5, 2)
    [(0, 0, 5), (2, 5, 7), (4, 7, 9), (6, 9, 10)]
    """
    windows = []
    start, reached = 0, 0
    while reached < length:
        stop = min(start + size, length)
        windows.append((start, reached, stop))
        start, reached = start + stride, stop
    return windows


def _read_spans(marks: Any) -> list[tuple[int, int]] | None:
    """The marked places; further numbers of a mark are left alone. None where these are not marks."""
    if not isinstance(marks, (list, tuple)):
        return None
    spans = []
    for mark in marks:
        if not isinstance(mark, (list, tuple)) or len(mark) < 2 or not all(_is_place(place) for place in mark[:2]):
            return None
        spans.append((mark[0], mark[1]))
    return spans


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _fail(step: Step, reason: str) -> Prediction:
    return Prediction(None, 'failed', reason, details=step.details, shots_dropped=step.shots_dropped)
