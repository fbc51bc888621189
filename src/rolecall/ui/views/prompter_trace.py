"""A prompter's prompt on a terminal, every character coloured by its origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rolecall.core.prompters import Prompter, PromptTrace
from rolecall.core.prompts.pieces import Origin, label_of
from rolecall.core.render.spans import Span
from rolecall.experiment.previews.blocks import Block, span_as_json
from rolecall.strings import printable
from rolecall.ui.views.terminal import draw_legend, draw_spans, frame_block

if TYPE_CHECKING:
    from rich.console import Console


_MEANINGS = {'text': 'instruction', 'field': 'given with the call', 'reply': 'earlier answer', 'label': 'label'}


def trace_open_slots(prompter: Prompter, **options: Any) -> PromptTrace:
    """The prompt with its slots unfilled, as written in the template."""
    takes_input = 'input' not in prompter.slots and '{input}' in prompter.template
    values = {slot: f'{{{slot}}}' for slot in prompter.slots} | ({'input': '{input}'} if takes_input else {})
    return prompter.trace(values, **options)


def show_trace(trace: PromptTrace, to: Console, *, whitespace: bool = False) -> None:
    """Print a prompt in colours, and what they mean: a frame for a string, for each message, and for what is beside."""
    to.print(draw_legend(trace.spans, to.width, _MEANINGS))
    for block in _blocks(trace):
        draw = partial(draw_spans, whitespace=whitespace)
        to.print(frame_block(block, draw, heading=not isinstance(trace.body, str)))


def _blocks(trace: PromptTrace) -> Iterator[Block]:
    if not isinstance(trace.body, dict):
        yield Block('text', trace.spans)
        return
    beside = tuple(span for span in trace.spans if span.message is None)
    if beside:
        yield Block('system (beside the messages)', beside)
    for number, message in enumerate(trace.body['messages']):
        yield _message_block(message, tuple(span for span in trace.spans if span.message == number))
    if 'tools' in trace.body:
        words = json.dumps(trace.body['tools'], ensure_ascii=False, indent=2)
        yield Block('tools (beside the messages)', (Span(words, Origin('text', 'tools')),))


def _message_block(message: Mapping[str, Any], spans: tuple[Span, ...]) -> Block:
    extra: dict[str, Any] = {key: value for key, value in message.items() if key not in ('role', 'content')}
    if isinstance(message.get('content'), list):
        drawn = {span.part for span in spans}
        rest = [part for i, part in enumerate(message['content']) if i not in drawn]
        extra |= {'content': rest} if rest else {}
    return Block(str(message['role']), spans, json.dumps(extra, ensure_ascii=False) if extra else '')


def trace_as_json(trace: PromptTrace) -> dict[str, Any]:
    """The prompt, and its spans."""
    return {
        'prompt': trace.body,
        'spans': [span_as_json(span) for span in trace.spans],
        'fingerprint': trace.fingerprint,
    }


def trace_lines(trace: PromptTrace) -> Iterator[str]:
    """The spans one by one, without colour: the origin, and the text as a Python literal."""
    messages = trace.body['messages'] if isinstance(trace.body, dict) else ()
    for span in trace.spans:
        place = '' if span.message is None else f'[{span.message} {messages[span.message]["role"]}] '
        yield f'{place}{label_of(span.origin)}: {printable(str(span.text))!r}'
    if isinstance(trace.body, dict) and trace.body.get('tools'):
        yield f'tools: {printable(json.dumps(trace.body["tools"], ensure_ascii=False))}'
