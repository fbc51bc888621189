"""A retriever from its entry in a config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.registry import Registry, part_name
from rolecall.retrievers.base import Retriever
from rolecall.usercode import user_code

__all__ = ['RETRIEVERS', 'build_retriever']

Parameters: TypeAlias = Mapping[str, inspect.Parameter]

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
RETRIEVERS: Registry[type[Any]] = Registry(
    'retriever',
    {
        'ZeroRetriever': 'rolecall.retrievers.plain:ZeroRetriever',
        'FixKRetriever': 'rolecall.retrievers.plain:FixKRetriever',
        'RandomRetriever': 'rolecall.retrievers.plain:RandomRetriever',
        'BM25Retriever': 'rolecall.retrievers.bm25:BM25Retriever',
        'TopkRetriever': 'rolecall.retrievers.dense:TopkRetriever',
        'VotekRetriever': 'rolecall.retrievers.votek:VotekRetriever',
        'DPPRetriever': 'rolecall.retrievers.dpp:DPPRetriever',
        'MDLRetriever': 'rolecall.retrievers.mdl:MDLRetriever',
        'SlidingWindowRetriever': 'rolecall.retrievers.plain:SlidingWindowRetriever',
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
      RandomRetriever has no setting 'ice_nun'.
      Did you mean 'ice_num'?
    """
    cfg = written if isinstance(written, Mapping) else {'type': written}
    settings = {name: value for name, value in cfg.items() if name != 'type'}
    found = RETRIEVERS.find(cfg.get('type')).value
    if not hasattr(found, 'retrieve'):
        raise ConfigError(Problem('type', f'{found!r:.60} is not a retriever: it has no retrieve().'))
    if not inspect.isclass(found):
        return checked(found, settings)
    parameters = inspect.signature(found).parameters
    problems = [*unknown(settings, found, parameters), *missing(settings, found, parameters)]
    if any(problem.where in parameters for problem in problems):
        raise ConfigError(problems)
    strange = {problem.where for problem in problems}
    try:
        with user_code(f'making the retriever {found.__name__}'):
            retriever = found(**{name: value for name, value in settings.items() if name not in strange})
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error.__cause__
    if problems:
        raise ConfigError(problems)
    return checked(retriever, {})


def checked(found: Any, settings: Mapping[str, Any]) -> Retriever:
    """The object, if it has all that a retriever must have and nothing is left to set."""
    lacking = [name for name in PROTOCOL if not hasattr(found, name)]
    problems = [Problem(name, f'the retriever is made already; it takes no {name!r}.') for name in settings]
    if lacking:
        what = f'the retriever {part_name(found)} has no {", ".join(lacking)}.'
        problems.append(Problem('type', what, 'docs/plugins.md shows what a retriever must have.'))
    if problems:
        raise ConfigError(problems)
    retriever: Retriever = found
    return retriever


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
