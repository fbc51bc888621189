"""Chat with models behind APIs: a service by name, or any OpenAI- or Anthropic-compatible server."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from rolecall.apps.chat.adapters import RESEND, AnthropicAdapter, OpenAIAdapter, Resend, ThinkingPolicy, name_author
from rolecall.apps.chat.answerer import Connection, close_model
from rolecall.apps.chat.background import result_of
from rolecall.apps.chat.call_options import CallSettings, SamplingOptions, adapt_to_vendor
from rolecall.apps.chat.module import ChatModule
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.checking import OptionReader, explain_arguments, is_whole
from rolecall.errors import close_match, did_you_mean
from rolecall.models.anthropic import model as anthropic
from rolecall.models.model_names import ALIASES, SOURCES, ChatSource, azure_url, find_service
from rolecall.models.openai import model as openai
from rolecall.models.prices import find_price
from rolecall.models.pull import PACKAGED
from rolecall.redaction import drop_url_secrets, find_secrets, is_secret_name
from rolecall.runs.client.retry import RetryPolicy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rolecall.apps.chat.vendor_types import AnthropicModule, AnthropicOptions, MistralModule, MistralOptions
    from rolecall.models.tokenizers.tokenizer import Tokenizer


class OnlineFields(TypedDict, total=False):
    """The options of a module that its model entry has (docs/models.md), and its own."""

    timeout: float | None
    headers: Mapping[str, str] | None
    extra_headers: Mapping[str, str] | None
    extra_body: Mapping[str, Any] | None
    generation_kwargs: Mapping[str, Any] | None
    org: str | None
    proxy: str | None
    verify: bool
    ca_bundle: str | None
    query_per_second: float | None
    endpoint: Literal['chat', 'completions', 'responses'] | None
    max_tokens_key: str | None
    max_seq_len: int | None
    think_tag: str | None
    media: bool
    inline_files: bool
    prefill: bool
    system: bool
    stream_options: bool
    anthropic_version: str | None
    prompt_cache: bool | Literal['5m', '1h']
    tokenizer: str | Tokenizer | None
    tokenizer_path: str | None
    chat_template: str | None
    price: Mapping[str, float] | None
    retries: int
    max_cost: float | None
    resend_thinking: Resend | None


class OnlineOptions(SamplingOptions, OnlineFields, total=False):
    """Those, and parameters for every request."""


_ENTRY_OPTIONS = OnlineFields.__annotations__.keys() - {'retries', 'max_cost', 'resend_thinking'}
_RETRIES = 4
_NAME = 'OnlineChatModule'


@explain_arguments(ModuleError, '__init__')
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

    if TYPE_CHECKING:  # a vendor by name decides which options calls have

        @overload
        def __new__(
            cls,
            source: Literal['anthropic', 'claude'],
            model: str | None = ...,
            base_url: str | None = ...,
            api_key: str | Sequence[str] | None = ...,
            stream: bool = ...,
            **module_options: Unpack[AnthropicOptions],
        ) -> AnthropicModule: ...
        @overload
        def __new__(
            cls,
            source: Literal['mistral'],
            model: str | None = ...,
            base_url: str | None = ...,
            api_key: str | Sequence[str] | None = ...,
            stream: bool = ...,
            **module_options: Unpack[MistralOptions],
        ) -> MistralModule: ...
        @overload
        def __new__(
            cls,
            source: str | None = ...,
            model: str | None = ...,
            base_url: str | None = ...,
            api_key: str | Sequence[str] | None = ...,
            stream: bool = ...,
            **module_options: Unpack[OnlineOptions],
        ) -> OnlineChatModule: ...
        def __new__(cls, *args: Any, **options: Any) -> Any: ...

    def _open(
        self,
        source: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | Sequence[str] | None = None,
        stream: bool = False,
        **module_options: Unpack[OnlineOptions],
    ) -> None:
        options: dict[str, Any] = {**module_options}
        own = {'source': source, 'model': model, 'base_url': base_url, 'api_key': api_key, 'stream': stream}
        self._made_with = {**options, **own}
        retries = options.pop('retries', _RETRIES)
        if not is_whole(retries, least=0):
            raise ModuleError(f'retries must be a whole number of at least 0, got {retries!r:.60}.')
        reader = OptionReader(options, _NAME)
        reader.refuse_misspelt((*own, *OnlineOptions.__annotations__))
        reader.raise_problems()
        resend: Resend | None = options.pop('resend_thinking', None)
        if resend is not None and resend not in RESEND:
            raise ModuleError(f'resend_thinking must be one of {", ".join(map(repr, RESEND))}, got {resend!r:.60}.')
        if source is not None and not isinstance(source, str):
            raise ModuleError(f'source must be a name or a URL, got {source!r:.60}.')
        if source is not None and '://' in source:
            if base_url is not None:
                raise ModuleError('the server is given twice, as source and as base_url.')
            source, base_url = None, source
        elif source is not None and '/' in source:
            find_source(source)
            if model is not None:
                raise ModuleError(f'the model is given twice, as {source!r} and as model={model!r}.')
            source, _, model = source.partition('/')
        if not isinstance(stream, bool):
            raise ModuleError(f'stream must be True or False, got {stream!r:.60}.')
        if not isinstance(options.get('price'), (Mapping, type(None))):
            what = f'price must be a mapping, got {options["price"]!r:.60}.'
            raise ModuleError(f"{what} Write price={{'input': 1.0, 'output': 4.0}} (US dollars for a million tokens).")
        if base_url is not None and not (isinstance(base_url, str) and base_url.strip()):
            raise ModuleError(f'base_url must be the URL of a server, or None for the default, got {base_url!r:.60}.')
        service = ChatSource('custom', base_url) if source is None and base_url is not None else find_source(source)
        if options.get('prompt_cache') and not service.anthropic:
            raise ModuleError(f"prompt_cache is for Anthropic's models, not for {service.name}: leave it out.")
        entry = {name: value for name, value in options.items() if name in _ENTRY_OPTIONS}
        entry |= _address(service, model, base_url, api_key)
        if stream:
            entry['stream'] = True
        built = (anthropic if service.anthropic else openai).build(entry, name=_NAME)
        timeout = max(options.get('timeout') or 0, 0) or 600.0
        retry_policy = RetryPolicy(seconds=timeout, retries=retries, when_busy=2 * retries)
        self.source = service.name
        self.model = str(entry.get('model') or '')
        thinking = ThinkingPolicy(
            name_author(built),
            'anthropic' if service.anthropic else 'openai',
            resend or _usual_resend(self.source, self.model),
        )
        adapter = AnthropicAdapter(thinking) if service.anthropic else OpenAIAdapter(thinking)
        price = find_price({'model': self.model, 'price': options.get('price')})
        self._vendor = 'mistral' if '//api.mistral.ai/' in f'{built.identity["server"]}/' else self.source
        self._shared = Connection(built, adapter, retry_policy, price)
        weakref.finalize(self._shared, close_model, built)
        self._set_up({name: value for name, value in options.items() if name not in _ENTRY_OPTIONS})

    if not TYPE_CHECKING:
        __init__ = _open

    @property
    def base_url(self) -> str:
        """The URL of the server."""
        return str(self._shared.model.identity['server'])

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: how the module was made, its prompter and tools; no connection, no key."""
        state = {name: value for name, value in self.__dict__.items() if name != '_shared'}
        return {**state, '_made_with': _leave_secrets_out(self._made_with)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(**state['_made_with'])
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> OnlineChatModule:
        """A copy with the same key and a connection of its own."""
        copied = type(self).__new__(type(self))
        copied.__setstate__({**self.__getstate__(), '_made_with': dict(self._made_with)})
        return copied

    def _stop(self) -> None:
        result_of(self._shared.close())  # the next call reopens connections

    def __repr__(self) -> str:
        return f'OnlineChatModule(source={self.source!r}, model={self.model!r}, base_url={self.base_url!r})'

    def _connection(self) -> Connection:
        return self._shared

    def _read_options(self, options: Mapping[str, Any]) -> CallSettings:
        refused = self._shared.model.capabilities.refuses
        return adapt_to_vendor(super()._read_options(options), self._vendor, refused)

    @property
    def _name(self) -> str:
        return self.model or f'the model of {self.base_url}'


def find_source(name: str | None) -> ChatSource:
    """The service of that name (with or without a model); by default the first with a key in the environment.

    >>> find_source('claude').name, find_source('DeepSeek').base_url
    ('anthropic', 'https://api.deepseek.com/v1')
    >>> find_source('opnai')
    Traceback (most recent call last):
    rolecall.apps.chat.module_errors.ModuleError: unknown source 'opnai'. Did you mean 'openai'?
    """
    if name is None:
        service = next((source for source in SOURCES.values() if source.variable), None)
        if service is None:
            raise ModuleError(
                'no source given, and no API key found in the environment. Name a source (openai, ollama, …) or '
                'a base_url, or set a key such as OPENAI_API_KEY.'
            )
        return service
    word = name.partition('/')[0].strip().lower()
    source = SOURCES.get(ALIASES.get(word, word))
    if source is None:
        raise ModuleError(f"unknown source '{name}'. {_suggest_source(name, word)}")
    return source


def _suggest_source(name: str, word: str) -> str:
    """What to write in place of a source that does not exist."""
    if word in PACKAGED or name.lower().endswith('.gguf'):
        return f"It is a model on this machine: use TrainableModule('{name}')."
    if word == 'localhost' or ':' in word or ('.' in word and '/' in name):
        return f"For a server, write OnlineChatModule('http://{name}')."
    if '/' in name and not close_match(word, SOURCES, cutoff=0.9):
        local = f"For a model on this machine, use TrainableModule('{name}')"
        return f"{local}; for a service, put its name first: 'openrouter/{name}'."
    if (vendor := find_service(word)) is not None:
        return f"It is a model: write OnlineChatModule('{vendor}/{name}')."
    hint = did_you_mean(word, [*SOURCES, *ALIASES])
    return hint if hint.startswith('Did') else f"{hint} For a model name, write model='{name}'."


def _leave_secrets_out(made_with: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a module without keys and passwords. Names of environment variables (`$NAME`) are not secret."""
    key = made_with['api_key']
    public = key is None or (isinstance(key, str) and key.startswith('$')) or key == ''
    public_arguments = {**made_with, 'api_key': key if public else None}
    secrets = find_secrets(made_with)
    for name in ('headers', 'extra_headers', 'extra_body', 'generation_kwargs'):
        if isinstance(values := public_arguments.get(name), Mapping):
            public_arguments[name] = _drop_secrets(values, secrets)
    for name in ('source', 'base_url', 'proxy'):
        if isinstance(url := public_arguments.get(name), str) and '://' in url:
            public_arguments[name] = drop_url_secrets(url)
    return public_arguments


def _drop_secrets(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, Mapping):
        public = ((name, item) for name, item in value.items() if not is_secret_name(str(name)))
        return {name: _drop_secrets(item, secrets) for name, item in public if str(item) not in secrets}
    if isinstance(value, (list, tuple)):
        return [_drop_secrets(item, secrets) for item in value if str(item) not in secrets]
    return value


def _usual_resend(source: str, model: str) -> Resend:
    """When a service wants its reasoning back.

    DeepSeek refuses a tool result without the reasoning before it; outside such turns it ignores reasoning, and its
    first reasoners refused it. The others take it back everywhere, and drop what they do not need.
    """
    return 'tool_turns' if 'deepseek' in f'{source} {model}'.lower() else 'always'


def _address(
    source: ChatSource, model: str | None, base_url: str | None, api_key: str | Sequence[str] | None
) -> dict[str, Any]:
    """The part of a model entry that addresses the server."""
    name = model or source.model
    if source.name == 'azure' and base_url is None:
        base_url = azure_url(name)
    kind = 'Claude' if source.anthropic else 'OpenAI' if name else 'VLLMCustomAPIChat'
    entry: dict[str, Any] = {'type': kind, 'model': name}
    url = base_url if base_url is not None else source.base_url
    if url is not None:
        entry['base_url'] = url
    if source.name == 'mistral':
        entry['stream_options'] = False
    key = api_key if api_key is not None else source.key
    return entry if key is None else entry | {'key': key}
