"""`rolecall doctor`: checks this machine, or a run directory, and recovers intact rows of a damaged run."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rolecall.ui.cli.options import declare_command
from rolecall.ui.cli.output import fail, print_json, print_lines
from rolecall.ui.views.chinese import translate_message


def add_doctor(commands: Any) -> None:
    """Declare `rolecall doctor`."""
    parser = declare_command(
        commands,
        'doctor',
        _run_doctor,
        'check this machine, or a run directory for damage',
        'Say what is installed, which models are at hand, and whether keys and endpoints work. With RUN: read every '
        'row and request of a run and compare it with its checksum. Exit code 1 if something is wrong.',
        '  rolecall doctor\n  rolecall doctor --offline\n  rolecall doctor runs/first\n'
        '  rolecall doctor runs/first --repair runs/saved',
    )
    parser.add_argument('directory', metavar='RUN', nargs='?', help='a run directory')
    parser.add_argument('--offline', action='store_true', help='without a run: ask no endpoint')
    parser.add_argument('--json', action='store_true', help='without a run: one JSON object per line')
    parser.add_argument('--repair', metavar='NEW', help='copy intact rows into this new run directory')


def _run_doctor(arguments: argparse.Namespace) -> int:
    from rolecall.runs.batches.ledger_reader import describe_waiting
    from rolecall.runs.store.doctor import check_run, describe_receipts, repair_run

    directory, target = arguments.directory, arguments.repair
    if directory is None:
        return fail('--repair needs a RUN.') if target else _check_machine(arguments)
    checkup = repair_run(directory, target) if target else check_run(directory)
    print_lines((*checkup.lines(), *describe_receipts(directory), *describe_waiting(directory)))
    if target:
        print_lines([f'Saved in {target}. Run the config there to ask for what is missing.'])
    return 0 if checkup.is_whole else 1


def _check_machine(arguments: argparse.Namespace) -> int:
    from rolecall.ui.cli.environment import check_environment

    problems = 0
    for check in check_environment(offline=arguments.offline):
        problems += check.problem
        if arguments.json:
            print_json(check)
        else:
            words = _shorten_home(translate_message(check.found))
            print_lines([f'{"! " if check.problem else "  "}{check.what:<22}{words}'], hang=22)
    return 1 if problems else 0


def _shorten_home(text: str) -> str:
    home = os.path.expanduser('~')
    return text if home == '/' else text.replace(f'{home}{os.sep}', f'~{os.sep}')
