"""Score rows as they come: marks are added up and forgotten, so memory does not grow with the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.scoring.accumulate import MarkAccumulator, MarkedRow
from rolecall.scoring.answers import AnswerReader, ReadRow, Scorable
from rolecall.scoring.blame import NoVerdictError, ScoringError, blame_errors_on
from rolecall.scoring.metrics.comparing import drop_half_comparisons
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric
from rolecall.scoring.reading_choice import OWN, OtherReading, compare_readings
from rolecall.scoring.scorecard import ExtractorScore, Inferred, Judging, ReplyCount, Scorecard, Verdict
from rolecall.scoring.summary import summarise_whole
from rolecall.scoring.texts import alternatives, strip_text

Policy = Literal['exclude', 'wrong']
JudgeReplies = Mapping[int, Sequence[str | None]]


@dataclass(slots=True)
class _Column:
    """One extractor, with the sums of its marks."""

    reader: AnswerReader
    marks: MarkAccumulator | None
    unparsed: int = 0


@dataclass(slots=True)
class ScoringSession:
    """Scores rows as they come. Each of `readers` is one way of extracting answers; the first makes the verdicts.

    A row that the evaluator cannot mark is `failed`, with the reason; the others keep their scores.
    """

    metric: Metric | None
    readers: Mapping[str, AnswerReader]
    failures: Policy = 'exclude'
    unparsed: Policy = 'wrong'
    k: tuple[int, ...] = ()
    adds_up: bool = True
    """Whether there will be a number over all rows; otherwise only verdicts are wanted."""
    read_as: str = OWN
    """Whose reading this is: ours, or that of the system whose names the config uses."""
    beside: ScoringSession | None = None
    """The same rows by the other reading."""
    _columns: dict[str, _Column] = field(init=False)
    _first: _Column = field(init=False)
    _outcomes: Counter[str] = field(init=False, default_factory=Counter)
    _excluded: Counter[str] = field(init=False, default_factory=Counter)
    _notices: Counter[str] = field(init=False, default_factory=Counter)
    _groups: dict[str, list[int]] = field(init=False, default_factory=lambda: defaultdict(list))
    _held: list[tuple[ReadRow, MarkedRow]] = field(init=False, default_factory=list)
    _trouble: list[str] = field(init=False, default_factory=list)
    _troubles: int = field(init=False, default=0)
    _unread: Counter[str] = field(init=False, default_factory=Counter)
    """Rows whose judge replied without a verdict, under the reason of the first."""
    _inferred: list[float] = field(init=False, default_factory=list)
    """What rows without a stated answer would score by the inferred one."""
    _differ: int = field(init=False, default=0)
    """Rows whose verdict is another by the reading beside."""
    _readable: bool = field(init=False, default=False)
    _plain: bool = field(init=False, default=False)
    _whole: bool = field(init=False, default=False)
    _group_of: Callable[[Answer], str | None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        metric = self.metric
        self._columns = {
            name: _Column(reader, MarkAccumulator(metric, k=self.k) if metric is not None and self.adds_up else None)
            for name, reader in self.readers.items()
        }
        self._first = next(iter(self._columns.values()))
        self._plain = self.is_plain
        if metric is not None:  # asked for every row
            self._whole, self._group_of = metric.whole is not None, metric.group

    def add(self, rows: Sequence[Scorable], *, judge_replies: JudgeReplies | None = None) -> list[Verdict]:
        """Score some rows. `judge_replies` holds replies by row and sample."""
        _, *others = self._columns.values()
        read_rows = [self._read(self._first.reader, row) for row in rows]
        self._prepare(read_rows)
        replies = judge_replies or {}
        verdicts = [self._add_row(row, replies.get(row.row.row, ())) for row in read_rows]
        for column in others:
            read_rows = [self._read(column.reader, row) for row in rows]
            self._prepare(read_rows)
            for row in read_rows:
                column.unparsed += row.outcome == 'unparsed'
                if column.marks is not None:
                    column.marks.add(self._mark_row(row, ())[0])
        if self.beside is not None:
            self._differ += compare_readings(verdicts, self.beside.add(rows), self.beside.read_as)
        return verdicts

    @property
    def is_plain(self) -> bool:
        """Whether the score is a plain mean, so that stored verdicts can be added without marking rows again."""
        metric = self.metric
        if metric is None or len(self._columns) > 1 or self.k or metric.by_turn:
            return False
        if self.beside is not None and not self.beside.is_plain:
            return False
        return metric.aggregation == Mean() and metric.needs_judge is None and metric.prepare is None

    def add_settled(self, scores: Sequence[float], correct: Sequence[int | None]) -> None:
        """Add rows by their stored scores and verdicts, without marking them again."""
        if not scores:
            return
        self._outcomes['ok'] += len(scores)
        self._notices['replies'] += len(scores)
        self._readable = True
        for column in self._columns.values():
            if column.marks is not None:
                column.marks.add_plain(scores, correct)
        if self.beside is not None:
            self.beside.add_settled(scores, correct)

    def finish(self, dataset: str = '', model: str = '') -> Scorecard:
        """The score over all rows. `verdicts` is filled only if the metric scores all rows at once.

        `outcomes` adds up to `total`; so do `scored` and `excluded`.
        """
        if self._trouble and not self._readable:
            more = f' The same holds for all {self._troubles} rows.' if self._troubles > 1 else ''
            raise ScoringError(f'{self._trouble[0]}{more}')
        verdicts: tuple[Verdict, ...] = ()
        finished = None
        if self.metric is None:
            card = Scorecard('', '', '', None)
        elif self.metric.whole is not None:
            with blame_errors_on(name_evaluator(self.metric)):
                card, marks = summarise_whole(self.metric, [row for _, row in self._held])
            pairs = zip(self._held, marks, strict=True)
            verdicts = tuple(_make_verdict(row, row_marks, row.reason) for (row, _), row_marks in pairs)
        else:
            card, finished = self._summarise(self._first)
        total = self._outcomes.total()
        if left_out := total - card.scored - self._excluded.total():
            self._excluded['incomplete_group'] += left_out
        several = len(self._columns) > 1
        return replace(
            card,
            dataset=dataset,
            model=model,
            total=total,
            outcomes=Counter(self._outcomes),
            cut=self._count_replies('cut', finished),
            empty=self._count_replies('empty'),
            inferred=self._describe_inferred(card),
            contained=self._count_replies('contained'),
            beside=self._describe_beside(),
            extractors={name: self._score_column(column) for name, column in self._columns.items()}
            if several
            else None,
            judging=Judging(without_verdict=dict(self._unread)) if self._unread else None,
            groups=tuple(map(tuple, self._groups.values())) or None,
            excluded=dict(self._excluded),
            policies={'failures': self.failures, 'unparsed': self.unparsed},
            verdicts=verdicts,
        )

    def _read(self, reader: AnswerReader, row: Scorable) -> ReadRow:
        try:
            return reader.read(row)
        except ScoringError as error:
            return ReadRow(row, 'failed', None, None, (), str(error))

    def _prepare(self, rows: Sequence[ReadRow]) -> None:
        if self.metric is not None and self.metric.prepare is not None:
            with blame_errors_on(name_evaluator(self.metric)):
                self.metric.prepare([answer for row in rows if row.outcome == 'ok' for answer in row.answers])

    def _add_row(self, row: ReadRow, judge_replies: Sequence[str | None]) -> Verdict:
        if row.outcome == 'failed' and row.row.outcome != 'failed':
            self._note_trouble(row.reason)
        marked, row, reason = self._mark_first(row, judge_replies)
        if self.adds_up:
            self._count_row(row, marked)
        if self._whole:
            self._held.append((row, marked))
            return _make_verdict(row, (), row.reason or reason)
        if self._first.marks is not None:
            self._first.marks.add(marked)
        settled = self._plain and _says_all(marked, row, reason)
        return _make_verdict(row, marked.marks, row.reason or reason, settled=settled)

    def _count_row(self, row: ReadRow, marked: MarkedRow) -> None:
        self._outcomes[row.outcome] += 1
        self._count_notices(row.row, cut=marked.cut)
        if self._group_of is not None and row.answers:
            self._note_group(self._group_of(row.answers[0]), row.row.row)
        if not marked.marks:
            self._excluded[self._why_excluded(row)] += 1
        elif row.outcome == 'ok':
            self._readable = True
        if row.outcome == 'unparsed':
            self._first.unparsed += 1
            self._note_inferred(row)
        if _is_contained(marked, row):
            self._notices['contained'] += 1

    def _mark_first(self, row: ReadRow, judge_replies: Sequence[str | None]) -> tuple[MarkedRow, ReadRow, str]:
        marked, reason, failed = self._mark_row(row, judge_replies)
        if reason:
            self._note_trouble(reason)
        if reason and not failed:
            self._unread[next(iter(self._unread), reason)] += 1
        if failed:
            row = replace(row, outcome='failed', reason=reason)
        return marked, row, reason

    def _mark_row(self, row: ReadRow, judge_replies: Sequence[str | None]) -> tuple[MarkedRow, str, bool]:
        """The marked row, the reason if it has no marks, and whether the evaluator failed."""
        cut = _is_cut(row.row)
        if judge_replies:
            row = replace(row, answers=_add_judge_replies(row.answers, judge_replies))
        try:
            marks, reason = self._marks(row)
        except ScoringError as error:
            wrong = (Mark(0.0, correct=False),) if self.failures == 'wrong' else ()
            return MarkedRow(row.row.cluster, row.answers, wrong, answered=False, cut=cut), str(error), True
        answered = row.outcome == 'ok'
        return MarkedRow(row.row.cluster, row.answers, marks, answered, cut), reason, False

    def _marks(self, row: ReadRow) -> tuple[tuple[Mark, ...], str]:
        """The marks of a row's answers, none if the row is excluded, and the reason if there is one."""
        metric = self.metric
        if metric is None or (row.gold is None and metric.needs_gold):
            return (), ''
        if row.outcome != 'ok':
            if metric.compares and row.row.outcome == 'ok' and row.outcome == 'failed':
                return (), ''  # the other model has no answer, which is not this one's fault
            policy = self.unparsed if row.outcome == 'unparsed' else self.failures
            counts = policy == 'wrong' and not metric.lower_is_better
            return (_mark_missing_answer(metric, row) if counts else ()), ''
        if self._whole:
            unheard = metric.needs_judge is not None and any(answer.judge_reply is None for answer in row.answers)
            return () if unheard else (Mark(0.0),) * len(row.answers), ''
        if len(row.answers) == 1:
            try:
                mark = _mark(metric, row.answers[0], row)
            except NoVerdictError as error:
                return (), str(error)
            return (() if mark is None else (mark,)), ''
        marks: list[Mark | None] = []
        reason = ''
        for answer in row.answers:
            try:
                marks.append(_mark(metric, answer, row))
            except NoVerdictError as error:
                marks.append(None)
                reason = reason or str(error)
        if metric.by_turn and None in marks:
            return (), reason  # the other turns are not the dialogue
        if metric.compares:
            names = [answer.rival.name if answer.rival is not None else '' for answer in row.answers]
            return tuple(drop_half_comparisons(marks, names)), reason
        return tuple(mark for mark in marks if mark is not None), reason

    def _lacks_gold(self, row: ReadRow) -> bool:
        return self.metric is not None and self.metric.needs_gold and row.gold is None

    def _why_excluded(self, row: ReadRow) -> str:
        if row.outcome != 'ok':
            return row.outcome
        return 'without_gold' if self._lacks_gold(row) or not row.answers else 'unmarked'

    def _note_group(self, name: str | None, row: int) -> None:
        if name is not None:
            self._groups[name].append(row)

    def _note_inferred(self, row: ReadRow) -> None:
        """Remember what the inferred answers of a row would score."""
        values = [reading.value for reading in row.readings if reading and reading.certainty == 'inferred']
        metric = self.metric
        if metric is None or metric.needs_judge is not None or metric.whole is not None or not any(values):
            return
        answers = zip(row.answers, values, strict=False)
        marks = [
            _mark(metric, replace(answer, prediction=value), row) for answer, value in answers if value is not None
        ]
        self._inferred.append(sum(mark.score for mark in marks if mark) / max(len(row.answers), 1))

    def _note_trouble(self, reason: str) -> None:
        self._troubles += 1
        if not self._trouble:
            self._trouble.append(reason)

    def _count_notices(self, row: Scorable, *, cut: bool) -> None:
        if row.outcome == 'ok':
            self._notices['replies'] += 1
            self._notices['cut'] += cut
            self._notices['empty'] += _is_empty_reply(row.prediction)

    def _summarise(self, column: _Column) -> tuple[Scorecard, float | None]:
        if self.metric is None or column.marks is None:
            return Scorecard('', '', '', None), None
        with blame_errors_on(name_evaluator(self.metric)):
            return column.marks.summarise()

    def _count_replies(self, kind: str, finished: float | None = None) -> ReplyCount | None:
        rows = self._notices[kind]
        return ReplyCount(rows, self._notices['replies'], finished) if rows else None

    def _describe_inferred(self, card: Scorecard) -> Inferred | None:
        if not self._inferred or not card.scored:
            return None
        scored = card.scored if self.unparsed == 'wrong' else card.scored + len(self._inferred)
        return Inferred(len(self._inferred), sum(self._inferred) / scored * (100 if card.is_percent else 1))

    def _describe_beside(self) -> OtherReading | None:
        if self.beside is None or not self.adds_up:
            return None
        try:
            card = self.beside.finish()
        except ScoringError:
            return None
        numbers = (card.value, card.low, card.high, card.scored)
        return OtherReading(self.read_as, self.beside.read_as, *numbers, differ=self._differ)

    def _score_column(self, column: _Column) -> ExtractorScore:
        card, finished = self._summarise(column)
        return ExtractorScore(card.value, card.low, card.high, card.scored, column.unparsed, finished)


