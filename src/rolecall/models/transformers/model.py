"""Causal language models run by `transformers`, on CPU or CUDA (extra `[hf]`).

Nothing is loaded before the first request; each model works in its own thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeVar

from rolecall.errors import RolecallError
from rolecall.models.local_engine import PromptEncoder, TransformersDecoding, WorkerThread, separate_thinking
from rolecall.models.protocol import Capabilities, ModelError, Reply, Sampling, Scored
from rolecall.models.transformers.decoding import BatchGenerator
from rolecall.models.transformers.entry import ModelFiles, TransformersSettings, read_transformers_entry
from rolecall.models.transformers.logprobs import PromptScorer
from rolecall.models.transformers.packed_logprobs import PackedScorer
from rolecall.models.transformers.slot_decoding import SlotGenerator
from rolecall.models.transformers.slots import find_obstacle
from rolecall.models.transformers.weights import LoadedModel, release_memory
from rolecall.render.spans import Request
from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['TransformersModel', 'build']

T = TypeVar('T')

_LOGGER = logging.getLogger('rolecall')
_ON_CPU, _ON_CUDA = 8, 256
"""Requests in one call where the entry does not say."""
_LONGEST = 4096
"""The prompt length a batch has room for if no limit is known."""


def build(entry: Mapping[str, Any], *, name: str) -> TransformersModel:
    """A model on this machine, by Transformers and PyTorch.

    Its weights are loaded at the first request.

    >>> model = build({'type': 'HuggingFaceBaseModel', 'path': 'some/model', 'batch_size': 4}, name='some')
    >>> model.batch, model.capabilities.score, model.max_seq_len
    (4, True, None)
    """
    return TransformersModel(read_transformers_entry(entry, name=name), name=name)


class TransformersModel:
    """A causal language model as a `rolecall.models.protocol.Model`."""

    capabilities = Capabilities(score=True, tokenize=True, prefill=True)

    def __init__(self, settings: TransformersSettings, *, name: str, shares: bool = True) -> None:
        """`shares=False` computes every prompt from its first token, for comparison."""
        self.name = name
        self._settings = settings
        self._files = ModelFiles(settings)
        self._shares = shares
        self._worker = WorkerThread(name)
        self._engine: _Engine | None = None
        self._failure: RolecallError | None = None

    @property
    def batch(self) -> int:
        return self._settings.batch_size or (_ON_CUDA if self._settings.source.may_use_cuda else _ON_CPU)

    @property
    def score_batch(self) -> int:
        """How many requests one call of `score` takes: shared prefixes are computed once, tails in batches."""
        return 8 * self.batch if self.batch < _ON_CUDA else 4 * self.batch

    @property
    def identity(self) -> Mapping[str, Any]:
        return {**self._files.identity, 'engine': 'transformers'}

    @property
    def max_seq_len(self) -> int | None:
        return self._files.max_seq_len

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        decoding = self._settings.decoding(sampling)
        return await self._in_thread(lambda engine: engine.generate(requests, decoding))

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        return await self._in_thread(lambda engine: engine.score(requests))

    async def forget(self) -> None:
        """Forget the last prompt; the next call computes everything."""
        await self._in_thread(lambda engine: engine.forget())

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, if it is on this machine."""
        return self._files.tokenizer if self._engine is None else self._engine.encoder.tokenizer

    def count(self, request: Request) -> int | None:
        tokenizer = self._files.tokenizer  # not the engine's, which a preview does not have
        return None if tokenizer is None else len(self._files.encoder(tokenizer).encode(request).ids)

    async def close(self) -> None:
        await self._worker.close(self._release)

    async def _in_thread(self, work: Callable[[_Engine], T]) -> T:
        return await self._worker.run(lambda stopped: self._work(work, stopped))

    def _work(self, work: Callable[[_Engine], T], stopped: Event) -> T:
        if self._failure is not None:
            raise self._failure
        if self._engine is None:
            try:
                loaded = self._settings.source.load(self._files.tokenizer)
            except RolecallError as error:  # loading will fail for the next request too
                self._failure = error
                raise
            self._engine = self._build_engine(loaded)
        self._engine.stopped = stopped
        return work(self._engine)

    def _release(self) -> None:
        self._engine = None
        release_memory()

    def _build_engine(self, loaded: LoadedModel) -> _Engine:
        settings, limit = self._settings, self.max_seq_len
        engine = _Engine(
            self._files.encoder(loaded.tokenizer),
            PromptScorer(loaded, room=self.batch * min(limit or _LONGEST, _LONGEST), shares=self._shares),
            BatchGenerator(loaded, rows=self.batch, max_seq_len=limit, shares=self._shares),
            limit=limit,
            thinks=settings.chat,
        )
        if self._shares and loaded.device.type == 'cuda':
            self._use_slots(engine, loaded)
        engine.scorer.stopped = engine.generator.stopped = lambda: engine.stopped.is_set()
        return engine

    def _use_slots(self, engine: _Engine, loaded: LoadedModel) -> None:
        """Decode and score over slots, where the architecture allows it."""
        obstacle = find_obstacle(loaded)
        if obstacle is not None:
            _LOGGER.warning('%s runs without CUDA graphs, which is slower: %s.', self.name, obstacle)
            return
        engine.scorer = PackedScorer(loaded, stopped=lambda: engine.stopped.is_set())
        engine.slots = SlotGenerator(
            loaded, rows=self.batch, max_seq_len=self.max_seq_len, stopped=lambda: engine.stopped.is_set()
        )


@dataclass(slots=True, eq=False)
class _Engine:
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
