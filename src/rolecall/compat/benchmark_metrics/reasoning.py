"""Reasoning: steps of solutions (ProcessBench), logic grids (ZebraLogic), BIG-Bench Extra Hard, ArxivRollBench, and
tasks of reasoning-gym with verifiers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import import_extra
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric, comparison, share_of_tallies
from rolecall.scoring.texts import contents_between, parse_gold, strip_text

_STATEMENTS = ('The answer is: ', 'The answer is ', 'The final answer is: ', 'The final answer is ')
_MARKUP = [
    re.compile(form) for form in (r'\\text(?:tt)?\{([^{}\n]*)\}', r'\\boxed\{([^{}\n]*)\}', r'\*\*([^*\n]*)\*\*')
]
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


def read_bare_statement(text: str) -> str:
    r"""What follows the last `The answer is`, without boxes and bold: its first line, in small letters.

    >>> read_bare_statement('So. The final answer is: **\\boxed{Ada}**\nDone.')
    'ada'
    """
    stated = _after_statement(text)
    for mark in _MARKUP:
        stated = mark.sub(r'\1', stated)
    return stated.partition('\n')[0].strip().lower()


def read_bare_letter(text: str) -> str:
    """What follows the last `The answer is`, without brackets: its first line, in small letters.

    >>> read_bare_letter('The answer is (B)')
    'b'
    """
    return _after_statement(text).strip('()').partition('\n')[0].strip().lower()


def _after_statement(text: str) -> str:
    return text.rpartition(next((form for form in _STATEMENTS if form in text), '\0'))[2]


@comparison('score')
def bare_statement(prediction: str, gold: Any) -> bool:
    """The share of rows whose statement is the gold one, apart from its quotes and brackets, and spaces at commas."""
    ours, right = read_bare_statement(prediction), text_of(gold).lower()
    tight = [','.join(part.strip() for part in text.split(',')) for text in (ours, right)]
    return ours in (right, right.strip('\'"()[]')) or (',' in right and tight[0] == tight[1])


@comparison('score')
def bare_letter(prediction: str, gold: Any) -> bool:
    """The share of rows whose letter is the gold one, in any case."""
    return read_bare_letter(prediction) == text_of(gold).lower().strip('()')


def read_selection(text: str) -> str:
    """`Selection 2` for a reply that says so, or that has a number from 1 to 4; else the reply.

    >>> read_selection('I pick selection 2.'), read_selection('3')
    ('Selection 2', 'Selection 3')
    """
    chosen = re.search(r'(?i)\bselection\s*([1-4])\b', text) or re.search(r'\b([1-4])\b', text)
    return f'Selection {chosen[1]}' if chosen else text.strip()


def read_any_letter(text: str) -> str:
    """The first letter from A to D that stands alone, in any case; else the reply.

    >>> read_any_letter('Answer: b, a sum')
    'B'
    """
    letter = re.search(r'(?i)\b([ABCD])\b', text)
    return letter[1].upper() if letter else text.strip()


def verified() -> Metric:
    """The score of the task's own verifier for the answer; 1.0 is right."""

    def mark(answer: Answer) -> Mark:
        facts = answer.values.get('metadata')
        task = facts.get('source_dataset') if isinstance(facts, dict) else None
        if task is None:
            raise ScoringError("needs rows of reasoning-gym, with 'metadata' that names their task.")
        library = import_extra('reasoning_gym', extra='generate', purpose='to verify answers')
        try:
            score = float(library.get_score_answer_fn(task)(str(answer.prediction), dict(answer.values)))
        except Exception as error:  # a verifier of the package may raise anything
            raise ScoringError(f'the verifier of {task} failed: {error}') from error
        return Mark(score, correct=score == 1.0)

    return Metric('verified', mark)
