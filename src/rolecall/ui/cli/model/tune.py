"""Fine-tune a local model on rows with answers.

Fine-tune a local model: every prompt is worded as inference words it, and the answers are trained on. The same
command after an interruption resumes at the last checkpoint.

  rolecall model tune hf:models/smollm2 rows.jsonl --prompter app.py:bot --answer-column answer --lora 16 -o tuned
  rolecall run benchmark.jsonl --model tuned
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.options import add_options, declare_options, read_options


def declare(parser: argparse.ArgumentParser) -> None:
    from rolecall.apps.tuning.tune_settings import TuneSettings

    add_options(parser, 'model tune')
    declare_options(TuneSettings, parser.add_argument_group('training'))


def execute(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from rolecall.apps.sft.prompter_examples import Columns
    from rolecall.apps.sft.training_programs import Aim
    from rolecall.apps.tuning.tune import tune
    from rolecall.apps.tuning.tune_settings import TuneSettings
    from rolecall.strings import count_noun
    from rolecall.ui.cli.inputs import load_prompter, named_model_entry
    from rolecall.ui.views.tune_progress import TuneProgress

    typed = asdict(read_options(TuneSettings, arguments))
    settings = TuneSettings.read({name: value for name, value in typed.items() if value is not None})
    result = tune(
        named_model_entry(arguments.model).entry,
        arguments.rows,
        load_prompter(arguments.prompter),
        Columns(arguments.answer_column, arguments.input_column, arguments.history_column, arguments.tools_column),
        arguments.output,
        settings=settings,
        aim=Aim(arguments.train_on == 'all-answers', arguments.end.replace('\\n', '\n')),
        limit=arguments.limit,
        skip=arguments.skip,
        overwrite=arguments.overwrite,
        listener=TuneProgress(),
    )
    held_out = '' if result.held_out_loss is None else f', held-out loss {result.held_out_loss:.4f}'
    before = '' if result.held_out_before is None else f' ({result.held_out_before:.4f} before)'
    print(f'{result.folder}: {count_noun(result.steps, "update")}, loss {result.loss:.4f}{held_out}{before}')
    return 0
