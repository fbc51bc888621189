"""A model's entry in a config, understood as far as prompts go. No weights, server or key are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.checking import Problems, is_whole
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import MetaTemplate, find_meta_template
from rolecall.core.render.renderers import API_ROLES, ApiRenderer, Renderer, TextRenderer
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, DataError, MissingExtraError, Problem, RenderError
from rolecall.experiment.opening.fitting import CutSide, TokenBudget
from rolecall.models.backends import (
    CHAT_BY_DEFAULT,
    EXPERIMENTAL,
    TAKES_TOKEN_IDS,
    ModelKind,
    backend_of,
    build_model,
    model_kind,
    with_default_path,
)
from rolecall.models.protocol import Model, ModelError
from rolecall.models.pull import PACKAGED, cached_path, model_path
from rolecall.models.token_counter import TokenCounter
from rolecall.models.tokenizers.tokenizer import find_chat_settings, model_folder
from rolecall.registry import bare_name, part_name

if TYPE_CHECKING:
    from rolecall.models.http.server_facts import ServerFacts

_OTHERS = ('fastchat_template',)
"""Keys of other systems that look like a slip of one of ours."""

_EMPTY_MESSAGE: Mapping[str, Any] = {'role': 'user', 'content': ''}


@dataclass(frozen=True)
class ModelEntry:
    """One model of a config: how it is addressed, and how much it can take."""

    abbr: str
    entry: Mapping[str, Any]
    where: str
    kind: ModelKind
    renderer: Renderer
    meta: MetaTemplate | None = None
    uses_own_template: bool = False
    """Whether the chat template in the model's files is used because the entry gives no template."""

    @property
    def note(self) -> str:
        """What people should know about how this model is addressed or run; usually nothing."""
        notes = []
        if self.uses_own_template:
            notes.append("uses the model's own chat template; chat_template=False sends bare text.")
        if backend_of(self.entry) == 'vllm':
            notes.append(EXPERIMENTAL)
        return ' '.join([f'{self.abbr}:', *notes]) if notes else ''

    @property
    def takes_token_ids(self) -> bool:
        """Whether the model runs in this process, on text and token ids that rolecall hands to it."""
        return backend_of(self.entry) in TAKES_TOKEN_IDS

    @property
    def ignores_own_template(self) -> bool:
        """Whether prompts are sent as bare text although the model's files have a chat template, by oversight."""
        bare = isinstance(self.renderer, TextRenderer) and self.meta is None
        if not bare or self.entry.get('chat_template') is False:
            return False
        try:
            return bool(_tokenizer_settings(self.entry, insist=False).get('chat_template'))
        except (DataError, MissingExtraError):
            return False

    @cached_property
    def model(self) -> Model:
        """The model itself, without weights or connections until it is asked. Raises what is wrong with the entry."""
        return build_model(self.entry, name=self.abbr)

    @property
    def max_seq_len(self) -> int | None:
        """The context limit in tokens, where it is known: stated in the entry, in the model's files, by the server."""
        stated, path = self.entry.get('max_seq_len'), self.entry.get('path')
        has_files = isinstance(path, str) and (
            path in PACKAGED or cached_path(path) is not None or model_folder(path) is not None
        )
        if has_files or backend_of(self.entry) == 'openai.model':
            try:
                return self.model.max_seq_len
            except _NOT_BUILT:
                pass
        return stated if is_whole(stated, least=1) else None

    @property
    def server(self) -> ServerFacts | None:
        """What was found out about the model's server when it was last asked; nothing is asked here."""
        try:
            facts: ServerFacts | None = (
                getattr(self.model, 'facts', None) if backend_of(self.entry) == 'openai.model' else None
            )
        except _NOT_BUILT:
            return None
        return facts

    def count(self, request: Request) -> int | None:
        """The number of input tokens, by the model's own tokenizer and chat template; None if it is not at hand."""
        try:
            return self._count(request)
        except (*_NOT_BUILT, ModelError):  # a broken tokenizer, or a request that this model cannot take
            return None

    def budget(
        self, *, reserved: int | None, max_seq_len: int | None = None, truncate: CutSide | None = None
    ) -> TokenBudget:
        """How long a request may be: the shorter of the two limits, less what is reserved for the answer."""
        limit = min((length for length in (max_seq_len, self.max_seq_len) if length is not None), default=None)
        added = 0
        if limit is not None and isinstance(self.renderer, ApiRenderer):
            added = self.count([_EMPTY_MESSAGE]) or 0
        return TokenBudget(limit, reserved or 0, truncate, added)

    @cached_property
    def _count(self) -> Callable[[Request], int | None]:
        try:
            return self.model.count
        except _NOT_BUILT:  # a model that cannot be run here can still be previewed
            return TokenCounter(self.entry).count


