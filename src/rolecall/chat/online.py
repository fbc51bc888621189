"""Chat with models behind APIs: a service by name, or any OpenAI- or Anthropic-compatible server."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.chat.adapters import AnthropicAdapter, OpenAIAdapter
from rolecall.chat.background import finish, result_of
from rolecall.chat.conversation import Connection
from rolecall.chat.module import ChatModule
from rolecall.chat.module_errors import ModuleError
from rolecall.checking import OptionReader
from rolecall.errors import did_you_mean
from rolecall.models.anthropic import model as anthropic
from rolecall.models.openai import model as openai
from rolecall.models.protocol import Model
from rolecall.models.services import ALIASES, SOURCES, ChatSource
from rolecall.runs.client.model_client import RetryPolicy

__all__ = ['OnlineChatModule', 'find_source']

_ENTRY_OPTIONS = (
    *('timeout', 'headers', 'extra_headers', 'org', 'proxy', 'query_per_second', 'extra_body', 'generation_kwargs'),
    *('max_tokens_key', 'max_seq_len', 'think_tag', 'media', 'inline_files', 'prefill', 'system', 'anthropic_version'),
)
_OWN_OPTIONS = ('source', 'model', 'base_url', 'api_key', 'stream', 'retries')
_SAMPLING = ('temperature', 'top_p', 'top_k', 'seed', 'stop', 'max_tokens', 'max_out_len', 'presence_penalty')
_RETRIES = 4
_NAME = 'OnlineChatModule'


class OnlineChatModule(ChatModule):
    """A model behind an API.

    >>> module = OnlineChatModule('deepseek', temperature=0)
    >>> module
    OnlineChatModule(source='deepseek', model='deepseek-chat', base_url='https://api.deepseek.com/v1')
    >>> assistant = module.prompt('You answer in one word.')

    `assistant('…')` returns the answer, `assistant.reply('…')` the full reply, `assistant.stream('…')` the pieces.
    `source` is the name of a service, with or without a model ('openai/gpt-4.1-mini'), or a URL; by default the first
    service with a key in the environment. Options of a model entry (`timeout`, `headers`, …) and `retries`
    configure it; others are sent with every request.
    """

    def __init__(
        self,
        source: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | Sequence[str] | None = None,
        stream: bool = False,
        **options: Any,
    ) -> None:
        retries = options.pop('retries', _RETRIES)
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise ModuleError(f'retries must be a whole number of at least 0, got {retries!r:.60}.')
        _refuse_misspelt(options)
        if source is not None and not isinstance(source, str):
            raise ModuleError(f'source must be a name or a URL, got {source!r:.60}.')
        if source is not None and '://' in source:
            base_url = _one_url(source, base_url)
            source = None
        elif source is not None and '/' in source:
            source, model = _split_name(source, model)
        if base_url is not None and not (isinstance(base_url, str) and base_url.strip()):
            raise ModuleError(f'base_url must be the URL of a server, or None for the default, got {base_url!r:.60}.')
        found = ChatSource('custom', base_url) if source is None and base_url is not None else find_source(source)
        entry = {name: value for name, value in options.items() if name in _ENTRY_OPTIONS}
        entry |= _address(found, model, base_url, api_key)
        if stream:
            entry['stream'] = True
        super().__init__({name: value for name, value in options.items() if name not in _ENTRY_OPTIONS})
        built = (anthropic if found.anthropic else openai).build(entry, name=_NAME)
        timeout = options.get('timeout') or 600.0
        retry_policy = RetryPolicy(seconds=timeout, retries=retries, when_busy=2 * retries)
        adapter = AnthropicAdapter() if found.anthropic else OpenAIAdapter()
        self.source = found.name
        self.model = str(entry.get('model') or '')
        self._shared = Connection(built, adapter, retry_policy)
        weakref.finalize(self._shared, _close, built)

    @property
    def base_url(self) -> str:
        """The URL of the server."""
        return str(self._shared.model.identity['server'])

    def stop(self) -> None:
        """Cancel calls in progress and close connections. The next call reopens them."""
        result_of(self._shared.close())

    def __repr__(self) -> str:
        return f'OnlineChatModule(source={self.source!r}, model={self.model!r}, base_url={self.base_url!r})'

    def _connection(self) -> Connection:
        return self._shared


def find_source(name: str | None) -> ChatSource:
    """The service of that name; by default the first with a key in the environment.

    >>> find_source('claude').name, find_source('DeepSeek').base_url
    ('anthropic', 'https://api.deepseek.com/v1')
    >>> find_source('opnai')
    Traceback (most recent call last):
    rolecall.chat.module_errors.ModuleError: unknown source 'opnai'. Did you mean 'openai'?
    """
    if name is None:
        found = next((source for source in SOURCES.values() if source.variable), None)
        if found is None:
            raise ModuleError(
                'no source given, and no API key found in the environment. Name a source (openai, ollama, …) or '
                'a base_url, or set a key such as OPENAI_API_KEY.'
            )
        return found
    word = name.strip().lower()
    source = SOURCES.get(ALIASES.get(word, word))
    if source is None:
        hint = did_you_mean(word, [*SOURCES, *ALIASES])
        if not hint.startswith('Did'):
            hint = f"{hint} For a model name, write model='{name}'."
        raise ModuleError(f"unknown source '{name}'. {hint}")
    return source


def _close(model: Model) -> None:
    finish(model.close())


def _address(
    source: ChatSource, model: str | None, base_url: str | None, api_key: str | Sequence[str] | None
) -> dict[str, Any]:
    """The part of a model entry that addresses the server."""
    name = model or source.model
    kind = 'Claude' if source.anthropic else 'OpenAI' if name else 'VLLMCustomAPIChat'
    entry: dict[str, Any] = {'type': kind, 'model': name}
    url = base_url if base_url is not None else source.base_url
    if url is not None:
        entry['base_url'] = url
    key = api_key if api_key is not None else source.key
    return entry if key is None else entry | {'key': key}


def _split_name(name: str, model: str | None) -> tuple[str, str]:
    """'deepseek/deepseek-chat' as a source and a model."""
    source, _, named = name.partition('/')
    if model is not None:
        raise ModuleError(f'the model is given twice, as {name!r} and as model={model!r}.')
    return source, named


def _one_url(source: str, base_url: str | None) -> str:
    if base_url is not None:
        raise ModuleError('the server is given twice, as source and as base_url.')
    return source


def _refuse_misspelt(options: Mapping[str, Any]) -> None:
    reader = OptionReader(options, _NAME)
    reader.refuse_misspelt((*_ENTRY_OPTIONS, *_OWN_OPTIONS, *_SAMPLING))
    reader.raise_problems()
