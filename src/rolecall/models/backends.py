"""Which backend answers for the type of a model entry. A backend is imported when a model of it is built."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from rolecall.errors import ConfigError, MissingExtraError, Problem, did_you_mean
from rolecall.models.base import Model
from rolecall.models.entries import type_name

__all__ = ['BACKENDS', 'build_model']

_FOREIGN = ('opencompass', 'ais_bench', 'mmengine')
_FUNCTION = 'rolecall.models.function'
BACKENDS: dict[str, str] = {
    **dict.fromkeys(
        (
            'OpenAI',
            'OpenAISDK',
            'OpenAISDKRollout',
            'OpenAISDKStreaming',
            'OpenAIExtra',
            'OpenAICompletions',
            'VLLMCustomAPI',
            'VLLMCustomAPIStream',
            'VLLMCustomAPIChat',
            'VLLMCustomAPIChatStream',
            'DeepseekAPI',
        ),
        'rolecall.models.openai.model',
    ),
    **dict.fromkeys(('Claude', 'ClaudeSDK', 'Anthropic'), 'rolecall.models.anthropic.model'),
    **dict.fromkeys(('LlamaCpp', 'Embedded', 'smollm2'), 'rolecall.models.llama.model'),
    **dict.fromkeys(
        ('HuggingFace', 'HuggingFaceCausalLM', 'HuggingFaceBaseModel', 'HuggingFacewithChatTemplate'),
        'rolecall.models.transformers.model',
    ),
    **dict.fromkeys(('VLLM', 'VLLMwithChatTemplate'), 'rolecall.models.vllm'),
    **dict.fromkeys(('Function', 'FunctionModel'), _FUNCTION),
}
"""The module of each type; its `build(entry, name=…)` makes the model."""


def build_model(entry: Mapping[str, Any], *, name: str) -> Model:
    """The model of an entry. No weights are loaded and nothing is connected before it is asked.

    >>> build_model({'type': 'OpenAy', 'path': 'gpt-4o'}, name='gpt')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: gpt.type
      no backend for models of type 'OpenAy'.
      Did you mean 'OpenAI'?
    """
    kind = entry.get('type')
    known = type_name(entry)
    plain = isinstance(kind, FunctionType | MethodType | BuiltinFunctionType)
    if plain or (known not in BACKENDS and (_is_callable_of_ours(kind) or _names_a_function(kind))):
        return _backend(_FUNCTION)(entry, name=name)
    if known not in BACKENDS:
        what = f'no backend for models of type {known!r}.'
        remedy = did_you_mean(known, BACKENDS)
        if not remedy.startswith('Did'):
            remedy = (
                "If its server speaks OpenAI's protocol, use type='OpenAI' with its base URL; "
                'otherwise give a Python function as the type.'
            )
        raise ConfigError(Problem(f'{name}.type', what, remedy))
    return _backend(BACKENDS[known])(entry, name=name)


def _is_callable_of_ours(kind: object) -> bool:
    """Whether the type is an object with a `__call__` of its own. (A reference to another package's class is not.)"""
    return callable(kind) and not isinstance(kind, type) and not hasattr(kind, 'dotted')


def _names_a_function(kind: object) -> bool:
    """Whether the type is written 'module.function', the function being the user's own."""
    return isinstance(kind, str) and '.' in kind and kind.split('.')[0] not in _FOREIGN


def _backend(module: str) -> Callable[..., Model]:
    try:
        build: Callable[..., Model] = importlib.import_module(module).build
    except ImportError as missing:
        extra = {'rolecall.models.llama.model': 'llama', 'rolecall.models.vllm': 'vllm'}.get(module, 'api')
        package = missing.name or module
        raise MissingExtraError(package, extra=extra, purpose='to ask this model') from missing
    return build
