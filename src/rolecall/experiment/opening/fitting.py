"""Making a row's requests fit the context: whole examples go first, from the end, the same number for every label.

This is the only place that decides what fits. Everything that shows, counts, exports or sends requests takes the steps
that come out of here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rolecall.core.render.arrange import Note
from rolecall.core.render.spans import Message, Request, Span
from rolecall.quick_init import quick_init
from rolecall.strings import common_length, count_noun

CutSide = Literal['left', 'middle', 'right']
"""Where a prompt that does not fit is cut, if the user asks for that."""
Count = Callable[[Request], 'int | None']
Labelled = Sequence[tuple[Hashable, Request]]
_AROUND_A_MESSAGE = 16
"""More tokens than any known chat format puts around a message."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How long a request may be: the context limit less what is reserved for the answer.

    >>> TokenBudget(4096, reserved=512).tokens
    3584
    """

    max_seq_len: int | None = None
    reserved: int = 0
    truncate: CutSide | None = None
    """Where to cut what does not fit even without examples; None: the row is `too_long`."""
    added: int = 0
    """The tokens that the model's chat template adds to any dialogue, such as a default system message."""

    @property
    def tokens(self) -> int | None:
        """The largest number of tokens that fit; None if there is no known limit."""
        return None if self.max_seq_len is None else self.max_seq_len - self.reserved

    def __str__(self) -> str:
        if not self.reserved:
            return f'max_seq_len {self.max_seq_len}'
        return f'max_seq_len {self.max_seq_len} − max_out_len {self.reserved} = {count_noun(self.tokens or 0, "token")}'


