"""Keys of entries that nothing reads: a slip, or a setting of another system. They are reported, not refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rolecall.errors import close_match
from rolecall.experiment.opening.sampling import SAMPLING_OPTIONS
from rolecall.models.backends import MODELS
from rolecall.models.entry_keys import (
    ANTHROPIC_KEYS,
    COMMON_KEYS,
    FOREIGN_KEYS,
    FUNCTION_KEYS,
    LLAMA_KEYS,
    OPENAI_KEYS,
    TRANSFORMERS_KEYS,
)
from rolecall.registry import bare_name

_BY_MODULE: Mapping[str, Collection[str]] = {
    'rolecall.models.openai': OPENAI_KEYS,
    'rolecall.models.anthropic': ANTHROPIC_KEYS,
    'rolecall.models.llama': LLAMA_KEYS,
    'rolecall.models.transformers': TRANSFORMERS_KEYS,
    'rolecall.models.vllm': TRANSFORMERS_KEYS,
    'rolecall.models.function': FUNCTION_KEYS,
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
DATASET_KEYS = (
    *('abbr', 'type', 'reader_cfg', 'infer_cfg', 'eval_cfg', 'lint', 'n', 'k', 'path', 'name', 'summarizer_abbr'),
    *('data_files', 'file_name', 'format', 'fallback', 'encoding', 'on_error', 'field', 'columns', 'num_repeats'),
    *('train', 'test', 'splits', 'choices_from', 'flatten', 'local_mode', 'meta_path'),
)
_FILE_TYPES = ('File', 'Rows', 'JsonlDataset')
"""Types whose options are all known. Other loaders take options of their own."""


def unknown_model_keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The keys of a model's entry that nothing reads, each with what was probably meant.

    >>> list(unknown_model_keys({'type': 'OpenAI', 'path': 'gpt', 'max_concurrency': 64, 'attr': 'service'}))
    [('max_concurrency', 'concurrency')]
    """
    declared = MODELS.declared(bare_name(entry.get('type')) or '')
    found = (keys for module, keys in _BY_MODULE.items() if str(declared).startswith(f'{module}'))
    known = next(found, None)
    if known is None:  # a class of the user's own: its keys are options of that class
        return
    all_known = {*known, *SAMPLING_OPTIONS}
    for key in entry:
        if key not in all_known and key not in FOREIGN_KEYS:
            yield key, _find_meant(key, all_known)


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
    return [key for key in entry if key in FOREIGN_KEYS and key not in COMMON_KEYS]


def _find_meant(key: str, known: Collection[str]) -> str | None:
    meant = _MEANT.get(key)
    return meant if meant in known else close_match(key, sorted(known), cutoff=_NEARLY)
