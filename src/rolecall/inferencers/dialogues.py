"""Asking turn by turn: the turns of one dialogue wait for each other, dialogues do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rolecall.inferencers.asking import Ask, Room, Words
from rolecall.inferencers.fitting import Fitted, fit
from rolecall.inferencers.generation import concluded
from rolecall.inferencers.prediction import Prediction
from rolecall.models.base import Reply, Sampling
from rolecall.program import InferMode
from rolecall.prompts.pieces import Row
from rolecall.render.spans import Request
from rolecall.retrievers import Picked

__all__ = ['ChatInferencer', 'MultiTurnGenInferencer']


@dataclass(frozen=True, slots=True)
class MultiTurnGenInferencer:
    """The model's reply to every turn that it is asked for, as a list; with `last`, the one reply.

    Where the model's own replies are carried on (`every`), a turn without an answer ends the dialogue.
    """

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    sampling: Sampling = field(default_factory=Sampling)
    room: Room = field(default_factory=Room)
    infer_mode: InferMode = 'every'

    async def infer(self, words: Words, row: Row, picked: Picked, ask: Ask) -> Prediction:
        """Ask about one row and conclude."""
        replies: list[Reply] = []
        shots, dropped = picked, 0
        details: dict[str, Any] = {}
        for turn in words.dialogue(picked).asked(row):
            fitted = fit(_worded(words, row, turn, [reply.text for reply in replies]), shots, ask.count, self.room)
            shots, dropped = fitted.picked, dropped + fitted.dropped
            if fitted.details:
                details[f'turn {turn}'] = dict(fitted.details)
            replies.append(await ask.generate(fitted.requests[0][1], self.sampling))
            if replies[-1].outcome != 'ok' and self.infer_mode == 'every':
                break
        texts: Any = [reply.text for reply in replies]
        whole = Fitted([], shots, dropped, details=details)
        return concluded(texts[-1] if self.infer_mode == 'last' else texts, whole, replies)


def _worded(words: Words, row: Row, turn: int, said: list[str]) -> Callable[[Picked], list[tuple[int, Request]]]:
    return lambda shots: [(turn, words.dialogue(shots)(row, turn, said))]


ChatInferencer = MultiTurnGenInferencer
"""The same under OpenCompass' name, where `last` is the default."""
