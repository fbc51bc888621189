"""Compare two runs, row by row.

Compare two runs, or two models or the wordings of one run, on the rows both have scored: differences with intervals
and p-values, and the rows whose verdict changed.

  rolecall compare runs/old runs/new
  rolecall compare runs/new                                       each further wording with the first
  rolecall compare runs/new --models small large
  rolecall compare runs/old runs/new --json | jq .differences
  rolecall compare runs/main runs/branch --gate --margin 2
  rolecall compare bench/main bench/branch --gate --margin 5      benchmarks: slower by 5 %?
  rolecall compare runs/main runs/branch --gate --markdown >> $GITHUB_STEP_SUMMARY

exit codes with --gate: 0 not worse, 1 worse, 3 too few rows to tell, or not measured
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.ui.cli.output import print_json, print_lines, print_note, terminal
from rolecall.ui.cli.report import note_damage

if TYPE_CHECKING:
    from rolecall.insight.gate import GateResult
    from rolecall.runs.store.run_reader import RunReader


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.insight.alignment import align_runs, explain_differences, is_imported
    from rolecall.insight.comparison import compare_runs, comparison_as_json
    from rolecall.insight.run_source import list_wordings
    from rolecall.runs.serving.bench_files import is_bench
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report import StoredRun
    from rolecall.ui.report.comparison_view import print_comparison

    for option in ('markdown', 'junit'):
        if getattr(arguments, option) and not arguments.gate:
            raise ConfigError(Problem(f'--{option}', 'applies to --gate.'))
    if is_bench(arguments.left):
        return _compare_benches(arguments)
    with RunReader(arguments.left) as first, RunReader(arguments.right or arguments.left) as second:
        first.refuse_if_nothing_is_whole()
        second.refuse_if_nothing_is_whole()
        sides = [(StoredRun(first), StoredRun(second))]
        aligned = None
        if arguments.models is not None:
            sides = [(_only_model(first, arguments.models[0]), _only_model(second, arguments.models[1]))]
        elif arguments.right is None:
            sides = [] if arguments.by or arguments.gate else list_wordings(first)
            if not sides:
                raise ConfigError(Problem('RUN_B', 'give a second run, or two models of the first with --models.'))
        elif is_imported(first) or is_imported(second):
            aligned = align_runs(first, second)
            sides = [(aligned, StoredRun(second))]
        if arguments.by:
            return _compare_slices(first, second, arguments)
        for left, right in sides:
            if arguments.gate:
                return _gate(left, right, arguments)
            comparison = compare_runs(left, right)
            if arguments.json:
                print_json(comparison_as_json(comparison, left=left, right=right))
                continue
            print_comparison(comparison, terminal(), left=left, right=right, flips=arguments.flips)
            if aligned is not None:
                print_lines(explain_differences(aligned, second))
            changed = any({*difference.differing} - {'engine', 'tokenizer'} for difference in comparison.differences)
            if arguments.right is not None and (changed or aligned is not None):
                print(f'Why they differ: {shlex.join(["rolecall", "explain", arguments.left, arguments.right])}')
        for run in (left, right) if arguments.right else (left,):
            note_damage(run)
    return 0


def _compare_slices(left: RunReader, right: RunReader, arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from rolecall.insight.slices import compare_slices
    from rolecall.ui.report.slice_tables import describe_changes

    if arguments.models is not None:
        raise ConfigError(Problem('--by', 'compares two runs.', 'Leave --models out.'))
    if arguments.gate:
        what = 'does not go with --gate, which decides by whole datasets.'
        raise ConfigError(Problem('--by', what, 'Compare twice: with --gate, and with --by.'))
    changes = compare_slices(left, right, arguments.by)
    if arguments.json:
        print_json({'slices': [asdict(change) for change in changes]})
    else:
        print_lines(describe_changes(changes, left))
    return 0


def _compare_benches(arguments: argparse.Namespace) -> int:
    from rolecall.insight.gate import gate_benches
    from rolecall.runs.serving.bench_files import StoredBench

    if arguments.right is None:
        raise ConfigError(Problem('RUN_B', 'give the directory of a second benchmark.'))
    benches = [StoredBench.load(directory) for directory in (arguments.left, arguments.right)]
    left, right = (bench.settings for bench in benches)
    keys = ('dataset', 'input_len', 'output_len', 'prefix_cache', 'no_stream', 'arrivals')
    if others := [f'{key} {left.get(key)} → {right.get(key)}' for key in keys if left.get(key) != right.get(key)]:
        print_note(f'the benchmarks do not measure the same: {", ".join(others)}.')
    code = _print_verdicts(gate_benches(*benches, margin=arguments.margin), arguments)
    return code if arguments.gate else 0


def _gate(left: Any, right: Any, arguments: argparse.Namespace) -> int:
    from rolecall.insight.gate import gate_runs
    from rolecall.runs.versions import read_seal

    sealed = read_seal(right.archive)
    if sealed is not None and sealed[1].get('margin') != arguments.margin:
        print_note(f'{right.title} was sealed with a margin of {sealed[1].get("margin"):g}, not {arguments.margin:g}.')
    return _print_verdicts(gate_runs(left, right, margin=arguments.margin), arguments)


def _print_verdicts(result: GateResult, arguments: argparse.Namespace) -> int:
    """Print the verdicts; the exit code is that of the worst."""
    from rolecall.insight.gate import gate_markdown

    if arguments.junit:
        from rolecall.ui.report.junit import write_gate

        write_gate(result, arguments.junit)
    if arguments.json:
        print_json(result.as_json())
    elif arguments.markdown:
        print(gate_markdown(result), end='')
    else:
        print_lines(result.lines())
    return result.exit_code


def _only_model(run: Any, model: str) -> Any:
    """One model of a run; a name that it does not have is an error."""
    from rolecall.insight.run_source import StoredRun

    models = list(dict.fromkeys(card.model for card in run.scorecards()))
    if model not in models:
        raise ConfigError(Problem('--models', f'the run has no model {model!r}.', did_you_mean(model, models)))
    return StoredRun(run, model)
