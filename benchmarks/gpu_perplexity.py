"""Four-choice scoring by log-probability with Transformers: from scratch, by question, and with everything shared.

    PYTHONPATH=src python benchmarks/gpu_perplexity.py [--questions 64] [--shared 800] [--json FILE]

Needs torch and transformers, no tokenizer and no download: a Llama of about 1.2 billion parameters gets random weights
(speed does not depend on their values), and prompts are random token ids with the lengths of a 5-shot benchmark. Each way
of scoring gets the same prompts and the same memory; seconds are the best of the rounds, after one to warm up.

- full: each label's whole prompt is computed, in batches.
- by question: a question's context is computed once, its labels after it; questions side by side in a batch.
- shared: what all prompts begin with is computed once, then questions, then labels. The way of CPUs.
- packed: what all prompts begin with once, then each question with its labels as one row. The way of CUDA.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers

from rolecall.models.local_engine import TokenPrompt
from rolecall.models.protocol import Scored
from rolecall.models.transformers import logprobs as transformers_scoring
from rolecall.models.transformers.logprobs import PromptScorer
from rolecall.models.transformers.packed_logprobs import PackedScorer
from rolecall.models.transformers.prefixes import Branch, build_prefix_tree
from rolecall.models.transformers.weights import LoadedModel

LABELS = 4
NO_TOKENIZER = SimpleNamespace(eos_id=None)
SIZES = {
    '1b': {'hidden_size': 2048, 'intermediate_size': 8192, 'num_hidden_layers': 16, 'num_attention_heads': 32},
    'tiny': {'hidden_size': 64, 'intermediate_size': 128, 'num_hidden_layers': 2, 'num_attention_heads': 8},
}


def random_model(size: str, device: str, dtype: torch.dtype, *, tokenizer: Any = NO_TOKENIZER) -> LoadedModel:
    """A Llama with random weights; spread widely enough that tokens are not all equally likely."""
    config = transformers.LlamaConfig(
        **SIZES[size],
        num_key_value_heads=8,
        vocab_size=128256 if size == '1b' else 1000,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        initializer_range=0.04,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return LoadedModel.of(model.eval(), tokenizer)


def questions(count: int, shared: int, vocabulary: int, answers: tuple[int, int]) -> list[list[TokenPrompt]]:
    """For each question its four prompts: the same examples, a question of 120 to 175 tokens, and the answers."""
    chance = random.Random(0)

    def tokens(least: int, most: int) -> tuple[int, ...]:
        return tuple(chance.randrange(10, vocabulary) for _ in range(chance.randint(least, most)))

    examples = tokens(shared, shared)
    made = []
    for _ in range(count):
        asked = (*examples, *tokens(120, 175))
        made.append([TokenPrompt((*asked, *tokens(*answers))) for _ in range(LABELS)])
    return made


def full(loaded: LoadedModel, room: int, asked: Sequence[Sequence[TokenPrompt]]) -> tuple[list[Scored], int]:
    scorer = PromptScorer(loaded, room=room, shares=False)
    return [one for batch in _batches(asked, 2) for one in scorer.score(batch)], scorer.computed


def by_question(loaded: LoadedModel, room: int, asked: Sequence[Sequence[TokenPrompt]]) -> tuple[list[Scored], int]:
    scorer = PromptScorer(loaded, room=room, keeps=False)
    question = {prompt.ids: number for number, prompts in enumerate(asked) for prompt in prompts}

    def apart(prompts: Sequence[tuple[int, ...]], *, longest: int) -> list[Branch]:
        groups: dict[int, list[tuple[int, ...]]] = {}
        for ids in prompts:
            groups.setdefault(question[ids], []).append(ids)
        return [branch for group in groups.values() for branch in build_prefix_tree(group, longest=longest)]

    transformers_scoring.build_prefix_tree = apart  # type: ignore[assignment]  # the same engine, told to share less
    try:
        return [one for batch in _batches(asked, 16) for one in scorer.score(batch)], scorer.computed
    finally:
        transformers_scoring.build_prefix_tree = build_prefix_tree


def shared(loaded: LoadedModel, room: int, asked: Sequence[Sequence[TokenPrompt]]) -> tuple[list[Scored], int]:
    scorer = PromptScorer(loaded, room=room)
    return [one for batch in _batches(asked, 16) for one in scorer.score(batch)], scorer.computed


def packed(loaded: LoadedModel, room: int, asked: Sequence[Sequence[TokenPrompt]]) -> tuple[list[Scored], int]:
    scorer = PackedScorer(loaded)
    return [one for batch in _batches(asked, 64) for one in scorer.score(batch)], scorer.computed


WAYS: dict[str, Callable[..., tuple[list[Scored], int]]] = {
    'full': full,
    'by question': by_question,
    'shared': shared,
    'packed': packed,
}


def _batches(asked: Sequence[Sequence[TokenPrompt]], size: int) -> Iterator[list[TokenPrompt]]:
    for start in range(0, len(asked), size):
        yield [prompt for prompts in asked[start : start + size] for prompt in prompts]


def timed(way: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """What a way gives, and the seconds it takes."""
    _wait()
    began = time.perf_counter()
    found = way(*given)
    _wait()
    return found, time.perf_counter() - began


def let_go() -> None:
    """Give the memory of a model that is no longer used back to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def write(found: Sequence[Mapping[str, Any]], to: Path | None) -> None:
    """The figures as JSON, if a file is named."""
    if to is not None:
        to.write_text(json.dumps(found, indent=1), encoding='utf-8')


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def tails(scores: Sequence[Scored], context: int) -> list[float]:
    """The summed log-probabilities of what follows the examples: where a choice is made."""
    return [sum(value for value in one.logprobs[context:] if value is not None) for one in scores]