def name_evaluator(metric: Metric) -> str:
    """How an error names the evaluator."""
    return f'the evaluator {metric.name}'


def _add_judge_replies(answers: tuple[Answer, ...], judge_replies: Sequence[str | None]) -> tuple[Answer, ...]:
    """The answers with the judge's replies about them."""
    padded = [*judge_replies, *([None] * len(answers))]
    return tuple(replace(answer, judge_reply=words) for answer, words in zip(answers, padded, strict=False))


def _mark(metric: Metric, answer: Any, row: ReadRow) -> Mark | None:
    try:
        return metric.mark(answer)
    except Exception:
        with blame_errors_on(f'{name_evaluator(metric)}, on row {row.row.row},'):
            raise


def _mark_missing_answer(metric: Metric, row: ReadRow) -> tuple[Mark, ...]:
    """The marks of a row without an answer, where such rows count as wrong."""
    wrong = Mark(0.0, correct=False)
    if metric.whole is not None:
        return (wrong,) * len(row.answers)
    if metric.needs_judge is not None or row.gold is None:
        return (wrong,)
    marks = (_mark(metric, replace(answer, prediction=''), row) or wrong for answer in row.answers)
    return tuple(map(_deny, marks)) or (wrong,)


def _deny(mark: Mark) -> Mark:
    """The mark of a missing answer: wrong, even if the gold answer is empty too."""
    right = None if mark.correct is None else False
    return replace(mark, score=0.0, correct=right, parts=dict.fromkeys(mark.parts, 0.0))


