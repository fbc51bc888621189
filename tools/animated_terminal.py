"""Draw the animated terminal of the manual's home page: commands that are typed, and what they print today.

    python tools/animated_terminal.py [FILE]        default: docs/images/terminal.svg

The animation is CSS inside the picture. Readers who prefer reduced motion see the last screen.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 'question,A,B,answer\n' + ''.join(
    f'"What is {n}+{n}?",{2 * n},{2 * n + 1},A\n"What is {n}+{n + 1}?",{2 * n},{2 * n + 1},B\n' for n in range(1, 21)
)
BOT = """def careful(prompt):
    a, b = map(int, str(prompt).split('What is ')[-1].split('?')[0].split('+'))
    return 'A' if (a + b) % 2 == 0 else 'B'
def hasty(prompt):
    return 'A'
"""
FILES = {'quiz.csv': ROWS, 'bot.py': BOT}
QUIZ = 'quiz.csv --choices A,B --answer answer'
COMMANDS = (
    f'rolecall view {QUIZ} --meta-template chatml --plain',
    f'rolecall run {QUIZ} --model bot.py:careful --model bot.py:hasty -q --out runs/quiz',
    'rolecall compare runs/quiz --models hasty careful --flips 1',
)
WIDE, TALL, MARGIN, LETTER, LINE = 92, 19, 16, 7.85, 19
TYPED, READ = 1.6, 4.5
"""Seconds that a command is typed, and that its output stays."""


def main() -> None:
    """Run the commands and write the picture."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'docs/images/terminal.svg'
    target.write_text(draw([(command, output) for command, output in record()]), encoding='utf-8')
    print(target)


def record() -> list[tuple[str, list[str]]]:
    """Each command with the lines that it prints."""
    environment = {**os.environ, 'PYTHONPATH': str(ROOT / 'src'), 'COLUMNS': str(WIDE), 'ROLECALL_LANG': 'en'}
    screens = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            Path(folder, name).write_text(text)
        for command in COMMANDS:
            words = [sys.executable, '-m', 'rolecall', *shlex.split(command)[1:]]
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
            screens.append((command, done.stdout.partition('\n\n==')[0].rstrip().splitlines()[: TALL - 2]))
    return screens


def draw(screens: list[tuple[str, list[str]]]) -> str:
    """An SVG in which one screen follows the other."""
    whole = len(screens) * (TYPED + READ)
    width, height = WIDE * LETTER + 2 * MARGIN, TALL * LINE + 2 * MARGIN
    rules, groups = [], []
    for number, (command, lines) in enumerate(screens):
        start, shown, end = (
            100 * (number * (TYPED + READ) + later) / whole for later in (0.0, TYPED, TYPED + READ - 0.05)
        )
        last = number == len(screens) - 1
        for name, begin in (('c', start), ('o', shown)):
            rules.append(
                f'@keyframes {name}{number}{{0%,{max(begin - 0.01, 0):.2f}%{{opacity:{int(begin == 0)}}}'
                f'{begin:.2f}%,{end:.2f}%{{opacity:1}}{min(end + 0.01, 100):.2f}%,100%{{opacity:0}}}}'
                f'.{name}{number}{{opacity:{int(last)};animation:{name}{number} {whole:.1f}s infinite step-end}}'
            )
        groups.append(
            f'<g class="c{number}"><text y="{MARGIN + LINE}" class="typed"><tspan class="prompt">$ </tspan>'
            f'{escape(command)}</text></g><g class="o{number}">'
            + ''.join(
                f'<text y="{MARGIN + LINE * (at + 2)}">{escape(line[:WIDE])}</text>' for at, line in enumerate(lines)
            )
            + '</g>'
        )
    label = 'A terminal: a prompt is shown by origin, two models are run, and compared row by row.'
    box = f'viewBox="0 0 {width:.0f} {height}" xml:space="preserve"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{label}">'
        f'<style>text{{font:13px ui-monospace,"DejaVu Sans Mono",monospace;fill:#e4e7eb;white-space:pre}}'
        f'.typed{{font-weight:bold}}.prompt{{fill:#00d19b}}{"".join(rules)}'
        f'@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="#15181c"/>'
        f'<g transform="translate({MARGIN})">{"".join(groups)}</g></svg>\n'
    )


if __name__ == '__main__':
    main()
