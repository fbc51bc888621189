"""Why two numbers differ, from stored replies alone: reader, metric, denominator, rows, failures and cut answers are
exchanged one for the other, and each gets its exact share. What is left is the prompt's, or the model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from rolecall.core.prompts.values import text_of
from rolecall.insight.claim_pairs import ClaimLike, RowPair, open_claims
from rolecall.insight.claims import Claim
from rolecall.insight.edits import SCORING, Edit, find_edits
from rolecall.insight.explanation import CauseShare, Explanation, FlippedRow, origin_changes
from rolecall.insight.other_readings import read_otherwise
from rolecall.insight.scored_mixes import Marks, Mixes, interval_of_shares, shapley_shares, stored_marks
from rolecall.runs.finished_rows import outcome_to_score
from rolecall.runs.parts import CAUSES
from rolecall.runs.store.results import Result
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.strings import count_noun, join_words

FLIPS = 20
_REPLY = 200
_ROUNDED = 0.05
"""By how many points a stored score may differ from its replies scored again before it is a step."""
_SAME = 'same reply'


def explain(
    left: ClaimLike,
    right: ClaimLike,
    *,
    dataset: str | None = None,
    model: str | None = None,
    configs: Sequence[Any] = (),
    flips: int = FLIPS,
) -> list[Explanation]:
    """Why two numbers differ, for each dataset × model that both sides have.

    Each side is a run directory, a log of another harness, a config, or (one of them) a number. `configs` are the
    configs of runs that name code of their own: one for both sides, or one each. Nothing is asked.
    """
    with ExitStack() as stack:
        claims = open_claims(left, right, stack, dataset, model, configs)
        return [explain_claims(*sides, flips=flips) for sides in claims]


def explain_claims(left: Claim, right: Claim, pairs: Sequence[RowPair], *, flips: int = FLIPS) -> Explanation:
    """The explanation of two claims on the rows that both have."""
    edits = tuple(find_edits(left.entries, right.entries)) if left.entries and right.entries else ()
    card = left.card or right.card
    explanation = Explanation(
        left=left.title,
        right=right.title,
        dataset=left.dataset or right.dataset,
        model=left.model if left.model == (right.model or left.model) else f'{left.model} → {right.model}',
        metric=card.metric if card else 'score',
        left_value=left.value,
        right_value=right.value,
        rows=len(pairs),
        unknown=tuple(dict.fromkeys((*left.unknown, *right.unknown))),
        edits=edits,
    )
    if not right.rows and right.value is not None:  # a number
        return replace(explanation, alternatives=tuple(read_otherwise(left, right.value)))
    if not pairs:
        return replace(explanation, unknown=(*explanation.unknown, 'no row of one side was found on the other.'))
    finder = StepFinder(left, right, pairs, edits, flips=flips)
    steps = finder.find()
    reported = (left.value, right.value) if finder.both_asked else (None, None)
    values = [end if value is None else value for value, end in zip(reported, finder.ends, strict=True)]
    return replace(
        explanation,
        steps=tuple(steps),
        left_value=values[0],
        right_value=values[1],
        unknown=(*explanation.unknown, *finder.unknown),
    )


class StepFinder:
    """Exchanges what the two sides have stored, on the rows that both have."""

    def __init__(
        self, left: Claim, right: Claim, pairs: Sequence[RowPair], edits: Sequence[Edit], *, flips: int
    ) -> None:
        self._claims = (left, right)
        self._pairs = _lend_replies(left, right, pairs)
        self._edits = edits
        self._most_flips = flips
        self.both_asked = left.has_replies and right.has_replies
        self.unknown = list(self._describe_unasked()) if not self.both_asked else []
        self.ends: tuple[float | None, float | None] = (None, None)
        """The score of either side on the rows that both have."""
        self._results = tuple([pair[side].result for pair in self._pairs] for side in (0, 1))
        self._classes = self._classify()

    def find(self) -> list[CauseShare]:
        """The steps from the left number to the right one."""
        left, right = self._claims
        if left.factor != right.factor:
            self.unknown.append('the two metrics are on different scales: their difference means nothing.')
            return []
        if left.scorer is not None and right.scorer is not None:
            steps = self._exchange_all(left.scorer, right.scorer)
        elif left.scorer is not None or right.scorer is not None:
            steps = self._exchange_one_way()
        else:
            steps = self._compare_marks()
        return [step for step in (*self._find_row_step(), *steps) if step.rows or abs(step.points) > _ROUNDED]

    def _exchange_all(self, left: DatasetScorer, right: DatasetScorer) -> list[CauseShare]:
        """Both sides can be scored in any way: exact shares of everything."""
        known = self._claims[0].entries is not None and self._claims[1].entries is not None
        scoring = [edit.cause for edit in self._edits if edit.cause in SCORING] if known else list(SCORING)
        mixes = self._mix((left, right), (0, 1), decide_by=self._decide_by())
        return self._share(mixes, [*scoring, *self._reply_causes])

    def _exchange_one_way(self) -> list[CauseShare]:
        """One side has only its marks: its replies are scored as on the other side, then replies are exchanged."""
        side = 0 if self._claims[0].scorer is None else 1
        scorer = self._claims[1 - side].scorer
        assert scorer is not None
        mixes = self._mix((scorer, scorer), (1 - side, 1 - side))
        ours, again = stored_marks(self._results[side], self._factor), mixes.marks(side, frozenset())
        ends = [mixes.marks(0, frozenset()).value, mixes.marks(1, frozenset()).value]
        ends[side] = ours.value
        steps = self._split_scoring(*((ours, again) if side == 0 else (again, ours)), side)
        steps += self._share(mixes, self._reply_causes)
        self.ends = (ends[0], ends[1])
        return steps

    def _compare_marks(self) -> list[CauseShare]:
        """Both sides have only their marks: rows are told apart by whether replies and prompts are the same."""
        before, after = (stored_marks(results, self._factor) for results in self._results)
        self.ends = (before.value, after.value)
        names = ['reader or metric' if cause == _SAME else cause for cause in self._classes]
        return list(self._split_by_row(before, after, names))

    @property
    def _reply_causes(self) -> list[str]:
        return [cause for cause in dict.fromkeys(self._classes) if cause != _SAME]

    @property
    def _factor(self) -> float:
        return self._claims[0].factor

    def _mix(
        self,
        scorers: tuple[DatasetScorer, DatasetScorer],
        gold_from: tuple[int, int],
        decide_by: tuple[str, str] = ('', ''),
    ) -> Mixes:
        fields = tuple([pair[side].fields for pair in self._pairs] for side in (0, 1))
        return Mixes(
            (self._results[0], self._results[1]),
            (fields[0], fields[1]),
            scorers,
            classes=self._classes,
            factor=self._factor,
            decide_by=decide_by,
            gold_from=gold_from if any(claim.is_log for claim in self._claims) else None,
        )

    def _decide_by(self) -> tuple[str, str]:
        """By which loss either side chooses a label, where they differ."""
        options = [
            (claim.entries[0].get('infer_cfg') or {}).get('inferencer') if claim.entries else None
            for claim in self._claims
        ]
        left, right = (str(own.get('decide_by') or 'whole') if isinstance(own, Mapping) else 'whole' for own in options)
        return (left, right) if left != right else ('', '')

    def _share(self, mixes: Mixes, factors: Sequence[str]) -> list[CauseShare]:
        """The exact share of every factor, with the rows that it changes."""
        shares = shapley_shares(factors, mixes.value)
        nothing, everything = frozenset[str](), frozenset(factors)
        self.ends = mixes.value(nothing), mixes.value(everything)
        steps = []
        for factor, points in shares.items():
            alone = mixes.rows(nothing), mixes.rows(frozenset((factor,)))
            last = mixes.rows(everything - {factor}), mixes.rows(everything)
            read = [mixes.marks(0, nothing), mixes.marks(0 if factor in SCORING else 1, self._scoring_of(factor))]
            steps.append(self._make_step(factor, points, alone, last, read))
        return steps

    @staticmethod
    def _scoring_of(factor: str) -> frozenset[str]:
        return frozenset((factor,)) if factor in SCORING else frozenset()

    def _make_step(
        self,
        cause: str,
        points: float,
        alone: tuple[Sequence[float | None], Sequence[float | None]],
        last: tuple[Sequence[float | None], Sequence[float | None]],
        read: Sequence[Marks],
    ) -> CauseShare:
        """A step with its rows. A row's share is the mean of what the cause does as the first and as the last one."""
        shares = [
            (_differ(*first) + _differ(*second)) / 2
            for first, second in zip(zip(*alone, strict=True), zip(*last, strict=True), strict=True)
        ]
        changed = [at for at in range(len(shares)) if alone[0][at] != alone[1][at] or last[0][at] != last[1][at]]
        changed.sort(key=lambda at: (-abs(shares[at]), at))
        clusters = [result.cluster for result in self._results[0]]
        interval = interval_of_shares(shares, clusters)
        flips = tuple(self._flip(at, alone if alone[0][at] != alone[1][at] else last, read) for at in changed)
        changes = self._find_changes(changed) if cause not in SCORING else ()
        return CauseShare(
            cause,
            points,
            len(changed),
            low=None if interval is None else interval.low * self._factor,
            high=None if interval is None else interval.high * self._factor,
            flips=flips[: self._most_flips],
            changes=changes,
        )

    def _flip(
        self, at: int, scores: tuple[Sequence[float | None], Sequence[float | None]], read: Sequence[Marks]
    ) -> FlippedRow:
        left, right = (pair.result for pair in self._pairs[at])
        return FlippedRow(
            left.row,
            right.row,
            scores[0][at],
            scores[1][at],
            gold=right.gold,
            left_read=read[0].extracted[at],
            right_read=read[1].extracted[at],
            left_reply=_shorten(left),
            right_reply=_shorten(right),
        )

    def _find_changes(self, rows: Sequence[int]) -> tuple[Any, ...]:
        for at in rows:
            previews = [claim.preview(row) for claim, row in zip(self._claims, self._pairs[at], strict=True)]
            if changes := origin_changes(previews[0], previews[1]):
                return changes
        return ()

    def _split_scoring(self, before: Marks, after: Marks, side: int) -> list[CauseShare]:
        """Marks against another scoring of the same replies: a row that is read differently counts as reading."""
        names = [
            'metric' if _reads_alike(own, other) else 'reader'
            for own, other in zip(before.extracted, after.extracted, strict=True)
        ]
        return list(self._split_by_row(before, after, names))

    def _split_by_row(self, before: Marks, after: Marks, names: Sequence[str]) -> Iterator[CauseShare]:
        """The difference of two sets of marks by the cause of each row; the rest is the denominator's."""
        count = len(names)
        total = (after.value or 0.0) - (before.value or 0.0)
        for cause in dict.fromkeys(names):
            ours = [score if name == cause else None for score, name in zip(before.scores, names, strict=True)]
            theirs = [score if name == cause else None for score, name in zip(after.scores, names, strict=True)]
            points = sum(map(_differ, ours, theirs)) / count * self._factor
            total -= points
            yield self._make_step(cause, points, (ours, theirs), (ours, theirs), (before, after))
        if abs(total) > _ROUNDED:
            without = sum(
                (own is None) != (other is None) for own, other in zip(before.scores, after.scores, strict=True)
            )
            yield CauseShare('denominator', total, without)

    def _find_row_step(self) -> Iterator[CauseShare]:
        """Rows that only one side has; or a stored score that its own replies no longer give."""
        if not self.both_asked:
            return
        left, right = (
            0.0 if claim.value is None or end is None else claim.value - end
            for claim, end in zip(self._claims, self.ends, strict=True)
        )
        alone = sum(len(claim.rows) - len(self._pairs) for claim in self._claims)
        if alone or abs(right - left) > _ROUNDED:
            yield CauseShare('rows' if alone else 'stored marks', right - left, alone)

    def _classify(self) -> list[str]:
        """For each row, the cause that a difference of its replies goes by."""
        sent = [edit.cause for edit in self._edits if edit.is_sent]
        known = self._claims[0].entries is not None and self._claims[1].entries is not None
        around = self._claims[0].parts.find_differing(self._claims[1].parts, ('engine', 'tokenizer', 'format'))
        if known:
            sent += [part for part in around if part not in {CAUSES.get(cause) for cause in sent}]
        replying = [cause for cause in sent if cause in ('length', 'stops', 'sampling', 'engine')]
        permuted = _permutes_options(self._pairs) if not sent else ''
        names = {
            'prompt': sent[0] if len(sent) == 1 else permuted or 'prompt',
            'cut answers': 'length' if 'length' in sent else sent[0] if len(sent) == 1 else 'cut answers',
            'same prompt': sent[0] if len(sent) == 1 else ' or '.join(replying) or ('noise' if known else 'the model'),
        }
        kinds = [_compare_replies(*pair) for pair in self._pairs]
        if 'prompt' in kinds and len(sent) > 1:
            self.unknown.append(f'{join_words(sent)} differ: --ladder asks the model to tell them apart.')
        elif 'prompt' in kinds and not known:
            self.unknown.append('the prompts differ, and the settings of a log cannot be exchanged one by one.')
        return [names.get(kind, kind) for kind in kinds]

    def _describe_unasked(self) -> Iterator[str]:
        """What a config that was not run says beside a run or a log."""
        side = 0 if not self._claims[0].has_replies else 1
        config, other = self._claims[side].title, self._claims[1 - side].title
        yield f'{config} was not run: its number is that of the replies of {other}, read and scored as it says.'
        texts = [(own.text, theirs.text) for own, theirs in self._pairs if own.text and theirs.text]
        if texts:
            same = sum(own == theirs for own, theirs in texts)
            rows = count_noun(len(texts), 'row')
            yield f'prompts: {same:,} of {rows} equal; what the others change takes asking the model.'


