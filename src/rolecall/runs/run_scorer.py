"""Scoring a run: each dataset × model when its rows are stored, groups of datasets, and what looks wrong about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import NamedTuple, TypeVar

from rolecall.core.prompts.pieces import text_of
from rolecall.runs.judge import Judge, JudgeClients
from rolecall.runs.listener import RunListener, tell_programs
from rolecall.runs.pair_rows import RowChooser
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.pair_scoring import OpponentFinder, PairScorer
from rolecall.runs.receipts import check_receipts
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.code import report_progress
from rolecall.scoring.group_scores import summarise_groups
from rolecall.scoring.groups import read_groups
from rolecall.scoring.receipt import Receipt
from rolecall.scoring.score_warnings import WarningFilter
from rolecall.scoring.scorecard import HeadToHead, Judging, NotJudged, Scorecard
from rolecall.sources.config.files import Config
from rolecall.strings import count_noun

T = TypeVar('T')
_REASONS = 20
_LOOKED_AT = 1000


class ScoredPair(NamedTuple):
    """A pair with its scores, the first judge's first, and what is to be told of them."""

    pair: PairRun
    cards: Sequence[Scorecard]
    judges: Sequence[Judge]
    opponents: OpponentFinder | None

    @property
    def columns(self) -> list[Scorecard]:
        """A scorecard for each column of a report: several where a pair has several extractors."""
        return [column for card in self.cards for column in card.columns]


