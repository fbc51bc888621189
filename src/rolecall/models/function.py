"""A Python callable as a model: it takes a request and returns a string or a `Reply`."""

from __future__ import annotations

import asyncio
import dis
import hashlib
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from numbers import Integral, Real
from types import CodeType
from typing import Any, get_args

from rolecall.checking import OptionReader
from rolecall.core.render.spans import Request
from rolecall.models.http.connection import run_together
from rolecall.models.protocol import (
    Capabilities,
    Model,
    ModelError,
    Outcome,
    Reply,
    Sampling,
    Scored,
    Usage,
    redact_reply,
)
from rolecall.models.token_counter import TokenCounter
from rolecall.redaction import Redactor, environment_secrets, find_secrets
from rolecall.registry import import_dotted
from rolecall.strings import count_noun

_THREADS = 32
_FIRST_GROUP, _LARGEST_GROUP = 8, 256
_GROUP_SECONDS = 0.02
"""A thread that was given several requests starts no further one after this time."""
_QUICK_SECONDS = 0.002
"""A function that answers one request within this time is given several at once."""
_BINDS = ('STORE_DEREF', 'STORE_ATTR')
_READS = ('LOAD_DEREF', 'LOAD_ATTR')
_SETS_ITEMS = ('STORE_SUBSCR', 'DELETE_SUBSCR', 'STORE_SLICE')
_CHANGING_METHODS = (
    *('add', 'append', 'appendleft', 'clear', 'discard', 'extend', 'insert', 'pop', 'popitem', 'popleft', 'remove'),
    *('reverse', 'setdefault', 'sort', 'update'),
)
_NO_USAGE = Usage()
_usage_of = lru_cache(lambda seconds: Usage(seconds=seconds))
_LARGEST = 3.4e38
"""Scores are stored in single precision."""


def build(entry: Mapping[str, Any], *, name: str) -> Model:
    """A Python function as the model: the `type`, or `function`, is a callable or names one as 'module.function'.

    `score` may be a second callable: a list of requests in, a `Scored` for each out.

    >>> async def ask():
    ...     return await build({'type': str.upper}, name='loud').generate(['hello'], Sampling())
    >>> asyncio.run(ask())[0].text
    'HELLO'
    """
    reader = OptionReader(entry, name)
    spec = entry.get('function', entry.get('type'))
    function = import_dotted(spec, 'function', where=f'{name}.type') if isinstance(spec, str) and '.' in spec else spec
    if not callable(function) or isinstance(function, type):
        description = repr(spec) if isinstance(spec, str) else type(spec).__name__
        reader.refuse('type', f"expected a function or 'module.function', got {description}.")
    score = entry.get('score')
    if score is not None and not callable(score):
        reader.refuse('score', 'expected a function.')
    threads = reader.whole('max_workers') or _THREADS
    revision = reader.text('revision')
    max_seq_len = reader.whole('max_seq_len')
    chat = reader.flag('chat')
    reader.raise_problems()
    return FunctionModel(
        function if callable(function) else str,
        name=name,
        score=score,
        chat=_speaks_messages(entry) if chat is None else chat,
        threads=threads,
        revision=revision,
        max_seq_len=max_seq_len,
        counter=TokenCounter(entry),
        secrets=find_secrets(entry),
    )


def _speaks_messages(entry: Mapping[str, Any]) -> bool:
    meta = entry.get('meta_template')
    rounds = meta.get('round') if isinstance(meta, Mapping) else None
    return any(isinstance(role, Mapping) and 'api_role' in role for role in rounds or ())


