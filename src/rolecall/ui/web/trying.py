"""Sends one prompt of the page to its model and streams the reply. Only models of an opened config can be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.models.protocol import Model, ModelContext, ModelError, OnText, Reply, Sampling, Scored, is_messages
from rolecall.redaction import Redactor, environment_secrets, find_secrets
from rolecall.strings import printable
from rolecall.ui.web.documents import ConfigDocument
from rolecall.ui.web.editing import Edit, edited_pair

_REFUSED = (400, 403, 422)
"""The statuses with which servers refuse a parameter."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One request, ready to be sent."""

    model: Model
    request: Request
    sampling: Sampling
    scores: bool
    """Whether the request is scored rather than answered."""
    redactor: Redactor

    def redact(self, text: str) -> str:
        """The text without the secrets of the config and the environment."""
        return printable(self.redactor.redact(text))


def make_trial(
    document: ConfigDocument, dataset: str, model: str | None, row: int, number: int, edits: Sequence[Edit]
) -> Trial:
    """The request that the page shows, after the edits, with the model that receives it."""
    entry = document.model_entry(model)
    if entry is None:
        raise ConfigError(Problem('models', 'the config has no models.'))
    pair, previews = edited_pair(document, dataset, model, row, edits)
    if 0 <= number < len(previews):
        preview = previews[number]
        sampling = sampling_of(pair.task.inferencer.options, entry.entry)
    else:
        pair, preview = document.find_preview(dataset, model, row, number)
        entry = pair.model_entry or entry
        sampling = sampling_of({}, entry.entry)
    if preview.request is None or not preview.sent:
        raise ConfigError(Problem('request', 'this request would not be sent: it does not fit the context.'))
    secrets = find_secrets(document.config)
    ModelContext(document.experiment.media_folders, secrets).tell(entry.model)
    redactor = Redactor(secrets | environment_secrets())
    return Trial(entry.model, preview.request, sampling, preview.mode == 'ppl' and pair.weighs, redactor)


async def run_trial(trial: Trial) -> AsyncGenerator[dict[str, Any], None]:
    """Pieces of text as they come, then the whole reply; or the log-probabilities of the prompt's tokens."""
    if trial.scores:
        [scored] = await trial.model.score([trial.request])
        yield {'scored': _scored_as_json(scored, trial.request)}
        return
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    def on_text(text: str) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, text)

    call = asyncio.ensure_future(_ask(trial, on_text))
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(pieces.put_nowait, None))
    try:
        while (piece := await pieces.get()) is not None:
            yield {'text': piece}
        reply = await call
        yield {'reply': _reply_as_json(reply)}
        if (logprobs := await _score_reply(trial, reply)) is not None:
            yield {'scored': logprobs}
    finally:
        if not call.done():
            call.cancel()
            with suppress(asyncio.CancelledError, RolecallError):
                await call


async def _ask(trial: Trial, on_text: OnText) -> Reply:
    """The reply, with its log-probabilities if the server takes the request for them."""
    if not (trial.model.capabilities.reply_logprobs and is_messages(trial.request)):
        return await _send(trial, on_text)
    extra = {**trial.sampling.extra, 'logprobs': True}
    try:
        return await _send(replace(trial, sampling=replace(trial.sampling, extra=extra)), on_text)
    except ModelError as error:
        if error.status not in _REFUSED:
            raise
    return await _send(trial, on_text)


async def _send(trial: Trial, on_text: OnText) -> Reply:
    stream = getattr(trial.model, 'stream', None)
    if callable(stream):
        streamed: Reply = await stream(trial.request, trial.sampling, on_text)
        return streamed
    [reply] = await trial.model.generate([trial.request], trial.sampling)
    return reply


async def _score_reply(trial: Trial, reply: Reply) -> dict[str, Any] | None:
    """The log-probabilities of the reply's tokens: those the server gave, else those the model computes for a text."""
    if reply.logprobs and trial.model.capabilities.reply_logprobs:
        return _logprobs_as_json(reply.logprobs)
    if not (isinstance(trial.request, str) and reply.text and trial.model.capabilities.score):
        return None
    whole = trial.request + reply.text
    try:
        [scored] = await trial.model.score([whole])
    except RolecallError:
        return None
    return _scored_as_json(scored, whole, start=len(trial.request)) if scored.offsets else None


def _reply_as_json(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        'text': reply.text,
        'outcome': reply.outcome,
        'reason': reply.reason,
        'reasoning': reply.reasoning,
        'facts': [
            [name, f'{value:,.2f} s' if name == 'time' else f'{value:,}']
            for name, value in (
                ('input tokens', usage.input_tokens),
                ('output tokens', usage.output_tokens),
                ('time', usage.seconds),
            )
            if value is not None
        ],
    }


def _scored_as_json(scored: Scored, request: Request, *, start: int = 0) -> dict[str, Any]:
    """Each token from a character on with its log-probability."""
    text = request if isinstance(request, str) else ''
    places = scored.offsets or tuple((0, 0) for _ in scored.ids)
    tokens = [
        (text[begin:end] or str(token), logprob)
        for token, logprob, (begin, end) in zip(scored.ids, scored.logprobs, places, strict=True)
        if begin >= start
    ]
    return _logprobs_as_json(tokens)


def _logprobs_as_json(tokens: Sequence[tuple[str, float | None]]) -> dict[str, Any]:
    """Tokens with their log-probabilities, and the mean."""
    values = [logprob for _, logprob in tokens if logprob is not None]
    return {'tokens': tokens, 'mean': sum(values) / len(values) if values else None}


def keep_trial(document: ConfigDocument, dataset: str, row: int, reply: str, request: Any) -> Path:
    """Append a row with its reply to a file of kept rows beside the config."""
    rows = document.dataset(dataset).test
    if not 0 <= row < len(rows):
        raise RolecallError(f'{dataset} has no row {row}; its rows are 0 to {len(rows) - 1}.')
    values = rows[row]
    file = document.path.with_name(f'{document.path.stem}_kept.jsonl')
    record = {'dataset': dataset, 'row': row, **dict(values), 'request': request, 'reply': reply}
    try:
        with open(file, 'a', encoding='utf-8') as stream:
            stream.write(json.dumps(record, ensure_ascii=True, default=str) + '\n')
    except OSError as error:
        raise RolecallError(f'{file}: cannot be written: {error.strerror or error}.') from error
    return file
