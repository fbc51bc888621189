"""llama.cpp's C interface, called through the shared library in the `xllamacpp` wheel.

Parameter structs start from llama.cpp's own defaults, with a few named fields changed. The offsets of those fields
are checked against the defaults before first use, and read back from every context created.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from rolecall.errors import MissingExtraError
from rolecall.models.protocol import ModelError

ENGINE = 'xllamacpp'

_CONTEXT = {
    'n_ctx': (0, '<I', 512),
    'n_batch': (4, '<I', 2048),
    'n_ubatch': (8, '<I', 512),
    'n_seq_max': (12, '<I', 1),
    'n_threads': (28, '<i', 4),
    'n_threads_batch': (32, '<i', 4),
    'rope_scaling_type': (40, '<i', -1),
    'pooling_type': (44, '<i', -1),
    'attention_type': (48, '<i', -1),
    'flash_attn_type': (52, '<i', -1),
    'yarn_ext_factor': (64, '<f', -1.0),
    'yarn_beta_slow': (76, '<f', -1.0),
    'defrag_thold': (84, '<f', -1.0),
    'type_k': (104, '<i', 1),
    'type_v': (108, '<i', 1),
    'embeddings': (136, '<B', 0),
    'offload_kqv': (137, '<B', 1),
    'no_perf': (138, '<B', 1),
    'op_offload': (139, '<B', 1),
    'swa_full': (140, '<B', 1),
    'kv_unified': (141, '<B', 0),
}
"""Fields of `llama_context_params`: offset, format and llama.cpp's default."""

_MODEL = {
    'n_gpu_layers': (16, '<i', -1),
    'split_mode': (20, '<i', 1),
    'vocab_only': (72, '<B', 0),
    'check_tensors': (73, '<B', 0),
    'use_extra_bufts': (74, '<B', 1),
    'no_host': (75, '<B', 0),
}
"""The same for `llama_model_params`."""

Layout = Mapping[str, tuple[int, str, float]]


class Parameters(ctypes.Structure):
    """A parameter struct as bytes, longer than any known one, so that fields added at the end keep their values."""

    _fields_ = (('data', ctypes.c_ubyte * 512),)

    def read(self, layout: Layout, name: str) -> float:
        offset, kind, _ = layout[name]
        return float(struct.unpack_from(kind, self, offset)[0])

    def write(self, layout: Layout, **values: float) -> Parameters:
        for name, value in values.items():
            offset, kind, _ = layout[name]
            struct.pack_into(kind, self, offset, value)
        return self


class Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = (
        ('n_tokens', ctypes.c_int32),
        ('token', ctypes.c_void_p),
        ('embd', ctypes.c_void_p),
        ('pos', ctypes.c_void_p),
        ('n_seq_id', ctypes.c_void_p),
        ('seq_id', ctypes.c_void_p),
        ('logits', ctypes.c_void_p),
    )


_P, _I, _U, _B, _S = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_bool, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    'llama_backend_init': (None, []),
    'llama_model_default_params': (Parameters, []),
    'llama_context_default_params': (Parameters, []),
    'llama_model_load_from_file': (_P, [_S, Parameters]),
    'llama_model_free': (None, [_P]),
    'llama_init_from_model': (_P, [_P, Parameters]),
    'llama_free': (None, [_P]),
    'llama_model_get_vocab': (_P, [_P]),
    'llama_model_has_encoder': (_B, [_P]),
    'llama_n_ctx_seq': (_U, [_P]),
    'llama_n_batch': (_U, [_P]),
    'llama_n_ubatch': (_U, [_P]),
    'llama_n_seq_max': (_U, [_P]),
    'llama_n_threads': (_I, [_P]),
    'llama_set_n_threads': (None, [_P, _I, _I]),
    'llama_get_memory': (_P, [_P]),
    'llama_memory_seq_cp': (None, [_P, _I, _I, _I, _I]),
    'llama_memory_seq_rm': (_B, [_P, _I, _I, _I]),
    'llama_batch_init': (Batch, [_I, _I, _I]),
    'llama_batch_free': (None, [Batch]),
    'llama_decode': (_I, [_P, Batch]),
    'llama_get_logits': (ctypes.POINTER(ctypes.c_float), [_P]),
    'llama_tokenize': (_I, [_P, _S, _I, _P, _I, _B, _B]),
    'llama_token_to_piece': (_I, [_P, _I, _P, _I, _I, _B]),
    'llama_vocab_n_tokens': (_I, [_P]),
    'llama_vocab_bos': (_I, [_P]),
    'llama_vocab_eos': (_I, [_P]),
    'llama_vocab_get_add_bos': (_B, [_P]),
    'llama_vocab_is_eog': (_B, [_P, _I]),
    'llama_vocab_is_control': (_B, [_P, _I]),
    'llg_new_tokenizer': (_P, [_P, _S, ctypes.c_size_t]),
    'llg_constraint_init_set_defaults': (None, [_P, _P]),
    'llg_new_matcher': (_P, [_P, _S, _S]),
    'llg_free_matcher': (None, [_P]),
    'llg_matcher_compute_mask': (_I, [_P]),
    'llg_matcher_get_mask': (ctypes.POINTER(ctypes.c_uint8), [_P]),
    'llg_matcher_get_mask_byte_size': (ctypes.c_size_t, [_P]),
    'llg_matcher_consume_token': (_I, [_P, _U]),
    'llg_matcher_get_error': (_S, [_P]),
}

_LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_ERROR = 4
_errors: deque[str] = deque(maxlen=6)


def _record_error(level: int, text: bytes | None, _: object) -> None:
    if level == _ERROR and text:
        _errors.append(text.decode(errors='replace').strip())


_log = _LogCallback(_record_error)


def take_errors() -> str:
    """The errors llama.cpp has logged since the last call; other messages are dropped."""
    message = '; '.join(filter(None, _errors))
    _errors.clear()
    return message


def version() -> str:
    """The version of the installed wheel."""
    from importlib.metadata import version as installed

    return installed(ENGINE)


@cache
def library() -> Any:
    """The shared library, its functions declared, its structs checked, its log silenced."""
    try:
        importlib.import_module('numpy')
        package = importlib.import_module(ENGINE)
    except ImportError as missing:
        raise MissingExtraError(
            missing.name or ENGINE, extra='llama', purpose='to run or tokenize for a .gguf file'
        ) from missing
    native = ctypes.CDLL(importlib.import_module(f'{package.__name__}.{ENGINE}').__file__)
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(native, name)
            function.restype, function.argtypes = result, arguments
        native.llama_log_set.argtypes = [_LogCallback, ctypes.c_void_p]
    except AttributeError as missing:
        raise _interface_error(str(missing)) from missing
    native.llama_log_set(_log, None)
    _check(native.llama_model_default_params(), _MODEL)
    _check(native.llama_context_default_params(), _CONTEXT)
    _check_batch(native)
    native.llama_backend_init()
    return native


def model_parameters(native: Any, **values: float) -> Parameters:
    """llama.cpp's defaults for loading a model, with these values."""
    defaults: Parameters = native.llama_model_default_params()
    return defaults.write(_MODEL, **values)


def context_parameters(native: Any, **values: float) -> Parameters:
    """llama.cpp's defaults for a context, with these values."""
    defaults: Parameters = native.llama_context_default_params()
    return defaults.write(_CONTEXT, **values)


def _check(parameters: Parameters, layout: Layout) -> None:
    for name, (_, _, expected) in layout.items():
        if (value := parameters.read(layout, name)) != expected:
            raise _interface_error(f'its default {name} reads {value:g} where {expected:g} is expected')


def _check_batch(native: Any) -> None:
    """A new batch has every array except the embeddings."""
    batch = native.llama_batch_init(2, 0, 1)
    try:
        pointers = [name for name, _ in Batch._fields_[1:] if getattr(batch, name)]
        if pointers != ['token', 'pos', 'n_seq_id', 'seq_id', 'logits']:
            raise _interface_error(f'a fresh batch has {", ".join(pointers) or "nothing"}')
    finally:
        native.llama_batch_free(batch)


def _interface_error(why: str) -> ModelError:
    release = 'of unknown version'
    with suppress(ImportError):
        release = version()
    return ModelError(
        f'{ENGINE} {release} has an interface this version of rolecall does not know: {why}.\n'
        "Install the version it was built for: pip install 'rolecall[llama]'"
    )
