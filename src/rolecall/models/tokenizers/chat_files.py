"""Where a model's files keep its chat template and special tokens: a folder, its JSON or Jinja file, or a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import DataError
from rolecall.models.tokenizers.gguf import chat_settings
from rolecall.models.tokenizers.huggingface import read_json_object, read_text, read_tokenizer_config
from rolecall.models.tokenizers.tokenizer import gguf_in

_CONFIG, _JINJA = 'tokenizer_config.json', 'chat_template.jinja'


def read_chat_settings(path: str | Path) -> Mapping[str, Any]:
    """The chat template and special tokens, named as in `tokenizer_config.json`; `DataError` if nothing is there."""
    file = Path(os.path.expanduser(path))
    if not os.path.exists(file):
        raise DataError(f'{path}: file not found.')
    if file.is_dir() or file.name == _CONFIG or file.suffix == '.gguf':
        return find_chat_settings(file.parent if file.name == _CONFIG else file)
    if file.suffix == '.json':
        return read_json_object(file)
    beside = file.with_name(_CONFIG)
    return {**(read_json_object(beside) if beside.is_file() else {}), 'chat_template': read_text(file)}


def find_chat_settings(path: str | Path) -> Mapping[str, Any]:
    """The same for a model's folder or GGUF file; empty if there is none.

    >>> find_chat_settings('no/such/folder')
    {}
    """
    file = Path(os.path.expanduser(path))
    if file.suffix == '.gguf' and os.path.isfile(file):
        return chat_settings(file)
    if settings := read_tokenizer_config(file):
        return settings
    if os.path.isfile(file / _JINJA):
        return {'chat_template': read_text(file / _JINJA)}
    weights = gguf_in(file) if os.path.isdir(file) else None
    return chat_settings(weights) if weights is not None else {}


def find_chat_template(path: str | Path) -> ChatTemplate | None:
    """The chat template of a model's folder or GGUF file, if it has one."""
    settings = find_chat_settings(path)
    return ChatTemplate.from_tokenizer_config(settings) if settings.get('chat_template') else None
