"""Preparing a config for a run: build its models, open its datasets, and refuse all that could not work at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from rolecall.checking import Problems
from rolecall.core.prompts.pieces import Row, Text, text_of
from rolecall.core.prompts.script import PromptList, Turn, item_pieces
from rolecall.core.render.meta import meta_template
from rolecall.errors import ConfigError, DataError, MissingExtraError, Problem, RenderError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.build import build_inferencer
from rolecall.experiment.opening.entries import add_line, dataset_keys
from rolecall.experiment.opening.judges import JudgeEntry, describe_scoring, find_judges
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import check_repeats, check_sampling, check_stops
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.experiment.opening.tasks import TaskEntry, build_task
from rolecall.experiment.pairs.pair import Pair, find_shared_prefix
from rolecall.models.protocol import Model, ModelContext
from rolecall.redaction import find_secrets
from rolecall.runs.client.client_options import check_client_options
from rolecall.runs.pair_checks import (
    check_cluster,
    check_columns,
    check_opponents,
    cluster_column,
    find_lacking,
    find_lint_problems,
    find_misspelt_fields,
)
from rolecall.runs.pair_run import PairRun, PreparedRun, RowDraw, pool_by_groups
from rolecall.runs.receipts import look_up_servers
from rolecall.runs.run_options import RunOptions
from rolecall.runs.stopping import Goal
from rolecall.scoring.evaluate import DatasetScorer, build_scorer
from rolecall.scoring.groups import read_groups
from rolecall.scoring.readers.asked_form import find_asked_forms
from rolecall.sources.datasets import Dataset
from rolecall.strings import mask_details

_SAME = 4
"""From this many on, problems of one kind are reported as one, with their number."""


def prepare(source: Experiment | SourceLike, options: RunOptions | None = None) -> PreparedRun:
    """Build the models and open the datasets of a config. All problems of all pairs are reported together.

    With `keep_going`, datasets and pairs that cannot run are left out, unless nothing is left.
    """
    options = options or RunOptions()
    experiment = Experiment.open(source, SourceOptions(data=options.data or {}, collects_problems=True))
    unusable = experiment.problems
    problems = [*_same_names(experiment.all_tasks, 'dataset'), *_same_names(experiment.all_models, 'model')]
    if not experiment.all_models and not unusable:
        problems.append(Problem('models', 'the config has no models.', 'Add models=[dict(…)].'))
    experiment = experiment.select(dataset=options.dataset, model=options.model)
    models = {model_entry.abbr: _build(model_entry, problems) for model_entry in experiment.models}
    scores = any(not task.inferencer.name.endswith('GenInferencer') for task in experiment.tasks)
    look_up_servers(filter(None, models.values()), options, scores=scores, secrets=find_secrets(experiment.config))
    problems += [problem.inside(task.where) for task in experiment.tasks for problem in check_repeats(task.entry)]
    opened = {task.abbr: _open(experiment, task, problems) for task in experiment.tasks}
    pairs: list[PairRun] = []
    for model_entry in experiment.models:
        for task in experiment.tasks:
            built = models[model_entry.abbr]
            mismatched = any(f'{task.where} × {model_entry.where}' in problem.where for problem in unusable)
            if built is not None and opened[task.abbr] is not None and not mismatched:
                pair = experiment.pair(task, model_entry)
                # Without keep_going, the linter reports missing columns, with all else that it finds.
                lacking = [problem.inside(task.where) for problem in check_columns(pair)] if options.keep_going else []
                problems += lacking
                if not lacking:
                    pairs += _prepare_pair(pair, model_entry, built, problems, experiment)
            else:
                problems += _find_scoring_problems(task, model_entry, experiment.all_models)
                problems += _find_inferencer_problems(task, model_entry)
    for task in _find_stand_ins(experiment):
        _open(experiment, task, problems)
        for model_entry in experiment.all_models[:1]:
            problems += _find_scoring_problems(task, model_entry, experiment.all_models)
    context = ModelContext(experiment.media_folders, find_secrets(experiment.config), _find_shared(pairs))
    judges = [judge.model_entry.model for pair in pairs for judge in pair.judges]
    for model in {id(model): model for model in (*models.values(), *judges) if model is not None}.values():
        context.tell(model)
    distinct = _merge_same(list(dict.fromkeys(problems)))
    problems = [*_merge_same(unusable), *(add_line(problem, experiment.config) for problem in distinct)]
    used = replace(
        experiment,
        tasks=tuple(task for task in experiment.tasks if any(pair.compiled.task is task for pair in pairs)),
        models=tuple(entry for entry in experiment.models if any(pair.model_entry is entry for pair in pairs)),
    )
    prepared = PreparedRun(
        used, tuple(pairs), options, tuple(problems), context, _draw_rows(experiment, pairs, options)
    )
    if problems and not (options.keep_going and pairs):
        raise ConfigError([*problems, *find_lint_problems(prepared)])
    return prepared


def _draw_rows(experiment: Experiment, pairs: Sequence[PairRun], options: RunOptions) -> RowDraw | None:
    """The rows that are drawn at random. With a goal, those of all datasets are drawn together."""
    if options.sample is None and options.until is None and options.rows is None:
        return None
    if options.until is not None:
        Goal.read(options.until).check_models(len({pair.model.name for pair in pairs}))
    totals = {pair.dataset: len(pair.compiled.data.test) for pair in pairs}
    pools = [totals] if options.until is not None else pool_by_groups(totals, read_groups(experiment.config))
    return RowDraw(pools, end=options.sample, seed=options.sample_seed, rows=options.rows)


def _find_stand_ins(experiment: Experiment) -> Iterator[TaskEntry]:
    """Datasets with problems, worded anew, so that their rows and scoring are checked in the same round."""
    config = experiment.config
    built = {task.where for task in experiment.all_tasks}
    wording = {'prompt_template': {'type': 'PromptTemplate', 'template': '-'}}
    for key in dataset_keys(config):
        for i, entry in enumerate(config[key]):
            where = f'{key}[{i}]'
            if where not in built and isinstance(entry, Mapping):
                reader = entry.get('reader_cfg')
                column = reader.get('output_column') if isinstance(reader, Mapping) else None
                column = column if isinstance(column, str) else None
                entry = {**entry, 'infer_cfg': wording, 'reader_cfg': {'output_column': column}}
                stand_in = build_task(entry, where, Problems())
                if stand_in is not None:
                    yield stand_in


def _find_shared(pairs: Sequence[PairRun]) -> tuple[tuple[Sequence[Any], str], ...]:
    """What all requests of each pair begin with, for models whose servers can be asked to keep it."""
    prefixes = (
        find_shared_prefix(pair.compiled)
        for pair in pairs
        if hasattr(pair.model, 'share_prefixes') and len(pair.compiled.data.test) > 1
    )
    return tuple(prefix for prefix in prefixes if prefix is not None)


def _merge_same(problems: Sequence[Problem]) -> list[Problem]:
    """One problem for what is wrong at many places for the same reason, but for paths, names and numbers in it."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((mask_details(problem.what), mask_details(problem.remedy)), []).append(problem)
    merged = []
    for same in groups.values():
        if len(same) < _SAME:
            merged += same
            continue
        more = f'The same holds for {len(same) - 1:,} more, to {same[-1].where}.'
        merged.append(replace(same[0], remedy=f'{same[0].remedy}\n  {more}'.strip()))
    return merged


