"""Small random models with saved files, as the tests of local engines need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SPECIAL = ['<s>', '</s>', '<|im_start|>', '<|im_end|>']
MERGES = ['t h', 'Ġ t', 'e r', 'Ġt h', 'i n', 'Ċ Ċ', 'o n', 'Ġ a', 'a n', 'q u', 'Ġ q']
KINDS = ['gpt2', 'llama', 'mistral', 'bloom']
"""Learnt positions; rotary ones with grouped heads; a sliding window; positions from the attention mask."""

_LETTERS = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_ALPHABET = sorted([*map(chr, _LETTERS), *(chr(0x100 + place) for place in range(256 - len(_LETTERS)))])
UNREADABLE = [0, 2, 3, *(len(SPECIAL) + place for place, letter in enumerate(_ALPHABET) if not '!' <= letter <= '~')]
"""Tokens that are parts of characters, signs nobody sees, and special ones: random models love to say them."""


def make_tokenizer(folder: Path, *, bos: bool) -> Path:
    """A byte-level BPE tokenizer; with `bos`, one that puts <s> first."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    tokens = [*SPECIAL, *_ALPHABET, *(merge.replace(' ', '') for merge in MERGES)]
    pairs: Any = [tuple(merge.split(' ')) for merge in MERGES]
    inner = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=pairs))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    if bos:
        inner.post_processor = processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', 0)])
    inner.save(str(folder / 'tokenizer.json'))
    settings = {'tokenizer_class': 'PreTrainedTokenizerFast', 'bos_token': '<s>', 'eos_token': '</s>'}
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings), encoding='utf-8')
    return folder


def make_model(folder: Path, kind: str, *, seed: int = 0, spread: float = 0.6, width: int = 32) -> Path:
    """A model of a kind with random weights, so large (`spread`) that tokens are not all alike."""
    import torch
    import transformers as hf

    make_tokenizer(folder, bos=kind != 'gpt2')
    common = {'vocab_size': len(SPECIAL) + 256 + len(MERGES), 'bos_token_id': 0, 'eos_token_id': 1}
    rotary = {
        **common,
        'hidden_size': width,
        'intermediate_size': 2 * width,
        'num_hidden_layers': 2,
        'num_attention_heads': 4,
        'num_key_value_heads': 2,
        'max_position_embeddings': 4096,
        'initializer_range': spread,
    }
    learnt = {**common, 'n_embd': 32, 'n_layer': 2, 'n_head': 4, 'n_positions': 512, 'initializer_range': spread}
    alibi = {**common, 'hidden_size': 32, 'n_layer': 2, 'n_head': 4, 'initializer_range': spread}
    torch.manual_seed(seed)
    models: dict[str, Any] = {
        'gpt2': lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**learnt)),
        'llama': lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**rotary)),
        'mistral': lambda: hf.MistralForCausalLM(hf.MistralConfig(**rotary, sliding_window=24)),
        'bloom': lambda: hf.BloomForCausalLM(hf.BloomConfig(**alibi)),
        'mamba': lambda: hf.MambaForCausalLM(
            hf.MambaConfig(**common, hidden_size=32, state_size=4, num_hidden_layers=2, initializer_range=spread)
        ),
    }
    models[kind]().save_pretrained(folder)
    return folder
