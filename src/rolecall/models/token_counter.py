"""Counts a request's tokens with the model's tokenizer and, for messages, its chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import META_TEMPLATES
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_chat_template, find_tokenizer, model_folder

_REMEMBERED = 50_000
OLDEST_DROPPED = 'the server drops the oldest messages'
_ROLES = {'user': 'HUMAN', 'assistant': 'BOT', 'system': 'SYSTEM'}
_KEYS = ('type', 'tokenizer', 'tokenizer_path', 'path', 'model', 'chat_template', 'bos_token', 'eos_token', 'files')


class TokenCounter:
    """Token counts for one model entry. The tokenizer is loaded on first use; nothing is downloaded.

    >>> TokenCounter({'path': 'none'}).count([1, 2, 3]), TokenCounter({'path': 'none'}).count('Hi')
    (3, None)
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = {key: entry[key] for key in _KEYS if key in entry}
        self._sizes: dict[int, int] = {}
        """Tokens of texts by their 64-bit hash: the plan, the fitting and the receipt count the same prompts."""

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        files = self._entry.get('files')
        return find_tokenizer(self._entry) or (find_tokenizer({'path': files}) if files else None)

    def with_files(self, files: str) -> TokenCounter:
        """The same for a model whose server says where its files are; those that the entry names come first."""
        return TokenCounter({**self._entry, 'files': files})

    def count(self, request: Request, **more: Any) -> int | None:
        """The exact number of input tokens, or None. `more` (`tools`, `variables`) is for the chat template."""
        if isinstance(request, str):
            return self._text(request, bos=True)
        if all(isinstance(entry, Mapping) for entry in request):
            return self._messages(request, more)
        counts = [1 if isinstance(entry, int) else self._text(str(entry)) for entry in request]
        return None if None in counts else sum(filter(None, counts))

    def ids(self, request: list[int | str]) -> list[int] | None:
        """The token ids of ids and strings, or None where the strings cannot be tokenized here."""
        if all(isinstance(entry, int) for entry in request):
            return [entry for entry in request if isinstance(entry, int)]
        if self.tokenizer is None:
            return None
        ids: list[int] = []
        for entry in request:
            ids += [entry] if isinstance(entry, int) else self.tokenizer.encode(entry)
        return ids

    def _text(self, text: str, *, bos: bool = False) -> int | None:
        tokenizer = self.tokenizer
        if tokenizer is None:
            return None
        size = self._sizes.get(key := hash(text))
        if size is None:
            size = tokenizer.count(text)
            if len(self._sizes) < _REMEMBERED:
                self._sizes[key] = size
        return size + (bos and tokenizer.adds_bos)

    def _messages(self, messages: Any, more: Mapping[str, Any]) -> int | None:
        template = self.template
        if not all(isinstance(message.get('content'), str) for message in messages):
            return None
        if template is None:
            return None if more else self._openai_messages(messages)
        try:
            return self._text(template.render(messages, **more))
        except RenderError:
            return None

    def _openai_messages(self, messages: Any) -> int | None:
        """By OpenAI's published rule: three tokens around each message, and three that begin the answer."""
        tokenizer = self.tokenizer
        if tokenizer is None or not tokenizer.name.startswith('tiktoken:'):
            return None
        if any(set(message) - {'role', 'content'} for message in messages):
            return None  # the rule says nothing about names and tool calls
        texts = [str(message.get(key, '')) for message in messages for key in ('role', 'content')]
        return sum(map(tokenizer.count, texts)) + 3 * len(messages) + 3

    def other_readings(self, request: Request) -> Iterator[tuple[str, int]]:
        """What a server may have made of a request instead, as a phrase, with the tokens it would count."""
        tokenizer, count = self.tokenizer, self.count(request)
        if tokenizer is None or count is None:
            return
        if tokenizer.bos_id is not None:
            yield 'the server adds a second BOS token', count + 1
            yield 'the server leaves out the BOS token', count - 1
        if isinstance(request, str) or not all(isinstance(entry, Mapping) for entry in request):
            return
        messages: Any = request
        for phrase, text in self._other_texts(messages):
            yield phrase, tokenizer.count(text)

    def _other_texts(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
        """The texts that a server may have made of messages instead."""
        spoken = [message for message in messages if message.get('role') != 'system']
        if self.template is not None:
            try:
                if len(spoken) < len(messages):
                    yield 'the server drops the system message', self.template.render(spoken)
                yield (
                    'the server adds no generation prompt',
                    self.template.render(messages, add_generation_prompt=False),
                )
                system = [message for message in messages if message.get('role') == 'system']
                for start in range(1, len(spoken)):
                    yield OLDEST_DROPPED, self.template.render([*system, *spoken[start:]])
            except RenderError:
                pass
        yield 'the server applies no chat template', '\n'.join(str(message['content']) for message in messages)
        for name in META_TEMPLATES:
            if (text := _write_dialogue(META_TEMPLATES[name], messages)) is not None:
                yield f'the server uses the chat template of {name}', text
                yield (
                    f'the server uses the chat template of {name} without a BOS token',
                    text.removeprefix(str(META_TEMPLATES[name].get('begin', ''))),
                )

    @cached_property
    def template(self) -> ChatTemplate | None:
        source = self._entry.get('chat_template')
        if isinstance(source, str):
            bos, eos = (str(self._entry.get(name) or '') for name in ('bos_token', 'eos_token'))
            return ChatTemplate(source, bos_token=bos, eos_token=eos)
        names = [str(self._entry[key]) for key in ('tokenizer_path', 'path', 'files') if self._entry.get(key)]
        templates = (find_chat_template(model_folder(name) or name) for name in names)
        return next((template for template in templates if template is not None), None)


def _write_dialogue(meta: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Messages in the format of a meta template, up to where the model answers; None if it has no such role."""
    roles = {entry['role']: entry for entry in (*meta['round'], *meta.get('reserved_roles', ()))}
    speeches = [roles.get(_ROLES.get(str(message.get('role')), '')) for message in messages]
    if None in speeches or any('api_role' in entry for entry in roles.values()):
        return None
    texts = (
        f'{entry["begin"]}{message["content"]}{entry["end"]}'
        for entry, message in zip(speeches, messages, strict=True)
        if entry is not None
    )
    return f'{meta.get("begin", "")}{"".join(texts)}{roles["BOT"]["begin"]}'
