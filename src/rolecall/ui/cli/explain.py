"""`rolecall explain`: why two numbers differ, cause by cause."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.ui.cli.languages import console_language, translate_message
from rolecall.ui.cli.options import declare_command, whole_number


def add_explain(commands: Any) -> None:
    """Declare `rolecall explain`."""
    parser = declare_command(
        commands,
        'explain',
        'say why two numbers differ, cause by cause',
        'Say why two scores differ. Stored replies are read and scored as on the other side, so reader, metric, '
        'denominator, rows, failures and cut answers get their exact share without a model. A and B are run '
        'directories, logs of lm-eval, Inspect, OpenCompass or AISBench, configs, or a published number.',
        '  rolecall explain runs/mine runs/theirs\n'
        '  rolecall explain results/lm-eval-log runs/mine --html why.html\n'
        '  rolecall explain config.py results/lm-eval-log\n'
        '  rolecall explain runs/mine 62.4',
    )
    parser.set_defaults(run=_explain)
    parser.add_argument('left', metavar='A', help='a run, a log, a config or a number')
    parser.add_argument('right', metavar='B', help='what it is compared with')
    parser.add_argument('--dataset', metavar='NAME', help='only this dataset')
    parser.add_argument('--model', metavar='NAME', help='only this model')
    parser.add_argument(
        '--config',
        metavar='CONFIG',
        nargs='+',
        default=[],
        help='configs of runs whose readers or metrics are code of their own: one for both sides, or one each',
    )
    parser.add_argument(
        '--flips', metavar='N', type=whole_number, default=3, help='changed rows shown per cause (default: 3)'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object per dataset × model')
    parser.add_argument('--html', metavar='FILE', help='write a page with the waterfall and the rows behind it')


def _explain(arguments: argparse.Namespace) -> int:
    from rolecall.insight.cause_shares import FLIPS, explain

    explanations = explain(
        arguments.left,
        arguments.right,
        dataset=arguments.dataset,
        model=arguments.model,
        configs=arguments.config,
        flips=max(FLIPS, arguments.flips),
    )
    return _show(explanations, arguments)


def _show(explanations: Any, arguments: argparse.Namespace) -> int:
    from rolecall.experiment.previews.jsonl import json_line
    from rolecall.runs.atomic import write_atomically
    from rolecall.ui.report.explanation_view import explanation_page, print_explanation
    from rolecall.ui.views.terminal import make_console

    if arguments.html:
        with write_atomically(arguments.html) as part:
            part.write_text(explanation_page(explanations), encoding='utf-8')
        print(translate_message(f'Wrote {arguments.html}'), file=sys.stderr)
    for explanation in explanations:
        if arguments.json:
            print(json_line(explanation.as_json()))
        else:
            to = make_console(sys.stdout, translate=console_language())
            print_explanation(explanation, to, flips=arguments.flips)
    return 0
