"""Reads the arguments of a prompter call: changed by hooks, then split into slots and the user's text or messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from rolecall.core.prompters.frame import HISTORY, INPUT, TOOLS
from rolecall.core.prompters.history import read_message
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import Message
from rolecall.core.prompts.pieces import text_of
from rolecall.errors import PrompterError, RolecallError, describe_error, did_you_mean

HookArguments = tuple[Any, Any, Any, Any]
"""Input, history, tools and label."""
Hook = Callable[[Any, Any, Any, Any], HookArguments]


def run_hooks(hooks: Sequence[Hook], arguments: HookArguments) -> HookArguments:
    """The arguments of a call as the hooks changed them, one after another."""
    for hook in hooks:
        name = getattr(hook, '__qualname__', type(hook).__qualname__)
        try:
            arguments = hook(*arguments)
        except RolecallError:
            raise
        except (Exception, SystemExit) as error:  # sys.exit() must fail this call only
            raise PrompterError(f'the pre_hook {name} raised {describe_error(error)}.') from error
        if not isinstance(arguments, tuple) or len(arguments) != 4:
            raise PrompterError(
                f'the pre_hook {name} must return (input, history, tools, label), got {arguments!r:.60}.'
            )
    return arguments


_BLANK: dict[str, Any] = {INPUT: '', HISTORY: '', TOOLS: ''}
_COUNT = ('no', 'one', 'two', 'three', 'four', 'five', 'six')


Label = str | Message
"""The answer, for training: its text, or an assistant message with more than text."""

PromptCall = tuple[dict[str, Any], list[Message] | None, Sequence[Any], Tools | None, Label | None]
"""One call, as a plain tuple because it is built and unpacked on every call:

