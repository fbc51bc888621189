"""`rolecall runs control`: pause a run under way, change how many requests it has under way, let go of a model."""

from __future__ import annotations

import argparse
from typing import Any

from rolecall.ui.cli.options import declare_command, positive_number


def add_control(commands: Any) -> None:
    """Declare `rolecall runs control`."""
    parser = declare_command(
        commands,
        'control',
        _control,
        'pause a run under way, or change its concurrency',
        'Tell a run under way what is wanted of it. It looks between rows; rows under way are finished.',
        '  rolecall runs control runs/first --pause\n'
        '  rolecall runs control runs/first --resume --concurrency 8\n'
        '  rolecall runs control runs/first --drop gpt-4.1-mini     what it answered is kept',
    )
    parser.add_argument('out', metavar='RUN', help='the run directory')
    going = parser.add_mutually_exclusive_group()
    going.add_argument('--pause', dest='paused', action='store_true', default=None, help='start no further rows')
    going.add_argument('--resume', dest='paused', action='store_false', help='go on')
    parser.add_argument(
        '--concurrency', metavar='N', type=positive_number, help='requests to each model under way at once, at most'
    )
    parser.add_argument('--drop', metavar='MODEL', action='append', help='do not ask this model any more')


def _control(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.runs.brake import change_control

    changes = {name: getattr(arguments, name) for name in ('paused', 'concurrency')}
    wanted = {name: value for name, value in changes.items() if value is not None}
    print(change_control(Path(arguments.out), drop=arguments.drop or (), **wanted))
    return 0
