"""What a report reads: a finished (or unfinished) run, and what was sent for each of its rows.

A prompt is shown by origin only if it equals what was sent. Otherwise what was sent is shown, without origins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, zip_longest
from typing import Any, Protocol

from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Request, Span, texts_of
from rolecall.errors import ConfigError, RenderError, RolecallError
from rolecall.experiment.experiment import Experiment, Files
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.source import SourceOptions
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.models.prices import Price, find_price
from rolecall.runs.batches.ledger_reader import BatchTokens, describe_waiting, read_batch_tokens
from rolecall.runs.store.codec import pack_request, unpack_request
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result, SettledRows
from rolecall.runs.store.run_reader import NodeTimes, RunReader
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.datasets import Row
from rolecall.sources.retrievers import Picked

Previews = Callable[[Result], Iterable[Preview]]
"""Gives the requests of a row with the origin of every character."""


class Run(Protocol):
    """What a report needs to know of a run."""

    @property
    def title(self) -> str:
        """The run's name."""

    @property
    def created(self) -> str:
        """When it began, as text."""

    @property
    def damage(self) -> str:
        """What could not be read so far, in a sentence; empty if nothing is damaged."""

    def scorecards(self) -> Sequence[Scorecard]:
        """The score of every dataset × model."""

    def results(self) -> Iterator[Result]:
        """Every finished row."""

    def light_results(self) -> Iterator[Result | SettledRows]:
        """Every finished row, perhaps without texts: enough for counting outcomes, scores and tokens."""

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One finished row; None if it is damaged."""

    def request(self, fingerprint: str) -> Request | None:
        """What was sent under this identity, if it was kept."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request of a row. Without origins, every span is of kind `text` and `origins` is False."""

    preview: Preview
    origins: bool = True
    changed: bool = False
    """Whether the config now words this request differently."""


def requests_sent(run: Run, result: Result, previews: Previews | None = None) -> list[SentRequest]:
    """Everything that was sent for one row, in order."""
    identities = result.fingerprints or ((result.fingerprint,) if result.fingerprint else ())
    stored = [run.request(identity) for identity in identities]
    shown = list(previews(result)) if previews else []
    if not any(request is not None for request in stored):
        return [SentRequest(one) for one in shown]
    return [_match_preview(result, one, request) for one, request in zip_longest(shown, stored) if request is not None]


def judge_requests(run: Run, result: Result) -> list[tuple[SentRequest, str]]:
    """What judges were asked about a row, with their replies; named where there are several."""
    judged = [one for one in result.judged if one is not None]
    several = len({one.get('judge') for one in judged}) > 1
    stored = [
        (run.request(one['fingerprint']), f'{one["judge"]}: {one["reply"]}' if several else one['reply'])
        for one in judged
    ]
    return [
        (SentRequest(stored_preview(result, request), origins=False), reply)
        for request, reply in stored
        if request is not None
    ]


def _match_preview(result: Result, preview: Preview | None, request: Request) -> SentRequest:
    if preview is not None and _says_the_same(preview, request):
        return SentRequest(preview)
    return SentRequest(stored_preview(result, request), origins=False, changed=preview is not None)


def _says_the_same(preview: Preview, stored: Request) -> bool:
    """Whether a preview is what was stored (where long media are named, not kept)."""
    if preview.request is None:
        return False
    same: bool = preview.request == stored or unpack_request(pack_request(preview.request)) == stored
    return same


def stored_preview(result: Result, request: Request) -> Preview:
    """A stored request in the shape of a preview, all its words of one kind."""
    spans = tuple(Span(words, _AS_SENT, *place) for place, words in texts_of(request).items())
    return Preview(result.dataset, result.model, result.row, 'gen', None, None, '', request, spans)


_AS_SENT = Origin('text')
_FAR = 100


def find_notices(run: Run) -> list[str]:
    """What to know of a run before its scores: what waits in a batch, and what is damaged."""
    waiting = run.waiting if isinstance(run, StoredRun) else []
    return [*waiting, *filter(None, [run.damage])]


def find_batched(run: Run) -> Mapping[tuple[str, str], BatchTokens]:
    """The tokens of a run that were paid at the price of batches, by dataset and model."""
    return run.batched if isinstance(run, StoredRun) else {}


def _find_known_price(entry: Mapping[str, Any], overrides: Mapping[str, Price] | None) -> Price | None:
    """The price of a stored entry. One that would be refused today is not known, and does not stop a report."""
    try:
        return find_price(entry, overrides)
    except ConfigError:
        return None


def _find_judges(written: Any) -> Iterator[dict[str, Any]]:
    """The entries of models that only judge, wherever datasets hold them."""
    inner = written.values() if isinstance(written, Mapping) else written if isinstance(written, list | tuple) else ()
    judge = written.get('judge_cfg') if isinstance(written, Mapping) else None
    for one in judge if isinstance(judge, list | tuple) else (judge,):
        if isinstance(one, str):
            yield {'abbr': one, 'model': one.rpartition('/')[2]}
        elif isinstance(one, Mapping):
            yield {'abbr': 'judge', **one}
    for one in inner:
        yield from _find_judges(one)


