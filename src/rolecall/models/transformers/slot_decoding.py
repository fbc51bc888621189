"""Answers from slots: every row decodes in its own slot, one captured step at a time, and is replaced when it ends.

Used on CUDA. What all prompts begin with is computed and kept once (`slots`). A step is a CUDA graph, so the GPU never
waits for Python; answers are checked every few steps. A reply does not depend on the rest of its batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecall.models.local_engine import TokenPrompt, TransformersDecoding, too_long_reply
from rolecall.models.protocol import ModelError, Reply, Usage
from rolecall.models.transformers.decoding import RowSampler, StopTracker, build_row_sampler
from rolecall.models.transformers.prefixes import Ids
from rolecall.models.transformers.slots import Prefix, Slots, compute_prefix
from rolecall.models.transformers.weights import LoadedModel, import_hf_package
from rolecall.strings import common_length

_LOGGER = logging.getLogger('rolecall')
_WORTH_SHARING = 16
_STEPS = 8
"""Steps between two looks at the answers."""
_ROUND_TO = 64
_PREFILL_TOKENS = 16384
_SHARE_OF_MEMORY = 0.5


@dataclass(slots=True, eq=False)
class _Job:
    """One prompt and its place in the call."""

    number: int
    ids: Ids
    room: int


@dataclass(slots=True, eq=False)
class SlotGenerator:
    """Answers prompts with one model, up to `rows` side by side."""

    loaded: LoadedModel
    rows: int
    max_seq_len: int | None = None
    graphs: bool = True
    """False: steps run one kernel at a time, as on a CPU."""
    stopped: Callable[[], bool] = bool
    _cached: tuple[Ids, Prefix] = field(default=((), Prefix()))
    _decoder: _Decoder | None = None

    @staticmethod
    def supports(decoding: TransformersDecoding) -> bool:
        """Whether answers are drawn in a way that slots know: no beams, no settings of `generate` itself."""
        return decoding.beams == 1 and not decoding.extra and not decoding.min_new

    def forget(self) -> None:
        """Free the prefix and the slots."""
        self._cached, self._decoder = ((), Prefix()), None

    def generate(self, prompts: Sequence[TokenPrompt], decoding: TransformersDecoding) -> list[Reply]:
        torch = import_hf_package('torch')
        replies: dict[int, Reply] = {}
        jobs: list[_Job] = []
        for number, prompt in enumerate(prompts):
            room = decoding.room(len(prompt.ids), self.max_seq_len)
            if room < 1:
                replies[number] = too_long_reply(len(prompt.ids), self.max_seq_len)
            else:
                jobs.append(_Job(number, prompt.ids or (self.loaded.pad_id,), room))
        rows = self.rows
        while jobs and len(replies) < len(prompts):
            try:
                with torch.inference_mode():
                    replies |= self._answer_all(jobs, decoding, rows)
            except torch.cuda.OutOfMemoryError as error:
                if rows == 1:
                    raise ModelError(f'out of memory at a prompt of {len(jobs[0].ids)} tokens: {error}') from error
                self.forget()
                torch.cuda.empty_cache()
                rows //= 2
        return [replies[number] for number in range(len(prompts))]

    def _answer_all(self, jobs: Sequence[_Job], decoding: TransformersDecoding, rows: int) -> dict[int, Reply]:
        began = time.perf_counter()
        prefix, new = self._share_prefix([job.ids for job in jobs])
        own = max(len(job.ids) for job in jobs) - prefix.length
        longest = max(job.room for job in jobs)
        columns = -(-(own + longest) // _ROUND_TO) * _ROUND_TO
        rows = self._fit_rows(min(rows, 1 << (len(jobs) - 1).bit_length()), columns)
        decoder = self._prepare(prefix, rows, columns, longest, decoding)
        end = StopTracker(self.loaded, [job.ids for job in jobs], decoding, self.stopped)
        answers = dict(decoder.run(jobs, end, decoding, self.stopped))
        if decoder.obstacle is not None and self.graphs:
            self.graphs = False
            _LOGGER.warning('decoding goes on without CUDA graphs, which is slower: %s.', decoder.obstacle)
        seconds = (time.perf_counter() - began) / len(jobs)
        replies = {}
        for place, job in enumerate(jobs):
            ids, text, reason = end.answer(place, answers[place])
            cached = prefix.length - (new if place == 0 else 0)
            replies[job.number] = Reply(text, reason=reason, usage=Usage(len(job.ids), len(ids), cached, seconds))
        return replies

    def _share_prefix(self, prompts: Sequence[Ids]) -> tuple[Prefix, int]:
        """The common prefix of all prompts, and how many of its tokens had to be computed."""
        length = min(map(len, prompts)) - 1
        for ids in prompts:
            length = min(length, common_length((prompts[0], ids)))
        last_ids, last = self._cached
        if last_ids and prompts[0][: len(last_ids)] == last_ids and len(last_ids) <= length < 2 * len(last_ids):
            return last, 0
        if len(prompts) == 1 or length < _WORTH_SHARING:
            return Prefix(), 0
        ids = prompts[0][:length]
        prefix = compute_prefix(self.loaded, ids)
        self._cached = (ids, prefix)
        return prefix, length

    def _fit_rows(self, rows: int, columns: int) -> int:
        """As many rows as half of the free memory can hold."""
        torch = import_hf_package('torch')
        if self.loaded.device.type != 'cuda':
            return rows
        config = self.loaded.model.config.get_text_config()
        groups = getattr(config, 'num_key_value_heads', None) or config.num_attention_heads
        width = getattr(config, 'head_dim', None) or config.hidden_size // config.num_attention_heads
        size = 2 * config.num_hidden_layers * groups * width * columns * self.loaded.model.dtype.itemsize
        free, _ = torch.cuda.mem_get_info(self.loaded.device)
        return max(1, min(rows, int(_SHARE_OF_MEMORY * free / size)))

    def _prepare(
        self, prefix: Prefix, rows: int, columns: int, longest: int, decoding: TransformersDecoding
    ) -> _Decoder:
        """The decoder of the last call where it fits, with its captured step; a new one otherwise."""
        last, greedy = self._decoder, not decoding.temperature
        if last is not None and last.serves(prefix, rows, columns, longest, greedy=greedy):
            return last
        self._decoder = None  # its memory is free before the new one takes its own
        graphs = self.graphs and self.loaded.device.type == 'cuda'
        slots = Slots.empty(prefix, rows=rows, columns=columns)
        self._decoder = _Decoder(self.loaded, slots, longest, greedy=greedy, graphs=graphs)
        return self._decoder


class _Decoder:
    """Slots at work: which row does what, and the step that moves all of them one token on."""

    def __init__(self, loaded: LoadedModel, slots: Slots, width: int, *, greedy: bool, graphs: bool) -> None:
        torch = import_hf_package('torch')
        self.slots, self.width, self.greedy = slots, width, greedy
        self._loaded, self._graphs = loaded, graphs
        self._graph: Any = None
        self._logits: Any = None
        self.obstacle: str | None = None
        """Why steps cannot be captured; None if they can."""
        whole = {'dtype': torch.long, 'device': loaded.device}
        self._token = torch.zeros(slots.rows, **whole)
        self._column = torch.zeros(slots.rows, **whole)
        self._lengths = torch.zeros(slots.rows, **whole)
        self._out = torch.zeros((slots.rows, width + 1), **whole)
        self._every = torch.arange(slots.rows, device=loaded.device)

    def serves(self, prefix: Prefix, rows: int, columns: int, width: int, *, greedy: bool) -> bool:
        """Whether this decoder can be used again, with the step it has captured."""
        slots = self.slots
        same = slots.prefix is prefix and (slots.rows, slots.columns) == (rows, columns)
        return same and self.width >= width and self.greedy is greedy

    def run(
        self, jobs: Sequence[_Job], end: StopTracker, decoding: TransformersDecoding, stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, list[int]]]:
        """The tokens made for each job, by its place, as answers end."""
        waiting = sorted(range(len(jobs)), key=lambda place: len(jobs[place].ids))
        active: dict[int, int] = {}
        samplers: dict[int, RowSampler] = {}
        while waiting or active:
            if stopped():
                raise ModelError('stopped')
            free = self.slots.rows - len(active)
            if waiting and (not active or free >= max(1, self.slots.rows // 8)):
                rows = [row for row in range(self.slots.rows) if row not in active][:free]
                taken = dict(zip(rows, [waiting.pop() for _ in range(min(free, len(waiting)))], strict=False))
                self._fill({row: jobs[place].ids for row, place in taken.items()})
                active |= taken
                for row, place in taken.items():
                    sampler = build_row_sampler([jobs[place].ids], decoding, self._loaded.device)
                    samplers[row] = sampler or RowSampler((), ())
            for _ in range(_STEPS):
                self._advance(samplers, active)
            lengths, out = self._lengths.tolist(), self._out.tolist()
            for row, place in [*active.items()]:
                ids = out[row][: min(lengths[row], jobs[place].room)]
                if end.is_reached(place, ids, new=_STEPS) or len(ids) >= jobs[place].room:
                    del active[row]
                    yield place, ids

    def _fill(self, taken: dict[int, Ids]) -> None:
        """Put prompts into rows. All but the last token is computed here; the last is the first step's input."""
        torch = import_hf_package('torch')
        start = self.slots.prefix.length
        longer = sorted((row for row, ids in taken.items() if len(ids) - start > 1), key=lambda row: len(taken[row]))
        for batch in _split_by_tokens(longer, lambda row: len(taken[row]) - start - 1):
            self.slots.prefill(self._loaded, batch, [taken[row][start:-1] for row in batch])
        device = self._loaded.device
        rows = torch.tensor([*taken], device=device)
        self._token[rows] = torch.tensor([ids[-1] for ids in taken.values()], device=device)
        self._column[rows] = torch.tensor([len(ids) - start - 1 for ids in taken.values()], device=device)
        self._lengths[rows] = 0

    def _advance(self, samplers: dict[int, RowSampler], active: dict[int, int]) -> None:
        if self._graphs and self._graph is None:
            self._try_to_capture()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()
        if not self.greedy:
            self._choose(_draw(self._logits, samplers, active))

    def _step(self) -> None:
        """One forward pass; greedy rows choose at once, so that the choice is part of the captured step."""
        self._logits = self.slots.decode(self._loaded, self._token, self._column)
        if self.greedy:
            self._choose(self._logits.argmax(-1))

    def _choose(self, chosen: Any) -> None:
        self._out[self._every, self._lengths] = chosen
        self._token.copy_(chosen)
        self._column.add_(1).clamp_(max=self.slots.columns - 1)
        self._lengths.add_(1).clamp_(max=self.width)

    def _try_to_capture(self) -> None:
        """Capture a step where the model's layers allow it; the rows are put back as they were in any case."""
        state = (self._token, self._column, self._lengths, self._out)
        before = [tensor.clone() for tensor in state]
        try:
            self._capture()
        except Exception as error:  # foreign layers: a copy to the host, a shape that depends on values
            self._graph, self._graphs = None, False
            self.obstacle = f'{type(error).__name__}: {str(error).splitlines()[0]}'
            _renew_generator(self._loaded.device)
        for tensor, saved in zip(state, before, strict=True):
            tensor.copy_(saved)

    def _capture(self) -> None:
        """Capture a step as a graph, after two to warm up."""
        torch = import_hf_package('torch')
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._step()


def _renew_generator(device: Any) -> None:
    """Give the device's generator a state of its own: a capture that failed leaves the old one as if captured."""
    torch = import_hf_package('torch')
    fresh = torch.Generator(device).manual_seed(torch.initial_seed())
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.default_generators[index].graphsafe_set_state(fresh.graphsafe_get_state())


def _draw(logits: Any, samplers: dict[int, RowSampler], active: dict[int, int]) -> Any:
    """A token for every row: drawn by the row's own sampler; rows without a prompt get any."""
    torch = import_hf_package('torch')
    rows = sorted(active)
    chosen = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
    narrowing = samplers[rows[0]].narrowing
    together = RowSampler(narrowing, [generator for row in rows for generator in samplers[row].generators])
    places = torch.tensor(rows, device=logits.device)
    chosen[places] = together(None, logits[places]).argmax(-1)
    return chosen


def _split_by_tokens(rows: Sequence[int], length: Callable[[int], int]) -> Iterator[list[int]]:
    """Rows in batches whose padded size is bounded."""
    batch: list[int] = []
    for row in rows:
        if batch and (len(batch) + 1) * length(row) > _PREFILL_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
