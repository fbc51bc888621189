"""Answers from a causal language model: batches of similar length, shared prefixes computed once.

A reply does not depend on the rest of its batch: neither its length, nor where it stops, nor what a seed draws.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rolecall.errors import did_you_mean
from rolecall.models.local_engine import (
    TokenPrompt,
    TransformersDecoding,
    cut_at_stop,
    decode_continuation,
    too_long_reply,
)
from rolecall.models.protocol import ModelError, Reply, Usage
from rolecall.models.transformers.prefixes import Context, Ids, cache_of, layers_of, tensors
from rolecall.models.transformers.weights import LoadedModel, import_hf_package
from rolecall.strings import common_length


@dataclass(frozen=True, slots=True, eq=False)
class RowSampler:
    """Samples by adding Gumbel noise to the scores, so that the highest is a random draw."""

    narrowing: Sequence[Any]
    generators: Sequence[Any]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        torch = import_hf_package('torch')
        scores = scores.float()
        for step in self.narrowing:
            scores = step(input_ids, scores)
        width, device = scores.shape[-1], scores.device
        waits = [torch.empty(width, device=device).exponential_(generator=generator) for generator in self.generators]
        return scores - torch.stack(waits).log()


def build_row_sampler(rows: Sequence[Sequence[int]], decoding: TransformersDecoding, device: Any) -> RowSampler | None:
    """The sampler for these prompts; None for greedy decoding."""
    if not decoding.temperature:
        return None
    if decoding.beams > 1:
        raise ModelError('beam search does not take a temperature: remove num_beams or temperature.')
    transformers = import_hf_package('transformers')
    steps: list[Any] = []
    if decoding.temperature != 1:
        steps.append(transformers.TemperatureLogitsWarper(float(decoding.temperature)))
    if decoding.top_k and decoding.top_k > 0:
        steps.append(transformers.TopKLogitsWarper(decoding.top_k))
    if decoding.top_p is not None and decoding.top_p < 1:
        steps.append(transformers.TopPLogitsWarper(decoding.top_p))
    if decoding.min_p:
        steps.append(transformers.MinPLogitsWarper(decoding.min_p))
    return RowSampler(steps, [_generator(row, decoding.seed, device) for row in rows])


def _generator(row: Sequence[int], seed: int | None, device: Any) -> Any:
    generator = import_hf_package('torch').Generator(device=device)
    if seed is None:
        generator.seed()
    else:
        digest = hashlib.sha256(f'{seed} {" ".join(map(str, row))}'.encode()).digest()
        generator.manual_seed(int.from_bytes(digest[:8], 'big') >> 1)
    return generator


_WORTH_SHARING = 16


@dataclass(slots=True, eq=False)
class BatchGenerator:
    """Generates answers with one model, `rows` prompts at a time."""

    loaded: LoadedModel
    rows: int
    max_seq_len: int | None = None
    shares: bool = True
    """False: compute every prompt from its first token, for comparison."""
    stopped: Callable[[], bool] = bool
    _last: tuple[Ids, Context] = field(default=((), Context()))

    def forget(self) -> None:
        self._last = ((), Context())

    def generate(self, prompts: Sequence[TokenPrompt], decoding: TransformersDecoding) -> list[Reply]:
        """One reply per prompt, in order."""
        replies: dict[int, Reply] = {}
        order = sorted(range(len(prompts)), key=lambda number: len(prompts[number].ids), reverse=True)
        for room, numbers in groupby(
            order, key=lambda number: decoding.room(len(prompts[number].ids), self.max_seq_len)
        ):
            same = list(numbers)
            if room < max(1, decoding.min_new):
                replies |= {number: too_long_reply(len(prompts[number].ids), self.max_seq_len) for number in same}
                continue
            for start in range(0, len(same), self.rows):
                batch = same[start : start + self.rows]
                answers = self._generate_batch([prompts[number] for number in batch], decoding, room)
                replies.update(zip(batch, answers, strict=True))
        return [replies[number] for number in range(len(prompts))]

    def _generate_batch(self, prompts: Sequence[TokenPrompt], decoding: TransformersDecoding, room: int) -> list[Reply]:
        torch = import_hf_package('torch')
        if self.stopped():
            raise ModelError('stopped')
        try:
            with torch.inference_mode():
                return self._run_batch([prompt.ids for prompt in prompts], decoding, room)
        except torch.cuda.OutOfMemoryError as error:
            if len(prompts) == 1:
                raise ModelError(f'out of memory at a prompt of {len(prompts[0].ids)} tokens: {error}') from error
        self.forget()
        torch.cuda.empty_cache()
        half = len(prompts) // 2
        return [
            *self._generate_batch(prompts[:half], decoding, room),
            *self._generate_batch(prompts[half:], decoding, room),
        ]

    def _run_batch(self, prompts: Sequence[Ids], decoding: TransformersDecoding, room: int) -> list[Reply]:
        began = time.perf_counter()
        # A model cannot continue from nothing: an empty prompt becomes one end-of-text token.
        rows = [ids or (self.loaded.pad_id,) for ids in prompts]
        contexts, new = self._share_prefix(rows) if decoding.beams == 1 else ([Context() for _ in rows], 0)
        cache, _ = cache_of(contexts)
        end = StopTracker(self.loaded, rows, decoding, self.stopped)
        outputs = self._run(rows, decoding, room, end, cache if self.loaded.shares and decoding.beams == 1 else None)
        if self.shares and self.loaded.shares and decoding.beams == 1:
            left = max(map(len, rows)) - len(rows[-1])
            self._last = (rows[-1], Context(layers_of(cache), len(rows) - 1, left, len(rows[-1])).copy())
        seconds = (time.perf_counter() - began) / len(rows)
        replies = []
        for number, (row, context) in enumerate(zip(rows, contexts, strict=True)):
            ids, text, reason = end.answer(number, outputs[number])
            cached = context.length - (new if number == 0 else 0)
            replies.append(Reply(text, reason=reason, usage=Usage(len(row), len(ids), cached, seconds)))
        return replies

    def _share_prefix(self, rows: Sequence[Ids]) -> tuple[list[Context], int]:
        """The rows' common prefix, computed once, and how many of its tokens are new.

        Rows are right-aligned, longest first. A shorter one therefore has less of the prefix in the cache.
        """
        nothing = [Context() for _ in rows]
        if not self.shares or not self.loaded.shares:
            return nothing, 0
        length = min(len(rows[0]), len(rows[-1])) - 1
        for row in rows[1:]:
            length = min(length, common_length((rows[0], row)))
        cached = min(length, common_length((self._last[0], rows[0])))
        if len(rows) == 1:
            length = cached
        if length < max(_WORTH_SHARING, len(rows[0]) - len(rows[-1]) + 1):
            return nothing, 0
        context = self._last[1].first(cached)
        if cached < length:
            context = self._compute_prefix(rows[0][cached:length], context)
        return [context.first(max(0, length - len(rows[0]) + len(row))) for row in rows], length - cached

    def _compute_prefix(self, ids: Ids, context: Context) -> Context:
        arguments = tensors([ids], [context], self.loaded)
        cache, before = cache_of([context])
        self.loaded.model.base_model(**arguments, past_key_values=cache, use_cache=True)
        return Context(layers_of(cache), length=before + len(ids))

    def _run(
        self, rows: Sequence[Ids], decoding: TransformersDecoding, room: int, end: StopTracker, cache: Any
    ) -> list[list[int]]:
        torch, transformers = import_hf_package('torch'), import_hf_package('transformers')
        longest = max(map(len, rows))
        ids = [[self.loaded.pad_id] * (longest - len(row)) + [*row] for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        drawn = build_row_sampler(rows, decoding, self.loaded.device)
        try:
            outputs = self.loaded.model.generate(
                inputs=torch.tensor(ids, device=self.loaded.device),
                attention_mask=torch.tensor(mask, device=self.loaded.device),
                generation_config=_generation_config(transformers, decoding, room, end.ids, self.loaded.pad_id),
                stopping_criteria=transformers.StoppingCriteriaList([end]),
                logits_processor=transformers.LogitsProcessorList([drawn] if drawn else []),
                **({} if cache is None else {'past_key_values': cache}),
            )
        except ValueError as error:  # incompatible settings
            raise ModelError(f'these generation settings cannot be used: {error}') from error
        return [row[longest:] for row in outputs.tolist()]


def _generation_config(
    transformers: Any, decoding: TransformersDecoding, room: int, eos: Sequence[int], pad: int
) -> Any:
    defaults = vars(transformers.GenerationConfig())
    for name in decoding.extra:
        if name not in defaults:
            raise ModelError(f'unknown generation setting {name!r}. {did_you_mean(name, defaults)}')
    return transformers.GenerationConfig(
        **{
            **decoding.extra,
            'max_new_tokens': room,
            'min_new_tokens': min(decoding.min_new, room) or None,
            'do_sample': False,
            'eos_token_id': [*eos] or None,
            'pad_token_id': pad,
        }
    )


class StopTracker:
    """Where answers end: at an EOS, or at the token that completes a stop string."""

    def __init__(
        self, loaded: LoadedModel, rows: Sequence[Ids], decoding: TransformersDecoding, stopped: Callable[[], bool]
    ) -> None:
        special = loaded.tokenizer.special_tokens
        eos = loaded.eos_ids if decoding.eos_ids is None else decoding.eos_ids
        self.ids = tuple(dict.fromkeys((*eos, *(special[stop] for stop in decoding.stops if stop in special))))
        self.stops = tuple(stop for stop in decoding.stops if stop and stop not in special)
        self.tokenizer, self.rows, self.stopped = loaded.tokenizer, rows, stopped
        self.longest, self.min_new, self.watches = max(map(len, rows)), decoding.min_new, decoding.beams == 1
        # A token is at least one byte, so a stop spans no more tokens than this.
        self.window = max((len(stop.encode()) for stop in self.stops), default=0) + 1
        self.ends: dict[int, int] = {}

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Whether each row has ended."""
        torch = import_hf_package('torch')
        new = input_ids.shape[-1] - self.longest
        if self.stopped():
            return torch.ones(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        if self.stops and self.watches and new > self.min_new:
            tails = input_ids[:, max(self.longest, self.longest + new - self.window) :].tolist()
            for number in self._find_stopped_rows(tails):
                self.ends[number] = new
        ended = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        if self.ends:  # only then: moving a list to an accelerator makes it wait
            ended[[*self.ends]] = True
        return ended

    def is_reached(self, number: int, ids: Sequence[int], *, new: int) -> bool:
        """Whether an answer has ended within its last `new` tokens. Records where a stop is complete."""
        recent = ids[-new:]
        if any(token in self.ids for token in recent):
            return True
        if not self.stops or cut_at_stop(self._text(number, ids[-new - self.window :]), self.stops) is None:
            return False
        low, high = len(ids) - len(recent), len(ids)
        while high - low > 1:
            middle = (low + high) // 2
            stopped = cut_at_stop(self._text(number, ids[:middle]), self.stops) is not None
            low, high = (low, middle) if stopped else (middle, high)
        self.ends[number] = high
        return True

    def _find_stopped_rows(self, tails: Sequence[Sequence[int]]) -> Iterator[int]:
        for number, tail in enumerate(tails):
            if number not in self.ends:
                before = self._text(number, tail[:-1]).rstrip('\ufffd')
                if cut_at_stop(self._text(number, tail), self.stops, after=len(before)) is not None:
                    yield number

    def _text(self, number: int, ids: Sequence[int]) -> str:
        return decode_continuation(self.tokenizer, self.rows[number], ids)

    def answer(self, number: int, output: Sequence[int]) -> tuple[Sequence[int], str, str]:
        """The generated tokens, the text of the answer, and why it ended."""
        eos = next((place for place, token in enumerate(output) if token in self.ids and place >= self.min_new), None)
        stop = self.ends.get(number)
        if eos is not None and (stop is None or eos < stop):
            ids, reason = output[: eos + 1], 'stop'
            text = self._text(number, output[:eos])
        else:
            ids, reason = output[:stop], 'length' if stop is None else 'stop'
            text = self._text(number, ids)
        after = len(self._text(number, ids[: self.min_new])) if self.min_new else 0
        shorter = cut_at_stop(text, self.stops, after=after)
        return (ids, text, reason) if shorter is None else (ids, shorter, 'stop')
