"""Download the weights of an embedded model.

Download the weights of an embedded model into the cache (set ROLECALL_CACHE to move it).

  rolecall model pull smollm2
"""

from __future__ import annotations

import argparse


def execute(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress

    from rolecall.models.pull import pull

    def draw(done: int, total: int) -> None:
        display.update(bar, completed=done, total=total)

    console = Console(stderr=True)
    with Progress(
        *Progress.get_default_columns(), DownloadColumn(), console=console, disable=not console.is_terminal
    ) as display:
        bar = display.add_task(arguments.name, total=None)
        path = pull(arguments.name, progress=draw)
    print(path)
    return 0
