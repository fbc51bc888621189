"""Where the models of a run are computed: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rolecall.models.protocol import Model, ModelContext
from rolecall.redaction import is_secret_name
from rolecall.runs.client.client_options import Budgets, read_limits, read_retry_policy
from rolecall.runs.client.concurrent_client import ConcurrentClient, build_client
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.run_options import Workers

if TYPE_CHECKING:
    from rolecall.runs.workers.worker_pool import WorkerSpec

Connect = Callable[[Model, Mapping[str, Any]], ModelClient]
"""Gives the way to a model, by the model and its entry."""


def connect_here(model: Model, entry: Mapping[str, Any], budgets: Budgets) -> ModelClient:
    """The way to a model in this process."""
    policy = read_retry_policy(entry)
    return build_client(model, limits=read_limits(entry), retry_policy=policy, budget=budgets.find(model))


@contextmanager
def open_workers(
    workers: Workers | None, *, context: ModelContext, config: str, budgets: Budgets, tell: Callable[[str], None]
) -> Iterator[Connect]:
    """The way to models, for as long as the cluster is held. `context` is what they are told.

    `tell` takes messages about workers that are lost or cannot load their model.
    """
    environment = {name: value for name, value in os.environ.items() if is_secret_name(name)}

    def describe(model: Model, entry: Mapping[str, Any]) -> WorkerSpec:
        from rolecall.runs.workers.worker_pool import WorkerSpec

        return WorkerSpec(model.name, entry, context, environment, config)

    if workers is None:
        yield partial(connect_here, budgets=budgets)
    elif workers.on == 'processes':
        from rolecall.runs.workers.pool_client import PoolClient
        from rolecall.runs.workers.worker_pool import ProcessPool

        def connect_processes(model: Model, entry: Mapping[str, Any]) -> ModelClient:
            if not _is_local(model):
                return connect_here(model, entry, budgets)
            size = _count(entry, workers) or os.cpu_count() or 1
            return PoolClient(model, read_retry_policy(entry), ProcessPool(describe(model, entry), size), tell=tell)

        yield connect_processes
    else:
        from rolecall.runs.workers.pool_client import PoolClient, SpreadModel
        from rolecall.runs.workers.ray_pool import RayCluster

        with RayCluster(workers.address) as cluster:

            def connect_cluster(model: Model, entry: Mapping[str, Any]) -> ModelClient:
                local, policy = _is_local(model), read_retry_policy(entry)
                pool = cluster.make_pool(describe(model, entry), workers=_count(entry, workers), batched=local)
                if local:
                    return PoolClient(model, policy, pool, tell=tell)
                spread = SpreadModel(model, pool, tell=tell)
                return ConcurrentClient(spread, read_limits(entry), policy, budget=budgets.find(model))

            yield connect_cluster


def _is_local(model: Model) -> bool:
    """Whether a model computes where it is, so that more processes compute more."""
    return model.batch > 1 or hasattr(model, 'generate_group')


def _count(entry: Mapping[str, Any], workers: Workers) -> int | None:
    own = entry.get('workers')
    return own if isinstance(own, int) and own > 0 else workers.count
