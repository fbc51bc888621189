"""The prompt between the dataset and the model: speeches by role, and bare strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ['PromptList']


class PromptList(list[Any]):
    """A list of speeches (`{'role': …, 'prompt': …}`) and strings.

    It compares equal to a plain list of plain dicts, and prints as the speeches would be read aloud.

    >>> prompt = PromptList([dict(role='HUMAN', prompt='1+1=?'), dict(role='BOT', prompt='2')])
    >>> prompt == [{'role': 'HUMAN', 'prompt': '1+1=?'}, {'role': 'BOT', 'prompt': '2'}]
    True
    >>> print(prompt)
    HUMAN: 1+1=?
    BOT: 2
    """

    __slots__ = ()

    def __add__(self, other: Iterable[Any]) -> PromptList:
        return PromptList([*self, *_items(other)])

    def __radd__(self, other: Iterable[Any]) -> PromptList:
        return PromptList([*_items(other), *self])

    def __str__(self) -> str:
        return '\n'.join(_line(item) for item in self)

    def __repr__(self) -> str:
        return f'PromptList({super().__repr__()})'


def _items(other: Iterable[Any]) -> Iterable[Any]:
    return [other] if isinstance(other, str) and other else other


def _line(item: Any) -> str:
    return item if isinstance(item, str) else f'{item["role"]}: {item.get("prompt", item.get("content", ""))}'
