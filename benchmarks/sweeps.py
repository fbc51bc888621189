"""A sweep of several axes against its variants run one by one: requests, tokens that are computed, and CPU time.

`python benchmarks/sweeps.py MODEL [--rows N] [--html FILE]`, where MODEL is `smollm2` (the embedded model), or `tiny`: a
random Llama for Transformers, for which torch is needed. One by one means: each variant in a run directory of its own, with
the model loaded anew. Both ways run in this process, one after the other, and their verdicts are compared.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from rolecall.experiment.experiment import Experiment
from rolecall.insight.sweep import Sweep
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('model', choices=sorted(AXES))
    parser.add_argument('--rows', type=int, default=100)
    parser.add_argument('--html', type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = make_config(arguments.model, arguments.rows, folder)
        run_config(config, out=folder / 'warm', force=True, limit=1)  # packages are imported once, for both ways
        options = RunOptions(out=folder / 'sweep', force=True)
        sweep = Sweep(Experiment.open(config), AXES[arguments.model], options, repeats=1)
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
        print(f'{len(sweep.variants["kinds"])} variants of {arguments.rows} rows, together against one by one:')
        print(f'  requests {sent:,} : {requests:,}; tokens computed {own:,} : {tokens:,} of {total:,}')
        print(f'  CPU {together:.1f} s : {alone:.1f} s, {together / alone:.0%}; verdicts that differ: {differing}')
        if arguments.html:
            arguments.html.write_text(sweep_page([each.as_json() for each in swept]))


if __name__ == '__main__':
    main()
