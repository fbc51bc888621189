"""Take the pictures of the manual: `view`, a report and a comparison on a terminal, and the demo's report in a browser.

python tools/pictures.py [FOLDER] [--run RUN]        default: docs/pictures, and a run of examples/demo.py made here

The terminal pictures are SVG, 80 columns wide; the pages are PNG, light and dark, wide and narrow. A run of the demo
takes a minute; `--run runs/demo` takes the pictures of one that exists.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'src')]

from browser import open_browser  # noqa: E402
from terminal import run_in_terminal  # noqa: E402

COLUMNS = 80
MOST_LINES = 46
PAGES = {
    'report': ({}, {'width': 1280, 'height': 1240}),
    'report-dark': ({}, {'width': 1280, 'height': 1240, 'dark': True}),
    'report-phone': ({}, {'width': 390, 'height': 860}),
    'report-row': ({'at': ['quiz', 'chat', 0]}, {'width': 1280, 'height': 900}),
    'report-dialogue': ({'at': ['talk', 'chat', 4]}, {'width': 1280, 'height': 820, 'dark': True}),
}


def main() -> None:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('folder', nargs='?', type=Path, default=ROOT / 'docs/pictures')
    parser.add_argument('--run', type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        run = arguments.run.resolve() if arguments.run else Path(made) / 'demo'
        if not arguments.run:
            subprocess.run([*ROLECALL, 'run', 'examples/demo.py', '--out', str(run), '--quiet'], cwd=ROOT, check=True)
        commands = {
            'view': ['view', 'examples/demo.py', '--dataset', 'talk', '--model', 'chat'],
            'view-perplexity': ['view', 'examples/demo.py', '--dataset', 'quiz', '--model', 'chat', '--label', 'B'],
            'report-terminal': ['report', str(run)],
            'compare': ['compare', str(run), '--models', 'plain', 'chat', '--flips', '1'],
        }
        for name, command in commands.items():
            take_terminal(arguments.folder / f'{name}.svg', command)
        take_pages(arguments.folder, run, Path(made))
    print(*sorted(arguments.folder.iterdir()), sep='\n')


ROLECALL = [sys.executable, '-m', 'rolecall']


def take_terminal(target: Path, command: list[str]) -> None:
    """What a command shows on a terminal, as SVG."""
    shown = run_in_terminal(
        [*ROLECALL, *command], columns=COLUMNS, folder=ROOT, environment={'PYTHONPATH': str(ROOT / 'src')}
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system='truecolor')
    typed = 'rolecall ' + ' '.join(Path(word).name if Path(word).is_absolute() else word for word in command)
    console.print(Text(f'$ {typed}', 'bold'))
    console.print(Text.from_ansi('\n'.join(shown.raw.replace('\r\n', '\n').split('\n')[:MOST_LINES]).rstrip()))
    target.write_text(console.export_svg(title=typed, unique_id=target.stem), encoding='utf-8')


def take_pages(folder: Path, run: Path, made: Path) -> None:
    """The report of a run, at the top and at single rows."""
    page = made / 'report.html'
    subprocess.run(
        [*ROLECALL, 'report', str(run), '--html', str(page), '--config', 'examples/demo.py'], cwd=ROOT, check=True
    )
    with open_browser(f'{made}/profile') as browser:
        for name, (address, look) in PAGES.items():
            browser.look(**{'dark': False, **look})
            fragment = f'#{urlencode({key: json.dumps(value) for key, value in address.items()})}' if address else ''
            browser.go(page.as_uri() + fragment)
            time.sleep(1)
            browser.picture(folder / f'{name}.png', **look)


if __name__ == '__main__':
    main()
