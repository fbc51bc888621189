"""Write a first config for a file of rows.

Look at the columns of a file of rows, ask three questions, and write a commented config that runs.

  rolecall init rows.csv
  rolecall init rows.jsonl --yes -o eval.py --model openai/gpt-4.1-mini
  rolecall init rows.jsonl --answer label --choices A,B,C,D --shots 5      what run asks with these options
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rolecall.ui.cli.options import add_options, add_selection_options, add_source_options, open_experiment
from rolecall.ui.cli.output import fail, print_lines, print_note

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.experiment.opening.written_configs import Guess


def declare(parser: argparse.ArgumentParser) -> None:
    add_options(parser, 'init')
    parser.set_defaults(parser=parser)
    own = {*parser._actions}
    add_selection_options(parser)
    add_source_options(parser, asks_models=True)
    parser.add_argument('--silence', nargs='+', default=[])
    for action in parser._actions:
        if action not in own and action.dest not in _SHOWN:
            action.help = argparse.SUPPRESS  # `rolecall run --help` lists them


_SHOWN = ('model', 'encoding', 'template', 'answer', 'choices', 'metric', 'shots')
_GUESSED_WITH = ('rows', 'yes', 'output', 'force', 'encoding', 'model', 'lang', 'run', 'parser')
"""Options with which the columns are guessed; any other is an option of `rolecall run`, which says what is asked."""


def _save(arguments: argparse.Namespace, target: Path) -> int:
    """Write the config that the options of `rolecall run` stand for."""
    from rolecall.ui.cli.run import save_experiment

    experiment = open_experiment(arguments, arguments.rows, asks_models=True)
    target.unlink(missing_ok=True)
    save_experiment(experiment, target)
    print_lines([f'Wrote {target}.', f'Next: rolecall view {target}, then rolecall run {target}'])
    return 0


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.experiment.opening.written_configs import guess_columns, write_config
    from rolecall.models.model_names import DEFAULT_MODEL, resolve_model
    from rolecall.runs.atomic import write_atomically

    rows = Path(arguments.rows)
    if not rows.is_file():
        return fail(f'{rows}: no such file.')
    stem = rows.name.split('.')[0]
    default = f'{stem}_eval.py' if _hides_module(Path(f'{stem}.py')) else f'{stem}.py'
    target = Path(arguments.output or default)
    options = {name: value for name, value in vars(arguments).items() if name not in _GUESSED_WITH}
    changed = [name for name, value in options.items() if value != arguments.parser.get_default(name)]
    as_run = len(arguments.model) > 1 or bool(changed)
    if target.suffix != '.py' and not as_run:
        return fail(f'{target}: the config is written as Python; give a name that ends in .py.')
    if _hides_module(target):
        return fail(f'{target} would hide the Python module {target.stem!r}. Choose another: -o {target.stem}_eval.py')
    if target.exists() and not arguments.force:
        return fail(f'{target} exists. Give another name with -o, or replace it with --force.')
    if as_run:
        return _save(arguments, target)
    model = next(iter(arguments.model), DEFAULT_MODEL)
    resolve_model(model, where='--model')
    guess = guess_columns(rows, arguments.encoding)
    if not arguments.yes and sys.stdin.isatty():
        try:
            guess = _ask(guess)
        except EOFError:
            return fail('nothing was written.')
    notes: list[str] = []
    text = write_config(rows, guess, model=model, target=target, notes=notes)
    with write_atomically(target) as part, open(part, 'w', encoding='utf-8') as config:
        config.write(text)
    scored = (
        f'answer {guess.answer!r}, scored by {guess.metric}' if guess.answer else 'no answer column found: not scored'
    )
    print_lines([f'Wrote {target}: question {guess.question!r}, {scored}.'])
    for note in notes:
        print_note(note)
    print_lines([f'Next: rolecall view {target}, then rolecall run {target}'])
    return 0


def _hides_module(target: Path) -> bool:
    """Whether Python started in the folder of `target` would import it in place of an installed module."""
    from importlib.util import find_spec

    if target.stem in sys.stdlib_module_names:
        return True
    spec = find_spec(target.stem) if target.stem.isidentifier() else None
    return spec is not None and spec.origin != str(target.absolute())


def _ask(guess: Guess) -> Guess:
    """Three questions; Enter takes what was guessed."""
    from dataclasses import replace

    from rolecall.experiment.opening.rows_config import METRIC_NAMES
    from rolecall.experiment.opening.written_configs import guess_answers

    print_lines([f'Columns: {", ".join(guess.columns)}'])
    question = _choose('Which column is the question?', guess.question, guess.columns)
    answer = _choose('Which column is the answer (- for none)?', guess.answer or '-', (*guess.columns, '-'))
    guess = guess_answers(replace(guess, question=question, answer=None if answer == '-' else answer))
    if guess.answer is None:
        return guess
    print(f'Metrics: {", ".join(METRIC_NAMES)}')
    metric = _choose('How are answers compared?', guess.metric, METRIC_NAMES)
    return replace(guess, metric=metric)


def _choose(question: str, usual: str, allowed: tuple[str, ...]) -> str:
    from rolecall.errors import did_you_mean

    while True:
        typed = input(f'{question} [{usual}] ').strip() or usual
        if typed in allowed:
            return typed
        print(f'{typed!r}: {did_you_mean(typed, allowed)}')
