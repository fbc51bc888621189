"""A GGUF file's metadata: its key-values, read without the tensors.

Every length is checked against the rest of the file before anything is read or allocated, so a truncated or
hostile file raises an error with the file name and offset.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from rolecall.errors import DataError
from rolecall.models.tokenizers.file_cache import load_once

MAGIC = b'GGUF'
VERSIONS = (2, 3)
SMALL_ARRAY = 64
"""Arrays up to this length are always read; longer ones only when asked for."""

LONGEST_STRING = 1 << 26
LONGEST_ARRAY = 1 << 24
DEEPEST_ARRAY = 4
_CHUNK = 1 << 18

_NUMBERS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: 'B', 10: 'Q', 11: 'q', 12: 'd'}
_NAMES: dict[int, str] = {0: 'uint8', 1: 'int8', 2: 'uint16', 3: 'int16', 4: 'uint32', 5: 'int32', 6: 'float32'}
_NAMES |= {7: 'bool', 8: 'string', 9: 'array', 10: 'uint64', 11: 'int64', 12: 'float64'}
_BOOL, _STRING, _ARRAY = 7, 8, 9


@dataclass(frozen=True, slots=True)
class SkippedArray:
    """A long array that was not requested: its element type, length and offset in the file."""

    kind: str
    count: int
    offset: int


Value: TypeAlias = 'bool | int | float | str | list[Value] | SkippedArray'


def read_metadata(path: str | Path, *, arrays: Collection[str] = ()) -> dict[str, Value]:
    """The key-values of a GGUF file, in file order.

    Arrays of more than 64 elements (a vocabulary, its merges) come as `SkippedArray` unless `arrays` names their key.

    >>> read_metadata('no-such-file.gguf')
    Traceback (most recent call last):
    rolecall.errors.DataError: no-such-file.gguf: cannot be read: No such file or directory
    """
    path = Path(path)
    try:
        with path.open('rb', buffering=1 << 20) as file:
            return _MetadataReader(path, file).key_values(arrays)
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror or error}') from error


def chat_template(path: str | Path) -> str | None:
    """The chat template in a GGUF file (Jinja source), or None if it has none."""
    return chat_settings(path).get('chat_template')


def chat_settings(path: str | Path) -> dict[str, str]:
    """What a chat template needs, named as in `tokenizer_config.json`.

    `chat_template`, `bos_token` and `eos_token`, where present.
    """
    return dict(_chat_settings(Path(path)))


@load_once
def _chat_settings(path: Path) -> dict[str, str]:
    tokens = 'tokenizer.ggml.tokens'
    metadata = read_metadata(path, arrays=(tokens,))
    settings = {
        'chat_template': metadata.get('tokenizer.chat_template'),
        'bos_token': _array_element(metadata, tokens, 'tokenizer.ggml.bos_token_id'),
        'eos_token': _array_element(metadata, tokens, 'tokenizer.ggml.eos_token_id'),
    }
    return {name: value for name, value in settings.items() if isinstance(value, str)}


def _array_element(metadata: Mapping[str, Value], array: str, index: str) -> Value | None:
    values, number = metadata.get(array), metadata.get(index)
    if isinstance(values, list) and isinstance(number, int) and 0 <= number < len(values):
        return values[number]
    return None


class _MetadataReader:
    """One pass over a file's header; `left` is the number of bytes remaining."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.size = os.fstat(file.fileno()).st_size
        self.offset = 0
        self.order = '<'

    @property
    def left(self) -> int:
        return self.size - self.offset

    def key_values(self, arrays: Collection[str]) -> dict[str, Value]:
        self.check_header()
        self.unsigned('Q')  # the number of tensors
        count = self.unsigned('Q')
        if count > self.left:
            raise self.error_at(f'claims {count} key-values, more than the file can hold')
        values: dict[str, Value] = {}
        for _ in range(count):
            start = self.offset
            key = self.string()
            if key in values:
                raise self.error_at(f'the key {key!r} occurs twice', start)
            values[key] = self.value(self.unsigned('I'), whole=key in arrays)
        return values

    def check_header(self) -> None:
        if self.size < len(MAGIC) or self.take(len(MAGIC)) != MAGIC:
            raise self.error_at('is not a GGUF file (it does not start with "GGUF")', 0)
        head = self.take(4)
        self.order = '>' if head[3] and not head[0] else '<'
        version = struct.unpack(f'{self.order}I', head)[0]
        if version not in VERSIONS:
            raise self.error_at(f'is GGUF version {version}; versions 2 and 3 are supported', 4)

    def value(self, kind: int, *, whole: bool, depth: int = 0) -> Value:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(whole=whole, depth=depth + 1)
        return self.numbers(kind, 1)[0]

    def array(self, *, whole: bool, depth: int) -> Value:
        if depth > DEEPEST_ARRAY:
            raise self.error_at(f'arrays are nested more than {DEEPEST_ARRAY} deep')
        kind, count, start = self.unsigned('I'), self.unsigned('Q'), self.offset
        if kind not in _NAMES:
            raise self.error_at(f'unknown value type {kind}', start - 12)
        if count > min(LONGEST_ARRAY, self.left):
            raise self.error_at(f'an array claims {count} elements; {self.left} bytes are left', start - 8)
        keep = whole or count <= SMALL_ARRAY
        if kind in _NUMBERS:
            if keep:
                return self.numbers(kind, count)
            self.skip(count * struct.calcsize(_NUMBERS[kind]))
        else:
            items = self.strings(count, keep=keep) if kind == _STRING else self.arrays(count, whole=whole, depth=depth)
            if keep:
                return items
        return SkippedArray(_NAMES[kind], count, start)

    def arrays(self, count: int, *, whole: bool, depth: int) -> list[Value]:
        return [self.array(whole=whole, depth=depth + 1) for _ in range(count)]

    def strings(self, count: int, *, keep: bool) -> list[Value]:
        """The strings of an array, taken from large chunks; one that crosses a border, or is bad, is read by itself."""
        texts: list[Value] = []
        length_at = struct.Struct(f'{self.order}Q').unpack_from
        while count:
            chunk, at = self.file.read(_CHUNK), 0
            while count and at + 8 <= len(chunk):
                end = at + 8 + length_at(chunk, at)[0]
                if end > len(chunk):
                    break
                if keep:
                    try:
                        texts.append(chunk[at + 8 : end].decode())
                    except UnicodeDecodeError:
                        break
                at = end
                count -= 1
            self.offset += at
            self.file.seek(self.offset)
            if count and keep:
                texts.append(self.string())
            elif count:
                self.skip(self.string_length())
            count = max(0, count - 1)
        return texts

    def numbers(self, kind: int, count: int) -> list[Value]:
        if kind not in _NUMBERS:
            raise self.error_at(f'unknown value type {kind}', self.offset - 4)
        layout = f'{self.order}{count}{_NUMBERS[kind]}'
        start = self.offset
        values: list[Value] = list(struct.unpack(layout, self.take(struct.calcsize(layout))))
        if kind != _BOOL:
            return values
        for number, value in enumerate(values):
            if value not in (0, 1):
                raise self.error_at(f'a bool is neither 0 nor 1 but {value}', start + number)
        return [bool(value) for value in values]

    def string(self) -> str:
        length = self.string_length()
        start = self.offset
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise self.error_at('a string is not UTF-8', start + error.start) from error

    def string_length(self) -> int:
        length = self.unsigned('Q')
        if length > min(LONGEST_STRING, self.left):
            raise self.error_at(f'a string claims {length} bytes; {self.left} are left', self.offset - 8)
        return length

    def unsigned(self, code: str) -> int:
        layout = f'{self.order}{code}'
        number: int = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return number

    def take(self, count: int) -> bytes:
        self.check_left(count)
        data = self.file.read(count)
        if len(data) != count:
            raise self.error_at(f'ends here; {count} more bytes were expected')
        self.offset += count
        return data

    def skip(self, count: int) -> None:
        self.check_left(count)
        self.file.seek(count, os.SEEK_CUR)
        self.offset += count

    def check_left(self, count: int) -> None:
        if count > self.left:
            raise self.error_at(f'file too short: {count} bytes expected, {self.left} left')

    def error_at(self, what: str, offset: int | None = None) -> DataError:
        return DataError(f'{self.path}: offset {self.offset if offset is None else offset}: {what}')
