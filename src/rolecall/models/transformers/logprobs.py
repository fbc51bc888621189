"""Log-probabilities of prompt tokens. Shared prefixes are computed once, within a call and between calls.

The prompts of a call form a tree (`prefixes.py`). Branches of the same depth run in one batch, padded on
the right, where a causal model does not look; the scores do not depend on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rolecall.models.local_engine import TokenPrompt
from rolecall.models.protocol import ModelError, Scored, Usage
from rolecall.models.transformers.prefixes import (
    Branch,
    Context,
    Ids,
    build_flat_tree,
    build_prefix_tree,
    cache_of,
    layers_of,
    tensors,
)
from rolecall.models.transformers.weights import LoadedModel, import_hf_package
from rolecall.strings import common_length

_LOGITS_AT_ONCE = 1 << 26
_ON_CPU, _ON_CUDA = 2048, 16384
_IDLE = 128


@dataclass(frozen=True, slots=True, eq=False)
class _CachedScores:
    """The computed part of the last prompt, with the log-probabilities of its tokens as `mark_scores` gives them."""

    ids: Ids = ()
    logprobs: tuple[float | None, ...] = ()
    context: Context = field(default_factory=Context)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A branch to compute after a context."""

    branch: Branch
    context: Context

    @property
    def tokens(self) -> Ids:
        return self.branch.ids[self.context.length : self.branch.fed]


@dataclass(slots=True, eq=False)
class PromptScorer:
    """Scores prompts with one model. `room` bounds the tokens of one pass, cached ones included."""

    loaded: LoadedModel
    room: int
    shares: bool = True
    """False: compute every prompt from its first token, for comparison."""
    keeps: bool = True
    """Whether the last prompt is remembered for the next call."""
    one_by_one: bool = False
    """One prompt, or one branch of them, in a pass: scores are those of a model that is given each prompt alone."""
    stopped: Callable[[], bool] = bool
    computed: int = 0
    """Tokens computed so far, without padding."""
    _cached: _CachedScores = field(default_factory=_CachedScores)
    _last: tuple[Ids, Context] = field(default=((), Context()))
    _charged: dict[Ids, int] = field(default_factory=dict)

    def forget(self) -> None:
        self._cached = _CachedScores()

    def score(self, prompts: Sequence[TokenPrompt]) -> list[Scored]:
        """The log-probabilities of each prompt's tokens, in float32."""
        different = sorted({prompt.ids for prompt in prompts if prompt.ids})
        shares = self.shares and self.loaded.shares
        tree = build_prefix_tree(different, longest=self._at_once) if shares else build_flat_tree(different)
        self._last = (prompts[-1].ids if prompts and shares and self.keeps else (), Context())
        self._charged = dict.fromkeys(different, 0)
        with import_hf_package('torch').inference_mode():
            self._run([_Row(branch, Context()) for branch in tree])
        scores = dict(collect_scores(tree))
        last, context = self._last
        if context.length:
            self._cached = _CachedScores(last[: context.length], scores[last][: context.length], context.copy())
        self._last = ((), Context())
        return [self._build_scored(prompt, scores) for prompt in prompts]

    def _build_scored(self, prompt: TokenPrompt, scores: dict[Ids, tuple[float | None, ...]]) -> Scored:
        new = self._charged.get(prompt.ids, 0)
        self._charged[prompt.ids] = 0  # repeating a prompt costs nothing
        usage = Usage(input_tokens=len(prompt.ids), output_tokens=0, cached_tokens=len(prompt.ids) - new)
        return Scored.from_marked(prompt.ids, scores.get(prompt.ids, ()), prompt.offsets, usage)

    @property
    def _at_once(self) -> int:
        return _ON_CUDA if self.loaded.device.type == 'cuda' else _ON_CPU

    def _run(self, rows: Iterable[_Row]) -> None:
        """Compute branches depth first, so that few contexts are held at a time."""
        reused = [self._reuse_cached(row) for row in rows]
        fed = [row for row in reused if row.tokens]
        for row in reused:
            self._charge(row)
        for batch in self._batches(fed):
            contexts = self._run_batch(batch)
            pairs = zip(batch, contexts, strict=True)
            self._run([_Row(child, context) for row, context in pairs for child in row.branch.children])

    def _reuse_cached(self, row: _Row) -> _Row:
        """Continue from the last call's prompt instead, if it covers more; its last common token is fed again."""
        branch, cached = row.branch, self._cached
        if not self.loaded.shares or not self.shares:
            return row
        shared = common_length((cached.ids, branch.ids[: branch.stop]))
        if shared - 1 <= branch.start:
            return row
        branch.logprobs[: shared - branch.start] = cached.logprobs[branch.start : shared]
        if shared == branch.stop and not branch.children:
            return _Row(branch, cached.context.first(branch.fed))
        return _Row(branch, cached.context.first(shared - 1))

    def _charge(self, row: _Row) -> None:
        """Charge the new tokens of a branch to its first prompt."""
        branch = row.branch
        whole = not row.tokens and row.context.length > branch.start
        self._charged[branch.ids] += 0 if whole else branch.stop - row.context.length
        self.computed += len(row.tokens)

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        """Rows of similar length whose contexts share tensors, as many as fit."""
        by_place = sorted(rows, key=lambda row: (id(row.context.layers), -len(row.tokens)))
        for _, group in groupby(by_place, key=lambda row: id(row.context.layers)):
            batch: list[_Row] = []
            for row in group:
                if batch and not self._fit([*batch, row]):
                    yield batch
                    batch = []
                batch.append(row)
            yield batch

    def _fit(self, batch: Sequence[_Row]) -> bool:
        fed = [len(row.tokens) for row in batch]
        filled = len(batch) * max(fed)
        cells = filled + len(batch) * max(row.context.length for row in batch)
        # Padding is free on a GPU but not on a CPU.
        wasteful = self.loaded.device.type == 'cpu' and filled > 1.2 * sum(fed) + _IDLE
        return cells <= self.room and filled <= self._at_once and not wasteful and not self.one_by_one

    def _run_batch(self, batch: Sequence[_Row]) -> list[Context]:
        if self.stopped():
            raise ModelError('stopped')
        torch = import_hf_package('torch')
        try:
            return self._forward(batch)
        except torch.cuda.OutOfMemoryError as error:
            if len(batch) == 1:
                raise ModelError(f'out of memory at a prompt of {batch[0].branch.fed} tokens: {error}') from error
        torch.cuda.empty_cache()
        half = len(batch) // 2
        # The halves get their own tensors, as if they had been separate batches.
        return [*self._run_batch(batch[:half]), *self._run_batch(batch[half:])]

    def _forward(self, batch: Sequence[_Row]) -> list[Context]:
        """Run the model, record the log-probabilities, and return each row's tokens as a context."""
        contexts = [row.context for row in batch]
        arguments = tensors([row.tokens for row in batch], contexts, self.loaded)
        before, cache = 0, None
        if self.loaded.shares and self.shares:
            cache, before = cache_of(contexts)
            arguments['past_key_values'] = cache
        logits = self.loaded.model(**arguments, use_cache=cache is not None).logits
        note_scores(logits, [(number, *score) for number, row in enumerate(batch) for score in _wanted_scores(row)])
        if cache is None:
            return [Context() for _ in batch]
        layers = layers_of(cache)
        computed = [
            Context(layers, number, before - row.context.length, row.branch.fed) for number, row in enumerate(batch)
        ]
        last = self._last[0]
        for row, context in zip(batch, computed, strict=True):
            if context.length > self._last[1].length and last[: context.length] == row.branch.ids[: context.length]:
                self._last = (last, context)
        return computed


