"""The tokenizer of a GGUF file, run here and by llama.cpp: the same ids for every way of splitting.

Every pair of bytes is a token of the vocabulary, so a cut that is elsewhere by one byte gives other ids.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from rolecall.tokenizers.gguf import SPLITS
from rolecall.tokenizers.tokenizer import FastTokenizer
from test_tokenizers import BYTES, gguf_bytes, put

pytest.importorskip('xllamacpp')

LETTERS = list(BYTES.values())
SAMPLE = (
    "it's IT'S we'LL x'Sy 'ſ don't hello HelloWorld camelCase ABCdef 12 3456 ７８ ½ ² Ⅻ ٣ 𝟙 ， 。 ！ “ ” 你好 世界 ひらがな "
    'カタカナ 한국어 é é ÀÉ ß ſ Ǆ ǅ µ ʰ ªº نص हिन्दी ไทย Привет ПРИВЕТ пРиВ ΑΒγ Ａｂ ａＢ 𝒜 ا א … $ + < = > ^ ` | ~ _ - / // '
    'a/b (x) def f(): 😀 👩\u200d👩\u200d👧 . .. !a #tag @x A1b2'
)
SPACES = [
    ' ',
    '  ',
    '   ',
    '\t',
    '\n',
    '\r\n',
    '\n\n',
    '!\n',
    '//\n',
    '\u00a0',
    '\u3000',
    '\u2028',
    '\x0b',
    '\x0c',
    '\x85',
]
SHAPE = {'context_length': 64, 'embedding_length': 8, 'block_count': 1, 'feed_forward_length': 8}


def texts(count: int) -> list[str]:
    draw = random.Random(1)
    return [''.join(draw.choices([*SAMPLE.split(), *SPACES], k=draw.randint(1, 10))) for _ in range(count)]


def keys_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """What a file says whose tokens are the bytes, and these pairs of them."""
    tokens = [*LETTERS, *(one + other for one, other in pairs), '<s>', '</s>']
    types = [*[1] * (len(tokens) - 2), 3, 3]
    return {
        'general.architecture': 'llama',
        **{f'llama.{name}': number for name, number in SHAPE.items()},
        'llama.attention.head_count': 1,
        'llama.attention.layer_norm_rms_epsilon': 1e-5,
        'tokenizer.ggml.model': 'gpt2',
        'tokenizer.ggml.tokens': tokens,
        'tokenizer.ggml.token_type': (9, struct.pack(f'<IQ{len(types)}i', 5, len(types), *types)),
        'tokenizer.ggml.merges': [f'{one} {other}' for one, other in pairs],
        'tokenizer.ggml.bos_token_id': len(tokens) - 2,
        'tokenizer.ggml.eos_token_id': len(tokens) - 1,
    }


def agree(path: Path, count: int) -> None:
    from rolecall.models.llama.vocabulary import Vocabulary

    ours, theirs = FastTokenizer.from_gguf(path), Vocabulary(path)
    assert (ours.bos_id, ours.eos_id, ours.adds_bos) == (theirs.bos_id, theirs.eos_id, theirs.adds_bos)
    for text in texts(count):
        assert ours.encode(text) == theirs.encode(text), text


@pytest.fixture(scope='module')
def keys() -> dict[str, Any]:
    return keys_of([(one, other) for one in LETTERS for other in LETTERS])


@pytest.mark.parametrize('pre', {id(split): pre for pre, split in SPLITS.items()}.values())
def test_the_ids_are_those_of_llama_cpp(keys: dict[str, Any], tmp_path: Path, pre: str) -> None:
    agree(put(tmp_path, f'{pre}.gguf', gguf_bytes({**keys, 'tokenizer.ggml.pre': pre})), 1000)


def test_every_name_means_to_llama_cpp_what_it_means_here(tmp_path: Path) -> None:
    keys = keys_of([(one, other) for one in LETTERS[:100] for other in LETTERS[:100:3]])
    for pre in SPLITS:
        agree(put(tmp_path, f'{pre}.gguf', gguf_bytes({**keys, 'tokenizer.ggml.pre': pre})), 40)
