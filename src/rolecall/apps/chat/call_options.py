"""The options of one call: how long it may take, what is sent beside the prompt, and how the answer is drawn.

Every option is honoured or refused; none is sent to a server because it was misspelt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.tools import Tool
from rolecall.checking import is_number, is_whole
from rolecall.errors import did_you_mean
from rolecall.models.http.address import HEADER_RULE, find_unsendable_header
from rolecall.models.protocol import Sampling
from rolecall.plain_files import read_table

History = Sequence[Any] | None
Tools = Sequence[Mapping[str, Any] | Callable[..., Any] | Tool] | None
Json = Mapping[str, Any]


class SharedSampling(TypedDict, total=False):
    """How an answer is drawn, for every call of a module or for one: what all models have."""

    max_tokens: int | None
    max_out_len: int | None
    max_completion_tokens: int | None
    max_new_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str] | None


class AnthropicSampling(SharedSampling, total=False):
    """What Anthropic's API has besides."""

    top_k: int | None
    tool_choice: str | Json | None
    thinking: Json | None
    metadata: Json | None
    user: str | None
    service_tier: str | None


class MistralSampling(SharedSampling, total=False):
    """What Mistral's API has besides."""

    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    tool_choice: str | Json | None
    parallel_tool_calls: bool | None
    response_format: Json | None
    reasoning_effort: str | None
    prediction: Json | None
    metadata: Json | None


class LocalSampling(SharedSampling, total=False):
    """What engines on this machine have besides."""

    min_out_len: int | None
    min_tokens: int | None
    min_new_tokens: int | None
    top_k: int | None
    min_p: float | None
    seed: int | None
    do_sample: bool | None
    ignore_eos: bool | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    num_beams: int | None
    typical_p: float | None
    mirostat: int | None
    generation_config: Json | None
    guided_json: Json | str | None
    guided_regex: str | None
    guided_choice: Sequence[str] | None


class SamplingOptions(AnthropicSampling, MistralSampling, LocalSampling, total=False):
    """Every parameter: servers that speak OpenAI's language may have any of them."""

    logit_bias: Mapping[str, float] | None
    logprobs: bool | int | None
    top_logprobs: int | None
    reasoning: Json | None
    enable_thinking: bool | None
    verbosity: str | None
    store: bool | None
    modalities: Sequence[str] | None
    web_search_options: Json | None
    chat_template_kwargs: Json | None


class CallFields(TypedDict, total=False):
    """What one call may say besides."""

    history: History
    tools: Tools
    timeout: float | None
    """Seconds for the whole call: retries, pauses, fallbacks and tools included."""
    retries: int | None
    max_cost: float | None
    """US dollars after which no further request is sent."""
    deps: object
    """What tools get as `context.deps`."""


class ServedFields(CallFields, total=False):
    """The same for a model behind a server."""

    headers: Mapping[str, str] | None
    extra_body: Json | None


class BatchFields(TypedDict, total=False):
    """What a batch may say besides."""

    concurrency: int
    histories: Sequence[History] | None
    """A history for each input."""
    on_progress: Callable[[int, int], object] | None
    """Called with the number of answers and of inputs."""
    return_errors: bool


class CallOptions(SamplingOptions, ServedFields, total=False):
    """The options of one call."""


class BatchOptions(CallOptions, BatchFields, total=False):
    """The options of a batch."""


_LENGTHS = ('max_out_len', 'max_tokens', 'max_completion_tokens', 'max_new_tokens')
_OWN = ('min_out_len', 'temperature', 'top_p', 'top_k', 'seed')
_CHOICES = ('auto', 'none', 'required', 'any')
_PENALTIES = ('presence_penalty', 'frequency_penalty', 'repetition_penalty', 'min_p')
_VENDORS: Mapping[str, Mapping[str, Any]] = {
    'anthropic': AnthropicSampling.__annotations__,
    'mistral': MistralSampling.__annotations__,
}
"""The parameters of APIs that refuse all others."""
_INSTEAD = {
    ('anthropic', 'reasoning_effort'): "Write thinking={'type': 'enabled', 'budget_tokens': 4096}.",
    ('anthropic', 'response_format'): 'Write returns=….',
    ('anthropic', 'parallel_tool_calls'): "Write tool_choice={'type': 'auto', 'disable_parallel_tool_use': True}.",
}
_ELSEWHERE = {name: instead for names, instead in read_table(__file__) for name in names.split()}
"""What people write as an option of a call, and what to write instead."""
_WRITTEN = {name: _ELSEWHERE[name] for name in ('messages', 'model', 'stream')}
"""Fields of a body that `extra_body` cannot change."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How one call is made."""

    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None
    """Seconds for the whole call: retries, pauses and tools included."""
    retries: int | None = None
    max_cost: float | None = None
    """US dollars after which no further request is sent."""
    deps: Any = None
    """What tools get as `context.deps`."""


