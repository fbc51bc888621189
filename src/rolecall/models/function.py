"""A plain Python callable as a model: it takes a request and returns a text or a `Reply`."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from rolecall.errors import RolecallError
from rolecall.models.base import Capabilities, Model, ModelError, Reply, Sampling, Scored
from rolecall.models.counting import Counter
from rolecall.models.entries import EntryReader
from rolecall.models.http import together
from rolecall.render.spans import Request

__all__ = ['FunctionModel', 'build']

_THREADS = 32


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """The model of an entry whose `type` (or `function`) is a callable, or names one as 'module.function'.

    `score` may be a second callable: a list of requests in, a `Scored` for each out.

    >>> async def ask():
    ...     return await build({'type': str.upper}, name='loud').generate(['hello'], Sampling())
    >>> asyncio.run(ask())[0].text
    'HELLO'
    """
    reader = EntryReader(entry, name)
    found = _callable(entry.get('function', entry.get('type')))
    if found is None:
        reader.refuse('type', 'no function is here.', "Give a function, or its name as 'module.function'.")
    score = entry.get('score')
    if score is not None and not callable(score):
        reader.refuse('score', 'expected a function.')
    threads = reader.count('max_workers') or _THREADS
    revision = reader.text('revision')
    max_seq_len = reader.count('max_seq_len')
    chat = reader.flag('chat')
    reader.finish()
    return FunctionModel(
        found or str,
        name=name,
        score=score,
        chat=_speaks_messages(entry) if chat is None else chat,
        threads=threads,
        revision=revision,
        max_seq_len=max_seq_len,
        counter=Counter(entry),
    )


def _callable(given: object) -> Callable[..., Any] | None:
    if isinstance(given, str) and '.' in given:
        module, _, attribute = given.rpartition('.')
        try:
            given = getattr(importlib.import_module(module), attribute, None)
        except ImportError:
            return None
    return given if callable(given) and not isinstance(given, type) else None


def _speaks_messages(entry: Mapping[str, Any]) -> bool:
    meta = entry.get('meta_template')
    rounds = meta.get('round') if isinstance(meta, Mapping) else None
    return any(isinstance(role, Mapping) and 'api_role' in role for role in rounds or ())


class FunctionModel:
    """Asks a callable. A synchronous one runs in threads of its own; one with a second parameter gets the sampling."""

    batch = 1

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        score: Callable[[Sequence[Request]], Any] | None = None,
        chat: bool = False,
        threads: int = _THREADS,
        revision: str | None = None,
        max_seq_len: int | None = None,
        counter: Counter | None = None,
    ) -> None:
        self.name = name
        self.capabilities = Capabilities(score=score is not None, chat=chat, media=True, tools=True, prefill=True)
        self.max_seq_len = max_seq_len
        self._function = function
        self._score = score
        self._takes_sampling = _parameters(function) > 1
        self._revision = revision
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._counter = counter or Counter({})

    @property
    def identity(self) -> Mapping[str, Any]:
        """The function's name and a digest of its source: a changed function is asked again."""
        module, name = getattr(self._function, '__module__', None), getattr(self._function, '__qualname__', None)
        shown = f'{module}.{name}' if name is not None else type(self._function).__qualname__
        return {'function': shown, 'source': _digest(self._function), 'revision': self._revision}

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """One reply for each request."""
        return await together([self._reply(request, sampling) for request in requests])

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """What the scoring function says."""
        if self._score is None:
            raise ModelError(f'{self.name}: this function gives no log-probabilities.')
        return list(await self._called(self._score, list(requests)))

    def count(self, request: Request) -> int | None:
        """The number of input tokens, if the entry names a tokenizer."""
        return self._counter.count(request)

    async def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def _reply(self, request: Request, sampling: Sampling) -> Reply:
        started = time.perf_counter()
        given = await self._called(self._function, *((request, sampling) if self._takes_sampling else (request,)))
        seconds = time.perf_counter() - started
        reply = Reply(given) if isinstance(given, str) else given
        if isinstance(reply, Reply):
            return replace(reply, usage=replace(reply.usage, seconds=reply.usage.seconds or seconds))
        raise ModelError(f'{self.name}: the function returned {type(given).__name__}, not a string or a Reply.')

    async def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            if inspect.iscoroutinefunction(function):
                return await function(*arguments)
            given = await asyncio.get_running_loop().run_in_executor(self._own_pool(), function, *arguments)
            return await given if inspect.isawaitable(given) else given
        except RolecallError:
            raise
        except Exception as error:  # the user's own code may raise anything; the row fails, the run goes on
            transient = isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))
            raise ModelError(f'{self.name}: {type(error).__name__}: {error}', transient=transient) from error

    def _own_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f'model-{self.name}')
        return self._pool


def _parameters(function: Callable[..., Any]) -> int:
    """How many arguments a function must be given, as far as it tells."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in places and each.default is inspect.Parameter.empty for each in found)


def _digest(function: Callable[..., Any]) -> str | None:
    try:
        source = inspect.getsource(function if hasattr(function, '__code__') else type(function))
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()[:16]
