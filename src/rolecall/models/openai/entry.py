"""Reads the entries of OpenAI-compatible models, in our spelling and those of OpenCompass and AISBench."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rolecall.checking import OptionReader
from rolecall.config_keys import keys_of
from rolecall.models.http.address import HEADER_RULE, Address, Keys, find_unsendable_header, leads_to, read_address
from rolecall.models.http.body import MAX_REPLY_BYTES
from rolecall.models.http.connection import HttpClient
from rolecall.models.http.media import MAX_MEDIA_BYTES
from rolecall.models.http.served_model import Collector, ServedSettings
from rolecall.models.openai.responses import (
    REFUSED,
    StreamedResponse,
    write_input,
    write_parameters,
)
from rolecall.models.openai.wire import StreamedAnswer
from rolecall.models.protocol import THINK, Capabilities, Sampling
from rolecall.redaction import find_secrets
from rolecall.registry import part_name

_TEXT_TYPES = ('VLLMCustomAPI', 'VLLMCustomAPIStream', 'OpenAICompletions')
_OFFICIAL = re.compile(r'api\.openai\.com|.*\.openai\.azure\.com')
_REASONERS = re.compile(r'(?:.*/)?(?:o\d|gpt-[5-9])')
_LENGTH_KEYS = ('max_completion_tokens', 'max_tokens', 'max_output_tokens')
_TEXT_LENGTH = 512
"""Without a length, servers complete sixteen tokens."""


class Vendor(NamedTuple):
    """Whose service a server may be: its own host, and the variables that hold its key and its address."""

    host: str
    prefix: str
    root: str
    endpoints: tuple[str, ...]

    @property
    def url(self) -> str:
        """The address of an entry that names none."""
        return os.environ.get(f'{self.prefix}_BASE_URL') or f'https://{self.host}{self.root}'


OPENAI = Vendor('api.openai.com', 'OPENAI', '/v1', ('chat/completions', 'completions', 'models', 'responses'))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings(ServedSettings):
    """The settings read from an entry."""

    chat: bool
    length_key: str
    score: str | None
    inline_files: bool
    tags: tuple[str, str]
    responses: bool
    """Whether the server is asked through the Responses API."""
    stream_options: bool
    """Whether streams ask for usage, which some servers refuse."""

    @property
    def endpoint(self) -> str:
        return 'responses' if self.responses else 'chat/completions' if self.chat else 'completions'

    @property
    def collector(self) -> type[Collector]:
        return StreamedResponse if self.responses else StreamedAnswer

    def body(self, sampling: Sampling) -> dict[str, Any]:
        parameters = sampling.as_dict()
        further: dict[str, Any] = parameters.pop('extra_body', {})
        length = parameters.pop('max_out_len', self.length)
        least = parameters.pop('min_out_len', None)
        if (schema := parameters.pop('json_schema', None)) is not None:
            parameters['response_format'] = {
                'type': 'json_schema',
                'json_schema': {'name': 'answer', 'schema': schema, 'strict': _is_strict(schema)},
            }
        body = {'model': self.model, **self.parameters, **parameters}
        if length is not None:
            body[self.length_key] = length
        if least is not None:
            body['min_tokens'] = least
        if self.responses:
            body = write_parameters(body, keeps_reasoning=_REASONERS.match(self.model) is not None)
        return body | self.extra_body | further

    def with_messages(self, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The body of a chat request; a trailing assistant message is continued where the server can."""
        if self.responses:
            return {**body, **write_input(messages)}
        begun = self.capabilities.prefill and messages and messages[-1].get('role') == 'assistant'
        goes_on = {'add_generation_prompt': False, 'continue_final_message': True} if begun else {}
        return {**body, **goes_on, 'messages': messages}

    def scoring_body(self) -> dict[str, Any]:
        """The body of a scoring request without the prompt. One token is the fewest that can be generated."""
        body: dict[str, Any] = {'model': self.model, 'max_tokens': 1, 'temperature': 0}
        if self.score == 'echo' or (self.score is None and not self.chat):
            return body | {'echo': True, 'logprobs': 1} | self.extra_body
        whole = {'add_generation_prompt': False} if self.chat else {}
        return body | {'prompt_logprobs': 0, **whole} | self.extra_body


