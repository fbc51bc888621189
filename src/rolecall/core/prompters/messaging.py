"""Prompts as messages in OpenAI's and Anthropic's formats, with their spans; and the token ids of a traced prompt.

A trace runs the same conversion as a prompt, on texts that carry their spans.

A user who types `<|im_end|>` means those ten characters, not a special token. A tokenizer that sees only the finished
string cannot tell the two apart; the spans can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from rolecall.core.program import Trace, fingerprint
from rolecall.core.prompters.call_inputs import PromptCall, is_silent
from rolecall.core.prompters.frame import Frame, Levels
from rolecall.core.prompters.history import HistoryReader, numbered_messages, origin_of
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import Message, anthropic_messages, holds_thinking, restore_fields
from rolecall.core.prompts.multimodal import part_text
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Place, Span, texts_of

Body = dict[str, Any]
_INPUT = Origin('field', 'input')
_LABEL = Origin('label', role='assistant')
_JOINT = Span('\n', Origin('joint', 'speeches'))
_ORIGIN = '\0origin'
"""The key of a traced message for the origin of texts that its conversion writes anew."""


class TracedText(str):
    """A text that carries its spans."""

    spans: tuple[Span, ...]

    def __new__(cls, spans: Sequence[Span]) -> TracedText:
        text = super().__new__(cls, ''.join(str(span.text) for span in spans))
        text.spans = tuple(spans)
        return text

    def __add__(self, other: str) -> TracedText:
        return TracedText((*self.spans, *(other.spans if isinstance(other, TracedText) else ())))


def openai_body(levels: Levels, reader: HistoryReader, call: PromptCall) -> Body:
    """The request body: messages and tools."""
    messages, tools = _restore_thinking(_write_messages(levels, reader, call)), call[3]
    return {'messages': messages, 'tools': tools.openai} if tools else {'messages': messages}


def openai_spans(levels: Levels, call: PromptCall) -> list[Span]:
    messages = _restore_thinking(_trace_messages(levels, call))
    return [span for i, message in enumerate(messages) for span in _spans_of(message, message[_ORIGIN], i)]


def _restore_thinking(messages: list[Message]) -> list[Message]:
    return [restore_fields(message) for message in messages] if any(map(holds_thinking, messages)) else messages


def _write_messages(levels: Levels, reader: HistoryReader, call: PromptCall) -> list[Message]:
    """The messages in OpenAI's form, with reasoning as it was kept."""
    row, new, history, _, label = call
    opening = levels.opening or levels.write_system(row)
    earlier = reader.messages(history) if history else ()
    if new is None:
        messages = [*opening, *earlier, {'role': 'user', 'content': levels.fill_user(row)}]
    else:
        messages = [*opening, *earlier, *_with_prefix(new, levels.prefix_layout.fill(row))]
    if label is not None:
        messages.append({'role': 'assistant', 'content': label} if isinstance(label, str) else dict(label))
    return messages


def _trace_messages(levels: Levels, call: PromptCall) -> list[Message]:
    """The same messages, with texts that carry their spans."""
    row, new, history, _, label = call
    messages = []
    if levels.system:
        messages.append({'role': 'system', 'content': TracedText(levels.system_layout.trace(row))})
    messages += [_trace(message, origin_of(message, number)) for number, message in numbered_messages(history)]
    if new is None:
        messages.append({'role': 'user', 'content': TracedText(levels.user_layout.trace(row))})
    else:
        prefix = TracedText(levels.prefix_layout.trace(row))
        messages += _with_prefix([_trace(message, _INPUT) for message in new], prefix)
    if label is not None:
        answer = {'role': 'assistant', 'content': label} if isinstance(label, str) else label
        messages.append(_trace(answer, _LABEL))
    return [{_ORIGIN: _INPUT, **message} for message in messages]


def _trace(message: Mapping[str, Any], origin: Origin) -> Message:
    content = message.get('content')
    if isinstance(content, str):
        content = TracedText([Span(content, origin)])
    elif isinstance(content, (list, tuple)):
        content = [
            {**part, 'text': TracedText([Span(part['text'], origin)])} if isinstance(part.get('text'), str) else part
            for part in content
        ]
    return {**message, 'content': content, _ORIGIN: origin}


def _with_prefix(messages: Sequence[Message], prefix: str) -> list[Message]:
    """Put the user-level instruction before the user's last text, or first if there is no user message."""
    if not prefix:
        return list(messages)
    last = max((i for i, message in enumerate(messages) if message['role'] == 'user'), default=None)
    if last is None:
        return [{'role': 'user', 'content': prefix}, *messages]
    content = messages[last]['content']
    prefixed = [{'type': 'text', 'text': prefix}, *content] if isinstance(content, list) else prefix + content
    return [*messages[:last], {**messages[last], 'content': prefixed}, *messages[last + 1 :]]


