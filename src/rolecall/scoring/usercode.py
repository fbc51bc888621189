"""Code of the user's own while scores are made: whatever it raises becomes one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rolecall.errors import MissingExtraError, RolecallError

__all__ = ['NoOpinionError', 'ScoringError', 'blaming', 'said']

_LONGEST = 200


class ScoringError(RolecallError):
    """The rows of one dataset × model cannot be scored. What was asked and answered is kept."""


class NoOpinionError(ScoringError):
    """A judge's words could not be read, so that one answer has no mark."""


@contextmanager
def blaming(who: str) -> Iterator[None]:
    """Whatever is raised inside becomes a `ScoringError` that says who did it.

    >>> with blaming('the evaluator halve'):
    ...     1 / 0
    Traceback (most recent call last):
    rolecall.scoring.usercode.ScoringError: the evaluator halve raised ZeroDivisionError: division by zero.
    """
    try:
        yield
    except (MissingExtraError, NoOpinionError):
        raise
    except ScoringError as error:
        raise ScoringError(f'{who} {error}') from error
    except Exception as error:  # the user's own code may raise anything; this dataset has no score, the run goes on
        raise ScoringError(f'{who} raised {said(error)}.') from error


def said(error: Exception) -> str:
    """An exception in a few words.

    >>> said(ValueError('no number')), said(KeyError())
    ('ValueError: no number', 'KeyError')
    """
    words = ' '.join(str(error).split())
    short = words if len(words) <= _LONGEST else f'{words[:_LONGEST]}…'
    return f'{type(error).__name__}: {short}' if short else type(error).__name__
