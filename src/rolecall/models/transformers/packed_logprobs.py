"""Log-probabilities of prompt tokens on CUDA: one pass for everything that follows a shared prefix.

The prompts of a call form a tree. Its trunk is computed once and remembered from call to call. Each subtree (a question
with its answers) becomes one row: its branches stand one after the other, and a mask lets a token see the prefix, the
branches it grows from and what precedes it in its own. Nothing is copied and no context is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rolecall.models.local_engine import TokenPrompt
from rolecall.models.protocol import ModelError, Scored, Usage
from rolecall.models.transformers.logprobs import collect_scores, note_scores, pick_scores
from rolecall.models.transformers.prefixes import Branch, Ids, build_prefix_tree
from rolecall.models.transformers.slots import Prefix, attend_packed, extend_prefix
from rolecall.models.transformers.weights import LoadedModel, import_hf_package
from rolecall.strings import common_length

_UNBOUNDED = 1 << 30
_CHUNK = 4096
"""Tokens of a trunk that are computed at once: their logits are held together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Trunk:
    """The common prefix of a call's prompts. All but its last token is computed; each row feeds that one again."""

    ids: Ids = ()
    prefix: Prefix = field(default_factory=Prefix)
    logprobs: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Pack:
    """A subtree as one row."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    visible: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    """For each token the stretches of the row that it sees."""
    wanted: list[tuple[int, int, Branch, int]] = field(default_factory=list)
    """Each score: its place in the row's output, the token, and the branch and place where it is noted."""

    @classmethod
    def of(cls, root: Branch, head: Ids, start: int) -> _Pack:
        """A subtree after the token `head` (or nothing) at the position `start`."""
        pack = cls()
        pack._add(head, start, ())
        pack._add_branch(root, ((0, len(head)),) if head else ())
        return pack

    def _add(self, tokens: Sequence[int], start: int, before: tuple[tuple[int, int], ...]) -> None:
        begin = len(self.tokens)
        for offset, token in enumerate(tokens):
            self.tokens.append(token)
            self.positions.append(start + offset)
            self.visible.append((*before, (begin, begin + offset + 1)))

    def _add_branch(self, branch: Branch, before: tuple[tuple[int, int], ...]) -> None:
        if before:  # the last token before a branch predicts its first
            self.wanted.append((before[-1][1] - 1, branch.ids[branch.start], branch, 0))
        begin = len(self.tokens)
        self._add(branch.ids[branch.start : branch.fed], branch.start, before)
        for place in range(branch.start + 1, branch.stop):
            self.wanted.append((begin + place - branch.start - 1, branch.ids[place], branch, place - branch.start))
        own = (*before, (begin, len(self.tokens)))
        for child in branch.children:
            self._add_branch(child, own)


