"""Hits, counted and put together: one finding for each thing a rule has to say about a subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rolecall.experiment.lint.finding import SEVERITIES, Finding, Hit, Rule
from rolecall.experiment.lint.subject import Asked, Looked, Subject


@dataclass(slots=True)
class _Entry:
    """All hits of one rule about one thing: their number, and the one to show."""

    rule: Rule
    hit: Hit
    row: int | None
    count: int = 0

    def add(self, hit: Hit, row: int | None) -> None:
        if hit.weight > self.hit.weight:
            self.hit, self.row = hit, row


@dataclass(slots=True)
class FindingTally:
    """What the rules have found about one subject so far."""

    subject: Subject
    rules: tuple[Rule, ...]
    seen: int = 0
    _entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, subject: Subject, rules: Iterable[Rule]) -> FindingTally:
        """A tally with those rules that concern the subject."""
        return cls(subject, tuple(rule for rule in rules if subject.level in rule.levels))

    def look(self) -> None:
        """Apply the rules that need no rows."""
        for rule in self.rules:
            for hit in rule.once(self.subject) if rule.once else ():
                self._take(rule, hit, None)

    def look_at(self, number: int, asked: Asked) -> None:
        """Apply the rules to one row."""
        self.seen += 1
        for rule in self.rules:
            counted: set[str] = set()
            for hit in rule.each(self.subject, asked) if rule.each else ():
                entry = self._take(rule, hit, number)
                entry.count += hit.about not in counted
                counted.add(hit.about)

    def look_back(self, looked: Looked) -> None:
        """Apply the rules about the rows as a whole."""
        for rule in self.rules:
            for hit in rule.after(self.subject, looked) if rule.after else ():
                self._take(rule, hit, None)

    def findings(self) -> Iterator[Finding]:
        """What there is to report."""
        for entry in self._entries.values():
            rule, hit = entry.rule, entry.hit
            if hit.if_all_of and not (entry.count == self.seen >= hit.if_all_of):
                continue
            yield Finding(
                rule=rule.name,
                severity=hit.severity or rule.severity,
                where=self.subject.where,
                message=hit.message,
                remedy=f'{hit.remedy} {rule.remedy}'.strip(),
                row=entry.row,
                example=hit.example,
                count=entry.count,
                seen=self.seen if entry.count else 0,
            )

    def _take(self, rule: Rule, hit: Hit, row: int | None) -> _Entry:
        entry = self._entries.get((rule.name, hit.about))
        if entry is None:
            entry = self._entries[rule.name, hit.about] = _Entry(rule, hit, row)
        else:
            entry.add(hit, row)
        return entry


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, then warnings, then what is merely good to know; otherwise in the order given."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
