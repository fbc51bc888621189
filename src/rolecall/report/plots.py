"""The plots of the page: scores with intervals, how rows ended, lengths and latencies.

Everything along the width is in percent, so that plots fill a wide window and still fit a narrow one.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from rolecall.report.counts import VERDICTS, Pair
from rolecall.report.palette import SERIES
from rolecall.report.score_text import OUTCOMES, Grid, denominator, grid_of, interval, score
from rolecall.report.svg import Scale, drawing, element, link_to_rows, marker, shown, text, ticks
from rolecall.scoring.scorecard import Scorecard

__all__ = ['ENDINGS', 'histograms', 'outcome_bars', 'score_plots']

ENDINGS = (*VERDICTS, *(outcome for outcome in OUTCOMES if outcome != 'ok'))
"""How rows end, in the order they are stacked: verdicts on answers, then what is no answer."""

_STEP = 15.0
_PAD = 6.0
_BAR = 18.0
_GAP = 0.12
_BINS = 30
_TALL = 44.0
_TAIL = 0.99


def score_plots(
    cards: Sequence[Scorecard], models: Sequence[str], digits: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Each metric with its dot-and-whisker plot."""
    for metric in dict.fromkeys(card.metric for card in cards):
        own = [card for card in cards if card.metric == metric and _drawable(card.value)]
        if own:
            yield metric, ''.join(_score_plot(own, models, digits[metric]))


def _score_plot(cards: Sequence[Scorecard], models: Sequence[str], digits: int) -> Iterator[str]:
    grid = grid_of(cards)
    ends = [number for card in cards for number in (card.value, card.low, card.high) if _drawable(number)]
    scale = Scale(tuple(ticks(min(ends), max(ends))))
    yield '<div class="dots">'
    for line in grid.lines:
        yield f'<bdi>{shown(line[0])}</bdi>{_band(grid, line, scale, models, digits)}'
    yield f'<span></span>{scale.axis()}</div>'


def _band(grid: Grid, line: tuple[str, str], scale: Scale, models: Sequence[str], digits: int) -> str:
    """The scores of one dataset, a model on each line."""
    found = [card for model in grid.models if (card := grid.card(line, model))]
    height = _STEP * len(found) + 2 * _PAD
    marks = (
        _whisker(card, models.index(card.model), scale, _PAD + _STEP * (place + 0.5), digits)
        for place, card in enumerate(found)
    )
    title = f'{line[0]}: ' + '; '.join(_told(card, digits) for card in found)
    return drawing(height, scale.grid(height), *marks, title=title, class_='scores')


def _told(card: Scorecard, digits: int) -> str:
    return f'{card.model} {score(card, digits)} {interval(card, digits)}, {denominator(card)} scored'


def _whisker(card: Scorecard, number: int, scale: Scale, y: float, digits: int) -> str:
    drawn = [element('title', shown(f'{card.dataset} × {_told(card, digits)}'))]
    if _drawable(card.low) and _drawable(card.high):
        low, high, hue = scale.x(card.low), scale.x(card.high), f'c{number % len(SERIES)} line'
        drawn.append(element('line', x1=low, x2=high, y1=y, y2=y, class_=hue))
        drawn += [element('line', x1=x, x2=x, y1=y - 3, y2=y + 3, class_=hue) for x in (low, high)]
    drawn.append(marker(number, scale.x(card.value or 0.0), y))
    return link_to_rows(element('g', *drawn), dataset=card.dataset, model=card.model)


def outcome_bars(endings: Mapping[Pair, Counter[str]]) -> str:
    """A bar for each dataset × model, cut by how its rows ended."""
    return f'<div class="bars">{"".join(_bars(endings))}</div>'


def _bars(endings: Mapping[Pair, Counter[str]]) -> Iterator[str]:
    before = None
    for pair, counts in endings.items():
        dataset, model = pair
        named, first = (f'<bdi>{shown(dataset)}</bdi>', ' first') if dataset != before else ('', '')
        before = dataset
        title = ', '.join(f'{counts[ending]:,} {OUTCOMES.get(ending, ending)}' for ending in _ordered(counts))
        bar = drawing(_BAR, *_bar(pair, counts), title=f'{dataset} × {model}: {title}', class_=f'outcomes{first}')
        yield f'<span class="of{first}">{named}</span><span class="by{first}"><bdi>{shown(model)}</bdi></span>'
        yield f'{bar}<span class="n{first}">{sum(counts.values()):,}</span>'


