"""Weighing complete prompts by the loss of their tokens."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rolecall.core.prompts.pieces import Row
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, only_step, requests_of, text_of_request
from rolecall.experiment.inferencers.losses import (
    Boundary,
    DecideBy,
    Losses,
    answer_text,
    best,
    boundary_by_labels,
    boundary_by_place,
    losses,
)
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Scored
from rolecall.sources.retrievers import Picked


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
