"""Build the wheel and try it as a new user would: in an empty environment, with each extra, outside the checkout.

    python tools/smoke_wheel.py [EXTRA …] [--all] [--keep DIR]

Without a name, the bare package is tried. `--all` takes every extra but those that need a GPU or gigabytes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ('', 'api', 'web', 'llama', 'data', 'retrieve', 'score', 'tokenize', 'mcp', 'otel', 'mlflow')
ROWS = 'question,answer\nHow many legs has a spider?,8\n'
MODEL = "def answer(prompt):\n    return 'It has 8 legs.'\n"
RUN = ('run', 'rows.csv', '--answer', 'answer', '--model', 'bot.py:answer', '--out', 'run')


def main() -> int:
    """Build, install, run; 1 if something does not work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('extras', metavar='EXTRA', nargs='*')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--keep', metavar='DIR', type=Path, help='where the built files stay')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dist = arguments.keep or Path(folder, 'dist')
        _make_environment(Path(folder, 'build'), 'build')
        _call(Path(folder, 'build/bin/python'), '-m', 'build', '--outdir', str(dist), str(ROOT), cwd=Path(folder))
        [wheel] = dist.glob('*.whl')
        for extra in EXTRAS if arguments.all else arguments.extras or ('',):
            _try(wheel, extra, Path(folder, extra or 'bare'))
    return 0


def _make_environment(folder: Path, *packages: str) -> None:
    venv.create(folder, with_pip=True)
    _call(
        folder / 'bin/python', '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', *packages, cwd=folder
    )


def _try(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with an extra, and go from rows to a report."""
    _make_environment(folder, f'{wheel.absolute()}[{extra}]' if extra else str(wheel.absolute()))
    work = folder / 'work'
    work.mkdir()
    (work / 'rows.csv').write_text(ROWS)
    (work / 'bot.py').write_text(MODEL)
    for command in (('--version',), ('doctor',), ('view', 'rows.csv', '--answer', 'answer'), RUN, ('report', 'run')):
        _call(folder / 'bin/rolecall', *command, cwd=work)
    print(f'{extra or "without extras"}: works', flush=True)
    shutil.rmtree(folder)


def _call(program: Path, *arguments: str, cwd: Path) -> None:
    done = subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=900)
    if done.returncode:
        print(f'{program.name} {" ".join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}', file=sys.stderr)
        sys.exit(1)


if __name__ == '__main__':
    sys.exit(main())
