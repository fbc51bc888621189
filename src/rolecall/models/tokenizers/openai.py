"""Tokenizers of OpenAI models, run by the `tiktoken` package."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rolecall.errors import DataError, MissingExtraError
from rolecall.models.tokenizers.text import Offset, adjoin_ranges, replace_lone_surrogates, show_bytes

if TYPE_CHECKING:
    import tiktoken


_ADDRESS = 'https://openaipublic.blob.core.windows.net'
_ENCODINGS = {
    name: (f'{_ADDRESS}/encodings/{file}.tiktoken',)
    for name, file in {
        'r50k_base': 'r50k_base',
        'p50k_base': 'p50k_base',
        'p50k_edit': 'p50k_base',
        'cl100k_base': 'cl100k_base',
        'o200k_base': 'o200k_base',
        'o200k_harmony': 'o200k_base',
    }.items()
} | {'gpt2': (f'{_ADDRESS}/gpt-2/encodings/main/vocab.bpe', f'{_ADDRESS}/gpt-2/encodings/main/encoder.json')}
"""What the package downloads for an encoding and caches in a file named after the hash of the URL."""


@dataclass(frozen=True, eq=False)
class TiktokenTokenizer:
    """An encoding of the `tiktoken` package; these models use no BOS.

    >>> import tiktoken
    >>> ranks = {bytes([number]): number for number in range(256)} | {b'he': 256}
    >>> toy = tiktoken.Encoding('toy', pat_str='.+', mergeable_ranks=ranks, special_tokens={'<|endoftext|>': 257})
    >>> tokenizer = TiktokenTokenizer(toy)
    >>> tokenizer.encode('he!<|endoftext|>'), tokenizer.pieces([256, 33, 257])
    ([256, 33, 257], ['he', '!', '<|endoftext|>'])
    >>> tokenizer.offsets('é!')
    [(195, 0, 1), (169, 1, 1), (33, 1, 2)]
    """

    encoding: tiktoken.Encoding
    bos_id: None = field(default=None, init=False)
    adds_bos: bool = field(default=False, init=False)

    @classmethod
    def load(cls, name: str) -> TiktokenTokenizer:
        """By encoding ('o200k_base') or model ('gpt-4o'). The package downloads an encoding that is not cached."""
        package = import_tiktoken()
        try:
            return cls(package.get_encoding(encoding_name(name) or name))
        except ValueError as error:
            raise DataError(f'tiktoken:{name}: tiktoken has no encoding or model of this name') from error
        except OSError as error:
            raise DataError(
                f'tiktoken:{name}: the encoding is not on this machine and could not be downloaded: {error}'
            ) from error

    @property
    def name(self) -> str:
        return f'tiktoken:{self.encoding.name}'

    @property
    def eos_id(self) -> int | None:
        return self.special_tokens.get('<|endoftext|>')

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        tokens = {token: self.encoding.encode_single_token(token) for token in self.encoding.special_tokens_set}
        return dict(sorted(tokens.items(), key=lambda item: item[1]))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        if special:
            return self.encoding.encode(replace_lone_surrogates(text), allowed_special='all')
        return self.encoding.encode_ordinary(replace_lone_surrogates(text))

    def decode(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [show_bytes(self._bytes(number)) for number in ids]

    def offsets(self, text: str) -> list[Offset]:
        ids = self.encode(text)
        characters = [place for place, letter in enumerate(replace_lone_surrogates(text)) for _ in letter.encode()]
        stops, end = [], 0
        for number in ids:
            end += len(self._bytes(number))
            stops.append(characters[end - 1] + 1)
        return adjoin_ranges(ids, stops, len(text))

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def _bytes(self, number: int) -> bytes:
        try:
            return self.encoding.decode_single_token_bytes(number)
        except KeyError:
            return f'<{number}>'.encode()


def import_tiktoken() -> ModuleType:
    """The `tiktoken` package."""
    try:
        import tiktoken
    except ImportError as error:
        raise MissingExtraError('tiktoken', extra='tokenize', purpose='to count the tokens of OpenAI models') from error
    return tiktoken


def encoding_name(name: str) -> str | None:
    """The tiktoken encoding of this name, or of the OpenAI model of this name."""
    package = import_tiktoken()
    if name in package.list_encoding_names():
        return name
    try:
        return str(package.encoding_name_for_model(name))
    except KeyError:
        return None


def is_cached(encoding: str) -> bool:
    """Whether an encoding is available without the network: already loaded, or cached by the package."""
    if encoding in import_tiktoken().registry.ENCODINGS:
        return True
    places = (os.environ.get(name) for name in ('TIKTOKEN_CACHE_DIR', 'DATA_GYM_CACHE_DIR'))
    folder = next((place for place in places if place is not None), f'{tempfile.gettempdir()}/data-gym-cache')
    addresses = _ENCODINGS.get(encoding, ())
    files = [Path(folder, hashlib.sha1(address.encode()).hexdigest()) for address in addresses]
    return bool(folder and files) and all(file.is_file() for file in files)
