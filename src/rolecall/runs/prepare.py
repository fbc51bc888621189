"""A config, prepared for a run: models built, datasets opened, and everything that could not work refused at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.config.files import Config, load_config
from rolecall.datasets import Dataset, open_dataset
from rolecall.errors import ConfigError, DataError, MissingExtraError, Problem, RenderError, did_you_mean
from rolecall.inferencers.build import build_inferencer
from rolecall.inferencers.inferencer import Inferencer
from rolecall.models.protocol import Capabilities, Model
from rolecall.pairs.entries import Entries, add_line, build_entries, media_folders
from rolecall.pairs.judges import JudgeEntry, JudgePair
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair, Picking, match_abbr
from rolecall.pairs.sampling import check_repeats, check_sampling, check_stops
from rolecall.pairs.tasks import Task
from rolecall.prompts.pieces import Row
from rolecall.prompts.values import text_of
from rolecall.redaction import find_secrets
from rolecall.render.renderers import ApiRenderer
from rolecall.render.spans import Request
from rolecall.retrievers import Picked
from rolecall.runs.client.client_options import check_client_options
from rolecall.runs.scores import Scores, build_scores
from rolecall.strings import mask_details

__all__ = ['Prepared', 'PreparedPair', 'Share', 'guard_model', 'prepare']

_LOOKED_AT = 1000
_SAME = 4
"""From this many on, problems of one kind are reported as one, with their number."""
_MEDIA = ('image_url', 'audio_url', 'video_url', 'input_audio', 'image', 'audio', 'video')


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """One dataset × model with everything a run needs to ask and score it."""

    pair: Pair
    model_entry: ModelEntry
    model: Model
    inferencer: Inferencer
    scores: Scores

    @property
    def dataset(self) -> str:
        return self.pair.task.abbr

    def gold(self, row: Row) -> Any:
        """The row's own answer; of a dialogue that is asked for its last turn only, that turn's."""
        column = self.pair.task.wording.output_column
        answer = row.get(column) if column is not None else None
        only_last = self.pair.task.inferencer.asks_last_turn
        return answer[-1] if only_last and isinstance(answer, (list, tuple)) and answer else answer

    def cluster(self, row: Row) -> str | None:
        """What rows that belong together share: the column that eval_cfg names as `cluster`."""
        evaluation = self.pair.task.entry.get('eval_cfg')
        column = evaluation.get('cluster') if isinstance(evaluation, Mapping) else None
        return None if column is None or row.get(column) is None else text_of(row[column])


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one process among several that run the same config: every row whose number leaves its rank.

    >>> list(Share(1, 4).numbers(10))
    [1, 5, 9]
    """

    rank: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1 or not 0 <= self.rank < self.of:
            raise ConfigError(
                Problem('rank', f'rank {self.rank} of {self.of} does not exist.', 'Ranks count from 0 to one less.')
            )

    def numbers(self, total: int) -> range:
        """The numbers of its rows."""
        return range(self.rank, total, self.of)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A config, prepared: every dataset × model that was picked."""

    config: Mapping[str, Any]
    plan: Entries
    picked: Entries
    """The tasks and models of the plan that were picked."""
    pairs: tuple[PreparedPair, ...]
    limit: int | None
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out, where the run goes on without them."""
    share: Share | None = None
    """Which rows are asked, where several processes share them."""
    guards: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What models were told by the names of their methods: media folders, secrets."""

    def numbers(self, pair: Pair) -> range:
        """The numbers of the rows that are asked about."""
        total = len(pair.data.test) if self.limit is None else min(len(pair.data.test), self.limit)
        return range(total) if self.share is None else self.share.numbers(total)

    def count(self, pair: Pair) -> int:
        """How many rows are asked about."""
        return len(self.numbers(pair))

    @property
    def models(self) -> dict[str, Model]:
        return {pair.model.name: pair.model for pair in self.pairs}


def guard_model(model: Model | None, guards: Mapping[str, Any]) -> None:
    """Call the methods of these names that the model has: which media it may read, what its replies must not show."""
    for guard, given in guards.items():
        if callable(guarded := getattr(model, guard, None)):
            guarded(given)


def prepare(
    config: Mapping[str, Any] | str | Path,
    *,
    dataset: str | None = None,
    model: str | Sequence[str] | None = None,
    limit: int | None = None,
    data: Mapping[str, str] | None = None,
    keep_going: bool = False,
    share: Share | None = None,
) -> Prepared:
    """Build the models and open the datasets of a config. All problems of all pairs are reported together.

    With `keep_going`, datasets and pairs that cannot run are left out, unless nothing is left.
    """
    loaded = load_config(config) if isinstance(config, (str, Path)) else config
    unusable: list[Problem] = []
    plan = build_entries(loaded, skipped=unusable if keep_going else None)
    problems = [*_same_names(plan.tasks, 'dataset'), *_same_names(plan.model_entries, 'model')]
    if not plan.model_entries:
        problems.append(Problem('models', 'the config has no models.', 'Add models=[dict(…)].'))
    tasks, model_entries = match_abbr(plan.tasks, dataset, 'dataset'), match_abbr(plan.model_entries, model, 'model')
    base = loaded.path.parent if isinstance(loaded, Config) else None
    models = {model_entry.abbr: _build(model_entry, problems) for model_entry in model_entries}
    folders = media_folders(tasks, base=base, allowed=loaded.get('media_folders'), data=data)
    guards = {'restrict_media': folders, 'add_secrets': find_secrets(loaded)}
    for built in models.values():
        guard_model(built, guards)
    problems += [problem.inside(task.where) for task in tasks for problem in check_repeats(task.entry)]
    opened = {task.abbr: _open(task, base, data, problems) for task in tasks}
    picking = {task.abbr: Picking(task, rows, keeps=True) for task in tasks if (rows := opened[task.abbr]) is not None}
    pairs: list[PreparedPair] = []
    for model_entry in model_entries:
        for task in tasks:
            who, rows = models[model_entry.abbr], opened[task.abbr]
            mismatched = any(f'{task.where} × {model_entry.where}' in one.where for one in unusable)
            if who is not None and rows is not None and not mismatched:
                pair = Pair(task, model_entry, rows, picking=picking[task.abbr])
                pairs += _prepare_pair(pair, model_entry, who, problems, plan.model_entries)
            else:
                problems += _find_scoring_problems(task, model_entry, plan.model_entries)
                problems += _find_inferencer_problems(task, model_entry)
    for judge in filter(None, (one.scores.judge for one in pairs)):
        guard_model(judge.model, guards)
    found = _merge_same(list(dict.fromkeys(problems)))
    problems = [*_merge_same(unusable), *(add_line(problem, loaded) for problem in found)]
    if problems and not (keep_going and pairs):
        raise ConfigError(problems)
    used = Entries(
        tuple(task for task in tasks if any(one.pair.task is task for one in pairs)),
        tuple(entry for entry in model_entries if any(one.model_entry is entry for one in pairs)),
    )
    return Prepared(loaded, plan, used, tuple(pairs), limit, tuple(problems), share, guards)


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


def _same_names(entries: Sequence[Task] | Sequence[ModelEntry], what: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for entry in entries:
        if entry.abbr in seen:
            told = f'the abbr {entry.abbr!r} is also used by {seen[entry.abbr]}; their results would be mixed up.'
            yield Problem(entry.where, told, f'Give each {what} an abbr of its own.')
        seen.setdefault(entry.abbr, entry.where)


def _build(model_entry: ModelEntry, problems: list[Problem]) -> Model | None:
    told: list[Problem] = []
    model = None
    try:
        model = model_entry.model
    except ConfigError as error:
        told = [_place_in_model(model_entry, problem) for problem in error.problems]
    except (MissingExtraError, DataError) as error:
        told = [Problem(model_entry.where, str(error))]
    known = {problem.where.rpartition('.')[2] for problem in told}
    entry = model_entry.entry
    wrong = [*check_client_options(entry), *check_stops(entry), *check_sampling(entry)]
    told += [problem.inside(model_entry.where) for problem in wrong if problem.where not in known]
    problems += told
    return None if told else model


def _place_in_model(model_entry: ModelEntry, problem: Problem) -> Problem:
    """The problem at its place in the config: a model knows its options by its own name only."""
    option = '' if problem.where == model_entry.abbr else problem.where.removeprefix(f'{model_entry.abbr}.')
    return replace(problem, where=option).inside(model_entry.where)


def _place_in_pair(pair: Pair, where: str, problem: Problem) -> Problem:
    """The problem at its place: eval_cfg is the dataset's alone, other options may be the dataset's or the model's."""
    if problem.where.startswith('eval_cfg'):
        return problem.inside(pair.task.where)
    return replace(problem, where=f'{where}: {problem.where}' if problem.where else where)


