"""The ladder: a model is asked with one typed edit at a time, from both ends, to tell apart what changes its replies.

Forwards, the left side takes one setting of the right one; backwards, the right side does without it. The share of an
edit is the mean of the two. What is left over is interaction, or noise where its interval holds 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.insight.cause_shares import compare_rows, explain_claims, make_flip
from rolecall.insight.claim_pairs import ClaimLike, RowPair, open_claims
from rolecall.insight.claims import Claim, is_stand_in
from rolecall.insight.explanation import (
    SCORING,
    CauseShare,
    Edit,
    Entries,
    Explanation,
    FlippedRow,
    apply_edits,
    find_edits,
    origin_changes,
)
from rolecall.insight.run_source import PairRows
from rolecall.insight.scored_mixes import make_share, mean_score, score_results
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_rows import outcome_to_score
from rolecall.runs.plan import RunPlan
from rolecall.runs.planning import plan_run
from rolecall.runs.run import run_config
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.statistics import paired_difference
from rolecall.strings import count_noun, join_words

_FEWEST = 30
"""Rows that a ladder asks about at least, if there are as many."""
_MARGIN = 0.1
"""The share of the difference that an interval may reach to either side, and the least in points of 1."""
_LEAST_MARGIN = 0.02
_KEPT = (*SCORING, 'rows', 'gold answers', 'stored marks', 'failures', 'option order')
"""Steps that stored replies decide, unless an edit is called so."""
Mix: TypeAlias = 'frozenset[str]'
"""The causes that come from the right side; `A` or `B` alone: a side as it is written, not in the shape of both."""


@dataclass(frozen=True)
class Rung:
    """One mix of the two sides that the model is asked with."""

    name: str
    edits: Mix
    """The causes that it has from the right side."""
    experiment: Experiment = field(repr=False)


@dataclass(frozen=True)
class Ladder:
    """Two claims, the edits between them, and the rows that the model is asked about."""

    left: Claim
    right: Claim
    pairs: Sequence[RowPair] = field(repr=False)
    edits: tuple[Edit, ...]
    options: RunOptions

    @classmethod
    def build(
        cls, left: Claim, right: Claim, pairs: Sequence[RowPair], *, out: str | Path, rows: int | None = None
    ) -> Ladder:
        """A ladder on `rows` of the rows that both sides have answered, or as many as the paired test needs."""
        entries = [_open_side(claim)[2] for claim in (left, right)]
        edits = [edit for edit in find_edits(entries[0], entries[1]) if edit.is_sent]
        unasked = [not claim.has_replies for claim in (left, right)]
        asked = [
            pair
            for pair in pairs
            if not compare_rows(*pair)
            and all(open_ or _is_answered(row.result) for row, open_ in zip(pair, unasked, strict=True))
        ]
        if not asked:
            what = f'no row of {left.dataset} was answered on both sides with the same content.'
            raise ConfigError(Problem('--ladder', what))
        size = min(len(asked), rows or _find_size(asked))
        chosen = sorted(random.Random(0).sample(range(len(asked)), size))
        drawn = [asked[at] for at in chosen]
        numbers = tuple(sorted(row.result.row for row, _ in drawn))
        ladder = cls(left, right, drawn, tuple(edits), RunOptions(out=out, rows=numbers, lint=False, force=True))
        return replace(ladder, edits=ladder._join_edits())

    def _join_edits(self) -> tuple[Edit, ...]:
        """The edits; those that cannot be asked with alone, or left out alone, are one."""
        joined = []
        for edit in self.edits:
            try:
                for mix in ([edit], [other for other in self.edits if other is not edit]):
                    self._mix(mix, '')
            except ConfigError:
                joined.append(edit)
        if not joined:
            return self.edits
        names, paths = [edit.cause for edit in joined], tuple(path for edit in joined for path in edit.paths)
        together = Edit(join_words(names), paths)
        return tuple(together if edit is joined[0] else edit for edit in self.edits if edit not in joined[1:])

    @cached_property
    def mixes(self) -> tuple[Mix, Mix]:
        """The two ends of the ladder: the left side's settings, and those with every edit."""
        return frozenset(), frozenset(edit.cause for edit in self.edits)

    @cached_property
    def ends(self) -> tuple[Mix, Mix]:
        """The mixes that the sides themselves are: the ends, unless the shape of both words a side otherwise."""
        ends = []
        for side, claim, mix, name in zip((0, 1), (self.left, self.right), self.mixes, 'AB', strict=True):
            mixed = self._mix(self._edits_of(mix), name)
            pairs = _open_side(claim)[1], mixed.pair(mixed.tasks[0], mixed.models[0])
            rows = self.pairs[0][side].result.row, self.pairs[0][0].result.row
            own, other = (
                [preview.request for preview in PairRows(pair).previews(row)]
                for pair, row in zip(pairs, rows, strict=True)
            )
            ends.append(mix if own == other else frozenset((name,)))
        return ends[0], ends[1]

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """What has to be asked: each edit alone, all but each, and an end without replies."""
        causes = self.mixes[1]
        wanted = {frozenset((cause,)): f'+ {cause}' for cause in sorted(causes)}
        wanted |= {causes - {cause}: f'− {cause}' for cause in sorted(causes) if len(causes) > 2}
        wanted = {mix: name for mix, name in wanted.items() if mix != causes}
        rungs = [Rung(name, mix, self._mix(self._edits_of(mix), name)) for mix, name in wanted.items()]
        for claim, mix, end, name in zip((self.left, self.right), self.mixes, self.ends, 'AB', strict=True):
            if mix != end:
                turned = f'{name} as a dialogue'
                rungs.append(Rung(turned, mix, self._mix(self._edits_of(mix), turned)))
            if not claim.has_replies:
                experiment, pair, entries = _open_side(claim)
                own = experiment.edit(
                    pair.task, pair.model_entry, dataset_entry=entries[0], model_entry={**entries[1], 'abbr': name}
                )
                rungs.append(Rung(name, end, own if mix != end else self._mix(self._edits_of(mix), name)))
        return tuple(rungs)

    def _edits_of(self, mix: Mix) -> list[Edit]:
        return [edit for edit in self.edits if edit.cause in mix]

    def _mix(self, edits: Sequence[Edit], name: str) -> Experiment:
        """The left side's experiment with these settings from the right one."""
        experiment, pair, entries = _open_side(self.left)
        dataset, model = apply_edits(entries, _open_side(self.right)[2], edits)
        experiment = experiment.edit(
            pair.task, pair.model_entry, dataset_entry=dataset, model_entry={**model, 'abbr': name}
        )
        sections = {path[1] for edit in edits for path in edit.paths if path[0] == 'dataset'}
        return replace(experiment, _datasets={}) if sections - {'infer_cfg', 'eval_cfg'} else experiment

    def plan(self) -> RunPlan:
        """Requests, tokens and price of all rungs; what was asked before is known."""
        return RunPlan(tuple(pair for rung in self.rungs for pair in plan_run(rung.experiment, self.options).pairs))

    def ask(self, progress: RunListener | None = None) -> None:
        """Ask the model. Started again, it resumes."""
        for rung in self.rungs:
            with self.left.refuse_code() if self.right.is_stored else nullcontext():
                if run_config(rung.experiment, self.options, progress=progress).interrupted:
                    raise KeyboardInterrupt

    def explain(self, explanation: Explanation) -> Explanation:
        """The explanation with the share of every edit, from what the model replied."""
        mixes = self._read_replies()
        answered = [at for at in range(len(self.pairs)) if all(_is_answered(results[at]) for results in mixes.values())]
        if not answered:
            failed = next(result for results in mixes.values() for result in results if not _is_answered(result))
            raise RunError(f'--ladder: no row was answered with every setting; {failed.model}: {failed.reason}')
        mixes = {mix: [results[at] for at in answered] for mix, results in mixes.items()}
        ladder = replace(self, pairs=[self.pairs[at] for at in answered])
        if not (self.left.has_replies and self.right.has_replies):
            ladder, explanation = ladder._explain_asked(mixes)
        steps = list(_LadderSteps(ladder, mixes).find(explanation))
        stored = [step for step in explanation.steps if ladder.keeps(step)]
        settled = [line for line in explanation.unknown if '--ladder' not in line]
        if len(ladder.pairs) < explanation.rows:
            settled.append(f'the ladder rests on {count_noun(len(ladder.pairs), "row")} of {explanation.rows:,}.')
        return replace(explanation, steps=(*stored, *steps), unknown=tuple(settled))

    def keeps(self, step: CauseShare) -> bool:
        """Whether stored replies decide a step; the ladder takes the place of the others."""
        return step.cause in _KEPT and all(edit.cause != step.cause for edit in self.edits)

    def _read_replies(self) -> dict[Mix, list[Result]]:
        """The replies of both sides and of every rung, by the causes that they have from the right side."""
        mixes = {end: [pair[side].result for pair in self.pairs] for side, end in enumerate(self.ends)}
        if not self.rungs:
            return mixes
        with RunReader(self.options.out or '') as reader:
            for rung in self.rungs:
                by_row = {result.row: result for result in reader.results(self.left.dataset, rung.name)}
                lost = Result(self.left.dataset, rung.name, -1, 'failed')
                mixes[rung.edits] = [by_row.get(row.result.row, lost) for row, _ in self.pairs]
        return mixes

    def _explain_asked(self, mixes: Mapping[Mix, Sequence[Result]]) -> tuple[Ladder, Explanation]:
        """The ladder of a config that was not run, with its replies, and what they say."""
        ends = mixes[self.ends[0]], mixes[self.ends[1]]
        pairs = [
            (replace(left, result=first), replace(right, result=second))
            for (left, right), first, second in zip(self.pairs, *ends, strict=True)
        ]
        left, right = (
            replace(claim, rows=[pair[side] for pair in pairs]) for side, claim in enumerate((self.left, self.right))
        )
        explanation = explain_claims(left, right, pairs)
        return replace(self, left=left, right=right, pairs=pairs), explanation


