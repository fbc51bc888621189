"""Models behind OpenAI-compatible servers: chat completions or responses for messages, completions for other requests.

OpenCompass and AISBench entries work unchanged; docs/models.md lists every option.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from rolecall.checking import OptionReader
from rolecall.core.render.spans import Request
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
from rolecall.models.http.connection import MALFORMED, HttpClient, encode_body, run_together
from rolecall.models.http.failures import status_error
from rolecall.models.http.served_model import ServedModel
from rolecall.models.http.server_facts import ServerFacts, look_up, recall_facts, remember_facts, without_probes
from rolecall.models.openai.entry import OPENAI, OpenAISettings, read_client, read_openai_entry
from rolecall.models.openai.logprobs import NoPromptLogprobsError, read_echo, read_prompt_logprobs
from rolecall.models.openai.probes import probe_server
from rolecall.models.openai.responses import (
    read_response,
)
from rolecall.models.openai.wire import (
    prepare_messages,
    read_count,
    read_reply,
)
from rolecall.models.protocol import (
    Model,
    ModelError,
    Reply,
    Sampling,
    Scored,
    is_messages,
)
from rolecall.models.token_counter import TokenCounter
from rolecall.strings import count_noun

_ENDED = frozenset(('completed', 'failed', 'expired', 'cancelled'))
_OUTCOMES = {'batch_expired': 'expired', 'batch_cancelled': 'cancelled'}
_TOKEN = 'rolecall'
"""The name under which a batch carries the run's token."""
_SCORING = {'vLLM': 'prompt_logprobs', 'SGLang': 'echo'}
"""How engines give the log-probabilities of a prompt."""
_NO_LIST = (404, 405, 501)
"""Statuses of servers that have no list of models."""


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """A model behind an OpenAI-compatible API: chat completions, or completions of texts.

    Nothing is connected and no key is looked up before the first request.

    >>> model = build({'type': 'OpenAI', 'path': 'gpt-4o', 'max_seq_len': 4096}, name='gpt')
    >>> model.name, model.capabilities.chat, model.max_seq_len, model.identity['model']
    ('gpt', True, 4096, 'gpt-4o')
    """
    reader = OptionReader(entry, name)
    settings, address = read_openai_entry(entry, reader)
    org = reader.text('org')
    client = read_client(
        entry,
        reader,
        OPENAI,
        address,
        model=settings.model,
        key_header=('api-key', '{}') if address.is_azure else ('Authorization', 'Bearer {}'),
        headers={} if org is None else {'OpenAI-Organization': org},
    )
    reader.raise_problems()
    return OpenAIModel(settings, name=name, client=client, counter=TokenCounter(entry))


