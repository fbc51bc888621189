"""Entries of Transformers models: read and checked without torch; identity, limits, token ids."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import ConfigError, MissingExtraError
from rolecall.models.local_engine import PromptEncoder, cut_at_stop, decode_continuation
from rolecall.models.protocol import ModelError, Sampling
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from rolecall.models.transformers.entry import read_transformers_entry
from rolecall.models.transformers.model import build
from rolecall.models.transformers.prefixes import Branch, build_prefix_tree
from rolecall.models.transformers.weights import import_hf_package
from rolecall.sources.config.reference import Reference
from rolecall.strings import common_length
from small_models import make_tokenizer

MESSAGES: Any = [{'role': 'user', 'content': 'Hi'}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_tokenizer(tmp_path, bos=True)
    (tmp_path / 'config.json').write_text(json.dumps({'max_position_embeddings': 2048}), encoding='utf-8')
    (tmp_path / 'model.safetensors').write_bytes(bytes(range(256)) * 100)
    return tmp_path


@pytest.mark.parametrize(
    ('entry', 'where', 'what'),
    [
        ({}, 'path', 'missing'),
        ({'path': 7}, 'path', 'expected a string'),
        ({'path': 'm', 'peft_path': 'adapter'}, 'peft_path', 'adapters are not supported'),
        ({'path': 'm', 'batch_size': 0}, 'batch_size', 'whole number of at least 1'),
        ({'path': 'm', 'max_seq_len': '2048'}, 'max_seq_len', 'whole number of at least 1'),
        ({'path': 'm', 'device': 'gpu'}, 'device', "unknown device 'gpu'"),
        ({'path': 'm', 'dtype': 'float8'}, 'dtype', "unknown dtype 'float8'"),
        ({'path': 'm', 'model_kwargs': 'fp16'}, 'model_kwargs', 'expected a dict'),
        ({'path': 'm', 'stop_words': [1]}, 'stop_words', 'list of strings'),
        ({'path': 'm', 'trust_remote_code': 'yes'}, 'trust_remote_code', 'True or False'),
        ({'path': 'm', 'max_seq_length': 5}, 'max_seq_length', "Did you mean 'max_seq_len'"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(entry: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build({'type': 'HuggingFaceBaseModel', **entry}, name='small')
    [problem] = [one for one in caught.value.problems if one.where == f'small.{where}'][:1]
    assert what in f'{problem.what} {problem.remedy}'


def test_an_entry_written_for_opencompass_is_understood() -> None:
    settings = read_transformers_entry(
        {
            'type': Reference('opencompass.models.HuggingFacewithChatTemplate'),
            'abbr': 'qwen',
            'path': 'Qwen/Qwen2-7B-Instruct',
            'model_kwargs': {
                'device_map': 'auto',
                'torch_dtype': Reference('torch.float16'),
                'trust_remote_code': True,
            },
            'tokenizer_kwargs': {'padding_side': 'left', 'truncation_side': 'left', 'trust_remote_code': True},
            'generation_kwargs': {
                'do_sample': True,
                'temperature': 0.5,
                'eos_token_id': [1, 2],
                'repetition_penalty': 1.1,
            },
            'max_seq_len': 4096,
            'max_out_len': 100,
            'batch_size': 16,
            'stop_words': ['<|im_end|>'],
            'end_str': '\n\n',
            'batch_padding': True,
            'run_cfg': {'num_gpus': 1},
        },
        name='qwen',
    )
    assert settings.chat
    assert (settings.source.dtype, settings.source.trust_remote_code) == ('float16', True)
    decoding = settings.decoding(Sampling())
    assert (decoding.max_new, decoding.temperature, decoding.eos_ids) == (100, 0.5, (1, 2))
    assert decoding.stops == ('<|im_end|>', '\n\n')
    assert decoding.extra == {'repetition_penalty': 1.1}


def test_code_of_strangers_is_not_trusted_unless_said() -> None:
    assert read_transformers_entry({'path': 'm'}, name='m').source.trust_remote_code is False
    entry = {'path': 'm', 'trust_remote_code': False, 'model_kwargs': {'trust_remote_code': True}}
    assert read_transformers_entry(entry, name='m').source.trust_remote_code is False


def test_a_request_goes_before_the_entry() -> None:
    entry = {'path': 'm', 'max_out_len': 50, 'generation_kwargs': {'top_p': 0.5, 'max_new_tokens': 20, 'seed': 1}}
    settings = read_transformers_entry(entry, name='m')
    assert settings.decoding(Sampling()).max_new == 20
    asked = settings.decoding(Sampling(max_out_len=5, top_p=0.9, seed=2, stop=('\n',), extra={'min_p': 0.1}))
    assert (asked.max_new, asked.top_p, asked.seed, asked.stops, asked.min_p) == (5, 0.9, 2, ('\n',), 0.1)
    with pytest.raises(ModelError, match='num_return_sequences'):
        settings.decoding(Sampling(extra={'num_return_sequences': 3}))


def test_nothing_heavy_is_imported_to_build_and_count(folder: Path) -> None:
    before = {'torch', 'transformers'} & sys.modules.keys()
    model = build({'type': 'HuggingFaceBaseModel', 'path': str(folder)}, name='small')
    assert (model.count('the'), model.max_seq_len, model.batch, model.score_batch_size) == (3, 2048, 8, 64)
    assert model.identity['path'] == str(folder)
    assert {'torch', 'transformers'} & sys.modules.keys() == before


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'transformers', None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rolecall\[hf\]'"):
        import_hf_package('transformers')


def test_identity_follows_the_weights_and_never_holds_a_key(folder: Path) -> None:
    entry = {'path': str(folder), 'model_kwargs': {'token': 'hf_secret', 'device_map': 'auto', 'revision': 'v2'}}
    first = build(entry, name='small').identity
    assert build(entry, name='other').identity == first
    assert 'hf_secret' not in json.dumps(first)
    assert first['model_kwargs'] == {'revision': 'v2'}
    (folder / 'model.safetensors').write_bytes(bytes(255 - number for number in range(256)) * 100)
    assert build(entry, name='small').identity['weights'] != first['weights']


@pytest.mark.parametrize('kind', ['HuggingFaceBaseModel', 'HuggingFaceCausalLM', 'HuggingFace'])
def test_a_text_gets_one_bos_and_never_two(folder: Path, kind: str) -> None:
    model = build({'type': kind, 'path': str(folder)}, name='small')
    assert model.count('the') == model.count('<s>the') == model.count(['<s>', 'the']) == 3


def test_what_a_chat_template_wrote_is_taken_as_it_is(folder: Path) -> None:
    model = build({'type': 'HuggingFacewithChatTemplate', 'path': str(folder)}, name='small')
    assert (model.count('the'), model.count('<s>the')) == (2, 3)
    with pytest.raises(ModelError, match='takes text, not messages'):
        model.count(MESSAGES)


def test_special_tokens_in_a_prompt_are_those_tokens(folder: Path) -> None:
    encoder = PromptEncoder(load_tokenizer(folder))
    prompt = encoder.encode('<|im_start|>é')
    assert prompt.ids[:2] == (0, 2)
    assert prompt.offsets == ((0, 0), (0, 12), (12, 13), (13, 13))
    assert encoder.encode([5, 6, 7]).ids == (0, 5, 6, 7)
    assert encoder.encode([0, 5, '<|im_end|>']).ids == (0, 5, 3)


def test_an_answer_keeps_its_leading_space() -> None:
    """A SentencePiece decoder takes the space off the first word of a text, but an answer is not the first."""
    from tokenizers import Tokenizer, decoders, models

    from rolecall.models.tokenizers.huggingface import FastTokenizer

    vocab = {'<unk>': 0, '▁the': 1, '▁cat': 2, 's': 3}
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token='<unk>'))
    inner.decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.Fuse(), decoders.Strip(' ', 1, 0)])
    tokenizer = FastTokenizer('toy', inner, 'spaces', None, False, None, {})
    assert tokenizer.decode([2, 3]) == 'cats'
    assert decode_continuation(tokenizer, [1], [2, 3]) == ' cats'
    assert decode_continuation(tokenizer, [], [2, 3]) == 'cats'


@given(st.text('ab'), st.lists(st.text('ab', min_size=1, max_size=3), max_size=3))
def test_a_cut_text_holds_no_stop_and_the_first_one_follows(text: str, stops: list[str]) -> None:
    found = cut_at_stop(text, stops)
    if found is None:
        assert not any(stop in text for stop in stops)
    else:
        assert text.startswith(found)
        assert any(text[len(found) :].startswith(stop) for stop in stops)
        assert not any(stop in text[: len(found) + len(stop) - 1] for stop in stops)


def paths(branches: list[Branch]) -> list[tuple[int, ...]]:
    return [path for branch in branches for path in (branch.ids[: branch.stop], *paths(branch.children))]


@given(st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), max_size=12), st.integers(1, 5))
def test_a_tree_holds_every_prompt_and_no_token_twice(prompts: set[tuple[int, ...]], longest: int) -> None:
    tree = build_prefix_tree(sorted(prompts), longest=longest)
    assert prompts <= {*paths(tree)}

    def tokens(branches: list[Branch]) -> int:
        return sum(branch.stop - branch.start + tokens(branch.children) for branch in branches)

    assert tokens(tree) == len({ids[: end + 1] for ids in prompts for end in range(len(ids))})
    for branch in tree:
        assert branch.stop - branch.start <= longest


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_common_is_the_length_of_the_common_prefix(one: list[int], other: list[int]) -> None:
    length = common_length((one, other))
    assert one[:length] == other[:length]
    assert one[length : length + 1] != other[length : length + 1] or len(one) == len(other) == length
