"""Loads the weights of a causal language model with `transformers`, and inspects them."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.errors import MissingExtraError, import_extra, require_packages
from rolecall.models.protocol import ModelError
from rolecall.models.tokenizers.huggingface import TransformersTokenizer
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_tokenizer

DTYPES = ('auto', 'float32', 'bfloat16', 'float16', 'float64')
_ATTENTION = {'full_attention', 'sliding_attention'}
_LENGTH_DEPENDENT_ROPE = {'dynamic', 'longrope', 'su'}
_HARMLESS = {'padding_side', 'truncation_side', 'trust_remote_code', 'use_fast', 'model_max_length'}
"""Tokenizer options that do not change ids."""
_WEIGHTS = ('.safetensors', '.bin', '.pt', '.pth')


import_hf_package = partial(import_extra, extra='hf', purpose='to run a Transformers model')
"""`torch` or `transformers`."""


def release_memory() -> None:
    """Free unused GPU memory."""
    torch = sys.modules.get('torch')
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True, slots=True)
class WeightsSource:
    """Where a model comes from and how to load it."""

    path: str
    tokenizer_path: str | None = None
    device: str | None = None
    """'cpu', 'cuda', 'cuda:1' …; None: CUDA if available."""
    dtype: str | None = None
    """One of `DTYPES`; None: the weights' own on CUDA, float32 on a CPU."""
    trust_remote_code: bool = False
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_use_cuda(self) -> bool:
        """Whether the model will probably run on CUDA, judged without importing torch."""
        return (self.device or 'cuda').startswith('cuda') and os.path.exists('/proc/driver/nvidia/version')

    def local_tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if it can be loaded without torch and without the network."""
        slow = self.tokenizer_kwargs.get('use_fast') is False
        if slow or not self.tokenizer_kwargs.keys() <= _HARMLESS:
            return None
        return find_tokenizer({'path': self.tokenizer_path or self.path})

    def check_ready(self) -> None:
        """Raise if a package or the folder of the weights is missing. Nothing is imported or loaded."""
        require_packages('torch', 'transformers', extra='hf', purpose='to run a Transformers model')
        path = os.path.expanduser(self.path)
        if not os.path.isdir(path) and (os.path.isabs(path) or path.startswith('.') or path.count('/') > 1):
            raise ModelError(f'{self.path}: the model cannot be loaded: there is no such folder.')

    def load(self, tokenizer: Tokenizer | None = None) -> LoadedModel:
        torch, transformers = import_hf_package('torch'), import_hf_package('transformers')
        self.check_ready()
        path = os.path.expanduser(self.path)
        device = self.device or ('cuda' if torch.cuda.is_available() else 'cpu')
        dtype = self.dtype or ('auto' if device.startswith('cuda') else 'float32')
        options = dict(self.model_kwargs)
        spread = _is_spread(torch, options.get('device_map'))
        if not spread:
            options.pop('device_map', None)
        options['dtype'] = dtype if dtype == 'auto' else getattr(torch, dtype)
        with _loading_errors(self.path), no_progress_bar(transformers):
            model, about = transformers.AutoModelForCausalLM.from_pretrained(
                path, trust_remote_code=self.trust_remote_code, output_loading_info=True, **options
            )
            if about['missing_keys']:  # would be random numbers
                raise ValueError(f'weights are missing: {", ".join(sorted(about["missing_keys"])[:5])}')
            if not spread:
                model = model.to(device)
            own = tokenizer or self.local_tokenizer() or self.own_tokenizer()
        return LoadedModel.of(model.eval(), own)

    def own_tokenizer(self) -> TransformersTokenizer:
        """The tokenizer as `transformers` loads it."""
        options = {'trust_remote_code': self.trust_remote_code, **self.tokenizer_kwargs}
        return TransformersTokenizer(
            import_hf_package('transformers').AutoTokenizer.from_pretrained(
                os.path.expanduser(self.tokenizer_path or self.path), **options
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in memory and its tokenizer."""

    model: Any
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...] = ()
    shares: bool = True
    """Whether the keys and values of a prefix can be computed separately."""
    takes_positions: bool = True

    @classmethod
    def of(cls, model: Any, tokenizer: Tokenizer) -> LoadedModel:
        """Wrap a model. The sampling defaults in its files are dropped: only requested parameters apply."""
        arguments = inspect.signature(model.forward).parameters
        defaults = getattr(model, 'generation_config', None)
        eos = [
            *_ids(getattr(defaults, 'eos_token_id', None)),
            *_ids(model.config.eos_token_id),
            *_ids(tokenizer.eos_id),
        ]
        if defaults is not None:
            model.generation_config = type(defaults)()
        return cls(
            model,
            tokenizer,
            eos_ids=tuple(dict.fromkeys(eos)),
            shares='past_key_values' in arguments and _has_plain_attention(model),
            takes_positions='position_ids' in arguments,
        )

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def pad_id(self) -> int:
        """Any id will do: padding is masked."""
        return self.eos_ids[0] if self.eos_ids else 0


