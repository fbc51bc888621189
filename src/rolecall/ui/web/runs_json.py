"""Scores and rows of a run in the form the page draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report.counts import verdict_of
from rolecall.ui.report.score_text import FOLD_FROM, denominator, digits_of, grid_of, interval, left_out, score
from rolecall.ui.web.prompts_json import cut_text

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


_QUESTIONS = ('question', 'problem', 'query', 'instruction', 'prompt', 'input', 'text', 'sentence')
"""Columns that hold what is asked, the likeliest first."""


def find_question(fields: Mapping[str, Any]) -> str:
    """What a row asks, on one line: a column of that name, or else the first text.

    >>> find_question({'id': 'x1', 'context': 'A park.', 'question': 'Where  is it?'}), find_question({'q': '1+1'})
    ('Where is it?', '1+1')
    """
    texts = {name.lower(): value for name, value in fields.items() if isinstance(value, str)}
    column = next((name for name in _QUESTIONS if name in texts), next(iter(texts), ''))
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
