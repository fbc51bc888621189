"""The base of models behind a server, whatever their request format."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from rolecall.core.render.spans import Request
from rolecall.errors import DataError, MissingExtraError
from rolecall.models.http.batches import BatchService
from rolecall.models.http.body import ReplyFieldError
from rolecall.models.http.connection import MALFORMED, HttpClient, run_together
from rolecall.models.http.failures import HttpStatusError, RateLimit, Unit, row_outcome
from rolecall.models.http.media import MediaReader
from rolecall.models.http.server_facts import ServerFacts
from rolecall.models.protocol import Capabilities, ModelError, OnText, Reply, Sampling, Usage, is_messages, redact_reply
from rolecall.models.token_counter import TokenCounter
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.redaction import StreamRedactor


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSettings:
    """What the entry of every served model says."""

    model: str
    length: int | None
    parameters: dict[str, Any]
    extra_body: dict[str, Any]
    stream: bool
    capabilities: Capabilities
    max_seq_len: int | None
    max_media_bytes: int

    def body(self, sampling: Sampling) -> dict[str, Any]:
        """The request body without the prompt: the call's parameters win over the entry's, `extra_body` over both."""
        raise NotImplementedError

    @property
    def endpoint(self) -> str:
        """The endpoint that answers requests."""
        raise NotImplementedError

    @property
    def collector(self) -> type[Collector]:
        """What reads its streams."""
        raise NotImplementedError


class Collector(Protocol):
    """Receives the events of a stream."""

    def take(self, event: Any) -> bool:
        """Whether one event, decoded, adds text or reasoning to the first answer."""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete."""

    def join(self) -> Any:
        """The answer as it would have come in one piece."""

    @staticmethod
    def read_text(event: Any) -> str:
        """The text that one event adds to the first answer."""

    @staticmethod
    def read_thinking(event: Any) -> str:
        """The reasoning that one event adds to it."""


@dataclass(slots=True)
class StreamTimes:
    """When a request was sent, when each piece of its reply arrived, and when it ended, by `time.perf_counter`."""

    sent: float = 0.0
    pieces: list[float] = field(default_factory=list)
    """Of text or reasoning; empty for a reply that came whole."""
    ended: float = 0.0

    @property
    def first_token(self) -> float | None:
        """Seconds until the first piece."""
        return self.pieces[0] - self.sent if self.pieces else None


class StreamAllowance:
    """Lets replies be streamed for their times while that takes less than a twentieth of a core.

    >>> allowance = StreamAllowance()
    >>> allowance.allows(), allowance.add(100_000), allowance.allows()
    (True, None, False)
    """

    def __init__(self) -> None:
        self._pieces, self._since = 0, time.perf_counter()

    def add(self, pieces: int) -> None:
        """Count the pieces of a reply."""
        self._pieces += pieces

    def allows(self) -> bool:
        """Whether the next reply may be streamed."""
        seconds = max(time.perf_counter() - self._since, 1.0)
        return self._pieces * _PIECE_SECONDS <= _STREAMED_SHARE * seconds


S = TypeVar('S', bound=ServedSettings)
_CHANGES_PROMPT = {'functions', 'response_format', 'chat_template', 'documents'}
"""Parameters with which a server puts more into the prompt, by rules of its own, than the messages and tools."""
Reader = tuple[Callable[[Any], str], OnText]


_STREAMED_SHARE = 0.05
_PIECE_SECONDS = 1e-4
"""What a piece costs beside a reply in one piece, on a slow core."""


def _ignore(_value: object) -> None:
    pass


