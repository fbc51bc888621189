"""Anthropic's message batches: all requests in one call, results as lines once the batch has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta, timezone
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
from rolecall.models.http.connection import MALFORMED
from rolecall.models.openai.wire import read_count

_OUTCOMES = {'expired': 'expired', 'canceled': 'cancelled'}
_COUNTS = ('processing', 'succeeded', 'errored', 'canceled', 'expired')
_CLOCKS_DIFFER = timedelta(minutes=5)


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


def _read_time(text: Any) -> datetime:
    moment = datetime.fromisoformat(str(text).replace('Z', '+00:00'))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
