"""The context of a row as lm-eval builds it: description, examples, question and how the answer begins, as messages.

As plain text, messages are joined with their delimiters. In chat, they are turns without delimiters, or one user
message in which everything but the system message is joined as in plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rolecall.compat.lm_eval.task import LmTask, Row, Value
from rolecall.core.prompts.pieces import Origin, Text, describe_value
from rolecall.errors import RenderError

Role = Literal['system', 'user', 'assistant']
Pieces = tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A role, its text, and the delimiter after it in plain text."""

    role: Role
    pieces: Pieces
    delimiter: Pieces = ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """One request: a context, and the continuation to score, if any."""

    label: Any
    messages: tuple[Message, ...]
    target: Pieces | None = None
    """The continuation to score; None if the model generates."""


@dataclass(frozen=True)
class Wordings:
    """Words the rows of a task."""

    task: LmTask
    many_contexts: bool = False
    """As in Winogrande, decided by the first row: the choices are contexts, and the target follows each of them."""

    @classmethod
    def of(cls, task: LmTask, first: Row | None) -> Wordings:
        """Decided by the first row, as lm-eval does."""
        if first is None or task.get('doc_to_choice') is None:
            return cls(task)
        index = task.text(first, tuple(first)).value
        return cls(task, isinstance(index, int))

    def requests(self, doc: Row, shots: Sequence[Row], *, chat: bool) -> list[Continuation]:
        """The requests of a row, in lm-eval's order."""
        task, columns = self.task, tuple(doc)
        kind = task['output_type']
        if kind == 'loglikelihood_rolling':
            return [Continuation(None, (), _pieces(task.target(doc, columns), 'doc_to_target'))]
        before = [*self._system(doc), *self._shots(shots, columns)]
        prefix = task.prefix(doc, columns)
        if kind == 'multiple_choice':
            return self._choices(doc, before, prefix, chat=chat)
        messages = (*before, *self._question(task.text(doc, columns), prefix, task.delimiter('target_delimiter')))
        if kind == 'loglikelihood':
            return [Continuation(None, messages, _pieces(task.target(doc, columns), 'doc_to_target'))]
        return [Continuation(None, messages)]

    def _choices(self, doc: Row, before: Sequence[Message], prefix: Value | None, *, chat: bool) -> list[Continuation]:
        task, columns = self.task, tuple(doc)
        choices = task.choices(doc, columns)
        delimiter = task.delimiter('target_delimiter')
        if chat and not task.own_prefix:
            delimiter = replace(delimiter, text='')
        joint = (delimiter,) if delimiter.text else ()
        if self.many_contexts:
            target = (*joint, *self._continuation(task.target(doc, columns)))
            nothing = Text('', Origin('joint', 'target_delimiter'))
            continuations = [
                Continuation(i, (*before, *self._question(self._choice(choice), prefix, nothing)), target)
                for i, choice in enumerate(choices)
            ]
        else:
            question = task.text(doc, columns)
            messages = (*before, *self._question(question, prefix, task.delimiter('target_delimiter')))
            continuations = [
                Continuation(i, messages, (*joint, *self._continuation(Value(choice))))
                for i, choice in enumerate(choices)
            ]
        if 'acc_mutual_info' in [metric.get('metric') for metric in task.get('metric_list') or ()]:
            continuations += [
                Continuation(f'{i} alone', (), (*joint, *self._continuation(Value(choice))))
                for i, choice in enumerate(choices)
            ]
        return continuations

    def _continuation(self, value: Value) -> Pieces:
        """The continuation to score: a text as it is, anything else as its `str`."""
        return value.pieces or self._choice(str(value.value)).pieces

    def _choice(self, choice: Any, shot: int | None = None) -> Value:
        if not isinstance(choice, str):
            raise RenderError(f'{self.task.place("doc_to_choice")}: a choice must be a text, got {choice!r:.60}.')
        origin = Origin('label', 'doc_to_choice', shot, source=self.task.place('doc_to_choice'))
        return Value(choice, (Text(choice, origin),) if choice else ())

    def _system(self, doc: Row) -> list[Message]:
        task = self.task
        text = task.options.system_instruction or ''
        description = task.description(doc)
        instruction = (Text(text, Origin('message', 'system_instruction')),) if text else ()
        pieces = _delimit(instruction, _pieces(description, 'description'), task.delimiter('fewshot_delimiter'))
        return [Message('system', pieces)] if pieces else []

    def _shots(self, shots: Sequence[Row], columns: Sequence[str]) -> list[Message]:
        return [message for k, row in enumerate(shots) for message in self._word_shot(row, columns, k)]

    def _word_shot(self, row: Row, columns: Sequence[str], k: int) -> list[Message]:
        task = self.task
        question = task.text(row, columns, k)
        has_choices = bool(task.fewshot_config.get('doc_to_choice'))
        choices: list[Any] | None = task.choices(row, columns, k) if has_choices else None
        answer = task.target(row, columns, k)
        if self.many_contexts:
            question, choices = self._choice(self._pick_choice(choices or [], question.value), k), None
        prefix = task.prefix(row, columns, k)
        messages = self._question(question, prefix, task.delimiter('target_delimiter', k))
        if answer.value is None or answer.value == '':
            return messages
        target = _pieces(self._answer(answer, choices, k), 'doc_to_target')
        if prefix is not None:
            target = _delimit(prefix.pieces, target, Text(' ', Origin('joint', 'gen_prefix', k)))
            return [messages[0], Message('assistant', target, (task.delimiter('fewshot_delimiter', k),))]
        request = Message('user', messages[0].pieces, (task.delimiter('target_delimiter', k),))
        return [request, Message('assistant', target, (task.delimiter('fewshot_delimiter', k),))]

    def _answer(self, answer: Value, choices: list[Any] | None, k: int) -> Value:
        """An example's answer: the choice at an index, the first of several, or the text itself."""
        if choices and isinstance(answer.value, int):
            return self._choice(self._pick_choice(choices, answer.value), k)
        if isinstance(answer.value, list):
            return self._choice(self._pick_choice(answer.value, 0), k)
        return answer

    def _pick_choice(self, choices: Sequence[Any], index: Any) -> Any:
        if not isinstance(index, int) or not -len(choices) <= index < len(choices):
            where = self.task.place('doc_to_choice')
            raise RenderError(f'{where}: there is no choice {index!r:.60} among {len(choices)}.')
        return choices[index]

    def _question(self, question: Value, prefix: Value | None, delimiter: Text) -> list[Message]:
        """The question, and the beginning of the answer where there is one."""
        pieces = _pieces(question, 'doc_to_text')
        if prefix is None:
            return [Message('user', pieces)]
        needs = bool(pieces) and not (question.value[-1].isspace() or prefix.value[0].isspace())
        return [Message('user', pieces, (delimiter,) if needs else ()), Message('assistant', prefix.pieces)]


def _pieces(value: Value, key: str) -> Pieces:
    if not isinstance(value.value, str):
        raise RenderError(f'{key} must come to a text, got {describe_value(value.value)}.')
    return value.pieces


def _delimit(before: Pieces, after: Pieces, delimiter: Text) -> Pieces:
    """Both, with the delimiter between them if neither has whitespace there."""
    if not before or not after or before[-1].text[-1].isspace() or after[0].text[0].isspace():
        return (*before, *after)
    return (*before, delimiter, *after)


def join_text(messages: Iterable[Message]) -> Pieces:
    """The messages as plain text."""
    pieces = (piece for message in messages for piece in (*message.pieces, *message.delimiter))
    return tuple(piece for piece in pieces if piece.text)


def as_one_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Everything but the system message and the beginning of the answer as one user message."""
    system = messages[:1] if messages[:1] and messages[0].role == 'system' else ()
    spoken = list(messages[len(system) :])
    answer = [spoken.pop()] if spoken and spoken[-1].role == 'assistant' else []
    if not spoken:
        return (*system, *answer)
    spoken[-1] = replace(spoken[-1], delimiter=())
    return (*system, Message('user', join_text(spoken)), *answer)
