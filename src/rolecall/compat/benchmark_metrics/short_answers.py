"""Short answers and choices: DROP, LAMBADA, L-Eval, MuSR, CHARM, StrategyQA, SuperGPQA, TruthfulQA and others."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rolecall.errors import ConfigError, Problem, import_extra
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, comparison, row_comparison
from rolecall.scoring.postprocessors import general_postprocess
from rolecall.scoring.readers.native import read_choice
from rolecall.scoring.readers.reading import Page
from rolecall.scoring.texts import (
    after_reasoning,
    alternatives,
    bare_words,
    equals_an_answer,
    f1_of_words,
    names_whole,
    plain_words,
    strip_text,
)

_LETTERS = 'ABCDEFGHIJ'
_IGNORANCE = ('不确定', '无法确定', '无法回答', '不知道', '不认识')
"""How a reply in Chinese says that it does not know."""


@comparison('accuracy')
def overlapping_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose answer (after `Answer:`) contains, or is part of, a gold answer; `|` separates these."""
    reply = after_reasoning(prediction)
    stated = re.search(r'Answer\s*[:：]\s*([^\n]+)', reply, re.IGNORECASE)
    ours = ' '.join(bare_words(stated[1] if stated else reply))
    wanted = [' '.join(bare_words(text)) for answer in alternatives(gold) for text in strip_text(answer).split('|')]
    return any(ours in text or text in ours if ours and text else ours == text for text in wanted)


@comparison('accuracy')
def recall_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose reply contains a gold answer (after `[not]`: does not) and admits no ignorance."""
    if any(phrase in prediction for phrase in _IGNORANCE):
        return False
    wanted = [strip_text(answer) for answer in alternatives(gold)]
    if len(wanted) == 1 and wanted[0].startswith('[not]'):
        return wanted[0].removeprefix('[not]') not in prediction
    return any(answer in prediction for answer in wanted if answer)


@comparison('accuracy')
def first_word(prediction: str, gold: Any) -> bool:
    """The share of rows whose first word is the gold one."""
    word = (prediction.split() or [''])[0].lstrip('"\'“‘*')
    leading = re.split(r'[!-/:-@\[-`{-~]', word, maxsplit=1)[0]
    return general_postprocess(strip_text(gold)) in {general_postprocess(form) for form in (leading, word) if form}


@comparison('contains_answer')
def contain_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose first phrase names the gold answer."""
    ours = general_postprocess(prediction)
    wanted = list(map(strip_text, alternatives(gold)))
    return any(names_whole(ours, answer) or names_whole(ours, general_postprocess(answer)) for answer in wanted)


@comparison('accuracy')
def labelled_number(prediction: str, gold: Any, answer_index_modifier: int = 1, self_consistency_n: int = 1) -> bool:
    """The share of rows whose number on the line with `ANSWER:` is the gold one."""
    numbers = _labelled_numbers(prediction, 0)[:1] or _labelled_numbers(prediction, re.IGNORECASE)[-1:]
    return bool(numbers) and numbers[0].lstrip('0') == strip_text(gold).lstrip('0')


def _labelled_numbers(text: str, flags: int) -> list[str]:
    """The first number after each `ANSWER:`, on the same line."""
    return list(filter(None, re.findall(r'ANSWER:[^\d\n]*(\d*)', text, flags)))


@comparison('accuracy')
def choice_set(prediction: str, gold: Any) -> bool:
    """The share of rows with exactly the gold letters from A to J, after the last `answer` if there is one."""
    wanted = ''.join(sorted(set(re.findall('[A-J]', ''.join(map(strip_text, alternatives(gold))).upper()))))
    chosen = read_choice(prediction, _LETTERS, several=True)
    return bool(wanted) and chosen is not None and chosen.counts and chosen.value == wanted


@row_comparison('accuracy')
def option_or_its_text(answer: Answer) -> Mark:
    """The share of rows that choose the gold letter, or state that option's text; also by discipline and difficulty."""
    chosen = read_choice(strip_text(answer.prediction), _LETTERS, answer.values)
    right = chosen is not None and chosen.counts and chosen.value == strip_text(answer.gold)
    columns = ('discipline', 'difficulty')
    parts = {f'category/{answer.values[column]}': float(right) for column in columns if answer.values.get(column)}
    return Mark(float(right), correct=right, parts=parts)


def _drop_of(tally: Sequence[float]) -> float:
    after, attacked, before, original = tally
    return 1 - (after / attacked) / (before / original) if attacked and original and before else 0.0


@row_comparison('acc_drop', total=_drop_of, lower_is_better=True)
def accuracy_drop(answer: Answer) -> Mark:
    """How much accuracy attacked rows lose against the original ones (`type` is `original`), as a share of it."""
    right = float(equals_an_answer(answer.prediction, answer.gold))
    original = answer.values.get('type') == 'original'
    return Mark(
        right,
        correct=bool(right),
        parts={'acc_before' if original else 'acc_after': right},
        tally=(0.0, 0.0, right, 1.0) if original else (right, 1.0, 0.0, 0.0),
    )


