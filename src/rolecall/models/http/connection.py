"""The HTTP client for every API: JSON out, JSON or server-sent events in, every failure a `ModelError`.

Retries and concurrency belong to the run; a client keeps one session per event loop.
"""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import InitVar, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from rolecall._version import __version__
from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.errors import import_extra
from rolecall.models.http.address import Address, Keys
from rolecall.models.http.body import (
    ACCEPTED_ENCODINGS,
    EVENT_END,
    UNPACKED_ENCODINGS,
    EventReader,
    ReplyTooLargeError,
    UnreadableReplyError,
    check_size,
    iterate_lines,
    parse_json,
    read_start,
    read_whole,
)
from rolecall.models.http.failures import (
    HttpStatusError,
    RateLimit,
    Unit,
    embedded_error,
    read_rate_limits,
    status_error,
)
from rolecall.models.protocol import ModelError
from rolecall.redaction import Redactor, environment_secrets, remember_secrets

if TYPE_CHECKING:
    import ssl

    import aiohttp


_HEADERS = {
    'Content-Type': 'application/json',
    'Accept-Encoding': ACCEPTED_ENCODINGS,
    'User-Agent': f'rolecall/{__version__}',
}
_CONNECT_SECONDS = 30
_KEEP_ALIVE_SECONDS = 4
_LARGE_BODY = 1 << 20
_ERROR_BYTES = 1 << 16
"""How much of an error reply is read."""

MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError, OverflowError)
"""What reading a malformed reply raises."""

_aiohttp = partial(import_extra, 'aiohttp', extra='api', purpose='to talk to an API')
Result = TypeVar('Result')


OnEvent = Callable[[Any, float], object]
"""Is given each event of a stream, decoded, and when it arrived by `time.perf_counter`."""


