"""Functions of the user that change the arguments of a prompter before they are used (`Prompter.pre_hook`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rolecall.errors import PrompterError, RolecallError, describe_error

HookArguments = tuple[Any, Any, Any, Any]
"""Input, history, tools and label."""
Hook = Callable[[Any, Any, Any, Any], HookArguments]


def run_hooks(hooks: Sequence[Hook], given: HookArguments) -> HookArguments:
    """The arguments of a call as the hooks changed them, one after another."""
    for hook in hooks:
        name = getattr(hook, '__qualname__', type(hook).__qualname__)
        try:
            given = hook(*given)
        except RolecallError:
            raise
        except (Exception, SystemExit) as error:  # sys.exit() must fail this call only
            raise PrompterError(f'the pre_hook {name} raised {describe_error(error)}.') from error
        if not isinstance(given, tuple) or len(given) != 4:
            raise PrompterError(f'the pre_hook {name} must return (input, history, tools, label), got {given!r:.60}.')
    return given
