"""Training files: examples as the lines that a trainer reads as they are, and a report of what was left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rolecall.apps.sft.examples import MessagesExample, Stretch, TextExample, TrainingExample, UntrainableError
from rolecall.core.prompters.vendors import parse_arguments
from rolecall.core.render.spans import Message, texts_of
from rolecall.errors import PrompterError, RenderError
from rolecall.models.local_engine import PromptEncoder
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.strings import count_noun

Form = Literal['messages', 'prompt-completion', 'text', 'tokens', 'sharegpt', 'alpaca']
"""OpenAI's messages; TRL's prompt and completion; text with trained character ranges; token ids with labels;
LLaMA-Factory's two formats."""
FORMS: tuple[Form, ...] = get_args(Form)
LLAMA_FACTORY: Mapping[str, Mapping[str, str]] = {
    'sharegpt': {'messages': 'conversations', 'tools': 'tools'},
    'alpaca': {'prompt': 'instruction', 'query': 'input', 'response': 'output'},
}
"""The columns of LLaMA-Factory's formats, as its dataset_info.json names them."""

IGNORED = -100
"""The label of a token outside the loss."""
_SHAREGPT = {'system': 'system', 'user': 'human', 'assistant': 'gpt', 'tool': 'observation'}
_ASKS = ('human', 'observation')

Given = tuple[str, Callable[[], TrainingExample]]
"""The place of a row, and a function that builds its example."""


@dataclass(slots=True)
class SftReport:
    """Counts of what happened during an export, with one example of each kind."""

    examples: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    cases: dict[str, str] = field(default_factory=dict)
    leads: Counter[str] = field(default_factory=Counter)
    endless: int = 0
    """Examples without an end marker."""
    straddling: int = 0
    """Tokens that span an answer and its surroundings."""
    shifted: int = 0
    """Examples whose request tokenizes differently when the answer follows."""

    def leave_out(self, where: str, error: RenderError | PrompterError) -> None:
        """Count a skipped row."""
        reason = error.reason if isinstance(error, UntrainableError) else _REFUSED[isinstance(error, PrompterError)]
        self.left_out[reason] += 1
        self.cases.setdefault(reason, f'{where}: {error}')

    def count(self, example: TrainingExample) -> None:
        self.examples += 1
        if isinstance(example, TextExample):
            self.endless += not example.ending
            self.leads[example.lead] += bool(example.lead.strip())

    def remarks(self) -> Iterator[str]:
        """Remarks for the user."""
        for reason, count in self.left_out.most_common():
            yield f'{count_noun(count, "row")} left out: {reason}. The first: {self.cases[reason]}'
        for lead, count in (+self.leads).most_common(3):
            rows = count_noun(count, 'row')
            yield f'{rows}: the model side puts {lead!r:.60} between request and answer, trained on too.'
        if self.endless:
            what = 'no end marker, so the model will not learn where to stop. Add one with --end'
            yield f'{count_noun(self.endless, "row")}: {what}'
        if self.straddling:
            yield f'{count_noun(self.straddling, "token")} spanning the boundary of an answer: not trained on.'
        if self.shifted:
            yield f'{count_noun(self.shifted, "row")}: the request tokenizes differently when the answer follows.'


_REFUSED = {False: 'the row cannot become a request', True: 'the prompter cannot word the row'}


def entries(
    examples: Iterable[Given],
    report: SftReport,
    *,
    form: Form,
    encoder: PromptEncoder | None = None,
    skip: bool = False,
) -> Iterator[dict[str, Any]]:
    """The examples as lines of a training file. `tokens` needs an `encoder`.

    A row that gives no example is an error, unless it is to be skipped; then it is counted.
    """
    for where, teach in examples:
        try:
            example = teach()
            lines = list(lines_of(example, form, report, encoder))
        except (RenderError, PrompterError) as error:
            if not skip:
                raise RenderError(f'{where}: {error}') from error
            report.leave_out(where, error)
            continue
        report.count(example)
        yield from lines


def takes_messages(form: Form, *, chat: bool) -> bool:
    """Whether the lines hold messages: always in some forms, in others if the model is addressed with messages."""
    return form in ('messages', 'sharegpt') or (form == 'prompt-completion' and chat)


def lines_of(
    example: TrainingExample, form: Form, report: SftReport, encoder: PromptEncoder | None = None
) -> Iterator[dict[str, Any]]:
    """The lines of an example. Forms with room for one answer give a line for each answer that is trained on.

    With an `encoder`, a row that contains a special token is refused: inference sends its characters, trainers the
    token.
    """
    if encoder is not None:
        _refuse_special_tokens(example, encoder.tokenizer)
    if isinstance(example, MessagesExample):
        yield from _messages_lines(example, form)
    elif form == 'tokens' and encoder is not None:
        yield _tokens_line(example, encoder, report)
    elif form in ('prompt-completion', 'alpaca'):
        names = ('prompt', 'completion') if form == 'prompt-completion' else ('instruction', 'output')
        bos = _bos_text(example, encoder) if form == 'alpaca' else ''
        for start, stop in example.stretches:
            request, answer = f'{bos}{example.text[:start]}', example.text[start:stop]
            yield {names[0]: request, **({'input': ''} if form == 'alpaca' else {}), names[1]: answer}
    else:
        yield {'text': example.text, 'spans': [list(stretch) for stretch in example.stretches]}


