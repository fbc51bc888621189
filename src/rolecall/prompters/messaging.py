"""Prompts as messages, in OpenAI's and in Anthropic's shape, and the spans of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.prompters.asking import Asked
from rolecall.prompters.frame import Frame, Levels
from rolecall.prompters.history import messages_in, numbered_messages, origin_of
from rolecall.prompters.vendors import Message, anthropic_messages
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Place, Span, texts_of

__all__ = ['Body', 'anthropic_body', 'anthropic_spans', 'openai_body', 'openai_spans']

Body = dict[str, Any]
_INPUT = Origin('field', 'input')
_JOINT = Span('\n', Origin('joint', 'speeches'))


def openai_body(frame: Frame, asked: Asked) -> Body:
    """Messages, and tools beside them."""
    messages = _messages(frame.plain, asked)
    return {'messages': messages, 'tools': asked.tools.openai} if asked.tools else {'messages': messages}


def openai_spans(frame: Frame, asked: Asked) -> list[Span]:
    """The spans of every message."""
    spans = _sources(frame.plain, asked, _messages(frame.plain, asked))
    return [replace(span, message=i) for i, own in enumerate(spans) for span in own]


def _messages(levels: Levels, asked: Asked) -> list[Message]:
    row, given, history, _, label = asked
    messages: list[Message] = [{'role': 'system', 'content': levels.fill_system(row)}] if levels.system else []
    if history:
        messages += messages_in(history)
    if given is None:
        messages.append({'role': 'user', 'content': levels.fill_user(row)})
    else:
        messages += _with_prefix(given, levels.prefix_layout.fill(row))
    if label is not None:
        messages.append({'role': 'assistant', 'content': label})
    return messages


def _with_prefix(messages: Sequence[Message], prefix: str) -> list[Message]:
    """The user-level instruction in front of the user's last words, or of everything if the user says nothing."""
    if not prefix:
        return list(messages)
    last = max((i for i, message in enumerate(messages) if message['role'] == 'user'), default=None)
    if last is None:
        return [{'role': 'user', 'content': prefix}, *messages]
    content = messages[last]['content']
    said = [{'type': 'text', 'text': prefix}, *content] if isinstance(content, list) else prefix + content
    return [*messages[:last], {**messages[last], 'content': said}, *messages[last + 1 :]]


def _sources(levels: Levels, asked: Asked, messages: Sequence[Message]) -> list[list[Span]]:
    """The spans of each message, not yet numbered."""
    spans: list[list[Span]] = []
    if levels.system:
        spans.append(levels.system_layout.trace(asked.row))
    for number, message in numbered_messages(asked.history):
        spans.append(list(_whole(message, origin_of(message, number))))
    if asked.messages is None:
        spans.append(levels.user_layout.trace(asked.row))
    else:
        labelled = asked.label is not None
        now = messages[len(spans) : len(messages) - labelled]
        spans += _asked_spans(now, asked.messages, levels.prefix_layout.trace(asked.row))
    if asked.label is not None:
        spans.append([Span(asked.label, Origin('label', role='assistant'))])
    return spans


def _asked_spans(now: Sequence[Message], given: Sequence[Message], prefix: Sequence[Span]) -> Iterator[list[Span]]:
    """The spans of the messages given as input; in the one with the instruction in front, that comes first."""
    added = len(now) - len(given)
    for i, message in enumerate(now):
        whole = list(_whole(message, _INPUT))
        if added and i == 0:
            yield list(prefix)
        elif message == given[i - added]:
            yield whole
        elif whole[0].part is None:
            said = str(given[i - added]['content'])
            yield [*prefix, replace(whole[0], text=said)]
        else:
            yield [*(replace(span, part=0) for span in prefix), *whole[1:]]


def _texts(message: Mapping[str, Any]) -> dict[Place, str]:
    return texts_of([message])


def _whole(message: Message, origin: Origin) -> Iterator[Span]:
    for (_, part), text in _texts(message).items():
        yield Span(text, origin, part=part)


@dataclass(frozen=True, slots=True)
class _Converted:
    """A conversation in Anthropic's shape: which messages are system words, and the others with their sources."""

    levels: Levels
    messages: list[Message]
    system: list[int]
    others: list[tuple[int, Message]]


def _converted(frame: Frame, asked: Asked) -> _Converted:
    """Where the user would have no words, which this vendor refuses, the instruction is said by the user."""
    levels = frame.turned if asked.is_silent and not frame.plain.user else frame.plain
    messages = _messages(levels, asked)
    return _Converted(levels, messages, *anthropic_messages(messages))


def anthropic_body(frame: Frame, asked: Asked) -> Body:
    """Messages, with the system's words and the tools beside them."""
    one = _converted(frame, asked)
    body: Body = {'messages': [message for _, message in one.others]}
    if one.system:
        body = {'system': '\n'.join(_words(one.messages[i]) for i in one.system), **body}
    if asked.tools:
        body['tools'] = asked.tools.anthropic
    return body


def _words(message: Message) -> str:
    return '\n'.join(_texts(message).values())


def anthropic_spans(frame: Frame, asked: Asked) -> list[Span]:
    """The spans of the system's words (in no message) and of every message."""
    one = _converted(frame, asked)
    sources = _sources(one.levels, asked, one.messages)
    spans: list[Span] = []
    for at, i in enumerate(one.system):
        spans += [_JOINT] if at else []
        for k, span in enumerate(sources[i]):
            spans += [_JOINT] if k and span.part != sources[i][k - 1].part else []
            spans.append(replace(span, part=None))
    for number, (i, message) in enumerate(one.others):
        if isinstance(message['content'], str):
            own = sources[i]
        elif isinstance(one.messages[i].get('content'), list):
            own = _kept(sources[i], message)
        else:
            origin = sources[i][0].origin if sources[i] else _INPUT
            own = list(_whole(message, origin))
        spans += [replace(span, message=number) for span in own or [Span('', _INPUT)]]
    return [span for span in spans if span.message is None or _has_place(span, one.others[span.message][1])]


def _kept(spans: Sequence[Span], message: Message) -> list[Span]:
    """The spans of those parts that are still text after conversion."""
    places = {part for _, part in _texts(message)}
    return [span for span in spans if span.part in places]


def _has_place(span: Span, message: Message) -> bool:
    return (0, span.part) in _texts(message)
