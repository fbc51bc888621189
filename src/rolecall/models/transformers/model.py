"""Causal language models run by `transformers`, on CPU or CUDA (extra `[hf]`).

Nothing is loaded before the first request; each model works in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError
from rolecall.models.protocol import Reply, Scored
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.models.transformers.entry import FilesModel, TransformersSettings, read_transformers_entry
from rolecall.models.transformers.weights import import_hf_package, release_memory

if TYPE_CHECKING:
    from rolecall.models.transformers.torch_engine import TorchEngine


T = TypeVar('T')

_ON_CPU, _ON_CUDA = 8, 256
"""Requests in one call where the entry does not say."""


def build(entry: Mapping[str, Any], *, name: str) -> TransformersModel:
    """A model on this machine, by Transformers and PyTorch.

    Its weights are loaded at the first request.

    >>> model = build({'type': 'HuggingFaceBaseModel', 'path': 'some/model', 'batch_size': 4}, name='some')
    >>> model.batch, model.capabilities.score, model.max_seq_len
    (4, True, None)
    """
    return TransformersModel(read_transformers_entry(entry, name=name), name=name)


class TransformersModel(FilesModel['TorchEngine']):
    """A causal language model as a `rolecall.models.protocol.Model`."""

    engine = 'transformers'

    def __init__(self, settings: TransformersSettings, *, name: str, shares: bool = True) -> None:
        """`shares=False` computes every prompt from its first token, for comparison."""
        super().__init__(settings, name)
        self._shares = shares
        self._failure: RolecallError | None = None

    @property
    def batch(self) -> int:
        return self._settings.batch_size or (_ON_CUDA if self.source.may_use_cuda else _ON_CPU)

    @property
    def score_batch_size(self) -> int:
        """How many requests one call of `score` takes: shared prefixes are computed once, tails in batches."""
        return 8 * self.batch if self.batch < _ON_CUDA else 4 * self.batch

    def add_logprobs(self, logprobs: Sequence[float]) -> float:
        """Their sum in single precision, in PyTorch's order: other programs add them where the model runs."""
        return float(import_hf_package('torch').tensor(logprobs).sum())

    def check_ready(self) -> None:
        """Raise if a package or the folder of the weights is missing."""
        self.source.check_ready()

    async def forget(self) -> None:
        """Forget the last prompt; the next call computes everything."""
        await self._in_thread(lambda engine: engine.forget())

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._local_tokenizer if self._engine is None else self._engine.encoder.tokenizer

    def _generate(self, engine: TorchEngine, requests: Sequence[Request], decoding: Any) -> list[Reply]:
        return engine.generate(requests, decoding)

    def _score(self, engine: TorchEngine, requests: Sequence[Request]) -> list[Scored]:
        return engine.score(requests)

    def _work(self, work: Callable[[TorchEngine], T], stopped: Event) -> T:
        def stoppable(engine: TorchEngine) -> T:
            engine.stopped = stopped
            return work(engine)

        return super()._work(stoppable, stopped)

    def _release(self) -> None:
        super()._release()
        release_memory()

    def _open(self) -> TorchEngine:
        if self._failure is not None:
            raise self._failure
        try:
            loaded = self.source.load(self._local_tokenizer)
        except RolecallError as error:  # loading will fail for the next request too
            self._failure = error
            raise
        from rolecall.models.transformers.torch_engine import build_engine  # not imported to count tokens

        return build_engine(
            loaded,
            self._encoder(loaded.tokenizer),
            name=self.name,
            rows=self.batch,
            max_seq_len=self.max_seq_len,
            shares=self._shares,
            thinks=self._settings.chat,
        )
