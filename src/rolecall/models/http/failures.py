"""What errors and headers of a server mean: what went wrong, when to retry, and how much is left of its rate limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from rolecall.models.http.body import parse_json
from rolecall.models.protocol import ModelError, Outcome

_TRANSIENT = frozenset((408, 409, 425, 429))
_FINAL_CODES = frozenset(('insufficient_quota', 'billing_hard_limit_reached', 'billing_error'))
_FILTERED = frozenset(('content_filter', 'content_policy_violation', 'invalid_prompt', 'data_inspection_failed'))
_TOO_LONG_CODES = frozenset(('context_length_exceeded', 'exceed_context_size_error', 'request_too_large'))
_TOO_LONG = re.compile(
    r'maximum context length|context length exceeded|(?:model|maximum)\S* (?:max_model_len|model length)'
    r'|exceeds? the (?:available |model.s )?(?:maximum )?context|longer than the model.s context|prompt is too long',
    re.IGNORECASE,
)
_STATUS_OF = {'rate_limit_error': 429, 'overloaded_error': 529, 'api_error': 500, 'timeout_error': 504}
_STATUS_OF |= {'invalid_request_error': 400, 'authentication_error': 401, 'permission_error': 403}
_STATUS_CODE = re.compile('[45][0-9][0-9]')
_MARKUP = re.compile(r'<[^>]*>|\s+')
_LONGEST = 400
_LONGEST_WAIT = 86_400.0
"""A day, in seconds; a server that asks for more is retried after that."""


class HttpStatusError(ModelError):
    """The server returned an error. `code` is its error code."""

    def __init__(self, message: str, *, status: int, code: str, server_message: str, wait: float | None = None) -> None:
        transient = (status in _TRANSIENT or status >= 500) and code not in _FINAL_CODES
        super().__init__(message, transient=transient, retry_after=wait if transient else None, status=status)
        self.code = code
        self.server_message = server_message


def status_error(
    about: str, status: int, headers: Mapping[str, str], body: bytes, *, hide: Callable[[str], str] = str
) -> HttpStatusError:
    """The error for a reply with an error status. `about` names server and model.

    `hide` replaces secrets: before the message is shortened, so that no part of one is left.
    """
    code, quote = _read_error_body(body, hide)
    if 300 <= status < 400:
        quote = f'It redirects to {headers.get("Location", "another address").partition("?")[0]}: use that address.'
    return _build_error(about, status, code, quote, retry_after(headers))


def embedded_error(about: str, error: object, *, hide: Callable[[str], str] = str) -> HttpStatusError:
    """The error for a 200 reply whose body is an error. `hide` replaces secrets."""
    code, quote = _code_and_message(error, hide)
    status = int(code) if _STATUS_CODE.fullmatch(code) else _STATUS_OF.get(code, 500)
    return _build_error(about, status, code, quote, None)


def row_outcome(error: HttpStatusError) -> Outcome | None:
    """The outcome an error means for the row itself, `filtered` or `too_long`; None for any other error."""
    if error.transient or error.status in (401, 403, 404):
        return None
    if error.code in _FILTERED:
        return 'filtered'
    return 'too_long' if error.code in _TOO_LONG_CODES or _TOO_LONG.search(error.server_message) else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay the server asks for, in seconds; it may be sent in milliseconds, in seconds, or as a date.

    >>> retry_after({'Retry-After': '2.5'}), retry_after({'retry-after-ms': '20'}), retry_after({})
    (2.5, 0.02, None)
    """
    if (milliseconds := _number(headers.get('retry-after-ms'))) is not None:
        return milliseconds / 1000
    value = headers.get('Retry-After')
    if value is None or (seconds := _number(value)) is not None:
        return None if value is None else seconds
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        seconds = (moment - datetime.now(timezone.utc)).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):  # also for a time zone that does not exist
        return None
    return min(max(0.0, seconds), _LONGEST_WAIT)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or '')
    except ValueError:
        return None
    return min(number, _LONGEST_WAIT) if 0 <= number < float('inf') else None


def _build_error(about: str, status: int, code: str, quote: str, wait: float | None) -> HttpStatusError:
    quoted = f' The server says: {quote}' if quote else ''
    return HttpStatusError(
        f'{about}: {_meaning(status, code)} ({status}).{quoted}',
        status=status,
        code=code,
        server_message=quote,
        wait=wait,
    )


