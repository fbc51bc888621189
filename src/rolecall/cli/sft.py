"""The command that makes training files: export sft."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rolecall.cli.common import add_picks, add_wording, command, fail, number

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.cli.picking import Chosen
    from rolecall.models.transformers.prompts import Encoder
    from rolecall.pairs.model_entries import ModelEntry
    from rolecall.pairs.tasks import Task
    from rolecall.sft.training_file import Given
    from rolecall.sft.training_programs import Aim
    from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['add_export_sft']


def add_export_sft(exports: Any) -> None:
    """Declare `rolecall export sft`."""
    parser = command(
        exports,
        'sft',
        'rows as fine-tuning data',
        'Write rows as fine-tuning data: each line begins with exactly what inference sends, and goes on to the end of '
        'the answer.',
        '  rolecall export sft rows.jsonl --prompter app.py:answerer --answer-column answer -o sft.jsonl\n'
        '  rolecall export sft config.py --dataset gsm8k --model qwen --form tokens -o sft.jsonl.gz\n'
        "  rolecall export sft qa.jsonl --template 'Q: {question}\\nA: {answer}' --output-column answer "
        '--meta-template chatml --form text',
    )
    parser.set_defaults(run=_export_sft)
    parser.add_argument(
        'source', metavar='CONFIG', help='a config file, or a file of rows with --prompter or --template'
    )
    add_picks(parser)
    parser.add_argument('--split', choices=('test', 'train'), help='the rows of a config (test)')
    parser.add_argument('--limit', metavar='N', type=number, help='only the first N rows of each dataset')
    parser.add_argument(
        '--form', choices=('messages', 'text', 'tokens'), default='messages', help='what a line holds (messages)'
    )
    parser.add_argument(
        '--train-on', choices=('answer', 'all-answers'), default='answer', help='all-answers: those of examples, too'
    )
    parser.add_argument(
        '--end', metavar='TEXT', default='', help='what ends an answer where the model side has nothing'
    )
    parser.add_argument('--tokenizer', metavar='SOURCE', help='tokenizer.json, model folder, .gguf, or tiktoken:NAME')
    parser.add_argument('--skip', action='store_true', help='leave out rows that give no example, and count them')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='.gz compresses; - is stdout (the default)')
    worded = parser.add_argument_group('a prompter in place of a config')
    worded.add_argument('--prompter', metavar='FILE.py:NAME', help='the prompter that words the rows')
    worded.add_argument('--answer-column', metavar='COLUMN', help='the column of the answer')
    worded.add_argument('--input-column', metavar='COLUMN', help='what the user says (input)')
    worded.add_argument('--history-column', metavar='COLUMN', help='what was said before')
    worded.add_argument('--tools-column', metavar='COLUMN', help='the tools of each row')
    add_wording(parser)


def _export_sft(arguments: argparse.Namespace) -> int:
    from rolecall.cli.exporting import write_watched
    from rolecall.sft.training_file import SftReport, entries

    if arguments.prompter and not arguments.answer_column:
        return fail('--prompter needs --answer-column: the column of the answer.')
    if ignored := _ignored(arguments):
        other = 'a config or --template' if arguments.prompter else '--prompter'
        return fail(f'{ignored} goes with {other}, and says nothing here.')
    given, encoder = _of_prompter(arguments) if arguments.prompter else _of_config(arguments)
    report = SftReport()
    lines = entries(given, report, encoder=encoder, skip=arguments.skip)
    write_watched(lines, arguments.output, 'example')
    for remark in report.remarks():
        print(f'rolecall: {remark}', file=sys.stderr)
    return 0


def _ignored(arguments: argparse.Namespace) -> str | None:
    """An option that is given, and would be passed over."""
    if arguments.prompter:
        given = {
            '--dataset': arguments.dataset,
            '--model': arguments.model,
            '--data': arguments.data,
            '--split': arguments.split,
            '--template': arguments.template,
            '--output-column': arguments.output_column,
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


def _of_prompter(arguments: argparse.Namespace) -> tuple[Iterator[Given], Encoder | None]:
    from rolecall.datasets import open_file
    from rolecall.render.families import meta_template
    from rolecall.sft.training_file import Columns, prompter_encoder, prompter_examples
    from rolecall.views.prompter import load_prompter

    prompter = load_prompter(arguments.prompter)
    if arguments.meta_template:
        prompter = prompter.bind(meta_template(arguments.meta_template))
    columns = Columns(arguments.answer_column, arguments.input_column, arguments.history_column, arguments.tools_column)
    rows = open_file(arguments.source)
    given = prompter_examples(prompter, rows, columns, form=arguments.form, aim=_aim(arguments), limit=arguments.limit)
    return given, prompter_encoder(prompter, _tokenizer(arguments, {})) if arguments.form == 'tokens' else None


def _of_config(arguments: argparse.Namespace) -> tuple[Iterator[Given], Encoder | None]:
    from rolecall.cli.picking import choose
    from rolecall.cli.sources import open_source
    from rolecall.sft.training_file import entry_encoder

    source = open_source(
        arguments.source,
        template=arguments.template,
        output_column=arguments.output_column,
        meta_template=arguments.meta_template,
        api=arguments.api,
    )
    chosen = choose(source.plan, dataset=arguments.dataset, model=arguments.model)
    model_entry = _only_model_entry(chosen)
    given = _examples(arguments, chosen.tasks, model_entry, source.base)
    return given, entry_encoder(
        model_entry, _tokenizer(arguments, model_entry.entry)
    ) if arguments.form == 'tokens' else None


def _examples(
    arguments: argparse.Namespace, tasks: Sequence[Task], model_entry: ModelEntry, base: Path | None
) -> Iterator[Given]:
    from dataclasses import replace

    from rolecall.pairs.pair import Pair
    from rolecall.sft.training_file import pair_examples

    for task in tasks:
        rows = task.open(base=base, data=dict(arguments.data) or None)
        if arguments.split == 'train':
            rows = replace(rows, test=rows.train)
        yield from pair_examples(
            Pair(task, model_entry, rows), form=arguments.form, aim=_aim(arguments), limit=arguments.limit
        )


def _only_model_entry(chosen: Chosen) -> ModelEntry:
    """The model that is trained. Texts and tokens of two models do not belong into one file."""
    from rolecall.errors import ConfigError, Problem

    model_entry = chosen.model_entries[0]
    if model_entry is None:
        raise ConfigError(Problem('models', 'the config has no models, so nobody can be trained.'))
    if len(chosen.model_entries) > 1:
        names = ', '.join(one.abbr for one in chosen.model_entries if one is not None)
        raise ConfigError(Problem('models', f'there are several: {names}.', 'Pick the one that is trained: --model'))
    return model_entry


def _tokenizer(arguments: argparse.Namespace, entry: Mapping[str, Any]) -> Tokenizer:
    from rolecall.errors import ConfigError, Problem
    from rolecall.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    found = load_tokenizer(arguments.tokenizer) if arguments.tokenizer else find_tokenizer(entry)
    if found is None:
        what = '--form tokens needs the tokenizer of the model, which is not on this machine.'
        raise ConfigError(Problem('tokenizer', what, 'Name one: --tokenizer FOLDER, FILE.gguf or tiktoken:NAME'))
    return found


def _aim(arguments: argparse.Namespace) -> Aim:
    from rolecall.sft.training_programs import Aim

    return Aim(arguments.train_on == 'all-answers', arguments.end.replace('\\n', '\n'))
