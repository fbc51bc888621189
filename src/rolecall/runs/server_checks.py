"""What is found out about servers before a run: what they say, what probes show, and the ids of a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from rolecall.core.prompts.pieces import label_of
from rolecall.experiment.previews.token_origins import TokenAt
from rolecall.models.http.connection import MALFORMED
from rolecall.models.http.server_facts import ServerFacts
from rolecall.models.openai.probes import MOST_PROBES
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.engine import run_blocking
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun, Prepared
from rolecall.runs.receipts import read_previews, tokens_with_origins
from rolecall.runs.run_options import RunOptions

T = TypeVar('T')
_COMPARED = 4
"""Datasets of a model whose first prompt is compared id by id."""


def look_up_servers(models: Iterable[Model], options: RunOptions, *, scores: bool, secrets: Collection[str]) -> None:
    """Have models ask their servers what they are: servers of one's own, and any that may have to score prompts."""
    if options.batch:
        return
    candidates: list[Any] = [
        model
        for model in models
        if hasattr(model, 'look_up') and ((_is_open(model, options) and not options.dry_run) or _lacks(model, scores))
    ]
    for model in candidates:
        model.add_secrets(secrets)
    if candidates:
        run_blocking(_run_all(candidates, [model.look_up() for model in candidates]))


def _is_open(model: Any, options: RunOptions) -> bool:
    """Whether a server may be asked before the run: one's own unless `probe_servers` is False, others if it is True."""
    return bool(model.is_own if options.probe_servers is None else options.probe_servers)


def _lacks(model: Any, scores: bool) -> bool:
    return scores and not model.capabilities.score


async def _run_all(models: Iterable[Any], work: Iterable[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """Run work on models side by side, and close their connections. What a server cannot do is the result."""
    try:
        return await asyncio.gather(*map(_try, work))
    finally:
        for model in models:
            await model.close()


async def _try(work: Coroutine[Any, Any, T]) -> T | Exception:
    try:
        return await work
    except (ModelError, *MALFORMED) as error:
        return error


def models_to_probe(prepared: Prepared) -> list[Any]:
    """Models whose servers are probed: engines of one's own that were not probed before, or all if asked."""
    models: list[Any] = [model for model in prepared.models.values() if hasattr(model, 'probe')]
    return [
        model
        for model in models
        if _is_open(model, prepared.options)
        and not (model.facts and model.facts.probes)
        and (prepared.options.probe_servers or (model.facts and model.facts.engine))
    ]


def count_probes(prepared: Prepared) -> int:
    """How many requests probes would send, at most."""
    return MOST_PROBES * len(models_to_probe(prepared))


def probe_servers(prepared: Prepared, listener: RunListener) -> int:
    """Probe servers, compare the first prompts with the ids that engines return, and say what was found.

    How many requests were sent for it.
    """
    models, sent = models_to_probe(prepared), 0
    outcomes = run_blocking(_run_all(models, [model.probe() for model in models])) if models else []
    for model, outcome in zip(models, outcomes, strict=True):
        if isinstance(outcome, int):
            sent += outcome
        else:
            listener.on_message(f'{model.name}: the probes ended early: {outcome}')
    for model in prepared.models.values():
        if (facts := getattr(model, 'facts', None)) is not None and (line := facts.describe()):
            listener.on_message(f'{model.name}: {line}')
    for pair in prepared.pairs:
        pair.pair.refit()
    return sent + _compare_ids(prepared)


def _compare_ids(prepared: Prepared) -> int:
    """Compare the first prompt of pairs with the ids that the server makes of it. How many were compared."""
    work = []
    for model in prepared.models.values():
        facts: ServerFacts | None = getattr(model, 'facts', None)
        is_told = facts is not None and facts.engine and _is_open(model, prepared.options)
        pairs = [pair for pair in prepared.pairs if pair.model is model and is_told and not pair.pair.weighs]
        work += [(pair, _compare_pair(pair)) for pair in pairs[:_COMPARED]]
    if not work:
        return 0
    differences = run_blocking(_run_all(list(prepared.models.values()), [call for _, call in work]))
    for (pair, _), difference in zip(work, differences, strict=True):
        pair.prompt_difference = difference if isinstance(difference, str) else ''
    return sum(isinstance(difference, str) for difference in differences)


async def _compare_pair(pair: PairRun) -> str | None:
    """How the server's ids of the first row's prompt differ; None if they cannot be compared."""
    model: Any = pair.model
    preview = next(iter(read_previews(pair, [0])), None)
    if preview is None or preview.request is None:
        return None
    expected = list(tokens_with_origins(preview, model.counter))
    ids = await model.read_prompt_ids(preview.request) if expected else None
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
