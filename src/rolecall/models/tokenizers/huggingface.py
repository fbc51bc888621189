"""Tokenizers of Hugging Face models: a tokenizer.json run by `tokenizers`, anything else by `transformers`."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rolecall.errors import DataError, import_extra
from rolecall.models.tokenizers.text import (
    BYTE_OF,
    BYTE_TOKEN,
    Offset,
    adjoin_ranges,
    replace_lone_surrogates,
    show_bytes,
)

if TYPE_CHECKING:
    import tokenizers


import_tokenizers = partial(import_extra, 'tokenizers', extra='tokenize', purpose="to read a model's tokenizer")


@contextmanager
def package_errors(where: object) -> Iterator[None]:
    """Turn errors of the `tokenizers` package, its panics included, into a `DataError`."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # the package raises bare `Exception`
        raise DataError(f'{where}: not a usable tokenizer: {error}') from error
    except BaseException as error:
        if type(error).__name__ != 'PanicException':  # what a panic in Rust is in Python: not an `Exception`
            raise
        raise DataError(f'{where}: not a usable tokenizer: {error}') from error


_REMEDY = "Correct the file, or give the template itself as chat_template='…'."


def read_tokenizer_config(folder: str | Path) -> Mapping[str, Any]:
    """A folder's `tokenizer_config.json`, with the `chat_template.jinja` beside it; empty if there is none.

    >>> read_tokenizer_config('no/such/folder')
    {}
    """
    config, beside = Path(folder, 'tokenizer_config.json'), Path(folder, 'chat_template.jinja')
    if not os.path.isfile(config):
        return {}
    settings = read_json_object(config)
    return {**settings, 'chat_template': read_text(beside)} if os.path.isfile(beside) else settings


def read_json_object(file: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f'{file}: not valid JSON: {error}. {_REMEDY}') from error
    if not isinstance(settings, Mapping):
        raise DataError(f'{file}: must hold a JSON object, found {type(settings).__name__}. {_REMEDY}')
    return settings


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'{file}: cannot be read: {error}. {_REMEDY}') from error


_ANY_TEXT = 'a A1 .\n\0é中😀\u0378'
"""A tokenizer that cannot encode this (no unknown token, for example) would fail on some row of some dataset."""
_WITH_PATTERNS = ('normalizer', 'normalizers', 'pre_tokenizer', 'pretokenizers', 'pattern')
_USUAL_LETTERS = 'aA 1\n.中'
_MOST_LETTERS = 24
_LONGEST_END = 40
_RUNS = (14, 17, 20, 23, 2048, 8192)
_SLOW = 0.05

Spelling: TypeAlias = Literal['bytes', 'spaces', 'plain']
"""How a vocabulary spells its tokens: bytes as letters (GPT-2), `▁` for a space (SentencePiece), or plainly."""


