"""From the name and options of an inferencer in a config to the inferencer itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rolecall.checking import OptionReader, argument_problems
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.inferencers.losses import DECIDE_BY, SWCELossInferencer
from rolecall.experiment.opening.sampling import check_sampling, check_stops, find_option, sampling_of
from rolecall.experiment.opening.tasks import INFERENCERS
from rolecall.usercode import user_code


def build_inferencer(
    name: str,
    options: Mapping[str, Any],
    *,
    entry: Mapping[str, Any],
    infer_mode: Any = 'every',
    samples: int | None = None,
    extract: Callable[[str], Any] | None = None,
    own: Any = None,
) -> Inferencer:
    """The inferencer of a dataset for the model of an entry. Everything wrong with its options is reported at once.

    `own` is the user's own: an object, or a class that is called with those options it takes; `sampling`, `samples` and
    `extract` (the postprocessor) are offered, too.

    >>> build_inferencer('GenInferencer', {'max_out_len': 8}, entry={'max_out_len': 512}).needs
    ('generate',)
    """
    inferencer = INFERENCERS.get(name) if own is None else own
    if inferencer is None:
        names = ', '.join(INFERENCERS)
        raise ConfigError(Problem('', f'{name} can be previewed, but not run.', f'These can be run: {names}.'))
    problems = [*_check_options(options), *check_stops(options, entry), *check_sampling(options, entry)]
    if problems:
        raise ConfigError(problems)
    before = options.get('normalizing_str')
    offered = {
        **options,
        'sampling': sampling_of(options, entry),
        'samples': samples
        or find_option('sc_size', options)
        or find_option('num_return_sequences', options, entry)
        or 1,
        'extract': extract or str.strip,
        'infer_mode': infer_mode,
        'decide_by': options.get('decide_by') or ('whole' if before is None else 'normalised'),
        'normalizing_str': before,
        'single_token': options.get('single_token', True),
    }
    return _make(name, inferencer, offered) if isinstance(inferencer, type) else inferencer


def _make(name: str, kind: type[Any], offered: Mapping[str, Any]) -> Inferencer:
    """The class called with what it takes of the options, the model's sampling among them."""
    wanted = inspect.signature(kind).parameters
    accepted = {option: value for option, value in offered.items() if option in wanted}
    if problems := argument_problems(kind, accepted, name=name):
        raise ConfigError(problems)
    with user_code(f'making the inferencer {name}', where=''):
        inferencer: Inferencer = kind(**accepted)
    return inferencer


def _check_options(options: Mapping[str, Any]) -> list[Problem]:
    reader = OptionReader(options)
    reader.one_of('truncate')
    decide_by = reader.one_of('decide_by', DECIDE_BY)
    if options.get('normalizing_str') is None and decide_by in ('normalised', 'normalised_sum'):
        reader.refuse('decide_by', f'{decide_by} needs a normalizing_str.', "Give one, '\\n' for instance.")
    reader.text('normalizing_str')
    reader.whole('max_seq_len')
    size = reader.whole('block_size') or SWCELossInferencer().block_size
    if (stride := reader.whole('stride')) is not None and stride > size:
        reader.refuse('stride', f'windows of {size} tokens that move by {stride} leave tokens out.', 'Make it smaller.')
    if not isinstance(options.get('output_schema'), (Mapping, type(None))):
        remedy = "Write it as a dict: {'type': 'object', 'properties': {…}}."
        reader.refuse('output_schema', f'must be a JSON Schema, got {options["output_schema"]!r:.60}.', remedy)
    return reader.problems
