"""What a number rests on, as far as it is known: rows, prompts, replies, and how they were scored.

A claim is a run, a log of another harness, a config that was not run, or a number that was published.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rolecall.compat.lm_eval.evaluator import TaskEvaluator
from rolecall.core.render.spans import texts_of
from rolecall.errors import MissingExtraError, RolecallError, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.model_entries import ModelEntry, model_abbr
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.insight.alignment import ContentRow, is_imported, rows_by_dataset
from rolecall.insight.run_source import PairRows, StoredRun, requests_sent
from rolecall.insight.scored_mixes import score_results
from rolecall.models.backends import MODELS
from rolecall.runs.batches.snapshot import hide_keys, without_rows
from rolecall.runs.logs.readers import find_harness, read_log
from rolecall.runs.parts import PartDigests, digest_pair, is_data
from rolecall.runs.prepare import read_scoring
from rolecall.runs.store.directory import FILE, MEDIA, is_bundle, read_bundled_rows
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import find_entries
from rolecall.scoring.evaluate import DatasetScorer, build_scorer
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.config.files import Config
from rolecall.usercode import without_user_code

_READ_WITH = ('evaluator', 'read_as', 'pred_postprocessor', 'dataset_postprocessor')
_ALIKE, _COMPARED = 0.98, 1000
"""The share of a log's marks that our scoring must give as well to stand for the log's own, and of how many."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One number of a dataset × model, and what is known of how it came about."""

    title: str
    dataset: str = ''
    model: str = ''
    card: Scorecard | None = None
    rows: Sequence[ContentRow] = ()
    is_log: bool = False
    scorer: DatasetScorer | None = None
    """How its replies are scored; None where only its marks are known."""
    entries: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """The dataset's and the model's entry, where they are known."""
    parts: PartDigests = field(default_factory=PartDigests)
    unknown: tuple[str, ...] = ()
    """What cannot be known, each as a sentence."""
    run: StoredRun | None = field(default=None, repr=False)
    experiment: Experiment | None = field(default=None, repr=False)
    """Where its config can be opened."""
    pair: Pair | None = field(default=None, repr=False)
    is_stored: bool = False
    """Whether its entries come from a run directory, which may be a stranger's."""
    has_own_rows: bool = True
    """Whether the pair reads the dataset's own rows, not those that the run has kept."""

    @property
    def value(self) -> float | None:
        return self.card.value if self.card else None

    def refuse_code(self) -> AbstractContextManager[None]:
        """Inside, code that a run directory names is not imported."""
        return without_user_code() if self.is_stored else nullcontext()

    @property
    def factor(self) -> float:
        """From rows' scores to the scale of the report."""
        return 100.0 if self.card is None or self.card.is_percent else 1.0

    @property
    def has_replies(self) -> bool:
        return any(row.result.outcome != 'failed' or row.result.reason != _NOT_ASKED for row in self.rows)

    @property
    def can_be_read(self) -> bool:
        """Whether it is no log, or one with what the model said."""
        return not self.is_log or any(row.result.replies or row.result.prediction is not None for row in self.rows)

    @cached_property
    def _pair_rows(self) -> PairRows | None:
        return None if self.pair is None else PairRows(self.pair)

    def preview(self, row: ContentRow) -> Preview | None:
        """The first request of a row, with origins where the config is known and words it as it was sent."""
        if self.run is None:
            return next(iter(self.word(row.result)), None)
        sent = requests_sent(self.run, row.result, self.word)
        return sent[0].preview if sent else None

    def word(self, result: Result) -> list[Preview]:
        """The requests of a row as the config words them now, after the replies that it had."""
        rows = self._pair_rows
        if rows is None:
            return []
        with suppress(RolecallError), self.refuse_code():
            return rows.previews(result.row, replies=result.replies)
        return []


_NOT_ASKED = 'not asked yet'


