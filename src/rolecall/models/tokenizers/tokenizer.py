"""Tokenizers: tokenizer.json, tiktoken, or the vocabulary in a GGUF file, giving the model's own ids.

`load_tokenizer` takes what the user names; `find_tokenizer` takes a model entry and never downloads.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import DataError, MissingExtraError, import_extra
from rolecall.models.backends import with_default_path
from rolecall.models.pull import PACKAGED, cached_path
from rolecall.models.tokenizers.file_cache import load_once
from rolecall.models.tokenizers.gguf import chat_settings
from rolecall.models.tokenizers.huggingface import FastTokenizer, read_json_object, read_text, read_tokenizer_config
from rolecall.models.tokenizers.text import Offset, adjoin_ranges, replace_lone_surrogates, show_bytes

if TYPE_CHECKING:
    import tiktoken


_CONFIG, _JINJA = 'tokenizer_config.json', 'chat_template.jinja'
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
import_tiktoken = partial(import_extra, 'tiktoken', extra='tokenize', purpose='to count the tokens of OpenAI models')
_TIKTOKEN = 'tiktoken:'
_LOCAL_KEYS = ('tokenizer_path', 'tokenizer', 'path', 'model')
_HUB_NAME = re.compile(r'[\w.-]+(/[\w.-]+)?')
_FIRST_SHARD = re.compile(r'-0*1-of-\d+\.gguf$')


@runtime_checkable
class Tokenizer(Protocol):
    """A model's tokenizer.

    `adds_bos` says whether the model's tokenizer prepends `bos_id` by default; these methods never do.
    """

    @property
    def name(self) -> str: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def adds_bos(self) -> bool: ...
    @property
    def eos_id(self) -> int | None: ...
    @property
    def special_tokens(self) -> Mapping[str, int]: ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of a text. `special`: '<|im_end|>' in the text becomes that token; otherwise it is plain text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each token; bytes of an incomplete character are written <0xE4>."""

    def offsets(self, text: str) -> list[Offset]:
        """The ids of `encode(text)`, each with the characters it covers.

        The ranges cover the text without gaps or overlaps. If a character is split over
        several tokens, the first has it and the others are empty (start == stop), as is a token for a space that is not
        in the text. Characters without a token belong to the token after them (or, at the end, to the last one).
        """

    def count(self, text: str) -> int:
        """The number of tokens in a text."""


def load_tokenizer(source: str | Path | Mapping[str, object]) -> Tokenizer:
    """The tokenizer of a folder, a file, a name or a model entry.

    A folder with a tokenizer.json or a .gguf file, such a file, a hub model in the local cache, or
    `tiktoken:NAME` (an encoding, or an OpenAI model).

    >>> load_tokenizer('no/such/folder')
    Traceback (most recent call last):
    rolecall.errors.DataError: no/such/folder: no tokenizer found.
    Name a folder with a tokenizer.json or a .gguf file, such a file, or 'tiktoken:NAME'.
    """
    if isinstance(source, Mapping):
        tokenizer = find_tokenizer(source)
        if tokenizer is None:
            raise _not_found(', '.join(f'{key}={source[key]!r}' for key in _LOCAL_KEYS if key in source) or 'the entry')
        return tokenizer
    name = str(source)
    if name.startswith(_TIKTOKEN):
        return TiktokenTokenizer.load(name.removeprefix(_TIKTOKEN))
    file = _tokenizer_file(name)
    if file is None:
        raise _not_found(name)
    return _load_file(file)


def find_tokenizer(entry: Mapping[str, object]) -> Tokenizer | None:
    """The tokenizer of a model entry if it is on this machine, else None. Nothing is downloaded.

    Looks at `tokenizer_path`, `tokenizer`, `path` and `model` for files, then for the name of an OpenAI model in
    `model` (and, in an entry whose type says OpenAI, in the others).
    A broken tokenizer raises `DataError`.

    >>> find_tokenizer({'type': 'HuggingFaceCausalLM', 'path': 'none'}) is None
    True
    """
    entry = with_default_path(entry)
    tokenizer = entry.get('tokenizer')
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    for name in _names(entry, _LOCAL_KEYS):
        file = None if name.startswith(_TIKTOKEN) else _tokenizer_file(name)
        if file is not None:
            return _load_file(file)
    for name in _openai_names(entry):
        encoding = _cached_encoding(name)
        if encoding is not None:
            return encoding
    return None


def _names(entry: Mapping[str, object], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str | Path) and str(value):
            yield str(value)


