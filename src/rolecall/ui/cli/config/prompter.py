"""Show the prompt a prompter writes.

Show the prompt that a prompter of a Python file writes, and where every character comes from.

  rolecall config prompter app.py:answerer
  rolecall config prompter app.py:answerer --input '{"context": "…", "question": "…"}' --format openai
  rolecall config prompter app.py:answerer --meta-template chatml --json | jq .prompt
"""

from __future__ import annotations

import argparse
import sys

from rolecall.ui.cli.output import print_json


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.ui.cli.inputs import load_prompter, read_json_or_text
    from rolecall.ui.views.prompter_trace import show_trace, trace_as_json, trace_lines, trace_open_slots

    prompter = load_prompter(arguments.prompter)
    if arguments.meta_template:
        from rolecall.core.render.meta import meta_template

        prompter = prompter.bind(meta_template(arguments.meta_template))
    history = None if arguments.history is None else read_json_or_text(arguments.history)
    options = {'history': history, 'label': arguments.label, 'format': arguments.format}
    user_input = None if arguments.input is None else read_json_or_text(arguments.input)
    trace = trace_open_slots(prompter, **options) if user_input is None else prompter.trace(user_input, **options)
    if arguments.json:
        print_json(trace_as_json(trace))
    elif sys.stdout.isatty() or arguments.color:
        from rolecall.ui.views.terminal import make_console

        show_trace(trace, make_console(sys.stdout, force=arguments.color), whitespace=arguments.whitespace)
    else:
        print('\n'.join(trace_lines(trace)))
    return 0
