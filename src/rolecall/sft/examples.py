"""What a model is trained on: the very request that inference sends, then the answer, then the words that end it.

Nothing is worded here. A prompt is rendered as inference sends it and once more with its answer; an example comes of it
only if the second begins with the first, character for character or message for message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rolecall.errors import RenderError
from rolecall.program.compiled import Trace
from rolecall.render.spans import Message, Request, Span

__all__ = [
    'Answer',
    'MessagesExample',
    'Stretch',
    'TextExample',
    'TrainingExample',
    'UntrainableError',
    'as_text',
    'messages_example',
    'text_example',
]

Stretch = tuple[int, int]
"""The first character and the one behind the last."""
Answer = tuple[Request, Request]
"""What is asked, and the same with the answer behind it."""

_ENDS = ('marker', 'chat_template', 'text')
_NOT_SAID = ('marker', 'chat_template', 'joint')
_DATA = ('field', 'label', 'reply')
_SHOWN = 40


class UntrainableError(RenderError):
    """A row that cannot be trained on as it would be asked. `reason` is the same for all rows with the same trouble."""

    def __init__(self, reason: str, detail: str = '') -> None:
        super().__init__(f'{reason}{f": {detail}" if detail else ""}.')
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, and the stretches of it that are trained on."""

    text: str
    asked: str
    """What inference sends: the text begins with it."""
    stretches: tuple[Stretch, ...]
    lead: str = ''
    """What the model side writes between the request and the answer; it is trained on, too."""
    ending: str = ''
    """What ends an answer."""
    data: tuple[str, ...] = ()
    """The words in it that come from rows, as opposed to templates and the model side."""


@dataclass(frozen=True, slots=True)
class MessagesExample:
    """Messages, and which of them are trained on."""

    messages: tuple[Message, ...]
    trained: frozenset[int]
    tools: tuple[Mapping[str, Any], ...] = ()


TrainingExample = TextExample | MessagesExample


def text_example(
    answers: Sequence[Answer],
    whole: Trace,
    *,
    earlier: Callable[[Span], bool] | None = None,
    end: str = '',
    eos: str = '',
) -> TextExample:
    """The example in a text: the answers that are asked for, and those before them whose spans are `earlier` ones.

    `end` ends an answer where the model side has nothing that does; `eos` is where a chat template's turn is over.

    >>> from rolecall.prompts.pieces import Origin
    >>> spans = Span('Q: ', Origin('text')), Span('4', Origin('label')), Span('</s>', Origin('marker', 'BOT'))
    >>> text_example([('Q: ', 'Q: 4')], Trace('Q: 4</s>', spans)).stretches
    ((3, 8),)
    """
    text = as_text(whole.request)
    asked = [(as_text(request), as_text(told)) for request, told in answers]
    for request, told in asked:
        _check_beginning(told, request)
        _check_beginning(text, told)
    spoken = [(len(request), len(told)) for request, told in asked]
    first, last = spoken[-1]
    if not text[first:last].strip():
        raise UntrainableError('there is no answer', 'nothing follows the request')
    written, ending = _closing(whole.spans, last, eos)
    lead = _lead(whole.spans, first, last)
    said = _earlier_answers(whole.spans, spoken, earlier, lead) if earlier else []
    for _, stop in (*said, *spoken):
        if not text.startswith(ending, stop):
            raise UntrainableError('the model side ends earlier answers differently from the last')
    stretches = sorted((start, stop + len(ending)) for start, stop in (*said, *spoken))
    if end and not ending:
        stretches[-1] = (stretches[-1][0], last + len(end))
        written = ending = end
    return TextExample(text[:last] + written, asked[-1][0], tuple(stretches), lead, ending, tuple(_data(whole.spans)))


def _data(spans: Iterable[Span]) -> Iterator[str]:
    for is_data, run in groupby(spans, key=lambda span: span.origin.kind in _DATA):
        if is_data:
            yield ''.join(str(span.text) for span in run)


