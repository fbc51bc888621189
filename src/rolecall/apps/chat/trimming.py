"""Histories that fit: the oldest turns are dropped, whole, until a prompt keeps to its token budget.

A turn is a user's message with everything up to the next one, so a tool call never loses its result. System messages
stay.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecall.apps.chat.module_errors import ModuleError
from rolecall.checking import is_whole
from rolecall.core.render.spans import Request
from rolecall.models.protocol import Model, Sampling

_ANSWER_SHARE = 4
_AROUND_A_MESSAGE = 4
"""Tokens that chat templates put around a message, for estimates."""


@dataclass(frozen=True, slots=True)
class HistoryBudget:
    """How many tokens a prompt may have, and who counts them if the model's tokenizer cannot."""

    tokens: int | None = None
    count: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        if self.tokens is not None and not is_whole(self.tokens, least=1):
            raise ModuleError(f'tokens must be a whole number of at least 1, or None, got {self.tokens!r:.60}.')
        if self.count is not None and not callable(self.count):
            raise ModuleError(f'count must be a function of a text, got {self.count!r:.60}.')

    def limit_for(self, model: Model, sampling: Sampling) -> int:
        """The budget: its own, or the model's context without room for the answer."""
        if self.tokens is not None:
            return self.tokens
        context = model.max_seq_len
        if context is None:
            raise ModuleError(
                'the context length of the model is not known. Give the budget, with_token_budget(4000), or the '
                'module max_seq_len=….'
            )
        return max(1, context - (sampling.max_out_len or context // _ANSWER_SHARE))

    def _count(self, text: str) -> int:
        tokens = self.count(text) if self.count is not None else None
        if not is_whole(tokens):
            raise ModuleError(f'count must return a whole number of tokens, got {tokens!r:.60}.')
        return int(tokens)

    async def measure(self, model: Model, request: Request, sampling: Sampling) -> int:
        """The tokens of a request: exactly if possible, otherwise by the tokenizer or the given function."""
        if self.count is not None:
            return _count_texts(request, sampling, self._count)
        exact = await count_exactly(model, request, sampling)
        if exact is not None:
            return exact
        tokenizer = getattr(model, 'tokenizer', None)
        if tokenizer is None:
            raise ModuleError(
                'the tokens of a prompt cannot be counted: no tokenizer of the model was found. Give the module '
                'tokenizer_path=…, or the budget a function: with_token_budget(…, count=lambda text: len(text) // 3).'
            )
        return _count_texts(request, sampling, tokenizer.count)


async def count_exactly(model: Model, request: Request, sampling: Sampling) -> int | None:
    """The tokens of a request by the model's tokenizer, or by its server's counting endpoint; None if not known."""
    remotely: Callable[[Request, Sampling], Awaitable[int]] | None = getattr(model, 'count_remotely', None)
    counted = None if sampling.extra.get('tools') else model.count(request)
    return counted if counted is not None or remotely is None else await remotely(request, sampling)


def _count_texts(request: Request, sampling: Sampling, count: Callable[[str], int]) -> int:
    if isinstance(request, str):
        return count(request)
    tokens = 0
    for part in request:
        if isinstance(part, Mapping):
            tokens += sum(count(_text_of(value)) for value in part.values()) + _AROUND_A_MESSAGE
        else:
            tokens += 1 if isinstance(part, int) else count(part)
    tools = sampling.extra.get('tools')
    return tokens + (count(_text_of(tools)) if tools else 0)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


async def drop_turns_to_fit(
    history: Sequence[Any], measure: Callable[[Sequence[Any]], Awaitable[int]], limit: int
) -> tuple[Sequence[Any], tuple[Any, ...]]:
    """The history with as many of its last turns as fit, and what was dropped. `measure` counts a whole prompt."""
    whole = await measure(history)
    if whole <= limit:
        return history, ()
    if not history:
        raise _too_long(whole, limit)
    starts = [number for number, item in enumerate(history) if number == 0 or _begins_turn(item)]
    ends = [*starts[1:], len(history)]

    def keep_from(end: int) -> list[Any]:
        return [item for number, item in enumerate(history) if number >= end or _is_system(item)]

    least, most = 0, len(ends) - 1  # the fewest turns to drop are between these
    if (alone := await measure(keep_from(ends[most]))) > limit:
        raise _too_long(alone, limit)
    while least < most:
        middle = (least + most) // 2
        if await measure(keep_from(ends[middle])) <= limit:
            most = middle
        else:
            least = middle + 1
    dropped = tuple(item for item in history[: ends[least]] if not _is_system(item))
    return keep_from(ends[least]), dropped


def _too_long(tokens: int, limit: int) -> ModuleError:
    return ModuleError(f'the prompt has {tokens:,} tokens without any history, and the budget is {limit:,}.')


def _is_system(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get('role') in ('system', 'developer')


def _begins_turn(item: Any) -> bool:
    """Whether a turn of a conversation begins here: a pair, or a user's message that is not a tool's result."""
    if not isinstance(item, Mapping):
        return True
    content = item.get('content')
    parts = content if isinstance(content, (list, tuple)) else ()
    results = any(isinstance(part, Mapping) and part.get('type') == 'tool_result' for part in parts)
    return item.get('role') == 'user' and not results
