"""Shared by all commands: declaring them, reading their arguments, reporting failures."""

from __future__ import annotations

import argparse
import ast
import builtins
import os
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rolecall.plain_files import read_table
from rolecall.ui.cli.output import print_note

if TYPE_CHECKING:
    from rolecall.experiment.experiment import Experiment

Options = TypeVar('Options')

SHOW_JUDGE = ''
"""The value of `--judge` alone: the judge that the config names."""


def add_options(parser: argparse.ArgumentParser, command: str, place: argparse._ArgumentGroup | None = None) -> None:
    """The options of a command, from `options.tsv`; those without a group in `place`, if it is given.

    `value` says how one is read: by a function of the command's module or of this one, as one of some words, as a
    `flag`, several times, … Options of the group `either` exclude each other.
    """
    module = sys.modules.get(f'rolecall.ui.cli.{command.replace(" ", ".")}')
    places: dict[str, Any] = {'': place or parser, **{str(group.title): group for group in parser._action_groups}}
    for name, group, option, metavar, value, default, text in read_table(__file__):
        if name != command:
            continue
        if group not in places:
            exclusive = group == 'either'
            places[group] = parser.add_mutually_exclusive_group() if exclusive else parser.add_argument_group(group)
        argument: dict[str, Any] = {'help': text} if text else {}
        for word in value.split():
            argument |= _read_value(word, module)
        if metavar:
            argument['metavar'] = tuple(metavar.split()) if argument.get('nargs') == 2 and ' ' in metavar else metavar
        if default:
            argument['default'] = ast.literal_eval(default)
        if not text and 'choices' in argument:
            argument['help'] = ', '.join(argument['choices'])
        places[group].add_argument(*option.split(', '), **argument)


def _read_value(word: str, module: object) -> dict[str, Any]:
    """What a word of the column `value` means to argparse."""
    if '=' in word:
        key, _, text = word.partition('=')
        return {key: text}
    if '|' in word:
        return {'choices': tuple(word.split('|'))}
    if word in _VALUES:
        return _VALUES[word]
    return {'type': getattr(module, word, None) or globals().get(word) or getattr(builtins, word)}


_VALUES: Mapping[str, dict[str, Any]] = {
    'flag': {'action': 'store_true'},
    'off': {'action': 'store_false'},
    'required': {'required': True},
    **{word: {'action': word} for word in ('append', 'extend')},
    **{word: {'nargs': word} for word in ('?', '*', '+')},
    '2': {'nargs': 2},
}


def add_config_options(
    parser: argparse.ArgumentParser, further: argparse._ArgumentGroup | None = None, *, optional: bool = False
) -> None:
    """The config and the options that select datasets, name models, and supply rows; the rarer ones under `further`."""
    parser.add_argument(
        'config',
        metavar='CONFIG',
        nargs='?' if optional else None,
        help='a benchmark by name, a config file, or a file of rows with --template or --choices',
    )
    add_selection_options(parser, further)


def add_run_options(parser: argparse.ArgumentParser, everyday: Collection[str]) -> argparse._ArgumentGroup:
    """The config and the options of a run; those that are not for every day in a group, which is returned."""
    from rolecall.runs.run_options import RunOptions

    further = parser.add_argument_group('how the run is made')
    add_config_options(parser, further)
    declare_options(RunOptions, parser, further, everyday)
    parser.add_argument('-q', '--quiet', action='store_true', help='print only scores and problems')
    further.add_argument('--silence', metavar='RULE', nargs='+', default=[], help='lint rules to leave out')
    return further


def add_selection_options(parser: argparse.ArgumentParser, further: argparse._ArgumentGroup | None = None) -> None:
    """The options that select datasets, name models, and supply rows; the rarer ones under `further`."""
    add_options(parser, 'selection')
    add_options(parser, 'selection, rarer', further)


def add_source_options(
    parser: argparse.ArgumentParser, *, asks_models: bool = False, shows_judge: bool = False
) -> None:
    """The options for files of rows, overrides of a config, and task files.

    With `shows_judge`, a bare `--judge` is allowed, and is `SHOW_JUDGE`.
    """
    from rolecall.experiment.opening.source_options import Overrides, RowsOptions

    rows = parser.add_argument_group('a file of rows instead of a config')
    shown = {
        'nargs': '?',
        'const': SHOW_JUDGE,
        'help': "the judge's requests about the answers, and for a file of rows who judges: a model that judges "
        'answers (with --metric: those that it cannot read): correctness:openai/NAME (rolecall config list judges)',
    }
    declare_options(RowsOptions, rows, choices={'type': _choices}, judge=shown if shows_judge else {})
    _add_preview_models(rows, asks_models=asks_models)
    overrides = parser.add_argument_group('changes to every dataset, without editing the config')
    declare_options(Overrides, overrides)
    overrides.add_argument(
        '--set',
        metavar='PATH=VALUE',
        action='append',
        default=[],
        help='any value, by its place: datasets.*.infer_cfg.inferencer.max_out_len=64; may be repeated',
    )
    add_options(parser, 'source')


