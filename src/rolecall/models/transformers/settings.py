"""The entry of a Transformers model in a config, read and checked: where its weights are and how it is to answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.models.base import ModelError, Sampling
from rolecall.models.entries import EntryReader
from rolecall.models.transformers.answering import TransformersAnswering
from rolecall.models.transformers.weights import DTYPES, Source
from rolecall.registry import part_name

__all__ = ['Settings', 'read_settings']

_OPTIONS = (
    'type', 'abbr', 'path', 'tokenizer_path', 'model_kwargs', 'tokenizer_kwargs', 'generation_kwargs', 'max_seq_len',
    'max_out_len', 'min_out_len', 'batch_size', 'stop_words', 'end_str', 'device', 'dtype', 'trust_remote_code',
    'peft_path',
)  # fmt: skip
_DEVICE = re.compile(r'cpu|mps|(?:cuda|npu|xpu)(?::\d+)?')


@dataclass(frozen=True, slots=True)
class Settings:
    """A model entry, understood."""

    source: Source
    chat: bool = False
    """Whether the model's own chat template makes its prompts."""
    batch_size: int = 8
    max_seq_len: int | None = None
    max_out_len: int = 512
    min_out_len: int = 0
    stops: tuple[str, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict)

    def answering(self, sampling: Sampling) -> TransformersAnswering:
        """How to answer: what a request asks for goes before what the entry says."""
        said = {**self.generation, **{name: value for name, value in sampling.extra.items() if value is not None}}
        eos = said.pop('eos_token_id', None)
        draws = said.pop('do_sample', None)
        temperature = said.pop('temperature', None)
        if said.pop('num_return_sequences', 1) != 1:
            raise ModelError('num_return_sequences: to draw several answers is for the inferencer to ask.')
        stops = (*sampling.stop, *(said.pop('stop_strings', None) or ()), *self.stops)
        return TransformersAnswering(
            max_new=_first(sampling.max_out_len, said.pop('max_new_tokens', None), self.max_out_len),
            min_new=_first(sampling.min_out_len, said.pop('min_new_tokens', None), self.min_out_len),
            temperature=_first(sampling.temperature, None if draws is False else temperature, 1.0 if draws else None),
            top_p=_first(sampling.top_p, said.pop('top_p', None)),
            top_k=_first(sampling.top_k, said.pop('top_k', None)),
            min_p=said.pop('min_p', None),
            seed=_first(sampling.seed, said.pop('seed', None)),
            stops=tuple(dict.fromkeys(stop for stop in stops if stop)),
            eos_ids=None if eos is None else (eos,) if isinstance(eos, int) else tuple(eos),
            extra=said,
        )


def read_settings(entry: Mapping[str, Any], *, name: str) -> Settings:
    """Understand an entry; everything that is wrong with it is told at once."""
    reader = EntryReader(entry, name)
    reader.refuse_misspelt(_OPTIONS)
    if entry.get('peft_path'):
        reader.refuse(
            'peft_path',
            'adapters are not loaded: a score should belong to weights that can be named.',
            "Merge the adapter into the model (peft's merge_and_unload), save that, and give its folder as path.",
        )
    path = reader.text('path')
    if path is None:
        reader.refuse('path', 'it is missing: give the folder of a model, or its name on the hub.')
    device = reader.text('device')
    if device is not None and not _DEVICE.fullmatch(device):
        reader.refuse('device', f'unknown device {device!r}.', "It is 'cpu', 'cuda' or 'cuda:1', for example.")
    least = entry.get('min_out_len')
    model_kwargs, tokenizer_kwargs = reader.options('model_kwargs'), reader.options('tokenizer_kwargs')
    dtypes = [entry.get('dtype'), *(model_kwargs.pop(key, None) for key in ('dtype', 'torch_dtype'))]
    trusted = (reader.flag('trust_remote_code'), model_kwargs.pop('trust_remote_code', None))
    source = Source(
        path=path or '',
        tokenizer_path=reader.text('tokenizer_path'),
        device=device,
        dtype=_dtype(reader, dtypes),
        trust_remote_code=bool(next((flag for flag in trusted if flag is not None), False)),
        model_kwargs=model_kwargs,
        tokenizer_kwargs=tokenizer_kwargs,
    )
    settings = Settings(
        source,
        chat=part_name(entry.get('type', '')).endswith('withChatTemplate'),
        batch_size=reader.count('batch_size') or 8,
        max_seq_len=reader.count('max_seq_len'),
        max_out_len=reader.count('max_out_len') or 512,
        min_out_len=0 if least == 0 else reader.count('min_out_len') or 0,
        stops=(*(reader.texts('stop_words') or ()), *(reader.texts('end_str') or ())),
        generation=reader.options('generation_kwargs'),
    )
    reader.finish()
    return settings


def _dtype(reader: EntryReader, given: Iterable[object]) -> str | None:
    """The name of a dtype: a text, torch's own, or a reference to it in a config that was read without torch."""
    name = next((str(value).removeprefix('torch.') for value in given if value is not None), None)
    if name is not None and name not in DTYPES:
        reader.refuse('dtype', f'unknown dtype {name!r}.', f'Known: {", ".join(DTYPES)}.')
    return name


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