def _meaning(status: int, code: str) -> str:
    if code in _FINAL_CODES:
        return 'the account is out of credit'
    if status in (401, 403):
        return 'the key is missing, wrong or lacks permission'
    if status == 404:
        return 'there is no such model, or the base URL is wrong'
    if status == 429:
        return 'too many requests'
    if status >= 500:
        return 'the server failed'
    return 'the address has moved' if 300 <= status < 400 else 'the request was refused'


def _read_error_body(body: bytes, hide: Callable[[str], str]) -> tuple[str, str]:
    text = body.decode('utf-8', 'replace')
    try:
        answer = parse_json(text)
    except ValueError:
        return '', _shorten(hide(text))
    return _code_and_message(answer.get('error') or answer if isinstance(answer, dict) else answer, hide)


def _code_and_message(error: Any, hide: Callable[[str], str]) -> tuple[str, str]:
    if not isinstance(error, Mapping):
        return '', _shorten(hide(_write(error)))
    inner = error.get('innererror')
    codes = (error.get('code'), inner.get('code') if isinstance(inner, Mapping) else None, error.get('type'))
    code = next((hide(_write(code))[:_LONGEST] for code in codes if code is not None), '')
    return code, _shorten(hide(_write(error.get('message') or error.get('detail') or error.get('msg') or error)))


def _write(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return f'({type(value).__name__}, nested too deeply)'


def _shorten(text: str) -> str:
    text = _MARKUP.sub(' ', text[: 20 * _LONGEST]).strip()
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'


Unit = Literal['requests', 'tokens']
_UNITS: tuple[Unit, ...] = ('requests', 'tokens')
_FORMS = ('x-ratelimit-{part}-{unit}', 'anthropic-ratelimit-{unit}-{part}')
_NAMES: tuple[tuple[Unit, str, str, str], ...] = tuple(
    (unit, *(form.format(part=part, unit=unit) for part in ('limit', 'remaining', 'reset')))  # type: ignore[misc]
    for unit in _UNITS
    for form in _FORMS
)
_PART = re.compile(r'(\d+(?:\.\d+)?)(ms|s|m|h|d)')
_SECONDS = {'ms': 0.001, 's': 1.0, 'm': 60.0, 'h': 3600.0, 'd': 86400.0}
_LONGEST_NUMBER = 24


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many are left of a limit, and the seconds until it is full again."""

    limit: float | None
    remaining: float
    reset: float


def read_rate_limits(headers: Mapping[str, str]) -> dict[Unit, RateLimit]:
    """The limits that the headers of an answer announce.

    >>> said = {'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': '59'}
    >>> read_rate_limits({**said, 'x-ratelimit-reset-requests': '1m0.5s'})
    {'requests': RateLimit(limit=60.0, remaining=59.0, reset=60.5)}
    """
    limits: dict[Unit, RateLimit] = {}
    for unit, limit, remaining, reset in _NAMES:
        if remaining in headers:
            left, seconds = _whole_number(headers.get(remaining)), _seconds(headers.get(reset))
            if left is not None and seconds is not None:
                limits[unit] = RateLimit(_whole_number(headers.get(limit)), left, seconds)
    return limits


def _whole_number(text: str | None) -> float | None:
    if text is None or len(text) > _LONGEST_NUMBER or not text.strip().isdecimal():
        return None
    return float(text)


def _seconds(text: str | None) -> float | None:
    """A duration (`8.64s`, `6m0s`, `12ms`, a number of seconds) or a moment (RFC 3339), as seconds from now.

    >>> _seconds('6m0s'), _seconds('12ms'), _seconds('1.5'), _seconds('soon'), _seconds('1e30')
    (360.0, 0.012, 1.5, None, 86400.0)
    """
    seconds = _parse_seconds(text)
    return None if seconds is None else min(max(0.0, seconds), _SECONDS['d'])


def _parse_seconds(text: str | None) -> float | None:
    if text is None or len(text) > 40:
        return None
    if _PART.sub('', text.strip()) == '':
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip().replace('Z', '+00:00'))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return (moment - datetime.now(timezone.utc)).total_seconds()
    except (ValueError, OverflowError):
        return None
