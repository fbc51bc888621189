"""A column that holds a whole dialogue as messages: `[{'role': 'user', 'content': …}, …]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.core.prompts.pieces import Field
from rolecall.core.prompts.script import Expand, Script, item_pieces
from rolecall.errors import RenderError

_ROLES = {
    **dict.fromkeys(('user', 'human', 'HUMAN'), 'user'),
    **dict.fromkeys(('assistant', 'bot', 'BOT'), 'assistant'),
    **dict.fromkeys(('system', 'developer', 'SYSTEM'), 'system'),
}


@dataclass(frozen=True, slots=True)
class DialogueTurns:
    """The turns of a dialogue: questions, and the answers the row has for them."""

    system: str
    """What a system message says before the first turn; empty without one."""
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    """One for each question; empty where the model is asked for it."""


def has_messages(value: object) -> bool:
    """Whether a column's value is a list of messages; some of them may be malformed."""
    return isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value)


def read_conversation(value: object, column: str) -> DialogueTurns:
    """The turns in a column of messages. Neighbours of one role are one speech, joined by a line break.

    >>> read_conversation([dict(role='user', content='Hi'), dict(role='assistant', content='')], 'dialogue')
    DialogueTurns(system='', questions=('Hi',), answers=('',))
    """
    messages = value if isinstance(value, (list, tuple)) and value else [value]
    if wrong := [message for message in messages if not _is_message(message)]:
        raise RenderError(f'column {column!r}: expected messages with a role and a content, got {wrong[0]!r:.60}.')
    speeches = list(_join_neighbours(messages, column))
    system = speeches.pop(0)[1] if speeches[0][0] == 'system' else ''
    if not speeches or speeches[0][0] != 'user':
        raise RenderError(f"column {column!r}: the first message must be the user's, after a system message if any.")
    if any(role == 'system' for role, _ in speeches):
        raise RenderError(f'column {column!r}: a system message may only come first.')
    questions = tuple(text for role, text in speeches if role == 'user')
    answers = [text for role, text in speeches if role == 'assistant']
    return DialogueTurns(system, questions, (*answers, *[''] * (len(questions) - len(answers))))


def find_message_column(script: Script) -> str | None:
    """The column that is all a template says (`{dialogue}`), so that it may hold a whole dialogue."""
    if len(script.items) != 1 or isinstance(script.items[0], Expand) or script.raw:
        return None
    pieces = list(item_pieces(script.items[0]))
    return pieces[0].column if len(pieces) == 1 and isinstance(pieces[0], Field) else None


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get('role'), str) and 'content' in value


def _join_neighbours(messages: Any, column: str) -> Iterator[tuple[str, str]]:
    role = ''
    texts: list[str] = []
    for message in messages:
        now = _ROLES.get(message['role'])
        if now is None:
            what = f'unknown role {message["role"]!r}; expected user, assistant or system.'
            raise RenderError(f'column {column!r}: {what}')
        if not isinstance(message['content'], str):
            raise RenderError(f'column {column!r}: the content of a message must be a text, got {message!r:.60}.')
        if now != role and texts:
            yield role, '\n'.join(texts)
            texts = []
        role = now
        texts.append(message['content'])
    yield role, '\n'.join(texts)
