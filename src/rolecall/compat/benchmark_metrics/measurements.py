"""Numbers and formulas as answers: RMSE, MAE, AUC-ROC, METEOR, and chemical elements."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from rolecall.errors import import_extra
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Whole, comparison
from rolecall.scoring.readers.native import number_in
from rolecall.scoring.readers.numbers import first_amount
from rolecall.scoring.texts import (
    after_reasoning,
    alternatives,
    contents_between,
    last_boxed,
    strip_text,
)

_TAGGED_NUMBER = re.compile(r'<NUMBER>([^<]{1,200})</NUMBER>')
_TAG = re.compile(r'<(?:SMILES|MOLFORMULA|IUPAC|BOOLEAN|NUMBER)>|\\boxed\{')
_TAG_END = re.compile(r'</\w+>|\}')
_LONGEST = 2000
_BRACKETS = re.compile(r'\(((?:[A-Z][a-z]?\d*)+)\)(\d{0,2})')
_ELEMENT = re.compile(r'([A-Z][a-z]?)(\d*)')
_RECALL_WEIGHT, _PENALTY_POWER, _PENALTY_WEIGHT = 0.9, 3, 0.5


@comparison('rmse', unit='', lower_is_better=True, total=lambda tally: math.sqrt(tally[0] / tally[1]))
def root_mean_square(prediction: str, gold: Any) -> Mark:
    r"""The root of the mean squared error of the number in `<NUMBER>` or `\boxed{…}`; a missing number is 0."""
    error = _number_in(prediction) - _gold_number(gold)
    return Mark(abs(error), tally=(error * error, 1.0))


@comparison('mae', unit='', lower_is_better=True)
def absolute_error(prediction: str, gold: Any) -> float:
    r"""The mean absolute error of the number in `<NUMBER>` or `\boxed{…}`; a missing number is 0."""
    return abs(_number_in(prediction) - _gold_number(gold))


@comparison('meteor')
def meteor(prediction: str, gold: Any) -> float:
    """METEOR over equal words and equal stems (Porter), without synonyms: weighted F with a penalty for fragments."""
    return max((_meteor(prediction.split(), strip_text(answer).split()) for answer in alternatives(gold)), default=0.0)


@comparison('exact_match')
def exact_formula(prediction: str, gold: Any) -> Mark:
    """The share of rows whose last tagged answer (without tags, the reply) is the gold one."""
    ours, right = _last_tagged(prediction), _last_tagged(strip_text(gold))
    equal = bool(ours) and ours == right
    return Mark(float(equal), correct=equal, parts={'valid_score': float(bool(ours))})


@comparison('element_match')
def same_elements(prediction: str, gold: Any) -> Mark:
    """The share of rows whose last tagged formula has the elements and counts of the gold one."""
    counted = _elements(_last_tagged(prediction))
    equal = bool(counted) and counted == _elements(_last_tagged(strip_text(gold)))
    return Mark(float(equal), correct=equal, parts={'valid_score': float(bool(counted))})


def auc_roc() -> Metric:
    """The area under the ROC curve of the second choice's probability; also accuracy. The gold answer is 0 or 1."""
    return Metric('auc_score', lambda answer: None, Whole(score=_auc), unit='', weighs=True)


def read_boolean(text: str) -> str:
    """`<BOOLEAN> Yes </BOOLEAN>` or `… No …`, for a reply that says so; reasoning is left out.

    >>> read_boolean('<think>no?</think>Yes, it is.')
    '<BOOLEAN> Yes </BOOLEAN>'
    """
    verdict = re.search(r'\b(yes|no)\b', text.rpartition('</think>')[2].lower())
    return f'<BOOLEAN> {verdict[1].capitalize()} </BOOLEAN>' if verdict else ''