class OpenAIBatches(BatchService):
    """The batches of one model."""

    vendor = 'OpenAI'
    path = 'batches'
    cursor = 'after'
    keeps_token = True
    most_requests = 50_000
    most_bytes = 200_000_000

    def encode(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        entry = {'custom_id': custom_id, 'method': 'POST', 'url': f'/v1/{self._endpoint}'}
        return encode_entry(entry, 'body', body)

    def write(self, entries: Iterable[bytes], file: IO[bytes]) -> None:
        join_entries(entries, file, before=b'', between=b'\n', after=b'\n')

    async def upload(self, file: Path, *, name: str) -> str:
        answer = await self._client.upload('files', file, name=name, fields={'purpose': 'batch'})
        with self._reading():
            return check_id(answer['id'])

    async def create(self, file: Path, submission: Submission) -> RemoteBatch:
        body = {
            'input_file_id': submission.file_id,
            'endpoint': f'/v1/{self._endpoint}',
            'completion_window': '24h',
            'metadata': {_TOKEN: submission.token},
        }
        return self._read(await self._client.post(self.path, body))

    async def find(self, submission: Submission) -> RemoteBatch | None:
        async for page in self._pages():
            with self._reading():
                for entry in page:
                    noted = (entry.get('metadata') or {}).get(_TOKEN) == submission.token
                    same = noted or (submission.file_id and entry.get('input_file_id') == submission.file_id)
                    if same and entry.get('id') not in submission.excluded:
                        return self._read(entry)
        return None

    async def results(self, batch: RemoteBatch) -> AsyncIterator[BatchAnswer | None]:
        for file in batch.files:
            async for line in self._client.download_lines(f'files/{file}/content'):
                if line.strip():
                    yield self._read_line(line)

    def _read(self, answer: Any) -> RemoteBatch:
        with self._reading():
            status = str(answer['status'])
            counts = answer.get('request_counts') or {}
            done = [read_count(counts.get(name)) or 0 for name in ('completed', 'failed')]
            files = [answer.get(name) for name in ('output_file_id', 'error_file_id')]
            return RemoteBatch(
                check_id(answer['id']),
                status[:40],
                status in _ENDED,
                done=sum(done),
                total=read_count(counts.get('total')) or 0,
                problem=self._client.redactor.redact(_describe_errors(answer.get('errors'))),
                files=tuple(check_id(file) for file in files if file) if status in _ENDED else (),
            )

    def _read_line(self, line: bytes) -> BatchAnswer | None:
        try:
            entry = parse_json(line)
            custom_id, response, error = entry['custom_id'], entry.get('response'), entry.get('error')
            if not isinstance(custom_id, str):
                return None
            if error:
                code = error.get('code') if isinstance(error, Mapping) else None
                if code in _OUTCOMES:
                    return BatchAnswer(custom_id, _OUTCOMES[code], reason=str(error.get('message') or code)[:400])  # type: ignore[arg-type]
                return self._failure(custom_id, self._read_error(error))
            status, body = response['status_code'], response['body']
            if status == 200:
                return self._answer(custom_id, body)
            hide = self._client.redactor.redact
            return self._failure(custom_id, status_error(self._client.about, status, {}, encode_body(body), hide=hide))
        except MALFORMED:
            return None


class OpenAIModel(ServedModel[OpenAISettings]):
    """One model of one server."""

    batch_service = OpenAIBatches

    def __init__(self, settings: OpenAISettings, *, name: str, client: HttpClient, counter: TokenCounter) -> None:
        super().__init__(settings, name=name, client=client, counter=counter)
        self._served: asyncio.Task[str] | None = None
        if (facts := recall_facts(client.address.root, self.served_name)) is not None:
            self._adopt(facts)

    async def look_up(self) -> None:
        """Learn what the server says about itself. What probes showed is kept while the server is the same."""
        fresh = await look_up(self._client, self.served_name)
        if fresh is not None and fresh != without_probes(self.facts):
            self._learn(fresh)

    async def probe(self) -> int:
        """Learn what small requests show; how many were sent for it."""
        self._learn(facts := await probe_server(self, self.facts or ServerFacts(model=self.served_name)))
        return facts.probes

    def _learn(self, facts: ServerFacts) -> None:
        facts = ServerFacts(**self._client.redactor.redact_value(asdict(facts)))
        if facts.engine or facts.window or facts.probes:
            remember_facts(self._client.address.root, self.served_name, facts)
        self._adopt(facts)

    def _adopt(self, facts: ServerFacts) -> None:
        """Use the tokenizer where the engine has its files, and its way of scoring, unless the entry names others."""
        self.facts = facts
        if facts.files:
            self.counter = self.counter.with_files(facts.files)
        score = _SCORING.get(facts.engine) if self._settings.score is None and not self._settings.responses else None
        if score is not None and not (score == 'echo' and self._settings.chat):
            self.capabilities = replace(self.capabilities, score=True)
            self._settings = replace(self._settings, score=score, capabilities=self.capabilities)

    async def read_prompt_ids(self, request: Request) -> list[int] | None:
        """The token ids that the server makes of a request; None where it does not tell."""
        engine = self.facts.engine if self.facts else ''
        body = await self._build_body(request, self._settings.body(Sampling(max_out_len=1)))
        if engine == 'vLLM':
            answer = await self._client.post(self._settings.endpoint, {**body, 'return_token_ids': True})
            ids = answer.get('prompt_token_ids') or answer['choices'][0].get('prompt_token_ids')
        elif engine == 'llama.cpp':
            text = body.get('prompt')
            if text is None:
                text = (await self._client.post('/apply-template', {'messages': body['messages']}))['prompt']
            tokenized = {'content': text, 'add_special': True, 'parse_special': True}
            ids = (await self._client.post('/tokenize', tokenized))['tokens']
        else:
            return None
        return [int(number) for number in ids] if isinstance(ids, list) else None

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        return await run_together([self._score_request(request) for request in requests])

    async def _write_body(self, request: Request, sampling: Sampling, *, stream: bool) -> dict[str, Any]:
        body = await self._build_body(request, self._settings.body(sampling))
        if not stream:
            return body
        asks_usage = self._settings.stream_options and not self._settings.responses
        options = {'stream_options': {'include_usage': True}} if asks_usage else {}
        return body | {'stream': True, **options}

    def _read_reply(self, answer: Any, seconds: float) -> Reply:
        if self._settings.responses:
            return read_response(answer, seconds=seconds)
        return read_reply(answer, seconds=seconds, tags=self._settings.tags)

    async def _score_request(self, request: Request) -> Scored:
        if self._settings.score is None:
            raise ModelError(
                f'{self._client.about}: the entry does not say whether the server returns prompt log-probabilities. '
                "Set score='echo' or score='prompt_logprobs' if it can."
            )
        body = await self._build_body(request, self._settings.scoring_body())
        prompt = body.get('prompt')
        started = time.perf_counter()
        answer = await self._client.post(self._settings.endpoint, body)
        seconds = time.perf_counter() - started
        tokenizer = self.counter.tokenizer
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
        ids = self.counter.ids([entry for entry in request if isinstance(entry, (int, str))])
        if ids is None:
            raise ModelError(
                f'{self._client.about}: the prompt mixes token ids and text, and no tokenizer was found for the text. '
                'Name one as `tokenizer_path`.'
            )
        return ids

    async def _served_model(self) -> str:
        """The only model the server offers, for entries that do not name one."""
        if self.facts is not None and self.facts.model:
            return self.facts.model
        if self._served is None or (self._served.done() and self._served.exception() is not None):
            self._served = asyncio.ensure_future(self._fetch_model_name())
        return await asyncio.shield(self._served)

    async def _fetch_model_name(self) -> str:
        try:
            offered = [str(entry['id']) for entry in (await self._client.get('models'))['data']]
        except (*MALFORMED, ModelError) as error:
            if isinstance(error, ModelError) and error.status not in _NO_LIST:
                raise
            offered = []
        if len(offered) != 1:
            names = f' ({", ".join(offered[:8])})' if offered else ''
            raise ModelError(
                f'{self._client.address.root} offers {count_noun(len(offered), "model")}{names}: '
                'name one with --model-name, or as `model` in the entry.'
            )
        return offered[0]


def _describe_errors(errors: Any) -> str:
    """Why a batch failed as a whole: the messages of its first errors."""
    entries = errors.get('data') if isinstance(errors, Mapping) else errors
    if not isinstance(entries, list):
        return ''
    first = [error for error in entries[:3] if isinstance(error, Mapping)]
    places = [f'line {error["line"]}: ' if error.get('line') else '' for error in first]
    return '; '.join(
        f'{place}{str(error.get("message") or error.get("code"))[:200]}'
        for place, error in zip(places, first, strict=True)
    )
