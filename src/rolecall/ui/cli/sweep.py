r"""How much of a score is the wording.

Ask variants of a dataset about the same rows: how much the score varies, by axis, beside the error of the rows and
the noise of asking again.

  rolecall sweep gsm8k --model smollm2 --limit 100 --axis separator casing spacing --repeat 2
  rolecall sweep rows.csv --answer a --model m.py:f --axis shots=0,2,5 draw=1,2,3 --full
  rolecall sweep mmlu --model smollm2 --axis labels format=chat,plain asking=gen,ppl --html sweep.html
  rolecall sweep config.py --axis 'template=Answer: {q}|{q}\nThink, then answer.' --best
  rolecall sweep config.py --axis reader=first_number,stated_number    asks nothing new
  rolecall sweep config.py --axis datasets.*.infer_cfg.inferencer.max_out_len=16,64,256 --dry-run
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import (
    add_options,
    add_run_options,
    add_source_options,
    open_experiment,
    read_options,
)
from rolecall.ui.cli.output import print_json, print_lines, print_note, write_page

if TYPE_CHECKING:
    from rolecall.insight.sweep import Sweep, Swept
    from rolecall.insight.sweep_axes import Variant

_EVERYDAY = ('out', 'limit', 'sample', 'dry_run', 'max_cost', 'max_total_tokens', 'max_minutes')


def declare(parser: argparse.ArgumentParser) -> None:

    parser.usage = 'rolecall sweep CONFIG --axis AXIS … [--model NAME] [--limit N] [option …]'
    add_options(parser, 'sweep')
    add_run_options(parser, _EVERYDAY)
    add_source_options(parser, asks_models=True)


def execute(arguments: argparse.Namespace) -> int:
    from dataclasses import replace
    from pathlib import Path

    from rolecall.errors import ConfigError, Problem
    from rolecall.insight.sweep import Sweep, count_turns, pick_robust
    from rolecall.runs.run_options import RunOptions
    from rolecall.runs.versions import choose_version, describe_rows
    from rolecall.ui.views.run_progress import progress_for

    if not arguments.axis and not arguments.repeat and not arguments.noise:
        remedy = 'Name one, e.g. --axis separator casing spacing; --help lists them.'
        raise ConfigError(Problem('--axis', 'nothing is varied.', remedy))
    options = read_options(RunOptions, arguments)
    experiment = open_experiment(arguments, arguments.config, asks_models=True)
    out, note = arguments.out and Path(arguments.out), ''
    if not out:
        most = options.sample or options.limit or sys.maxsize  # --best draws its rows
        drawn = replace(options, limit=None, sample=most) if arguments.best else options
        out, note = choose_version(experiment, Path('sweeps'), rows=describe_rows(drawn))
    sweep = Sweep(
        experiment,
        tuple(arguments.axis),
        replace(options, out=out),
        arguments.repeat,
        tuple(arguments.noise),
        arguments.full,
    )
    for line in sweep.describe_idle_axes():
        print_note(line)
    print_lines([note] if note else [], to=sys.stderr)
    listener = progress_for(quiet=arguments.quiet)
    if options.dry_run:
        sweep.plan(listener)
        return 0
    swept = sweep.find_best(listener) if arguments.best else sweep.run(listener)
    notes = [*count_turns(swept), *sweep.describe_cost()]
    if arguments.json:
        print_json({'swept': [each.as_json() for each in swept], 'notes': notes})
    else:
        print_lines((*(line for each in swept for line in each.describe()), *notes))
    if arguments.html:
        from rolecall.ui.report.sweep_page import sweep_page

        write_page(arguments.html, sweep_page([each.as_json() for each in swept]))
    scored: dict[str, list[Swept]] = {}
    for each in (each for each in swept if each.rows):
        scored.setdefault(each.dataset, []).append(each)
    if arguments.save_config:
        _save(sweep, {name: models[0].pick_best() for name, models in scored.items()}, arguments.save_config)
    if arguments.save_robust:
        robust = {name: pick_robust(models) for name, models in scored.items()}
        _save(sweep, robust, arguments.save_robust)
        for each in (each for name in robust for each in scored[name]):
            chosen = next(variant for variant in each.scores if variant.name == robust[each.dataset].name)
            text = each.hold_out(chosen).describe(each.factor)
            print_note(f'most robust for {each.dataset} × {each.model}: {text}')
    return max(summary.exit_code for summary in sweep.summaries)


def _save(sweep: Sweep, chosen: dict[str, Variant], target: str) -> None:
    """Write a variant of each dataset as a config, with the models as the first of them sets them up."""
    from pathlib import Path

    from rolecall.experiment.opening.written_configs import save_config

    if missing := [dataset for dataset in sweep.variants if dataset not in chosen]:
        print_note(f'{target} is not written: {", ".join(missing)} has no scores.')
        return
    datasets = [{**variant.entries.dataset, 'abbr': dataset} for dataset, variant in chosen.items()]
    first = next(iter(chosen.values()))
    config: dict[str, list[Any]] = {'models': list(first.entries.models), 'datasets': datasets}
    places = {f'{key}[{place}]' for key in ('datasets', 'models') for place in range(len(config[key]))}
    save_config(config, Path(target), places=places)
    names = ', '.join(f'{dataset}: {variant.name}' for dataset, variant in chosen.items())
    print_lines([f'wrote {target}: {names}'], to=sys.stderr)
