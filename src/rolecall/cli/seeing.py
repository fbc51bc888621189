"""The commands that show, check and export prompts: view, lint, export requests, config show."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.cli.common import add_picks, add_wording, command, fail, number

if TYPE_CHECKING:
    from rolecall.cli.sources import Source
    from rolecall.views.shapes import Shape

__all__ = ['add_config', 'add_export_requests', 'add_lint', 'add_view']


def add_view(commands: Any) -> None:
    """Declare `rolecall view`."""
    parser = command(
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
    add_picks(parser)
    parser.add_argument('--row', metavar='N', nargs='+', type=number, default=[], help='rows by number, from 0')
    parser.add_argument('-n', '--count', metavar='COUNT', type=number, help='the first COUNT rows of each dataset')
    parser.add_argument('--all', action='store_true', help='every pair that fits, without asking')
    parser.add_argument('--label', help='only this label')
    parser.add_argument('--turn', metavar='N', type=number, help='only this turn of dialogues, from 0')
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
    add_wording(parser)


def add_lint(commands: Any) -> None:
    """Declare `rolecall lint`."""
    parser = command(
        commands,
        'lint',
        'look for trouble before a run',
        'Look for what would spoil a run: unfilled fields, answers that show, shots that are lost, …',
        '  rolecall lint config.py --strict\n'
        '  rolecall lint config.py --silence non-string-value role-fell-back --json\n'
        "  rolecall lint qa.jsonl --template 'Q: {question}\\nA: {answer}' --output-column answer\n"
        '  rolecall lint --rules',
    )
    parser.set_defaults(run=_lint)
    parser.add_argument('config', nargs='?', metavar='CONFIG', help='a config file, or a file of rows with --template')
    add_picks(parser)
    parser.add_argument('--strict', action='store_true', help='exit with 1 for warnings, too, not only for errors')
    parser.add_argument('--silence', metavar='RULE', nargs='+', default=[], help='rules that do not count')
    parser.add_argument('--limit', metavar='N', type=number, default=200, help='rows of each dataset looked at (200)')
    parser.add_argument('--json', action='store_true', help='one JSON object per finding')
    parser.add_argument('--rules', action='store_true', help='list the rules and stop')
    add_wording(parser)


def add_export_requests(exports: Any) -> None:
    """Declare `rolecall export requests`."""
    parser = command(
        exports,
        'requests',
        'every request as an OpenAI batch file',
        'Write every request as one line of an OpenAI batch file.',
        '  rolecall export requests config.py -o requests.jsonl\n'
        '  rolecall export requests config.py --model gpt --limit 100 -o requests.jsonl.gz',
    )
    parser.set_defaults(run=_export_requests)
    parser.add_argument('config', metavar='CONFIG', help='a config file, or a file of rows with --template')
    add_picks(parser)
    parser.add_argument('--limit', metavar='N', type=number, help='only the first N rows of each dataset')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='.gz compresses; - is stdout (the default)')
    add_wording(parser)


def add_config(commands: Any) -> None:
    """Declare `rolecall config show`."""
    configs = commands.add_parser('config', help='look at configs').add_subparsers(metavar='WHAT', required=True)
    parser = command(
        configs,
        'show',
        'the config after imports and inheritance',
        'Print a config as it is understood: imports resolved, names in the order of the file.',
        '  rolecall config show config.py\n  rolecall config show config.py --json | jq .datasets[0].abbr',
    )
    parser.set_defaults(run=_config_show)
    parser.add_argument('config', metavar='FILE')
    parser.add_argument('--json', action='store_true', help='as JSON')


def _source(arguments: argparse.Namespace, path: str) -> Source:
    from rolecall.cli.sources import open_source

    return open_source(
        path,
        template=arguments.template,
        output_column=arguments.output_column,
        meta_template=arguments.meta_template,
        api=arguments.api,
    )


def _view(arguments: argparse.Namespace) -> int:
    from rolecall.cli.picking import Quit, choose, choose_by_menu
    from rolecall.cli.sources import read_replies
    from rolecall.cli.view import Wish, view

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
        return fail('view needs a CONFIG (rolecall view --help).')
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
        complain=fail,
        tokens=arguments.tokens or arguments.tokenizer is not None,
        tokenizer=arguments.tokenizer,
    )
    return 0 if shown else 2


def _diff(arguments: argparse.Namespace, wish: Any) -> int:
    from rolecall.cli.picking import choose
    from rolecall.cli.view import compare, sides_of_diff

    if arguments.tokens or arguments.tokenizer is not None:
        return fail('--tokens shows one request after the other; it does not go with --diff.')
    one, other = arguments.diff
    if os.path.isfile(one) and os.path.isfile(other):
        sources = [_source(arguments, path) for path in (one, other)]
        left, right = ((source, choose(source.plan, dataset=wish.dataset, model=wish.model)) for source in sources)
        sides = (left, right)
    elif arguments.config is None:
        return fail('--diff needs a CONFIG, or the names of two config files.')
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
        return fail(_lint_needs(arguments.silence))
    from rolecall.datasets.formats import is_data_file
    from rolecall.lint.linter import lint_config

    rows = is_data_file(Path(arguments.config)) or arguments.template is not None
    findings = lint_config(
        _source(arguments, arguments.config).config if rows else arguments.config,
        dataset=arguments.dataset,
        model=arguments.model,
        silence=arguments.silence,
        limit=arguments.limit,
        data={'*': dict(arguments.data)} if arguments.data else None,
    )
    for line in findings_as_json(findings) if arguments.json else finding_lines(findings):
        print(line)
    return 1 if stops(findings, strict=arguments.strict) else 0


def _lint_needs(silenced: Sequence[str]) -> str:
    if silenced:
        return f'lint needs a CONFIG, and {silenced[-1]!r} was taken for a rule: write the CONFIG before --silence.'
    return 'lint needs a CONFIG (rolecall lint --help).'


def _export_requests(arguments: argparse.Namespace) -> int:
    from rolecall.cli.exporting import export_requests
    from rolecall.cli.picking import choose

    source = _source(arguments, arguments.config)
    chosen = choose(source.plan, dataset=arguments.dataset, model=arguments.model)
    export_requests(source, chosen, arguments.output, limit=arguments.limit, data=dict(arguments.data))
    return 0


def _config_show(arguments: argparse.Namespace) -> int:
    from rolecall.config.files import load_config
    from rolecall.config.printing import format_config

    if Path(arguments.config).suffix not in ('.py', ''):
        return fail(f'{arguments.config}: this is no config, which is a Python file.')
    print(format_config(load_config(arguments.config), style='json' if arguments.json else 'python'))
    return 0
