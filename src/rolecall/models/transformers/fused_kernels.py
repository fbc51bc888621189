"""Triton kernels that do in one pass over memory what a model's modules do in several. CUDA builds bring Triton."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

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
