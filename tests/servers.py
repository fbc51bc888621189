"""A server on loopback that plays OpenAI-compatible APIs and Anthropic's, with latency and faults by plan.

    with serve(faults=in_order('rate_limit', None, 'drop')) as server:
        build({'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': 'k'}, name='toy')

It runs in a thread of its own, so synchronous tests, event loops and other processes can all talk to it. It stops by
itself after `max_seconds` and answers no more than `max_requests`. `python tests/servers.py` serves from the command line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

__all__ = ['Call', 'Faults', 'Server', 'by_share', 'in_order', 'pieces_of', 'serve']

Faults = Callable[[int, Mapping[str, Any]], str | None]
"""Which fault the n-th request meets (counted from 0); None for none.

rate_limit · error · drop · malformed · truncated · hang · cut_stream · empty · any status as digits ('404')
"""
Answer = Callable[[Mapping[str, Any]], Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_TOKEN = re.compile(r'\s*\S+|\s+$')
BOS = '<s>'


def in_order(*faults: str | None) -> Faults:
    """These faults one after the other, then none."""
    return lambda number, _body: faults[number] if number < len(faults) else None


def by_share(*, seed: int = 0, **shares: float) -> Faults:
    """Each fault with its share of all requests, drawn by seed: `by_share(rate_limit=0.05, drop=0.02)`."""
    draw = random.Random(seed)

    def fault(_number: int, _body: Mapping[str, Any]) -> str | None:
        at = draw.random()
        for name, share in shares.items():
            if at < share:
                return name
            at -= share
        return None

    return fault


def pieces_of(text: str) -> list[str]:
    """The toy tokenizer: words with the white space before them."""
    return _TOKEN.findall(text)


def token_id(piece: str) -> int:
    """The id of a piece."""
    return zlib.crc32(piece.encode('utf-8', 'surrogatepass')) % 50_000


def logprob_of(piece: str) -> float:
    """The log-probability of a piece, wherever it stands."""
    return -0.25 * (len(piece) + token_id(piece) % 7)


@dataclass(frozen=True)
class Call:
    """One request as the server got it, and how it was met."""

    path: str
    headers: Mapping[str, str]
    body: Any
    fault: str | None
    query: str = ''


@dataclass
class Server:
    """What a test sees of the server."""

    answer: Answer
    latency: float = 0.0
    faults: Faults | None = None
    retry_after: str | None = '0.01'
    bos: bool = False
    models: tuple[str, ...] = ('toy',)
    key: str | None = None
    max_requests: int = 100_000
    url: str = ''
    calls: list[Call] = field(default_factory=list)
    lookups: list[Call] = field(default_factory=list)
    card: Mapping[str, Any] = field(default_factory=dict)
    pages: Mapping[str, Answer] = field(default_factory=dict)
    keep_calls: bool = True
    _count: int = 0

    @property
    def bodies(self) -> list[Any]:
        """What was posted, in order."""
        return [call.body for call in self.calls]

    @property
    def answered(self) -> Counter[str]:
        """How often each prompt was answered properly."""
        return Counter(prompt_of(call.body) for call in self.calls if call.fault is None and call.body is not None)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        number, self._count = self._count, self._count + (body is not None)
        fault = self.faults(number, body or {}) if self.faults is not None and body is not None else None
        if number >= self.max_requests:
            return web.json_response({'error': {'message': 'the test server has had enough'}}, status=503)
        if self.keep_calls:
            calls = self.lookups if body is None else self.calls
            calls.append(Call(request.path, dict(request.headers), body, fault, request.query_string))
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.key is not None and self.key not in ' '.join(request.headers.values()):
            shown = request.headers.get('Authorization', request.headers.get('x-api-key', 'none'))
            return _error(401, f'Incorrect API key provided: {shown}', 'invalid_api_key')
        if fault is not None and fault != 'cut_stream':
            return await self._fail(request, fault)
        if request.path.endswith('/models'):
            return web.json_response({'object': 'list', 'data': [{'id': name, **self.card} for name in self.models]})
        if request.path in self.pages or body is None:
            page = self.pages.get(request.path)
            return _error(404, 'Not found', 'not_found') if page is None else _json(page(body or {}))
        if body['model'] not in self.models:
            return _error(404, f'The model `{body["model"]}` does not exist', 'model_not_found')
        return await self._answer(request, body, cut=fault == 'cut_stream')

    async def _fail(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault == 'rate_limit':
            wait = {} if self.retry_after is None else {'Retry-After': self.retry_after}
            return _error(429, 'Rate limit reached', 'rate_limit_exceeded', headers=wait)
        if fault == 'error':
            return _error(500, 'The server had an error', 'server_error')
        if fault == 'malformed':
            return web.Response(text='{"choices": [{"message"', content_type='application/json')
        if fault == 'empty':
            return web.json_response({'choices': []})
        if fault == 'hang':
            await asyncio.sleep(5)
        if fault == 'truncated':
            response = web.StreamResponse(headers={'Content-Type': 'application/json', 'Content-Length': '1000'})
            await response.prepare(request)
            await response.write(b'{"choices": [{"message"')
        if fault.isdecimal():
            return _error(int(fault), f'This is a {fault}', 'refused')
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _answer(self, request: web.Request, body: Mapping[str, Any], *, cut: bool) -> web.StreamResponse:
        answer = self.answer(body)
        if isinstance(answer, web.StreamResponse):
            return answer
        if request.path.endswith('/messages'):
            whole = _anthropic_answer(body, answer)
            return await _streamed(request, _anthropic_events(whole), cut) if body.get('stream') else _json(whole)
        chat = request.path.endswith('/chat/completions')
        whole = _openai_answer(body, answer, chat=chat, bos=self.bos)
        return await _streamed(request, _openai_events(whole), cut) if body.get('stream') else _json(whole)


def prompt_of(body: Mapping[str, Any]) -> str:
    """The text that was asked last."""
    if 'prompt' in body:
        return str(body['prompt'])
    content = body['messages'][-1]['content']
    return content if isinstance(content, str) else json.dumps(content)


def _echo(body: Mapping[str, Any]) -> str:
    return f'Answer to {prompt_of(body)}'


def _json(answer: Any) -> web.Response:
    return web.Response(body=json.dumps(answer).encode(), content_type='application/json')


def _error(status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response(
        {'error': {'message': message, 'type': code, 'code': code}}, status=status, headers=headers
    )


def _openai_answer(body: Mapping[str, Any], answer: Any, *, chat: bool, bos: bool) -> dict[str, Any]:
    """The answer in OpenAI's form. `answer` is a text, a message, or a whole choice (it has a finish_reason)."""
    if isinstance(answer, Mapping) and 'choices' in answer:
        return dict(answer)
    choice = dict(answer) if isinstance(answer, Mapping) and 'finish_reason' in answer else {'finish_reason': 'stop'}
    if 'message' not in choice and 'text' not in choice:
        said = (
            {'role': 'assistant', **answer} if isinstance(answer, Mapping) else {'role': 'assistant', 'content': answer}
        )
        choice |= {'message': said} if chat else {'text': answer}
    prompt = body.get('prompt', '') if not chat else ''.join(f'{m["role"]}: {m["content"]}\n' for m in body['messages'])
    pieces = [f'<{token}>' for token in prompt] if isinstance(prompt, list) else pieces_of(prompt)
    ids = list(prompt) if isinstance(prompt, list) else [token_id(piece) for piece in pieces]
    if bos and not isinstance(prompt, list):
        pieces, ids = [BOS, *pieces], [1, *ids]
    whole: dict[str, Any] = {'object': 'chat.completion' if chat else 'text_completion', 'model': body['model']}
    if body.get('echo'):
        choice['logprobs'] = _echoed(pieces, ' generated')
    if chat and body.get('logprobs') and 'logprobs' not in choice and isinstance(choice['message'].get('content'), str):
        scored = pieces_of(choice['message']['content'])
        choice['logprobs'] = {'content': [{'token': piece, 'logprob': logprob_of(piece)} for piece in scored]}
    if body.get('prompt_logprobs') is not None:
        scores = [
            None,
            *(
                {str(i): {'logprob': logprob_of(p), 'decoded_token': p}}
                for i, p in list(zip(ids, pieces, strict=True))[1:]
            ),
        ]
        (whole if chat else choice)['prompt_logprobs'] = scores
    whole['choices'] = [{**choice, 'index': index} for index in range(body.get('n') or 1)]
    whole['usage'] = {
        'prompt_tokens': len(pieces),
        'completion_tokens': 1 if body.get('echo') else 3,
        'prompt_tokens_details': {'cached_tokens': 2},
    }
    return whole


