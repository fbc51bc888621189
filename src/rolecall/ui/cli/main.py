"""The command line. Only argparse and the command's own file are imported before it runs, so it starts fast."""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from rolecall._version import __version__
from rolecall.errors import RolecallError, close_match
from rolecall.ui.cli.languages import LANGUAGES, choose_language, translate_parser
from rolecall.ui.cli.options import add_options
from rolecall.ui.cli.output import fail
from rolecall.ui.cli.streams import discard, prepare_streams
from rolecall.ui.views.chinese import set_language

_COMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ('init', 'view', 'lint', 'run', 'report', 'score', 'compare', 'sweep', 'explain', 'bench', 'web', 'doctor'), ()
    ),
    'runs': ('list', 'note', 'control', 'merge', 'collect', 'import', 'scan', 'label', 'reread', 'reproduce'),
    'export': ('requests', 'results', 'bundle', 'sft', 'mlflow'),
    'config': ('show', 'list', 'schema', 'prompter'),
    'model': ('pull', 'tune'),
    'completion': (),
}
"""In the order of `--help`, groups with their members. A command is a file: its docstring is its help (a sentence, then
details, then examples), `execute` runs it and gives the exit code. Its options stand in `options.tsv`; `declare` adds
those that it shares with others, or that Python declares."""
EXIT_CODES = """exit codes:
  0    success (lint: no findings that count; view --diff: no differences)
  1    lint: findings that count; view --diff: the requests differ;
       run: a row failed, a model was unreachable, or a judge returned no
       verdict; runs merge: they contradict each other
  2    the config, its data or the command line is invalid, or the linter
       finds errors before a run; the reason is on stderr
  3    compare --gate: too few rows to tell, or not measured (0: not worse,
       1: worse); runs collect: batches have not ended, or the next ones have to
       be submitted
  130  interrupted
  141  broken pipe: the reader closed the output"""
_BETWEEN_COLLECTIONS = 20_000
"""Garbage is collected less often: a command makes many objects and few cycles, which saves a tenth of its time."""
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help in which descriptions are wrapped, and examples stay as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if '\n' in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class _Parser(argparse.ArgumentParser):
    """argparse, with errors that look like all others: where, what is wrong, and what to do."""

    def error(self, message: str) -> NoReturn:
        where, _, what = message.partition(': ')
        if not where.startswith('argument '):
            where, what = '', message
        invalid = _INVALID_CHOICE.match(what)
        close = close_match(invalid[1], re.findall(r"[^', ]+", invalid[2])) if invalid else None
        self._refuse(
            where.removeprefix('argument '), f'{what.rstrip(".")}.', f"Did you mean '{close}'?" if close else ''
        )

    def _refuse(self, *lines: str) -> NoReturn:
        sys.exit(fail('\n  '.join(filter(None, (*lines, f'`{self.prog} --help` lists the options.')))))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; an unknown option is an error of its command, with a suggestion."""
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [word.partition('=')[0] for word in unknown if word.startswith('--')]
            meant = filter(None, (close_match(option, self._option_string_actions) for option in options))
            if not any(word.startswith('-') for word in unknown):
                words = [*(sys.argv if args is None else args)]
                before = words[: words.index(unknown[0])]
                flag = self._option_string_actions.get(before[-1]) if before else None
                remedy = f'{before[-1]} takes no value.' if flag is not None and flag.nargs == 0 else ''
                behind = any(word.startswith('-') for word in before)
                self._refuse(
                    f'unexpected argument: {" ".join(unknown)}',
                    remedy,
                    'Arguments stand before options.' if behind else '',
                )
            self._refuse(f'unknown option: {" ".join(unknown)}', *(f"Did you mean '{close}'?" for close in meant))
        return arguments, unknown


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    prepare_streams()
    words = sys.argv[1:] if argv is None else argv
    language, typed = choose_language(words)
    set_language(language)
    if place := _find_group(typed):
        return fail(f'`rolecall {" ".join(typed[:1])}` is `rolecall {place}`.')
    parser = build_parser(typed[:1] or ['--help'])
    if language == 'zh':
        translate_parser(parser)
    arguments = parser.parse_args(words)
    before = gc.get_threshold()
    gc.set_threshold(_BETWEEN_COLLECTIONS)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except RolecallError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        discard(sys.stdout)
        return 141
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        discard(sys.stdout)
        return fail(f'cannot write the output: {error.strerror}.')
    finally:
        gc.set_threshold(*before)
        if argv is None:
            gc.freeze()  # the process ends, and need not search all its objects for cycles (an eighth of a short run)
    return code


def build_parser(typed: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with the typed command; for `()` with all commands, for other words with their names alone."""
    parser = _Parser(
        prog='rolecall',
        description='Write the exact prompt every model receives, inspect it, lint it, run it, and score it.',
        epilog=EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'rolecall {__version__}')
    parser.add_argument(
        '--lang',
        choices=LANGUAGES,
        help='language of the help: en, zh (default: that of ROLECALL_LANG or the locale)',
    )
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    named = [name for name in _COMMANDS if name in typed]
    for name in named or _COMMANDS:
        if typed and not named:
            _add_parser(commands, name)
        elif members := _COMMANDS[name]:
            group, _ = _add_parser(commands, name)
            inner = group.add_subparsers(metavar='WHAT', required=True)
            for member in members:
                _declare(inner, f'{name}.{member}')
        else:
            _declare(commands, name)
    return parser


def _declare(commands: Any, path: str) -> None:
    parser, module = _add_parser(commands, path)
    parser.set_defaults(run=module.execute)
    if hasattr(module, 'declare'):
        module.declare(parser)
    else:
        add_options(parser, path.replace('.', ' '))


def _add_parser(commands: Any, path: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser of a file or a folder, with the help of its docstring (which Python -OO leaves out)."""
    module = importlib.import_module(f'rolecall.ui.cli.{path}')
    summary, details, examples, *_ = (*(module.__doc__ or '').strip().split('\n\n', 2), '', '')
    parser = commands.add_parser(
        path.rpartition('.')[2],
        help=f'{summary[:1].lower()}{summary[1:-1]}',
        description=' '.join(details.split()) or summary,
        epilog=f'examples:\n{examples}' if examples else None,
        formatter_class=HelpFormatter,
    )
    return parser, module


def _find_group(typed: Sequence[str]) -> str | None:
    """The command of a group that was typed without its group; runs without a command are listed."""
    if typed[:1] == ['runs'] and not {*typed[1:2]} & {*_COMMANDS['runs'], '-h', '--help'}:
        return 'runs list'
    return next((f'{group} {typed[0]}' for group in _COMMANDS if typed and typed[0] in _COMMANDS[group]), None)


if __name__ == '__main__':
    sys.exit(main())
