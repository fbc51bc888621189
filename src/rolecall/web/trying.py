"""Sending one prompt of the page to its model, the reply piece by piece. Only models of an opened config are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.models.protocol import Model, Reply, Sampling, Scored
from rolecall.pairs.pair import Preview
from rolecall.pairs.sampling import sampling_of
from rolecall.render.spans import Request
from rolecall.strings import printable
from rolecall.web.documents import ConfigDocument
from rolecall.web.editing import Edit, edited_pair

__all__ = ['Trial', 'keep_trial', 'make_trial', 'run_trial']

_SECRET = ('key', 'token', 'secret', 'password', 'authorization')


@dataclass(frozen=True, slots=True)
class Trial:
    """One request, ready to be sent."""

    model: Model
    request: Request
    sampling: Sampling
    scores: bool
    """Whether the request is scored rather than answered."""
    secrets: tuple[str, ...]

    def redact(self, text: str) -> str:
        """The text without the keys of the model's entry."""
        for secret in self.secrets:
            text = text.replace(secret, '[key]')
        return printable(text)


def make_trial(
    document: ConfigDocument, dataset: str, model: str | None, row: int, number: int, edits: Sequence[Edit]
) -> Trial:
    """The request that the page shows, after the edits, with the model that receives it."""
    entry = document.model_entry(model)
    if entry is None:
        raise ConfigError(Problem('models', 'the config has no models.'))
    pair, previews = edited_pair(document, dataset, model, row, edits)
    preview = _pick(previews, number)
    if preview.request is None or not preview.sent:
        raise ConfigError(Problem('request', 'this request would not be sent: it does not fit the context.'))
    if restrict := getattr(entry.model, 'restrict_media', None):
        restrict(document.media_folders)
    sampling = sampling_of(pair.task.inferencer.options, entry.entry)
    return Trial(entry.model, preview.request, sampling, pair.weighs, tuple(_secrets(entry.entry)))


def _pick(previews: Sequence[Preview], number: int) -> Preview:
    if not 0 <= number < len(previews):
        raise ConfigError(Problem('request', f'the row has no request {number}.'))
    return previews[number]


def _secrets(value: Any, *, hidden: bool = False) -> list[str]:
    """Every text in an entry whose key says that it is secret."""
    if isinstance(value, Mapping):
        pairs = ((str(key).lower(), inner) for key, inner in value.items())
        found = (_secrets(inner, hidden=hidden or any(word in key for word in _SECRET)) for key, inner in pairs)
        return [text for texts in found for text in texts]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _secrets(inner, hidden=hidden)]
    return [value] if hidden and isinstance(value, str) and len(value) > 5 else []


async def run_trial(trial: Trial) -> AsyncIterator[dict[str, Any]]:
    """Pieces of text as they come, then the whole reply; or the log-probabilities of the prompt's tokens."""
    if trial.scores:
        [scored] = await trial.model.score([trial.request])
        yield {'scored': _scored_as_json(scored, trial.request)}
        return
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    def on_text(text: str) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, text)

    asked = asyncio.ensure_future(_ask(trial, on_text))
    asked.add_done_callback(lambda _: loop.call_soon_threadsafe(pieces.put_nowait, None))
    try:
        while (piece := await pieces.get()) is not None:
            yield {'text': piece}
        yield {'reply': _reply_as_json(await asked)}
    finally:
        if not asked.done():
            asked.cancel()
            with suppress(asyncio.CancelledError, RolecallError):
                await asked


async def _ask(trial: Trial, on_text: Any) -> Reply:
    stream = getattr(trial.model, 'stream', None)
    if callable(stream):
        streamed: Reply = await stream(trial.request, trial.sampling, on_text)
        return streamed
    [reply] = await trial.model.generate([trial.request], trial.sampling)
    return reply


def _reply_as_json(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        'text': reply.text,
        'outcome': reply.outcome,
        'reason': reply.reason,
        'reasoning': reply.reasoning,
        'facts': [
            [name, f'{value:,.2f} {unit}' if isinstance(value, float) else f'{value:,} {unit}']
            for name, value, unit in (
                ('input', usage.input_tokens, 'tokens'),
                ('output', usage.output_tokens, 'tokens'),
                ('time', usage.seconds, 's'),
            )
            if value is not None
        ],
    }


def _scored_as_json(scored: Scored, request: Request) -> dict[str, Any]:
    """Each token with its log-probability, and their mean."""
    text = request if isinstance(request, str) else ''
    known = [one for one in scored.logprobs if one is not None]
    places = scored.offsets or tuple((0, 0) for _ in scored.ids)
    tokens = [
        [text[start:stop] or str(token), logprob]
        for token, logprob, (start, stop) in zip(scored.ids, scored.logprobs, places, strict=True)
    ]
    return {'tokens': tokens, 'mean': sum(known) / len(known) if known else None}


def keep_trial(document: ConfigDocument, dataset: str, row: int, reply: str, request: Any) -> Path:
    """Append a row with its reply to a file of kept rows beside the config."""
    values = document.dataset(dataset).test[row]
    file = document.path.with_name(f'{document.path.stem}_kept.jsonl')
    record = {'dataset': dataset, 'row': row, **dict(values), 'request': request, 'reply': reply}
    try:
        with open(file, 'a', encoding='utf-8') as stream:
            stream.write(json.dumps(record, ensure_ascii=True, default=str) + '\n')
    except OSError as error:
        raise RolecallError(f'{file}: cannot be written: {error.strerror or error}.') from error
    return file
