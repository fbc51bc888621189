"""Inferencers that weigh complete prompts, by losses from one pass: of the whole, and of the answer part alone.

Where the answer begins is decided on the token ids of whole prompts; context and answer are never tokenised apart. The
first token of the answer may carry the last characters of the context, and then says so.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, only_step, requests_of, text_of_request
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Scored
from rolecall.sources.retrievers import Picked
from rolecall.strings import common_length

_SPANS = 'label'
"""The column with the places of the characters that count: `[[start, end], …]`, as OpenCompass names it."""
DecideBy = Literal['whole', 'sum', 'per_token', 'per_character', 'per_byte', 'normalised', 'normalised_sum']
DECIDE_BY: tuple[DecideBy, ...] = get_args(DecideBy)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The first token of the answer, and how it was found."""

    token: int
    by: Literal['sep', 'labels', 'cont', 'all']
    """The template's sep_token; the first token in which labels differ; the row's `cont`; there is nothing before."""
    at: int | None = None
    """The character at which the answer begins."""
    shared: int = 0
    """How many characters before that the first token of the answer also carries."""

    def as_dict(self, scored: Scored, text: str | None) -> dict[str, Any]:
        """What is stored: the token's number, its id and its text."""
        record: dict[str, Any] = {'token': self.token, 'id': scored.ids[self.token], 'by': self.by}
        if scored.offsets and text is not None:
            start, stop = scored.offsets[self.token]
            record['text'] = text[start:stop]
        if self.shared:
            record['carries_context'] = self.shared
        return record


@dataclass(frozen=True, slots=True)
class Losses:
    """What one prompt costs, in nats. `whole` is the mean over all predicted tokens; the rest is the answer's alone."""

    whole: float
    tokens: int
    sum: float | None = None
    per_token: float | None = None
    per_character: float | None = None
    per_byte: float | None = None
    answer_tokens: int = 0
    normalised: float | None = None
    """Mean loss of the answer after its context, less that after `normalizing_str`."""
    normalised_sum: float | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in DECIDE_BY} | {
            'tokens': self.tokens,
            'answer_tokens': self.answer_tokens,
        }
        return {name: value for name, value in values.items() if value is not None}


def losses(scored: Scored, *, answer_from: int | None = None, answer: str | None = None) -> Losses:
    """The losses of one prompt whose answer begins at token `answer_from` and reads `answer`.

    >>> found = losses(Scored((1, 2, 3), (None, -1.0, -3.0)), answer_from=2, answer='ab')
    >>> found.whole, found.sum, found.per_character
    (2.0, 3.0, 1.5)
    """
    predicted = [-value for value in scored.logprobs if value is not None]
    whole = math.fsum(predicted) / len(predicted) if predicted else 0.0
    if answer_from is None:
        return Losses(whole, len(predicted))
    parts = [-value for value in scored.logprobs[answer_from:] if value is not None]
    total = math.fsum(parts)
    return Losses(
        whole,
        len(predicted),
        sum=total,
        per_token=_per(total, len(parts)),
        per_character=_per(total, len(answer)) if answer is not None else None,
        per_byte=_per(total, len(answer.encode('utf-8', 'surrogatepass'))) if answer is not None else None,
        answer_tokens=len(parts),
    )


def _per(total: float, amount: int) -> float | None:
    return total / amount if amount else None


def boundary_by_labels(scored: Sequence[Scored], texts: Sequence[str | None]) -> list[Boundary]:
    """The first token in which the prompts differ, for each of them; every answer keeps at least one token.

    >>> [b.token for b in boundary_by_labels([Scored((1, 2), (None, -1)), Scored((1, 2, 3), (None, -1, -1))], ['', ''])]
    [1, 1]
    """
    pairs = list(zip(scored, texts, strict=True))
    if len(scored) < 2:
        return [Boundary(min(1, len(scores.ids) - 1), 'all', None if text is None else 0) for scores, text in pairs]
    shortest = min(len(scores.ids) for scores in scored)
    token = max(0, min(common_length([_tokens(scores, text) for scores, text in pairs]), shortest - 1))
    common = _common_characters([text or '' for text in texts])
    return [
        Boundary(token, 'labels', None if text is None else scores.offsets[token][0] if scores.offsets else common)
        for scores, text in pairs
    ]


def _tokens(scored: Scored, text: str | None) -> tuple[Any, ...]:
    """The tokens as something that can be compared: their ids, or their texts where a server does not tell ids."""
    if text is None or not scored.offsets or -1 not in scored.ids:
        return scored.ids
    return tuple(text[start:stop] for start, stop in scored.offsets)


def _common_characters(texts: Sequence[str]) -> int:
    """The length of what texts share at their beginning, at least one character less than the shortest."""
    shared = common_length(texts)
    return max(0, min([shared, *(len(text) - 1 for text in texts)]))


def boundary_by_ending(scored: Sequence[Scored]) -> list[Boundary]:
    """The first token of what all prompts end with, for each of them."""
    same = common_length([scores.ids[::-1] for scores in scored])
    return [Boundary(min(len(scores.ids) - 1, max(1, len(scores.ids) - same)), 'cont') for scores in scored]


