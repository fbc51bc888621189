"""The tokenizer inside a GGUF file, built so that it gives the ids llama.cpp gives.

Two kinds of vocabulary are understood: `gpt2` (byte-level BPE with a list of merges; `tokenizer.ggml.pre` says how text
is split first) and `llama` (SentencePiece BPE: the merge with the best score goes first, unknown characters as bytes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.errors import DataError, did_you_mean
from rolecall.tokenizers.gguf_file import Value, read_metadata
from rolecall.tokenizers.packages import refusals, tokenizers_package

if TYPE_CHECKING:
    import tokenizers

__all__ = ['SPLITS', 'Split', 'Vocabulary', 'build', 'read_vocabulary']

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6

_ENDS = frozenset(
    [
        '<|eot_id|>',
        '<|im_end|>',
        '<|end|>',
        '<|return|>',
        '<|call|>',
        '<|flush|>',
        '<|calls|>',
        '<end_of_turn>',
        '<|endoftext|>',
        '</s>',
        '<|eom_id|>',
        '<EOT>',
        '_<EOT>',
        '[EOT]',
        '[EOS]',
        '<|end_of_text|>',
        '<end_of_utterance>',
        '<eos>',
        '<turn|>',
        '<|tool_response>',
        '<｜end▁of▁sentence｜>',
        '[e~[',
    ]
)
"""Tokens that llama.cpp takes for control tokens by their text, whatever type the file gives them."""

_KEPT_SPACE = frozenset(('<unk>', '<s>', '<|endoftext|>'))
"""Of Phi-3, the special tokens that do not swallow the white space after them."""


Step = Mapping[str, Any]
"""A step of splitting, in the words of a `tokenizer.json`."""


def _cut(pattern: str) -> Step:
    """Every match is a piece of its own, and so is what lies between matches."""
    return {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False}


def _bytes(*, as_gpt2: bool) -> Step:
    """Text becomes bytes, each written as a letter; before that, it may be cut as GPT-2 cuts it."""
    return {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': as_gpt2}


@dataclass(frozen=True, slots=True)
class Split:
    """How text is cut before merging."""

    steps: tuple[Step, ...]
    whole_words: bool = False
    """A piece that is a token is taken whole, without merging."""
    adds_bos: bool = False
    """Whether a BOS is put first where the file does not say."""


_ENDING = r"(?!'ſ)(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # llama.cpp does not take a long s for an s
_BREAKS = r'\s*[\r\n]+|\s+(?!\S)|\s+'


def _words(digits: str, *, marks: str = '') -> tuple[Step, ...]:
    """The steps that Llama 3 and Qwen share, but for how many digits stay together and what else is part of a word."""
    word = rf'[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}{marks}]+'
    other = rf' ?[^\s\p{{L}}{marks}\p{{N}}]+[\r\n]*'
    return _cut(f'{_ENDING}|{word}|{digits}|{other}|{_BREAKS}'), _bytes(as_gpt2=False)


def _cased_words(digits: str, *, ending: str = '') -> tuple[Step, ...]:
    """The steps of GPT-4o and of Mistral's Tekken: a capital in a word begins another. (Of letters that are not ASCII,
    llama.cpp takes each for both a capital and a small one.)"""
    capital, small, before = r'[\p{L}&&[^a-z]]', r'[\p{L}&&[^A-Z]]', r'[^\r\n\p{L}\p{N}]?'
    words = f'{before}{capital}*{small}+{ending}|{before}{capital}+{small}*{ending}'
    return _cut(rf'{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BREAKS}'), _bytes(as_gpt2=False)


_GPT2 = (_bytes(as_gpt2=True),)
_SINGLE_DIGITS = ({'type': 'Digits', 'individual_digits': True}, *_GPT2)
_GPT2_CUT = _cut(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
_THREE_DIGITS = (_cut('[0-9][0-9][0-9]'), _bytes(as_gpt2=False))
_FALCON = ({'type': 'Punctuation', 'behavior': 'Contiguous'}, _GPT2_CUT, *_THREE_DIGITS)
_UNSAID = (
    _cut(r'[\p{P}$+<=>^|~]+'),
    _GPT2_CUT,
    {'type': 'Digits', 'individual_digits': False},
    *_THREE_DIGITS,
)
_LLAMA3 = _words(r'\p{N}{1,3}')
_DEEPSEEK3 = (
    _cut(r'\p{N}{1,3}'),
    _cut('[一-龥぀-ゟ゠-ヿ]+'),
    _cut(
        r'[!"#$%&\'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+'
        rf'| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BREAKS}'
    ),
    _bytes(as_gpt2=False),
)

_FAMILIES: tuple[tuple[str, Split], ...] = (
    ('default', Split(_UNSAID)),
    (
        'gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 '
        'mellum modern-bert mpt olmo jais trillion granite-docling exaone4',
        Split(_GPT2),
    ),
    ('smollm starcoder refact command-r codeshell exaone minerva-7b mellum2', Split(_SINGLE_DIGITS)),
    (
        'llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano',
        Split(_LLAMA3, whole_words=True, adds_bos=True),
    ),
    ('dbrx smaug-bpe glm4 chatglm-bpe', Split(_LLAMA3)),
    ('qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2', Split(_words(r'\p{N}'))),
    ('qwen35', Split(_words(r'\p{N}', marks=r'\p{M}'))),
    ('falcon', Split(_FALCON)),
    ('gpt-4o llama4 kanana2', Split(_cased_words(r'\p{N}{1,3}', ending=f'(?:{_ENDING})?'))),
    ('tekken', Split(_cased_words(r'\p{N}'), whole_words=True, adds_bos=True)),
    ('deepseek-v3 hunyuan-dense joyai-llm', Split(_DEEPSEEK3)),
)
SPLITS: Mapping[str, Split] = {name: split for names, split in _FAMILIES for name in names.split()}
"""How to split, by `tokenizer.ggml.pre`: as the models' own `tokenizer.json` have it (`default` is for files that say
nothing), but for Falcon, whose digits llama.cpp counts before text becomes bytes."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a GGUF file says about its tokenizer, checked."""

    path: Path
    model: str
    pre: str
    tokens: dict[str, int]
    types: list[int]
    scores: list[float]
    merges: list[tuple[str, str]]
    bos_id: int | None
    eos_id: int | None
    adds_bos: bool
    adds_space: bool
    swallows_space: bool
    """Special tokens take the white space after them along (Phi-3)."""

    @property
    def special(self) -> dict[str, int]:
        """Tokens that an engine reads as special in a templated prompt."""
        return {
            token: number
            for token, number in self.tokens.items()
            if self.types[number] in (_UNKNOWN, _CONTROL) or token in _ENDS
        }

    @property
    def user_defined(self) -> list[str]:
        """Tokens that are found in any text before it is split."""
        return [token for token, number in self.tokens.items() if self.types[number] == _USER_DEFINED]


