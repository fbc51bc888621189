"""Training examples: exactly the request that inference sends, then the answer, then its end marker.

Nothing is worded here. A prompt is rendered as inference sends it and once more with its answer; an example comes of it
only if the second begins with the first, character for character or message for message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rolecall.core.program.compiled import Trace
from rolecall.core.render.spans import Message, Request, Span
from rolecall.errors import RenderError

Stretch = tuple[int, int]
"""Start and end of a character range."""
Answer = tuple[Request, Request]
"""A request, and the same request followed by the answer."""

_ENDS = ('marker', 'chat_template', 'text')
_NOT_SAID = ('marker', 'chat_template', 'joint')
_DATA = ('field', 'label', 'reply')
_SHOWN = 40


class UntrainableError(RenderError):
    """A row whose training text would differ from inference. `reason` is the same for all rows with the same cause."""

    def __init__(self, reason: str, detail: str = '') -> None:
        super().__init__(f'{reason}: {detail}'.removesuffix('.') + '.' if detail else f'{reason}.')
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text and the character ranges that are trained on."""

    text: str
    asked: str
    """The request that inference sends; the text starts with it."""
    stretches: tuple[Stretch, ...]
    lead: str = ''
    """Text that the model side inserts between request and answer; trained on as well."""
    ending: str = ''
    """The end marker of an answer."""
    data: tuple[str, ...] = ()
    """Ranges filled from rows, as opposed to templates and the model side."""


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
    """A text example: the requested answers, plus earlier ones whose spans satisfy `earlier`.

    `end` ends an answer where the model side has nothing that does; `eos` is where a chat template's turn is over.

    >>> from rolecall.core.prompts.pieces import Origin
    >>> spans = Span('Q: ', Origin('text')), Span('4', Origin('label')), Span('</s>', Origin('marker', 'BOT'))
    >>> text_example([('Q: ', 'Q: 4')], Trace('Q: 4</s>', spans)).stretches
    ((3, 8),)
    """
    text = as_text(whole.request)
    requests = [(as_text(request), as_text(answered)) for request, answered in answers]
    for request, answered in requests:
        _check_beginning(answered, request)
        _check_beginning(text, answered)
    spoken = [(len(request), len(answered)) for request, answered in requests]
    first, last = spoken[-1]
    if not text[first:last].strip():
        raise UntrainableError('the answer is missing', 'nothing follows the request')
    spans = [span for span in whole.spans if span.text]
    closing_text, ending = _closing(spans, last, eos)
    lead = _lead(spans, first, last)
    earlier_stretches = _earlier_answers(spans, spoken, earlier, lead) if earlier else []
    for _, stop in (*earlier_stretches, *spoken):
        if not text.startswith(ending, stop):
            raise UntrainableError('the model side ends earlier answers differently from the last')
    stretches = sorted((start, stop + len(ending)) for start, stop in (*earlier_stretches, *spoken))
    if end and not ending:
        stretches[-1] = (stretches[-1][0], last + len(end))
        closing_text = ending = end
    data = tuple(_data(whole.spans))
    return TextExample(text[:last] + closing_text, requests[-1][0], tuple(stretches), lead, ending, data)


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
    """A messages example: the messages before each answer are what inference sends.

    >>> asked = [{'role': 'user', 'content': '2+2=?'}]
    >>> messages_example([(asked, [*asked, {'role': 'assistant', 'content': '4'}])]).trained
    frozenset({1})
    """
    whole = _as_messages(answers[-1][1])
    trained = set()
    for request, answered in answers:
        messages = _as_messages(answered)
        if not messages or messages[-1]['role'] != 'assistant':
            raise UntrainableError('the answer is not an assistant message')
        _check_messages(_as_messages(request), messages, prefilled=prefilled)
        if whole[: len(messages)] != messages:
            raise UntrainableError('later turns do not repeat the earlier ones')
        trained.add(len(messages) - 1)
    if all_answers:
        trained |= {i for i, message in enumerate(whole) if message['role'] == 'assistant'}
    return MessagesExample(tuple(whole), frozenset(trained), tuple(tools))


