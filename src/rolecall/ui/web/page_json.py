"""Requests, scores and rows in the form the page draws.

A request is blocks of spans, each with its style, its label and an explanation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Span
from rolecall.experiment.opening.rows_config import find_question
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.experiment.previews.blocks import blocks_of, facts_of, is_messages
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.config.files import Config
from rolecall.ui.report.counts import verdict_of
from rolecall.ui.report.score_text import FOLD_FROM, denominator, digits_of, grid_of, interval, left_out, score
from rolecall.ui.views.looks import ALL_STYLES, LOOKS, group_of, groups_in, style_of
from rolecall.ui.views.plain import span_text
from rolecall.ui.views.tokens import Counted
from rolecall.ui.web.entry_values import texts_of, write_path

_NUMBERS = {style: number for number, style in enumerate(ALL_STYLES)}
LEGEND = [[group, look.meaning, _NUMBERS[look.style]] for group, look in LOOKS.items()]
"""The groups of origins: name, meaning, number of the style."""
_VALUE = 2000
CHANGED = 'The config now produces a different prompt; this is what was sent, without origins.'
NO_CONFIG = 'Open the config of this run with the page to see origins; this is what was sent.'
_MODEL_KINDS = ('marker', 'default', 'message', 'chat_template')


def preview_as_json(pair: Pair, preview: Preview, config: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the page shows of one request."""
    places = _Places(pair)
    origins = {_origin_key(span.origin, place := places.find(span)): (span.origin, place) for span in preview.spans}
    return {
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'mode': preview.mode,
        'label': None if preview.label is None else str(preview.label),
        'turn': preview.turn,
        'sent': preview.sent,
        'blocks': _blocks_as_json(preview, lambda span: span_as_json(span, places)),
        'explanations': {key: _explain(*origin, pair, preview, config) for key, origin in origins.items()},
        'facts': list(facts_of(preview)),
        'request': preview.request if preview.request is not None else preview.prompt,
        'fingerprint': None if preview.request is None else fingerprint(preview.request),
        'shots': list(preview.shots),
    }


def sent_as_json(preview: Preview, *, changed: bool) -> dict[str, Any]:
    """A stored request without origins: what was sent, and why its origins are not known."""
    return {
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'mode': '',
        'label': None,
        'turn': None,
        'note': CHANGED if changed else NO_CONFIG,
        'blocks': _blocks_as_json(preview, lambda span: {**span_as_json(span), 'label': ['as sent'], 'group': ''}),
        'explanations': {},
        'facts': [],
        'request': preview.request,
    }


def _blocks_as_json(preview: Preview, draw: Callable[[Span], dict[str, Any]]) -> list[dict[str, Any]]:
    headed = is_messages(preview)
    return [
        {
            'heading': block.heading if headed else '',
            'extra': block.extra,
            'spans': [draw(span) for span in block.spans if span.text or span.token is not None],
        }
        for block in blocks_of(preview)
    ]


class _Places:
    """Finds the part of the config that wrote a span, as exactly as the span's text allows."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        infer = pair.task.entry['infer_cfg']
        self._infer = f'{pair.task.where}.infer_cfg'
        self._judge = pair.judge.where if isinstance(pair, JudgePair) else ''
        self._texts = {
            part: [(f'{self._infer}.{part}{write_path(path)}', text) for path, _, text in texts_of(infer.get(part))]
            for part in ('prompt_template', 'ice_template')
        }
        self._paths: dict[tuple[str, str], str] = {}

    def find(self, span: Span) -> str:
        """The path of the value that wrote a span; of a template's text, the very line where it is the only one."""
        origin = span.origin
        if origin.kind in _MODEL_KINDS:
            entry = self.pair.model_entry
            part = 'chat_template' if origin.kind == 'chat_template' else 'meta_template'
            return '' if entry is None else f'{entry.where}.{part}'
        if self._judge:
            return self._judge
        if origin.kind == 'joint':
            return f'{self._infer}.retriever'
        has_own = bool(self._texts['ice_template']) and origin.shot is not None
        part = 'ice_template' if has_own else 'prompt_template'
        if origin.kind != 'text' or not str(span.text).strip():
            wanted = f'{{{origin.name}}}' if origin.kind in ('field', 'masked', 'unfilled') and origin.name else ''
        else:
            wanted = str(span.text)
        key = (part, wanted)
        if key not in self._paths:
            paths = [path for path, text in self._texts[part] if wanted and wanted in text]
            self._paths[key] = paths[0] if len(paths) == 1 else f'{self._infer}.{part}'
        return self._paths[key]


