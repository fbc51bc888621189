"""Answers piece by piece: how each kind of model is listened to while it speaks.

A model with a method `stream` is asked through that; others tell their answer all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from rolecall.models.base import Model, ModelError, Reply, Sampling
from rolecall.models.reasoning import THINK
from rolecall.models.telling import Tell
from rolecall.render.spans import Request

__all__ = ['AnswerTeller', 'Tell', 'Telling']


class StreamingModel(Protocol):
    """A model that tells its answer while it makes it."""

    async def stream(self, request: Request, sampling: Sampling, tell: Tell) -> Reply:
        """The reply; the pieces of its text are told as they come."""


class Telling:
    """One streamed call as a model, so that it is sent, timed and tried again like any other.

    What was told cannot be taken back: after the first piece, a failure is final.
    """

    batch = 1

    def __init__(self, model: Model, tell: Tell) -> None:
        self.name = model.name
        self._model = model
        self._tell = tell
        self._told = 0

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """The reply to the one request."""
        if self._told:
            raise self._broken('no answer in time')
        teller = AnswerTeller(self._pass_on)
        try:
            reply = await _streamed(self._model, requests[0], sampling, teller.take)
        except ModelError as error:
            if not self._told or not error.transient:
                raise
            raise self._broken(str(error), status=error.status) from error
        teller.finish(reply)
        return [reply]

    def _pass_on(self, piece: str) -> None:
        self._told += len(piece)
        self._tell(piece)

    def _broken(self, why: str, status: int | None = None) -> ModelError:
        return ModelError(f'the answer broke off after {self._told} characters: {why}', status=status)


class AnswerTeller:
    """Passes on an answer, and keeps back what is thinking, or may turn out to be.

    >>> told = []
    >>> teller = AnswerTeller(told.append)
    >>> for piece in '<thi', 'nk>2 and', ' 2</think>', '\\n\\nFo', 'ur':
    ...     teller.take(piece)
    >>> told
    ['Fo', 'ur']
    """

    def __init__(self, tell: Tell, tags: tuple[str, str] = THINK) -> None:
        self._tell = tell
        self._opening, self._closing = tags
        self._kept = ''
        self._state = 'start'
        self._told = ''

    def take(self, piece: str) -> None:
        """One piece of what the model writes."""
        self._kept += piece
        if self._state == 'start':
            begun = self._kept.lstrip()
            if begun.startswith(self._opening):
                self._state = 'thinking'
            elif not self._opening.startswith(begun):
                self._state = 'answer'
        if self._state == 'thinking' and self._closing in self._kept:
            self._state, self._kept = 'thought', self._kept.partition(self._closing)[2]
        if self._state == 'thought':
            self._kept = self._kept.lstrip()
            self._state = 'answer' if self._kept else 'thought'
        if self._state == 'answer' and self._kept:
            self._say(self._kept)
            self._kept = ''

    def finish(self, reply: Reply) -> None:
        """The rest of the answer, now that it is known."""
        if reply.text.startswith(self._told):
            self._say(reply.text[len(self._told) :])

    def _say(self, text: str) -> None:
        if text:
            self._told += text
            self._tell(text)


async def _streamed(model: Model, request: Request, sampling: Sampling, tell: Tell) -> Reply:
    if hasattr(model, 'stream'):
        return await cast(StreamingModel, model).stream(request, sampling, tell)
    [reply] = await model.generate([request], sampling)
    return reply
