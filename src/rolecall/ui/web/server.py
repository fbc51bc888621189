"""The server of the page: assets, and JSON for the page. Work on configs and runs is done off the event loop."""

from __future__ import annotations

import asyncio
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.previews.blocks import ascii_json
from rolecall.models.protocol import Model
from rolecall.runs.serving.bench_files import StoredBench
from rolecall.ui.report.bench_page import bench_html
from rolecall.ui.views.chinese import translate_message
from rolecall.ui.web.routes import (
    GET_ROUTES,
    POST_ROUTES,
    Body,
    answer_route,
    check_body,
    read_assets,
    read_edits,
    read_number,
)
from rolecall.ui.web.run_documents import compare_as_json, explain_as_json
from rolecall.ui.web.security import HEADERS, PAGE_POLICY, AccessRules, make_guard, wants_chinese
from rolecall.ui.web.trying import Trial, make_trial, run_trial
from rolecall.ui.web.workspace import Workspace

_TYPES = {'.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html', '.LICENSE': 'text/plain'}
_LARGEST_BODY = 4 * 1024 * 1024


def make_app(workspace: Workspace, rules: AccessRules) -> web.Application:
    """The application: routes, guarded by the access rules."""
    app = web.Application(middlewares=[make_guard(rules)], client_max_size=_LARGEST_BODY)
    pages = _Pages(workspace)
    add = partial(app.router.add_route, expect_handler=_ignore_expectation)
    add('GET', '/', pages.index)
    add('GET', r'/bench/{number:\d{1,4}}', pages.bench)
    add('GET', r'/assets/{name:[\w./-]+}', pages.asset)
    add('GET', f'/api/{{name:{"|".join(GET_ROUTES)}}}', pages.get)
    add('POST', f'/api/{{name:{"|".join(POST_ROUTES)}}}', pages.post)
    for name in ('media', 'run_compare', 'run_explain', 'calls'):
        add('GET', f'/api/{name}', getattr(pages, name))
    for name in ('try', 'again'):
        add('POST', f'/api/{name}', getattr(pages, f'{name}_'))
    add('*', '/{path:.*}', _refuse_address)
    app.on_cleanup.append(pages.close)
    return app


async def _ignore_expectation(request: web.Request) -> None:
    """Browsers have none. aiohttp's own handler runs before the token is checked, and fails on odd bytes."""


async def _refuse_address(request: web.Request) -> web.Response:
    raise web.HTTPNotFound


class _Pages:
    """The handlers. Configs are used by one thread, because neither user code nor datasets promise more.

    A plan counts the tokens of every row, so it is made on another thread, of a config opened for it alone.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='rolecall-web')
        self._planning = ThreadPoolExecutor(1, thread_name_prefix='rolecall-plan')
        self._assets = read_assets()
        self._tried: dict[int, Model] = {}

    async def close(self, app: web.Application) -> None:
        for thread in (self._thread, self._planning):
            thread.shutdown(cancel_futures=True)
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

    async def get(self, request: web.Request) -> web.Response:
        return await self._answer_route(request, request.query)

    async def post(self, request: web.Request) -> web.Response:
        return await self._answer_route(request, await _read_body(request))

    async def calls(self, request: web.Request) -> web.Response:
        watched, after = self._workspace.calls, read_number(request.query, 'after')
        if watched is None:
            raise web.HTTPNotFound
        return await self._answer(lambda: watched.read(after))

    async def media(self, request: web.Request) -> web.Response:
        query = request.query
        row, number, at = (read_number(query, name) for name in ('row', 'number', 'at'))

        def read() -> tuple[str, bytes]:
            document = self._workspace.document(read_number(query, 'config'))
            return document.media(query.get('dataset', ''), query.get('model') or None, row, number, at)

        kind, content = await asyncio.get_running_loop().run_in_executor(self._thread, read)
        return web.Response(body=content, content_type=kind)

    async def try_(self, request: web.Request) -> web.StreamResponse:
        """The reply to one request, as lines of JSON while it is being written."""
        body = await _read_body(request)
        edits = read_edits(body)

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

    async def run_compare(self, request: web.Request) -> web.Response:
        """Two runs compared, beside the thread that the rest of the page uses: that takes long for large runs."""
        models = [request.query.get(f'{side}_model') or None for side in ('left', 'right')]
        return _as_answer(await asyncio.to_thread(compare_as_json, *self._find_both(request), *models))

    async def run_explain(self, request: web.Request) -> web.Response:
        """Why the scores of two runs differ, from what they have stored."""
        return _as_answer(await asyncio.to_thread(explain_as_json, *self._find_both(request)))

    def _find_both(self, request: web.Request) -> tuple[Path, Path]:
        left, right = (read_number(request.query, f'{side}_run') for side in ('left', 'right'))
        return self._workspace.run_path(left), self._workspace.run_path(right)

    async def _answer_route(self, request: web.Request, asked: Mapping[str, Any]) -> web.Response:
        name, chinese = request.match_info['name'], wants_chinese(request)
        thread = self._planning if name in ('plan', 'start') else self._thread
        return await self._answer(lambda: answer_route(self._workspace, name, asked, chinese=chinese), thread)

    async def _answer(
        self, work: Callable[[], Mapping[str, Any]], thread: ThreadPoolExecutor | None = None
    ) -> web.Response:
        """The result of some work as JSON."""
        return _as_answer(await asyncio.get_running_loop().run_in_executor(thread or self._thread, work))


def _as_answer(value: Mapping[str, Any]) -> web.Response:
    return web.Response(text=ascii_json(value), content_type='application/json')


async def _read_body(request: web.Request) -> Body:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise ConfigError(Problem('request', 'not valid JSON, or nested too deeply.')) from error
    return check_body(body)


def serve_forever(workspace: Workspace, *, host: str, port: int, open_browser: bool, language: str = '') -> None:
    """Serve the page until interrupted, in a language if that is not the browser's."""
    listening = _listen(host, port)
    bound: int = listening.getsockname()[1]
    rules = AccessRules.for_address(host, bound)
    reachable = socket.gethostname() if rules.every_address else host
    host_in_url = f'[{reachable}]' if ':' in reachable else reachable
    url = f'http://{host_in_url}:{bound}/?token={rules.token}{language and f"&lang={language}"}'
    print(translate_message(f'rolecall is at {url}\nPress Ctrl-C to stop.'), file=sys.stderr, flush=True)
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
