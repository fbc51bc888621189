"""A prompt with the origin of every character, and its token ids.

A user who types `<|im_end|>` means those ten characters, not a special token. A tokenizer that sees only the finished
string cannot tell the two apart; the spans can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rolecall.core.program import Trace, fingerprint
from rolecall.core.render.spans import Place, Span, texts_of

Encode = Callable[[str], Sequence[int]]
_MODEL_SIDE = ('marker', 'chat_template')


@dataclass(frozen=True, slots=True)
class PromptTrace(Trace):
    """A prompt with the origin of each character.

    `request` is the string or the messages; `body` is the whole result of `generate_prompt`, including tools and
    system text next to the messages.
    """

    body: Any = None

    @property
    def texts(self) -> dict[Place, str]:
        """The text of each place, to which the spans join; Anthropic's system text is at (None, None)."""
        texts = texts_of(self.request)
        if isinstance(self.body, dict) and 'system' in self.body:
            texts[(None, None)] = self.body['system']
        return texts

    @property
    def fingerprint(self) -> str:
        """The hash of what is sent."""
        beside = self.body if isinstance(self.body, dict) else {}
        return fingerprint(self.request, **{key: value for key, value in beside.items() if key != 'messages'})


def encode_trace(trace: Trace, *, special: Encode, plain: Encode) -> list[int]:
    """The token ids of a prompt: the model's own text encoded with `special`, all other text with `plain`.

    `special` recognises special tokens, `plain` reads them as ordinary characters. Adjacent text is encoded together.

    >>> from rolecall import ChatPrompter
    >>> trace = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='').trace('</u>')
    >>> encode_trace(trace, special=lambda text: [text.count('</u>')], plain=lambda text: [0])
    [0, 0, 0, 1]
    """
    ids: list[int] = []
    for own, spans in groupby(filter(_has_text, trace.spans), key=_is_model_side):
        for token, run in groupby(spans, key=lambda span: span.token):
            words = ''.join(str(span.text) for span in run)
            ids += [token] if token is not None else (special if own else plain)(words)
    return ids


def has_special_token(trace: Trace, tokens: Iterable[str]) -> bool:
    """Whether text that is not the model's own contains one of these special tokens.

    >>> from rolecall import ChatPrompter
    >>> chat = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='')
    >>> has_special_token(chat.trace('a'), ['</u>']), has_special_token(chat.trace('</u>'), ['</u>'])
    (False, True)
    """
    runs = [
        ''.join(str(span.text) for span in spans)
        for own, spans in groupby(filter(_has_text, trace.spans), key=_is_model_side)
        if not own
    ]
    return any(token in words for words in runs for token in tokens)


def _has_text(span: Span) -> bool:
    return span.token is not None or bool(span.text)


def _is_model_side(span: Span) -> bool:
    return span.origin.kind in _MODEL_SIDE
