"""Rows from a file of any known format, chosen by its suffix."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.errors import DataError, did_you_mean
from rolecall.sources.datasets.arrow import ParquetRows
from rolecall.sources.datasets.compression import open_plain, plain_suffix
from rolecall.sources.datasets.lines import (
    FileRows,
    JsonLines,
    OnError,
    Table,
    TextLines,
    table_columns,
    whole_file_remedy,
)
from rolecall.sources.datasets.rows import ListRows, Row, Rows

FORMATS = {
    '.jsonl': 'jsonl',
    '.ndjson': 'jsonl',
    '.json': 'json',
    '.csv': 'csv',
    '.tsv': 'tsv',
    '.parquet': 'parquet',
    '.pq': 'parquet',
    '.txt': 'text',
    '.lst': 'text',
}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are read.

    `format` overrides the suffix, `fallback` is used if the suffix is unknown; `field` names the part of
    a JSON document that holds the rows; `columns` names the columns of a table without a header;
    `strict=False` reads sloppily quoted tables as they come.
    """

    format: str | None = None
    encoding: str = 'utf-8'
    on_error: OnError = 'stop'
    field: str | None = None
    columns: tuple[str, ...] | None = None
    strict: bool = True
    fallback: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS.values():
            hint = did_you_mean(self.format, dict.fromkeys(FORMATS.values()))
            raise DataError(f'unknown file format {self.format!r}. {hint}')
        if self.on_error not in ('stop', 'skip'):
            raise DataError(f"on_error must be 'stop' or 'skip', got {self.on_error!r}.")
        try:
            name = codecs.lookup(self.encoding).name
            if name.startswith(('utf-16', 'utf-32')):
                raise DataError(f'files in {self.encoding} cannot be read line by line; convert them to UTF-8.')
            b'a'.decode(self.encoding)  # some codecs are not text encodings
        except (LookupError, ValueError, TypeError):
            raise DataError(f"unknown encoding {self.encoding!r}; use a name such as 'utf-8' or 'gb18030'.") from None


def is_data_file(path: Path) -> bool:
    """Whether the suffix is a known format.

    >>> is_data_file(Path('train.csv.gz')), is_data_file(Path('README.md'))
    (True, False)
    """
    return plain_suffix(path) in FORMATS


def open_file(path: str | Path, options: FileOptions | None = None) -> Rows:
    """The rows of one file, compressed or not.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), 'rows.csv')
    >>> _ = path.write_text('question,answer\\n1+1=?,2\\n')
    >>> list(open_file(path))
    [{'question': '1+1=?', 'answer': '2'}]
    """
    path, options = Path(path), options or FileOptions()
    if not path.is_file():
        raise DataError(f'{path}: no such file.')
    match options.format or FORMATS.get(plain_suffix(path), options.fallback):
        case 'jsonl':
            return FileRows(path, JsonLines(options.encoding), on_error=options.on_error)
        case 'json':
            return _open_json(path, options)
        case 'csv':
            return _open_table(path, ',', options)
        case 'tsv':
            return _open_table(path, '\t', options)
        case 'text':
            return FileRows(path, TextLines(options.encoding), on_error=options.on_error)
        case 'parquet':
            return ParquetRows(path)
        case _:
            raise DataError(
                f'{path}: unknown file format. Known suffixes: {", ".join(FORMATS)}; '
                "or set format='jsonl', 'json', 'csv', 'tsv', 'text' or 'parquet'."
            )


def _open_table(path: Path, delimiter: str, options: FileOptions) -> Rows:
    header = options.columns is None
    table = Table(options.columns or (), delimiter, options.encoding, header, options.strict)
    if header:
        table = replace(table, columns=table_columns(path, table))
        table = _find_delimiter(path, table)
    return FileRows(path, table, on_error=options.on_error)


def _find_delimiter(path: Path, table: Table) -> Table:
    """The table with the delimiter of its header: spreadsheets write semicolons where commas are decimal points."""
    if table.delimiter != ',' or len(table.columns) != 1:
        return table
    for delimiter in (';', '\t'):
        if delimiter in table.columns[0]:
            other = replace(table, delimiter=delimiter)
            return replace(other, columns=table_columns(path, other))
    return table


def _open_json(path: Path, options: FileOptions) -> Rows:
    """A JSON document; or JSON lines, which many datasets keep in files called .json."""
    if options.field is None and _holds_json_lines(path, options.encoding):
        return FileRows(path, JsonLines(options.encoding), on_error=options.on_error)
    with open_plain(path) as stream:
        content = stream.read()
    items = _extract_items(_parse_json(path, content, options.encoding), options.field, path)
    rows: list[Row] = [item for item in items if isinstance(item, dict)]
    if len(rows) < len(items) and options.on_error == 'stop':
        index = next(number for number, item in enumerate(items) if not isinstance(item, dict))
        raise DataError(f'{path}: item {index} is {type(items[index]).__name__}; a row must be a JSON object.')
    return ListRows(rows, skipped=len(items) - len(rows))


def _holds_json_lines(path: Path, encoding: str) -> bool:
    """Whether the first line is a whole JSON object and something follows it."""
    with open_plain(path) as stream:
        lines = (line for line in stream if not line.isspace())
        first = next(lines, b'').removeprefix(codecs.BOM_UTF8).lstrip()
        if not first.startswith(b'{'):
            return False
        try:
            json.loads(first.decode(encoding))
        except (ValueError, RecursionError):
            return False
        return next(lines, None) is not None


def _parse_json(path: Path, content: bytes, encoding: str) -> Any:
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode(encoding)
        return json.loads(text) if text.strip() else []
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        what = f'not valid {encoding}: byte 0x{content[error.start]:02x}.'
        raise DataError(f'{path}:{line}: {what}\n  {whole_file_remedy(error)}') from error
    except json.JSONDecodeError as error:
        raise DataError(f'{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno}).') from error
    except (ValueError, RecursionError) as error:
        raise DataError(f'{path}: not valid JSON: {error}.') from error


def _extract_items(document: Any, field: str | None, path: Path) -> list[Any]:
    """The list of rows in a JSON document: a list, a list under one key, columns, or rows by their id."""
    if field is not None:
        if not isinstance(document, Mapping) or field not in document:
            keys = document if isinstance(document, Mapping) else ()
            raise DataError(f'{path}: no field {field!r}. {did_you_mean(field, keys)}'.rstrip())
        return _extract_items(document[field], None, path)
    if isinstance(document, list):
        return document
    if isinstance(document, Mapping):
        lists = {key: value for key, value in document.items() if isinstance(value, list)}
        of_rows = [key for key, value in lists.items() if value and all(isinstance(item, dict) for item in value)]
        if len(of_rows) == 1:
            return lists[of_rows[0]]
        if len(of_rows) > 1:
            raise DataError(f'{path}: found rows under {", ".join(map(repr, of_rows))}; choose one with field=….')
        if all(isinstance(value, Mapping) for value in document.values()):
            return list(document.values())
        if len(lists) == len(document) and len({len(column) for column in lists.values()}) == 1:
            return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    raise DataError(
        f'{path}: no rows found: expected a list of objects, columns of equal length, or objects by id.\n'
        "  For one row per line use the suffix .jsonl (or format='jsonl')."
    )
