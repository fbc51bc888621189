"""What the folder of a Hugging Face model says about its chat template and its special tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolecall.errors import DataError

__all__ = ['tokenizer_settings']

_REMEDY = "Correct the file, or give the template itself as chat_template='…'."


def tokenizer_settings(folder: str | Path) -> Mapping[str, Any]:
    """The `tokenizer_config.json` of a folder, with the `chat_template.jinja` beside it; nothing if there is none.

    >>> tokenizer_settings('no/such/folder')
    {}
    """
    config, beside = Path(folder, 'tokenizer_config.json'), Path(folder, 'chat_template.jinja')
    if not os.path.isfile(config):
        return {}
    settings = _json_object(config)
    return {**settings, 'chat_template': _text(beside)} if os.path.isfile(beside) else settings


def _json_object(file: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f'{file}: not valid JSON: {error}. {_REMEDY}') from error
    if not isinstance(settings, Mapping):
        raise DataError(f'{file}: must hold a JSON object, found {type(settings).__name__}. {_REMEDY}')
    return settings


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'{file}: cannot be read: {error}. {_REMEDY}') from error
