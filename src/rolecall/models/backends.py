"""Which class serves each `type` of a model entry, and which request form it takes. Imported when a model is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from rolecall.errors import ConfigError, MissingExtraError, Problem
from rolecall.models.protocol import Model
from rolecall.plain_files import read_table
from rolecall.registry import LocalPath, Registry, bare_name, part_name

ModelKind = Literal['text', 'api', 'chat']
"""The input of a model: text, messages, or messages that its own chat template turns into text."""

_TYPES = read_table(__file__)
MODEL_KINDS: dict[str, ModelKind] = {name: kind for name, kind, _, _ in _TYPES if kind}  # type: ignore[misc]
CHAT_BY_DEFAULT = frozenset(name for name, _, by_default, _ in _TYPES if by_default)
"""Local types that use the chat template in the model's own files, if the entry gives no template."""
MODELS: Registry[Callable[..., Model]] = Registry(
    'model', {name: f'rolecall.models.{backend}:build' for name, _, _, backend in _TYPES if backend}
)
"""Each makes the model of an entry: `build(entry, name=…)`."""

TAKES_TOKEN_IDS = ('llama.model', 'transformers.model')
"""Backends in this process, which take a prompt as token ids as well."""

EXPERIMENTAL = (
    'vLLM in this process is experimental: it was run against vLLM 0.32 on a CPU, never on a GPU. '
    "`vllm serve` and type='VLLMCustomAPIChat' with its url is the supported way."
)


def backend_of(entry: Mapping[str, Any]) -> str:
    """The module in which the models of an entry are made: `openai.model`, `vllm`, …; '' for the user's own."""
    declared = MODELS.declared(MODELS.builtin_name(entry.get('type')) or '')
    return str(declared or '').removeprefix('rolecall.models.').removesuffix(':build')


_EXTRAS = {'rolecall.models.llama': 'llama', 'rolecall.models.transformers': 'hf', 'rolecall.models.vllm': 'vllm'}
_PACKAGED_TYPES = ('Embedded', 'smollm2')


def with_default_path(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry with the default path of its type, if it has none.

    >>> with_default_path({'type': 'Embedded'})
    {'type': 'Embedded', 'path': 'smollm2'}
    """
    if not entry.get('path') and bare_name(entry.get('type')) in _PACKAGED_TYPES:
        return {**entry, 'path': 'smollm2'}
    return entry


def model_kind(type_: object) -> ModelKind | None:
    """How a type is addressed: by its name, or by the `capabilities` of a class of the user's own; None if unknown.

    >>> model_kind('opencompass.models.OpenAI'), model_kind('acme.OpenAI')
    ('api', None)
    """
    name = bare_name(type_)
    if name in MODEL_KINDS:
        return MODEL_KINDS[name]
    part = type_
    if isinstance(type_, LocalPath) or (name is not None and any(name == plugin.name for plugin in MODELS.plugins())):
        part = MODELS.find(type_).value
    capabilities = getattr(part, 'capabilities', None)
    return 'api' if getattr(capabilities, 'chat', None) is True else None


def find_type_problems(type_: object) -> tuple[Problem, ...]:
    """Problems with a model type; empty if it can be run, or at least previewed.

    >>> print(*find_type_problems('OpenAy'), find_type_problems('OpenAI'))
    type
      unknown model 'OpenAy'.
      Did you mean 'OpenAI'? ()
    """
    if MODELS.builtin_name(type_) is not None or bare_name(type_) in MODEL_KINDS:
        return ()
    try:
        MODELS.find(type_, where='type')
    except ConfigError as error:
        return error.problems
    return ()


def build_model(entry: Mapping[str, Any], *, name: str) -> Model:
    """The model of an entry. No weights are loaded and nothing is connected before it is asked.

    >>> build_model({'type': 'OpenAy', 'path': 'gpt-4o'}, name='gpt')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: gpt.type
      unknown model 'OpenAy'.
      Did you mean 'OpenAI'?
    """
    type_, where = entry.get('type'), f'{name}.type'
    builtin = MODELS.builtin_name(type_)
    if builtin is not None:
        return _import_builtin(builtin)(entry, name=name)
    if bare_name(type_) in MODEL_KINDS:
        what = f'rolecall has no client for models of type {part_name(type_)!r}.'
        remedy = (
            "If its server speaks OpenAI's protocol, use type='OpenAI' with its base URL; "
            'otherwise give a Python function or a class with generate() as the type.'
        )
        raise ConfigError(Problem(where, what, remedy))
    part = MODELS.find(type_, where=where).value
    if hasattr(part, 'generate'):
        from rolecall.models.own_model import build_own_model

        return build_own_model(part, entry, name=name)
    if callable(part) and not isinstance(part, type):
        return _import_builtin('Function')({**entry, 'function': part}, name=name)
    what = f'{part_name(part)} cannot answer: it has no generate().'
    raise ConfigError(Problem(where, what, 'Give a function, or a class with generate(): docs/plugins.md.'))


def _import_builtin(name: str) -> Callable[..., Model]:
    try:
        return MODELS[name]
    except ImportError as missing:
        declared = str(MODELS.declared(name))
        extra = next((extra for module, extra in _EXTRAS.items() if declared.startswith(module)), 'api')
        raise MissingExtraError(missing.name or declared, extra=extra, purpose='to ask this model') from missing
