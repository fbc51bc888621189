"""Running the server: it listens, prints its URL, and stops on Ctrl-C."""

from __future__ import annotations

import asyncio
import socket
import sys
import webbrowser

from aiohttp import web

from rolecall.errors import RolecallError
from rolecall.ui.web.security import AccessRules
from rolecall.ui.web.server import make_app
from rolecall.ui.web.workspace import Workspace


def serve_forever(workspace: Workspace, *, host: str, port: int, open_browser: bool) -> None:
    """Serve the page until interrupted."""
    listening = _listen(host, port)
    bound: int = listening.getsockname()[1]
    rules = AccessRules.for_address(host, bound)
    reachable = socket.gethostname() if rules.every_address else host
    shown = f'[{reachable}]' if ':' in reachable else reachable
    url = f'http://{shown}:{bound}/?token={rules.token}'
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
