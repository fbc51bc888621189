"""The requests of one dataset × model as entries of an OpenAI batch file, one row at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from rolecall.errors import RenderError
from rolecall.inferencers.sampling import sampling_of, stated
from rolecall.models.backends import MODELS
from rolecall.models.entries import EntryReader
from rolecall.models.openai.messages import written
from rolecall.models.openai.settings import Settings, read_settings
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair
from rolecall.pairs.tasks import Task
from rolecall.render.spans import Request

__all__ = ['batch_entries', 'batch_notes', 'make_custom_id']

_LENGTHS = {'max_out_len': 'max_tokens', 'min_out_len': 'min_tokens'}
_PASSED_ON = ('min_p', 'presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'response_format')


def batch_entries(pair: Pair, model_entry: ModelEntry, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The batch entries of one dataset × model."""
    body, settings = _body_of(pair.task, model_entry)
    scores = pair.mode == 'ppl'
    for number, row, picked in pair.rows(limit):
        try:
            for part, request in _requests(pair, row, picked):
                name = make_custom_id(pair.task.abbr, model_entry.abbr, number, part)
                entry = _entry(name, request, body, scores=scores, finished=model_entry.kind == 'chat')
                yield entry if settings is None else {**entry, 'body': _encode_messages(entry['body'], settings)}
        except RenderError as error:
            raise RenderError(f'{pair.task.abbr}, row {number}: {error}') from error


def batch_notes(pair: Pair) -> Iterator[str]:
    """Limitations of the batch file for this pair."""
    asks = pair.task.inferencer
    if asks.kind == 'dialogue' and asks.infer_mode == 'every':
        yield f"{pair.task.abbr}: first turns only; with infer_mode='every', later turns need the model's replies."
    if (
        asks.prefill
        and pair.model_entry is not None
        and pair.model_entry.kind == 'api'
        and not pair.model_entry.entry.get('prefill')
    ):
        what = 'prefill=True starts the answer, but the model entry does not say that its server continues one.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'
    if pair.mode == 'ppl' and pair.model_entry is not None and pair.model_entry.kind == 'api':
        what = 'scoring prompts needs a server that echoes them with logprobs.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'


def make_custom_id(dataset: str, model: str, row: int, part: str = '') -> str:
    """An id that is unique within a config and stable across exports.

    >>> make_custom_id('gsm8k', 'qwen', 7), make_custom_id('boolq', 'a|b', 0, 'True')
    ('gsm8k|qwen|7', 'boolq|a%7Cb|0|True')
    """
    words = [dataset, model, str(row), *([part] if part else [])]
    return '|'.join(word.replace('%', '%25').replace('|', '%7C') for word in words)


def _body_of(task: Task, model_entry: ModelEntry) -> tuple[dict[str, Any], Settings | None]:
    """What is sent with every request: the model's name, the answer's length, and the sampling parameters.

    For a model with an OpenAI-compatible API this is what a run sends, returned with the entry's settings; for other
    models it is the same in OpenAI's terms.
    """
    entry, sampling = model_entry.entry, sampling_of(task.inferencer.options, model_entry.entry)
    if MODELS.declared(MODELS.builtin_name(entry.get('type')) or '') == 'rolecall.models.openai.model:build':
        reader = EntryReader(entry, model_entry.abbr)
        settings, _ = read_settings(entry, reader)
        reader.finish()
        body = settings.body(sampling)
        return body | {'model': body['model'] or model_entry.abbr}, settings
    named = [entry.get(key) for key in ('model', 'path')]
    model = next((str(name) for name in named if isinstance(name, str) and name not in ('', 'none')), model_entry.abbr)
    options = sampling.as_dict()
    lengths = {new: options.pop(old) for old, new in _LENGTHS.items() if old in options}
    passed_on = {name: value for name in _PASSED_ON if (value := stated(name, entry)) is not None}
    return {'model': model, **lengths, **passed_on, **options}, None


def _encode_messages(body: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The body with its messages as sent: files inlined, tool-call arguments serialised."""
    messages = body.get('messages')
    if messages is None:
        return body
    return settings.with_messages(body, written(messages, inline_files=settings.inline_files))


def _requests(pair: Pair, row: Mapping[str, Any], picked: Any) -> Iterator[tuple[str, Request]]:
    """Each request of a row, with the part of its id that tells it from the row's other requests."""
    asks = pair.task.inferencer
    if asks.kind != 'dialogue':
        for label, request in pair.requests(row, picked):
            yield _label_name(label, pair.task.labels), request
        return
    dialogue = pair.dialogue(picked)
    for turn in [0] if asks.infer_mode == 'every' else dialogue.asked(row):
        yield f'turn{turn}', dialogue(row, turn)


def _label_name(label: Hashable, labels: Iterable[Hashable]) -> str:
    """The label as text; with quotes where another label has the same text (1 and '1')."""
    if label is None:
        return ''
    alike = [one for one in labels if str(one) == str(label)]
    return str(label) if len(alike) < 2 else repr(label)


def _entry(name: str, request: Request, body: Mapping[str, Any], *, scores: bool, finished: bool) -> dict[str, Any]:
    messages = isinstance(request, list) and all(isinstance(one, Mapping) for one in request)
    if isinstance(request, list) and not messages and any(isinstance(one, str) for one in request):
        raise RenderError(
            "the model's meta template mixes token ids with text, and there is no tokenizer to turn the text into ids. "
            'Write the ids as strings in the meta template.'
        )
    sent = {**body, 'messages' if messages else 'prompt': request}
    if finished and not messages:
        sent['add_special_tokens'] = False
    if scores:
        sent |= {'echo': True, 'logprobs': True, 'max_tokens': 1} if messages else _SCORING
    url = '/v1/chat/completions' if messages else '/v1/completions'
    return {'custom_id': name, 'method': 'POST', 'url': url, 'body': sent}


_SCORING = {'echo': True, 'logprobs': 1, 'max_tokens': 0}