def _spans_of(message: Mapping[str, Any], origin: Origin, number: int) -> Iterator[Span]:
    """The spans of a message; texts that carry none have this origin."""
    for part, text in _texts_of(message):
        spans = text.spans if isinstance(text, TracedText) else (Span(text, origin),)
        yield from (replace(span, message=number, part=part) for span in spans)


def _texts_of(message: Mapping[str, Any]) -> list[tuple[int | None, str]]:
    """The texts of a message, each with the number of its part."""
    content = message.get('content')
    if isinstance(content, str):
        return [(None, content)] if content else []
    return [(part, text) for part, block in enumerate(content or ()) if (text := part_text(block))]


def _levels_for(frame: Frame, call: PromptCall) -> Levels:
    """Anthropic's API rejects an empty user message, so the instruction moves there."""
    return frame.turned if is_silent(call) and not frame.plain.user else frame.plain


def anthropic_body(frame: Frame, reader: HistoryReader, call: PromptCall) -> Body:
    """The request body: system text, messages and tools."""
    messages = _write_messages(_levels_for(frame, call), reader, call)
    system, others = anthropic_messages(messages)
    body: Body = {'messages': [message for _, message in others]}
    if words := '\n'.join('\n'.join(text for _, text in _texts_of(messages[i])) for i in system):
        body = {'system': words, **body}
    tools: Tools | None = call[3]
    if tools:
        body['tools'] = tools.anthropic
    return body


def anthropic_spans(frame: Frame, call: PromptCall) -> list[Span]:
    """The spans of the system text (in no message) and of every message."""
    messages = _trace_messages(_levels_for(frame, call), call)
    system, others = anthropic_messages(messages)
    spans: list[Span] = []
    for at, i in enumerate(system):
        parts: list[Span] = list(_spans_of(messages[i], messages[i][_ORIGIN], i))
        spans += [_JOINT] if at else []
        for k, span in enumerate(parts):
            spans += [_JOINT] if k and span.part != parts[k - 1].part else []
            spans.append(replace(span, message=None, part=None))
    for number, (i, message) in enumerate(others):
        spans += _spans_of(message, messages[i][_ORIGIN], number)
    return spans


Encode = Callable[[str], Sequence[int]]
_MODEL_SIDE = ('marker', 'chat_template')


@dataclass(frozen=True, slots=True)
class PromptTrace(Trace):
    """A prompt with the origin of each character.

    `request` is the string or the messages; `body` is the whole result of `generate_prompt`, including tools and
    system text next to the messages.
    """

    body: Any = None

    @property
    def texts(self) -> dict[Place, str]:
        """The text of each place, to which the spans join; Anthropic's system text is at (None, None)."""
        texts = texts_of(self.request)
        if isinstance(self.body, dict) and 'system' in self.body:
            texts[(None, None)] = self.body['system']
        return texts

    @property
    def fingerprint(self) -> str:
        """The hash of what is sent."""
        beside = self.body if isinstance(self.body, dict) else {}
        return fingerprint(self.request, **{key: value for key, value in beside.items() if key != 'messages'})


def encode_trace(trace: Trace, *, special: Encode, plain: Encode) -> list[int]:
    """The token ids of a prompt: the model's own text encoded with `special`, all other text with `plain`.

    `special` recognises special tokens, `plain` reads them as ordinary characters. Adjacent text is encoded together.

    >>> from rolecall import ChatPrompter
    >>> trace = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='').trace('</u>')
    >>> encode_trace(trace, special=lambda text: [text.count('</u>')], plain=lambda text: [0])
    [0, 0, 0, 1]
    """
    ids: list[int] = []
    for own, spans in groupby(filter(_has_text, trace.spans), key=_is_model_side):
        for token, run in groupby(spans, key=lambda span: span.token):
            words = ''.join(str(span.text) for span in run)
            ids += [token] if token is not None else (special if own else plain)(words)
    return ids


def has_special_token(trace: Trace, tokens: Iterable[str]) -> bool:
    """Whether text that is not the model's own contains one of these special tokens.

    >>> from rolecall import ChatPrompter
    >>> chat = ChatPrompter('Hi').bind({'soh': '<u>', 'eoh': '</u>'}, system='')
    >>> has_special_token(chat.trace('a'), ['</u>']), has_special_token(chat.trace('</u>'), ['</u>'])
    (False, True)
    """
    runs = [
        ''.join(str(span.text) for span in spans)
        for own, spans in groupby(filter(_has_text, trace.spans), key=_is_model_side)
        if not own
    ]
    return any(token in words for words in runs for token in tokens)


def _has_text(span: Span) -> bool:
    return span.token is not None or bool(span.text)


def _is_model_side(span: Span) -> bool:
    return span.origin.kind in _MODEL_SIDE
