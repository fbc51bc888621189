"""Batch endpoints: many requests handed over at once, answered within a day at a lower price.

A service knows one vendor's formats. The run records what was submitted and what came of it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from rolecall.models.http.connection import MALFORMED, HttpClient, encode_body
from rolecall.models.http.failures import HttpStatusError, embedded_error, row_outcome
from rolecall.models.protocol import Reply

_PAGES = 20
_LINE_ENDS = '\x85\u2028\u2029'
_ID = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}')


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the server describes it."""

    id: str
    status: str
    """The server's own word: in_progress, completed, …"""
    ended: bool
    """Whether nothing more will be answered."""
    done: int = 0
    total: int = 0
    problem: str = ''
    """Why the batch failed as a whole."""
    files: tuple[str, ...] = ()
    """Where the results are, if they are in files of their own."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The result of one request in a batch. Only `answered` ones have a reply."""

    custom_id: str
    outcome: Literal['answered', 'refused', 'failed', 'expired', 'cancelled']
    """`refused`: the same request would be refused again; `failed`: the server's fault, it may work later."""
    reply: Reply | None = None
    reason: str = ''


@dataclass(frozen=True, slots=True)
class Submission:
    """What identifies a batch that may have been created although its id never arrived."""

    token: str
    file_id: str
    requests: int
    since: datetime
    excluded: Collection[str] = ()
    """Ids of batches already matched to other submissions."""


class BatchService(ABC):
    """The batch endpoints of one server for one model."""

    vendor: ClassVar[str]
    path: ClassVar[str]
    cursor: ClassVar[str]
    """The parameter that asks for the batches after one."""
    keeps_token: ClassVar[bool] = False
    """Whether a batch carries the submission's token, by which it is found for certain."""
    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]

    def __init__(self, client: HttpClient, endpoint: str, read_reply: Callable[[Any], Reply]) -> None:
        self._client = client
        self._endpoint = endpoint
        self._read_reply = read_reply

    @property
    def server(self) -> str:
        """The server's base URL."""
        return self._client.address.root

    @abstractmethod
    def encode(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """One request of a batch. Its body says what a live call says."""

    @abstractmethod
    def write(self, entries: Iterable[bytes], file: IO[bytes]) -> None:
        """Write the requests of a batch as they are sent."""

    async def upload(self, file: Path, *, name: str) -> str:
        """Bring the requests to the server, where that is a step of its own; the file's id, or ''."""
        return ''

    @abstractmethod
    async def create(self, file: Path, submission: Submission) -> RemoteBatch:
        """Start a batch. From here on it costs money."""

    @abstractmethod
    async def find(self, submission: Submission) -> RemoteBatch | None:
        """The batch that was created for a submission; None if there is none."""

    async def fetch(self, batch_id: str) -> RemoteBatch:
        """The current state of a batch."""
        return self._read(await self._client.get(f'{self.path}/{check_id(batch_id)}'))

    @abstractmethod
    def results(self, batch: RemoteBatch) -> AsyncIterator[BatchAnswer | None]:
        """The result of each request of a finished batch, in any order; None for an unreadable line."""

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch. Finished answers can still be fetched."""
        await self._client.post(f'{self.path}/{check_id(batch_id)}/cancel', {})

    @abstractmethod
    def _read(self, answer: Any) -> RemoteBatch:
        """A batch as the server describes it."""

    async def _pages(self) -> AsyncIterator[list[Any]]:
        """The server's batches, the newest first, page by page."""
        query = {'limit': '100'}
        for _ in range(_PAGES):
            page = await self._client.get(self.path, query)
            with self._reading():
                entries, more = list(page['data']), page.get('has_more')
            yield entries
            if not entries or not more:
                return
            with self._reading():
                query[self.cursor] = check_id(entries[-1]['id'])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn any error raised while reading an answer into a malformed-answer error."""
        try:
            yield
        except MALFORMED as error:
            raise self._client.malformed_error(f'{type(error).__name__}: {error}') from error

    def _answer(self, custom_id: str, answer: Any) -> BatchAnswer:
        """A reply, or the error in its place; one that cannot be read is the server's fault."""
        try:
            if isinstance(answer, Mapping) and answer.get('error'):  # as a live call may say, with status 200
                return self._failure(custom_id, self._read_error(answer['error']))
            return BatchAnswer(custom_id, 'answered', self._read_reply(answer))
        except MALFORMED as error:
            return BatchAnswer(
                custom_id, 'failed', reason=f'the reply cannot be read ({type(error).__name__}: {error})'
            )

    def _failure(self, custom_id: str, error: HttpStatusError) -> BatchAnswer:
        """The answer for a request that got an error instead of a reply."""
        if (outcome := row_outcome(error)) is not None:
            return BatchAnswer(custom_id, 'answered', Reply('', outcome, error.server_message))
        return BatchAnswer(custom_id, 'failed' if error.transient else 'refused', reason=str(error))

    def _read_error(self, error: object) -> HttpStatusError:
        """The error that the server describes, without secrets."""
        return embedded_error(self._client.about, error, hide=self._client.redactor.redact)


def find_service(model: object) -> BatchService | None:
    """The batch endpoints of a model; None if it has none."""
    service = getattr(model, 'batches', None)
    return service if isinstance(service, BatchService) else None


def check_id(value: object) -> str:
    """The id, if it is safe in a URL; otherwise ValueError."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(f'not an id: {value!r:.80}')
    return value


def join_entries(entries: Iterable[bytes], file: IO[bytes], *, before: bytes, between: bytes, after: bytes) -> None:
    """Write entries with a header, separators and a footer."""
    file.write(before)
    for number, entry in enumerate(entries):
        file.write(between + entry if number else entry)
    file.write(after)


def encode_entry(entry: Mapping[str, Any], name: str, body: Mapping[str, Any]) -> bytes:
    """An entry as one line of JSON whose member `name` is the body as a live call encodes it.

    Characters that some readers take for the end of a line are escaped, which changes nothing that JSON says.
    """
    start = encode_body(entry).removesuffix(b'}')
    line = b'%b, "%b": %b}' % (start, name.encode(), encode_body(body))
    for character in _LINE_ENDS:
        line = line.replace(character.encode(), f'\\u{ord(character):04x}'.encode())
    return line
