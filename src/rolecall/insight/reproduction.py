"""Can a run be repeated? Its prompts are worded again and compared with what was sent, a few rows are asked again, and
what has changed around it is named: packages, data, tokenizer, weights, the served model. A bundle lets others do so.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.spans import Request, join_spans, texts_of
from rolecall.errors import MissingExtraError, RolecallError, RunError
from rolecall.experiment.pairs.pair import Preview
from rolecall.insight.claims import Claim, ClaimSource, is_stand_in
from rolecall.insight.run_source import says_the_same
from rolecall.insight.scored_mixes import score_results
from rolecall.models.protocol import ModelError, Reply
from rolecall.redaction import Redactor, environment_secrets
from rolecall.runs.listener import RunListener
from rolecall.runs.parts import digest_pair
from rolecall.runs.run import run_config
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.directory import is_bundle, write_bundle
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import describe_surroundings
from rolecall.strings import count_noun

_ASKED = 5
_ROUNDED = 0.05
_AROUND = 40
"""Characters shown around the first that differs."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """The first character in which a request that is worded now differs from the one that was sent."""

    row: int
    at: int
    origin: str
    """Where the character comes from now."""
    sent: str
    now: str


@dataclass(frozen=True, slots=True)
class ReproducedPair:
    """One dataset × model: how many rows are worded as they were, and how many replies came again."""

    dataset: str
    model: str
    rows: int
    same: int = 0
    lost: int = 0
    """Rows that the directory no longer has, or not what was sent for them."""
    score_now: float | None = None
    """What the stored replies come to, if that is not the stored score."""
    first: RequestDifference | None = None
    why_not: str = ''
    """Why its prompts cannot be worded here."""
    changed: tuple[str, ...] = ()
    """The parts whose digests are no longer those of the run."""
    asked: int = 0
    same_replies: int = 0
    same_scores: int = 0
    why_not_asked: str = ''

    @property
    def is_identical(self) -> bool:
        return not self.why_not and self.same == self.rows and self.score_now is None

    def lines(self) -> Iterator[str]:
        """The finding for people."""
        name, rows = f'{self.dataset} × {self.model}', count_noun(self.rows, 'row')
        if self.why_not:
            yield f'{name}: cannot be worded again: {self.why_not}'
        elif self.same == self.rows:
            yield f'{name}: identical, all requests of {rows}'
        elif differing := self.rows - self.same - self.lost:
            yield f'{name}: {differing:,} of {rows} are worded differently'
        if self.lost:
            yield f'{name}: what was sent is missing or damaged for {self.lost:,} of {rows}; see rolecall doctor'
        if self.score_now is not None:
            yield f'{name}: the stored score is not that of its replies, which is {self.score_now:.1f}'
        if self.first is not None:
            first = self.first
            yield f'  row {first.row}, character {first.at} ({first.origin}): sent {first.sent!r}, now {first.now!r}'
        if self.changed:
            yield f'  changed since: {", ".join(self.changed)}'
        if self.asked:
            replies = f'{self.same_replies:,} of {self.asked:,} replies the same'
            yield f'  asked again: {replies}, {self.same_scores:,} with the same score'
        elif self.why_not_asked:
            yield f'  not asked again: {self.why_not_asked}'


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A whole run, repeated."""

    run: str
    pairs: tuple[ReproducedPair, ...]
    surroundings: tuple[str, ...] = ()
    """What has changed around the run: `transformers 4.57.1 → 5.0.0`."""

    @property
    def exit_code(self) -> int:
        """0: every request is identical; 1: some differ, or a score; 3: that cannot be told."""
        if any(pair.why_not or pair.lost for pair in self.pairs):
            return 3
        return 0 if all(pair.is_identical for pair in self.pairs) else 1

    def lines(self) -> Iterator[str]:
        for pair in self.pairs:
            yield from pair.lines()
        yield f'around it: {"; ".join(self.surroundings)}' if self.surroundings else 'around it: nothing has changed'

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        pairs = [{**asdict(pair), 'identical': pair.is_identical} for pair in self.pairs]
        return {'run': self.run, 'pairs': pairs, 'surroundings': list(self.surroundings)}


def reproduce(
    directory: str | Path, *, config: Any = None, ask: int | None = None, progress: RunListener | None = None
) -> Reproduction:
    """Word the requests of a run again, ask `ask` rows of each dataset × model again, and name what has changed.

    By default five rows are asked, and of a bundle none: its config, with addresses of servers, may be a stranger's.
    `config` is needed where the run's model or metric is code, which is not imported from a run directory.
    """
    with ExitStack() as stack:
        source, reader = ClaimSource.of_run(directory, stack, config)
        count = (0 if is_bundle(Path(directory)) else _ASKED) if ask is None else ask
        pairs = []
        for names in source.pairs():
            claim = source.claim(*names)
            with claim.refuse_code():
                pair = _ask_again(claim, _compare(claim, reader), reader, count, progress)
            pairs.append(pair)
        return Reproduction(source.title, tuple(pairs), tuple(_compare_surroundings(reader.manifest())))


