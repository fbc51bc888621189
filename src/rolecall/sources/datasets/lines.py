"""Rows from files of records (JSONL, CSV, TSV, text), read as a stream or by an array of byte offsets.

Iterating never holds more than one record; the first `len` or index costs one pass and eight bytes per row.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from rolecall.errors import DataError
from rolecall.sources.datasets.compression import open_plain, plain_path
from rolecall.sources.datasets.rows import Row, list_names, resolve_index

OnError: TypeAlias = Literal['stop', 'skip']
Record: TypeAlias = tuple[int, int, Any]
"""Line number, byte offset, and the record as the format found it."""

_BOM = b'\xef\xbb\xbf'
_HIGH_BYTES = re.compile(rb'[\x80-\xff]+')
_CHINESE = re.compile(rb'(?:[\xa1-\xf7][\xa1-\xfe])+')
_BINARY = re.compile(rb'[\x00-\x08\x0e-\x1a\x1c-\x1f]|^\x89PNG|^\xff\xd8\xff')
_CONVERT_LINE_ENDS = r"Convert them: tr '\r' '\n' < OLD > NEW"
_read_value = json.JSONDecoder().raw_decode
_WIDE_BOMS = (b'\xff\xfe', b'\xfe\xff')


class RecordFormat(Protocol):
    """How a file is cut into records, and a record read. `row` raises ValueError for a malformed one.

    `first_record` is the record at the start of a chunk; blank or malformed lines may follow it.
    """

    def records(self, lines: Iterable[bytes]) -> Iterator[Record]: ...

    def row(self, record: Any) -> Row: ...

    def first_record(self, chunk: bytes) -> Any: ...


class FileRows:
    """The rows of one file of records.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), 'rows.jsonl')
    >>> _ = path.write_text('{"n": 1}\\n\\n{"n": 2}\\n')
    >>> rows = FileRows(path)
    >>> len(rows), rows[1], list(rows)
    (2, {'n': 2}, [{'n': 1}, {'n': 2}])
    """

    __slots__ = ('__weakref__', '_offsets', '_plain', '_skipped', '_stamp', 'on_error', 'path', 'record_format')

    def __init__(self, path: Path, records: RecordFormat | None = None, *, on_error: OnError = 'stop') -> None:
        self.path = path
        self.record_format = records or JsonLines()
        self.on_error = on_error
        self._offsets: array[int] | None = None
        self._plain = path
        self._stamp = (0, 0)
        self._skipped = 0

    def __repr__(self) -> str:
        return f'FileRows({str(self.path)!r})'

    @property
    def skipped(self) -> int:
        """The number of malformed records skipped; 0 with `on_error='stop'`, which raises instead."""
        if self.on_error == 'skip':
            self._index()
        return self._skipped

    def __len__(self) -> int:
        return len(self._index()) - 1

    def __getitem__(self, index: int, /) -> Row:
        offsets = self._index()
        index = resolve_index(index, len(offsets) - 1)
        chunk = self._bytes_between(offsets[index], offsets[index + 1])
        try:
            return self.record_format.row(self.record_format.first_record(chunk))
        except (ValueError, RecursionError) as error:
            raise self._malformed_error(self._line_at(offsets[index]), error) from error

    def __iter__(self) -> Iterator[Row]:
        with open_plain(self.path) as stream:
            for line, _, record in self._records(stream):
                try:
                    row = self.record_format.row(record)
                except (ValueError, RecursionError) as error:
                    if self.on_error == 'skip':
                        continue
                    raise self._malformed_error(line, error) from error
                yield row

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        try:
            yield from self.record_format.records(lines)
        except UnicodeError as error:
            raise self._malformed_error(1, error) from error

    def _index(self) -> array[int]:
        """Where each record starts, and where the last one ends."""
        if self._offsets is None:
            self._plain = plain_path(self.path, self)
            with open_plain(self._plain) as stream:
                size, self._stamp = _size_and_stamp(stream.fileno())
                offsets, self._skipped = self._scan(stream)
            offsets.append(size)
            self._offsets = offsets
        return self._offsets

    def _scan(self, stream: Iterable[bytes]) -> tuple[array[int], int]:
        if self.on_error == 'stop':
            return array('Q', (offset for _, offset, _ in self._records(stream))), 0
        offsets, malformed = array('Q'), 0
        for _, offset, record in self._records(stream):
            try:
                self.record_format.row(record)
            except (ValueError, RecursionError):
                malformed += 1
            else:
                offsets.append(offset)
        return offsets, malformed

    def _bytes_between(self, start: int, end: int) -> bytes:
        # Opened for each look-up: no state to share between threads or processes, no handle to leave open.
        try:
            with self._plain.open('rb', buffering=0) as stream:
                if _size_and_stamp(stream.fileno())[1] != self._stamp:
                    raise DataError(f'{self.path}: the file changed after its rows were counted. Open it again.')
                stream.seek(start)
                return stream.read(end - start)
        except OSError as error:
            raise DataError(f'{self.path}: cannot read: {error.strerror}.') from error

    def _line_at(self, offset: int) -> int:
        line = 1
        with open_plain(self._plain) as stream:
            while offset > 0:
                block = stream.read(min(offset, 1 << 20))
                line += block.count(b'\n')
                offset -= len(block)
        return line

    def _malformed_error(self, line: int, error: Exception) -> DataError:
        return DataError(f'{self.path}:{line}: {_explain_error(error)}\n  {_remedy(error)}')


@dataclass(frozen=True, slots=True)
class _RowPerLine:
    encoding: str = 'utf-8'

    def records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        return _number_lines(lines)

    def first_record(self, chunk: bytes) -> bytes:
        return chunk.partition(b'\n')[0]


@dataclass(frozen=True, slots=True)
class JsonLines(_RowPerLine):
    """One JSON object per line; blank lines are ignored."""

    def row(self, record: bytes) -> Row:
        text = record.decode(self.encoding)
        try:
            value, end = _read_value(text)
        except ValueError:
            value, end = None, 0
        if text[end:].strip(' \t\r\n'):  # spaces before the value, or an error
            value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError(f'a row must be a JSON object, got {type(value).__name__}')
        return value


@dataclass(frozen=True, slots=True)
class TextLines(_RowPerLine):
    """One row per line, with the single column `text`."""

    def row(self, record: bytes) -> Row:
        return {'text': record.decode(self.encoding).rstrip('\r\n')}


@dataclass(frozen=True, slots=True)
class Table:
    """Separated values. Records may span lines; every record has as many fields as there are columns.

    Spreadsheets write empty cells: a record of only these is skipped, and such columns need no name.
    `header` says that the file's first record holds the column names.
    """

    columns: tuple[str, ...]
    delimiter: str = ','
    encoding: str = 'utf-8'
    header: bool = True
    strict: bool = True

    def records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        records = self._all_records(lines)
        if self.header:
            next(records, None)
        return records

    def first_record(self, chunk: bytes) -> Any:
        return next(self._all_records(io.BytesIO(chunk)))[2]

    def row(self, record: list[str] | Exception) -> Row:
        if isinstance(record, Exception):
            raise record
        if len(record) != len(self.columns):
            raise ValueError(f'{len(record)} {"field" if len(record) == 1 else "fields"}, expected {len(self.columns)}')
        row = dict(zip(self.columns, record, strict=True))
        if '' in row and self.columns.count('') > 1:
            del row['']
            if any(cell for name, cell in zip(self.columns, record, strict=True) if not name):
                raise ValueError('a value stands in a column without a name')
        return row

    def _all_records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        text = _DecodedLines(lines, self.encoding)
        # The default limit of 128 KiB for one field is too small for long-context data.
        csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
        reader = csv.reader(text, delimiter=self.delimiter, strict=self.strict)
        while True:
            line, offset = text.next_line, text.next_offset
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, offset, ValueError(str(error))
            except UnicodeDecodeError as error:
                yield line, offset, error
            else:
                if any(fields):
                    yield line, offset, fields


def table_columns(path: Path, table: Table) -> tuple[str, ...]:
    """The column names in the first record of a table; none if the file is empty."""
    try:
        with open_plain(path) as stream:
            first = next(replace(table, header=False).records(stream), None)
    except UnicodeError as error:
        raise DataError(f'{path}:1: {_explain_error(error)}\n  {whole_file_remedy(error)}') from error
    if first is None:
        return ()
    line, _, names = first
    if isinstance(names, Exception):
        raise DataError(f'{path}:{line}: {_explain_error(names)}\n  {whole_file_remedy(names)}') from names
    twice = sorted(str(name) for name, count in Counter[str](names).items() if name and count > 1)
    if twice:
        what = f'duplicate column in the header: {list_names(map(repr, twice))}.'
        raise DataError(f'{path}:{line}: {what}\n  Give each column a name of its own.')
    return tuple(names)


class _DecodedLines:
    """Decoded lines for the csv reader, with the offset of the next one. Undecodable lines do not stop it."""

    __slots__ = ('_encoding', '_lines', 'next_line', 'next_offset')

    def __init__(self, lines: Iterable[bytes], encoding: str) -> None:
        self._lines = iter(lines)
        self._encoding = encoding
        self.next_line = 1
        self.next_offset = 0

    def __iter__(self) -> _DecodedLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        first = self.next_line == 1
        self.next_line += 1
        self.next_offset += len(line)
        return (_without_bom(line) if first else line).decode(self._encoding)


def _number_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    """Lines that hold something, with their number and offset."""
    offset = 0
    for number, line in enumerate(lines, start=1):
        content = _without_bom(line) if number == 1 else line
        if content and not content.isspace():
            yield number, offset + len(line) - len(content), content
        offset += len(line)


def _without_bom(line: bytes) -> bytes:
    if line.startswith(_WIDE_BOMS):
        raise UnicodeError('the file is UTF-16')
    return line.removeprefix(_BOM)


def _explain_error(error: Exception) -> str:
    match error:
        case UnicodeDecodeError() if _BINARY.search(error.object):
            return 'this is a binary file, not text.'
        case ValueError() if _has_carriage_returns(error):
            return 'the lines end in a carriage return alone (CR), as on old Macs.'
        case json.JSONDecodeError():
            return f'not valid JSON: {error.msg} (column {error.pos + 1}).'
        case UnicodeDecodeError():
            byte = error.object[error.start]
            return f'not valid {error.encoding}: byte 0x{byte:02x} at position {error.start} of the line.'
        case RecursionError():
            return 'not valid JSON: nested too deeply.'
        case ValueError() if str(error) == 'unexpected end of data':
            return 'a quoted cell begins here and never ends.'
        case _:
            return f'{error}.'


def _remedy(error: Exception) -> str:
    """The remedy for one malformed record."""
    skip = "skip and count such lines of a dataset: --on-error skip, or on_error='skip' in a config."
    match error:
        case UnicodeDecodeError() if not _BINARY.search(error.object):
            return f'{_name_encoding(error.object)} If only some lines are wrong, {skip}'
        case UnicodeError():
            return whole_file_remedy(error)
        case ValueError() if _has_carriage_returns(error):
            return _CONVERT_LINE_ENDS
        case json.JSONDecodeError() if '\0' in error.doc:
            return f'It contains NUL characters: if the file is UTF-16, convert it to UTF-8. Otherwise {skip}'
        case _:
            return f'Correct the line, or {skip}'


def whole_file_remedy(error: Exception) -> str:
    """The remedy for a file without a single readable row."""
    match error:
        case ValueError() if _has_carriage_returns(error):
            return _CONVERT_LINE_ENDS
        case UnicodeDecodeError() if _BINARY.search(error.object) and not error.object.startswith(_WIDE_BOMS):
            return 'Save the rows as CSV or JSON Lines, in UTF-8.'
        case UnicodeDecodeError() if not error.object.startswith(_WIDE_BOMS):
            return _name_encoding(error.object)
        case UnicodeError():
            return 'Convert it to UTF-8: UTF-16 is not supported, not even with encoding= or on_error=.'
        case _:
            return 'Correct the file.'


def _has_carriage_returns(error: Exception) -> bool:
    """Whether a record holds several lines, because they end in CR alone."""
    if isinstance(error, json.JSONDecodeError):
        return '\r' in error.doc.strip()
    return 'new-line character' in str(error)


def _name_encoding(text: bytes) -> str:
    """A remedy that names the likely encoding: Chinese characters take two bytes each, accented letters stand alone."""
    pairs = all(_CHINESE.fullmatch(run) for run in _HIGH_BYTES.findall(text))
    name = 'gb18030' if pairs else 'cp1252'
    return f"If the file has another encoding, name it: --encoding {name}, or encoding='{name}' in a config."


def _size_and_stamp(descriptor: int) -> tuple[int, tuple[int, int]]:
    status = os.fstat(descriptor)
    return status.st_size, (status.st_size, status.st_mtime_ns)
