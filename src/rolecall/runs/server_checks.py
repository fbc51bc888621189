"""What is found out about servers before a run: what they say, what probes show, and the ids of a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from rolecall.core.prompts.pieces import label_of
from rolecall.experiment.previews.token_origins import TokenAt
from rolecall.models.http.connection import MALFORMED
from rolecall.models.openai.probes import MOST_PROBES
from rolecall.models.protocol import Model, ModelError, Sampling
from rolecall.runs.engine import run_blocking
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.receipts import read_previews, tokens_with_origins
from rolecall.runs.run_options import RunOptions

T = TypeVar('T')
_COMPARED = 4
"""Datasets of a model whose first prompt is compared id by id."""


def look_up_servers(models: Iterable[Model], options: RunOptions, *, scores: bool, secrets: Collection[str]) -> None:
    """Have models ask their servers what they are: servers of one's own, and any that may have to score prompts."""
    candidates: list[Any] = [] if options.batch else [model for model in models if hasattr(model, 'look_up')]
    candidates = [
        model
        for model in candidates
        if (_is_open(model, options) and not options.dry_run) or (scores and not model.capabilities.score)
    ]
    for model in candidates:
        model.add_secrets(secrets)
    _run_all([(model, model.look_up()) for model in candidates])


def _is_open(model: Any, options: RunOptions) -> bool:
    """Whether a server may be asked before the run: one's own unless `probe_servers` is False, others if it is True."""
    return bool(model.is_own if options.probe_servers is None else options.probe_servers)


def _run_all(work: Sequence[tuple[Any, Coroutine[Any, Any, T]]]) -> list[T | BaseException]:
    """Run work on models side by side, and close their connections. What a server cannot do is the result."""

    async def run() -> list[T | BaseException]:
        try:
            return await asyncio.gather(*(task for _, task in work), return_exceptions=True)
        finally:
            for model in {id(model): model for model, _ in work}.values():
                await model.close()

    results = run_blocking(run()) if work else []
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, (ModelError, *MALFORMED)):
            raise result
    return results


def models_to_probe(prepared: PreparedRun) -> list[Any]:
    """Models whose servers are probed: engines of one's own that were not probed before, or all if asked."""
    models: list[Any] = [model for model in prepared.models.values() if hasattr(model, 'probe')]
    return [
        model
        for model in models
        if _is_open(model, prepared.options)
        and not (model.facts and model.facts.probes)
        and (prepared.options.probe_servers or (model.facts and model.facts.engine))
    ]


def count_probes(prepared: PreparedRun) -> int:
    """How many requests probes would send, at most."""
    return MOST_PROBES * len(models_to_probe(prepared))


def probe_servers(prepared: PreparedRun, listener: RunListener) -> int:
    """Probe servers, compare the first prompts with the ids that engines return, and say what was found.

    How many requests were sent for it.
    """
    sent = 0
    probes = [(model, model.probe()) for model in models_to_probe(prepared)]
    for (model, _), outcome in zip(probes, _run_all(probes), strict=True):
        if isinstance(outcome, int):
            sent += outcome
        else:
            listener.on_message(f'{model.name}: the probes ended early: {outcome}')
    compared: list[PairRun] = []
    for model in prepared.models.values():
        if (facts := getattr(model, 'facts', None)) is not None:
            if line := facts.describe():
                listener.on_message(f'{model.name}: {line}')
            if facts.engine and _is_open(model, prepared.options):
                pairs = [pair for pair in prepared.pairs if pair.model is model and not pair.pair.weighs]
                compared += pairs[:_COMPARED]
    for pair in prepared.pairs:
        pair.pair.refit()
    for pair, difference in zip(
        compared, _run_all([(pair.model, _compare_pair(pair)) for pair in compared]), strict=True
    ):
        if isinstance(difference, str):
            pair.prompt_difference = difference
            sent += 1
    return sent


async def _compare_pair(pair: PairRun) -> str | None:
    """How the server's ids of the first row's prompt differ; None if they cannot be compared."""
    model: Any = pair.model
    preview = next(iter(read_previews(pair, [0])), None)
    if preview is None or preview.request is None:
        return None
    expected = list(tokens_with_origins(preview, model.counter))
    if len(expected) != model.expect_tokens(preview.request, Sampling()):  # with tools, they are not all of the prompt
        return None
    ids = await model.read_prompt_ids(preview.request)
    return None if ids is None else describe_first_difference(expected, ids, model.tokenizer.pieces(ids))


def describe_first_difference(expected: Sequence[TokenAt], ids: Sequence[int], pieces: Sequence[str]) -> str:
    """The first token that is not the expected one, with its origin; empty if all are."""
    same = next(
        (place for place, (token, number) in enumerate(zip(expected, ids, strict=False)) if token.id != number),
        min(len(expected), len(ids)),
    )
    if same == len(expected) == len(ids):
        return ''
    ours = expected[same] if same < len(expected) else None
    wanted = 'the end' if ours is None else f'{ours.piece!r} ({ours.id}) of {label_of(ours.origin)}'
    theirs = f'{pieces[same]!r} ({ids[same]})' if same < len(ids) else 'the end'
    return f'token {same} of the first prompt should be {wanted}, the server has {theirs}.'
