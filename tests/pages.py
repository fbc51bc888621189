"""Pages of the manual as programs: their files are written, their commands run, their output compared.

A fenced block with `title="NAME"` is a file. In a `console` block, a line that starts with `$ ` is a command, and the
lines below it are what it prints; `…` stands for anything, a line `…` for any lines. `# exit code 1` at the end of a
command says how it ends (otherwise 0). Python blocks without `>>>` and without a title are run, and `<!-- not run: WHY -->`
before a block says that it is not.

python tests/pages.py docs/PAGE.md …        write what the commands print now into the pages
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.ui.cli.main import main

__all__ = ['Block', 'Ran', 'read_blocks', 'record', 'run_page']

_BLOCK = re.compile(
    r'(?:^<!-- not run: (?P<why>[^>]+) -->\n+)?^```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_EXIT = re.compile(r'\s+# exit code (\d+)$')
_PROGRESS = re.compile(r'^.*: [\d,]+/[\d,]+ rows?,.*\n', re.MULTILINE)
_REDIRECTED = re.compile(r'\s+> (\S+)$')


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    kind: str
    title: str
    text: str
    why_not: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A command of a page: what the page says it prints, and what it printed."""

    command: str
    expected: str
    printed: str
    code: int
    expected_code: int

    @property
    def holds(self) -> bool:
        """Whether the page tells the truth. Numbers are compared by their places only: models round differently."""
        return self.code == self.expected_code and (
            not self.expected or _pattern(self.expected).fullmatch(_mask(self.printed)) is not None
        )

    @property
    def shown(self) -> str:
        """What the page should show: what it shows, where it leaves something out and holds; else what was printed."""
        if not self.expected:
            return ''
        kept = self.holds and '…' in self.expected and self.expected != '…'
        return f'{self.expected}\n' if kept else self.printed


def read_blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _BLOCK.finditer(page):
        title = re.search(r'title="([^"]+)"', found['info'])
        yield Block(
            found['kind'],
            title[1] if title else '',
            found['text'],
            found['why'] or '',
            found.start('text'),
            found.end('text'),
        )


def run_page(page: str) -> list[Ran]:
    """Write the files of a page, then run its commands and its Python in order, in the working directory."""
    return [ran for _, block in _run_blocks(page) for ran in block]


def record(page: str) -> str:
    """The page with the output of its commands as it is now, in an empty working directory."""
    written, after = [], 0
    for block, ran in _run_blocks(page):
        wrong = [one for one in ran if one.code != one.expected_code]
        if wrong:
            raise SystemExit(f'{wrong[0].command}\n{wrong[0].printed}exit code {wrong[0].code}')
        shown = ''.join(f'$ {one.command}\n{one.shown}' for one in ran)
        written += [page[after : block.start], shown]
        after = block.end
    return ''.join([*written, page[after:]])


def _run_blocks(page: str) -> Iterator[tuple[Block, list[Ran]]]:
    blocks = [block for block in read_blocks(page) if not block.why_not]
    names: dict[str, Any] = {}
    for block in blocks:
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding='utf-8')
    for block in blocks:
        if block.kind == 'console':
            yield block, [_run(command, expected) for command, expected in _split(block.text)]
        elif block.kind == 'python' and not block.title and '>>>' not in block.text:
            exec(compile(block.text, 'the page', 'exec'), names)


def _split(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r'^\$ ', text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition('\n')
        while command.endswith('\\'):
            more, _, expected = expected.partition('\n')
            command = f'{command}\n{more}'
        yield command, expected.rstrip()


def _run(command: str, expected: str) -> Ran:
    wanted = _EXIT.search(command)
    words = _EXIT.sub('', command).replace('\\\n', ' ')
    file = _REDIRECTED.search(words)
    program, *arguments = shlex.split(_REDIRECTED.sub('', words), comments=True)
    if program != 'rolecall':
        raise ValueError(f'a page runs rolecall and nothing else, not {command!r}')
    out, notes = io.StringIO(), io.StringIO()
    sys.argv = ['rolecall', *arguments]  # messages quote it
    os.environ['COLUMNS'] = '100'
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes):
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse
            code = end.code if isinstance(end.code, int) else 2
    if file:
        Path(file[1]).write_text(out.getvalue(), encoding='utf-8')
    printed = notes.getvalue() if file else notes.getvalue() + out.getvalue()
    lines = '\n'.join(line.rstrip() for line in _PROGRESS.sub('', printed).strip('\n').splitlines())
    return Ran(command, expected, f'{lines}\n', code, int(wanted[1]) if wanted else 0)


def _mask(text: str) -> str:
    return re.sub(r'([ ─])\1+', r'\1', re.sub(r'\d[\d,.]*', '0', text))


def _pattern(expected: str) -> re.Pattern[str]:
    lines = [
        r'(?:.*\n)*?' if line.strip() == '…' else re.escape(_mask(line)).replace('…', '.*') + r'\n'
        for line in expected.splitlines()
    ]
    return re.compile(''.join(lines) + r'\n*')


if __name__ == '__main__':
    for file in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            file.write_text(record(file.read_text(encoding='utf-8')), encoding='utf-8')
