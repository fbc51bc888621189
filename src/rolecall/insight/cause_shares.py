"""Why two numbers differ, from stored replies alone: reader, metric, denominator, rows, failures and cut answers are
exchanged one for the other, and each gets its exact share. What is left is the prompt's, or the model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import RolecallError
from rolecall.insight.alignment import ContentRow
from rolecall.insight.claim_pairs import ClaimLike, RowPair, open_claims
from rolecall.insight.claims import Claim
from rolecall.insight.explanation import (
    AS_SCORED,
    SCORING,
    CauseShare,
    Edit,
    Explanation,
    FlippedRow,
    OriginChange,
    find_edits,
    origin_changes,
)
from rolecall.insight.scored_mixes import (
    Fields,
    Marks,
    decide_again,
    differ,
    make_share,
    mean_score,
    mix_scorers,
    score_results,
    shapley_shares,
)
from rolecall.runs.pair_rows import outcome_to_score
from rolecall.runs.parts import CAUSES
from rolecall.runs.store.results import Result
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.strings import count_noun, join_words

FLIPS = 20
_REPLY = 200
_ROUNDED = 0.05
"""By how many points a stored score may differ from its replies scored again before it is a step."""
_OTHER_READERS = (
    *('stated_number', 'gsm8k', 'first_number', 'first_capital', 'last_capital', 'stated_expression', 'stated_text'),
)
"""Readers that a published number may rest on."""
_SAME = 'same reply'
_OWN = (frozenset[str](), frozenset(SCORING))
"""The causes of scoring that are the right side's, where all of it is the left side's, or the right one's."""


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
    if not (left.can_be_read and right.can_be_read):
        left, right = (replace(claim, scorer=None) for claim in (left, right))
    if not right.rows and right.value is not None:
        right = _put_on_scale(right, left.factor)
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
    if not (left.has_replies or right.has_replies):
        return replace(explanation, unknown=(*explanation.unknown, *_describe_configs(left, right, pairs, edits)))
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
        is_lent=not finder.both_asked,
    )


def _put_on_scale(number: Claim, factor: float) -> Claim:
    """A published number on the scale of the other side: 0.62 beside percentages is 62."""
    if number.card is None or number.value is None or factor == 1 or not 0 < number.value <= 1:
        return number
    value = number.value * factor
    return replace(number, title=f'{value:g} ({number.title})', card=replace(number.card, value=value))


def _describe_configs(left: Claim, right: Claim, pairs: Sequence[RowPair], edits: Sequence[Edit]) -> Iterator[str]:
    """What two configs say that were not run."""
    differing = join_words([edit.cause for edit in edits]) or 'nothing that a score depends on'
    remedy = ': --ladder asks the model to tell them apart' if any(edit.is_sent for edit in edits) else ''
    yield f'neither {left.title} nor {right.title} was run. They differ in {differing}{remedy}.'
    yield from _compare_prompts(pairs)


def _compare_prompts(pairs: Sequence[RowPair]) -> Iterator[str]:
    texts = [(own.text, theirs.text) for own, theirs in pairs if own.text and theirs.text]
    if texts:
        same = sum(own == theirs for own, theirs in texts)
        rows = count_noun(len(texts), 'row')
        yield f'prompts: {same:,} of {rows} equal; what the others change takes asking the model.'


