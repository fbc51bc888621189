"""Tokenizers: tokenizer.json, tiktoken, GGUF; ids, pieces, offsets; what is at hand and what is broken."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.registry
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Inner

from rolecall.errors import DataError, MissingExtraError
from rolecall.models.llama import bindings
from rolecall.models.tokenizers import gguf
from rolecall.models.tokenizers.gguf import SkippedArray, chat_settings, chat_template, read_metadata
from rolecall.models.tokenizers.tokenizer import TiktokenTokenizer, Tokenizer, find_tokenizer, load_tokenizer

LETTERS = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = {number: chr(number) for number in LETTERS} | {
    number: chr(0x100 + place) for place, number in enumerate(n for n in range(256) if n not in LETTERS)
}
MERGES = ['h e', 'l l', 'he ll', 'hell o', 'Ġ w', '1 2', '12 3', 'ä ½', 'Ġ Ġ']
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
PRE_TOKENIZERS = [
    'default',
    'gpt-2',
    'phi-2',
    'jina-es',
    'jina-v2-code',
    'roberta-bpe',
    'gigachat',
    'modern-bert',
    'mpt',
    'olmo',
    'jais',
    'trillion',
    'exaone4',
    'smollm',
    'starcoder',
    'refact',
    'command-r',
    'codeshell',
    'exaone',
    'minerva-7b',
    'llama-bpe',
    'llama3',
    'falcon3',
    'pixtral',
    'dbrx',
    'smaug-bpe',
    'glm4',
    'chatglm-bpe',
    'qwen2',
    'deepseek-r1-qwen',
    'megrez',
    'stablelm2',
    'hunyuan',
    'qwen35',
    'falcon',
    'gpt-4o',
    'llama4',
    'tekken',
    'deepseek-v3',
]
TEXTS = st.text() | st.lists(
    st.sampled_from(['hello', ' ', '\n', '12345', "it's", '你好', '😀', 'é', 'e\u0301', '\u00a0', '▁', *SPECIAL, '<s>'])
).map(''.join)


# A GGUF file, written.


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


def typed(value: Any) -> tuple[int, bytes]:
    """The type number and the bytes of a value; a pair (number, bytes) is taken as it is."""
    match value:
        case (int(kind), bytes(data)):
            return kind, data
        case bool():
            return 7, struct.pack('<B', value)
        case int():
            return 4, struct.pack('<I', value)
        case float():
            return 6, struct.pack('<f', value)
        case str():
            return 8, string(value)
        case list():
            parts = [typed(item) for item in value]
            kind = parts[0][0] if parts else 4
            return 9, struct.pack('<IQ', kind, len(parts)) + b''.join(data for _, data in parts)
    raise TypeError(value)


def signed(value: Any) -> Any:
    """A list of whole numbers, written as llama.cpp wants the types of tokens: int32."""
    if not isinstance(value, list) or not all(isinstance(number, int) for number in value):
        return value
    return 9, struct.pack(f'<IQ{len(value)}i', 5, len(value), *value)


def gguf_bytes(values: Mapping[str, Any], *, version: int = 3) -> bytes:
    values = {key: signed(value) if key == 'tokenizer.ggml.token_type' else value for key, value in values.items()}
    body = b''.join(
        string(key) + struct.pack('<I', kind) + data
        for key, (kind, data) in ((key, typed(value)) for key, value in values.items())
    )
    return b'GGUF' + struct.pack('<IQQ', version, 0, len(values)) + body


def put(folder: Path, name: str, content: bytes | str | Mapping[str, Any]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Mapping):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def byte_level(**others: Any) -> dict[str, Any]:
    """The keys of a small byte-level BPE model."""
    tokens = [*SPECIAL, *BYTES.values(), *(merge.replace(' ', '') for merge in MERGES)]
    return {
        'general.architecture': 'llama',
        'tokenizer.ggml.model': 'gpt2',
        'tokenizer.ggml.pre': 'smollm',
        'tokenizer.ggml.tokens': tokens,
        'tokenizer.ggml.token_type': [3] * 3 + [1] * (len(tokens) - 3),
        'tokenizer.ggml.merges': MERGES,
        'tokenizer.ggml.bos_token_id': 1,
        'tokenizer.ggml.eos_token_id': 2,
        'tokenizer.chat_template': '{{ bos_token }}{{ messages[0].content }}',
        **others,
    }


def sentencepiece(**others: Any) -> dict[str, Any]:
    """The keys of a small SentencePiece model: longer tokens score worse, as in models that were trained."""
    bytes_ = [f'<0x{number:02X}>' for number in range(256)]
    words = ['▁w', 'he', 'll', '▁▁', 'llo', 'hello', '▁hello', '<user>', '▁', *'helowr']
    return {
        'general.architecture': 'llama',
        'tokenizer.ggml.model': 'llama',
        'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', *bytes_, *words],
        'tokenizer.ggml.token_type': [2, 3, 3] + [6] * 256 + [4 if word == '<user>' else 1 for word in words],
        'tokenizer.ggml.scores': [0.0] * 259 + [-float(place) for place in range(len(words))],
        **others,
    }


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('tokenizers')


@pytest.fixture(scope='module')
def bpe(folder: Path) -> Tokenizer:
    return load_tokenizer(put(folder, 'bpe.gguf', gguf_bytes(byte_level())))


@pytest.fixture(scope='module')
def spm(folder: Path) -> Tokenizer:
    return load_tokenizer(put(folder, 'spm.gguf', gguf_bytes(sentencepiece())))


@pytest.fixture
def toy() -> Iterator[str]:
    """A tiktoken encoding that is loaded already, under the name of one that would have to be fetched."""
    ranks = {bytes([number]): number for number in range(256)} | {b'he': 256, b'll': 257, '你'.encode()[:2]: 258}
    encoding = tiktoken.Encoding(
        'o200k_base', pat_str=r'\w+|\W', mergeable_ranks=ranks, special_tokens={'<|endoftext|>': 300}
    )
    tiktoken.registry.ENCODINGS['o200k_base'] = encoding
    yield 'o200k_base'
    del tiktoken.registry.ENCODINGS['o200k_base']


# What a GGUF file says.


def test_values_of_every_type_are_read(tmp_path: Path) -> None:
    numbers = {
        'u8': (0, b'\xff'),
        'i8': (1, b'\xff'),
        'u16': (2, b'\xff\xff'),
        'i16': (3, b'\xfe\xff'),
        'u32': 7,
        'i32': (5, b'\xff' * 4),
        'f32': 0.5,
        'bool': True,
        'text': 'naïve',
        'u64': (10, b'\xff' * 8),
        'i64': (11, b'\xff' * 8),
        'f64': (12, struct.pack('<d', 1e300)),
        'list': [1, 2],
        'texts': ['a', ''],
        'nested': [[1], [2, 3]],
        'none': [],
    }
    read = read_metadata(put(tmp_path, 'x.gguf', gguf_bytes(numbers)))
    assert list(read) == list(numbers)
    assert list(read.values()) == [
        *(255, -1, 65535, -2, 7, -1, 0.5, True, 'naïve', 2**64 - 1, -1, 1e300),
        *([1, 2], ['a', ''], [[1], [2, 3]], []),
    ]


def test_a_big_endian_file_is_read(tmp_path: Path) -> None:
    data = b'GGUF' + struct.pack('>IQQQ', 3, 0, 1, 1) + b'k' + struct.pack('>IH', 2, 513)
    assert read_metadata(put(tmp_path, 'x.gguf', data)) == {'k': 513}


def test_long_arrays_are_passed_over_unless_asked_for(tmp_path: Path) -> None:
    values = {'texts': ['ab'] * 100, 'numbers': [1] * 100, 'nested': [[1] * 100] * 65, 'after': 'x'}
    path = put(tmp_path, 'x.gguf', gguf_bytes(values))
    read = read_metadata(path, arrays=('numbers',))
    assert read['texts'] == SkippedArray('string', 100, 24 + 8 + 5 + 16)
    assert read['numbers'] == [1] * 100
    assert isinstance(read['nested'], SkippedArray)
    assert read['after'] == 'x'


@pytest.mark.parametrize('chunk', [1, 8, 16, 31, 1 << 18])
def test_strings_cross_the_borders_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    texts = ['', 'a', '你好', 'x' * 40] * 20
    path = put(tmp_path, 'x.gguf', gguf_bytes({'texts': texts, 'after': 'x'}))
    monkeypatch.setattr(gguf, '_CHUNK', chunk)
    assert read_metadata(path, arrays=('texts',)) == {'texts': texts, 'after': 'x'}
    assert read_metadata(path)['after'] == 'x'


def test_a_string_of_an_array_that_is_not_utf_8_is_named_by_its_place(tmp_path: Path) -> None:
    data = gguf_bytes({'texts': ['ab', 'cd']}).replace(b'cd', b'c\xff')
    with pytest.raises(DataError, match=f'offset {len(data) - 1}: a string is not UTF-8'):
        read_metadata(put(tmp_path, 'x.gguf', data))


BROKEN: dict[str, tuple[bytes, str]] = {
    'empty': (b'', 'offset 0: is not a GGUF file'),
    'other': (b'PK\x03\x04' * 9, 'offset 0: is not a GGUF file'),
    'version 1': (gguf_bytes({}, version=1), 'offset 4: is GGUF version 1'),
    'cut': (gguf_bytes({'key': 'value'})[:-1], 'offset 39: a string claims 5 bytes; 4 are left'),
    'many keys': (b'GGUF' + struct.pack('<IQQ', 3, 0, 2**63), 'claims 9223372036854775808 key-values'),
    'long string': (gguf_bytes({'k': (8, b'\xff' * 8)}), 'a string claims 18446744073709551615 bytes'),
    'long array': (gguf_bytes({'k': (9, struct.pack('<IQ', 4, 2**60))}), 'an array claims 1152921504606846976'),
    'short array': (gguf_bytes({'k': (9, struct.pack('<IQ', 4, 9) + b'123456789')}), '36 bytes expected, 9'),
    'unknown type': (gguf_bytes({'k': (13, b'')}), 'offset 33: unknown value type 13'),
    'unknown element': (gguf_bytes({'k': (9, struct.pack('<IQ', 77, 0))}), 'offset 37: unknown value type 77'),
    'bool': (gguf_bytes({'k': (7, b'\x02')}), 'offset 37: a bool is neither 0 nor 1 but 2'),
    'not text': (gguf_bytes({'k': (8, struct.pack('<Q', 2) + b'a\xff')}), 'offset 46: a string is not UTF-8'),
    'deep': (gguf_bytes({'k': [[[[[1]]]]]}), 'nested more than 4 deep'),
    'twice': (
        b'GGUF' + struct.pack('<IQQ', 3, 0, 2) + 2 * (string('k') + struct.pack('<IB', 0, 1)),
        "offset 38: the key 'k' occurs twice",
    ),
}


@pytest.mark.parametrize('case', BROKEN)
def test_a_broken_file_is_an_error_with_file_and_offset(tmp_path: Path, case: str) -> None:
    content, message = BROKEN[case]
    path = put(tmp_path, 'x.gguf', content)
    with pytest.raises(DataError) as error:
        read_metadata(path)
    assert str(error.value).startswith(f'{path}: offset ')
    assert message in str(error.value)


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    whole = gguf_bytes({'a': 'b', 'c': [1, 2], 'd': ['x', 'y'], 'e': True})
    for length in range(len(whole)):
        with pytest.raises(DataError):
            read_metadata(put(tmp_path, 'x.gguf', whole[:length]))


@settings(max_examples=200)
@given(changes=st.lists(st.tuples(st.integers(4, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_file_is_read_or_refused(tmp_path_factory: Any, changes: list[tuple[int, int]]) -> None:
    data = bytearray(gguf_bytes({'a': 'b', 'c': [1, 2], 'd': [['x'], ['y']], 'long': [1.0] * 70, 'e': True}))
    for place, value in changes:
        data[place % len(data)] = value
    path = put(tmp_path_factory.getbasetemp(), 'damaged.gguf', bytes(data))
    with suppress(DataError):
        assert isinstance(read_metadata(path), dict)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path / 'none.gguf', tmp_path):
        with pytest.raises(DataError, match='cannot be read'):
            read_metadata(path)


def test_the_chat_template_comes_with_its_tokens(tmp_path: Path) -> None:
    path = put(tmp_path, 'x.gguf', gguf_bytes(byte_level()))
    assert chat_template(path) == '{{ bos_token }}{{ messages[0].content }}'
    assert chat_settings(path) == {
        'chat_template': '{{ bos_token }}{{ messages[0].content }}',
        'bos_token': '<|im_start|>',
        'eos_token': '<|im_end|>',
    }
    bare = put(tmp_path, 'bare.gguf', gguf_bytes({'general.architecture': 'llama'}))
    assert chat_template(bare) is None
    assert chat_settings(bare) == {}


# Tokenizers inside GGUF files.


def shown(tokenizer: Tokenizer, text: str, *, special: bool = True) -> list[str]:
    return tokenizer.pieces(tokenizer.encode(text, special=special))


def test_byte_level_text_is_split_merged_and_shown(bpe: Tokenizer) -> None:
    assert shown(bpe, 'hello world 123') == ['hello', ' w', 'o', 'r', 'l', 'd', ' ', '1', '2', '3']
    assert shown(bpe, '你') == ['<0xE4><0xBD>', '<0xA0>']
    assert (bpe.bos_id, bpe.eos_id, bpe.adds_bos) == (1, 2, False)
    assert bpe.special_tokens == dict(zip(SPECIAL, range(3), strict=True))
    assert bpe.count('hello') == 1


def test_special_tokens_in_a_text_are_read_or_spelt_out(bpe: Tokenizer) -> None:
    assert bpe.encode('<|im_end|>') == [2]
    assert shown(bpe, '<|im_end|>', special=False) == list('<|im_end|>')
    assert bpe.encode('<|im_end|>') == [2]


@pytest.mark.parametrize(
    ('pre', 'pieces'),
    [
        ('default', [' ', '123', '4']),
        ('gpt-2', [' ', '123', '4']),
        ('smollm', [' ', '1', '2', '3', '4']),
        ('llama-bpe', [' ', '123', '4']),
        ('qwen2', [' ', '1', '2', '3', '4']),
    ],
)
def test_numbers_are_split_as_the_pre_tokenizer_says(tmp_path: Path, pre: str, pieces: list[str]) -> None:
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(byte_level(**{'tokenizer.ggml.pre': pre}))))
    assert shown(tokenizer, ' 1234') == pieces


@pytest.mark.parametrize('pre', PRE_TOKENIZERS)
def test_every_pre_tokenizer_keeps_the_text(tmp_path: Path, pre: str) -> None:
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(byte_level(**{'tokenizer.ggml.pre': pre}))))
    text = "It's 12345 o'CLOCK!\r\n\n  你好，世界 😀 naïve<|im_end|>\tx=  1"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_llama_3_vocabulary_takes_whole_words_and_puts_bos(tmp_path: Path) -> None:
    values = byte_level(**{'tokenizer.ggml.pre': 'llama-bpe'})
    values['tokenizer.ggml.tokens'].append('qqq')
    values['tokenizer.ggml.token_type'].append(1)
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(values)))
    assert shown(tokenizer, 'qqq') == ['qqq']
    assert tokenizer.adds_bos


def test_sentencepiece_text_starts_with_a_space_and_falls_back_to_bytes(spm: Tokenizer) -> None:
    assert shown(spm, 'hello  world') == [' hello', ' ', ' w', 'o', 'r', 'l', 'd']
    assert shown(spm, '<s>hello') == ['<s>', ' hello']
    assert shown(spm, '<s>', special=False)[-3:] == ['<', 's', '>']
    assert shown(spm, 'he<user>', special=False) == [' ', 'he', '<user>']
    assert (spm.bos_id, spm.eos_id, spm.adds_bos) == (1, 2, True)
    assert spm.decode(spm.encode('hello 你')) == 'hello 你'


def test_sentencepiece_without_the_leading_space(tmp_path: Path) -> None:
    values = sentencepiece(**{'tokenizer.ggml.add_space_prefix': False, 'tokenizer.ggml.add_bos_token': False})
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(values)))
    assert shown(tokenizer, 'hello') == ['hello']
    assert not tokenizer.adds_bos


def test_the_special_tokens_of_phi_3_take_the_white_space_after_them(tmp_path: Path) -> None:
    values = sentencepiece(**{'general.name': 'Phi-3 mini'})
    for key, value in ('tokens', '<|endoftext|>'), ('token_type', 3), ('scores', 0.0):
        values[f'tokenizer.ggml.{key}'].append(value)
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(values)))
    assert shown(tokenizer, '</s>\n hello') == ['</s>', ' hello']
    assert shown(tokenizer, '<s> hello') == ['<s>', '  ', 'hello']
    assert [stop for _, _, stop in tokenizer.offsets('</s>\n hello')] == [4, 11]


def test_an_end_of_turn_token_of_the_wrong_type_is_special_all_the_same(tmp_path: Path) -> None:
    values = byte_level()
    values['tokenizer.ggml.token_type'][2] = 1
    assert load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(values))).encode('<|im_end|>') == [2]


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    'no tokenizer': ({'general.architecture': 'llama'}, 'key not found in model: tokenizer.ggml.model'),
    'projector': ({'general.architecture': 'clip'}, 'CLIP cannot be used as main model'),
    'model': (byte_level(**{'tokenizer.ggml.model': 'abacus'}), "unknown tokenizer: 'abacus'"),
    'pre': (byte_level(**{'tokenizer.ggml.pre': 'smolm'}), "unknown pre-tokenizer type: 'smolm'"),
    'no architecture': ({'tokenizer.ggml.model': 'llama'}, 'unknown model architecture'),
    'two ids': (byte_level(**{'tokenizer.ggml.tokens': ['a', 'a']}), "the token 'a' has two ids, 0 and 1"),
    'NUL': (byte_level(**{'tokenizer.ggml.tokens': ['a', 'b\0']}), 'the token with id 1 contains a NUL character'),
    'no bytes': (
        sentencepiece(**{'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', 'a']}),
        'the vocabulary has no token for the byte 0x00',
    ),
    'not strings': (byte_level(**{'tokenizer.ggml.tokens': [1, 2]}), 'invalid gguf type for tokenizer.ggml.tokens'),
    'not an array': (byte_level(**{'tokenizer.ggml.merges': 'x'}), 'invalid gguf type for tokenizer.ggml.merges'),
    'few types': (byte_level(**{'tokenizer.ggml.token_type': [1]}), 'Index out of array bounds for toktypes'),
    'types': (byte_level(**{'tokenizer.ggml.token_type': 'x'}), 'invalid gguf type for tokenizer.ggml.token_type'),
    'few scores': (sentencepiece(**{'tokenizer.ggml.scores': [0.0]}), 'Index out of array bounds for scores'),
    'flag': (byte_level(**{'tokenizer.ggml.add_bos_token': 'yes'}), 'add_bos_token has wrong type str'),
    'bos': (byte_level(**{'tokenizer.ggml.bos_token_id': 'x'}), 'bos_token_id has wrong type str'),
    'name': (byte_level(**{'tokenizer.ggml.model': 3}), 'model has wrong type u32'),
}


@pytest.mark.parametrize('case', UNUSABLE)
def test_a_vocabulary_that_cannot_be_used_is_named(tmp_path: Path, case: str) -> None:
    values, message = UNUSABLE[case]
    path = put(tmp_path, 'x.gguf', gguf_bytes(values))
    with pytest.raises(DataError) as error:
        load_tokenizer(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize('merges', [['ab'], ['a b'], ['', ' ']])
def test_merges_of_unknown_tokens_change_nothing(tmp_path: Path, merges: list[str]) -> None:
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(byte_level(**{'tokenizer.ggml.merges': merges}))))
    assert shown(tokenizer, 'hell') == list('hell')


def test_a_bos_that_is_not_in_the_vocabulary_is_not_used(tmp_path: Path) -> None:
    values = byte_level(**{'tokenizer.ggml.bos_token_id': 4_000_000_000})
    tokenizer = load_tokenizer(put(tmp_path, 'x.gguf', gguf_bytes(values)))
    assert tokenizer.bos_id is not None
    assert tokenizer.bos_id < 1000


# Hugging Face files.


def saved(folder: Path, inner: Inner, **config: Any) -> Path:
    inner.save(str(folder / 'tokenizer.json'))
    if config:
        put(folder, 'tokenizer_config.json', config)
    return folder


def byte_level_inner() -> Inner:
    values = byte_level()
    vocabulary = {token: number for number, token in enumerate(values['tokenizer.ggml.tokens'])}
    inner = Inner(models.BPE(vocab=vocabulary, merges=[tuple(merge.split()) for merge in MERGES]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.ByteLevel(trim_offsets=True)
    inner.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    return inner


def test_a_tokenizer_json_gives_the_whole_text_and_nothing_around_it(tmp_path: Path) -> None:
    inner = byte_level_inner()
    inner.post_processor = processors.TemplateProcessing(
        single='<|im_start|> $A <|im_end|>', special_tokens=[('<|im_start|>', 1), ('<|im_end|>', 2)]
    )
    inner.enable_truncation(3)
    inner.enable_padding(length=8)
    tokenizer = load_tokenizer(saved(tmp_path, inner))
    assert shown(tokenizer, 'hello world') == ['hello', ' w', 'o', 'r', 'l', 'd']
    assert (tokenizer.bos_id, tokenizer.adds_bos, tokenizer.eos_id) == (1, True, None)
    assert tokenizer.offsets(' world')[0][1:] == (0, 2)
    assert shown(tokenizer, '<|im_end|>', special=False) == list('<|im_end|>')


@pytest.mark.parametrize(
    ('put_first', 'config', 'adds_bos'),
    [
        (True, {'tokenizer_class': 'PreTrainedTokenizerFast', 'add_bos_token': False}, True),
        (False, {'tokenizer_class': 'PreTrainedTokenizerFast', 'add_bos_token': True}, False),
        (False, {'tokenizer_class': 'Qwen2Tokenizer', 'add_bos_token': True}, False),
        (True, {'tokenizer_class': 'LlamaTokenizerFast', 'add_bos_token': False}, False),
        (False, {'tokenizer_class': 'LlamaTokenizer', 'add_bos_token': True}, True),
        (False, {'tokenizer_class': 'GemmaTokenizer'}, True),
        (False, {}, False),
        (True, {}, True),
    ],
)
def test_whether_bos_is_put_first_follows_the_tokenizer_class(
    tmp_path: Path, put_first: bool, config: dict[str, Any], adds_bos: bool
) -> None:
    inner = byte_level_inner()
    if put_first:
        template = processors.TemplateProcessing(single='<|im_start|> $A', special_tokens=[('<|im_start|>', 1)])
        inner.post_processor = processors.Sequence([processors.ByteLevel(), template])
    tokens = {'bos_token': '<|im_start|>', 'eos_token': {'content': '<|im_end|>'}}
    tokenizer = load_tokenizer(saved(tmp_path, inner, **tokens, **config))
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.adds_bos) == (1, 2, adds_bos)


def test_a_model_without_bos_adds_none(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(saved(tmp_path, byte_level_inner(), bos_token=None, tokenizer_class='LlamaTokenizer'))
    assert (tokenizer.bos_id, tokenizer.adds_bos) == (None, False)


def test_a_word_piece_tokenizer_covers_what_it_drops(tmp_path: Path) -> None:
    words = ['[UNK]', '[CLS]', '[SEP]', 'un', '##real', 'cafe', ',']
    inner = Inner(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token='[UNK]'))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.post_processor = processors.BertProcessing(('[SEP]', 2), ('[CLS]', 1))
    tokenizer = load_tokenizer(saved(tmp_path, inner))
    assert tokenizer.offsets('  Unreal,  Café ') == [(3, 0, 4), (4, 4, 8), (6, 8, 9), (5, 9, 16)]
    assert shown(tokenizer, 'unreal') == ['un', '##real']
    assert tokenizer.decode([3, 4]) == 'unreal'
    assert (tokenizer.bos_id, tokenizer.adds_bos) == (1, True)
    assert tokenizer.offsets('  ') == []


@pytest.mark.parametrize('content', ['', '[]', '{}', '{"model": {"type": "?"}}', b'\xff', '[' * 100_000])
def test_a_broken_tokenizer_json_is_an_error_with_its_name(tmp_path: Path, content: str | bytes) -> None:
    path = put(tmp_path, 'tokenizer.json', content)
    for load in (load_tokenizer, lambda source: find_tokenizer({'path': str(source)})):
        with pytest.raises(DataError) as error:
            load(tmp_path)
        assert str(error.value).startswith(str(path))


# tiktoken.


def test_a_tiktoken_encoding_by_its_name_or_that_of_a_model(toy: str) -> None:
    for name in (f'tiktoken:{toy}', 'tiktoken:gpt-4o', 'tiktoken:gpt-4o-2024-08-06'):
        tokenizer = load_tokenizer(name)
        assert tokenizer.name == 'tiktoken:o200k_base'
    assert tokenizer.encode('hell<|endoftext|>') == [256, 257, 300]
    assert shown(tokenizer, '<|endoftext|>', special=False) == list('<|endoftext|>')
    assert tokenizer.offsets('a你<|endoftext|>he') == [
        (97, 0, 1),
        (258, 1, 2),
        (160, 2, 2),
        (300, 2, 15),
        (256, 15, 17),
    ]
    assert shown(tokenizer, '你') == ['<0xE4><0xBD>', '<0xA0>']
    assert (tokenizer.bos_id, tokenizer.adds_bos, tokenizer.eos_id) == (None, False, 300)
    assert tokenizer.special_tokens == {'<|endoftext|>': 300}
    assert tokenizer.pieces([10_000]) == ['<10000>']


def test_a_name_that_tiktoken_does_not_know_is_an_error() -> None:
    with pytest.raises(DataError, match='tiktoken:gpt-none: tiktoken has no encoding or model of this name'):
        load_tokenizer('tiktoken:gpt-none')


def test_an_encoding_that_cannot_be_fetched_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str) -> Any:
        raise ConnectionError('no network')

    monkeypatch.setattr(tiktoken, 'get_encoding', offline)
    with pytest.raises(DataError, match='tiktoken:cl100k_base: the encoding is not on this machine'):
        load_tokenizer('tiktoken:cl100k_base')


# Finding them.


def test_the_tokenizer_of_a_model_entry_is_found(tmp_path: Path, bpe: Tokenizer, toy: str) -> None:
    folder = saved(tmp_path, byte_level_inner())
    gguf = put(tmp_path / 'models', 'm.gguf', gguf_bytes(byte_level()))
    put(tmp_path / 'models', 'mmproj-m.gguf', b'')
    shards = [put(tmp_path / 'shards', f'm-0000{number}-of-00002.gguf', gguf.read_bytes()) for number in (1, 2)]
    cases: list[tuple[dict[str, Any], str]] = [
        ({'path': str(folder)}, f'{folder}/tokenizer.json'),
        ({'path': 'none', 'tokenizer_path': folder}, f'{folder}/tokenizer.json'),
        ({'path': str(gguf), 'tokenizer_path': str(folder)}, f'{folder}/tokenizer.json'),
        ({'path': str(gguf)}, str(gguf)),
        ({'path': '', 'model': str(gguf.parent)}, str(gguf)),
        ({'path': str(shards[0].parent)}, str(shards[0])),
        ({'tokenizer': f'tiktoken:{toy}'}, 'tiktoken:o200k_base'),
        ({'type': 'VLLMCustomAPI', 'model': 'gpt-4o'}, 'tiktoken:o200k_base'),
        ({'type': 'OpenAI', 'path': 'gpt-4o'}, 'tiktoken:o200k_base'),
        ({'type': type('OpenAISDK', (), {}), 'path': 'gpt-4o'}, 'tiktoken:o200k_base'),
        ({'tokenizer': bpe}, bpe.name),
    ]
    for entry, name in cases:
        assert load_tokenizer(entry).name == name, entry


@pytest.mark.parametrize(
    'entry',
    [
        {},
        {'path': None, 'tokenizer': 3},
        {'path': 'none', 'type': 'HuggingFaceCausalLM'},
        {'path': 'no/such/folder'},
        {'path': 'x\0y'},
        {'path': 'x' * 5000},
        {'path': 'gpt-4o', 'type': 'HuggingFaceCausalLM'},
        {'path': 'gpt-4o', 'type': 'OpenAI'},
        {'model': 'some-model'},
        {'tokenizer': 'tiktoken:cl100k_base'},
    ],
)
def test_what_is_not_on_this_machine_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]
) -> None:
    monkeypatch.setenv('TIKTOKEN_CACHE_DIR', str(tmp_path))
    monkeypatch.setenv('HF_HOME', str(tmp_path))
    assert find_tokenizer(entry) is None
    with pytest.raises(DataError, match='no tokenizer found'):
        load_tokenizer(entry)


def test_files_that_are_no_tokenizer_are_not_found(tmp_path: Path) -> None:
    weights = put(tmp_path, 'model.safetensors', b'')
    assert find_tokenizer({'path': str(weights)}) is None
    assert find_tokenizer({'path': str(tmp_path)}) is None


def test_an_encoding_that_tiktoken_keeps_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = 'https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken'
    put(tmp_path, hashlib.sha1(address.encode()).hexdigest(), b'')
    encoding = tiktoken.Encoding('cl100k_base', pat_str='.', mergeable_ranks={b'a': 0}, special_tokens={})
    monkeypatch.setenv('TIKTOKEN_CACHE_DIR', str(tmp_path))
    monkeypatch.setattr(tiktoken, 'get_encoding', lambda name: encoding)
    found = find_tokenizer({'type': 'OpenAI', 'path': 'gpt-4'})
    assert isinstance(found, TiktokenTokenizer)
    assert found.eos_id is None


def test_a_hub_model_is_found_in_the_local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / 'hub' / 'models--some--model'
    snapshot = model / 'snapshots' / 'abc'
    snapshot.mkdir(parents=True)
    saved(snapshot, byte_level_inner())
    put(model, 'refs/main', 'abc')
    put(tmp_path, 'hub/models--other--model/refs/main', 'gone')
    monkeypatch.setenv('HF_HOME', str(tmp_path))
    monkeypatch.delenv('HF_HUB_CACHE', raising=False)
    assert load_tokenizer('some/model').name == str(snapshot / 'tokenizer.json')
    assert find_tokenizer({'path': 'other/model'}) is None


def test_several_models_in_a_folder_are_not_chosen_between(tmp_path: Path) -> None:
    for name in ('a.gguf', 'b.gguf'):
        put(tmp_path, name, b'')
    with pytest.raises(DataError, match=r'several models \(a.gguf, b.gguf\). Name one file.'):
        load_tokenizer(tmp_path)


def test_a_package_that_is_not_installed_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path, byte_level_inner())
    for package in ('tokenizers', 'tiktoken'):
        monkeypatch.setitem(sys.modules, package, None)
    for source in (folder, 'tiktoken:gpt-4o'):
        with pytest.raises(MissingExtraError, match=r'rolecall\[tokenize\]'):
            load_tokenizer(source)
    assert find_tokenizer({'model': 'gpt-4o'}) is None


def test_the_tokens_of_a_gguf_file_need_the_extra_of_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, 'x.gguf', gguf_bytes(byte_level()))
    monkeypatch.setitem(sys.modules, 'xllamacpp', None)
    bindings.library.cache_clear()
    with pytest.raises(MissingExtraError, match=r'xllamacpp is needed .*rolecall\[llama\]'):
        load_tokenizer(path)


# What holds for all of them.


@pytest.fixture(scope='module')
def all_kinds(folder: Path, bpe: Tokenizer, spm: Tokenizer) -> list[Tokenizer]:
    ranks = {bytes([number]): number for number in range(256)} | {b'he': 256, '你'.encode()[:2]: 258}
    encoding = tiktoken.Encoding('toy', pat_str=r'\w+|\W', mergeable_ranks=ranks, special_tokens={'<|endoftext|>': 300})
    composed = byte_level_inner()
    composed.normalizer = normalizers.NFC()
    composed.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r'\s+'), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    (folder / 'nfc').mkdir()
    return [bpe, spm, TiktokenTokenizer(encoding), load_tokenizer(saved(folder / 'nfc', composed))]


@given(text=TEXTS)
def test_offsets_follow_the_ids_and_cover_the_text(all_kinds: list[Tokenizer], text: str) -> None:
    for tokenizer in all_kinds:
        assert isinstance(tokenizer, Tokenizer)
        offsets = tokenizer.offsets(text)
        assert [number for number, _, _ in offsets] == tokenizer.encode(text)
        edges = [0, *(stop for _, _, stop in offsets)]
        assert [start for _, start, _ in offsets] == edges[:-1]
        assert edges == sorted(edges)
        assert edges[-1] == len(text)


@given(text=TEXTS)
def test_byte_level_ids_are_the_text(all_kinds: list[Tokenizer], text: str) -> None:
    bpe, _, encoding, _ = all_kinds
    for tokenizer in (bpe, encoding):
        for special in (True, False):
            assert tokenizer.decode(tokenizer.encode(text, special=special)) == text


def test_a_made_up_space_takes_no_character(spm: Tokenizer) -> None:
    assert [(start, stop) for _, start, stop in spm.offsets('wo 你')] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 4),
        (4, 4),
    ]
    assert [(start, stop) for _, start, stop in spm.offsets('你')] == [(0, 0), (0, 1), (1, 1), (1, 1)]


def test_half_a_surrogate_pair_is_one_unknown_character(all_kinds: list[Tokenizer]) -> None:
    for tokenizer in all_kinds:
        assert tokenizer.encode('a\ud83db') == tokenizer.encode('a\ufffdb')
        assert tokenizer.offsets('a\ud83db')[-1][2] == 3
