"""A source and what stands beside it, as one config: rows or a config file, models by name, and overrides."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.checking import Problems
from rolecall.core.render.renderers import TextRenderer
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.entries import resolve_name
from rolecall.experiment.opening.loading import Source, load_config, load_source
from rolecall.experiment.opening.model_entries import build_model_entry, model_abbr
from rolecall.experiment.opening.overrides import apply_overrides
from rolecall.experiment.opening.rows_config import (
    columns_of,
    dataset_for_rows,
    find_answer,
    find_letters,
    read_first_rows,
    single_columns,
)
from rolecall.experiment.opening.source_options import Overrides, RowsOptions, SourceOptions
from rolecall.models.backends import MODEL_KINDS
from rolecall.models.pull import PACKAGED
from rolecall.registry import bare_name
from rolecall.sources.config.files import SHEETS, Config
from rolecall.sources.datasets.columns import flatten
from rolecall.sources.datasets.formats import FORMATS
from rolecall.strings import count_noun, number_repeats

if TYPE_CHECKING:
    from rolecall.models.model_names import ModelName

_GIVE_LOGPROBS = frozenset(
    ('LlamaCpp', 'Embedded', 'smollm2', 'HuggingFace', 'HuggingFaceCausalLM', 'HuggingFaceBaseModel', 'VLLM')
)


def assemble(
    source: Source, options: SourceOptions, notes: list[str]
) -> tuple[Mapping[str, Any], tuple[str, ...] | None]:
    """The config that a source and its options describe, and the models to select in it by abbr; None for all."""
    if source.kind == 'rows':
        return _config_for_rows(source.value, options, notes), None
    _refuse_options(source, options)
    loaded, overrides = _load(source, options, notes)
    if source.kind in ('benchmark', 'catalogue'):
        notes += _describe_rows(loaded)
        if not options.data:
            _require_rows(loaded)
    own = _own_models(loaded, options.models_file)
    added = _resolve(options, own, notes)
    selected = None
    if options.models:
        abbrs = [model_abbr(entry) for entry in own if isinstance(entry, Mapping)]
        patterns = [str(name) for name in options.models if _matches(name, abbrs)]
        selected = (*patterns, *(model_abbr(entry) for entry in (*added, *options.shown)))
    added = [entry for entry in added if entry not in own]
    names: Mapping[str, Any] = loaded
    changes = overrides.as_dict()
    changes_names = changes and any(isinstance(entry, str) for entry in loaded.get('models') or ())
    if added or changes_names or options.shown or options.models_file is not None:
        names = {**loaded, 'models': [*own, *added, *options.shown]}
    changed = apply_overrides(names, overrides) if changes else names
    if isinstance(loaded, Config) and changed is not loaded:
        changed = replace(loaded, names=changed)
    return changed, selected


def _config_for_rows(
    rows: Path | Sequence[Mapping[str, Any]], options: SourceOptions, notes: list[str]
) -> dict[str, Any]:
    problems = Problems()
    for name in _stated_task_options(options):
        problems.add(name, 'applies to task files of lm-evaluation-harness (.yaml).')
    problems.raise_all()
    models = [*_resolve(options, [], notes), *options.shown]
    rows_options = _find_choices(rows, options.rows, notes)
    choices = bool(rows_options.choices)
    can_weigh = bool(models) and all(map(_gives_logprobs, models))
    perplexity = choices and (options.rows.ask == 'perplexity' or (options.rows.ask is None and can_weigh))
    if choices and perplexity and options.rows.ask is None:
        notes.append('choices are compared by log-probability; --ask generate reads them from a generated reply.')
    elif choices and options.rows.ask is None:
        notes += _describe_company(models)
    if options.asks_models and options.rows.answer is None and options.rows.judge is None:
        likely = find_answer(single_columns(columns_of(map(flatten, read_first_rows(rows, options.rows)))))
        remedy = f' Is it --answer {likely}?' if likely else ''
        notes.append(f'no answer column is given (--answer): replies are stored, and not scored.{remedy}')
    dialogue = not all(map(_takes_bare_text, models)) if models else False
    datasets = []
    for template in (rows_options.template, *rows_options.other_templates):
        worded = replace(rows_options, template=template)
        dataset = dataset_for_rows(rows, worded, dialogue=dialogue, perplexity=perplexity, notes=notes)
        if isinstance(rows, Path) and options.train_only:
            dataset['data_files'] = {'train': str(Path(options.data['train']).absolute()), 'test': dataset.pop('path')}
        elif not isinstance(rows, Path):
            dataset['train'] = rows
        if rows_options.other_templates:
            dataset['abbr'] = f'{dataset["abbr"]} [{" ".join(str(template).split())[:40]}]'
        datasets.append(dataset)
    for dataset, name in zip(datasets, number_repeats(str(dataset['abbr']) for dataset in datasets), strict=True):
        dataset['abbr'] = name
    overrides = options.overrides
    if overrides.shots and overrides.retriever is None and 'data_files' not in datasets[0]:
        # Examples come from the rows themselves: drawn for each row, so that all rows serve.
        overrides = replace(overrides, retriever='random')
    return apply_overrides({'models': models, 'datasets': datasets}, overrides)


def _gives_logprobs(entry: Mapping[str, Any]) -> bool:
    return bare_name(entry.get('type')) in _GIVE_LOGPROBS


def _describe_company(models: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """That models are asked to generate because of others, where alone they would be scored by log-probabilities."""
    able = ', '.join(model_abbr(entry) for entry in models if _gives_logprobs(entry))
    others = ', '.join(model_abbr(entry) for entry in models if not _gives_logprobs(entry))
    if able and others:
        yield (
            f'{able} can compare choices by log-probability, but {others} cannot: all are asked to generate. '
            f'Run {able} alone to compare.'
        )


def _find_choices(rows: Path | Sequence[Mapping[str, Any]], options: RowsOptions, notes: list[str]) -> RowsOptions:
    """The options with the letters of a column that lists each row's options, where nothing else is asked for."""
    if options.choices or options.template is not None or options.metric is not None or options.answer is None:
        return options
    letters = find_letters(read_first_rows(rows, options), options.answer)
    if letters:
        notes.append(f'every row lists its options: asking for one of {", ".join(letters)} (--choices).')
    return replace(options, choices=letters)


