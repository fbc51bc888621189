r"""Find problems before a run.

Find what would spoil a run: unfilled fields, leaked answers, lost examples, …

  rolecall lint config.py --strict
  rolecall lint gsm8k --api
  rolecall lint config.py --silence non-string-value role-fell-back --json
  rolecall lint qa.jsonl --template 'Q: {question}\nA: {answer}' --answer answer
  rolecall lint --rules
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rolecall.ui.cli.options import (
    add_config_options,
    add_options,
    add_source_options,
    open_experiment,
)
from rolecall.ui.cli.output import fail, print_json, print_lines
from rolecall.ui.views.chinese import translate_message

if TYPE_CHECKING:
    from rolecall.experiment.lint.subject import Finding


_SAME = 4
"""From this many on, findings of one kind are shown as one, with their number."""


def declare(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, optional=True)
    add_options(parser, 'lint')
    add_source_options(parser)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.rules:
        print_lines(_rule_lines(), hang=40)
        return 0
    if arguments.config is None:
        if arguments.silence:
            rule = arguments.silence[-1]
            return fail(f'lint needs a CONFIG, and {rule!r} was read as a rule: put CONFIG before --silence.')
        return fail('lint needs a CONFIG (see rolecall lint --help).')
    from rolecall.errors import ConfigError
    from rolecall.experiment.lint.linter import lint_config
    from rolecall.runs.pair_checks import as_problem

    experiment = open_experiment(arguments, arguments.config, collects_problems=True)
    findings = lint_config(experiment, silence=arguments.silence, limit=arguments.limit)
    if experiment.problems:
        errors = (as_problem(finding) for finding in findings if finding.severity == 'error')
        raise ConfigError([*experiment.problems, *errors])
    if arguments.json:
        print_json(*findings)
    else:
        print_lines(_finding_lines(findings))
    counting = ('error', 'warning') if arguments.strict else ('error',)
    return 1 if any(finding.severity in counting for finding in findings) else 0


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its place, an example and a remedy, then a count."""
    from rolecall.strings import count_noun

    for finding, more in _merge_same(findings):
        yield f'{finding.severity}: {finding.rule}  {finding.where}'
        yield f'  {translate_message(finding.message)}{translate_message(_rows_in_brackets(finding))}'
        if finding.example:
            yield f'  e.g. {finding.example!r}'
        if finding.remedy:
            yield f'  {finding.remedy}'
        if more:
            yield f'  The same holds for {len(more):,} more, to {more[-1].where}.'
        yield ''
    counts = Counter(finding.severity for finding in findings)
    yield ', '.join(count_noun(count, severity) for severity, count in counts.items()) or 'nothing found'


def _merge_same(findings: Sequence[Finding]) -> Iterator[tuple[Finding, Sequence[Finding]]]:
    """Group findings that are not about rows and differ only in names and numbers: the first, and the others."""
    from rolecall.strings import mask_details

    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        key = mask_details(finding.message) if finding.row is None else f'{finding.where} {finding.message}'
        groups.setdefault((finding.rule, key), []).append(finding)
    for same in groups.values():
        if len(same) < _SAME:
            yield from ((finding, ()) for finding in same)
        else:
            yield same[0], same[1:]


def _rows_in_brackets(finding: Finding) -> str:
    from rolecall.strings import count_noun

    if finding.row is None:
        return ''
    if finding.seen:
        return f' ({finding.count} of {count_noun(finding.seen, "row")}, e.g. row {finding.row})'
    return f' (row {finding.row})'


def _rule_lines() -> Iterator[str]:
    """The rules by name, with what they look for."""
    from rolecall.experiment.lint import RULES

    width = max(map(len, RULES))
    for rule in RULES.values():
        yield f'{rule.name.ljust(width)}  {rule.severity:<7}  {translate_message(rule.description)}'
