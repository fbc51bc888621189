"""What a report reads: a finished (or unfinished) run, and what was sent for each of its rows.

A prompt is shown by origin only if it equals what was sent. Otherwise what was sent is shown, without origins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from rolecall.previews import Preview
from rolecall.program import fingerprint
from rolecall.render.spans import Request
from rolecall.runs.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Previews', 'Run', 'Sent', 'requests_sent']

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
    """One request of a row: with origins (`preview`), or as it was stored (`request`)."""

    preview: Preview | None = None
    request: Request | None = None
    changed: bool = False
    """Whether the config now words this request differently."""

    @property
    def messages(self) -> list[Mapping[str, object]]:
        """The messages of a stored request; none if it is a text or token ids."""
        entries = self.request if isinstance(self.request, list) else []
        return [entry for entry in entries if isinstance(entry, Mapping)]


def requests_sent(run: Run, result: Result, previews: Previews | None) -> list[Sent]:
    """Everything that was sent for one row, in order."""
    identities = result.fingerprints or ((result.fingerprint,) if result.fingerprint else ())
    stored = [run.request(identity) for identity in identities]
    shown = list(previews(result)) if previews else []
    if not any(request is not None for request in stored):
        return [Sent(preview=one) for one in shown]
    return [_sent(one, request) for one, request in zip_longest(shown, stored) if request is not None]


def _sent(preview: Preview | None, request: Request) -> Sent:
    if preview is None:
        return Sent(request=request)
    if preview.request == request or _identity(preview) == fingerprint(request):
        return Sent(preview=preview)
    return Sent(request=request, changed=True)


def _identity(preview: Preview) -> str:
    return '' if preview.request is None else fingerprint(preview.request)
