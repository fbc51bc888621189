"""A request in the form the page draws: blocks of spans, each with its style, its label and an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rolecall.config.files import Config
from rolecall.pairs.pair import Pair, Preview
from rolecall.program import fingerprint
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Span
from rolecall.views.blocks import blocks_of, is_messages
from rolecall.views.facts import facts_of, title_of
from rolecall.views.looks import ALL_STYLES, LOOKS, group_of, groups_in, label_of, style_of
from rolecall.views.plain import span_text
from rolecall.views.tokens import Counted

__all__ = ['LEGEND', 'cut_text', 'preview_as_json', 'row_as_json', 'sent_as_json', 'tokens_as_json']

_NUMBERS = {style: number for number, style in enumerate(ALL_STYLES)}
LEGEND = [[group, look.meaning, _NUMBERS[look.style]] for group, look in LOOKS.items()]
"""The groups of origins: name, meaning, number of the style."""
_VALUE = 2000
_MODEL_KINDS = ('marker', 'default', 'message', 'chat_template')


def preview_as_json(pair: Pair, preview: Preview, config: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the page shows of one request."""
    headed = is_messages(preview)
    return {
        'title': title_of(preview),
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'mode': preview.mode,
        'label': None if preview.label is None else str(preview.label),
        'turn': preview.turn,
        'blocks': [
            {
                'heading': block.heading if headed else '',
                'extra': block.extra,
                'spans': [_span_as_json(span) for span in block.spans if span.text or span.token is not None],
            }
            for block in blocks_of(preview)
        ],
        'explanations': _explain_origins(pair, preview, config),
        'facts': list(facts_of(preview)),
        'request': preview.request if preview.request is not None else preview.prompt,
        'fingerprint': None if preview.request is None else fingerprint(preview.request),
        'shots': list(preview.shots),
    }


def sent_as_json(preview: Preview, *, changed: bool) -> dict[str, Any]:
    """A stored request without origins: what was sent, and why its origins are not known."""
    note = 'The config now produces a different prompt; this is what was sent, without origins.'
    return {
        'title': title_of(preview),
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'label': None,
        'turn': None,
        'note': note if changed else 'Open the config of this run with the page to see origins; this is what was sent.',
        'blocks': [
            {
                'heading': block.heading if is_messages(preview) else '',
                'extra': block.extra,
                'spans': [{**_span_as_json(span), 'label': 'as sent', 'group': ''} for span in block.spans],
            }
            for block in blocks_of(preview)
        ],
        'explanations': {},
        'facts': [],
        'request': preview.request,
    }


def _span_as_json(span: Span) -> dict[str, Any]:
    ((group, names),) = groups_in([Span(' ', span.origin)]).items()
    return {
        'text': span_text(span) if span.token is not None else str(span.text),
        'style': _NUMBERS[style_of(span.origin)],
        'label': label_of(span.origin),
        'group': group,
        'name': names[0] if names else '',
        'inShot': span.origin.shot is not None,
        'special': span.token is not None,
        'media': span.origin.kind == 'media',
        'why': _origin_key(span.origin),
    }


def _origin_key(origin: Origin) -> str:
    return f'{origin.kind}|{origin.name}|{origin.shot}|{origin.role}|{origin.fallback}'


def _explain_origins(pair: Pair, preview: Preview, config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    origins = {_origin_key(span.origin): span.origin for span in preview.spans}
    return {key: _explain(origin, pair, preview, config) for key, origin in origins.items()}


def _explain(origin: Origin, pair: Pair, preview: Preview, config: Mapping[str, Any]) -> dict[str, Any]:
    """Where a span comes from: its place in the config, and the value or training row behind it."""
    found: dict[str, Any] = {'meaning': LOOKS[group_of(origin)].meaning, 'label': label_of(origin)}
    if place := _place(origin, pair):
        found['place'] = place
        found['file'] = config.locate_nearest(place) if isinstance(config, Config) else ''
    if origin.shot is not None and origin.shot < len(preview.shots):
        number = preview.shots[origin.shot]
        found['shot'] = {'number': origin.shot + 1, 'row': number, 'values': row_as_json(pair.data.train[number])}
    elif origin.kind in ('field', 'masked') and origin.name in preview.values:
        found['value'] = cut_text(preview.values[origin.name], _VALUE)
    if origin.kind in ('field', 'masked', 'unfilled'):
        found['column'] = origin.name
    if origin.kind in ('marker', 'default') and origin.name:
        found['role'] = origin.name
    if origin.fallback:
        found['fallback'] = f'{origin.role} is spoken as {origin.fallback}'
    return found


def _place(origin: Origin, pair: Pair) -> str:
    """The part of the config that wrote a span."""
    if origin.kind in _MODEL_KINDS:
        if pair.model_entry is None:
            return ''
        part = 'chat_template' if origin.kind == 'chat_template' else 'meta_template'
        return f'{pair.model_entry.where}.{part}'
    infer = f'{pair.task.where}.infer_cfg'
    if origin.kind == 'joint':
        return f'{infer}.retriever'
    has_own = pair.task.entry['infer_cfg'].get('ice_template') and origin.shot is not None
    return f'{infer}.ice_template' if has_own else f'{infer}.prompt_template'


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
        [token.id, token.as_line(), _NUMBERS[style_of(token.origin)], label_of(token.origin), token.crosses]
        for token in counted.tokens
    )
    return {'facts': list(counted.facts()), 'total': counted.total, 'tokens': list(tokens)}