def _takes_bare_text(entry: Mapping[str, Any]) -> bool:
    """Whether a model completes text: it has neither roles of its own nor a chat template."""
    if entry.get('meta_template') or MODEL_KINDS.get(bare_name(entry.get('type')) or '', 'text') == 'api':
        return False
    if entry.get('path') in PACKAGED:  # instruct models: nothing has to be downloaded to know that
        return False
    try:
        built = build_model_entry(entry, 'model', Problems())
    except ConfigError as error:  # a function that cannot be imported
        raise ConfigError(replace(problem, where='--model') for problem in error.problems) from error.__cause__
    return built is not None and isinstance(built.renderer, TextRenderer) and built.meta is None


def _refuse_options(source: Source, options: SourceOptions) -> None:
    """Refuse options that belong to sources of another kind."""
    name = str(source)
    for_prompts = {'--meta-template': options.meta_template is not None, '--api': options.api}
    if source.kind == 'config' and any(for_prompts.values()):
        option = next(option for option, stated in for_prompts.items() if stated)
        raise ConfigError(Problem(name, f'{option} applies to a file of rows; a config defines its own.'))
    for first in options.rows.given:
        what = f'--{first.replace("_", "-")} applies to a file of rows; a config defines its own.'
        remedy = ''
        if Path(name).suffix in SHEETS:
            what, remedy = 'spreadsheets are not read.', 'Save the sheet as CSV (UTF-8).'
        elif Path(name).suffix not in ('.py', '.yaml', '.yml', '.json') and not isinstance(source.value, Mapping):
            remedy = f'Files of rows end in {", ".join(sorted(FORMATS))}.'
            if source.kind in ('task', 'config') and not Path(name).exists():
                near = [path.name for path in Path(name).parent.glob('*') if path.suffix in FORMATS]
                what, remedy = 'no such file.', f'{did_you_mean(Path(name).name, near)} {remedy}'.strip()
        raise ConfigError(Problem(name, what, remedy))
    if options.data_folder is not None and source.kind != 'benchmark':
        what = f'expected SPLIT=FILE, got the folder {str(options.data_folder)!r}.'
        remedy = 'A folder of datasets goes with the name of a benchmark; other sources look in $ROLECALL_DATA.'
        raise ConfigError(Problem('--data', what, remedy))


def _load(source: Source, options: SourceOptions, notes: list[str]) -> tuple[Mapping[str, Any], Overrides]:
    """The config as it is written, and the overrides left to apply: lm-eval's tasks draw their own examples."""
    overrides = options.overrides
    asked_as_task = source.kind == 'task'
    if source.kind == 'benchmark':
        from rolecall.compat.benchmarks.load_benchmarks import uses_task_wording

        asked_as_task = uses_task_wording(source.value, options.task.get('emulate'))
    if asked_as_task:
        task = {**options.task, 'num_fewshot': overrides.shots, 'system_instruction': overrides.system}
        loaded = load_source(source, task, data_folder=options.data_folder)
        notes += _describe_differences(loaded['datasets'])
        return loaded, replace(overrides, shots=None, system=None)
    if source.kind == 'benchmark':
        return load_source(source, options.task, data_folder=options.data_folder), overrides
    if stated := _stated_task_options(options):
        what = f'{stated[0]} applies to task files of lm-evaluation-harness (.yaml); a config defines its own.'
        raise ConfigError(Problem(str(source), what))
    return source.value if isinstance(source.value, Mapping) else load_source(source, {}), overrides


