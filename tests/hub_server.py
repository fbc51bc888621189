"""A server on loopback that plays a hub of datasets for the real `huggingface_hub` client, with faults by path.

with serve_hub({'allenai/ai2_arc': {'ARC-Easy/test.parquet': content}}) as hub:
    subprocess.run([...], env={**os.environ, **hub.environment(tmp_path)})
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from servers import running

__all__ = ['Hub', 'serve_hub']

COMMIT = '0123456789abcdef0123456789abcdef01234567'


@dataclass
class Hub:
    """Repositories as files by path. `status` refuses a whole repository, `sent` replaces the content of a file."""

    repositories: Mapping[str, Mapping[str, bytes]]
    status: Mapping[str, int] = field(default_factory=dict)
    sent: Mapping[str, bytes | None] = field(default_factory=dict)
    url: str = ''
    calls: list[str] = field(default_factory=list)

    def environment(self, home: Path) -> dict[str, str]:
        """Variables for a client with an empty cache that knows no other hub."""
        named = {'HF_ENDPOINT': self.url, 'HF_HOME': str(home), 'HF_HUB_DISABLE_XET': '1', 'HF_HUB_OFFLINE': '0'}
        return {**named, 'HF_DATASETS_OFFLINE': '0', 'HF_HUB_DISABLE_TELEMETRY': '1', 'NO_PROXY': '127.0.0.1'}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f'{request.method} {request.path}')
        kind, _, rest = request.path.strip('/').removeprefix('api/').partition('/')
        name = '/'.join(rest.split('/')[:2])
        if kind != 'datasets' or name not in self.repositories:
            return _refuse(404, 'RepoNotFound')
        if name in self.status:
            return _refuse(self.status[name], 'GatedRepo')
        files, inner = self.repositories[name], rest.removeprefix(f'{name}').strip('/')
        verb, _, path = inner.partition('/')
        path = path.partition('/')[2]
        if verb == 'resolve':
            return self._send_file(files, path)
        if verb == 'tree':
            return _list_tree(files, path, recursive=request.query.get('recursive', '').lower() == 'true')
        if verb == 'paths-info':
            asked = (await request.post()).getall('paths', []) or (await request.json())['paths']
            return web.json_response([_describe(one, files[one]) for one in asked if one in files])
        siblings = [{'rfilename': one} for one in files]
        about = {'id': name, 'sha': COMMIT, 'private': False, 'gated': False, 'disabled': False, 'tags': []}
        return web.json_response({**about, 'downloads': 0, 'likes': 0, 'siblings': siblings})

    def _send_file(self, files: Mapping[str, bytes], path: str) -> web.Response:
        content = self.sent.get(path, files.get(path))
        if content is None:
            return _refuse(404, 'EntryNotFound')
        digest = hashlib.sha256(files[path]).hexdigest()
        headers = {'X-Repo-Commit': COMMIT, 'ETag': f'"{digest}"', 'X-Linked-Size': str(len(files[path]))}
        return web.Response(body=content, headers=headers)


def _describe(path: str, content: bytes) -> dict[str, Any]:
    return {'type': 'file', 'path': path, 'size': len(content), 'oid': hashlib.sha1(content).hexdigest()}


def _list_tree(files: Mapping[str, bytes], folder: str, *, recursive: bool) -> web.Response:
    """The files below a folder; without `recursive` those in it, and its folders."""
    start = f'{folder}/' if folder else ''
    found: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        if path.startswith(start):
            first, slash, _ = path.removeprefix(start).partition('/')
            if slash:
                inner = f'{start}{first}'
                found[inner] = {'type': 'directory', 'path': inner, 'oid': '0' * 40, 'size': 0}
            if not slash or recursive:
                found[path] = _describe(path, content)
    if not found and folder:
        return _refuse(404, 'EntryNotFound')
    return web.json_response(list(found.values()))


def _refuse(status: int, code: str) -> web.Response:
    return web.json_response({'error': code}, status=status, headers={'X-Error-Code': code, 'X-Error-Message': code})


@contextmanager
def serve_hub(repositories: Mapping[str, Mapping[str, bytes]], **faults: Any) -> Iterator[Hub]:
    """A hub with these repositories, while the context lasts."""
    hub = Hub(repositories, **faults)
    with running(hub.handle, max_seconds=900) as hub.url:
        yield hub
