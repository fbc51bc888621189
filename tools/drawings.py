"""Draws the pictures of docs/concepts.md: the way of a row, and a prompt by origin, which is a real preview.

`python tools/drawings.py` writes docs/images/way-of-a-row.svg and docs/images/prompt-by-origin.svg. Each is a card with
its own background, light or dark as the reader's system is, so that it can be read on any page.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'src'))

import rolecall  # noqa: E402

IMAGES = ROOT / 'docs' / 'images'
STYLE = """
  text { fill: #1c2230; font: 13px system-ui, sans-serif; }
  .card { fill: #ffffff; stroke: #d0d4dc; }
  .box { fill: #eef1f8; stroke: #8a94ad; }
  .core { fill: #fdf0d9; stroke: #c98a1b; }
  .reader { fill: #e6f4ee; stroke: #2f9270; }
  .name { font-weight: 600; }
  .small, .tag { font-size: 11px; }
  .mono { font: 13px ui-monospace, monospace; }
  .line { stroke: #5b6578; fill: none; stroke-width: 1.5; }
  .dash { stroke-dasharray: 4 3; }
  marker path { fill: #5b6578; }
  .text { fill: #1c2230; } .field { fill: #0069a8; } .shot { fill: #00704f; } .marker { fill: #9a5b00; }
  @media (prefers-color-scheme: dark) {
    text, .text { fill: #e6e9f0; }
    .card { fill: #1b1f2a; stroke: #3a4256; }
    .box { fill: #262d3d; stroke: #76809b; }
    .core { fill: #3a2f19; stroke: #d9a441; }
    .reader { fill: #1d332b; stroke: #4fb58f; }
    .line { stroke: #9aa5bd; }
    marker path { fill: #9aa5bd; }
    .field { fill: #7cc4f5; } .shot { fill: #5fd3aa; } .marker { fill: #f0b95a; }
  }
"""
BOXES = {
    'row': (20, 40, 140, 'a row', 'datasets', 'box'),
    'shots': (20, 130, 140, 'examples', 'retriever', 'box'),
    'template': (20, 220, 140, 'prompt template', 'what to ask', 'box'),
    'meta': (20, 310, 140, 'model format', 'how to ask', 'box'),
    'program': (225, 175, 120, 'program', 'compiled once', 'core'),
    'request': (400, 175, 130, 'request', 'with spans', 'core'),
    'reply': (600, 175, 110, 'reply', 'model', 'box'),
    'answer': (740, 175, 120, 'answer', 'postprocessor', 'box'),
    'score': (740, 310, 120, 'score', 'evaluator', 'box'),
    'view': (385, 30, 160, 'view, lint, web', 'before anything is sent', 'reader'),
    'price': (385, 310, 160, 'dry run, export', 'tokens, price, training', 'reader'),
    'store': (600, 310, 110, 'store', 'found by hash', 'reader'),
}
"""Each box: left, top, width, name, what makes it, class."""
ARROWS = (
    *(('row', 'program'), ('shots', 'program'), ('template', 'program'), ('meta', 'program'), ('program', 'request')),
    *(('request', 'reply'), ('reply', 'answer'), ('answer', 'score')),
)
TAKES = (('request', 'view'), ('request', 'price'), ('reply', 'store'))
HEIGHT, STEP = 50, 19


def draw_way() -> str:
    """Boxes and arrows from a row to its score."""
    body = [_arrow(start, end, '') for start, end in ARROWS] + [_arrow(start, end, ' dash') for start, end in TAKES]
    for left, top, width, name, maker, kind in BOXES.values():
        middle = left + width / 2
        body += [
            f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{HEIGHT}" rx="6"/>',
            f'<text class="name" x="{middle}" y="{top + 22}" text-anchor="middle">{name}</text>',
            f'<text class="small" x="{middle}" y="{top + 39}" text-anchor="middle">{maker}</text>',
        ]
    return _card(880, 400, 'The way of a row, from the dataset to its score', body)


def _arrow(start: str, end: str, kind: str) -> str:
    left, top, width, *_ = BOXES[start]
    to_left, to_top, to_width, *_ = BOXES[end]
    if to_left >= left + width:
        points = (left + width, top + HEIGHT / 2, to_left - 3, to_top + HEIGHT / 2)
    elif to_top > top:
        points = (left + width / 2, top + HEIGHT, to_left + to_width / 2, to_top - 3)
    else:
        points = (left + width / 2, top, to_left + to_width / 2, to_top + HEIGHT + 3)
    x1, y1, x2, y2 = points
    return f'<path class="line{kind}" marker-end="url(#head)" d="M{x1} {y1} L{x2} {y2}"/>'


def draw_prompt() -> str:
    """A five-line prompt of a real preview, every piece in the colour of its origin."""
    lines: list[list[tuple[str, str]]] = [[]]
    for span in _preview().spans:
        kind = span.origin.kind if span.origin.kind in ('text', 'field') else 'marker'
        kind = 'shot' if span.origin.shot is not None and kind != 'marker' else kind
        for index, piece in enumerate(span.text.split('\n')):
            if index:
                lines[-1].append(('⏎', kind))
                lines.append([])
            if piece:
                lines[-1].append((piece, kind))
    body = [
        f'<text class="mono" x="24" y="{40 + number * STEP}" xml:space="preserve">'
        + ''.join(f'<tspan class="{kind}">{html.escape(piece)}</tspan>' for piece, kind in line)
        + '</text>'
        for number, line in enumerate(lines)
    ]
    legend = (
        ('marker', 'model format'),
        ('text', 'your template'),
        ('shot', 'an in-context example'),
        ('field', 'a field of the row'),
    )
    for number, (kind, meaning) in enumerate(legend):
        body.append(
            f'<text class="tag" x="520" y="{40 + number * STEP}"><tspan class="{kind}">■ {meaning}</tspan></text>'
        )
    return _card(700, 36 + len(lines) * STEP, 'A prompt, every piece in the colour of its origin', body)


def _preview() -> rolecall.Preview:
    speeches = [{'role': 'HUMAN', 'prompt': 'Review: {review}'}, {'role': 'BOT', 'prompt': '{label}'}]
    config = {
        'models': [{'abbr': 'chat', 'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': 'chatml'}],
        'datasets': [
            {
                'abbr': 'reviews',
                'type': 'Rows',
                'train': [{'review': 'Every scene earns its place.', 'label': 'good'}],
                'test': [{'review': 'Boring and far too long.', 'label': 'bad'}],
                'reader_cfg': {'input_columns': ['review'], 'output_column': 'label'},
                'infer_cfg': {
                    'ice_template': {'type': 'PromptTemplate', 'template': {'round': speeches}},
                    'prompt_template': {
                        'type': 'PromptTemplate',
                        'ice_token': '</E>',
                        'template': {
                            'begin': [
                                {'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Say good or bad.'},
                                '</E>',
                            ],
                            'round': speeches,
                        },
                    },
                    'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]},
                    'inferencer': {'type': 'GenInferencer'},
                },
            }
        ],
    }
    return next(iter(rolecall.preview(config)))


def _card(width: int, height: int, title: str, body: list[str]) -> str:
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    head = f'<marker id="head" {size} orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    return '\n'.join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
            f'<title>{title}</title><style>{STYLE}</style><defs>{head}</defs>',
            f'<rect class="card" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>',
            *body,
            '</svg>\n',
        )
    )


DRAWINGS = {'way-of-a-row.svg': draw_way, 'prompt-by-origin.svg': draw_prompt}

if __name__ == '__main__':
    for name, draw in DRAWINGS.items():
        (IMAGES / name).write_text(draw(), encoding='utf-8')