class RunScorer:
    """Scores the pairs of a run, and adds up what the run came to.

    With `rescored_only`, pairs that have no stored scores yet stay without.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        store: Store,
        listener: RunListener,
        chooser: RowChooser,
        judges: JudgeClients,
        *,
        rescored_only: bool = False,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._chooser = chooser
        self._judges = judges
        scored = [(card.dataset, card.model) for card in _read_scorecards(store)] if rescored_only else ()
        self._to_score = set(scored) if rescored_only else {(pair.dataset, pair.model.name) for pair in prepared.pairs}
        self._warnings = WarningFilter()
        self._outcomes: dict[PairRun, Counter[str]] = {}
        self._reply_warnings: dict[PairRun, list[str]] = {}
        self._cards: dict[PairRun, list[Scorecard]] = {}
        self.cards: list[Scorecard] = []
        """The scores of pairs and groups, in the order of the plan."""
        self.reasons: Counter[str] = Counter()
        """Why rows failed."""
        self.broken_judges: dict[str, str] = {}
        self.unjudged = 0
        """Answers on which a judge was asked and said nothing."""
        self.without_verdict = 0
        """Answers on which a judge's reply gave no verdict."""
        self.unjudged_yet = 0
        """Answers whose judgement waits for a batch."""

    async def score(self, pair: PairRun) -> ScoredPair | None:
        """Score a pair whose rows are stored. A share of the rows is only counted."""
        store, names = self._store, (pair.dataset, pair.model.name)
        if self._prepared.options.share is not None:  # the rows of one process among several: scores take all
            self._outcomes[pair] = store.count_outcomes(*names)
            return None
        if names not in self._to_score:
            return None
        receipt = check_receipts(pair, store)
        await store.wait_until_saved(*names)
        report_progress.set(tell_programs(pair.name, self._listener))
        _, scoring = store.digests(*names)
        marked = pair.scoring_digest is not None and scoring == pair.scoring_digest
        opponents = self._find_opponents(pair)
        judges = [self._judges.build(entry) for entry in pair.judges]
        cards = await PairScorer(pair, store, judges, find_opponents=opponents).score(marked=marked)
        if sum(judge.refuse_cut() for judge in judges):  # their replies are stored; this time some do not count
            cards = await PairScorer(pair, store, judges, find_opponents=opponents).score(marked=False)
        if findings := [line for judge in judges for line in judge.findings]:
            receipt = replace(receipt or Receipt(), findings=(*(receipt or Receipt()).findings, *findings))
        await store.wait_until_saved(*names)
        if pending := sum(judge.pending for judge in judges):
            self.unjudged_yet += pending
            self._outcomes[pair] = store.count_outcomes(*names)
            return None
        every = len(pair.compiled.data.test)
        cards = [self._note_rows(_note_missing(card, opponents), every) for card in cards]
        cards = [_note_judging(card, judge) for card, judge in zip_longest(cards, judges[: len(cards)])]
        return ScoredPair(pair, [replace(card, receipt=receipt) for card in cards], judges, opponents)

    def _note_rows(self, card: Scorecard, every: int) -> Scorecard:
        """The scorecard of some of the rows, with what they are; of drawn ones, with how far off it may be for all."""
        draw, options = self._prepared.draw, self._prepared.options
        left = 1 - card.total / max(every, 1)
        if card.error or left <= 0 or (draw is None and options.limit is None):
            return card
        of = f'{card.total:,} of {count_noun(every, "row")}'
        note = f'the first {of}' if draw is None else f'{of}, {draw.manner}'
        value, low, high = card.value, card.low, card.high
        if options.sample is not None and value is not None and low is not None and high is not None:
            low, high = (value + left**0.5 * (bound - value) for bound in (low, high))
            note += f'; on all rows {card.model} would score {low:,.1f} to {high:,.1f}'
        return replace(card, rows_note='; '.join(filter(None, (card.rows_note, note))))

    def record(self, scored: ScoredPair) -> None:
        """Have the scores of a pair stored. Reports show them in the order in which they are recorded."""
        pair, store = scored.pair, self._store
        store.record_scores(scored.columns)
        asking = self._chooser.digest(pair)
        store.record_digests(pair.dataset, pair.model.name, asking=asking, scoring=pair.scoring_digest)

    async def report(self, scored: ScoredPair) -> None:
        """Once the scores of a pair are on disk, add up what it came to, and tell the listener."""
        pair, cards, judges, opponents = scored
        await self._store.wait_until_saved()
        store, names, tell = self._store, (pair.dataset, pair.model.name), self._listener.on_message
        for reasons in opponents.missing.values() if opponents is not None else ():
            why = reasons.most_common(1)[0][0]
            tell(f'{pair.name}: {count_noun(reasons.total(), "row")} not compared: {why}')
        for card, judge in zip(cards, judges, strict=False):
            self._count_unjudged(pair, card, judge)
        self._outcomes[pair] = store.count_outcomes(*names)
        self._reply_warnings[pair] = warn_about_stored(store.results(*names), cards[0])
        if cards[0].outcomes.get('failed'):
            first = islice(store.results(*names), _LOOKED_AT)
            self.reasons.update(result.reason for result in first if result.outcome == 'failed')
        messages = [message for card in cards for message in (card.error, *self._warnings.add(card)) if message]
        for message in dict.fromkeys(messages):
            tell(message)
        self._cards[pair] = scored.columns
        self._listener.on_scores(*names, scored.columns)

    def _count_unjudged(self, pair: PairRun, card: Scorecard, judge: Judge) -> None:
        """Count the answers without a verdict, and tell the listener why."""
        unread = Counter((card.judging or Judging()).without_verdict or {})
        if not (judge.failures or unread):
            return
        self.unjudged += judge.failures.total()
        self.without_verdict += unread.total()
        if judge.broken is not None:
            self.broken_judges[judge.model.name] = judge.broken
        reasons = judge.failures + unread
        [(why, _), *others] = reasons.most_common()
        more = f' (and {count_noun(len(others), "other reason")})' if others else ''
        self._listener.on_message(f'{pair.name}: {count_noun(reasons.total(), "answer")} not judged: {why}{more}')

    @property
    def outcomes(self) -> Counter[str]:
        """How rows ended."""
        return sum(self._in_order(self._outcomes), Counter())

    @property
    def reply_warnings(self) -> tuple[str, ...]:
        """What looks wrong about the replies of a pair as a whole."""
        return tuple(chain.from_iterable(self._in_order(self._reply_warnings)))

    def _in_order(self, by_pair: Mapping[PairRun, T]) -> Iterator[T]:
        """What was noted of each pair, in the order of the plan: pairs finish in any order."""
        return (by_pair[pair] for pair in self._prepared.pairs if pair in by_pair)

    async def score_groups(self) -> None:
        """Score the config's groups of datasets, for every model. Datasets that were not run now keep their scores."""
        groups = read_groups(self._prepared.experiment.config)
        self.cards = list(chain.from_iterable(self._in_order(self._cards)))
        own = {(card.dataset, card.model) for card in self.cards}
        models = {card.model for card in self.cards}
        others = [
            card
            for card in (_read_scorecards(self._store) if groups else ())
            if not card.members and card.model in models and (card.dataset, card.model) not in own
        ]
        cards = summarise_groups(groups, [*self.cards, *others])
        self._store.record_scores(cards)
        await self._store.wait_until_saved()
        self.cards += cards
        for card in cards:
            self._listener.on_scores(card.dataset, card.model, [card])
        for warning in self._warnings.finish():
            self._listener.on_message(warning)

    def _find_opponents(self, pair: PairRun) -> OpponentFinder | None:
        """What the answers of a pair are compared with; None if they are judged alone."""
        if pair.comparison is None:
            return None
        config = self._prepared.experiment.config
        return OpponentFinder(
            pair.comparison,
            self._store,
            pair.dataset,
            pair.model.name,
            scorer=pair.scorer,
            scorers={other.model.name: other.scorer for other in self._prepared.pairs if other.dataset == pair.dataset},
            base=config.path.parent if isinstance(config, Config) else None,
        )


