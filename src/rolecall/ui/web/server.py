"""The server of the page: assets, and JSON for the page. Work on configs and runs is done off the event loop."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from importlib.resources import files
from typing import Any

from aiohttp import web

from rolecall._version import __version__
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.previews.jsonl import ascii_json
from rolecall.models.protocol import Model
from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.store.labels import Kind
from rolecall.ui.report.bench_page import bench_html
from rolecall.ui.report.page import read_asset
from rolecall.ui.report.palette import plot_sheet, style_sheet
from rolecall.ui.views.looks import ALL_STYLES
from rolecall.ui.web.documents import ConfigDocument, Split, diff_as_json
from rolecall.ui.web.editing import edited_prompts, edited_source, save_edited
from rolecall.ui.web.prompts_json import LEGEND
from rolecall.ui.web.run_documents import RowFilter, RunSide, compare_as_json, explain_as_json
from rolecall.ui.web.security import HEADERS, PAGE_POLICY, AccessRules, make_guard
from rolecall.ui.web.trying import Trial, keep_trial, make_trial, run_trial
from rolecall.ui.web.workspace import Workspace

_TYPES = {'.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html', '.LICENSE': 'text/plain'}
_INTEGER = re.compile(r'-?[0-9]{1,15}')
_LARGEST = 10**15
_LARGEST_BODY = 4 * 1024 * 1024


def make_app(workspace: Workspace, rules: AccessRules) -> web.Application:
    """The application: routes, guarded by the access rules."""
    app = web.Application(middlewares=[make_guard(rules)], client_max_size=_LARGEST_BODY)
    pages = _Pages(workspace)
    app.router.add_get('/', pages.index)
    app.router.add_get(r'/bench/{number:\d{1,4}}', pages.bench)
    app.router.add_get(r'/assets/{name:[\w./-]+}', pages.asset)
    for name in (
        *('session', 'rows', 'prompts', 'tokens', 'media', 'lint', 'diff'),
        *('runs', 'run', 'run_rows', 'run_row', 'run_compare', 'run_explain', 'queue', 'calls'),
    ):
        app.router.add_get(f'/api/{name}', getattr(pages, name))
    for name in ('edit', 'save', 'try', 'keep', 'label', 'again'):
        app.router.add_post(f'/api/{name}', getattr(pages, f'{name}_'))
    app.on_cleanup.append(pages.close)
    return app


class _Pages:
    """The handlers. Configs are used by one thread, because neither user code nor datasets promise more."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='rolecall-web')
        self._assets = _read_assets()
        self._tried: dict[int, Model] = {}

    async def close(self, app: web.Application) -> None:
        self._thread.shutdown(cancel_futures=True)
        for model in self._tried.values():
            await model.close()

    async def index(self, request: web.Request) -> web.Response:
        return web.Response(text=self._assets['index.html'], content_type='text/html')

    async def asset(self, request: web.Request) -> web.Response:
        name = request.match_info['name']
        if name not in self._assets or name == 'index.html':
            raise web.HTTPNotFound
        response = web.Response(text=self._assets[name], content_type=_TYPES[f'.{name.rsplit(".", 1)[-1]}'])
        response.enable_compression()
        return response

    async def bench(self, request: web.Request) -> web.Response:
        number = int(request.match_info['number'])
        if number >= len(self._workspace.benches):
            raise web.HTTPNotFound
        page = bench_html(StoredBench.load(self._workspace.benches[number]))
        return web.Response(text=page, content_type='text/html', headers={'Content-Security-Policy': PAGE_POLICY})

    async def session(self, request: web.Request) -> web.Response:
        def describe() -> dict[str, Any]:
            return {'version': __version__, 'legend': LEGEND, **self._workspace.overview()}

        return await self._answer(describe)

    async def calls(self, request: web.Request) -> web.Response:
        watched, after = self._workspace.calls, _number(request.query, 'after', 0)
        if watched is None:
            raise web.HTTPNotFound
        return await self._answer(lambda: watched.read(after))

    async def rows(self, request: web.Request) -> web.Response:
        query = request.query
        dataset, after, text = query.get('dataset', ''), _number(query, 'after', -1), query.get('q', '')
        split: Split = 'train' if query.get('split') == 'train' else 'test'
        return await self._answer(lambda: self._document(query).rows(dataset, after=after, query=text, split=split))

    async def prompts(self, request: web.Request) -> web.Response:
        query, row = request.query, _number(request.query, 'row', 0)
        return await self._answer(
            lambda: self._document(query).prompts(query.get('dataset', ''), query.get('model') or None, row)
        )

    async def tokens(self, request: web.Request) -> web.Response:
        query = request.query
        row, number = _number(query, 'row', 0), _number(query, 'number', 0)
        return await self._answer(
            lambda: self._document(query).tokens(query.get('dataset', ''), query.get('model') or None, row, number)
        )

    async def lint(self, request: web.Request) -> web.Response:
        query = request.query
        dataset, model = query.get('dataset', ''), query.get('model', '')
        return await self._answer(lambda: {'findings': self._document(query).findings(dataset, model)})

    async def diff(self, request: web.Request) -> web.Response:
        query = request.query

        def compare() -> dict[str, Any]:
            left, right = (
                self._document(query, f'{side}_config').find_preview(
                    query.get(f'{side}_dataset', ''),
                    query.get(f'{side}_model') or None,
                    _number(query, f'{side}_row', 0),
                    _number(query, f'{side}_number', 0),
                )[1]
                for side in ('left', 'right')
            )
            return diff_as_json(left, right)

        return await self._answer(compare)

    async def media(self, request: web.Request) -> web.Response:
        query = request.query
        row, number, at = (_number(query, name, 0) for name in ('row', 'number', 'at'))

        def read() -> tuple[str, bytes]:
            document = self._document(query)
            return document.media(query.get('dataset', ''), query.get('model') or None, row, number, at)

        kind, content = await asyncio.get_running_loop().run_in_executor(self._thread, read)
        return web.Response(body=content, content_type=kind)

    async def edit_(self, request: web.Request) -> web.Response:
        body = await _read_body(request)
        edits = _read_edits(body)

        def work() -> dict[str, Any]:
            document = self._workspace.document(body.get('config', 0))
            dataset, row, compare = body.get('dataset', ''), body.get('row', 0), body.get('compare')
            return edited_prompts(document, dataset, body.get('model'), row, edits, compare=compare)

        return await self._answer(work)

    async def save_(self, request: web.Request) -> web.Response:
        body = await _read_body(request)
        edits = _read_edits(body)

        def work() -> dict[str, Any]:
            document = self._workspace.document(body.get('config', 0))
            source = edited_source(document, body.get('dataset', ''), body.get('model'), edits)
            name = body.get('name')
            return {'source': source, 'saved': str(save_edited(document, source, name)) if name else None}

        return await self._answer(work)

    async def try_(self, request: web.Request) -> web.StreamResponse:
        """The reply to one request, as lines of JSON while it is being written."""
        body = await _read_body(request)
        edits = _read_edits(body)

        def prepare() -> Trial:
            document = self._workspace.document(body.get('config', 0))
            number = body.get('number', 0)
            return make_trial(document, body.get('dataset', ''), body.get('model'), body.get('row', 0), number, edits)

        trial = await asyncio.get_running_loop().run_in_executor(self._thread, prepare)
        self._tried[id(trial.model)] = trial.model
        response = web.StreamResponse(headers={**HEADERS, 'Content-Type': 'application/x-ndjson'})
        await response.prepare(request)
        with suppress(ConnectionError):  # the reply was stopped, or its page closed
            try:
                async with aclosing(run_trial(trial)) as events:
                    async for event in events:
                        await response.write(f'{ascii_json(event)}\n'.encode())
            except RolecallError as error:
                await response.write(f'{ascii_json({"error": trial.redact(str(error))})}\n'.encode())
        return response

    async def keep_(self, request: web.Request) -> web.Response:
        body = await _read_body(request)
        if not isinstance(body.get('reply'), str):
            raise ConfigError(Problem('reply', 'expected a text.'))

        def keep() -> dict[str, Any]:
            document = self._workspace.document(body.get('config', 0))
            row, reply = body.get('row', 0), body['reply']
            return {'kept': str(keep_trial(document, body.get('dataset', ''), row, reply, body.get('request')))}

        return await self._answer(keep)

    async def label_(self, request: web.Request) -> web.Response:
        body = await _read_body(request)
        kind: Kind = 'answer' if 'answer' in body else 'label'
        value = body.get(kind, 0)
        names = [body.get('model'), body.get('by', ''), value if value is not None or kind == 'label' else '']
        if not all(isinstance(name, str) for name in names) or not isinstance(body.get('run', 0), int):
            raise ConfigError(Problem('request', 'expected run, dataset, model, row, and label or answer.'))

        def keep() -> dict[str, Any]:
            run = self._workspace.run(body.get('run', 0))
            key = (body.get('dataset', ''), body['model'], body.get('row', 0))
            run.decide(key, kind, value, body.get('by', ''))
            return {'labelled': len(run.labels.by_row())}

        return await self._answer(keep)

    async def queue(self, request: web.Request) -> web.Response:
        """The rows of a run that a person should decide next."""
        query, tasks = request.query, {'answer': 'answer', 'second': 'second'}
        task: Any = tasks.get(query.get('task', ''), 'label')
        return await self._answer(
            lambda: self._workspace.run(_number(query, 'run', 0)).queue.next_rows(task, query.get('by', ''))
        )

    async def again_(self, request: web.Request) -> web.Response:
        """Ask a failed row of a run again; the row as it is then."""
        body = await _read_body(request)
        if not isinstance(body.get('model'), str) or not isinstance(body.get('run', 0), int):
            raise ConfigError(Problem('request', 'expected run, dataset, model and row.'))

        number, dataset, model, row = body.get('run', 0), body.get('dataset', ''), body['model'], body.get('row', 0)

        def prepare() -> Callable[[], None]:
            config = self._workspace.config_for(dataset, model)
            if config is None:
                what = f'no config of this page has {dataset} and {model}.'
                raise ConfigError(Problem('config', what, 'Start the page with the config of this run, too.'))
            return self._workspace.run(number).prepare_again(dataset, model, row, config)

        def read() -> dict[str, Any]:
            return self._workspace.run(number).row(dataset, model, row, self._workspace.config_for(dataset, model))

        await asyncio.to_thread(await asyncio.get_running_loop().run_in_executor(self._thread, prepare))
        return await self._answer(read)

    async def runs(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: {'runs': self._workspace.runs()})

    async def run(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: self._workspace.run(_number(request.query, 'run', 0)).overview())

    async def run_rows(self, request: web.Request) -> web.Response:
        query = request.query
        dataset, model, outcome, verdict, text = (
            query.get(name, '') for name in ('dataset', 'model', 'outcome', 'verdict', 'q')
        )
        first = _number(query, 'first', 0)

        def find() -> dict[str, Any]:
            against = None
            if query.get('against'):
                number, _, other = query['against'].partition(':')
                against = self._workspace.run(_number({'against': number}, 'against', 0)).counterpart(other)
            wanted = RowFilter(dataset, model, outcome, verdict, text, first, against)
            return self._workspace.run(_number(query, 'run', 0)).rows(wanted, query.get('after', ''))

        return await self._answer(find)

    async def run_row(self, request: web.Request) -> web.Response:
        query = request.query
        dataset, model = query.get('dataset', ''), query.get('model', '')

        def find() -> dict[str, Any]:
            config = self._workspace.config_for(dataset, model)
            return self._workspace.run(_number(query, 'run', 0)).row(dataset, model, _number(query, 'row', 0), config)

        return await self._answer(find)

    async def run_compare(self, request: web.Request) -> web.Response:
        """Two runs compared, beside the thread that the rest of the page uses: that takes long for large runs."""
        query = request.query
        left, right = (
            RunSide(self._workspace.run_path(_number(query, f'{side}_run', 0)), query.get(f'{side}_model', ''))
            for side in ('left', 'right')
        )
        return _as_answer(await asyncio.to_thread(compare_as_json, left, right))

    async def run_explain(self, request: web.Request) -> web.Response:
        """Why the scores of two runs differ, from what they have stored."""
        paths = [self._workspace.run_path(_number(request.query, f'{side}_run', 0)) for side in ('left', 'right')]
        return _as_answer(await asyncio.to_thread(explain_as_json, *paths))

    def _document(self, query: Mapping[str, str], key: str = 'config') -> ConfigDocument:
        return self._workspace.document(_number(query, key, 0))

    async def _answer(self, work: Callable[[], Mapping[str, Any]]) -> web.Response:
        """The result of some work as JSON."""
        return _as_answer(await asyncio.get_running_loop().run_in_executor(self._thread, work))