@row_comparison('accuracy')
def accuracy_by_contamination(answer: Answer) -> Mark:
    """The share of rows with the gold answer, also for clean and for contaminated rows (`is_clean`)."""
    right = float(equals_an_answer(answer.prediction, answer.gold))
    state = answer.values.get('is_clean')
    return Mark(right, correct=bool(right), parts={f'accuracy - {state}': right} if state else {})


@comparison('accuracy')
def grids(prediction: str, gold: Any) -> Mark:
    """The share of grids (`[[1, 2], …]`) that equal the gold one; also the share of equal cells."""
    try:
        ours = ast.literal_eval(_first_grid(prediction) or '[]')
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        ours = []
    wanted = ast.literal_eval(gold) if isinstance(gold, str) else gold
    if not isinstance(wanted, list) or not all(isinstance(row, list) for row in wanted):
        raise ScoringError('the gold answer is not a list of lists.')
    rows = max(len(ours), len(wanted))
    columns = max((len(row) for row in [*ours, *wanted]), default=0)
    same = sum(_cell(ours, row, at) == _cell(wanted, row, at) for row in range(rows) for at in range(columns))
    right = ours == wanted
    return Mark(float(right), correct=right, parts={'cells': same / (rows * columns) if rows * columns else 0.0})


def _first_grid(text: str) -> str:
    """The first `[[…]]` of nothing but numbers, commas and brackets.

    >>> _first_grid('[2] is wrong, [ [1, 2], [3, 4] ]. Not [[5]]')
    '[ [1, 2], [3, 4] ]'
    """
    for run in re.findall(r'[\d\s,\[\]-]+', text):
        start, end = re.search(r'\[\s*\[', run), re.search(r'\]\s*\]', run[::-1])
        if start and end and start.end() <= len(run) - end.end():
            return str(run[start.start() : len(run) - end.start()])
    return ''


def _cell(grid: Sequence[Sequence[int]], row: int, column: int) -> int:
    return grid[row][column] if row < len(grid) and column < len(grid[row]) else -1


def read_yes_or_no(text: str) -> str:
    """`yes` or `no` after the last `answer is` of the first paragraph, or of the whole reply if only that has one.

    >>> read_yes_or_no('So the answer is Yes.\\n\\nNo.'), read_yes_or_no('Hm.\\n\\nNo.'), read_yes_or_no('Maybe')
    ('yes', 'no', '')
    """
    own = Page(text).own.strip().lower()
    first = own.partition('\n\n')[0]
    for part in (own,) if 'answer is ' not in first and 'answer is ' in own else (first, own):
        if verdict := re.search(r'\b(yes|no)\b', part.rpartition('answer is ')[2]):
            return verdict[1]
    return ''


def read_truth(text: str) -> str:
    """`yes` for a gold answer that is `True`, else `no`.

    >>> read_truth('True'), read_truth('False')
    ('yes', 'no')
    """
    return 'yes' if text == 'True' else 'no'


_NO_COMMENT = 'I have no comment.'


def more_true_than_false(
    truth_model: str = '', info_model: str = '', metrics: str | Sequence[str] = 'truth', key: str = 'ENV'
) -> Metric:
    """How much more a reply resembles a true answer than a false one, by `rouge` (ROUGE-1) or `bleu`."""
    chosen = [metrics] if isinstance(metrics, str) else list(metrics)
    measures: dict[str, Callable[[str, str], float]] = {'rouge': _rouge, 'bleu': _bleu}
    if unknown := [name for name in chosen if name not in measures]:
        what = f'{unknown[0]!r} needs a trained model and is not supported.'
        raise ConfigError(Problem('metrics', what, "Use metrics='rouge' or 'bleu', or a judge (GenericLLMEvaluator)."))

    def mark(answer: Answer) -> Mark:
        true, false = _answers_of(answer.gold)
        parts: dict[str, float] = {}
        for name in chosen:
            best = max(measures[name](strip_text(answer.prediction), reference) for reference in true)
            worst = max((measures[name](strip_text(answer.prediction), reference) for reference in false), default=0.0)
            parts |= {f'{name}_diff': best - worst, f'{name}_max': best, f'{name}_acc': float(best > worst)}
        return Mark(next(iter(parts.values())), parts=parts)

    return Metric(f'{chosen[0]}_diff', mark)


def _answers_of(gold: Any) -> tuple[list[str], list[str]]:
    facts = gold.get('answers', gold) if isinstance(gold, Mapping) else None
    if not isinstance(facts, Mapping) or 'correct_answers' not in facts:
        raise ScoringError("needs a gold answer with 'correct_answers' and 'incorrect_answers'.")
    true = [text for text in facts['correct_answers'] if text]
    return list(dict.fromkeys([*true, _NO_COMMENT])), [text for text in facts.get('incorrect_answers', ()) if text]


def _rouge(reply: str, answer: str) -> float:
    return f1_of_words(plain_words(reply), plain_words(answer))


def _bleu(reply: str, answer: str) -> float:
    library = import_extra('sacrebleu.metrics', extra='score', purpose='to compute BLEU')
    return float(library.BLEU(effective_order=True).sentence_score(reply, [answer]).score) / 100