def declare_options(
    options: type,
    place: argparse._ActionsContainer,
    further: argparse._ArgumentGroup | None = None,
    everyday: Collection[str] = (),
    **arguments: Mapping[str, Any],
) -> None:
    """The options that a dataclass has for the command line; with `further`, those of every day and others apart.

    `arguments` are for argparse, by the option's name.
    """
    from dataclasses import fields

    for option in fields(options):
        if not option.metadata:
            continue
        argument = {'help': option.metadata['help'], 'default': option.default, **option.metadata['argument']}
        least = option.metadata['least']
        if option.default is False:
            argument['action'] = 'store_true'
        elif 'int' in option.type:
            argument.setdefault('type', positive_number if least is None else whole_number)
        elif 'float' in option.type:
            argument.setdefault('type', float if least is None else read_number)
        argument |= arguments.get(option.name, {})
        flags = (f'--{option.name.replace("_", "-")}', *option.metadata['also'])
        (place if further is None or option.name in everyday else further).add_argument(*flags, **argument)


def read_options(options: type[Options], arguments: argparse.Namespace, **changes: Any) -> Options:
    """The options of a dataclass as they were typed."""
    from dataclasses import fields

    typed = {option.name: getattr(arguments, option.name) for option in fields(options) if option.metadata}  # type: ignore[arg-type]
    return options(**{**typed, **changes})


class _Replaced(argparse.Action):
    """An option that is gone; `const` says what to write instead."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        raise argparse.ArgumentError(self, str(self.const))


def declare_replaced(parser: Any, option: str, instead: str) -> None:
    """Declare an option whose place another has taken, so that people who type it learn which."""
    parser.add_argument(option, nargs='?', action=_Replaced, const=instead, default=None, help=argparse.SUPPRESS)


def _add_preview_models(rows: argparse._ArgumentGroup, *, asks_models: bool) -> None:
    """Model families to show prompts for. Commands that send requests refuse them."""
    if asks_models:
        for option in ('--meta-template', '--api'):
            how = f'Use {option} with view, lint or export; --model asks a model'
            declare_replaced(rows, option, f'shows prompts and has no model to ask. {how}')
        return
    rows.add_argument('--meta-template', metavar='NAME', help='model family to write the prompt for, e.g. chatml')
    rows.add_argument('--api', action='store_true', help='write the prompt as chat API messages')


def open_experiment(
    arguments: argparse.Namespace, path: Any, *, asks_models: bool = False, collects_problems: bool | None = None
) -> Experiment:
    """Open the config, the file of rows, the task file or the benchmark that a command was given.

    A command that asks models gets the embedded one where none is given, and reports entries with problems later.
    """
    from rolecall.experiment.experiment import Experiment
    from rolecall.experiment.opening.overrides import parse_setting
    from rolecall.experiment.opening.source_options import Overrides, RowsOptions, SourceOptions

    options = SourceOptions(
        models=tuple(arguments.model),
        model_name=arguments.model_name,
        rows=read_options(
            RowsOptions,
            arguments,
            template=arguments.template[0] if arguments.template else None,
            other_templates=tuple(arguments.template[1:]) if arguments.template else (),
            judge=arguments.judge or None,
        ),
        overrides=read_options(
            Overrides,
            arguments,
            settings=tuple(map(parse_setting, arguments.set)),
            silence=tuple(arguments.silence) if asks_models else (),
        ),
        data={split: file for split, file in arguments.data if split},
        data_folder=next((folder for split, folder in arguments.data if not split), None),
        task={
            'fewshot_seed': arguments.fewshot_seed,
            'fewshot_as_multiturn': arguments.fewshot_as_multiturn,
            'emulate': arguments.emulate,
            'hub': arguments.hub,
        },
        models_file=arguments.models,
        meta_template=arguments.meta_template,
        api=bool(arguments.api),
        asks_models=asks_models,
        collects_problems=asks_models if collects_problems is None else collects_problems,
    )
    experiment = Experiment.open(path, options).select(dataset=arguments.dataset)
    for note in experiment.notes:
        print_note(note)
    return experiment


def _choices(text: str) -> tuple[str, ...]:
    from rolecall.errors import ConfigError
    from rolecall.experiment.opening.source_options import read_choices

    try:
        return read_choices(text)
    except ConfigError as error:
        [problem] = error.problems
        raise argparse.ArgumentTypeError(f'{problem.what} {problem.remedy}'.rstrip()) from error


def read_number(text: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float('inf'):
        raise argparse.ArgumentTypeError(f'expected a number of at least 0, got {text!r}')
    return value


def comma_words(text: str) -> list[str]:
    """Words that commas separate."""
    return [word.strip() for word in text.split(',') if word.strip()]


def positive_number(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'expected a whole number of at least 1, got {text!r}')
    return int(text)


def whole_number(text: str) -> int:
    """An integer that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'expected a non-negative integer, got {text!r}')
    return int(text)


def _split_and_file(text: str) -> tuple[str, str]:
    split, equals, file = text.partition('=')
    if not equals and os.path.isdir(text):
        return '', text
    if not (split and equals and file):
        raise argparse.ArgumentTypeError(
            f'{text!r}: expected train=FILE or test=FILE, or a folder that exists (put CONFIG before --data)'
        )
    return split, file
