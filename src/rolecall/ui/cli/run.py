r"""Send every dataset to every model and score the answers.

Run a config, or resume the run in its directory: finished requests are not sent again.

  rolecall run gsm8k --model smollm2 --limit 20         a benchmark by name: rolecall config list benchmarks
  rolecall run mmlu --as lm-eval --data DIR --model hf:FOLDER
  rolecall run config.py --dry-run                      plan only: rows, tokens, price
  rolecall run config.py --out runs/first --rerun failed
  rolecall run config.py --batch                        submit batches; rolecall runs collect fetches them
  rolecall run config.py --probe                        what sways the judges of the config
  rolecall run config.py --dataset 'bbh-*' --model smollm2 --set datasets.*.n=3
  rolecall run rows.csv --template '{question}\n{answer}' --answer answer --metric exact --model smollm2
  rolecall run rows.jsonl --choices A,B,C,D --answer label --model openai/gpt-4.1-mini --shots 5
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import (
    add_options,
    add_run_options,
    add_source_options,
    open_experiment,
    read_options,
)
from rolecall.ui.cli.output import print_lines, print_note, terminal
from rolecall.ui.cli.report import show_scores

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.experiment.experiment import Experiment
    from rolecall.runs import RunOptions, RunSummary
    from rolecall.runs.run_options import Share, Workers


_SAME = 4
"""From this many on, warnings of one kind are shown as one, with their number."""
_EVERYDAY = ('out', 'limit', 'rerun', 'dry_run')
_SECRET = re.compile(r'(\S*(?:key|token|secret|password|authorization|headers)=).*', re.IGNORECASE | re.DOTALL)


def declare(parser: argparse.ArgumentParser) -> None:

    parser.usage = 'rolecall run CONFIG [--model NAME] [--limit N] [--out DIR] [option …]'
    add_run_options(parser, _EVERYDAY)
    add_options(parser, 'run')
    add_source_options(parser, asks_models=True)


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.runs import run_config
    from rolecall.runs.run_options import RunOptions
    from rolecall.runs.versions import choose_version, describe_rows
    from rolecall.ui.views.run_progress import progress_for

    options = read_options(RunOptions, arguments, **read_places(arguments))
    experiment = open_experiment(arguments, arguments.config, asks_models=True)
    if arguments.save_config:
        save_experiment(experiment, arguments.save_config, arguments.limit)
        print_note(f'wrote {arguments.save_config}: rolecall run {arguments.save_config} sends the same requests.')
    if arguments.probe is not None:
        return _probe(experiment, options, arguments)
    note = ''
    if arguments.out is None:
        out, note = choose_version(experiment, Path('runs'), rows=describe_rows(options))
    else:
        out = Path(arguments.out)
    shared_out = out
    if options.share is not None:
        out = out / f'rank-{options.share.rank}-of-{options.share.of}'
    progress = progress_for(quiet=arguments.quiet)
    if note:
        print_lines([note], to=sys.stderr)
    summary = run_config(experiment, replace(options, out=out), progress=progress)
    again = _repeat_command(shared_out)
    if options.batch and not summary.dry:
        from rolecall.runs.batches.snapshot import note_command

        note_command(out, again)
    print_lines(_next_steps(summary, again), to=sys.stderr)
    if options.batch or summary.dry or summary.exit_code not in (0, 1):
        return summary.exit_code
    if options.share is not None:
        then = f'When all ranks are done: rolecall runs merge {shared_out} {shared_out}/rank-*'
    else:
        show_scores(out, arguments.prices)
        alone = arguments.config.endswith('.py') and not experiment.overrides
        config = f' --config {arguments.config}' if alone else ''
        then = f'Every row: rolecall report {out} --html report.html{config}'
    print_lines([then], to=sys.stderr)
    return summary.exit_code


def _probe(experiment: Experiment, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Probe the judges of what was opened, and print what sways them."""
    from contextlib import nullcontext
    from pathlib import Path

    from rolecall.insight.judge_probes import probe_judges
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report.document import count_tables
    from rolecall.ui.report.terminal_report import print_table
    from rolecall.ui.views.run_progress import progress_for

    out = Path(options.out or Path('runs') / f'{experiment.name}-probe')
    progress = progress_for(quiet=arguments.quiet)
    with RunReader(arguments.probe) if arguments.probe else nullcontext() as answers:
        summaries, counts = probe_judges(experiment, replace(options, out=out), answers=answers, listener=progress)
    for table in count_tables('probes', counts):
        print_table(table, terminal())
    for summary in summaries:  # that all answers of a probe are the same is no news
        print_lines(_next_steps(replace(summary, reply_warnings=()), _repeat_command(out)), to=sys.stderr)
    return max(summary.exit_code for summary in summaries)


