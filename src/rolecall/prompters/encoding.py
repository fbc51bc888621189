"""Token ids of a string prompt in which only the model's own tokens are special tokens.

A user who types `<|im_end|>` says those ten characters. A tokenizer that is given the finished string cannot know that;
the spans do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from rolecall.program import Trace
from rolecall.render.spans import Span

__all__ = ['encoded', 'says_special']

Encode = Callable[[str], Sequence[int]]
_MODEL_SIDE = ('marker', 'chat_template')


def encoded(trace: Trace, *, special: Encode, plain: Encode) -> list[int]:
    """The token ids of a prompt: the model side's words through `special`, all other words through `plain`.

    `special` reads special tokens as such, `plain` as ordinary characters. Words that stand together are encoded
    together.

    >>> from rolecall import ChatPrompter
    >>> trace = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='').trace('</u>')
    >>> encoded(trace, special=lambda text: [text.count('</u>')], plain=lambda text: [0])
    [0, 0, 0, 1]
    """
    ids: list[int] = []
    for own, spans in groupby(filter(_is_said, trace.spans), key=_is_model_side):
        for token, run in groupby(spans, key=lambda span: span.token):
            words = ''.join(str(span.text) for span in run)
            ids += [token] if token is not None else (special if own else plain)(words)
    return ids


def says_special(trace: Trace, tokens: Iterable[str]) -> bool:
    """Whether one of these special tokens stands in words that are not the model side's own.

    >>> from rolecall import ChatPrompter
    >>> chat = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='')
    >>> says_special(chat.trace('a'), ['</u>']), says_special(chat.trace('</u>'), ['</u>'])
    (False, True)
    """
    runs = [
        ''.join(str(span.text) for span in spans)
        for own, spans in groupby(filter(_is_said, trace.spans), key=_is_model_side)
        if not own
    ]
    return any(token in words for words in runs for token in tokens)


def _is_said(span: Span) -> bool:
    return span.token is not None or bool(span.text)


def _is_model_side(span: Span) -> bool:
    return span.origin.kind in _MODEL_SIDE
