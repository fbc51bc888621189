"""Models behind Anthropic's messages API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

from rolecall.checking import OptionReader
from rolecall.config_keys import keys_of
from rolecall.core.render.spans import Request
from rolecall.models.anthropic.wire import (
    Lifetime,
    SharedPrefix,
    StreamedMessage,
    find_minimum,
    mark_shared,
    measure_shared,
    read_message,
    take_tool_answer,
    write_answer_tool,
    write_anthropic_messages,
    write_tool_choice,
    write_tools,
)
from rolecall.models.http.batches import (
    BatchAnswer,
    BatchService,
    RemoteBatch,
    Submission,
    check_id,
    encode_entry,
    join_entries,
)
from rolecall.models.http.body import parse_json
from rolecall.models.http.connection import MALFORMED, HttpClient
from rolecall.models.http.served_model import ServedModel, ServedSettings
from rolecall.models.openai.entry import Vendor, read_client, read_served_settings, read_server_address
from rolecall.models.openai.wire import read_count
from rolecall.models.protocol import Capabilities, Message, Model, ModelError, Reply, Sampling, is_messages
from rolecall.models.token_counter import TokenCounter

_OUTCOMES = {'expired': 'expired', 'canceled': 'cancelled'}
_COUNTS = ('processing', 'succeeded', 'errored', 'canceled', 'expired')
_CLOCKS_DIFFER = timedelta(minutes=5)
_VENDOR = Vendor('api.anthropic.com', 'ANTHROPIC', '', ('messages', 'models'))
_NOT_SENT = ('seed', 'min_out_len')
"""Parameters the format does not have."""
_COUNTED = ('model', 'messages', 'system', 'thinking', 'tools', 'tool_choice')
"""What the counting endpoint takes."""
_LENGTH = 4096
_VERSION = '2023-06-01'
_NO_SAMPLING = Sampling()


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """A model behind Anthropic's Messages API.

    Nothing is connected and no key is looked up before the first request.

    >>> build({'type': 'Claude', 'path': 'claude-sonnet-4-5', 'max_out_len': 100}, name='claude').identity['max_tokens']
    100
    """
    reader = OptionReader(entry, name)
    reader.refuse_misspelt(keys_of('model', 'server', 'anthropic'))
    model = reader.text('model', 'model_name', 'path') or ''
    if not any(map(entry.get, ('model', 'model_name', 'path'))):
        reader.refuse('path', "missing: the server's name for the model.", 'Give it as `path` or `model`.')
    address = read_server_address(reader, _VENDOR.url, endpoints=_VENDOR.endpoints)
    settings = AnthropicSettings(
        model=model,
        length=reader.whole('max_out_len') or _LENGTH,
        capabilities=Capabilities(chat=True, media=True, tools=True, prefill=True, json_schema=True),
        **read_served_settings(entry, reader, 'anthropic_body', 'claude_extra_kwargs'),
        prompt_cache=_read_prompt_cache(entry, reader),
    )
    version = {'anthropic-version': reader.text('anthropic_version') or _VERSION}
    client = read_client(entry, reader, _VENDOR, address, model=model, key_header=('x-api-key', '{}'), headers=version)
    reader.raise_problems()
    return AnthropicModel(settings, name=name, client=client, counter=TokenCounter(entry))


def _read_prompt_cache(entry: Mapping[str, Any], reader: OptionReader) -> Lifetime | None:
    value = entry.get('prompt_cache', True)
    if value is True or value == '5m':
        return '5m'
    if value == '1h':
        return '1h'
    if value is not False:
        what = f"expected True, False, '5m' or '1h', got {value!r:.40}."
        reader.refuse('prompt_cache', what, 'It says how long the server keeps what all rows share.')
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicSettings(ServedSettings):
    """The settings read from an entry."""

    prompt_cache: Lifetime | None = '5m'
    """How long the server caches the prefix that requests share; None turns caching off."""
    endpoint: ClassVar = 'messages'
    collector: ClassVar = StreamedMessage

    def body(self, sampling: Sampling) -> dict[str, Any]:
        parameters = {key: value for key, value in sampling.as_dict().items() if key not in _NOT_SENT}
        further: dict[str, Any] = parameters.pop('extra_body', {})
        schema = parameters.pop('json_schema', None)
        length = parameters.pop('max_out_len', self.length)
        body = {'model': self.model, 'max_tokens': length, **self.parameters, **parameters}
        if 'stop' in body:
            stop = body.pop('stop')
            body['stop_sequences'] = [stop] if isinstance(stop, str) else list(stop)
        if 'tools' in body:
            body['tools'] = write_tools(body['tools'])
        if 'tool_choice' in body:
            body['tool_choice'] = write_tool_choice(body['tool_choice'])
        extra = {**self.extra_body, **further}
        if schema is not None:
            thinks = (extra.get('thinking') or body.get('thinking') or {}).get('type', 'disabled') != 'disabled'
            body |= write_answer_tool(schema, body.get('tools', ()), thinks=thinks)
        return body | extra


class AnthropicBatches(BatchService):
    """The message batches of one model."""

    vendor = 'Anthropic'
    path = 'messages/batches'
    cursor = 'after_id'
    most_requests = 100_000
    most_bytes = 256_000_000

    def encode(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        return encode_entry({'custom_id': custom_id}, 'params', body)

    def write(self, entries: Iterable[bytes], file: IO[bytes]) -> None:
        join_entries(entries, file, before=b'{"requests": [', between=b',\n', after=b']}')

    async def create(self, file: Path, submission: Submission) -> RemoteBatch:
        return self._read(await self._client.post_file(self.path, file))

    async def find(self, submission: Submission) -> RemoteBatch | None:
        """The oldest batch since the attempt with as many requests. Its results show whether it is the right one."""
        earliest, candidate = submission.since - _CLOCKS_DIFFER, None
        async for page in self._pages():
            with self._reading():
                recent = [entry for entry in page if _read_time(entry['created_at']) >= earliest]
            for batch in map(self._read, recent):
                if batch.total == submission.requests and batch.id not in submission.excluded:
                    candidate = batch  # newest first
            if len(recent) < len(page):
                break
        return candidate

    async def results(self, batch: RemoteBatch) -> AsyncIterator[BatchAnswer | None]:
        # The key goes to the configured server only, not to the `results_url` of the answer.
        async for line in self._client.download_lines(f'{self.path}/{batch.id}/results'):
            if line.strip():
                yield self._read_line(line)

    def _read(self, answer: Any) -> RemoteBatch:
        with self._reading():
            status, counts = str(answer['processing_status']), answer.get('request_counts') or {}
            numbers = {name: read_count(counts.get(name)) or 0 for name in _COUNTS}
            total = sum(numbers.values())
            return RemoteBatch(
                check_id(answer['id']), status[:40], status == 'ended', done=total - numbers['processing'], total=total
            )

    def _read_line(self, line: bytes) -> BatchAnswer | None:
        try:
            entry = parse_json(line)
            custom_id, result = entry['custom_id'], entry['result']
            if not isinstance(custom_id, str):
                return None
            kind = result['type']
            if kind in _OUTCOMES:
                return BatchAnswer(custom_id, _OUTCOMES[kind], reason=f'{kind} in the batch')  # type: ignore[arg-type]
            if kind == 'errored':
                error = result['error']
                inner = error.get('error') or error
                return self._failure(custom_id, self._read_error(inner))
            return self._answer(custom_id, result['message']) if kind == 'succeeded' else None
        except MALFORMED:
            return None


class AnthropicModel(ServedModel[AnthropicSettings]):
    """One model of one server."""

    batch_service = AnthropicBatches

    def __init__(self, settings: AnthropicSettings, *, name: str, client: HttpClient, counter: TokenCounter) -> None:
        super().__init__(settings, name=name, client=client, counter=counter)
        self._shared: tuple[SharedPrefix, ...] = ()
        self._least = find_minimum(settings.model)

    def share_prefixes(self, prefixes: Iterable[SharedPrefix]) -> None:
        """Mark these request prefixes for caching, if they are long enough."""
        self._shared = tuple(prefixes) if self._settings.prompt_cache is not None else ()

    def shared_part(self, request: Request) -> float:
        """The cached share of a request, by length."""
        if not self._shared or not is_messages(request):
            return 0.0
        body = write_anthropic_messages([message for message in request if isinstance(message['content'], str)])
        if self._mark(body, request) is body:
            return 0.0
        count, beginning = measure_shared(request, self._shared)
        return len(str([*request[:count], beginning])) / max(1, len(str(request)))

    async def score(self, requests: Sequence[Request]) -> NoReturn:
        """Anthropic's API does not offer it."""
        raise ModelError(f"{self._client.about}: Anthropic's API does not return log-probabilities.")

    async def count_remotely(self, request: Request, sampling: Sampling = _NO_SAMPLING) -> int:
        """The number of input tokens according to the server's counting endpoint; `sampling` may have tools."""
        body = await self._write_body(request, sampling, stream=False)
        counting = {key: value for key, value in body.items() if key in _COUNTED}
        answer = await self._client.post('messages/count_tokens', counting)
        counted = read_count(answer.get('input_tokens')) if isinstance(answer, Mapping) else None
        if counted is None:
            raise self._client.malformed_error('no number of input tokens')
        return counted

    async def _write_body(self, request: Request, sampling: Sampling, *, stream: bool) -> dict[str, Any]:
        if not is_messages(request):
            raise ModelError(f'{self._client.about}: this is a chat model: it takes messages, not text.')
        with_parts = any(not isinstance(message.get('content'), str) for message in request)
        messages = (
            await asyncio.to_thread(write_anthropic_messages, request, self._media)
            if with_parts
            else write_anthropic_messages(request)
        )
        body = {**self._settings.body(sampling), **messages, **({'stream': True} if stream else {})}
        return self._mark(body, request)

    def _mark(self, body: dict[str, Any], request: Sequence[Message]) -> dict[str, Any]:
        lifetime = self._settings.prompt_cache
        if lifetime is None or not self._shared:
            return body
        return mark_shared(body, request, self._shared, least=self._least, lifetime=lifetime)

    def _read_reply(self, answer: Any, seconds: float) -> Reply:
        return take_tool_answer(read_message(answer, seconds=seconds))


def _read_time(text: Any) -> datetime:
    moment = datetime.fromisoformat(str(text).replace('Z', '+00:00'))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
