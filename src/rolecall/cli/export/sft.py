"""`rolecall export sft`: rows as fine-tuning data."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rolecall.cli.options import (
    add_selection_options,
    add_source_options,
    declare_command,
    fail,
    open_given,
    print_note,
    whole_number,
)

if TYPE_CHECKING:
    from rolecall.cli.inputs import OpenedConfig
    from rolecall.cli.selection import Selection
    from rolecall.models.local_engine import PromptEncoder
    from rolecall.pairs.model_entries import ModelEntry
    from rolecall.pairs.tasks import Task
    from rolecall.sft.training_file import Given
    from rolecall.sft.training_programs import Aim
    from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['add_sft']


def add_sft(exports: Any) -> None:
    """Declare `rolecall export sft`."""
    parser = declare_command(
        exports,
        'sft',
        'write rows as fine-tuning data',
        'Write rows as fine-tuning data. Each line starts with exactly the request that inference sends, followed by '
        'the answer.',
        '  rolecall export sft rows.jsonl --prompter app.py:answerer --answer-column answer -o sft.jsonl\n'
        '  rolecall export sft config.py --dataset gsm8k --model qwen --form tokens -o sft.jsonl.gz\n'
        "  rolecall export sft qa.jsonl --template 'Q: {question}\\nA: {answer}' --answer answer "
        '--meta-template chatml --form text',
    )
    parser.set_defaults(run=_sft)
    parser.add_argument(
        'source', metavar='CONFIG', help='a config file, or a file of rows with --prompter or --template'
    )
    add_selection_options(parser)
    parser.add_argument('--split', choices=('test', 'train'), help='which rows of a config to use (default: test)')
    parser.add_argument('--limit', metavar='N', type=whole_number, help='only the first N rows of each dataset')
    parser.add_argument(
        '--form',
        choices=('messages', 'text', 'tokens'),
        default='messages',
        help='contents of a line (default: messages)',
    )
    parser.add_argument(
        '--train-on',
        choices=('answer', 'all-answers'),
        default='answer',
        help='all-answers also trains on the answers of examples (default: answer)',
    )
    parser.add_argument(
        '--end', metavar='TEXT', default='', help='text that ends an answer where the model side defines none'
    )
    parser.add_argument('--tokenizer', metavar='SOURCE', help='tokenizer.json, model folder, .gguf, or tiktoken:NAME')
    parser.add_argument('--skip', action='store_true', help='skip and count rows that cannot be used')
    parser.add_argument(
        '-o', '--output', metavar='FILE', default='-', help='.gz compresses (default: -, which is stdout)'
    )
    prompter = parser.add_argument_group('a prompter instead of a config')
    prompter.add_argument('--prompter', metavar='FILE.py:NAME', help='the prompter that writes the prompts')
    prompter.add_argument('--answer-column', metavar='COLUMN', help='column that holds the answer')
    prompter.add_argument('--input-column', metavar='COLUMN', help='column of the user input (default: input)')
    prompter.add_argument('--history-column', metavar='COLUMN', help='column of the earlier turns')
    prompter.add_argument('--tools-column', metavar='COLUMN', help="column of each row's tools")
    add_source_options(parser)


def _sft(arguments: argparse.Namespace) -> int:
    from rolecall.cli.export.writing import write_with_progress
    from rolecall.sft.training_file import SftReport, entries

    if arguments.prompter and not arguments.answer_column:
        return fail('--prompter needs --answer-column: the column that holds the answer.')
    if ignored := _find_ignored_option(arguments):
        other = 'a config or --template' if arguments.prompter else '--prompter'
        return fail(f'{ignored} only applies to {other}.')
    given, encoder = _of_prompter(arguments) if arguments.prompter else _of_config(arguments)
    report = SftReport()
    lines = entries(given, report, encoder=encoder, skip=arguments.skip)
    write_with_progress(lines, arguments.output, 'example')
    for remark in report.remarks():
        print_note(remark)
    return 0


def _find_ignored_option(arguments: argparse.Namespace) -> str | None:
    """An option that was given and would have no effect."""
    if arguments.prompter:
        given = {
            '--dataset': arguments.dataset,
            '--model': arguments.model,
            '--data': arguments.data,
            '--split': arguments.split,
            '--template': arguments.template,
            '--answer': arguments.answer,
            '--api': arguments.api,
        }
    else:
        given = {
            '--answer-column': arguments.answer_column,
            '--input-column': arguments.input_column,
            '--history-column': arguments.history_column,
            '--tools-column': arguments.tools_column,
        }
    return next((name for name, value in given.items() if value), None)


def _of_prompter(arguments: argparse.Namespace) -> tuple[Iterator[Given], PromptEncoder | None]:
    from rolecall.cli.inputs import load_prompter
    from rolecall.datasets import open_file
    from rolecall.render.families import meta_template
    from rolecall.sft.training_file import Columns, prompter_encoder, prompter_examples

    prompter = load_prompter(arguments.prompter)
    if arguments.meta_template:
        prompter = prompter.bind(meta_template(arguments.meta_template))
    columns = Columns(arguments.answer_column, arguments.input_column, arguments.history_column, arguments.tools_column)
    rows = open_file(arguments.source)
    given = prompter_examples(prompter, rows, columns, form=arguments.form, aim=_aim(arguments), limit=arguments.limit)
    return given, prompter_encoder(prompter, _tokenizer(arguments, {})) if arguments.form == 'tokens' else None


def _of_config(arguments: argparse.Namespace) -> tuple[Iterator[Given], PromptEncoder | None]:
    from rolecall.cli.selection import select
    from rolecall.sft.training_file import entry_encoder

    opened = open_given(arguments, arguments.source)
    selection = select(opened.plan, dataset=arguments.dataset, model=opened.model)
    model_entry = _only_model_entry(selection)
    given = _examples(arguments, selection.tasks, model_entry, opened)
    return given, entry_encoder(
        model_entry, _tokenizer(arguments, model_entry.entry)
    ) if arguments.form == 'tokens' else None


def _examples(
    arguments: argparse.Namespace, tasks: Sequence[Task], model_entry: ModelEntry, opened: OpenedConfig
) -> Iterator[Given]:
    from dataclasses import replace

    from rolecall.pairs.pair import Pair
    from rolecall.sft.training_file import pair_examples

    for task in tasks:
        rows = task.open(base=opened.base, data=opened.data)
        if arguments.split == 'train':
            rows = replace(rows, test=rows.train)
        yield from pair_examples(
            Pair(task, model_entry, rows), form=arguments.form, aim=_aim(arguments), limit=arguments.limit
        )


def _only_model_entry(selection: Selection) -> ModelEntry:
    """The model to train. Prompts of two models do not belong in one file."""
    from rolecall.errors import ConfigError, Problem

    model_entry = selection.model_entries[0]
    if model_entry is None:
        raise ConfigError(
            Problem('models', 'the config has no models.', 'Training data is written for a model: add one.')
        )
    if len(selection.model_entries) > 1:
        names = ', '.join(one.abbr for one in selection.model_entries if one is not None)
        raise ConfigError(Problem('models', f'several models match: {names}.', 'Select one with --model.'))
    return model_entry


def _tokenizer(arguments: argparse.Namespace, entry: Mapping[str, Any]) -> Tokenizer:
    from rolecall.errors import ConfigError, Problem
    from rolecall.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    found = load_tokenizer(arguments.tokenizer) if arguments.tokenizer else find_tokenizer(entry)
    if found is None:
        what = "--form tokens needs the model's tokenizer, which is not on this machine."
        raise ConfigError(Problem('tokenizer', what, 'Name one: --tokenizer FOLDER, FILE.gguf or tiktoken:NAME'))
    return found


def _aim(arguments: argparse.Namespace) -> Aim:
    from rolecall.sft.training_programs import Aim

    return Aim(arguments.train_on == 'all-answers', arguments.end.replace('\\n', '\n'))
