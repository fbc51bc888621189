"""Open configs and runs in the browser.

Serve a local page that shows prompts by origin, compares and lints them, and reads runs. It listens on loopback only,
and its URL contains a token.

  rolecall web config.py
  rolecall web config.py runs/first runs/second
  rolecall web runs/first bench/first
  rolecall web config.py --port 8000 --no-open
  rolecall web --watch calls.jsonl
"""

from __future__ import annotations

import argparse
import sys

from rolecall.ui.cli.output import fail, print_note
from rolecall.ui.views.chinese import console_language


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    try:
        import aiohttp  # noqa: F401
    except ImportError:
        return fail("web needs aiohttp. Install it with: pip install 'rolecall[web]'")
    from rolecall.ui.web.server import serve_forever
    from rolecall.ui.web.workspace import Workspace

    if not arguments.paths and not arguments.watch:
        return fail('give a config, a run directory, or --watch FILE.')
    watched = Path(arguments.watch) if arguments.watch else None
    workspace = Workspace([Path(path) for path in arguments.paths], watched=watched)
    if arguments.host not in ('127.0.0.1', 'localhost', '::1'):
        print_note(f'listening on {arguments.host}: anyone who has the URL can use this page.')
    serve_forever(
        workspace,
        host=arguments.host,
        port=arguments.port,
        open_browser=not arguments.no_open and sys.stdout.isatty(),
        language='' if console_language() is None else 'zh',
    )
    return 0