def choices(values: Sequence[float]) -> list[int]:
    groups = [values[start : start + LABELS] for start in range(0, len(values), LABELS)]
    return [group.index(max(group)) for group in groups]


def compare(
    loaded: LoadedModel, asked: Sequence[Sequence[TokenPrompt]], *, context: int, room: int, rounds: int
) -> Iterator[dict[str, Any]]:
    expected: list[float] = []
    for name, way in WAYS.items():
        way(loaded, room, asked[:4])
        best = min((timed(way, loaded, room, asked) for _ in range(rounds)), key=lambda found: found[1])
        (scores, computed), seconds = best
        values = tails(scores, context)
        expected = expected or values
        apart = max(abs(one - other) for one, other in zip(values, expected, strict=True))
        same = sum(one == other for one, other in zip(choices(values), choices(expected), strict=True))
        yield {'way': name, 'tokens': computed, 'seconds': seconds, 'apart': apart, 'same': same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--questions', type=int, default=64)
    parser.add_argument('--shared', type=int, default=800, help='tokens that all prompts begin with')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--size', choices=SIZES, default='1b')
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--room', type=int, default=65536, help='tokens that one pass may hold, cached ones included')
    parser.add_argument('--dtype', nargs='+', choices=('bfloat16', 'float32'), default=['bfloat16', 'float32'])
    parser.add_argument('--json', type=Path)
    given = parser.parse_args()
    where = torch.cuda.get_device_name() if given.device.startswith('cuda') else 'CPU'
    print(f'torch {torch.__version__}, transformers {transformers.__version__}, {where}')
    found: list[dict[str, Any]] = []
    for dtype in [getattr(torch, name) for name in given.dtype]:
        loaded = random_model(given.size, given.device, dtype)
        size = sum(weight.numel() for weight in loaded.model.parameters()) / 1e9
        for kind, answers in {'one token': (1, 1), '2 to 8 tokens': (2, 8)}.items():
            asked = questions(given.questions, given.shared, loaded.model.config.vocab_size, answers)
            print(f'\n{size:.2f} B parameters, {dtype}, {given.questions} questions, answers of {kind}')
            print(f'{"":12} {"tokens":>9} {"of full":>8} {"seconds":>9} {"faster":>7} {"apart":>9} {"same choice":>12}')
            rows = list(compare(loaded, asked, context=given.shared, room=given.room, rounds=given.rounds))
            for row in rows:
                fewer, faster = rows[0]['tokens'] / row['tokens'], rows[0]['seconds'] / row['seconds']
                print(
                    f'{row["way"]:12} {row["tokens"]:9,} {fewer:7.1f}x {row["seconds"]:9.3f} {faster:6.1f}x'
                    f' {row["apart"]:9.2g} {row["same"]:7} of {given.questions}'
                )
                found.append({**row, 'dtype': str(dtype), 'answers': kind, 'device': where})
        del loaded
        let_go()
    write(found, given.json)


if __name__ == '__main__':
    main()
