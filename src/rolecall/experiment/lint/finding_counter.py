"""Violations, counted and put together: one finding for each thing a rule has to say about a subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rolecall.experiment.lint.finding import SEVERITIES, Finding, Rule, Violation
from rolecall.experiment.lint.subject import CheckedRow, CheckedRows, Subject


@dataclass(slots=True)
class _Entry:
    """All violations of one rule about one thing: their number, and the one to show."""

    rule: Rule
    violation: Violation
    row: int | None
    count: int = 0

    def add(self, violation: Violation, row: int | None) -> None:
        if violation.weight > self.violation.weight:
            self.violation, self.row = violation, row


@dataclass(slots=True)
class FindingCounter:
    """What the rules have found about one subject so far."""

    subject: Subject
    rules: tuple[Rule, ...]
    seen: int = 0
    _entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, subject: Subject, rules: Iterable[Rule]) -> FindingCounter:
        """A counter with those rules that concern the subject."""
        return cls(subject, tuple(rule for rule in rules if subject.level in rule.levels))

    def look(self) -> None:
        """Apply the rules that need no rows."""
        for rule in self.rules:
            for violation in rule.once(self.subject) if rule.once else ():
                self._take(rule, violation, None)

    def look_at(self, number: int, row: CheckedRow) -> None:
        """Apply the rules to one row."""
        self.seen += 1
        for rule in self.rules:
            counted: set[str] = set()
            for violation in rule.each(self.subject, row) if rule.each else ():
                entry = self._take(rule, violation, number)
                entry.count += violation.about not in counted
                counted.add(violation.about)

    def look_back(self, looked: CheckedRows) -> None:
        """Apply the rules about the rows as a whole."""
        for rule in self.rules:
            for violation in rule.after(self.subject, looked) if rule.after else ():
                self._take(rule, violation, None)

    def findings(self) -> Iterator[Finding]:
        """What there is to report."""
        for entry in self._entries.values():
            rule, violation = entry.rule, entry.violation
            if violation.if_all_of and not (entry.count == self.seen >= violation.if_all_of):
                continue
            yield Finding(
                rule=rule.name,
                severity=violation.severity or rule.severity,
                where=self.subject.where,
                message=violation.message,
                remedy=f'{violation.remedy} {rule.remedy}'.strip(),
                row=entry.row,
                example=violation.example,
                count=entry.count,
                seen=self.seen if entry.count else 0,
            )

    def _take(self, rule: Rule, violation: Violation, row: int | None) -> _Entry:
        entry = self._entries.get((rule.name, violation.about))
        if entry is None:
            entry = self._entries[rule.name, violation.about] = _Entry(rule, violation, row)
        else:
            entry.add(violation, row)
        return entry


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, then warnings, then what is merely good to know; otherwise in the order given."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
