"""A server on loopback with the batch endpoints of OpenAI and of Anthropic. It refuses what they would refuse.

    with serve_batches() as server:
        …                       # submit
        server.process()        # answer everything that was submitted
        …                       # collect

Batches wait until `process` is called. Faults are planned by path: `server.fail('POST', 'batches', 'lose')` has the next
such request carried out and its answer lost. Live calls are answered at once, and their bodies kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from servers import running

__all__ = ['BatchServer', 'serve_batches']

_ID = re.compile(r'[a-zA-Z0-9_-]{1,64}')
_ENDED = ('completed', 'failed', 'expired', 'cancelled', 'ended')


class RefusedError(Exception):
    """What the vendor would answer with 400."""


def demand(condition: object, message: str) -> None:
    if not condition:
        raise RefusedError(message)


def last_words(body: Mapping[str, Any]) -> str:
    if isinstance(body.get('input'), list):
        content = body['input'][-1].get('content')
    else:
        content = body['messages'][-1]['content'] if 'messages' in body else body.get('input', body.get('prompt'))
    if isinstance(content, list):
        return ''.join(part.get('text', '') for part in content)
    return str(content)


@dataclass
class BatchServer:
    """What a test sees of the server, and steers."""

    answer: Callable[[str], str] = lambda asked: f'Answer to {asked}'
    key: str | None = None
    most: int = 50_000
    url: str = ''
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    """As the vendor describes them, with what was submitted under `_lines`."""
    live: list[Any] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    fates: dict[str, str] = field(default_factory=dict)
    """By a word of the question: expired, error (500), embedded (500 in a body of 200), refused (400), missing, filtered."""
    edit_results: Callable[[bytes], bytes] = lambda content: content
    _faults: list[tuple[str, str, str]] = field(default_factory=list)
    _count: int = 0

    def fail(self, method: str, ending: str, fault: str) -> None:
        """Have the next request of this method and path meet a fault: a status, `drop`, `lose` (after it is done)."""
        self._faults.append((method, ending, fault))

    # -- what a test does ----------------------------------------------------------------------------------------------

    def lines(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        return batch['_lines']

    def bodies(self) -> dict[str, Any]:
        """What was submitted, by custom_id."""
        return {
            one['custom_id']: one.get('body', one.get('params'))
            for batch in self.batches.values()
            for one in batch['_lines']
        }

    def process(self, *, status: str = 'completed', reverse: bool = True, share: float = 1.0) -> None:
        """End every batch that waits; the first `share` of its requests is answered."""
        for batch in self.batches.values():
            if self.status_of(batch) in _ENDED:
                continue
            lines = batch['_lines'][: round(share * len(batch['_lines']))]
            if 'processing_status' in batch:
                self._end_anthropic(batch, lines, reverse)
            else:
                self._end_openai(batch, lines, status, reverse)

    def status_of(self, batch: Mapping[str, Any]) -> str:
        return str(batch.get('status') or batch.get('processing_status'))

    def _fate(self, body: Mapping[str, Any]) -> str | None:
        asked = last_words(body)
        return next((fate for word, fate in self.fates.items() if word in asked), None)

    def _end_openai(self, batch: dict[str, Any], lines: list[Any], status: str, reverse: bool) -> None:
        good, bad = [], []
        for line in lines:
            fate = self._fate(line['body'])
            entry: dict[str, Any] = {'id': f'batch_req_{line["custom_id"][:8]}', 'custom_id': line['custom_id']}
            if fate == 'missing':
                continue
            if fate == 'expired':
                error = {'code': 'batch_expired', 'message': 'This request could not be executed before it expired.'}
                bad.append({**entry, 'response': None, 'error': error})
            elif fate in ('error', 'refused', 'filtered'):
                code = {'error': 'server_error', 'refused': 'invalid_value', 'filtered': 'content_filter'}[fate]
                body = {'error': {'message': f'This is {fate}', 'code': code}}
                status_code = 500 if fate == 'error' else 400
                bad.append(
                    {**entry, 'response': {'status_code': status_code, 'request_id': 'r', 'body': body}, 'error': None}
                )
            elif fate == 'embedded':
                body = {'status': 'failed', 'output': [], 'error': {'code': 'server_error', 'message': 'It broke'}}
                good.append({**entry, 'response': {'status_code': 200, 'request_id': 'r', 'body': body}, 'error': None})
            else:
                body = self._openai_answer(line['body'], line['url'])
                good.append({**entry, 'response': {'status_code': 200, 'request_id': 'r', 'body': body}, 'error': None})
        for name, entries in (('output_file_id', good), ('error_file_id', bad)):
            if entries:
                ordered = entries[::-1] if reverse else entries
                content = ''.join(json.dumps(one) + '\n' for one in ordered).encode()
                batch[name] = self._store(self.edit_results(content) if name == 'output_file_id' else content)
        total = len(batch['_lines'])
        batch |= {'status': status, 'request_counts': {'total': total, 'completed': len(good), 'failed': len(bad)}}

    def _end_anthropic(self, batch: dict[str, Any], lines: list[Any], reverse: bool) -> None:
        results, counts = [], dict.fromkeys(('processing', 'succeeded', 'errored', 'canceled', 'expired'), 0)
        known = {line['custom_id'] for line in lines}
        for line in batch['_lines']:
            fate = self._fate(line['params']) if line['custom_id'] in known else 'canceled'
            if fate == 'missing':
                continue
            if fate in ('expired', 'canceled'):
                result: dict[str, Any] = {'type': fate}
            elif fate in ('error', 'refused'):
                kind = 'api_error' if fate == 'error' else 'invalid_request_error'
                result = {
                    'type': 'errored',
                    'error': {'type': 'error', 'error': {'type': kind, 'message': f'This is {fate}'}},
                }
            else:
                result = {'type': 'succeeded', 'message': self._anthropic_answer(line['params'])}
            counts[{'error': 'errored', 'refused': 'errored', None: 'succeeded'}.get(fate, fate)] += 1
            results.append({'custom_id': line['custom_id'], 'result': result})
        content = ''.join(json.dumps(one) + '\n' for one in (results[::-1] if reverse else results)).encode()
        batch['_results'] = self.edit_results(content)
        address = f'{self.url}/v1/messages/batches/{batch["id"]}/results'
        batch |= {'processing_status': 'ended', 'request_counts': counts, 'results_url': address}

    # -- answers -------------------------------------------------------------------------------------------------------

    def _openai_answer(self, body: Mapping[str, Any], url: str) -> dict[str, Any]:
        text = self.answer(last_words(body))
        if url.endswith('responses'):
            usage = {'input_tokens': 10, 'output_tokens': 5}
            content = [{'type': 'output_text', 'text': text, 'annotations': []}]
            output = [{'type': 'message', 'role': 'assistant', 'id': 'm', 'status': 'completed', 'content': content}]
            return {'object': 'response', 'id': 'resp_1', 'status': 'completed', 'output': output, 'usage': usage}
        said = {'message': {'role': 'assistant', 'content': text}} if 'messages' in body else {'text': text}
        usage = {'prompt_tokens': 10, 'completion_tokens': 5, 'prompt_tokens_details': {'cached_tokens': 2}}
        return {'choices': [{'index': 0, **said, 'finish_reason': 'stop'}], 'usage': usage}

    def _anthropic_answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        content = [{'type': 'text', 'text': self.answer(last_words(body))}]
        usage = {'input_tokens': 10, 'output_tokens': 5}
        return {'type': 'message', 'role': 'assistant', 'content': content, 'stop_reason': 'end_turn', 'usage': usage}

    def _store(self, content: bytes) -> str:
        self._count += 1
        name = f'file-{self._count}'
        self.files[name] = content
        return name

    # -- requests ------------------------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        fault = self._take_fault(request)
        if fault == 'drop' and request.transport is not None:
            await request.read()
            request.transport.abort()
            return web.Response()
        if fault is not None and fault.isdecimal():
            await request.read()
            headers = {'Retry-After': '0.01'}
            return web.json_response({'error': {'message': f'A planned {fault}'}}, status=int(fault), headers=headers)
        if self.key is not None and self.key not in ' '.join(request.headers.values()):
            return web.json_response({'error': {'message': 'Incorrect API key provided'}}, status=401)
        try:
            response = await self._route(request)
        except RefusedError as error:
            body = {'error': {'type': 'invalid_request_error', 'message': str(error)}}
            return web.json_response(body, status=400)
        if fault == 'lose' and request.transport is not None:
            request.transport.abort()
        return response

    def _take_fault(self, request: web.Request) -> str | None:
        for planned in self._faults:
            method, ending, fault = planned
            if request.method == method and request.path.endswith(ending):
                self._faults.remove(planned)
                return fault
        return None

    async def _route(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path.removeprefix('/v1/')
        if path.startswith('messages/batches'):
            demand('anthropic-version' in request.headers, 'anthropic-version: header is required')
            return await self._route_anthropic(request, method, path.removeprefix('messages/batches').strip('/'))
        if (method, path) == ('POST', 'files'):
            return await self._take_file(request)
        if method == 'GET' and path.startswith('files/') and path.endswith('/content'):
            return self._found(self.files.get(path.split('/')[1]))
        if path.split('/')[0] == 'batches':
            return await self._route_openai(request, method, path.removeprefix('batches').strip('/'))
        if path == 'models':
            return web.json_response({'data': [{'id': 'toy'}]})
        body = await request.json()
        self.live.append(body)
        if path == 'messages':
            return web.json_response(self._anthropic_answer(body))
        return web.json_response(self._openai_answer(body, path))

    def _found(self, content: bytes | None) -> web.StreamResponse:
        if content is None:
            return web.json_response({'error': {'message': 'No such thing'}}, status=404)
        return web.Response(body=content, content_type='application/octet-stream')

    async def _take_file(self, request: web.Request) -> web.StreamResponse:
        demand(request.content_type == 'multipart/form-data', 'expected a form')
        form = await request.post()
        demand(form.get('purpose') == 'batch', "purpose must be 'batch'")
        file = form.get('file')
        demand(isinstance(file, web.FileField) and file.filename.endswith('.jsonl'), 'file must be a .jsonl file')
        return web.json_response({'id': self._store(file.file.read()), 'object': 'file', 'purpose': 'batch'})

    async def _route_openai(self, request: web.Request, method: str, rest: str) -> web.StreamResponse:
        if not rest:
            if method == 'GET':
                listed = [_public(one) for one in reversed(self.batches.values())]
                return web.json_response({'object': 'list', 'data': listed, 'has_more': False})
            return web.json_response(_public(self._create_openai(await request.json())))
        name, _, action = rest.partition('/')
        batch = self.batches.get(name)
        if batch is None:
            return self._found(None)
        if action == 'cancel':
            demand(self.status_of(batch) not in _ENDED, f'Cannot cancel a batch with status {self.status_of(batch)!r}.')
            batch['status'] = 'cancelling'
        return web.json_response(_public(batch))

    def _create_openai(self, body: Mapping[str, Any]) -> dict[str, Any]:
        demand(set(body) <= {'input_file_id', 'endpoint', 'completion_window', 'metadata'}, 'unknown parameter')
        demand(body['completion_window'] == '24h', 'completion_window must be 24h')
        endpoints = ('/v1/chat/completions', '/v1/completions', '/v1/responses')
        demand(body['endpoint'] in endpoints, 'unsupported endpoint')
        demand(body['input_file_id'] in self.files, 'no such file')
        content = self.files[body['input_file_id']]
        demand(len(content) <= 200_000_000, 'the file is too large')
        lines = [json.loads(line) for line in content.decode().splitlines()]
        demand(0 < len(lines) <= self.most, 'too many requests')
        for line in lines:
            demand(set(line) == {'custom_id', 'method', 'url', 'body'}, 'unknown key in a line')
            demand(line['method'] == 'POST' and line['url'] == body['endpoint'], 'another endpoint')
            demand('stream' not in line['body'], 'streaming is not supported')
        demand(len({line['custom_id'] for line in lines}) == len(lines), 'duplicate custom_id')
        demand(len({line['body']['model'] for line in lines}) == 1, 'several models')
        demand(all(isinstance(one, str) for one in body['metadata'].values()), 'metadata must be strings')
        self._count += 1
        batch = {
            'id': f'batch_{self._count}',
            'object': 'batch',
            **body,
            'status': 'in_progress',
            '_lines': lines,
            'created_at': int(datetime.now(timezone.utc).timestamp()),
            'output_file_id': None,
            'error_file_id': None,
            'errors': None,
            'request_counts': {'total': len(lines), 'completed': 0, 'failed': 0},
        }
        self.batches[batch['id']] = batch
        return batch

    async def _route_anthropic(self, request: web.Request, method: str, rest: str) -> web.StreamResponse:
        if not rest:
            if method == 'GET':
                listed = [_public(one) for one in reversed(self.batches.values())]
                return web.json_response({'data': listed, 'has_more': False, 'first_id': None, 'last_id': None})
            return web.json_response(_public(self._create_anthropic(await request.json())))
        name, _, action = rest.partition('/')
        batch = self.batches.get(name)
        if batch is None:
            return self._found(None)
        if action == 'results':
            return self._found(batch.get('_results'))
        if action == 'cancel':
            demand(self.status_of(batch) != 'ended', 'the batch has ended')
            batch['processing_status'] = 'canceling'
        return web.json_response(_public(batch))

    def _create_anthropic(self, body: Mapping[str, Any]) -> dict[str, Any]:
        demand(set(body) == {'requests'}, 'unknown parameter')
        lines = body['requests']
        demand(0 < len(lines) <= 100_000, 'too many requests')
        for line in lines:
            demand(set(line) == {'custom_id', 'params'} and _ID.fullmatch(line['custom_id']), 'bad custom_id')
            demand({'model', 'max_tokens', 'messages'} <= set(line['params']), 'bad params')
            demand('stream' not in line['params'], 'streaming is not supported')
        demand(len({line['custom_id'] for line in lines}) == len(lines), 'duplicate custom_id')
        return self.add_anthropic(lines)

    def add_anthropic(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """A batch of these requests, as if it had been submitted."""
        self._count += 1
        counts = {'processing': len(lines), 'succeeded': 0, 'errored': 0, 'canceled': 0, 'expired': 0}
        batch = {
            'id': f'msgbatch_{self._count}',
            'type': 'message_batch',
            'processing_status': 'in_progress',
            'created_at': datetime.now(timezone.utc).isoformat(),
            'request_counts': counts,
            'results_url': None,
            '_lines': lines,
        }
        self.batches[batch['id']] = batch
        return batch


def _public(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if not name.startswith('_')}


@contextmanager
def serve_batches(**options: Any) -> Iterator[BatchServer]:
    """The server, running."""
    server = BatchServer(**options)
    with running(server.handle) as server.url:
        yield server
