"""Evaluators and postprocessors of OpenCompass and AISBench by name, from `evaluator_names.tsv`.

Each line names what reads as we do, what reads as OpenCompass does where that is another, and AISBench's where the two
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from rolecall.plain_files import read_table

_COLUMNS = ('kind', 'name', 'own', 'opencompass', 'aisbench')
_NAMES = [dict(zip_longest(_COLUMNS, cells, fillvalue='')) for cells in read_table(__file__)]


def _parts(system: str, kind: str = '') -> dict[str, str]:
    """By name, the path of what reads as a system does; only the names that have an own one there."""
    return {
        entry['name']: f'rolecall.{entry[system]}' for entry in _NAMES if entry[system] and kind in ('', entry['kind'])
    }


METRICS: Mapping[str, str] = _parts('own', 'metric')
POSTPROCESSORS: Mapping[str, str] = _parts('own', 'postprocessor')
MEANINGS: Mapping[str, Mapping[str, str]] = {
    'opencompass': _parts('opencompass'),
    'aisbench': {**_parts('opencompass'), **_parts('aisbench')},
}
"""By system, the names whose own reading is another than ours, and what reads as that system does."""

CODE_METRICS = frozenset(name for name, path in METRICS.items() if path.startswith('rolecall.scoring.code.'))

ALWAYS_OURS = CODE_METRICS | {
    *('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator', 'CascadeEvaluator'),
    *('MultiTurnEvaluator', 'CharmMemoryEvaluator'),
}
"""Judges and metrics that run code: ours even if another system's class is installed."""

UNSUPPORTED: Mapping[str, str] = {
    'SciCodeEvaluator': 'it runs model-written code',
    'CIBenchEvaluator': 'it runs model-written code',
    'TEvalEvaluator': 'it belongs to one benchmark',
}
"""Evaluators that configs name but rolecall does not implement, with the reason."""