def _is_cut(row: Scorable) -> bool:
    """Whether `max_out_len` ended the reply, or one of its samples or turns."""
    ended = row.details.get('ended') if row.details else None
    return isinstance(ended, (list, tuple)) and 'length' in ended


def _is_empty_reply(prediction: Any) -> bool:
    if isinstance(prediction, str):
        return not prediction or prediction.isspace()
    replies = prediction if isinstance(prediction, (list, tuple)) else [prediction]
    return all(isinstance(reply, str) and not reply.strip() for reply in replies)


def _says_all(marked: MarkedRow, row: ReadRow, reason: str) -> bool:
    """Whether the score and verdict of a row suffice to compute the mean."""
    if row.outcome != 'ok' or len(marked.marks) != 1 or reason or marked.cut or marked.cluster is not None:
        return False
    mark = marked.marks[0]
    return not (
        mark.parts or mark.tally or mark.note or _is_empty_reply(row.row.prediction) or _is_contained(marked, row)
    )


def _make_verdict(row: ReadRow, marks: tuple[Mark, ...], reason: str, *, settled: bool = False) -> Verdict:
    if not marks:
        return Verdict(
            row.row.row, row.extracted, outcome=row.outcome, gold=row.gold, reason=reason, read_from=row.places
        )
    if len(marks) == 1:
        [mark] = marks
        score, correct, note = mark.score, mark.correct, '' if mark.correct else mark.note
    else:
        verdicts = {mark.correct for mark in marks}
        score, correct = sum(mark.score for mark in marks) / len(marks), verdicts.pop() if len(verdicts) == 1 else None
        note = next((mark.note for mark in marks if mark.note and not mark.correct), '')
    why = reason or note
    return Verdict(row.row.row, row.extracted, score, correct, row.outcome, row.gold, why, settled, row.places)


def _is_contained(marked: MarkedRow, row: ReadRow) -> bool:
    """Whether a reply gets no credit and has a gold answer of more than one character in it."""
    reply = row.row.prediction
    if not marked.marks or marked.score or not isinstance(reply, str):
        return False
    golds = (strip_text(gold).casefold() for gold in alternatives(row.gold))
    return any(gold in reply.casefold() for gold in golds if len(gold) > 1)
