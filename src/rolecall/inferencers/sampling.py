"""How answers are drawn: what a dataset's inferencer asks for, over what the model's entry says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecall.errors import Problem
from rolecall.models.base import Sampling

__all__ = ['REPLY_LENGTHS', 'sampling_of', 'stated', 'wrong_stops']

REPLY_LENGTHS = ('max_out_len', 'max_new_tokens', 'max_tokens', 'max_completion_tokens')
_HOMES = ('generation_kwargs', 'gen_config', 'query_kwargs')
_STOPS = ('stopping_criteria', 'stop_words', 'stop')
_NAMED = ('min_out_len', 'temperature', 'top_p', 'top_k', 'seed')
_PASSED_ON = (
    'min_p',
    'presence_penalty',
    'frequency_penalty',
    'repetition_penalty',
    'logit_bias',
    'response_format',
    'reasoning_effort',
    'tools',
    'tool_choice',
)
_NOT_SAMPLING = (*REPLY_LENGTHS, *_STOPS, *_NAMED, 'do_sample', 'num_return_sequences', 'n')


def sampling_of(options: Mapping[str, Any], entry: Mapping[str, Any]) -> Sampling:
    """The sampling for a dataset's inferencer options and a model's entry; the dataset's setting wins.

    >>> found = sampling_of({'max_out_len': 8}, {'max_out_len': 512, 'generation_kwargs': {'do_sample': False}})
    >>> found.max_out_len, found.temperature
    (8, 0.0)
    """
    named = {name: stated(name, options, entry) for name in _NAMED}
    if named['temperature'] is None and stated('do_sample', options, entry) is False:
        named['temperature'] = 0.0
    lengths = (stated(name, *places) for places in ((options,), (entry,)) for name in REPLY_LENGTHS)
    stops = dict.fromkeys(stop for place in (options, entry) for stop in _stops(place))
    return Sampling(
        max_out_len=next((length for length in lengths if length is not None), None),
        stop=tuple(stops),
        extra=_extra(options),
        **named,
    )


def stated(name: str, *places: Mapping[str, Any]) -> Any:
    """The first value that stands under a name, in the places or in their generation settings."""
    for place in places:
        for home in _homes(place):
            if home.get(name) is not None:
                return home[name]
    return None


def _homes(place: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield place
    for key in _HOMES:
        if isinstance(home := place.get(key), Mapping):
            yield home


def wrong_stops(*places: Mapping[str, Any]) -> Iterator[Problem]:
    """Stops that are neither a text nor a list of texts.

    >>> print(*wrong_stops({'stopping_criteria': 5}))
    stopping_criteria
      expected a text or a list of texts, got 5.
      Write stopping_criteria=['\\n\\n'], for instance.
    """
    for place in places:
        for home in _homes(place):
            for key in _STOPS:
                value = home.get(key)
                if value is not None and not isinstance(value, (str, list, tuple)):
                    remedy = f"Write {key}=['\\n\\n'], for instance."
                    yield Problem(key, f'expected a text or a list of texts, got {value!r:.60}.', remedy)


def _stops(place: Mapping[str, Any]) -> Iterator[str]:
    for home in _homes(place):
        for key in _STOPS:
            value = home.get(key) or ()
            if isinstance(value, (str, list, tuple)):
                yield from (value,) if isinstance(value, str) else (str(stop) for stop in value)


def _extra(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that the dataset passes on as they are. (Those of the model's entry are the model's own business.)"""
    found = {name: value for name in _PASSED_ON if (value := stated(name, options)) is not None}
    for home in list(_homes(options))[1:]:
        found |= {key: value for key, value in home.items() if key not in _NOT_SAMPLING and key not in found}
    return found
