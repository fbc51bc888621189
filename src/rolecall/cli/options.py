"""What the commands share: how they are declared, how their arguments are read, and how they report a failure."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecall.cli.inputs import OpenedConfig

__all__ = [
    'add_pattern_options',
    'add_rows_options',
    'add_selection_options',
    'add_task_options',
    'declare_command',
    'declare_group',
    'fail',
    'open_given',
    'print_note',
    'task_options',
    'whole_number',
]


def fail(reason: str) -> int:
    """Print why a command cannot be carried out; the result is its exit code."""
    print_note(reason)
    return 2


def print_note(note: str) -> None:
    """Print a line of ours to stderr. Control characters in it are written out, never sent to the terminal."""
    from rolecall.strings import printable

    print(f'rolecall: {printable(note)}', file=sys.stderr)


def declare_command(commands: Any, name: str, help_: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Declare a command with examples in its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=description,
        epilog=f'examples:\n{examples}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def declare_group(commands: Any, name: str, help_: str) -> Any:
    """Declare a command that only has subcommands; the result takes them."""
    parser = commands.add_parser(name, help=help_, description=f'{help_[0].upper()}{help_[1:]}.')
    return parser.add_subparsers(metavar='WHAT', required=True)


def add_pattern_options(parser: argparse.ArgumentParser) -> None:
    """The options that select datasets and models by name."""
    parser.add_argument('--dataset', metavar='PATTERN', help='only datasets whose abbr matches, e.g. "bbh-*"')
    parser.add_argument('--model', metavar='PATTERN', help='only models whose abbr matches')


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """The options that select datasets and models, and supply rows."""
    add_pattern_options(parser)
    parser.add_argument(
        '--data',
        metavar='SPLIT=FILE',
        nargs='+',
        type=_split_and_file,
        default=[],
        help='read rows from files: train=FILE test=FILE (or the split names of a task file)',
    )


def add_rows_options(parser: argparse.ArgumentParser) -> None:
    """The options that turn a file of rows into a config."""
    rows = parser.add_argument_group('a file of rows instead of a config')
    rows.add_argument('--template', metavar='TEXT', help=r'prompt template for each row; \n is a line break')
    rows.add_argument('--output-column', metavar='COLUMN', help='column that holds the answer; hidden from the prompt')
    rows.add_argument('--meta-template', metavar='NAME', help='model family to write the prompt for, e.g. chatml')
    rows.add_argument('--api', action='store_true', help='write the prompt as chat API messages')
    add_task_options(parser)


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """The options for task files of lm-evaluation-harness."""
    tasks = parser.add_argument_group('a task file of lm-evaluation-harness (.yaml, a folder, or lm_eval:NAME)')
    tasks.add_argument('--models', metavar='FILE', help='a config file whose models are asked')
    tasks.add_argument('--shots', metavar='N', type=whole_number, help='examples for each row')
    tasks.add_argument('--fewshot-seed', metavar='N', type=whole_number, help='seed for drawing them (default: 1234)')
    tasks.add_argument('--fewshot-as-multiturn', action='store_true', help='in chat, examples as turns of their own')
    tasks.add_argument('--system', metavar='TEXT', help='a system instruction')
    tasks.add_argument(
        '--as', dest='emulate', choices=['lm-eval'], help='draw examples as lm-eval does, defects included'
    )
    tasks.add_argument('--hub', action='store_true', help='let rows be downloaded from the hub')


def task_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `load_config` for task files."""
    return {
        'num_fewshot': arguments.shots,
        'fewshot_seed': arguments.fewshot_seed,
        'fewshot_as_multiturn': arguments.fewshot_as_multiturn,
        'system_instruction': arguments.system,
        'emulate': arguments.emulate,
        'hub': arguments.hub,
    }


def open_given(arguments: argparse.Namespace, path: str) -> OpenedConfig:
    """Open the config, the file of rows, or the task file that a command was given."""
    from rolecall.cli.inputs import open_config

    return open_config(
        path,
        models=arguments.models,
        task=task_options(arguments),
        template=arguments.template,
        output_column=arguments.output_column,
        meta_template=arguments.meta_template,
        api=arguments.api,
    )


def whole_number(text: str) -> int:
    """An integer that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'expected a non-negative integer, got {text!r}')
    return int(text)


def _split_and_file(text: str) -> tuple[str, str]:
    split, equals, file = text.partition('=')
    if not (split and equals and file):
        raise argparse.ArgumentTypeError(f'{text!r}: expected train=FILE or test=FILE (put CONFIG before --data)')
    return split, file
