"""One call of a prompter, read and checked: the values of its slots, what the user says, and what was said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rolecall.errors import PrompterError, did_you_mean
from rolecall.prompters.frame import HISTORY, INPUT, TOOLS
from rolecall.prompters.history import read_message
from rolecall.prompters.tools import Tools
from rolecall.prompters.vendors import Message
from rolecall.prompts.values import text_of

__all__ = ['Asked', 'Form', 'read_input']

Form = Literal['text', 'openai', 'anthropic']
_COUNT = ('no', 'one', 'two', 'three', 'four', 'five', 'six')


class Asked(NamedTuple):
    """What one call asks for."""

    row: dict[str, Any]
    """The values of the slots, and of the columns of a call."""
    messages: list[Message] | None
    """What the user says, where it is more than a text."""
    history: Sequence[Any]
    tools: Tools | None
    label: str | None

    @property
    def is_silent(self) -> bool:
        """Whether the input fills slots only, and leaves nothing for the user to say."""
        return self.messages is None and not self.row[INPUT]


def read_input(
    given: Any, slots: Sequence[str], wanted: frozenset[str], *, takes_input: bool, name: str
) -> tuple[dict[str, Any], list[Message] | None]:
    """The values of the slots with what the user says, and the messages where the input consists of messages."""
    if given.__class__ is str:
        return _from_text(given, slots, takes_input=takes_input, name=name), None
    if isinstance(given, Mapping) and not _is_message(given, wanted):
        return _from_mapping(given, slots, wanted, takes_input=takes_input, name=name)
    if isinstance(given, (Mapping, list, tuple)):
        messages = _messages(given)
        text = _text_alone(messages)
        if text is not None:
            return _from_text(text, slots, takes_input=takes_input, name=name), None
        if slots or not takes_input:
            raise PrompterError(
                f'messages fill no slot, and the instruction has {_listed(slots)}. '
                "Give the slots and the messages together: {'…': …, 'input': messages}."
            )
        return _row({}, ''), messages
    if given is None:
        raise PrompterError("the input is a string, a mapping of slots, or messages; got None. Give '' for no words.")
    return _from_text(text_of(given), slots, takes_input=takes_input, name=name), None


def _row(values: Mapping[str, Any], said: str) -> dict[str, Any]:
    return {**values, INPUT: said, HISTORY: '', TOOLS: ''}


def _from_text(text: str, slots: Sequence[str], *, takes_input: bool, name: str) -> dict[str, Any]:
    if len(slots) == 1:
        return {slots[0]: text, INPUT: '', HISTORY: '', TOOLS: ''}
    if slots:
        raise PrompterError(f'a string input fills one slot, the instruction has {_listed(slots)}. Give a mapping.')
    if not takes_input:
        raise PrompterError(f"{name} needs a slot for the input: '… {{input}} …' in the instruction, or extra_keys.")
    return {INPUT: text, HISTORY: '', TOOLS: ''}


def _from_mapping(
    given: Mapping[str, Any], slots: Sequence[str], wanted: frozenset[str], *, takes_input: bool, name: str
) -> tuple[dict[str, Any], list[Message] | None]:
    if given.keys() == wanted:
        return _row(given, ''), None
    missing = [slot for slot in slots if slot not in given]
    if missing:
        raise PrompterError(f'the input has no value for {_listed(missing, "slot")}; it has {_names(given)}.')
    unknown = [key for key in given if key not in wanted and (key != 'input' or not takes_input)]
    if unknown:
        known = [*slots, *(['input'] if takes_input else [])]
        raise PrompterError(f'{name} has no slot {_names(unknown)}. {did_you_mean(unknown[0], known)}')
    said = given['input']
    values = {slot: given[slot] for slot in slots}
    if said.__class__ is str or not isinstance(said, (Mapping, list, tuple)):
        return _row(values, text_of(said)), None
    messages = _messages(said)
    text = _text_alone(messages)
    return (_row(values, ''), messages) if text is None else (_row(values, text), None)


def _is_message(given: Mapping[str, Any], wanted: frozenset[str]) -> bool:
    return 'role' in given and 'role' not in wanted and ('content' in given or 'tool_calls' in given)


def _messages(given: Any) -> list[Message]:
    entries = [given] if isinstance(given, Mapping) else given
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise PrompterError(f'the input is a string, a mapping of slots, or messages; got {given!r:.60}.')
    return [message for entry in entries for message in read_message(entry, 'input')]


def _text_alone(messages: Sequence[Message]) -> str | None:
    """A single message of the user that is nothing but text is as good as its text."""
    only = messages[0] if len(messages) == 1 else {}
    content = only.get('content')
    return content if set(only) == {'role', 'content'} and only['role'] == 'user' and isinstance(content, str) else None


def _names(names: Any) -> str:
    return ', '.join(map(str, names)) or 'nothing'


def _listed(names: Sequence[str], what: str = '') -> str:
    count = _COUNT[len(names)] if len(names) < len(_COUNT) else str(len(names))
    noun = f' {what}{"s" if len(names) != 1 else ""}' if what else ''
    return f'{count}{noun}: {", ".join(names)}' if names else f'no{noun or " slot"}'
