"""The tokens of a request with their origins: each token belongs to the origin of its first character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Span
from rolecall.experiment.previews.blocks import show_blanks
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.strings import printable

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