class FunctionModel:
    """Calls a function; a synchronous one in its own threads. One with a second parameter receives the sampling."""

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
        counter: TokenCounter | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.capabilities = Capabilities(score=score is not None, chat=chat, media=True, tools=True, prefill=True)
        self.max_seq_len = max_seq_len
        self._function = function
        self._score = score
        self._takes_sampling = _count_parameters(function) > 1
        self._revision = revision
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self.group = 1 if inspect.iscoroutinefunction(function) else _FIRST_GROUP
        """How many requests should be handed over together: more than one while the function is quick."""
        self._counter = counter or TokenCounter({})
        self._redactor = Redactor({*secrets, *environment_secrets()})

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """The function's name, a digest of its source and what it was made with: another function is called again."""
        module, name = getattr(self._function, '__module__', None), getattr(self._function, '__qualname__', None)
        name_of = f'{module}.{name}' if name is not None else type(self._function).__qualname__
        parts = {'function': name_of, 'source': self.source_digest(self._function), 'revision': self._revision}
        made_with = _captured_values(self._function)
        return {**parts, 'made_with': hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]} if made_with else parts

    @staticmethod
    def source_digest(function: Any) -> str | None:
        """A digest of the source of a function, a class, or an object's class."""
        try:
            own = hasattr(function, '__code__') or isinstance(function, type)
            source = inspect.getsource(function if own else type(function))
        except (OSError, TypeError):
            return None
        return hashlib.sha256(source.encode()).hexdigest()[:16]

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        return await run_together([self._reply(request, sampling) for request in requests])

    async def generate_group(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply | ModelError | None]:
        """The result of each request, called in sequence in one thread; None for those not reached in time."""
        options = (sampling,) if self._takes_sampling else ()
        loop = asyncio.get_running_loop()
        results = await loop.run_in_executor(self._thread_pool(), _call_in_turn, self._function, requests, options)
        quick = len(results) == len(requests)
        self.group = min(_LARGEST_GROUP, 2 * max(self.group, len(requests))) if quick else max(1, len(results) // 2)
        replies: list[Reply | ModelError | None] = [
            self._reply_with(result, seconds) if type(result) is str else await self._finish_call(result, seconds)
            for result, seconds in results
        ]
        return replies + [None] * (len(requests) - len(results))

    def _reply_with(self, text: str, seconds: float) -> Reply:
        """The reply of a function that returned a string, as nearly all do."""
        return Reply(self._redactor.redact(text), usage=_usage_of(round(seconds, 6)))

    async def _finish_call(self, result: Any, seconds: float) -> Reply | ModelError:
        try:
            if inspect.isawaitable(result):
                self.group = 1
                result = await _run_coroutine(_return_awaitable, result)
            return self._add_seconds(self._check_reply(self._raise_caught(result)), seconds)
        except ModelError as error:
            return error

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """The scoring function's results."""
        if self._score is None:
            raise ModelError(f'{self.name}: this function returns no log-probabilities.')
        return await self._check_scores(self._score, requests)

    async def _check_scores(self, score: Callable[..., Any], requests: Sequence[Request]) -> list[Scored]:
        scores = await self._call(score, list(requests))
        if not isinstance(scores, (list, tuple)) or not all(isinstance(scored, Scored) for scored in scores):
            raise ModelError(
                f'{self.name}: the scoring function returned {_describe_type(scores)}, not a list of Scored.'
            )
        if len(scores) != len(requests):
            message = f'the scoring function returned {len(scores)} Scored for {count_noun(len(requests), "request")}.'
            raise ModelError(f'{self.name}: {message}')
        for wrong in (wrong for scored in scores for wrong in _score_problems(scored)):
            raise ModelError(f'{self.name}: the scoring function returned a Scored {wrong}.')
        return [_as_tuples(scored) for scored in scores]

    def count(self, request: Request) -> int | None:
        """The number of input tokens, if the entry names a tokenizer."""
        return self._counter.count(request)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these as well, wherever the function returns or raises them."""
        self._redactor = Redactor({*self._redactor.secrets, *secrets})

    async def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def _reply(self, request: Request, sampling: Sampling) -> Reply:
        started = time.perf_counter()
        result = await self._call(self._function, *((request, sampling) if self._takes_sampling else (request,)))
        seconds = time.perf_counter() - started
        if seconds < _QUICK_SECONDS and self.group == 1 and not inspect.iscoroutinefunction(self._function):
            self.group = _FIRST_GROUP
        return self._add_seconds(self._check_reply(result), seconds)

    def _add_seconds(self, reply: Reply, seconds: float) -> Reply:
        if reply.usage.seconds:
            return reply
        seconds = round(seconds, 6)
        usage = Usage(seconds=seconds) if reply.usage == _NO_USAGE else replace(reply.usage, seconds=seconds)
        return replace(reply, usage=usage)

    def _check_reply(self, result: object) -> Reply:
        reply = Reply(result) if isinstance(result, str) else result
        if not isinstance(reply, Reply):
            raise ModelError(f'{self.name}: the function returned {type(result).__name__}, not a string or a Reply.')
        for wrong in _reply_problems(reply):
            raise ModelError(f'{self.name}: the function returned a Reply {wrong}.')
        return redact_reply(reply, self._redactor)

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result. Anything it raises becomes a `ModelError`: the row fails and the run continues."""
        if inspect.iscoroutinefunction(function):
            result = await _run_coroutine(function, *arguments)
        else:
            result = await asyncio.get_running_loop().run_in_executor(
                self._thread_pool(), _call_catching, function, *arguments
            )
            if inspect.isawaitable(result):
                result = await _run_coroutine(_return_awaitable, result)
        return self._raise_caught(result)

    def _raise_caught(self, result: Any) -> Any:
        if not isinstance(result, _Raised):
            return result
        error = result.error
        if isinstance(error, ModelError):
            error.args = tuple(map(self._redactor.redact_value, error.args))
            raise error
        transient = isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))
        why = self._redactor.redact(f'{type(error).__name__}: {error}')
        raise ModelError(f'{self.name}: {why}', transient=transient) from error

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f'model-{self.name}')
        return self._pool


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception as a value, because futures and tasks treat some exceptions as signals."""

    error: BaseException


def _call_catching(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's own code may raise anything, SystemExit and StopIteration too
        return _Raised(error)


def _call_in_turn(
    function: Callable[..., Any], requests: Sequence[Request], options: tuple[Any, ...]
) -> list[tuple[Any, float]]:
    """The function's result for each request, with its duration; fewer than requests if the function is slow."""
    results: list[tuple[Any, float]] = []
    began = before = time.perf_counter()
    for request in requests:
        result = _call_catching(function, request, *options)
        now = time.perf_counter()
        results.append((result, now - before))
        if now - began > _GROUP_SECONDS:
            break
        before = now
    return results


