"""Which rows of a dataset × model have to be worded and asked: all, some, or those that are not finished."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import compress

from rolecall.runs.client.cache import RequestKeys
from rolecall.runs.listener import RunListener
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.parts import digest_asking
from rolecall.runs.store.writer import Store
from rolecall.sources.datasets import Row
from rolecall.sources.retrievers import Picked

_FINISHED = ('ok', 'unparsed')


class RowChooser:
    """Chooses the rows that a run asks about. `rows` limits it to some; the prepared share, to those of one process."""

    def __init__(
        self,
        prepared: PreparedRun,
        store: Store,
        listener: RunListener,
        *,
        rows: Collection[int] | None = None,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._rerun = prepared.options.rerun
        self._rows = rows
        self._digests: dict[int, str | None] = {}

    @property
    def is_whole(self) -> bool:
        """Whether the run is to have every row of its datasets."""
        return self._rows is None and self._prepared.is_whole_beginning

    def count(self, pair: PairRun) -> int:
        """How many rows of a dataset × model this run is about."""
        return len(self._prepared.numbers(pair.compiled))

    def digest(self, pair: PairRun) -> str | None:
        """What the requests of a dataset × model depend on; None if that cannot be told."""
        return digest_asking(pair.compiled, pair.model, pair.inferencer, self._digests)

    def choose(self, pair: PairRun) -> Iterator[tuple[int, Row, Picked]]:
        """The rows that have to be worded. While everything they depend on is as it was, finished rows have not."""
        store, names = self._store, (pair.dataset, pair.model.name)
        limit, everything = self._prepared.options.limit, self._prepared.numbers(pair.compiled)
        if self._rows is not None:
            return pair.compiled.rows(limit, strict=False, only=sorted(set(everything) & set(self._rows)))
        digest, marking = self.digest(pair), pair.scoring_digest
        asking, scoring = store.digests(*names)
        alike = digest is not None and asking == digest and self._is_worded_alike(pair, everything)
        if new := not store.has_rows(*names):
            store.trust_rows(*names)
        # Rows that are replaced from here on are of the new kind, the others not yet.
        store.record_digests(
            *names,
            asking=digest if new or alike else None,
            scoring=marking if new or scoring == marking else None,
        )
        if alike:
            return pair.compiled.rows(limit, strict=False, only=self._find_unfinished(pair, everything))
        return pair.compiled.rows(limit, strict=False, only=None if self._prepared.is_whole_beginning else everything)

    def _find_unfinished(self, pair: PairRun, everything: Sequence[int]) -> array[int]:
        """The numbers of the rows without an answer in the store, and of those that are asked again."""
        stop = everything[-1] + 1 if everything else 0
        unfinished = bytearray(stop)
        for number in everything:
            unfinished[number] = True
        is_beginning = len(everything) == stop
        outcomes: Counter[str] = Counter()
        reused = [outcome for outcome in _FINISHED if outcome not in self._rerun]
        for numbers, ended in self._store.finished_rows(pair.dataset, pair.model.name, reused):
            first, last = numbers[0], numbers[-1]
            is_stretch = last - first + 1 == len(numbers)
            if is_stretch and is_beginning and last < stop:
                unfinished[first : last + 1] = bytes(len(numbers))
                outcomes.update(ended)
                continue
            for number, outcome in zip(numbers, ended, strict=True):
                if number < stop and unfinished[number]:
                    unfinished[number] = False
                    outcomes[outcome] += 1
        self._listener.on_known(pair.dataset, pair.model.name, outcomes)
        return array('Q', compress(range(stop), unfinished))

    def _is_worded_alike(self, pair: PairRun, everything: Sequence[int]) -> bool:
        """Whether the first, second, third, fifth, ninth, … row still lead to the requests that were sent.

        This code may have changed, too.
        """
        find_key = RequestKeys(dict(pair.model.identity))
        sampling = getattr(pair.inferencer, 'sampling', None)
        places = [0, *(1 << bit for bit in range(len(everything).bit_length()))]
        probes: Sequence[int] = [everything[place] for place in places if place < len(everything)]
        for number, row, picked in pair.compiled.rows(self._prepared.options.limit, strict=False, only=probes):
            stored = self._store.result(pair.dataset, pair.model.name, number)
            if stored is None or stored.outcome not in _FINISHED:
                continue
            step = pair.compiled.step(row, picked)
            request = step.requests[0][1] if step is not None and step.requests else None
            key = '' if request is None else find_key(request, None if pair.compiled.weighs else sampling)
            if key != stored.fingerprint:
                return False
        return True
