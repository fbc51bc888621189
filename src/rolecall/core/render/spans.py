"""The final request, and the spans that label every character with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.core.prompts.multimodal import part_text
from rolecall.core.prompts.pieces import Origin

Message = Mapping[str, Any]
Request = str | list[Message] | list[int] | list[int | str]
"""What a model receives: text, messages, or token ids (mixed with strings if there is no tokenizer)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the request and its origin."""

    text: str
    origin: Origin
    message: int | None = None
    """The index of its message; None in a text."""
    part: int | None = None
    """The index of its part, in a message of several parts."""
    token: int | None = None
    """A token id from the meta template, in place of text."""


Place = tuple[int | None, int | None]


def join_spans(spans: Iterable[Span]) -> dict[Place, str]:
    """Join spans to the text of each place (message, part) that has any."""
    texts: dict[Place, str] = {}
    for span in spans:
        place = (span.message, span.part)
        text = f'<{span.token}>' if span.token is not None else str(span.text)
        if text:
            texts[place] = texts.get(place, '') + text
    return texts


def texts_of(request: Request) -> dict[Place, str]:
    """The text of each place (message, part) of a request: what its spans must join to.

    >>> texts_of([{'role': 'user', 'content': 'Hi'}])
    {(0, None): 'Hi'}
    """
    return {place: text for place, text in _texts(request) if text}


def _texts(request: Request) -> Iterable[tuple[Place, str]]:
    if isinstance(request, str):
        yield (None, None), request
    elif all(isinstance(entry, Mapping) for entry in request):
        yield from _message_texts(request)  # type: ignore[arg-type]  # every entry is a mapping
    else:
        yield (None, None), ''.join(f'<{entry}>' if isinstance(entry, int) else str(entry) for entry in request)


def _message_texts(messages: Iterable[Message]) -> Iterable[tuple[Place, str]]:
    for i, message in enumerate(messages):
        content = message.get('content')
        if isinstance(content, str):
            yield (i, None), content
            continue
        for k, part in enumerate(content or ()):
            if (text := part_text(part)) is not None:
                yield (i, k), text
