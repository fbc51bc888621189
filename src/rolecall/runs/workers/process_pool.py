"""Workers that are processes of this machine."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, TypeVar

from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem
from rolecall.models.protocol import Sampling
from rolecall.runs.workers.model_worker import Kind, ModelWorker, WorkerReply, WorkerSpec, describe_exception
from rolecall.runs.workers.worker_pool import WorkerLoadError, WorkerLostError

T = TypeVar('T')
_MOST_STARTS = 4
"""Processes that end while they load the model before the worker is given up."""

_WORKER: list[ModelWorker] = []
"""The worker of this process, where it is one."""


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
            given = (self._packed, self._spec.name, self._spec.config)
            executor = ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=given)
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


def _start(packed: bytes, name: str, config: str) -> None:
    """Build the worker of this process. What goes wrong is told when it is first asked: here it would be lost."""
    try:
        try:
            spec: WorkerSpec = pickle.loads(packed)
        except (ImportError, AttributeError):  # a function of the config, which is no module here
            spec = WorkerSpec(name, {}, config=config)
        _WORKER.append(ModelWorker(spec if spec.entry else replace(spec, entry=_read_entry(name, config))))
    except Exception as error:  # the user's own code may raise anything
        _FAILURE.append(describe_exception(error))


def _read_entry(name: str, config: str) -> Mapping[str, Any]:
    from rolecall.experiment.experiment import Experiment

    return next(model.entry for model in Experiment.open(config).models if model.abbr == name)


def _load() -> str:
    """Load the model; why that failed, or ''."""
    if not _FAILURE:
        try:
            _run(_WORKER[0].load())
        except Exception as error:  # engines may raise anything
            _FAILURE.append(describe_exception(error))
    return _FAILURE[0] if _FAILURE else ''


def _answer(kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
    return _run(_WORKER[0].answer(kind, requests, sampling))


def _run(work: Coroutine[Any, Any, T]) -> T:
    if not _LOOP:
        _LOOP.append(asyncio.new_event_loop())
    return _LOOP[0].run_until_complete(work)


_LOOP: list[asyncio.AbstractEventLoop] = []
_FAILURE: list[str] = []
