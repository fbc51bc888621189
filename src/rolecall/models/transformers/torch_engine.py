"""A loaded Transformers model at work: prompts become token ids, and a generator and a scorer answer them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

from rolecall.core.render.spans import Request
from rolecall.models.local_engine import PromptEncoder, TransformersDecoding, separate_thinking
from rolecall.models.protocol import ModelError, Reply, Scored
from rolecall.models.transformers.decoding import BatchGenerator
from rolecall.models.transformers.logprobs import PromptScorer
from rolecall.models.transformers.packed_logprobs import PackedScorer
from rolecall.models.transformers.slot_decoding import SlotGenerator
from rolecall.models.transformers.slots import find_obstacle
from rolecall.models.transformers.weights import LoadedModel

_LOGGER = logging.getLogger('rolecall')
_LONGEST = 4096
"""The prompt length a batch has room for if no limit is known."""


@dataclass(slots=True, eq=False)
class TorchEngine:
    """A loaded model. Scoring drops what generation remembers, and the other way round, to free memory."""

    encoder: PromptEncoder
    scorer: PromptScorer | PackedScorer
    generator: BatchGenerator
    limit: int | None
    thinks: bool
    slots: SlotGenerator | None = None
    """The faster way to generate, on CUDA."""
    stopped: Event = field(default_factory=Event)

    def forget(self) -> None:
        self.scorer.forget()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self.generator.forget()
        if self.slots is not None:
            self.slots.forget()

    def generate(self, requests: Sequence[Request], decoding: TransformersDecoding) -> list[Reply]:
        self.scorer.forget()
        prompts = [self.encoder.encode(request) for request in requests]
        by_slots = self.slots is not None and SlotGenerator.supports(decoding)
        replies = (self.slots if self.slots and by_slots else self.generator).generate(prompts, decoding)
        return [separate_thinking(reply) for reply in replies] if self.thinks else replies

    def score(self, requests: Sequence[Request]) -> list[Scored]:
        self._forget_answers()
        prompts = [self.encoder.encode(request) for request in requests]
        longest = max((len(prompt.ids) for prompt in prompts), default=0)
        if self.limit is not None and longest > self.limit:
            raise ModelError(f'a prompt has {longest} tokens; the model takes {self.limit}.')
        return self.scorer.score(prompts)


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
    if shares and loaded.device.type == 'cuda':
        _use_slots(engine, loaded, name=name, rows=rows)
    engine.scorer.stopped = engine.generator.stopped = lambda: engine.stopped.is_set()
    return engine


def _use_slots(engine: TorchEngine, loaded: LoadedModel, *, name: str, rows: int) -> None:
    """Decode and score over slots, where the architecture allows it."""
    obstacle = find_obstacle(loaded)
    if obstacle is not None:
        _LOGGER.warning('%s runs without CUDA graphs, which is slower: %s.', name, obstacle)
        return
    engine.scorer = PackedScorer(loaded, stopped=lambda: engine.stopped.is_set())
    engine.slots = SlotGenerator(loaded, rows=rows, max_seq_len=engine.limit, stopped=lambda: engine.stopped.is_set())