class _LadderSteps:
    """Scores of every mix on the rows of a ladder, row by row."""

    def __init__(self, ladder: Ladder, mixes: dict[Mix, list[Result]]) -> None:
        self._ladder = ladder
        self._results = mixes
        self._factor = ladder.left.factor
        self._scores = {mix: self._score(results) for mix, results in mixes.items()}

    def _score(self, results: Sequence[Result]) -> list[float]:
        """Each row's score, the mean of both sides' scoring; a row without one counts as wrong."""
        pairs = self._ladder.pairs
        scored = [
            score_results(
                claim.scorer,
                [replace(result, gold=pair[side].result.gold) for result, pair in zip(results, pairs, strict=True)],
                [pair[side].fields for pair in pairs],
            ).scores
            for side, claim in enumerate((self._ladder.left, self._ladder.right))
            if claim.scorer is not None
        ]
        return [sum(score or 0.0 for score in row) / len(row) for row in zip(*scored, strict=True)]

    def find(self, explanation: Explanation) -> Iterator[CauseShare]:
        first, last = self._ladder.ends
        nothing, everything = self._ladder.mixes
        left_over = self._gain(first, last)
        total = mean_score(left_over) * self._factor
        walks = {edit.cause: [(nothing, frozenset((edit.cause,)))] for edit in self._ladder.edits}
        for cause, walk in walks.items():
            walk.append((everything - {cause}, everything))
        if turned := [walk for walk in ((first, nothing), (everything, last)) if walk[0] != walk[1]]:
            walks = {'text or dialogue': turned, **walks}
        for cause, steps in walks.items():
            weight = 1 if cause not in everything else 1 / 2
            shares = [weight * sum(gains) for gains in zip(*(self._gain(*step) for step in steps), strict=True)]
            left_over = [rest - share for rest, share in zip(left_over, shares, strict=True)]
            yield self._make_step(cause, shares, steps)
        replies = sum(step.points for step in explanation.steps if not self._ladder.keeps(step))
        unsampled = replies - total if len(self._ladder.pairs) < explanation.rows else 0.0
        rest = self._make_step('noise', left_over, ())
        certain = rest.low is not None and rest.high is not None and not rest.low <= 0 <= rest.high
        name = 'interaction' if certain else 'noise'
        if rest.rows or abs(unsampled) > _LEAST_MARGIN:
            yield replace(rest, cause=name, points=rest.points + unsampled)

    def _gain(self, before: Mix, after: Mix) -> list[float]:
        """What each row gains from one mix to another."""
        return [last - first for first, last in zip(self._scores[before], self._scores[after], strict=True)]

    def _make_step(self, cause: str, shares: Sequence[float], walks: Sequence[tuple[Mix, Mix]]) -> CauseShare:
        """A cause; `walks` are the pairs of mixes that differ in it alone."""
        clusters = [row.result.cluster for row, _ in self._ladder.pairs]
        changed = [at for at, share in enumerate(shares) if share] if walks else []
        flips = [self._flip(at, next(walk for walk in walks if self._gain(*walk)[at])) for at in changed]
        share = make_share(cause, shares, clusters, self._factor)
        changes = origin_changes(*(self._preview(mix, changed[0]) for mix in walks[0])) if changed else ()
        return replace(share, flips=tuple(flips), changes=changes, is_asked=True)

    def _flip(self, at: int, walk: tuple[Mix, Mix]) -> FlippedRow:
        left, right = (self._results[mix][at] for mix in walk)
        scores = self._scores[walk[0]][at], self._scores[walk[1]][at]
        return make_flip(left, right, scores, (left.extracted, right.extracted))

    def _preview(self, mix: Mix, at: int) -> Preview | None:
        """The first request of a row of a mix, by origin."""
        rung = next((rung for rung in self._ladder.rungs if rung.edits == mix), None)
        rows = self._ladder.pairs[at]
        if rung is None:
            is_right = mix == self._ladder.ends[1]
            return (self._ladder.right if is_right else self._ladder.left).preview(rows[is_right])
        pair = rung.experiment.pair(rung.experiment.tasks[0], rung.experiment.models[0])
        return next(iter(PairRows(pair).previews(rows[0].result.row)), None)


