"""From the stored rows of a dataset × model to its scores, and the answers that a judge compares them with."""

from __future__ import annotations

import asyncio
import json
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.core.prompts.pieces import Row, text_of
from rolecall.errors import DataError, MissingExtraError, RolecallError
from rolecall.experiment.opening.judge_config import JudgeComparison, Opponent
from rolecall.plain_files import read_plain
from rolecall.runs.judge import Judge, JudgeReply
from rolecall.runs.pair_rows import outcome_to_score, read_verdict
from rolecall.runs.pair_run import PairRun
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.runs.telemetry import traced
from rolecall.scoring.answers import Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.metrics.metric import Rival
from rolecall.scoring.scorecard import JudgeAgreement, Judging, Scorecard, Verdict
from rolecall.scoring.session import JudgeReplies, ScoringSession
from rolecall.scoring.statistics import AgreementCounter
from rolecall.sources.datasets.rows import Rows

FindOpponents = Callable[[int, Row], Sequence[Rival]]
"""From a row and its number to the answers that a judge compares its answer with."""
_CHUNK, _MANY = 1000, 10_000
"""Rows that are scored together; many where programs run side by side."""
_FEW = 20
"""Rows are looked up one by one if fewer than one in so many is needed, otherwise all are read in order."""


class PairScorer:
    """Scores the stored rows of one pair, with its judges if it has some."""

    def __init__(
        self, pair: PairRun, store: Store, judges: Sequence[Judge], *, find_opponents: FindOpponents | None
    ) -> None:
        """`find_opponents` gives the answers that those of a row are compared with."""
        self._pair = pair
        self._scorer = pair.scorer
        self._names = (pair.dataset, pair.model.name)
        self._store = store
        self._judges = judges
        self._find_opponents = find_opponents
        self._session = pair.scorer.start()
        self._others = [pair.scorer.start() for _ in judges[1:]]
        """The same rows scored by each judge after the first."""
        self._agreement = AgreementCounter()

    async def score(self, *, marked: bool) -> list[Scorecard]:
        """The score of the pair: by each judge, if there are several. Changed rows are stored.

        `marked`: all rows were marked this way as they finished, so that settled ones need not be marked again. What
        keeps rows from being scored (an evaluator that raises) is the scorecard's `error`: other pairs are not
        concerned.
        """
        session, store, metric = self._session, self._store, self._scorer.metric
        try:
            if marked and session.is_plain:
                await self._add_marks()
            else:
                find_row = _find_in_order(self._pair.compiled.data.test)
                stored = store.results(*self._names)
                many = metric is not None and metric.prepare is not None
                while chunk := list(islice(stored, _MANY if many else _CHUNK)):
                    await _store_changed(store, chunk, await self._mark(chunk, find_row))
            card = session.finish(*self._names)
        except (ScoringError, MissingExtraError) as error:
            await store.wait_until_saved(*self._names)
            return [await self._report_unscored(error)]
        await store.wait_until_saved(*self._names)
        verdicts = iter(card.verdicts)  # of a metric that had to see all rows first
        stored = store.results(*self._names) if card.verdicts else iter(())
        while chunk := list(islice(stored, _CHUNK)):
            await _store_changed(store, chunk, [_mark_result(result, next(verdicts)) for result in chunk])
        task = self._pair.compiled.task
        alias, rows_note = (str(task.entry.get(name) or '') for name in ('alias', 'rows_note'))
        rows_note = '; '.join(filter(None, (rows_note, self._pair.compiled.data.note)))
        card = replace(card, alias=alias, rows_note=rows_note, is_baseline=self._pair.is_baseline)
        if self._pair.is_baseline:
            card = replace(card, metric='win_rate')
        if not self._others:
            return [card]
        names = [judge.model.name for judge in self._judges]
        cards = zip([card, *(_finish_session(session, card) for session in self._others)], names, strict=True)
        first, *others = (_name_judge(card, name) for card, name in cards)
        agreement = JudgeAgreement(tuple(names), **self._agreement.describe())
        return [replace(first, judging=replace(first.judging or Judging(), agreement=agreement)), *others]

    async def _add_marks(self) -> None:
        """Add settled rows by their stored marks, and mark the others."""
        rows, store = self._pair.compiled.data.test, self._store
        few = store.count_unsettled(*self._names) * _FEW < len(rows)
        find_row = (lambda number: rows[number] if number < len(rows) else {}) if few else _find_in_order(rows)
        before: list[Result] = []
        after: list[Result] = []
        for count, stored in enumerate(store.marks(*self._names)):
            if isinstance(stored, Result):
                before.append(stored)
                after += await self._mark([stored], find_row)
            else:
                self._session.add_settled(stored.scores, stored.correct)
            if count % _CHUNK == 0 or len(after) >= _CHUNK:
                await _store_changed(store, before, after)
                before, after = [], []
        await _store_changed(store, before, after)

    async def _mark(self, results: Sequence[Result], find_row: Callable[[int], Row]) -> list[Result]:
        """The rows with their marks, which take the judges' replies where they are needed."""
        scorer, metric = self._scorer, self._scorer.metric
        scorable = [self._make_scorable(result, find_row(result.row)) for result in results]
        asked = await asyncio.gather(*map(self._ask_judges, scorable)) if scorer.needs_judge else ()
        replies = [ChainMap(*map(dict, by_row)) for by_row in zip(*asked, strict=True)]
        judge_replies = replies[0] if replies else {}
        if metric is not None and metric.prepare is not None:  # programs have to run first
            verdicts = await asyncio.to_thread(self._session.add, scorable, judge_replies=judge_replies)
        else:
            verdicts = self._session.add(scorable, judge_replies=judge_replies)
        others = zip(self._others, replies[1:], strict=False)
        marked = [verdicts, *(session.add(scorable, judge_replies=own) for session, own in others)]
        for each in zip(*marked, strict=True) if self._others else ():
            self._agreement.add([verdict.score for verdict in each])
        whole = metric is not None and metric.whole is not None  # marked when all were seen
        return [
            replace(
                result if whole else _mark_result(result, verdict),
                judged=_describe_replies([reply for by_row in replies for reply in by_row.get(result.row, ())]),
            )
            for result, verdict in zip(results, verdicts, strict=True)
        ]

    async def _ask_judges(self, row: Scorable) -> list[JudgeReplies]:
        """What each judge replies about a row; their requests stand below one span."""
        with traced(f'judge {self._pair.name}', {'rolecall.pair': self._pair.name, 'rolecall.row': row.row}):
            return await asyncio.gather(*(self._scorer.ask_judge([row], judge) for judge in self._judges))

    def _make_scorable(self, result: Result, values: Row) -> Scorable:
        scorable = scorable_of(result, values)
        scorable.used = self._pair.usage(result.seconds, result.input_tokens, result.output_tokens)
        if self._find_opponents is None:
            return scorable
        return replace(scorable, rivals=self._find_opponents(result.row, values))

    async def _report_unscored(self, error: RolecallError) -> Scorecard:
        """Take the scores off the stored rows; the scorecard that says why there are none."""
        outcomes: Counter[str] = Counter()
        stored = self._store.results(*self._names)
        while chunk := list(islice(stored, _CHUNK)):
            plain = [
                _mark_result(result, Verdict(result.row, outcome=outcome_to_score(result.outcome, result.prediction)))
                for result in chunk
            ]
            outcomes.update(result.outcome for result in plain)
            await _store_changed(self._store, chunk, plain)
        return Scorecard(
            *self._names,
            metric=self._scorer.metric.name if self._scorer.metric else '',
            value=None,
            total=outcomes.total(),
            outcomes=outcomes,
            error=f'{self._pair.name} could not be scored: {error}',
        )


