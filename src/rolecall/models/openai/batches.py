"""OpenAI's batch endpoints: a file of requests is uploaded, a batch is created from it, results are files again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

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
from rolecall.models.http.connection import MALFORMED, encode_body
from rolecall.models.http.failures import status_error
from rolecall.models.openai.wire import read_count

_ENDED = frozenset(('completed', 'failed', 'expired', 'cancelled'))
_OUTCOMES = {'batch_expired': 'expired', 'batch_cancelled': 'cancelled'}
_TOKEN = 'rolecall'
"""The name under which a batch carries the run's token."""


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
