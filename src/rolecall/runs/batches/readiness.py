"""What can be asked by batch, and what keeps a run from asking live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.models.http.batches import find_service
from rolecall.runs.batches.ledger_reader import count_waiting, has_batches
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.runs.batches.pending import PendingRequests


def check_batchable(prepared: PreparedRun) -> None:
    """Refuse what cannot be asked by batch, all of it at once."""
    problems = [problem for pair in prepared.pairs for problem in _find_obstacles(pair)]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _find_obstacles(pair: PairRun) -> Iterator[Problem]:
    name = pair.model.name
    if find_service(pair.model) is None:
        what = f'--batch: model {name} has no batch endpoint.'
        yield Problem(pair.model_entry.where, what, 'Leave it out with --model, or run it without --batch.')
    where = f'{pair.pair.task.where} × {pair.model_entry.where}'
    if 'score' in pair.inferencer.needs:
        what = f'--batch: {pair.pair.task.inferencer.name} needs prompt log-probabilities; batches return none.'
        yield Problem(where, what, 'Run this dataset without --batch.')
    if pair.pair.task.inferencer.own is not None:
        what = '--batch: an inferencer of your own may need answers at once.'
        yield Problem(where, what, 'Run this dataset without --batch.')


def refuse_while_waiting(prepared: PreparedRun, out: str | Path) -> None:
    """Refuse to ask live what a batch is being paid for."""
    models = {*prepared.models, *(judge.model_entry.model.name for judge in prepared.judges)}
    if waiting := count_waiting(out, models):
        raise RunError(
            f'{out}: {count_noun(waiting, "request")} of this run in a batch; asked live, they would be paid twice.\n'
            f'Fetch the answers with `rolecall runs collect {out}`, or cancel first: '
            f'`rolecall runs collect {out} --cancel`.'
        )


@contextmanager
def open_pending(
    store: Store, prepared: PreparedRun, *, tell: Callable[[str], None]
) -> Iterator[PendingRequests | None]:
    """Where requests are put down for batches; None for a run that asks live, which forgets what was not submitted."""
    if not prepared.options.batch and not has_batches(store.directory):
        yield None
        return
    from rolecall.runs.batches.ledger import BatchLedger
    from rolecall.runs.batches.pending import PendingRequests  # most runs need nothing of it

    with closing(BatchLedger(store.directory)) as ledger:
        ledger.discard_unsubmitted()
        yield PendingRequests(ledger, submits=True, tell=tell) if prepared.options.batch else None
