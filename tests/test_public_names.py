"""The public names of the package, as a user's type checker sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rolecall

SOURCE = Path(rolecall.__file__).parent.parent


def test_every_public_name_is_listed_once_and_found() -> None:
    assert sorted(rolecall.__all__) == sorted(['__version__', *rolecall._HOME_OF])
    assert all(getattr(rolecall, name) is not None for name in rolecall.__all__)


def test_a_strict_type_checker_accepts_every_public_name(tmp_path: Path) -> None:
    names = ', '.join(name for name in rolecall.__all__ if name != '__version__')
    (tmp_path / 'user.py').write_text(f'from rolecall import {names}\n\nreply: Reply = Reply("four")\n')
    command = [sys.executable, '-m', 'mypy', '--strict', '--cache-dir', str(SOURCE.parent / '.mypy_cache'), 'user.py']
    checked = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, 'MYPYPATH': str(SOURCE)}, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_public_names_cover_errors_and_what_calls_return() -> None:
    needed = {
        'RolecallError',
        'ModelError',
        'ModuleError',
        'RunError',
        'Reply',
        'ChatReply',
        'Usage',
        'Scorecard',
        'Result',
    }
    assert needed <= set(rolecall.__all__)
