"""Extract the answers of a finished row: one, one per sample, or one per turn.

A row whose postprocessor finds nothing or raises is `unparsed`, with the reason. What is made for every row is not
frozen: making a frozen object takes three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.core.prompts.messages import has_messages, read_conversation
from rolecall.core.prompts.pieces import text_of
from rolecall.errors import RenderError
from rolecall.models.protocol import Outcome
from rolecall.scoring.blame import ScoringError, blame_errors_on
from rolecall.scoring.metrics.metric import Answer, Rival
from rolecall.scoring.postprocessors import Extractor, is_empty
from rolecall.scoring.readers.reading import Reading


@dataclass(slots=True)
class Scorable:
    """The part of a finished row that scoring needs."""

    row: int
    outcome: Outcome
    prediction: Any
    """A text, label or number; a list holds turns, samples of one answer, or probabilities of choices."""
    gold: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The row of the dataset."""
    cluster: str | None = None
    """Rows of one cluster are not independent."""
    details: Mapping[str, Any] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    """What the answer took, where the metric takes it."""
    rivals: Sequence[Rival] = ()
    """The answers that a judge compares this one with, one for each order in which it sees them."""


@dataclass(slots=True)
class ReadRow:
    """A row with its extracted answers: one, or one per sample or turn."""

    row: Scorable
    outcome: Outcome
    extracted: Any
    gold: Any
    answers: tuple[Answer, ...]
    reason: str = ''
    """Why there is no answer: what a postprocessor raised, or that the reply states none."""
    readings: tuple[Reading | None, ...] = ()
    """What each answer was read from, where a reader of ours read it."""

    @property
    def places(self) -> tuple[Any, ...]:
        """Where the answers stand in their replies; nothing if no reader of ours read them."""
        return tuple(reading and reading.place for reading in self.readings) if any(self.readings) else ()


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Extracts answers from replies, and gold answers from the dataset's columns."""

    extract: tuple[Extractor, ...] = ()
    extract_gold: Extractor | None = None
    gold_column: str | None = None
    by_turn: bool = False
    """Whether a list of predictions holds turns, each with its own gold answer."""
    needs_gold: bool = True
    """Whether turns without a gold answer are left out."""
    weighs: bool = False
    """Whether probabilities of choices are passed on as they are; otherwise the likeliest choice is the answer."""
    whole_dialogue: bool = False
    """Whether a list of predictions holds the turns of a dialogue that is marked as a whole."""
    by_prompt: bool = False
    """Whether a row has several judge's templates (`judge_prompt_list`), so that an answer is judged by each."""

    def read(self, row: Scorable) -> ReadRow:
        """The row's answers; an empty one where there is none. With rivals, one for each of them."""
        answered = self._read(row)
        if row.used:
            answered.answers = tuple(replace(answer, used=row.used) for answer in answered.answers)
        if self.by_prompt and answered.outcome == 'ok':
            answered = _add_prompts(answered)
        return _add_rivals(answered, row.rivals) if row.rivals and answered.outcome == 'ok' else answered

    def _read(self, row: Scorable) -> ReadRow:
        gold = self._read_gold(row)
        if row.outcome != 'ok':
            return ReadRow(row, row.outcome, None, gold, self._answers(row, [] if self.by_turn else [''], gold))
        prediction = row.prediction
        choices = () if self.weighs or isinstance(prediction, str) else _choices(row)
        if choices:
            prediction, gold = _pick_likeliest(prediction, choices), _resolve_choice(gold, choices)
        if isinstance(prediction, str) and not self.by_turn:
            extracted, reason, reading = self._try_extract(prediction, row.values)
            outcome: Outcome = 'unparsed' if self.extract and is_empty(extracted) else 'ok'
            answer = Answer(self._or_empty(extracted), gold, row.values, calls=_calls(row))
            return ReadRow(row, outcome, extracted, gold, (answer,), reason, (reading,))
        several = isinstance(prediction, (list, tuple)) and all(isinstance(reply, str) for reply in prediction)
        tries = [self._try_extract(reply, row.values) for reply in (prediction if several else [prediction])]
        extracted = [answer for answer, _, _ in tries] if several else tries[0][0]
        empty = bool(self.extract) and all(is_empty(answer) for answer, _, _ in tries)
        reason = next((reason for _, reason, _ in tries if reason), '')
        readings = tuple(reading for _, _, reading in tries)
        if several and self.whole_dialogue and not empty:
            replies = [self._or_empty(reply) for reply in extracted]
            answer = Answer(replies, gold, row.values, turns=_describe_turns(row.values, replies))
            return ReadRow(row, 'ok', extracted, gold, (answer,), reason, readings)
        return ReadRow(
            row,
            'unparsed' if empty else 'ok',
            extracted,
            gold,
            self._answers(row, extracted if several or self.by_turn else [extracted], gold),
            reason,
            readings,
        )

    def extract_answer(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty string if there is none."""
        return self._try_extract(prediction)[0]

    def _try_extract(self, prediction: Any, values: Mapping[str, Any] | None = None) -> tuple[Any, str, Reading | None]:
        """The answer in one reply, why there is none, and what it was read from. An inferred one gets no credit."""
        answer, reading = prediction, None
        try:
            for extract in self.extract:
                if is_empty(answer):
                    break
                text, answer = answer, extract.read(answer, values)
                if isinstance(answer, Reading):
                    offset = prediction.find(text) if isinstance(prediction, str) and isinstance(text, str) else 0
                    reading = answer.moved(max(offset, 0))
                    answer = reading.value if reading.counts else None
        except ScoringError as error:
            return None, str(error), None
        return answer, reading.why_not if reading else '', reading

    def _read_gold(self, row: Scorable) -> Any:
        gold = row.values.get(self.gold_column) if row.gold is None and self.gold_column else row.gold
        if self.extract_gold is None or gold is None:
            return gold
        with blame_errors_on(f'the gold answer of row {row.row}:'):
            if isinstance(gold, (list, tuple)):
                return [self._gold_of(answer) for answer in gold]
            return self._gold_of(gold)

    def _gold_of(self, gold: Any) -> Any:
        extracted = None if self.extract_gold is None else self.extract_gold(gold)
        return gold if is_empty(extracted) else extracted

    def _answers(self, row: Scorable, extracted: Any, gold: Any) -> tuple[Answer, ...]:
        if self.by_turn:
            return tuple(self._read_turns(row, extracted, gold))
        return tuple(Answer(self._or_empty(reply), gold, row.values) for reply in extracted)

    def _read_turns(self, row: Scorable, extracted: Any, gold: Any) -> list[Answer]:
        """Pair each turn with its own gold answer; a single reply to a dialogue with the last one."""
        golds = list(gold) if isinstance(gold, (list, tuple)) else [gold]
        if not isinstance(extracted, (list, tuple)):
            return [Answer(self._or_empty(extracted), golds[-1] if golds else None, row.values)]
        turns = max(len(extracted), len(golds)) if gold is not None else len(extracted)
        padded = [*extracted, *[''] * (turns - len(extracted))]
        right = [*golds, *[None] * (turns - len(golds))]
        replies = row.prediction if isinstance(row.prediction, (list, tuple)) else extracted
        values = [_values_of_turn(row.values, turn, turns) for turn in range(turns)]
        history = _describe_turns(row.values, replies, turns)
        return [
            Answer(self._or_empty(padded[turn]), right[turn], values[turn], history=history[:turn])
            for turn in range(turns)
            if right[turn] is not None or not self.needs_gold
        ]

    def _or_empty(self, extracted: Any) -> Any:
        return '' if extracted is None and self.extract else extracted


def _add_prompts(row: ReadRow) -> ReadRow:
    """The row with its answers once for each of its judge's templates, as the column `judge_prompt`."""
    values = row.row.values
    nested = values.get('judge')
    prompts = values.get('judge_prompt_list') or (
        nested.get('judge_prompt_list') if isinstance(nested, Mapping) else None
    )
    if not isinstance(prompts, (list, tuple)) or not all(isinstance(prompt, str) for prompt in prompts):
        reason = "the row has no list of judge's templates in the column 'judge_prompt_list'."
        return replace(row, outcome='failed', answers=(), reason=reason)
    answers = [
        replace(answer, values={**answer.values, 'judge_prompt': prompt})
        for answer in row.answers
        for prompt in prompts
    ]
    return replace(row, answers=tuple(answers))


def _add_rivals(row: ReadRow, rivals: Sequence[Rival]) -> ReadRow:
    """The row with its answers once for each rival that has an answer, too; failed if none has."""
    present = [rival for rival in rivals if not rival.reason]
    if not present:
        return replace(row, outcome='failed', answers=(), reason=rivals[0].reason)
    answers = tuple(replace(answer, rival=rival) for answer in row.answers for rival in present)
    return replace(row, answers=answers)


def _describe_turns(
    values: Mapping[str, Any], replies: Sequence[Any], turns: int | None = None
) -> tuple[Mapping[str, Any], ...]:
    """Each turn that has a reply: the row's columns at that turn, and the reply."""
    count = len(replies) if turns is None else turns
    return tuple(
        {**_values_of_turn(values, turn, count), 'prediction': reply}
        for turn, reply in enumerate(replies)
        if turn < count
    )


def _calls(row: Scorable) -> tuple[Mapping[str, Any], ...]:
    """The tools that were called for the one reply of a row."""
    by_reply = row.details.get('tool_calls') if row.details else ()
    return tuple(call for calls in by_reply for call in calls) if by_reply else ()


def _values_of_turn(values: Mapping[str, Any], turn: int, turns: int) -> dict[str, Any]:
    """The row's columns for one turn: one value of columns that have one per turn, one question of a dialogue."""
    return {name: _value_of_turn(name, value, turn, turns) for name, value in values.items()}


def _value_of_turn(name: str, value: Any, turn: int, turns: int) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    if has_messages(value):
        try:
            questions = read_conversation(value, name).questions
        except RenderError:  # messages of another kind
            questions = ()
        if len(questions) == turns:
            return questions[turn]
    return value[turn] if len(value) == turns else value


def _choices(row: Scorable) -> Sequence[str]:
    """The choices that the probabilities in a prediction belong to; empty where it holds none."""
    weighed = row.details.get('choices')
    if not isinstance(weighed, (list, tuple)) or not isinstance(row.prediction, (list, tuple)):
        return ()
    numbers = all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in row.prediction)
    fits = numbers and len(weighed) == len(row.prediction) and all(isinstance(weight, Mapping) for weight in weighed)
    return [text_of(entry.get('choice')) for entry in weighed] if fits else ()


def _pick_likeliest(shares: Sequence[float], choices: Sequence[str]) -> str:
    return choices[max(range(len(choices)), key=lambda place: shares[place])]


def _resolve_choice(gold: Any, choices: Sequence[str]) -> Any:
    """A gold answer that is the index of a choice, as that choice. One that equals a choice is kept."""
    if isinstance(gold, (list, tuple, bool)) or gold is None:
        return gold
    text, stripped = text_of(gold).strip(), [choice.strip() for choice in choices]
    if text in stripped or not text.isdecimal() or int(text) >= len(choices):
        return gold
    return choices[int(text)]
