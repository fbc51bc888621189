"""From the name and options of an inferencer in a config to the inferencer itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.inferencers.generation import GenInferencer, MultiTurnGenInferencer, SCInferencer
from rolecall.inferencers.inferencer import Inferencer
from rolecall.inferencers.likelihood import CLPInferencer, LLInferencer
from rolecall.inferencers.losses import DECIDE_BY, DecideBy
from rolecall.inferencers.perplexity import PPLInferencer, PPLOnlyInferencer
from rolecall.pairs.sampling import sampling_of, stated, wrong_sampling, wrong_stops

__all__ = ['build_inferencer']

_SIDES = ('left', 'middle', 'right')
_BY_NAME = {
    'GenInferencer': 'gen',
    'ParallelGenInferencer': 'gen',
    'LMMGenInferencer': 'gen',
    'ChatMLInferencer': 'gen',
    'BFCLV3FunctionCallInferencer': 'gen',
    'SCInferencer': 'votes',
    'PPLInferencer': 'labels',
    'PPLOnlyInferencer': 'whole',
    'LLInferencer': 'likelihood',
    'CLPInferencer': 'choices',
    'MultiTurnGenInferencer': 'turns',
    'ChatInferencer': 'turns',
    'ParallelChatInferencer': 'turns',
}


def build_inferencer(
    name: str,
    options: Mapping[str, Any],
    *,
    entry: Mapping[str, Any],
    infer_mode: Any = 'every',
    samples: int | None = None,
    extract: Callable[[str], Any] | None = None,
) -> Inferencer:
    """The inferencer of a dataset for the model of an entry. Everything wrong with its options is reported at once.

    >>> build_inferencer('GenInferencer', {'max_out_len': 8}, entry={'max_out_len': 512}).needs
    ('generate',)
    """
    kind = _BY_NAME.get(name)
    if kind is None:
        known = ', '.join(_BY_NAME)
        raise ConfigError(Problem('', f'{name} can be previewed, but not run.', f'These can be run: {known}.'))
    problems = [*_wrong_options(options), *wrong_stops(options, entry), *wrong_sampling(options, entry)]
    if problems:
        raise ConfigError(problems)
    drawn = sampling_of(options, entry)
    count = samples or stated('sc_size', options) or stated('num_return_sequences', options, entry) or 1
    match kind:
        case 'gen':
            return GenInferencer(drawn, count)
        case 'votes':
            return SCInferencer(drawn, count, extract or str.strip)
        case 'turns':
            return MultiTurnGenInferencer(drawn, infer_mode)
        case 'labels':
            before = options.get('normalizing_str')
            decide_by: DecideBy = options.get('decide_by') or ('whole' if before is None else 'normalised')
            return PPLInferencer(decide_by, before)
        case 'whole':
            return PPLOnlyInferencer()
        case 'likelihood':
            return LLInferencer()
        case _:
            return CLPInferencer(options.get('single_token', True))


def _wrong_options(options: Mapping[str, Any]) -> list[Problem]:
    problems = []
    truncate, decide_by = options.get('truncate'), options.get('decide_by')
    before, limit = options.get('normalizing_str'), options.get('max_seq_len')
    if truncate is not None and truncate not in _SIDES:
        problems.append(Problem('truncate', f'unknown side {truncate!r}.', did_you_mean(truncate, _SIDES)))
    if decide_by is not None and decide_by not in DECIDE_BY:
        problems.append(Problem('decide_by', f'unknown loss {decide_by!r}.', did_you_mean(decide_by, DECIDE_BY)))
    if before is not None and not isinstance(before, str):
        problems.append(Problem('normalizing_str', f'expected a text, got {before!r:.60}.'))
    if before is None and decide_by in ('normalised', 'normalised_sum'):
        problems.append(Problem('decide_by', f'{decide_by} needs a normalizing_str.', "Give one, '\\n' for instance."))
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        problems.append(Problem('max_seq_len', f'{limit!r} is not a number of tokens.'))
    return problems
