"""How a prompter's words reach a model: as messages of one vendor or the other, or as the text it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol, cast

from rolecall.models.base import Reply
from rolecall.models.tokenizers import Tokenizer
from rolecall.models.transformers_answering import thought
from rolecall.modules.calling import calls_in
from rolecall.modules.errors import ModuleError
from rolecall.modules.replies import Message
from rolecall.prompters.base import Prompter
from rolecall.prompters.encoding import encoded, says_special
from rolecall.prompters.tokens import DEFAULT_TOKENS
from rolecall.render.chat import ChatRenderer
from rolecall.render.chat_template import ChatTemplate
from rolecall.render.spans import Request

__all__ = ['AnthropicSpeaker', 'Asked', 'OpenAISpeaker', 'Speaker', 'TextSpeaker']


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of a module is about."""

    input: Any
    history: Sequence[Any] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None


class Worded(NamedTuple):
    """A request, what goes beside it, and how it reads (where it is sent as token ids)."""

    request: Request
    beside: Mapping[str, Any]
    reads: Request


class Speaker(Protocol):
    """The way to address one kind of model."""

    @property
    def writes_calls(self) -> bool:
        """Whether calls of tools stand in the model's text."""

    def word(self, prompter: Prompter, asked: Asked, said: Sequence[Message]) -> Worded:
        """The request for a call, after which everything in `said` was said."""

    def must_hear_tools(self, prompter: Prompter) -> None:
        """Refuse a prompter with which the results of tools could not be told."""

    def heard(self, reply: Reply, prompter: Prompter, asked: Asked) -> Reply:
        """The reply, with thinking and calls of tools taken out of its text."""


class OpenAISpeaker:
    """Messages in OpenAI's shape."""

    writes_calls = False

    def must_hear_tools(self, prompter: Prompter) -> None:
        """Messages can hold everything."""

    def word(self, prompter: Prompter, asked: Asked, said: Sequence[Message]) -> Worded:
        body = prompter.generate_prompt(asked.input, asked.history, asked.tools, format='openai')
        messages = [*body['messages'], *said]
        return Worded(messages, _tools_of(body), messages)

    def heard(self, reply: Reply, prompter: Prompter, asked: Asked) -> Reply:
        return reply


class AnthropicSpeaker:
    """Messages in Anthropic's shape. The system's words go first; the model's client puts them in their place."""

    writes_calls = False

    def must_hear_tools(self, prompter: Prompter) -> None:
        """Messages can hold everything."""

    def word(self, prompter: Prompter, asked: Asked, said: Sequence[Message]) -> Worded:
        body = prompter.generate_prompt(asked.input, asked.history, asked.tools, format='anthropic')
        system = [{'role': 'system', 'content': body['system']}] if body.get('system') else []
        messages = [*system, *body['messages'], *said]
        return Worded(messages, _tools_of(body), messages)

    def heard(self, reply: Reply, prompter: Prompter, asked: Asked) -> Reply:
        return reply


def _tools_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {'tools': list(body['tools'])} if body.get('tools') else {}


class TextSpeaker:
    """Text, by the model's own chat template where it has one, between the usual markers where it has none.

    A prompter that is bound to a model already stays bound to that. Where somebody types a special token of the model,
    the request is token ids in which those are ordinary characters.
    """

    writes_calls = True

    def __init__(
        self, template: ChatTemplate | None, *, tokenizer: Callable[[], Tokenizer | None] = lambda: None
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._bound = lru_cache(maxsize=32)(self._bind)

    def word(self, prompter: Prompter, asked: Asked, said: Sequence[Message]) -> Worded:
        bound = self._bound(prompter) if not said else self._bind(prompter, said)
        given = (asked.input, asked.history, asked.tools)
        text: str = bound.generate_prompt(*given)
        tokenizer = self._tokenizer()
        tokens = [] if tokenizer is None else [token for token in tokenizer.special_tokens if token in text]
        if tokenizer is None or not tokens:
            return Worded(text, {}, text)
        trace = bound.trace(*given)
        if not says_special(trace, tokens):
            return Worded(text, {}, text)
        ids = encoded(trace, special=tokenizer.encode, plain=partial(tokenizer.encode, special=False))
        return Worded(list(ids), {}, text)

    def heard(self, reply: Reply, prompter: Prompter, asked: Asked) -> Reply:
        reply = reply if reply.reasoning else thought(reply)
        offered = asked.tools or prompter.tools
        if not offered or reply.tool_calls or reply.outcome != 'ok':
            return reply
        names = [tool.get('function', tool).get('name') for tool in offered]
        text, calls = calls_in(reply.text, names)
        return replace(reply, text=text, tool_calls=calls) if calls else reply

    def must_hear_tools(self, prompter: Prompter) -> None:
        """Refuse what cannot tell a model the results of tools, before any is run."""
        if prompter.model is not None:
            raise ModuleError(
                "a prompter that is bound to a model does not know how to go on after a tool's result. "
                'Give the module the prompter as it is, not bound.'
            )
        if self._template is None:
            raise ModuleError('this model has no chat template to write the results of tools with. Use one that has.')

    def _bind(self, prompter: Prompter, said: Sequence[Message] = ()) -> Prompter:
        if prompter.model is not None and not said:
            return prompter
        if self._template is None or prompter.model is not None:
            if said:
                self.must_hear_tools(prompter)
            return prompter.bind(DEFAULT_TOKENS)
        if not said:
            return prompter.bind(ChatRenderer(self._template))
        more = said if self._template.supports_tools else [_in_words(message) for message in said]
        return prompter.bind(ChatRenderer(cast(ChatTemplate, _Continued(self._template, more))))


def _in_words(message: Message) -> Message:
    """A call or a result as plain speech, for chat templates that know neither."""
    if message['role'] == 'tool':
        return {'role': 'user', 'content': f'{message["name"]}: {message["content"]}'}
    calls = ', '.join(str(call['function']['name']) for call in message.get('tool_calls') or ())
    return {'role': 'assistant', 'content': message['content'] or f'I call {calls}.'}


class _Continued:
    """A chat template that goes on with what was said after the prompt."""

    def __init__(self, template: ChatTemplate, more: Sequence[Message]) -> None:
        self._template = template
        self._more = more

    def __getattr__(self, name: str) -> Any:
        return getattr(self._template, name)

    def render(self, messages: Sequence[Message], **options: Any) -> str:
        return self._template.render([*messages, *self._more], **options)