@dataclass(frozen=True, eq=False)
class FastTokenizer:
    """A tokenizer run by the `tokenizers` package."""

    name: str
    inner: tokenizers.Tokenizer = field(repr=False)
    spelling: Spelling
    bos_id: int | None
    adds_bos: bool
    eos_id: int | None
    special_tokens: Mapping[str, int] = field(repr=False)

    @classmethod
    def from_json(cls, path: str | Path) -> FastTokenizer:
        """A Hugging Face `tokenizer.json`, with the `tokenizer_config.json` beside it if there is one."""
        path = Path(path)
        package = import_tokenizers()
        content = _read_json(path)
        beside = path.with_name('tokenizer_config.json')
        config = _read_json(beside) if beside.is_file() else {}
        put_first = _put_first(content.get('post_processor'))
        # Ids and offsets of the text alone: no truncation, padding or added tokens.
        bare = content | {'truncation': None, 'padding': None, 'post_processor': None}
        with package_errors(path):
            inner = package.Tokenizer.from_str(json.dumps(bare))
            inner.encode(_ANY_TEXT, add_special_tokens=False)
            check_speed(inner, _patterns_of(content), path)
        adds_bos = _rebuilt_adds_bos(config)
        bos = _token_text(config.get('bos_token'))
        bos_id = inner.token_to_id(put_first or bos or '')
        eos = _token_text(config.get('eos_token'))
        return cls(
            name=str(path),
            inner=inner,
            spelling=_spelling(content.get('decoder')),
            bos_id=bos_id,
            adds_bos=bos_id is not None and (put_first is not None if adds_bos is None else adds_bos),
            eos_id=inner.token_to_id(eos) if eos else None,
            special_tokens={
                token.content: number for number, token in inner.get_added_tokens_decoder().items() if token.special
            },
        )

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        ids: list[int] = self._encoding(self.inner if special else self._plain, text).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        if self.spelling != 'bytes':
            return str(self.inner.decode(list(ids), skip_special_tokens=False))
        return b''.join(map(self._bytes, ids)).decode(errors='replace')

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [show_bytes(self._bytes(number)) for number in ids]

    def offsets(self, text: str) -> list[Offset]:
        encoding = self._encoding(self.inner, text)
        ranges: list[tuple[int, int]] = encoding.offsets
        following = [*(start for start, _ in ranges[1:]), len(text)]
        # A byte token keeps its character; any other token that shares one was inserted before it.
        stops = [
            stop if self.spelling == 'bytes' or BYTE_TOKEN.fullmatch(token) else min(stop, after)
            for (_, stop), after, token in zip(ranges, following, encoding.tokens, strict=False)
        ]
        return adjoin_ranges(encoding.ids, stops, len(text))

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def _encoding(self, inner: tokenizers.Tokenizer, text: str) -> tokenizers.Encoding:
        with package_errors(self.name):
            return inner.encode(replace_lone_surrogates(text), add_special_tokens=False)

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """The same tokenizer, treating special tokens as text."""
        plain = copy.deepcopy(self.inner)
        plain.encode_special_tokens = True
        return plain

    @cached_property
    def _added(self) -> Mapping[int, str]:
        return {number: token.content for number, token in self.inner.get_added_tokens_decoder().items()}

    def _bytes(self, number: int) -> bytes:
        if number in self._added:
            return self._added[number].encode()
        token = self.inner.id_to_token(number)
        if token is None:
            return f'<{number}>'.encode()
        if self.spelling == 'bytes':
            return b''.join(BYTE_OF.get(letter) or letter.encode() for letter in token)
        return (token.replace('▁', ' ') if self.spelling == 'spaces' else token).encode()


def _patterns_of(content: Any) -> str:
    """The regular expressions of a tokenizer.json, joined."""
    if isinstance(content, dict):
        own = content['Regex'] if isinstance(content.get('Regex'), str) else ''
        return own + ''.join(_patterns_of(value) for name, value in content.items() if name in _WITH_PATTERNS)
    return ''.join(map(_patterns_of, content)) if isinstance(content, list) else ''


def check_speed(inner: tokenizers.Tokenizer, patterns: str, path: Path) -> None:
    """Refuse a tokenizer whose regular expressions take much more than linear time on a long run of one character.

    Short runs come first, so that a pattern with exponential time is found before it has taken a second. What slips
    through meets the limit on backtracking of the package's own engine, and then `package_errors`.
    """
    letters = [*dict.fromkeys((*_USUAL_LETTERS, *(letter for letter in patterns if letter.isalnum())))]
    ends = {'!', ''.join(letter for letter in patterns if not letter.isalnum())[:_LONGEST_END] + '!'}
    for size in _RUNS if patterns else ():
        for letter, end in itertools.product(letters[:_MOST_LETTERS], ends):
            text = letter * size + end
            if all(_seconds_to_split(inner, text) > _SLOW for _ in range(3)):  # one slow run may be the machine's
                raise DataError(
                    f'{path}: not a usable tokenizer: its regular expressions need more than '
                    f'{1000 * _SLOW:g} ms for {size:,} characters'
                )


