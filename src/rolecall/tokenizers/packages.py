"""The packages that tokenize: loaded when needed, their refusals told in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from rolecall.errors import DataError, MissingExtraError

__all__ = ['refusals', 'tiktoken_package', 'tokenizers_package']


def tokenizers_package() -> Any:
    """The `tokenizers` package."""
    try:
        import tokenizers
    except ImportError as error:
        raise MissingExtraError('tokenizers', extra='tokenize', purpose="to read a model's tokenizer") from error
    return tokenizers


def tiktoken_package() -> ModuleType:
    """The `tiktoken` package."""
    try:
        import tiktoken
    except ImportError as error:
        raise MissingExtraError('tiktoken', extra='tokenize', purpose='to count the tokens of OpenAI models') from error
    return tiktoken


@contextmanager
def refusals(where: object) -> Iterator[None]:
    """Turn what the `tokenizers` package says about a tokenizer it cannot take into a `DataError`."""
    try:
        yield
    except Exception as error:  # the package raises bare `Exception`: there is nothing narrower to catch
        raise DataError(f'{where}: cannot be used as a tokenizer: {error}') from error