def _compare(claim: Claim, reader: RunReader) -> ReproducedPair:
    """The requests of every row, as worded now beside what was sent."""
    rows = max(len(claim.rows), claim.card.total if claim.card else 0)
    blank = ReproducedPair(claim.dataset, claim.model, rows, score_now=_find_other_score(claim))
    if claim.pair is None:
        return replace(blank, why_not=' '.join(claim.unknown) or 'its data are not here.')
    whole = [row for row in claim.rows if all(reader.request(mark) is not None for mark in row.result.fingerprints)]
    found = (_find_difference(row.result, claim.word(row.result), reader) for row in whole)
    differences = [difference for difference in found if difference is not None]
    return replace(
        blank,
        same=len(whole) - len(differences),
        lost=rows - len(whole),
        first=next(iter(differences), None),
        changed=tuple(_find_changed_parts(claim)),
    )


def _find_other_score(claim: Claim) -> float | None:
    """What the stored replies of all scored rows come to; None where that is the stored score, or not known."""
    if claim.scorer is None or claim.card is None or claim.value is None or claim.card.total != len(claim.rows):
        return None
    with suppress(RolecallError):
        marks = score_results(claim.scorer, [row.result for row in claim.rows], [row.fields for row in claim.rows])
        return None if marks.value is None or isclose(marks.value, claim.value, abs_tol=_ROUNDED) else marks.value
    return None


def _find_difference(result: Result, previews: Sequence[Preview], reader: RunReader) -> RequestDifference | None:
    """The first request of a row that is worded now and was not sent so; None if there is none."""
    sent = [reader.request(mark) for mark in result.fingerprints]
    sent = [request for request in sent if request is not None]
    if sent and not previews:
        return RequestDifference(result.row, 0, 'nothing', str(sent[0])[:_AROUND], '')
    for number, preview in enumerate(previews[: len(sent)]):
        if not any(says_the_same(preview, request) for request in (sent[number], *sent)):
            return _first_character(result.row, preview, sent[number])
    return None