def _describe_differences(datasets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where tasks are not asked as lm-eval asks them, once for each way in which they differ."""
    differing: dict[str, list[str]] = {}
    for entry in datasets:
        if note := entry['type'].task.note:
            differing.setdefault(note, []).append(str(entry['abbr']))
    return [
        f'{names[0] if len(names) == 1 else count_noun(len(names), "task")}: {note}. '
        "This differs from lm-eval; '--as lm-eval' asks exactly as it does."
        for note, names in differing.items()
    ]


def _require_rows(config: Mapping[str, Any]) -> None:
    """One problem for each benchmark of which no rows are here; what is missing in part is found when it is opened."""
    datasets = config.get('datasets') or ()
    missing = {str(entry['rows_from']): str(entry['abbr']) for entry in datasets if entry.get('rows_from')}
    if missing and all(entry.get('rows_from') for entry in datasets):
        raise ConfigError(Problem(abbr.partition('-')[0], what) for what, abbr in missing.items())


def _describe_rows(config: Mapping[str, Any]) -> list[str]:
    """What is said of a benchmark's rows: that they are a sample, or not the published ones."""
    by_note: dict[str, list[str]] = {}
    for entry in config.get('datasets') or ():
        if entry.get('rows_note'):
            by_note.setdefault(str(entry['rows_note']), []).append(str(entry['abbr']))
    return [f'{", ".join(abbrs)}: {note}.' for note, abbrs in by_note.items()]


def _stated_task_options(options: SourceOptions) -> list[str]:
    options_by_name = {
        '--models': options.models_file,
        **{f'--{name.replace("_", "-")}': value for name, value in options.task.items()},
    }
    return [name for name, value in options_by_name.items() if value is not None and value is not False]


def _own_models(config: Mapping[str, Any], models_file: str | None) -> list[Any]:
    """The models of the config; those that it names are entries from here on, unless the name is unknown."""
    models = config.get('models') if models_file is None else load_config(models_file).get('models')
    entries: list[Any] = list(models) if isinstance(models, list | tuple) else []
    for i, entry in enumerate(entries):
        if isinstance(entry, str):
            with contextlib.suppress(ConfigError):  # reported with all other problems when the entries are built
                entries[i] = resolve_name(entry, config)
    return entries


def _resolve(options: SourceOptions, own: Sequence[Any], notes: list[str]) -> list[dict[str, Any]]:
    """The entries of the models that are given by name. Those that are abbrs of the config are not among them."""
    abbrs = [model_abbr(entry) for entry in own if isinstance(entry, Mapping)]
    names = [name for name in options.models if not _matches(name, abbrs)]
    if not names and (options.models or own or options.shown or not options.asks_models):
        return []
    from rolecall.models.model_names import DEFAULT_MODEL, resolve_models

    if not names:
        notes.append(f'no model is given: asking the embedded {DEFAULT_MODEL}. Choose another with --model.')
        names = [DEFAULT_MODEL]
    try:
        entries = resolve_models(names, model_name=options.model_name, where='--model')
    except ConfigError as error:
        raise ConfigError(_with_own_models(problem, abbrs) for problem in error.problems) from None
    for entry, name in zip(entries, names, strict=True):
        if model_abbr(entry) in abbrs and entry not in own and isinstance(name, str):
            entry['abbr'] = name.replace('/', '-')
    return entries


def _with_own_models(problem: Problem, abbrs: Sequence[str]) -> Problem:
    """The problem with a name, if it may have been meant for a model of the config."""
    if not abbrs or not problem.what.startswith('unknown model '):
        return problem
    name = problem.what.removeprefix('unknown model ').rstrip('.').strip('\'"')
    what = f'no model matches {name!r}.'
    close = did_you_mean(name, abbrs)
    remedy = close
    if not close.startswith('Did'):
        remedy = (
            f'Models of the config: {", ".join(abbrs)}. {"" if set("*?[") & set(name) else problem.remedy}'.rstrip()
        )
    return Problem('models', what, remedy)


def _matches(name: ModelName, abbrs: Sequence[str]) -> bool:
    return isinstance(name, str) and any(abbr == name or fnmatch.fnmatchcase(abbr, name) for abbr in abbrs)