def _openai_names(entry: Mapping[str, object]) -> Iterator[str]:
    kind = entry.get('type')
    openai = 'openai' in getattr(kind, '__name__', str(kind)).lower()
    for name in _names(entry, _LOCAL_KEYS):
        if name.startswith(_TIKTOKEN):
            yield name.removeprefix(_TIKTOKEN)
    yield from _names(entry, _LOCAL_KEYS if openai else ('model',))


def _cached_encoding(name: str) -> TiktokenTokenizer | None:
    try:
        encoding = encoding_name(name)
    except MissingExtraError:
        return None
    return TiktokenTokenizer.load(encoding) if encoding is not None and is_cached(encoding) else None


def _tokenizer_file(name: str) -> Path | None:
    if name in PACKAGED:
        return cached_path(name)
    path = os.path.expanduser(name)
    if os.path.isfile(path):
        return Path(path) if path.endswith(('.json', '.gguf')) else None
    folder = model_folder(name)
    if folder is None:
        return None
    file = folder / 'tokenizer.json'
    return file if file.is_file() else gguf_in(folder)


def model_folder(name: str) -> Path | None:
    """The folder of a model on this machine: the one that is named, or that of a hub model in the local cache."""
    path = os.path.expanduser(name)
    return Path(path) if os.path.isdir(path) else _hub_snapshot(name)


def gguf_in(folder: Path) -> Path | None:
    """The one model in a folder of GGUF files."""
    files = sorted(file for file in folder.glob('*.gguf') if not file.name.startswith('mmproj'))
    if len(files) > 1:
        files = [file for file in files if _FIRST_SHARD.search(file.name)] or files
    if len(files) > 1:
        raise DataError(f'{folder}: contains several models ({", ".join(file.name for file in files)}). Name one file.')
    return files[0] if files else None


def _hub_snapshot(name: str) -> Path | None:
    """The folder of a hub model in the local cache."""
    if not _HUB_NAME.fullmatch(name):
        return None
    home = os.environ.get('HF_HOME') or os.path.expanduser('~/.cache/huggingface')
    model = Path(os.environ.get('HF_HUB_CACHE') or f'{home}/hub', f'models--{name.replace("/", "--")}')
    try:
        revision = (model / 'refs' / 'main').read_text(encoding='utf-8').strip()
    except (OSError, UnicodeDecodeError):
        return None
    folder = model / 'snapshots' / revision
    return folder if folder.is_dir() else None


def _load_file(file: Path) -> Tokenizer:
    if file.suffix != '.gguf':
        return _load_json(file)
    from rolecall.models.llama.vocabulary import load_vocabulary

    return load_vocabulary(file)


_load_json = load_once(FastTokenizer.from_json)


def _not_found(name: str) -> DataError:
    return DataError(
        f'{name}: no tokenizer found.\n'
        "Name a folder with a tokenizer.json or a .gguf file, such a file, or 'tiktoken:NAME'."
    )


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


def read_chat_settings(path: str | Path) -> Mapping[str, Any]:
    """The chat template and special tokens, named as in `tokenizer_config.json`; `DataError` if nothing is there."""
    file = Path(os.path.expanduser(path))
    if not os.path.exists(file):
        raise DataError(f'{path}: file not found.')
    if file.is_dir() or file.name == _CONFIG or file.suffix == '.gguf':
        return find_chat_settings(file.parent if file.name == _CONFIG else file)
    if file.suffix == '.json':
        return read_json_object(file)
    beside = file.with_name(_CONFIG)
    return {**(read_json_object(beside) if beside.is_file() else {}), 'chat_template': read_text(file)}


def find_chat_settings(path: str | Path) -> Mapping[str, Any]:
    """The same for a model's folder or GGUF file; empty if there is none.

    >>> find_chat_settings('no/such/folder')
    {}
    """
    file = Path(os.path.expanduser(path))
    if file.suffix == '.gguf' and os.path.isfile(file):
        return chat_settings(file)
    if settings := read_tokenizer_config(file):
        return settings
    if os.path.isfile(file / _JINJA):
        return {'chat_template': read_text(file / _JINJA)}
    weights = gguf_in(file) if os.path.isdir(file) else None
    return chat_settings(weights) if weights is not None else {}


def find_chat_template(path: str | Path) -> ChatTemplate | None:
    """The chat template of a model's folder or GGUF file, if it has one."""
    settings = find_chat_settings(path)
    return ChatTemplate.from_tokenizer_config(settings) if settings.get('chat_template') else None
