"""Requests as token ids, and generated ids as text. A prompt has one BOS where its tokenizer adds one, never two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rolecall.models.base import ModelError
from rolecall.render.spans import Request
from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['Encoder', 'Prompt', 'continuation']


@dataclass(frozen=True, slots=True)
class Prompt:
    """The token ids of a request, and the characters of its text they stand for (none if the request had ids)."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Encoder:
    """Requests to token ids. `begins`: a BOS goes first, where the tokenizer adds one and the request has none yet.

    A chat template writes the BOS itself, so what it wrote is taken as it is: `begins=False`.
    """

    tokenizer: Tokenizer
    begins: bool = True

    def prompt(self, request: Request) -> Prompt:
        """The ids of a request; special tokens written in its text are those tokens."""
        if isinstance(request, str):
            found = self.tokenizer.offsets(request)
            ids = [number for number, _, _ in found]
            bos = self._bos(ids)
            return Prompt((*bos, *ids), (*((0, 0) for _ in bos), *((start, stop) for _, start, stop in found)))
        ids = []
        for part in request:
            if isinstance(part, Mapping):
                raise ModelError(
                    'this model takes texts, and got messages: its chat template was not found when the prompts were '
                    'made. Give chat_template in the model entry, or a path with tokenizer_config.json in it.'
                )
            ids += [part] if isinstance(part, int) else self.tokenizer.encode(part)
        return Prompt((*self._bos(ids), *ids))

    def _bos(self, ids: Sequence[int]) -> tuple[int, ...]:
        bos = self.tokenizer.bos_id
        wanted = self.begins and self.tokenizer.adds_bos and bos is not None and list(ids[:1]) != [bos]
        return (bos,) if wanted and bos is not None else ()


def continuation(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    """The text that `ids` add after `before`: a leading space stays, which a text of its own would lose."""
    if not before:
        return tokenizer.decode(ids)
    anchor = before[-1:]
    start = tokenizer.decode(anchor)
    whole = tokenizer.decode([*anchor, *ids])
    return whole[len(start) :] if whole.startswith(start) else tokenizer.decode(ids)
