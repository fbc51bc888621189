"""Weighing what follows: a continuation after each label, or the choices that may come next."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rolecall.core.prompts.pieces import Row, text_of
from rolecall.errors import RenderError
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, only_step, requests_of, text_of_request
from rolecall.experiment.inferencers.losses import (
    Boundary,
    best,
    boundary_by_ending,
    boundary_by_labels,
    boundary_by_place,
    losses,
)
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Scored
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.sources.retrievers import Picked


@dataclass(frozen=True, slots=True)
class LLInferencer:
    """The label after which the continuation is likeliest: the row's `cont`, with which every prompt ends.

    Rows without a `cont` are decided by the log-likelihood of the answer part itself.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    column: str = 'cont'

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        requests = requests_of(step)
        texts = [text_of_request(request) for request in requests]
        scored = await ask.score(requests)
        boundaries = self._boundaries(row, scored, texts)
        weighed = [losses(scores, answer_from=at.token) for scores, at in zip(scored, boundaries, strict=True)]
        records = [
            {
                'label': str(label),
                'log_likelihood': -(each.sum or 0.0),
                **each.as_dict(),
                'boundary': at.as_dict(scores, text),
            }
            for (label, _), each, at, scores, text in zip(
                step.requests, weighed, boundaries, scored, texts, strict=True
            )
        ]
        chosen = best({label: each.sum for (label, _), each in zip(step.requests, weighed, strict=True)})
        return Prediction(chosen, details={**step.details, 'labels': records}, shots_dropped=step.shots_dropped)

    def _boundaries(self, row: Row, scored: Sequence[Scored], texts: Sequence[str | None]) -> list[Boundary]:
        if self.column not in row:
            return boundary_by_labels(scored, texts)
        cont = text_of(row[self.column])
        boundaries: list[Boundary | None] = []
        for scores, text in zip(scored, texts, strict=True):
            at = -1 if text is None or not cont else text.rfind(cont)
            if text is not None and at < 0:
                raise RenderError(f'the prompt does not hold the {self.column!r} of its row, {cont!r:.60}.')
            boundaries.append(boundary_by_place(scores, at, 'cont') if at >= 0 else None)
        placed = [boundary for boundary in boundaries if boundary is not None]
        return placed if len(placed) == len(scored) else boundary_by_ending(scored)


@dataclass(frozen=True, slots=True)
class LikelihoodInferencer:
    """The log-likelihood of every continuation after its context, as a list of [log-likelihood, is_greedy].

    A text without a context follows the model's first token (bos, or else eos), so that its own first token counts.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    counts_spaces: bool = False
    """Whether spaces at the end of a context belong to the continuation, as in lm-eval."""
    counts_bos: bool = False
    """Whether a bos token that the tokenizer puts first is weighed after another one, as in lm-eval."""
    adds_plainly: bool = False
    """Whether log-probabilities are added as lm-eval adds them, not exactly: by PyTorch in single precision where it
    runs the model, else one after the other."""

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude. Whether a continuation is greedy is None where the model does not say."""
        step = only_step(pair, row, picked)
        places = pair.answers_at(row, step)
        scored = await self._score(pair, step, places, ask)
        sums: list[list[float | None]] = []
        records = []
        for (label, request), scores in zip(step.requests, scored, strict=True):
            text = text_of_request(request)
            at = self._begin(text, places.get(label, 0))
            boundary = boundary_by_place(scores, at, 'sep') if at else Boundary(0, 'all', 0)
            if boundary is None:
                raise RenderError('this model does not say where its tokens stand, so a continuation has no beginning.')
            log = self._add([value for value in scores.logprobs[boundary.token :] if value is not None], pair)
            counted = zip(scores.greedy[boundary.token :], scores.logprobs[boundary.token :], strict=False)
            greedy = all(flag for flag, value in counted if value is not None) if scores.greedy else None
            sums.append([log, greedy])
            records.append({'label': str(label), 'log_likelihood': log, 'boundary': boundary.as_dict(scores, text)})
        return Prediction(sums, details={**step.details, 'continuations': records}, shots_dropped=step.shots_dropped)

    def _add(self, logprobs: Sequence[float], pair: Pair) -> float:
        if not self.adds_plainly:
            return math.fsum(logprobs)
        model = pair.model_entry.model if pair.model_entry else None
        add: Callable[[Sequence[float]], float] = getattr(model, 'add_logprobs', sum)
        return float(add(logprobs))

    def _begin(self, text: str | None, at: int) -> int:
        return len(text[:at].rstrip()) if self.counts_spaces and text is not None else at

    async def _score(self, pair: Pair, step: Step, places: Mapping[Hashable, int], ask: Asker) -> list[Scored]:
        """The scores of every request; texts without a context are sent as tokens, after the model's first one."""
        after_first: dict[int, list[int]] = {}
        if any(not places.get(label, 0) for label, _ in step.requests) and pair.model_entry is not None:
            tokenizer = getattr(pair.model_entry.model, 'tokenizer', None)
            for number, (label, request) in enumerate(step.requests):
                alone = isinstance(request, str) and not places.get(label, 0) and tokenizer is not None
                if ids := self._ids_after_first(str(request), tokenizer) if alone and tokenizer else None:
                    after_first[number] = ids
        plain = [request for number, (_, request) in enumerate(step.requests) if number not in after_first]
        scored = iter(await ask.score(plain) if plain else ())
        special = iter(await ask.score(list(after_first.values()), shown=False) if after_first else ())
        return [next(special if number in after_first else scored) for number in range(len(step.requests))]

    def _ids_after_first(self, text: str, tokenizer: Tokenizer) -> list[int] | None:
        """The tokens of a text after bos, or else eos; None where the tokenizer puts a bos there itself."""
        bos = tokenizer.bos_id
        first = tokenizer.eos_id if bos is None else bos
        adds_bos = tokenizer.adds_bos and bos is not None
        if first is None or (adds_bos and not self.counts_bos):
            return None
        return [first, *([first] if adds_bos else []), *tokenizer.encode(text)]


@dataclass(frozen=True, slots=True)
class CLPInferencer:
    """The probabilities of the row's `choices` as what comes next, of those choices alone.

    With `single_token`, the first token in which they differ decides; otherwise all of their tokens.
    """

    needs: ClassVar[tuple[str, ...]] = ('score',)
    single_token: bool = True

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        texts = [str(request) for _, request in step.requests]
        scored = await ask.score(requests_of(step))
        boundaries = boundary_by_labels(scored, texts)
        ends = [at.token + 1 if self.single_token else None for at in boundaries]
        logs = [
            math.fsum(value for value in scores.logprobs[at.token : end] if value is not None)
            for scores, at, end in zip(scored, boundaries, ends, strict=True)
        ]
        records = [
            {'choice': choice, 'log_probability': log, 'boundary': at.as_dict(scores, whole)}
            for (choice, _), log, at, scores, whole in zip(step.requests, logs, boundaries, scored, texts, strict=True)
        ]
        return Prediction(_shares(logs), details={**step.details, 'choices': records}, shots_dropped=step.shots_dropped)


def _shares(logs: list[float]) -> list[float]:
    """Log-probabilities as shares of one.

    >>> _shares([0.0, 0.0])
    [0.5, 0.5]
    """
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
