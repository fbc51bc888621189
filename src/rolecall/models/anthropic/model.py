"""Models behind Anthropic's messages API."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from rolecall.checking import OptionReader
from rolecall.models.anthropic.wire import (
    StreamedMessage,
    read_message,
    read_text_delta,
    write_anthropic_messages,
    write_tool_choice,
    write_tools,
)
from rolecall.models.http.address import leads_to
from rolecall.models.http.body import MAX_REPLY_BYTES
from rolecall.models.http.connection import MALFORMED, HttpClient, TextListener, run_together
from rolecall.models.http.failures import HttpStatusError, row_outcome
from rolecall.models.http.keys import Keys
from rolecall.models.http.media import MAX_MEDIA_BYTES, MediaReader
from rolecall.models.http.rate_limits import RateLimit, Unit
from rolecall.models.openai.entry import read_headers, read_server_address
from rolecall.models.protocol import Capabilities, Model, ModelError, OnText, Reply, Sampling, Usage, is_messages
from rolecall.models.reply_redaction import redact_reply
from rolecall.models.token_counter import TokenCounter
from rolecall.redaction import StreamRedactor, find_secrets
from rolecall.registry import part_name
from rolecall.render.spans import Request

__all__ = ['AnthropicModel', 'build']

_HOST = 'api.anthropic.com'
_ENDPOINTS = ('messages', 'models')
_PARAMETERS = ('temperature', 'top_p', 'top_k', 'thinking', 'tools', 'tool_choice')
_NOT_SENT = ('seed', 'min_out_len')
"""Parameters the format does not have."""
_OPTIONS = (
    *('type', 'abbr', 'path', 'model', 'model_name', 'key', 'api_key', 'base_url', 'url', 'openai_api_base', 'stream'),
    *('timeout', 'query_per_second', 'headers', 'extra_headers', 'anthropic_version', 'proxy', 'generation_kwargs'),
    *('claude_extra_kwargs', 'extra_body', 'max_out_len', 'max_seq_len', 'meta_template', 'batch_size', 'retry'),
    *(
        'max_reply_bytes',
        'max_media_bytes',
        'tokenizer',
        'tokenizer_path',
        'run_cfg',
        'pred_postprocessor',
        *_PARAMETERS,
    ),
)
_LENGTH = 4096
_VERSION = '2023-06-01'


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """A model behind Anthropic's Messages API.

    Nothing is connected and no key is looked up before the first request.

    >>> build({'type': 'Claude', 'path': 'claude-sonnet-4-5', 'max_out_len': 100}, name='claude').identity['max_tokens']
    100
    """
    reader = OptionReader(entry, name)
    reader.refuse_misspelt(_OPTIONS)
    model = reader.text('model', 'model_name', 'path') or ''
    if not model:
        reader.refuse('path', "missing: the server's name for the model.", 'Give it as `path` or `model`.')
    usual = os.environ.get('ANTHROPIC_BASE_URL') or f'https://{_HOST}'
    address = read_server_address(reader, usual, endpoints=_ENDPOINTS)
    parameters = {key: entry[key] for key in _PARAMETERS if entry.get(key) is not None}
    settings = AnthropicSettings(
        model=model,
        length=reader.whole('max_out_len', least=1) or _LENGTH,
        parameters=parameters | reader.mapping('generation_kwargs', 'claude_extra_kwargs'),
        extra_body=reader.mapping('extra_body'),
        stream=part_name(entry.get('type', '')).endswith(('Stream', 'Streaming')) or reader.flag('stream') is True,
        max_seq_len=reader.whole('max_seq_len', least=1),
        max_media_bytes=reader.whole('max_media_bytes', least=1) or MAX_MEDIA_BYTES,
    )
    client = HttpClient(
        address,
        model=model,
        keys=Keys(
            reader.texts('key', 'api_key'),
            variable='ANTHROPIC_API_KEY',
            at_home=address.host == _HOST or leads_to(usual, address, endpoints=_ENDPOINTS),
            needed=address.host == _HOST,
        ),
        key_header=('x-api-key', '{}'),
        headers={'anthropic-version': reader.text('anthropic_version') or _VERSION, **read_headers(reader)},
        timeout=reader.limit('timeout') or 600,
        per_second=reader.limit('query_per_second'),
        proxy=reader.text('proxy'),
        max_reply_bytes=reader.whole('max_reply_bytes', least=1) or MAX_REPLY_BYTES,
        secrets=find_secrets(entry),
    )
    reader.raise_problems()
    return AnthropicModel(settings, name=name, client=client, counter=TokenCounter(entry))


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """The settings read from an entry."""

    model: str
    length: int
    parameters: dict[str, Any]
    extra_body: dict[str, Any]
    stream: bool
    max_seq_len: int | None
    max_media_bytes: int = MAX_MEDIA_BYTES

    def body(self, sampling: Sampling) -> dict[str, Any]:
        """The request body without the messages."""
        asked = {key: value for key, value in sampling.as_dict().items() if key not in _NOT_SENT}
        length = asked.pop('max_out_len', self.length)
        body = {'model': self.model, 'max_tokens': length, **self.parameters, **asked}
        if 'stop' in body:
            stop = body.pop('stop')
            body['stop_sequences'] = [stop] if isinstance(stop, str) else list(stop)
        if 'tools' in body:
            body['tools'] = write_tools(body['tools'])
        if 'tool_choice' in body:
            body['tool_choice'] = write_tool_choice(body['tool_choice'])
        return body | self.extra_body


class AnthropicModel:
    """One model of one server."""

    batch = 1
    capabilities = Capabilities(chat=True, media=True, tools=True, prefill=True)

    def __init__(
        self,
        settings: AnthropicSettings,
        *,
        name: str,
        client: HttpClient,
        counter: TokenCounter,
    ) -> None:
        self.name = name
        self.max_seq_len = settings.max_seq_len
        self._settings = settings
        self._client = client
        self._counter = counter
        self._media = MediaReader(limit=settings.max_media_bytes)

    @property
    def rate_limits(self) -> Mapping[Unit, RateLimit]:
        """What the server announced about its limits with its last answer."""
        return self._client.rate_limits

    @property
    def identity(self) -> Mapping[str, Any]:
        """Server, model, and what the entry adds to every request."""
        sent = {'server': self._client.address.root, 'endpoint': 'messages', **self._settings.body(Sampling())}
        hidden: dict[str, Any] = self._client.entry_redactor.redact_value(sent)
        return hidden

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """One reply per request."""
        return await run_together([self._request_reply(request, sampling) for request in requests])

    async def stream(self, request: Request, sampling: Sampling, on_text: OnText) -> Reply:
        """The reply to one request; `on_text` is called with each piece of text as it arrives."""
        pieces = StreamRedactor(self._client.redactor, on_text)
        reply = await self._request_reply(request, sampling, pieces.take)
        pieces.finish()
        return reply

    async def score(self, requests: Sequence[Request]) -> NoReturn:
        """Anthropic's API does not offer it."""
        raise ModelError(f"{self._client.about}: Anthropic's API does not return log-probabilities.")

    async def is_reachable(self) -> bool:
        """Whether the server is up: the run asks when connections break, to tell a row's failure from an outage."""
        return await self._client.is_reachable()

    def count(self, request: Request) -> int | None:
        """The number of input tokens, if a tokenizer is named and on this machine."""
        return self._counter.count(request)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these as well, wherever the server echoes them."""
        self._client.add_secrets(secrets)

    def restrict_media(self, folders: Sequence[Path]) -> None:
        """Read the local files that requests name only inside these folders."""
        self._media = replace(self._media, folders=tuple(folders))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _request_reply(self, request: Request, sampling: Sampling, on_text: OnText | None = None) -> Reply:
        if not is_messages(request):
            raise ModelError(f'{self._client.about}: this is a chat model: it takes messages, not text.')
        with_parts = any(not isinstance(message.get('content'), str) for message in request)
        written = (
            await asyncio.to_thread(write_anthropic_messages, request, self._media)
            if with_parts
            else write_anthropic_messages(request)
        )
        body = {**self._settings.body(sampling), **written}
        if self._settings.stream or on_text is not None:
            body['stream'] = True
        started = time.perf_counter()
        try:
            answer = await self._exchange(body, on_text)
            reply = read_message(answer, seconds=time.perf_counter() - started)
            return redact_reply(reply, self._client.redactor)
        except HttpStatusError as error:
            outcome = row_outcome(error)
            if outcome is None:
                raise
            return Reply('', outcome, error.said, usage=Usage(seconds=time.perf_counter() - started))
        except MALFORMED as error:
            raise self._client.malformed_error(f'{type(error).__name__}: {error}') from error

    async def _exchange(self, body: Mapping[str, Any], on_text: OnText | None) -> Any:
        if not body.get('stream'):
            return await self._client.post('messages', body)
        collector = StreamedMessage()
        listening = collector if on_text is None else TextListener(collector, on_text, read_text_delta)
        answer = await self._client.stream('messages', body, listening)
        return collector.join() if answer is None else answer