def _finish_session(session: ScoringSession, first: Scorecard) -> Scorecard:
    """The score of a judge after the first, in the form of the first one's card."""
    try:
        return session.finish(first.dataset, first.model)
    except ScoringError as error:
        message = f'{first.dataset} × {first.model} could not be scored: {error}'
        return Scorecard(first.dataset, first.model, first.metric, None, total=first.total, error=message)


def _name_judge(card: Scorecard, judge: str) -> Scorecard:
    """The card of one judge among several. Like extractors, they are columns of their own."""
    judging = replace(card.judging or Judging(), judge=judge)
    return replace(card, metric=f'{card.metric} ({judge})', extractor=judge, judging=judging)


def _find_in_order(rows: Rows) -> Callable[[int], Row]:
    """Finds rows by number, each further on than the one before."""
    numbered = enumerate(rows)

    def find(number: int) -> Row:
        return next((row for place, row in numbered if place == number), {})

    return find


async def _store_changed(store: Store, before: Sequence[Result], after: Sequence[Result]) -> None:
    changed = [new for old, new in zip(before, after, strict=True) if new != old or new.settled != old.settled]
    if changed:
        store.update_rows(changed)
    await store.wait_for_room()
    await asyncio.sleep(0)


def _describe_replies(replies: Sequence[str | None]) -> tuple[Mapping[str, str] | None, ...]:
    """What is stored of a judge's replies: nothing if none was asked for."""
    described = [
        {'judge': reply.judge, 'fingerprint': reply.fingerprint, 'reply': str(reply)}
        if isinstance(reply, JudgeReply)
        else None
        for reply in replies
    ]
    return tuple(described) if any(described) else ()


def scorable_of(result: Result, values: Row) -> Scorable:
    """A stored row as the scorer takes it; `values` are the columns of the dataset."""
    outcome = outcome_to_score(result.outcome, result.prediction)
    return Scorable(result.row, outcome, result.prediction, result.gold, values, result.cluster, result.details)


def _mark_result(result: Result, verdict: Verdict) -> Result:
    outcome, reason = read_verdict(verdict, result.reason)
    return replace(
        result,
        outcome=outcome,
        reason=reason,
        extracted=verdict.extracted,
        score=verdict.score,
        correct=verdict.correct,
        read_from=verdict.read_from,
        beside=verdict.beside,
        settled=verdict.settled,
    )


class OpponentFinder:
    """Finds the answers that one model's answers to the rows of a dataset are compared with."""

    def __init__(
        self,
        comparison: JudgeComparison,
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
        text = read_plain(file)
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
