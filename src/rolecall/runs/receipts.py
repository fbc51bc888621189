"""What servers do with prompts: what they say and probes show before a run, and the receipts of each dataset × model.

By a receipt, rows that the server cut are marked, and differences are explained.

This happens when all rows are stored and before they are scored, so a row is judged by all others, not by those that
happened to finish before it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.chat_renderer import trace_chat_text
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError
from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import TokenAt, tokens_of
from rolecall.models.http.connection import MALFORMED
from rolecall.models.http.media import has_media
from rolecall.models.openai.probes import MOST_PROBES
from rolecall.models.protocol import Model, ModelError, Sampling, is_messages
from rolecall.models.token_counter import OLDEST_DROPPED, TokenCounter
from rolecall.runs.engine import run_blocking
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.receipt import CountComparison, Receipt, TokenCount, compare_counts, describe_counts
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.models.http.served_model import ServedModel

_TRIED = 6
"""Requests by which an explanation of a difference is tried."""
_NAMED = 4
_LOOKED_AT = 200
"""Cut rows that are looked at, for the spans they lost; of further ones, the reason has the amounts."""
SERVER_DEFAULT = 'server default'


def find_served(model: Any) -> ServedModel[Any] | None:
    """The model, if it is one of a server. Runs without servers do not import the class."""
    return model if hasattr(model, 'batch_service') else None


def check_receipts(pair: PairRun, store: Store) -> Receipt | None:
    """Compare what the server reports with what was sent, and mark the rows that it cut; None for a local model."""
    if (model := find_served(pair.model)) is None:
        return None
    names = (pair.dataset, model.name)
    counts: list[TokenCount] = []
    marked: set[int] = set()
    unreported = 0
    for row, expected, reported, calls, outcome in store.token_counts(*names):
        if reported is None:
            unreported += 1
        else:
            counts.append(TokenCount(row, expected or 0, reported, calls))
        if outcome == 'truncated_by_server':
            marked.add(row)
    comparison, findings = check_requests(model, counts, lambda rows: _read_requests(pair, rows))
    truncated = set(comparison.truncated)
    _mark_truncated(pair, store, {count.row: count for count in counts if count.row in truncated}, marked)
    served = store.count_served(*names)
    if pair.prompt_difference:
        findings.append(pair.prompt_difference)
    if len(served) > 1:
        parts = [f'{who} ({count_noun(rows, "row")} from row {first})' for who, rows, first in served[:_NAMED]]
        findings.append(f'answered by {len(served)} configurations: {", ".join(parts)}. Their answers are mixed here.')
    return Receipt(
        checked=sum(count.expected > 0 for count in counts),
        unknown=sum(not count.expected for count in counts) if model.counter.tokenizer else 0,
        unreported=unreported if model.counter.tokenizer else 0,
        difference=comparison.base if comparison.kind == 'constant' else None,
        truncated=len(truncated),
        findings=tuple(findings),
        served={str(who): rows for who, rows, _ in served} or None,
        temperature=describe_temperature(pair),
    )


def describe_temperature(pair: PairRun) -> str:
    """`server default` where a server is asked for answers and no temperature is sent; otherwise nothing."""
    sampling = getattr(pair.inferencer, 'sampling', None)
    model = find_served(pair.model)
    if sampling is None or pair.compiled.weighs or model is None:
        return ''
    if sampling.temperature is not None or model.identity.get('temperature') is not None:
        return ''
    usual = model.facts.temperature if model.facts else None
    return SERVER_DEFAULT if usual is None else f'{SERVER_DEFAULT} ({usual:g})'


def check_requests(
    model: ServedModel[Any],
    counts: Sequence[TokenCount],
    read_requests: Callable[[Sequence[int]], Mapping[int, Request]],
    *,
    unit: str = 'row',
) -> tuple[CountComparison, list[str]]:
    """Compare the counts of some requests, and say what that means. `read_requests` gives those of these rows."""
    lengths: dict[int, float] = {}
    if not any(count.expected for count in counts):
        ceiling = max((count.accepted for count in counts), default=0)
        level = [count.row for count in counts if count.accepted == ceiling][:_LOOKED_AT]
        requests = read_requests(level)
        lengths = {row: len(str(request)) for row, request in requests.items() if not _has_media(request)}
    window = model.facts.window if model.facts else None
    comparison = compare_counts(counts, window=window, lengths=lengths)
    explanation = _explain(model.counter, comparison, counts, read_requests)
    if explanation == OLDEST_DROPPED:
        comparison = replace(comparison, truncated=tuple(row.row for row in counts if row.difference > 0), kind='same')
    return comparison, describe_counts(comparison, explanation, unit=unit)


def _has_media(request: Request) -> bool:
    return is_messages(request) and any(map(has_media, request))


def _mark_truncated(pair: PairRun, store: Store, cut: dict[int, TokenCount], marked: set[int]) -> None:
    """Take the answer from rows that were cut, and give it back to rows that turn out not to be."""
    names = (pair.dataset, pair.model.name)
    unmarked: dict[str, Any] = {'score': None, 'correct': None, 'extracted': None, 'settled': False}
    changed: list[Result] = []
    for row in sorted(marked - set(cut)):
        if (result := store.result(*names, row)) is not None:
            changed.append(replace(result, outcome='ok', reason='', **unmarked))
    new = sorted(set(cut) - marked)
    looked_at = read_previews(pair, new[:_LOOKED_AT])
    losses = {preview.row: _describe_loss(pair, preview, cut[preview.row]) for preview in looked_at}
    for row in new:
        if (result := store.result(*names, row)) is not None:
            reason = losses.get(row) or _describe_amount(cut[row])
            changed.append(replace(result, outcome='truncated_by_server', reason=reason, **unmarked))
    if changed:
        store.update_rows(changed)


def read_previews(pair: PairRun, rows: Sequence[int]) -> Iterable[Preview]:
    """The first request of rows, with its origins."""
    for number, row, picked in pair.compiled.rows(strict=False, only=rows) if rows else ():
        try:
            yield next(iter(pair.compiled.previews(number, row, picked)))
        except (RenderError, StopIteration):
            continue


def _read_requests(pair: PairRun, rows: Sequence[int]) -> dict[int, Request]:
    return {preview.row: preview.request for preview in read_previews(pair, rows) if preview.request is not None}


def _describe_loss(pair: PairRun, preview: Preview, count: TokenCount) -> str:
    """What the server cannot have read, by origin. Which end it dropped is not known, so both are named."""
    amount = _describe_amount(count)
    counter: TokenCounter = pair.model.counter  # type: ignore[attr-defined]  # of a served model
    tokens = list(tokens_with_origins(preview, counter))
    lost = round(count.difference)
    if count.calls > 1 or len(tokens) != count.expected or not 0 < lost < len(tokens):
        return amount
    start, end = _name_origins(tokens[:lost]), _name_origins(tokens[-lost:])
    return f'{amount} Lost, if it dropped the beginning: {start}; if the end: {end}.'


def _describe_amount(count: TokenCount) -> str:
    if not count.expected:
        return f'the server read {count.reported:,} tokens, its limit, of a longer request.'
    return f'the server read {count.reported:,} of {count.expected:,} tokens.'


def tokens_with_origins(preview: Preview, counter: TokenCounter) -> Iterable[TokenAt]:
    """The tokens that a server should make of a request, each with its origin; none without the model's tokenizer."""
    request, template, spans = preview.request, counter.template, preview.spans
    if counter.tokenizer is None or request is None:
        return ()
    if not is_messages(request):
        return tokens_of(spans, counter.tokenizer, with_bos=True)
    if template is None:
        return ()
    return tokens_of(trace_chat_text(template.render, request, spans), counter.tokenizer, with_bos=False)


