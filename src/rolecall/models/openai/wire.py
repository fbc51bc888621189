"""OpenAI's wire format: writes messages, reads replies and streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.checking import is_number, is_whole
from rolecall.models.http.body import ReplyFieldError, check_depth, parse_json
from rolecall.models.http.media import MediaReader, has_media, part_url, with_url
from rolecall.models.protocol import NOT_STATED, THINK, Message, Outcome, Reply, Served, Usage, split_reasoning


async def prepare_messages(messages: Sequence[Message], *, media: MediaReader | None) -> Sequence[Message]:
    """`write_messages`, in a thread if files must be read."""
    if media is not None and any(has_media(message) for message in messages):
        return await asyncio.to_thread(write_messages, messages, media=media)
    return write_messages(messages, media=None)


def write_messages(messages: Sequence[Message], *, media: MediaReader | None) -> Sequence[Message]:
    """The messages as they are sent; plain ones are unchanged. `media` reads local files; without it, URLs stay."""
    if all(isinstance(message.get('content'), str) and 'tool_calls' not in message for message in messages):
        return messages
    return [_write_message(message, media=media) for message in messages]


def _write_message(message: Message, *, media: MediaReader | None) -> Message:
    copy = dict(message)
    content = message.get('content')
    if isinstance(content, (list, tuple)):
        copy['content'] = [_write_part(part, media=media) for part in content]
    if message.get('tool_calls'):
        copy['tool_calls'] = [_write_call(call) for call in message['tool_calls']]
    return copy


def _write_part(part: Message, *, media: MediaReader | None) -> Message:
    url = part_url(part)
    return part if url is None else with_url(part, url if media is None else media.data_url(url))


def _write_call(call: Message) -> Message:
    function = call.get('function') or {}
    arguments = function.get('arguments')
    if isinstance(arguments, str):
        return call
    return {**call, 'function': {**function, 'arguments': json.dumps(arguments or {}, ensure_ascii=False)}}


_REASONING = ('reasoning_content', 'reasoning')
_DETAILS = 'reasoning_details'
_MOST_TOKENS = 10**12
_LARGEST_LOGPROB = 3.4e38
_LONGEST_REASON = 400
_LONGEST_NAME = 200
_NO_USAGE = Usage()
_TEXT_KEYS = ('content', *_REASONING, 'refusal')


def read_reply(answer: Mapping[str, Any], *, seconds: float | None = None, tags: tuple[str, str] = THINK) -> Reply:
    """The reply in a response of /chat/completions or /completions.

    >>> read_reply({'choices': [{'message': {'content': 'Four'}, 'finish_reason': 'stop'}]}).text
    'Four'
    """
    if not isinstance(answer, Mapping):
        raise ReplyFieldError(f'it is a {type(answer).__name__}, not an object')
    choices = answer.get('choices')
    if not isinstance(choices, list) or not choices:
        what = 'missing' if choices is None else 'empty' if choices == [] else f'a {type(choices).__name__}, not a list'
        raise ReplyFieldError(f'`choices` is {what}')
    usage = read_usage(answer.get('usage'), seconds)
    others = tuple(_read_choice(choice, tags) for choice in choices[1:])
    return _read_choice(choices[0], tags, usage, others, read_served(answer))


def read_served(answer: Mapping[str, Any]) -> Served:
    """Who answered, in the words of the reply. OpenRouter names the provider, OpenAI and vLLM their configuration.

    >>> read_served({'model': 'llama-3', 'provider': 'Acme', 'system_fingerprint': None})
    Served(model='llama-3', provider='Acme', system_fingerprint='', quantization='')
    """
    return Served._make(
        value[:_LONGEST_NAME] if isinstance(value := answer.get(name), str) else '' for name in Served._fields
    )


def _read_choice(
    choice: Mapping[str, Any],
    tags: tuple[str, str],
    usage: Usage = _NO_USAGE,
    others: tuple[Reply, ...] = (),
    served: Served = NOT_STATED,
) -> Reply:
    message = choice['message'] if 'message' in choice else {'content': choice['text']} if 'text' in choice else None
    if not isinstance(message, Mapping):
        raise ReplyFieldError('`choices[0].message` is missing')
    content, reasoning = _split_content(message.get('content'))
    reasoning = reasoning or next((_as_text(message[key]) for key in _REASONING if message.get(key)), '')
    ended = _as_text(choice.get('finish_reason') or '')[:_LONGEST_REASON]
    calls = tuple(_read_call(call) for call in message.get('tool_calls') or ())
    exhausted = bool(reasoning) and not content and not calls and ended == 'length'
    if not reasoning:
        content, reasoning, exhausted = split_reasoning(content, cut_off=ended == 'length', tags=tags)
    refused = _as_text(message.get('refusal') or '')
    outcome: Outcome = 'thinking_exhausted' if exhausted else 'ok'
    if refused or ended == 'content_filter':
        outcome, ended = 'filtered', refused or ended
    return Reply(
        content,
        outcome,
        ended,
        reasoning,
        calls,
        usage,
        others,
        logprobs=read_logprobs(choice.get('logprobs')),
        thinking=_read_thinking(message),
        served=served,
    )


def _read_thinking(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that a server wants back: reasoning, its encrypted details, and Gemini's signature.

    >>> _read_thinking({'content': 'Four', 'reasoning_content': '2 and 2', 'reasoning': None})
    {'reasoning_content': '2 and 2'}
    """
    fields = {key: message[key] for key in (*_REASONING, _DETAILS) if message.get(key) is not None}
    if (signature := _find_signature(message)) is not None:
        fields['extra_content'] = {'google': {'thought_signature': signature}}
    content = message.get('content')
    if isinstance(content, list) and any(part.get('type') == 'thinking' for part in content):
        fields['content'] = content
    check_depth(fields)
    return fields