def as_text(request: Request) -> str:
    """The request as text; raises UntrainableError if it is not text."""
    if isinstance(request, str):
        return request
    if all(isinstance(entry, Mapping) for entry in request):
        raise UntrainableError('this model takes messages, and no chat template is available to render them as text')
    raise UntrainableError('the meta template contains token ids, which have no text', 'write them as strings')


def _as_messages(request: Request) -> list[Message]:
    if not isinstance(request, str):
        messages = [entry for entry in request if isinstance(entry, Mapping)]
        if len(messages) == len(request):
            return messages
    raise UntrainableError('this model takes text, not messages')


def _check_beginning(text: str, beginning: str) -> None:
    if text.startswith(beginning):
        return
    at = next((i for i, (a, b) in enumerate(zip(text, beginning, strict=False)) if a != b), len(text))
    actual, sent = (part[max(0, at - 8) : at + _SHOWN] for part in (text, beginning))
    raise UntrainableError(
        'the text with the answer does not begin with what inference sends',
        f'at character {at:,} it has {actual!r}, inference sends {sent!r}',
    )


def _check_messages(request: list[Message], answered: list[Message], *, prefilled: bool) -> None:
    if answered[:-1] == request:
        return
    begun = request[-1] if request else {}
    content, words = answered[-1].get('content'), begun.get('content')
    if (
        prefilled
        and request[:-1] == answered[:-1]
        and begun.get('role') == 'assistant'
        and isinstance(content, str)
        and isinstance(words, str)
        and content.startswith(words)
    ):
        return
    raise UntrainableError('the messages before the answer are not what inference sends')


def with_offsets(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """Each span with its start offset."""
    at = 0
    for span in spans:
        yield at, span
        at += len(span.text)


def _closing(spans: Sequence[Span], at: int, eos: str) -> tuple[str, str]:
    """The text after the answer that ends before `at`, and the part of it that is the end marker.

    That is the end of the role that answers; where it has none, the round's; where that has none, the conversation's.
    """
    after = [
        (span.origin.kind, span.origin.name, span.text[max(0, at - start) :])
        for start, span in with_offsets(spans)
        if start + len(span.text) > at
    ]
    closing_text = ''
    for (kind, _), group in groupby(after, key=lambda part: part[:2]):
        if closing_text.strip() or kind not in _ENDS:
            break
        closing_text += ''.join(text for _, _, text in group)
    stop = closing_text.index(eos) + len(eos) if eos and eos in closing_text else len(closing_text)
    return closing_text, closing_text[:stop]


def _lead(spans: Sequence[Span], start: int, stop: int) -> str:
    """The text between the request and the answer."""
    lead = ''
    for at, span in with_offsets(spans):
        if at + len(span.text) <= start or at >= stop:
            continue
        if span.origin.kind not in _NOT_SAID:
            return lead
        lead += span.text[max(0, start - at) :]
    return ''


def _earlier_answers(
    spans: Sequence[Span], spoken: Sequence[Stretch], is_answer: Callable[[Span], bool], lead: str
) -> list[Stretch]:
    """The earlier answers, each preceded by the same text."""
    if all(span.origin.kind == 'chat_template' for span in spans):
        raise UntrainableError('the answers cannot be located in the text of the chat template')
    text = ''.join(span.text for span in spans)
    stretches: list[Stretch] = []
    for answers, group in groupby(with_offsets(spans), key=lambda placed: is_answer(placed[1])):
        if not answers:
            continue
        run = list(group)
        start, stop = run[0][0], run[-1][0] + len(run[-1][1].text)
        if any(start < taken_stop and taken_start < stop for taken_start, taken_stop in spoken):
            continue
        if not text.endswith(lead, 0, start):
            raise UntrainableError('the model side begins earlier answers differently from the last')
        stretches.append((start - len(lead), stop))
    return stretches
