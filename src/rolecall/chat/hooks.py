"""What the hooks of a prompter make of a call. They are the user's code, so they run beside the event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rolecall.chat.background import beside
from rolecall.chat.errors import words_of
from rolecall.chat.speaking import Asked
from rolecall.errors import PrompterError, RolecallError
from rolecall.prompters.base import Hook, Prompter

__all__ = ['hooked']


async def hooked(prompter: Prompter, asked: Asked) -> tuple[Prompter, Asked]:
    """The prompter without its hooks, and the call as they changed it."""
    if not prompter.hooks:
        return prompter, asked
    return _unhooked(prompter), await beside(lambda: _changed(asked, prompter.hooks))


@lru_cache(maxsize=32)
def _unhooked(prompter: Prompter) -> Prompter:
    return replace(prompter, hooks=())


def _changed(asked: Asked, hooks: Sequence[Hook]) -> Asked:
    given: tuple[Any, ...] = (asked.input, asked.history, asked.tools, None)
    for hook in hooks:
        name = getattr(hook, '__qualname__', type(hook).__qualname__)
        try:
            given = hook(*given)
        except RolecallError:
            raise
        except BaseException as error:  # also sys.exit(): it is an error of this call, and nobody else's
            raise PrompterError(f'the pre_hook {name} raised {words_of(error)}.') from error
        if not isinstance(given, tuple) or len(given) != 4:
            raise PrompterError(f'the pre_hook {name} returns (input, history, tools, label); got {given!r:.60}.')
    return Asked(*given[:3])
