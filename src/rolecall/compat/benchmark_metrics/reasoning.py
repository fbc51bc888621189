"""Reasoning: the faulty step of a solution (ProcessBench), and logic grids (ZebraLogic)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.core.prompts.values import text_of
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric, comparison, share_of_tallies
from rolecall.scoring.texts import contents_between, parse_gold, strip_text

_HOUSES = ('house', 'houses', 'home', 'position')
_LETTER_FORMS = (r'[Tt]he (?:final )?answer is[:\s]+\(?([A-Ja-j])\)?', r'\*\*([A-Ja-j])\*\*')
_LETTER_LINE = re.compile(r'^[^\S\n]*\(?([A-Ja-j])\)?[^\S\n]*$', re.MULTILINE)
_BOX, _BOX_END = re.compile(r'boxed\{'), re.compile(r'\}')


def faulty_step() -> Metric:
    """How well the first wrong step is found; `f1` is the harmonic mean for wrong and for right solutions."""

    def mark(answer: Answer) -> Mark:
        boxes = contents_between(text_of(answer.prediction), _BOX, _BOX_END)
        step, gold = (_as_number(text.replace('{', '')) for text in (boxes[-1] if boxes else '', text_of(answer.gold)))
        right = bool(boxes) and step == gold
        return Mark(float(right), correct=right, parts={'correct_acc' if gold == -1 else 'error_acc': float(right)})

    return Metric('accuracy', mark, Mean(derive=_harmonic))


def _as_number(text: str) -> int | str:
    return int(text) if re.fullmatch(r'\s*[+-]?\d+\s*', text) else text.strip()


def _harmonic(means: Mapping[str, float]) -> Mapping[str, float]:
    wrong, right = means.get('error_acc', 0.0), means.get('correct_acc', 0.0)
    return {'f1': 2 * wrong * right / (wrong + right) if wrong + right else 0.0}


@comparison('score')
def puzzle_letter(prediction: str, gold: Any) -> bool:
    """The share of rows with the gold letter: after `the answer is`, in bold, alone on a line, or else in brackets."""
    forms = (re.search(form, prediction) for form in _LETTER_FORMS)
    stated = next((form[1] for form in forms if form), '')
    letters = [stated] if stated else _LETTER_LINE.findall(prediction) or re.findall(r'\(([A-Ja-j])\)', prediction)
    return bool(letters) and letters[-1].upper() == strip_text(gold).upper()


@comparison('cell_accuracy', total=share_of_tallies)
def grid_cells(prediction: str, gold: Any) -> Mark:
    """The share of the gold table's cells that the reply's table has; without one of that size, of the words."""
    rows = [list(map(str, row)) for row in parse_gold(gold)['rows']]
    table = _read_table(prediction)
    if len(table) == len(rows) + 1 and _folded(table[0][:1])[0] in _HOUSES:
        del table[0]
    if len(table) == len(rows):
        pairs = [pair for row in zip(rows, table, strict=True) for pair in zip(*map(_folded, row), strict=False)]
        right = sum(ours == cell for cell, ours in pairs)
    else:
        low = prediction.lower()
        right = sum(cell.lower() in low for row in rows for cell in row)
    count = sum(map(len, rows))
    whole = right == count
    return Mark(right / count, correct=whole, parts={'perfect_accuracy': float(whole)}, tally=(right, count))


def _folded(cells: Sequence[str]) -> list[str]:
    return [cell.strip().lower() for cell in cells]


def _read_table(text: str) -> list[list[str]]:
    """The rows of a Markdown table, without the line under its head; nothing for a single row."""
    lines = [line.strip() for line in text.split('\n')]
    shown = [line for line in lines if line.startswith('|') and not re.fullmatch(r'\|[-| :]+\|', line)]
    rows = [line.strip('|').split('|') for line in shown]
    return rows if len(rows) > 1 else []
