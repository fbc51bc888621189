"""The answers that a judge compares a model's answers with: stored ones of another model, a column, or a file."""

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
from rolecall.runs.scores import Scores
from rolecall.runs.store.writer import Store
from rolecall.scoring.metrics.metric import Rival


class RivalFinder:
    """Finds the rivals of one model's answers to the rows of a dataset."""

    def __init__(
        self,
        comparison: Comparison,
        store: Store,
        dataset: str,
        model: str,
        *,
        scores: Scores,
        scores_of: Mapping[str, Scores],
        base: Path | None,
    ) -> None:
        """`scores` reads the answers of models that have none of their own in `scores_of`."""
        self._comparison = comparison
        self._store = store
        self._dataset, self._model = dataset, model
        self._scores, self._scores_of = scores, scores_of
        self.missing: dict[str, Counter[str]] = defaultdict(Counter)
        """Why opponents have no answer to a row, and how often."""
        self._given = {
            one.name: read_given_answers(one.path, dataset, base)
            for one in comparison.against(model)
            if one.path is not None
        }

    def __call__(self, number: int, row: Row) -> Sequence[Rival]:
        """The rivals of the answer to a row, once for each order in which the judge sees the two."""
        return self._comparison.arrange(self._model, number, lambda one: self._note(self._find(one, number, row)))

    def _note(self, rival: Rival) -> Rival:
        if rival.reason:
            self.missing[rival.name][rival.reason] += 1
        return rival

    def _find(self, opponent: Opponent, number: int, row: Row) -> Rival:
        if opponent.column is not None:
            return _take_column(opponent.name, row, opponent.column)
        if opponent.path is not None:
            given = self._given[opponent.name].get(number)
            why = f'{opponent.path} has none to this row'
            return _lack(opponent.name, why) if given is None else Rival(opponent.name, given)
        result = self._store.result(self._dataset, opponent.name, number)
        if result is None:
            return _lack(opponent.name, 'the model was not asked')
        read = self._scores_of.get(opponent.name, self._scores).read_answers(result, row)
        if read.outcome != 'ok' or not read.answers:
            why = f'{read.outcome}: {result.reason}' if result.reason else read.outcome
            return _lack(opponent.name, why)
        answer = read.answers[0]
        return Rival(opponent.name, answer.prediction, answer.turns)


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
        found = json.loads(text) if file.suffix == '.json' else [json.loads(line) for line in text.splitlines() if line]
        listed = found.items() if isinstance(found, Mapping) else enumerate(found)
        return {int(number): _read_answer(one) for number, one in listed}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f'{file}: expected the answers of a model by row: {error!r:.80}.') from error


def _find_file(path: str, dataset: str, base: Path | None) -> Path:
    written = Path(path).expanduser()
    for place in (written, *([base / written] if base is not None else [])):
        for file in (place, place / f'{dataset}.json', place / f'{dataset}.jsonl'):
            if file.is_file():
                return file
    raise DataError(
        f'{path}: no such file, and no folder with {dataset}.json. It should hold the answers to compare with.'
    )


def _read_answer(one: Any) -> str:
    if isinstance(one, Mapping):
        one = next(one[key] for key in ('prediction', 'output', 'answer') if key in one)
    if not isinstance(one, str):
        raise TypeError(f'{one!r:.40} is not a text')
    return one
