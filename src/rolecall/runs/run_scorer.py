"""Scoring a run: each dataset × model when its rows are stored, then the groups of datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from rolecall.runs.job import Job
from rolecall.runs.judge import Judge
from rolecall.runs.listener import RunListener, tell_programs
from rolecall.runs.prepared import Prepared, PreparedPair
from rolecall.runs.remarks import remark_on_stored
from rolecall.runs.rivals import RivalFinder
from rolecall.runs.row_chooser import RowChooser
from rolecall.runs.scores import FindRivals
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.code import report_progress
from rolecall.scoring.group_scores import summarise_groups
from rolecall.scoring.groups import Group
from rolecall.scoring.score_warnings import WarningFilter
from rolecall.scoring.scorecard import HeadToHead, Judging, NotJudged, Scorecard
from rolecall.sources.config.files import Config
from rolecall.strings import count_noun

_REASONS = 20
_LOOKED_AT = 1000


class RunScorer:
    """Scores the pairs of a run, and adds up what the run came to.

    With `rescored_only`, pairs that have no stored scores yet stay without.
    """

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        listener: RunListener,
        chooser: RowChooser,
        *,
        rescored_only: bool = False,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._chooser = chooser
        self._pairs = {(one.dataset, one.model.name): one for one in prepared.pairs}
        self._to_score = (
            {(card.dataset, card.model) for card in _read_scorecards(store)} if rescored_only else set(self._pairs)
        )
        self._warnings = WarningFilter()
        self.cards: list[Scorecard] = []
        self.outcomes: Counter[str] = Counter()
        self.remarks: list[str] = []
        """What looks wrong about the replies of a pair as a whole."""
        self.reasons: Counter[str] = Counter()
        """Why rows failed."""
        self.broken_judges: dict[str, str] = {}
        self.unjudged = 0
        """Answers on which a judge was asked and said nothing."""
        self.without_verdict = 0
        """Answers on which a judge's reply gave no verdict."""
        self.unjudged_yet = 0
        """Answers whose judgement waits for a batch."""

    async def score_pair(self, job: Job) -> None:
        """Score a pair whose rows are stored, and record its scores. A share of the rows is only counted."""
        if self._prepared.share is not None:  # the rows of one process among several: scores take all
            self.outcomes.update(self._store.count_outcomes(job.dataset, job.model))
            return
        if (job.dataset, job.model) not in self._to_score:
            return
        one = self._pairs[job.dataset, job.model]
        store, scores = self._store, one.scores
        report_progress.set(tell_programs(f'{job.dataset} × {job.model}', self._listener))
        _, scoring = store.recipe(job.dataset, job.model)
        marked = scores.digest is not None and scoring == scores.digest
        rivals = self._find_rivals(one)
        cards = await scores.score_stored(
            store, job.dataset, job.model, one.pair.data.test, marked=marked, find_rivals=rivals
        )
        if deferred := sum(judge.deferred for judge in scores.judges):
            self.unjudged_yet += deferred
            for judge in scores.judges:
                judge.deferred = 0
            self.outcomes.update(store.count_outcomes(job.dataset, job.model))
            return
        self._tell_missing(cards[0], rivals)
        cards = [_note_missing(card, rivals) for card in cards]
        cards = [self._note_judging(card, judge) for card, judge in zip_longest(cards, scores.judges[: len(cards)])]
        columns = [column for card in cards for column in card.columns]
        await store.wait_until_saved()
        store.record_scores(columns)
        asking = self._chooser.digest(one)
        store.record_recipe(job.dataset, job.model, asking=asking, scoring=scores.digest)
        self.outcomes.update(store.count_outcomes(job.dataset, job.model))
        self.cards += columns
        self.remarks += remark_on_stored(store.results(job.dataset, job.model), cards[0])
        if cards[0].outcomes.get('failed'):
            first = islice(store.results(job.dataset, job.model), _LOOKED_AT)
            self.reasons.update(result.reason for result in first if result.outcome == 'failed')
        found = [message for card in cards for message in (card.error, *self._warnings.add(card)) if message]
        for message in dict.fromkeys(found):
            self._listener.on_message(message)
        self._listener.on_scores(job.dataset, job.model, columns)

    def average(self, groups: Sequence[Group]) -> None:
        """Score the config's groups of datasets, for every model. Datasets that were not run now keep their scores."""
        places = {pair: place for place, pair in enumerate(self._pairs)}
        self.cards.sort(key=lambda card: places[card.dataset, card.model])  # not in the order in which pairs finished
        own = {(card.dataset, card.model) for card in self.cards}
        models = {card.model for card in self.cards}
        others = [
            card
            for card in (_read_scorecards(self._store) if groups else ())
            if not card.members and card.model in models and (card.dataset, card.model) not in own
        ]
        cards = summarise_groups(groups, [*self.cards, *others])
        self._store.record_scores(cards, [])
        self.cards += cards
        for card in cards:
            self._listener.on_scores(card.dataset, card.model, [card])
        for warning in self._warnings.finish():
            self._listener.on_message(warning)

    def _find_rivals(self, one: PreparedPair) -> FindRivals:
        """What the answers of a pair are compared with: nothing if they are judged alone."""
        comparison = one.scores.comparison
        if comparison is None:
            return lambda number, row: ()
        config = self._prepared.config
        return RivalFinder(
            comparison,
            self._store,
            one.dataset,
            one.model.name,
            scores=one.scores,
            scores_of={model: pair.scores for (dataset, model), pair in self._pairs.items() if dataset == one.dataset},
            base=config.path.parent if isinstance(config, Config) else None,
        )

    def _tell_missing(self, card: Scorecard, rivals: FindRivals) -> None:
        """Tell the listener how many rows each opponent has no answer to, and why."""
        for reasons in rivals.missing.values() if isinstance(rivals, RivalFinder) else ():
            why = reasons.most_common(1)[0][0]
            rows = count_noun(reasons.total(), 'row')
            self._listener.on_message(f'{card.dataset} × {card.model}: {rows} not compared: {why}')

    def _note_judging(self, card: Scorecard, judge: Judge | None) -> Scorecard:
        """The scorecard with what the judge used, and the answers without a verdict. The listener hears of these."""
        if judge is not None and judge.used.rows:
            used = {'model': judge.model.name, **judge.used.as_dict()}
            card = replace(card, judging=replace(card.judging or Judging(), usage=used))
        judging = card.judging or Judging()
        unread = Counter(judging.without_verdict or {})
        if judge is None or not (judge.failures or unread):
            return card
        self.unjudged += judge.failures.total()
        self.without_verdict += unread.total()
        if judge.broken is not None:
            self.broken_judges[judge.model.name] = judge.broken
        reasons = judge.failures + unread
        [(why, _), *others] = reasons.most_common()
        more = f' (and {count_noun(len(others), "other reason")})' if others else ''
        what = f'{count_noun(reasons.total(), "answer")} not judged: {why}{more}'
        self._listener.on_message(f'{card.dataset} × {card.model}: {what}')
        unjudged = NotJudged(judge.model.name, dict(reasons.most_common(_REASONS)))
        return replace(card, judging=replace(judging, not_judged=unjudged))


def _note_missing(card: Scorecard, rivals: FindRivals) -> Scorecard:
    """The scorecard with how many rows each opponent has no answer to."""
    if not isinstance(rivals, RivalFinder) or not rivals.missing:
        return card
    compared = dict(card.compared or {})
    for name, reasons in rivals.missing.items():
        compared[name] = replace(compared.get(name) or HeadToHead(0), missing=reasons.total())
    return replace(card, compared=compared)


def _read_scorecards(store: Store) -> list[Scorecard]:
    with RunReader(store.directory) as reader:
        return reader.scorecards()
