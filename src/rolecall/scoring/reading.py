"""From a finished row to the answers in it: one, one for each sample, or one for each turn.

A postprocessor that finds nothing, or raises, leaves the row `unparsed` and says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecall.models.base import Outcome
from rolecall.prompts.values import text_of
from rolecall.scoring.metrics.base import Answer
from rolecall.scoring.postprocessors import Extract, found_nothing
from rolecall.scoring.usercode import ScoringError, blaming

__all__ = ['Read', 'Reader', 'Scorable']


@dataclass(frozen=True, slots=True)
class Scorable:
    """One finished row, as far as scoring needs it."""

    row: int
    outcome: Outcome
    prediction: Any
    """A text, label or number; a list is several turns, several samples of one answer, or choices' probabilities."""
    gold: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The row of the dataset."""
    cluster: str | None = None
    """Rows with the same cluster are not independent of each other."""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """A row with its answers taken out of the reply: one, or one for each sample or turn."""

    row: Scorable
    outcome: Outcome
    extracted: Any
    gold: Any
    answers: tuple[Answer, ...]
    reason: str = ''
    """Why nothing was found, where a postprocessor raised."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Takes the answers out of replies, and the gold answers out of the dataset's."""

    extract: tuple[Extract, ...] = ()
    extract_gold: Extract | None = None
    gold_column: str | None = None
    by_turn: bool = False
    """Whether a list of predictions is one of turns, each with its own gold answer."""
    needs_gold: bool = True
    """Whether a turn without a gold answer is left out."""
    weighs: bool = False
    """Whether the probabilities of choices are taken as they are; otherwise the likeliest choice is the answer."""

    def read(self, row: Scorable) -> Read:
        """The row's answers; an empty one where there is none."""
        gold = self._gold(row)
        if row.outcome != 'ok':
            return Read(row, row.outcome, None, gold, self._answers(row, [] if self.by_turn else [''], gold))
        prediction = row.prediction
        choices = () if self.weighs else _choices(row)
        if choices:
            prediction, gold = _likeliest(prediction, choices), _as_a_choice(gold, choices)
        several = isinstance(prediction, (list, tuple)) and all(isinstance(one, str) for one in prediction)
        tries = [self._try(one) for one in (prediction if several else [prediction])]
        found = [one for one, _ in tries] if several else tries[0][0]
        empty = bool(self.extract) and all(found_nothing(one) for one, _ in tries)
        return Read(
            row,
            'unparsed' if empty else 'ok',
            found,
            gold,
            self._answers(row, found if several or self.by_turn else [found], gold),
            next((reason for _, reason in tries if reason), ''),
        )

    def extracted(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty text if there is none."""
        return self._try(prediction)[0]

    def _try(self, prediction: Any) -> tuple[Any, str]:
        """The answer in one reply, and what was raised on the way."""
        try:
            for extract in self.extract:
                if found_nothing(prediction):
                    break
                prediction = extract(prediction)
        except ScoringError as error:
            return None, str(error)
        return prediction, ''

    def _gold(self, row: Scorable) -> Any:
        gold = row.values.get(self.gold_column) if row.gold is None and self.gold_column else row.gold
        if self.extract_gold is None or gold is None:
            return gold
        with blaming(f'the gold answer of row {row.row}:'):
            return [self._gold_of(one) for one in gold] if isinstance(gold, (list, tuple)) else self._gold_of(gold)

    def _gold_of(self, gold: Any) -> Any:
        found = None if self.extract_gold is None else self.extract_gold(gold)
        return gold if found_nothing(found) else found

    def _answers(self, row: Scorable, found: Any, gold: Any) -> tuple[Answer, ...]:
        if self.by_turn:
            return tuple(self._turns(row, found, gold))
        return tuple(Answer(self._or_empty(one), gold, row.values) for one in found)

    def _turns(self, row: Scorable, found: Any, gold: Any) -> list[Answer]:
        """Each turn with its own gold answer; one reply to a whole dialogue with the last one."""
        golds = list(gold) if isinstance(gold, (list, tuple)) else [gold]
        if not isinstance(found, (list, tuple)):
            return [Answer(self._or_empty(found), golds[-1] if golds else None, row.values)]
        turns = max(len(found), len(golds)) if gold is not None else len(found)
        said = [*found, *[''] * (turns - len(found))]
        right = [*golds, *[None] * (turns - len(golds))]
        return [
            Answer(self._or_empty(said[turn]), right[turn], _of_turn(row.values, turn, turns))
            for turn in range(turns)
            if right[turn] is not None or not self.needs_gold
        ]

    def _or_empty(self, found: Any) -> Any:
        return '' if found is None and self.extract else found


def _of_turn(values: Mapping[str, Any], turn: int, turns: int) -> dict[str, Any]:
    """The row's columns as one turn sees them: of a column with one value for every turn, its own."""
    return {
        name: value[turn] if isinstance(value, (list, tuple)) and len(value) == turns else value
        for name, value in values.items()
    }


def _choices(row: Scorable) -> Sequence[str]:
    """What the probabilities in a prediction belong to; nothing where it holds none."""
    weighed = row.details.get('choices')
    if not isinstance(weighed, (list, tuple)) or not isinstance(row.prediction, (list, tuple)):
        return ()
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in row.prediction)
    fits = numbers and len(weighed) == len(row.prediction) and all(isinstance(one, Mapping) for one in weighed)
    return [text_of(one.get('choice')) for one in weighed] if fits else ()


def _likeliest(shares: Sequence[float], choices: Sequence[str]) -> str:
    return choices[max(range(len(choices)), key=lambda place: shares[place])]


def _as_a_choice(gold: Any, choices: Sequence[str]) -> Any:
    """A gold answer that is the place of a choice, as that choice. What is written like a choice stays."""
    if isinstance(gold, (list, tuple, bool)) or gold is None:
        return gold
    written, known = text_of(gold).strip(), [choice.strip() for choice in choices]
    if written in known or not written.isdecimal() or int(written) >= len(choices):
        return gold
    return choices[int(written)]
