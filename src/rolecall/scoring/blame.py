"""Turn exceptions of user code during scoring into one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rolecall.errors import MissingExtraError, RolecallError

__all__ = ['NoOpinionError', 'ScoringError', 'blame_errors_on', 'describe_error']

_LONGEST = 200


class ScoringError(RolecallError):
    """The rows of one dataset × model cannot be scored. Requests and replies are kept."""


class NoOpinionError(ScoringError):
    """A judge's reply could not be read, so one answer has no mark."""


@contextmanager
def blame_errors_on(who: str) -> Iterator[None]:
    """Raise exceptions as a `ScoringError` that names their source.

    >>> with blame_errors_on('the evaluator halve'):
    ...     1 / 0
    Traceback (most recent call last):
    rolecall.scoring.blame.ScoringError: the evaluator halve raised ZeroDivisionError: division by zero.
    """
    try:
        yield
    except (MissingExtraError, NoOpinionError):
        raise
    except ScoringError as error:
        raise ScoringError(f'{who} {error}') from error
    except Exception as error:  # user code may raise anything; this dataset has no score, the run continues
        raise ScoringError(f'{who} raised {describe_error(error)}.') from error


def describe_error(error: Exception) -> str:
    """An exception as one short line.

    >>> describe_error(ValueError('no number')), describe_error(KeyError())
    ('ValueError: no number', 'KeyError')
    """
    words = ' '.join(str(error).split())
    short = words if len(words) <= _LONGEST else f'{words[:_LONGEST]}…'
    return f'{type(error).__name__}: {short}' if short else type(error).__name__
