"""A sweep as one HTML page: models by variant, their ranks, and each axis' share of the variance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.ui.report.curves import CurvePoint, curve_plot
from rolecall.ui.report.page import make_environment, page_head

_WIDEST = 6
"""Variants that are named along a plot; of more, their numbers in the table."""


def sweep_page(swept: Sequence[Mapping[str, Any]]) -> str:
    """The whole page, from what `Swept.as_json` gives for each dataset × model."""
    by_dataset: dict[str, list[Mapping[str, Any]]] = {}
    for each in swept:
        if each['rows']:
            by_dataset.setdefault(each['dataset'], []).append(each)
    sections = [{'name': name, **_section(models)} for name, models in by_dataset.items()]
    head = page_head('How much of a score is the wording', '')
    return make_environment().get_template('sweep.html').render(**head, sections=sections)


def _section(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [name for name in models[0]['variants'] if all(name in model['variants'] for model in models)]
    labels = names if len(names) <= _WIDEST else [str(number) for number in range(1, len(names) + 1)]
    factor = 100 if models[0]['percent'] else 1
    scores = {model['model']: [factor * model['variants'][name] for name in names] for model in models}
    ranks = rank_models(scores)
    return {
        'lines': [model['line'] for model in models],
        'curves': list(_draw(scores, ranks, names, labels)),
        'models': list(scores),
        'rows': [
            (number, name, [(f'{own[number - 1]:.1f}', ranks[model][number - 1]) for model, own in scores.items()])
            for number, name in enumerate(names, 1)
        ],
        'shares': [
            (model['model'], [(axis, 100 * share) for axis, share in model['shares'].items()]) for model in models
        ],
    }


def rank_models(scores: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
    """The rank of each model under each variant; equal scores share the better one.

    >>> rank_models({'a': [2.0, 1.0], 'b': [1.0, 1.0]})
    {'a': [1, 1], 'b': [2, 1]}
    """
    by_variant = list(zip(*scores.values(), strict=True))
    return {
        model: [1 + sum(other > score for other in others) for score, others in zip(own, by_variant, strict=True)]
        for model, own in scores.items()
    }


def _draw(
    scores: Mapping[str, Sequence[float]],
    ranks: Mapping[str, Sequence[int]],
    names: Sequence[str],
    labels: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Scores by variant and, of several models, how many others each one beats."""
    drawn = {'Score by variant': scores}
    if len(scores) > 1:
        beaten = {model: [float(len(scores) - rank) for rank in own] for model, own in ranks.items()}
        drawn['Models that it beats, by variant'] = beaten
    for title, series in drawn.items():
        points = {
            model: [CurvePoint(at, value, f'{model}, {names[at]}: {value:.1f}') for at, value in enumerate(values)]
            for model, values in series.items()
        }
        yield curve_plot(title, 'variant', points, labels=labels)