def _lend_replies(left: Claim, right: Claim, pairs: Sequence[RowPair]) -> list[RowPair]:
    """The rows of both sides; a config that was not run borrows the replies of the other side."""
    if left.has_replies == right.has_replies:
        return list(pairs)
    if left.has_replies:
        return [(own, replace(other, result=_lend(own.result, other.result))) for own, other in pairs]
    return [(replace(own, result=_lend(other.result, own.result)), other) for own, other in pairs]


def _lend(replies: Result, own: Result) -> Result:
    return replace(replies, gold=own.gold, row=own.row, score=None)


def _differ(before: float | None, after: float | None) -> float:
    return (after or 0.0) - (before or 0.0)


def _shorten(result: Result) -> str:
    reply = result.replies[-1] if result.replies else text_of(result.prediction) if result.prediction else result.reason
    return reply if len(reply) <= _REPLY else f'…{reply[-_REPLY:]}'


def _reads_alike(left: Any, right: Any) -> bool:
    return text_of(left).strip().casefold() == text_of(right).strip().casefold()


def _compare_replies(left: Any, right: Any) -> str:
    """How the replies of a row differ: one failed, one was cut off, or after the same or another prompt."""
    ours, theirs = left.result, right.result
    answered = [outcome_to_score(result.outcome, result.prediction) == 'ok' for result in (ours, theirs)]
    if not all(answered):
        return 'failures' if any(answered) else _SAME
    if ours.replies == theirs.replies and (ours.replies or _weighs_alike(ours, theirs)):
        return _SAME
    if ours.is_cut or theirs.is_cut:
        return 'cut answers'
    if left.text and right.text:
        return 'same prompt' if left.text == right.text else 'prompt'
    return 'replies'


def _weighs_alike(left: Result, right: Result) -> bool:
    """Whether a row without replies has the same losses: which label they decide for is the metric's."""
    losses = left.details.get('labels'), right.details.get('labels')
    return losses[0] == losses[1] if all(losses) else left.prediction == right.prediction


def _permutes_options(pairs: Sequence[RowPair]) -> str:
    """`option order` where rows have the same values in another order, `rows` where they have others."""
    differing = [(left.fields, right.fields) for left, right in pairs if left.fields != right.fields]
    if not differing:
        return ''
    permuted = all(_flat_values(left) == _flat_values(right) for left, right in differing)
    return 'option order' if permuted else 'rows'


def _flat_values(fields: Mapping[str, Any]) -> Counter[str]:
    """The texts of a row without order; answers (single letters and numbers) left out."""
    values = [inner for value in fields.values() for inner in (value if isinstance(value, list | tuple) else [value])]
    return Counter(text for value in values if len(text := text_of(value)) > 1)
