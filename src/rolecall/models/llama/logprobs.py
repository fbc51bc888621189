"""Log-probabilities of prompts. Shared prefixes are computed once.

A token's log-probability comes from the logits after the token before it. So prompts that differ only in their last
token need only what they share, and the last token of a prompt is never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rolecall.models.llama.streams import CachedTokens, Ids, Rows, Streams, shared_length

Numbers = npt.NDArray[np.float64]
_ROWS = 16
_STREAM = 0


@dataclass(frozen=True, slots=True, eq=False)
class PromptLoss:
    """The log-probabilities of a prompt's tokens (of the first, NaN), and how many tokens were computed for it.

    A positive value marks the likeliest token at its position; its log-probability is the negative.
    """

    logprobs: Numbers
    computed: int


@dataclass(slots=True, eq=False)
class _Work:
    """Prompts ordered so that shared prefixes stay in the stream."""

    prompts: Sequence[Ids]
    shares: Sequence[int]
    """How many tokens each prompt has in common with the one before it."""
    forks: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Where a later prompt departs from one already computed, with the log-probability of its next token."""

    def leaving(self, number: int, start: int) -> list[tuple[int, int]]:
        """The later prompts that depart from prompt `number` after token `start`: where, and which."""
        forks = []
        shared = len(self.prompts[number])
        for later in range(number + 1, len(self.prompts)):
            shared = min(shared, self.shares[later])
            if shared <= start:
                break
            if shared < len(self.prompts[later]):
                forks.append((shared, later))
        return forks


def score_prompts(streams: Streams, prompts: Sequence[Ids], *, share: bool = True) -> list[PromptLoss]:
    """The losses of prompts, in order. `share=False` computes each from its first token, for comparison."""
    streams.make_room(streams=1, cells=max(map(len, prompts), default=0))
    if not share:
        return [_score_alone(streams, ids) for ids in prompts]
    places: dict[tuple[int, ...], list[int]] = {}
    for number, ids in enumerate(prompts):
        places.setdefault(tuple(ids.tolist()), []).append(number)
    ordered = [prompts[places[key][0]] for key in sorted(places)]
    shares = [0, *(shared_length(before, other) for before, other in pairwise(ordered))]
    work = _Work(ordered, shares)
    losses: dict[int, PromptLoss] = {}
    for number, key in enumerate(sorted(places)):
        loss = _score_prompt(streams, work, number)
        losses |= {place: PromptLoss(loss.logprobs, 0) for place in places[key]}
        losses[places[key][0]] = loss
    return [losses[number] for number in range(len(prompts))]


def _score_alone(streams: Streams, ids: Ids) -> PromptLoss:
    streams.cut(_STREAM, 0)
    return _score_prompt(streams, _Work([ids], [0]), 0)


def _score_prompt(streams: Streams, work: _Work, number: int) -> PromptLoss:
    ids = work.prompts[number]
    if len(ids) < 2:
        return PromptLoss(np.full(len(ids), np.nan), 0)
    cached = streams.cached[_STREAM]
    shared = shared_length(cached.ids[: len(cached.logprobs)], ids)
    fork = work.forks.pop(number, None)
    logprobs = np.full(len(ids), np.nan)
    logprobs[:shared] = cached.logprobs[:shared]
    if fork is not None and fork[0] == shared:
        logprobs[shared] = fork[1]
    elif 0 < shared < len(ids):
        shared -= 1  # the logits after the last shared token are needed again
    continued = number + 1 < len(work.prompts) and work.shares[number + 1] == len(ids)
    needed = len(ids) - (not continued)
    if shared >= needed:
        return PromptLoss(logprobs, 0)
    stop = max(needed, min(shared + 2, len(ids)))
    start = streams.cut(_STREAM, min(shared, stop - 2))
    leaving = work.leaving(number, start)
    for first, rows in streams.feed(_STREAM, ids[:stop], last_only=False):
        levels, tops = log_sums(rows)
        following = ids[first + 1 : first + 1 + len(rows)]
        line = np.arange(len(following))
        logprobs[first + 1 : first + 1 + len(following)] = _mark_scores(rows[line, following], levels[line], tops[line])
        for place, later in leaving:
            row = place - 1 - first
            if 0 <= row < len(rows):
                score = rows[row, work.prompts[later][place]]
                work.forks[later] = place, float(_mark_scores(score, levels[row], tops[row]))
    streams.cached[_STREAM] = CachedTokens(ids[:stop], logprobs[:stop].copy())
    return PromptLoss(logprobs, stop - start)


def _mark_scores(scores: Any, levels: Any, tops: Any) -> Any:
    logprobs = np.minimum(scores - levels, 0)
    return np.copysign(logprobs, np.where(scores >= tops, 1.0, -1.0))


def log_sums(rows: Rows) -> tuple[Numbers, Numbers]:
    """The logarithm of the sum of exponentials of each row, and its largest number, a few rows at a time."""
    levels, tops = np.empty(len(rows)), np.empty(len(rows))
    scratch = np.empty((min(_ROWS, len(rows)), rows.shape[1]), np.float32)
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        top = part.max(axis=1, keepdims=True)
        raised = np.exp(np.subtract(part, top, out=scratch[: len(part)]), out=scratch[: len(part)])
        tops[start : start + len(part)] = top[:, 0]
        levels[start : start + len(part)] = top[:, 0] + np.log(raised.sum(axis=1, dtype=np.float64))
    return levels, tops
