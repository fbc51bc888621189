"""A small random llama with a real vocabulary as a GGUF file, and the same model computed with numpy alone."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from test_tokenizers import byte_level, gguf_bytes, sentencepiece, string

Array = npt.NDArray[np.float32]
WIDTH, LAYERS, HEADS, KV_HEADS, INNER, CONTEXT, EPSILON = 64, 2, 4, 2, 96, 1024, 1e-5
HEAD = WIDTH // HEADS


@dataclass(frozen=True)
class SmallModel:
    path: Path
    tensors: Mapping[str, Array]

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        """The log-probabilities of all tokens but the first."""
        state = self.tensors['token_embd.weight'][list(ids)].astype(np.float64)
        for layer in range(LAYERS):
            state = state + self._attention(layer, _normed(state, self._of(layer, 'attn_norm')))
            state = state + self._inner(layer, _normed(state, self._of(layer, 'ffn_norm')))
        logits = _normed(state, self.tensors['output_norm.weight']) @ self.tensors['token_embd.weight'].T
        logits -= np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return [float(logits[place, number]) for place, number in enumerate(ids[1:])]

    def _of(self, layer: int, name: str) -> Array:
        return self.tensors[f'blk.{layer}.{name}.weight']

    def _attention(self, layer: int, state: Any) -> Any:
        length = len(state)
        queries, keys, values = (
            (state @ self._of(layer, f'attn_{name}').T).reshape(length, heads, HEAD)
            for name, heads in (('q', HEADS), ('k', KV_HEADS), ('v', KV_HEADS))
        )
        queries, keys = _turned(queries), np.repeat(_turned(keys), HEADS // KV_HEADS, axis=1)
        scores = np.einsum('ihd,jhd->hij', queries, keys) / np.sqrt(HEAD)
        scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        mixed = np.einsum('hij,jhd->ihd', weights, np.repeat(values, HEADS // KV_HEADS, axis=1))
        return mixed.reshape(length, WIDTH) @ self._of(layer, 'attn_output').T

    def _inner(self, layer: int, state: Any) -> Any:
        gate = state @ self._of(layer, 'ffn_gate').T
        return (gate / (1 + np.exp(-gate)) * (state @ self._of(layer, 'ffn_up').T)) @ self._of(layer, 'ffn_down').T


def _normed(state: Any, weight: Array) -> Any:
    return state / np.sqrt((state**2).mean(axis=1, keepdims=True) + EPSILON) * weight


def _turned(state: Any) -> Any:
    """Rotary positions, neighbouring dimensions forming a pair."""
    angles = np.outer(np.arange(len(state)), 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD))[:, None, :]
    even, odd = state[..., 0::2], state[..., 1::2]
    turned = np.empty_like(state)
    turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
    return turned


def make_gguf(path: Path, *, kind: str = 'bytes', seed: int = 0, **keys: Any) -> SmallModel:
    """Write a model with random weights; `kind` is that of its vocabulary, `keys` are put into the file."""
    vocabulary = byte_level() if kind == 'bytes' else sentencepiece()
    metadata = vocabulary | {
        'llama.context_length': CONTEXT,
        'llama.embedding_length': WIDTH,
        'llama.block_count': LAYERS,
        'llama.feed_forward_length': INNER,
        'llama.attention.head_count': HEADS,
        'llama.attention.head_count_kv': KV_HEADS,
        'llama.attention.layer_norm_rms_epsilon': EPSILON,
        'llama.rope.dimension_count': HEAD,
        'llama.rope.freq_base': 10000.0,
        **keys,
    }
    types = metadata['tokenizer.ggml.token_type']
    metadata['tokenizer.ggml.token_type'] = (9, struct.pack(f'<IQ{len(types)}i', 5, len(types), *types))
    size = len(metadata['tokenizer.ggml.tokens'])
    narrow = KV_HEADS * HEAD
    shapes: dict[str, tuple[int, ...]] = {'token_embd.weight': (size, WIDTH), 'output_norm.weight': (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f'blk.{layer}.{name}.weight': shape
            for name, shape in {
                'attn_norm': (WIDTH,),
                'attn_q': (WIDTH, WIDTH),
                'attn_k': (narrow, WIDTH),
                'attn_v': (narrow, WIDTH),
                'attn_output': (WIDTH, WIDTH),
                'ffn_norm': (WIDTH,),
                'ffn_gate': (INNER, WIDTH),
                'ffn_up': (INNER, WIDTH),
                'ffn_down': (WIDTH, INNER),
            }.items()
        }
    random = np.random.default_rng(seed)
    tensors = {
        name: (random.normal(0, 0.25, shape) + (len(shape) == 1)).astype(np.float32) for name, shape in shapes.items()
    }
    path.write_bytes(_file(metadata, tensors))
    return SmallModel(path, tensors)


def _file(metadata: Mapping[str, Any], tensors: Mapping[str, Array]) -> bytes:
    head = gguf_bytes(metadata)
    index, data = b'', b''
    for name, tensor in tensors.items():
        data += bytes(-len(data) % 32)
        sizes = struct.pack(f'<{tensor.ndim}Q', *reversed(tensor.shape))
        index += string(name) + struct.pack('<I', tensor.ndim) + sizes + struct.pack('<IQ', 0, len(data))
        data += tensor.tobytes()
    head = head[:8] + struct.pack('<Q', len(tensors)) + head[16:] + index
    return head + bytes(-len(head) % 32) + data