def _is_strict(schema: Any) -> bool:
    """Whether every object is closed and needs all of its fields: only then a server can be held to it strictly."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    fields = schema.get('properties')
    closed = schema.get('type') != 'object' or schema.get('additionalProperties') is False
    complete = not isinstance(fields, Mapping) or set(fields) == set(schema.get('required', ()))
    return (
        closed
        and complete
        and all(_is_strict(inner) for key, inner in schema.items() if key != 'properties')
        and all(map(_is_strict, (fields or {}).values()))
    )


def read_openai_entry(entry: Mapping[str, Any], reader: OptionReader) -> tuple[OpenAISettings, Address]:
    """The settings and the server address of an entry."""
    reader.refuse_misspelt(keys_of('model', 'server', 'openai'))
    kind = part_name(entry.get('type', ''))
    endpoint = reader.one_of('endpoint') or ('completions' if kind in _TEXT_TYPES else 'chat')
    chat, responses = endpoint != 'completions', endpoint == 'responses'
    served = kind.startswith('VLLMCustom')
    model = reader.text('model', 'model_name') or ('' if served else reader.text('path') or '')
    if not served and not any(map(entry.get, ('model', 'model_name', 'path'))):
        reader.refuse('path', "missing: the server's name for the model.", "Give it as `path` or `model`: 'gpt-4o'.")
    address = read_server_address(reader, 'http://localhost:8080' if served else OPENAI.url, endpoints=OPENAI.endpoints)
    shared = read_served_settings(entry, reader, 'openai_body', 'openai_extra_kwargs')
    parameters = shared['parameters']
    parameters |= _pin_provider(entry, reader)
    lengths = {name: parameters.pop(name) for name in _LENGTH_KEYS if name in parameters}
    usual_length = next(iter(lengths.values()), None if chat else _TEXT_LENGTH)
    score = reader.one_of('score', ('echo', 'prompt_logprobs'))
    if chat and score == 'echo':
        reader.refuse('score', "'echo' is for completions.", "Set endpoint='completions', or score='prompt_logprobs'.")
    if responses and (score or reader.flag('prefill') is True):
        name = 'score' if score else 'prefill'
        reader.refuse(name, f'the Responses API has no {name}.', "Leave it out, or use endpoint='chat'.")
    tag = reader.text('think_tag')
    settings = OpenAISettings(
        model=model,
        chat=chat,
        length_key=reader.text('max_tokens_key')
        or ('max_output_tokens' if responses else _usual_length_key(chat, address, model, lengths)),
        length=reader.whole('max_completion_tokens', 'max_out_len') or usual_length,
        **shared,
        score=score,
        inline_files=_or_default(reader.flag('inline_files'), not address.is_loopback),
        tags=THINK if tag is None else (tag.replace('/', '', 1), tag),
        capabilities=Capabilities(
            score=score is not None,
            chat=chat,
            media=_or_default(reader.flag('media'), chat),
            tools=chat,
            prefill=not chat or reader.flag('prefill') is True,
            system=reader.flag('system') is not False,
            json_schema=chat,
            reply_logprobs=chat,
            refuses=REFUSED if responses else (),
        ),
        responses=responses,
        stream_options=reader.flag('stream_options') is not False,
    )
    return settings, address


def _pin_provider(entry: Mapping[str, Any], reader: OptionReader) -> dict[str, Any]:
    """Who may answer, as OpenRouter takes it: without fallbacks, so that one model is not several."""
    stated, levels = entry.get('provider'), reader.texts('quantization')
    if stated is None and not levels:
        return {}
    names = {'order': [stated] if isinstance(stated, str) else list(stated or ()), 'allow_fallbacks': False}
    pinned = dict(stated) if isinstance(stated, Mapping) else names if stated else {}
    return {'provider': {**pinned, **({'quantizations': list(levels)} if levels else {})}}


def read_served_settings(entry: Mapping[str, Any], reader: OptionReader, place: str, kwargs: str) -> dict[str, Any]:
    """The settings of every served model. Keys of `place` go into the body as they are, and so do those in `kwargs`."""
    parameters = {key: entry[key] for key in keys_of(place) if entry.get(key) is not None}
    streams = part_name(entry.get('type', '')).endswith(('Stream', 'Streaming'))
    return {
        'parameters': parameters | reader.mapping('generation_kwargs', kwargs),
        'extra_body': reader.mapping('extra_body'),
        'stream': reader.flag('stream') is True or streams,
        'max_seq_len': reader.whole('max_seq_len'),
        'max_media_bytes': reader.whole('max_media_bytes') or MAX_MEDIA_BYTES,
    }


def read_client(
    entry: Mapping[str, Any],
    reader: OptionReader,
    vendor: Vendor,
    address: Address,
    *,
    model: str,
    key_header: tuple[str, str],
    headers: Mapping[str, str],
) -> HttpClient:
    """The client that talks to the server."""
    official = address.host == vendor.host
    at_home = official or leads_to(vendor.url, address, endpoints=vendor.endpoints)
    return HttpClient(
        address,
        model=model,
        keys=Keys(
            reader.texts('key', 'api_key'), variable=f'{vendor.prefix}_API_KEY', at_home=at_home, needed=official
        ),
        key_header=key_header,
        verify=_read_verify(reader),
        headers={**headers, **_read_headers(reader)},
        timeout=reader.limit('timeout') or 600,
        per_second=reader.limit('query_per_second', 'request_rate'),
        proxy=reader.text('proxy', 'openai_proxy_url'),
        max_reply_bytes=reader.whole('max_reply_bytes') or MAX_REPLY_BYTES,
        secrets=find_secrets(entry),
    )


def _read_verify(reader: OptionReader) -> bool | str:
    """Whether, or by which file of certificates, the server is checked."""
    bundle = reader.text('ca_bundle')
    if bundle is None:
        return reader.flag('verify') is not False
    path = Path(bundle).expanduser()
    if not path.is_file():
        reader.refuse('ca_bundle', f'there is no file {bundle}.', 'Give a file of certificates in PEM form.')
    return str(path)


def _read_headers(reader: OptionReader) -> dict[str, str]:
    """Extra headers to send."""
    headers = {str(name): str(value) for name, value in reader.mapping('headers', 'extra_headers').items()}
    if (wrong := find_unsendable_header(headers)) is not None:
        reader.refuse('headers', f'{wrong!r:.60} cannot be sent.', HEADER_RULE)
    return headers


def read_server_address(reader: OptionReader, usual: str, *, endpoints: tuple[str, ...]) -> Address:
    """The server address of an entry, in any of the usual spellings."""
    names = ('openai_api_base', 'base_url', 'url')
    urls = reader.texts(*names) or ()
    if len(urls) > 1:
        reader.refuse('openai_api_base', 'several servers.', 'Write one model entry for each.')
    host = reader.text('host_ip')
    port = reader.whole('host_port')
    url = urls[0].strip() if urls else usual
    scheme = 'https' if reader.flag('enable_ssl') is True else 'http'
    if not urls and (host is not None or port is not None):
        host = host or 'localhost'
        url = f'{scheme}://{f"[{host}]" if ":" in host else host}:{port or 8080}'
    elif urls and '://' not in url and reader.text('openai_api_base', 'base_url') is None:
        url = f'{scheme}://{url}'
    try:
        return read_address(url, endpoints=endpoints)
    except ValueError as error:
        name = next((name for name in names if reader.texts(name)), 'host_ip')
        reader.refuse(name, 'this is not a server address.', f'{str(error)[:1].upper()}{str(error)[1:]}.')
        return Address('http://localhost/v1')


def _or_default(value: bool | None, usual: bool) -> bool:
    return usual if value is None else value


def _usual_length_key(chat: bool, address: Address, model: str, entry: Mapping[str, Any]) -> str:
    newer = chat and (_OFFICIAL.fullmatch(address.host) or _REASONERS.match(model) or _LENGTH_KEYS[0] in entry)
    return 'max_completion_tokens' if newer else 'max_tokens'
