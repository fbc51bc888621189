"""Public names of a package, imported when they are first used, so that `import rolecall` stays fast."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # typing itself takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names the stub beside its `__init__` lists; sets its `__all__`.

    The stub is what type checkers read; each of its lines is `from module import Name as Name`.
    """
    homes: dict[str, str] = {}
    with open(f'{file.removesuffix("c")}i', encoding='utf-8') as stub:
        for words in map(str.split, stub):
            if words[:1] == ['from']:
                homes[words[3]] = words[1]

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {package!r} has no attribute {name!r}')
        return getattr(importlib.import_module(homes[name]), name)

    vars(sys.modules[package])['__all__'] = sorted(homes)
    return find, lambda: sorted(homes)
