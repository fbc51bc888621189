"""What a run came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecall.errors import Problem
from rolecall.experiment.lint import Finding
from rolecall.runs.batches.ledger import BatchRecord
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.plan import RunPlan
from rolecall.scoring.scorecard import Scorecard


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    out: Path
    plan: RunPlan
    scorecards: tuple[Scorecard, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How rows ended in this run, those that were known included."""
    findings: tuple[Finding, ...] = ()
    """What the linter calls an error."""
    warnings: tuple[Finding, ...] = ()
    """What the linter calls a warning."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows failed, with how many of the first rows of each dataset × model."""
    reply_warnings: tuple[str, ...] = ()
    """What looks wrong about the replies as a whole: all empty, all the same, none parsed."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Models, judges among them, that could not be asked to the end, with why."""
    unjudged: int = 0
    """Answers on which a judge was asked and said nothing."""
    without_verdict: int = 0
    """Rows with a reply of the judge that cannot be read."""
    interrupted: bool = False
    ended: str = ''
    """Which cap ended the run before all rows were asked about."""
    cost: float = 0.0
    tokens: int = 0
    """What the answers of this run took, those that were known left out."""
    dry: bool = False
    seconds: float = 0.0
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out (`keep_going`)."""
    submitted: tuple[BatchRecord, ...] = ()
    """The batches that were submitted (`batch`)."""
    waiting: int = 0
    """Rows and judgements that wait for a batch."""

    @classmethod
    def of(cls, prepared: PreparedRun, plan: RunPlan, findings: Sequence[Finding], **facts: Any) -> RunSummary:
        """The summary of a run, with what is known of it before anything is sent."""
        errors, warnings = (
            tuple(finding for finding in findings if finding.severity == severity) for severity in ('error', 'warning')
        )
        out = Path(prepared.options.out or '')
        return cls(out, plan, findings=errors, warnings=warnings, skipped=prepared.skipped, **facts)

    @property
    def exit_code(self) -> int:
        """0 if every row came to something; 130 if interrupted.

        1 if a row failed, a model could not be asked, a judge said nothing, a cap ended it, or something was left out.
        """
        if self.interrupted:
            return 130
        unscored = self.unjudged or self.without_verdict or any(card.error for card in self.scorecards)
        return 1 if self.skipped or self.broken or self.ended or unscored or self.outcomes.get('failed') else 0
