"""A retriever from its entry in a config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.retrievers.base import Retriever
from rolecall.retrievers.bm25 import BM25Retriever
from rolecall.retrievers.dense import TopkRetriever
from rolecall.retrievers.dpp import DPPRetriever
from rolecall.retrievers.mdl import MDLRetriever
from rolecall.retrievers.plain import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
from rolecall.retrievers.votek import VotekRetriever

__all__ = ['RETRIEVERS', 'build_retriever']

Parameters: TypeAlias = Mapping[str, inspect.Parameter]

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
RETRIEVERS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        ZeroRetriever,
        FixKRetriever,
        RandomRetriever,
        BM25Retriever,
        TopkRetriever,
        VotekRetriever,
        DPPRetriever,
        MDLRetriever,
        SlidingWindowRetriever,
    )
}


def build_retriever(cfg: Mapping[str, Any]) -> Retriever:
    """The retriever a config asks for; `type` is a class, a name or a dotted path. All problems come at once.

    >>> build_retriever({'type': 'FixKRetriever', 'fix_id_list': [0, 1]}).ice_num
    2
    >>> build_retriever({'type': 'RandomRetriever', 'ice_nun': 3})
    Traceback (most recent call last):
        ...
    rolecall.errors.ConfigError: ice_nun
      RandomRetriever has no setting 'ice_nun'.
      Did you mean 'ice_num'?
    """
    kind = kind_of(cfg)
    settings = {name: value for name, value in cfg.items() if name != 'type'}
    parameters = inspect.signature(kind).parameters
    problems = [*unknown(settings, kind, parameters), *missing(settings, kind, parameters)]
    if any(problem.where in parameters for problem in problems):
        raise ConfigError(problems)
    strange = {problem.where for problem in problems}
    try:
        retriever: Retriever = kind(**{name: value for name, value in settings.items() if name not in strange})
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems:
        raise ConfigError(problems)
    return retriever


def kind_of(cfg: Mapping[str, Any]) -> type[Any]:
    kind = cfg.get('type')
    if isinstance(kind, str):
        kind = RETRIEVERS.get(kind.rpartition('.')[2])
    if inspect.isclass(kind) and hasattr(kind, 'retrieve'):
        return kind
    given = f'{cfg["type"]!r} is not a retriever.' if 'type' in cfg else 'no retriever is named.'
    raise ConfigError(Problem('type', given, did_you_mean(cfg.get('type', ''), RETRIEVERS)))


def unknown(settings: Mapping[str, Any], kind: type[Any], parameters: Parameters) -> Iterator[Problem]:
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in settings:
        if name not in parameters:
            yield Problem(str(name), f'{kind.__name__} has no setting {name!r}.', did_you_mean(name, parameters))


def missing(settings: Mapping[str, Any], kind: type[Any], parameters: Parameters) -> Iterator[Problem]:
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and parameter.kind in NAMED and name not in settings:
            yield Problem(name, f'{kind.__name__} needs {name}.')
