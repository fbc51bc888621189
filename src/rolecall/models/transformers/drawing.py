"""Drawing tokens at random, row by row: a seed and a request give the same answer in whatever batch they run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolecall.models.base import ModelError
from rolecall.models.transformers.answering import TransformersAnswering
from rolecall.models.transformers.weights import package

__all__ = ['Drawing', 'drawing']


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Turns scores into such whose highest is a draw: Gumbel noise is added to log-probabilities."""

    narrowing: Sequence[Any]
    generators: Sequence[Any]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        torch = package('torch')
        scores = scores.float()
        for step in self.narrowing:
            scores = step(input_ids, scores)
        width, device = scores.shape[-1], scores.device
        waits = [torch.empty(width, device=device).exponential_(generator=one) for one in self.generators]
        return scores - torch.stack(waits).log()


def drawing(rows: Sequence[Sequence[int]], chances: TransformersAnswering, device: Any) -> Drawing | None:
    """How to draw for these prompts; None where the likeliest token is to be taken."""
    if not chances.temperature:
        return None
    if chances.beams > 1:
        raise ModelError('beam search takes no temperature here: leave num_beams or temperature out.')
    transformers = package('transformers')
    steps: list[Any] = []
    if chances.temperature != 1:
        steps.append(transformers.TemperatureLogitsWarper(float(chances.temperature)))
    if chances.top_k and chances.top_k > 0:
        steps.append(transformers.TopKLogitsWarper(chances.top_k))
    if chances.top_p is not None and chances.top_p < 1:
        steps.append(transformers.TopPLogitsWarper(chances.top_p))
    if chances.min_p:
        steps.append(transformers.MinPLogitsWarper(chances.min_p))
    return Drawing(steps, [_generator(row, chances.seed, device) for row in rows])


def _generator(row: Sequence[int], seed: int | None, device: Any) -> Any:
    generator = package('torch').Generator(device=device)
    if seed is None:
        generator.seed()
    else:
        digest = hashlib.sha256(f'{seed} {" ".join(map(str, row))}'.encode()).digest()
        generator.manual_seed(int.from_bytes(digest[:8], 'big') >> 1)
    return generator
