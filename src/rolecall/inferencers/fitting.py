"""Making a row's requests fit the context: whole examples go first, from the end, the same number for every label."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecall.inferencers.asking import CutSide, Room, common_length
from rolecall.render.spans import Message, Request
from rolecall.retrievers import Picked

__all__ = ['Fitted', 'TooLong', 'fit']

Count = Callable[[Request], 'int | None']
Labelled = list[tuple[Hashable, Request]]
_AROUND_A_MESSAGE = 16
"""More tokens than any chat format is known to put around a message."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The requests of a row that are sent, and what was left out to make them fit."""

    requests: Labelled
    picked: Picked
    dropped: int = 0
    cut: int = 0
    """How many characters (or token ids) were cut from what all requests share."""
    details: Mapping[str, Any] = field(default_factory=dict)


class TooLong(Exception):  # noqa: N818  # an outcome of a row, not an error of anybody's
    """A row's requests do not fit, even without examples."""

    def __init__(self, reason: str, dropped: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.dropped = dropped


def fit(
    worded: Callable[[Picked], Iterable[tuple[Hashable, Request]]], picked: Picked, count: Count, room: Room
) -> Fitted:
    """The row's requests with as many of its examples as fit; `TooLong` if they do not even without."""
    requests = list(worded(picked))
    if room.tokens is None:
        return Fitted(requests, picked)
    kept = len(picked.ids)
    while (tokens := _longest(requests, count, room.tokens)) > room.tokens:
        if kept == 0:
            return _shortened(requests, picked, count, room, tokens)
        kept -= 1
        requests = list(worded(Picked(picked.ids[:kept], picked.skipped)))
    return Fitted(requests, Picked(picked.ids[:kept], picked.skipped), len(picked.ids) - kept)


def _longest(requests: Labelled, count: Count, limit: int) -> int:
    """The tokens of the longest request; 0 where nothing can be too long, or nothing can be counted."""
    longest = 0
    for _, request in requests:
        if _cannot_exceed(request, limit):
            continue
        tokens = count(request)
        if tokens is None:
            return 0
        longest = max(longest, tokens)
    return longest


def _cannot_exceed(request: Request, limit: int) -> bool:
    """Whether the request is so short that it need not be counted: a token stands for at least one byte."""
    if isinstance(request, str):
        return 4 * len(request) + _AROUND_A_MESSAGE <= limit
    return sum(_at_most(entry) for entry in request) + _AROUND_A_MESSAGE <= limit


def _at_most(entry: Message | int | str) -> float:
    if isinstance(entry, int):
        return 1
    if isinstance(entry, str):
        return 4 * len(entry)
    content = entry.get('content')
    return 4 * len(content) + _AROUND_A_MESSAGE if isinstance(content, str) and len(entry) == 2 else float('inf')


def _shortened(requests: Labelled, picked: Picked, count: Count, room: Room, tokens: int) -> Fitted:
    """The requests cut at the side that the user stated, in what all labels share; otherwise the row is too long."""
    dropped = len(picked.ids)
    limit = room.tokens or 0
    reason = f'{tokens} tokens without examples; {limit} fit (max_seq_len {room.max_seq_len} − {room.reserved}).'
    texts = _Shared.of([request for _, request in requests])
    if room.truncate is None or texts is None:
        raise TooLong(reason, dropped)

    def fits(cut: int) -> bool:
        cuts = texts.cut(cut, room.truncate or 'left')
        return all((count(request) or 0) <= limit for request in cuts)

    if not fits(texts.length):
        raise TooLong(reason, dropped)
    low, high = 0, texts.length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    shorter = texts.cut(high, room.truncate)
    labelled = [(label, request) for (label, _), request in zip(requests, shorter, strict=True)]
    cut = {'side': room.truncate, 'cut': high, 'of': texts.length, 'unit': texts.unit}
    return Fitted(labelled, Picked((), picked.skipped), dropped, high, {'truncated': cut})


@dataclass(frozen=True, slots=True)
class _Shared:
    """What can be cut: the leading part that all requests share, or the longest message that they share."""

    requests: Sequence[Request]
    length: int
    unit: str
    message: int | None = None

    @classmethod
    def of(cls, requests: Sequence[Request]) -> _Shared | None:
        first = requests[0]
        if isinstance(first, str):
            return cls(requests, common_length(requests), 'characters')
        if all(isinstance(entry, int) for request in requests for entry in request):
            return cls(requests, common_length(requests), 'tokens')
        lengths = {
            i: len(text)
            for i, message in enumerate(first)
            if isinstance(message, Mapping)
            and isinstance(text := message.get('content'), str)
            and all(i < len(request) and request[i] == message for request in requests)
        }
        if not lengths:
            return None
        longest = max(lengths, key=lambda i: lengths[i])
        return cls(requests, lengths[longest], 'characters', longest)

    def cut(self, amount: int, side: CutSide) -> list[Request]:
        keep = self.length - amount
        left = {'left': 0, 'right': keep, 'middle': (keep + 1) // 2}[side]
        right = left + amount
        return [self._cut_one(request, left, right) for request in self.requests]

    def _cut_one(self, request: Request, left: int, right: int) -> Request:
        if self.message is None:
            return request[:left] + request[right:]  # type: ignore[return-value,operator]
        return [
            {**entry, 'content': entry['content'][:left] + entry['content'][right:]} if i == self.message else entry
            for i, entry in enumerate(request)
            if isinstance(entry, Mapping)
        ]
