"""Many calls at once: answers in the order of their inputs, with bounded concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from rolecall.apps.chat.module_errors import ModuleError
from rolecall.checking import is_whole
from rolecall.errors import RolecallError


async def answer_all(
    ask: Callable[[Any], Awaitable[Any]],
    inputs: Iterable[Any],
    *,
    concurrency: int,
    on_progress: Callable[[int, int], object] | None,
    return_errors: bool,
) -> list[Any]:
    """What `ask` gives for each input. The first error ends the batch, unless errors are returned in its place."""
    if isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Iterable):
        raise ModuleError(f'inputs must be a list with one input for each call, got {inputs!r:.60}.')
    if not is_whole(concurrency, least=1):
        raise ModuleError(f'concurrency must be a whole number of at least 1, got {concurrency!r:.60}.')
    if on_progress is not None and not callable(on_progress):
        raise ModuleError(f'on_progress must be a function of two numbers, got {on_progress!r:.60}.')
    inputs = list(inputs)
    places, done = asyncio.Semaphore(concurrency), 0

    async def answer(given: Any) -> Any:
        nonlocal done
        async with places:
            try:
                found = await ask(given)
            except RolecallError as error:
                if not return_errors:
                    raise
                found = error
        done += 1
        if on_progress is not None:
            on_progress(done, len(inputs))
        return found

    tasks = [asyncio.ensure_future(answer(given)) for given in inputs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
