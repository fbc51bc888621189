"""The content of a `prompt_mm` speech: parts in template order, with tags in the row's values resolved.

Tagged content goes where the template names its column, in tag order. Media kinds that no tag supplies come from the
column named in the part's url.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.multimodal import MediaUrl, PartShape, Segment, is_tagged, medium, segments, url_of, whole
from rolecall.core.prompts.pieces import Field, Origin, Piece, Row, Text, bind, bind_piece, fold, text_of
from rolecall.core.prompts.script import Change, FilledPart, Script, Turn
from rolecall.errors import RenderError

_SCHEME = re.compile(r'(?:https?|file|data):', re.IGNORECASE)
_PLAIN_TEXT = PartShape('text', FrozenDict(type='text', text=''), ('text',))

Allowed = Callable[[str], bool]


_WHOLE_QUESTION = 'content'


def limit_stand_ins(script: Script, inputs: Sequence[str] = (), *, output: str | None = None) -> Script:
    """Restrict which columns may replace a field that a row lacks: input columns only, never the output column.

    `content` is always allowed, because loaders put a question with its media there whatever columns a config names.
    Without `inputs` any column except the output column is allowed.
    """
    named = frozenset((*inputs, _WHOLE_QUESTION)) if inputs else frozenset()

    def allowed(column: str) -> bool:
        return column != output and (not named or column in named)

    items = [
        replace(item, content=item.content.limited_to(allowed))
        if isinstance(item, Turn) and isinstance(item.content, MixedParts)
        else item
        for item in script.items
    ]
    return replace(script, items=tuple(items))


def _is_a_column(name: str) -> bool:
    """Fields that programs add begin with a NUL, so they never name a dataset column."""
    return not str(name).startswith('\0')


@dataclass(frozen=True, slots=True)
class MixedParts:
    """Text and media that depend on the row."""

    entries: tuple[PartShape, ...]
    columns: frozenset[str]
    """The columns named in the template. Tags are read only there: examples inserted later are data."""
    bound_to: Row | None = None
    shot: int | None = None
    may_stand_in: Allowed = _is_a_column
    """Which columns may replace a field that the row lacks."""

    @classmethod
    def of(cls, entries: Iterable[PartShape]) -> MixedParts:
        """Build the content from a template's entries."""
        parts = cls(tuple(entries), frozenset())
        return replace(parts, columns=frozenset(p.column for p in parts.pieces() if isinstance(p, Field)))

    def spread(self, change: Change) -> MixedParts:
        """Replace each piece. Bound values stay; a hidden column can no longer replace a field."""
        if self.bound_to is not None:
            return self._spread(lambda piece: (piece,) if isinstance(piece, Field) else change(piece))
        return self._spread(change).limited_to(lambda column: _keeps_column(column, change))

    def _spread(self, change: Change) -> MixedParts:
        return replace(self, entries=tuple(entry.spread(change) for entry in self.entries))

    def limited_to(self, allowed: Allowed) -> MixedParts:
        """Narrow the set of columns that may replace a missing field."""
        before = self.may_stand_in
        return replace(self, may_stand_in=lambda column: before(column) and allowed(column))

    def bind(self, row: Row, *, shot: int | None = None) -> MixedParts:
        return self if self.bound_to is not None else replace(self, bound_to=row, shot=shot)

    def pieces(self) -> Iterator[Piece]:
        for entry in self.entries:
            yield from entry.words

    def write(self, row: Row) -> list[FilledPart]:
        return _RowWriter(self, row if self.bound_to is None else self.bound_to).write()


def _keeps_column(column: str, change: Change) -> bool:
    field = Field(column, f'{{{column}}}', Origin('field', column))
    return tuple(change(field)) == (field,)


