"""A run directory as reports read it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rolecall.render.spans import Request
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import FILE, RunReader
from rolecall.scoring.scorecard import Scorecard

__all__ = ['StoredRun']


class StoredRun:
    """A run that lies on disk, named after its directory."""

    def __init__(self, archive: RunReader) -> None:
        self._archive = archive

    @property
    def title(self) -> str:
        """The directory's name."""
        return self._archive.directory.resolve().name

    @property
    def created(self) -> str:
        """When the store was last written."""
        written = (self._archive.directory / FILE).stat().st_mtime
        return datetime.fromtimestamp(written).isoformat(' ', 'minutes')

    def scorecards(self) -> list[Scorecard]:
        """The score of every dataset × model."""
        return self._archive.scorecards()

    def results(self) -> Iterator[Result]:
        """Every finished row."""
        return self._archive.results()

    def request(self, fingerprint: str) -> Request | None:
        """What was sent under this identity, if it was kept."""
        request: Request | None = self._archive.request(fingerprint)
        return request