def _name_origins(tokens: Sequence[TokenAt]) -> str:
    """The origins of tokens in order, shots as a whole, each once."""
    origins = (token.origin for token in tokens)
    labels = Counter(label_of(origin) if origin.shot is None else f'shot {origin.shot + 1}' for origin in origins)
    names = [f'{label} ({count_noun(amount, "token")})' for label, amount in islice(labels.items(), _NAMED)]
    more = len(labels) - _NAMED
    return ', '.join([*names, *([f'and {more} more'] if more > 0 else [])])


def _explain(
    counter: TokenCounter,
    comparison: CountComparison,
    counts: Sequence[TokenCount],
    read_requests: Callable[[Sequence[int]], Mapping[int, Request]],
) -> str:
    """What differences are: the first reading of a request that gives the reported count for all tried, if any does."""
    truncated = set(comparison.truncated)
    odd = [row for row in counts if row.expected and row.calls == 1 and row.difference and row.row not in truncated]
    tried = [] if comparison.kind == 'level' else odd[:: max(len(odd) // _TRIED, 1)][:_TRIED]
    requests = read_requests([count.row for count in tried])
    fitting: list[str] | None = None
    for count in tried:
        if count.row in requests:
            readings = counter.other_readings(requests[count.row])
            phrases = dict.fromkeys(phrase for phrase, tokens in readings if tokens == count.reported)
            fitting = [phrase for phrase in (phrases if fitting is None else fitting) if phrase in phrases]
    return ', or '.join((fitting or [])[:2])


T = TypeVar('T')
_COMPARED = 4
"""Datasets of a model whose first prompt is compared id by id."""


def look_up_servers(models: Iterable[Model], options: RunOptions, *, scores: bool, secrets: Collection[str]) -> None:
    """Have models ask their servers what they are: servers of one's own, and any that may have to score prompts."""
    candidates: list[Any] = [
        model
        for model in (() if options.batch else models)
        if hasattr(model, 'look_up')
        and ((_is_open(model, options) and not options.dry_run) or (scores and not model.capabilities.score))
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
    return [
        model
        for model in filter(None, map(find_served, prepared.models.values()))
        if hasattr(model, 'probe')
        and _is_open(model, prepared.options)
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
    probes = [(model, model.probe()) for model in models_to_probe(prepared)]
    outcomes = _run_all(probes)
    for (model, _), outcome in zip(probes, outcomes, strict=True):
        if not isinstance(outcome, int):
            listener.on_message(f'{model.name}: the probes ended early: {outcome}')
    compared: list[PairRun] = []
    for model in prepared.models.values():
        served = find_served(model)
        facts = served.facts if served is not None else None
        if facts is not None and (line := facts.describe()):
            listener.on_message(f'{model.name}: {line}')
        if facts is not None and facts.engine and _is_open(model, prepared.options):
            pairs = [pair for pair in prepared.pairs if pair.model is model and not pair.compiled.weighs]
            compared += pairs[:_COMPARED]
    for pair in prepared.pairs:
        pair.compiled.refit()
    differences = _run_all([(pair.model, _compare_pair(pair)) for pair in compared])
    for pair, difference in zip(compared, differences, strict=True):
        pair.prompt_difference = difference if isinstance(difference, str) else ''
    return sum(sent for sent in outcomes if isinstance(sent, int)) + sum(isinstance(text, str) for text in differences)


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
