"""What keeps scores from being trusted, in few lines: many datasets with the same trouble are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

__all__ = ['WarningFilter', 'warnings_of']

_KINDS = ('cut', 'empty')
_GATHERED_FROM = 4
"""From this many datasets of a model on, warnings of one kind are one line."""
_NAMED = 3


def warnings_of(cards: Iterable[Scorecard]) -> list[str]:
    """What keeps scores from being trusted, once each; cut or empty replies of many datasets in one line for a model.

    >>> empty = [{'empty': {'rows': rows, 'of': 10}} for rows in (1, 5, 2, 1)]
    >>> cards = [Scorecard(name, 'm', 'accuracy', 50.0, details=one) for name, one in zip('abcd', empty, strict=True)]
    >>> warnings_of(cards)
    ['4 datasets × m: 22 % of the replies are empty (9 of 40; most in b 50 %, c 20 %, a 10 %).']
    """
    seen: set[tuple[str, str, str]] = set()
    found = [_drop_mirrored(card, seen) for card in cards]
    for kind in _KINDS:
        gathered = _gather_replies(found, kind)
        found = [_without(card, kind) if card.model in gathered else card for card in found]
        found += gathered.values()
    return list(dict.fromkeys(warning for card in found for warning in (*card.notes(), *card.warnings())))


@dataclass(slots=True)
class WarningFilter:
    """Tells which warnings to show as datasets finish: the first few of a kind for each model, the rest together."""

    _cards: list[Scorecard] = field(default_factory=list)
    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    _compared: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, card: Scorecard) -> tuple[str, ...]:
        """The warnings of a dataset that are to be shown now."""
        shown = _drop_mirrored(card, self._compared)
        for kind in _KINDS:
            if _warns(card, kind):
                self._seen[card.model, kind] += 1
                if self._seen[card.model, kind] >= _GATHERED_FROM:
                    shown = _without(shown, kind)
        self._cards.append(card)
        return shown.warnings()

    def finish(self) -> list[str]:
        """One line for each model and kind of which warnings were held back."""
        return [
            warning
            for kind in _KINDS
            for card in _gather_replies(self._cards, kind).values()
            for warning in card.warnings()
        ]


def _drop_mirrored(card: Scorecard, seen: set[tuple[str, str, str]]) -> Scorecard:
    """The card without comparisons that the card of the other model has; `seen` gets the others."""
    compared = card.details.get('compared')
    if not compared:
        return card
    dataset = f'{card.dataset} {card.metric}'  # which names the judge, where there are several
    own = {rival: told for rival, told in compared.items() if (dataset, rival, card.model) not in seen}
    seen.update((dataset, card.model, rival) for rival in own)
    return replace(card, details={**card.details, 'compared': own})


def _warns(card: Scorecard, kind: str) -> bool:
    counts = None if card.members else card.details.get(kind)
    return bool(counts) and bool(replace(card, details={kind: counts}).warnings())


def _gather_replies(cards: Iterable[Scorecard], kind: str) -> dict[str, Scorecard]:
    """By model, one card for the datasets that warn of such replies, where they are many."""
    warned: dict[str, dict[str, Mapping[str, int]]] = {}
    for card in cards:
        if _warns(card, kind):
            warned.setdefault(card.model, {})[card.dataset] = card.details[kind]
    return {
        model: Scorecard(count_noun(len(datasets), 'dataset'), model, '', None, details={kind: _add_counts(datasets)})
        for model, datasets in warned.items()
        if len(datasets) >= _GATHERED_FROM
    }


def _add_counts(datasets: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    shares = {name: one['rows'] / one['of'] for name, one in datasets.items()}
    worst = sorted(shares, key=lambda name: -shares[name])[:_NAMED]
    totals = {key: sum(one[key] for one in datasets.values()) for key in ('rows', 'of')}
    return {**totals, 'worst': {name: shares[name] for name in worst}}


def _without(card: Scorecard, key: str) -> Scorecard:
    return replace(card, details={name: value for name, value in card.details.items() if name != key})