@dataclass(slots=True, eq=False)
class PackedScorer:
    """Scores prompts with one model. `room` bounds the tokens of one pass."""

    loaded: LoadedModel
    room: int = 16384
    stopped: Callable[[], bool] = bool
    computed: int = 0
    """The tokens computed so far, padding left out."""
    _trunk: _Trunk = field(default_factory=_Trunk)

    def forget(self) -> None:
        """Free the remembered trunk."""
        self._trunk = _Trunk()

    def score(self, prompts: Sequence[TokenPrompt]) -> list[Scored]:
        """The log-probabilities of each prompt's tokens, in float32."""
        tree = build_prefix_tree(sorted({prompt.ids for prompt in prompts if prompt.ids}), longest=_UNBOUNDED)
        before = self.computed
        with import_hf_package('torch').inference_mode():
            if len(tree) == 1:
                trunk = self._grow_trunk(tree[0])
                packs = [_Pack.of(child, trunk.ids[-1:], trunk.prefix.length) for child in tree[0].children]
                self._score_in_batches(packs, trunk.prefix)
            else:
                self._score_in_batches([_Pack.of(root, (), 0) for root in tree], Prefix())
        scores = dict(collect_scores(tree))
        new = self.computed - before
        scored = []
        for prompt in prompts:
            charged = min(new, len(prompt.ids))
            new -= charged
            usage = Usage(input_tokens=len(prompt.ids), output_tokens=0, cached_tokens=len(prompt.ids) - charged)
            scored.append(Scored.from_marked(prompt.ids, scores.get(prompt.ids, ()), prompt.offsets, usage))
        return scored

    def _grow_trunk(self, root: Branch) -> _Trunk:
        """The trunk, computed from where it parts with the one that is remembered."""
        ids = root.ids[: root.stop]
        last, trunk = len(ids) - 1, self._trunk
        common = common_length((trunk.ids, ids))
        start = max(0, min(common if common > last else common - 1, trunk.prefix.length, last))
        prefix, logprobs = trunk.prefix.first(start), [*trunk.logprobs[: start + 1]] or [None]
        for begin in range(start, last, _CHUNK):
            chunk = ids[begin : min(last, begin + _CHUNK)]
            prefix, logits = extend_prefix(self.loaded, chunk, prefix)
            logprobs += pick_scores(logits[0], range(len(chunk)), ids[begin + 1 : begin + 1 + len(chunk)])
            self.computed += len(chunk)
        root.logprobs[:] = logprobs
        self._trunk = _Trunk(ids, prefix, tuple(logprobs))
        return self._trunk

    def _score_in_batches(self, packs: Sequence[_Pack], prefix: Prefix) -> None:
        """Fill in the scores of packs, batch by batch. When memory runs out, `room` is halved and the batch retried."""
        torch = import_hf_package('torch')
        for batch in self._batches(packs):
            if self.stopped():
                raise ModelError('stopped')
            try:
                self._forward(batch, prefix)
            except torch.cuda.OutOfMemoryError as error:
                if len(batch) == 1:
                    raise ModelError(f'out of memory at {len(batch[0].tokens)} tokens: {error}') from error
                torch.cuda.empty_cache()
                self.room //= 2
                self._score_in_batches(batch, prefix)

    def _batches(self, packs: Sequence[_Pack]) -> Iterator[list[_Pack]]:
        """Rows of similar length, as many as there is room for."""
        batch: list[_Pack] = []
        for pack in sorted(packs, key=lambda pack: len(pack.tokens)):
            if batch and (len(batch) + 1) * len(pack.tokens) > self.room:
                yield batch
                batch = []
            batch.append(pack)
        if batch:
            yield batch

    def _forward(self, batch: Sequence[_Pack], prefix: Prefix) -> None:
        torch = import_hf_package('torch')
        longest = max(len(pack.tokens) for pack in batch)
        ids = torch.full((len(batch), longest), self.loaded.pad_id)
        positions = torch.zeros((len(batch), longest), dtype=torch.long)
        mask = torch.zeros((len(batch), 1, longest, longest), dtype=torch.bool)
        mask[:, :, :, 0] = True  # padding must see something
        for number, pack in enumerate(batch):
            ids[number, : len(pack.tokens)] = torch.tensor(pack.tokens)
            positions[number, : len(pack.tokens)] = torch.tensor(pack.positions)
            _open(mask[number, 0], pack.visible)
        device = self.loaded.device
        logits = attend_packed(self.loaded, prefix, ids.to(device), positions.to(device), mask.to(device))
        self.computed += sum(len(pack.tokens) for pack in batch)
        wanted = [(number, *item) for number, pack in enumerate(batch) for item in pack.wanted]
        note_scores(logits, wanted)


def _open(mask: Any, visible: Sequence[tuple[tuple[int, int], ...]]) -> None:
    """Let each token see its stretches. Tokens of one branch see the same, and what precedes them in their own."""
    torch = import_hf_package('torch')
    for before, group in groupby(range(len(visible)), key=lambda token: (visible[token][:-1], visible[token][-1][0])):
        tokens = list(group)
        begin, end = tokens[0], tokens[-1] + 1
        for start, stop in before[0]:
            mask[begin:end, start:stop] = True
        size = end - begin
        mask[begin:end, begin:end] = torch.ones(size, size, dtype=torch.bool).tril()
    mask[0, 0] = True
