"""`rolecall doctor`: checks a run directory, and saves what is whole of a damaged one."""

from __future__ import annotations

import argparse
from typing import Any

from rolecall.cli.options import declare_command

__all__ = ['add_doctor']


def add_doctor(commands: Any) -> None:
    """Declare `rolecall doctor`."""
    parser = declare_command(
        commands,
        'doctor',
        'check a run directory for damage, and repair it',
        'Read every row and request of a run and compare it with its checksum. Exit code 1 if something is damaged.',
        '  rolecall doctor runs/first\n  rolecall doctor runs/first --repair runs/saved',
    )
    parser.set_defaults(run=_run_doctor)
    parser.add_argument('directory', metavar='RUN', help='a run directory')
    parser.add_argument('--repair', metavar='NEW', help='save what is whole into this new run directory')


def _run_doctor(arguments: argparse.Namespace) -> int:
    from rolecall.runs.store.doctor import check_run, repair_run
    from rolecall.strings import printable

    directory, target = arguments.directory, arguments.repair
    checkup = repair_run(directory, target) if target else check_run(directory)
    for line in checkup.lines():
        print(printable(line))
    if target:
        print(printable(f'Saved in {target}. Run the config there to ask for what is missing.'))
    return 0 if checkup.is_whole else 1
