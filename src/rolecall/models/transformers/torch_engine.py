"""A loaded Transformers model at work: prompts become token ids, and a generator and a scorer answer them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

from rolecall.core.render.spans import Request
from rolecall.models.local_engine import PromptEncoder, TransformersDecoding, separate_thinking
from rolecall.models.protocol import ModelError, Reply, Scored
from rolecall.models.transformers.decoding import BatchGenerator
from rolecall.models.transformers.logprobs import PromptScorer
from rolecall.models.transformers.packed_logprobs import PackedScorer
from rolecall.models.transformers.slot_decoding import SlotGenerator
from rolecall.models.transformers.slots import find_obstacle
from rolecall.models.transformers.weights import LoadedModel

T = TypeVar('T')
_LOGGER = logging.getLogger('rolecall')
_LONGEST = 4096
"""The prompt length a batch has room for if no limit is known."""


@dataclass(slots=True, eq=False)
class TorchEngine:
    """A loaded model. Scoring drops what generation remembers, and the other way round, to free memory."""

    encoder: PromptEncoder
    scorer: PromptScorer
    generator: BatchGenerator
    limit: int | None
    thinks: bool
    slots: SlotGenerator | None = None
    """The faster way to generate, on CUDA."""
    packed: PackedScorer | None = None
    """The faster way to score, likewise."""
    stopped: Event = field(default_factory=Event)

    def forget(self) -> None:
        _forget(self.scorer, self.packed, self.generator, self.slots)

    def generate(self, requests: Sequence[Request], decoding: TransformersDecoding) -> list[Reply]:
        _forget(self.scorer, self.packed)
        prompts = [self.encoder.encode(request) for request in requests]
        replies = None
        if self.slots is not None and SlotGenerator.supports(decoding):
            replies = self._try_over_slots(partial(self.slots.generate, prompts, decoding))
        if replies is None:
            replies = self.generator.generate(prompts, decoding)
        return [separate_thinking(reply) for reply in replies] if self.thinks else replies

    def score(self, requests: Sequence[Request]) -> list[Scored]:
        _forget(self.generator, self.slots)
        prompts = [self.encoder.encode(request) for request in requests]
        longest = max((len(prompt.ids) for prompt in prompts), default=0)
        if self.limit is not None and longest > self.limit:
            raise ModelError(f'a prompt has {longest} tokens; the model takes {self.limit}.')
        scored = self._try_over_slots(partial(self.packed.score, prompts)) if self.packed is not None else None
        return self.scorer.score(prompts) if scored is None else scored

    def _try_over_slots(self, work: Callable[[], list[T]]) -> list[T] | None:
        """What the faster way gives; None if it fails: then it is not tried again."""
        try:
            return work()
        except ModelError:
            raise
        except Exception as error:  # foreign layers and kernels: whatever they raise, the model has another way
            self.forget()
            self.slots = self.packed = None
            what = f'{type(error).__name__}: {str(error).partition(chr(10))[0]}'
            _LOGGER.warning('the model runs without CUDA graphs from here on, which is slower: %s', what)
            return None


def _forget(*parts: PromptScorer | PackedScorer | BatchGenerator | SlotGenerator | None) -> None:
    for part in parts:
        if part is not None:
            part.forget()


def build_engine(
    loaded: LoadedModel,
    encoder: PromptEncoder,
    *,
    name: str,
    rows: int,
    max_seq_len: int | None,
    shares: bool,
    thinks: bool,
) -> TorchEngine:
    """An engine that takes `rows` prompts at once. `shares`: compute a common beginning of prompts once."""
    room = rows * min(max_seq_len or _LONGEST, _LONGEST)
    engine = TorchEngine(
        encoder,
        PromptScorer(loaded, room=room, shares=shares, one_by_one=rows == 1),
        BatchGenerator(loaded, rows=rows, max_seq_len=max_seq_len, shares=shares),
        limit=max_seq_len,
        thinks=thinks,
    )
    engine.scorer.stopped = engine.generator.stopped = lambda: engine.stopped.is_set()
    if shares and loaded.device.type == 'cuda':
        _use_slots(engine, loaded, name=name, rows=rows)
    return engine


def _use_slots(engine: TorchEngine, loaded: LoadedModel, *, name: str, rows: int) -> None:
    """Decode and score over slots, where the architecture allows it."""
    obstacle = find_obstacle(loaded)
    if obstacle is not None:
        _LOGGER.warning('%s runs without CUDA graphs, which is slower: %s.', name, obstacle)
        return
    stopped = engine.generator.stopped
    engine.packed = PackedScorer(loaded, stopped=stopped)
    engine.slots = SlotGenerator(loaded, rows=rows, max_seq_len=engine.limit, stopped=stopped)