def _is_answered(result: Result) -> bool:
    return outcome_to_score(result.outcome, result.prediction) == 'ok'


def _open_side(claim: Claim) -> tuple[Experiment, Pair, Entries]:
    """What a side is asked with. An error says what it lacks for that, and what to do."""
    if claim.is_log or claim.entries is None or claim.pair is None or claim.experiment is None or claim.scorer is None:
        reasons = ' '.join(claim.unknown) or 'it is not a run or a config.'
        raise ConfigError(Problem('--ladder', f'{claim.title} cannot be asked: {reasons}', 'Give a run or a config.'))
    if is_stand_in(claim):
        what = f'the model of {claim.title} is code of its own, which is not imported from a run directory.'
        raise ConfigError(Problem('--ladder', what, 'Name its config with --config.'))
    return claim.experiment, claim.pair, claim.entries


def _find_size(pairs: Sequence[RowPair]) -> int:
    """How many rows the paired test needs for an interval of a tenth of the difference to either side."""
    scores = [(left.result.score or 0.0, right.result.score or 0.0) for left, right in pairs]
    count = len(scores)
    gained, lost = (sum(sign * (after - before) > 0 for before, after in scores) / count for sign in (1, -1))
    margin = max(_LEAST_MARGIN, _MARGIN * abs(gained - lost))
    size = min(count, _FEWEST)
    while size < count:
        low, high = paired_difference(gained * size, lost * size, size)
        if (high - low) / 2 <= margin:
            break
        size = min(count, size * 5 // 4 + 1)
    return size


def build_ladders(
    left: ClaimLike,
    right: ClaimLike,
    stack: ExitStack,
    *,
    out: str | Path,
    dataset: str | None = None,
    model: str | None = None,
    configs: Sequence[Any] = (),
    rows: int | None = None,
) -> Iterator[tuple[Ladder, Explanation]]:
    """The ladder of each dataset × model that both sides have, with what stored replies say already."""
    for first, second, pairs in open_claims(left, right, stack, dataset, model, configs):
        ladder = Ladder.build(first, second, pairs, out=out, rows=rows)
        if not ladder.edits:
            raise ConfigError(
                Problem('--ladder', f'nothing that is sent differs between {join_words([first.title, second.title])}.')
            )
        yield ladder, explain_claims(first, second, pairs)
