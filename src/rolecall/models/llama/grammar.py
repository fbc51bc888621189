"""What may come next in an answer that a grammar describes, decided by llama.cpp."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from rolecall.models.llama import native as llama_native
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.protocol import ModelError

_CANDIDATE = np.dtype([('id', np.int32), ('logit', np.float32), ('p', np.float32)])


class AnswerGrammar:
    """The state of one answer within a grammar (GBNF, whose first rule is `root`)."""

    def __init__(self, vocabulary: LlamaVocabulary, grammar: str) -> None:
        self._native = llama_native.library()
        self._vocabulary = vocabulary  # llama.cpp keeps a pointer to it
        llama_native.take_errors()
        self._sampler = self._native.llama_sampler_init_grammar(vocabulary.handle, grammar.encode(), b'root')
        if not self._sampler:
            why = llama_native.take_errors()
            raise ModelError(f'llama.cpp refused the grammar of the answer: {why or "no reason given"}.')

    def __del__(self) -> None:
        sampler, self._sampler = getattr(self, '_sampler', None), None
        if sampler:
            self._native.llama_sampler_free(sampler)

    def mask(self, logits: npt.NDArray[np.float32], *, greedy: bool) -> npt.NDArray[np.float32]:
        """The logits without the tokens that cannot come next. Where only the best counts, it is tried first."""
        best = int(logits.argmax())
        if greedy and np.isfinite(self._apply(np.array([best], np.int32), logits)[0]):
            return logits
        return self._apply(np.arange(len(logits), dtype=np.int32), logits)

    def accept(self, token: int) -> None:
        """This token came next."""
        self._native.llama_sampler_accept(self._sampler, token)

    def _apply(self, ids: npt.NDArray[np.int32], logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        data = np.zeros(len(ids), _CANDIDATE)
        data['id'], data['logit'] = ids, logits[ids]
        candidates = llama_native.Candidates(data.ctypes.data, len(ids), -1, False)
        self._native.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        masked: npt.NDArray[np.float32] = data['logit'].copy()
        return masked
