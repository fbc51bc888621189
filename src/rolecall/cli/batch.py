"""Every request of a config as lines of an OpenAI batch file, one row after the other in bounded memory."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rolecall.errors import RenderError, RolecallError
from rolecall.inferencers.sampling import sampling_of, stated
from rolecall.models.backends import BACKENDS
from rolecall.models.entries import EntryReader, type_name
from rolecall.models.openai.messages import written
from rolecall.models.openai.settings import Settings, read_settings
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair
from rolecall.pairs.tasks import Task
from rolecall.render.spans import Request
from rolecall.views.jsonl import json_line

__all__ = ['batch_entries', 'custom_id', 'remarks', 'sent_with', 'write_lines']

_LENGTHS = {'max_out_len': 'max_tokens', 'min_out_len': 'min_tokens'}
_PASSED_ON = ('min_p', 'presence_penalty', 'frequency_penalty', 'repetition_penalty', 'logit_bias', 'response_format')


def batch_entries(pair: Pair, model_entry: ModelEntry, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The batch entries of one dataset × model."""
    body, settings = sent_with(pair.task, model_entry)
    weighs = pair.mode == 'ppl'
    for number, row, picked in pair.rows(limit):
        try:
            for part, request in _requests(pair, row, picked):
                name = custom_id(pair.task.abbr, model_entry.abbr, number, part)
                entry = _entry(name, request, body, weighs=weighs, finished=model_entry.kind == 'chat')
                yield entry if settings is None else {**entry, 'body': _as_sent(entry['body'], settings)}
        except RenderError as error:
            raise RenderError(f'{pair.task.abbr}, row {number}: {error}') from error


def remarks(pair: Pair) -> Iterator[str]:
    """What a user should know about the batch file of this pair."""
    asks = pair.task.inferencer
    if asks.kind == 'dialogue' and asks.infer_mode == 'every':
        yield f"{pair.task.abbr}: only the first turn; later turns need the model's own replies (infer_mode='every')."
    if (
        asks.prefill
        and pair.model_entry is not None
        and pair.model_entry.kind == 'api'
        and not pair.model_entry.entry.get('prefill')
    ):
        what = 'prefill=True begins the answer, and the entry does not say that the server can go on from there.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'
    if pair.mode == 'ppl' and pair.model_entry is not None and pair.model_entry.kind == 'api':
        what = 'weighing prompts needs a server that echoes them with logprobs.'
        yield f'{pair.task.abbr} × {pair.model_entry.abbr}: {what}'


def custom_id(dataset: str, model: str, row: int, part: str = '') -> str:
    """A name that is unique within a config and the same every time.

    >>> custom_id('gsm8k', 'qwen', 7), custom_id('boolq', 'a|b', 0, 'True')
    ('gsm8k|qwen|7', 'boolq|a%7Cb|0|True')
    """
    words = [dataset, model, str(row), *([part] if part else [])]
    return '|'.join(word.replace('%', '%25').replace('|', '%7C') for word in words)


def sent_with(task: Task, model_entry: ModelEntry) -> tuple[dict[str, Any], Settings | None]:
    """What goes with every request: the model's name, the length of the answer, and how it is sampled.

    For a model behind OpenAI's protocol it is what a run sends, and how its entry is understood comes with it; for
    others, it is the same in that protocol's words.
    """
    entry, sampling = model_entry.entry, sampling_of(task.inferencer.options, model_entry.entry)
    if BACKENDS.get(type_name(entry)) == 'rolecall.models.openai.model':
        reader = EntryReader(entry, model_entry.abbr)
        settings, _ = read_settings(entry, reader)
        reader.finish()
        body = settings.body(sampling)
        return body | {'model': body['model'] or model_entry.abbr}, settings
    named = [entry.get(key) for key in ('model', 'path')]
    model = next((str(name) for name in named if isinstance(name, str) and name not in ('', 'none')), model_entry.abbr)
    asked = sampling.as_dict()
    lengths = {new: asked.pop(old) for old, new in _LENGTHS.items() if old in asked}
    said = {name: value for name in _PASSED_ON if (value := stated(name, entry)) is not None}
    return {'model': model, **lengths, **said, **asked}, None


def _as_sent(body: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The body with its messages as they go over the wire: files read, arguments of tool calls written out."""
    messages = body.get('messages')
    if messages is None:
        return body
    return settings.with_messages(body, written(messages, inline_files=settings.inline_files))


def _requests(pair: Pair, row: Mapping[str, Any], picked: Any) -> Iterator[tuple[str, Request]]:
    """Each request of a row with the part of its name that tells it from the row's others."""
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


def _entry(name: str, request: Request, body: Mapping[str, Any], *, weighs: bool, finished: bool) -> dict[str, Any]:
    messages = isinstance(request, list) and all(isinstance(one, Mapping) for one in request)
    if isinstance(request, list) and not messages and any(isinstance(one, str) for one in request):
        raise RenderError(
            "the model's meta template mixes token ids with text, and no tokenizer is at hand to make it all ids. "
            'Write the ids as strings in the meta template.'
        )
    sent = {**body, 'messages' if messages else 'prompt': request}
    if finished and not messages:
        sent['add_special_tokens'] = False
    if weighs:
        sent |= {'echo': True, 'logprobs': True, 'max_tokens': 1} if messages else _WEIGHED
    url = '/v1/chat/completions' if messages else '/v1/completions'
    return {'custom_id': name, 'method': 'POST', 'url': url, 'body': sent}


_WEIGHED = {'echo': True, 'logprobs': 1, 'max_tokens': 0}


def write_lines(
    entries: Iterable[Mapping[str, Any]], to: Path | IO[str], *, heard: Callable[[int], None] | None = None
) -> int:
    """Write entries one to a line and say how many there were. A file appears only when it is complete."""
    with _complete(to) if isinstance(to, Path) else _as_it_is(to) as stream:
        count = 0
        for count, entry in enumerate(entries, 1):
            stream.write(json_line(entry) + '\n')
            if heard is not None:
                heard(count)
    return count


@contextmanager
def _as_it_is(stream: IO[str]) -> Iterator[IO[str]]:
    yield stream


@contextmanager
def _complete(path: Path) -> Iterator[IO[str]]:
    """A file beside the wanted one, which takes its place at the end; compressed if the name says so."""
    unfinished = path.with_name(f'.{path.name}.{os.getpid()}')
    opens = gzip.open if path.suffix == '.gz' else open
    try:
        with opens(unfinished, 'wt', encoding='utf-8', errors='backslashreplace', newline='\n') as stream:
            yield stream
        unfinished.replace(path)
    except OSError as error:
        raise RolecallError(f'{path}: cannot be written: {error.strerror or error}.') from error
    finally:
        unfinished.unlink(missing_ok=True)
