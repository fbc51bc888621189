"""What the linter found, as lines for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rolecall.views.jsonl import json_line
from rolecall.views.visible import safe

if TYPE_CHECKING:
    from rolecall.lint.finding import Finding

__all__ = ['finding_lines', 'findings_as_json', 'rule_lines', 'stops']


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its place, an example and a remedy, then a count."""
    for finding in findings:
        yield f'{finding.severity}: {finding.rule}  {safe(finding.where)}'
        yield f'  {safe(finding.message)}{_rows(finding)}'
        if finding.example:
            yield f'  e.g. {finding.example!r}'
        if finding.remedy:
            yield f'  {safe(finding.remedy)}'
        yield ''
    counts = Counter(finding.severity for finding in findings)
    yield ', '.join(f'{count} {severity}' for severity, count in counts.items()) or 'nothing found'


def _rows(finding: Finding) -> str:
    if finding.row is None:
        return ''
    return (
        f' ({finding.count} of {finding.seen} rows, e.g. row {finding.row})'
        if finding.seen
        else f' (row {finding.row})'
    )


def findings_as_json(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding as one JSON object."""
    return (json_line(asdict(finding)) for finding in findings)


def rule_lines() -> Iterator[str]:
    """The rules by name, with what they look for."""
    from rolecall.lint.linter import RULES

    width = max(map(len, RULES))
    for rule in RULES.values():
        yield f'{rule.name.ljust(width)}  {rule.severity:<7}  {rule.description}'


def stops(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Whether a run should not start: an error was found, or a warning where that is asked for."""
    counting = ('error', 'warning') if strict else ('error',)
    return any(finding.severity in counting for finding in findings)