def span_as_json(span: Span, places: _Places | None = None) -> dict[str, Any]:
    """A span with its style, its label and the key of its explanation."""
    ((group, names),) = groups_in([Span(' ', span.origin)]).items()
    return {
        'text': span_text(span) if span.token is not None else str(span.text),
        'style': _NUMBERS[style_of(span.origin)],
        'label': _label_parts(span.origin),
        'group': group,
        'name': names[0] if names else '',
        'inShot': span.origin.shot is not None,
        'special': span.token is not None,
        'media': span.origin.kind == 'media',
        'why': _origin_key(span.origin, places.find(span) if places else ''),
    }


def _label_parts(origin: Origin) -> list[Any]:
    """The meaning of an origin, the name of its column or role, and the number of its example."""
    shot = None if origin.shot is None else origin.shot + 1
    kind = LOOKS[group_of(replace(origin, shot=None))].meaning
    return [kind, '' if origin.name in ('shots', 'speeches') else origin.name, shot]


def _origin_key(origin: Origin, place: str) -> str:
    return f'{origin.kind}|{origin.name}|{origin.shot}|{origin.role}|{origin.fallback}|{place}'


def _explain(origin: Origin, place: str, pair: Pair, preview: Preview, config: Mapping[str, Any]) -> dict[str, Any]:
    """Where a span comes from: its place in the config, and the value or training row behind it."""
    facts: dict[str, Any] = {'meaning': LOOKS[group_of(origin)].meaning}
    if place:
        facts['place'] = place
        located = config.locate_nearest(place) if isinstance(config, Config) else ''
        facts['file'] = located.removeprefix(f'{Path.cwd()}/')
    named = pair.model_entry.entry.get('meta_template') if pair.model_entry is not None else None
    if origin.kind in ('marker', 'default', 'message') and isinstance(named, str):
        facts['named'] = named
    if origin.shot is not None and origin.shot < len(preview.shots):
        number = preview.shots[origin.shot]
        facts['shot'] = {'number': origin.shot + 1, 'row': number, 'values': row_as_json(pair.data.train[number])}
    elif origin.kind in ('field', 'masked') and origin.name in preview.values:
        facts['value'] = cut_text(preview.values[origin.name], _VALUE)
    if origin.kind in ('field', 'masked', 'unfilled'):
        facts['column'] = origin.name
    if origin.kind in ('marker', 'default') and origin.name:
        facts['role'] = origin.name
    if origin.fallback:
        facts['fallback'] = [origin.role, origin.fallback]
    return facts