def note_scores(logits: Any, wanted: Sequence[tuple[int, int, int, Branch, int]]) -> None:
    """Note scores of a pass in their branches: each has a row, a place in it, the token, and where it goes."""
    width = logits.shape[1]
    places, targets = [row * width + place for row, place, *_ in wanted], [score[2] for score in wanted]
    values = pick_scores(logits.flatten(0, 1), places, targets)
    for (*_, branch, place), value in zip(wanted, values, strict=True):
        branch.logprobs[place] = value


def pick_scores(logits: Any, places: Sequence[int], targets: Sequence[int]) -> list[float]:
    """The log-probability of each target after the token at its place, as `mark_scores` gives it."""
    torch = import_hf_package('torch')
    step = max(1, _LOGITS_AT_ONCE // logits.shape[-1])
    rows, tokens = (torch.tensor(list(numbers), device=logits.device) for numbers in (places, targets))
    starts = range(0, len(rows), step)
    parts = [mark_scores(logits[rows[i : i + step]].float(), tokens[i : i + step]) for i in starts]
    return torch.cat(parts).tolist() if parts else []


def mark_scores(scores: Any, targets: Any) -> Any:
    """The log-probability of each row's target, without its minus sign where no other token is likelier.

    On a CPU it is `log_softmax`, which other programs use, to the last digit; on CUDA that would need twice the memory.
    """
    torch = import_hf_package('torch')
    marks = torch.where(scores.argmax(-1) == targets, 1.0, -1.0)
    if scores.device.type == 'cpu':
        logprobs = scores.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    else:
        logprobs = scores.gather(-1, targets[:, None])[:, 0] - scores.logsumexp(-1)
    return torch.copysign(logprobs.clamp(max=0), marks)


def _wanted_scores(row: _Row) -> Iterator[tuple[int, int, Branch, int]]:
    """For each score to read: its position in the row's output, the token, and where to record it."""
    branch, length = row.branch, row.context.length
    for place in range(length + 1, branch.stop):
        yield place - length - 1, branch.ids[place], branch, place - branch.start
    for child in branch.children:
        yield branch.stop - length - 1, child.ids[branch.stop], child, 0


def collect_scores(
    branches: Iterable[Branch], before: tuple[float | None, ...] = ()
) -> Iterator[tuple[Ids, tuple[float | None, ...]]]:
    """Every prompt of a tree (and every branching point) with its log-probabilities."""
    for branch in branches:
        logprobs = (*before, *branch.logprobs)
        yield branch.ids[: branch.stop], logprobs
        yield from collect_scores(branch.children, logprobs)