def boundary_by_place(scored: Scored, at: int, by: Literal['sep', 'cont']) -> Boundary | None:
    """The token that carries the character at which the answer begins; None where tokens have no known places."""
    for token, (start, stop) in enumerate(scored.offsets):
        if stop > at:
            return Boundary(token, by, at, max(0, at - start))
    return None


def answer_text(text: str | None, boundary: Boundary) -> str | None:
    """The answer's own characters, where they are known."""
    return None if text is None or boundary.at is None else text[boundary.at :]


def best(values: Mapping[Hashable, float | None]) -> Hashable:
    """The label with the lowest loss; of equal ones the first."""
    losses_by_label = {label: value for label, value in values.items() if value is not None}
    return min(losses_by_label, key=lambda label: losses_by_label[label])


@dataclass(frozen=True, slots=True)
class InferencePPLOnlyInferencer:
    """The loss of those tokens that carry marked characters, as `{'loss': sum, 'tokens': count}`."""

    needs: ClassVar[tuple[str, ...]] = ('score',)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
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


@dataclass(frozen=True, slots=True)
class PPLInferencer:
    """The label whose prompt costs least. Every loss is stored; `decide_by` names the one that decides.

    With `normalizing_str`, each answer is also weighed after that string instead of its context, and the difference is
    `normalised` (per token) and `normalised_sum`.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    decide_by: DecideBy = 'whole'
    normalizing_str: str | None = None

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        labels = [label for label, _ in step.requests]
        texts = [text_of_request(request) for _, request in step.requests]
        scored = await ask.score(requests_of(step))
        boundaries = _find_boundaries(labels, scored, texts, pair.answers_at(row, step))
        answers = [answer_text(text, boundary) for text, boundary in zip(texts, boundaries, strict=True)]
        losses_of_labels = [
            losses(scores, answer_from=boundary.token, answer=answer)
            for scores, boundary, answer in zip(scored, boundaries, answers, strict=True)
        ]
        if self.normalizing_str is not None and None not in answers:
            losses_of_labels = await self._normalise(
                losses_of_labels, [str(answer) for answer in answers], self.normalizing_str, ask
            )
        records = [
            {'label': _json_label(label), **each.as_dict(), 'boundary': boundary.as_dict(scores, text)}
            for label, each, boundary, scores, text in zip(
                labels, losses_of_labels, boundaries, scored, texts, strict=True
            )
        ]
        details = {**step.details, 'decide_by': self.decide_by, 'labels': records}
        return self._conclude(dict(zip(labels, losses_of_labels, strict=True)), details, step.shots_dropped)

    async def _normalise(
        self, in_context: Sequence[Losses], answers: Sequence[str], before: str, ask: Asker
    ) -> list[Losses]:
        """The losses, less what the answer alone costs."""
        texts = [before + answer for answer in answers]
        scored = await ask.score(texts, shown=False)
        boundaries = _find_boundaries(range(len(texts)), scored, texts, dict.fromkeys(range(len(texts)), len(before)))
        alone = [losses(scores, answer_from=at.token) for scores, at in zip(scored, boundaries, strict=True)]
        return [
            replace(
                with_context,
                normalised=_subtract(with_context.per_token, without.per_token),
                normalised_sum=_subtract(with_context.sum, without.sum),
            )
            for with_context, without in zip(in_context, alone, strict=True)
        ]

    def _conclude(self, by_label: Mapping[Hashable, Losses], details: Mapping[str, Any], dropped: int) -> Prediction:
        deciding = {label: getattr(each, self.decide_by) for label, each in by_label.items()}
        if None in deciding.values():
            reason = f'{self.decide_by} is not known for every label: this model does not say where its tokens stand.'
            return Prediction(None, 'failed', reason, details=details, shots_dropped=dropped)
        return Prediction(best(deciding), details=details, shots_dropped=dropped)


@dataclass(frozen=True, slots=True)
class PPLOnlyInferencer:
    """The mean token loss of the whole text, as a number."""

    needs: ClassVar[tuple[str, ...]] = ('score',)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        request = step.requests[0][1]
        [scored] = await ask.score([request])
        loss = losses(scored)
        details = {**step.details, 'sum': loss.whole * loss.tokens, 'tokens': loss.tokens}
        if size := len((text_of_request(request) or '').encode('utf-8', 'surrogatepass')):
            details['bits_per_byte'] = loss.whole * loss.tokens / math.log(2) / size
        return Prediction(loss.whole, details=details, shots_dropped=step.shots_dropped)


def _find_boundaries(
    labels: Sequence[Hashable], scored: Sequence[Scored], texts: Sequence[str | None], places: Mapping[Hashable, int]
) -> list[Boundary]:
    """Where each answer begins: at the template's sep_token, otherwise at the first token in which labels differ."""
    placed = [
        boundary_by_place(scores, places[label], 'sep')
        for label, scores, text in zip(labels, scored, texts, strict=True)
        if label in places and text is not None
    ]
    boundaries = [boundary for boundary in placed if boundary is not None]
    return boundaries if len(boundaries) == len(scored) else boundary_by_labels(scored, texts)


def _subtract(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _json_label(label: Hashable) -> Any:
    return label if label is None or isinstance(label, (str, int, float, bool)) else str(label)
