"""Beside a published number: what stored replies come to if they are read or counted in other ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from rolecall.errors import RolecallError
from rolecall.insight.claims import Claim
from rolecall.insight.scored_mixes import score_results
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.postprocessors import read_postprocessor

_OTHER_READERS = (
    *('stated_number_postprocess', 'gsm8k_postprocess', 'first_number_postprocess'),
    *(
        'first_capital_postprocess',
        'last_capital_postprocess',
        'stated_expression_postprocess',
        'stated_text_postprocess',
    ),
)
"""Readers that a published number may rest on."""
_AS_SCORED = 'as scored'


def read_otherwise(claim: Claim, number: float) -> list[tuple[str, float]]:
    """What the stored replies come to if they are read or counted in other ways, the nearest to a number first."""
    results, fields = [row.result for row in claim.rows], [row.fields for row in claim.rows]
    values = dict((claim.card and claim.card.further) or {})
    if claim.scorer is not None and results:
        for name, scorer in _other_scorers(claim.scorer):
            with suppress(RolecallError):
                if (value := score_results(scorer, results, fields).value) is not None:
                    values[name] = value
        finished = [at for at, result in enumerate(results) if not result.is_cut]
        if 0 < len(finished) < len(results):
            some = [results[at] for at in finished], [fields[at] for at in finished]
            values['cut answers left out'] = score_results(claim.scorer, *some).value or 0.0
    other = {name: value for name, value in values.items() if name == _AS_SCORED or value != values.get(_AS_SCORED)}
    return sorted(other.items(), key=lambda entry: abs(entry[1] - number))


def _other_scorers(scorer: DatasetScorer) -> Iterator[tuple[str, DatasetScorer]]:
    yield _AS_SCORED, scorer
    for policy in ('exclude', 'wrong'):
        yield f'unparsed: {policy}', replace(scorer, unparsed=policy)
        yield f'failures: {policy}', replace(scorer, failures=policy)
    reader = next(iter(scorer.readers.values()))
    for name in _OTHER_READERS:
        extract = read_postprocessor(name, where='reader')
        yield f'read by {name}', replace(scorer, readers={'': replace(reader, extract=(extract,))})
