"""The viewer's colours on a page: each hue is made darker or lighter until it is readable on its background."""

from __future__ import annotations

from collections.abc import Iterable

LIGHT, DARK = '#ffffff', '#15181c'
SERIES = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#808080')
"""The hues of models."""
ENDINGS = {
    'correct': '#009e73',
    'wrong': '#d55e00',
    'scored': '#56b4e9',
    'not scored': '#9aa0a6',
    'unparsed': '#e69f00',
    'filtered': '#0072b2',
    'too_long': '#cc79a7',
    'truncated_by_server': '#8b2e00',
    'thinking_exhausted': '#f0e442',
    'failed': '#4d4d4d',
}
"""The hues of verdicts and outcomes."""
_READABLE = 4.5
_SEEN = 3.0
_TINT = 0.1
_STEPS = 50
_ATTRIBUTES = {
    'bold': 'font-weight:700',
    'italic': 'font-style:italic',
    'underline': 'text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:.2em',
    'strike': 'text-decoration:line-through',
}
_DIM = '#808080'


def style_sheet(styles: Iterable[str]) -> str:
    """Rules `.s0`, `.s1`, … for styles as rich writes them, for light and dark pages."""
    numbered = list(styles)
    light, dark = (
        ''.join(f'.s{number}{{{css_of_style(style, paper)}}}' for number, style in enumerate(numbered))
        for paper in (LIGHT, DARK)
    )
    return f'{light}@media screen and (prefers-color-scheme:dark){{{dark}}}'


def plot_sheet() -> str:
    """Rules for models (`.c0` …) and for how rows end (`.e-correct` …), for light and dark pages."""
    light, dark = (
        ''.join(
            f'.c{number}{{fill:{shade};stroke:{shade}}}'
            for number, shade in enumerate(readable(hue, paper, ratio=ratio) for hue in SERIES)
        )
        for paper, ratio in ((LIGHT, _SEEN), (DARK, _READABLE))
    )
    ends = ''.join(
        f'.e-{name.replace(" ", "_")}{{fill:{hue};background:{hue};stroke:none}}'
        f'.on.e-{name.replace(" ", "_")}{{fill:{_ink(hue)};color:{_ink(hue)}}}'
        for name, hue in ENDINGS.items()
    )
    return f'{ends}{light}@media screen and (prefers-color-scheme:dark){{{dark}}}'


def css_of_style(style: str, paper: str) -> str:
    """One style as CSS.

    >>> css_of_style('bold #009e73', LIGHT)
    'font-weight:700;color:#007e5c;background:#e6f5f1'
    """
    words = style.split()
    rules = [_ATTRIBUTES[word] for word in words if word in _ATTRIBUTES]
    hue = next((word for word in words if word.startswith('#')), _DIM if 'dim' in words else None)
    if hue is None:
        return ';'.join(rules)
    if 'reverse' in words:
        shade = readable(hue, paper)
        return ';'.join([*rules, f'color:{paper}', f'background:{shade}'])
    ground = paper if hue == _DIM else mix_colours(hue, paper, _TINT)
    return ';'.join([*rules, f'color:{readable(hue, ground)}', f'background:{ground}'])


def readable(hue: str, paper: str, *, ratio: float = _READABLE) -> str:
    """The hue, moved away from the paper's lightness until it can be read on it."""
    shades = (mix_colours(_ink(paper), hue, step / _STEPS) for step in range(_STEPS + 1))
    return next(shade for shade in shades if contrast(shade, paper) >= ratio)


def _ink(paper: str) -> str:
    """Black or white, whichever stands out more."""
    return max(('#000000', '#ffffff'), key=lambda ink: contrast(ink, paper))


def contrast(colour: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21, as WCAG defines it.

    >>> contrast('#000000', '#ffffff')
    21.0
    """
    dark, light = sorted((_luminance(colour), _luminance(other)))
    return round((light + 0.05) / (dark + 0.05), 2)


def mix_colours(colour: str, other: str, share: float) -> str:
    """`share` of one colour and the rest of the other."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return '#' + ''.join(f'{round(a * share + b * (1 - share)):02x}' for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _luminance(colour: str) -> float:
    parts = [channel / 255 for channel in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
