"""`rolecall run CONFIG`: run it, show how it goes, and say what to do next."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rolecall.runs import RunSummary, run_config
from rolecall.views.run_progress import progress_for

__all__ = ['run_command']

_BETWEEN_COLLECTIONS = 20_000


def run_command(
    config: str | Path,
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | None = None,
    rerun: Collection[str] = (),
    dry_run: bool = False,
    quiet: bool = False,
    data: Mapping[str, str] | None = None,
) -> int:
    """Run a config file. The result is the exit code: 0, 1 if rows failed, 130 if interrupted."""
    directory = Path(out) if out is not None else Path('runs') / Path(config).stem
    with _rare_collections():
        summary = run_config(
            config,
            out=directory,
            limit=limit,
            dataset=dataset,
            model=model,
            rerun=rerun,
            dry_run=dry_run,
            progress=progress_for(quiet=quiet),
            data=data,
        )
    for line in _ending(summary, config):
        print(line, file=sys.stderr)
    return summary.exit_code


@contextmanager
def _rare_collections() -> Iterator[None]:
    """A run makes many objects and hardly a cycle: looking for cycles less often saves a tenth of its time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _ending(summary: RunSummary, config: str | Path) -> list[str]:
    again = f'rolecall run {config} --out {summary.out}'
    if summary.dry:
        return ['Nothing was sent (dry run).']
    if summary.interrupted:
        return [f'Interrupted. What was finished is kept; go on with: {again}']
    lines = [f'{model} could not be asked: {why}' for model, why in summary.broken.items()]
    if summary.broken:
        lines.append(f'What was finished is kept; once that is put right, go on with: {again}')
    if failed := summary.outcomes.get('failed'):
        lines.append(f'{failed:,} rows failed; ask them again with: {again} --rerun failed')
    if summary.unjudged:
        lines.append(f'{summary.unjudged:,} answers were not judged; ask the judge again with: {again} --rerun failed')
    return [*lines, f'Results are in {summary.out}.']
