"""How fast the page answers: a run of a million rows, and a five-shot prompt after each key press.

    python benchmarks/web.py

Times are from request to answer over a real socket on loopback, the median of several. The CPU time of the process, which serves and
asks, stands beside them, because the cores may be shared.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'src')]

from test_web_runs import store_a_million_rows  # noqa: E402
from web_pages import Client, serve_page  # noqa: E402

TIMES = 20
TEMPLATE = ['dataset', 'infer_cfg', 'prompt_template', 'template', 'begin', 0, 'prompt']


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        with serve_page(store_a_million_rows(Path(folder) / 'large')) as address:
            client = Client(*address)
            measure('a million rows: list of runs', lambda _: client.get('runs'))
            measure('a million rows: overview', lambda _: client.get('run'))
            measure('a million rows: first page', lambda _: client.get('run_rows'))
            measure('a million rows: last page', lambda _: client.get('run_rows', first=999_900))
            measure(
                'a million rows: one row', lambda at: client.get('run_row', dataset='big', model='m', row=at * 1000)
            )
        with serve_page(ROOT / 'examples/gsm8k.py') as address:
            client = Client(*address)
            measure(
                'five shots: prompt, size, cost and lint after a key press', lambda at: edit(client, f'Solve it. {at}')
            )


def edit(client: Client, text: str) -> None:
    """One key press in the editor."""
    where = {'config': 0, 'dataset': 'gsm8k', 'model': 'qwen-chatml', 'row': 1}
    status, _ = client.post('edit', **where, edits=[[TEMPLATE, text]])
    assert status == 200


def measure(name: str, ask: Callable[[int], object]) -> None:
    """Print the median time of an answer, and its CPU time."""
    ask(0)
    taken = []
    cpu = time.process_time()
    for at in range(TIMES):
        began = time.perf_counter()
        ask(at)
        taken.append(time.perf_counter() - began)
    spent = (time.process_time() - cpu) / TIMES
    print(f'{name}: {1000 * statistics.median(taken):.0f} ms (CPU {1000 * spent:.0f} ms)')


if __name__ == '__main__':
    main()
