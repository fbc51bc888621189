"""A request as the tokens its model sees: ids, boundaries, counts by origin, and what fits into the context.

Each token belongs to the origin of its first character. Nothing is sent or downloaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Span
from rolecall.experiment.opening.fitting import TokenBudget
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.experiment.previews.blocks import is_messages
from rolecall.experiment.previews.visible import show_blanks
from rolecall.strings import count_noun, printable
from rolecall.ui.views.looks import LOOKS, group_of, label_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rolecall.models.tokenizers.tokenizer import Tokenizer


_BOS = Origin('marker', 'BOS')


@dataclass(frozen=True, slots=True)
class TokenAt:
    """One token and where its first character comes from."""

    id: int
    text: str
    """Its characters; for a token id from the meta template, the tokenizer's piece."""
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
class Counted:
    """The tokens of one request."""

    tokenizer: str
    tokens: tuple[TokenAt, ...]
    budget: TokenBudget = field(default_factory=TokenBudget)
    counted: int | None = None
    """The number of tokens by the model's own tokenizer and chat template; None if that is not known here."""
    preview: Preview | None = None
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
        """Headings with their text."""
        per = ', '.join(f'{count:,} {group}' for group, count in self.by_origin.items())
        scope = ' in the contents of the messages' if self.contents_only else ''
        yield 'tokens', f'{self.total:,}{scope} ({per})'
        if crossing := [token for token in self.tokens if token.crosses]:
            examples = ', '.join(repr(token.piece) for token in crossing[:3])
            yield 'boundaries', f'{count_noun(len(crossing), "token")} across two origins: {examples}'
        yield 'tokenizer', self.tokenizer
        if (limit := self.budget.tokens) is not None:
            yield 'budget', self._describe_budget(limit)

    def _describe_budget(self, limit: int) -> str:
        less = f'{self.budget.max_seq_len:,} − {self.budget.reserved:,} = {limit:,} tokens'
        if self.counted is None:
            why = "the model's own tokenizer or chat template was not found, or there are media"
            return f'{less}: not known here whether it fits ({why})'
        dropped = self.preview.shots_dropped if self.preview is not None else 0
        without = f' after {count_noun(dropped, "shot")} dropped' if dropped else ''
        if self.counted > limit:
            return f'{less}: {self.counted - limit:,} too many{without}'
        return f'{less}: fits{without}, {limit - self.counted:,} left'

    def as_json(self) -> dict[str, Any]:
        """The count in plain values."""
        return {
            'tokenizer': self.tokenizer,
            'total': self.total,
            'by_origin': self.by_origin,
            'contents_only': self.contents_only,
            'budget': self.budget.tokens,
            'counted': self.counted,
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


def count_tokens(pair: Pair, preview: Preview, tokenizer: Tokenizer) -> Counted:
    """The tokens of a request as a tokenizer cuts it, and how the pair counted it when it made it fit."""
    model_entry = pair.model_entry
    begins = model_entry is not None and model_entry.kind == 'text'
    tokens = tuple(tokens_of(preview.spans, tokenizer, with_bos=begins))
    own = None
    if model_entry is not None and preview.request is not None and pair.budget.tokens is not None:
        own = model_entry.count(preview.request)
    return Counted(
        tokenizer.name,
        tokens,
        pair.budget,
        own,
        preview,
        contents_only=is_messages(preview),
    )


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
