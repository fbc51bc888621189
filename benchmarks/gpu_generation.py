"""Answers of a fixed length with Transformers: its own padded batches, ours, and ours with what prompts share.

    PYTHONPATH=src python benchmarks/gpu_generation.py [--prompts 256] [--shared 800] [--new 64] [--rows 64] [--json FILE]

Needs torch and transformers, no tokenizer and no download: the model and the prompts are those of `gpu_perplexity.py`,
random weights and random ids with the lengths of a 5-shot benchmark. Seconds are the best of the rounds, after one to
warm up; every way makes the same number of tokens.

- transformers: `model.generate` on batches in the order given, padded on the left.
- ours, apart: batches of like length, every prompt computed from its first token.
- ours: what all prompts begin with is computed once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers

from gpu_perplexity import SIZES, let_go, questions, random_model, timed, write
from rolecall.models.local_engine import TokenPrompt, TransformersDecoding
from rolecall.models.transformers.decoding import BatchGenerator
from rolecall.models.transformers.weights import LoadedModel

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


WAYS: dict[str, Callable[..., list[list[int]]]] = {
    'transformers': plainly,
    'ours, apart': lambda *given: ours(*given, shares=False),
    'ours': lambda *given: ours(*given, shares=True),
}


def agreement(one: Sequence[Ids], other: Sequence[Ids]) -> float:
    """The share of answers that are the same from the first token to the last."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


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
    found: list[dict[str, Any]] = []
    for dtype in [getattr(torch, name) for name in given.dtype]:
        loaded = random_model(given.size, given.device, dtype, tokenizer=TOKENIZER)
        vocabulary = loaded.model.config.vocab_size
        prompts = [asked[0] for asked in questions(given.prompts, given.shared, vocabulary, (1, 1))]
        print(f'\n{dtype}, {given.prompts} prompts, {given.new} new tokens each, {given.rows} in a batch')
        rows: list[dict[str, Any]] = []
        expected: list[list[int]] = []
        for name, way in WAYS.items():
            way(loaded, given.rows, prompts[: given.rows], given.new)
            answers, seconds = min(
                (timed(way, loaded, given.rows, prompts, given.new) for _ in range(given.rounds)),
                key=lambda one: one[1],
            )
            expected = expected or answers
            rows.append({'way': name, 'seconds': seconds, 'same': agreement(answers, expected), 'dtype': str(dtype)})
            made = given.prompts * given.new / seconds
            faster = rows[0]['seconds'] / seconds
            print(
                f'{name:14} {seconds:8.3f} s {made:9,.0f} tokens/s {faster:6.2f}x  same answers {rows[-1]["same"]:.3f}'
            )
        found += rows
        del loaded
        let_go()
    write(found, given.json)


if __name__ == '__main__':
    main()