def row_as_json(row: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a row, long ones cut."""
    return {str(name): cut_text(value, _VALUE) for name, value in row.items()}


def cut_text(value: object, longest: int) -> str:
    """A value as text of bounded length."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= longest else f'{text[:longest]}… ({len(text):,} characters)'


def tokens_as_json(counted: Counted) -> dict[str, Any]:
    """The tokens of a request, each with its style."""
    tokens: Iterable[list[Any]] = (
        [token.id, token.as_line(), _NUMBERS[style_of(token.origin)], _label_parts(token.origin), token.crosses]
        for token in counted.tokens
    )
    return {'facts': list(counted.facts()), 'total': counted.total, 'tokens': list(tokens)}


LONGEST_TEXT = 100_000
_CELL = 200


def score_table(cards: Sequence[Scorecard]) -> dict[str, Any]:
    """The scores by dataset and metric (down) and model (across); the members of a group follow it."""
    grid, digits = grid_of(cards), digits_of(cards)
    return {
        'models': list(grid.models),
        'fold': len(grid.groups) >= FOLD_FROM,
        'lines': [
            {
                'dataset': line[0],
                'metric': line[1],
                'isGroup': grid.is_group(line),
                'group': grid.groups.get(line, ''),
                'depth': grid.depths[line],
                'cells': [_score_cell(grid.card(line, model), digits[line[1]]) for model in grid.models],
            }
            for line in grid.lines
        ],
    }


def _score_cell(card: Scorecard | None, digits: int) -> dict[str, Any] | None:
    if card is None:
        return None
    return {
        'score': score(card, digits),
        'interval': interval(card, digits),
        'scored': denominator(card) if card.total else '',
        'rest': '; '.join(filter(None, (left_out(card), card.describe_replies(digits), card.describe_receipt()))),
        'readings': card.describe_readings(digits),
        'error': card.error,
    }


def describe_question(fields: Mapping[str, Any]) -> str:
    """What a row asks, on one line: a column of that name, or else the first text.

    >>> describe_question({'id': 'x1', 'question': 'Where  is it?'}), describe_question({'sum': '1+1'})
    ('Where is it?', '1+1')
    """
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    column = find_question(texts) or next(iter(texts), '')
    return ' '.join(texts.get(column, '')[: 4 * _CELL].split())


def row_cells(result: Result, question: str = '') -> dict[str, Any]:
    """What the list shows of a row: short texts only."""
    reply = result.replies[-1] if result.replies else ''
    return {
        'dataset': result.dataset,
        'model': result.model,
        'row': result.row,
        'questionCell': cut_text(question, _CELL),
        'outcome': result.outcome,
        'verdict': verdict_of(result),
        'score': result.score,
        'answer': cut_text(' '.join(as_text(result.extracted, longest=_CELL).split()), _CELL),
        'goldCell': cut_text(' '.join(as_text(result.gold, longest=_CELL).split()), _CELL),
        'replyCell': cut_text(' '.join(reply[: 4 * _CELL].split()), _CELL),
        'reasonCell': cut_text(' '.join(result.reason[: 4 * _CELL].split()), _CELL) if result.outcome != 'ok' else '',
    }


def as_text(value: object, *, longest: int = LONGEST_TEXT) -> str:
    if value is None or isinstance(value, str):
        return cut_text(value or '', longest)
    return cut_text(json.dumps(value, ensure_ascii=False, default=str), longest)


def row_facts(result: Result) -> Iterator[tuple[str, str]]:
    if result.input_tokens is not None:
        differs = result.expected_tokens not in (None, result.input_tokens)
        yield 'input tokens', f'{result.input_tokens:,}{f" ({result.expected_tokens:,} expected)" if differs else ""}'
    if result.output_tokens is not None:
        yield 'output tokens', f'{result.output_tokens:,}'
    if result.cached_tokens:
        yield 'cached tokens', f'{result.cached_tokens:,}'
    if result.cache_written_tokens:
        yield 'tokens written to the cache', f'{result.cache_written_tokens:,}'
    if result.reasoning_tokens:
        yield 'reasoning tokens', f'{result.reasoning_tokens:,}'
    if result.seconds is not None:
        yield 'time', f'{result.seconds:.2f} s'
    if served := str(result.served):
        yield 'answered by', served
    if result.shots:
        yield 'training rows', ', '.join(map(str, result.shots))
    if result.shots_dropped:
        yield 'dropped to fit', f'{result.shots_dropped}'
    if result.cluster:
        yield 'belongs to', result.cluster
    if result.fingerprint:
        yield 'stored as', result.fingerprint
