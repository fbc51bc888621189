"""A request as the tokens its model sees: ids, boundaries, counts by origin, and what fits into the context.

Each token belongs to the origin of its first character. Nothing is sent or downloaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair, Preview
from rolecall.pairs.tasks import Task
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Span
from rolecall.retrievers import Picked
from rolecall.strings import count_noun, printable
from rolecall.views.blocks import is_messages
from rolecall.views.looks import LOOKS, group_of, label_of
from rolecall.views.visible import show_blanks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['Counted', 'TokenAt', 'TokenBudget', 'count_tokens', 'token_budget_of', 'tokens_of']

_BOS = Origin('marker', 'BOS')


@dataclass(frozen=True, slots=True)
class TokenAt:
    """One token and where its first character comes from."""

    id: int
    text: str
    """The characters it stands for; of a token that the model side gives by its id, its piece."""
    piece: str
    origin: Origin
    message: int | None = None
    part: int | None = None
    crosses: bool = False
    """Whether it also holds characters of the next origin."""

    def as_line(self) -> str:
        """The token on one line, with its blanks visible."""
        return show_blanks(printable(self.piece)).replace('\n', '').replace('\t', '')


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How many tokens a prompt may have: the context less what is kept for the answer."""

    max_seq_len: int
    max_out_len: int

    @property
    def tokens(self) -> int:
        return self.max_seq_len - self.max_out_len


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of one request."""

    tokenizer: str
    tokens: tuple[TokenAt, ...]
    room: TokenBudget | None = None
    shots: int = 0
    fitting_shots: int | None = None
    """How many of the shots fit; None if not even the prompt without any does, or nothing limits it."""
    contents_only: bool = False
    """Messages: the server's own words around them are not counted."""

    @property
    def total(self) -> int:
        return len(self.tokens)

    @property
    def by_origin(self) -> dict[str, int]:
        """How many tokens each group of the legend has."""
        counts = Counter(group_of(token.origin) for token in self.tokens)
        return {group: counts[group] for group in LOOKS if counts[group]}

    def facts(self) -> Iterator[tuple[str, str]]:
        """Headings and what there is to say under each."""
        per = ', '.join(f'{count:,} {group}' for group, count in self.by_origin.items())
        scope = ' in the contents of the messages' if self.contents_only else ''
        yield 'tokens', f'{self.total:,}{scope} ({per})'
        if crossing := [token for token in self.tokens if token.crosses]:
            examples = ', '.join(repr(token.piece) for token in crossing[:3])
            yield 'boundaries', f'{count_noun(len(crossing), "token")} across two origins: {examples}'
        yield 'tokenizer', self.tokenizer
        if self.room is not None:
            yield 'room', self._room_words(self.room)

    def _room_words(self, room: TokenBudget) -> str:
        sum_ = f'{room.max_seq_len:,} − {room.max_out_len:,} = {room.tokens:,} tokens'
        if self.total <= room.tokens:
            return f'{sum_}: fits, {room.tokens - self.total:,} left'
        over = f'{sum_}: {self.total - room.tokens:,} too many'
        if self.fitting_shots is None:
            return f'{over}, even without shots' if self.shots else over
        return f'{over}; {self.shots - self.fitting_shots} of {self.shots} shots would be dropped'

    def as_json(self) -> dict[str, Any]:
        """The count in plain values."""
        return {
            'tokenizer': self.tokenizer,
            'total': self.total,
            'by_origin': self.by_origin,
            'contents_only': self.contents_only,
            'room': self.room.tokens if self.room else None,
            'shots': self.shots,
            'fitting_shots': self.fitting_shots,
            'tokens': [
                {
                    'id': token.id,
                    'text': token.text,
                    'piece': token.piece,
                    'kind': token.origin.kind,
                    'message': token.message,
                    'part': token.part,
                    'crosses': token.crosses,
                }
                for token in self.tokens
            ],
        }

    def plain_lines(self) -> Iterator[str]:
        """The count, then one token on each line: number, id, origin, text."""
        for heading, words in self.facts():
            yield f'-- {heading}: {printable(words)}'
        width = max((len(label_of(token.origin)) for token in self.tokens), default=0)
        for number, token in enumerate(self.tokens):
            mark = '*' if token.crosses else ' '
            yield f'{number:>6} {token.id:>7} {label_of(token.origin).ljust(width)}{mark}│{token.as_line()}'


