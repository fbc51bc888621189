"""Tokenizer files and GGUF files made to break their reader: a clear error, in time, and never the end of the process."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.errors import DataError
from rolecall.models.backends import build_model
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from test_tokenizers import byte_level, gguf_bytes, put, sentencepiece, signed

BPE = {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '?': 2}, 'merges': [], 'unk_token': '?'}
WORD_PIECE = {
    'type': 'WordPiece',
    'vocab': {'a': 0},
    'unk_token': '[UNK]',
    'continuing_subword_prefix': '##',
    'max_input_chars_per_word': 100,
}


def written(**parts: Any) -> dict[str, Any]:
    return {'version': '1.0', 'added_tokens': [], 'pre_tokenizer': {'type': 'Whitespace'}, 'model': BPE, **parts}


def split(pattern: str) -> dict[str, Any]:
    return {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False}


def nested(levels: int) -> str:
    return '{"model": ' + '[' * levels + ']' * levels + '}'


SLOW = {
    'exponential': r'(a+)+$',
    'exponential, by alternatives': r'(a|aa)+$',
    'exponential, in a look-ahead': r'(?=(b+)+$)b',
    'quadratic': r'a+b',
    'of spaces': r'( +)+$',
    'of digits': r'(\d|\d\d)+$',
}


@pytest.mark.parametrize('case', SLOW)
@pytest.mark.parametrize('place', ['pre_tokenizer', 'normalizer', 'sequence'])
def test_a_regular_expression_that_backtracks_is_refused_in_time(tmp_path: Path, case: str, place: str) -> None:
    parts: dict[str, Any] = {'pre_tokenizer': split(SLOW[case])}
    if place == 'normalizer':
        parts = {'normalizer': {'type': 'Replace', 'pattern': {'Regex': SLOW[case]}, 'content': '?'}}
    if place == 'sequence':
        parts = {'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [split(' '), split(SLOW[case])]}}
    if place == 'sequence' and case == 'of spaces':
        pytest.skip('the first step leaves no two spaces together')
    path = put(tmp_path, 'tokenizer.json', written(**parts))
    started = time.monotonic()
    with pytest.raises(DataError, match='not a usable tokenizer'):
        load_tokenizer(path)
    assert time.monotonic() - started < 60


def test_a_file_that_cannot_be_used_is_tried_once_until_it_changes(tmp_path: Path) -> None:
    path = put(tmp_path, 'tokenizer.json', written(pre_tokenizer=split(SLOW['exponential'])))
    with pytest.raises(DataError, match='not a usable tokenizer'):
        load_tokenizer(path)
    started = time.monotonic()
    for _ in range(100):
        with pytest.raises(DataError, match='not a usable tokenizer'):
            load_tokenizer(path)
    assert time.monotonic() - started < 60
    put(tmp_path, 'tokenizer.json', written())
    assert load_tokenizer(path).count('a b') == 2


@pytest.mark.parametrize(('pattern', 'text'), [(r'(\w+)*\.\.$', 'a..!'), (r'(?<=z)(q+)+\.', 'zq!')])
def test_a_regular_expression_that_backtracks_only_later_is_an_error_then(
    tmp_path: Path, pattern: str, text: str
) -> None:
    tokenizer = load_tokenizer(put(tmp_path, 'tokenizer.json', written(pre_tokenizer=split(pattern))))
    started = time.monotonic()
    with pytest.raises(DataError, match='not a usable tokenizer'):
        tokenizer.encode(text.replace('a', 'a' * 40).replace('q', 'q' * 40))
    assert time.monotonic() - started < 60


USUAL = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r'|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+',
    r'\p{N}{1,3}',
    r'[一-龥぀-ゟ゠-ヿ]+',
    r'[!"#$%&\'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+',
]


@pytest.mark.parametrize('pattern', USUAL)
def test_the_regular_expressions_of_known_models_are_taken(tmp_path: Path, pattern: str) -> None:
    tokenizer = load_tokenizer(put(tmp_path, 'tokenizer.json', written(pre_tokenizer=split(pattern))))
    assert tokenizer.count('a' * 100) == 100


BROKEN: dict[str, Any] = {
    'WordPiece without [UNK]': written(model=WORD_PIECE),
    'WordLevel without [UNK]': written(model={'type': 'WordLevel', 'vocab': {'a': 0}, 'unk_token': '[UNK]'}),
    'Unigram without unk_id': written(model={'type': 'Unigram', 'vocab': [['a', 0.0]], 'unk_id': None}),
    'Unigram with an unk_id outside': written(model={'type': 'Unigram', 'vocab': [['a', 0.0]], 'unk_id': 50}),
    'an unknown token that is not there': written(model={**BPE, 'unk_token': 'zz', 'byte_fallback': True}),
    'a panic in Rust: charsmap': written(normalizer={'type': 'Precompiled', 'precompiled_charsmap': '////'}),
    'a panic in Rust: prefix': written(
        model={
            'type': 'BPE',
            'vocab': {'a': 0, 'b': 1, 'ab': 2},
            'merges': ['a b'],
            'continuing_subword_prefix': '####',
        }
    ),
    'no model': {},
    'model of the wrong type': written(model=5),
    'vocabulary of the wrong type': written(model={**BPE, 'vocab': [1, 2]}),
    'negative id': written(model={**BPE, 'vocab': {'a': -1}}),
    'merges of unknown tokens': written(model={**BPE, 'merges': ['x y']}),
    'a pattern that is none': written(pre_tokenizer=split('(')),
    'added tokens of the wrong type': written(added_tokens={'a': 1}),
    'a list': [],
    'a number': 5,
    'deep': nested(100_000),
    'not JSON': '{',
    'not text': b'\xff\xfe\x00',
}


@pytest.mark.parametrize('case', BROKEN)
def test_a_tokenizer_that_cannot_be_used_is_an_error_with_its_name(tmp_path: Path, case: str) -> None:
    content = BROKEN[case]
    path = put(tmp_path, 'tokenizer.json', content if isinstance(content, str | bytes) else json.dumps(content))
    with pytest.raises(DataError) as raised:
        load_tokenizer(path)
    assert str(raised.value).startswith(str(path))
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize(
    'config',
    [
        {'bos_token': 5, 'eos_token': [], 'add_bos_token': 'yes', 'tokenizer_class': 7},
        {'bos_token': {'content': 5}, 'tokenizer_class': None},
        {'bos_token': '\ud800', 'eos_token': {'content': '\udfff'}},
        {'bos_token': {'content': 'not in the vocabulary'}, 'chat_template': 5},
    ],
)
def test_settings_of_the_wrong_type_are_passed_over(tmp_path: Path, config: dict[str, Any]) -> None:
    put(tmp_path, 'tokenizer_config.json', config)
    tokenizer = load_tokenizer(put(tmp_path, 'tokenizer.json', written()))
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.adds_bos) == (None, None, False)


@pytest.mark.parametrize('content', ['{', '[]', '5', '"x"', nested(100_000), b'\xff'])
def test_a_config_json_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path, content: str | bytes) -> None:
    put(tmp_path, 'config.json', content)
    model = build_model({'type': 'HuggingFaceBaseModel', 'path': str(tmp_path)}, name='m')
    with pytest.raises(DataError, match=r'config\.json: not'):
        assert model.max_seq_len


@pytest.mark.parametrize('length', [0, -1, 10**30, True, 'many', None, [], 1.5])
def test_a_context_that_is_no_sane_number_is_unknown(tmp_path: Path, length: Any) -> None:
    put(tmp_path, 'config.json', {'max_position_embeddings': length, 'text_config': 5})
    assert build_model({'type': 'HuggingFaceBaseModel', 'path': str(tmp_path)}, name='m').max_seq_len is None


@pytest.mark.parametrize('length', [0, (11, struct.pack('<q', -5)), (10, b'\xff' * 8), 'many', 0.5, [1]])
def test_a_gguf_context_that_is_no_sane_number_is_unknown(tmp_path: Path, length: Any) -> None:
    path = put(tmp_path, 'x.gguf', gguf_bytes({**byte_level(), 'llama.context_length': length}))
    assert build_model({'type': 'LlamaCpp', 'path': str(path)}, name='m').max_seq_len is None


def test_control_characters_in_a_file_do_not_reach_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, 'x.gguf', gguf_bytes({'general.architecture': '\x1b[31mred\x07'}))
    with pytest.raises(DataError) as raised:
        load_tokenizer(path)
    assert str(raised.value).isprintable()


@settings(max_examples=3)
@given(
    vocabularies=st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(
                    [
                        'model',
                        'pre',
                        'tokens',
                        'token_type',
                        'scores',
                        'merges',
                        'bos_token_id',
                        'eos_token_id',
                        'add_bos_token',
                    ]
                ),
                st.sampled_from(
                    [
                        5,
                        -1.5,
                        'x',
                        True,
                        [],
                        [1, 2],
                        ['a', 'b'],
                        ['a', 'a'],
                        ['\0'],
                        [''],
                        ['a'] * 300,
                        signed([1] * 300),
                        2**31,
                    ]
                ),
                min_size=1,
                max_size=3,
            ),
            st.sampled_from([byte_level, sentencepiece]),
        ),
        min_size=8,
        max_size=8,
    )
)
def test_no_vocabulary_ends_the_process(tmp_path_factory: Any, vocabularies: list[tuple[dict[str, Any], Any]]) -> None:
    paths = [tmp_path_factory.getbasetemp() / f'changed{number}.gguf' for number in range(len(vocabularies))]
    for path, (changes, kind) in zip(paths, vocabularies, strict=True):
        changed = {f'tokenizer.ggml.{name}': value for name, value in changes.items()}
        path.write_bytes(gguf_bytes({**kind(), **changed}))
    code = (
        'import sys; from rolecall.models.tokenizers.tokenizer import load_tokenizer; from rolecall.errors import DataError\n'
        'for path in sys.argv[1:]:\n'
        '    try:\n'
        '        found = load_tokenizer(path); text = "hello 你 <s> 12\\n\\0"\n'
        '        found.decode(found.encode(text)); found.offsets(text); found.special_tokens\n'
        '    except DataError: pass\n'
    )
    ended = subprocess.run([sys.executable, '-c', code, *map(str, paths)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-500:]
