"""Keys of entries that nothing reads: a slip, or a setting of another system. They are reported, not refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rolecall.config_keys import MODEL_PLACES, keys_of
from rolecall.errors import close_match
from rolecall.models.backends import MODELS
from rolecall.registry import bare_name

_KINDS = {
    'rolecall.models.openai': 'OpenAI and servers',
    'rolecall.models.anthropic': 'Anthropic',
    'rolecall.models.llama': 'embedded',
    'rolecall.models.transformers': 'Transformers, vLLM',
    'rolecall.models.vllm': 'Transformers, vLLM',
    'rolecall.models.function': 'functions',
}
_MEANT = {
    'max_concurrency': 'concurrency',
    'num_workers': 'max_workers',
    'qps': 'query_per_second',
    'api_base': 'openai_api_base',
    'max_tokens': 'max_out_len',
}
"""Words of other tools, and ours."""
_NEARLY = 0.75
DATASET_KEYS = keys_of('dataset')
FOREIGN_KEYS = keys_of('foreign')
_FILE_TYPES = ('File', 'Rows', 'JsonlDataset')
"""Types whose options are all known. Other loaders take options of their own."""


def unknown_model_keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The keys of a model's entry that nothing reads, each with what was probably meant.

    >>> list(unknown_model_keys({'type': 'OpenAI', 'path': 'gpt', 'max_concurrency': 64, 'attr': 'service'}))
    [('max_concurrency', 'concurrency')]
    """
    declared = MODELS.declared(bare_name(entry.get('type')) or '')
    kinds = (kind for module, kind in _KINDS.items() if str(declared).startswith(module))
    if (kind := next(kinds, None)) is None:  # a class of the user's own: its keys are options of that class
        return
    keys = keys_of(*MODEL_PLACES[kind], 'sampling')
    for key in entry:
        if key not in keys and key not in FOREIGN_KEYS:
            yield key, _find_meant(key, keys)


def unknown_dataset_keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The same for a dataset's entry of a type with known keys; loaders have options of their own.

    >>> list(unknown_dataset_keys({'type': 'File', 'path': 'x.csv', 'encodng': 'utf-8', 'shuffle': True}))
    [('encodng', 'encoding'), ('shuffle', None)]
    """
    if bare_name(entry.get('type', 'File')) in _FILE_TYPES:
        for key in entry:
            if key not in DATASET_KEYS:
                yield key, _find_meant(key, DATASET_KEYS)


def foreign_keys(entry: Mapping[str, Any]) -> list[str]:
    """The keys of a model's entry that belong to OpenCompass or AISBench and have no effect here.

    >>> foreign_keys({'type': 'OpenAI', 'path': 'gpt', 'attr': 'service', 'run_cfg': {'num_gpus': 0}})
    ['attr', 'run_cfg']
    """
    return [key for key in entry if key in FOREIGN_KEYS]


def _find_meant(key: str, keys: Collection[str]) -> str | None:
    meant = _MEANT.get(key)
    return meant if meant in keys else close_match(key, sorted(keys), cutoff=_NEARLY)