@dataclass(eq=False)
class HttpClient:
    """Talks to one server for one model."""

    address: Address
    model: str
    keys: Keys
    key_header: tuple[str, str]
    verify: bool | str
    headers: Mapping[str, str]
    timeout: float
    per_second: float | None
    proxy: str | None
    max_reply_bytes: int
    secrets: InitVar[Iterable[str]]
    rate_limits: Mapping[Unit, RateLimit] = field(default_factory=dict, init=False)
    """What the server announced about its limits with its last answer."""
    entry_redactor: Redactor = field(init=False)
    """Replaces the secrets that are known without looking up a key."""

    def __post_init__(self, secrets: Iterable[str]) -> None:
        self.about = f"{self.address.root}, model '{self.model}'"
        self._limiter = _RateLimiter(self.per_second) if self.per_second else None
        secrets = tuple(secrets)
        remember_secrets(secrets)
        self.entry_redactor = Redactor({*secrets, *environment_secrets()})
        self.headers = {**_HEADERS, **self.headers}
        self._with_key: Iterator[Mapping[str, str] | None] | None = None
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()

    def post(
        self, endpoint: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Send a body; return the decoded reply. `headers` are those of this request alone."""
        return self._exchange('POST', endpoint, encode_body(body), headers=headers)

    async def get(self, endpoint: str, query: Mapping[str, str] | None = None) -> Any:
        """The decoded reply of an endpoint that takes no body."""
        return await self._exchange('GET', endpoint, None, query=query)

    async def post_file(self, endpoint: str, file: Path) -> Any:
        """Send a file of JSON as the body, however long it takes; return the decoded reply."""
        with file.open('rb') as content:
            return await self._send_file(endpoint, content, {})

    async def upload(self, endpoint: str, file: Path, *, name: str, fields: Mapping[str, str]) -> Any:
        """Send a file and some fields as a form, however long it takes; return the decoded reply."""
        form = _aiohttp().MultipartWriter('form-data')
        for label, value in fields.items():
            form.append(value).set_content_disposition('form-data', name=label)
        with file.open('rb') as content:
            part = form.append(content, {'Content-Type': 'application/jsonl'})
            part.set_content_disposition('form-data', name='file', filename=name)
            return await self._send_file(endpoint, form, {'Content-Type': form.headers['Content-Type']})

    async def _send_file(self, endpoint: str, data: Any, headers: Mapping[str, str]) -> Any:
        async with self._open('POST', endpoint, data, headers=headers, long=True) as response:
            return self._decode(await read_whole(response, limit=self.max_reply_bytes))

    async def download_lines(self, endpoint: str) -> AsyncIterator[bytes]:
        """The lines of a file, however long it is; no line may be larger than a reply."""
        async with self._open('GET', endpoint, None, long=True) as response:
            async for line in iterate_lines(response, longest=self.max_reply_bytes):
                yield line

    async def is_reachable(self) -> bool:
        """Whether the server gives any HTTP reply to a request that costs nothing, whatever it says."""
        try:
            await asyncio.wait_for(self.get('models'), _CONNECT_SECONDS)
        except ModelError as error:
            return error.status is not None
        except asyncio.TimeoutError:
            return False
        return True

    async def stream(
        self,
        endpoint: str,
        body: Mapping[str, Any],
        on_event: OnEvent,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a body and pass the reply's events to `on_event`; return the reply if the server did not stream."""
        return await self._exchange('POST', endpoint, encode_body(body), on_event, headers=headers)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def malformed_error(self, what: str) -> ModelError:
        """The error for a reply that does not follow the protocol."""
        message = f'{self.about}: the reply cannot be read ({self._hide(what)}).'
        return UnreadableReplyError(message, transient=True, status=200)

    async def _exchange(
        self,
        method: str,
        endpoint: str,
        data: bytes | None,
        on_event: OnEvent | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        sent = io.BytesIO(data) if data is not None and len(data) > _LARGE_BODY else data
        async with self._open(method, endpoint, sent, headers=headers, query=query) as response:
            if on_event is None or response.content_type == 'application/json':
                return self._decode(await read_whole(response, limit=self.max_reply_bytes))
            return await self._pass_events(response, on_event)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        endpoint: str,
        data: Any,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        long: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a request. Error statuses and failures while reading raise `ModelError`.

        `long`: the time limit holds for each piece, not for the whole.
        """
        package = _aiohttp()
        keys = self._rotate_keys()
        session = self._session(package)
        if self._limiter is not None:
            await self._limiter.wait_turn()
        url = self.address.endpoint(endpoint)
        if query:
            url += f'{"&" if "?" in url else "?"}{urlencode(query)}'
        key = next(keys)
        own = {**({} if key is None else key), **(headers or {})}
        options: dict[str, Any] = {'data': data, 'headers': own, 'allow_redirects': False}
        if long:
            patient = package.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=self.timeout)
            options['timeout'] = patient
        try:
            async with session.request(method, url, **options) as response:
                self.rate_limits = read_rate_limits(response.headers)
                if response.status != 200:
                    start = await read_start(response, limit=_ERROR_BYTES)
                    self._refuse(status_error(self.about, response.status, response.headers, start, hide=self._hide))
                if (encoding := response.headers.get('Content-Encoding', 'identity').lower()) not in UNPACKED_ENCODINGS:
                    raise self._unpack_error(f'Content-Encoding {encoding!r}', transient=False)
                yield response
        except ReplyTooLargeError as error:
            raise ReplyTooLargeError(f'{self.about}: {error}.', status=200) from error
        except asyncio.TimeoutError as error:
            connecting = isinstance(error, package.ConnectionTimeoutError)
            missing = f'connection within {_CONNECT_SECONDS}' if connecting else f'answer within {self.timeout:g}'
            raise ModelError(f'{self.about}: no {missing} seconds.', transient=True) from error
        except (package.ClientError, OSError) as error:
            if 'content-encoding' in (why := getattr(error.__cause__, 'message', '')):
                raise self._unpack_error(why, transient='install' not in why) from error
            raise self._connection_error(package, error) from error

    async def _pass_events(self, response: aiohttp.ClientResponse, on_event: OnEvent) -> None:
        reader, size, piece = EventReader(), 0, b'-'
        while piece:
            piece = await response.content.readany()
            arrived = time.perf_counter()
            check_size(size := size + len(piece), self.max_reply_bytes)
            for event in reader.feed(piece or EVENT_END):
                if event.strip() != b'[DONE]':
                    on_event(self._decode(event), arrived)

    def _decode(self, raw: bytes) -> Any:
        try:
            body = parse_json(raw)
        except ValueError as error:
            start = self._hide(raw[:_ERROR_BYTES].decode('utf-8', 'replace'))[:80]  # half a key would not be found
            why = 'nested too deeply' if 'nested' in str(error) else f'not JSON: {start!r}'
            raise self.malformed_error(why) from None
        if isinstance(body, dict) and body.get('error'):
            self._refuse(embedded_error(self.about, body['error'], hide=self._hide))
        return body

    def _refuse(self, error: HttpStatusError) -> NoReturn:
        hint = f' {self.keys.withheld}'.rstrip() if error.status in (401, 403) else ''
        error.args = (self._hide(str(error)) + hint,)
        error.server_message = self._hide(error.server_message)
        raise error

    def _connection_error(self, package: ModuleType, error: Exception) -> ModelError:
        gone = isinstance(error, package.ServerDisconnectedError)  # its text may be a dump of the headers
        why = self._hide('Server disconnected' if gone else str(error) or type(error).__name__)
        if isinstance(error, package.ClientConnectorError):
            what = f'the server is unreachable ({why}). Is it running, and is the base URL right?'
        else:
            what = f'the connection broke ({why}).'
        return ModelError(f'{self.about}: {what}', transient=not _is_final(package, error))

    def _unpack_error(self, what: str, *, transient: bool) -> UnreadableReplyError:
        message = f'{self.about}: the reply cannot be unpacked ({self._hide(what)}).'
        remedy = f'Accepted are {ACCEPTED_ENCODINGS}: turn compression off at the server or at the proxy before it.'
        return UnreadableReplyError(f'{message} {remedy}', transient=transient, status=200)

    def _hide(self, text: str) -> str:
        return self.redactor.redact(text)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these as well, such as those of the rest of a config."""
        self.entry_redactor = Redactor({*self.entry_redactor.secrets, *secrets})
        self.__dict__.pop('redactor', None)

    @cached_property
    def redactor(self) -> Redactor:
        """Replaces the keys and all other secrets of the entry and the environment, wherever a server echoes them."""
        user, password = self.address.credentials or ('', '')
        return Redactor({*self.keys.values(), *self.entry_redactor.secrets, password or user})

    def check_key(self) -> None:
        """Raise if the entry needs a key that is not set."""
        self._rotate_keys()

    def _rotate_keys(self) -> Iterator[Mapping[str, str] | None]:
        """Yields the header for each key in turn, endlessly."""
        if self._with_key is None:
            name, form = self.key_header
            sent = {header.lower() for header in self.headers}
            keys = () if name.lower() in sent else self.keys.values()
            self._with_key = itertools.cycle([{name: form.format(key)} for key in keys] or [None])
        return self._with_key

    def _session(self, package: ModuleType) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            login = self.address.credentials
            session = self._sessions[loop] = package.ClientSession(
                connector=package.TCPConnector(
                    limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, ttl_dns_cache=300, ssl=_read_trust(self.verify)
                ),
                cookie_jar=package.DummyCookieJar(),
                headers=self.headers
                if login is None
                else {
                    'Authorization': f'Basic {base64.b64encode(":".join(login).encode()).decode("ascii")}',
                    **self.headers,
                },
                timeout=package.ClientTimeout(total=self.timeout, sock_connect=_CONNECT_SECONDS),
                proxy=self.proxy or _proxy_for(self.address),
            )
        return session


class _RateLimiter:
    """Spaces request starts evenly, at most `per_second`."""

    __slots__ = ('_gap', '_next')

    def __init__(self, per_second: float) -> None:
        self._gap = 1 / per_second
        self._next = 0.0

    async def wait_turn(self) -> None:
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)


async def run_together(calls: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run all calls concurrently; if one fails, cancel the others."""
    if len(calls) == 1:
        return [await calls[0]]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def encode_body(body: Mapping[str, Any]) -> bytes:
    try:
        return _write_json(body).encode()
    except UnicodeEncodeError:  # a lone surrogate in the data: JSON can carry it only escaped
        return json.dumps(body, default=_json_default).encode()


def _json_default(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise ModelError(f'{type(value).__name__} cannot be part of a request.')


_write_json = json.JSONEncoder(ensure_ascii=False, default=_json_default).encode


def _is_final(package: ModuleType, error: Exception) -> bool:
    """Whether a retry is pointless: a rejected certificate, a host name that does not exist."""
    if isinstance(error, package.ClientConnectorDNSError):
        return getattr(error.os_error, 'errno', None) == socket.EAI_NONAME
    return isinstance(error, (package.ClientConnectorCertificateError, package.ClientSSLError, package.InvalidURL))


def _read_trust(verify: bool | str) -> bool | ssl.SSLContext:
    """How servers' certificates are checked: as usual, not at all, or by a file of certificates."""
    if isinstance(verify, bool):
        return verify
    import ssl

    return ssl.create_default_context(cafile=verify)


def _proxy_for(address: Address) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    if address.is_loopback or proxy_bypass(address.host):
        return None
    return getproxies().get(address.root.partition(':')[0])
