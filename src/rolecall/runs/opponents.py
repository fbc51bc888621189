"""The answers that a judge compares a model's answers with: those of another model, a column, or a file."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecall.core.prompts.pieces import Row
from rolecall.core.prompts.values import text_of
from rolecall.errors import DataError
from rolecall.experiment.opening.comparisons import Comparison, Opponent
from rolecall.runs.pair_scoring import scorable_of
from rolecall.runs.store.writer import Store
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.metrics.metric import Rival


class OpponentFinder:
    """Finds the answers that one model's answers to the rows of a dataset are compared with."""

    def __init__(
        self,
        comparison: Comparison,
        store: Store,
        dataset: str,
        model: str,
        *,
        scorer: DatasetScorer,
        scorers: Mapping[str, DatasetScorer],
        base: Path | None,
    ) -> None:
        """`scorer` reads the answers of models that have none of their own in `scorers`."""
        self._comparison = comparison
        self._store = store
        self._dataset, self._model = dataset, model
        self._scorer, self._scorers = scorer, scorers
        self.missing: dict[str, Counter[str]] = defaultdict(Counter)
        """Why opponents have no answer to a row, and how often."""
        self._answers = {
            opponent.name: read_given_answers(opponent.path, dataset, base)
            for opponent in comparison.against(model)
            if opponent.path is not None
        }

    def __call__(self, number: int, row: Row) -> Sequence[Rival]:
        """The opponents of the answer to a row, once for each order in which the judge sees the two."""
        return self._comparison.arrange(self._model, number, lambda name: self._note(self._find(name, number, row)))

    def _note(self, rival: Rival) -> Rival:
        if rival.reason:
            self.missing[rival.name][rival.reason] += 1
        return rival

    def _find(self, opponent: Opponent, number: int, row: Row) -> Rival:
        if opponent.column is not None:
            return _take_column(opponent.name, row, opponent.column)
        if opponent.path is not None:
            answer = self._answers[opponent.name].get(number)
            why = f'{opponent.path} has none to this row'
            return _lack(opponent.name, why) if answer is None else Rival(opponent.name, answer)
        result = self._store.result(self._dataset, opponent.name, number)
        if result is None:
            return _lack(opponent.name, 'the model was not asked')
        reply = self._scorers.get(opponent.name, self._scorer).read(scorable_of(result, row))
        if reply.outcome != 'ok' or not reply.answers:
            why = f'{reply.outcome}: {result.reason}' if result.reason else reply.outcome
            return _lack(opponent.name, why)
        return Rival(opponent.name, reply.answers[0].prediction, reply.answers[0].turns)


def _take_column(name: str, row: Row, column: str) -> Rival:
    """The answer in a column. An empty cell is a missing answer, not one that anything is better than."""
    value = row.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return _lack(name, f'the column {column!r} is empty' if column in row else f'the row has no column {column!r}')
    return Rival(name, value if isinstance(value, str) else text_of(value))


def _lack(name: str, why: str) -> Rival:
    return Rival(name, reason=f'no answer of {name} to compare with: {why}.')


def read_given_answers(path: str, dataset: str, base: Path | None) -> dict[int, str]:
    """The answers in a file, by row: OpenCompass' predictions, a JSON list, or JSON lines.

    `path` may be a folder that holds `DATASET.json`; it counts from the working directory, or else from `base`.
    """
    file = _find_file(path, dataset, base)
    try:
        text = file.read_text(encoding='utf-8')
        data = json.loads(text) if file.suffix == '.json' else [json.loads(line) for line in text.splitlines() if line]
        by_row = data.items() if isinstance(data, Mapping) else enumerate(data)
        return {int(number): _read_answer(answer) for number, answer in by_row}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f'{file}: expected the answers of a model by row: {error!r:.80}.') from error


def _find_file(path: str, dataset: str, base: Path | None) -> Path:
    expanded = Path(path).expanduser()
    for place in (expanded, *([base / expanded] if base is not None else [])):
        for file in (place, place / f'{dataset}.json', place / f'{dataset}.jsonl'):
            if file.is_file():
                return file
    raise DataError(
        f'{path}: no such file, and no folder with {dataset}.json. It should hold the answers to compare with.'
    )


def _read_answer(answer: Any) -> str:
    if isinstance(answer, Mapping):
        answer = next(answer[key] for key in ('prediction', 'output', 'answer') if key in answer)
    if not isinstance(answer, str):
        raise TypeError(f'{answer!r:.40} is not a text')
    return answer
