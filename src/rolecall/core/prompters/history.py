"""Reads history, given as pairs or as messages, into copies of its own.

A conversation comes back on every call with one more turn, so the last history is cached in its parsed form. A new
history is compared with it (which notices turns changed in place), and only new turns are parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar

from rolecall.core.prompters.special_tokens import AROUND, Tokens
from rolecall.core.prompters.vendors import Message, calls_of, openai_messages
from rolecall.core.prompts.frozen import FrozenDict, FrozenList, copy_data, freeze
from rolecall.core.prompts.pieces import Origin, Text, fold, text_of
from rolecall.errors import PrompterError

ROLES = frozenset(AROUND)
_ROLE, _CONTENT = itemgetter('role'), itemgetter('content')


def check_history(history: Any) -> None:
    """Raise unless the history is a list or tuple."""
    if not isinstance(history, (list, tuple)):
        raise PrompterError(f'history must be a list of pairs or messages, got {history!r:.60}.')


def numbered_messages(history: Sequence[Any]) -> Iterator[tuple[int, Message]]:
    """The messages of a history, each with the number of its turn."""
    for number, item in enumerate(history):
        for message in _turn(item):
            yield number, message


def origin_of(message: Mapping[str, Any], number: int) -> Origin:
    """The origin of an earlier turn's text."""
    role = message['role']
    return Origin('reply' if role == 'assistant' else 'field', f'history[{number}]', role=role)


def _turn(item: Any) -> list[Message]:
    if isinstance(item, Mapping):
        return read_message(item, 'history')
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise PrompterError(f'a turn of history must be a pair [question, answer] or a message, got {item!r:.60}.')
    speakers = zip(('user', 'assistant'), item, strict=True)
    return [{'role': role, 'content': text_of(text)} for role, text in speakers if text is not None]


def read_message(message: Mapping[str, Any], where: str) -> list[Message]:
    """Check a message and copy it in OpenAI's format."""
    role, content = message.get('role'), message.get('content')
    if not isinstance(role, str) or role not in ROLES:
        raise PrompterError(
            f'{where}: the role of a message must be one of {", ".join(sorted(ROLES))}, got {role!r:.60}.'
        )
    if content is None and not message.get('tool_calls'):
        raise PrompterError(f'{where}: a message needs content or tool_calls, got {message!r:.80}.')
    if not isinstance(content, (str, list, tuple, type(None))):
        raise PrompterError(f'{where}: message content must be a string or a list of parts, got {content!r:.60}.')
    if isinstance(content, (list, tuple)) and not all(isinstance(part, Mapping) for part in content):
        raise PrompterError(f'{where}: message parts must be mappings, got {content!r:.60}.')
    for part in content if isinstance(content, (list, tuple)) else ():
        _check_part(part, where)
    calls = message.get('tool_calls')
    if calls is not None and not isinstance(calls, (list, tuple)):
        raise PrompterError(f'{where}: tool_calls must be a list, got {calls!r:.60}.')
    for call in calls or ():
        function = call.get('function') if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get('name'), str):
            raise PrompterError(f'{where}: a tool call must name its function, got {call!r:.60}.')
    return openai_messages({'role': role, **copy_data({key: value for key, value in message.items() if key != 'role'})})


Form = TypeVar('Form')
Read = tuple[list[Any], Form]
_NOT_PLAIN = (KeyError, TypeError, ValueError)
"""Raised by turns that are not simply pairs of strings or messages with role and text."""
_COPY: dict[type, Callable[[Any], Any]] = {
    dict: dict.copy,
    FrozenDict: dict.copy,
    list: list.copy,
    FrozenList: list.copy,
}


@dataclass(slots=True, eq=False)
class _HistoryCache(Generic[Form]):
    """Caches the last plain history: copies of its turns, and their parsed form."""

    read_plain: Callable[[Sequence[Any]], Read[Form]]
    read_any: Callable[[Sequence[Any]], Form]
    nothing: Read[Form]
    last: Read[Form]

    def read(self, history: Sequence[Any]) -> Form:
        turns, form = self.last
        try:
            if turns == history:
                return form
            common = len(turns)
            if turns != history[:common]:
                turns, form = self.nothing
                common = 0
            new, added = self.read_plain(history[common:])
        except _NOT_PLAIN:
            return self.read_any(history)
        whole: Any = form
        remembered: Read[Form] = (turns + new, whole + added)
        self.last = remembered  # one atomic assignment: other threads may read other conversations
        return remembered[1]


def _copies(history: Sequence[Any]) -> list[Any]:
    """Copies of turns that are all pairs or all messages; a mix raises."""
    return list(map(_COPY[history[0].__class__], history))


def _plain_messages(history: Sequence[Any]) -> Read[Sequence[Message]]:
    turns = _copies(history)
    messages = turns
    if isinstance(turns[0], list):
        speeches = [speech for question, answer in turns for speech in (('user', question), ('assistant', answer))]
        messages = [{'role': role, 'content': text} for role, text in speeches]
    if (
        set(map(len, messages)) != {2}
        or not ROLES.issuperset(map(_ROLE, messages))
        or set(map(next, map(iter, messages))) != {'role'}
    ):
        raise ValueError('not only roles and texts')
    ''.join(map(_CONTENT, messages))  # raises unless all contents are strings
    return turns, list(map(FrozenDict, messages))


def _all_messages(history: Sequence[Any]) -> Sequence[Message]:
    return [freeze(message) for item in history for message in _turn(item)]


_NEEDED = {'text': ('text', str), 'tool_use': ('name', str), 'image': ('source', Mapping)}