def read_call_options(options: Mapping[str, Any], *, served: bool) -> CallSettings:
    """The options of a call; `served` tells whether the model is behind a server.

    >>> read_call_options({'timeout': 5, 'max_tokens': 9}, served=True).sampling.max_out_len
    9
    >>> read_call_options({'llm_chat_history': []}, served=True)
    Traceback (most recent call last):
    rolecall.apps.chat.module_errors.ModuleError: 'llm_chat_history' is not an option of a call. Write history=[…].
    """
    rest = dict(options)
    timeout, retries, max_cost = (rest.pop(name, None) for name in ('timeout', 'retries', 'max_cost'))
    deps = rest.pop('deps', None)
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise ModuleError(f'timeout must be a number of seconds above 0, got {timeout!r:.60}.')
    if retries is not None and not (is_whole(retries) and retries >= 0):
        raise ModuleError(f'retries must be a whole number of at least 0, got {retries!r:.60}.')
    if max_cost is not None and not (is_number(max_cost) and max_cost > 0):
        raise ModuleError(f'max_cost must be a number of US dollars above 0, got {max_cost!r:.60}.')
    sent: dict[str, Any] = {}
    if (headers := _pop_mapping('headers', rest, served=served)) is not None:
        sent['extra_headers'] = _check_headers(headers)
    if (body := _pop_mapping('extra_body', rest, served=served)) is not None:
        sent['extra_body'] = _check_body(body)
    if (choice := rest.get('tool_choice')) is not None:
        rest['tool_choice'] = _read_tool_choice(choice)
    sampling = read_sampling(rest)
    whole = replace(sampling, extra={**sampling.extra, **sent})
    return CallSettings(whole, timeout, retries, max_cost, deps)


def _pop_mapping(name: str, options: dict[str, Any], *, served: bool) -> dict[str, Any] | None:
    value = options.pop(name, None)
    if value is None:
        return None
    if not served:
        raise ModuleError(f'{name} is for models behind a server; this one runs in this process.')
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ModuleError(f'{name} must be a mapping of names, got {value!r:.60}.')
    return dict(value)


def _check_headers(headers: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(value, str) for value in headers.values()):
        raise ModuleError('headers must have strings as values.')
    if (wrong := find_unsendable_header(headers)) is not None:
        raise ModuleError(f'headers: {wrong!r:.60} cannot be sent. {HEADER_RULE}')
    return headers


def _check_body(body: dict[str, Any]) -> dict[str, Any]:
    if owned := [name for name in _WRITTEN if name in body]:
        raise ModuleError(f'extra_body must not have {owned[0]!r}: the module writes it. {_WRITTEN[owned[0]]}')
    for name, value in body.items():
        _check_json(f'extra_body[{name!r}]', value)
    return body


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModuleError(f'{name} must be data that JSON can carry: {error}.') from None


def _read_tool_choice(choice: Any) -> Any:
    """The choice in OpenAI's form, which clients of other vendors translate. A string may name a tool."""
    if not isinstance(choice, (str, Mapping)):
        raise ModuleError(f"tool_choice must be one of {', '.join(_CHOICES)}, or a tool's name, got {choice!r:.60}.")
    if isinstance(choice, str):
        return choice if choice in _CHOICES else {'type': 'function', 'function': {'name': choice}}
    is_anthropic = choice.keys() == {'type', 'name'} and choice['type'] == 'tool'
    return {'type': 'function', 'function': {'name': choice['name']}} if is_anthropic else choice


