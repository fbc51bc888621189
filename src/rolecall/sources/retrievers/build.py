"""A retriever from its entry in a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolecall.registry import Registry, is_reference_class
from rolecall.sources.retrievers.retriever import Retriever

_BUILTINS = {
    'ZeroRetriever': 'rolecall.sources.retrievers.simple:ZeroRetriever',
    'FixKRetriever': 'rolecall.sources.retrievers.simple:FixKRetriever',
    'RandomRetriever': 'rolecall.sources.retrievers.simple:RandomRetriever',
    'BM25Retriever': 'rolecall.sources.retrievers.bm25:BM25Retriever',
    'TopkRetriever': 'rolecall.sources.retrievers.dense:TopkRetriever',
    'VotekRetriever': 'rolecall.sources.retrievers.votek:VotekRetriever',
    'DPPRetriever': 'rolecall.sources.retrievers.dpp:DPPRetriever',
    'MDLRetriever': 'rolecall.sources.retrievers.mdl:MDLRetriever',
    'SlidingWindowRetriever': 'rolecall.sources.retrievers.simple:SlidingWindowRetriever',
}
RETRIEVERS: Registry[type[Any]] = Registry('retriever', _BUILTINS, is_ours=lambda name: name in _BUILTINS)
PROTOCOL = ('ice_num', 'ice_separator', 'ice_eos_token', 'fixed', 'retrieve')


def build_retriever(written: object) -> Retriever:
    """The retriever that a config asks for: an object, or a `type` (class, name or dotted path) with its settings.

    A class of an installed OpenCompass or AISBench that is not one of ours is used as it is. All problems come at once.

    >>> build_retriever({'type': 'FixKRetriever', 'fix_id_list': [0, 1]}).ice_num
    2
    >>> build_retriever({'type': 'RandomRetriever', 'ice_nun': 3})
    Traceback (most recent call last):
        ...
    rolecall.errors.ConfigError: ice_nun
      RandomRetriever has no option 'ice_nun'.
      Did you mean 'ice_num'?
    """
    entry = written if isinstance(written, Mapping) else {'type': written}
    kind = entry.get('type')
    if is_reference_class(kind) and RETRIEVERS.builtin_name(kind) is None:
        from rolecall.sources.retrievers.package import PackageRetriever

        return PackageRetriever(kind, {key: value for key, value in entry.items() if key != 'type'})
    retriever: Retriever = RETRIEVERS.build(written, protocol=PROTOCOL)
    return retriever