class StepFinder:
    """Exchanges what the two sides have stored, on the rows that both have.

    Where both sides can be scored in any way, everything is exchanged with everything. A side that has only its marks
    keeps them for its own replies: then scoring and replies are exchanged one after the other.
    """

    def __init__(
        self, left: Claim, right: Claim, pairs: Sequence[RowPair], edits: Sequence[Edit], *, flips: int
    ) -> None:
        self._claims = (left, right)
        self._pairs = _lend_replies(left, right, pairs)
        self._edits = edits
        self._most_flips = flips
        self._knows_settings = left.entries is not None and right.entries is not None
        self.both_asked = left.has_replies and right.has_replies
        self.unknown = list(self._describe_unasked()) if not self.both_asked else []
        self._results = tuple([pair[side].result for pair in self._pairs] for side in (0, 1))
        self._fields = tuple([pair[side].fields for pair in self._pairs] for side in (0, 1))
        self._decide_by = self._find_deciding_losses()
        self._scorers = [claim.scorer for claim in self._claims if claim.scorer is not None]
        self._exchanged = frozenset(edit.cause for edit in edits) if self._knows_settings else _OWN[1]
        self._exchanged &= _OWN[1]
        self._factor = left.factor
        self._marks: dict[tuple[int, frozenset[str]], Marks] = {}
        self._rows = cache(self._find_rows)
        self._replies = self._classify()
        self.ends: tuple[float | None, float | None] = (None, None)
        """The score of either side on the rows that both have."""

    def find(self) -> list[CauseShare]:
        """The steps from the left number to the right one."""
        left, right = self._claims
        if left.factor != right.factor:
            self.unknown.append('the two metrics are on different scales: their difference means nothing.')
            return []
        done, steps = frozenset[str](), list[CauseShare]()
        start = self._value(done)
        for stage in self._list_stages():
            steps += self._share(stage, done)
            done |= {*stage}
        self.ends = start, self._value(done)
        return [step for step in (*self._find_row_step(), *steps) if step.rows or abs(step.points) > _ROUNDED]

    def _list_stages(self) -> list[list[str]]:
        """Causes that are exchanged in every order, stage by stage."""
        replies = [cause for cause in dict.fromkeys(self._replies) if cause != _SAME]
        if len(self._scorers) == 2:
            return [[*(cause for cause in SCORING if cause in self._exchanged), *replies]]
        if not self._scorers:
            return [list(dict.fromkeys(self._scoring))]
        scoring = list(dict.fromkeys(self._scoring))
        return [scoring, replies] if self._claims[0].scorer is None else [replies, scoring]

    @cached_property
    def _scoring(self) -> list[str]:
        """Where a side has only its marks: for each row, the cause that a difference of its marks goes by."""
        if not self._scorers:
            return ['reader or metric' if cause == _SAME else cause for cause in self._replies]
        side = 0 if self._claims[0].scorer is None else 1
        own, others = self._score(side, _OWN[side]), self._score(side, _OWN[1 - side])
        return [
            'denominator'
            if (before is None) != (after is None)
            else ('metric' if _reads_alike(first, second) else 'reader')
            for before, after, first, second in zip(
                own.scores, others.scores, own.extracted, others.extracted, strict=True
            )
        ]

    def _score(self, side: int, scoring: frozenset[str]) -> Marks:
        """The replies of one side, with the causes in `scoring` as the right side has them; each computed once."""
        if (side, scoring) not in self._marks:
            self._marks[side, scoring] = (
                Marks.stored(self._results[side])
                if scoring == _OWN[side] and self._claims[side].has_replies
                else self._score_anew(self._results[side], self._fields[side], scoring)
            )
        return self._marks[side, scoring]

    def _score_anew(self, results: Sequence[Result], fields: Sequence[Fields], scoring: frozenset[str]) -> Marks:
        metric_side = int('metric' in scoring)
        if decide_by := self._decide_by[metric_side]:
            results = [decide_again(result, decide_by) for result in results]
        if any(claim.is_log for claim in self._claims):  # a log has gold answers and columns in a form of its own
            golds = (result.gold for result in self._results[metric_side])
            results = [replace(result, gold=gold) for result, gold in zip(results, golds, strict=True)]
            fields = self._fields[metric_side]
        return score_results(mix_scorers(self._scorers[0], self._scorers[-1], scoring), results, fields)

    def _pick(self, taken: frozenset[str]) -> list[tuple[int, frozenset[str]]]:
        """For each row, whose reply it has and how that is scored, with the causes `taken` from the right side."""
        sides = [int(cause in taken) for cause in self._replies]
        if len(self._scorers) == 2:
            scoring = taken.intersection(self._exchanged)
            whole = _OWN[1] if scoring >= self._exchanged else scoring
            return [(side, whole if self._exchanged else _OWN[side]) for side in sides]
        scored = [_OWN[cause in taken] for cause in self._scoring]
        lacking = {(side, _OWN[1 - side]) for side in (0, 1) if self._claims[1 - side].scorer is None}
        return [(1, _OWN[1]) if pick in lacking else pick for pick in zip(sides, scored, strict=True)]

    def _find_rows(self, taken: frozenset[str]) -> list[float | None]:
        """The score of every row with the causes `taken` from the right side."""
        return [self._score(*pick).scores[at] for at, pick in enumerate(self._pick(taken))]

    def _value(self, taken: frozenset[str]) -> float:
        """The score over all rows with the causes `taken` from the right side."""
        if len(self._scorers) < 2 or self._are_means:
            return mean_score(self._rows(taken)) * self._factor
        picks = self._pick(taken)
        results = [self._results[side][at] for at, (side, _) in enumerate(picks)]
        fields = [self._fields[side][at] for at, (side, _) in enumerate(picks)]
        return self._score_anew(results, fields, picks[0][1]).value or 0.0

    @cached_property
    def _are_means(self) -> bool:
        """Whether the score of either side is the mean of its rows'."""
        stored = (
            Marks.stored([row.result for row in claim.rows], claim.value) for claim in self._claims if claim.has_replies
        )
        return all(marks.is_mean(self._factor) for marks in stored)

    def _share(self, causes: Sequence[str], done: frozenset[str]) -> Iterator[CauseShare]:
        """The exact share of every cause of a stage, with the rows that it changes."""
        everything = done.union(causes)
        for cause, points in shapley_shares(causes, lambda taken: self._value(done | taken)).items():
            walks = (done, done | {cause}), (everything - {cause}, everything)
            first, last = ([self._rows(before), self._rows(after)] for before, after in walks)
            shares = [
                (differ(*one) + differ(*other)) / 2
                for one, other in zip(zip(*first, strict=True), zip(*last, strict=True), strict=True)
            ]
            changed = [at for at in range(len(shares)) if first[0][at] != first[1][at] or last[0][at] != last[1][at]]
            changed.sort(key=lambda at: (-abs(shares[at]), at))
            step = make_share(cause, shares, [result.cluster for result in self._results[0]], self._factor, points)
            flips = [
                self._flip(at, walks[0] if first[0][at] != first[1][at] else walks[1])
                for at in changed[: self._most_flips]
            ]
            changes = self._find_changes(changed) if cause not in SCORING else ()
            yield replace(step, rows=len(changed), flips=tuple(flips), changes=changes)

    def _flip(self, at: int, walk: tuple[frozenset[str], frozenset[str]]) -> FlippedRow:
        before, after = (self._score(*self._pick(taken)[at]) for taken in walk)
        scores, read = (before.scores[at], after.scores[at]), (before.extracted[at], after.extracted[at])
        left, right = (row.result for row in self._pairs[at])
        return make_flip(left, right, scores, read)

    def _find_changes(self, rows: Sequence[int]) -> tuple[OriginChange, ...]:
        for at in rows:
            previews = [claim.preview(row) for claim, row in zip(self._claims, self._pairs[at], strict=True)]
            if changes := origin_changes(previews[0], previews[1]):
                return changes
        return ()

    def _find_deciding_losses(self) -> tuple[str, str]:
        """By which loss either side chooses a label, where they differ."""
        options = [
            (claim.entries[0].get('infer_cfg') or {}).get('inferencer') if claim.entries else None
            for claim in self._claims
        ]
        left, right = (str(own.get('decide_by') or 'whole') if isinstance(own, Mapping) else 'whole' for own in options)
        return (left, right) if left != right else ('', '')

    def _find_row_step(self) -> Iterator[CauseShare]:
        """Rows that only one side has, or other gold answers; or a stored score that its own replies no longer give."""
        if not self.both_asked:
            return
        left, right = (
            0.0 if claim.value is None or end is None else claim.value - end
            for claim, end in zip(self._claims, self.ends, strict=True)
        )
        alone = sum(len(claim.rows) - len(self._pairs) for claim in self._claims)
        golds = [[row.result.gold for row in pair] for pair in self._pairs]
        patched = 0 if any(claim.is_log for claim in self._claims) else sum(old != new for old, new in golds)
        if alone or abs(right - left) > _ROUNDED:
            cause = 'rows' if alone else 'gold answers' if patched else 'stored marks'
            yield CauseShare(cause, right - left, alone or patched)

    def _classify(self) -> list[str]:
        """For each row, the cause that a difference of its replies goes by."""
        sent = [edit.cause for edit in self._edits if edit.is_sent]
        if self._knows_settings:
            around = self._claims[0].parts.find_differing(self._claims[1].parts, ('engine', 'tokenizer', 'format'))
            sent += [part for part in around if part not in {CAUSES.get(cause) for cause in sent}]
        if self._claims[0].model != self._claims[1].model:
            sent = ['the model' if cause == 'engine' else cause for cause in sent]
        replying = [cause for cause in sent if cause in ('length', 'stops', 'sampling', 'engine', 'the model')]
        changed_rows = [compare_rows(*pair) for pair in self._pairs]
        differing = [*sent, *(cause for cause in dict.fromkeys(changed_rows) if cause and cause not in sent)]
        unsent = 'noise' if self._knows_settings else 'the model'
        names = {
            'prompt': differing[0] if len(differing) == 1 else 'prompt',
            'cut answers': 'length' if 'length' in sent else sent[0] if len(sent) == 1 else 'cut answers',
            'same prompt': sent[0] if len(sent) == 1 else ' or '.join(replying) or unsent,
        }
        kinds = [_compare_replies(*pair) for pair in self._pairs]
        if not any(claim.is_log for claim in self._claims):  # the same reply to other options says something else
            kinds = [
                changed or kind if kind == _SAME else kind for kind, changed in zip(kinds, changed_rows, strict=True)
            ]
        if 'prompt' in kinds and len(differing) > 1:
            way = (
                'the rows cannot be exchanged one by one'
                if any(changed_rows)
                else '--ladder asks the model to tell them apart'
            )
            self.unknown.append(f'{join_words(differing)} differ: {way}.')
        elif 'prompt' in kinds and not self._knows_settings:
            self.unknown.append('the prompts differ, and the settings of a log cannot be exchanged one by one.')
        return [names.get(kind, kind) for kind in kinds]

    def _describe_unasked(self) -> Iterator[str]:
        """What a config that was not run says beside a run or a log."""
        config, other = (claim.title for claim in sorted(self._claims, key=lambda claim: claim.has_replies))
        yield f'{config} was not run: its number is that of the replies of {other}, read and scored as it says.'
        yield from _compare_prompts(self._pairs)