def token_budget_of(task: Task, model_entry: ModelEntry) -> TokenBudget | None:
    """The limit that a config sets; the dataset's `max_out_len` goes before the model's."""
    context = model_entry.entry.get('max_seq_len')
    answer = task.inferencer.options.get('max_out_len', model_entry.entry.get('max_out_len', 0))
    return TokenBudget(context, answer) if isinstance(context, int) and isinstance(answer, int) else None


def count_tokens(
    pair: Pair, preview: Preview, tokenizer: Tokenizer, *, replies: Sequence[str] | None = None
) -> Counted:
    """The tokens of a request, and how many of its shots fit into the context."""
    model_entry = pair.model_entry
    room = token_budget_of(pair.task, model_entry) if model_entry else None
    begins = model_entry is not None and model_entry.kind == 'text'
    tokens = tuple(tokens_of(preview.spans, tokenizer, with_bos=begins))

    def count(shots: int) -> int:
        fewer = _with_shots(pair, preview, shots, replies)
        return sum(1 for _ in tokens_of(fewer.spans, tokenizer, with_bos=begins))

    over = room is not None and len(tokens) > room.tokens
    fitting = _fitting(count, len(preview.shots), room.tokens) if room is not None and over else None
    shots = len(preview.shots)
    return Counted(tokenizer.name, tokens, room, shots, fitting, contents_only=is_messages(preview))


def _fitting(count: Callable[[int], int], shots: int, room: int) -> int | None:
    """The largest number of shots that fit, taken from the front; None if none is still too long."""
    return next((kept for kept in range(shots - 1, -1, -1) if count(kept) <= room), None)


def _with_shots(pair: Pair, preview: Preview, shots: int, replies: Sequence[str] | None) -> Preview:
    picked = Picked(preview.shots[:shots], preview.skipped)
    previews = pair.previews(preview.row, preview.values, picked, replies=replies)
    return next(one for one in previews if (one.label, one.turn) == (preview.label, preview.turn))


def tokens_of(spans: Iterable[Span], tokenizer: Tokenizer, *, with_bos: bool) -> Iterator[TokenAt]:
    """The tokens of spans. Text without token ids in it is tokenized as one; media are not text."""
    begun = not (with_bos and tokenizer.adds_bos and tokenizer.bos_id is not None)
    for (message, part, is_text), run in groupby(spans, key=lambda s: (s.message, s.part, _is_text(s))):
        for token in _run_tokens(list(run), tokenizer, message, part) if is_text else _tokens_of_ids(run, tokenizer):
            if not begun and token.id != tokenizer.bos_id and tokenizer.bos_id is not None:
                yield _token_of_id(tokenizer.bos_id, Span('', _BOS), tokenizer)
            begun = True
            yield token


def _is_text(span: Span) -> bool:
    return span.token is None and span.origin.kind != 'media'


def _tokens_of_ids(spans: Iterable[Span], tokenizer: Tokenizer) -> Iterator[TokenAt]:
    return (_token_of_id(span.token, span, tokenizer) for span in spans if span.token is not None)


def _token_of_id(id_: int, span: Span, tokenizer: Tokenizer) -> TokenAt:
    piece = tokenizer.pieces([id_])[0]
    return TokenAt(id_, piece, piece, span.origin, span.message, span.part)


def _run_tokens(
    spans: Sequence[Span], tokenizer: Tokenizer, message: int | None, part: int | None
) -> Iterator[TokenAt]:
    text = ''.join(str(span.text) for span in spans)
    offsets = tokenizer.offsets(text)
    pieces = tokenizer.pieces([id_ for id_, _, _ in offsets])
    rest = iter([span for span in spans if span.text])
    span = next(rest, None)
    stop_of_span = len(span.text) if span else 0
    for (id_, start, stop), piece in zip(offsets, pieces, strict=True):
        while span is not None and start >= stop_of_span and (following := next(rest, None)) is not None:
            span = following
            stop_of_span += len(span.text)
        origin = span.origin if span else Origin('text')
        yield TokenAt(id_, text[start:stop], piece, origin, message, part, crosses=stop > stop_of_span)
