"""What can be known about a local model before its weights are loaded: identity, limit, tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rolecall.models.transformers.prompts import Encoder
from rolecall.models.transformers.settings import Settings
from rolecall.models.transformers.weights import digest_of
from rolecall.tokenizers.tokenizer import Tokenizer, find_tokenizer

__all__ = ['Place']

_NOT_WEIGHTS = (
    *('token', 'use_auth_token', 'hf_token'),
    *('device_map', 'cache_dir', 'local_files_only', 'max_memory', 'offload_folder', 'low_cpu_mem_usage'),
)
"""Arguments of loading that change no reply, or that nobody may see."""
_LIMITS = ('max_position_embeddings', 'n_positions', 'max_sequence_length')


@dataclass(frozen=True)
class Place:
    """A model on this machine, or not yet: then little is known."""

    settings: Settings

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """What a reply depends on."""
        settings, source = self.settings, self.settings.source
        kwargs = {key: value for key, value in source.model_kwargs.items() if key not in _NOT_WEIGHTS}
        said = {
            'path': source.path,
            'weights': digest_of(self._folder) if self._folder else None,
            'tokenizer': source.tokenizer_path,
            'dtype': source.dtype,
            'model_kwargs': {key: str(value) for key, value in sorted(kwargs.items())},
            'generation': {key: str(value) for key, value in sorted(settings.generation.items())},
            'stops': list(settings.stops),
            'max_seq_len': settings.max_seq_len,
            'max_out_len': settings.max_out_len,
            'min_out_len': settings.min_out_len,
        }
        return {key: value for key, value in said.items() if value}

    @cached_property
    def max_seq_len(self) -> int | None:
        """What the entry says, or the model's own limit; never more than there are learnt positions."""
        config = self._config
        said, learnt = self.settings.max_seq_len, config.get('n_positions')
        if said is not None:
            return min(said, learnt) if isinstance(learnt, int) else said
        return next((config[key] for key in _LIMITS if isinstance(config.get(key), int)), None)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if it can be had without the model's engine and without the network."""
        return self.settings.source.found_tokenizer()

    def encoder(self, tokenizer: Tokenizer) -> Encoder:
        """Requests to token ids, as this model wants them."""
        return Encoder(tokenizer, begins=not self.settings.chat)

    @cached_property
    def _folder(self) -> Path | None:
        folder = Path(self.settings.source.path).expanduser()
        if folder.is_dir():
            return folder
        found = find_tokenizer({'path': self.settings.source.path})  # the name of a hub model that is kept here
        return None if found is None else Path(found.name).parent

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        """The model's config.json; of a model of several parts, that of the text part."""
        file = self._folder and self._folder / 'config.json'
        if not file or not file.is_file():
            return {}
        found = json.loads(file.read_bytes())
        return {**found, **found.get('text_config', {})}
