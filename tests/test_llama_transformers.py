"""The embedded model against Transformers: the same weights, the same loss."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolecall.models.llama.model import LlamaModel, build
from rolecall.models.pull import model_path
from small_gguf import CONTEXT, EPSILON, HEAD, HEADS, INNER, KV_HEADS, LAYERS, WIDTH, SmallModel, make_gguf

pytestmark = pytest.mark.heavy

NAMES = {
    'attn_norm': 'input_layernorm',
    'attn_q': 'self_attn.q_proj',
    'attn_k': 'self_attn.k_proj',
    'attn_v': 'self_attn.v_proj',
    'attn_output': 'self_attn.o_proj',
    'ffn_norm': 'post_attention_layernorm',
    'ffn_gate': 'mlp.gate_proj',
    'ffn_up': 'mlp.up_proj',
    'ffn_down': 'mlp.down_proj',
}
SHOTS = 'hello world 12345: it is. ' * 8
PROMPTS = [f'{SHOTS}what is {word}?' for word in ('hello', 'hell', '12', 'the world')]


def as_transformers(small: SmallModel) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(small.tensors['token_embd.weight']),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPSILON,
        tie_word_embeddings=True,
    )
    state = {'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm', 'lm_head': 'token_embd'}
    state |= {f'model.layers.{n}.{ours}': f'blk.{n}.{name}' for n in range(LAYERS) for name, ours in NAMES.items()}
    tensors = {f'{ours}.weight': _halves(name, small.tensors[f'{name}.weight']) for ours, name in state.items()}
    model = LlamaForCausalLM(config)
    model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
    return model.eval()


def _halves(name: str, tensor: Any) -> Any:
    """Queries and keys: a GGUF file has the two numbers that turn together side by side, Transformers in two halves."""
    if not name.endswith(('attn_q', 'attn_k')):
        return tensor
    return np.ascontiguousarray(tensor.reshape(-1, HEAD // 2, 2, WIDTH).swapaxes(1, 2).reshape(-1, WIDTH))


@pytest.mark.parametrize('share', [True, False])
def test_the_loss_is_that_of_transformers(tmp_path: Path, share: bool) -> None:
    import torch

    small = make_gguf(tmp_path / 'small.gguf')
    theirs = as_transformers(small)
    entry = {'type': 'LlamaCpp', 'path': str(small.path), 'n_threads': 1, 'cache_type': 'f32'}
    ours = LlamaModel(build(entry, name='small')._settings, name='small', share=share)
    for scored in asyncio.run(ours.score(PROMPTS)):
        ids = torch.tensor([scored.ids])
        with torch.no_grad():
            loss = float(theirs(ids, labels=ids).loss)
        assert -np.mean([value for value in scored.logprobs if value is not None]) == pytest.approx(loss, abs=1e-4)
    asyncio.run(ours.close())


def test_the_loss_of_smollm2_is_that_of_its_dequantised_weights() -> None:
    import torch
    from transformers import AutoModelForCausalLM

    pytest.importorskip('gguf')
    path = model_path('smollm2')
    text = ''.join(f'{n} times {n} is {n * n}. Paris is the capital of France. ' for n in range(2, 12))
    ours = build({'type': 'LlamaCpp', 'path': 'smollm2'}, name='smollm2')
    [scored] = asyncio.run(ours.score([text]))
    asyncio.run(ours.close())
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    ids = torch.tensor([scored.ids])
    with torch.no_grad():
        loss = float(theirs(ids, labels=ids).loss)
    # llama.cpp computes with quantised activations, Transformers with the dequantised weights in full precision.
    assert -np.mean([value for value in scored.logprobs if value is not None]) == pytest.approx(loss, abs=0.02)