class ClaimSource:
    """What stands on one side: a run, a log, a config or a number, with the dataset × model it has."""

    def __init__(self, source: str | Path | float | SourceLike | Experiment, stack: ExitStack, config: Any) -> None:
        """`config` is the config of a run that names code of its own, which is not imported from a run directory."""
        self.number = _read_number(source)
        self.reader = None if self.number is not None else _open_store(source, stack)
        self.title = 'config'
        self.experiment: Experiment | None = None
        self._config: Any = config
        if self.reader is None:
            self._config = source
        self._rows: dict[tuple[str, str], list[ContentRow]] = {}
        if self._config is not None and self.number is None:
            self.experiment = Experiment.open(self._config)
            self.title = self.experiment.name
            self.take_models(self)
        if isinstance(source, str | Path | float | int):
            self.title = str(source)

    def take_models(self, other: ClaimSource) -> None:
        """Give a config without models (a benchmark, a task file) those of a run."""
        if self.experiment is None or self.experiment.all_models or other.reader is None:
            return
        entries = {model: find_entries(other.reader.config(), '', model)[1] for _, model in other.pairs()}
        bare = {'type': _refuse_call}
        models = tuple({**_stand_in(entry or bare), 'abbr': name} for name, entry in entries.items())
        self.experiment = Experiment.open(self._config, SourceOptions(models=models))

    @classmethod
    def of_run(cls, directory: str | Path, stack: ExitStack, config: Any) -> tuple[ClaimSource, RunReader]:
        """A run directory or a bundle, and nothing else."""
        if not is_bundle(Path(directory)) and not (Path(directory) / FILE).is_file():
            RunReader(directory).close()  # says what is missing
        source = cls(directory, stack, config)
        if source.reader is None:
            raise RunError(f'{directory}: not a run directory.')
        return source, source.reader

    @property
    def is_log(self) -> bool:
        """Whether another harness made it."""
        return self.reader is not None and is_imported(self.reader)

    def pairs(self) -> list[tuple[str, str]]:
        """Every dataset × model; none of a number."""
        if self.reader is not None:
            return self.reader.pairs()
        if self.experiment is None:
            return []
        return [(task.abbr, model.abbr) for task in self.experiment.tasks for model in self.experiment.models]

    def rows(self, dataset: str, model: str) -> list[ContentRow]:
        """The rows of a dataset × model with their columns and prompts."""
        if (dataset, model) not in self._rows:
            if self.reader is not None:
                rows = rows_by_dataset(self.reader, model, dataset).get(dataset, [])
            else:
                pair = self._pair_of_config(dataset, model)
                rows = [] if pair is None else list(_word_rows(pair))
            self._rows[dataset, model] = rows
        return self._rows[dataset, model]

    def _pair_of_config(self, dataset: str, model: str) -> Pair | None:
        if self.experiment is None:
            return None
        task = next((task for task in self.experiment.tasks if task.abbr == dataset), None)
        entry = next((entry for entry in self.experiment.models if entry.abbr == model), None)
        return None if task is None else self.experiment.pair(task, entry)

    def claim(self, dataset: str, model: str) -> Claim:
        """The number of a dataset × model, with what it rests on."""
        if self.number is not None:
            card = Scorecard('', '', 'published', self.number, unit='%')
            return Claim(title=self.title, card=card, unknown=(f'{self.title} is a number: no prompts, no replies.',))
        rows = self.rows(dataset, model)
        del self._rows[dataset, model]
        claim = Claim(title=self.title, dataset=dataset, model=model, rows=rows, is_log=self.is_log)
        if self.reader is not None:
            run = StoredRun(self.reader)
            cards = [card for card in run.scorecards() if (card.dataset, card.model) == (dataset, model)]
            parts = run.parts.get((dataset, model), PartDigests())
            stored = self.experiment is None
            damage = tuple(f'{self.title}: {line}' for line in filter(None, [run.damage]))
            claim = replace(
                claim, run=run, card=cards[0] if cards else None, parts=parts, is_stored=stored, unknown=damage
            )
        try:
            with claim.refuse_code():
                return self._add_log_scorer(claim) if self.is_log else _check_scorer(self._add_config(claim))
        except (RolecallError, MissingExtraError, OSError) as error:
            why = ' '.join(str(error).split())[:200]
            why = f'{self.title}: its config cannot be opened ({why}); its marks stand.'
            return replace(claim, unknown=(*claim.unknown, why))

    def _add_config(self, claim: Claim) -> Claim:
        """The claim with its entries, scorer and prompts, as the config says."""
        if self.experiment is not None:
            pair = self._pair_of_config(claim.dataset, claim.model)
            if pair is None or pair.model_entry is None:
                raise RunError(f'{self.title}: the config has no {claim.dataset} × {claim.model}.')
            parts = claim.parts if claim.parts != PartDigests() else digest_pair(pair, None, {})
            own = replace(claim, parts=parts, experiment=self.experiment)
            return _complete(own, pair.task, pair.model_entry, pair)
        if self.reader is None:
            return claim
        dataset, model = find_entries(self.reader.config(), claim.dataset, claim.model)
        if dataset is None or model is None:
            raise RunError('the run does not spell out its entries')
        bundled = read_bundled_rows(self.reader.directory, claim.dataset)
        restored = (
            {**without_rows(dataset), 'type': 'Rows', **bundled} if bundled else restore_rows(dataset, claim.rows)
        )
        claim = replace(claim, has_own_rows=restored is dataset)
        dataset, model = restored, _stand_in(model)
        judges = [_stand_in(entry) for entry in find_judge_entries(self.reader.config(), dataset)]
        config = {'datasets': [dataset], 'models': [model, *(judge for judge in judges if judge != model)]}
        place = self.reader.directory / MEDIA / 'config.json'
        experiment = Experiment.open(Config(place, config) if bundled else config)
        [task], [entry, *_] = experiment.tasks, experiment.models
        pair = None
        with suppress(RolecallError, OSError):  # the examples may be gone; then prompts have no origins
            pair = experiment.pair(task, entry)
        return _complete(replace(claim, experiment=experiment), task, entry, pair)

    def _add_log_scorer(self, claim: Claim) -> Claim:
        """The log with a scorer of ours, if one that its settings describe gives the log's own marks."""
        unknown = [*claim.unknown]
        unknown += [] if any(row.text for row in claim.rows) else [f'{self.title}: the log has no prompts.']
        unknown += [] if claim.can_be_read else [f'{self.title}: the log has no replies.']
        scorer = self._build_log_scorer(claim.dataset, claim.model)
        if scorer is not None and _agrees(scorer, claim.rows):
            return replace(claim, scorer=scorer, unknown=tuple(unknown))
        unknown.append(f'{self.title}: how the log read and scored replies cannot be repeated here; its marks stand.')
        return replace(claim, unknown=tuple(unknown))

    def _build_log_scorer(self, dataset: str, model: str) -> DatasetScorer | None:
        imported = self.reader.manifest().get('imported') if self.reader is not None else None
        settings = (imported or {}).get('settings')
        own = settings.get(model) if isinstance(settings, Mapping) else None
        scoring = own.get(dataset.partition(',')[0]) if isinstance(own, Mapping) else None
        if not isinstance(scoring, Mapping):
            return None
        with suppress(RolecallError, MissingExtraError):
            if (evaluator := TaskEvaluator.from_log(scoring, dataset.partition(',')[2])) is not None:
                return build_scorer({'evaluator': evaluator})
            if 'evaluator' in scoring:
                return build_scorer({key: scoring[key] for key in _READ_WITH if key in scoring})
        return None


