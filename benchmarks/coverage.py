"""How many dataset configs of OpenCompass and AISBench reach a score here.

    python benchmarks/coverage.py --reference-python /path/to/other/env/bin/python [--real] [--compare] [--show N]

Every distinct entry of every file is prepared and run on two made-up rows, with a Python function as the model and as the
judge; entries that differ in the words of their prompts only are tried once. A file counts if all its entries are scored.
Three ways: natively with rows supplied; with one of our loaders as well; and, with `--real`, in the other environment,
which has the two packages installed, with what a config names there used as it is (`load_config(…, foreign='real')`).
There a loader counts if it can be called with what the entry says; its data are not here. What an evaluator downloads, or
asks of a service, is made up (coverage_standins.py). Files that the package itself cannot run are counted as failed, and
named. Where both can score an entry, `--compare` sends the same replies to both and counts equal verdicts.

The network is blocked, trials run in child processes with a time limit, and `--results FOLDER` keeps what was found, so
that a run that was stopped resumes (delete the files to measure anew).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from coverage_workers import forbid_network, run_trials

ROOTS = {'OpenCompass': 'opencompass/configs/datasets', 'AISBench': 'ais_bench/benchmark/configs/datasets'}
WORDINGS = ('prompt_template', 'ice_template')
BROKEN = 'a file that the package itself cannot run'
CAUSES = {
    BROKEN: "no setter|model_postprocessors|MedBenchEvaluator_SMDoc|'tuple'|got {}|'unmarked'|no ice_template|has no option 'prompt'|"
    'TruthfulQAEvaluator raised AssertionError',
    'examples that OpenCompass would lose without a word': 'does not occur in the template',
    'an inferencer of the package': 'can be previewed, but not run',
    'a judge with options of its own': 'multi_eval|count_ties|summary_type|CharmMemoryEvaluator|judge_model_cfg',
    'a module that no package index has': 'VLMEvalKit|InternSandbox',
    'data that are not here': 'CodeCompass|URLError|huggingface.co|ProxyError|Hub \\(Offline',
    'took too long': 'took longer|the process ended',
}
"""Why files have no score with the package installed, by the words of the reason."""
FIELDS = re.compile(r'\{[^{}]+\}')


@dataclass
class Entry:
    """A dataset entry of a file."""

    file: str
    entry: dict[str, Any]


@dataclass
class Tally:
    files: set[str] = field(default_factory=set)
    unscored: set[str] = field(default_factory=set)
    without_loader: set[str] = field(default_factory=set)
    with_hub: set[str] = field(default_factory=set)
    entries: int = 0
    causes: dict[str, list[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    loaders: Counter[str] = field(default_factory=Counter)


def entries(root: Path, foreign: Any) -> Iterator[Entry]:
    """Every dataset entry below a folder of config files."""
    from rolecall.experiment.opening.loading import load_config

    for file in sorted(root.rglob('*.py')):
        if file.name == '__init__.py':
            continue
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                config = load_config(file, foreign=foreign)
        except Exception:  # counted by benchmarks/configs.py
            continue
        for name, value in config.items():
            if isinstance(value, list | tuple) and name.endswith('datasets'):
                for entry in value:
                    if isinstance(entry, Mapping) and 'infer_cfg' in entry:
                        yield Entry(str(file.relative_to(root)), dict(entry))


def plain(value: Any, in_wording: bool = False) -> Any:
    """A value as JSON, long texts of prompts reduced to their fields."""
    from rolecall.registry import part_name

    if isinstance(value, Mapping):
        return {str(key): plain(item, in_wording or key in WORDINGS) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, in_wording) for item in value]
    if isinstance(value, str) and in_wording and len(value) > 24:
        return ' '.join(sorted(set(FIELDS.findall(value))))
    return value if value is None or isinstance(value, str | int | float | bool) else part_name(value)


def key_of(entry: Mapping[str, Any]) -> str:
    """What is asked and how it is scored; where the data lies and how a prompt is worded does not matter."""
    kept = {name: plain(entry.get(name)) for name in ('reader_cfg', 'infer_cfg', 'eval_cfg', 'k', 'n')}
    kept |= {name: plain(entry[name]) for name in ('base_models', 'mode') if entry.get('base_models')}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def measure(root: Path, foreign: Any, *, limit_s: float, known: Path | None, label: str) -> Tally:
    from coverage_trial import try_entry

    tally, distinct, files = Tally(), {}, {}
    for one in entries(root, foreign):
        key = key_of(one.entry)
        distinct.setdefault(key, one.entry)
        files.setdefault(one.file, {}).setdefault(key, one.entry)
        count_loader(one, foreign, tally)
    tally.files, tally.entries = set(files), len(distinct)
    results = run_trials(distinct, try_entry, limit_s=limit_s, known=known, label=label)
    for file, asked in files.items():
        reasons = sorted({shorten(results[key], entry) for key, entry in asked.items() if results[key]})
        if reasons:
            tally.unscored.add(file)
            tally.causes.setdefault(find_cause(reasons), []).append(file)
            tally.reasons.update(reasons)
    return tally


def find_cause(reasons: list[str]) -> str:
    """What kind of thing keeps a file from a score."""
    said = '\n'.join(reasons)
    return next((cause for cause, words in CAUSES.items() if re.search(words, said)), 'other')


def count_loader(one: Entry, foreign: Any, tally: Tally) -> None:
    from rolecall.registry import part_name
    from rolecall.sources.datasets.benchmarks import HUB_BENCHMARKS
    from rolecall.sources.datasets.dataset import DATASETS

    kind = one.entry.get('type')
    name = DATASETS.builtin_name(kind)
    if foreign == 'real' and isinstance(kind, type):
        name = part_name(kind) if can_be_called(kind, one.entry) else None
    if name is None:
        if one.file not in tally.without_loader:
            tally.loaders[part_name(kind)] += 1
        tally.without_loader.add(one.file)
    elif name in ('HFDataset', *HUB_BENCHMARKS) and not one.entry.get('data_files'):
        tally.with_hub.add(one.file)


def can_be_called(kind: type, entry: Mapping[str, Any]) -> bool:
    from rolecall.errors import ConfigError
    from rolecall.sources.datasets.dataset import loader_arguments
    from rolecall.sources.datasets.loaders import check_call, resolve_loader

    try:
        load = resolve_loader(kind, kind.__name__)
        check_call(load, loader_arguments(load, entry))
    except ConfigError:
        return False
    return True


def shorten(reason: str, entry: Mapping[str, Any]) -> str:
    from rolecall.registry import part_name

    scoring = entry.get('eval_cfg')
    evaluator = (scoring.get('evaluator') if isinstance(scoring, Mapping) else None) or ''
    kind = part_name(evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator)
    plainly = re.sub(r"'?(?:/tmp|/dev/shm|outputs)/[^ ']+", '…', reason.replace('datasets[0].', ''))
    return f'{kind}: {plainly[:230]}'


def show(name: str, tally: Tally, most: int, *, ours: bool) -> None:
    files, scored = len(tally.files), len(tally.files - tally.unscored)
    loaded = len(tally.files - tally.unscored - tally.without_loader)
    local = len(tally.files - tally.unscored - tally.without_loader - tally.with_hub)
    loader = f'the loader is ours {loaded:,} ({loaded / files:.1%}); without a hub {local:,} ({local / files:.1%})'
    print(
        f'{name}: {files:,} files, {tally.entries:,} distinct entries; scored with rows supplied {scored:,} '
        f'({scored / files:.1%}); and {loader if ours else f"the loader can be called {loaded:,} ({loaded / files:.1%})"}'
    )
    if tally.causes and not ours:
        can_run = files - len(tally.causes.get(BROKEN, ()))
        print(f'  of the {can_run:,} files that the package itself can run: {scored / can_run:.1%}')
        for cause, names in sorted(tally.causes.items(), key=lambda item: -len(item[1])):
            print(f'  {len(names):4}  {cause}: {", ".join(names)}')
    for reason, count in tally.reasons.most_common(most):
        print(f'  {count:4}  {reason}')
    if most:
        print('  loaders missing:', ', '.join(f'{kind} {count}' for kind, count in tally.loaders.most_common(3 * most)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--reference-python', required=True, help='a Python with opencompass and ais-bench installed')
    options.add_argument('--real', action='store_true', help='in that environment, with what it names used as it is')
    options.add_argument('--compare', action='store_true', help='verdicts of ours and of theirs, compared there')
    options.add_argument('--show', type=int, default=0, metavar='N', help='the N most frequent reasons')
    options.add_argument('--only', choices=[*ROOTS], help='one of the two')
    options.add_argument('--limit', type=float, default=30, metavar='S', help='seconds for one entry (default: 30)')
    options.add_argument('--results', type=Path, metavar='FOLDER', help='keep results here, and resume from them')
    options.add_argument('--inside', action='store_true', help=argparse.SUPPRESS)
    given = options.parse_args()
    forbid_network()
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    if (given.real or given.compare) and not given.inside:
        source = str(Path(__file__).parent.parent / 'src')
        environment = {**os.environ, 'PYTHONPATH': source, 'PYTHONWARNINGS': 'ignore', 'PYTHONSAFEPATH': ''}
        command = [given.reference_python, __file__, *sys.argv[1:], '--inside']
        names = [given.only] if given.only else [*ROOTS]  # one process each: both packages define the same flags
        codes = [subprocess.run([*command, '--only', name], env=environment).returncode for name in names]
        raise SystemExit(max(codes))
    if given.results:
        given.results.mkdir(parents=True, exist_ok=True)
    for name, root in ROOTS.items():
        if given.only in (None, name):
            began = time.monotonic()
            measure_package(name, packages_of(given.reference_python) / root, given)
            print(f'  {time.monotonic() - began:.0f} s', flush=True)


def measure_package(name: str, root: Path, given: argparse.Namespace) -> None:
    if given.compare:
        from coverage_compare import compare

        compare(name, root, given)
        return
    way = 'package installed' if given.real else 'natively'
    known = given.results / f'{name}-{way.replace(" ", "-")}.jsonl' if given.results else None
    foreign = 'real' if given.real else 'reference'
    tally = measure(root, foreign, limit_s=given.limit, known=known, label=f'{name}, {way}')
    show(f'{name}, {way}', tally, given.show, ours=not given.real)


def packages_of(python: str) -> Path:
    command = [python, '-c', 'import sysconfig; print(sysconfig.get_paths()["purelib"])']
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == '__main__':
    main()
