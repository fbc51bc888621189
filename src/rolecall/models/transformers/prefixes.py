"""Shared prefixes: a tree of token ids, and the cached keys and values of computed prompts.

Prefixes are taken from the ids of whole prompts: tokenizing the parts separately would move token boundaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from rolecall.models.transformers.weights import LoadedModel, import_hf_package
from rolecall.strings import common_length

Ids: TypeAlias = tuple[int, ...]
Layers: TypeAlias = 'tuple[tuple[Any, Any], ...]'
"""Keys and values by layer, each a tensor: rows × heads × tokens × width."""


@dataclass(eq=False, slots=True)
class Branch:
    """The tokens `ids[start:stop]`, shared by all prompts of this branch."""

    ids: Ids
    """Its first prompt, complete."""
    start: int
    stop: int
    children: list[Branch] = field(default_factory=list)
    logprobs: list[float | None] = field(init=False)

    def __post_init__(self) -> None:
        self.logprobs = [None] * (self.stop - self.start)

    @property
    def fed(self) -> int:
        """How far to compute: the last token of a prompt predicts nothing that is needed."""
        return self.stop if self.children else self.stop - 1


def build_prefix_tree(prompts: Iterable[Ids], *, longest: int, start: int = 0) -> list[Branch]:
    """The tree of distinct, sorted prompts; no branch is longer than `longest` tokens.

    >>> [trunk] = build_prefix_tree([(1, 2, 3), (1, 2, 4, 5)], longest=100)
    >>> trunk.ids[: trunk.stop], [branch.ids[branch.start : branch.stop] for branch in trunk.children]
    ((1, 2), [(3,), (4, 5)])
    """
    branches = []
    for _, group in groupby((ids for ids in prompts if len(ids) > start), key=lambda ids: ids[start]):
        members = list(group)
        stop = min(common_length((members[0], members[-1])), start + longest)
        branches.append(Branch(members[0], start, stop, build_prefix_tree(members, longest=longest, start=stop)))
    return branches


def build_flat_tree(prompts: Iterable[Ids]) -> list[Branch]:
    """Each prompt as its own branch: nothing is shared."""
    return [Branch(ids, 0, len(ids)) for ids in prompts]


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """`length` computed tokens: one row of keys and values, from column `left` on."""

    layers: Layers = ()
    row: int = 0
    left: int = 0
    length: int = 0

    def first(self, length: int) -> Context:
        return Context(self.layers, self.row, self.left, length)

    def copy(self) -> Context:
        """A copy without the other rows, so that their memory is freed."""
        stop = self.left + self.length
        own = (
            tuple(tensor[self.row : self.row + 1, :, self.left : stop].clone() for tensor in pair)
            for pair in self.layers
        )
        return Context(tuple((keys, values) for keys, values in own), length=self.length)


def cache_of(contexts: Sequence[Context]) -> tuple[Any, int]:
    """A cache with a row per context, padded on the left, and its length. All share the same tensors."""
    torch, transformers = import_hf_package('torch'), import_hf_package('transformers')
    cache = transformers.DynamicCache()
    longest = max(context.length for context in contexts)
    if not longest:
        return cache, 0
    layers = contexts[0].layers
    if len({(context.row, context.left, context.length) for context in contexts}) == 1:
        base = contexts[0]
        for number, pair in enumerate(layers):
            keys, values = (
                tensor[base.row : base.row + 1, :, base.left : base.left + longest].expand(len(contexts), -1, -1, -1)
                for tensor in pair
            )
            cache.update(keys, values, number)
        return cache, longest
    rows = torch.tensor([[context.row] for context in contexts])
    ends = torch.tensor([[context.left + context.length] for context in contexts])
    # Columns before a context's first token are masked, so any will do.
    columns = (ends - longest + torch.arange(longest)).clamp(min=0)
    for number, (keys, values) in enumerate(layers):
        rows, columns = rows.to(keys.device), columns.to(keys.device)
        picked = (tensor.transpose(1, 2)[rows, columns].transpose(1, 2) for tensor in (keys, values))
        cache.update(*picked, number)
    return cache, longest


def layers_of(cache: Any) -> Layers:
    """The keys and values in a cache."""
    if hasattr(cache, 'layers'):
        return tuple((layer.keys, layer.values) for layer in cache.layers)
    return tuple(zip(cache.key_cache, cache.value_cache, strict=True))


def tensors(rows: Sequence[Sequence[int]], contexts: Sequence[Context], loaded: LoadedModel) -> dict[str, Any]:
    """The arguments of a forward pass: rows padded on the right, after contexts padded on the left."""
    torch = import_hf_package('torch')
    longest = max(map(len, rows))
    before = max(context.length for context in contexts)
    ids = torch.tensor([[*row, *[loaded.pad_id] * (longest - len(row))] for row in rows])
    starts = torch.tensor([[before - context.length] for context in contexts])
    ends = torch.tensor([[before + len(row)] for row in rows])
    columns = torch.arange(before + longest)
    mask = ((columns >= starts) & (columns < ends)).long()
    arguments = {
        'input_ids': ids.to(loaded.device),
        'attention_mask': mask.to(loaded.device),
    }
    if loaded.takes_positions:
        arguments['position_ids'] = positions(arguments['attention_mask'])[:, before:]
    return arguments


def positions(mask: Any) -> Any:
    """The position of each token within its row."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
