"""A loaded model's KV cache: several streams, each with a record of the tokens it holds.

Results are the same, bit for bit, however a prompt was split and whatever ran beside it, as long as
attention is not fused, every stream has its own cells, and a prompt is fed two tokens or more at a time
(a single token takes another path through the kernels). This module ensures all three; see `design/embedded.md`.

Nor do results depend on the number of threads, so the best is found by measuring: threads that share a core with other
work wait for each other, and on a busy machine two can be far slower than one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rolecall.models.llama import bindings
from rolecall.models.llama.vocabulary import load_gguf
from rolecall.models.protocol import ModelError

_MOST = 16
_TRIAL_SHARE = 20
"""After a trial that took a second, this many seconds pass before the next."""
_LEAST_WAIT = 1.0
_SMALL = 8


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_threads() -> int:
    """How many other threads on the machine are running; 0 where the system does not say."""
    try:
        with open('/proc/stat', encoding='ascii') as file:
            running = next((line.split()[1] for line in file if line.startswith('procs_running')), '1')
    except OSError:
        return 0
    return max(0, int(running) - 1)


class ThreadTuner:
    """Chooses the number of threads from how long the work took with each.

    >>> pace = ThreadTuner(most=1)
    >>> pace.threads(512), pace.portion(512)
    (1, 8)
    """

    def __init__(
        self,
        *,
        most: int | None = None,
        fixed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        others: Callable[[], int] = busy_threads,
    ) -> None:
        most = min(available_cores(), _MOST) if most is None else most
        self._counts = [fixed] if fixed else sorted({most, *(2**power for power in range(most.bit_length()))})
        self._clock = clock
        self._others = others
        self._rates: dict[tuple[int, int], float] = {}
        self._favourite = self._counts[0]
        self._next_trial = 0.0
        self._tried = 0

    def portion(self, most: int) -> int:
        """How many tokens to compute next: few at first, and before trying another number of threads."""
        measured = (_is_prompt(most), self._best(most)) in self._rates
        return min(most, _SMALL) if not measured or self._trial_due(most) else most

    def threads(self, tokens: int) -> int:
        """How many threads to use for this many tokens."""
        best = self._best(tokens)
        if tokens > _SMALL or not self._trial_due(tokens):
            return best
        other = self._neighbour(best)
        # Our own threads that just finished may still count as running.
        if other > best and other + max(0, self._others() - (best - 1)) > self._counts[-1]:
            self._next_trial = self._clock() + _LEAST_WAIT
            self._tried += 1
            return best
        return other

    def note(self, tokens: int, threads: int, seconds: float) -> None:
        """Record how long it took."""
        was_trial = threads != self._best(tokens)
        key = _is_prompt(tokens), threads
        rate = tokens / max(seconds, 1e-9)
        self._rates[key] = rate if was_trial else (rate + self._rates.get(key, rate)) / 2
        if was_trial:
            self._tried += 1
            self._next_trial = self._clock() + max(_LEAST_WAIT, _TRIAL_SHARE * seconds)
        self._favourite = self._best(tokens)

    def _trial_due(self, tokens: int) -> bool:
        measured = (_is_prompt(tokens), self._best(tokens)) in self._rates
        return len(self._counts) > 1 and measured and self._clock() >= self._next_trial

    def _best(self, tokens: int) -> int:
        """The fastest for this kind of work once two were tried; otherwise the best of the other kind."""
        measured = [count for count in self._counts if (_is_prompt(tokens), count) in self._rates]
        if len(measured) < 2:
            return self._favourite
        return max(measured, key=lambda count: self._rates[_is_prompt(tokens), count])

    def _neighbour(self, count: int) -> int:
        place = self._counts.index(count)
        beside = [self._counts[near] for near in (place + 1, place - 1) if 0 <= near < len(self._counts)]
        return beside[self._tried % len(beside)]


def _is_prompt(tokens: int) -> bool:
    """Only similar work is compared: short steps are bound by memory, prompts by compute."""
    return tokens >= _SMALL


Ids: TypeAlias = npt.NDArray[np.int32]
Rows: TypeAlias = npt.NDArray[np.float32]
Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

CHUNK = 128
"""How many prompt tokens are computed at once: enough for full speed, few enough to stop quickly."""
CACHE_TYPES = {'f32': 0, 'f16': 1}
_LOGITS_BYTES = 1 << 26
_CELLS = 256
_WORTH_COPYING = 32
_OFF = 0


class Stopped(Exception):  # noqa: N818  # not an error: the caller has gone
    """The caller stopped waiting, so the work was abandoned."""


@dataclass(slots=True, eq=False)
class CachedTokens:
    """The prompt tokens in a stream, with their log-probabilities where known."""

    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    logprobs: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def shared_length(first: Ids, other: Ids) -> int:
    """The length of two prompts' common prefix."""
    length = min(len(first), len(other))
    differing = np.flatnonzero(first[:length] != other[:length])
    return int(differing[0]) if len(differing) else length