def _seconds_to_split(inner: tokenizers.Tokenizer, text: str) -> float:
    started = time.thread_time()  # others may keep this thread waiting
    if inner.normalizer is not None:
        text = inner.normalizer.normalize_str(text)
    if inner.pre_tokenizer is not None:
        inner.pre_tokenizer.pre_tokenize_str(text)
    return time.thread_time() - started


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror or error}') from error
    except (ValueError, RecursionError) as error:
        raise DataError(f'{path}: is not valid JSON: {error}') from error
    if not isinstance(content, dict):
        raise DataError(f'{path}: is not a JSON object')
    return content


def _token_text(token: object) -> str | None:
    """A token in `tokenizer_config.json`: a string, or an object with `content`."""
    text = token.get('content') if isinstance(token, Mapping) else token
    return text if isinstance(text, str) and text and not _SURROGATE.search(text) else None


_SURROGATE = re.compile('[\ud800-\udfff]')
_REBUILD = frozenset(('Llama', 'CodeLlama', 'Gemma', 'Cohere'))
"""Tokenizer classes that add BOS by `add_bos_token` (default true), whatever tokenizer.json says."""


def _rebuilt_adds_bos(config: Mapping[str, Any]) -> bool | None:
    family = str(config.get('tokenizer_class', '')).removesuffix('Fast').removesuffix('Tokenizer')
    if family not in _REBUILD:
        return None
    flag = config.get('add_bos_token')
    return flag if isinstance(flag, bool) else True


def _put_first(processor: object) -> str | None:
    """The special token that a post-processor prepends."""
    match processor:
        case {'type': 'Sequence', 'processors': [*steps]}:
            return next((token for step in steps if (token := _put_first(step)) is not None), None)
        case {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': str(token)}}, *_]}:
            return token
        case {'type': 'BertProcessing' | 'RobertaProcessing', 'cls': [str(token), *_]}:
            return token
    return None


def _spelling(decoder: object) -> Spelling:
    match decoder:
        case {'type': 'ByteLevel'}:
            return 'bytes'
        case {'type': 'Metaspace'} | {'type': 'Replace', 'pattern': {'String': '▁'}}:
            return 'spaces'
        case {'type': 'Sequence', 'decoders': [*steps]}:
            return next((spelling for step in steps if (spelling := _spelling(step)) != 'plain'), 'plain')
    return 'plain'


@dataclass(frozen=True, eq=False)
class TransformersTokenizer:
    """An `AutoTokenizer` as a `rolecall.models.tokenizers.tokenizer.Tokenizer`."""

    inner: Any = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.inner.name_or_path)

    @property
    def bos_id(self) -> int | None:
        token = self.inner.bos_token_id
        return None if token is None else int(token)

    @property
    def eos_id(self) -> int | None:
        token = self.inner.eos_token_id
        return None if token is None else int(token)

    @cached_property
    def adds_bos(self) -> bool:
        return self.bos_id is not None and list(self.inner('a')['input_ids'][:1]) == [self.bos_id]

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        return {
            str(token): number for number, token in self.inner.added_tokens_decoder.items() if token.special
        } | dict(zip(self.inner.all_special_tokens, self.inner.all_special_ids, strict=True))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        options: dict[str, Any] = {} if special else {'split_special_tokens': True}
        return list(self.inner(replace_lone_surrogates(text), add_special_tokens=False, **options)['input_ids'])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.decode([number]) for number in ids]

    def offsets(self, text: str) -> list[Offset]:
        if self.inner.is_fast:
            encoded = self.inner(replace_lone_surrogates(text), add_special_tokens=False, return_offsets_mapping=True)
            return adjoin_ranges(encoded['input_ids'], [stop for _, stop in encoded['offset_mapping']], len(text))
        ids = self.encode(text)
        return adjoin_ranges(ids, [len(self.decode(ids[: place + 1])) for place in range(len(ids))], len(text))

    def count(self, text: str) -> int:
        return len(self.encode(text))
