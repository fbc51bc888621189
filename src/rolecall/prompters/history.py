"""What was said before, as pairs or as messages. It is read into copies: the caller's objects stay the caller's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from rolecall.errors import PrompterError
from rolecall.prompters.sharing import copied
from rolecall.prompters.tokens import AROUND, Tokens
from rolecall.prompters.vendors import Message, calls_of, openai_messages
from rolecall.prompts.pieces import Origin, Text, fold
from rolecall.prompts.values import text_of

__all__ = [
    'HistoryWriter',
    'check_history',
    'messages_in',
    'numbered_messages',
    'origin_of',
    'plain_text',
    'read_message',
]

ROLES = frozenset(AROUND)
_ROLE, _CONTENT = itemgetter('role'), itemgetter('content')


def check_history(history: Any) -> None:
    """Refuse what is no list at all."""
    if not isinstance(history, (list, tuple)):
        raise PrompterError(f'history is a list of pairs or of messages; got {history!r:.60}.')


def messages_in(history: Sequence[Any]) -> list[Message]:
    """The history as messages in OpenAI's shape.

    >>> messages_in([['Hi', 'Hello'], {'role': 'user', 'content': 'Bye'}])[1:]
    [{'role': 'assistant', 'content': 'Hello'}, {'role': 'user', 'content': 'Bye'}]
    """
    try:
        copies: list[Message] = list(map(dict.copy, history))
        if _are_plain(copies):
            return copies
    except (KeyError, TypeError):  # something else than messages of a role and a text
        pass
    return [message for item in history for message in _turn(item)]


def _are_plain(messages: list[Message]) -> bool:
    """Whether messages have a role that is known, a text, and nothing else. (Only texts can be joined.)"""
    return (
        sum(map(len, messages)) == 2 * len(messages)
        and ROLES.issuperset(map(_ROLE, messages))
        and isinstance(''.join(map(_CONTENT, messages)), str)
    )


def numbered_messages(history: Sequence[Any]) -> Iterator[tuple[int, Message]]:
    """The same messages, each with the number of the turn it belongs to."""
    for number, item in enumerate(history):
        for message in _turn(item):
            yield number, message


def origin_of(message: Mapping[str, Any], number: int) -> Origin:
    """Where the words of an earlier turn come from."""
    role = message['role']
    return Origin('reply' if role == 'assistant' else 'field', f'history[{number}]', role=role)


def _turn(item: Any) -> list[Message]:
    if isinstance(item, Mapping):
        return read_message(item, 'history')
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise PrompterError(f'a turn of history is a pair [question, answer] or a message; got {item!r:.60}.')
    speakers = zip(('user', 'assistant'), item, strict=True)
    return [{'role': role, 'content': text_of(text)} for role, text in speakers if text is not None]


def read_message(message: Mapping[str, Any], where: str) -> list[Message]:
    """A copy of a message, checked, in OpenAI's shape."""
    role, content = message.get('role'), message.get('content')
    if not isinstance(role, str) or role not in ROLES:
        raise PrompterError(f'{where}: the role of a message is one of {", ".join(sorted(ROLES))}; got {role!r:.60}.')
    if content is None and not message.get('tool_calls'):
        raise PrompterError(f'{where}: a message has content or tool_calls; got {message!r:.80}.')
    if not isinstance(content, (str, list, tuple, type(None))):
        raise PrompterError(f'{where}: the content of a message is a string or a list of parts; got {content!r:.60}.')
    if isinstance(content, (list, tuple)) and not all(isinstance(part, Mapping) for part in content):
        raise PrompterError(f'{where}: the parts of a message are mappings; got {content!r:.60}.')
    for call in message.get('tool_calls') or ():
        function = call.get('function') if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get('name'), str):
            raise PrompterError(f'{where}: a tool call names its function; got {call!r:.60}.')
    return openai_messages(copied(message))


class HistoryWriter:
    """Writes a history as one text, between one model's tokens."""

    def __init__(self, tokens: Tokens, *, takes_messages: bool) -> None:
        self._tokens = tokens
        self._takes_messages = takes_messages
        self._to_answer = tokens.eoh + tokens.soa
        self._to_next = tokens.eoa + tokens.soh
        self._frame = lru_cache(maxsize=64)(self._frame_of)

    def text(self, history: Sequence[Any]) -> str:
        """The history as a text."""
        kind = history[0].__class__
        try:
            if kind is list:
                return self._pairs_text(history)
            if kind is dict and self._takes_messages:
                return self._messages_text(history)
        except (KeyError, TypeError, ValueError):  # something else than texts
            pass
        return fold(self.pieces(history))

    def _pairs_text(self, pairs: Sequence[list[str]]) -> str:
        joined = self._to_answer.join
        said = [joined(pair) for pair in pairs if pair.__class__ is list and len(pair) == 2]
        if len(said) != len(pairs):
            raise ValueError('not only pairs')
        return f'{self._tokens.soh}{self._to_next.join(said)}{self._tokens.eoa}'

    def _messages_text(self, messages: Sequence[Message]) -> str:
        texts = self._frame(tuple(map(_ROLE, messages))).copy()
        texts[1::2] = map(_CONTENT, messages)
        if sum(map(len, messages)) != 2 * len(messages):
            raise ValueError('more than roles and texts')
        return ''.join(texts)

    def _frame_of(self, roles: tuple[str, ...]) -> list[str]:
        """The tokens around speeches of these roles, with empty places between them."""
        frame = ['']
        for role in roles:
            if role == 'tool':
                raise ValueError('not among the usual roles')
            before, after = (getattr(self._tokens, name) for name in AROUND[role])
            frame[-1] += before
            frame += ['', after]
        return frame

    def pieces(self, history: Sequence[Any]) -> Iterator[Text]:
        """The same text, with the origin of each piece."""
        if not self._takes_messages and any(isinstance(item, Mapping) for item in history):
            raise PrompterError(
                'history given as messages needs return_dict=True (or a prompter that is bound to a model).'
            )
        for number, message in numbered_messages(history):
            yield from self._message_pieces(message, origin_of(message, number))

    def _message_pieces(self, message: Message, said: Origin) -> Iterator[Text]:
        tokens, role = self._tokens, message['role']
        before, after = AROUND[role]
        if role == 'tool' and not tokens.soe:
            raise PrompterError("history has the result of a tool; the model's tokens have no soe to write it with.")
        yield Text(getattr(tokens, before), Origin('marker', before, role=role))
        yield Text(plain_text(message), said)
        for name, arguments in calls_of(message):
            if not tokens.tool_start:
                raise PrompterError("history has a call of a tool; the model's tokens have no tool_start for it.")
            yield Text(tokens.call(name, arguments), said)
        yield Text(getattr(tokens, after), Origin('marker', after, role=role))


def plain_text(message: Mapping[str, Any]) -> str:
    """The words of a message; a string prompt holds nothing else."""
    content = message.get('content')
    if isinstance(content, list):
        if not all(part.get('type') == 'text' for part in content):
            raise PrompterError('a message has more than text in it; a string prompt cannot hold that.')
        return '\n'.join(text_of(part.get('text')) for part in content)
    return text_of(content)
