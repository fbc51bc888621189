"""How a local model is to answer, and what becomes of what it says: where it ends, and what of it was thinking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.models.answering import Answering
from rolecall.models.base import Reply, Usage
from rolecall.models.reasoning import split_reasoning

__all__ = ['TransformersAnswering', 'cut', 'thought', 'too_long']


@dataclass(frozen=True, slots=True)
class TransformersAnswering(Answering):
    """Answers of a model that `transformers` or vLLM runs."""

    eos_ids: tuple[int, ...] | None = None
    """None: those of the model."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of `transformers.GenerationConfig`."""

    @property
    def beams(self) -> int:
        return int(self.extra.get('num_beams') or 1)

    def room(self, length: int, limit: int | None) -> int:
        """How many tokens the answer to a prompt of this length may have, where the model takes `limit` in all."""
        return self.max_new if limit is None else max(0, min(self.max_new, limit - length))


def cut(text: str, stops: Iterable[str], *, after: int = 0) -> str | None:
    """The text before the first stop that ends behind its `after`th character, or None if there is none.

    >>> cut('4\\n\\nQuestion: what', ['Question:', '\\n\\n'])
    '4'
    >>> cut('4.', ['\\n']) is None
    True
    """
    places = [text.find(stop, max(0, after - len(stop) + 1)) for stop in stops if stop]
    found = [place for place in places if place >= 0]
    return text[: min(found)] if found else None


def too_long(length: int, limit: int | None) -> Reply:
    """The outcome for a prompt that leaves no room for an answer."""
    reason = f'the prompt has {length} tokens, and the model takes {limit} with the answer.'
    return Reply('', 'too_long', reason, usage=Usage(input_tokens=length, output_tokens=0))


def thought(reply: Reply) -> Reply:
    """The reply with the thinking taken out of its text.

    >>> thought(Reply('<think>2 and 2</think>4')).text
    '4'
    """
    answer, reasoning, exhausted = split_reasoning(reply.text, cut_off=reply.reason == 'length')
    return replace(
        reply, text=answer, reasoning=reasoning, outcome='thinking_exhausted' if exhausted else reply.outcome
    )
