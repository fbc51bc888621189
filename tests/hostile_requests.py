"""Hostile requests to the page: odd bytes in every header and parameter, bodies of every wrong shape."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from web_pages import Client

ODD = ('%ff', '%00', '%ed%a0%80', '-1', '99999999999999', '1e9', 'NaN', '%F0%9F%98%80', 'a' * 5000, '../..', '[]', '0:')
GETS = {
    'session': (),
    'rows': ('config', 'dataset', 'after', 'q', 'split'),
    'prompts': ('config', 'dataset', 'model', 'row'),
    'tokens': ('config', 'dataset', 'model', 'row', 'number'),
    'media': ('config', 'dataset', 'model', 'row', 'number', 'at'),
    'lint': ('config', 'dataset', 'model'),
    'diff': ('left_config', 'left_dataset', 'left_model', 'left_row', 'right_row', 'right_number'),
    'run': ('run',),
    'run_rows': ('run', 'dataset', 'model', 'outcome', 'verdict', 'q', 'first', 'after', 'against'),
    'run_row': ('run', 'dataset', 'model', 'row'),
    'run_compare': ('left_run', 'right_run', 'left_model'),
    'run_explain': ('left_run', 'right_run'),
    'run_slices': ('run', 'by'),
    'queue': ('run', 'task', 'by'),
    'started': ('number',),
}
GOOD: dict[str, str] = {
    'dataset': 'sums', 'model': 'chatml', 'left_dataset': 'sums', 'left_model': 'chatml', 'right_dataset': 'sums',
    'right_model': 'gpt',
}  # fmt: skip
OPTIONS = {
    'plan': ('dataset', 'model', 'limit', 'max_cost', 'out'),
    'start': ('model', 'limit', 'max_cost', 'out'),
    'control': ('paused', 'concurrency', 'drop', 'more'),
    'note': ('name', 'note', 'tags', 'more'),
}
POSTS = (*OPTIONS, 'edit', 'save', 'try', 'keep', 'label', 'again')
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**14, 1.5, '', '\ud800', '\0', 'a' * 5000, [], [[]], {}, {'a': 1}, [[['a'], 1]], [[[None], 1]],
    [[[{}], 1]], [[[-1], 1]], [[['datasets', 0, 'infer_cfg'], None]], [[['datasets', 99], 'x']], [[[True], {}]],
    [[[1.5], 1]], [[['datasets', 'x'], 1]],
)  # fmt: skip
KEYS = ('config', 'dataset', 'model', 'row', 'number', 'edits', 'compare', 'name', 'reply', 'request', 'run', 'label')
BODIES: tuple[bytes, ...] = (
    b'', b'null', b'[]', b'1', b'{', b'\xff', b'[' * 100_000, b'{"row": 1e400}', b'{"config": NaN}', b'"\\ud800"',
)  # fmt: skip


def requests(client: Client) -> Iterator[tuple[str, bytes]]:
    """Every request as bytes, with a name."""
    host = f'127.0.0.1:{client.port}'
    cookie = f'{client.rules.cookie}={client.rules.token}'

    def get(path: str, *headers: bytes, token: bool = True) -> bytes:
        lines = [f'GET {path} HTTP/1.1'.encode(), f'Host: {host}'.encode(), b'Connection: close', *headers]
        lines += [f'Cookie: {cookie}'.encode()] if token else []
        return b'\r\n'.join([*lines, b'', b''])

    def post(name: str, body: bytes) -> bytes:
        head = get(f'/api/{name}', f'Origin: http://{host}'.encode(), b'Content-Type: application/json')
        head = head.replace(b'GET', b'POST', 1).removesuffix(b'\r\n')
        return head + f'Content-Length: {len(body)}\r\n\r\n'.encode() + body

    for value in (b'\xff', b'\xed\xa0\x80', b'"', b'\x7f', b'a' * 4000, b'=;=;,'):
        yield f'cookie {value[:9]!r}', get('/', b'Cookie: ' + client.rules.cookie.encode() + b'=' + value, token=False)
        yield f'cookie name {value[:9]!r}', get('/', b'Cookie: ' + value + b'=1', token=False)
        headers = (b'Origin', b'Sec-Fetch-Site', b'Content-Type', b'Accept-Encoding', b'If-Modified-Since', b'Expect')
        for header in headers:
            yield f'{header!r} {value[:9]!r}', get('/api/session', header + b': ' + value)
    for odd in ODD:
        yield f'token {odd:.9}', get(f'/?token={odd}', token=False)
        yield f'path {odd:.9}', get(f'/assets/{odd}')
        for name, parameters in GETS.items():
            for parameter in parameters:
                query = {**{key: value for key, value in GOOD.items() if key in parameters}, parameter: odd}
                words = '&'.join(f'{key}={value}' for key, value in query.items())
                yield f'{name} {parameter} {odd:.9}', get(f'/api/{name}?{words}')
    for name in POSTS:
        for body in BODIES:
            yield f'{name} {body[:12]!r}', post(name, body)
        for key in KEYS if name != 'start' else ():  # which would start runs
            for number, value in enumerate(VALUES):
                good = {
                    'dataset': 'sums',
                    'model': 'chatml',
                    'reply': 'x',
                    'label': 'correct',
                    'row': 0 if name in ('edit', 'save') else 10**14,
                }
                yield f'{name} {key} {number}', post(name, json.dumps({**good, key: value}).encode())
    for name, options in OPTIONS.items():
        for option in options:
            for number, value in enumerate((*VALUES, float('nan'), '--out=x', '../../x')):
                body = {'config': 0, 'run': 0, 'options': {'dataset': '\0', option: value}}
                yield f'{name} {option} = {number}', post(name, json.dumps(body).encode())


def status_of(client: Client, request: bytes) -> int:
    """The status of the answer; 0 if the connection was closed without one."""
    with socket.create_connection(('127.0.0.1', client.port), 30) as connection:
        connection.sendall(request)
        answer = connection.recv(100)
    return int(answer.split()[1]) if answer.startswith(b'HTTP/') else 0