def _open_store(source: Any, stack: ExitStack) -> RunReader | None:
    """The run directory, or the log as one; None if it is neither."""
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and ((path / FILE).is_file() or is_bundle(path)):
        return stack.enter_context(RunReader(path))
    harness = find_harness(path) if path is not None and path.exists() else None
    if path is None or harness is None:
        return None
    out = Path(stack.enter_context(TemporaryDirectory()), path.name.split('.')[0])
    read_log(harness, path, out)
    return stack.enter_context(RunReader(out))


def _read_number(source: Any) -> float | None:
    """
    >>> _read_number('62.4 %'), _read_number('runs/a')
    (62.4, None)
    """
    with suppress(ValueError, TypeError):
        number = float(source.strip().rstrip('%') if isinstance(source, str) else source)
        return number if math.isfinite(number) else None
    return None


def _complete(claim: Claim, task: TaskEntry, entry: ModelEntry, pair: Pair | None) -> Claim:
    models = claim.experiment.all_models if claim.experiment is not None else ()
    scorer = read_scoring(task, entry, models).scorer
    return replace(claim, scorer=scorer, entries=(task.entry, entry.entry), pair=pair)


def _word_rows(pair: Pair) -> Iterator[ContentRow]:
    for number, row, picked in pair.rows(strict=False):
        text = ''
        with suppress(RolecallError):
            step = pair.step(row, picked)
            request = step.requests[0][1] if step is not None and step.requests else ''
            text = '\n'.join(texts_of(request).values())
        gold = row.get(pair.task.wording.output_column or '')
        model = pair.model_entry.abbr if pair.model_entry else ''
        yield ContentRow(Result(pair.task.abbr, model, number, 'failed', _NOT_ASKED, gold=gold), row, text)


