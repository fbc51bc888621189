"""Finds special tokens typed by users, wherever a chat template puts them.

Spans locate them where the template writes contents verbatim. Where it quotes them as JSON, or in tool-call arguments,
unused private characters replace them while the prompt is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.core.program import Trace
from rolecall.models.tokenizers.tokenizer import Tokenizer

_FIRST = 0xF0000
"""The start of a private-use plane."""


def holds(value: Any, tokens: Iterable[str]) -> bool:
    """Whether a value contains one of these tokens, at any depth.

    >>> holds([{'content': 'a</s>'}], ['</s>']), holds([{'content': 'a'}], ['</s>'])
    (True, False)
    """
    if isinstance(value, str):
        return any(token in value for token in tokens)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return any(holds(item, tokens) for item in inner)


@dataclass(frozen=True, slots=True)
class Placeholders:
    """For each special token, a character that does not occur in the prompt."""

    tokens: Mapping[str, str]

    @classmethod
    def for_tokens(cls, tokens: Iterable[str], *, unused_in: str) -> Placeholders:
        """Placeholders for some tokens. Longer tokens are replaced first."""
        longest = sorted(tokens, key=len, reverse=True)
        free = (sign for number in range(_FIRST, _FIRST + 0xFFFD) if (sign := chr(number)) not in unused_in)
        return cls(dict(zip(free, longest, strict=False)))

    def insert(self, value: Any) -> Any:
        """The value with tokens replaced by placeholders, at any depth.

        >>> placeholders = Placeholders({'*': '</s>'})
        >>> placeholders.insert({'input': ['a</s>', 1]}), placeholders.restore('a*')
        ({'input': ['a*', 1]}, 'a</s>')
        """
        if isinstance(value, str):
            for sign, token in self.tokens.items():
                value = value.replace(token, sign)
            return value
        if isinstance(value, Mapping):
            return {key: self.insert(item) for key, item in value.items()}
        return [self.insert(item) for item in value] if isinstance(value, (list, tuple)) else value

    def restore(self, text: str) -> str:
        """The text with placeholders replaced by their tokens."""
        return self._pattern.sub(lambda sign: self.tokens[sign[0]], text)

    def are_lost_in(self, trace: Trace) -> bool:
        """Whether a placeholder occurs in a span labelled as the chat template's own."""
        return any(self._pattern.search(str(span.text)) for span in trace.spans if span.origin.kind == 'chat_template')

    def encode(self, text: str, tokenizer: Tokenizer) -> list[int]:
        """The token ids of a text. Replaced tokens are encoded as ordinary characters."""
        ids: list[int] = []
        for piece in filter(None, self._pattern.split(text)):
            typed = self.tokens.get(piece)
            ids += tokenizer.encode(piece) if typed is None else tokenizer.encode(typed, special=False)
        return ids

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile('([' + re.escape(''.join(self.tokens)) + '])')
