"""Two sides side by side: which dataset × model of one is which of the other, and which rows both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.loading import SourceLike
from rolecall.insight.alignment import ContentRow, align_rows
from rolecall.insight.claims import Claim, ClaimSource
from rolecall.runs.store.directory import FILE

RowPair = tuple[ContentRow, ContentRow]
ClaimLike: TypeAlias = 'float | Experiment | SourceLike'
"""A run directory, a log, a config, or a number."""


def open_claims(
    left: ClaimLike, right: ClaimLike, stack: ExitStack, dataset: str | None, model: str | None, configs: Sequence[Any]
) -> Iterator[tuple[Claim, Claim, list[RowPair]]]:
    """The claims of both sides, pair by pair, with the rows that both have. The runs stay open with the stack."""
    own = (*configs, *configs, None, None) if len(configs) == 1 else (*configs, None, None)
    sources = [ClaimSource(side, stack, config) for side, config in zip((left, right), own, strict=False)]
    if all(source.number is not None for source in sources):
        raise ConfigError(Problem('explain', 'both sides are numbers.', 'Give a run or a config for one of them.'))
    if any(source.number is not None for source in sources):
        known, config = (sources, left) if sources[1].number is not None else (sources[::-1], right)
        sources = [_find_run_of(known[0], config, stack), known[1]]
        pairs = [(names, ('', '')) for names in sources[0].pairs()]
    else:
        sources[0].take_models(sources[1])
        sources[1].take_models(sources[0])
        pairs = match_names(sources[0], sources[1])
    matched = pairs
    pairs = [
        (ours, theirs)
        for ours, theirs in pairs
        if dataset in (None, ours[0], theirs[0]) and model in (None, ours[1], theirs[1])
    ]
    if not pairs:
        names = ', '.join(dict.fromkeys(' × '.join(pair) for source in sources for pair in source.pairs()))
        what = 'the two sides have no dataset × model in common.'
        if matched:
            what = 'nothing that both sides have is called like that.'
        raise ConfigError(Problem('explain', what, f'They have: {names}.'))
    for ours, theirs in pairs:
        first, second = sources[0].claim(*ours), sources[1].claim(*theirs)
        yield first, second, pair_rows(first, second)


def _find_run_of(source: ClaimSource, config: ClaimLike, stack: ExitStack) -> ClaimSource:
    """The run of a config, in its usual directory: a number says nothing beside a config that was not run."""
    if source.reader is not None or source.experiment is None:
        return source
    usual = Path('runs', source.experiment.name)
    if not (usual / FILE).is_file():
        what = f'{source.title} was not run, so there are no replies to read in other ways.'
        raise ConfigError(Problem('explain', what, f'Run it, then explain the run: rolecall run {source.title}'))
    return ClaimSource(usual, stack, config)


def match_names(left: ClaimSource, right: ClaimSource) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The dataset × model of both sides: by name, or the datasets that share the most rows."""
    theirs = right.pairs()
    names: dict[str, str] = {}
    datasets = [list(dict.fromkeys(name for name, _ in side.pairs())) for side in (left, right)]
    unmatched = [name for name in datasets[0] if name not in datasets[1]]
    if unmatched:
        sides = [
            {name: left.rows(name, _model_of(left, name)) for name in unmatched},
            {name: right.rows(name, _model_of(right, name)) for name in datasets[1] if name not in datasets[0]},
        ]
        names = align_rows(sides[0], sides[1])[1]
    ours, matched = left.pairs(), []
    for dataset, model in ours:
        own = [pair for pair in theirs if pair[0] == names.get(dataset, dataset)]
        others = [pair for pair in own if (dataset, pair[1]) not in ours]  # not those of a model that both sides have
        same = [pair for pair in own if pair[1] == model] or others[:1]
        matched += [((dataset, model), same[0])] if same else []
    return matched


def _model_of(source: ClaimSource, dataset: str) -> str:
    return next(model for name, model in source.pairs() if name == dataset)


def pair_rows(left: Claim, right: Claim) -> list[RowPair]:
    """The rows that both sides have: by number where the rows are the same, else by content."""
    if not (left.is_log or right.is_log) and not left.parts.find_differing(right.parts, ('rows',)):
        by_number = {row.result.row: row for row in right.rows}
        return [(row, by_number[row.result.row]) for row in left.rows if row.result.row in by_number]
    same_model = [replace(row, result=replace(row.result, model='')) for row in left.rows]
    others = [replace(row, result=replace(row.result, model='')) for row in right.rows]
    matched, _ = align_rows({'': same_model}, {'': others})
    ours, theirs = ({row.result.row: row for row in claim.rows} for claim in (left, right))
    return [(ours[row.result.row], theirs[other.result.row]) for row, other in matched]
