"""What the linter finds before a run, and which of it keeps the run from beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rolecall.errors import ConfigError, Problem
from rolecall.experiment.lint import Finding
from rolecall.experiment.lint.linter import lint_config
from rolecall.runs.pair_run import Prepared
from rolecall.strings import count_noun

_LINTED_ROWS, _FEWEST_LINTED, _LINTED_REQUESTS = 20, 10, 10_000
"""Rows of each dataset that are linted; where there are many pairs, fewer, so that there are not too many requests."""
_OF_ROWS = ('row-fails', 'context-overflow')
"""Rules whose errors are outcomes of single rows."""
_CHECKED_BEFORE = ('duplicate-abbr',)


def lint_prepared(prepared: Prepared) -> Iterator[Finding]:
    """What the linter finds on the pairs that the run is about to ask."""
    limit = max(_FEWEST_LINTED, min(_LINTED_ROWS, _LINTED_REQUESTS // max(1, len(prepared.pairs))))
    found = lint_config(prepared.experiment, limit=limit)
    asked = {f'{one.dataset} × {one.model.name}' for one in prepared.pairs}
    # A pair that was left out is reported already.
    return (one for one in found if ' × ' not in one.where or one.where in asked)


def stops_run(finding: Finding) -> bool:
    """Whether an error concerns the whole dataset. A few rows that fail are outcomes of those rows."""
    return finding.rule not in _OF_ROWS or finding.count >= finding.seen


def find_lint_problems(prepared: Prepared) -> list[Problem]:
    """What would stop the run of the pairs that can be asked, for a config that has other problems, too."""
    findings = lint_prepared(prepared) if prepared.pairs else ()
    errors = [finding for finding in findings if finding.severity == 'error' and finding.rule not in _CHECKED_BEFORE]
    return [_as_problem(finding) for finding in errors if stops_run(finding)]


def _as_problem(finding: Finding) -> Problem:
    return Problem(f'{finding.where} ({finding.rule})', finding.message, finding.remedy)


def refuse_run(errors: Sequence[Finding]) -> ConfigError:
    """The error of a run that is not begun."""
    found = [_as_problem(finding) for finding in errors]
    what = f'{count_noun(len(errors), "error")} found before the run; nothing was sent.'
    remedy = 'Correct the config, or run it as it is with --force (force=True).'
    return ConfigError([*found, Problem('lint', what, remedy)])


def describe_keys(findings: Sequence[Finding]) -> Iterator[str]:
    """Keys without effect: each slip, and those of other systems together."""
    for finding in findings:
        if finding.rule == 'unknown-key':
            meant = finding.remedy.partition('?')[0] if finding.remedy.startswith('Did') else ''
            yield f'{finding.where}: {finding.message}{f" {meant}?" if meant else ""}'
    if foreign := [one for one in findings if one.rule == 'foreign-key']:
        keys = dict.fromkeys(key for one in foreign for key in one.message.partition(': ')[2].rstrip('.').split(', '))
        yield f'keys of OpenCompass or AISBench without effect here: {", ".join(keys)}.'
