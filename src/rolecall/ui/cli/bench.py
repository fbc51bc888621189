"""Measure how fast a server answers.

Load a server with the prompts of a config, of rows, or of an exact number of tokens; measure time to first token,
time per output token, inter-token latency, end-to-end latency, throughput and goodput at each level.

  rolecall bench gsm8k --model http://127.0.0.1:8000/v1 --concurrency 1 8 64
  rolecall bench --model http://127.0.0.1:8000/v1 --input-len 512 --output-len 128 --rate 2 4 8
  rolecall bench config.py --model qwen --rate 4 --arrivals constant --goodput ttft:200 tpot:50
  rolecall bench --model URL --arrivals trace.jsonl     requests as they were recorded
  rolecall report bench/gsm8k --html speed.html         histograms and curves
  rolecall compare bench/before bench/after --gate --margin 5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import (
    add_config_options,
    add_options,
    add_source_options,
    declare_options,
    open_experiment,
    read_options,
)
from rolecall.ui.cli.output import print_json, print_lines, print_note, terminal

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.runs.serving.serving_benchmark import OnProgress

_EVERYDAY = ('concurrency', 'rate', 'requests', 'seconds', 'input_len', 'output_len', 'goodput', 'out')


def declare(parser: argparse.ArgumentParser) -> None:
    from rolecall.runs.serving.bench_options import BenchOptions

    further = parser.add_argument_group('how the server is loaded')
    add_config_options(parser, further, optional=True)
    declare_options(BenchOptions, parser, further, _EVERYDAY)
    add_options(parser, 'bench')
    parser.set_defaults(silence=[])
    add_source_options(parser, asks_models=True)


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.errors import ConfigError, Problem
    from rolecall.runs.serving.bench_files import save_result
    from rolecall.runs.serving.bench_options import BenchOptions
    from rolecall.runs.serving.serving_benchmark import run_benchmark
    from rolecall.ui.report.bench_text import bench_terminal

    options = read_options(BenchOptions, arguments)
    trace = options.trace
    if arguments.config is None and not arguments.model:
        raise ConfigError(Problem('--model', 'no server is named.', 'Give its URL: --model http://127.0.0.1:8000/v1.'))
    if arguments.config is None and options.input_len is None and not (trace and trace.lengths):
        raise ConfigError(Problem('CONFIG', 'there is nothing to send.', 'Name a config, or prompts: --input-len 512.'))
    if arguments.config is None:  # rows that are not sent
        arguments.config, arguments.answer, arguments.metric = [{'question': '', 'answer': ''}], 'answer', 'exact'
    if options.out is not None:
        _check_place(Path(options.out))
    experiment = open_experiment(arguments, arguments.config, asks_models=True)
    with _show_progress(quiet=arguments.quiet) as on_progress:
        result = run_benchmark(experiment, options, on_progress=on_progress)
    stored = save_result(result, _find_place(options.out, result.settings['dataset']))
    if arguments.json:
        print_json({'settings': stored.settings, 'levels': stored.levels})
    else:
        bench_terminal(stored, terminal())
    print_note(f'wrote {stored.directory}: rolecall report {stored.directory} --open shows histograms and curves.')
    return int(not all(level['completed'] for level in stored.levels)) if stored.is_whole else 130


def _check_place(place: Path) -> None:
    """Refuse a place that holds something else, before anything is measured."""
    from rolecall.errors import ConfigError, Problem
    from rolecall.runs.serving.bench_files import is_bench

    if is_bench(place):
        print_note(f'{place}: the benchmark there will be replaced.')
    elif place.exists() and not (place.is_dir() and not any(place.iterdir())):
        what = f'{place} is not empty, and not the result of a benchmark.'
        raise ConfigError(Problem('--out', what, 'Name another directory.'))


def _find_place(out: str | Path | None, name: str) -> Path:
    """The directory that was named, or the first of `bench/NAME`, `bench/NAME-2`, … that is free."""
    from itertools import count
    from pathlib import Path

    if out is not None:
        return Path(out)
    places = (Path('bench', name if number == 1 else f'{name}-{number}') for number in count(1))
    return next(place for place in places if not place.exists())


@contextmanager
def _show_progress(*, quiet: bool) -> Iterator[OnProgress]:
    """A bar for each level on a terminal; a line for each on anything else."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bars: dict[str, Any] = {}
    with Progress(console=console, refresh_per_second=2, disable=quiet or not console.is_terminal) as progress:

        def draw(level: str, done: int, total: int) -> None:
            if level not in bars:
                bars[level] = progress.add_task(level)
                if progress.disable and not quiet:
                    print_lines([f'{level}: up to {total:,} requests'], to=sys.stderr)
            progress.update(bars[level], completed=done, total=total)

        yield draw