def _first_character(row: int, preview: Preview, sent: Request) -> RequestDifference:
    """The first character that differs, and the origin of the text that it stands in now."""
    now, before = join_spans(preview.spans), texts_of(sent)
    for place in {**now, **before}:
        ours, theirs = now.get(place, ''), before.get(place, '')
        if ours != theirs:
            pairs = zip(ours, theirs, strict=False)
            at = next((at for at, (own, other) in enumerate(pairs) if own != other), min(len(ours), len(theirs)))
            spans = [span for span in preview.spans if (span.message, span.part) == place]
            start = max(0, at - _AROUND // 4)
            stretch = slice(start, start + _AROUND)
            return RequestDifference(row, at, _origin_at(spans, at), theirs[stretch], ours[stretch])
    return RequestDifference(
        row, 0, 'roles or settings of messages', str(sent)[:_AROUND], str(preview.request)[:_AROUND]
    )


def _origin_at(spans: Sequence[Any], at: int) -> str:
    end = 0
    for span in spans:
        end += len(f'<{span.token}>' if span.token is not None else span.text)
        if at < end:
            return label_of(span.origin)
    return 'end'


def _find_changed_parts(claim: Claim) -> Iterator[str]:
    """Parts whose digests differ now. Without the model's own code, its engine and tokenizer are not compared."""
    model = None
    if not is_stand_in(claim) and claim.pair is not None and claim.pair.model_entry is not None:
        with suppress(RolecallError, MissingExtraError, OSError):
            model = claim.pair.model_entry.model
    if claim.pair is not None:
        now = digest_pair(claim.pair, model, {})
        skipped = () if claim.has_own_rows else ('rows', 'examples')
        yield from (part for part in claim.parts.find_differing(now) if part not in skipped)


def _find_servers(results: Iterable[Result], reader: RunReader) -> str:
    """Who answered, in the words of the replies."""
    replies = (reader.reply(mark) for result in results for mark in result.fingerprints)
    return ' / '.join(sorted({str(reply.served) for reply in replies if isinstance(reply, Reply)}))


def _ask_again(
    claim: Claim, pair: ReproducedPair, original: RunReader, count: int, progress: RunListener | None
) -> ReproducedPair:
    """A few rows asked again, if the model can be reached."""
    if not count or pair.why_not or claim.pair is None or claim.experiment is None or not claim.rows:
        return pair
    if is_stand_in(claim):
        return replace(pair, why_not_asked='the model is code of the run; --config names its config.')
    rows = random.Random(0).sample([row.result for row in claim.rows], min(count, len(claim.rows)))
    experiment = claim.experiment.select(dataset=[claim.dataset], model=[claim.model])
    with TemporaryDirectory() as out:
        options = RunOptions(out=out, rows=sorted(row.row for row in rows), lint=False, force=True)
        try:
            summary = run_config(experiment, options, progress=progress)
        except (RolecallError, ModelError, MissingExtraError) as error:
            return replace(pair, why_not_asked=' '.join(str(error).split())[:200])
        with RunReader(out) as reader:
            again = {result.row: result for result in reader.results(claim.dataset, claim.model)}
            servers = [_find_servers(each, run) for each, run in ((rows, original), (again.values(), reader))]
    asked = [(row, again[row.row]) for row in rows if row.row in again and again[row.row].outcome != 'failed']
    if not asked:
        why = next(iter(summary.broken.values()), None) or next(iter(summary.reasons), 'no reply came.')
        return replace(pair, why_not_asked=' '.join(why.split())[:200])
    served = [f'served by {servers[0]} → {servers[1]}'] if servers[0] != servers[1] else []
    return replace(
        pair,
        changed=(*pair.changed, *served),
        asked=len(asked),
        same_replies=sum(_answers(before) == _answers(now) for before, now in asked),
        same_scores=sum(before.score == now.score for before, now in asked),
    )


def _answers(result: Result) -> Any:
    return result.replies or result.prediction


def _compare_surroundings(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Versions that differ from those of the run."""
    before = {**(manifest.get('packages') or {}), **{name: manifest.get(name) for name in ('rolecall', 'python')}}
    for name, now in describe_surroundings().items():
        if (was := before.get(name)) is not None and was != now:
            yield f'{name} {was} → {now}'
    yield from (f'{name} {was} → not installed' for name, was in before.items() if name not in describe_surroundings())


def export_bundle(
    directory: str | Path,
    target: str | Path,
    *,
    config: Any = None,
    media: bool = False,
    keep_secrets: bool = False,
) -> list[str]:
    """Pack a run into one file; what was packed and what was not, as lines.

    `config` is needed where the dataset is code of the run. Rows that hold a secret of this environment are an error,
    unless `keep_secrets`.
    """
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    files: dict[str, Path] = {}
    lines = []
    with ExitStack() as stack:
        source, reader = ClaimSource.of_run(directory, stack, config)
        for dataset, model in source.pairs():
            if (dataset, 'test') not in rows:
                claim = source.claim(dataset, model)
                rows |= {(dataset, split): some for split, some in _rows_of(claim).items()}
                files |= dict(_find_media(claim, rows)) if media else {}
                if claim.pair is None:
                    lines.append(f'{dataset}: its data are not here; the rows that the run has kept are packed.')
        if not keep_secrets:
            _refuse_secrets(rows)
        write_bundle(reader.directory, Path(target), rows, files)
    count = count_noun(sum(map(len, rows.values())), 'row')
    return [*lines, f'{count} of {count_noun(len(rows), "split")} and {count_noun(len(files), "media file")} packed.']


def _rows_of(claim: Claim) -> dict[str, list[Mapping[str, Any]]]:
    """The rows up to the last that was asked, and the examples' rows if there are examples."""
    last = max((row.result.row for row in claim.rows), default=-1)
    if claim.pair is None:
        by_number = {row.result.row: row.fields for row in claim.rows}
        return {'test': [by_number.get(number, {}) for number in range(last + 1)]}
    task, data = claim.pair.task, claim.pair.data
    shows = task.retriever.ice_num or getattr(task.retriever, 'fix_id_list', None)
    train = {'train': list(data.train)} if shows else {}
    return {'test': list(islice(data.test, last + 1)), **train}


def _find_media(claim: Claim, rows: Mapping[tuple[str, str], list[Mapping[str, Any]]]) -> Iterator[tuple[str, Path]]:
    """The files that rows name by a relative path."""
    base = (claim.experiment.base if claim.experiment is not None else None) or Path()
    values = (value for some in rows.values() for row in some for value in row.values() if isinstance(value, str))
    for value in values:
        path = Path(value) if 0 < len(value) < 255 and '\n' not in value else Path()
        if path.name and not path.is_absolute() and '..' not in path.parts and (base / path).is_file():
            yield path.as_posix(), base / path


def _refuse_secrets(rows: Mapping[tuple[str, str], list[Mapping[str, Any]]]) -> None:
    redactor = Redactor(environment_secrets())
    for (dataset, split), some in rows.items():
        for number, row in enumerate(some):
            if redactor.secrets and not redactor.is_clean(json.dumps(row, default=str)):
                raise RunError(
                    f'{dataset}, {split} row {number}: holds a secret of this environment. '
                    'Take it out of the data, or pack it all the same with --keep-secrets.'
                )