def _ordered(counts: Counter[str]) -> list[str]:
    """The endings that occur, known ones first."""
    return [ending for ending in dict.fromkeys([*ENDINGS, *counts]) if counts[ending]]


def _bar(pair: Pair, counts: Counter[str]) -> Iterator[str]:
    total = sum(counts.values())
    x = 0.0
    for ending in _ordered(counts):
        count = counts[ending]
        width = 100 * count / total
        hue = f'e-{ending.replace(" ", "_")}'
        tip = element('title', shown(f'{count:,} of {total:,} {OUTCOMES.get(ending, ending)}'))
        place = {'x': f'{x:.2f}%', 'width': f'{max(width - _GAP, 0.1):.2f}%', 'y': 0, 'height': _BAR}
        box = element('rect', tip, class_=hue, **place)
        words = f'{count:,}'
        roomy = width > 2.4 * len(words) + 0.5
        inside = text(words, f'{x + width / 2:.2f}%', 13, text_anchor='middle', class_=f'on {hue}') if roomy else ''
        yield link_to_rows(box + inside, **_filters(pair, ending))
        x += width


def _filters(pair: Pair, ending: str) -> dict[str, str]:
    chosen = {'outcome': 'ok', 'verdict': ending} if ending in VERDICTS else {'outcome': ending}
    return {'dataset': pair[0], 'model': pair[1], **chosen}


def histograms(name: str, numbers: Mapping[str, array[float]], models: Sequence[str]) -> str:
    """How a measure spreads, one small histogram for each model on a common scale."""
    own = [(models.index(model), model, sorted(numbers[model])) for model in models if numbers.get(model)]
    scale = Scale(tuple(ticks(0.0, max(_quantile(values, _TAIL) for _, _, values in own), about=4)))
    beyond = sum(1 for _, _, values in own for value in values if value > scale.at[-1])
    note = f' ({beyond:,} beyond the scale)' if beyond else ''
    drawn = ''.join(_histogram(number, model, values, scale) for number, model, values in own)
    return f'<figure><figcaption>{name}{note}</figcaption>{drawn}{scale.axis()}</figure>'


def _histogram(number: int, model: str, values: Sequence[float], scale: Scale) -> str:
    top = scale.at[-1]
    middle = _quantile(values, 0.5)
    told = f'median {_brief(middle)} · 95% below {_brief(_quantile(values, 0.95))}'
    counts = Counter(min(int(value / top * _BINS), _BINS - 1) for value in values if value <= top)
    columns = (_column(bin_, count, counts, number, scale) for bin_, count in sorted(counts.items()))
    at = scale.x(min(middle, top))
    line = element('line', x1=at, x2=at, y1=0, y2=_TALL, class_='median')
    floor = element('line', x1='0%', x2='100%', y1=_TALL, y2=_TALL, class_='base')
    plot = drawing(_TALL + 1, scale.grid(_TALL), *columns, floor, line, title=f'{model}: {told}', class_='histogram')
    return f'<p class="measured"><bdi>{shown(model)}</bdi><span>{told}</span></p>{plot}'


def _column(bin_: int, count: int, counts: Counter[int], number: int, scale: Scale) -> str:
    top = scale.at[-1]
    low, high = top * bin_ / _BINS, top * (bin_ + 1) / _BINS
    tall = max(1.0, _TALL * count / max(counts.values()))
    width = (scale.right - scale.left) / _BINS - _GAP
    tip = element('title', shown(f'{_brief(low)} – {_brief(high)}: {count:,} rows'))
    place = {'x': scale.x(low), 'y': _TALL - tall, 'width': f'{width:.2f}%', 'height': tall}
    return element('rect', tip, class_=f'c{number % len(SERIES)} solid', **place)


def _drawable(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _brief(number: float) -> str:
    """A number with as many digits as matter.

    >>> _brief(1234.5), _brief(0.0312)
    ('1,234', '0.031')
    """
    return f'{number:,.0f}' if number >= 10 else f'{number:.2g}'
