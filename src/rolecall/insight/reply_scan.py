"""What is wrong with the replies of a finished run: each scanner's hits, counted by dataset and model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rolecall.core.render.spans import texts_of
from rolecall.insight.kept_counts import Hit, ScanCount
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scanners import SCANNERS, Evidence, ScannedReply, scan_reply
from rolecall.scoring.statistics import wilson

_MOST_ROWS = 20
"""Hits that are kept of each scanner, dataset and model, to look at."""
_AROUND = 120


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