_NOT_BUILT = (ConfigError, MissingExtraError, DataError)


def open_model_entry(entry: Mapping[str, Any]) -> ModelEntry:
    """A model entry on its own; all its problems are raised together."""
    problems = Problems()
    built = build_model_entry(entry, 'model', problems)
    problems.raise_all()
    if built is None:
        raise ConfigError(Problem('model', 'the entry cannot be used.'))
    return built


def build_model_entry(entry: Mapping[str, Any], where: str, problems: Problems) -> ModelEntry | None:
    """Understand one model entry; None if it has problems (which are taken down)."""
    before = len(problems.items)
    abbr, entry = model_abbr(entry), with_default_path(entry)
    problems.misspelt_keys(where, entry, ('meta_template', 'chat_template', 'max_out_len', 'max_seq_len', *_OTHERS))
    meta = None
    meta_entry = entry.get('meta_template')
    if meta_entry is not None:
        with problems.inside(f'{where}.meta_template'):
            meta = MetaTemplate.read(find_meta_template(meta_entry))
    kind = _kind(entry, meta)
    renderer: Renderer
    own = None
    if (
        kind == 'text'
        and meta is None
        and entry.get('chat_template') is None
        and bare_name(entry.get('type')) in CHAT_BY_DEFAULT
    ):
        own = _chat_template(entry, where, problems)
    if own is not None:
        kind, renderer = 'chat', ChatRenderer(own, API_ROLES)
    elif kind == 'api':
        renderer = ApiRenderer(meta or API_ROLES)
    elif kind == 'chat' and (template := _chat_template(entry, where, problems)) is not None:
        renderer = ChatRenderer(template, meta or API_ROLES)
    elif kind == 'chat':
        renderer = ApiRenderer(meta or API_ROLES)
    else:
        renderer = TextRenderer(meta)
    if len(problems.items) > before:
        return None
    return ModelEntry(abbr, entry, where, kind, renderer, meta, uses_own_template=own is not None)


def model_abbr(entry: Mapping[str, Any]) -> str:
    """What a model is called: its `abbr`, or its type and path."""
    if entry.get('abbr'):
        return str(entry['abbr'])
    path = entry.get('path')
    name = part_name(entry.get('type', 'model'))
    return f'{name}_{Path(path).name}' if isinstance(path, str) and path not in ('', 'none') else name


def _kind(entry: Mapping[str, Any], meta: MetaTemplate | None) -> ModelKind:
    """By the type; for a type of the user's own that does not say, by what the meta template says."""
    kind = model_kind(entry.get('type', ''))
    if entry.get('chat_template') and kind in (None, 'text'):
        return 'chat'
    if kind is not None:
        return kind
    stated = entry.get('meta_template')
    rounds = stated.get('round') if isinstance(stated, Mapping) else None
    roles = rounds if isinstance(rounds, (list, tuple)) else ()
    speaks_api = any(isinstance(role, Mapping) and 'api_role' in role for role in roles)
    return 'api' if speaks_api or entry.get('chat') is True or (meta is not None and meta.messages) else 'text'


def _chat_template(entry: Mapping[str, Any], where: str, problems: Problems) -> ChatTemplate | None:
    """The model's own template: given in the entry, or found in its files; None if it is not at hand.

    A packaged model is fetched for it. `chat_template=True` insists on it: then not finding one is a problem.
    """
    stated = entry.get('chat_template')
    try:
        if isinstance(stated, str):
            return ChatTemplate(stated, bos_token=entry.get('bos_token', ''), eos_token=entry.get('eos_token', ''))
        settings = _tokenizer_settings(entry, insist=stated is not False)
        if settings.get('chat_template'):
            return ChatTemplate.from_tokenizer_config(settings)
    except (RenderError, DataError, ModelError) as error:
        problems.add(f'{where}.chat_template', str(error))
        return None
    if stated is True:
        what = "the model's own chat template was not found."
        remedy = 'Name a folder with tokenizer_config.json or a .gguf file as path, or give the template itself.'
        problems.add(f'{where}.chat_template', what, remedy)
    return None


def _tokenizer_settings(entry: Mapping[str, Any], *, insist: bool) -> Mapping[str, Any]:
    """What a model's files say about its chat template and special tokens; nothing if there are no files."""
    path = entry.get('tokenizer_path') or entry.get('path')
    if not isinstance(path, str):
        return {}
    weights = model_path(path) if insist and path in PACKAGED else cached_path(path)
    return find_chat_settings(weights or model_folder(path) or path)
