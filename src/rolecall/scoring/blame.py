"""Turn exceptions of user code during scoring into one clear error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from rolecall.errors import MissingExtraError, RolecallError

_LONGEST = 200


class ScoringError(RolecallError):
    """The rows of one dataset × model cannot be scored. Requests and replies are kept."""


class NoVerdictError(ScoringError):
    """A judge's reply could not be read, so one answer has no mark."""


def blame_errors_on(who: str) -> AbstractContextManager[None]:
    """Raise exceptions as a `ScoringError` that names their source. What this returns can be entered many times.

    >>> with blame_errors_on('the evaluator halve'):
    ...     1 / 0
    Traceback (most recent call last):
    rolecall.scoring.blame.ScoringError: the evaluator halve raised ZeroDivisionError: division by zero.
    """
    return _Blame(who)


class _Blame:
    """A class rather than a generator: it is entered several times for every row."""

    __slots__ = ('_who',)

    def __init__(self, who: str) -> None:
        self._who = who

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (MissingExtraError, NoVerdictError)):
            return
        if isinstance(error, ScoringError):
            raise ScoringError(f'{self._who} {error}') from error
        if isinstance(error, Exception):  # user code may raise anything; this dataset has no score, the run continues
            raise ScoringError(f'{self._who} raised {describe_error(error)}.') from error


def describe_error(error: BaseException) -> str:
    """An exception as one short line.

    >>> describe_error(ValueError('no number')), describe_error(KeyError())
    ('ValueError: no number', 'KeyError')
    """
    words = ' '.join(str(error).split())
    short = words if len(words) <= _LONGEST else f'{words[:_LONGEST]}…'
    return f'{type(error).__name__}: {short}' if short else type(error).__name__
