"""What every inferencer is, and those that ask for an answer: once, several times, by vote, or turn by turn."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from rolecall.core.program import InferMode
from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Outcome, Reply, Sampling, Scored
from rolecall.quick_init import quick_init
from rolecall.sources.retrievers import Picked

T = TypeVar('T')


@quick_init
@dataclass(frozen=True, slots=True)
class Prediction:
    """The conclusion for one row, with everything it rests on."""

    value: Any
    """A text, a label, a number, or a list of one of these (turns of a dialogue, samples of one question)."""
    outcome: Outcome = 'ok'
    reason: str = ''
    replies: tuple[str, ...] = ()
    """The raw answers, reasoning left out."""
    reasoning: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """What a kind of inference adds: losses by label, probabilities, votes …, JSON-able."""
    shots_dropped: int = 0


class Asker(Protocol):
    """Gets the requests of one row answered. A call that fails for good raises `ModelError`."""

    @property
    def said(self) -> Sequence[str]:
        """The replies so far."""

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request; `sample` tells apart the answers drawn for one request."""

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The log-probabilities of each request's own tokens. Only requests made from scores are not `shown` before."""


class Inferencer(Protocol):
    """One way of asking. `needs` are the capabilities that the model must have."""

    needs: ClassVar[tuple[str, ...]]

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude. Raises `TooLong` if a step does not fit the context."""


class TooLong(Exception):  # noqa: N818  # an outcome of a row, not an error
    """A row's requests do not fit, even without examples."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.too_long)
        self.step = step


def next_step(pair: Pair, row: Row, picked: Picked, replies: Sequence[str] = ()) -> Step | None:
    """What is sent next; `TooLong` if that does not fit the context."""
    step = pair.step(row, picked, replies)
    if step is not None and step.too_long:
        raise TooLong(step)
    return step


def only_step(pair: Pair, row: Row, picked: Picked) -> Step:
    """The step of a row that is asked about once."""
    step = next_step(pair, row, picked)
    if step is None:
        raise TypeError(f'{pair.task.abbr} has nothing to ask about a row')
    return step


async def wait_for_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all calls. If one fails the others are still waited for, so that none is left behind."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def requests_of(step: Step) -> list[Request]:
    """The requests of a step without their labels."""
    return [request for _, request in step.requests]


def text_of_request(request: Request) -> str | None:
    """The text of a request that is one text; None for messages and token ids."""
    return request if isinstance(request, str) else None


def find_fault(replies: Iterable[Reply]) -> dict[str, Any]:
    """The outcome of several replies: that of the first that is not `ok`."""
    for reply in replies:
        if reply.outcome != 'ok':
            return {'outcome': reply.outcome, 'reason': reply.reason}
    return {}


@dataclass(frozen=True, slots=True)
class GenInferencer:
    """The model's answer; with several samples, the list of its answers."""

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)
    samples: int = 1

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        if self.samples == 1:
            return self.conclude(step, await ask.generate(step.requests[0][1], self.sampling))
        replies = await _draw(step, self.sampling, self.samples, ask)
        return _conclude([reply.text for reply in replies], step, replies)

    def conclude(self, step: Step, reply: Reply) -> Prediction:
        """The prediction from the one reply to a row."""
        if reply.outcome == 'ok' and reply.reason in ('', 'stop') and not (reply.reasoning or reply.tool_calls):
            return Prediction(reply.text, replies=(reply.text,), details=step.details, shots_dropped=step.shots_dropped)
        return _conclude(reply.text, step, [reply])


class RepeatsInferencer(GenInferencer):
    """Several answers to one question that are scored together, as `{'replies': [...]}`."""

    __slots__ = ()

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        replies = await _draw(step, self.sampling, self.samples, ask)
        return _conclude({'replies': [reply.text for reply in replies]}, step, replies)


@dataclass(frozen=True, slots=True)
class SCInferencer(GenInferencer):
    """Self-consistency: several answers are drawn, and the most frequent one wins (of equals, the first).

    `extract` takes the answer out of a reply, so that different ways to one answer are one vote. A reply in which it
    finds none does not vote.
    """

    extract: Callable[[str], Any] = str.strip

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        replies = await _draw(step, self.sampling, self.samples, ask)
        voting = [reply for reply in replies if reply.outcome == 'ok']
        answers = [_as_key(self.extract(reply.text)) for reply in voting]
        votes = Counter(answer for answer in answers if answer)
        if not votes:
            return _conclude(voting[0].text if voting else None, step, replies, of=voting or replies)
        winner, _ = votes.most_common(1)[0]
        chosen = voting[answers.index(winner)].text
        return _conclude(chosen, step, replies, of=voting, votes=dict(votes.most_common()))


@dataclass(frozen=True, slots=True)
class WordingsInferencer:
    """The answers to one question in several wordings, as a list: the score is the mean over wordings."""

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        replies = await wait_for_all(ask.generate(request, self.sampling) for _, request in step.requests)
        return _conclude([reply.text for reply in replies], step, replies)


@dataclass(frozen=True, slots=True)
class MultiTurnGenInferencer:
    """The model's reply to every turn that it is asked for, as a list; with `last`, the one reply.

    Where the model's own replies are carried on (`every`), a turn without an answer ends the dialogue.
    """

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)
    infer_mode: InferMode = 'every'

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        replies: list[Reply] = []
        texts: list[str] = []
        steps: list[Step] = []
        while (step := next_step(pair, row, picked, texts)) is not None:
            steps.append(step)
            replies.append(await ask.generate(step.requests[0][1], self.sampling))
            texts.append(replies[-1].text)
            if replies[-1].outcome != 'ok' and pair.waits:
                break
        details = {f'turn {step.turn}': step.details for step in steps if step.details}
        value = texts[-1] if self.infer_mode == 'last' else texts
        return _conclude(value, max(steps, key=lambda step: step.shots_dropped), replies, details=details)


ChatInferencer = MultiTurnGenInferencer
"""The same under OpenCompass' name, where `last` is the default."""


async def _draw(step: Step, sampling: Sampling, samples: int, ask: Asker) -> list[Reply]:
    request = step.requests[0][1]
    return await wait_for_all(ask.generate(request, sampling, sample=k) for k in range(samples))


def _conclude(
    value: Any,
    step: Step,
    replies: Sequence[Reply],
    *,
    of: Sequence[Reply] | None = None,
    details: dict[str, Any] | None = None,
    **more: Any,
) -> Prediction:
    """The prediction with all replies. Its outcome is that of the replies it rests on."""
    thoughts = tuple(reply.reasoning for reply in replies)
    ended = [reply.reason for reply in replies]
    if any(reason not in ('', 'stop') for reason in ended):
        more['ended'] = ended
    calls = [list(reply.tool_calls) for reply in replies]
    if any(calls):
        more['tool_calls'] = calls
    return Prediction(
        value,
        replies=tuple(reply.text for reply in replies),
        reasoning=thoughts if any(thoughts) else (),
        details={**(step.details if details is None else details), **more},
        shots_dropped=step.shots_dropped,
        **find_fault(replies if of is None else of),
    )


def _as_key(answer: Any) -> str:
    """An answer as a key that can be counted and stored, without space around it; empty if there is none."""
    if answer is None:
        return ''
    return answer.strip() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