def _open(task: Task, base: Path | None, data: Mapping[str, str] | None, problems: list[Problem]) -> Dataset | None:
    entry = {key: value for key, value in task.entry.items() if key != 'lint'}
    try:
        return open_dataset(entry, base=base, data=data)
    except ConfigError as error:
        problems += [problem.inside(task.where) for problem in error.problems]
    except (MissingExtraError, DataError) as error:
        problems.append(Problem(task.where, str(error)))
    return None


def _find_scoring_problems(task: Task, entry: ModelEntry, entries: Sequence[ModelEntry]) -> list[Problem]:
    """What is wrong with the scoring of a dataset whose rows, or whose model, cannot be used either."""
    try:
        build_scores(task, entry, entries)
    except ConfigError as error:
        return [problem.inside(task.where) for problem in error.problems]
    except (MissingExtraError, DataError):  # of the judge, which is reported with the models
        pass
    return []


def _find_inferencer_problems(task: Task, entry: ModelEntry) -> list[Problem]:
    """What is wrong with the inferencer's own options; those of the model are reported with the model."""
    inferencer = task.inferencer
    try:
        build_inferencer(inferencer.name, inferencer.options, entry={}, own=inferencer.own)
    except ConfigError as error:
        where = f'{task.where} × {entry.where}'
        return [replace(one, where=f'{where}: {one.where}' if one.where else where) for one in error.problems]
    except (MissingExtraError, DataError):
        pass
    return []