def dataset_info(form: Form, file_name: str) -> dict[str, Any]:
    """The entry of a file in LLaMA-Factory's dataset_info.json.

    >>> dataset_info('alpaca', 'sft.jsonl')['columns']['response']
    'output'
    """
    return {'file_name': file_name, 'formatting': form, 'columns': dict(LLAMA_FACTORY[form])}


def _messages_lines(example: MessagesExample, form: Form) -> Iterator[dict[str, Any]]:
    if form == 'messages':
        yield _with_tools({'messages': _weighted(example)}, example)
        return
    for i in sorted(example.trained):
        if form == 'sharegpt':
            yield _sharegpt_line(example.messages[: i + 1], example)
        else:
            request, answer = map(dict, example.messages[:i]), dict(example.messages[i])
            yield _with_tools({'prompt': list(request), 'completion': [answer]}, example)


def _weighted(example: MessagesExample) -> list[dict[str, Any]]:
    """Assistant messages outside the loss get weight 0, as in OpenAI's format."""
    return [
        {**message, 'weight': 0} if message['role'] == 'assistant' and i not in example.trained else dict(message)
        for i, message in enumerate(example.messages)
    ]


def _with_tools(line: dict[str, Any], example: MessagesExample) -> dict[str, Any]:
    return {**line, 'tools': list(example.tools)} if example.tools else line


def _sharegpt_line(messages: Sequence[Message], example: MessagesExample) -> dict[str, Any]:
    turns_written = [_sharegpt_turn(message) for message in messages]
    turns = [turn['from'] for turn in turns_written if turn['from'] != 'system']
    if any((turn in _ASKS) != (i % 2 == 0) for i, turn in enumerate(turns)) or len(turns_written) - len(turns) > 1:
        detail = f'LLaMA-Factory would drop the row: {", ".join(turns)}'
        raise UntrainableError('the turns of user and assistant do not alternate', detail)
    return {
        'conversations': turns_written,
        'tools': json.dumps(list(example.tools), ensure_ascii=False) if example.tools else '',
    }


def _sharegpt_turn(message: Message) -> dict[str, Any]:
    content, calls = message.get('content'), message.get('tool_calls')
    if not isinstance(content, str | None):
        raise UntrainableError('the prompt contains images, audio or video, which this form cannot hold')
    if not calls:
        return {'from': _SHAREGPT.get(message['role'], message['role']), 'value': content or ''}
    if content:
        raise UntrainableError('a message has both text and tool calls, which this form cannot hold')
    functions = [call['function'] for call in calls]
    plain = [{'name': each['name'], 'arguments': parse_arguments(each.get('arguments'))} for each in functions]
    return {'from': 'function_call', 'value': json.dumps(plain, ensure_ascii=False)}


def _bos_text(example: TextExample, encoder: PromptEncoder | None) -> str:
    """The BOS that inference puts first, for trainers that add none."""
    if encoder is None:
        return ''
    ids, bos = encoder.encode(example.asked).ids, encoder.tokenizer.bos_id
    is_added = bos is not None and ids[:1] == (bos,) and encoder.tokenizer.encode(example.asked)[:1] != [bos]
    return encoder.tokenizer.decode([bos]) if is_added and bos is not None else ''


def _refuse_special_tokens(example: TrainingExample, tokenizer: Tokenizer) -> None:
    texts = example.data if isinstance(example, TextExample) else texts_of(list(example.messages)).values()
    for token in tokenizer.special_tokens:
        if any(token in text for text in texts):
            raise UntrainableError('the row contains a special token', f'{token!r} would end or begin a turn')


def _tokens_line(example: TextExample, encoder: PromptEncoder, report: SftReport) -> dict[str, Any]:
    whole = encoder.encode(example.text)
    trained, straddling = trained_tokens(whole.ids, whole.offsets, example.stretches, encoder.tokenizer)
    if not any(trained):
        raise UntrainableError('no token lies inside the answer')
    request_ids = encoder.encode(example.asked).ids
    report.straddling += straddling
    report.shifted += whole.ids[: len(request_ids)] != request_ids
    labels = [number if chosen else IGNORED for number, chosen in zip(whole.ids, trained, strict=True)]
    return {'input_ids': list(whole.ids), 'attention_mask': [1] * len(labels), 'labels': labels}


def trained_tokens(
    ids: Sequence[int], offsets: Sequence[Stretch], stretches: Sequence[Stretch], tokenizer: Tokenizer
) -> tuple[list[bool], int]:
    """Which tokens are trained on, and how many are left out because they span the boundary of an answer.

    A token without characters goes with the character it is a part of, or with the word it was put in front of.
    """
    inside: list[bool | None] = []
    straddling = 0
    rest = iter(stretches)
    first, last = next(rest, (0, 0))
    for start, stop in offsets:
        while start >= last > 0 and (following := next(rest, None)) is not None:
            first, last = following
        if start == stop:
            inside.append(None)
            continue
        within = first <= start and stop <= last
        straddling += not within and start < last and first < stop
        inside.append(within)
    for i, decided in enumerate(inside):
        if decided is None and i and '<0x' in tokenizer.pieces([ids[i]])[0]:
            inside[i] = inside[i - 1]
    for i in reversed(range(len(inside))):
        if inside[i] is None:
            inside[i] = offsets[i][0] > 0 and i + 1 < len(inside) and inside[i + 1]
    return list(map(bool, inside)), straddling
