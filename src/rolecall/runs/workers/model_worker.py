"""What runs in a worker process: one model, loaded once, that answers batches."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError
from rolecall.models.backends import build_model
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored
from rolecall.runs.pair_run import ModelContext

Kind = Literal['generate', 'score']
_LEAKING = 'VLLM_DP_'
"""Variables by which an engine of the parent process would take itself for a part of it."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker needs to build its model."""

    name: str
    entry: Mapping[str, Any]
    context: ModelContext = field(default_factory=ModelContext, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables with keys, which the entry may name."""
    config: str = ''
    """The config file, where there is one: an entry with functions of that file is read there again."""


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What each request of a batch came to, and where the time went."""

    answers: list[Reply | Scored | ModelError]
    node: str
    computing: float
    """Seconds."""
    rate_limits: Mapping[Any, Any] = field(default_factory=dict)
    """What a server announced about its limits."""


class ModelWorker:
    """One model. A request that fails spoils no other; one that ends the process is found by who runs the workers."""

    def __init__(self, spec: WorkerSpec) -> None:
        for name in [name for name in os.environ if name.startswith(_LEAKING)]:
            del os.environ[name]
        os.environ.update(spec.environment)
        self._model = build_model(spec.entry, name=spec.name)
        spec.context.tell(self._model)
        self._node = _find_node()

    async def load(self) -> None:
        """Load the model's weights, where it has some."""
        if callable(load := getattr(self._model, 'load', None)):
            await load()

    async def answer(self, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        """What each request came to."""
        began = time.perf_counter()
        answers = await self._answer(kind, requests, sampling)
        limits = dict(getattr(self._model, 'rate_limits', {}))
        return WorkerReply(answers, self._node, time.perf_counter() - began, limits)

    async def _answer(
        self, kind: Kind, requests: Sequence[Request], sampling: Sampling
    ) -> list[Reply | Scored | ModelError]:
        answers: list[Reply | Scored | ModelError] = []
        try:
            if kind == 'score':
                answers += await self._model.score(requests)
            elif hasattr(self._model, 'generate_group'):
                outcomes = await self._model.generate_group(requests, sampling)
                return [
                    (await self._answer_one(kind, request, sampling)) if outcome is None else outcome
                    for request, outcome in zip(requests, outcomes, strict=True)
                ]
            else:
                answers += await self._model.generate(requests, sampling)
        except ModelError as error:
            if len(requests) == 1:
                return [error]
            return [await self._answer_one(kind, request, sampling) for request in requests]
        if len(answers) != len(requests):
            raise ModelError(f'{self._model.name} gave {len(answers)} answers to {len(requests)} requests.')
        return answers

    async def _answer_one(self, kind: Kind, request: Request, sampling: Sampling) -> Reply | Scored | ModelError:
        try:
            if kind == 'score':
                return (await self._model.score([request]))[0]
            return (await self._model.generate([request], sampling))[0]
        except ModelError as error:
            return error


class ActorWorker:
    """A worker in an actor, which lives on if its model cannot be loaded, to say why and where."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed
        self._worker: ModelWorker | None = None
        self._failure = ''
        self._loading = asyncio.Lock()

    def describe(self) -> tuple[str, str]:
        """The version of rolecall here, and the name of the machine."""
        return __version__, _find_node()

    async def load(self) -> str:
        """Load the model; why that failed, or ''."""
        async with self._loading:
            if self._worker is None and not self._failure:
                try:
                    worker = ModelWorker(pickle.loads(self._packed))
                    await worker.load()
                    self._worker = worker
                except Exception as error:  # plugins and engines may raise anything
                    self._failure = describe_exception(error)
        return self._failure

    async def answer(self, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        """What each request came to."""
        failure = await self.load()  # done, except in an actor that has just started again
        if self._worker is None:
            raise ModelError(f'{_find_node()}: the model cannot be loaded: {failure}')
        return await self._worker.answer(kind, requests, sampling)


def describe_exception(error: BaseException) -> str:
    """An exception on one line: its own words, with its class where they do not say what kind it is."""
    text = ' '.join(str(error).split())
    return text if isinstance(error, RolecallError) and text else f'{type(error).__name__}: {text}'


def _find_node() -> str:
    """The name of this machine; in a Ray cluster with the beginning of its node id, for a machine may have several."""
    ray = sys.modules.get('ray')
    node = ray.get_runtime_context().get_node_id()[:6] if ray is not None and ray.is_initialized() else ''
    return f'{socket.gethostname()}{node and f"/{node}"}'