def save_experiment(experiment: Experiment, target: str | Path, limit: int | None = None) -> None:
    """Write what is asked as a config that asks the same."""
    from pathlib import Path

    from rolecall.errors import ConfigError, Problem
    from rolecall.experiment.opening.written_configs import save_config

    if experiment.files:
        what = '--data replaces rows for one run and is not written to a config.'
        raise ConfigError(Problem('--save-config', what, 'Name the files in the config: data_files.'))
    if experiment.problems:
        raise ConfigError(experiment.problems)
    places = {*(task.where for task in experiment.tasks), *(model.where for model in experiment.models)}
    save_config(experiment.config, Path(target), places=places, limit=limit)


_SLURM = (('SLURM_ARRAY_TASK_ID', 'SLURM_ARRAY_TASK_COUNT'), ('SLURM_PROCID', 'SLURM_NTASKS'))
"""Variables with the rank and the number of ranks: of an array of jobs, or of the tasks of one job."""


def read_places(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where models are computed and which rows are asked, as `--workers` names them."""
    from rolecall.errors import ConfigError, Problem
    from rolecall.runs.run_options import Share, Workers

    places: dict[str, Any] = {}
    for text in arguments.workers:
        rank, slash, of = text.partition('/')
        cluster, _, most = text.partition('#')
        if text.isdecimal() and int(text):
            place: Share | Workers = Workers('processes', int(text))
        elif text == 'slurm':
            place = _find_slurm_share()
        elif slash and rank.isdecimal() and of.isdecimal():
            place = Share(int(rank), int(of))
        elif (cluster == 'ray' or cluster.startswith('ray:')) and (not most or most.isdecimal()):
            address = cluster if cluster.startswith('ray://') else cluster.removeprefix('ray').removeprefix(':')
            place = Workers('ray', int(most) if most else None, address or None)
        else:
            what = f'expected 4, ray, ray://HOST:PORT, 0/4 or slurm, got {text!r}.'
            raise ConfigError(Problem('--workers', what))
        kind = 'share' if isinstance(place, Share) else 'workers'
        if kind in places:
            raise ConfigError(Problem('--workers', f'{text!r} contradicts what stands before it.', 'Leave one out.'))
        places[kind] = place
    if arguments.batch and places:
        what = 'a batch is computed by the server, which spreads the requests.'
        raise ConfigError(Problem('--batch', what, 'Leave --workers out.'))
    return places


def _find_slurm_share() -> Share:
    """The rows of this process, from Slurm's environment."""
    import os

    from rolecall.errors import ConfigError, Problem
    from rolecall.runs.run_options import Share

    for rank_name, count_name in _SLURM:
        first = os.environ.get('SLURM_ARRAY_TASK_MIN', '0') if 'ARRAY' in rank_name else '0'
        texts = [os.environ.get(rank_name, ''), first, os.environ.get(count_name, '')]
        if all(text.isdecimal() for text in texts):
            number, start, count = map(int, texts)
            return Share(number - start, count)
    names = ' or '.join(name for name, _ in _SLURM)
    what = f'{names} is not set to a number.'
    raise ConfigError(Problem('--workers slurm', what, 'Start it with sbatch --array or srun.'))


def _repeat_command(out: Path) -> str:
    """The command as typed, with its run directory, without one-time options and secrets."""
    import shlex

    from rolecall.runs.run_options import OUTCOMES

    words, safe = list(sys.argv[1:]), []
    while words:
        word = words.pop(0)
        if word == '--rerun':
            while words and words[0] in OUTCOMES:
                words.pop(0)
        elif word == '--out':
            words[:1] = []
        elif word not in ('-q', '--quiet', '--batch') and not word.startswith('--out='):
            safe.append(_SECRET.sub(r'\1***', word))
    return f'rolecall {shlex.join(safe)} --out {shlex.quote(str(out))}'


def _merge_warnings(warnings: Sequence[str]) -> Iterator[str]:
    """Merge warnings that are the same for many datasets."""
    same: dict[str, list[str]] = {}
    for warning in warnings:
        pair, _, text = warning.partition(': ')
        same.setdefault(text, []).append(pair)
    for text, pairs in same.items():
        if len(pairs) < _SAME:
            yield from (f'{pair}: {text}' for pair in pairs)
        else:
            yield f'{pairs[0]} and {len(pairs) - 1:,} more, to {pairs[-1]}: {text}'


def _next_steps(summary: RunSummary, again: str) -> list[str]:
    from rolecall.strings import count_noun

    left_out = [f'left out: {problem}' for problem in summary.skipped]
    if summary.dry:
        return [*left_out, 'Nothing was sent (dry run).']
    if summary.interrupted:
        return [f'Interrupted. Finished rows are kept; resume with: {again}']
    if summary.waiting:
        return [*left_out, *_describe_submission(summary)]
    lines = [f'{model} could not be run: see above.' for model in summary.broken]
    if summary.broken:
        lines.append(f'Finished rows are kept; fix the problem and resume with: {again}')
    if summary.ended:
        lines.append(f'Not finished, {summary.ended}. Continue with: {again}')
    if failed := summary.outcomes.get('failed'):
        lines += _describe_reasons(summary)
        lines.append(f'{count_noun(failed, "row")} failed; retry with: {again} --rerun failed')
    if cut := summary.outcomes.get('truncated_by_server'):
        rows = count_noun(cut, 'row')
        lines.append(f'{rows} cut by the server. With a longer context: {again} --rerun truncated_by_server')
    if summary.unjudged:
        lines.append(f'{count_noun(summary.unjudged, "answer")} not judged; retry with: {again} --rerun failed')
    if unread := summary.without_verdict:
        lines.append(f'{count_noun(unread, "row")} without a verdict in the reply of the judge.')
    if summary.findings:
        lines.append(f'{count_noun(len(summary.findings), "lint error")} ignored.')
    if summary.warnings:
        rules = ', '.join(dict.fromkeys(finding.rule for finding in summary.warnings))
        lines.append(f'{count_noun(len(summary.warnings), "lint warning")} ({rules}); rolecall lint shows remedies.')
    warnings = [f'WARNING: {warning}' for warning in _merge_warnings(summary.reply_warnings)]
    return [*left_out, *lines, f'Results are in {summary.out}.', *warnings]


def _describe_submission(summary: RunSummary) -> list[str]:
    """What was submitted, and how the answers are fetched."""
    from rolecall.strings import count_noun

    count = sum(batch.requests for batch in summary.submitted)
    submitted = f'{count_noun(count, "request")} submitted in {count_noun(len(summary.submitted), "batch")}.'
    waiting = f'{count_noun(summary.waiting, "row")} waiting for answers, usually within a day.'
    fetch = f'Fetch them with: rolecall runs collect {summary.out} --wait'
    return [submitted if summary.submitted else 'Nothing new to submit.', f'{waiting} {fetch}']


def _describe_reasons(summary: RunSummary) -> list[str]:
    """The most common reason why rows failed, unless already printed."""
    from rolecall.strings import count_noun

    if summary.broken or not summary.reasons:
        return []
    why = max(summary.reasons, key=lambda reason: summary.reasons[reason])
    more = f' (and {count_noun(len(summary.reasons) - 1, "other reason")})' if len(summary.reasons) > 1 else ''
    return [f'failed: {" ".join(why.split())[:300]}{more}']
