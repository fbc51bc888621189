"""`rolecall model`: weights that come from the package index."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.ui.cli.options import declare_command


def add_pull(commands: Any) -> None:
    """Declare `rolecall model pull`."""
    parser = declare_command(
        commands,
        'pull',
        _pull,
        'download the weights of an embedded model',
        'Download the weights of an embedded model into the cache (set ROLECALL_CACHE to move it).',
        '  rolecall model pull smollm2',
    )
    parser.add_argument('name', metavar='NAME', nargs='?', default='smollm2', help='default: smollm2')


def _pull(arguments: argparse.Namespace) -> int:
    from rolecall.models.pull import pull

    last = -1

    def progress(done: int, total: int) -> None:
        nonlocal last
        percent = 100 * done // max(total, 1)
        if sys.stderr.isatty() and percent != last:
            last = percent
            bar = '█' * (percent // 4) + '░' * (25 - percent // 4)
            print(f'\r{arguments.name} {bar} {percent:3d} % of {total / 1e6:.0f} MB', end='', file=sys.stderr)

    path = pull(arguments.name, progress=progress)
    if last >= 0:
        print(file=sys.stderr)
    print(path)
    return 0
