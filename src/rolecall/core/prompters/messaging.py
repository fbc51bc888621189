"""Prompts as messages in OpenAI's and Anthropic's formats, with their spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.core.prompters.call_inputs import PromptCall, is_silent
from rolecall.core.prompters.frame import Frame, Levels
from rolecall.core.prompters.history import HistoryReader, numbered_messages, origin_of
from rolecall.core.prompters.vendors import Message, anthropic_messages, holds_thinking, restore_fields
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Place, Span, texts_of

Body = dict[str, Any]
_INPUT = Origin('field', 'input')
_JOINT = Span('\n', Origin('joint', 'speeches'))


def openai_body(levels: Levels, reader: HistoryReader, call: PromptCall) -> Body:
    """The request body: messages and tools."""
    body = _common_body(levels, reader, call)
    if any(map(holds_thinking, body['messages'])):
        body['messages'] = [restore_fields(message) for message in body['messages']]
    return body


def _common_body(levels: Levels, reader: HistoryReader, call: PromptCall) -> Body:
    """The request body in OpenAI's form, with reasoning as it was kept."""
    row, new, history, tools, label = call
    earlier = reader.messages(history) if history else ()
    opening = levels.opening or levels.write_system(row)
    if new is None:
        messages = [*opening, *earlier, {'role': 'user', 'content': levels.fill_user(row)}]
    else:
        messages = [*opening, *earlier, *_with_prefix(new, levels.prefix_layout.fill(row))]
    if label is not None:
        messages.append({'role': 'assistant', 'content': label} if isinstance(label, str) else dict(label))
    return {'messages': messages, 'tools': tools.openai} if tools else {'messages': messages}


def openai_spans(levels: Levels, reader: HistoryReader, call: PromptCall) -> list[Span]:
    spans = _sources(levels, call, openai_body(levels, reader, call)['messages'])
    return [replace(span, message=i) for i, own in enumerate(spans) for span in own]


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


def _sources(levels: Levels, call: PromptCall, messages: Sequence[Message]) -> list[list[Span]]:
    """The spans of each message, not yet numbered."""
    row, new, history, _, label = call
    spans: list[list[Span]] = []
    if levels.system:
        spans.append(levels.system_layout.trace(row))
    for number, message in numbered_messages(history):
        spans.append(list(_whole(message, origin_of(message, number))))
    if new is None:
        spans.append(levels.user_layout.trace(row))
    else:
        now = messages[len(spans) : len(messages) - (label is not None)]
        spans += _input_spans(now, new, levels.prefix_layout.trace(row))
    if label is not None:
        spans.append(list(_whole(messages[-1], Origin('label', role='assistant'))))
    return spans


def _input_spans(now: Sequence[Message], new: Sequence[Message], prefix: Sequence[Span]) -> Iterator[list[Span]]:
    """The spans of input messages, including the instruction put in front."""
    added = len(now) - len(new)
    for i, message in enumerate(now):
        whole = list(_whole(message, _INPUT))
        if added and i == 0:
            yield list(prefix)
        elif message == new[i - added]:
            yield whole
        elif whole[0].part is None:
            text = str(new[i - added]['content'])
            yield [*prefix, replace(whole[0], text=text)]
        else:
            yield [*(replace(span, part=0) for span in prefix), *whole[1:]]


def _texts(message: Mapping[str, Any]) -> dict[Place, str]:
    return texts_of([message])


def _whole(message: Message, origin: Origin) -> Iterator[Span]:
    for (_, part), text in _texts(message).items():
        yield Span(text, origin, part=part)


@dataclass(frozen=True, slots=True)
class _AnthropicForm:
    """A conversation in Anthropic's format: the indices of system messages, and the others with their sources."""

    levels: Levels
    messages: list[Message]
    system: list[int]
    others: list[tuple[int, Message]]


def _convert(frame: Frame, reader: HistoryReader, call: PromptCall) -> _AnthropicForm:
    """Convert to Anthropic's format. The API rejects an empty user message, so the instruction moves there."""
    levels = frame.turned if is_silent(call) and not frame.plain.user else frame.plain
    messages = _common_body(levels, reader, call)['messages']
    return _AnthropicForm(levels, messages, *anthropic_messages(messages))


def anthropic_body(frame: Frame, reader: HistoryReader, call: PromptCall) -> Body:
    """The request body: system text, messages and tools."""
    form, tools = _convert(frame, reader, call), call[3]
    body: Body = {'messages': [message for _, message in form.others]}
    if words := '\n'.join(_words(form.messages[i]) for i in form.system):
        body = {'system': words, **body}
    if tools:
        body['tools'] = tools.anthropic
    return body


def _words(message: Message) -> str:
    return '\n'.join(_texts(message).values())


def anthropic_spans(frame: Frame, reader: HistoryReader, call: PromptCall) -> list[Span]:
    """The spans of the system text (in no message) and of every message."""
    form = _convert(frame, reader, call)
    sources = _sources(form.levels, call, form.messages)
    spans: list[Span] = []
    for at, i in enumerate(form.system):
        spans += [_JOINT] if at else []
        for k, span in enumerate(sources[i]):
            spans += [_JOINT] if k and span.part != sources[i][k - 1].part else []
            spans.append(replace(span, part=None))
    for number, (i, message) in enumerate(form.others):
        if isinstance(message['content'], str):
            own = sources[i]
        elif isinstance(form.messages[i].get('content'), list):
            own = _keep_spans(sources[i], message)
        else:
            origin = sources[i][0].origin if sources[i] else _INPUT
            own = list(_whole(message, origin))
        spans += [replace(span, message=number) for span in own or [Span('', _INPUT)]]
    return [span for span in spans if span.message is None or _has_place(span, form.others[span.message][1])]


def _keep_spans(spans: Sequence[Span], message: Message) -> list[Span]:
    """The spans of parts that survive conversion; images are rewritten."""
    survivors: list[Span] = []
    for (_, part), text in _texts(message).items():
        own = [span for span in spans if span.part == part]
        same = ''.join(str(span.text) for span in own) == text
        survivors += own if same else [replace(own[0] if own else Span('', _INPUT, part=part), text=text)]
    return survivors


def _has_place(span: Span, message: Message) -> bool:
    return (0, span.part) in _texts(message)
