"""Chinese and English exams: GAOKAO-Bench in its seven forms, and AGIEval with cloze and multiple-choice questions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from rolecall.scoring.metrics.metric import Mark, Metric, comparison, share_of_tallies
from rolecall.scoring.metrics.symbolic import equal_expressions, equals_a_gold_expression
from rolecall.scoring.readers.native import expression_in
from rolecall.scoring.texts import alternatives, first_answer, strip_text

_ANSWER = '【答案】'
_FIVE = 5


@comparison('accuracy')
def gaokao_single_choice(prediction: str, gold: Any) -> Mark:
    """The share of questions whose last letter from A to D is the gold one."""
    return _share_of_questions(re.findall('[A-D]', prediction)[-1:], gold)


@comparison('accuracy', total=share_of_tallies)
def gaokao_questions(prediction: str, gold: Any) -> Mark:
    """The share of a text's questions with the gold letter: after each `【答案】`, or the first letters."""
    size = len(alternatives(gold))
    marked = re.findall(rf'{_ANSWER}\s*(?:[:：]+\s*)?([A-Z])', prediction)
    letters = marked if len(marked) == size else re.findall('[A-Z]', prediction)[:size]
    return _share_of_questions(letters, gold)


@comparison('accuracy')
def gaokao_five_of_seven(prediction: str, gold: Any) -> Mark:
    """The share of the five gaps filled with the gold letter from A to G."""
    return _share_of_questions(re.findall('[A-G]', prediction)[:_FIVE], gold)


@comparison('partial_credit')
def gaokao_multi_choice(prediction: str, gold: Any) -> Mark:
    """Full marks for exactly the gold letters, half for some of them and no others; read after `【答案】`."""
    content = re.sub(r'\s+', '', prediction)
    place = content.find(_ANSWER)
    letters = set(re.findall('[A-D]', content[place:] if place >= 0 else content[-10:]))
    wanted = set(first_answer(gold))
    if letters == wanted:
        return Mark(1.0, correct=True)
    return Mark(0.5 if letters and letters < wanted else 0.0, correct=False)


def gaokao_unscored() -> Metric:
    """Questions that a person has to grade (subjective, correction): rows are kept, without a score."""
    return Metric('ungraded', lambda answer: None)


@comparison('accuracy', total=share_of_tallies)
def gaokao_cloze(prediction: str, gold: Any) -> Mark:
    """The share of blanks filled with the gold text or an equal expression, read after the last `【答案】`."""
    wanted = [blank for answer in alternatives(gold) for blank in _split_blanks(str(answer))]
    filled = _split_blanks(prediction.rpartition(_ANSWER)[2])
    if len(wanted) == 1:
        right = [any(_fills(text, wanted[0]) for text in (' '.join(filled), expression_in(prediction)))]
    else:
        right = [_fills(ours, blank) for ours, blank in zip(filled, wanted, strict=False)]
        right = right if len(filled) == len(wanted) else []
    share = sum(right) / len(wanted) if wanted else 0.0
    return Mark(share, correct=share == 1 if len(wanted) == 1 else None, tally=(sum(right), len(wanted)))


def _split_blanks(text: str) -> list[str]:
    """The blanks of an answer: separated by semicolons, line breaks, or numbers such as `(1)` and `2.`."""
    parts = re.split(
        r'[；;\n]+|(?:^|(?<=\s))(?:[(（]\d+[)）]|\d+[.．、](?=\s*\D))', text.replace(_ANSWER, '').lstrip(':：')
    )
    return [part.strip() for part in parts if part.strip()]


def _fills(ours: str, wanted: str) -> bool:
    texts = [_drop_punctuation(text) for text in (ours, wanted)]
    return bool(texts[0]) and (texts[0] == texts[1] or equal_expressions(ours, wanted))


def _drop_punctuation(text: str) -> str:
    """A text without spaces and punctuation, but with the points and commas of its numbers."""
    return re.sub(r'[\s$。、]|[,.](?!\d)|(?<!\d),', '', unicodedata.normalize('NFKC', text)).casefold()


@comparison('accuracy')
def cloze_answers(prediction: str, gold: Any) -> bool:
    r"""The share of rows whose final expression (after `答案是`, in `\boxed{…}`, in dollars) equals the gold one."""
    return equals_a_gold_expression(expression_in(prediction), gold)


@comparison('accuracy')
def letter_sets(prediction: str, gold: Any) -> bool:
    """The share of rows with exactly the gold letters, in any order."""
    wanted = _letters(''.join(map(strip_text, alternatives(gold))))
    return bool(wanted) and _letters(prediction) == wanted


def _share_of_questions(letters: Sequence[str], gold: Any) -> Mark:
    """The share of right letters; a reply with another number of letters answers nothing."""
    wanted = list(map(strip_text, alternatives(gold)))
    same_size = len(letters) == len(wanted)
    right = [ours == letter for ours, letter in zip(letters, wanted, strict=True)] if same_size else []
    share = sum(right) / len(wanted) if wanted else 0.0
    return Mark(share, correct=share == 1 if len(wanted) == 1 else None, tally=(sum(right), len(wanted)))


def _letters(text: str) -> set[str]:
    return set(re.findall('[A-Z]', text))