def messages_example(
    answers: Sequence[Answer],
    *,
    all_answers: bool = False,
    prefilled: bool = False,
    tools: Sequence[Mapping[str, Any]] = (),
) -> MessagesExample:
    """The example in messages: those before each answer are what inference sends.

    >>> asked = [{'role': 'user', 'content': '2+2=?'}]
    >>> messages_example([(asked, [*asked, {'role': 'assistant', 'content': '4'}])]).trained
    frozenset({1})
    """
    whole = _as_messages(answers[-1][1])
    trained = set()
    for request, told in answers:
        said = _as_messages(told)
        if not said or said[-1]['role'] != 'assistant':
            raise UntrainableError("the answer is no message of the assistant's")
        _check_messages(_as_messages(request), said, prefilled=prefilled)
        if whole[: len(said)] != said:
            raise UntrainableError('later turns do not repeat what was said before')
        trained.add(len(said) - 1)
    if all_answers:
        trained |= {i for i, message in enumerate(whole) if message['role'] == 'assistant'}
    return MessagesExample(tuple(whole), frozenset(trained), tuple(tools))


def as_text(request: Request) -> str:
    """A request that is a text; one that is not is no example in a text."""
    if isinstance(request, str):
        return request
    if all(isinstance(entry, Mapping) for entry in request):
        raise UntrainableError('this model is sent messages, and nothing here makes a text of them')
    raise UntrainableError('the meta template holds token ids, which have no text', 'write them as strings')


def _as_messages(request: Request) -> list[Message]:
    if not isinstance(request, str):
        messages = [entry for entry in request if isinstance(entry, Mapping)]
        if len(messages) == len(request):
            return messages
    raise UntrainableError('this model is sent a text, not messages')


def _check_beginning(text: str, beginning: str) -> None:
    if text.startswith(beginning):
        return
    at = next((i for i, (a, b) in enumerate(zip(text, beginning, strict=False)) if a != b), len(text))
    seen, sent = (part[max(0, at - 8) : at + _SHOWN] for part in (text, beginning))
    raise UntrainableError(
        'the text with the answer does not begin with what inference sends',
        f'at character {at:,} it has {seen!r}, inference sends {sent!r}',
    )


def _check_messages(request: list[Message], told: list[Message], *, prefilled: bool) -> None:
    if told[:-1] == request:
        return
    begun = request[-1] if request else {}
    content, words = told[-1].get('content'), begun.get('content')
    if (
        prefilled
        and request[:-1] == told[:-1]
        and begun.get('role') == 'assistant'
        and isinstance(content, str)
        and isinstance(words, str)
        and content.startswith(words)
    ):
        return
    raise UntrainableError('the messages before the answer are not what inference sends')


def _shift_spans(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """The spans that have words, each with its first character."""
    at = 0
    for span in spans:
        if span.text:
            yield at, span
            at += len(span.text)


def _closing(spans: Sequence[Span], at: int, eos: str) -> tuple[str, str]:
    """What the model side writes after the answer that ends before `at`, and the part of it that ends the answer.

    That is the end of the role that answers; where it has none, the round's; where that has none, the conversation's.
    """
    after = [
        (span.origin.kind, span.origin.name, span.text[max(0, at - start) :])
        for start, span in _shift_spans(spans)
        if start + len(span.text) > at
    ]
    written = ''
    for (kind, _), group in groupby(after, key=lambda part: part[:2]):
        if written.strip() or kind not in _ENDS:
            break
        written += ''.join(text for _, _, text in group)
    stop = written.index(eos) + len(eos) if eos and eos in written else len(written)
    return written, written[:stop]


def _lead(spans: Sequence[Span], start: int, stop: int) -> str:
    """What stands between the request and the first word of the answer."""
    lead = ''
    for at, span in _shift_spans(spans):
        if at + len(span.text) <= start or at >= stop:
            continue
        if span.origin.kind not in _NOT_SAID:
            return lead
        lead += span.text[max(0, start - at) :]
    return ''


def _earlier_answers(
    spans: Sequence[Span], spoken: Sequence[Stretch], is_answer: Callable[[Span], bool], lead: str
) -> list[Stretch]:
    """The answers before those that are asked for, with the same words in front of them."""
    if all(span.origin.kind == 'chat_template' for span in spans):
        raise UntrainableError('it cannot be told where the answers stand in the text of the chat template')
    text = ''.join(span.text for span in spans)
    found: list[Stretch] = []
    for answers, group in groupby(_shift_spans(spans), key=lambda placed: is_answer(placed[1])):
        if not answers:
            continue
        run = list(group)
        start, stop = run[0][0], run[-1][0] + len(run[-1][1].text)
        if any(start < taken_stop and taken_start < stop for taken_start, taken_stop in spoken):
            continue
        if not text.endswith(lead, 0, start):
            raise UntrainableError('the model side begins earlier answers differently from the last')
        found.append((start - len(lead), stop))
    return found
