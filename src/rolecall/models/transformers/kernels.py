"""Triton kernels: norms and gates in one pass over memory, and a decoding step over slots. CUDA builds bring Triton.

A step reads the shared prefix once for many rows, then each row's own columns up to its length, and joins the two by
their log-sum-exp. Nothing of the size of the scores is written to memory. Without Triton, matrices are multiplied.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rolecall.models.transformers.weights import import_hf_package

_LOG2E = 1.4426950408889634


@triton.jit  # type: ignore[untyped-decorator]
def _attend_prefix(  # type: ignore[no-untyped-def]
    query, keys, values, out, lse, count, length, scale,
    heads: tl.constexpr, width: tl.constexpr, value_width: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr, wide: tl.constexpr, value_wide: tl.constexpr,
):  # fmt: skip
    """Queries of one key group (rows × heads, in order) over the prefix of that group."""
    group, groups = tl.program_id(0), tl.num_programs(0)
    number = tl.program_id(1) * tile + tl.arange(0, tile)
    row, head = number // heads, number % heads
    at = (row * groups + group) * heads + head
    column, value_column = tl.arange(0, wide), tl.arange(0, value_wide)
    in_batch = number[:, None] < count
    q = tl.load(query + at[:, None] * width + column[None], mask=in_batch & (column[None] < width), other=0.0)
    best = tl.full((tile,), float('-inf'), tl.float32)
    total = tl.zeros((tile,), tl.float32)
    mixed = tl.zeros((tile, value_wide), tl.float32)
    for start in range(0, length, block):
        place = start + tl.arange(0, block)
        in_prefix = place < length
        k = tl.load(
            keys + (group * length + place[:, None]) * width + column[None],
            mask=in_prefix[:, None] & (column[None] < width), other=0.0,
        )  # fmt: skip
        scores = tl.dot(q, tl.trans(k), input_precision='ieee') * scale
        scores = tl.where(in_prefix[None], scores, float('-inf'))
        top = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - top[:, None])
        fade = tl.exp2(best - top)
        total = total * fade + tl.sum(weights, 1)
        v = tl.load(
            values + (group * length + place[:, None]) * value_width + value_column[None],
            mask=in_prefix[:, None] & (value_column[None] < value_width), other=0.0,
        )  # fmt: skip
        mixed = mixed * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision='ieee')
        best = top
    tl.store(
        out + at[:, None] * value_width + value_column[None],
        mixed / total[:, None], mask=in_batch & (value_column[None] < value_width),
    )  # fmt: skip
    tl.store(lse + at, best + tl.log2(total), mask=number < count)


@triton.jit  # type: ignore[untyped-decorator]
def _attend_own(  # type: ignore[no-untyped-def]
    query, new_key, new_value, keys, values, columns, prefix_out, prefix_lse, out, size, scale,
    heads: tl.constexpr, width: tl.constexpr, value_width: tl.constexpr, has_prefix: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr, wide: tl.constexpr, value_wide: tl.constexpr,
):  # fmt: skip
    """One row and key group: store the new token in its column, attend over all columns up to it, join the prefix."""
    row, group, groups = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    pair = row * groups + group
    length = tl.load(columns + row)
    column, value_column, head = tl.arange(0, wide), tl.arange(0, value_wide), tl.arange(0, tile)
    inside, value_inside = column < width, value_column < value_width
    k_new = tl.load(new_key + pair * width + column, mask=inside, other=0.0)
    v_new = tl.load(new_value + pair * value_width + value_column, mask=value_inside, other=0.0)
    slot = pair.to(tl.int64) * size
    tl.store(keys + (slot + length) * width + column, k_new, mask=inside)
    tl.store(values + (slot + length) * value_width + value_column, v_new, mask=value_inside)
    at = pair * heads + head
    in_heads = head[:, None] < heads
    q = tl.load(query + at[:, None] * width + column[None], mask=in_heads & inside[None], other=0.0)
    best = tl.sum(q.to(tl.float32) * k_new.to(tl.float32)[None], 1) * scale
    total = tl.full((tile,), 1.0, tl.float32)
    mixed = tl.zeros((tile, value_wide), tl.float32) + v_new.to(tl.float32)[None]
    for start in range(0, length, block):
        place = start + tl.arange(0, block)
        in_own = place < length
        k = tl.load(
            keys + (slot + place[:, None]) * width + column[None], mask=in_own[:, None] & inside[None], other=0.0
        )
        scores = tl.dot(q, tl.trans(k), input_precision='ieee') * scale
        scores = tl.where(in_own[None], scores, float('-inf'))
        top = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - top[:, None])
        fade = tl.exp2(best - top)
        total = total * fade + tl.sum(weights, 1)
        v = tl.load(
            values + (slot + place[:, None]) * value_width + value_column[None],
            mask=in_own[:, None] & value_inside[None], other=0.0,
        )  # fmt: skip
        mixed = mixed * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision='ieee')
        best = top
    if has_prefix:
        before = tl.load(prefix_lse + at, mask=head < heads, other=float('-inf'))
        top = tl.maximum(best, before)
        shared, own = tl.exp2(before - top), tl.exp2(best - top)
        contents = tl.load(
            prefix_out + at[:, None] * value_width + value_column[None], mask=in_heads & value_inside[None], other=0.0
        )
        mixed = mixed * own[:, None] + contents * shared[:, None]
        total = total * own + shared
    mixed = mixed / total[:, None]
    tl.store(
        out + at[:, None] * value_width + value_column[None],
        mixed.to(out.dtype.element_ty), mask=in_heads & value_inside[None],
    )  # fmt: skip


def attend(
    query: Any, key: Any, value: Any, keys: Any, values: Any, columns: Any, prefix: tuple[Any, Any] | None, scale: float
) -> Any:
    """The output (rows × 1 × heads × width) of one new token a row, whose key and value go into its column."""
    torch = import_hf_package('torch')
    rows, heads, _, width = query.shape
    groups, value_width = key.shape[1], value.shape[3]
    per_group = heads // groups
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    out = query.new_empty((rows, heads, 1, value_width))
    sizes = {
        'heads': per_group, 'width': width, 'value_width': value_width, 'block': 64,
        'wide': max(16, triton.next_power_of_2(width)), 'value_wide': max(16, triton.next_power_of_2(value_width)),
    }  # fmt: skip
    partial, lse = out, out
    if prefix is not None:
        before, contents = prefix
        partial = torch.empty((rows, heads, value_width), dtype=torch.float32, device=query.device)
        lse = torch.empty((rows, heads), dtype=torch.float32, device=query.device)
        count = rows * per_group
        tile = min(64, max(16, triton.next_power_of_2(count)))
        _attend_prefix[(groups, triton.cdiv(count, tile))](
            query, before.contiguous(), contents.contiguous(), partial, lse, count, before.shape[1], scale * _LOG2E,
            tile=tile, **sizes,
        )  # fmt: skip
    _attend_own[(rows, groups)](
        query, key, value, keys, values, columns, partial, lse, out, keys.shape[2], scale * _LOG2E,
        has_prefix=prefix is not None, tile=max(16, triton.next_power_of_2(per_group)), **sizes,
    )  # fmt: skip
    return out.transpose(1, 2)


_BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _normalize(states, weight, out, width, epsilon, wide: tl.constexpr):  # type: ignore[no-untyped-def]
    """One vector: divided by its root mean square in float32, rounded, then scaled."""
    row = tl.program_id(0).to(tl.int64) * width
    column = tl.arange(0, wide)
    inside = column < width
    x = tl.load(states + row + column, mask=inside, other=0.0).to(tl.float32)
    scaled = x * tl.rsqrt(tl.sum(x * x, 0) / width + epsilon)
    rounded = scaled.to(out.dtype.element_ty).to(tl.float32)
    by = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + column, (rounded * by).to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _gate(opening, content, out, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """silu(opening), rounded, times content."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < count
    x = tl.load(opening + place, mask=inside, other=0.0).to(tl.float32)
    opened = (x / (1.0 + tl.exp(-x))).to(out.dtype.element_ty).to(tl.float32)
    y = tl.load(content + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, (opened * y).to(out.dtype.element_ty), mask=inside)


def normalize(states: Any, weight: Any, epsilon: float) -> Any:
    """RMSNorm over the last dimension."""
    states = states.contiguous()
    out, width = states.new_empty(states.shape), states.shape[-1]
    wide = triton.next_power_of_2(width)
    _normalize[(states.numel() // width,)](
        states, weight, out, width, epsilon, wide=wide, num_warps=min(16, max(1, wide // 256))
    )
    return out


def gate(opening: Any, content: Any) -> Any:
    """silu(opening) × content."""
    opening, content = opening.contiguous(), content.contiguous()
    out = opening.new_empty(opening.shape)
    _gate[(triton.cdiv(out.numel(), _BLOCK),)](opening, content, out, out.numel(), block=_BLOCK)
    return out