def _check_part(part: Mapping[str, Any], where: str) -> None:
    """Raise if a message part lacks a required key."""
    kind = part.get('type')
    name, wanted = _NEEDED.get(str(kind), ('type', object))
    if not isinstance(part.get(name), wanted):
        raise PrompterError(f'{where}: a part of type {kind!r} needs a {name}, got {part!r:.80}.')
    source = part.get('source') if kind == 'image' else None
    if source and source.get('type') == 'base64' and not {'media_type', 'data'} <= source.keys():
        raise PrompterError(f'{where}: a base64 image needs media_type and data, got {part!r:.80}.')
    content = part.get('content')
    if kind == 'tool_result' and isinstance(content, (list, tuple)):
        if not all(isinstance(block, Mapping) for block in content):
            raise PrompterError(f'{where}: tool_result content must be text or a list of parts, got {part!r:.80}.')
        for block in content:
            _check_part(block, where)


class HistoryReader:
    """Reads histories for one model: as messages, or as one text with the model's tokens.

    >>> reader = HistoryReader(Tokens(soh='<user>', soa='<model>'), takes_messages=True)
    >>> reader.messages([['Hi', 'Hello'], {'role': 'user', 'content': 'Bye'}])[1:]
    [{'role': 'assistant', 'content': 'Hello'}, {'role': 'user', 'content': 'Bye'}]
    >>> reader.text([['Hi', 'Hello'], {'role': 'user', 'content': 'Bye'}])
    '<user>Hi<model>Hello<user>Bye'

    Messages are in OpenAI's format and read-only.
    """

    def __init__(self, tokens: Tokens, *, takes_messages: bool) -> None:
        self._tokens = tokens
        self._takes_messages = takes_messages
        self._around = {
            role: (getattr(tokens, before), getattr(tokens, after))
            for role, (before, after) in AROUND.items()
            if role != 'tool'
        }
        nothing: Read[Sequence[Message]] = ([], [])
        self.messages = _HistoryCache(_plain_messages, _all_messages, nothing, nothing).read
        blank: Read[str] = ([], '')
        self.text = _HistoryCache(self._plain_text, lambda history: fold(self.pieces(history)), blank, blank).read

    def _plain_text(self, history: Sequence[Any]) -> Read[str]:
        turns, tokens = _copies(history), self._tokens
        if set(map(len, turns)) != {2}:
            raise ValueError('not only pairs, or roles and texts')
        if isinstance(turns[0], list):
            dialogue = (tokens.eoa + tokens.soh).join(map((tokens.eoh + tokens.soa).join, turns))
            return turns, f'{tokens.soh}{dialogue}{tokens.eoa}'
        if not self._takes_messages:
            raise ValueError('no messages here')
        texts: list[str] = []
        for message in turns:
            before, after = self._around[message['role']]
            texts += (before, message['content'], after)
        return turns, ''.join(texts)

    def pieces(self, history: Sequence[Any]) -> Iterator[Text]:
        """The same text, with the origin of each piece."""
        if not self._takes_messages and any(isinstance(item, Mapping) for item in history):
            raise PrompterError('history given as messages needs return_dict=True, or a prompter bound to a model.')
        for number, message in numbered_messages(history):
            yield from self._message_pieces(message, origin_of(message, number))

    def answer(self, label: str | Message) -> str:
        """An answer as the model writes it: its text, and its tool calls between the model's tokens."""
        return label if isinstance(label, str) else ''.join((plain_text(label), *self._calls(label, 'the answer')))

    def _calls(self, message: Message, what: str) -> Iterator[str]:
        for name, arguments in calls_of(message):
            if not self._tokens.tool_start:
                raise PrompterError(f"{what} has a tool call, but the model's tokens do not define tool_start.")
            yield self._tokens.call(name, arguments)

    def _message_pieces(self, message: Message, origin: Origin) -> Iterator[Text]:
        tokens, role = self._tokens, message['role']
        before, after = AROUND[role]
        if role == 'tool' and not tokens.soe:
            raise PrompterError("history has a tool result, but the model's tokens do not define soe.")
        yield Text(getattr(tokens, before), Origin('marker', before, role=role))
        yield Text(plain_text(message), origin)
        for call in self._calls(message, 'history'):
            yield Text(call, origin)
        yield Text(getattr(tokens, after), Origin('marker', after, role=role))


def plain_text(message: Mapping[str, Any]) -> str:
    """The text of a message, for a string prompt."""
    content = message.get('content')
    if isinstance(content, list):
        content = [part for part in content if part.get('type') not in ('thinking', 'redacted_thinking')]
        if not all(part.get('type') == 'text' for part in content):
            raise PrompterError('a message has more than text, which a string prompt cannot hold.')
        return '\n'.join(text_of(part.get('text')) for part in content)
    return text_of(content)


def _mentions_tools(turn: Any) -> bool:
    return isinstance(turn, Mapping) and any(
        message.get('tool_calls') or message['role'] == 'tool' for _, message in numbered_messages([turn])
    )


def describe_tools_in_words(history: Sequence[Any]) -> Sequence[Any]:
    """Tool calls and results rewritten as plain messages, for chat templates without tool support."""
    if not any(map(_mentions_tools, history)):
        return history
    names: dict[Any, str] = {}
    messages: list[Any] = []
    for _, message in numbered_messages(history):
        calls = message.get('tool_calls') or ()
        names |= {call.get('id'): call['function']['name'] for call in calls}
        words = plain_text(message) if calls or message['role'] == 'tool' else ''
        if message['role'] == 'tool':
            name = message.get('name') or names.get(message.get('tool_call_id')) or 'tool'
            message = {'role': 'user', 'content': f'{name}: {words}'}
        elif calls:
            called = ', '.join(call['function']['name'] for call in calls)
            message = {'role': message['role'], 'content': words or f'I call {called}.'}
        messages.append(message)
    return messages
