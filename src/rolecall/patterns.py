"""Regular expressions: our own, compiled when they are first used, and those of others, with a time limit.

Python's `re` cannot be stopped from another thread, and a pattern such as `(a+)+$` takes years on forty characters.
Patterns that a task file or a row brings therefore run in a process of their own, which is ended when time is up;
a pattern with at most one repeat runs here, where the text is short.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from functools import lru_cache
from typing import Any, cast

PATTERN_SECONDS = 2.0
_SHORT = 2_000
_REPEAT = re.compile(r'\\.|\(\?|([*+?{])', re.DOTALL)
_GROUP_REPEATED = re.compile(r'\)[*+?{]')
_LOOKS_AROUND = ('(?=', '(?!', '(?<', '(?P=', '(?(')
_WORKER = """
import json, re, sys
for line in sys.stdin:
    operation, pattern, flags, text, *rest = json.loads(line)
    try:
        if operation == 'findall':
            result = re.compile(pattern, flags).findall(text)
        elif operation == 'search':
            match = re.compile(pattern, flags).search(text)
            result = match and [match[0], *match.groups()]
        else:
            result = re.compile(pattern, flags).sub(rest[0], text, rest[1])
        reply = {'result': result}
    except Exception as error:
        reply = {'error': f'{type(error).__name__}: {error}'}
    print(json.dumps(reply), flush=True)
"""


class _LatePattern:
    """A pattern that is compiled when one of its methods is first looked up; the method then stays here."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        method = vars(self)[name] = getattr(re.compile(*self._source), name)
        return method


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, for modules with many patterns of which a process needs few. Not for functions such as `re.sub`.

    >>> compile_late('a+').findall('aa b a')
    ['aa', 'a']
    """
    return cast('re.Pattern[str]', _LatePattern(pattern, flags))


class PatternError(ValueError):
    """A pattern was stopped, or cannot be used on this text."""


def find_all(pattern: str, text: str, flags: int = 0) -> list[Any]:
    """As `re.findall`.

    >>> find_all(r'(\\d+)-(\\d+)', '1-2 and 3-4')
    [('1', '2'), ('3', '4')]
    """
    if _is_quick(pattern, text):
        return re.findall(pattern, text, flags)
    matches = _PROCESS.call('findall', pattern, flags, text)
    return [tuple(match) if isinstance(match, list) else match for match in matches]


def search_groups(pattern: str, text: str, flags: int = 0) -> tuple[str | None, ...] | None:
    """The first match and its groups, or None.

    >>> search_groups('a(b+)(c)?', 'xabb'), search_groups('a', 'x')
    (('abb', 'bb', None), None)
    """
    if _is_quick(pattern, text):
        match = re.search(pattern, text, flags)
        return (match[0], *match.groups()) if match else None
    result = _PROCESS.call('search', pattern, flags, text)
    return tuple(result) if result else None


def substitute(pattern: str, replacement: str, text: str, count: int = 0) -> str:
    """As `re.sub`.

    >>> substitute('(a+)+$', '-', 'aaab' * 9)[-4:]
    'aaab'
    """
    if _is_quick(pattern, text):
        return re.sub(pattern, replacement, text, count=count)
    return str(_PROCESS.call('sub', pattern, 0, text, replacement, count))


def _is_quick(pattern: str, text: str) -> bool:
    return len(text) <= _SHORT and _repeats_once(pattern)


@lru_cache(maxsize=1024)
def _repeats_once(pattern: str) -> bool:
    repeats = sum(match[1] is not None for match in _REPEAT.finditer(pattern))
    return repeats <= 1 and not _GROUP_REPEATED.search(pattern) and not any(mark in pattern for mark in _LOOKS_AROUND)


class _PatternProcess:
    """One process that matches patterns, started at the first call and again after one that took too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def call(self, operation: str, pattern: str, flags: int, text: str, *rest: Any) -> Any:
        line = json.dumps([operation, pattern, int(flags), text, *rest]).encode() + b'\n'
        with self._lock:
            reply = self._exchange(line)
        if reply is None:
            raise PatternError(
                f'the pattern {pattern!r:.80} took more than {PATTERN_SECONDS:g} s on {len(text):,} characters'
            )
        if 'error' in reply:
            raise PatternError(f'the pattern {pattern!r:.80} cannot be used: {reply["error"]}')
        return reply['result']

    def _exchange(self, line: bytes) -> Any:
        process = self._start()
        if process.stdin is None or process.stdout is None:
            raise PatternError('no process to match patterns in')
        deadline, received = time.monotonic() + PATTERN_SECONDS, bytearray()
        try:
            process.stdin.write(line)
            while not received.endswith(b'\n'):
                ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
                block = os.read(process.stdout.fileno(), 1 << 16) if ready else b''
                if not block:
                    self._stop()
                    return None
                received += block
            return json.loads(received)
        except BaseException:  # also KeyboardInterrupt: half an answer must not stay in the pipe
            self._stop()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            atexit.register(self._stop)
            command = [sys.executable, '-I', '-S', '-c', _WORKER]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        return self._process

    def _stop(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            with self._process:
                self._process = None


_PROCESS = _PatternProcess()
