"""A prompter on a terminal: what it says, with every character coloured by where it comes from."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from rolecall.config.trouble import syntax_problem, user_problem
from rolecall.errors import ConfigError, PrompterError, did_you_mean
from rolecall.prompters import Prompter, PromptTrace
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Span
from rolecall.usercode import neighbours_of, printing_to_stderr
from rolecall.views.blocks import Block
from rolecall.views.jsonl import span_as_json
from rolecall.views.looks import LOOKS, group_of, label_of
from rolecall.views.terminal import drawn, framed
from rolecall.views.visible import safe

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ['load_prompter', 'plain_lines', 'prompter_view', 'read_given', 'show_trace', 'sketched', 'trace_as_json']

_MEANINGS = {'text': 'instruction', 'field': 'given with the call', 'reply': 'earlier answer', 'label': 'label'}


def load_prompter(spec: str) -> Prompter:
    """The prompter that a Python file defines: 'FILE.py:NAME', or 'FILE.py' where it defines only one."""
    path, colon, name = spec.rpartition(':') if spec.rpartition(':')[0].endswith('.py') else (spec, '', '')
    if not Path(path).is_file():
        raise PrompterError(f'{spec}: there is no file {path}. Write FILE.py:NAME.')
    found = {key: value for key, value in _names_in(path).items() if isinstance(value, Prompter)}
    if not found:
        raise PrompterError(f'{path}: it defines no prompter.')
    if not colon and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        raise PrompterError(f'{spec}: there is no prompter {name!r} in the file. {did_you_mean(name, found)}')
    return found[name]


def _names_in(path: str) -> dict[str, Any]:
    try:
        with printing_to_stderr, neighbours_of(path):
            return runpy.run_path(path)
    except SyntaxError as error:
        raise ConfigError(syntax_problem(path, error)) from error
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise ConfigError(user_problem(path, error, {})) from error


def read_given(text: str) -> Any:
    """An input as the command line gives it: JSON where it is an object or a list, otherwise the words themselves.

    >>> read_given('{"a": 1}'), read_given('{a}')
    ({'a': 1}, '{a}')
    """
    try:
        given = json.loads(text)
    except ValueError:
        return text
    return given if isinstance(given, (dict, list)) else text


def sketched(prompter: Prompter, **options: Any) -> PromptTrace:
    """The prompt with its slots open, as they are written."""
    takes_input = 'input' not in prompter.slots and '{input}' in prompter.template
    values = {slot: f'{{{slot}}}' for slot in prompter.slots} | ({'input': '{input}'} if takes_input else {})
    return prompter.trace(values, **options)


def show_trace(trace: PromptTrace, to: Console, *, whitespace: bool = False) -> None:
    """Print a prompt in colours, and what they mean."""
    to.print(_legend(trace))
    to.print(prompter_view(trace, whitespace=whitespace))


def prompter_view(trace: PromptTrace, *, whitespace: bool = False) -> RenderableType:
    """The prompt in frames: one for a string, one for each message, and one for what stands beside messages."""
    is_text = isinstance(trace.body, str)
    frames = [
        framed(block, lambda spans: drawn(spans, whitespace=whitespace), heading=not is_text)
        for block in _blocks(trace)
    ]
    return Group(*frames)


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
        told = {span.part for span in spans}
        unsaid = [part for i, part in enumerate(message['content']) if i not in told]
        extra |= {'content': unsaid} if unsaid else {}
    return Block(str(message['role']), spans, json.dumps(extra, ensure_ascii=False) if extra else '')


def _legend(trace: PromptTrace) -> Text:
    """The groups that occur, each drawn as its spans are, with the names in it."""
    found: dict[str, dict[str, None]] = {}
    for span in trace.spans:
        if span.text:
            found.setdefault(group_of(span.origin), {})[span.origin.name] = None
    entries = []
    for group in LOOKS:
        if group in found:
            names = ', '.join(filter(None, found[group]))
            words = f'{_MEANINGS.get(group, LOOKS[group].meaning)}{f" ({safe(names)})" if names else ""}'
            entries.append(Text(words, LOOKS[group].style))
    return Text('  ').join(entries)


def trace_as_json(trace: PromptTrace) -> dict[str, Any]:
    """The prompt, and its spans."""
    return {
        'prompt': trace.body,
        'spans': [span_as_json(span) for span in trace.spans],
        'fingerprint': trace.fingerprint,
    }


def plain_lines(trace: PromptTrace) -> Iterator[str]:
    """The spans one by one, without colours: the origin, and the words as Python writes them."""
    messages = trace.body['messages'] if isinstance(trace.body, dict) else ()
    for span in trace.spans:
        place = '' if span.message is None else f'[{span.message} {messages[span.message]["role"]}] '
        yield f'{place}{label_of(span.origin)}: {safe(str(span.text))!r}'
    if isinstance(trace.body, dict) and trace.body.get('tools'):
        yield f'tools: {safe(json.dumps(trace.body["tools"], ensure_ascii=False))}'