def _ids(value: object) -> list[int]:
    if isinstance(value, int):
        return [value]
    return [int(number) for number in value] if isinstance(value, Sequence) else []


def _is_spread(torch: Any, device_map: object) -> bool:
    """Whether to spread a model over devices; 'auto' means one device where there is only one."""
    if device_map is None or (isinstance(device_map, str) and torch.cuda.device_count() <= 1):
        return False
    if importlib.util.find_spec('accelerate') is None:
        raise MissingExtraError('accelerate', extra='hf', purpose='to spread a model over devices (device_map)')
    return True


def _has_plain_attention(model: Any) -> bool:
    """Whether a prefix's state is just its keys and values, independent of what follows."""
    config = model.config.get_text_config() if hasattr(model.config, 'get_text_config') else model.config
    kinds = getattr(config, 'layer_types', None) or ()
    rope = getattr(config, 'rope_parameters', None) or getattr(config, 'rope_scaling', None) or {}
    return (
        not getattr(model, '_is_stateful', False)
        and set(kinds) <= _ATTENTION
        and not set(_rope_types(rope)) & _LENGTH_DEPENDENT_ROPE
    )


def _rope_types(rope: Mapping[str, Any]) -> Iterator[str]:
    for name, value in rope.items():
        if isinstance(value, Mapping):
            yield from _rope_types(value)
        elif name in ('rope_type', 'type'):
            yield str(value)


@contextmanager
def _loading_errors(path: str) -> Iterator[None]:
    """Turn loading errors into a `ModelError`."""
    try:
        yield
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f'{path}: the model cannot be loaded: {error}') from error
    except (RuntimeError, AssertionError, import_hf_package('safetensors').SafetensorError) as error:  # torch's own
        raise ModelError(f'{path}: the model cannot be loaded: {error}') from error


@contextmanager
def no_progress_bar(transformers: Any) -> Iterator[None]:
    """Without the progress bars of `transformers`."""
    logging = transformers.utils.logging
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def digest_model_files(folder: Path) -> str:
    """A digest of a model's files: small files whole, samples of the weights (retraining changes every block).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, 'config.json').write_text('{}')
    ...     digest_model_files(Path(name))
    '757006fd52e36aed'
    """
    digest = hashlib.sha256()
    for file in sorted(_model_files(folder)):
        size = file.stat().st_size
        digest.update(f'{file.name} {size}\n'.encode())
        with file.open('rb') as content:
            for start in range(0, size, max(4096, size // 64)) if file.suffix in _WEIGHTS else (0,):
                content.seek(start)
                digest.update(content.read(4096 if file.suffix in _WEIGHTS else -1))
    return digest.hexdigest()[:16]


def _model_files(folder: Path) -> Iterable[Path]:
    return (
        file
        for file in folder.iterdir()
        if file.is_file() and (file.suffix in _WEIGHTS or file.suffix in ('.json', '.model', '.txt', '.jinja', '.py'))
    )
