"""OpenTelemetry spans, by its conventions for generative AI, in a process that has set up tracing (extra `otel`).

The package is never imported here: an application, or `opentelemetry-instrument rolecall run …`, has done so, or there
are no spans. Prompts and answers are left out unless OpenTelemetry's own variable asks for them; keys are hidden.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import describe_error
from rolecall.models.protocol import Message, Model, ModelError, Reply, Sampling, is_messages
from rolecall.redaction import Redactor, environment_secrets

_CAPTURE = 'OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT'
_SAMPLING = {
    'max_out_len': 'max_tokens',
    'temperature': 'temperature',
    'top_p': 'top_p',
    'top_k': 'top_k',
    'seed': 'seed',
    'stop': 'stop_sequences',
    'frequency_penalty': 'frequency_penalty',
    'presence_penalty': 'presence_penalty',
}
_USAGE = {
    'input_tokens': 'input_tokens',
    'output_tokens': 'output_tokens',
    'cached_tokens': 'cache_read.input_tokens',
    'cache_written_tokens': 'cache_creation.input_tokens',
    'reasoning_tokens': 'reasoning.output_tokens',
}
_PROVIDERS = {
    'api.openai.com': 'openai',
    'openai.azure.com': 'azure.ai.openai',
    'api.anthropic.com': 'anthropic',
    'generativelanguage.googleapis.com': 'gcp.gemini',
    'api.mistral.ai': 'mistral_ai',
    'api.deepseek.com': 'deepseek',
    'api.groq.com': 'groq',
    'api.x.ai': 'x_ai',
}
"""The conventions' names of providers, by the end of a host's name."""


def _find_tracing() -> Any:
    """OpenTelemetry's module for traces; None if it is not imported, or no provider is set up.

    A library that uses the API alone (an MCP client, for instance) imports it, too.
    """
    tracing = sys.modules.get('opentelemetry.trace')
    if tracing is None or isinstance(tracing.get_tracer_provider(), tracing.ProxyTracerProvider):
        return None
    return tracing


def start_span(name: str, attributes: Mapping[str, Any], *, is_call: bool = False) -> Any:
    """A span below the current one; None where nothing is traced."""
    if (tracing := _find_tracing()) is None:
        return None
    kind = tracing.SpanKind.CLIENT if is_call else tracing.SpanKind.INTERNAL
    values = {key: value for key, value in attributes.items() if value is not None}
    return tracing.get_tracer('rolecall', __version__).start_span(name, kind=kind, attributes=values)


@contextmanager
def traced(name: str, attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A span around a block, above all that its task starts. What the block puts into the mapping is noted at its end.

    An exception decides the status, and one that the block has caught and puts there as `error`.
    """
    span, noted = start_span(name, attributes), dict[str, Any]()
    if span is not None:
        import_module('opentelemetry.context').attach(sys.modules['opentelemetry.trace'].set_span_in_context(span))
    try:
        yield noted
    except BaseException as error:
        end_span(span, error=error)
        raise
    end_span(span, noted, error=noted.pop('error', None))


def end_span(span: Any, attributes: Mapping[str, Any] | None = None, *, error: BaseException | None = None) -> None:
    """End a span, with what is known now. An error decides its status."""
    if span is None:
        return
    span.set_attributes({key: value for key, value in (attributes or {}).items() if value is not None})
    if error is not None:
        status = error.status if isinstance(error, ModelError) else None
        span.set_attribute('error.type', str(status or type(error).__name__))
        tracing = sys.modules['opentelemetry.trace']
        span.set_status(tracing.Status(tracing.StatusCode.ERROR, _redact(describe_error(error))))
    span.end()


def start_model_span(model: Model, request: Request, parameters: Sampling) -> Any:
    """The span of one call of a model, retries included; None where nothing is traced."""
    if _find_tracing() is None:
        return None
    identity = model.identity
    name = str(identity.get('model') or identity.get('path') or model.name)
    server = urlsplit(str(identity.get('server') or ''))
    host = server.hostname or ''
    provider = next((name for end, name in _PROVIDERS.items() if host.endswith(end)), host or 'local')
    operation = 'chat' if model.capabilities.chat else 'text_completion'
    sampling = parameters.as_dict()
    attributes: dict[str, Any] = {
        'gen_ai.operation.name': operation,
        'gen_ai.provider.name': provider,
        'gen_ai.request.model': name,
        'server.address': host or None,
        'server.port': server.port,
        **{f'gen_ai.request.{key}': sampling.get(ours) for ours, key in _SAMPLING.items()},
    }
    if _captures_content():
        messages = request if is_messages(request) else [{'role': 'user', 'content': str(request)}]
        attributes['gen_ai.input.messages'] = _write_messages(messages)
    return start_span(f'{operation} {name}', attributes, is_call=True)


def note_retry(span: Any, error: ModelError, pause: float) -> None:
    """An attempt that failed for the moment, as an event of the call's span."""
    if span is not None:
        span.add_event('retry', {'error': _redact(str(error)), 'seconds': pause, 'status': error.status or 0})


def end_model_span(span: Any, answer: Any) -> None:
    """End the span of a call that was answered."""
    if span is None:
        return
    attributes: dict[str, Any] = {f'gen_ai.usage.{key}': getattr(answer.usage, ours) for ours, key in _USAGE.items()}
    if isinstance(answer, Reply):
        ended = answer.reason or answer.outcome
        attributes['gen_ai.response.finish_reasons'] = [ended]
        attributes['rolecall.outcome'] = answer.outcome
        if _captures_content():
            message = {'role': 'assistant', 'content': answer.text, 'tool_calls': answer.tool_calls}
            attributes['gen_ai.output.messages'] = _write_messages([message], finish_reason=ended)
    end_span(span, attributes)


def _write_messages(messages: Sequence[Message], **ended: str) -> str:
    """Messages as the conventions write them: each has a role and parts."""
    written = [{'role': message.get('role'), 'parts': [*_parts_of(message)], **ended} for message in messages]
    return _redact(json.dumps(written, ensure_ascii=False, default=str))


def _parts_of(message: Message) -> Iterator[Mapping[str, Any]]:
    content = message.get('content') or ()
    if message.get('role') == 'tool':
        yield {'type': 'tool_call_response', 'id': message.get('tool_call_id'), 'response': content}
        return
    for part in [{'type': 'text', 'text': content}] if isinstance(content, str) else content:
        yield {'type': 'text', 'content': part['text']} if part.get('type') == 'text' else part
    for call in message.get('tool_calls') or ():
        yield {'type': 'tool_call', 'id': call.get('id'), **call['function']}


def _captures_content() -> bool:
    return os.environ.get(_CAPTURE, '').lower() in ('1', 'true')


def _redact(text: str) -> str:
    return Redactor(environment_secrets()).redact(text)
