"""Workers that load one model and answer batches, and pools of them: what all have in common, and local processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.models.backends import build_model
from rolecall.models.protocol import ModelContext, ModelError, Reply, Sampling, Scored

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
        answers = await self._answer(kind, requests, sampling, grouped=hasattr(self._model, 'generate_group'))
        limits = dict(getattr(self._model, 'rate_limits', {}))
        return WorkerReply(answers, self._node, time.perf_counter() - began, limits)

    async def _answer(
        self, kind: Kind, requests: Sequence[Request], sampling: Sampling, *, grouped: bool
    ) -> list[Reply | Scored | ModelError]:
        answers: Sequence[Reply | Scored | ModelError | None]
        try:
            if kind == 'score':
                answers = await self._model.score(requests)
            elif grouped:
                answers = await self._model.generate_group(requests, sampling)  # type: ignore[attr-defined]
            else:
                answers = await self._model.generate(requests, sampling)
        except ModelError as error:
            answers = [error] if len(requests) == 1 else [None] * len(requests)
        if len(answers) != len(requests):
            raise ModelError(f'{self._model.name} gave {len(answers)} answers to {len(requests)} requests.')
        return [
            (await self._answer(kind, [request], sampling, grouped=False))[0] if answer is None else answer
            for request, answer in zip(requests, answers, strict=True)
        ]


class HostedWorker:
    """A worker in an actor or a process, which lives on if its model cannot be loaded, to say why and where."""

    def __init__(self, packed: bytes, name: str, config: str) -> None:
        self._packed = packed, name, config
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
                    worker = ModelWorker(_unpack(*self._packed))
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


Tell = Callable[[str], None]
"""Takes a message for the person who waits."""

_SILENT_SECONDS = 300.0
"""Seconds without any worker after which the model is given up."""


class WorkerLostError(Exception):
    """A worker ended before it answered."""


class WorkerLoadError(Exception):
    """A worker cannot load its model. It says where and why."""


class WorkerPool(Protocol):
    """Several workers with the same model. They are started again when they die."""

    @property
    def size(self) -> int:
        """How many workers there are."""

    @property
    def loading(self) -> int:
        """How many workers are loading the model."""

    async def start(self) -> None:
        """Start the workers."""

    async def wait_until_ready(self, worker: int) -> None:
        """Wait until a worker has loaded its model; `WorkerLoadError` if it cannot."""

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        """What each request came to; `WorkerLostError` if the worker ended before that."""

    async def close(self) -> None:
        """End the workers."""


class ReadyWorkers:
    """Which workers have loaded their model. A worker that is lost comes back; one that cannot load is left out."""

    def __init__(self, model: str, pool: WorkerPool, tell: Tell) -> None:
        self._model = model
        self._pool = pool
        self._tell = tell
        self._started: asyncio.Task[None] | None = None
        self._welcoming: dict[int, asyncio.Task[None]] = {}
        self._failures: dict[int, str] = {}
        self._changed = asyncio.Event()
        self._last_ready = time.monotonic()
        self.workers: set[int] = set()

    @property
    def expected(self) -> int:
        """How many workers there are or will be, at least one: those that cannot load the model are left out."""
        return max(1, self._pool.size - len(self._failures))

    async def start(self) -> None:
        """Start the workers, once."""
        if self._started is None:
            self._started = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        await self._pool.start()
        self._last_ready = time.monotonic()
        for worker in range(self._pool.size):
            self._welcome(worker)

    def lose(self, worker: int) -> None:
        """Give a worker no work until it is back."""
        self.workers.discard(worker)
        if worker not in self._welcoming:
            self._welcome(worker)

    def signal(self) -> None:
        """End every `wait`."""
        self._changed.set()

    async def wait(self) -> str:
        """Wait a second, or until something changes; why no worker is to be expected any more, or ''."""
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 1.0)
        if len(self._failures) == self._pool.size:
            return f'no worker can load the model.\n{self._describe_failures()}'
        if not self.workers and not self._pool.loading and time.monotonic() - self._last_ready > _SILENT_SECONDS:
            why = self._describe_failures() or 'The cluster has no free place for one, or every one ended.'
            return f'no worker for {_SILENT_SECONDS:.0f} s. {why}'
        return ''

    def _describe_failures(self) -> str:
        return '\n'.join(dict.fromkeys(self._failures.values()))

    def describe(self) -> str:
        """Why no work is given out; '' where some is."""
        if self.workers:
            return ''
        return 'loading the model' if self._pool.loading else 'waiting for workers'

    async def close(self) -> None:
        """Wait for no worker any more."""
        tasks = [task for task in (self._started, *self._welcoming.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._started, self._welcoming, self._failures, self.workers = None, {}, {}, set()

    def _welcome(self, worker: int) -> None:
        task = asyncio.get_running_loop().create_task(self._wait_for(worker))
        self._welcoming[worker] = task
        task.add_done_callback(lambda _: self._welcoming.pop(worker, None))

    async def _wait_for(self, worker: int) -> None:
        try:
            await self._pool.wait_until_ready(worker)
        except WorkerLoadError as error:
            if str(error) not in self._failures.values():
                self._tell(f'{self._model}: a worker is left out: {error}')
            self._failures[worker] = str(error)
        else:
            self.workers.add(worker)
            self._last_ready = time.monotonic()
        self._changed.set()


_MOST_STARTS = 4
"""Processes that end while they load the model before the worker is given up."""


class ProcessPool:
    """One executor of one process each, so that it is known who computes what."""

    def __init__(self, spec: WorkerSpec, size: int) -> None:
        self.size = size
        self.loading = 0
        self._spec = spec
        self._packed = _pack(spec)
        self._executors: list[ProcessPoolExecutor | None] = [None] * size

    async def start(self) -> None:
        """Nothing: processes start as they are given work."""

    async def wait_until_ready(self, worker: int) -> None:
        for _ in range(_MOST_STARTS):
            self.loading += 1
            try:
                failure = await self._submit(worker, _load)
            except WorkerLostError:
                await asyncio.sleep(0.2)
                continue
            finally:
                self.loading -= 1
            if failure:
                raise WorkerLoadError(f'the model cannot be loaded in another process: {failure}')
            return
        raise WorkerLoadError(f'the process ended {_MOST_STARTS} times while it loaded the model.')

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        reply: WorkerReply = await self._submit(worker, _answer, kind, list(requests), sampling)
        return reply

    async def close(self) -> None:
        for executor in filter(None, self._executors):
            for process in list((getattr(executor, '_processes', None) or {}).values()):
                process.terminate()
            executor.shutdown(wait=False, cancel_futures=True)
        self._executors = [None] * self.size

    async def _submit(self, worker: int, work: Any, *arguments: Any) -> Any:
        executor = self._executors[worker]
        if executor is None:
            context = multiprocessing.get_context('spawn')
            spec = (self._packed, self._spec.name, self._spec.config)
            executor = ProcessPoolExecutor(1, mp_context=context, initializer=_host, initargs=spec)
            self._executors[worker] = executor
        try:
            future: Future[Any] = executor.submit(work, *arguments)
            return await asyncio.wrap_future(future)
        except BrokenProcessPool as error:
            if self._executors[worker] is executor:
                self._executors[worker] = None
                executor.shutdown(wait=False)
            raise WorkerLostError('a worker process ended') from error


def _pack(spec: WorkerSpec) -> bytes:
    try:
        return pickle.dumps(spec)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if spec.config:  # the worker reads its entry there
            return pickle.dumps(replace(spec, entry={}))
        what = f'{spec.name} cannot be sent to other processes: {error}.'
        remedy = "Name functions as 'module.function', or write the config to a file."
        raise ConfigError(Problem('processes', what, remedy)) from error


def _unpack(packed: bytes, name: str, config: str) -> WorkerSpec:
    try:
        spec: WorkerSpec = pickle.loads(packed)
    except (ImportError, AttributeError):  # a function of the config, which is no module here
        spec = WorkerSpec(name, {}, config=config)
    return spec if spec.entry else replace(spec, entry=_read_entry(name, config))


def _read_entry(name: str, config: str) -> Mapping[str, Any]:
    from rolecall.experiment.experiment import Experiment

    return next(model.entry for model in Experiment.open(config).models if model.abbr == name)


_HOSTED: list[tuple[asyncio.AbstractEventLoop, HostedWorker]] = []
"""The worker of this process, where it is one, and the loop in which it works."""


def _host(packed: bytes, name: str, config: str) -> None:
    _HOSTED.append((asyncio.new_event_loop(), HostedWorker(packed, name, config)))


def _load() -> str:
    loop, worker = _HOSTED[0]
    return loop.run_until_complete(worker.load())


def _answer(kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
    loop, worker = _HOSTED[0]
    return loop.run_until_complete(worker.answer(kind, requests, sampling))
