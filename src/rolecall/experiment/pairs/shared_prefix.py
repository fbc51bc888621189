"""What all requests of a dataset × model begin with, as the origins of their characters tell."""

from __future__ import annotations

from itertools import islice

from rolecall.core.render.spans import Message, Span
from rolecall.errors import DataError, RenderError
from rolecall.experiment.pairs.pair import Pair

_OF_THE_ROW = ('field', 'masked', 'unfilled', 'label', 'reply', 'media')
"""Origins of text that may differ from row to row."""


def find_shared_prefix(pair: Pair) -> tuple[list[Message], str] | None:
    """The messages that all rows share, and the text that the next message begins with; None if nothing is shared.

    Examples are shared where the retriever picks the same for every row.
    """
    try:
        for number, row, picked in islice(pair.rows(1, strict=False), 1):
            for preview in islice(pair.previews(number, row, picked), 1):
                request = preview.request
                if not isinstance(request, list):
                    return None
                messages = [message for message in request if not isinstance(message, (int, str))]
                return _cut(messages, preview.spans, fixed=pair.task.retriever.fixed)
    except (RenderError, DataError):
        pass
    return None


def _cut(messages: list[Message], spans: tuple[Span, ...], *, fixed: bool) -> tuple[list[Message], str] | None:
    at, beginning = len(messages), ''
    for span in spans:
        varies = span.origin.kind in _OF_THE_ROW if span.origin.shot is None else not fixed
        if varies and span.message is not None:
            at = span.message
            break
        if span.part is not None and span.message is not None:  # media: only whole messages before it are compared
            at = span.message
            break
    else:
        return None
    for span in spans:
        if span.message == at and span.part is None:
            varies = span.origin.kind in _OF_THE_ROW if span.origin.shot is None else not fixed
            if varies:
                break
            beginning += span.text
    return (messages[:at], beginning) if at or beginning.strip() else None
