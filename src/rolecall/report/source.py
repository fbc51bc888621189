"""What a report reads: a finished (or unfinished) run, and what was sent for each of its rows.

A prompt is shown by origin only if it equals what was sent. Otherwise what was sent is shown, without origins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from rolecall.pairs.pair import Preview
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Request, Span, texts_of
from rolecall.runs.store.codec import pack_request, unpack_request
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Previews', 'Run', 'Sent', 'as_stored', 'requests_sent']

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

    def scorecards(self) -> Sequence[Scorecard]:
        """The score of every dataset × model."""

    def results(self) -> Iterator[Result]:
        """Every finished row."""

    def request(self, fingerprint: str) -> Request | None:
        """What was sent under this identity, if it was kept."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a row. Without origins, every span is of kind `text` and `origins` is False."""

    preview: Preview
    origins: bool = True
    changed: bool = False
    """Whether the config now words this request differently."""


def requests_sent(run: Run, result: Result, previews: Previews | None = None) -> list[Sent]:
    """Everything that was sent for one row, in order."""
    identities = result.fingerprints or ((result.fingerprint,) if result.fingerprint else ())
    stored = [run.request(identity) for identity in identities]
    shown = list(previews(result)) if previews else []
    if not any(request is not None for request in stored):
        return [Sent(one) for one in shown]
    return [_sent(result, one, request) for one, request in zip_longest(shown, stored) if request is not None]


def _sent(result: Result, preview: Preview | None, request: Request) -> Sent:
    if preview is not None and _says_the_same(preview, request):
        return Sent(preview)
    return Sent(as_stored(result, request), origins=False, changed=preview is not None)


def _says_the_same(preview: Preview, stored: Request) -> bool:
    """Whether a preview is what was stored (where long media are named, not kept)."""
    if preview.request is None:
        return False
    same: bool = preview.request == stored or unpack_request(pack_request(preview.request)) == stored
    return same


def as_stored(result: Result, request: Request) -> Preview:
    """A stored request in the shape of a preview, all its words of one kind."""
    spans = tuple(Span(words, _AS_SENT, *place) for place, words in texts_of(request).items())
    return Preview(result.dataset, result.model, result.row, 'gen', None, None, '', request, spans)


_AS_SENT = Origin('text')