@dataclass(frozen=True, slots=True)
class Cut:
    """The characters that were cut out of a request, or out of one of its messages."""

    side: CutSide
    start: int
    stop: int
    length: int
    """How long the part was from which they were cut."""
    message: int | None = None

    @property
    def details(self) -> dict[str, Any]:
        """What is stored with the row's result."""
        return {'side': self.side, 'cut': self.stop - self.start, 'of': self.length, 'unit': 'characters'}

    def apply(self, request: Request) -> Request:
        """The request without these characters."""
        if isinstance(request, str):
            return request[: self.start] + request[self.stop :]
        return [
            {**entry, 'content': entry['content'][: self.start] + entry['content'][self.stop :]}
            if i == self.message
            else entry
            for i, entry in enumerate(request)
            if isinstance(entry, Mapping)
        ]

    def apply_to_spans(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans of the request without these characters."""
        at = 0
        for span in spans:
            if span.message != self.message:
                yield span
                continue
            start, stop = (min(max(edge - at, 0), len(span.text)) for edge in (self.start, self.stop))
            at += len(span.text)
            if stop > start:
                span = replace(span, text=span.text[:start] + span.text[stop:])
            yield span

    def place(self, at: int) -> int:
        """Where a character of the whole request stands once these are gone."""
        return at if at <= self.start else max(self.start, at - (self.stop - self.start))


@quick_init
@dataclass(frozen=True, slots=True)
class Step:
    """What is sent next for a row: one request, or one for each label, and what was left out to make them fit."""

    requests: Labelled
    shots: tuple[int, ...] = ()
    """The examples that were kept."""
    turn: int | None = None
    shots_dropped: int = 0
    cut: Cut | None = None
    too_long: str = ''
    """Why nothing is sent: the requests do not fit, even without examples. Empty if they are sent."""
    notes: tuple[Note, ...] = ()
    """What a reader of the requests should know: what was dropped or cut, or that nothing could be counted."""

    @property
    def details(self) -> dict[str, Any]:
        """What is stored with the row's result."""
        return {} if self.cut is None else {'truncated': self.cut.details}


_NOT_COUNTED = (
    'not known here whether this fits ({}): its tokens cannot be counted, because the tokenizer or chat template was '
    'not found, or because of media in it. It is sent as it is.'
)


def fit(
    requests_with: Callable[[tuple[int, ...]], Labelled], shots: tuple[int, ...], count: Count, budget: TokenBudget
) -> Step:
    """The row's requests with as many of its examples as fit."""
    requests = requests_with(shots)
    limit = budget.tokens
    tokens = 0 if limit is None else _count_longest(requests, count, budget)
    if tokens is None:
        return Step(requests, shots, notes=(Note('not_counted', _NOT_COUNTED.format(budget)),))
    if limit is None or tokens <= limit:
        return Step(requests, shots)
    for count_kept in range(len(shots) - 1, -1, -1):
        requests = requests_with(shots[:count_kept])
        if (_count_longest(requests, count, budget) or 0) <= limit:
            dropped = len(shots) - count_kept
            gone = f'{dropped} of {count_noun(len(shots), "example")} dropped'
            message = f'{gone}: {tokens:,} tokens with all of them, budget {budget}.'
            return Step(requests, shots[:count_kept], shots_dropped=dropped, notes=(Note('shots_dropped', message),))
    return _cut_to_fit(requests, len(shots), count, budget)


def _count_longest(requests: Labelled, count: Count, budget: TokenBudget) -> int | None:
    """The tokens of the longest request; 0 where none can be too long, None where they cannot be counted."""
    longest = 0
    for _, request in requests:
        if cannot_exceed(request, budget):
            continue
        tokens = count(request)
        if tokens is None:
            return None
        longest = max(longest, tokens)
    return longest


def cannot_exceed(request: Request, budget: TokenBudget) -> bool:
    """Whether the request is so short that it need not be counted: a token stands for at least one byte."""
    most = 4 * len(request) if isinstance(request, str) else sum(map(_most_tokens, request))
    return most + _AROUND_A_MESSAGE + budget.added <= (budget.tokens or 0)


def _most_tokens(entry: Message | int | str) -> float:
    if isinstance(entry, int):
        return 1
    if isinstance(entry, str):
        return 4 * len(entry)
    content = entry.get('content')
    return 4 * len(content) + _AROUND_A_MESSAGE if isinstance(content, str) and len(entry) == 2 else float('inf')


def _cut_to_fit(requests: Labelled, dropped: int, count: Count, budget: TokenBudget) -> Step:
    """The requests cut at the side that the user stated, in what all labels share; otherwise the row is too long."""
    limit = budget.tokens or 0
    without = ' without examples' if dropped else ''
    reason = f'too long: {_count_longest(requests, count, budget):,} tokens{without}, budget {budget}.'
    part = _find_part_to_cut([request for _, request in requests])
    if budget.truncate is not None and part is None:
        reason += ' There is no text to truncate: only texts, and messages that are texts, are cut.'
    too_long = Step(requests, shots_dropped=dropped, too_long=reason, notes=(Note('too_long', reason),))
    if budget.truncate is None or part is None:
        return too_long
    message, length = part

    def cut_out(amount: int) -> Cut:
        keep = length - amount
        start = {'left': 0, 'right': keep, 'middle': (keep + 1) // 2}[budget.truncate or 'left']
        return Cut(budget.truncate or 'left', start, start + amount, length, message)

    def fits(amount: int) -> bool:
        cut = cut_out(amount)
        return all((count(cut.apply(request)) or 0) <= limit for _, request in requests)

    if not fits(length):
        return too_long
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    cut = cut_out(high)
    after = ' after all examples' if dropped else ''
    what = f'{high:,} of {count_noun(length, "character")} cut out ({cut.side}){after}: budget {budget}.'
    return Step(
        [(label, cut.apply(request)) for label, request in requests],
        shots_dropped=dropped,
        cut=cut,
        notes=(Note('truncated', what),),
    )


def _find_part_to_cut(requests: Sequence[Request]) -> tuple[int | None, int] | None:
    """What can be cut: the leading text that all requests share, or the longest message that they share."""
    first = requests[0]
    if isinstance(first, str):
        return None, common_length(requests)
    lengths = {
        i: len(text)
        for i, message in enumerate(first)
        if isinstance(message, Mapping)
        and isinstance(text := message.get('content'), str)
        and all(i < len(request) and request[i] == message for request in requests)
    }
    longest = max(lengths, key=lambda i: lengths[i], default=None)
    return None if longest is None else (longest, lengths[longest])
