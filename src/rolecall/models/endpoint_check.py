"""Whether a key and an endpoint work: one small request for the list of models, with the standard library alone."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from rolecall.models.http.address import read_address
from rolecall.models.model_names import SOURCES, ChatSource
from rolecall.strings import count_noun

_OFFICIAL = {'openai': 'https://api.openai.com/v1', 'anthropic': 'https://api.anthropic.com/v1'}
_BASE_URLS = {'openai': 'OPENAI_BASE_URL', 'anthropic': 'ANTHROPIC_BASE_URL'}
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """The result of checking a service."""

    service: str
    url: str
    works: bool
    status: str


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Raises a redirect as an HTTP error: urllib would send the key on to the other host."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


def services_to_check() -> list[ChatSource]:
    """The services whose key is in the environment, and servers on this machine."""
    return [service for service in SOURCES.values() if service.variable or not service.keys]


def check_service(service: ChatSource, *, timeout: float = 5.0) -> EndpointCheck:
    """Ask a service for its models. The key is sent to the service's own address only, and never shown."""
    own_url = os.environ.get(_BASE_URLS.get(service.name, ''), '').rstrip('/')
    root = own_url or service.base_url or _OFFICIAL.get(service.name, '')
    root = f'{root}/v1' if service.anthropic and not root.endswith('/v1') else root
    url = f'{root}/models'
    key = os.environ.get(service.variable or '', '')
    headers = {'User-Agent': 'rolecall'}
    if service.anthropic:
        headers |= {'x-api-key': key, 'anthropic-version': '2023-06-01'}
    elif key:
        headers['Authorization'] = f'Bearer {key}'
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout) as answer:
            return EndpointCheck(service.name, url, True, _count_models(answer.read(_MOST_BYTES)))
    except urllib.error.HTTPError as error:
        return EndpointCheck(service.name, url, error.code == 404, _describe_status(error))
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, 'reason', None) or error
        return EndpointCheck(service.name, url, False, f'not reachable: {reason}')


def name_served_model(url: str) -> str | None:
    """What the server at a URL calls its only model; None if it offers several, or cannot be asked."""
    try:
        address = read_address(url, endpoints=('chat/completions', 'completions', 'models', 'responses'))
        request = urllib.request.Request(address.endpoint('models'), headers={'User-Agent': 'rolecall'})
        opener = urllib.request.build_opener(_NoRedirects, *([urllib.request.ProxyHandler({})] * address.is_own))
        with opener.open(request, timeout=3.0) as answer:
            [card] = json.loads(answer.read(_MOST_BYTES))['data']
            return card['id'] if isinstance(card['id'], str) else None
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        return None


def _describe_status(error: urllib.error.HTTPError) -> str:
    if error.code == 404:
        return 'reachable'
    if 300 <= error.code < 400:
        return f'redirects ({error.code}), which is not followed with a key: set the final address'
    return f'the key was refused ({error.code})' if error.code in (401, 403) else f'answered {error.code}'


def _count_models(body: bytes) -> str:
    try:
        models = json.loads(body).get('data')
    except (ValueError, AttributeError, RecursionError):
        return 'works'
    return f'works, {count_noun(len(models), "model")}' if isinstance(models, list) else 'works'
