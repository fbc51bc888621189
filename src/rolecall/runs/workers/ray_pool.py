"""Workers that are actors of a Ray cluster. Ray places them, starts them again when they die, and carries batches.

Ray never repeats a call (`max_task_retries=0`): asking again is the run's decision, so that requests are stored once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import RunError, import_extra
from rolecall.models.protocol import ModelError, Sampling
from rolecall.runs.workers.worker_pool import (
    HostedWorker,
    Kind,
    WorkerLoadError,
    WorkerLostError,
    WorkerReply,
    WorkerSpec,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_CONNECT_SECONDS = 5.0
_MOST_STARTS = 4
"""Actors that end while they load the model before the worker is given up."""
_NEEDS_TOKEN = 'If its nodes have a token, set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from the head.'


def check_reachable(address: str | None) -> None:
    """Refuse an address at which nothing listens: Ray itself would try for minutes."""
    host, colon, port = (address or '').rpartition(':')
    if not colon or '/' in host:  # auto, local, ray://…: Ray's own words
        return
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise RunError(f'--workers ray:{address}: expected HOST:PORT, as in ray:head:6379, or ray:auto.')
    try:
        socket.create_connection((host.strip('[]'), int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise RunError(
            f'no Ray cluster could be reached at {address}: {error.strerror or error}.\n'
            'Start one with `ray start --head --port=6379`, and name the address that it prints.'
        ) from error


class RayCluster:
    """A connection to a Ray cluster, or to one that is started on this machine."""

    def __init__(self, address: str | None = None) -> None:
        self._ray = import_extra('ray', extra='ray', purpose='to run on a cluster')
        self._address = address
        self._ours = False

    def __enter__(self) -> RayCluster:
        ray = self._ray
        if not ray.is_initialized():
            check_reachable(self._address)
            os.environ.setdefault('RAY_worker_niceness', '0')  # a cluster started here is as important as processes
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            except (ray.exceptions.RayError, ConnectionError, ValueError, RuntimeError, OSError) as error:
                reason = str(error).partition('. ')[0].rstrip('.')
                if self._address is None:
                    raise RunError(f'no Ray cluster could be started on this machine: {reason}.') from error
                raise RunError(
                    f'no Ray cluster could be reached at {self._address}: {reason}.\n{_NEEDS_TOKEN}'
                ) from error
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
        fitting = sum(
            min(int(node['Resources'].get(name, 0.0) / amount) for name, amount in needs.items()) for node in nodes
        )
        if not fitting:
            wanted = ', '.join(f'{amount:g} {name}' for name, amount in needs.items())
            raise RunError(f'{spec.name}: no node of the cluster has {wanted}.')
        if not batched:
            return RayPool(self._ray, spec, [_stay_on(node['NodeID']) for node in nodes], {'CPU': 0.0}, at_once=1000)
        return RayPool(self._ray, spec, ['SPREAD'] * min(fitting, workers or fitting), needs, at_once=1)


def _stay_on(node: str) -> Any:
    """Have an actor placed on a node, or on another one if that is gone."""
    strategies = import_extra('ray.util.scheduling_strategies', extra='ray', purpose='to run on a cluster')
    return strategies.NodeAffinitySchedulingStrategy(node, soft=True)


def _read_needs(entry: Mapping[str, Any]) -> dict[str, float]:
    run_cfg = entry.get('run_cfg')
    run = run_cfg if isinstance(run_cfg, Mapping) else {}
    gpus = run.get('num_gpus') or 0
    return {'CPU': float(run.get('num_cpus') or 1), **({'GPU': float(gpus)} if gpus else {})}


class RayPool:
    """One actor for each worker, placed by a strategy of its own."""

    def __init__(
        self, ray: Any, spec: WorkerSpec, placing: Sequence[Any], needs: Mapping[str, float], *, at_once: int
    ) -> None:
        self._ray = ray
        self._spec = spec
        self.size = len(placing)
        self.loading = 0
        self._placing = placing
        self._nodes = [''] * len(placing)
        self._needs = needs
        self._at_once = at_once
        self._actors: list[Any] = []

    async def start(self) -> None:
        """Create the actors."""
        remote = self._ray.remote(HostedWorker)
        packed = self._ray.cloudpickle.dumps(self._spec)
        for strategy in self._placing:
            self._actors.append(
                remote.options(
                    num_cpus=self._needs.get('CPU', 1.0),
                    num_gpus=self._needs.get('GPU', 0.0),
                    max_restarts=-1,
                    max_task_retries=0,
                    max_concurrency=self._at_once,
                    scheduling_strategy=strategy,
                ).remote(
                    packed, self._spec.name, self._spec.config
                )  # not a reference: an actor that starts again needs it again
            )

    async def wait_until_ready(self, worker: int) -> None:
        exceptions, pause, ended = self._ray.exceptions, _FIRST_PAUSE, 0
        while True:
            placed = False
            try:
                version, self._nodes[worker] = await self._actors[worker].describe.remote()
                placed = True
                self._check_version(version, self._nodes[worker])
                failure = await self._load(worker)
            except exceptions.RayTaskError as error:  # rolecall itself cannot be imported there
                raise WorkerLoadError(f'{getattr(error, "ip", "a node")}: {_last_line(error)}') from error
            except exceptions.RayError as error:
                ended += placed
                if ended == _MOST_STARTS:
                    what = f'ended {ended} times while it loaded the model: {type(error).__name__}'
                    raise WorkerLoadError(f'{self._nodes[worker]}: the worker {what}') from error
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
                continue
            if failure:
                raise WorkerLoadError(f'{self._nodes[worker]}: the model cannot be loaded: {failure}')
            return

    async def _load(self, worker: int) -> str:
        self.loading += 1
        try:
            failure: str = await self._actors[worker].load.remote()
        finally:
            self.loading -= 1
        return failure

    @staticmethod
    def _check_version(version: str, node: str) -> None:
        if version != __version__:
            what = f'has rolecall {version}; this is {__version__}. Install the same version on all nodes.'
            raise WorkerLoadError(f'{node} {what}')

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        exceptions = self._ray.exceptions
        try:
            reply: WorkerReply = await self._actors[worker].answer.remote(kind, list(requests), sampling)
        except exceptions.RayTaskError as error:  # raised by the model's own code
            raise ModelError(f'{self._spec.name} on {self._nodes[worker]}: {_last_line(error)}') from error
        except exceptions.RayError as error:
            raise WorkerLostError(f'{self._nodes[worker]}: {type(error).__name__}') from error
        return reply

    async def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