class Streams:
    """A loaded model with its context. Only the thread that created it may use it."""

    def __init__(
        self, path: Path, *, vocab_size: int, tuner: ThreadTuner, most_cells: int, cache_type: str = 'f16'
    ) -> None:
        self._native = bindings.library()
        self._context: int | None = None
        self._model: int | None = None
        self._model = load_gguf(path, vocab_only=False)
        if self._native.llama_model_has_encoder(self._model):
            raise ModelError(f'{path}: is not a causal language model: it has an encoder.')
        self._vocab_size = vocab_size
        self._tuner = tuner
        self._most_cells = most_cells
        self._cache_type = CACHE_TYPES[cache_type]
        self._cells = 0
        self.chunk = max(16, min(CHUNK, _LOGITS_BYTES // (4 * vocab_size)))
        self.cached: list[CachedTokens] = []
        self.computed = 0
        """Tokens computed so far."""
        self.stopped: Callable[[], bool] = bool

    def close(self) -> None:
        """Free the memory."""
        context, self._context = self._context, None
        model, self._model = self._model, None
        if context:
            self._native.llama_free(context)
        if model:
            self._native.llama_model_free(model)

    def make_room(self, *, streams: int, cells: int) -> None:
        """Ensure this many streams of this many tokens; creating them drops what was held."""
        if self._context and streams <= len(self.cached) and cells <= self._cells:
            return
        wanted = max(cells, self._cells, 2 * _CELLS)
        cells = max(cells, min(1 << (wanted - 1).bit_length(), self._most_cells))
        self._open_context(max(streams, len(self.cached)), -(-cells // _CELLS) * _CELLS)

    def forget(self) -> None:
        """Forget all held tokens."""
        self.cached = [CachedTokens() for _ in self.cached]

    def place(self, stream: int, ids: Ids) -> int:
        """Copy into a stream the longest prefix of a prompt that any stream holds; return its length.

        At least two tokens are left to compute.
        """
        shares = [shared_length(cached.ids, ids) for cached in self.cached]
        best = max(range(len(shares)), key=shares.__getitem__)
        if shares[best] - shares[stream] > _WORTH_COPYING:
            self._copy(best, stream)
            shares[stream] = shares[best]
        return self.cut(stream, min(shares[stream], len(ids) - 2))

    def cut(self, stream: int, length: int) -> int:
        """Keep the first `length` tokens of a stream; return how many were kept (0 if the model cannot drop tokens)."""
        length = max(length, 0)
        cached = self.cached[stream]
        if not self._remove(stream, length):
            self._remove(stream, 0)
            length = 0
        self.cached[stream] = CachedTokens(cached.ids[:length], cached.logprobs[:length])
        return length

    def feed(self, stream: int, ids: Ids, *, last_only: bool) -> Iterator[tuple[int, Rows]]:
        """Compute the rest of a prompt; yield logits, each part with the position of its first token.

        The logits are a view that the next part overwrites.
        """
        start = len(self.cached[stream].ids)
        while start < len(ids):
            left = len(ids) - start
            size = min(left, self._tuner.portion(self.chunk))
            size -= left - size == 1 and size > 2
            part = ids[start : start + size]
            wanted = np.full(size, not last_only, np.int8)
            wanted[-1] |= start + size == len(ids)
            rows = self._decode(part, np.arange(start, start + size), np.full(size, stream), wanted)
            cached = self.cached[stream]
            self.cached[stream] = CachedTokens(np.concatenate((cached.ids, part)), cached.logprobs)
            yield start, rows
            start += size

    def step(self, tokens: Sequence[int], places: Sequence[int], streams: Sequence[int]) -> Rows:
        """Add one generated token to each of several streams; return the logits after each."""
        ones = np.ones(len(tokens), np.int8)
        return self._decode(np.asarray(tokens, np.int32), np.asarray(places), np.asarray(streams), ones)

    def _open_context(self, streams: int, cells: int) -> None:
        context, self._context = self._context, None
        if context:
            self._native.llama_free(context)
        self.cached, self._cells = [], 0
        bindings.take_errors()
        parameters = bindings.context_parameters(
            self._native,
            n_ctx=streams * cells,
            n_batch=max(self.chunk, streams),
            n_ubatch=max(self.chunk, streams),
            n_seq_max=streams,
            flash_attn_type=_OFF,
            type_k=self._cache_type,
            type_v=self._cache_type,
            kv_unified=False,
        )
        handle = self._native.llama_init_from_model(self._model, parameters)
        if not handle:
            why = bindings.take_errors() or 'no reason given'
            raise ModelError(f'llama.cpp cannot allocate {streams} × {cells} tokens: {why}')
        self._context = handle
        got = [getattr(self._native, f'llama_n_{name}')(handle) for name in ('seq_max', 'batch', 'ubatch')]
        if got != [streams, max(self.chunk, streams), max(self.chunk, streams)]:
            raise ModelError(f'llama.cpp created a different context than requested: {got}.')
        self._cells = int(self._native.llama_n_ctx_seq(handle))
        if self._cells < cells:
            raise ModelError(f'llama.cpp gave each stream {self._cells} tokens instead of {cells}.')
        self._memory = self._native.llama_get_memory(handle)
        self.cached = [CachedTokens() for _ in range(streams)]

    def _copy(self, source: int, target: int) -> None:
        self._remove(target, 0)
        self._native.llama_memory_seq_cp(self._memory, source, target, -1, -1)
        cached = self.cached[source]
        # A stream may hold generated tokens after its prompt; they are not copied.
        self._remove(target, len(cached.ids))
        self.cached[target] = CachedTokens(cached.ids, cached.logprobs)

    def _remove(self, stream: int, start: int) -> bool:
        return bool(self._native.llama_memory_seq_rm(self._memory, stream, start, -1))

    def _decode(self, ids: Ids, places: Numbers, streams: Numbers, wanted: npt.NDArray[np.int8]) -> Rows:
        if self.stopped():
            raise Stopped
        size = len(ids)
        self._check(ids, places, streams)
        tokens = np.ascontiguousarray(ids, np.int32)
        positions = np.ascontiguousarray(places, np.int32)
        owners = np.ascontiguousarray(streams, np.int32)
        ones = np.ones(size, np.int32)
        pointers = owners.ctypes.data + 4 * np.arange(size, dtype=np.uintp)
        arrays = (positions, ones, pointers, wanted)
        batch = bindings.Batch(size, tokens.ctypes.data, None, *(array.ctypes.data for array in arrays))
        threads = self._tuner.threads(size)
        self._native.llama_set_n_threads(self._context, threads, threads)
        begun = time.perf_counter()
        code = self._native.llama_decode(self._context, batch)
        if code:
            self.forget()
            raise ModelError(f'llama.cpp could not compute {size} tokens (code {code}): {bindings.take_errors()}')
        rows = int(np.count_nonzero(wanted))
        logits = self._native.llama_get_logits(self._context) if rows else None
        self._tuner.note(size, threads, time.perf_counter() - begun)
        self.computed += size
        if not logits:
            return np.empty((0, self._vocab_size), np.float32)
        return np.ctypeslib.as_array(logits, (rows, self._vocab_size))

    def _check(self, ids: Ids, places: Numbers, streams: Numbers) -> None:
        """Reject input on which llama.cpp would abort the process."""
        if not self._context:
            raise ModelError('the embedded model is closed.')
        for what, values, bound in (
            ('token ids', ids, self._vocab_size),
            ('positions', places, self._cells),
            ('streams', streams, len(self.cached)),
        ):
            if len(values) and not (values.min() >= 0 and values.max() < bound):
                raise ModelError(f'{what} must be from 0 to {bound - 1}; there are {values.min()} to {values.max()}.')
