"""How often receipts mark a row that the server did not cut, and miss one that it did, by simulation.

    python benchmarks/receipts.py

A server is honest, uses another tokenizer, or cuts prompts at a window that 5 to 50 % of the rows exceed by our count, to
the window or by whole messages; the chat template adds or takes a constant, so all may exceed it. Lengths are spread
(log-normal around 400 tokens), narrow (a range of 30) or of three values. Windows are 4,096, or an odd number; `stated`: the
server or a probe says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rolecall.scoring.receipt import TokenCount, compare_counts

ROWS, TRIALS = 100, 2000
Read = Callable[[int, int], tuple[int, bool]]
"""What a server reports of a prompt of so many tokens, with its window, and whether it cut the prompt."""

draw = random.Random(1)
LENGTHS: dict[str, Callable[[], int]] = {
    'spread': lambda: int(draw.lognormvariate(6, 0.8)) + 20,
    'narrow': lambda: draw.randint(300, 330),
    'three values': lambda: draw.choice([400, 401, 402]),
}


def make_server(kind: str) -> Read:
    """A server that behaves so in one trial."""
    ratio, added = draw.uniform(0.6, 1.5), draw.choice([-20, -1, 0, 0, 1, 7, 40])

    def read(sent: int, window: int) -> tuple[int, bool]:
        if kind == 'another tokenizer':
            return max(1, round(sent * ratio + draw.gauss(0, 0.02 * sent))), False
        size = sent + added
        if kind == 'honest' or size <= window:
            return size, False
        return window if kind == 'cuts tokens' else draw.randint(window // 2, window), True

    return read


def run_trial(lengths: str, kind: str, *, odd: bool, stated: bool) -> tuple[int, int, int, int]:
    """Rows marked falsely, cut rows missed, those of them in runs with a warning that all may be cut, and cut rows."""
    server, sizes = make_server(kind), [LENGTHS[lengths]() for _ in range(ROWS)]
    quantile = sorted(sizes)[int(ROWS * draw.uniform(0.5, 0.95))]
    window = quantile if odd else 4096
    sizes = [max(1, size - quantile + window) for size in sizes]
    answers = [server(sent, window) for sent in sizes]
    counts = [TokenCount(row, sizes[row], reported) for row, (reported, _) in enumerate(answers)]
    cut = {row for row, (_, is_cut) in enumerate(answers) if is_cut}
    limit = window if cut or 'cuts' in kind else max(window, max(reported for reported, _ in answers) + 1)
    comparison = compare_counts(counts, window=limit if stated else None)
    marked = set(comparison.truncated)
    full = {row for row, (reported, _) in enumerate(answers) if reported == window}  # leaves no room for a reply
    missed = len(cut - marked)
    return len(marked - cut - full), missed, missed * (comparison.kind == 'level'), len(cut)


def main() -> None:
    print(
        '| server | lengths | window | runs with a false mark | cut rows missed | with a warning |\n|---|---|---|---|---|---|'
    )
    windows = {'4,096': (False, False), 'odd': (True, False), 'stated': (True, True)}
    for kind in ('honest', 'another tokenizer', 'cuts tokens', 'cuts messages'):
        for lengths in LENGTHS:
            for window, (odd, stated) in windows.items():
                trials = [run_trial(lengths, kind, odd=odd, stated=stated) for _ in range(TRIALS)]
                false = sum(wrong > 0 for wrong, *_ in trials) / TRIALS
                missed, warned, cut = (sum(trial[place] for trial in trials) for place in (1, 2, 3))
                share = f'{missed / cut:.1%} of {cut:,} | {warned / cut:.1%}' if cut else '– | –'
                print(f'| {kind} | {lengths} | {window} | {false:.2%} | {share} |')


if __name__ == '__main__':
    main()
