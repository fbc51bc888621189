"""The command line. Only argparse is imported before a command runs, so that `rolecall --help` is instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolecall._version import __version__
from rolecall.errors import RolecallError

if TYPE_CHECKING:
    from rolecall.views.shapes import Shape
    from rolecall.views.sources import Source

__all__ = ['main']

_EXIT_CODES = """exit codes:
  0    done (lint: nothing to stop for; view --diff: no difference)
  1    lint: findings that count; view --diff: the requests differ
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
        return _fail(str(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _prepare_streams() -> None:
    """What a stream cannot encode is written as an escape; pipes get UTF-8 whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace', encoding=None if stream.isatty() else 'utf-8')


def _fail(reason: str) -> int:
    print(f'rolecall: {reason}', file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='rolecall',
        description='See, check and export the exact prompt every model receives.',
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'rolecall {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    _add_view(commands)
    _add_lint(commands)
    _add_export(commands)
    _add_config(commands)
    return parser


def _command(commands: Any, name: str, help_: str, description: str, examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=description,
        epilog=f'examples:\n{examples}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_picks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--dataset', metavar='PATTERN', help='only datasets whose abbr fits, e.g. "bbh-*"')
    parser.add_argument('--model', metavar='PATTERN', help='only models whose abbr fits')
    parser.add_argument(
        '--data', metavar='SPLIT=FILE', nargs='+', type=_split_and_file, default=[], help='rows: train=FILE test=FILE'
    )


def _add_wording(parser: argparse.ArgumentParser) -> None:
    worded = parser.add_argument_group('a file of rows in place of a config')
    worded.add_argument('--template', metavar='TEXT', help=r'how a row is worded; \n is a line break')
    worded.add_argument('--output-column', metavar='COLUMN', help='the column of the answer, which stays hidden')
    worded.add_argument('--meta-template', metavar='NAME', help='a model family to address, e.g. chatml')
    worded.add_argument('--api', action='store_true', help='address a chat API')


def _add_view(commands: Any) -> None:
    parser = _command(
        commands,
        'view',
        'show what each model will receive',
        'Show requests before anything is sent: every character with its origin, and what happened to the words.',
        "  rolecall view config.py --dataset 'bbh-*' --model qwen -n 2\n"
        '  rolecall view config.py --row 7 --tokens --tokenizer models/qwen\n'
        '  rolecall view config.py --diff qwen llama\n'
        "  rolecall view qa.jsonl --template 'Q: {question}\\nA: {answer}' --output-column answer --api\n"
        '  rolecall view config.py --all --json | jq -r .fingerprint',
    )
    parser.set_defaults(run=_view)
    parser.add_argument('config', nargs='?', metavar='CONFIG', help='a config file, or a file of rows with --template')
    _add_picks(parser)
    parser.add_argument('--row', metavar='N', nargs='+', type=_number, default=[], help='rows by number, from 0')
    parser.add_argument('-n', '--count', metavar='COUNT', type=_number, help='the first COUNT rows of each dataset')
    parser.add_argument('--all', action='store_true', help='every pair that fits, without asking')
    parser.add_argument('--label', help='only this label')
    parser.add_argument('--turn', metavar='N', type=_number, help='only this turn of dialogues, from 0')
    parser.add_argument(
        '--replies', metavar='FILE', help="the model's earlier replies: a JSON list, or one on each line"
    )
    parser.add_argument('--diff', nargs=2, metavar=('A', 'B'), help='two models, two datasets, or two config files')
    parser.add_argument('--whitespace', action='store_true', help='make blanks and special tokens visible')
    parser.add_argument('--tokens', action='store_true', help='token ids and boundaries, counts, room in the context')
    parser.add_argument('--tokenizer', metavar='SOURCE', help='tokenizer.json, model folder, .gguf, or tiktoken:NAME')
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument('--json', action='store_true', help='one JSON object per line')
    shape.add_argument('--plain', action='store_true', help='lines without colour (the default in a pipe)')
    shape.add_argument('--color', action='store_true', help='colours even in a pipe')
    _add_wording(parser)


def _add_lint(commands: Any) -> None:
    parser = _command(
        commands,
        'lint',
        'look for trouble before a run',
        'Look for what would spoil a run: unfilled fields, answers that show, shots that are lost, …',
        '  rolecall lint config.py --strict\n'
        '  rolecall lint config.py --silence non-string-value role-fell-back --json\n'
        '  rolecall lint --rules',
    )
    parser.set_defaults(run=_lint)
    parser.add_argument('config', nargs='?', metavar='CONFIG')
    _add_picks(parser)
    parser.add_argument('--strict', action='store_true', help='exit with 1 if there is any finding')
    parser.add_argument('--silence', metavar='RULE', nargs='+', default=[], help='rules that do not count')
    parser.add_argument('--limit', metavar='N', type=_number, default=200, help='rows of each dataset looked at (200)')
    parser.add_argument('--json', action='store_true', help='one JSON object per finding')
    parser.add_argument('--rules', action='store_true', help='list the rules and stop')


def _add_export(commands: Any) -> None:
    exports = commands.add_parser('export', help='write requests to a file').add_subparsers(
        metavar='WHAT', required=True
    )
    parser = _command(
        exports,
        'requests',
        'every request as an OpenAI batch file',
        'Write every request as one line of an OpenAI batch file.',
        '  rolecall export requests config.py -o requests.jsonl\n'
        '  rolecall export requests config.py --model gpt --limit 100 -o requests.jsonl.gz',
    )
    parser.set_defaults(run=_export_requests)
    parser.add_argument('config', metavar='CONFIG', help='a config file, or a file of rows with --template')
    _add_picks(parser)
    parser.add_argument('--limit', metavar='N', type=_number, help='only the first N rows of each dataset')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='.gz compresses; - is stdout (the default)')
    _add_wording(parser)


def _add_config(commands: Any) -> None:
    configs = commands.add_parser('config', help='look at configs').add_subparsers(metavar='WHAT', required=True)
    parser = _command(
        configs,
        'show',
        'the config after imports and inheritance',
        'Print a config as it is understood: imports resolved, names in the order of the file.',
        '  rolecall config show config.py\n  rolecall config show config.py --json | jq .datasets[0].abbr',
    )
    parser.set_defaults(run=_config_show)
    parser.add_argument('config', metavar='FILE')
    parser.add_argument('--json', action='store_true', help='as JSON')


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number from 0')
    return int(text)


def _split_and_file(text: str) -> tuple[str, str]:
    split, equals, file = text.partition('=')
    if not (split and equals and file):
        raise argparse.ArgumentTypeError(f'{text!r}: write train=FILE or test=FILE')
    return split, file


def _source(arguments: argparse.Namespace, path: str) -> Source:
    from rolecall.views.sources import open_source

    return open_source(
        path,
        template=arguments.template,
        output_column=arguments.output_column,
        meta_template=arguments.meta_template,
        api=arguments.api,
    )


def _view(arguments: argparse.Namespace) -> int:
    from rolecall.views.picking import Quit, choose, choose_by_menu
    from rolecall.views.sources import read_replies
    from rolecall.views.viewing import Wish, view

    wish = Wish(
        dataset=arguments.dataset,
        model=arguments.model,
        rows=tuple(arguments.row),
        count=arguments.count,
        label=arguments.label,
        turn=arguments.turn,
        replies=read_replies(arguments.replies) if arguments.replies else None,
        data=dict(arguments.data),
    )
    if arguments.diff:
        return _diff(arguments, wish)
    if arguments.config is None:
        return _fail('view needs a CONFIG (rolecall view --help).')
    source = _source(arguments, arguments.config)
    chosen = choose(source.plan, dataset=wish.dataset, model=wish.model)
    if chosen.pairs > 1 and not arguments.all and _is_conversation(arguments):
        try:
            chosen = choose_by_menu(chosen, ask=input, say=print)
        except (Quit, EOFError):
            return 0
    shown = view(
        source,
        chosen,
        wish,
        _shape(arguments),
        complain=_fail,
        tokens=arguments.tokens or arguments.tokenizer is not None,
        tokenizer=arguments.tokenizer,
    )
    return 0 if shown else 2


def _diff(arguments: argparse.Namespace, wish: Any) -> int:
    from rolecall.views.picking import choose
    from rolecall.views.viewing import compare, sides_of_diff

    one, other = arguments.diff
    if os.path.isfile(one) and os.path.isfile(other):
        sources = [_source(arguments, path) for path in (one, other)]
        left, right = ((source, choose(source.plan, dataset=wish.dataset, model=wish.model)) for source in sources)
        sides = (left, right)
    elif arguments.config is None:
        return _fail('--diff needs a CONFIG, or the names of two config files.')
    else:
        sides = sides_of_diff(_source(arguments, arguments.config), (one, other), wish)
    return 0 if compare(sides, wish, _shape(arguments)) else 1


def _is_conversation(arguments: argparse.Namespace) -> bool:
    asked_for_lines = arguments.json or arguments.plain
    return sys.stdin.isatty() and sys.stdout.isatty() and not asked_for_lines


def _shape(arguments: argparse.Namespace) -> Shape:
    from rolecall.views.shapes import JsonShape, PlainShape, TerminalShape

    if arguments.json:
        return JsonShape(sys.stdout)
    on_terminal = sys.stdout.isatty() and os.environ.get('TERM') != 'dumb'
    if arguments.plain or not (on_terminal or arguments.color):
        return PlainShape(sys.stdout, arguments.whitespace)
    from rolecall.views.terminal import console

    return TerminalShape(console(sys.stdout, force=arguments.color), arguments.whitespace)


def _lint(arguments: argparse.Namespace) -> int:
    from rolecall.views.findings import finding_lines, findings_as_json, rule_lines, stops

    if arguments.rules:
        print('\n'.join(rule_lines()))
        return 0
    if arguments.config is None:
        return _fail('lint needs a CONFIG (rolecall lint --help).')
    from rolecall.linting import lint_config

    findings = lint_config(
        arguments.config,
        dataset=arguments.dataset,
        model=arguments.model,
        silence=arguments.silence,
        limit=arguments.limit,
        data={'*': dict(arguments.data)} if arguments.data else None,
    )
    for line in findings_as_json(findings) if arguments.json else finding_lines(findings):
        print(line)
    return 1 if stops(findings, strict=arguments.strict) else 0


def _export_requests(arguments: argparse.Namespace) -> int:
    from rolecall.views.exporting import export_requests
    from rolecall.views.picking import choose

    source = _source(arguments, arguments.config)
    chosen = choose(source.plan, dataset=arguments.dataset, model=arguments.model)
    export_requests(source, chosen, arguments.output, limit=arguments.limit, data=dict(arguments.data))
    return 0


def _config_show(arguments: argparse.Namespace) -> int:
    from rolecall.config.files import load_config
    from rolecall.config.printing import format_config

    print(format_config(load_config(arguments.config), style='json' if arguments.json else 'python'))
    return 0


if __name__ == '__main__':
    sys.exit(main())