async def _run_coroutine(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """A coroutine's result. It runs in its own task, so that cancelling itself is not taken for our cancellation."""
    task = asyncio.ensure_future(_await_catching(function, *arguments))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
    return _Raised(asyncio.CancelledError('by the function itself')) if task.cancelled() else task.result()


async def _await_catching(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    try:
        return await function(*arguments)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # as in `_call_catching`
        return _Raised(error)


def _return_awaitable(awaitable: Awaitable[Any]) -> Awaitable[Any]:
    return awaitable


def _describe_type(value: object) -> str:
    """The type of a value, and for a list the type of its first wrong item."""
    strangers = [item for item in value if not isinstance(item, Scored)] if isinstance(value, (list, tuple)) else []
    return f'{type(value).__name__} of {type(strangers[0]).__name__}' if strangers else type(value).__name__


def _as_tuples(scored: Scored) -> Scored:
    ids, logprobs, offsets = tuple(scored.ids), tuple(scored.logprobs), tuple(scored.offsets)
    return Scored(ids, logprobs, offsets, scored.usage, tuple(map(bool, scored.greedy)))


def _score_problems(scored: Scored) -> Iterator[str]:
    """Problems with scores, each as the end of a sentence."""
    for name in ('ids', 'logprobs', 'offsets', 'greedy'):
        if not isinstance(getattr(scored, name), (list, tuple)):
            yield f'whose {name} are {type(getattr(scored, name)).__name__}, not a tuple'
            return
    ids, logprobs, offsets = scored.ids, scored.logprobs, scored.offsets
    if len(ids) != len(logprobs):
        yield f'with {len(ids)} ids and {len(logprobs)} logprobs: each token needs both (None for the first logprob)'
    if offsets and len(offsets) != len(ids):
        yield f'with {len(ids)} ids and {len(offsets)} offsets: each token needs one, or leave them out'
    if scored.greedy and len(scored.greedy) != len(ids):
        yield f'with {len(ids)} ids and {len(scored.greedy)} in greedy: each token needs one, or leave them out'
    for token in ids:
        if not isinstance(token, Integral) or not -1 <= int(token) < 2**31:
            yield f'with the id {token!r:.60}: write a whole number, -1 where it is not known'
    for value in logprobs:
        if value is not None and not (isinstance(value, Real) and (abs(value) <= _LARGEST or value == -math.inf)):
            yield f'with the logprob {value!r:.60}: write a number, or None'
    for place in offsets:
        if not isinstance(place, (list, tuple)) or len(place) != 2 or not all(map(_is_place, place)):
            yield f'with the offset {place!r:.60}: write (begin, end), in characters'
    if not isinstance(scored.usage, Usage):
        yield f'whose usage is {type(scored.usage).__name__}, not a Usage'


def _is_place(value: object) -> bool:
    return isinstance(value, Integral) and 0 <= int(value) < 2**32


def _reply_problems(reply: Reply) -> Iterator[str]:
    """Problems with a reply, each as the end of a sentence."""
    for name in ('text', 'reason', 'reasoning'):
        if not isinstance(getattr(reply, name), str):
            yield f'whose {name} is {type(getattr(reply, name)).__name__}, not a string'
    if reply.outcome not in get_args(Outcome):
        yield f'whose outcome is {reply.outcome!r:.60}, not one of {", ".join(get_args(Outcome))}'
    if not isinstance(reply.usage, Usage):
        yield f'whose usage is {type(reply.usage).__name__}, not a Usage'
    for name, kind in (('tool_calls', Mapping), ('others', Reply)):
        items = getattr(reply, name)
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, kind) for item in items):
            yield f'whose {name} are not a tuple of {kind.__name__}'
            return
    for other in reply.others:
        yield from _reply_problems(other)


