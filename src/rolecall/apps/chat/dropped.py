"""Warns where the result of a call is dropped: `module.prompt(p)` on a line of its own changes nothing."""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache
from types import CodeType


def warn_if_dropped(method: str) -> None:
    """Warn if the caller's caller drops the result of `method`. Knows CPython's bytecode only."""
    frame = sys._getframe(2)
    if sys.implementation.name == 'cpython' and _pops_result(frame.f_code, frame.f_lasti):
        what = f'{method}() returns a new module, which is dropped here: write module = module.{method}(…).'
        warnings.warn(what, UserWarning, stacklevel=3)


@lru_cache(maxsize=256)
def _pops_result(code: CodeType, at: int) -> bool:
    """Whether the step after the call at this offset throws its result away."""
    import dis

    following = (step.opname for step in dis.get_instructions(code) if step.offset > at and step.opname != 'CACHE')
    return next(following, '') == 'POP_TOP'