class ServedModel(ABC, Generic[S]):
    """One model of one server."""

    batch = 1
    batch_service: ClassVar[type[BatchService]]
    facts: ServerFacts | None = None
    """What is known of the server: what it said to this process, or was remembered for its address."""

    def __init__(self, settings: S, *, name: str, client: HttpClient, counter: TokenCounter) -> None:
        self.name = name
        self.capabilities = settings.capabilities
        self._settings = settings
        self._client = client
        self.counter = counter
        self._allowance: StreamAllowance | None = None
        """Set where replies are streamed to learn their times."""
        self._media = MediaReader(limit=settings.max_media_bytes)
        self.batches = self.batch_service(client, settings.endpoint, self._read_batched)
        """The server's batch endpoints, for requests as `write_batched` gives them."""

    def allow_streams(self) -> None:
        """Let replies be streamed for their times."""
        self._allowance = StreamAllowance()

    @property
    def served_name(self) -> str:
        """The server's name for the model; empty for its only one."""
        return self._settings.model

    @property
    def max_seq_len(self) -> int | None:
        """The context limit in tokens: the shorter of those that the entry and the server state."""
        limits = (self._settings.max_seq_len, self.facts.window if self.facts else None)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def is_own(self) -> bool:
        """Whether the server is on this machine or a private network."""
        return self._client.address.is_own

    @property
    def rate_limits(self) -> Mapping[Unit, RateLimit]:
        """The rate limits announced with the server's last answer."""
        return self._client.rate_limits

    @property
    def identity(self) -> Mapping[str, Any]:
        """Server, endpoint, model, and what the entry adds to every request."""
        sent = {
            'server': self._client.address.root,
            'endpoint': self._settings.endpoint,
            **self._settings.body(Sampling()),
        }
        hidden: dict[str, Any] = self._client.entry_redactor.redact_value(sent)
        return hidden

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        if len(requests) == 1:
            return [await self._request_reply(requests[0], sampling)]
        return await run_together([self._request_reply(request, sampling) for request in requests])

    async def stream(
        self,
        request: Request,
        sampling: Sampling,
        on_text: OnText,
        on_thinking: OnText | None = None,
        on_event: Callable[[], object] | None = None,
    ) -> Reply:
        """The reply to one request; `on_text` and `on_thinking` are called with each piece as it arrives.

        `on_event` is called with every event, those of tool calls included.
        """
        pieces = StreamRedactor(self._client.redactor, on_text)
        thoughts = StreamRedactor(self._client.redactor, on_thinking or _ignore)

        def take_text(piece: str) -> None:
            thoughts.finish()  # what is held back of them comes before the text
            pieces.take(piece)

        reads = self._settings.collector
        readers: list[Reader] = [(reads.read_thinking, thoughts.take), (reads.read_text, take_text)]
        if on_event is not None:
            readers.append((lambda _event: 'any', lambda _any: _ignore(on_event())))
        reply = await self._request_reply(request, sampling, readers)
        thoughts.finish()
        pieces.finish()
        return reply

    async def time_reply(self, request: Request, sampling: Sampling, times: StreamTimes, *, stream: bool) -> Reply:
        """The reply to one request, its times written into `times` as they happen, also where it fails."""
        return await self._request_reply(request, sampling, times=times, stream=stream)

    async def write_batched(self, request: Request, sampling: Sampling) -> dict[str, Any]:
        """The body of a request in a batch: that of a live call without streaming."""
        if sampling.extra.get('extra_headers') is not None:
            raise ModelError(f'{self._client.about}: extra_headers of one request cannot be sent with a batch.')
        return await self._write_body(request, sampling, stream=False)

    def _read_batched(self, answer: Any) -> Reply:
        reply = redact_reply(self._read_reply(answer, 0.0), self._client.redactor)
        return replace(reply, usage=replace(reply.usage, seconds=None))

    async def is_reachable(self) -> bool:
        """Whether the server is up. Runs check this when connections break, to tell a failed row from an outage."""
        return await self._client.is_reachable()

    def count(self, request: Request) -> int | None:
        return self.counter.count(request)

    def expect_tokens(self, request: Request, sampling: Sampling, *, scored: bool = False) -> int | None:
        """The input tokens that the server should report for a request; None where that cannot be told here."""
        body = self._settings.body(sampling)
        names = {'tools': 'tools', 'variables': 'chat_template_kwargs'}
        more = {name: body[field] for name, field in names.items() if body.get(field)}
        if (scored and is_messages(request)) or not _CHANGES_PROMPT.isdisjoint(body):
            return None
        try:
            return self.counter.count(request, **more)
        except (DataError, MissingExtraError):  # a broken tokenizer
            return None

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self.counter.tokenizer

    def check_ready(self) -> None:
        """Raise if the key is missing. Nothing is sent."""
        self._client.check_key()

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these as well, wherever the server echoes them."""
        self._client.add_secrets(secrets)

    def restrict_media(self, folders: Sequence[Path]) -> None:
        """Read the local files that requests name only inside these folders."""
        self._media = replace(self._media, folders=tuple(folders))

    async def close(self) -> None:
        await self._client.close()

    async def _request_reply(
        self,
        request: Request,
        sampling: Sampling,
        readers: Sequence[Reader] = (),
        *,
        times: StreamTimes | None = None,
        stream: bool | None = None,
    ) -> Reply:
        headers = sampling.extra.get('extra_headers')
        if headers is not None:
            sampling = replace(sampling, extra={**sampling.extra, 'extra_headers': None})
        if stream is None:
            allowed = self._allowance is not None and self._allowance.allows()
            stream = self._settings.stream or bool(readers) or allowed
        body = await self._write_body(request, sampling, stream=stream)
        times = times or StreamTimes()
        started = times.sent = time.perf_counter()
        try:
            answer = await self._exchange(body, readers, headers, times)
            times.ended = time.perf_counter()
            if self._allowance is not None:
                self._allowance.add(len(times.pieces))
            reply = redact_reply(self._read_reply(answer, times.ended - started), self._client.redactor)
            first = times.first_token
            return reply if first is None else replace(reply, usage=replace(reply.usage, first_token_seconds=first))
        except HttpStatusError as error:
            outcome = row_outcome(error)
            if outcome is None:
                raise
            return Reply('', outcome, error.server_message, usage=Usage(seconds=time.perf_counter() - started))
        except MALFORMED as error:
            why = str(error) if isinstance(error, ReplyFieldError) else f'{type(error).__name__}: {error}'
            raise self._client.malformed_error(why) from error

    async def _exchange(
        self,
        body: Mapping[str, Any],
        readers: Sequence[Reader],
        headers: Mapping[str, str] | None,
        times: StreamTimes,
    ) -> Any:
        endpoint = self._settings.endpoint
        if not body.get('stream'):
            return await self._client.post(endpoint, body, headers=headers)
        collector = self._settings.collector()

        def take(event: Any, arrived: float) -> None:
            if collector.take(event):
                times.pieces.append(arrived)
            for read_text, on_text in readers:
                if text := read_text(event):
                    on_text(text)

        answer = await self._client.stream(endpoint, body, take, headers=headers)
        if answer is None and not collector.finished:
            raise self._client.malformed_error('the stream ended early')
        return collector.join() if answer is None else answer

    @abstractmethod
    async def _write_body(self, request: Request, sampling: Sampling, *, stream: bool) -> dict[str, Any]:
        """The body to send."""

    @abstractmethod
    def _read_reply(self, answer: Any, seconds: float) -> Reply:
        """The reply in a whole answer, or in one that a collector joined."""
