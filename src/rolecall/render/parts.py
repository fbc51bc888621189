"""Content of several kinds (text, pictures, sound, film) as a role says it: who speaks, and the words around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rolecall.prompts.frozen import FrozenDict
from rolecall.prompts.pieces import Origin, Piece, Pieces, Row, Text, bind, fold, relabel
from rolecall.prompts.script import Change, Content, Parts, Written

__all__ = ['SpokenParts', 'voiced']


@dataclass(frozen=True, slots=True)
class SpokenParts:
    """The parts of one speech. `begin` and `end` belong to the text they meet, or are texts of their own."""

    parts: Parts
    role: str = ''
    fallback: str = ''
    begin: Pieces = ()
    end: Pieces = ()

    def spread(self, change: Change) -> SpokenParts:
        begin, end = (tuple(new for piece in affix for new in change(piece)) for affix in (self.begin, self.end))
        return replace(self, parts=self.parts.spread(change), begin=begin, end=end)

    def bind(self, row: Row, *, shot: int | None = None) -> SpokenParts:
        begin, end = (bind(pieces, row, shot=shot) for pieces in (self.begin, self.end))
        return replace(self, parts=self.parts.bind(row, shot=shot), begin=begin, end=end)

    def pieces(self) -> Iterator[Piece]:
        yield from self.begin
        yield from self.parts.pieces()
        yield from self.end

    def write(self, row: Row) -> list[Written]:
        """The parts for one row, each piece labelled with who says it."""
        written = [replace(part, pieces=self._labelled(part.pieces)) for part in self.parts.write(row)]
        begin, end = (_words(bind(pieces, row)) for pieces in (self.begin, self.end))
        if begin and written and _is_text(written[0]):
            written[0] = _with_words(written[0], (*begin, *written[0].pieces))
        elif begin:
            written.insert(0, _text_part(begin))
        if end and written and _is_text(written[-1]):
            written[-1] = _with_words(written[-1], (*written[-1].pieces, *end))
        elif end:
            written.append(_text_part(end))
        return written

    def _labelled(self, pieces: tuple[Text, ...]) -> tuple[Text, ...]:
        return tuple(replace(piece, origin=self._label(piece.origin)) for piece in pieces)

    def _label(self, origin: Origin) -> Origin:
        return replace(origin, role=self.role or origin.role, fallback=self.fallback or origin.fallback)


def voiced(content: Content, role: str, fallback: str = '') -> Content:
    """Content labelled with who says it, and who says it instead."""
    if isinstance(content, tuple):
        return relabel(content, lambda origin: replace(origin, role=role, fallback=fallback))
    return SpokenParts(content, role, fallback)


def _words(pieces: Pieces) -> tuple[Text, ...]:
    return tuple(piece for piece in pieces if isinstance(piece, Text) and piece.text)


def _is_text(written: Written) -> bool:
    return written.part.get('type') == 'text' and bool(written.pieces)


def _text_part(pieces: tuple[Text, ...]) -> Written:
    return Written(FrozenDict(type='text', text=fold(pieces)), pieces)


def _with_words(written: Written, pieces: tuple[Text, ...]) -> Written:
    return Written(FrozenDict({**written.part, 'text': fold(pieces)}), pieces)