def _find_signature(message: Mapping[str, Any]) -> str | None:
    extra = message.get('extra_content')
    google = extra.get('google') if isinstance(extra, Mapping) else None
    signature = google.get('thought_signature') if isinstance(google, Mapping) else None
    return signature if isinstance(signature, str) else None


def read_logprobs(reported: object) -> tuple[tuple[str, float], ...]:
    """The tokens of a chat reply with their log-probabilities; empty if any of them cannot be one.

    >>> read_logprobs({'content': [{'token': 'Four', 'logprob': -0.25}]})
    (('Four', -0.25),)
    >>> read_logprobs({'content': [{'token': 'Four', 'logprob': 'high'}]}), read_logprobs(None)
    ((), ())
    """
    content = reported.get('content') if isinstance(reported, Mapping) else None
    if not isinstance(content, list) or not all(map(_is_scored_token, content)):
        return ()
    return tuple((token['token'], float(token['logprob'])) for token in content)


def _is_scored_token(token: object) -> bool:
    return (
        isinstance(token, Mapping)
        and isinstance(token.get('token'), str)
        and is_number(token.get('logprob'), least=-_LARGEST_LOGPROB, most=_LARGEST_LOGPROB)
    )


def _as_text(value: object) -> str:
    """A value that should be a string, as one."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _split_content(content: object) -> tuple[str, str]:
    """The text and the reasoning of a message's content: a string, None, or a list of parts."""
    if content is None or isinstance(content, str):
        return content or '', ''
    if not isinstance(content, list):
        raise TypeError(f'content is a {type(content).__name__}')
    texts = [part['text'] for part in content if part.get('type') == 'text']
    thoughts = [part.get('thinking') for part in content if part.get('type') == 'thinking']
    return ''.join(texts), ''.join(_split_content(thought)[0] for thought in thoughts)


def _read_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool call in the form that every vendor takes back: Mistral's have an `index` and no `type`."""
    function = check_depth(call)['function']
    arguments = parse_arguments(function.get('arguments'))
    fields = {key: value for key, value in call.items() if key != 'index'}
    return {'type': 'function', **fields, 'function': {**function, 'arguments': arguments}}


def parse_arguments(arguments: Any) -> Any:
    """The arguments of a tool call, decoded if they are JSON, otherwise unchanged.

    >>> parse_arguments('{"city": "Rome"}'), parse_arguments(''), parse_arguments('{oops')
    ({'city': 'Rome'}, {}, '{oops')
    """
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return check_depth(parse_json(arguments)) if arguments.strip() else {}
    except ValueError:
        return arguments


def read_usage(usage: Mapping[str, Any] | None, seconds: float | None) -> Usage:
    """The token counts the server reports."""
    usage = usage if isinstance(usage, Mapping) else {}
    cached = _read_detail(usage, 'prompt_tokens_details', 'cached_tokens')
    return Usage(
        input_tokens=read_count(usage.get('prompt_tokens')),
        output_tokens=read_count(usage.get('completion_tokens')),
        cached_tokens=read_count(usage.get('prompt_cache_hit_tokens')) if cached is None else cached,
        seconds=seconds,
        reasoning_tokens=_read_detail(usage, 'completion_tokens_details', 'reasoning_tokens'),
    )


def _read_detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return read_count(details.get(name)) if isinstance(details, Mapping) else None


def read_count(reported: object) -> int | None:
    """A number of tokens; None for anything that cannot be one.

    >>> read_count(12), read_count(-1), read_count(True), read_count(10**400)
    (12, None, None, None)
    """
    return reported if is_whole(reported, least=0, most=_MOST_TOKENS) else None