def _as_answer(value: Mapping[str, Any]) -> web.Response:
    return web.Response(text=ascii_json(value), content_type='application/json')


def _number(query: Mapping[str, str], key: str, default: int) -> int:
    text = query.get(key, '')
    if text and not _INTEGER.fullmatch(text):
        raise ConfigError(Problem(key, f'expected an integer of at most 15 digits, got {text!r:.40}.'))
    return int(text) if text else default


async def _read_body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise ConfigError(Problem('request', 'not valid JSON, or nested too deeply.')) from error
    shape: dict[str, Any] = {
        'config': int,
        'dataset': str,
        'model': (str, type(None)),
        'row': int,
        'edits': list,
        'number': int,
        'compare': (int, type(None)),
        'name': (str, type(None)),
    }
    if (
        not isinstance(body, dict)
        or any(key in body and not isinstance(body[key], kind) for key, kind in shape.items())
        or any(isinstance(value, int) and abs(value) > _LARGEST for value in body.values())
    ):
        raise ConfigError(Problem('request', 'expected config, dataset, model, row and edits.'))
    return body


def _read_edits(body: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], Any]]:
    """Pairs of a path and a value."""
    edits = body.get('edits', [])
    if not all(isinstance(edit, list) and len(edit) == 2 and isinstance(edit[0], list) for edit in edits):
        raise ConfigError(Problem('edits', 'expected pairs of a path and a value.'))
    return [(tuple(path), value) for path, value in edits]