def _note_judging(card: Scorecard, judge: Judge | None) -> Scorecard:
    """The scorecard with what the judge used, and why answers have no verdict."""
    if judge is None:
        return card
    judging = card.judging or Judging()
    if judge.used.rows:
        judging = replace(judging, usage={'model': judge.model.name, **judge.used.as_dict()})
    if reasons := judge.failures + Counter(judging.without_verdict or {}):
        judging = replace(judging, not_judged=NotJudged(judge.model.name, dict(reasons.most_common(_REASONS))))
    return card if judging == Judging() else replace(card, judging=judging)


def _note_missing(card: Scorecard, opponents: OpponentFinder | None) -> Scorecard:
    """The scorecard with how many rows each opponent has no answer to."""
    if opponents is None or not opponents.missing:
        return card
    compared = dict(card.compared or {})
    for name, reasons in opponents.missing.items():
        compared[name] = replace(compared.get(name) or HeadToHead(0), missing=reasons.total())
    return replace(card, compared=compared)


def _read_scorecards(store: Store) -> list[Scorecard]:
    with RunReader(store.directory) as reader:
        return reader.scorecards()


_FEWEST = 2
_SHOWN = 80
_FEWEST_ALIKE = 4
"""So many rows must be alike before it is said: fewer may be chance."""
_TEXT_METRICS = ('accuracy', 'exact_match', 'contains_answer')


def warn_about_stored(results: Iterator[Result], card: Scorecard) -> list[str]:
    """At most one warning about a dataset × model by its first rows, which stand for the others."""
    rows = list(islice(results, _LOOKED_AT))
    reply_warnings = warn_about_replies(rows, card)
    if card.total > len(rows):
        return [
            warning.replace(': ', f' (its first {count_noun(len(rows), "row")}): ', 1) for warning in reply_warnings
        ]
    return reply_warnings


def warn_about_replies(results: Sequence[Result], card: Scorecard) -> list[str]:
    """At most one warning about a dataset × model, the most telling one.

    >>> rows = [Result('qa', 'm', row, 'ok', prediction='', replies=('',), gold='Paris') for row in range(3)]
    >>> warn_about_replies(rows, Scorecard('qa', 'm', 'accuracy', 0.0))
    ['qa × m: every reply is empty. Look at a prompt with rolecall view; an instruct model needs its chat template.']
    """
    name = f'{card.dataset} × {card.model}'
    answered = [result for result in results if result.outcome in ('ok', 'unparsed')]
    if len(answered) < _FEWEST:
        return []
    replies = [text for result in answered for text in result.replies]
    if replies and not any(text.strip() for text in replies):
        advice = 'Look at a prompt with rolecall view; an instruct model needs its chat template.'
        return [f'{name}: every reply is empty. {advice}']
    if all(result.outcome == 'unparsed' for result in answered):
        first = ' '.join(next((text for text in replies if text.strip()), '').split())
        shown = repr(first if len(first) < _SHOWN else f'{first[: _SHOWN - 1]}…')
        return [f'{name}: no answer was found in any reply. The first reply is {shown}: is the extraction right?']
    answers = {text_of(result.prediction) for result in answered}
    golds = {text_of(result.gold) for result in answered}
    if len(answered) >= _FEWEST_ALIKE and len(answers) == 1 and len(golds) > 1:
        return [f'{name}: every row has the same answer, {next(iter(answers))!r:.60}.']
    return _warn_about_golds(name, answered, card)


def _warn_about_golds(name: str, answered: Sequence[Result], card: Scorecard) -> list[str]:
    """Gold answers that no reply can match."""
    if card.metric not in _TEXT_METRICS:
        return []
    without = [result for result in answered if _is_missing(result.gold)]
    if without and not any(result.correct for result in without):
        rows = f'{len(without):,} of {count_noun(len(answered), "row")}'
        return [f'{name}: no gold answer in {rows}: counted as wrong. Is the answer column the right one?']
    if card.value == 0 and all(isinstance(result.gold, Mapping) for result in answered):
        keys = ', '.join(map(str, answered[0].gold))
        return [f'{name}: every gold answer is an object, which no reply equals. Name a value inside it: {keys}.']
    return []


def _is_missing(gold: object) -> bool:
    """Empty, or the NaN that pandas writes for an empty cell."""
    return gold != gold or (isinstance(gold, str) and not gold.strip())