def _lend_replies(left: Claim, right: Claim, pairs: Sequence[RowPair]) -> list[RowPair]:
    """The rows of both sides; a config that was not run borrows the replies of the other side."""
    return [
        (
            own if left.has_replies or not right.has_replies else _lend(other.result, own),
            other if right.has_replies or not left.has_replies else _lend(own.result, other),
        )
        for own, other in pairs
    ]


def _lend(replies: Result, own: ContentRow) -> ContentRow:
    return replace(own, result=replace(replies, gold=own.result.gold, row=own.result.row, score=None))


def make_flip(
    left: Result, right: Result, scores: tuple[float | None, float | None], read: tuple[Any, Any]
) -> FlippedRow:
    """A row that a cause changes, with the ends of its replies."""
    replies = [
        result.replies[-1] if result.replies else text_of(result.prediction) if result.prediction else result.reason
        for result in (left, right)
    ]
    ends = (reply if len(reply) <= _REPLY else f'…{reply[-_REPLY:]}' for reply in replies)
    return FlippedRow(left.row, right.row, *scores, right.gold, *read, *ends)


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
    other_prompt = bool(left.text and right.text) and left.text != right.text
    cut_alike = ours.is_cut == theirs.is_cut or not all('ended' in result.details for result in (ours, theirs))
    if (ours.is_cut or theirs.is_cut) and not (other_prompt and cut_alike):
        return 'cut answers'
    if left.text and right.text:
        return 'prompt' if other_prompt else 'same prompt'
    return 'replies'