1. the values of the slots and of the input, history and tools columns;
2. the user's messages, if the input is more than text;
3. the history;
4. the tools;
5. the label.
"""


def read_label(label: Any) -> Label | None:
    """The answer of a call. An assistant message with tool calls stays a message, everything else is text.

    >>> read_label({'role': 'assistant', 'content': 'Two.'}), read_label(2)
    ('Two.', '2')
    """
    if label is None or isinstance(label, str):
        return label
    only = label[0] if isinstance(label, (list, tuple)) and len(label) == 1 else label
    if not isinstance(only, Mapping) or 'role' not in only:
        return text_of(label)
    if only['role'] != 'assistant':
        raise PrompterError(f'the answer must be an assistant message, got one of role {only["role"]!r:.60}.')
    message, *more = read_message(only, 'answer')
    if more:
        raise PrompterError(f'the answer must be one assistant message, got {label!r:.60}.')
    is_text = set(message) == {'role', 'content'} and isinstance(message['content'], str)
    return str(message['content']) if is_text else message


def is_silent(call: PromptCall) -> bool:
    """Whether the input only fills slots, so the user message would be empty."""
    row, messages, *_ = call
    return messages is None and not row[INPUT]


class InputReader:
    """Reads inputs for one instruction."""

    __slots__ = ('_name', '_slots', '_takes_input', '_text_column', '_wanted')

    def __init__(self, slots: Sequence[str], *, takes_input: bool, name: str) -> None:
        self._slots = slots
        self._wanted = frozenset(slots)
        self._takes_input = takes_input
        self._name = name
        self._text_column = slots[0] if len(slots) == 1 else INPUT if takes_input and not slots else None

    def read(self, value: Any) -> tuple[dict[str, Any], list[Message] | None]:
        """The row of a call, and its messages if the input is more than text."""
        if value.__class__ is str and self._text_column is not None:
            row: dict[str, Any] = _BLANK.copy()
            row[self._text_column] = value
            return row, None
        if isinstance(value, str):
            return self._with_text(value), None
        if isinstance(value, Mapping) and not self._is_message(value):
            return self._with_values(value)
        if isinstance(value, (Mapping, list, tuple)):
            messages = _messages(value)
            text = _text_alone(messages)
            return (self._without_slots(), messages) if text is None else (self._with_text(text), None)
        if value is None:
            raise PrompterError(
                "expected a string, a mapping of slots, or messages as input, got None. Use '' for an empty input."
            )
        return self._with_text(text_of(value)), None

    def user_messages(self, value: Any) -> list[Message]:
        """The user's messages in an input; if it only fills slots, their values.

        >>> reader = InputReader(['context'], takes_input=True, name='ChatPrompter')
        >>> reader.user_messages({'context': 'Whales are mammals.', 'input': 'Are they fish?'})
        [{'role': 'user', 'content': 'Are they fish?'}]
        >>> reader.user_messages({'context': ['Whales', 'Cows'], 'input': ''})
        [{'role': 'user', 'content': '["Whales", "Cows"]'}]
        """
        row, messages = self.read(value)
        if messages is not None:
            return messages
        words = row[INPUT] or '\n'.join(text_of(row[slot]) for slot in self._slots)
        return [{'role': 'user', 'content': words}]

    def _with_text(self, text: str) -> dict[str, Any]:
        if self._text_column is None:
            self._refuse_text()
        return {**_BLANK, self._text_column: text}

    def _refuse_text(self) -> NoReturn:
        if self._slots:
            what = f'a string input fills one slot, but the instruction has {_count_names(self._slots)}.'
            raise PrompterError(f'{what} Pass a mapping.')
        what = f'{self._name} needs a slot for the input:'
        raise PrompterError(f"{what} '… {{input}} …' in the instruction, or extra_keys.")

    def _with_values(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Message] | None]:
        row: dict[str, Any] = {**_BLANK, **values}
        if values.keys() == self._wanted:
            return row, None
        self._check_keys(values)
        value = row.pop('input')
        if value.__class__ is str:
            row[INPUT] = value
            return row, None
        if not isinstance(value, (Mapping, list, tuple)):
            row[INPUT] = text_of(value)
            return row, None
        messages = _messages(value)
        text = _text_alone(messages)
        row[INPUT] = text or ''
        return row, messages if text is None else None

    def _check_keys(self, values: Mapping[str, Any]) -> None:
        """Raise for slots without a value and values without a slot. `input` is the user's text unless it is a slot."""
        missing = [slot for slot in self._slots if slot not in values]
        if missing:
            raise PrompterError(f'the input has no value for {_count_names(missing, "slot")}; it has {_names(values)}.')
        spoken = {'input'} if self._takes_input else set()
        unknown = [key for key in values if key not in self._wanted and key not in spoken]
        if unknown:
            hint = did_you_mean(unknown[0], [*self._slots, *spoken])
            raise PrompterError(f'{self._name} has no slot {_names(unknown)}. {hint}'.rstrip())

    def _without_slots(self) -> dict[str, Any]:
        if self._slots or not self._takes_input:
            raise PrompterError(
                f'messages cannot fill slots, and the instruction has {_count_names(self._slots)}. '
                "Pass the slots and the messages together: {'…': …, 'input': messages}."
            )
        return dict(_BLANK)

    def _is_message(self, value: Mapping[str, Any]) -> bool:
        return 'role' in value and 'role' not in self._wanted and ('content' in value or 'tool_calls' in value)


def _messages(value: Any) -> list[Message]:
    entries = [value] if isinstance(value, Mapping) else value
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise PrompterError(f'expected a string, a mapping of slots, or messages as input, got {value!r:.60}.')
    return [message for entry in entries for message in read_message(entry, 'input')]


def _text_alone(messages: Sequence[Message]) -> str | None:
    """The text, if the input is a single user message of plain text."""
    only = messages[0] if len(messages) == 1 else {}
    content = only.get('content')
    return content if set(only) == {'role', 'content'} and only['role'] == 'user' and isinstance(content, str) else None


def _names(names: Any) -> str:
    return ', '.join(map(str, names)) or 'nothing'


def _count_names(names: Sequence[str], what: str = '') -> str:
    count = _COUNT[len(names)] if len(names) < len(_COUNT) else str(len(names))
    noun = f' {what}{"s" if len(names) != 1 else ""}' if what else ''
    return f'{count}{noun}: {", ".join(names)}' if names else f'no{noun or " slot"}'
