"""Metrics over rows that belong together: rotated options, turns of a dialogue; and the mean of plain numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rolecall.errors import ConfigError, Problem
from rolecall.scoring.metrics.matching import accuracy
from rolecall.scoring.metrics.metric import Answer, Corpus, Groups, Mark, Metric
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.texts import strip_text

_JOINT = '--'
_OTHER = "Use another evaluator, 'AccEvaluator' for instance."


def circular() -> Metric:
    """The share of questions that are right in every rotation of their options.

    A row names its question and rotation in its gold answer (`question--B--BCDA`) or in the columns `qid` and
    `circular_pattern`.
    """

    def mark(answer: Answer) -> Mark:
        right = strip_text(answer.prediction) == _rotation(answer)[1]
        return Mark(float(right), correct=right)

    return Metric('perf_circular', mark, Groups(group=lambda answer: _rotation(answer)[0], breakdown=_by_rotation))


def turn_mean(evaluator: Metric | None = None) -> Metric:
    """The mean of another evaluator's score (`evaluator`, else accuracy) over the turns of a dialogue.

    A turn without an answer is wrong. Where only the last turn was asked, the last gold answer counts.
    """
    inner = evaluator or accuracy()
    if inner.group is not None:
        raise ConfigError(
            Problem(
                'evaluator',
                f'{inner.name} counts rotations of a question; it cannot score turns.',
                _OTHER,
            )
        )
    return replace(inner, by_turn=True)


def average_ppl() -> Metric:
    """The mean of the rows' perplexities (or of any numbers); lower is better."""

    def mark(answer: Answer) -> Mark | None:
        number = answer.prediction if isinstance(answer.prediction, float) else number_of(answer.prediction)
        return None if number is None else Mark(number)

    return Metric('average_ppl', mark, unit='', needs_gold=False, lower_is_better=True)


def average_inference_ppl() -> Metric:
    """The mean loss of the marked tokens of all rows; lower is better."""
    return _loss_metric('average_ppl', 'tokens')


def bits_per_character() -> Metric:
    """The loss of all texts in bits, by their characters; lower is better."""
    return _loss_metric('bpc', 'characters', 1 / math.log(2))


def _loss_metric(name: str, unit: str, factor: float = 1.0) -> Metric:
    """The loss per token or character: both are summed over all rows."""

    def mark(answer: Answer) -> Mark | None:
        amounts = answer.prediction
        if not isinstance(amounts, Mapping) or not amounts.get(unit) or 'loss' not in amounts:
            return None
        loss = factor * amounts['loss']
        return Mark(loss / amounts[unit], tally=(loss, float(amounts[unit])))

    return Metric(name, mark, Corpus(total=_divide_sums), unit='', needs_gold=False, lower_is_better=True)


def _divide_sums(sums: Sequence[float]) -> float:
    loss, amount = sums
    return loss / amount if amount else 0.0


def _rotation(answer: Answer) -> tuple[str | None, str, str]:
    """The question a row asks, its gold letter, and the order in which its options stand."""
    gold = strip_text(answer.gold)
    if gold.count(_JOINT) == 2:
        question, letter, pattern = gold.split(_JOINT)
        return question, letter, pattern
    named = answer.values.get('qid')
    return None if named is None else str(named), gold, str(answer.values.get('circular_pattern') or '')


def _by_rotation(rows: Sequence[tuple[Answer, Mark]]) -> Mapping[str, float]:
    """Accuracy over all rotations and over the unrotated rows, the majority of rotations, and the letters' shares."""
    rotations = [(answer, mark, *_rotation(answer)) for answer, mark in rows]
    unmoved = [mark.score for _, mark, _, _, pattern in rotations if pattern == ''.join(sorted(pattern))]
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    originals: dict[str, str] = {}
    for answer, _, question, gold, pattern in rotations:
        if question is not None:
            votes[question][_original(strip_text(answer.prediction), pattern)] += 1
            originals[question] = _original(gold, pattern)
    won = [float(votes[question].most_common(1)[0][0] == gold) for question, gold in originals.items()]
    letters = Counter(strip_text(answer.prediction) for answer, *_ in rotations)
    shares = {
        f'prior_{letter}': count / len(rotations) for letter, count in sorted(letters.items()) if len(letter) == 1
    }
    means = {'acc_all': [mark.score for _, mark in rows], 'acc_origin': unmoved, 'vote_circular': won}
    return {name: sum(scores) / len(scores) for name, scores in means.items() if scores} | shares


def _original(letter: str, pattern: str) -> str:
    """The unrotated letter of the option that this rotation shows at `letter`."""
    place = ''.join(sorted(pattern)).find(letter) if len(letter) == 1 else -1
    return pattern[place] if place >= 0 else letter