def _weighs_alike(left: Result, right: Result) -> bool:
    """Whether a row without replies has the same losses: which label they decide for is the metric's."""
    losses = left.details.get('labels'), right.details.get('labels')
    return losses[0] == losses[1] if all(losses) else left.prediction == right.prediction


def compare_rows(left: ContentRow, right: ContentRow) -> str:
    """What differs between two rows beside the answer: `option order` where they have the same values in another order,
    `rows` where they have others. Columns of other names are another harness's."""
    fields = left.fields, right.fields
    golds = text_of(left.result.gold), text_of(right.result.gold)
    changed = [
        [own[key] for key in own if own[key] != other.get(key) and (text_of(own[key]), text_of(other.get(key))) != pair]
        for own, other, pair in ((*fields, golds), (*fields[::-1], golds[::-1]))
    ]
    values = [_flatten(own) for own in changed]
    longer = [[text for text in own if len(text) > 1] for own in values]
    if fields[0].keys() != fields[1].keys():
        return 'option order' if longer[0] != longer[1] and Counter(longer[0]) == Counter(longer[1]) else ''
    if values[0] == values[1]:
        return ''
    permuted = any(Counter(first) == Counter(second) != Counter() for first, second in (values, longer))
    return 'option order' if permuted else 'rows'


def _flatten(values: Sequence[Any]) -> list[str]:
    """The texts of some columns, lists entry by entry."""
    return [text_of(inner) for value in values for inner in (value if isinstance(value, list | tuple) else [value])]