class _RowWriter:
    """Writes the parts of one row, merging adjacent text into one part."""

    def __init__(self, content: MixedParts, row: Row) -> None:
        self._content = content
        self._row = row
        self._text_shape = next((entry for entry in content.entries if entry.kind == 'text'), _PLAIN_TEXT)
        self._read_from = self._tagged_columns()
        self._parts: list[FilledPart] = []
        self._text: list[Text] = []
        self._trailing: list[FilledPart] = []
        self._lacking: list[Text] = []

    def write(self) -> list[FilledPart]:
        tagged = [segment for column in set(self._read_from.values()) for segment in segments(self._row[column])]
        kinds = {segment.kind for segment in tagged}
        for entry in self._content.entries:
            if entry.kind == 'text':
                self._write_text(entry)
            elif entry.kind not in kinds:
                self._write_own(entry)
            self._close()
        return self._finish()

    def _tagged_columns(self) -> dict[str, str]:
        """Map each text field with tagged content to the column it is read from.

        Tagged content in a column that the template does not name replaces `{question}` (or the first field) when the
        row has no value for it. `content`, where loaders put the whole question, replaces it in any case.
        """
        row, content = self._row, self._content
        texts = [piece for entry in content.entries if entry.kind == 'text' for piece in entry.words]
        fields = [column for column in _columns(texts) if column in content.columns]
        if any(is_tagged(row.get(column)) for column in _columns(content.pieces()) if column in content.columns):
            return {column: column for column in fields if is_tagged(row.get(column))}
        field = 'question' if 'question' in fields else next(iter(fields), None)
        if field is None:
            return {}
        others = [column for column in row if column not in content.columns and content.may_stand_in(column)]
        if not _is_blank(row.get(field)):
            others = [column for column in others if column == _WHOLE_QUESTION]
        return next(({field: column} for column in others if is_tagged(row[column])), {})

    def _write_text(self, entry: PartShape) -> None:
        for piece in entry.words:
            if isinstance(piece, Field) and piece.column in self._read_from:
                column = self._read_from[piece.column]
                self._write_tagged(self._row[column], column, replace(piece.origin, name=column))
            else:
                self._say(bind_piece(piece, self._row, shot=self._content.shot))

    def _write_tagged(self, value: str, column: str, origin: Origin, own: PartShape | None = None) -> None:
        """Write tagged content. Template text around it joins its first and last text; media go outside."""
        stretches = segments(value)
        texts = [i for i, stretch in enumerate(stretches) if stretch.kind == 'text']
        first, last = (texts[0], texts[-1]) if texts else (0, -1)
        for i, stretch in enumerate(stretches):
            if stretch.kind == 'text':
                self._say(Text(stretch.text, replace(origin, shot=self._content.shot)))
                continue
            shape = own if own and own.kind == stretch.kind else self._shape(stretch.kind, column)
            medium = self._medium(shape, self._url(shape, stretch, column), column)
            if i < first:
                self._parts.append(medium)
            elif i > last:
                self._trailing.append(medium)
            else:
                self._flush()
                self._parts.append(medium)

    def _write_own(self, shape: PartShape) -> None:
        """Write media from columns of their own: none, one, or one per list item."""
        fields = _columns(shape.words)
        if not fields:
            shot = self._content.shot
            self._parts.append(shape.spread(lambda piece: (bind_piece(piece, {}, shot=shot),)).write({}))
            return
        if lacking := [column for column in fields if column not in self._row]:
            self._note_lacking(lacking)
            return
        if any(_is_blank(self._row[column]) for column in fields):
            return
        column = next((name for name in fields if is_tagged(self._row[name])), fields[0])
        if column in self._read_from.values():
            return
        value = self._row[column]
        if len(fields) > 1 and not is_tagged(value):
            self._parts.append(self._medium(shape, fold(bind(shape.words, self._row)), column))
            return
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if is_tagged(item):
                self._write_tagged(item, column, Origin('field', column), shape)
                self._close()
            elif not _is_blank(item):
                url = self._url(shape, whole(shape.kind, text_of(item)), column)
                self._parts.append(self._medium(shape, url, column))

    def _note_lacking(self, columns: Sequence[str]) -> None:
        """Record a missing media column as an unfilled field. In tagged rows the tags decide, so nothing is missing."""
        if not self._read_from:
            shot = self._content.shot
            self._lacking += [Text('', Origin('unfilled', column, shot=shot)) for column in columns]

    def _url(self, shape: PartShape, segment: Segment, column: str) -> str | MediaUrl:
        """The url of a medium: unchanged if it has a scheme, otherwise placed in the template's url."""
        if _SCHEME.match(segment.source, segment.start, segment.stop):
            return url_of('', segment)
        at = self._place(shape, column)
        before, after = (fold(bind(words, self._row)) for words in (shape.words[:at], shape.words[at + 1 :]))
        return f'{before}{segment.text}{after}' if after else url_of(before, segment)

    def _place(self, shape: PartShape, column: str) -> int:
        """Which field of a url the medium replaces: its own column, its kind, or one the row lacks."""
        fields = {i: piece.column for i, piece in enumerate(shape.words) if isinstance(piece, Field)}
        meant = (
            [i for i, name in fields.items() if name == column]
            + [i for i, name in fields.items() if name == shape.kind]
            + [i for i, name in fields.items() if name not in self._row]
        )
        return next(iter((*meant, *fields)), len(shape.words))

    def _shape(self, kind: str, column: str) -> PartShape:
        for shape in self._content.entries:
            if shape.kind == kind:
                return shape
        raise RenderError(
            f"column '{column}' holds {kind} content, but the template's prompt_mm has no '{kind}' entry to carry it."
        )

    def _medium(self, shape: PartShape, url: str | MediaUrl, column: str) -> FilledPart:
        return FilledPart(shape.part(url), (medium(url, column, self._content.shot),))

    def _say(self, piece: Piece) -> None:
        if isinstance(piece, Text) and piece.text:
            self._text.append(piece)

    def _flush(self) -> None:
        if self._text:
            self._parts.append(FilledPart(self._text_shape.part(fold(self._text)), tuple(self._text)))
            self._text = []

    def _close(self) -> None:
        """End an entry: media after a value's last text also follow the template text after it."""
        self._flush()
        self._parts += self._trailing
        self._trailing = []

    def _finish(self) -> list[FilledPart]:
        if self._lacking and not self._parts:
            names = ', '.join(repr(piece.origin.name) for piece in self._lacking)
            raise RenderError(f'a speech is empty: its prompt_mm needs column {names}, which the row does not have.')
        if self._lacking:
            first = self._parts[0]
            self._parts[0] = replace(first, pieces=(*first.pieces, *self._lacking))
        return self._parts


def _columns(words: Iterable[Piece]) -> list[str]:
    return [piece.column for piece in words if isinstance(piece, Field)]


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)
