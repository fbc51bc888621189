"""The requests of one dataset × model as entries of an OpenAI batch file, one row at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from rolecall.checking import OptionReader
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import find_option, sampling_of
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.backends import backend_of
from rolecall.models.http.media import MediaReader
from rolecall.models.openai.entry import OpenAISettings, read_openai_entry
from rolecall.models.openai.wire import write_messages
from rolecall.redaction import Redactor, find_secrets
from rolecall.sources.retrievers import Picked
from rolecall.strings import count_noun

_LENGTHS = {'max_out_len': 'max_tokens', 'min_out_len': 'min_tokens'}
_PASSED_ON = ('min_p', 'presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'response_format')


def batch_entries(
    pair: Pair,
    model_entry: ModelEntry,
    *,
    limit: int | None = None,
    media: MediaReader | None = None,
    fits: Counter[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The batch entries of one dataset × model; `media` says which local files may be read.

    `fits` counts the rows that had to be fitted, by the kind of note.
    """
    fits = Counter() if fits is None else fits
    body, settings = _body_of(pair, model_entry)
    for number, row, picked in pair.rows(limit):
        try:
            for part, request in _requests(pair, row, picked, fits):
                name = make_custom_id(pair.task.abbr, model_entry.abbr, number, part)
                entry = _entry(name, request, body, finished=settings is None and model_entry.kind == 'chat')
                yield entry if settings is None else {**entry, 'body': _encode_messages(entry['body'], settings, media)}
        except RenderError as error:
            raise RenderError(f'{pair.task.abbr}, row {number}: {error}') from error


def batch_notes(pair: Pair) -> Iterator[str]:
    """Limitations of the batch file for this pair."""
    asks = pair.task.inferencer
    if pair.waits:
        yield f"{pair.task.abbr}: first turns only; with infer_mode='every', later turns need the model's replies."
    if (
        asks.prefill
        and pair.model_entry is not None
        and pair.model_entry.kind == 'api'
        and not pair.model_entry.entry.get('prefill')
    ):
        what = 'prefill=True starts the answer, but the model entry does not say that its server continues one.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'
    if pair.weighs and pair.model_entry is not None and pair.model_entry.kind == 'api':
        what = 'scoring prompts needs a server that echoes them with logprobs.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'


_FITS = {
    'too_long': 'left out, because they do not fit the context',
    'shots_dropped': 'with fewer examples, to fit the context',
    'truncated': 'cut, to fit the context',
    'not_counted': 'not checked against max_seq_len, because tokens cannot be counted here',
}


def fit_notes(pair: Pair, fits: Counter[str]) -> Iterator[str]:
    """Notes on how the requests of this pair were fitted to the context."""
    for kind, what in _FITS.items():
        if fits[kind]:
            model = pair.model_entry.abbr if pair.model_entry else ''
            yield f'{pair.task.abbr} × {model}: {count_noun(fits[kind], "request")} {what}.'


def make_custom_id(dataset: str, model: str, row: int, part: str = '') -> str:
    """An id that is unique within a config and stable across exports.

    >>> make_custom_id('gsm8k', 'qwen', 7), make_custom_id('boolq', 'a|b', 0, 'True')
    ('gsm8k|qwen|7', 'boolq|a%7Cb|0|True')
    """
    words = [dataset, model, str(row), *([part] if part else [])]
    return '|'.join(word.replace('%', '%25').replace('|', '%7C') for word in words)


def _body_of(pair: Pair, model_entry: ModelEntry) -> tuple[dict[str, Any], OpenAISettings | None]:
    """What is sent with every request: the model's name, the answer's length, and the sampling parameters.

    For a model with an OpenAI-compatible API this is what a run sends, returned with the entry's settings; for other
    models it is the same in OpenAI's terms.
    """
    entry, sampling = model_entry.entry, sampling_of(pair.task.inferencer.options, model_entry.entry)
    if backend_of(entry) == 'openai.model':
        reader = OptionReader(entry, model_entry.abbr)
        settings, _ = read_openai_entry(entry, reader)
        reader.raise_problems()
        body = settings.scoring_body() if pair.weighs else settings.body(sampling)
        body = Redactor(find_secrets(entry)).redact_value(body)
        return body | {'model': body['model'] or model_entry.abbr}, settings
    named = [entry.get(key) for key in ('model', 'path')]
    model = next((str(name) for name in named if isinstance(name, str) and name not in ('', 'none')), model_entry.abbr)
    if pair.weighs:
        return {'model': model, 'max_tokens': 1, 'temperature': 0, 'echo': True, 'logprobs': 1}, None
    options = sampling.as_dict()
    lengths = {new: options.pop(old) for old, new in _LENGTHS.items() if old in options}
    passed_on = {name: value for name in _PASSED_ON if (value := find_option(name, entry)) is not None}
    return {'model': model, **lengths, **passed_on, **options}, None


def _encode_messages(body: dict[str, Any], settings: OpenAISettings, media: MediaReader | None) -> dict[str, Any]:
    """The body with its messages as sent: files inlined, tool-call arguments serialised."""
    messages = body.get('messages')
    if messages is None:
        return body
    return settings.with_messages(
        body, write_messages(messages, media=(media or MediaReader()) if settings.inline_files else None)
    )


def _requests(pair: Pair, row: Mapping[str, Any], picked: Picked, fits: Counter[str]) -> Iterator[tuple[str, Request]]:
    """Each request of a row that does not depend on a reply, with a name of its own. Nothing if the row is too long."""
    for step, _ in pair.steps(row, picked):
        fits.update({note.kind for note in step.notes})
        if step.too_long:
            return
        labels = [label for label, _ in step.requests]
        for i, (label, request) in enumerate(step.requests):
            yield f'turn{step.turn}' if step.turn is not None else _name_label(label, i, labels), request
        if pair.waits:
            return


def _name_label(label: Hashable, number: int, labels: Sequence[Hashable]) -> str:
    """The label as text; with quotes or its number where another label has the same text (1 and '1')."""
    if label is None:
        return ''
    if [str(other) for other in labels].count(str(label)) < 2:
        return str(label)
    return repr(label) if [repr(other) for other in labels].count(repr(label)) < 2 else f'{label}#{number}'


def _entry(name: str, request: Request, body: Mapping[str, Any], *, finished: bool) -> dict[str, Any]:
    messages = isinstance(request, list) and all(isinstance(part, Mapping) for part in request)
    if isinstance(request, list) and not messages and any(isinstance(part, str) for part in request):
        raise RenderError(
            "the model's meta template mixes token ids with text, and there is no tokenizer to turn the text into ids. "
            'Write the ids as strings in the meta template.'
        )
    sent = {**body, 'messages' if messages else 'prompt': request}
    if finished and not messages:
        sent['add_special_tokens'] = False
    url = '/v1/chat/completions' if messages else '/v1/completions'
    return {'custom_id': name, 'method': 'POST', 'url': url, 'body': sent}
