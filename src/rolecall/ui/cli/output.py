"""What commands print: lines, JSON, tables and pages, in the language of this process and safe for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def fail(reason: str) -> int:
    """Print why a command failed; returns its exit code."""
    print_note(reason)
    return 2


def print_note(note: str) -> None:
    """Print a line of ours to stderr."""
    from rolecall.strings import printable, wrap_for
    from rolecall.ui.views.chinese import translate_message

    print(wrap_for(sys.stderr, f'rolecall: {printable(translate_message(note))}'), file=sys.stderr)


def print_lines(lines: Iterable[str], *, to: IO[str] | None = None, hang: int = 2) -> None:
    """Print lines, wrapped for a terminal. Control characters in them are written out, never sent to the terminal."""
    from rolecall.strings import printable, wrap_for
    from rolecall.ui.views.chinese import translate_message

    stream = to or sys.stdout
    for line in lines:
        print(wrap_for(stream, printable(translate_message(line)), hang=hang), file=stream)


def print_json(*records: Any) -> None:
    """Print each record as JSON on a line of its own."""
    from dataclasses import asdict, is_dataclass

    from rolecall.experiment.previews.blocks import json_line

    for record in records:
        print(json_line(asdict(record) if is_dataclass(record) else record))  # type: ignore[arg-type]


def terminal() -> Console:
    """The console for tables on stdout."""
    from rolecall.ui.views.chinese import console_language
    from rolecall.ui.views.terminal import make_console

    return make_console(sys.stdout, translate=console_language())


def write_page(target: str, page: str) -> None:
    """Write a page to a file, whole or not at all."""
    from rolecall.runs.atomic import write_atomically

    with write_atomically(target) as part:
        part.write_text(page, encoding='utf-8')
    print_lines([f'Wrote {target}'], to=sys.stderr)
