"""What the stored rows of a dataset × model depend on, as two digests: one of asking, one of scoring.

While the digest of asking is the one in the store, finished rows need not be worded again to see that they are
finished. A digest exists only where everything is data: with a function of the user's own, nobody can know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rolecall._version import __version__
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Model
from rolecall.sources.config.reference import Reference
from rolecall.sources.datasets.digest import digest_rows

KNOWN_PACKAGES = ('rolecall', 'opencompass', 'ais_bench', 'mmengine')
_NAMES_CODE = ('type', 'evaluator', 'pred_postprocessor', 'dataset_postprocessor', 'model_postprocessor', 'function')
KEYS_OF_CODE = (*_NAMES_CODE, 'retriever', 'inferencer', 'metric', 'meta_template', 'score')
"""Keys of a config whose text may be a path to code."""
_IN_IDENTITY = ('type', 'function', 'score')
"""Options of a model entry that may be code: the model's identity covers them."""


class _Asking(Protocol):
    """What is asked of a dataset × model, and how."""

    @property
    def pair(self) -> Pair: ...
    @property
    def model(self) -> Model: ...
    @property
    def inferencer(self) -> Inferencer: ...
    @property
    def model_entry(self) -> ModelEntry: ...


def digest_asking(run: _Asking, cache: dict[int, str | None]) -> str | None:
    """A digest of everything that decides what is sent for each row; None where that cannot be told.

    `cache` keeps the digests of rows, which several models share.
    """
    pair, model = run.pair, run.model
    task = pair.task
    if not task.retriever.fixed or task.inferencer.own is not None:
        return None
    identity = json.dumps(dict(model.identity), sort_keys=True, default=str)
    dataset = {key: value for key, value in task.entry.items() if key not in ('eval_cfg', 'lint', 'train', 'test')}
    entry = {key: value for key, value in run.model_entry.entry.items() if key not in _IN_IDENTITY}
    for rows in (pair.data.test, pair.data.train):
        if id(rows) not in cache:
            cache[id(rows)] = digest_rows(rows)
    digests = [cache[id(rows)] for rows in (pair.data.test, pair.data.train)]
    if None in digests:
        return None
    sampling = getattr(run.inferencer, 'sampling', None)
    return _digest([dataset, entry, identity, sampling and sampling.as_dict(), digests])


def digest_scoring(task: TaskEntry, model_entry: ModelEntry) -> str | None:
    """A digest of everything that decides how rows are scored; None where that cannot be told."""
    entry = model_entry.entry
    parts = [entry.get('pred_postprocessor'), entry.get('meta_template')]
    infer = task.entry.get('infer_cfg') or {}
    columns = [task.wording.output_column, task.reader.input_columns]
    return _digest([task.entry.get('eval_cfg'), infer.get('inferencer'), columns, parts])


def is_data(value: Any) -> bool:
    """Whether a part of a config names no code of the user's own."""
    return _digest(value) is not None


def _digest(value: Any) -> str | None:
    try:
        text = json.dumps([__version__, _as_data(value, '')], sort_keys=True)
    except (_NotDataError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


class _NotDataError(Exception):
    """Something in a config whose behaviour its name does not tell."""


def _as_data(value: Any, name: str) -> Any:
    if isinstance(value, str):
        if name in _NAMES_CODE and {'.', ':'} & {*value} and not _is_known(value):
            raise _NotDataError
        return value
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _as_data(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_as_data(inner, name) for inner in value]
    dotted = value.dotted if isinstance(value, Reference) else f'{getattr(value, "__module__", "")}.'
    if not _is_known(dotted) or not (isinstance(value, Reference) or hasattr(value, '__qualname__')):
        raise _NotDataError
    return dotted if isinstance(value, Reference) else f'{dotted}{value.__qualname__}'


def _is_known(dotted: str) -> bool:
    return dotted.split('.')[0] in KNOWN_PACKAGES
