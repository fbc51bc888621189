"""The tokenizer in a GGUF file, run by llama.cpp itself: the ids are those the model receives."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from rolecall.errors import DataError
from rolecall.models.llama import bindings
from rolecall.models.protocol import ModelError
from rolecall.models.tokenizers.file_cache import load_once
from rolecall.models.tokenizers.gguf import Value, read_metadata
from rolecall.models.tokenizers.text import Offset, adjoin_ranges, replace_lone_surrogates, show_bytes

_LONGEST = 1 << 30
_TOKENS = 'tokenizer.ggml.tokens'


def load_gguf(path: Path, *, vocab_only: bool) -> int:
    """Load a GGUF file. Free the handle with `llama_model_free`."""
    native = bindings.library()
    _check_tokens(path)
    bindings.take_errors()
    parameters = bindings.model_parameters(native, vocab_only=vocab_only)
    handle: int | None = native.llama_model_load_from_file(os.fsencode(path), parameters)
    if not handle:
        why = _printable(bindings.take_errors().split('error loading model: ')[-1].partition(';')[0])
        raise DataError(f'{path}: llama.cpp cannot load it: {why or "no reason given"}')
    return handle


def _printable(text: str) -> str:
    """Escape control characters that llama.cpp quotes from a file."""
    return ''.join(letter if letter.isprintable() else f'\\x{ord(letter):02x}' for letter in text[:400])


def _check_tokens(path: Path) -> None:
    """Raise for a vocabulary on which llama.cpp would abort the process."""
    metadata = read_metadata(path, arrays=(_TOKENS,))
    tokens = metadata.get(_TOKENS)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return  # llama.cpp reports this one itself
    ids: dict[Value, int] = {}
    for number, token in enumerate(tokens):
        if isinstance(token, str) and '\0' in token:
            raise DataError(f'{path}: the token with id {number} contains a NUL character')
        if token and token in ids:
            raise DataError(f'{path}: the token {token!r:.60} has two ids, {ids[token]} and {number}')
        ids[token] = number
    if metadata.get('tokenizer.ggml.model') == 'llama':
        missing = [byte for byte in range(256) if f'<0x{byte:02X}>' not in ids and (byte > 127 or chr(byte) not in ids)]
        if missing:
            raise DataError(f'{path}: the vocabulary has no token for the byte 0x{missing[0]:02X}')


class LlamaVocabulary:
    """A GGUF file's `rolecall.models.tokenizers.tokenizer.Tokenizer`. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._native = bindings.library()
        self._model: int | None = load_gguf(path, vocab_only=True)
        self._vocab = self._native.llama_model_get_vocab(self._model)
        self.size: int = self._native.llama_vocab_n_tokens(self._vocab)
        self._bytes: dict[int, bytes] = {}
        if self.size <= 0:
            raise DataError(f'{path}: has no vocabulary.')

    def __del__(self) -> None:
        model, self._model = getattr(self, '_model', None), None
        if model:
            self._native.llama_model_free(model)

    @cached_property
    def bos_id(self) -> int | None:
        return self._valid_id(self._native.llama_vocab_bos(self._vocab))

    @cached_property
    def eos_id(self) -> int | None:
        return self._valid_id(self._native.llama_vocab_eos(self._vocab))

    @cached_property
    def adds_bos(self) -> bool:
        return self.bos_id is not None and bool(self._native.llama_vocab_get_add_bos(self._vocab))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The end-of-generation tokens."""
        return tuple(number for number in range(self.size) if self._native.llama_vocab_is_eog(self._vocab, number))

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        controls = (number for number in range(self.size) if self.is_control(number))
        return {self.bytes_of(number).decode(errors='replace'): number for number in controls}

    @cached_property
    def _puts_space(self) -> bool:
        """Whether a space that is not in the text is put before it (SentencePiece)."""
        return any(self.bytes_of(number).startswith(b' ') for number in self.encode('a')[:1])

    def is_control(self, number: int) -> bool:
        """Whether a token is a control token."""
        return bool(self._native.llama_vocab_is_control(self._vocab, number))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        data = replace_lone_surrogates(text).encode()
        if len(data) > _LONGEST:
            raise ModelError(f'a text of {len(data):,} bytes is too long for llama.cpp.')
        room = len(data) + 8
        for _ in range(2):
            ids = (ctypes.c_int32 * room)()
            count = self._native.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
            if count >= 0:
                return list(ids[:count])
            room = -count
        raise ModelError('llama.cpp could not tokenize a text.')

    def bytes_of(self, number: int) -> bytes:
        """The bytes of a token; of a special token, its name. They may be part of a character."""
        if number not in self._bytes:
            self._bytes[number] = self._piece(number)
        return self._bytes[number]

    def decode(self, ids: Sequence[int]) -> str:
        data = b''.join(map(self.bytes_of, ids))
        return (data.removeprefix(b' ') if self._puts_space else data).decode(errors='replace')

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [show_bytes(self.bytes_of(number)) for number in ids]

    def offsets(self, text: str) -> list[Offset]:
        ids = self.encode(text)
        return adjoin_ranges(ids, list(self._stops(ids, replace_lone_surrogates(text))), len(text))

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def _stops(self, ids: Sequence[int], text: str) -> Iterator[int]:
        """Where each token ends, in characters: its bytes laid along the text, minus an added leading space."""
        characters = [place for place, letter in enumerate(text) for _ in letter.encode()]
        data = text.encode()
        end = 0
        for number in ids:
            piece = self.bytes_of(number)
            if not data.startswith(piece, end):
                piece = piece.removeprefix(b' ')
            end = min(end + len(piece), len(data))
            yield characters[end - 1] + 1 if end else 0

    def _piece(self, number: int) -> bytes:
        if not 0 <= number < self.size:
            return f'<{number}>'.encode()
        room = 64
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            length = self._native.llama_token_to_piece(self._vocab, number, buffer, room, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            room = -length
        return b''

    def _valid_id(self, number: int) -> int | None:
        return number if 0 <= number < self.size else None


load_vocabulary = load_once(LlamaVocabulary)
"""The vocabulary of a GGUF file, shared by everything that reads it."""
