"""A user's class or object as a model: it has `generate`, and the rest of the protocol is supplied here."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rolecall.checking import OptionReader, argument_problems
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError
from rolecall.models.function import FunctionModel
from rolecall.models.protocol import Capabilities, Model, ModelError, Reply, Sampling, Scored
from rolecall.models.token_counter import TokenCounter
from rolecall.redaction import find_secrets, is_secret_name
from rolecall.registry import part_name
from rolecall.strings import count_noun
from rolecall.usercode import user_code

_PROTOCOL = ('name', 'capabilities', 'identity', 'batch', 'max_seq_len', 'generate', 'score', 'count', 'close')


def build_own_model(part: Any, entry: Mapping[str, Any], *, name: str) -> Model:
    """The model of an entry whose type has `generate(requests, sampling)`.

    A class is called with those options of the entry that it takes. An object that has everything in the `Model`
    protocol is used as it is.

    >>> import asyncio
    >>> class Loud:
    ...     def generate(self, requests, sampling):
    ...         return [request.upper() for request in requests]
    >>> asyncio.run(build_own_model(Loud, {}, name='loud').generate(['hello'], Sampling()))[0].text
    'HELLO'
    """
    model_object = _make(part, entry, name) if inspect.isclass(part) else part
    if all(hasattr(model_object, method) for method in _PROTOCOL):
        model: Model = model_object
        return model
    reader = OptionReader(entry, name)
    max_seq_len = reader.whole('max_seq_len')
    batch = reader.whole('batch_size') or 1
    revision = reader.text('revision')
    reader.raise_problems()
    return OwnModel(
        model_object,
        name=name,
        batch=batch,
        max_seq_len=max_seq_len,
        revision=revision,
        counter=TokenCounter(entry),
        secrets=find_secrets(entry),
    )


def _make(class_: type[Any], entry: Mapping[str, Any], name: str) -> Any:
    values = {'name': name, 'entry': entry, **{key: value for key, value in entry.items() if key != 'type'}}
    try:
        parameters = inspect.signature(class_).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]  # built in, and silent about its parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    wanted = {parameter.name for parameter in parameters}
    options = {key: value for key, value in values.items() if key in wanted or (takes_any and key in entry)}
    if problems := argument_problems(class_, options, name=part_name(class_)):
        raise ConfigError(problem.inside(name) for problem in problems)
    with user_code(f'making the model {part_name(class_)}', where=f'{name}.type'):
        return class_(**options)


class OwnModel(FunctionModel):
    """Calls the user's object. Its methods may be plain or async; plain ones run in threads."""

    def __init__(
        self,
        own: Any,
        *,
        name: str,
        batch: int = 1,
        max_seq_len: int | None = None,
        revision: str | None = None,
        counter: TokenCounter | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(
            own.generate, name=name, max_seq_len=max_seq_len, revision=revision, counter=counter, secrets=secrets
        )
        self._own = own
        self.batch = getattr(own, 'batch', batch)
        self.max_seq_len = getattr(own, 'max_seq_len', max_seq_len)
        declared = getattr(own, 'capabilities', Capabilities(media=True, tools=True, prefill=True))
        self.capabilities = replace(declared, score=callable(getattr(own, 'score', None)))

    def check_ready(self) -> None:
        """Have the object say what it lacks, if it can; it raises a ModelError."""
        if callable(check := getattr(self._own, 'check_ready', None)):
            check()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The object's own identity, or its class, the digest of its source, and its simple settings."""
        own: Mapping[str, Any] | None = getattr(self._own, 'identity', None)
        if own is not None:
            return own
        kind = type(self._own)
        settings = {
            key: self._redactor.redact_value(value)
            for key, value in vars(self._own).items()
            if isinstance(value, str | int | float | bool) and not is_secret_name(key)
        }
        return {'class': f'{kind.__module__}.{kind.__qualname__}', 'source': self.source_digest(kind), **settings}

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        replies = await self._call(self._own.generate, list(requests), sampling)
        if not isinstance(replies, (list, tuple)) or len(replies) != len(requests):
            what = f'{len(replies)} replies' if isinstance(replies, (list, tuple)) else type(replies).__name__
            raise ModelError(f'{self.name}: generate() returned {what} for {count_noun(len(requests), "request")}.')
        return [self._check_reply(reply) for reply in replies]

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        if not self.capabilities.score:
            raise ModelError(f'{self.name} has no score().')
        return await self._check_scores(self._own.score, requests)

    def count(self, request: Request) -> int | None:
        """The object's own count, or one by the entry's tokenizer."""
        own = getattr(self._own, 'count', None)
        counted: int | None = own(request) if callable(own) else super().count(request)
        return counted

    async def close(self) -> None:
        """Close the object and its threads."""
        if callable(getattr(self._own, 'close', None)):
            await self._call(self._own.close)
        await super().close()
