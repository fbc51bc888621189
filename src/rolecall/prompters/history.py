"""What was said before: pairs of question and answer, or messages. Read into copies; the caller's objects stay theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolecall.errors import PrompterError
from rolecall.prompters.sharing import copied
from rolecall.prompters.tokens import AROUND, Tokens
from rolecall.prompters.vendors import Message, calls_of, openai_messages
from rolecall.prompts.pieces import Origin, Text, fold
from rolecall.prompts.values import text_of

__all__ = [
    'check_history',
    'history_text',
    'messages_in',
    'numbered_messages',
    'origin_of',
    'plain_text',
    'read_message',
    'written_pieces',
]

ROLES = frozenset(('system', 'developer', 'user', 'assistant', 'tool'))


def check_history(history: Any) -> None:
    """Refuse what is no list at all."""
    if not isinstance(history, (list, tuple)):
        raise PrompterError(f'history is a list of pairs or of messages; got {history!r:.60}.')


def messages_in(history: Iterable[Any]) -> list[Message]:
    """The history as messages in OpenAI's shape.

    >>> messages_in([['Hi', 'Hello'], {'role': 'user', 'content': 'Bye'}])[1:]
    [{'role': 'assistant', 'content': 'Hello'}, {'role': 'user', 'content': 'Bye'}]
    """
    messages: list[Message] = []
    add = messages.append
    for item in history:
        if item.__class__ is dict and len(item) == 2 and (content := item.get('content')).__class__ is str:
            role = item.get('role')
            if role.__class__ is str and role in ROLES:  # the usual message, without detours
                add({'role': role, 'content': content})
                continue
        messages += _turn(item)
    return messages


def numbered_messages(history: Iterable[Any]) -> Iterator[tuple[int, Message]]:
    """The same messages, each with the number of the turn it belongs to."""
    for number, item in enumerate(history):
        for message in messages_in([item]):
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


def history_text(history: Iterable[Any], tokens: Tokens, *, takes_messages: bool) -> str:
    """The history as one text between the model's tokens."""
    before, to_answer, end = tokens.soh, tokens.eoh + tokens.soa, tokens.eoa
    texts: list[str] = []
    for item in history:
        if item.__class__ is list and len(item) == 2:
            asked, answered = item
            if asked.__class__ is str and answered.__class__ is str:  # the usual pair, without detours
                texts += (before, asked, to_answer, answered, end)
                continue
        if isinstance(item, Mapping) and not takes_messages:
            raise PrompterError(
                'history given as messages needs return_dict=True (or a prompter that is bound to a model).'
            )
        texts.append(fold(written_pieces([item], tokens)))
    return ''.join(texts)


def written_pieces(history: Iterable[Any], tokens: Tokens) -> Iterator[Text]:
    """The history between the model's tokens, with the origin of each piece."""
    for number, message in numbered_messages(history):
        role, said = message['role'], origin_of(message, number)
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
