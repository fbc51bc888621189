"""The input of a report: a finished (or unfinished) run, and what was sent for each of its rows.

A prompt is shown by origin only if it equals what was sent. Otherwise what was sent is shown, without origins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, zip_longest
from typing import Any

from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Request, Span, texts_of
from rolecall.errors import ConfigError, RenderError, RolecallError
from rolecall.experiment.experiment import Experiment, Files
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.insight.kept_counts import CountKind, HitCount, describe_unreadable, read_counts
from rolecall.models.prices import Price, find_price
from rolecall.runs.batches.ledger_reader import BatchTokens, describe_waiting, read_batch_tokens
from rolecall.runs.parts import PartDigests
from rolecall.runs.store.codec import pack_request, unpack_request
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result, SettledRows
from rolecall.runs.store.run_reader import NodeTimes, RunReader
from rolecall.runs.versions import describe_other_versions, describe_seal, pairs_of, parts_of
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.datasets import Row
from rolecall.sources.retrievers import Picked
from rolecall.usercode import without_user_code

Previews = Callable[[Result], Iterable[Preview]]
"""Gives the requests of a row with the origin of every character."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request of a row. Without origins, every span is of kind `text` and `origins` is False."""

    preview: Preview
    origins: bool = True
    changed: bool = False
    """Whether the config now words this request differently."""


def requests_sent(run: StoredRun, result: Result, previews: Previews | None = None) -> list[SentRequest]:
    """Everything that was sent for one row, in order."""
    stored = [run.request(mark) for mark in result.fingerprints]
    drafts = list(previews(result)) if previews else []
    if not any(request is not None for request in stored):
        return [SentRequest(preview) for preview in drafts]
    return [
        _match_preview(result, preview, request)
        for preview, request in zip_longest(drafts, stored)
        if request is not None
    ]


def judge_requests(run: StoredRun, result: Result) -> list[tuple[SentRequest, str]]:
    """The requests to judges about a row, with their replies; judges are named if there are several."""
    judged = [judgement for judgement in result.judged if judgement is not None]
    several = len({judgement.get('judge') for judgement in judged}) > 1
    stored = [
        (
            run.request(judgement['fingerprint']),
            f'{judgement["judge"]}: {judgement["reply"]}' if several else judgement['reply'],
        )
        for judgement in judged
    ]
    return [
        (SentRequest(stored_preview(result, request), origins=False), reply)
        for request, reply in stored
        if request is not None
    ]


def _match_preview(result: Result, preview: Preview | None, request: Request) -> SentRequest:
    if preview is not None and says_the_same(preview, request):
        return SentRequest(preview)
    return SentRequest(stored_preview(result, request), origins=False, changed=preview is not None)


def says_the_same(preview: Preview, stored: Request) -> bool:
    """Whether a preview is what was stored (where long media are named, not kept)."""
    request = preview.request
    return request is not None and bool(request == stored or unpack_request(pack_request(request)) == stored)


def stored_preview(result: Result, request: Request) -> Preview:
    """A stored request in the shape of a preview, all its words of one kind."""
    spans = tuple(Span(words, _AS_SENT, *place) for place, words in texts_of(request).items())
    return Preview(result.dataset, result.model, result.row, 'gen', None, None, '', request, spans)


_AS_SENT = Origin('text')
_FAR = 100


def _find_valid_price(entry: Mapping[str, Any], overrides: Mapping[str, Price] | None) -> Price | None:
    """The price of a stored entry; None if it is invalid today, so that it does not stop a report."""
    try:
        return find_price(entry, overrides)
    except ConfigError:
        return None


