"""Drawing words for the plots: elements with everything escaped, and axes with round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from rolecall.report.palette import SERIES
from rolecall.strings import printable

__all__ = ['Scale', 'drawing', 'element', 'link_to_rows', 'marker', 'shown', 'text', 'ticks']

_SHAPES = 4
_LEAST = 1e-9


def element(name: str, *children: str, **attributes: object) -> str:
    """One element; children are markup, attribute values are escaped. `class_` and `text_anchor` mean what they say."""
    given = ''.join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f'<{name}{given}>{"".join(children)}</{name}>'


def _value(value: object) -> str:
    return f'{value:.1f}'.removesuffix('.0') if isinstance(value, float) else shown(str(value))


def shown(words: str) -> str:
    """Words as markup: nothing in them acts on the page or turns its direction."""
    return escape(printable(words))


def text(words: str, x: str, y: float, **attributes: object) -> str:
    """Words at a place."""
    return element('text', shown(words), x=x, y=y, **attributes)


def drawing(height: float, *children: str, title: str = '', class_: str = '') -> str:
    """A drawing as wide as there is room, with a title for those who do not see it."""
    role = 'group' if any('<a ' in child for child in children) else 'img'
    named = {'role': role, 'aria_label': title} if title else {'aria_hidden': 'true'}
    return element('svg', *children, width='100%', height=height, class_=class_, **named)


def link_to_rows(drawn: str, **filters: str) -> str:
    """The drawing as a link to the rows it stands for."""
    return element('a', drawn, href='#' + urlencode(filters, errors='replace'))


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`.

    >>> ticks(0.31, 0.87)
    [0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = max(high - low, abs(high) / 1000, abs(low) / 1000)
    span = span if span > _LEAST else 1.0
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers along the width of a drawing, in percent, between two margins."""

    at: tuple[float, ...]
    left: float = 2.0
    right: float = 97.0

    def x(self, number: float) -> str:
        """Where a number stands."""
        share = (number - self.at[0]) / (self.at[-1] - self.at[0])
        return f'{self.left + share * (self.right - self.left):.2f}%'

    def grid(self, height: float) -> str:
        """A line for each round number."""
        return ''.join(
            element('line', x1=self.x(number), x2=self.x(number), y1=0, y2=height, class_='grid') for number in self.at
        )

    def axis(self) -> str:
        """The round numbers themselves."""
        numbers = (text(f'{one:,.10g}', self.x(one), 12, class_='tick', text_anchor='middle') for one in self.at)
        return drawing(18, *numbers)


def marker(number: int, x: str, y: float, size: float = 4.5) -> str:
    """The mark of the model with this number: hue and shape change together, so neither is needed alone."""
    hue, shape = f'c{number % len(SERIES)}', number % _SHAPES
    if shape == 0:
        return element('circle', cx=x, cy=y, r=size, class_=hue)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
        3: ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    }[shape]
    points = ' '.join(f'{dx * size * 0.9:.1f},{dy * size * 0.9:.1f}' for dx, dy in corners)
    return element('svg', element('polygon', points=points, class_=hue), x=x, y=y, overflow='visible')
