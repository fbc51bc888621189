"""Holds answers to a JSON Schema: llguidance, which comes with llama.cpp, says which tokens may follow.

Fields come in the order of the schema. What it does not know (such as `uniqueItems`) is checked when the answer is
read.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rolecall.models.llama import bindings
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.protocol import ModelError

_FORM = {'whitespace_flexible': False, 'item_separator': ', ', 'key_separator': ': ', 'lenient': True}
"""On one line, as models write JSON by default; with free white space an answer might never end."""
_LOG_TO_STDERR = 12
"""Where the level of messages on stderr stands among the settings of a matcher."""


class _Tokens(ctypes.Structure):
    """`LlgTokenizerInit`."""

    _fields_ = (
        ('vocab_size', ctypes.c_uint32),
        ('tok_eos', ctypes.c_uint32),
        ('token_lens', ctypes.c_void_p),
        ('token_bytes', ctypes.c_char_p),
        ('tokenizer_json', ctypes.c_char_p),
        ('tokenize_assumes_string', ctypes.c_bool),
        ('tokenize_fn', ctypes.c_void_p),
        ('use_approximate_greedy_tokenize_fn', ctypes.c_bool),
        ('tokenize_user_data', ctypes.c_void_p),
        ('slices', ctypes.c_void_p),
    )


_SETTINGS_OF: WeakKeyDictionary[LlamaVocabulary, bindings.Parameters] = WeakKeyDictionary()


def _read_settings(vocabulary: LlamaVocabulary) -> bindings.Parameters:
    """The settings of a matcher for a vocabulary; its tokens are handed over once."""
    if vocabulary not in _SETTINGS_OF:
        native = bindings.library()
        # The byte 0xFF, which is in no text, marks control tokens.
        pieces = [b'\xff' * vocabulary.is_control(id_) + vocabulary.bytes_of(id_) for id_ in range(vocabulary.size)]
        lengths = (ctypes.c_uint32 * len(pieces))(*map(len, pieces))
        tokens = _Tokens(len(pieces), _end_of(vocabulary), ctypes.addressof(lengths), b''.join(pieces))
        tokens.use_approximate_greedy_tokenize_fn = True
        why = ctypes.create_string_buffer(400)
        tokenizer = native.llg_new_tokenizer(ctypes.byref(tokens), why, len(why))
        if not tokenizer:
            raise ModelError(f'answers of this model cannot be held to a JSON schema: {why.value.decode()}.')
        settings = bindings.Parameters()
        native.llg_constraint_init_set_defaults(ctypes.byref(settings), tokenizer)
        ctypes.c_uint32.from_buffer(settings, _LOG_TO_STDERR).value = 0
        _SETTINGS_OF[vocabulary] = settings
    return _SETTINGS_OF[vocabulary]


def _end_of(vocabulary: LlamaVocabulary) -> int:
    return vocabulary.eos_id if vocabulary.eos_id is not None else vocabulary.ends[0]


class AnswerGrammar:
    """The state of one answer within a JSON Schema."""

    def __init__(self, vocabulary: LlamaVocabulary, schema: Any) -> None:
        self._native = bindings.library()
        self._vocabulary = vocabulary
        text = json.dumps({**schema, 'x-guidance': _FORM} if isinstance(schema, Mapping) else schema)
        settings = ctypes.byref(_read_settings(vocabulary))
        self._matcher = self._native.llg_new_matcher(settings, b'json_schema', text.encode())
        self._check()

    def __del__(self) -> None:
        matcher, self._matcher = getattr(self, '_matcher', None), None
        if matcher:
            self._native.llg_free_matcher(matcher)

    def mask(self, logits: npt.NDArray[np.float32], *, greedy: bool) -> npt.NDArray[np.float32]:
        """The logits without the tokens that cannot come next. Where only the best counts, it is looked at first."""
        self._native.llg_matcher_compute_mask(self._matcher)
        self._check()
        size = self._native.llg_matcher_get_mask_byte_size(self._matcher)
        bits = np.ctypeslib.as_array(self._native.llg_matcher_get_mask(self._matcher), (size,))
        best = int(logits.argmax())
        if greedy and bits[best >> 3] >> (best & 7) & 1:
            return logits
        allowed = np.unpackbits(bits, bitorder='little')[: len(logits)].astype(bool)
        allowed[list(self._vocabulary.ends)] = allowed[_end_of(self._vocabulary)]
        masked: npt.NDArray[np.float32] = np.where(allowed, logits, np.float32(-np.inf))
        return masked

    def accept(self, token: int) -> None:
        """This token came next."""
        if token not in self._vocabulary.ends:
            self._native.llg_matcher_consume_token(self._matcher, token)
            self._check()

    def _check(self) -> None:
        if why := self._native.llg_matcher_get_error(self._matcher):
            raise ModelError(f'the JSON schema of the answer cannot be used: {why.decode(errors="replace")}.')