def _find_judges(value: Any) -> Iterator[dict[str, Any]]:
    """The entries of models that only judge, wherever datasets hold them."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    judge = value.get('judge_cfg') if isinstance(value, Mapping) else None
    for item in judge if isinstance(judge, list | tuple) else (judge,):
        if isinstance(item, str):
            yield {'abbr': item, 'model': item.rpartition('/')[2]}
        elif isinstance(item, Mapping):
            yield {'abbr': 'judge', **item}
    for item in inner:
        yield from _find_judges(item)


class StoredRun:
    """A run directory, one model of it, or one wording of a dataset (`name [wording]`, which is called `name` here), as
    reports and comparisons read it."""

    def __init__(self, archive: RunReader, model: str | None = None, dataset: str | None = None) -> None:
        self.archive = archive
        self._model = model
        self._dataset = dataset

    @property
    def title(self) -> str:
        """The directory's name, with that of the model or the wording."""
        return ': '.join(filter(None, (self.archive.directory.resolve().name, self._model, self._dataset)))

    @property
    def created(self) -> str:
        """When the store was last written; of a log of another harness, who wrote it and when."""
        log = self.archive.manifest().get('imported')
        if isinstance(log, Mapping):
            return f'made by {log["harness"]} (version: {log["version"]}; time: {log["created"]})'
        modified = (self.archive.directory / FILE).stat().st_mtime
        return datetime.fromtimestamp(modified).isoformat(' ', 'minutes')

    @property
    def damage(self) -> str:
        """What could not be read so far, in a sentence; empty if nothing is damaged."""
        return str(self.archive.damage or '')

    @property
    def notices(self) -> list[str]:
        """Notices above the scores: requests waiting in a batch, damage, and counts that cannot be read."""
        directory = self.archive.directory
        return [*describe_waiting(directory), *filter(None, [self.damage]), *describe_unreadable(directory)]

    @property
    def standing(self) -> list[str]:
        """Whether a sealed run went as planned, and which other versions stand beside it."""
        versions = describe_other_versions(self.archive.directory, pairs_of(self.archive))
        return [*filter(None, [describe_seal(self.archive)]), *versions]

    @property
    def batched(self) -> Mapping[tuple[str, str], BatchTokens]:
        """The tokens billed at the batch price, by dataset and model."""
        return read_batch_tokens(self.archive.directory)

    def counts(self, kind: CountKind) -> list[HitCount]:
        """The counts of scanners or of probes that are kept with it."""
        return read_counts(self.archive.directory, kind)

    @property
    def parts(self) -> Mapping[tuple[str, str], PartDigests]:
        """The digests of the parts of each dataset × model, as far as they are known."""
        pairs = pairs_of(self.archive).items()
        return {(self._rename(name), model): parts_of(pair) for (name, model), pair in pairs if self._has(name, model)}

    def prices(self, overrides: Mapping[str, Price] | None = None) -> dict[str, Price | None]:
        """The price of each model, judges included, as far as it is known."""
        config = self.archive.config()
        entries = [*_find_judges(config.get('datasets')), *(config.get('models') or [])]
        models = [entry for entry in entries if isinstance(entry, Mapping)]
        return {str(entry.get('abbr', '')): _find_valid_price(entry, overrides) for entry in models}

    def scorecards(self) -> list[Scorecard]:
        """The score of every dataset × model, in the order of the config; others come last."""
        cards = [card for card in self.archive.scorecards() if self._has(card.dataset, card.model)]
        return cards if self._dataset is None else [replace(card, dataset=self._rename(card.dataset)) for card in cards]

    def results(self) -> Iterator[Result]:
        """Every finished row."""
        results = self.archive.results(self._dataset, self._model)
        if self._dataset is None:
            return results
        return (replace(result, dataset=self._rename(result.dataset)) for result in results)

    def times(self) -> list[NodeTimes]:
        """Where rows were computed, if in other processes."""
        return self.archive.times()

    def light_results(self) -> Iterator[Result | SettledRows]:
        """Every finished row, perhaps without texts: enough for counting outcomes, scores and tokens."""
        return self.archive.light_results() if self._model is None else self.results()

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One finished row; None if it is damaged."""
        return self.archive.whole_result(self._dataset or dataset, model, row)

    def request(self, fingerprint: str) -> Request | None:
        """The request with this fingerprint, if it was stored."""
        request: Request | None = self.archive.request(fingerprint)
        return request

    def _has(self, dataset: str, model: str) -> bool:
        return self._model in (None, model) and self._dataset in (None, dataset)

    def _rename(self, dataset: str) -> str:
        return dataset if self._dataset is None else name_without_wording(dataset)


def name_without_wording(dataset: str) -> str:
    """
    >>> name_without_wording('sums [Add {q}]')
    'sums'
    """
    return dataset.partition(' [')[0]


def list_wordings(archive: RunReader) -> list[tuple[StoredRun, StoredRun]]:
    """Of every dataset that was asked in several wordings, the first beside each of the others."""
    first: dict[str, str] = {}
    wordings = []
    for name in dict.fromkeys(card.dataset for card in StoredRun(archive).scorecards()):
        base = first.setdefault(name_without_wording(name), name)
        if base != name:
            wordings.append((StoredRun(archive, dataset=base), StoredRun(archive, dataset=name)))
    return wordings


class ConfigPreviews:
    """Gives the previews of a result. Datasets are opened when the first of their rows is asked for.

    A dataset that can no longer be read gives none; `problems` says why.
    """

    def __init__(
        self,
        source: Experiment | SourceLike,
        *,
        data: Files | None = None,
        limit: int | None = None,
        is_stored: bool = False,
    ) -> None:
        self._importing: Callable[[], AbstractContextManager[None]] = without_user_code if is_stored else nullcontext
        with self._importing():
            self._experiment = Experiment.open(source, SourceOptions(data=data or {}))
        self._limit = limit
        self._tasks = {task.abbr: task for task in self._experiment.all_tasks}
        self._models = {model.abbr: model for model in self._experiment.all_models}
        self._pairs: dict[tuple[str, str], PairRows] = {}
        self.problems: dict[tuple[str, str], str] = {}

    @classmethod
    def of_stored(cls, config: Mapping[str, Any]) -> ConfigPreviews | None:
        """The previews of the config that a run has stored. None if it names code, which a report does not import."""
        try:
            return cls(config, is_stored=True)
        except RolecallError:
            return None

    def __call__(self, result: Result) -> list[Preview]:
        """The requests the config produces for this row; none if it no longer has the row."""
        key = (result.dataset, result.model)
        if key in self.problems or result.dataset not in self._tasks or result.model not in self._models:
            return []
        try:
            with self._importing():
                if key not in self._pairs:
                    pair = self._experiment.pair(self._tasks[result.dataset], self._models[result.model])
                    self._pairs[key] = PairRows(pair, self._limit)
                return self._pairs[key].previews(result.row, replies=result.replies)
        except RolecallError as error:
            self.problems[key] = str(error)
            return []


class PairRows:
    """The rows of one pair by number, read as far as they are needed."""

    def __init__(self, pair: Pair, limit: int | None = None) -> None:
        self.pair = pair
        self._limit = limit
        self._coming = pair.rows(limit, strict=False)
        self._rows: list[tuple[int, Row, Picked]] = []

    def find(self, row: int) -> tuple[int, Row, Picked] | None:
        """A row with its number and examples; None if there is no such row. A distant row is looked up directly."""
        if row - len(self._rows) > _FAR and self.pair.task.retriever.fixed:
            return next(self.pair.rows(self._limit, strict=False, only=[row]), None)
        self._rows += islice(self._coming, max(0, row + 1 - len(self._rows)))
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def previews(self, row: int, *, replies: Sequence[str] | None = None) -> list[Preview]:
        """The requests of a row; none if there is no such row, or if it cannot be worded."""
        position = self.find(row)
        if position is None:
            return []
        try:
            self.pair.check_row(position[1])
        except RenderError:
            return []
        return list(self.pair.previews(*position, replies=replies))
