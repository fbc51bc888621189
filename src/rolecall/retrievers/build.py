"""A retriever from its entry in a config."""

from __future__ import annotations

from typing import Any

from rolecall.registry import Registry
from rolecall.retrievers.retriever import Retriever

__all__ = ['RETRIEVERS', 'build_retriever']

RETRIEVERS: Registry[type[Any]] = Registry(
    'retriever',
    {
        'ZeroRetriever': 'rolecall.retrievers.simple:ZeroRetriever',
        'FixKRetriever': 'rolecall.retrievers.simple:FixKRetriever',
        'RandomRetriever': 'rolecall.retrievers.simple:RandomRetriever',
        'BM25Retriever': 'rolecall.retrievers.bm25:BM25Retriever',
        'TopkRetriever': 'rolecall.retrievers.dense:TopkRetriever',
        'VotekRetriever': 'rolecall.retrievers.votek:VotekRetriever',
        'DPPRetriever': 'rolecall.retrievers.dpp:DPPRetriever',
        'MDLRetriever': 'rolecall.retrievers.mdl:MDLRetriever',
        'SlidingWindowRetriever': 'rolecall.retrievers.simple:SlidingWindowRetriever',
    },
)
PROTOCOL = ('ice_num', 'ice_separator', 'ice_eos_token', 'fixed', 'retrieve')


def build_retriever(written: object) -> Retriever:
    """The retriever that a config asks for: an object, or a `type` (class, name or dotted path) with its settings.

    All problems come at once.

    >>> build_retriever({'type': 'FixKRetriever', 'fix_id_list': [0, 1]}).ice_num
    2
    >>> build_retriever({'type': 'RandomRetriever', 'ice_nun': 3})
    Traceback (most recent call last):
        ...
    rolecall.errors.ConfigError: ice_nun
      RandomRetriever has no option 'ice_nun'.
      Did you mean 'ice_num'?
    """
    retriever: Retriever = RETRIEVERS.build(written, protocol=PROTOCOL)
    return retriever
