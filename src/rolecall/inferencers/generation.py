"""Asking for an answer: once, or several times and by vote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rolecall.inferencers.asking import Ask, Room, Words, first_fault, together
from rolecall.inferencers.fitting import Fitted, fit
from rolecall.inferencers.prediction import Prediction
from rolecall.models.base import Reply, Sampling
from rolecall.prompts.pieces import Row
from rolecall.retrievers import Picked

__all__ = ['GenInferencer', 'SCInferencer']


@dataclass(frozen=True, slots=True)
class GenInferencer:
    """The model's answer; with several samples, the list of its answers."""

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)
    room: Room = field(default_factory=Room)
    samples: int = 1

    async def infer(self, words: Words, row: Row, picked: Picked, ask: Ask) -> Prediction:
        """Ask about one row and conclude."""
        fitted, replies = await drawn(self, words, row, picked, ask)
        texts = [reply.text for reply in replies]
        return concluded(texts[0] if self.samples == 1 else texts, fitted, replies)


@dataclass(frozen=True, slots=True)
class SCInferencer:
    """Self-consistency: several answers are drawn, and what most of them come to wins (of equals, the first).

    `extract` takes the answer out of a reply, so that different ways to one answer are one vote. A reply in which it
    finds none does not vote.
    """

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)
    room: Room = field(default_factory=Room)
    samples: int = 1
    extract: Callable[[str], Any] = str.strip

    async def infer(self, words: Words, row: Row, picked: Picked, ask: Ask) -> Prediction:
        """Ask about one row and conclude."""
        fitted, replies = await drawn(self, words, row, picked, ask)
        voting = [reply for reply in replies if reply.outcome == 'ok']
        answers = [_as_key(self.extract(reply.text)) for reply in voting]
        votes = Counter(answer for answer in answers if answer)
        if not votes:
            return concluded(voting[0].text if voting else None, fitted, replies, of=voting or replies)
        winner, _ = votes.most_common(1)[0]
        chosen = voting[answers.index(winner)].text
        return concluded(chosen, fitted, replies, of=voting, votes=dict(votes.most_common()))


async def drawn(
    how: GenInferencer | SCInferencer, words: Words, row: Row, picked: Picked, ask: Ask
) -> tuple[Fitted, list[Reply]]:
    """The row's request, made to fit, and the replies drawn for it."""
    fitted = fit(lambda shots: words.requests(row, shots), picked, ask.count, how.room)
    request = fitted.requests[0][1]
    if how.samples == 1:
        return fitted, [await ask.generate(request, how.sampling)]
    asked = (ask.generate(request, how.sampling, sample=k) for k in range(how.samples))
    return fitted, await together(asked)


def concluded(
    value: Any, fitted: Fitted, replies: list[Reply], *, of: list[Reply] | None = None, **details: Any
) -> Prediction:
    """The prediction, with everything that was said. Its outcome is that of the replies it rests on."""
    thoughts = tuple(reply.reasoning for reply in replies)
    ended = [reply.reason for reply in replies]
    more = {'ended': ended} if any(reason not in ('', 'stop') for reason in ended) else {}
    calls = [list(reply.tool_calls) for reply in replies]
    return Prediction(
        value,
        replies=tuple(reply.text for reply in replies),
        reasoning=thoughts if any(thoughts) else (),
        details={**fitted.details, **more, **({'tool_calls': calls} if any(calls) else {}), **details},
        shots_dropped=fitted.dropped,
        **first_fault(replies if of is None else of),
    )


def _as_key(answer: Any) -> str:
    """An answer as a key that can be counted and stored, whatever space is around it; empty if there is none."""
    if answer is None:
        return ''
    return answer.strip() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
