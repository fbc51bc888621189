"""The command line. Only argparse is imported before a command runs, so that `rolecall --help` is instant."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from rolecall._version import __version__
from rolecall.cli.common import fail
from rolecall.cli.prompter import add_prompter
from rolecall.cli.running import add_compare, add_export_results, add_models, add_report, add_run
from rolecall.cli.seeing import add_config, add_export_requests, add_lint, add_view
from rolecall.cli.sft import add_export_sft
from rolecall.errors import RolecallError

__all__ = ['main']

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_EXIT_CODES = """exit codes:
  0    done (lint: nothing to stop for; view --diff: no difference)
  1    lint: findings that count; view --diff: the requests differ; run: a row failed,
       a model could not be asked, or a judge said nothing
  2    a config, its data or the command line cannot be used; the reason is on stderr
  130  interrupted
  141  whoever read the output stopped reading"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _prepare_streams()
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except RolecallError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        _let_go_of_stdout()
        return 141
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        _let_go_of_stdout()
        return fail(f'the output cannot be written: {error.strerror}.')
    return code


def _let_go_of_stdout() -> None:
    """What is still to be written goes nowhere, so that leaving is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """What a stream cannot encode is written as an escape; pipes get UTF-8 whatever the locale."""
    if sys.stdout is None:  # it was closed before we came
        sys.stdout = open(os.devnull, 'w', encoding='utf-8')  # noqa: SIM115  # open for as long as we run
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace', encoding=None if stream.isatty() else 'utf-8')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='rolecall',
        description='Write the exact prompt every model receives, see it, check it, run it, and score it.',
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'rolecall {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    add_view(commands)
    add_lint(commands)
    add_run(commands)
    add_report(commands)
    add_compare(commands)
    export = commands.add_parser('export', help='write requests, results or training data to a file')
    exports = export.add_subparsers(metavar='WHAT', required=True)
    add_export_requests(exports)
    add_export_results(exports)
    add_export_sft(exports)
    add_models(commands)
    add_config(commands)
    add_prompter(commands)
    return parser


if __name__ == '__main__':
    sys.exit(main())