def _prepare_pair(
    pair: Pair,
    model_entry: ModelEntry,
    model: Model,
    problems: list[Problem],
    model_entries: Sequence[ModelEntry],
) -> Iterator[PreparedPair]:
    """The pair, prepared; nothing where it could not work."""
    task = pair.task
    where = f'{task.where} × {model_entry.where}'
    try:
        scores = build_scores(task, model_entry, model_entries)
        inferencer = build_inferencer(
            task.inferencer.name,
            task.inferencer.options,
            entry=model_entry.entry,
            infer_mode=task.inferencer.infer_mode,
            samples=_repeats(task),
            extract=scores.extract,
            own=task.inferencer.own,
        )
    except ConfigError as error:
        problems += [_place_in_pair(pair, where, problem) for problem in error.problems]
        return
    except (MissingExtraError, DataError) as error:
        problems.append(Problem(where, str(error)))
        return
    known = len(problems)
    judge = scores.judge
    if judge is not None:
        problems += [_place_in_pair(pair, where, problem) for problem in _find_misspelt_fields(pair, judge.judge_entry)]
    if judge is not None and all(judge.entry is not one.entry for one in model_entries):
        at = f'{task.where}.eval_cfg.evaluator.judge_cfg'
        wrong = [*check_client_options(judge.entry), *check_stops(judge.entry), *check_sampling(judge.entry)]
        problems += [problem.inside(at) for problem in wrong]
    problems += [problem.inside(task.where) for problem in _wrong_cluster(pair)]
    lacking = list(_find_lacking(pair, inferencer, model.capabilities, model.name))
    problems += [Problem(where, what, remedy) for what, remedy in lacking]
    if len(problems) == known:
        yield PreparedPair(pair, model_entry, model, inferencer, scores)