def restore_rows(dataset: Mapping[str, Any], rows: Sequence[ContentRow]) -> Mapping[str, Any]:
    """A dataset's entry with the rows that the run has kept, where it counted inline rows or names code."""
    counted = isinstance(dataset.get('test'), str) and not Path(dataset['test']).exists()
    if not counted and is_data({'type': dataset.get('type')}):
        return dataset
    last = max((row.result.row for row in rows), default=-1)
    by_number = {row.result.row: row.fields for row in rows}
    test = [by_number.get(number, {}) for number in range(last + 1)]
    train = dataset['train'] if isinstance(dataset.get('train'), list) else []
    reader = {key: value for key, value in (dataset.get('reader_cfg') or {}).items() if not key.endswith('_range')}
    rest = {key: value for key, value in dataset.items() if key != 'gold_patch'}  # the rows have its answers
    return {**rest, 'type': 'Rows', 'test': test, 'train': train, 'reader_cfg': reader}


def _stand_in(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a model without keys, which trusts no code of a repository; with a stand-in for a function."""
    plain = {key: value for key, value in _distrust(hide_keys(model)).items() if key not in ('function', 'score')}
    called = str(model.get('function', model.get('type')))
    is_path = {'.', ':'} & {*called} and MODELS.builtin_name(called) is None
    return {**plain, 'type': _refuse_call} if is_path else plain


def _distrust(value: Any) -> Any:
    """An entry that lets no code in a model's folder run."""
    if isinstance(value, Mapping):
        return {key: _distrust(inner) for key, inner in value.items() if key != 'trust_remote_code'}
    return [_distrust(inner) for inner in value] if isinstance(value, list | tuple) else value


def find_judge_entries(config: Mapping[str, Any], dataset: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The models of a config that a dataset's evaluator names as its judges."""
    named = str(dataset.get('eval_cfg'))
    models = [entry for entry in config.get('models') or () if isinstance(entry, Mapping)]
    return [entry for entry in models if 'judge_cfg' in named and repr(model_abbr(entry)) in named]


def is_stand_in(claim: Claim) -> bool:
    """Whether the model of a claim is code of the user's own, which a run directory only names."""
    return claim.entries is not None and claim.entries[1].get('type') is _refuse_call


def _refuse_call(prompt: str) -> str:
    """Stands for a model of the user's own where prompts are only worded."""
    raise RunError(f'a stored run is not asked: {prompt!r:.40}')


def _check_scorer(claim: Claim) -> Claim:
    """The claim without its scorer where that no longer gives the marks that are stored: compared answers, for one."""
    if claim.scorer is None or all(row.result.score is None for row in claim.rows) or _agrees(claim.scorer, claim.rows):
        return claim
    why = f'{claim.title}: its replies cannot be scored again as they were; its marks stand.'
    return replace(claim, scorer=None, unknown=(*claim.unknown, why))


def _agrees(scorer: DatasetScorer, rows: Sequence[ContentRow]) -> bool:
    """Whether a scorer gives the marks that are stored, on some of the rows if there are many."""
    some = rows if len(rows) <= _COMPARED else random.Random(0).sample(rows, _COMPARED)
    try:
        marks = score_results(scorer, [row.result for row in some], [row.fields for row in some]).scores
    except (RolecallError, MissingExtraError):
        return False
    same = sum(mark == row.result.score for mark, row in zip(marks, some, strict=True))
    return bool(some) and same >= _ALIKE * len(some)