def read_vocabulary(path: str | Path) -> Vocabulary:
    """The vocabulary of a GGUF file; one that cannot be used is a `DataError` that names what it is."""
    path = Path(path)
    arrays = ('tokens', 'token_type', 'scores', 'merges')
    keys = _Keys(path, read_metadata(path, arrays=[f'tokenizer.ggml.{name}' for name in arrays]))
    model = keys.text('model')
    if model is None:
        raise DataError(f'{path}: has no tokenizer (no key tokenizer.ggml.model)')
    if model not in ('gpt2', 'llama'):
        raise DataError(f"{path}: tokenizer model {model!r} is not supported. Known: 'gpt2', 'llama'.")
    pre = keys.text('pre') or 'default'
    if model == 'gpt2' and pre not in SPLITS:
        raise DataError(f'{path}: tokenizer.ggml.pre {pre!r} is not supported. {did_you_mean(pre, SPLITS)}')
    tokens = keys.tokens()
    sentencepiece = model == 'llama'
    bos_id = keys.token_id('bos_token_id', len(tokens), default=1 if sentencepiece else None)
    adds_bos = keys.flag('add_bos_token', default=sentencepiece or SPLITS[pre].adds_bos)
    name = keys.metadata.get('general.name')
    return Vocabulary(
        path=path,
        model=model,
        pre=pre,
        tokens=tokens,
        types=[int(number) for number in keys.numbers('token_type', len(tokens), default=1)],
        scores=keys.numbers('scores', len(tokens), default=0),
        merges=list(keys.merges()),
        bos_id=bos_id,
        eos_id=keys.token_id('eos_token_id', len(tokens), default=2 if sentencepiece else None),
        adds_bos=adds_bos and bos_id is not None,
        adds_space=keys.flag('add_space_prefix', default=sentencepiece),
        swallows_space=isinstance(name, str) and any(part in name.lower() for part in ('phi-3', 'phi3')),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys under `tokenizer.ggml.`, each of the type it must have."""

    path: Path
    metadata: Mapping[str, Value]

    def get(self, name: str) -> Value | None:
        return self.metadata.get(f'tokenizer.ggml.{name}')

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(name, 'a string')

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.get(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise self.wrong(name, 'a bool')

    def token_id(self, name: str, size: int, *, default: int | None) -> int | None:
        value = self.get(name)
        value = default if value is None else value
        if value is not None and not isinstance(value, int):
            raise self.wrong(name, 'an integer')
        return value if value is not None and 0 <= value < size else None

    def tokens(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, token in enumerate(self.strings('tokens')):
            token = token or f'[EMPTY_{number}]'
            if token in found:
                raise DataError(f'{self.path}: the token {token!r} has two ids, {found[token]} and {number}')
            found[token] = number
        if not found:
            raise DataError(f'{self.path}: has no vocabulary (no key tokenizer.ggml.tokens)')
        return found

    def merges(self) -> Iterator[tuple[str, str]]:
        for merge in self.strings('merges'):
            cut = merge.find(' ', 1)
            if cut < 0:
                raise DataError(f'{self.path}: the merge {merge!r} is not two tokens with a space between them')
            yield merge[:cut], merge[cut + 1 :]

    def strings(self, name: str) -> list[str]:
        values = self.get(name)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.wrong(name, 'an array of strings')
        found = [value for value in values if isinstance(value, str)]
        if len(found) != len(values):
            raise self.wrong(name, 'an array of strings')
        return found

    def numbers(self, name: str, size: int, *, default: float) -> list[float]:
        values = self.get(name)
        if values is None:
            return [default] * size
        if not isinstance(values, list):
            raise self.wrong(name, 'an array of numbers')
        found: list[float] = [value for value in values if isinstance(value, int | float)]
        if len(found) < max(size, len(values)):
            raise self.wrong(name, f'an array of {size} numbers')
        return found

    def wrong(self, name: str, wanted: str) -> DataError:
        return DataError(f'{self.path}: tokenizer.ggml.{name} is not {wanted}')


def build(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """The tokenizer, as the `tokenizers` package runs it."""
    package = tokenizers_package()
    with refusals(vocabulary.path):
        made = _sentencepiece(vocabulary) if vocabulary.model == 'llama' else _byte_level(vocabulary)
        swallows = vocabulary.swallows_space
        made.add_special_tokens(
            [
                package.AddedToken(token, special=True, normalized=False, rstrip=swallows and token not in _KEPT_SPACE)
                for token in vocabulary.special
            ]
        )
        made.add_tokens(
            [
                package.AddedToken(token, special=False, normalized=False, rstrip=swallows)
                for token in vocabulary.user_defined
            ]
        )
    return made


def _byte_level(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer, decoders, models

    split = SPLITS[vocabulary.pre]
    model = models.BPE(vocab=vocabulary.tokens, merges=vocabulary.merges, ignore_merges=split.whole_words)
    made = Tokenizer(model)
    made.pre_tokenizer = _pre_tokenizer(split.steps)
    made.decoder = decoders.ByteLevel()
    return made


def _pre_tokenizer(steps: Sequence[Step]) -> Any:
    from tokenizers import Tokenizer

    written = {
        'version': '1.0',
        'added_tokens': [],
        'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': steps},
        'model': {'type': 'BPE', 'vocab': {}, 'merges': []},
    }
    return Tokenizer.from_str(json.dumps(written)).pre_tokenizer


def _sentencepiece(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers

    unknown = next((token for token, number in vocabulary.tokens.items() if vocabulary.types[number] == _UNKNOWN), None)
    model = models.BPE(
        vocab=vocabulary.tokens,
        merges=_merges_by_score(vocabulary),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    made = Tokenizer(model)
    spaces = normalizers.Replace(' ', '▁')
    made.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), spaces]) if vocabulary.adds_space else spaces
    steps = [decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps + [decoders.Strip(' ', 1, 0)] * vocabulary.adds_space)
    return made


def _merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Every way to make a token of two others, the token with the best score first."""
    tokens, scores = vocabulary.tokens, vocabulary.scores
    merges = [
        (-scores[number], number, tokens[token[:cut]], tokens[token[cut:]], cut, token)
        for token, number in tokens.items()
        if vocabulary.types[number] not in (_UNKNOWN, _CONTROL, _BYTE)
        for cut in range(1, len(token))
        if token[:cut] in tokens and token[cut:] in tokens
    ]
    return [(token[:cut], token[cut:]) for *_, cut, token in sorted(merges)]
