"""A model's norms and gated layers as one kernel each, on CUDA in half precision.

Beyond its matrix products, a third of a long prompt's time goes into them. A module is replaced only if it computes
the same on a probe, so that an architecture with a norm of its own keeps it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from rolecall.models.transformers.weights import import_hf_package

_PROBE_ROWS = 4
_TOLERANCE = 0.02
_fusible: WeakKeyDictionary[Any, list[tuple[Any, Callable[..., Any]]]] = WeakKeyDictionary()


@contextmanager
def fused_layers(model: Any) -> Iterator[None]:
    """Run the model with fused kernels where it has modules that allow it."""
    if model not in _fusible:
        _fusible[model] = list(_find_fusible(model))
    swapped = _fusible[model]
    for module, forward in swapped:
        module.forward = forward
    try:
        yield
    finally:
        for module, _ in swapped:
            del module.forward


def _find_fusible(model: Any) -> Iterator[tuple[Any, Callable[..., Any]]]:
    kernels = choose_kernels(model)
    if kernels is None:
        return
    for module in model.modules():
        width, forward = _fuse_norm(module, kernels) or _fuse_gate(module, kernels) or (0, None)
        if forward is not None and 'forward' not in vars(module) and _agrees(module, forward, width, model):
            yield module, forward


def choose_kernels(model: Any) -> Any:
    """The kernels for this model; None on a CPU, and in float32, whose answers stay those of the modules."""
    torch = import_hf_package('torch')
    return load_kernels() if model.device.type == 'cuda' and model.dtype in (torch.bfloat16, torch.float16) else None


@cache
def load_kernels() -> Any:
    """The Triton kernels; None where Triton is not installed or too old."""
    try:
        return importlib.import_module('rolecall.models.transformers.kernels')
    except (ImportError, AttributeError):
        return None


def _fuse_norm(module: Any, kernels: Any) -> tuple[int, Callable[..., Any]] | None:
    weight: Any = getattr(module, 'weight', None)
    epsilon = getattr(module, 'variance_epsilon', getattr(module, 'eps', None))
    if (
        not type(module).__name__.endswith('RMSNorm')
        or not isinstance(epsilon, float)
        or getattr(weight, 'ndim', 0) != 1
    ):
        return None
    return weight.shape[0], lambda states: kernels.normalize(states, weight, epsilon)


def _fuse_gate(module: Any, kernels: Any) -> tuple[int, Callable[..., Any]] | None:
    parts: list[Any] = [getattr(module, name, None) for name in ('gate_proj', 'up_proj', 'down_proj')]
    if any(part is None for part in parts) or 'silu' not in type(getattr(module, 'act_fn', None)).__name__.lower():
        return None
    opening, content, down = parts
    width = getattr(opening, 'in_features', None)
    return (width, lambda states: down(kernels.gate(opening(states), content(states)))) if width else None


def _agrees(module: Any, forward: Callable[..., Any], width: int, model: Any) -> bool:
    torch = import_hf_package('torch')
    places = torch.arange(_PROBE_ROWS * width, device=model.device, dtype=torch.float32)
    states = torch.sin(places).reshape(1, _PROBE_ROWS, width).to(model.dtype)
    try:
        with torch.inference_mode():
            expected, actual = (layer(states).float() for layer in (module, forward))
    except Exception:  # foreign code: whatever it raises, the module stays as it is
        return False
    return bool((expected - actual).abs().max() <= _TOLERANCE * expected.abs().max())
