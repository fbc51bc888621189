"""What is wrong with the replies of a finished run: each scanner's hits, counted by dataset and model.

A scan is kept as `scan.json` in the run directory, where reports and the page find it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rolecall.core.render.spans import texts_of
from rolecall.errors import RunError
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scanners import SCANNERS, Evidence, ScannedReply, scan_reply
from rolecall.scoring.statistics import wilson

_FILE, _LARGEST = 'scan.json', 16 << 20
_MOST_ROWS = 20
"""Hits that are kept of each scanner, dataset and model, to look at."""
_AROUND = 120


@dataclass(frozen=True, slots=True)
class Hit:
    """A row whose reply a scanner reports, with the characters that show it."""

    row: int
    excerpt: str
    note: str = ''


@dataclass(frozen=True, slots=True)
class ScanCount:
    """How many replies of a dataset × model a scanner reports, with a 95 % interval of their share."""

    scanner: str
    dataset: str
    model: str
    hits: int
    replies: int
    low: float
    high: float
    rows: tuple[Hit, ...] = ()

    @property
    def share(self) -> str:
        """The share of replies with its interval, in per cent."""
        return f'{100 * self.hits / self.replies:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]'

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table of `SCAN_HEADS`."""
        rows = ', '.join(str(hit.row) for hit in self.rows[:5])
        more = ', …' if self.hits > 5 else ''
        return (self.scanner, self.dataset, self.model, f'{self.hits:,} of {self.replies:,}', self.share, rows + more)


SCAN_HEADS = ('scanner', 'dataset', 'model', 'replies', '%', 'rows')
SCAN_TEXTS = 3
"""Columns of `SCAN_HEADS` that hold texts, not numbers."""


def scan_run(run: RunReader, scanners: Iterable[str] = SCANNERS) -> Iterator[ScanCount]:
    """Scan every reply of a run by rules."""
    names = list(scanners)
    for dataset, model in run.pairs():
        hits: dict[str, list[Hit]] = {name: [] for name in names}
        replies = 0
        for result in run.results(dataset, model):
            for reply in replies_of(run, result):
                replies += 1
                for name, evidence in scan_reply(reply, names).items():
                    text = reply.prompt if name == 'gold in prompt' else reply.text
                    hits[name].append(Hit(result.row, _excerpt(text, evidence), evidence.note))
        yield from (count_hits(name, dataset, model, hits[name], replies) for name in names if replies)


def save_scan(directory: Path, counts: Sequence[ScanCount]) -> None:
    """Keep a scan with its run. Counts of other scanners, datasets and models stay."""
    if (directory / _FILE).is_symlink():
        raise RunError(f'{directory / _FILE}: a link. Run directories hold only regular files; remove it.')
    new = {_key(count): count for count in counts}
    merged = {_key(count): count for count in read_scan(directory)} | new
    with write_atomically(directory / _FILE) as part:
        part.write_text(json.dumps([asdict(count) for count in merged.values()], ensure_ascii=False), 'utf-8')


def read_scan(directory: Path) -> list[ScanCount]:
    """The scan that is kept with a run; empty if there is none, or if the file is not one."""
    file = directory / _FILE
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        if not file.is_symlink() and file.stat().st_size <= _LARGEST:
            records = json.loads(file.read_text('utf-8'))
            return [ScanCount(**{**record, 'rows': tuple(Hit(**hit) for hit in record['rows'])}) for record in records]
    return []


def _key(count: ScanCount) -> tuple[str, str, str]:
    return count.scanner, count.dataset, count.model


def count_hits(scanner: str, dataset: str, model: str, hits: Sequence[Hit], replies: int) -> ScanCount:
    """The hits of a scanner in the replies of a dataset × model, of which the first are kept."""
    low, high = wilson(len(hits), replies)
    return ScanCount(scanner, dataset, model, len(hits), replies, low, high, tuple(hits[:_MOST_ROWS]))


def replies_of(run: RunReader, result: Result) -> Iterator[ScannedReply]:
    """The replies of a row, as scanners take them."""
    identities = result.fingerprints or (result.fingerprint,)
    ended = result.details.get('ended') or ()
    answered = False if result.outcome in ('unparsed', 'thinking_exhausted') else None
    if result.correct is not None and result.outcome == 'ok':
        answered = True
    for at, text in enumerate(result.replies):
        request = run.request(identities[min(at, len(identities) - 1)])
        prompt = '' if request is None else last_text(request)
        end = str(ended[at]) if at < len(ended) and ended[at] else ''
        yield ScannedReply(text, prompt, result.gold, end, answered)


def last_text(request: Any) -> str:
    """What a model was asked last: the last message of a user, or the whole of a prompt that is one text."""
    texts = texts_of(request)
    if isinstance(request, str) or not all(isinstance(message, Mapping) for message in request):
        return ''.join(texts.values())
    users = [number for number, message in enumerate(request) if message.get('role') == 'user']
    return '\n'.join(text for (message, _), text in texts.items() if message == max(users, default=None))


def _excerpt(text: str, evidence: Evidence) -> str:
    start, end = evidence.start, min(evidence.end, evidence.start + _AROUND)
    return f'{text[max(0, start - _AROUND // 2) : start]}⟦{text[start:end]}⟧{text[end : end + _AROUND // 2]}'
