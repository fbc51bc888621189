"""From the results of a dataset × model to its scores, through the room of scoring."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from rolecall.core.prompts.pieces import Row
from rolecall.core.prompts.script import PromptList
from rolecall.core.render.families import meta_template
from rolecall.errors import ConfigError, MissingExtraError, Problem, RenderError, RolecallError
from rolecall.experiment.opening.comparisons import Comparison
from rolecall.experiment.opening.judges import describe_scoring, find_judges
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import Task
from rolecall.models.protocol import Outcome
from rolecall.runs.judge import Judge, Opinion
from rolecall.runs.recipes import digest_scoring
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.agreement import Agreement
from rolecall.scoring.answers import ReadRow, Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import DatasetScorer, build_scorer
from rolecall.scoring.metrics.metric import Rival
from rolecall.scoring.scorecard import JudgeAgreement, Judging, Scorecard, Verdict
from rolecall.scoring.session import Opinions, ScoringSession
from rolecall.sources.datasets.rows import Rows

FindRivals = Callable[[int, Row], Sequence[Rival]]
"""From a row and its number to the answers that a judge compares its answer with."""
_NO_ANSWER = 'no answer was found in the reply.'
_CHUNK, _MANY = 1000, 10_000
"""Rows that are scored together; many where programs run side by side."""
_FEW = 20
"""Rows are looked up one by one if fewer than one in so many is needed, otherwise all are read in order."""
_TRIED, _QUICK = 20, 0.005
"""Rows after which it is known, and seconds a row below which, marking is quick enough to be done while others wait."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How a dataset × model is scored."""

    scorer: DatasetScorer
    judges: tuple[Judge, ...] = ()
    """Each gives a score of its own; the first one's verdicts are those of the rows."""
    alias: str = ''
    """The dataset's other name, where a task file has one."""
    rows_note: str = ''
    """What is special about the rows: that they are a sample, or not the published ones."""
    digest: str | None = None
    """What the verdicts depend on; None if that cannot be told."""
    is_baseline: bool = False
    """Whether the other models are compared with this one, and it is compared with none."""

    @property
    def comparison(self) -> Comparison | None:
        """What the answers are compared with; None if they are judged alone, or by a rule."""
        return self.judges[0].judge_entry.comparison if self.judges else None

    def extract(self, reply: str) -> Any:
        """The answer in a reply; None if there is none."""
        return self.scorer.extract(reply)

    def read_answers(self, result: Result, values: Row) -> ReadRow:
        """The answers in a stored row, as a judge sees them."""
        return self.scorer.read(_scorable(result, values))

    def start_marking(self) -> Callable[[Sequence[Scorable]], Sequence[Verdict] | None]:
        """A function that gives the verdicts on rows as they finish, as long as that is quick.

        Rows without one are marked by `score_stored`, and so are all rows if the metric needs a judge, other rows or
        other processes.
        """
        session = self.scorer.start(adds_up=False)
        seconds, marked = 0.0, 0

        def mark(rows: Sequence[Scorable]) -> Sequence[Verdict] | None:
            nonlocal seconds, marked
            if marked > _TRIED and seconds / marked > _QUICK:
                return None
            began = time.thread_time()  # others may keep this process waiting
            try:
                verdicts = session.add(rows)
            except (ScoringError, MissingExtraError):  # reported when the rows are scored
                return None
            seconds, marked = seconds + time.thread_time() - began, marked + len(rows)
            return verdicts

        return mark if self.digest is not None and session.is_plain else lambda rows: None

    async def score_stored(
        self,
        store: Store,
        dataset: str,
        model: str,
        rows: Rows,
        *,
        marked: bool,
        find_rivals: FindRivals = lambda number, row: (),
    ) -> list[Scorecard]:
        """The score of the stored rows of a dataset × model, `rows` being the dataset's: by each judge, if there are
        several. Changed rows are stored.

        `find_rivals` gives the answers that those of a row are compared with. `marked`: all of them were marked this
        way as they finished, so that settled rows need not be marked again. What keeps rows from being scored (an
        evaluator that raises) is the scorecard's `error`: other datasets are not concerned.
        """
        session = self.scorer.start()
        panel = _Panel([self.scorer.start() for _ in self.judges[1:]])
        try:
            if marked and session.is_plain:
                await self._add_marks(session, store, dataset, model, rows)
            else:
                values = _find_in_order(rows)
                stored = store.results(dataset, model)
                many = self.scorer.metric is not None and self.scorer.metric.prepare is not None
                while chunk := list(islice(stored, _MANY if many else _CHUNK)):
                    await _store_rows(
                        store, _find_changed(chunk, await self._mark(session, chunk, values, find_rivals, panel))
                    )
            card = session.finish(dataset, model)
        except (ScoringError, MissingExtraError) as error:
            return [await _report_unscored(store, dataset, model, self.scorer, error)]
        verdicts = iter(card.verdicts)  # of a metric that had to see all rows first
        stored = store.results(dataset, model) if card.verdicts else iter(())
        while chunk := list(islice(stored, _CHUNK)):
            await _store_rows(store, _find_changed(chunk, [_mark_result(one, next(verdicts)) for one in chunk]))
        card = replace(card, alias=self.alias, rows_note=self.rows_note, is_baseline=self.is_baseline)
        if self.is_baseline:
            card = replace(card, metric='win_rate')
        if not panel.sessions:
            return [card]
        names = [judge.model.name for judge in self.judges]
        first, *others = (_name_judge(one, name) for one, name in zip([card, *panel.finish(card)], names, strict=True))
        agreement = JudgeAgreement(tuple(names), **panel.agreement.describe())
        return [replace(first, judging=replace(first.judging or Judging(), agreement=agreement)), *others]

    async def _add_marks(self, session: ScoringSession, store: Store, dataset: str, model: str, rows: Rows) -> None:
        """Add settled rows by their stored marks, and mark the others."""
        few = store.count_unsettled(dataset, model) * _FEW < len(rows)
        values = (lambda number: rows[number] if number < len(rows) else {}) if few else _find_in_order(rows)
        changed: list[Result] = []
        for count, one in enumerate(store.marks(dataset, model)):
            if isinstance(one, Result):
                changed += _find_changed([one], await self._mark(session, [one], values))
            else:
                session.add_settled(one.scores, one.correct)
            if count % _CHUNK == 0 or len(changed) >= _CHUNK:
                await _store_rows(store, changed)
                changed = []
        await _store_rows(store, changed)

    async def _mark(
        self,
        session: ScoringSession,
        results: Sequence[Result],
        values: Callable[[int], Row],
        find_rivals: FindRivals = lambda number, row: (),
        panel: _Panel | None = None,
    ) -> list[Result]:
        """The rows with their marks, which take the judges' replies where they are needed."""
        scorable = [_scorable(result, values(result.row), find_rivals) for result in results]
        asked = self.judges if self.scorer.needs_judge else ()
        heard = await asyncio.gather(*(self.scorer.ask_judge(scorable, judge) for judge in asked))
        opinions = heard[0] if heard else {}
        if self.scorer.metric is not None and self.scorer.metric.prepare is not None:  # programs have to run first
            verdicts = await asyncio.to_thread(session.add, scorable, opinions=opinions)
        else:
            verdicts = session.add(scorable, opinions=opinions)
        if panel is not None:
            panel.add(scorable, heard[1:], verdicts)
        whole = self.scorer.metric is not None and self.scorer.metric.whole is not None  # marked when all were seen
        return [
            replace(
                result if whole else _mark_result(result, verdict),
                judged=_describe_opinions([one for said in heard for one in said.get(result.row, ())]),
            )
            for result, verdict in zip(results, verdicts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Panel:
    """The judges after the first: the same rows scored by each, and how far all agree."""

    sessions: Sequence[ScoringSession]
    agreement: Agreement = field(default_factory=Agreement)

    def add(self, rows: Sequence[Scorable], opinions: Sequence[Opinions], first: Sequence[Verdict]) -> None:
        """Score some rows by each judge's replies; `first` has the verdicts of the first judge."""
        marked = [first]
        for session, heard in zip(self.sessions, opinions, strict=False):
            marked.append(session.add(rows, opinions=heard))
        for verdicts in zip(*marked, strict=True):
            self.agreement.add([verdict.score for verdict in verdicts])

    def finish(self, first: Scorecard) -> list[Scorecard]:
        """The score of each judge after the first, in the form of the first one's card."""
        return [_finish_session(session, first) for session in self.sessions]


def _finish_session(session: ScoringSession, first: Scorecard) -> Scorecard:
    try:
        return session.finish(first.dataset, first.model)
    except ScoringError as error:
        told = f'{first.dataset} × {first.model} could not be scored: {error}'
        return Scorecard(first.dataset, first.model, first.metric, None, total=first.total, error=told)


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


def _find_changed(before: Sequence[Result], after: Sequence[Result]) -> list[Result]:
    return [new for old, new in zip(before, after, strict=True) if new != old or new.settled != old.settled]


async def _store_rows(store: Store, changed: Sequence[Result]) -> None:
    if changed:
        await store.wait_until_saved()
        store.update_rows(changed)
    await asyncio.sleep(0)


def _describe_opinions(opinions: Sequence[str | None]) -> tuple[Mapping[str, str] | None, ...]:
    """What is stored of a judge's replies: nothing if none was asked for."""
    found = [
        {'judge': one.judge, 'fingerprint': one.fingerprint, 'reply': str(one)} if isinstance(one, Opinion) else None
        for one in opinions
    ]
    return tuple(found) if any(found) else ()


def build_scores(task: Task, model_entry: ModelEntry, model_entries: Sequence[ModelEntry]) -> Scores:
    """The scoring that a dataset's `eval_cfg` describes, for one model."""
    written = task.entry.get('eval_cfg')
    if written is not None and not isinstance(written, Mapping):
        named = f'eval_cfg=dict(evaluator={written!r})' if isinstance(written, str) else "eval_cfg=dict(evaluator='…')"
        raise ConfigError(Problem('eval_cfg', f'expected a dict, got {written!r:.60}.', f'Write {named}.'))
    evaluation = {key: value for key, value in (written or {}).items() if key != 'cluster'}
    own = model_entry.entry.get('pred_postprocessor')
    if isinstance(own, Mapping) and 'type' in own:
        evaluation.setdefault('model_postprocessor', own)
    column = task.wording.output_column
    try:
        judge_entries = find_judges(task, model_entries)
    except ConfigError as error:
        problems = [*error.problems, *_find_further_problems(evaluation, column)]
        raise ConfigError(dict.fromkeys(map(_in_eval_cfg, problems))) from error
    judge_entry = judge_entries[0] if judge_entries else None
    comparison = judge_entry.comparison if judge_entry is not None else None
    is_baseline = comparison is not None and not comparison.against(model_entry.abbr)
    whole = judge_entry is not None and judge_entry.whole_dialogue
    try:
        judges = tuple(Judge(one, one.model_entry.model) for one in judge_entries)
        scorer = build_scorer(
            describe_scoring(evaluation, judge_entry),
            output_column=column,
            judge=judges[0] if judges else None,
            turns=task.inferencer.asks_every_turn and not whole,
            whole_dialogue=whole,
            by_prompt=judge_entry is not None and judge_entry.by_prompt,
            role_marks=_role_marks(model_entry, evaluation.get('pred_role')),
            word_prompt=partial(_word_prompt, task),
        )
    except ConfigError as error:
        raise ConfigError(map(_in_eval_cfg, error.problems)) from error
    notes = {name: str(task.entry.get(name) or '') for name in ('alias', 'rows_note')}
    if is_baseline:
        scorer = replace(scorer, metric=None)
    digest = digest_scoring(task, model_entry)
    return Scores(scorer, () if is_baseline else judges, **notes, digest=digest, is_baseline=is_baseline)


def _find_further_problems(evaluation: Mapping[str, Any], output_column: str | None) -> list[Problem]:
    """What else is wrong with the scoring, where the judge cannot be asked."""
    try:
        build_scorer(evaluation, output_column=output_column, judge=lambda values: '')
    except ConfigError as error:
        return list(error.problems)
    return []


def _word_prompt(task: Task, row: Row) -> Any:
    """The prompt of a row as OpenCompass records it: without examples, and before the model's own template.

    Where labels have a prompt each, it is a dict of them; nothing for a row that cannot be worded.
    """
    labels = task.prompt_labels
    try:
        prompts = [_as_plain_data(task.wording.script(label, task.mode).fill(row)) for label in labels]
    except RenderError:
        return ''
    return prompts[0] if labels == (None,) else {str(label): one for label, one in zip(labels, prompts, strict=True)}


def _as_plain_data(prompt: str | PromptList) -> Any:
    return prompt if isinstance(prompt, str) else [dict(one) if isinstance(one, Mapping) else one for one in prompt]


def _in_eval_cfg(problem: Problem) -> Problem:
    return problem if problem.where.startswith('eval_cfg') else problem.inside('eval_cfg')


def _role_marks(model_entry: ModelEntry, role: object) -> Mapping[str, Any] | None:
    """What the model's meta template puts around a role."""
    written = model_entry.entry.get('meta_template')
    meta = meta_template(written) if isinstance(written, str) else written
    rounds = meta.get('round') if isinstance(meta, Mapping) and role is not None else None
    return next((one for one in rounds or () if isinstance(one, Mapping) and one.get('role') == role), None)


def outcome_to_score(outcome: Outcome, prediction: Any) -> Outcome:
    """The outcome of a row before it was scored."""
    unmarked = outcome == 'failed' and prediction is not None  # the evaluator failed, not the model
    return 'ok' if outcome == 'unparsed' or unmarked else outcome


def read_verdict(verdict: Verdict, reason: str) -> tuple[Outcome, str]:
    """The outcome of a row with this verdict, and why; `reason` is the one it had before."""
    read = verdict.outcome in ('ok', 'unparsed')
    nothing = _NO_ANSWER if verdict.outcome == 'unparsed' else ''
    return verdict.outcome, (verdict.reason or nothing) if read else verdict.reason or reason


def _scorable(result: Result, values: Row, find_rivals: FindRivals = lambda number, row: ()) -> Scorable:
    outcome = outcome_to_score(result.outcome, result.prediction)
    return Scorable(
        result.row,
        outcome,
        result.prediction,
        result.gold,
        values,
        result.cluster,
        result.details,
        find_rivals(result.row, values),
    )


def _mark_result(result: Result, verdict: Verdict) -> Result:
    outcome, reason = read_verdict(verdict, result.reason)
    return replace(
        result,
        outcome=outcome,
        reason=reason,
        extracted=verdict.extracted,
        score=verdict.score,
        correct=verdict.correct,
        settled=verdict.settled,
    )


async def _report_unscored(
    store: Store, dataset: str, model: str, scorer: DatasetScorer, error: RolecallError
) -> Scorecard:
    """Take the scores off the stored rows; the scorecard that says why there are none."""
    outcomes: Counter[str] = Counter()
    stored = store.results(dataset, model)
    while chunk := list(islice(stored, _CHUNK)):
        plain = [_mark_result(result, Verdict(result.row, outcome=_scorable(result, {}).outcome)) for result in chunk]
        outcomes.update(result.outcome for result in plain)
        await _store_rows(store, _find_changed(chunk, plain))
    return Scorecard(
        dataset=dataset,
        model=model,
        metric=scorer.metric.name if scorer.metric else '',
        value=None,
        total=outcomes.total(),
        outcomes=outcomes,
        error=f'{dataset} × {model} could not be scored: {error}',
    )