class StreamedAnswer:
    """Assembles a streamed reply.

    >>> answer = StreamedAnswer()
    >>> answer.take({'choices': [{'index': 0, 'delta': {'content': 'Four'}}]})
    True
    >>> answer.take({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})
    False
    >>> answer.finished, read_reply(answer.join()).text
    (True, 'Four')
    """

    def __init__(self) -> None:
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: Mapping[str, Any] | None = None
        self._served: dict[str, Any] = {}

    def take(self, event: Any) -> bool:
        adds = False
        self._usage = event.get('usage') or self._usage
        if not self._served:
            self._served = {name: event[name] for name in Served._fields if event.get(name)}
        for piece in event.get('choices') or ():
            if (choice := self._choices.get(index := piece.get('index', 0))) is None:
                choice = {'texts': {}, 'calls': {}, 'finish_reason': None, 'logprobs': [], 'details': [], 'extra': {}}
                self._choices[index] = choice
            choice['finish_reason'] = piece.get('finish_reason') or choice['finish_reason']
            delta = {'content': piece['text']} if 'text' in piece else piece.get('delta') or {}
            for key, text in delta.items():
                if key in _TEXT_KEYS and (text or (text == '' and key in _REASONING)):
                    choice['texts'].setdefault(key, []).append(text)
                    adds = adds or bool(text and not index)
            if len(delta) == 1 and 'content' in delta and not piece.get('logprobs'):
                continue  # as nearly all are
            for detail in delta.get(_DETAILS) or ():
                _add_detail(choice['details'], detail)
            if _find_signature(delta) is not None:
                choice['extra'] = {'extra_content': delta['extra_content']}
            for call in delta.get('tool_calls') or ():
                _add_call(choice['calls'], call)
            scored = piece.get('logprobs')
            if isinstance(scored, Mapping) and isinstance(scored.get('content'), list):
                choice['logprobs'] += scored['content']
        return adds

    @property
    def finished(self) -> bool:
        return bool(self._choices) and all(choice['finish_reason'] for choice in self._choices.values())

    def join(self) -> dict[str, Any]:
        choices = [_join_choice(choice) for _, choice in sorted(self._choices.items())]
        return {**self._served, 'choices': choices, 'usage': self._usage}

    @staticmethod
    def read_text(event: Any) -> str:
        first = _first_choice(event)
        content = first['text'] if 'text' in first else (first.get('delta') or {}).get('content')
        return content if isinstance(content, str) else _split_content(content)[0] if isinstance(content, list) else ''

    @staticmethod
    def read_thinking(event: Any) -> str:
        delta = _first_choice(event).get('delta') or {}
        thought = next((delta[key] for key in _REASONING if isinstance(delta.get(key), str) and delta[key]), '')
        content = delta.get('content')
        return thought or (_split_content(content)[1] if isinstance(content, list) else '')


def _add_call(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    function = piece.get('function') or {}
    call = calls.setdefault(piece.get('index', len(calls)), {'id': None, 'name': '', 'arguments': []})
    call['id'] = piece.get('id') or call['id']
    call['name'] = function.get('name') or call['name']
    if function.get('arguments'):
        call['arguments'].append(function['arguments'])
    if piece.get('extra_content') is not None:
        call['extra_content'] = piece['extra_content']


def _add_detail(details: list[dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """A piece of `reasoning_details`: it continues the last one if both have the same type and index."""
    last = details[-1] if details else {}
    if 'index' not in piece or any(last.get(key) != piece.get(key) for key in ('type', 'index')):
        details.append(dict(piece))
        return
    for key, value in piece.items():
        joins = key in ('text', 'summary', 'data') and isinstance(value, str) and isinstance(last.get(key), str)
        last[key] = last[key] + value if joins else value if value is not None else last.get(key)


def _join_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {key: _join_pieces(pieces) for key, pieces in choice['texts'].items()}
    message |= choice['extra'] | ({_DETAILS: choice['details']} if choice['details'] else {})
    if choice['calls']:
        message['tool_calls'] = [_join_call(call) for _, call in sorted(choice['calls'].items())]
    scored = {'logprobs': {'content': choice['logprobs']}} if choice['logprobs'] else {}
    return {'message': message, 'finish_reason': choice['finish_reason'], **scored}


def _join_pieces(pieces: Sequence[Any]) -> Any:
    """Streamed pieces of a field as one value: texts are joined; parts (Mistral's thinking) are listed in order."""
    if all(isinstance(piece, str) for piece in pieces):
        return ''.join(pieces)
    parts: list[dict[str, Any]] = []
    for piece in pieces:
        for part in [{'type': 'text', 'text': piece}] if isinstance(piece, str) else piece:
            _add_part(parts, dict(part))
    return parts


def _add_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    kind = part.get('type')
    last = parts[-1] if parts and parts[-1].get('type') == kind else None
    if last is None or kind not in ('text', 'thinking'):
        parts.append(part)
    elif kind == 'text':
        last['text'] += part['text']
    else:
        thought: list[dict[str, Any]] = []
        for piece in (*_thought_parts(last), *_thought_parts(part)):
            _add_part(thought, dict(piece))
        parts[-1] = {**last, **part, 'thinking': thought}


def _thought_parts(part: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    thought = part['thinking']
    return [{'type': 'text', 'text': thought}] if isinstance(thought, str) else thought


def _join_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {'name': call['name'], 'arguments': ''.join(call['arguments'])}
    extra = {'extra_content': call['extra_content']} if 'extra_content' in call else {}
    return {'id': call['id'], 'type': 'function', 'function': function, **extra}


def _first_choice(event: Any) -> Mapping[str, Any]:
    return next((choice for choice in event.get('choices') or () if not choice.get('index')), {})
