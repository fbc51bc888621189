"""Warnings about scores, with the same warning of many datasets in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rolecall.scoring.scorecard import ReplyCount, Scorecard
from rolecall.strings import count_noun

ReplyKind = Literal['cut', 'empty']
_KINDS: tuple[ReplyKind, ...] = ('cut', 'empty')
_GATHERED_FROM = 4
"""From this many datasets of a model on, warnings of one kind are one line."""
_NAMED = 3


def warnings_of(cards: Iterable[Scorecard]) -> list[str]:
    """The warnings of all cards, each once. Cut or empty replies of many datasets are one line for each model.

    >>> empty = {'a': 1, 'b': 5, 'c': 2, 'd': 1}
    >>> cards = [Scorecard(name, 'm', 'accuracy', 50.0, empty=ReplyCount(rows, 10)) for name, rows in empty.items()]
    >>> warnings_of(cards)
    ['4 datasets × m: 22 % of the replies are empty (9 of 40; most in b 50 %, c 20 %, a 10 %).']
    """
    compared: set[tuple[str, str, str]] = set()
    distinct = [_drop_mirrored(card, compared) for card in cards]
    for kind in _KINDS:
        gathered = _gather_replies(distinct, kind)
        distinct = [_with_count(card, kind, None) if card.model in gathered else card for card in distinct]
        distinct += gathered.values()
    return list(dict.fromkeys(warning for card in distinct for warning in (*card.notes(), *card.warnings())))


@dataclass(slots=True)
class WarningFilter:
    """Shows the first few warnings of a kind for each model as datasets finish, and the rest in one line at the end."""

    _cards: list[Scorecard] = field(default_factory=list)
    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    _compared: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, card: Scorecard) -> tuple[str, ...]:
        """The warnings to show for this dataset now."""
        distinct = _drop_mirrored(card, self._compared)
        for kind in _KINDS:
            if _warns(card, kind):
                self._seen[card.model, kind] += 1
                if self._seen[card.model, kind] >= _GATHERED_FROM:
                    distinct = _with_count(distinct, kind, None)
        self._cards.append(card)
        return distinct.warnings()

    def finish(self) -> list[str]:
        """One line for each model and kind of warning that was held back."""
        return [
            warning
            for kind in _KINDS
            for card in _gather_replies(self._cards, kind).values()
            for warning in card.warnings()
        ]


def _drop_mirrored(card: Scorecard, compared: set[tuple[str, str, str]]) -> Scorecard:
    """The card without comparisons that the other model's card has; `compared` collects the rest."""
    if not card.compared:
        return card
    dataset = f'{card.dataset} {card.metric}'  # which names the judge, where there are several
    own = {name: result for name, result in card.compared.items() if (dataset, name, card.model) not in compared}
    compared.update((dataset, card.model, opponent) for opponent in own)
    return replace(card, compared=own)


def _warns(card: Scorecard, kind: ReplyKind) -> bool:
    counts: ReplyCount | None = getattr(card, kind)
    alone = _with_count(Scorecard(card.dataset, card.model, '', None), kind, counts)
    return not card.members and bool(alone.warnings())


def _gather_replies(cards: Iterable[Scorecard], kind: ReplyKind) -> dict[str, Scorecard]:
    """By model, one card for all datasets with this warning, if there are many."""
    warned: dict[str, dict[str, ReplyCount]] = {}
    for card in cards:
        if _warns(card, kind):
            warned.setdefault(card.model, {})[card.dataset] = getattr(card, kind)
    return {
        model: _with_count(
            Scorecard(count_noun(len(datasets), 'dataset'), model, '', None), kind, _add_counts(datasets)
        )
        for model, datasets in warned.items()
        if len(datasets) >= _GATHERED_FROM
    }


def _add_counts(datasets: Mapping[str, ReplyCount]) -> ReplyCount:
    worst = sorted(datasets, key=lambda name: -datasets[name].share)[:_NAMED]
    rows, of = (sum(getattr(count, name) for count in datasets.values()) for name in ('rows', 'of'))
    return ReplyCount(rows, of, worst={name: datasets[name].share for name in worst})


def _with_count(card: Scorecard, kind: ReplyKind, count: ReplyCount | None) -> Scorecard:
    return replace(card, cut=count) if kind == 'cut' else replace(card, empty=count)
