"""Name, annotate and tag a run.

Give a run a name, a note and tags, which `runs list` and the page show and search. Without an option, print them.

  rolecall runs note runs/gsm8k-2 --name "shorter prompt" --tag paper
  rolecall runs note runs/gsm8k-2 --text "two shots less; see the meeting" --untag draft
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.output import print_lines


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.store.labels import RunNotes
    from rolecall.runs.store.run_reader import RunReader

    with RunReader(arguments.directory) as run:
        before = RunNotes.read(run.directory)
        notes = before.change(name=arguments.name, note=arguments.text, add=arguments.tag, remove=arguments.untag)
        if notes != before:
            notes.write(run.directory)
    print_lines(filter(None, (notes.name, notes.note, ' '.join(f'#{tag}' for tag in notes.tags))))
    return 0