def read_otherwise(claim: Claim, number: float) -> list[tuple[str, float]]:
    """What the stored replies come to if they are read or counted in other ways, the nearest to a number first."""
    results, fields = [row.result for row in claim.rows], [row.fields for row in claim.rows]
    further = dict((claim.card and claim.card.further) or {})
    values = {name: value for name, value in further.items() if 'stderr' not in name}
    if claim.scorer is None and claim.value is not None:
        values[AS_SCORED] = claim.value
    if claim.scorer is not None and results:
        for name, scorer in _other_scorers(claim.scorer):
            with suppress(RolecallError):
                if (value := score_results(scorer, results, fields).value) is not None:
                    values[name] = value
        finished = [at for at, result in enumerate(results) if not result.is_cut]
        if 0 < len(finished) < len(results):
            some = [results[at] for at in finished], [fields[at] for at in finished]
            values['cut answers left out'] = score_results(claim.scorer, *some).value or 0.0
    other = {name: value for name, value in values.items() if name == AS_SCORED or value != values.get(AS_SCORED)}
    return sorted(other.items(), key=lambda entry: abs(entry[1] - number))


def _other_scorers(scorer: DatasetScorer) -> Iterator[tuple[str, DatasetScorer]]:
    yield AS_SCORED, scorer
    for policy in ('exclude', 'wrong'):
        yield f'unparsed: {policy}', replace(scorer, unparsed=policy)
        yield f'failures: {policy}', replace(scorer, failures=policy)
    reader = next(iter(scorer.readers.values()))
    for name in _OTHER_READERS:
        extract = read_postprocessor(f'{name}_postprocess', where='reader')
        yield f'read by {name}_postprocess', replace(scorer, readers={'': replace(reader, extract=(extract,))})
