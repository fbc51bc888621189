r"""Write rows as fine-tuning data.

Write rows as fine-tuning data. Each line starts with exactly the request that inference sends, followed by the
answer.

  rolecall export sft rows.jsonl --prompter app.py:answerer --answer-column answer --model smollm2
  rolecall export sft config.py --dataset gsm8k --model qwen --form tokens -o sft.jsonl.gz
  rolecall export sft qa.jsonl --template 'Q: {question}\nA: {answer}' --answer answer --meta-template chatml --form text
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rolecall.ui.cli.options import (
    add_options,
    add_selection_options,
    add_source_options,
    open_experiment,
)
from rolecall.ui.cli.output import fail, print_note

if TYPE_CHECKING:
    from rolecall.apps.sft.training_file import Form, Given
    from rolecall.apps.sft.training_programs import Aim
    from rolecall.experiment.experiment import Experiment
    from rolecall.experiment.opening.model_entries import ModelEntry
    from rolecall.models.local_engine import PromptEncoder
    from rolecall.models.tokenizers.tokenizer import Tokenizer


_TEXT_FORMS = ('text', 'tokens', 'alpaca')
_LLAMA_FACTORY = ('sharegpt', 'alpaca')


def declare(parser: argparse.ArgumentParser) -> None:
    add_selection_options(parser)
    add_options(parser, 'export sft')
    add_source_options(parser)


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.apps.sft.training_file import SftReport, entries
    from rolecall.ui.cli.export.writing import write_with_progress

    if arguments.prompter and not arguments.answer_column:
        return fail('--prompter needs --answer-column: the column that holds the answer.')
    if ignored := _find_ignored_option(arguments):
        other = 'a config or --template' if arguments.prompter else '--prompter'
        return fail(f'{ignored} only applies to {other}.')
    if arguments.prompter and len(arguments.model) > 1:
        return fail('training data is written for one model: give --model once.')
    if arguments.form in _LLAMA_FACTORY and arguments.output.endswith('.gz'):
        return fail(f'LLaMA-Factory reads no .gz files: write --form {arguments.form} to a .jsonl file.')
    examples, encoder = _of_prompter(arguments) if arguments.prompter else _of_config(arguments)
    report = SftReport()
    lines = entries(examples, report, form=arguments.form, encoder=encoder, skip=arguments.skip)
    write_with_progress(lines, arguments.output, 'example')
    if arguments.form in _LLAMA_FACTORY and arguments.output != '-':
        _write_dataset_info(Path(arguments.output), arguments.form)
    for remark in report.remarks():
        print_note(remark)
    return 0


def _find_ignored_option(arguments: argparse.Namespace) -> str | None:
    """An option that was given and would have no effect."""
    if arguments.prompter:
        ignored = {
            '--dataset': arguments.dataset,
            '--data': arguments.data,
            '--split': arguments.split,
            '--template': arguments.template,
            '--answer': arguments.answer,
            '--api': arguments.api,
        }
    else:
        ignored = {
            '--answer-column': arguments.answer_column,
            '--input-column': arguments.input_column,
            '--history-column': arguments.history_column,
            '--tools-column': arguments.tools_column,
        }
    return next((name for name, value in ignored.items() if value), None)


def _of_prompter(arguments: argparse.Namespace) -> tuple[Iterator[Given], PromptEncoder | None]:
    from rolecall.apps.sft.prompter_examples import Columns, PrompterSide, prompter_examples
    from rolecall.core.render.meta import meta_template
    from rolecall.sources.datasets import open_file
    from rolecall.ui.cli.inputs import load_prompter, named_model_entry

    prompter = load_prompter(arguments.prompter)
    if arguments.meta_template:
        prompter = prompter.bind(meta_template(arguments.meta_template))
    entry = named_model_entry(arguments.model[0]) if arguments.model else None
    side = PrompterSide(prompter) if entry is None else PrompterSide.for_model(prompter, entry)
    tokenizer = _find_tokenizer(arguments, entry)
    encoder = None if tokenizer is None else side.encoder(tokenizer)
    if side.words_by_default and arguments.form in _TEXT_FORMS:
        print_note('the prompter is not bound to a model, so the default markers are used: name one with --model.')
    columns = Columns(arguments.answer_column, arguments.input_column, arguments.history_column, arguments.tools_column)
    rows = open_file(arguments.source)
    examples = prompter_examples(side, rows, columns, form=arguments.form, aim=_aim(arguments), limit=arguments.limit)
    return examples, encoder


def _of_config(arguments: argparse.Namespace) -> tuple[Iterator[Given], PromptEncoder | None]:
    from rolecall.apps.sft.pair_examples import entry_encoder, pair_examples

    experiment = open_experiment(arguments, arguments.source)
    model_entry = _only_model(experiment)
    tokenizer = _find_tokenizer(arguments, model_entry)
    encoder = None if tokenizer is None else entry_encoder(model_entry, tokenizer)
    examples = (
        example
        for pair in experiment.pairs(split=arguments.split or 'test')
        for example in pair_examples(pair, form=arguments.form, aim=_aim(arguments), limit=arguments.limit)
    )
    return examples, encoder


def _only_model(experiment: Experiment) -> ModelEntry:
    """The model to train. Prompts of two models do not belong in one file."""
    from rolecall.errors import ConfigError, Problem

    if not experiment.models:
        raise ConfigError(
            Problem('models', 'the config has no models.', 'Training data is written for a model: add one.')
        )
    if len(experiment.models) > 1:
        names = ', '.join(model.abbr for model in experiment.models)
        raise ConfigError(Problem('models', f'several models match: {names}.', 'Select one with --model.'))
    return experiment.models[0]


def _find_tokenizer(arguments: argparse.Namespace, model: ModelEntry | None) -> Tokenizer | None:
    """The tokenizer that is named, or that of a local model. Only tokens cannot be written without one."""
    from rolecall.errors import ConfigError, MissingExtraError, Problem
    from rolecall.models.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    needed = arguments.form == 'tokens'
    tokenizer = None
    if arguments.tokenizer:
        tokenizer = load_tokenizer(arguments.tokenizer)
    elif model is not None and (needed or model.kind != 'api'):
        try:
            tokenizer = find_tokenizer(model.entry)
        except MissingExtraError:
            if needed:
                raise
    if tokenizer is None and needed:
        what = "--form tokens needs the model's tokenizer, which is not on this machine."
        raise ConfigError(Problem('tokenizer', what, 'Name one: --tokenizer FOLDER, FILE.gguf or tiktoken:NAME'))
    return tokenizer


def _write_dataset_info(output: Path, form: Form) -> None:
    """Add the file to the dataset_info.json beside it, which LLaMA-Factory reads."""
    from rolecall.apps.sft.training_file import dataset_info
    from rolecall.errors import RolecallError

    place = output.with_name('dataset_info.json')
    try:
        existing = json.loads(place.read_text(encoding='utf-8')) if place.exists() else {}
        name = output.name.partition('.')[0]
        place.write_text(json.dumps({**existing, name: dataset_info(form, output.name)}, indent=2), encoding='utf-8')
    except (OSError, ValueError, TypeError) as error:
        raise RolecallError(f'{place}: cannot be updated: {error}.') from error
    print_note(f'{place}: dataset {name} for LLaMA-Factory.')


def _aim(arguments: argparse.Namespace) -> Aim:
    from rolecall.apps.sft.training_programs import Aim

    return Aim(arguments.train_on == 'all-answers', arguments.end.replace('\\n', '\n'))