def _number_in(text: str) -> float:
    """The tagged number; else the one that the reply states or comes to, or its first; else 0."""
    own = after_reasoning(text)
    values = (first_amount(part) for part in (_tagged_number(own), number_in(own), own))
    return next((value for value in values if value is not None), 0.0)


def _gold_number(gold: Any) -> float:
    text = strip_text(gold)
    value = first_amount(_tagged_number(text) or text)
    if value is None:
        raise ScoringError(f'the gold answer {text!r:.60} has no number.')
    return value


def _tagged_number(text: str) -> str:
    tagged = _TAGGED_NUMBER.search(text)
    return tagged[1] if tagged else last_boxed(text)


def _last_tagged(text: str) -> str:
    tagged = contents_between(text, _TAG, _TAG_END)
    return tagged[-1] if tagged else text.strip()


def _elements(formula: str) -> Counter[str]:
    """The atoms of a formula: `C2H6O` has C 2, H 6, O 1, and `Ca(OH)2` Ca 1, O 2, H 2."""
    before = ''
    while before != formula and len(formula) < _LONGEST:
        before, formula = formula, _BRACKETS.sub(lambda group: group[1] * int(group[2] or 1), formula)
    formulas = re.findall(r'[A-Z][A-Za-z0-9]*', formula)
    counted: Counter[str] = Counter()
    for element, count in _ELEMENT.findall(formulas[0] if formulas else ''):
        counted[element] += int(count or 1)
    return counted


def _auc(answers: Sequence[Answer]) -> Mapping[str, Any]:
    rows = [(answer.prediction, int(strip_text(answer.gold))) for answer in answers]
    if not all(isinstance(shares, (list, tuple)) and len(shares) > 1 for shares, _ in rows):
        raise ScoringError('needs the probabilities of two choices (CLPInferencer).')
    right = [max(range(len(shares)), key=shares.__getitem__) == gold for shares, gold in rows]
    positive = sorted(shares[1] for shares, gold in rows if gold == 1)
    negative = sorted(shares[1] for shares, gold in rows if gold != 1)
    if not positive or not negative:
        raise ScoringError('needs rows of both labels.')
    return {
        'auc_score': 100 * _area(positive, negative),
        'accuracy': 100 * sum(right) / len(right),
        'details': [{'correct': verdict} for verdict in right],
    }


def _area(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that a positive row has the larger share; ties count half. Both are sorted."""
    wins, below, upto = 0.0, 0, 0
    for share in positive:
        while below < len(negative) and negative[below] < share:
            below += 1
        while upto < len(negative) and negative[upto] <= share:
            upto += 1
        wins += (below + upto) / 2
    return wins / (len(positive) * len(negative))


def _meteor(ours: Sequence[str], right: Sequence[str]) -> float:
    matches = _align(ours, right)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(ours), len(matches) / len(right)
    mean = precision * recall / (_RECALL_WEIGHT * precision + (1 - _RECALL_WEIGHT) * recall)
    pieces = 1 + sum(later != (earlier[0] + 1, earlier[1] + 1) for earlier, later in pairwise(matches))
    return mean * (1 - _PENALTY_WEIGHT * (pieces / len(matches)) ** _PENALTY_POWER)


def _align(ours: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places with equal words, then with equal stems, each word once."""
    stem = _stemmer()
    matches: list[tuple[int, int]] = []
    left = [(place, word.lower()) for place, word in enumerate(ours)]
    wanted = [(place, word.lower()) for place, word in enumerate(right)]
    for form in (str, stem):
        for place, word in reversed(left):
            same = next((candidate for candidate in reversed(wanted) if form(candidate[1]) == form(word)), None)
            if same is not None:
                matches.append((place, same[0]))
                wanted.remove(same)
        used = {place for place, _ in matches}
        left = [candidate for candidate in left if candidate[0] not in used]
    return sorted(matches)


@cache
def _stemmer() -> Any:
    return import_extra('nltk.stem.porter', extra='score', purpose='to compute METEOR').PorterStemmer().stem
