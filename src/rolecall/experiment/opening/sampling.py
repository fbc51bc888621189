"""How answers are drawn: what a dataset's inferencer asks for, over what the model's entry says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from rolecall.checking import OptionReader, Problems, expected
from rolecall.config_keys import KEYS, keys_of
from rolecall.errors import Problem
from rolecall.models.protocol import Sampling

REPLY_LENGTHS = ('max_out_len', 'max_new_tokens', 'max_tokens', 'max_completion_tokens')
_HOMES = ('generation_kwargs', 'gen_config', 'query_kwargs')
_STOPS = ('stopping_criteria', 'stop_words', 'stop')
_NAMED = ('min_out_len', 'temperature', 'top_p', 'top_k', 'seed')
_PASSED_ON = (
    *('min_p', 'presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'response_format'),
    *('reasoning_effort', 'tools', 'tool_choice'),
)
_CHECKED = (*REPLY_LENGTHS, *_NAMED, 'min_p', 'sc_size', 'num_return_sequences')
"""Numbers, whose bounds are declared with their keys."""
SAMPLING_OPTIONS = keys_of('sampling')
"""Everything that says how answers are drawn."""
_MISSPELT = 0.9
_NOT_SAMPLING = (*REPLY_LENGTHS, *_STOPS, *_NAMED, 'do_sample', 'num_return_sequences', 'n')


def sampling_of(options: Mapping[str, Any], entry: Mapping[str, Any]) -> Sampling:
    """The sampling for a dataset's inferencer options and a model's entry; the dataset's setting wins.

    >>> found = sampling_of({'max_out_len': 8}, {'max_out_len': 512, 'generation_kwargs': {'do_sample': False}})
    >>> found.max_out_len, found.temperature
    (8, 0.0)
    """
    named = {name: find_option(name, options, entry) for name in _NAMED}
    if named['temperature'] is None and find_option('do_sample', options, entry) is False:
        named['temperature'] = 0.0
    lengths = (find_option(name, *places) for places in ((options,), (entry,)) for name in REPLY_LENGTHS)
    homes = [home for place in (options, entry) for home in _homes(place)]
    stops = [home.get(key) or () for home in homes for key in _STOPS]
    texts = [[value] if isinstance(value, str) else value for value in stops if isinstance(value, str | list | tuple)]
    # What the dataset passes on as it is. (Further parameters of the model's entry are the model's own business.)
    extra = {name: value for name in _PASSED_ON if (value := find_option(name, options)) is not None}
    if options.get('output_schema') is not None:
        extra['json_schema'] = options['output_schema']
    for home in list(_homes(options))[1:]:
        extra |= {key: value for key, value in home.items() if key not in _NOT_SAMPLING and key not in extra}
    return Sampling(
        max_out_len=next((length for length in lengths if length is not None), None),
        stop=tuple(dict.fromkeys(str(stop) for stops in texts for stop in stops)),
        extra=extra,
        **named,
    )


def find_option(name: str, *places: Mapping[str, Any]) -> Any:
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


def check_stops(*places: Mapping[str, Any]) -> list[Problem]:
    """Stops that are neither a string nor a list.

    >>> print(*check_stops({'stopping_criteria': 5}))
    stopping_criteria
      expected a string or a list of strings, got 5.
      Write stopping_criteria=['\\n\\n'], for instance.
    """
    return [
        expected(key, 'a string or a list of strings', home[key], f"Write {key}=['\\n\\n'], for instance.")
        for place in places
        for home in _homes(place)
        for key in _STOPS
        if home.get(key) is not None and not isinstance(home[key], (str, list, tuple))
    ]


def check_sampling(*places: Mapping[str, Any]) -> list[Problem]:
    """Sampling parameters that cannot be used.

    >>> print(*check_sampling({'sc_size': 0}, {'generation_kwargs': {'top_p': 5}}), sep='\\n')
    sc_size
      expected a whole number of at least 1, got 0.
      Write sc_size=1 or more, or leave it out.
    generation_kwargs.top_p
      expected a number from 0 to 1, got 5.
      Write top_p=0.5, for instance, or leave it out.
    """
    problems = Problems()
    for place in places:
        homes = {'': place, **{key: place[key] for key in _HOMES if isinstance(place.get(key), Mapping)}}
        for where, home in homes.items():
            reader = OptionReader(home, where, problems=problems)
            for key in _CHECKED:
                if KEYS[key].kind == 'whole':
                    reader.whole(key, remedy=f'Write {key}={KEYS[key].least} or more, or leave it out.')
                else:
                    reader.number(key, remedy=f'Write {key}=0.5, for instance, or leave it out.')
            problems.items.extend(_find_misspelt(where, home) if where else ())
    return problems.items


def _find_misspelt(where: str, home: Mapping[str, Any]) -> Iterator[Problem]:
    """Parameters that are almost a known one. Others may be the server's own, and are passed on."""
    for key in home:
        close = get_close_matches(str(key), SAMPLING_OPTIONS, n=1, cutoff=_MISSPELT)
        if close and key not in SAMPLING_OPTIONS:
            yield Problem(f'{where}.{key}', f'unknown key {key!r}.', f'Did you mean {close[0]!r}?')


def check_repeats(entry: Mapping[str, Any]) -> list[Problem]:
    """Whether a dataset's entry says how often each row is asked, in a way that can be used.

    >>> print(*check_repeats({'n': '4'}))
    n
      expected a whole number of at least 1, got '4'.
      Write how often each row is asked: n=4.
    """
    reader = OptionReader(entry)
    reader.whole('n', least=1, remedy='Write how often each row is asked: n=4.')
    return reader.problems