def _same_names(entries: Sequence[TaskEntry] | Sequence[ModelEntry], what: str) -> Iterator[Problem]:
    places: dict[str, str] = {}
    for entry in entries:
        if entry.abbr in places:
            message = f'the abbr {entry.abbr!r} is also used by {places[entry.abbr]}; their results would be mixed up.'
            yield Problem(entry.where, message, f'Give each {what} an abbr of its own.')
        places.setdefault(entry.abbr, entry.where)


def _build(model_entry: ModelEntry, problems: list[Problem]) -> Model | None:
    own: list[Problem] = []
    model = None
    try:
        model = model_entry.model
    except ConfigError as error:
        own = [_place_in_model(model_entry, problem) for problem in error.problems]
    except (MissingExtraError, DataError) as error:
        own = [Problem(model_entry.where, str(error))]
    reported = {problem.where.rpartition('.')[2] for problem in own}
    wrong = _check_options(model_entry.entry)
    own += [problem.inside(model_entry.where) for problem in wrong if problem.where not in reported]
    problems += own
    return None if own else model


def _check_options(entry: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the limits, stop words and sampling of a model."""
    return [*check_client_options(entry), *check_stops(entry), *check_sampling(entry)]


def _place_in_model(model_entry: ModelEntry, problem: Problem) -> Problem:
    """The problem at its place in the config: a model knows its options by its own name only."""
    option = '' if problem.where == model_entry.abbr else problem.where.removeprefix(f'{model_entry.abbr}.')
    return replace(problem, where=option).inside(model_entry.where)


def _place_in_pair(pair: Pair, where: str, problem: Problem) -> Problem:
    """The problem at its place: eval_cfg is the dataset's alone, other options may be the dataset's or the model's."""
    if problem.where.startswith('eval_cfg'):
        return problem.inside(pair.task.where)
    return replace(problem, where=f'{where}: {problem.where}' if problem.where else where)


def _open(experiment: Experiment, task: TaskEntry, problems: list[Problem]) -> Dataset | None:
    try:
        return experiment.dataset(task)
    except ConfigError as error:
        problems += error.problems
    except (MissingExtraError, DataError) as error:
        problems.append(Problem(task.where, str(error)))
    return None


def _find_scoring_problems(task: TaskEntry, entry: ModelEntry, entries: Sequence[ModelEntry]) -> list[Problem]:
    """What is wrong with the scoring of a dataset whose rows, or whose model, cannot be used either."""
    try:
        read_scoring(task, entry, entries)
    except ConfigError as error:
        return [problem.inside(task.where) for problem in error.problems]
    except (MissingExtraError, DataError):  # of the judge, which is reported with the models
        pass
    return []


def _find_inferencer_problems(task: TaskEntry, entry: ModelEntry) -> list[Problem]:
    """What is wrong with the inferencer's own options; those of the model are reported with the model."""
    inferencer = task.inferencer
    try:
        build_inferencer(inferencer.name, inferencer.options, entry={}, own=inferencer.own)
    except ConfigError as error:
        where = f'{task.where} × {entry.where}'
        return [
            replace(problem, where=f'{where}: {problem.where}' if problem.where else where)
            for problem in error.problems
        ]
    except (MissingExtraError, DataError):
        pass
    return []


def _prepare_pair(
    pair: Pair, model_entry: ModelEntry, model: Model, problems: list[Problem], experiment: Experiment
) -> Iterator[PairRun]:
    """The pair, prepared; nothing where it could not work."""
    task = pair.task
    where, repeats = f'{task.where} × {model_entry.where}', task.entry.get('n')
    try:
        scoring = read_scoring(task, model_entry, experiment.all_models, data=pair.data)
        inferencer = build_inferencer(
            task.inferencer.name,
            task.inferencer.options,
            entry=model_entry.entry,
            infer_mode=task.inferencer.infer_mode,
            samples=repeats if isinstance(repeats, int) and repeats > 1 else None,
            extract=scoring.scorer.extract,
            own=task.inferencer.own,
        )
    except ConfigError as error:
        problems += [_place_in_pair(pair, where, problem) for problem in error.problems]
        return
    except (MissingExtraError, DataError) as error:
        problems.append(Problem(where, str(error)))
        return
    count = len(problems)
    for judge in scoring.judges[:1]:
        problems += [_place_in_pair(pair, where, problem) for problem in find_misspelt_fields(pair, judge)]
    for judge in scoring.judges:
        entry = judge.model_entry.entry
        if not any(entry is other.entry for other in experiment.all_models):
            at = f'{task.where}.eval_cfg.evaluator.judge_cfg'
            problems += [problem.inside(at) for problem in _check_options(entry)]
    comparison = scoring.judges[0].comparison if scoring.judges else None
    wrong = (*check_cluster(pair), *check_opponents(pair, comparison, experiment.base))
    problems += [problem.inside(task.where) for problem in wrong]
    lacking = list(find_lacking(pair, inferencer, model.capabilities, model.name))
    problems += [Problem(where, what, remedy) for what, remedy in lacking]
    if len(problems) == count:
        yield PairRun(pair, model_entry, model, inferencer, *scoring, cluster_column(pair))


class Scoring(NamedTuple):
    """How a dataset × model is scored, as its config says."""

    scorer: DatasetScorer
    judges: tuple[JudgeEntry, ...]
    is_baseline: bool


def read_scoring(
    task: TaskEntry, model_entry: ModelEntry, model_entries: Sequence[ModelEntry], *, data: Dataset | None = None
) -> Scoring:
    """The scoring that a dataset's `eval_cfg` describes, for one model; `data` has the examples of its prompts."""
    section = task.entry.get('eval_cfg')
    if section is not None and not isinstance(section, Mapping):
        named = f'eval_cfg=dict(evaluator={section!r})' if isinstance(section, str) else "eval_cfg=dict(evaluator='…')"
        raise ConfigError(Problem('eval_cfg', f'expected a dict, got {section!r:.60}.', f'Write {named}.'))
    evaluation = {key: value for key, value in (section or {}).items() if key != 'cluster'}
    own = model_entry.entry.get('pred_postprocessor')
    if isinstance(own, Mapping) and 'type' in own:
        evaluation.setdefault('model_postprocessor', own)
    column = task.wording.output_column
    try:
        judge_entries = find_judges(task, model_entries)
    except ConfigError as error:
        problems = [*error.problems, *_find_further_problems(evaluation, column)]
        raise ConfigError(dict.fromkeys(map(_in_eval_cfg, problems))) from error
    judge_entry = judge_entries[0] if judge_entries else None
    comparison = judge_entry.comparison if judge_entry is not None else None
    is_baseline = comparison is not None and not comparison.against(model_entry.abbr)
    whole = judge_entry is not None and judge_entry.whole_dialogue
    try:
        for judge in judge_entries:
            _ = judge.model_entry.model  # built here, so that what is wrong with it is reported
        scorer = build_scorer(
            describe_scoring(evaluation, judge_entry),
            output_column=column,
            judge=_unasked if judge_entries else None,
            turns=task.inferencer.asks_every_turn and not whole,
            whole_dialogue=whole,
            by_prompt=judge_entry is not None and judge_entry.by_prompt,
            role_marks=_role_marks(model_entry, evaluation.get('pred_role')),
            word_prompt=partial(_word_prompt, task),
            forms=_read_asked_forms(task, data),
        )
    except ConfigError as error:
        raise ConfigError(map(_in_eval_cfg, error.problems)) from error
    if is_baseline:
        return Scoring(replace(scorer, metric=None), (), is_baseline)
    return Scoring(scorer, tuple(judge_entries), is_baseline)


def _unasked(values: Mapping[str, Any]) -> str:
    """Stands for the judge while a config is read: a run gives the scorer its judges."""
    raise TypeError('a judge is asked in a run')


def _find_further_problems(evaluation: Mapping[str, Any], output_column: str | None) -> list[Problem]:
    """What else is wrong with the scoring, where the judge cannot be asked."""
    try:
        build_scorer(evaluation, output_column=output_column, judge=_unasked)
    except ConfigError as error:
        return list(error.problems)
    return []


def _word_prompt(task: TaskEntry, row: Row) -> Any:
    """The prompt of a row as OpenCompass records it: without examples, and before the model's own template.

    Where labels have a prompt each, it is a dict of them; nothing for a row that cannot be worded.
    """
    labels = task.prompt_labels
    try:
        prompts = [_as_plain_data(task.wording.script(label, task.mode).fill(row)) for label in labels]
    except RenderError:
        return ''
    return (
        prompts[0] if labels == (None,) else {str(label): prompt for label, prompt in zip(labels, prompts, strict=True)}
    )


def _read_asked_forms(task: TaskEntry, data: Dataset | None) -> tuple[str, ...]:
    """What stands before the answer in the form that the prompt's own text asks for, or that its examples end in."""
    if task.mode != 'gen' or task.wording.prompt.labels:
        return ()
    script = task.wording.script(None, 'gen')
    texts = [piece.text if isinstance(piece, Text) else '\n' for piece in script.pieces()]
    spoken = [item for item in script.items if isinstance(item, Turn) and item.generate is not False]
    examples = [
        ''.join(piece.text for piece in item_pieces(item) if isinstance(piece, Text))
        for item in spoken
        if item.role.upper() in ('BOT', 'ASSISTANT')
    ]
    ids: Sequence[int] = getattr(task.retriever, 'fix_id_list', None) or ()
    if data is not None and ids and task.wording.output_column:
        examples += [
            text_of(data.train[number].get(task.wording.output_column, ''))
            for number in ids
            if number < len(data.train)
        ]
    return find_asked_forms(''.join(texts), [example for example in examples if example.strip()])


def _as_plain_data(prompt: str | PromptList) -> Any:
    return prompt if isinstance(prompt, str) else [dict(turn) if isinstance(turn, Mapping) else turn for turn in prompt]


def _in_eval_cfg(problem: Problem) -> Problem:
    return problem if problem.where.startswith('eval_cfg') else problem.inside('eval_cfg')


def _role_marks(model_entry: ModelEntry, role: object) -> Mapping[str, Any] | None:
    """What the model's meta template puts around a role."""
    entry = model_entry.entry.get('meta_template')
    meta = meta_template(entry) if isinstance(entry, str) else entry
    rounds = meta.get('round') if isinstance(meta, Mapping) and role is not None else None
    return next((turn for turn in rounds or () if isinstance(turn, Mapping) and turn.get('role') == role), None)
