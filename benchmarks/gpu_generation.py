"""Answers of a fixed length with Transformers: its own padded batches, ours, and ours with what prompts share.

    PYTHONPATH=src python benchmarks/gpu_generation.py [--prompts 256] [--shared 800] [--new 64] [--rows 64] [--json FILE]

Needs torch and transformers, no tokenizer and no download: the model and the prompts are those of `gpu_perplexity.py`,
random weights and random ids with the lengths of a 5-shot benchmark. Seconds are the best of the rounds, after one to
warm up; every way makes the same number of tokens.

- transformers: `model.generate` on batches in the order given, padded on the left.
- ours, apart: batches of like length, every prompt computed from its first token.
- ours, batches: what all prompts begin with is computed once; `model.generate` on batches of like length. The way of CPUs.
- ours: slots and a captured step (`slot_decoding.py`). The way of CUDA; answers as they are, warm-up timed apart.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers

from gpu_perplexity import SIZES, let_go, random_model, timed, write
from rolecall.models.local_engine import TokenPrompt, TransformersDecoding
from rolecall.models.transformers.decoding import BatchGenerator
from rolecall.models.transformers.slot_decoding import SlotGenerator
from rolecall.models.transformers.weights import LoadedModel
from rolecall.strings import common_length

Ids = Sequence[int]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]


TOKENIZER = SimpleNamespace(eos_id=None, special_tokens={}, decode=lambda ids: ''.join(f'{number} ' for number in ids))


def plainly(loaded: LoadedModel, rows: int, prompts: Sequence[TokenPrompt], new: int) -> list[list[int]]:
    made: list[list[int]] = []
    for start in range(0, len(prompts), rows):
        batch = [list(prompt.ids) for prompt in prompts[start : start + rows]]
        longest = max(map(len, batch))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in batch], device=loaded.device)
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in batch], device=loaded.device)
        config = transformers.GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0)
        with torch.inference_mode():
            found = loaded.model.generate(inputs=ids, attention_mask=mask, generation_config=config)
        made += found[:, longest:].tolist()
    return made


def ours(loaded: LoadedModel, rows: int, prompts: Sequence[TokenPrompt], new: int, *, shares: bool) -> list[list[int]]:
    generator = BatchGenerator(loaded, rows=rows, shares=shares)
    return [numbers(reply.text) for reply in generator.generate(prompts, TransformersDecoding(new, eos_ids=()))]


def by_slots(loaded: LoadedModel, rows: int, prompts: Sequence[TokenPrompt], new: int) -> list[list[int]]:
    generator = SlotGenerator(loaded, rows=len(prompts))
    return [numbers(reply.text) for reply in generator.generate(prompts, TransformersDecoding(new, eos_ids=()))]


WAYS: dict[str, Callable[..., list[list[int]]]] = {
    'transformers': plainly,
    'ours, apart': lambda *given: ours(*given, shares=False),
    'ours, batches': lambda *given: ours(*given, shares=True),
    'ours': by_slots,
}


def least_seconds(loaded: LoadedModel, prompts: Sequence[TokenPrompt], new: int, bandwidth: float) -> float:
    """What decoding takes if it only reads the weights once a step and each row's own keys and values."""
    config = loaded.model.config
    width = config.hidden_size // config.num_attention_heads
    size = loaded.model.dtype.itemsize
    weights = sum(weight.numel() for weight in loaded.model.parameters()) * size
    shared = common_length([prompt.ids for prompt in prompts])
    own = sum(len(prompt.ids) - shared + new / 2 for prompt in prompts)
    read = (own + shared) * 2 * config.num_hidden_layers * config.num_key_value_heads * width * size
    return new * (weights + read) / bandwidth


def copy_bandwidth(device: str) -> float:
    """Bytes a second of a copy on the device, read and written."""
    if not device.startswith('cuda'):
        return float('nan')
    block = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    other = torch.empty_like(block)
    seconds = min(timed(lambda: [other.copy_(block) for _ in range(8)])[1] for _ in range(3))
    return 16 * block.numel() / seconds


def agreement(one: Sequence[Ids], other: Sequence[Ids]) -> float:
    """The share of answers that are the same from the first token to the last."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def make_prompts(count: int, shared: int, own: int, vocabulary: int) -> list[TokenPrompt]:
    """Prompts of random ids that begin alike and go on differently, `own` to `own + 19` tokens."""
    chance = random.Random(1)
    before = tuple(chance.randrange(10, vocabulary) for _ in range(shared))
    return [
        TokenPrompt((*before, *(chance.randrange(10, vocabulary) for _ in range(own + number % 20))))
        for number in range(count)
    ]


def compare(
    loaded: LoadedModel,
    prompts: Sequence[TokenPrompt],
    given: argparse.Namespace,
    limit: float,
    dtype: str,
    shared: int,
) -> Iterator[dict[str, Any]]:
    first, expected = 0.0, []
    for name, way in WAYS.items():
        _, cold = timed(way, loaded, given.rows, prompts, given.new)
        answers, seconds = min(
            (timed(way, loaded, given.rows, prompts, given.new) for _ in range(given.rounds)), key=lambda one: one[1]
        )
        first, expected = first or seconds, expected or answers
        same = agreement(answers, expected)
        made = given.prompts * given.new / seconds
        print(
            f'{name:14} {seconds:8.3f} s (first {cold:6.2f}) {made:9,.0f} tokens/s {first / seconds:6.2f}x '
            f' same answers {same:.3f}  {limit / seconds:6.1%} of the bandwidth limit',
            flush=True,
        )
        yield {
            'way': name,
            'seconds': seconds,
            'cold': cold,
            'same': same,
            'dtype': dtype,
            'shared': shared,
            'limit': limit,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prompts', type=int, default=256)
    parser.add_argument('--shared', type=int, default=800, help='tokens that all prompts begin with')
    parser.add_argument('--new', type=int, default=64, help='tokens of each answer')
    parser.add_argument('--rows', type=int, default=64, help='prompts in a batch')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--size', choices=SIZES, default='1b')
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--dtype', nargs='+', choices=('bfloat16', 'float32'), default=['bfloat16', 'float32'])
    parser.add_argument('--json', type=Path)
    given = parser.parse_args()
    where = torch.cuda.get_device_name() if given.device.startswith('cuda') else 'CPU'
    print(f'torch {torch.__version__}, transformers {transformers.__version__}, {where}')
    bandwidth = copy_bandwidth(given.device)
    print(f'copies move {bandwidth / 1e12:.2f} TB/s')
    found: list[dict[str, Any]] = []
    for dtype in [getattr(torch, name) for name in given.dtype]:
        loaded = random_model(given.size, given.device, dtype, tokenizer=TOKENIZER)
        vocabulary = loaded.model.config.vocab_size
        for shared in (given.shared, 0) if given.shared else (0,):
            prompts = make_prompts(given.prompts, shared, given.shared + 40 - shared, vocabulary)
            print(
                f'\n{dtype}, {given.prompts} prompts of about {len(prompts[0].ids)} tokens, the first {shared} shared, {given.new} new tokens'
            )
            limit = least_seconds(loaded, prompts, given.new, bandwidth)
            found += list(compare(loaded, prompts, given, limit, str(dtype), shared))
        del loaded
        let_go()
    write(found, given.json)


if __name__ == '__main__':
    main()
