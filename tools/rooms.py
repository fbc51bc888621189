"""Draws the rooms of the house and what imports what, from the source and the import contract.

`tools/house.py write` puts the picture into docs/images/rooms.svg, which CONTRIBUTING.md shows.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from collections import Counter
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / 'src' / 'rolecall'
PICTURE = ROOT / 'docs' / 'images' / 'rooms.svg'
WIDTH, ROW, BOX, GAP = 1000, 96, 44, 14
WAY = ('ui', 'runs', 'experiment', 'runs', 'models')
"""The rooms that one row of a generation run passes on its way to the socket (benchmarks/row_path.py measures it)."""


def read_layers() -> list[tuple[str, list[str]]]:
    """The layers of the import contract, top first: a sentence and the rooms."""
    contracts = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['importlinter']['contracts']
    layers = next(contract for contract in contracts if contract['type'] == 'layers')['layers']
    lines = (ROOT / 'pyproject.toml').read_text().splitlines()
    drawn: list[tuple[str, list[str]]] = []
    for layer in layers:
        [line] = [line for line in lines if line.strip().startswith(f'"{layer}",')]
        rooms, sentence = re.findall(r'\w+', layer), line.partition('#')[2].strip()
        if sentence or not drawn:
            drawn.append((sentence, rooms))
        else:  # the floor: a sentence for all that stands below it
            drawn[-1][1].extend(rooms)
    return drawn


def count_imports() -> Counter[tuple[str, str]]:
    """How many modules of one room import another room."""
    counted: Counter[tuple[str, str]] = Counter()
    for path in SOURCE.rglob('*.py'):
        room = path.relative_to(SOURCE).parts[0].removesuffix('.py')
        targets = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('rolecall.'):
                targets.add((node.module or '').split('.')[1])
        counted.update((room, target) for target in targets if target != room)
    return counted


def draw() -> str:
    layers, imports = read_layers(), count_imports()
    places: dict[str, tuple[float, float, float]] = {}
    body: list[str] = []
    for depth, (sentence, rooms) in enumerate(layers):
        top = 20 + depth * ROW
        body.append(f'<rect class="layer" x="10" y="{top}" width="{WIDTH - 20}" height="{ROW - 16}" rx="8"/>')
        body.append(f'<text class="sentence" x="24" y="{top + 20}">{html.escape(sentence)}</text>')
        width = (WIDTH - 48 - GAP * (len(rooms) - 1)) / len(rooms)
        for i, room in enumerate(rooms):
            places[room] = (24 + i * (width + GAP), top + 34, width)
    for (room, target), count in sorted(imports.items()):
        if room in places and target in places and target not in layers[-1][1]:
            body.append(_arrow(places[room], places[target], count))
    for room, (x, y, width) in places.items():
        files = [*(SOURCE / room).rglob('*.py')] or [SOURCE / f'{room}.py']
        lines = sum(len(path.read_text().splitlines()) for path in files)
        many = f'{len(files)} files, ' if len(files) > 1 else ''
        inner = sorted(path.parent.name for path in (SOURCE / room).glob('*/__init__.py'))
        inside = f' · {", ".join(inner)}' if inner else ''
        body.append(f'<rect class="room" x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX}" rx="6"/>')
        body.append(f'<text class="name" x="{x + width / 2:.0f}" y="{y + 19}">{room}</text>')
        body.append(f'<text class="size" x="{x + width / 2:.0f}" y="{y + 35}">{many}{lines:,} lines{inside}</text>')
    body += _draw_way([places[room] for room in WAY])
    height = 20 + len(layers) * ROW
    return _PAGE.format(width=WIDTH, height=height, body='\n'.join(body))


def _draw_way(stops: list[tuple[float, float, float]]) -> list[str]:
    """Numbered stops joined by a line: the way of one row."""
    points = [(x + width - 16 - 24 * seen, y + BOX / 2) for (x, y, width), seen in _count_visits(stops)]
    line = ' '.join(f'{x:.0f},{y:.0f}' for x, y in points)
    drawn = [f'<polyline class="way" points="{line}"/>']
    for number, (x, y) in enumerate(points, 1):
        drawn.append(f'<circle class="stop" cx="{x:.0f}" cy="{y:.0f}" r="9"/>')
        drawn.append(f'<text class="number" x="{x:.0f}" y="{y + 4:.0f}">{number}</text>')
    return drawn


def _count_visits(
    stops: list[tuple[float, float, float]],
) -> list[tuple[tuple[float, float, float], int]]:
    return [(stop, stops[:i].count(stop)) for i, stop in enumerate(stops)]


def _arrow(start: tuple[float, float, float], end: tuple[float, float, float], count: int) -> str:
    x1, y1, x2, y2 = start[0] + start[2] / 2, start[1] + BOX, end[0] + end[2] / 2, end[1]
    if y1 > y2:
        y1, y2 = start[1] + BOX / 2, end[1] + BOX / 2
    weight = min(3.0, 0.4 + count / 8)
    bend = (y1 + y2) / 2
    curve = f'M{x1:.0f} {y1:.0f} C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f} {y2:.0f}'
    return f'<path class="import" d="{curve}" stroke-width="{weight:.1f}"/>'


_PAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">
<style>
.layer {{ fill: #f4f5f7; }} .room {{ fill: #fff; stroke: #57606a; }}
.name {{ font-size: 15px; font-weight: 600; text-anchor: middle; }}
.size {{ font-size: 11px; fill: #57606a; text-anchor: middle; }} .sentence {{ font-size: 12px; fill: #57606a; }}
.import {{ fill: none; stroke: #0969da; opacity: .22; }}
.way {{ fill: none; stroke: #cf222e; stroke-width: 2; stroke-dasharray: 6 4; }} .stop {{ fill: #cf222e; }}
.number {{ font-size: 11px; fill: #fff; text-anchor: middle; font-weight: 600; }}
</style>
<rect width="{width}" height="{height}" fill="#fff"/>
{body}
</svg>
"""
