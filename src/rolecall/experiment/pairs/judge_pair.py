"""A pair seen by its judge: what the judge receives about stand-in replies, for the viewer and the linter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import RenderError
from rolecall.experiment.opening.judge_config import Opponent
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.pairs.pair import Pair, Preview, stand_in_reply
from rolecall.scoring.answers import AnswerReader, Scorable
from rolecall.scoring.metrics.judging import judge_values
from rolecall.scoring.metrics.metric import Answer, Rival
from rolecall.sources.datasets import Row
from rolecall.sources.retrievers import Picked


class JudgePair(Pair):
    """A pair seen by its judge: the previews are the judge's requests about stand-in replies."""

    def __init__(self, pair: Pair, judge: JudgeEntry) -> None:
        super().__init__(pair.task, pair.model_entry, pair.picker)
        self.judge = judge
        self.answering = pair.model_entry.abbr if pair.model_entry is not None else ''
        """The model whose answers are judged; empty if any may be."""
        self.model_entry = judge.model_entry
        self.budget = judge.budget

    def previews(
        self, number: int, row: Row, picked: Picked, *, replies: Sequence[str] | None = None
    ) -> Iterator[Preview]:
        """What the judge receives about each answer to a row, in each order in which it sees two."""
        try:
            for turn, answer in enumerate(self._answers(row, replies, number)):
                values = judge_values(answer)
                trace, step = self.judge.trace(values), self.judge.step(values)
                yield Preview(
                    dataset=self.task.abbr,
                    model=self.judge.model_entry.abbr,
                    row=number,
                    mode='gen',
                    label=self._name_order(answer),
                    turn=turn if self._judges_turns else None,
                    prompt=self.judge.prompt(values),
                    request=trace.request,
                    spans=trace.spans,
                    notes=(*trace.notes, *step.notes),
                    sent=not step.too_long,
                    values=row,
                )
        except RenderError as error:
            raise RenderError(f'{self.task.abbr}, row {number}: the judge: {error}') from error

    @property
    def _judges_turns(self) -> bool:
        return self.task.inferencer.asks_every_turn and not self.judge.whole_dialogue

    def values(self, row: Row) -> list[dict[str, Any]]:
        """What the judge's prompt is filled with for each answer to a row."""
        return [judge_values(answer) for answer in self._answers(row, None, 0)]

    def _answers(self, row: Row, replies: Sequence[str] | None, number: int) -> tuple[Answer, ...]:
        """The stand-in answers that the judge is asked about. Further replies stand for those of the opponents."""
        turns = self.turns(row)
        every = self.task.inferencer.asks_every_turn
        reader = AnswerReader(
            gold_column=self.task.wording.output_column,
            by_turn=self._judges_turns,
            needs_gold=False,
            whole_dialogue=self.judge.whole_dialogue,
            by_prompt=self.judge.by_prompt,
        )

        def read(texts: list[str], rivals: tuple[Rival, ...] = ()) -> tuple[Answer, ...]:
            return reader.read(Scorable(0, 'ok', texts if every else texts[-1], values=row, rivals=rivals)).answers

        texts = [stand_in_reply(replies, turn) for turn in range(turns)]
        if self.judge.comparison is None:
            return read(texts)
        left = iter((replies or ())[turns:])

        def stand_in(opponent: Opponent) -> Rival:
            if opponent.column is not None:
                return Rival(opponent.name, text_of(row.get(opponent.column, '')))
            [answer] = read(
                [
                    next(left, f'{reply} of {opponent.name}')
                    for reply in (stand_in_reply(None, turn) for turn in range(turns))
                ]
            )
            return Rival(opponent.name, answer.prediction, answer.turns)

        return read(texts, self.judge.comparison.arrange(self.answering, number, stand_in))

    def _name_order(self, answer: Answer) -> str | None:
        """Whose answers the judge sees, in this order."""
        if answer.rival is None:
            return None
        names = [self.answering or 'this model', answer.rival.name]
        first, second = reversed(names) if answer.rival.stands_first else names
        return f'A: {first}, B: {second}'