def _find_misspelt_fields(pair: Pair, judge: JudgeEntry) -> Iterator[Problem]:
    """Fields of a judge's template that no row fills."""
    rows = list(islice(pair.data.test, _LOOKED_AT))
    try:
        values = [one for row in rows[:1] for one in JudgePair(pair, judge).values(row)]
        columns = dict.fromkeys(column for row in rows for column in row)
        for one in values[:1]:
            for name, meant in dict(judge.misspelt_fields({**columns, **one})).items():
                what = f"the judge's template has the field {{{name}}}, and nothing fills it."
                yield Problem(f'{judge.where}.prompt_template', what, f'Did you mean {{{meant}}}?')
    except (RenderError, DataError):
        return


def _wrong_cluster(pair: Pair) -> Iterator[Problem]:
    evaluation = pair.task.entry.get('eval_cfg')
    column = evaluation.get('cluster') if isinstance(evaluation, Mapping) else None
    if column is None:
        return
    try:
        seen = [set(row) for row in islice(pair.data.test, _LOOKED_AT)]
    except DataError:
        return
    if seen and not any(column in columns for columns in seen):
        yield Problem('eval_cfg.cluster', f'no row has the column {column!r}.', did_you_mean(column, seen[0]))


def _repeats(task: Task) -> int | None:
    """How often each row is asked, where the dataset says so (`n`)."""
    repeats = task.entry.get('n')
    return repeats if isinstance(repeats, int) and repeats > 1 else None


_NEEDS = {
    'generate': ('generates answers; model {model} cannot generate.', 'Use a model that can.'),
    'score': (
        'needs prompt log-probabilities; model {model} does not provide them.',
        "Use a local model, or a server that gives them (score='echo' or 'prompt_logprobs'); or use GenInferencer.",
    ),
}


def _find_lacking(pair: Pair, inferencer: Inferencer, can: Capabilities, model: str) -> Iterator[tuple[str, str]]:
    """What the pair needs and the model lacks."""
    name = pair.task.inferencer.name
    for need in inferencer.needs:
        if not getattr(can, need):
            what, remedy = _NEEDS[need]
            yield f'{name} {what.format(model=model)}', remedy
    if name == 'CLPInferencer' and pair.model_entry is not None and isinstance(pair.model_entry.renderer, ApiRenderer):
        what = 'CLPInferencer appends choices to a text, but this model is sent messages.'
        yield what, 'Use a model that takes text.'
    request = _first_request(pair)
    if pair.task.inferencer.options.get('output_schema') is not None and not can.json_schema:
        yield f'output_schema: model {model} cannot be held to a JSON Schema.', 'Leave output_schema out.'
    if pair.task.inferencer.prefill and not can.prefill:
        yield f'prefill=True starts the answer, but model {model} cannot continue it.', 'Leave prefill out.'
    if not isinstance(request, list) or not request or not isinstance(request[0], Mapping):
        if name == 'CLPInferencer' or request is None or not can.chat or isinstance(request, list):
            return
        yield (
            f'{model} takes messages, but its entry renders a text.',
            "Give it a meta template with api_role, or ask for completions with endpoint='completions'.",
        )
        return
    if not can.chat:
        yield f'{model} takes text, but its entry renders messages.', 'Give it a meta_template, or a chat_template.'
    messages = [message for message in request if isinstance(message, Mapping)]
    if not can.system and any(message.get('role') == 'system' for message in messages):
        yield f'{model} has no system role.', "Add fallback_role='HUMAN' to the SYSTEM speech."
    if not can.media and any(_has_media(message) for message in messages):
        yield f'{model} does not accept images, audio or video.', 'Use a model that does.'


def _has_media(message: Mapping[str, Any]) -> bool:
    content = message.get('content')
    return isinstance(content, (list, tuple)) and any(part.get('type') in _MEDIA for part in content)


def _first_request(pair: Pair) -> Request | None:
    """The first row's request without examples; None where that row cannot be worded or read."""
    try:
        for row in islice(pair.data.test, 1):
            step = pair.step(row, Picked(()))
            return step.requests[0][1] if step is not None else None
    except (RenderError, DataError):
        pass
    return None
