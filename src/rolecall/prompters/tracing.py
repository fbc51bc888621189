"""A prompt with the origin of every character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rolecall.program import Trace, fingerprint
from rolecall.render.spans import Place, texts_of

__all__ = ['PromptTrace']


@dataclass(frozen=True, slots=True)
class PromptTrace(Trace):
    """A prompt, and where each character of it comes from.

    `request` is the string, or the messages; `body` is all that `generate_prompt` gives: with messages, what stands
    beside them (tools, system words) as well.
    """

    body: Any = None

    @property
    def texts(self) -> dict[Place, str]:
        """The text of each place, which the spans join to; system words beside the messages are in no message."""
        texts = texts_of(self.request)
        if isinstance(self.body, dict) and 'system' in self.body:
            texts[(None, None)] = self.body['system']
        return texts

    @property
    def fingerprint(self) -> str:
        """The identity of what is sent."""
        beside = self.body if isinstance(self.body, dict) else {}
        return fingerprint(self.request, **{key: value for key, value in beside.items() if key != 'messages'})