def _read_assets() -> dict[str, str]:
    """Every file the page loads, by name: its own, those it shares with the report, and generated styles."""
    folder = files(__package__).joinpath('assets')
    own = {entry.name: entry.read_text('utf-8') for entry in folder.iterdir() if entry.is_file()}
    vendor = folder.joinpath('vendor')
    own |= {f'vendor/{entry.name}': entry.read_text('utf-8') for entry in vendor.iterdir() if entry.is_file()}
    shared = {'draw.js': read_asset('draw.js'), 'report.css': read_asset('report.css')}
    return own | shared | {'origins.css': style_sheet(ALL_STYLES) + plot_sheet()}


def serve_forever(workspace: Workspace, *, host: str, port: int, open_browser: bool) -> None:
    """Serve the page until interrupted."""
    listening = _listen(host, port)
    bound: int = listening.getsockname()[1]
    rules = AccessRules.for_address(host, bound)
    reachable = socket.gethostname() if rules.every_address else host
    host_in_url = f'[{reachable}]' if ':' in reachable else reachable
    url = f'http://{host_in_url}:{bound}/?token={rules.token}'
    print(f'rolecall is at {url}\nPress Ctrl-C to stop.', file=sys.stderr, flush=True)
    if open_browser:
        webbrowser.open(url)
    asyncio.run(_serve(make_app(workspace, rules), listening))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        raise RolecallError(f'cannot listen on {host}:{port}: {error.strerror or error}.') from error
    return listening


async def _serve(app: web.Application, listening: socket.socket) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
