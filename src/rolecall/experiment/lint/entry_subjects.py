"""The subjects that rules look at, described from a config's entries: a dataset, a model, and the two together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolecall.config_keys import MODEL_PLACES, keys_of
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.errors import ConfigError, DataError, MissingExtraError, Problem, close_match
from rolecall.experiment.lint.subject import Postprocessor, Subject
from rolecall.experiment.opening.judges import JudgeEntry, describe_scoring
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import check_sampling, check_stops, find_option, sampling_of
from rolecall.experiment.opening.tasks import MISPLACED_OPTIONS, TaskEntry
from rolecall.models.backends import MODELS, find_type_problems
from rolecall.registry import bare_name, part_name, split_entry
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import METRICS
from rolecall.scoring.metrics.assertions import COLUMN
from rolecall.sources.datasets import Dataset

if TYPE_CHECKING:
    from rolecall.models.tokenizers.tokenizer import Tokenizer


_KINDS = {
    'rolecall.models.openai': 'OpenAI and servers',
    'rolecall.models.anthropic': 'Anthropic',
    'rolecall.models.llama': 'embedded',
    'rolecall.models.transformers': 'Transformers, vLLM',
    'rolecall.models.vllm': 'Transformers, vLLM',
    'rolecall.models.function': 'functions',
}
_MEANT = {
    'max_concurrency': 'concurrency',
    'num_workers': 'max_workers',
    'qps': 'query_per_second',
    'api_base': 'openai_api_base',
    'max_tokens': 'max_out_len',
}
"""Words of other tools, and ours."""
_NEARLY = 0.75
DATASET_KEYS = keys_of('dataset')
FOREIGN_KEYS = keys_of('foreign')
_FILE_TYPES = ('File', 'Rows', 'JsonlDataset')
"""Types whose options are all known. Other loaders take options of their own."""


def describe_dataset(
    task: TaskEntry, opened: Dataset | str, tasks: Sequence[TaskEntry], *, judge: JudgeEntry | None, judge_missing: str
) -> Subject:
    """A dataset among those of its config. `opened` is the dataset, or why it cannot be opened."""
    reader = task.reader
    apart = None not in (reader.train_range, reader.test_range) and reader.train_range != reader.test_range
    same = reader.train_split == reader.test_split or (isinstance(opened, Dataset) and opened.train is opened.test)
    return Subject(
        level='dataset',
        where=task.abbr,
        namesakes=_find_namesakes(task, tasks),
        unknown_keys=tuple(unknown_dataset_keys(task.entry)),
        wording=task.wording,
        input_columns=reader.input_columns,
        asks=task.inferencer.kind,
        labels=task.labels,
        shots=task.retriever.ice_num,
        same_rows=same and not apart,
        misplaced_options=tuple(key for key in task.entry['infer_cfg'] if key in MISPLACED_OPTIONS),
        postprocessor=_read_postprocessor(task.entry),
        rows_missing=opened if isinstance(opened, str) else '',
        test_range=reader.test_range,
        judge_missing=judge_missing,
        scoring_problems=_find_scoring_problems(task, judge),
        assertions=_find_assertions(task.entry.get('eval_cfg')),
    )


def describe_model(model_entry: ModelEntry, model_entries: Sequence[ModelEntry]) -> Subject:
    """A model among those of its config."""
    tokenizer, missing = _find_tokenizer(model_entry.entry)
    return Subject(
        level='model',
        where=model_entry.abbr,
        namesakes=_find_namesakes(model_entry, model_entries),
        unknown_keys=tuple(unknown_model_keys(model_entry.entry)),
        foreign_keys=tuple(key for key in model_entry.entry if key in FOREIGN_KEYS),
        template_unused=model_entry.ignores_own_template,
        takes=model_entry.kind,
        type_problems=() if model_entry.entry.get('type') is None else find_type_problems(model_entry.entry['type']),
        meta=model_entry.meta,
        chat_template=model_entry.renderer.template if isinstance(model_entry.renderer, ChatRenderer) else None,
        tokenizer=tokenizer,
        tokenizer_missing=missing,
        server=model_entry.server,
        max_seq_len=model_entry.entry.get('max_seq_len'),
    )


def describe_pair(dataset: Subject, model: Subject, task: TaskEntry, model_entry: ModelEntry) -> Subject:
    """A dataset with a model: what each is, and the lengths they agree on (the dataset's setting wins)."""
    return replace(
        dataset,
        level='pair',
        where=f'{task.abbr} × {model_entry.abbr}',
        takes=model.takes,
        meta=model.meta,
        chat_template=model.chat_template,
        tokenizer=model.tokenizer,
        values_stay_text=model_entry.takes_token_ids and model.tokenizer is not None,
        max_out_len=sampling_of(task.inferencer.options, model_entry.entry).max_out_len,
        alike_samples=_draws_alike(task, model_entry),
        sampling_problems=tuple(
            problem
            for check in (check_stops, check_sampling)
            for problem in check(task.inferencer.options, model_entry.entry)
        ),
    )


def _read_postprocessor(entry: Mapping[str, Any]) -> Postprocessor | None:
    scores = entry.get('eval_cfg')
    postprocessor = scores.get('pred_postprocessor') if isinstance(scores, Mapping) else None
    if not isinstance(postprocessor, Mapping) or 'type' not in postprocessor:
        return None
    return Postprocessor(
        part_name(postprocessor['type']), {key: value for key, value in postprocessor.items() if key != 'type'}
    )


def _find_assertions(scores: Any) -> tuple[str, bool]:
    evaluator = scores.get('evaluator') if isinstance(scores, Mapping) else None
    kind, options = split_entry(evaluator) if isinstance(evaluator, Mapping) else (evaluator, {})
    if METRICS.builtin_name(kind) != 'AssertEvaluator':
        return '', False
    return str(options.get('column', COLUMN)), bool(options.get('asserts'))


def _find_tokenizer(entry: Mapping[str, Any]) -> tuple[Tokenizer | None, str]:
    """The model's tokenizer, or why there is none."""
    from rolecall.models.tokenizers.tokenizer import find_tokenizer

    try:
        return find_tokenizer(entry), ''
    except (MissingExtraError, DataError) as missing:
        return None, str(missing)


def _draws_alike(task: TaskEntry, model_entry: ModelEntry) -> bool:
    """Whether several answers are drawn to one prompt without a temperature, so that they may all be the same."""
    options, entry = task.inferencer.options, model_entry.entry
    samples = find_option('sc_size', options) or find_option('num_return_sequences', options, entry) or 1
    several = isinstance(samples, int) and samples > 1
    return several and not sampling_of(options, entry).temperature


def _find_scoring_problems(task: TaskEntry, judge: JudgeEntry | None) -> tuple[Problem, ...]:
    eval_cfg = task.entry.get('eval_cfg')
    if not isinstance(eval_cfg, Mapping):
        return () if not eval_cfg else (Problem('', f'expected a dict, got {eval_cfg!r:.60}.'),)
    evaluation = {key: value for key, value in eval_cfg.items() if key != 'cluster'}
    try:
        build_scorer(
            describe_scoring(evaluation, judge),
            output_column=task.wording.output_column,
            judge=lambda values: '',  # whether there is one is another finding
            turns=task.inferencer.asks_every_turn and not (judge is not None and judge.whole_dialogue),
        )
    except ConfigError as error:
        return tuple(error.problems)
    except MissingExtraError as error:
        return (Problem('evaluator', str(error)),)
    return ()


def _find_namesakes(entry: TaskEntry | ModelEntry, all_of_them: Sequence[TaskEntry | ModelEntry]) -> tuple[str, ...]:
    """Every place where the abbr is used, if it is used more than once and this is the first."""
    places = tuple(other.where for other in all_of_them if other.abbr == entry.abbr)
    return places if len(places) > 1 and places[0] == entry.where else ()


def unknown_model_keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The keys of a model's entry that nothing reads, each with what was probably meant.

    >>> list(unknown_model_keys({'type': 'OpenAI', 'path': 'gpt', 'max_concurrency': 64, 'attr': 'service'}))
    [('max_concurrency', 'concurrency')]
    """
    declared = MODELS.declared(bare_name(entry.get('type')) or '')
    kinds = (kind for module, kind in _KINDS.items() if str(declared).startswith(module))
    if (kind := next(kinds, None)) is None:  # a class of the user's own: its keys are options of that class
        return
    keys = keys_of(*MODEL_PLACES[kind], 'sampling')
    for key in entry:
        if key not in keys and key not in FOREIGN_KEYS:
            yield key, _find_meant(key, keys)


def unknown_dataset_keys(entry: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The same for a dataset's entry of a type with known keys; loaders have options of their own.

    >>> list(unknown_dataset_keys({'type': 'File', 'path': 'x.csv', 'encodng': 'utf-8', 'shuffle': True}))
    [('encodng', 'encoding'), ('shuffle', None)]
    """
    if bare_name(entry.get('type', 'File')) in _FILE_TYPES:
        for key in entry:
            if key not in DATASET_KEYS:
                yield key, _find_meant(key, DATASET_KEYS)


def _find_meant(key: str, keys: Collection[str]) -> str | None:
    meant = _MEANT.get(key)
    return meant if meant in keys else close_match(key, sorted(keys), cutoff=_NEARLY)