def _echoed(pieces: list[str], generated: str) -> dict[str, Any]:
    tokens = [*pieces, generated]
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    return {
        'tokens': tokens,
        'token_logprobs': [None, *map(logprob_of, tokens[1:])],
        'top_logprobs': None,
        'text_offset': offsets,
    }


def _openai_events(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for choice in whole['choices']:
        index = choice['index']
        if 'text' in choice:
            for piece in pieces_of(choice['text']):
                yield {'choices': [{'index': index, 'text': piece, 'finish_reason': None}]}
        for key, value in choice.get('message', {}).items():
            if key == 'tool_calls':
                yield from _call_events(index, value)
            elif isinstance(value, str):
                for piece in pieces_of(value) or ['']:
                    yield {'choices': [{'index': index, 'delta': {key: piece}, 'finish_reason': None}]}
            elif isinstance(value, (Mapping, list)):
                for piece in [[part] for part in value] if isinstance(value, list) else [value]:
                    yield {'choices': [{'index': index, 'delta': {key: piece}, 'finish_reason': None}]}
        scored = (choice.get('logprobs') or {}).get('content', [])
        for part in [[one] for one in scored] if isinstance(scored, list) else [scored]:
            yield {'choices': [{'index': index, 'delta': {}, 'logprobs': {'content': part}, 'finish_reason': None}]}
        ended = {'text': ''} if 'text' in choice else {'delta': {}}
        yield {'choices': [{'index': index, **ended, 'finish_reason': choice['finish_reason']}]}
    yield {'choices': [], 'usage': whole['usage']}


def _call_events(index: int, calls: list[Any]) -> Iterator[dict[str, Any]]:
    for at, call in enumerate(calls):
        name = {'index': at, **call, 'function': {'name': call['function']['name'], 'arguments': ''}}
        yield {'choices': [{'index': index, 'delta': {'tool_calls': [name]}}]}
        for character in call['function']['arguments']:
            more = {'index': at, 'function': {'arguments': character}}
            yield {'choices': [{'index': index, 'delta': {'tool_calls': [more]}}]}


def _anthropic_answer(body: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """The answer in Anthropic's form. `answer` is a text, or a mapping that is laid over it."""
    given = dict(answer) if isinstance(answer, Mapping) else {'content': [{'type': 'text', 'text': answer}]}
    usage = {'input_tokens': 10, 'cache_read_input_tokens': 4, 'output_tokens': 3}
    return {'type': 'message', 'model': body['model'], 'stop_reason': 'end_turn', 'usage': usage, **given}


def _anthropic_events(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {**whole['usage'], 'output_tokens': 0}
    yield {'type': 'message_start', 'message': {**whole, 'content': [], 'stop_reason': None, 'usage': usage}}
    for index, block in enumerate(whole['content']):
        empty = {'text': {'text': ''}, 'thinking': {'thinking': '', 'signature': ''}, 'tool_use': {'input': {}}}
        start = {**block, **empty.get(block['type'], {})}
        yield {'type': 'content_block_start', 'index': index, 'content_block': start}
        yield {'type': 'ping'}
        said = json.dumps(block['input']) if block['type'] == 'tool_use' else block.get(block['type'], '')
        key = {'tool_use': 'partial_json'}.get(block['type'], block['type'])
        for piece in pieces_of(said):
            yield {'type': 'content_block_delta', 'index': index, 'delta': {'type': f'{key}_delta', key: piece}}
        if 'signature' in block:
            signed = {'type': 'signature_delta', 'signature': block['signature']}
            yield {'type': 'content_block_delta', 'index': index, 'delta': signed}
        yield {'type': 'content_block_stop', 'index': index}
    ended = {'stop_reason': whole['stop_reason']}
    yield {'type': 'message_delta', 'delta': ended, 'usage': {'output_tokens': whole['usage']['output_tokens']}}
    yield {'type': 'message_stop'}


async def _streamed(request: web.Request, events: Iterator[dict[str, Any]], cut: bool) -> web.StreamResponse:
    """Events as a stream, cut up without regard for their borders; `cut`: it breaks off after the first."""
    response = web.StreamResponse(headers={'Content-Type': 'text/event-stream; charset=utf-8'})
    await response.prepare(request)
    lines = [f'data: {json.dumps(event)}\n\n'.encode() for event in events]
    sent = lines[0] if cut else b': hello\n\n' + b''.join(lines) + b'data: [DONE]\n\n'
    for start in range(0, len(sent), 97):
        await response.write(sent[start : start + 97])
    await response.write_eof()
    return response


@contextmanager
def serve(
    answer: Answer | str | Mapping[str, Any] = _echo, *, max_seconds: float = 120, port: int = 0, **options: Any
) -> Iterator[Server]:
    """The server, running. `answer` makes the answer to a body: a text, a message, a choice, or a whole response."""
    server = Server(answer if callable(answer) else lambda _body: answer, **options)
    with running(server.handle, max_seconds=max_seconds, port=port) as server.url:
        yield server


@contextmanager
def running(handle: Handler, *, max_seconds: float = 120, port: int = 0) -> Iterator[str]:
    """The address of a server that lets `handle` answer everything, in a thread of its own until the block ends."""
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()
    address = ''

    async def run() -> None:
        nonlocal address
        app = web.Application(client_max_size=256 << 20)
        app.router.add_route('*', '/{path:.*}', handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, '127.0.0.1', port, backlog=4096)
        await site.start()
        address = f'http://127.0.0.1:{runner.addresses[0][1]}'
        ready.set()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), max_seconds)
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    if not ready.wait(60):
        raise RuntimeError('the test server did not start')
    try:
        yield address
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


def main() -> None:
    """Serve until `--seconds` are over; the address is printed on the first line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('--latency', type=float, default=0.0)
    parser.add_argument('--seconds', type=float, default=120)
    for name in ('rate-limit', 'error', 'drop', 'malformed'):
        parser.add_argument(f'--{name}', type=float, default=0.0, help='share of all requests')
    given = parser.parse_args()
    shares = {name: getattr(given, name) for name in ('rate_limit', 'error', 'drop', 'malformed')}
    faults = by_share(**shares) if any(shares.values()) else None
    options = {'latency': given.latency, 'faults': faults, 'keep_calls': False, 'max_requests': 10**9}
    with serve(max_seconds=given.seconds, port=given.port, **options) as server:
        print(server.url, flush=True)
        time.sleep(given.seconds)


if __name__ == '__main__':
    main()
