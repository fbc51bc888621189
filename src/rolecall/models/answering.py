"""How a model on this machine is to answer: what every engine understands of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ['Answering']


@dataclass(frozen=True, slots=True)
class Answering:
    """How answers are to be drawn; without a temperature, the likeliest token is taken."""

    max_new: int
    min_new: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
