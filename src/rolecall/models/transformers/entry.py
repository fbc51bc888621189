"""A Transformers model's entry in a config: its settings, and what its files say before any weights are loaded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rolecall.checking import OptionReader, is_whole
from rolecall.config_keys import keys_of
from rolecall.core.render.spans import Request
from rolecall.errors import DataError
from rolecall.models.local_engine import (
    LocalModel,
    LocalSettings,
    PromptEncoder,
    TransformersDecoding,
    read_local_settings,
)
from rolecall.models.protocol import Capabilities, ModelError, Sampling
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_tokenizer
from rolecall.models.transformers.weights import DTYPES, WeightsSource, digest_model_files
from rolecall.registry import part_name

E = TypeVar('E')
DEVICE = re.compile(r'cpu|mps|(?:cuda|npu|xpu)(?::\d+)?')


@dataclass(frozen=True, slots=True)
class TransformersSettings(LocalSettings):
    """The settings read from an entry."""

    source: WeightsSource
    chat: bool = False
    """Whether prompts are rendered with the model's chat template."""
    batch_size: int | None = None
    """None: 8 on a CPU, 256 on CUDA."""

    def decoding(self, sampling: Sampling) -> TransformersDecoding:
        settings = self._gather(sampling)
        eos = settings.pop('eos_token_id', None)
        if settings.pop('num_return_sequences', 1) != 1:
            raise ModelError('num_return_sequences: set it on the inferencer, not on the model.')
        options = self._merge(sampling, settings, *(settings.pop('stop_strings', None) or ()))
        ends = None if eos is None else (eos,) if isinstance(eos, int) else tuple(eos)
        return TransformersDecoding(**options, eos_ids=ends, extra=settings)


def read_transformers_entry(entry: Mapping[str, Any], *, name: str) -> TransformersSettings:
    """Read an entry; all its problems are reported at once."""
    reader = OptionReader(entry, name)
    reader.refuse_misspelt(keys_of('model', 'local', 'transformers'))
    if entry.get('peft_path'):
        reader.refuse(
            'peft_path',
            'adapters are not supported: a score must belong to identifiable weights.',
            "Merge the adapter into the model (peft's merge_and_unload), save that, and give its folder as path.",
        )
    path = reader.text('path')
    if path is None:
        reader.refuse('path', 'missing: give the folder of a model or its name on the hub.')
    device = reader.text('device')
    if device is not None and not DEVICE.fullmatch(device):
        reader.refuse('device', f'unknown device {device!r}.', "Use 'cpu', 'cuda' or 'cuda:1', for example.")
    model_kwargs, tokenizer_kwargs = reader.mapping('model_kwargs'), reader.mapping('tokenizer_kwargs')
    dtypes = [entry.get('dtype'), *(model_kwargs.pop(key, None) for key in ('dtype', 'torch_dtype'))]
    trusted = (reader.flag('trust_remote_code'), model_kwargs.pop('trust_remote_code', None))
    source = WeightsSource(
        path=path or '',
        tokenizer_path=reader.text('tokenizer_path'),
        device=device,
        dtype=_dtype(reader, dtypes),
        trust_remote_code=bool(next((flag for flag in trusted if flag is not None), False)),
        model_kwargs=model_kwargs,
        tokenizer_kwargs=tokenizer_kwargs,
    )
    settings = TransformersSettings(
        source,
        chat=part_name(entry.get('type', '')).endswith('withChatTemplate'),
        batch_size=reader.whole('batch_size'),
        **read_local_settings(reader, entry, 'end_str'),
    )
    reader.raise_problems()
    return settings


def _dtype(reader: OptionReader, values: Iterable[object]) -> str | None:
    """The name of a dtype: a string, torch's own, or a reference to it in a config read without torch."""
    name = next((str(value).removeprefix('torch.') for value in values if value is not None), None)
    if name is not None and name not in DTYPES:
        reader.refuse('dtype', f'unknown dtype {name!r}.', f'Known: {", ".join(DTYPES)}.')
    return name


_NOT_WEIGHTS = (
    *('token', 'use_auth_token', 'hf_token'),
    *('device_map', 'cache_dir', 'local_files_only', 'max_memory', 'offload_folder', 'low_cpu_mem_usage'),
)
"""Loading arguments that do not affect replies, or that are secret."""
_LONGEST_CONTEXT = 10**9
_LIMITS = ('max_position_embeddings', 'n_positions', 'max_sequence_length')


class FilesModel(LocalModel[E, TransformersSettings]):
    """The base of models whose files Transformers reads. They tell little until they are on this machine."""

    capabilities = Capabilities(score=True, tokenize=True, prefill=True)
    engine: ClassVar[str]

    @property
    def source(self) -> WeightsSource:
        """Where its weights come from."""
        return self._settings.source

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        settings, source = self._settings, self.source
        kwargs = {key: value for key, value in source.model_kwargs.items() if key not in _NOT_WEIGHTS}
        identity = {
            'path': source.path,
            'weights': digest_model_files(self._folder) if self._folder else None,
            'tokenizer': source.tokenizer_path,
            'dtype': source.dtype,
            'model_kwargs': {key: str(value) for key, value in sorted(kwargs.items())},
            **settings.describe(),
            'engine': self.engine,
        }
        return {key: value for key, value in identity.items() if value}

    @cached_property
    def max_seq_len(self) -> int | None:
        """The entry's limit, or the model's own; never more than its learned positions."""
        config = self._config
        configured, learnt = self._settings.max_seq_len, config.get('n_positions')
        if configured is not None:
            return min(configured, learnt) if is_whole(learnt, least=1) else configured
        return next((config[key] for key in _LIMITS if is_whole(config.get(key), least=1, most=_LONGEST_CONTEXT)), None)

    @cached_property
    def _local_tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if it can be loaded without the engine and without the network."""
        return self.source.local_tokenizer()

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._local_tokenizer

    def count(self, request: Request) -> int | None:
        tokenizer = self._local_tokenizer
        return None if tokenizer is None else len(self._encoder(tokenizer).encode(request).ids)

    def _encoder(self, tokenizer: Tokenizer) -> PromptEncoder:
        return PromptEncoder(tokenizer, begins=not self._settings.chat)

    @cached_property
    def _folder(self) -> Path | None:
        folder = Path(os.path.expanduser(self.source.path))
        if folder.is_dir():
            return folder
        tokenizer = find_tokenizer({'path': self.source.path})  # the name of a hub model in the local cache
        return None if tokenizer is None else Path(tokenizer.name).parent

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        """The model's config.json; for a multi-part model, its text part."""
        file = self._folder and self._folder / 'config.json'
        if not file or not file.is_file():
            return {}
        try:
            config = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f'{file}: not valid JSON: {error}') from error
        if not isinstance(config, dict):
            raise DataError(f'{file}: not a JSON object')
        text = config.get('text_config')
        return {**config, **text} if isinstance(text, dict) else config
