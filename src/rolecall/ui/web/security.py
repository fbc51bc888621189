"""Access to the page (a token, known hosts, the same origin), and the page's own content security policy.

The server executes configs and can spend money, so requests from other web sites (cross-origin, DNS rebinding) and from
other users of the machine are refused, also on loopback.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Middleware

from rolecall.errors import RolecallError
from rolecall.ui.views.chinese import to_chinese

HEADERS = {
    'Content-Security-Policy': (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "media-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Cache-Control': 'no-store',
}
PAGE_POLICY = "frame-ancestors 'none'"
"""For a page that brings a stricter policy of its own."""
_SAFE_METHODS = ('GET', 'HEAD')

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The token of this server, and the Host headers it answers to."""

    hosts: frozenset[str]
    port: int
    every_address: bool = False
    """Whether the server listens on all addresses. It then answers to any address, but still not to unknown names."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @classmethod
    def for_address(cls, host: str, port: int) -> AccessRules:
        """Rules for a server at an address; a loopback address also answers to its other names."""
        names = {host if ':' not in host else f'[{host}]'}
        if host in ('127.0.0.1', 'localhost', '::1'):
            names |= {'127.0.0.1', 'localhost', '[::1]'}
        is_wildcard = host in ('0.0.0.0', '::', '')
        if is_wildcard:
            names |= {'localhost', socket.gethostname(), socket.getfqdn()}
        return cls(frozenset(f'{name.lower()}:{port}' for name in names), port, every_address=is_wildcard)

    @property
    def cookie(self) -> str:
        """The name of the cookie. Browsers share cookies between ports, so two pages need two names."""
        return f'rolecall_token_{self.port}'

    def accepts_token(self, token: str | None) -> bool:
        """Whether a token is this server's, compared in constant time."""
        return token is not None and hmac.compare_digest(token.encode(errors='replace'), self.token.encode())

    def _is_address(self, host: str) -> bool:
        """Whether a Host header is an IP address with this port. Another site can rebind names, but not addresses."""
        name, _, port = host.rpartition(':')
        try:
            ipaddress.ip_address(name.removeprefix('[').removesuffix(']'))
        except ValueError:
            return False
        return port == str(self.port)

    def refusal(self, request: web.Request) -> str | None:
        """Why a request is refused; None if it may pass. (The token is checked apart.)"""
        host = request.headers.get('Host', '')
        if host.lower() not in self.hosts and not (self.every_address and self._is_address(host)):
            return f'unknown host {host!r}.'
        origin = request.headers.get('Origin')
        if origin is not None and origin != f'http://{host}':
            return f'cross-origin request from {origin!r}.'
        if request.headers.get('Sec-Fetch-Site', 'same-origin') not in ('same-origin', 'none'):
            return 'cross-site request.'
        if request.method not in _SAFE_METHODS:
            if origin is None and 'Sec-Fetch-Site' not in request.headers:
                return 'the request has no origin.'
            if request.content_type != 'application/json':
                return 'expected application/json.'
        return None


def wants_chinese(request: web.Request) -> bool:
    """Whether the page that asks is in Chinese."""
    return request.headers.get('Accept-Language') == 'zh'


def make_guard(rules: AccessRules) -> Middleware:
    """The middleware that applies the rules and adds the headers. `/?token=…` trades the token for a cookie.

    An error of ours becomes its text as JSON.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if reason := rules.refusal(request):
            return _refuse(403, reason)
        token = request.query.get('token')
        if request.path == '/' and request.method == 'GET' and token is not None:
            if not rules.accepts_token(token):
                return _refuse(401, 'wrong token. Open the URL that `rolecall web` printed.')
            location = '/?lang=zh' if request.query.get('lang') == 'zh' else '/'
            traded = web.Response(status=303, headers={**HEADERS, 'Location': location})
            traded.set_cookie(rules.cookie, rules.token, httponly=True, samesite='Strict', path='/')
            return traded
        if not rules.accepts_token(request.cookies.get(rules.cookie)):
            return _refuse(401, 'no token. Open the URL that `rolecall web` printed.')
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return _refuse(error.status, f'{error.reason}.')
        except RolecallError as error:
            text = str(error)
            answer = {'error': to_chinese(text) if wants_chinese(request) else text}
            return web.json_response(answer, status=422, headers=HEADERS)
        if not response.prepared:
            response.headers.update({name: value for name, value in HEADERS.items() if name not in response.headers})
        return response

    return guard


def _refuse(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=f'rolecall: {reason}\n', headers=HEADERS)