def read_sampling(options: Mapping[str, Any]) -> Sampling:
    """Sampling parameters by their usual names.

    >>> read_sampling({'max_tokens': 9, 'stop': 'END', 'presence_penalty': 1}).as_dict()
    {'max_out_len': 9, 'stop': ['END'], 'presence_penalty': 1}
    """
    rest = {name: value for name, value in options.items() if value is not None}
    length = _read_length({name: rest.pop(name) for name in _LENGTHS if name in rest})
    stop = rest.pop('stop', ())
    if not isinstance(stop, str) and not (isinstance(stop, (list, tuple)) and all(isinstance(s, str) for s in stop)):
        raise ModuleError(f'stop must be a string or a list of strings, got {stop!r:.60}.')
    own = {name: rest.pop(name) for name in _OWN if name in rest}
    _check_numbers(own)
    for name in _PENALTIES:
        if name in rest and not is_number(rest[name]):
            raise ModuleError(f'{name} must be a number, got {rest[name]!r:.60}.')
    _refuse_unknown(rest)
    for name, value in rest.items():
        _check_json(name, value)
    return Sampling(max_out_len=length, stop=(stop,) if isinstance(stop, str) else tuple(stop), extra=rest, **own)


def _read_length(lengths: Mapping[str, Any]) -> int | None:
    for name, length in lengths.items():
        if not is_whole(length) or length < 1:
            raise ModuleError(f'{name} must be a whole number of tokens of at least 1, got {length!r:.60}.')
    if len(set(lengths.values())) > 1:
        raise ModuleError(f'the answer length is given twice: {" and ".join(map(str, sorted(lengths.values())))}.')
    return next(iter(lengths.values()), None)


def _check_numbers(own: Mapping[str, Any]) -> None:
    for name, value in own.items():
        whole = name not in ('temperature', 'top_p')
        if not (is_whole(value) if whole else is_number(value)):
            raise ModuleError(f'{name} must be a {"whole " if whole else ""}number, got {value!r:.60}.')
        if name != 'seed' and value < (-1 if name == 'top_k' else 0):
            raise ModuleError(f'{name} must not be negative, got {value!r:.60}.')
        if name == 'top_p' and value > 1:
            raise ModuleError(f'top_p must be at most 1, got {value!r:.60}.')


def _refuse_unknown(rest: Mapping[str, Any]) -> None:
    for name in rest:
        if name in _ELSEWHERE:
            raise ModuleError(f'{name!r} is not an option of a call. {_ELSEWHERE[name]}')
        if name not in SamplingOptions.__annotations__:
            if name in BatchOptions.__annotations__:
                raise ModuleError(f'{name!r} belongs to a call: module(input, {name}=…).')
            hint = did_you_mean(name, [*BatchOptions.__annotations__, *_ELSEWHERE])
            hint = f'{hint} ' if hint.startswith('Did') else ''
            own = 'A parameter that only this server knows goes into extra_body={…}.'
            raise ModuleError(f'unknown option {name!r:.60}. {hint}{own}')


def adapt_to_vendor(options: CallSettings, vendor: str, refused: Collection[str] = ()) -> CallSettings:
    """The options as a vendor's API has them; ModuleError for one that it does not have.

    >>> adapt_to_vendor(read_call_options({'seed': 1}, served=True), 'mistral').sampling.as_dict()
    {'random_seed': 1}
    """
    sampling = options.sampling
    for name in sampling.as_dict():
        if name in refused or (name in SamplingOptions.__annotations__ and name not in _VENDORS.get(vendor, (name,))):
            remedy = _INSTEAD.get((vendor, name), 'Leave it out, or give it to the modules that have it.')
            remedy += f' Where a proxy documents it: extra_body={{{name!r}: …}}.'
            raise ModuleError(f'the API of {vendor} has no {name}. {remedy}')
    extra = sampling.extra
    if vendor == 'mistral' and sampling.seed is not None:
        translated = replace(sampling, seed=None, extra={**extra, 'random_seed': sampling.seed})
    elif vendor == 'anthropic' and 'user' in extra:
        rest = {name: value for name, value in extra.items() if name != 'user'}
        metadata = {'user_id': extra['user'], **extra.get('metadata', {})}
        translated = replace(sampling, extra={**rest, 'metadata': metadata})
    else:
        return options
    return replace(options, sampling=translated)
