"""The score of one dataset × model: a number, its interval, its denominator, and what to know before trusting it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.strings import count_noun

__all__ = ['Scorecard']

_WARN_FROM = 0.05
"""Warn where more than this share of the replies was cut off or empty."""
_WARN_ORDER = 0.25
"""Warn where a judge's verdict changed with the order of the answers in more than this share of the rows."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One metric with its interval over `scored` rows. `outcomes` counts every row and adds up to `total`."""

    dataset: str
    model: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    scored: int = 0
    total: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further metrics and breakdowns, JSON-able."""

    @property
    def error(self) -> str:
        """Why these rows could not be scored; empty if they were."""
        return str(self.details.get('error') or '')

    @property
    def members(self) -> tuple[str, ...]:
        """The datasets a group's score is the mean of; empty for a dataset."""
        return tuple(self.details.get('members') or ())

    @property
    def is_baseline(self) -> bool:
        """Whether the other models are compared with this one, which then has no score of its own."""
        return bool(self.details.get('baseline'))

    @property
    def cut_share(self) -> float:
        """The share of replies that `max_out_len` cut off."""
        return self._share_of('cut')

    @property
    def empty_share(self) -> float:
        """The share of replies without a word."""
        return self._share_of('empty')

    @property
    def columns(self) -> tuple[Scorecard, ...]:
        """One scorecard for each extractor, where several read the same replies; else this one, and each pass@k of it.

        The metric is followed by the extractor's name: `accuracy (strict)`.

        >>> details = {'further': {'pass@1': 50.0, 'pass@5': 80.0}, 'further_intervals': {'pass@5': (70.0, 90.0)}}
        >>> [(card.metric, card.low) for card in Scorecard('d', 'm', 'pass@1', 50.0, details=details).columns]
        [('pass@1', None), ('pass@5', 70.0)]
        """
        extractors: Mapping[str, Mapping[str, Any]] = self.details.get('extractors') or {}
        return tuple(
            replace(
                self,
                metric=f'{self.metric} ({name})',
                value=found['value'],
                low=found['low'],
                high=found['high'],
                scored=found['scored'],
                outcomes=_count_unparsed(self.outcomes, found['unparsed']),
                details=self._details_of(name, found.get('finished')),
            )
            for name, found in extractors.items()
        ) or (self, *self._pass_rates())

    def _details_of(self, extractor: str, finished: float | None) -> dict[str, Any]:
        """The details of one extractor's column; how the finished replies score is its own."""
        kept = {key: value for key, value in self.details.items() if key not in ('extractors', 'further')}
        if 'cut' in kept:
            cut = {key: value for key, value in kept['cut'].items() if key != 'finished'}
            kept['cut'] = cut if finished is None else {**cut, 'finished': finished}
        return {**kept, 'extractor': extractor}

    def _pass_rates(self) -> Iterator[Scorecard]:
        """pass@k for k above 1, with its interval."""
        numbers: Mapping[str, float] = self.details.get('further') or {}
        intervals: Mapping[str, Sequence[float]] = self.details.get('further_intervals') or {}
        kept = {key: self.details[key] for key in ('unit', 'lower_is_better', 'confidence') if key in self.details}
        for name, (low, high) in intervals.items():
            if name not in (self.metric, 'pass@1') and name in numbers:
                yield replace(self, metric=name, value=numbers[name], low=low, high=high, details=kept)

    def describe_replies(self, digits: int = 1) -> str:
        """How many replies were cut off or empty, with the score of the finished ones; empty if none was.

        >>> cut = {'rows': 12, 'of': 100, 'finished': 46.8}
        >>> Scorecard('d', 'm', 'accuracy', 41.2, details={'cut': cut}).describe_replies()
        '12 % cut; 41.2 of all, 46.8 of finished'
        """
        parts = []
        if cut := self.cut_share:
            finished = self.details['cut'].get('finished')
            scores = ''
            if self.value is not None and finished is not None:
                scores = f'; {self.value:,.{digits}f} of all, {finished:,.{digits}f} of finished'
            parts.append(f'{_percent(cut)} cut{scores}')
        if empty := self.empty_share:
            parts.append(f'{_percent(empty)} empty')
        return '; '.join(parts)

    def warnings(self) -> tuple[str, ...]:
        """What keeps this score from being trusted: more than 5 % of the replies were cut off, or empty,
        rows lack samples for pass@k, or a judge went by the order of the answers.

        Of a group, why it has no value, or why that says little; its members have warnings of their own.

        >>> Scorecard('d', 'm', 'accuracy', 41.2, details={'empty': {'rows': 1, 'of': 4}}).warnings()
        ('d × m: 25 % of the replies are empty (1 of 4).',)
        """
        name = f'{self.dataset} × {self.model}'
        if self.members:
            return self._explain_missing(name)
        found = []
        if self.cut_share > _WARN_FROM:
            found.append(
                f'{name}: {_percent(self.cut_share)} of the replies were cut off by max_out_len '
                f'({self._count_of("cut")}). Raise max_out_len.'
            )
        if self.empty_share > _WARN_FROM:
            found.append(f'{name}: {_percent(self.empty_share)} of the replies are empty ({self._count_of("empty")}).')
        for rival, told in (self.details.get('compared') or {}).items():
            changed, both = told.get('order_changed') or 0, told.get('both_orders') or 0
            if changed > _WARN_ORDER * both:
                rows = f'{changed:,} of {count_noun(both, "row")}'
                judge = f' ({self.details["judge"]})' if 'judge' in self.details else ''
                found.append(f'{name}{judge}: the order of the answers decided {rows} against {rival}.')
        for rate, short in (self.details.get('short_of_samples') or {}).items():
            found.append(f'{name}: no {rate}; too few samples in {count_noun(short, "row")}.')
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        """What is special about the rows of the dataset: that they are a sample, or not the published ones.

        >>> Scorecard('d', 'm', 'accuracy', 41.2, details={'rows_note': 'a sample of 8 rows'}).notes()
        ('d: a sample of 8 rows.',)
        """
        note = self.details.get('rows_note')
        return (f'{self.dataset}: {note}.',) if note else ()

    def describe_missing(self) -> str:
        """Why a group, or the baseline of comparisons, has no value; empty otherwise.

        >>> Scorecard('all', 'm', 'accuracy', None, details={'missing': ['b']}).describe_missing()
        'no score of b'
        """
        if self.is_baseline:
            return 'the baseline of the others'
        if unsupported := self.details.get('unsupported'):
            return f'{unsupported} of a group are not supported'
        missing = self.details.get('missing') or ()
        more = f' and {len(missing) - _NAMED:,} more' if len(missing) > _NAMED else ''
        return f'no score of {", ".join(missing[:_NAMED])}{more}' if missing else ''

    def _explain_missing(self, name: str) -> tuple[str, ...]:
        why = self.describe_missing()
        if not why and (mixed := self.details.get('mixed')):
            return (f'{name} is a mean of different scales or directions ({", ".join(mixed)}): it says little.',)
        return (f'{name} has no value: {why}.',) if why else ()

    def _share_of(self, name: str) -> float:
        counts = self.details.get(name)
        return counts['rows'] / counts['of'] if isinstance(counts, Mapping) and counts.get('of') else 0.0

    def _count_of(self, name: str) -> str:
        counts = self.details[name]
        worst = ', '.join(f'{dataset} {_percent(share)}' for dataset, share in counts.get('worst', {}).items())
        return f'{counts["rows"]:,} of {counts["of"]:,}' + (f'; most in {worst}' if worst else '')


def _count_unparsed(outcomes: Mapping[str, int], unparsed: int) -> dict[str, int]:
    """The outcomes where this many of the answered rows are unparsed.

    >>> _count_unparsed({'ok': 1, 'unparsed': 3, 'failed': 2}, 0), _count_unparsed({'unparsed': 3}, 2)
    ({'ok': 4, 'failed': 2}, {'ok': 1, 'unparsed': 2})
    """
    answered = outcomes.get('ok', 0) + outcomes.get('unparsed', 0)
    others = {name: rows for name, rows in outcomes.items() if name not in ('ok', 'unparsed')}
    counted = {'ok': answered - unparsed, 'unparsed': unparsed, **others}
    return {name: rows for name, rows in counted.items() if rows}


def _percent(share: float) -> str:
    """A share in percent, never rounded to 0 or 100 unless it is."""
    shown = f'{share:.0%}'[:-1]
    if shown in ('0', '100') and share not in (0, 1):
        shown = f'{100 * share:.1f}'
    return f'{shown} %'