class StoredRun:
    """A run directory, read as a run."""

    def __init__(self, archive: RunReader) -> None:
        self._archive = archive

    @property
    def title(self) -> str:
        """The directory's name."""
        return self._archive.directory.resolve().name

    @property
    def created(self) -> str:
        """When the store was last written; of a log of another harness, who wrote it and when."""
        log = self._archive.manifest().get('imported')
        if isinstance(log, Mapping):
            return f'made by {log["harness"]} (version: {log["version"]}; time: {log["created"]})'
        written = (self._archive.directory / FILE).stat().st_mtime
        return datetime.fromtimestamp(written).isoformat(' ', 'minutes')

    @property
    def damage(self) -> str:
        """What could not be read so far, in a sentence; empty if nothing is damaged."""
        return str(self._archive.damage or '')

    @property
    def waiting(self) -> list[str]:
        """What waits at which server, a line for each model; empty if nothing does."""
        return describe_waiting(self._archive.directory)

    @property
    def batched(self) -> Mapping[tuple[str, str], BatchTokens]:
        """The tokens that were paid at the price of batches, by dataset and model."""
        return read_batch_tokens(self._archive.directory)

    def prices(self, overrides: Mapping[str, Price] | None = None) -> dict[str, Price | None]:
        """The price of each model, judges included, as far as it is known."""
        config = self._archive.config()
        entries = [*_find_judges(config.get('datasets')), *(config.get('models') or [])]
        known = [entry for entry in entries if isinstance(entry, Mapping)]
        return {str(entry.get('abbr', '')): _find_known_price(entry, overrides) for entry in known}

    def scorecards(self) -> list[Scorecard]:
        """The score of every dataset × model, in the order of the config; what it does not have comes last."""
        pairs = [pair for pair in self._archive.manifest().get('pairs') or () if isinstance(pair, Mapping)]
        places = {
            kind: {name: place for place, name in enumerate(dict.fromkeys(pair.get(kind) for pair in pairs))}
            for kind in ('dataset', 'model')
        }
        end = len(pairs)
        return sorted(
            self._archive.scorecards(),
            key=lambda card: (places['dataset'].get(card.dataset, end), places['model'].get(card.model, end)),
        )

    def results(self) -> Iterator[Result]:
        """Every finished row."""
        return self._archive.results()

    def times(self) -> list[NodeTimes]:
        """Where rows were computed, if in other processes."""
        return self._archive.times()

    def light_results(self) -> Iterator[Result | SettledRows]:
        """Every finished row, without texts where they are settled."""
        return self._archive.light_results()

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One finished row; None if it is damaged."""
        return self._archive.whole_result(dataset, model, row)

    def request(self, fingerprint: str) -> Request | None:
        """What was sent under this identity, if it was kept."""
        request: Request | None = self._archive.request(fingerprint)
        return request


class ConfigPreviews:
    """Gives the previews of a result. Datasets are opened when the first of their rows is asked for.

    A dataset that can no longer be read gives none; `problems` says why.
    """

    def __init__(self, source: Experiment | SourceLike, *, data: Files | None = None, limit: int | None = None) -> None:
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
            return None if any(map(_names_code, _find_types(config))) else cls(config)
        except RolecallError:
            return None

    def __call__(self, result: Result) -> list[Preview]:
        """The requests the config produces for this row; none if it no longer has the row."""
        key = (result.dataset, result.model)
        if key in self.problems or result.dataset not in self._tasks or result.model not in self._models:
            return []
        try:
            if key not in self._pairs:
                pair = self._experiment.pair(self._tasks[result.dataset], self._models[result.model])
                self._pairs[key] = PairRows(pair, self._limit)
            return self._pairs[key].previews(result.row, replies=result.replies)
        except RolecallError as error:
            self.problems[key] = str(error)
            return []


def _find_types(value: Any) -> Iterator[Any]:
    """Every `type` in a config."""
    if isinstance(value, Mapping):
        yield from (inner for key, inner in value.items() if key == 'type')
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _find_types(inner)


def _names_code(kind: Any) -> bool:
    """Whether a type is a path to a user's class or function, not a name of ours."""
    return not isinstance(kind, str) or not kind.isidentifier()


class OneModelRun:
    """One model of a run."""

    def __init__(self, reader: RunReader, model: str) -> None:
        self._reader = reader
        self._model = model

    @property
    def title(self) -> str:
        return f'{self._reader.title}: {self._model}'

    @property
    def created(self) -> str:
        return self._reader.created

    @property
    def damage(self) -> str:
        return str(self._reader.damage or '')

    def scorecards(self) -> list[Scorecard]:
        return [card for card in self._reader.scorecards() if card.model == self._model]

    def results(self) -> Iterator[Result]:
        return self._reader.results(model=self._model)

    def light_results(self) -> Iterator[Result | SettledRows]:
        return self.results()

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        return self._reader.whole_result(dataset, model, row)

    def request(self, fingerprint: str) -> Request | None:
        request: Request | None = self._reader.request(fingerprint)
        return request


class PairRows:
    """The rows of one pair by number, read as far as they are needed."""

    def __init__(self, pair: Pair, limit: int | None = None) -> None:
        self.pair = pair
        self._limit = limit
        self._coming = pair.rows(limit, strict=False)
        self._read: list[tuple[int, Row, Picked]] = []

    def find(self, row: int) -> tuple[int, Row, Picked] | None:
        """A row with its number and examples; None if there is no such row. One far ahead is looked up."""
        if row - len(self._read) > _FAR and self.pair.task.retriever.fixed:
            return next(self.pair.rows(self._limit, strict=False, only=[row]), None)
        self._read += islice(self._coming, max(0, row + 1 - len(self._read)))
        return self._read[row] if 0 <= row < len(self._read) else None

    def previews(self, row: int, *, replies: Sequence[str] | None = None) -> list[Preview]:
        """The requests of a row; none if there is no such row, or if it cannot be worded."""
        found = self.find(row)
        if found is None:
            return []
        try:
            self.pair.check_row(found[1])
        except RenderError:
            return []
        return list(self.pair.previews(*found, replies=replies))
