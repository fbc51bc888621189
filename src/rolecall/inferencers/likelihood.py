"""Weighing what follows: a continuation after each label, or the choices that may come next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rolecall.errors import RenderError
from rolecall.inferencers.inferencer import Asker, Prediction, only_step, requests_of, text_of_request
from rolecall.inferencers.losses import (
    Boundary,
    best,
    boundary_by_ending,
    boundary_by_labels,
    boundary_by_place,
    losses,
)
from rolecall.models.protocol import Scored
from rolecall.pairs.pair import Pair
from rolecall.prompts.pieces import Row
from rolecall.prompts.values import text_of
from rolecall.retrievers import Picked

__all__ = ['CLPInferencer', 'LLInferencer', 'LikelihoodInferencer']


@dataclass(frozen=True, slots=True)
class LLInferencer:
    """The label after which the continuation is likeliest: the row's `cont`, with which every prompt ends.

    Rows without a `cont` are decided by the log-likelihood of the answer part itself.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    column: str = 'cont'

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude."""
        step = only_step(pair, row, picked)
        requests = requests_of(step)
        texts = [text_of_request(request) for request in requests]
        scored = await ask.score(requests)
        boundaries = self._boundaries(row, scored, texts)
        weighed = [losses(one, answer_from=at.token) for one, at in zip(scored, boundaries, strict=True)]
        shown = [
            {
                'label': str(label),
                'log_likelihood': -(each.sum or 0.0),
                **each.as_dict(),
                'boundary': at.as_dict(one, text),
            }
            for (label, _), each, at, one, text in zip(step.requests, weighed, boundaries, scored, texts, strict=True)
        ]
        chosen = best({label: each.sum for (label, _), each in zip(step.requests, weighed, strict=True)})
        return Prediction(chosen, details={**step.details, 'labels': shown}, shots_dropped=step.shots_dropped)

    def _boundaries(self, row: Row, scored: Sequence[Scored], texts: Sequence[str | None]) -> list[Boundary]:
        if self.column not in row:
            return boundary_by_labels(scored, texts)
        cont = text_of(row[self.column])
        found: list[Boundary | None] = []
        for one, text in zip(scored, texts, strict=True):
            at = -1 if text is None or not cont else text.rfind(cont)
            if text is not None and at < 0:
                raise RenderError(f'the prompt does not hold the {self.column!r} of its row, {cont!r:.60}.')
            found.append(boundary_by_place(one, at, 'cont') if at >= 0 else None)
        placed = [boundary for boundary in found if boundary is not None]
        return placed if len(placed) == len(scored) else boundary_by_ending(scored)


@dataclass(frozen=True, slots=True)
class LikelihoodInferencer:
    """The log-likelihood of every continuation after its context, as a list of [log-likelihood, is_greedy]."""

    needs: ClassVar[tuple[str, ...]] = ('score',)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude. Whether a continuation is greedy is None where the model does not say."""
        step = only_step(pair, row, picked)
        scored = await ask.score(requests_of(step))
        places = pair.answers_at(row, step)
        sums: list[list[float | None]] = []
        shown = []
        for (label, request), one in zip(step.requests, scored, strict=True):
            at = places.get(label, 0)
            boundary = boundary_by_place(one, at, 'sep') if at else Boundary(0, 'all', 0)
            if boundary is None:
                raise RenderError('this model does not say where its tokens stand, so a continuation has no beginning.')
            log = math.fsum(value for value in one.logprobs[boundary.token :] if value is not None)
            greedy = all(one.greedy[boundary.token :]) if one.greedy else None
            sums.append([log, greedy])
            text = text_of_request(request)
            shown.append({'label': str(label), 'log_likelihood': log, 'boundary': boundary.as_dict(one, text)})
        return Prediction(sums, details={**step.details, 'continuations': shown}, shots_dropped=step.shots_dropped)


@dataclass(frozen=True, slots=True)
class CLPInferencer:
    """The probabilities of the row's `choices` as what comes next, of those choices alone.

    With `single_token`, the first token in which they differ decides; otherwise all of their tokens.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    single_token: bool = True

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude."""
        step = only_step(pair, row, picked)
        texts = [str(request) for _, request in step.requests]
        scored = await ask.score(requests_of(step))
        boundaries = boundary_by_labels(scored, texts)
        ends = [at.token + 1 if self.single_token else None for at in boundaries]
        logs = [
            math.fsum(value for value in one.logprobs[at.token : end] if value is not None)
            for one, at, end in zip(scored, boundaries, ends, strict=True)
        ]
        shown = [
            {'choice': choice, 'log_probability': log, 'boundary': at.as_dict(one, whole)}
            for (choice, _), log, at, one, whole in zip(step.requests, logs, boundaries, scored, texts, strict=True)
        ]
        return Prediction(_shares(logs), details={**step.details, 'choices': shown}, shots_dropped=step.shots_dropped)


def _shares(logs: list[float]) -> list[float]:
    """Log-probabilities as shares of one.

    >>> _shares([0.0, 0.0])
    [0.5, 0.5]
    """
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
