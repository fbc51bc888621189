"""Models behind OpenAI-compatible servers: chat completions for messages, completions for texts and token ids.

OpenCompass and AISBench entries work unchanged; docs/models.md lists every option.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rolecall.checking import OptionReader
from rolecall.models.http.connection import MALFORMED, HttpClient, TextListener, run_together
from rolecall.models.http.failures import HttpStatusError, row_outcome
from rolecall.models.http.media import MediaReader
from rolecall.models.http.rate_limits import RateLimit, Unit
from rolecall.models.openai.entry import OpenAISettings, read_client, read_openai_entry
from rolecall.models.openai.logprobs import NoPromptLogprobsError, read_echo, read_prompt_logprobs
from rolecall.models.openai.wire import StreamedAnswer, prepare_messages, read_delta, read_reply
from rolecall.models.protocol import (
    Capabilities,
    Model,
    ModelError,
    OnText,
    Reply,
    Sampling,
    Scored,
    Usage,
    is_messages,
)
from rolecall.models.reply_redaction import redact_reply
from rolecall.models.token_counter import TokenCounter
from rolecall.redaction import StreamRedactor, find_secrets
from rolecall.render.spans import Request
from rolecall.strings import count_noun

__all__ = ['OpenAIModel', 'build']


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """A model behind an OpenAI-compatible API: chat completions, or completions of texts.

    Nothing is connected and no key is looked up before the first request.

    >>> model = build({'type': 'OpenAI', 'path': 'gpt-4o', 'max_seq_len': 4096}, name='gpt')
    >>> model.name, model.capabilities.chat, model.max_seq_len, model.identity['model']
    ('gpt', True, 4096, 'gpt-4o')
    """
    reader = OptionReader(entry, name)
    settings, address = read_openai_entry(entry, reader)
    client = read_client(reader, address, model=settings.model, secrets=find_secrets(entry))
    reader.raise_problems()
    return OpenAIModel(settings, name=name, client=client, counter=TokenCounter(entry))


class OpenAIModel:
    """One model of one server."""

    batch = 1

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        name: str,
        client: HttpClient,
        counter: TokenCounter,
    ) -> None:
        self.name = name
        self.capabilities: Capabilities = settings.capabilities
        self.max_seq_len = settings.max_seq_len
        self._settings = settings
        self._client = client
        self._counter = counter
        self._media = MediaReader(limit=settings.max_media_bytes)
        self._endpoint = 'chat/completions' if settings.chat else 'completions'
        self._served: asyncio.Task[str] | None = None

    @property
    def rate_limits(self) -> Mapping[Unit, RateLimit]:
        """What the server announced about its limits with its last answer."""
        return self._client.rate_limits

    @property
    def identity(self) -> Mapping[str, Any]:
        """Server, endpoint, model, and what the entry adds to every request."""
        sent = {'server': self._client.address.root, 'endpoint': self._endpoint, **self._settings.body(Sampling())}
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

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """The log-probabilities of each request's own tokens."""
        return await run_together([self._score_request(request) for request in requests])

    async def is_reachable(self) -> bool:
        """Whether the server is up: the run asks when connections break, to tell a row's failure from an outage."""
        return await self._client.is_reachable()

    def count(self, request: Request) -> int | None:
        """The number of input tokens, if the model's tokenizer is on this machine."""
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
        body = await self._build_body(request, self._settings.body(sampling))
        if self._settings.stream or on_text is not None:
            body |= {'stream': True, 'stream_options': {'include_usage': True}}
        started = time.perf_counter()
        try:
            answer = await self._exchange(body, on_text)
            reply = read_reply(answer, seconds=time.perf_counter() - started, tags=self._settings.tags)
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
            return await self._client.post(self._endpoint, body)
        collector = StreamedAnswer()
        listening = collector if on_text is None else TextListener(collector, on_text, read_delta)
        answer = await self._client.stream(self._endpoint, body, listening)
        return collector.join() if answer is None else answer

    async def _score_request(self, request: Request) -> Scored:
        if self._settings.score is None:
            raise ModelError(
                f'{self._client.about}: the entry does not say whether the server returns prompt log-probabilities. '
                "Set score='echo' or score='prompt_logprobs' if it can."
            )
        body = await self._build_body(request, self._settings.scoring_body())
        prompt = body.get('prompt')
        started = time.perf_counter()
        answer = await self._client.post(self._endpoint, body)
        seconds = time.perf_counter() - started
        tokenizer = self._counter.tokenizer
        try:
            if self._settings.score == 'echo':
                return read_echo(answer, prompt=prompt or '', tokenizer=tokenizer, seconds=seconds)
            return read_prompt_logprobs(answer, prompt=prompt, tokenizer=tokenizer, seconds=seconds)
        except NoPromptLogprobsError as error:
            raise ModelError(
                f'{self._client.about}: the server returned no prompt log-probabilities ({error}).'
            ) from error
        except MALFORMED as error:
            raise self._client.malformed_error(f'{type(error).__name__}: {error}') from error

    async def _build_body(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        if not self._settings.model and not body['model']:
            body['model'] = await self._served_model()
        if not self._settings.chat:
            return {**body, 'prompt': self._text_prompt(request)}
        if not is_messages(request):
            raise ModelError(
                f'{self._client.about}: this is a chat model: it takes messages, not text. Give it a meta template '
                "with api_role, or ask the server's completions with endpoint='completions'."
            )
        return self._settings.with_messages(
            body, await prepare_messages(request, media=self._media if self._settings.inline_files else None)
        )

    def _text_prompt(self, request: Request) -> str | list[int]:
        if isinstance(request, str):
            return request
        if is_messages(request):
            raise ModelError(f"{self._client.about}: this model takes text, not messages. Use endpoint='chat'.")
        ids = self._counter.ids([entry for entry in request if isinstance(entry, (int, str))])
        if ids is None:
            raise ModelError(
                f'{self._client.about}: the prompt mixes token ids and text, and no tokenizer was found for the text. '
                'Name one as `tokenizer_path`.'
            )
        return ids

    async def _served_model(self) -> str:
        """The only model the server offers, for entries that do not name one."""
        if self._served is None or (self._served.done() and self._served.exception() is not None):
            self._served = asyncio.ensure_future(self._fetch_model_name())
        return await asyncio.shield(self._served)

    async def _fetch_model_name(self) -> str:
        answer = await self._client.get('models')
        try:
            offered = [str(entry['id']) for entry in answer['data']]
        except MALFORMED as error:
            raise self._client.malformed_error(f'{type(error).__name__}: {error}') from error
        if len(offered) != 1:
            raise ModelError(
                f'{self._client.address.root} offers {count_noun(len(offered), "model")} ({", ".join(offered[:8])}): '
                'name one as `model`.'
            )
        return offered[0]
