"""A sweep of several axes against its variants run one by one: requests, tokens that are computed, and CPU time.

`python benchmarks/sweeps.py MODEL [--rows N] [--html FILE] [--commands] [--best]`, where MODEL is `smollm2` (the embedded model),
or `tiny`: a random Llama for Transformers, for which torch is needed. One by one means: each variant in a run directory of its
own, with the model loaded anew. Both ways run in this process, one after the other, and their verdicts are compared; with
`--commands` they are `rolecall sweep` and one `rolecall run` for each variant, as a person would type them. `--best` looks for
the best variant, which is given up early where it is hopeless, against all variants on all rows. The last lines say the fewest
characters that any engine could compute, if it kept every beginning that two prompts share.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from rolecall.experiment.experiment import Experiment
from rolecall.insight.sweep import Sweep
from rolecall.insight.sweep_axes import Variant
from rolecall.runs import RunReader, run_config
from rolecall.runs.run_options import RunOptions
from rolecall.ui.report.sweep_page import sweep_page

KINDS = {
    'animal': ['horse', 'cat', 'eagle', 'salmon', 'frog', 'bee', 'wolf', 'sheep'],
    'fruit': ['apple', 'pear', 'plum', 'banana', 'cherry', 'lemon', 'grape', 'peach'],
    'colour': ['red', 'blue', 'green', 'yellow', 'purple', 'orange', 'white', 'black'],
    'tool': ['hammer', 'saw', 'drill', 'wrench', 'chisel', 'pliers', 'shovel', 'rake'],
}
AXES = {
    'smollm2': (
        'labels',
        'separator',
        'shots=1,2,4',
        'format=plain,chatml',
        'asking=gen',
        'reader=last_capital_postprocess',
    ),
    'tiny': ('labels', 'separator', 'shots=1,2,4', 'asking=gen', 'reader=last_capital_postprocess'),
}
TEMPLATE = 'Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer: {answer}'


def make_rows(count: int, seed: int) -> list[dict[str, str]]:
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        kinds = chance.sample(sorted(KINDS), 4)
        options = dict(zip('ABCD', (chance.choice(KINDS[kind]) for kind in kinds), strict=True))
        answer = chance.choice('ABCD')
        rows.append(
            {'question': f'Which of these is a kind of {kinds["ABCD".index(answer)]}?', **options, 'answer': answer}
        )
    return rows


def make_config(model: str, rows: int, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {'abbr': 'smollm2', 'type': 'LlamaCpp', 'path': 'smollm2', 'max_seq_len': 2048}
    if model == 'tiny':
        from small_models import make_model

        (folder / 'model').mkdir()
        make_model(folder / 'model', 'llama', spread=0.6)
        entry = {'abbr': 'tiny', 'type': 'HuggingFaceCausalLM', 'path': str(folder / 'model'), 'device': 'cpu'}
    dataset = {
        'abbr': 'kinds',
        'type': 'Rows',
        'test': make_rows(rows, 0),
        'train': make_rows(8, 1),
        'reader_cfg': {'input_columns': ['question', 'A', 'B', 'C', 'D'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': TEMPLATE},
            'inferencer': {'type': 'PPLInferencer', 'labels': ['A', 'B', 'C', 'D']},
        },
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }
    return {'models': [entry], 'datasets': [dataset]}


def count_tokens(directory: Path) -> tuple[int, int]:
    """Input tokens, and those that were computed, not taken from a prefix that an engine had kept."""
    with RunReader(directory) as reader:
        results = list(reader.results())
    total = sum(row.input_tokens or 0 for row in results)
    return total, total - sum(row.cached_tokens or 0 for row in results)


def count_beginnings(prompts: Iterable[str]) -> int:
    """The characters that have to be computed of some prompts if no beginning is computed twice."""
    ordered = ['', *sorted(set(prompts))]
    return sum(len(prompt) - count_shared(before, prompt) for before, prompt in pairwise(ordered))


def count_shared(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def list_prompts(variant: Variant) -> list[str]:
    opened = Experiment.open({'models': list(variant.entries.models), 'datasets': [variant.entries.dataset]})
    return [str(preview.request) for preview in opened.previews()]


def run_command(*words: str) -> float:
    """The CPU time of a command of rolecall."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([sys.executable, '-m', 'rolecall', *words], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        sys.exit(ended.stderr[-3000:])
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare_commands(model: str, config: Mapping[str, Any], folder: Path, sweep: Sweep) -> None:
    (folder / 'sweep.json').write_text(json.dumps(config))
    axes = ['--axis', *AXES[model], '--repeat', '1', '-q', '--out', str(folder / 'together')]
    together = run_command('sweep', str(folder / 'sweep.json'), *axes)
    alone = 0.0
    for at, variant in enumerate(sweep.variants['kinds']):
        file = folder / f'alone-{at}.json'
        entries = variant.entries
        file.write_text(json.dumps({'models': list(entries.models), 'datasets': [entries.dataset]}))
        alone += run_command('run', str(file), '-q', '--out', str(folder / f'alone-{at}'))
    count = len(sweep.variants['kinds'])
    print(f'one command against {count}: CPU {together:.1f} s : {alone:.1f} s, {together / alone:.0%}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('model', choices=sorted(AXES))
    parser.add_argument('--rows', type=int, default=100)
    parser.add_argument('--html', type=Path)
    parser.add_argument('--commands', action='store_true')
    parser.add_argument('--best', action='store_true')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = make_config(arguments.model, arguments.rows, folder)
        sweep = Sweep(Experiment.open(config), AXES[arguments.model], RunOptions(out=folder / 'sweep', force=True), 1)
        if arguments.commands:
            compare_commands(arguments.model, config, folder, sweep)
        elif arguments.best:
            sweep.find_best()
            sent = sum(summary.plan.requests for summary in sweep.summaries)
            full = sum(len(list_prompts(variant)) for variant in sweep.variants['kinds'] if not variant.folder)
            for line in sweep.describe_cost():
                print(line)
            print(f'the best of them: {sent:,} requests of {full:,}, {sent / full:.0%}')
        else:
            compare_in_process(config, folder, sweep, arguments.html)
        prompts = [list_prompts(variant) for variant in sweep.variants['kinds'] if not variant.folder]
        least = count_beginnings(prompt for own in prompts for prompt in own)
        alone = sum(map(count_beginnings, prompts))
        print(f'characters without beginnings that are shared: {least:,} : {alone:,}, {least / alone:.0%}')


def compare_in_process(config: Mapping[str, Any], folder: Path, sweep: Sweep, html: Path | None) -> None:
    run_config(config, out=folder / 'warm', force=True, limit=1)  # packages are imported once, for both ways
    begun = time.process_time()
    swept = sweep.run()
    together = time.process_time() - begun
    for line in (*(line for each in swept for line in each.describe()), *sweep.describe_cost()):
        print(line)
    alone = total = tokens = requests = differing = 0
    for at, variant in enumerate(sweep.variants['kinds']):
        begun = time.process_time()
        entries = variant.entries
        summary = run_config(
            {'models': list(entries.models), 'datasets': [entries.dataset]}, out=folder / f'alone-{at}', force=True
        )
        alone += time.process_time() - begun
        sums = count_tokens(folder / f'alone-{at}')
        total, tokens = total + sums[0], tokens + sums[1]
        requests += summary.plan.requests
        if variant.folder:
            continue
        with RunReader(folder / f'alone-{at}') as reader:
            scores = {row.row: row.score for row in reader.results()}
        differing += sum(scores[row] != score for row, score in swept[0].scores[variant].items())
    sent = sum(summary.plan.requests for summary in sweep.summaries)
    own = sum(count_tokens(directory.parent)[1] for directory in (folder / 'sweep').rglob('run.sqlite'))
    print(f'{len(sweep.variants["kinds"])} variants of {len(swept[0].rows)} rows, together against one by one:')
    print(f'  requests {sent:,} : {requests:,}; tokens computed {own:,} : {tokens:,} of {total:,}')
    print(f'  CPU {together:.1f} s : {alone:.1f} s, {together / alone:.0%}; verdicts that differ: {differing}')
    if html:
        html.write_text(sweep_page([each.as_json() for each in swept]))


if __name__ == '__main__':
    main()
