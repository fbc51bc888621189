"""Workers that are actors of a Ray cluster. Ray places them, starts them again when they die, and carries batches.

Ray never repeats a call (`max_task_retries=0`): asking again is the run's decision, so that requests are stored once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rolecall._version import __version__
from rolecall.errors import RunError, import_extra
from rolecall.models.protocol import ModelError, Sampling
from rolecall.render.spans import Request
from rolecall.runs.workers.model_worker import Kind, ModelWorker, WorkerReply, WorkerSpec
from rolecall.runs.workers.pool_client import WorkerLostError

__all__ = ['RayCluster', 'RayPool']

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class RayCluster:
    """A connection to a Ray cluster, or to one that is started on this machine."""

    def __init__(self, address: str | None = None) -> None:
        self._ray = import_extra('ray', extra='ray', purpose='to run on a cluster')
        self._address = address
        self._ours = False

    def __enter__(self) -> RayCluster:
        ray = self._ray
        if not ray.is_initialized():
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError, OSError) as error:
                where = self._address or 'on this machine'
                raise RunError(f'no Ray cluster could be reached {where}: {error}') from error
            self._ours = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            self._ray.shutdown()

    def make_pool(self, spec: WorkerSpec, *, workers: int | None, batched: bool) -> RayPool:
        """Workers for a model: as many as fit, each with the GPUs and CPUs that the entry's `run_cfg` names."""
        needs = _read_needs(spec.entry)
        nodes = [node for node in self._ray.nodes() if node['Alive']]
        fitting = sum(_count_fitting(node['Resources'], needs) for node in nodes)
        if not fitting:
            wanted = ', '.join(f'{amount:g} {name}' for name, amount in needs.items())
            raise RunError(f'{spec.name}: no node of the cluster has {wanted}.')
        size = min(fitting, workers or fitting) if batched else len(nodes)
        return RayPool(self._ray, spec, size, needs if batched else {'CPU': 0.0}, at_once=1 if batched else 1000)


def _read_needs(entry: Mapping[str, Any]) -> dict[str, float]:
    given = entry.get('run_cfg')
    run = given if isinstance(given, Mapping) else {}
    gpus = run.get('num_gpus') or 0
    return {'CPU': float(run.get('num_cpus') or 1), **({'GPU': float(gpus)} if gpus else {})}


def _count_fitting(has: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return min(int(has.get(name, 0.0) / amount) for name, amount in needs.items() if amount)


class RayPool:
    """One actor for each worker."""

    def __init__(self, ray: Any, spec: WorkerSpec, size: int, needs: Mapping[str, float], *, at_once: int) -> None:
        self._ray = ray
        self._spec = spec
        self.size = size
        self._needs = needs
        self._at_once = at_once
        self._actors: list[Any] = []

    async def start(self) -> None:
        """Create the actors; if the model cannot be built in the first, say why."""
        remote = self._ray.remote(ModelWorker)
        for _ in range(self.size):
            self._actors.append(
                remote.options(
                    num_cpus=self._needs.get('CPU', 1.0),
                    num_gpus=self._needs.get('GPU', 0.0),
                    max_restarts=-1,
                    max_task_retries=0,
                    max_concurrency=self._at_once,
                    scheduling_strategy='SPREAD',
                ).remote(self._spec)  # not a reference: an actor that starts again needs it again
            )
        await self._check_version()

    async def _check_version(self) -> None:
        tried: BaseException | None = None
        for actor in self._actors:
            try:
                version, node = await actor.describe.remote()
            except self._ray.exceptions.RayError as error:
                tried = tried or error
                continue
            if version != __version__:
                raise RunError(
                    f'{node} has rolecall {version}; this is {__version__}. Install the same version on all nodes.'
                )
            return
        raise RunError(f'{self._spec.name} could not be loaded on the cluster: {_last_line(tried)}') from tried

    async def wait_until_ready(self, worker: int) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._actors[worker].describe.remote()
            except self._ray.exceptions.RayError:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            else:
                return

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        exceptions = self._ray.exceptions
        try:
            reply: WorkerReply = await self._actors[worker].answer.remote(kind, list(requests), sampling)
        except exceptions.RayTaskError as error:  # raised by the model's own code
            raise ModelError(f'{self._spec.name}: {_last_line(error)}') from error
        except exceptions.RayError as error:
            raise WorkerLostError(f'{type(error).__name__}') from error
        return reply

    async def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []


def _last_line(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else 'no worker answered'
