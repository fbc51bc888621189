"""How long the command line takes to start, against `python -c pass` (and OpenCompass' import, if it is named).

    python benchmarks/startup.py [--rounds 15] [--opencompass /path/to/its/python]

Each command runs in a fresh process, in turns, so that a slow moment of the machine hits all of them; medians are shown.
Bytecode is written, and one round goes before the first that counts, as for a user who has called a command before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
GSM8K = str(HERE / 'examples' / 'gsm8k.py')
ROLECALL = (sys.executable, '-m', 'rolecall')
COMMANDS = {
    'python -c pass': (sys.executable, '-c', 'pass'),
    'import rolecall': (sys.executable, '-c', 'import rolecall'),
    'rolecall --help': (*ROLECALL, '--help'),
    'rolecall view --help': (*ROLECALL, 'view', '--help'),
    'view, 5-shot GSM8K, plain': (*ROLECALL, 'view', GSM8K, '--model', 'qwen*', '--plain'),
    'view, the same in colour': (*ROLECALL, 'view', GSM8K, '--model', 'qwen*', '--color'),
    'view, all 4 models, JSON': (*ROLECALL, 'view', GSM8K, '--all', '--json'),
    'config show': (*ROLECALL, 'config', 'show', GSM8K),
}
OPENCOMPASS = 'from opencompass.openicl import icl_inferencer; from opencompass.registry import ICL_PROMPT_TEMPLATES'


def milliseconds(command: tuple[str, ...]) -> float:
    """How long one run takes."""
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONDONTWRITEBYTECODE'}
    started = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def main() -> None:
    """Measure in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--opencompass', metavar='PYTHON', help='a Python that has OpenCompass')
    arguments = parser.parse_args()
    commands = dict(COMMANDS)
    if arguments.opencompass:
        commands["import OpenCompass' prompt side"] = (arguments.opencompass, '-c', OPENCOMPASS)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(arguments.rounds + 1):
        for name, command in commands.items():
            measured = milliseconds(command)
            if number:
                times[name].append(measured)
    medians = {name: statistics.median(rounds) for name, rounds in times.items()}
    floor = medians['python -c pass']
    for name, median in medians.items():
        print(f'{name:<34} {median:>8.0f} ms   {median / floor:>6.1f} ×')
    allowed = 2 * floor + 100
    print(f'\nrolecall --help may take 2 × python + 100 ms = {allowed:.0f} ms: {medians["rolecall --help"]:.0f} ms')


if __name__ == '__main__':
    main()
