"""`--set PATH=VALUE`: one value of a config, changed by its place.

A path is written with dots: `datasets.*.infer_cfg.inferencer.max_out_len`, `models.gpt-4.1-mini.temperature`,
`datasets[0].abbr`. In a list, a step is an index, an abbr, or a pattern of abbrs. Only the dicts and lists on the way
are copied, so that everything else still knows the line it was written on.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rolecall.config_keys import MODEL_PLACES, keys_of
from rolecall.errors import ConfigError, Problem, close_match, did_you_mean
from rolecall.experiment.opening.model_entries import model_abbr
from rolecall.experiment.opening.tasks import dataset_abbr

_STEP = re.compile(r'\[([^\]]*)\]|([^.\[\]]+)')
_MISSPELT = 0.8
_PARTS = ('inferencer', 'retriever', 'evaluator', 'prompt_template', 'ice_template', 'pred_postprocessor')
"""Entries that may be written as a bare type, or left out: setting an option of one makes it a dict."""
_CONTAINERS = (
    *_PARTS,
    'reader_cfg',
    'infer_cfg',
    'eval_cfg',
    'generation_kwargs',
    'model_kwargs',
    'extra_body',
    'lint',
)
_KNOWN: Mapping[str, Collection[str]] = {
    'inferencer': keys_of('inferencer', 'sampling'),
    'infer_cfg': keys_of('infer'),
    'retriever': keys_of('retriever'),
    'eval_cfg': keys_of('eval'),
    'reader_cfg': keys_of('reader'),
    'datasets': keys_of('dataset'),
    'models': keys_of('sampling', *(place for places in MODEL_PLACES.values() for place in places)),
}
"""Keys that are known at a place, besides those that are there: a new key close to one of them is a slip."""


def parse_setting(text: str) -> tuple[str, Any]:
    """A path and a value.

    >>> parse_setting('models.*.temperature=0.2'), parse_setting('datasets.qa.abbr=small')
    (('models.*.temperature', 0.2), ('datasets.qa.abbr', 'small'))
    """
    path, equals, value = text.partition('=')
    if not equals or not path.strip():
        what = f'{text!r} is not PATH=VALUE.'
        raise ConfigError(Problem('--set', what, 'Write it like models.*.temperature=0.2.'))
    return path.strip(), parse_value(value)


def parse_value(text: str) -> Any:
    """A value as typed: JSON, a Python literal, or the text itself.

    >>> [parse_value(text) for text in ('64', 'true', "['a']", 'None', 'a b')]
    [64, True, ['a'], None, 'a b']
    """
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def set_value(config: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The config with one value changed, at every place that the path names.

    >>> config = {'models': [{'abbr': 'a'}, {'abbr': 'b'}]}
    >>> set_value(config, 'models.*.temperature', 0)
    {'models': [{'abbr': 'a', 'temperature': 0}, {'abbr': 'b', 'temperature': 0}]}
    >>> set_value(config, 'models.a.temperatur', 0)
    Traceback (most recent call last):
    rolecall.errors.ConfigError: --set models.a.temperatur
      unknown key 'temperatur'.
      Did you mean 'temperature'?
    """
    steps = [bracketed or plain for bracketed, plain in _STEP.findall(path)]
    if not steps or _STEP.sub('', path).strip('.'):
        raise ConfigError(Problem(f'--set {path}', 'not a path.', 'Write it like models.*.temperature=0.2.'))
    try:
        changed: dict[str, Any] = dict(config)
        for head in _heads(config, steps[0]):
            changed[head] = _set(config.get(head), steps[1:], value, head) if len(steps) > 1 else value
    except ConfigError as error:
        raise ConfigError(
            Problem(f'--set {path}', problem.what, problem.remedy) for problem in error.problems
        ) from None
    return changed


def _heads(config: Mapping[str, Any], name: str) -> Iterator[str]:
    """The top-level names that a first step means: `datasets` also means every list called `…_datasets`."""
    lists = [key for key in config if name == 'datasets' and key.endswith('_datasets')]
    if name in config or not lists:
        _refuse_misspelt(name, config, ('datasets', 'models'))
        yield name
    else:
        yield from lists


def _set(here: Any, steps: Sequence[str], value: Any, place: str) -> Any:
    """What stands at a place, with the value set further in."""
    if isinstance(here, list | tuple):
        return _set_in_list(here, steps, value, place)
    if place in _PARTS and here is not None and not isinstance(here, Mapping):
        here = {'type': here}
    if here is None:
        here = {}
    if not isinstance(here, Mapping):
        raise ConfigError(Problem('', f'{place} is {here!r:.60}, not a dict.'))
    step, rest = steps[0], steps[1:]
    known_keys = _KNOWN.get(place, ())
    if any(mark in step for mark in '*?'):
        keys = [key for key in here if fnmatch.fnmatchcase(str(key), step)]
        if not keys:
            raise ConfigError(Problem('', f'no key of {place} matches {step!r}.', did_you_mean(step, here)))
    else:
        _refuse_misspelt(step, here, known_keys)
        if rest and step not in here and step not in _CONTAINERS:
            raise ConfigError(Problem('', f'{place} has no {step!r}.', did_you_mean(step, [*here, *known_keys])))
        keys = [step]
    return {**here, **{key: _set(here.get(key), rest, value, str(key)) if rest else value for key in keys}}


def _set_in_list(here: Sequence[Any], steps: Sequence[str], value: Any, place: str) -> list[Any]:
    abbr = model_abbr if place == 'models' else dataset_abbr
    names = [abbr(entry) if isinstance(entry, Mapping) else '' for entry in here]
    for length in range(len(steps), 0, -1):  # an abbr may have dots in it
        chosen = list(_choose(names, '.'.join(steps[:length])))
        if chosen:
            rest = steps[length:]
            inner = 'models' if place.endswith('models') else 'datasets' if place.endswith('datasets') else ''
            return [
                (_set(entry, rest, value, inner) if rest else value) if i in chosen else entry
                for i, entry in enumerate(here)
            ]
    what = f'nothing in {place} is called {steps[0]!r}.' if here else f'{place} is empty.'
    raise ConfigError(Problem('', what, did_you_mean(steps[0], filter(None, names)) if any(names) else ''))


def _choose(names: Sequence[str], step: str) -> Iterator[int]:
    for i, name in enumerate(names):
        if step == name or step == str(i) or fnmatch.fnmatchcase(name, step) or step == '*':
            yield i


def _refuse_misspelt(key: str, here: Mapping[str, Any], keys: Collection[str]) -> None:
    if key in here or key in keys:
        return
    close = close_match(key, [*here, *keys], cutoff=_MISSPELT)
    if close is not None:
        raise ConfigError(Problem('', f'unknown key {key!r}.', f"Did you mean '{close}'?"))
