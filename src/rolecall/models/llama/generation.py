"""Answers to prompts, several streams at a time; a stream that has ended takes the next prompt."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rolecall.models.base import Reply, Usage
from rolecall.models.llama.streams import Ids, Streams
from rolecall.models.llama.vocabulary import Vocabulary
from rolecall.models.llama.writing import LlamaAnswering, Writing, drawn, generator
from rolecall.models.telling import Tell

__all__ = ['generate']


@dataclass(slots=True, eq=False)
class _Running:
    """A prompt being answered in a stream."""

    number: int
    prompt: Ids
    reused: int
    writing: Writing
    chance: np.random.Generator | None
    begun: float
    token: int = -1

    @property
    def place(self) -> int:
        return len(self.prompt) + self.writing.tokens - 1

    def take(self, logits: npt.NDArray[np.float32], answering: LlamaAnswering) -> None:
        self.token = drawn(self.writing.allowed(logits), answering, self.chance)
        self.writing.add(self.token)


def generate(
    streams: Streams,
    vocabulary: Vocabulary,
    prompts: Sequence[Ids],
    answering: LlamaAnswering,
    *,
    parallel: int,
    limit: int,
    tell: Tell | None = None,
) -> list[Reply]:
    """One reply for each prompt, in their order; prompts that share a beginning are taken one after the other.

    `tell` hears the text of the only answer while it is written.
    """
    replies = {number: reply for number, ids in enumerate(prompts) if (reply := _unanswerable(ids, limit)) is not None}
    waiting = deque(sorted(set(range(len(prompts))) - replies.keys(), key=lambda number: prompts[number].tolist()))
    if not waiting:
        return [replies[number] for number in range(len(prompts))]
    longest = max(len(prompts[number]) for number in waiting)
    streams.make_room(streams=min(parallel, len(waiting)), cells=min(limit, longest + answering.max_new))
    samples = _samples(prompts)
    free = list(range(min(parallel, len(streams.held))))
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and free:
            stream = free.pop(0)
            number = waiting.popleft()
            ids = prompts[number]
            begun = time.perf_counter()
            writing = Writing(vocabulary, answering, room=limit - len(ids), tell=tell)
            chance = generator(answering, ids, sample=samples[number])
            one = _Running(number, ids, streams.place(stream, ids), writing, chance, begun)
            for _, rows in streams.feed(stream, ids, last_only=True):
                if len(rows):
                    one.take(rows[-1], answering)
            running[stream] = one
            _collect(running, replies, free, limit)
        order = sorted(running)
        if order:
            ones = [running[stream] for stream in order]
            rows = streams.step([one.token for one in ones], [one.place for one in ones], order)
            for one, row in zip(ones, rows, strict=True):
                one.take(row, answering)
        _collect(running, replies, free, limit)
    return [replies[number] for number in range(len(prompts))]


def _collect(running: dict[int, _Running], replies: dict[int, Reply], free: list[int], limit: int) -> None:
    """Take the answers that have ended out of their streams."""
    for stream in [stream for stream, one in running.items() if one.writing.ended]:
        one = running.pop(stream)
        replies[one.number] = _reply(one, limit)
        free.append(stream)
    free.sort()


def _reply(one: _Running, limit: int) -> Reply:
    usage = Usage(
        input_tokens=len(one.prompt),
        output_tokens=one.writing.tokens,
        cached_tokens=one.reused,
        seconds=time.perf_counter() - one.begun,
    )
    if one.writing.ended == 'room':
        why = f'the context of {limit} tokens was full after {one.writing.tokens} tokens of answer'
        return Reply(one.writing.text, 'too_long', why, usage=usage)
    return Reply(one.writing.text, reason=one.writing.ended, usage=usage)


def _unanswerable(ids: Ids, limit: int) -> Reply | None:
    usage = Usage(input_tokens=len(ids), output_tokens=0)
    if not len(ids):
        return Reply('', 'failed', 'the prompt is empty, and the model has no token to begin with', usage=usage)
    if len(ids) >= limit:
        why = f'the prompt has {len(ids)} tokens; the context of {limit} leaves no room for an answer'
        return Reply('', 'too_long', why, usage=usage)
    return None


def _samples(prompts: Sequence[Ids]) -> list[int]:
    """For each prompt, how many before it are the same."""
    seen: dict[bytes, int] = {}
    found = []
    for ids in prompts:
        key = ids.tobytes()
        found.append(seen.get(key, 0))
        seen[key] = found[-1] + 1
    return found