def _captured_values(function: Any, inside: tuple[Any, ...] = ()) -> list[Any]:
    """Distinguishes functions with the same source: captured values, bound values and defaults.

    Values that the function itself changes (a counter of its calls, a list that it appends to) are left out, so that a
    run is resumed.
    """
    if isinstance(function, partial):
        bound = [*function.args, *sorted(function.keywords.items())]
        return [*_data_of(enumerate(bound)), *_captured_values(function.func)]
    owner = getattr(function, '__self__', None)
    if owner is not None and not inspect.ismodule(owner):
        return [*_attributes_of(owner), *_captured_values(getattr(function, '__func__', None))]
    code = getattr(function, '__code__', None)
    if code is None:
        return _attributes_of(function)
    defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    captured = _data_of(defaults)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            value = cell.cell_contents
            if inspect.isfunction(value) and value not in (function, *inside):
                inner = _captured_values(value, (function, *inside))
                captured.append((name, FunctionModel.source_digest(value), *inner))
            elif not _may_change(name, value, code):
                captured += _data_of([(name, value)])
    return captured


def _attributes_of(owner: object) -> list[Any]:
    """The attributes of an object that none of its methods changes."""
    methods = chain(*(vars(kind).items() for kind in type(owner).__mro__))
    codes = [method.__code__ for name, method in methods if name != '__init__' and inspect.isfunction(method)]
    return _data_of(
        (name, value)
        for name, value in sorted(getattr(owner, '__dict__', {}).items())
        if not any(_may_change(name, value, code) for code in codes)
    )


def _may_change(name: str, value: object, code: CodeType) -> bool:
    """Whether a function, or one inside it, binds a variable or attribute anew, or changes the container it holds."""
    steps = list(dis.get_instructions(code))
    changes = any(step.opname in _BINDS and step.argval == name for step in steps)
    if isinstance(value, dict | list | set):
        sets_items = any(step.opname in _SETS_ITEMS for step in steps)
        uses = [after.argval for step, after in pairwise(steps) if step.opname in _READS and step.argval == name]
        changes = changes or (sets_items and bool(uses)) or any(use in _CHANGING_METHODS for use in uses)
    return changes or any(_may_change(name, value, inner) for inner in code.co_consts if isinstance(inner, CodeType))


def _data_of(named: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The values that are data, each with its name, and nothing that differs between processes."""
    return [(name, _order(value)) for name, value in named if _is_data(value)]


def _is_data(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_data, chain(value, value.values())))
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_data, value))
    return value is None or isinstance(value, str | bytes | bool | int | float | complex)


def _order(value: Any) -> Any:
    """Data without the order of sets, which differs between processes."""
    if isinstance(value, dict):
        return {key: _order(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value), [_order(inner) for inner in value]
    return ('set', sorted(map(repr, value))) if isinstance(value, set | frozenset) else value


def _count_parameters(function: Callable[..., Any]) -> int:
    """How many arguments a function requires, as far as its signature says."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in places and each.default is inspect.Parameter.empty for each in parameters)
