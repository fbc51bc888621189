"""Renders messages with the model's own chat template.

A chat template is a third-party program. To find origins in its output, the messages are rendered a second time with
private marks around each content; the result is used only if removing the marks gives the same text. Everything else
is labelled as the template's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.core.prompts.multimodal import SpokenParts
from rolecall.core.prompts.pieces import Origin, Row, relabel
from rolecall.core.prompts.script import Script
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.arrange import Note
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.layout import MessageDraft, MessagesLayout
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import API_ROLES, ApiRenderer, Rendered, join_neighbours
from rolecall.core.render.spans import Message, Span
from rolecall.errors import Problem, RenderError, TemplateError

_OWN = Origin('chat_template')


@dataclass(frozen=True, slots=True)
class ChatRenderer:
    """Messages as an API would receive them, formatted by the model's own chat template."""

    template: ChatTemplate
    meta: MetaTemplate = API_ROLES
    tools: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    """More variables for the template, such as enable_thinking."""

    def __post_init__(self) -> None:
        if isinstance(self.template, str):
            object.__setattr__(self, 'template', ChatTemplate(self.template))
        if not hasattr(self.template, 'render'):
            raise TemplateError(Problem('chat_template', f'expected a ChatTemplate, got {self.template!r:.60}.'))
        object.__setattr__(self, 'meta', MetaTemplate.read(self.meta))
        if self.tools and not self.template.supports_tools:
            what = 'the chat template does not print tools.'
            raise TemplateError(Problem('tools', what, 'Describe them in the prompt text.'))

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        drafts, notes = ApiRenderer(self.meta).drafts(script, mode, prefill=prefill)
        if any(draft.role == 'system' for draft in drafts) and not self._takes_system:
            drafts, notes = _without_system(drafts, notes)
        continues = prefill and bool(drafts) and drafts[-1].role == 'assistant'
        asks = mode == 'gen' and not continues
        layout = ChatLayout(MessagesLayout(drafts), self, asks=asks, continues=continues)
        return Rendered(layout, notes)

    @property
    def _takes_system(self) -> bool:
        return self.template.supports_system_with_tools if self.tools else self.template.supports_system


def _without_system(
    drafts: Sequence[MessageDraft], notes: tuple[Note, ...]
) -> tuple[list[MessageDraft], tuple[Note, ...]]:
    """Move system messages to the user, and note it."""
    lost = [
        *notes,
        Note('fallback', 'the system message is sent as user: the chat template does not accept a system role.'),
    ]
    changed = [_as_user(draft) if draft.role == 'system' else draft for draft in drafts]
    return join_neighbours(changed, lost), tuple(lost)


def _as_user(draft: MessageDraft) -> MessageDraft:
    if not isinstance(draft.content, tuple):
        return replace(draft, role='user', content=SpokenParts(draft.content, fallback='user'))
    return replace(draft, role='user', content=relabel(draft.content, lambda origin: replace(origin, fallback='user')))


@dataclass(slots=True, eq=False)
class ChatLayout:
    """Text that the model's chat template makes from messages."""

    messages: MessagesLayout
    """The messages before the chat template."""
    renderer: ChatRenderer
    asks: bool
    continues: bool

    def fill(self, row: Row) -> str:
        return self._write(self.messages.fill(row))

    def trace(self, row: Row) -> list[Span]:
        return trace_chat_text(self._write, self.messages.fill(row), self.messages.trace(row))

    def _write(self, messages: Sequence[Message]) -> str:
        return self.renderer.template.render(
            messages,
            tools=list(self.renderer.tools) or None,
            add_generation_prompt=self.asks,
            continue_final_message=self.continues,
            variables=self.renderer.variables,
        )


Write = Callable[[Sequence[Message]], str]
"""Makes the text of messages."""


def trace_chat_text(write: Write, messages: Sequence[Message], spans: Sequence[Span]) -> list[Span]:
    """The text that a chat template makes of messages, with the origins of their contents."""
    text = write(messages)
    for trim in (False, True):
        ranges = _locate(write, messages, text, trim=trim)
        if ranges is not None:
            return _label_text(text, ranges, messages, spans)
    return [Span(text, _OWN)]


def _locate(write: Write, messages: Sequence[Message], text: str, *, trim: bool) -> list[tuple[int, int, int]] | None:
    """The place of each message's content in the text: (message, start, stop), or None if unknown."""
    marks = _Marks.unused_in(text)
    marked = [marks.mark_message(i, message, trim=trim) for i, message in enumerate(messages)]
    try:
        ranges = marks.find(write(marked), text)
    except RenderError:  # a template that inspects contents may reject marked ones
        return None
    if ranges is None or not all(
        i < len(messages) and text[start:stop] in str(messages[i].get('content')) for i, start, stop in ranges
    ):
        return None
    return ranges


@dataclass(frozen=True, slots=True)
class _Marks:
    """Private marks around contents for the second rendering."""

    open: str
    close: str

    @classmethod
    def unused_in(cls, text: str) -> _Marks:
        """A pair of marks that does not occur in the text."""
        n = 0
        while f'\ue000{n}' in text or f'\ue001{n}' in text:
            n += 1
        return cls(f'\ue000{n}.', f'\ue001{n}.')

    def mark_message(self, number: int, message: Message, *, trim: bool) -> Message:
        content = message.get('content')
        if not isinstance(content, str) or not content.strip():
            return message
        core = content.strip() if trim else content
        before, after = content.split(core, 1) if trim else ('', '')
        return {**message, 'content': f'{before}{self.open}{number};{core}{self.close}{after}'}

    def find(self, marked: str, text: str) -> list[tuple[int, int, int]] | None:
        """The places of the marked contents; None if a mark is broken or the text differs."""
        ranges: list[tuple[int, int, int]] = []
        plain = ''
        at = 0
        pattern = f'{re.escape(self.open)}([0-9]{{1,9}});(.*?){re.escape(self.close)}'
        for match in re.finditer(pattern, marked, re.DOTALL):
            plain += marked[at : match.start()]
            ranges.append((int(match[1]), len(plain), len(plain) + len(match[2])))
            plain += match[2]
            at = match.end()
        return ranges if plain + marked[at:] == text else None


def _label_text(
    text: str, ranges: Sequence[tuple[int, int, int]], messages: Sequence[Message], spans: Sequence[Span]
) -> list[Span]:
    """Split the text into the contents' spans and the template's text between them."""
    labelled: list[Span] = []
    at = 0
    for number, start, stop in ranges:
        if start > at:
            labelled.append(Span(text[at:start], _OWN))
        labelled += _content_spans(text[start:stop], messages[number], [s for s in spans if s.message == number])
        at = stop
    if at < len(text):
        labelled.append(Span(text[at:], _OWN))
    return labelled


def _content_spans(content: str, message: Message, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans of one content, cut to the part that is shown."""
    skip = str(message['content']).find(content)
    left = len(content)
    for span in spans:
        text = str(span.text)
        taken = text[skip : skip + left] if skip < len(text) else ''
        skip = max(0, skip - len(text))
        left -= len(taken)
        if taken:
            yield Span(taken, span.origin)
