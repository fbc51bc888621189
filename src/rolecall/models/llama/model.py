"""The embedded model: llama.cpp in this process, on a GGUF file; by default SmolLM2-135M-Instruct."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from rolecall.checking import OptionReader, is_whole
from rolecall.config_keys import keys_of
from rolecall.core.render.spans import Request
from rolecall.errors import DataError, did_you_mean, require_packages
from rolecall.models.llama.bindings import ENGINE
from rolecall.models.local_engine import LocalModel, LocalSettings, PromptEncoder, TokenPrompt, read_local_settings
from rolecall.models.protocol import Capabilities, ModelError, OnText, Reply, Sampling, Scored, Usage, redact_reply
from rolecall.models.pull import PACKAGED, cached_path, model_path
from rolecall.models.tokenizers.gguf import read_metadata
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.redaction import StreamRedactor
from rolecall.registry import part_name

if TYPE_CHECKING:
    from rolecall.models.llama.decoding import LlamaDecoding
    from rolecall.models.llama.streams import Streams
    from rolecall.models.llama.vocabulary import LlamaVocabulary


T = TypeVar('T')

SAMPLING_PARAMETERS = (
    *('temperature', 'top_p', 'top_k', 'min_p', 'seed', 'do_sample', 'ignore_eos'),
    *('max_new_tokens', 'min_new_tokens', 'json_schema'),
)
_SAMPLE = 1 << 20
_LONGEST_CONTEXT = 10**9


@dataclass(frozen=True, slots=True)
class LlamaSettings(LocalSettings):
    """The settings read from an entry."""

    path: str = 'smollm2'
    n_threads: int | None = None
    """None: as many as help, found by measuring."""
    parallel: int = 4
    cache_type: str = 'f16'
    """Precision of the KV cache: llama.cpp's default 'f16', or 'f32'."""

    def decoding(self, sampling: Sampling) -> LlamaDecoding:
        require_packages('numpy', extra='llama', purpose='to run or tokenize for a .gguf file')
        from rolecall.models.llama.decoding import LlamaDecoding

        settings = self._gather(sampling)
        unknown = [name for name in settings if name not in SAMPLING_PARAMETERS]
        if unknown:
            hint = did_you_mean(unknown[0], SAMPLING_PARAMETERS)
            raise ModelError(f'the embedded model has no sampling parameter {unknown[0]!r}. {hint}')
        options = self._merge(sampling, settings)
        ignore_eos, schema = bool(settings.get('ignore_eos')), settings.get('json_schema')
        return LlamaDecoding(**options, ignore_eos=ignore_eos, schema=schema)


def build(entry: Mapping[str, Any], *, name: str) -> LlamaModel:
    """A GGUF model on this machine, by llama.cpp.

    Its weights are loaded at the first request.

    >>> model = build({'type': 'LlamaCpp', 'path': 'smollm2', 'max_seq_len': 2048}, name='small')
    >>> model.max_seq_len, model.capabilities.score, model.capabilities.chat
    (2048, True, False)
    """
    reader = OptionReader(entry, name)
    reader.refuse_misspelt(keys_of('model', 'local', 'llama'))
    path = reader.text('path') or ('smollm2' if part_name(entry.get('type', '')) != 'LlamaCpp' else None)
    if path is None:
        reader.refuse(
            'path', 'missing: give a .gguf file or the name of a packaged model.', f'Known: {_list_models()}.'
        )
    elif path not in PACKAGED and not path.endswith('.gguf'):
        reader.refuse('path', f'{path!r} is neither a .gguf file nor a packaged model.', f'Known: {_list_models()}.')
    elif path not in PACKAGED and not Path(os.path.expanduser(path)).is_file():
        reader.refuse('path', f'there is no file {path}.')
    seed = entry.get('seed')
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        reader.refuse('seed', f'expected a whole number, got {seed!r}.')
    settings = LlamaSettings(
        path=path or '',
        **read_local_settings(reader, entry),
        n_threads=reader.whole('n_threads'),
        parallel=reader.whole('parallel', 'batch_size') or 4,
        seed=seed,
        cache_type=reader.one_of('cache_type') or 'f16',
    )
    reader.raise_problems()
    return LlamaModel(settings, name=name)


class LlamaModel(LocalModel['Streams', LlamaSettings]):
    """A GGUF file as a `rolecall.models.protocol.Model`. It can be used again after `close`."""

    capabilities = Capabilities(score=True, tokenize=True, prefill=True, json_schema=True)

    def __init__(self, settings: LlamaSettings, *, name: str, share: bool = True) -> None:
        """`share=False` computes every prompt from its first token, for comparison."""
        super().__init__(settings, name)
        self._share = share
        self._reading = Lock()
        self._loaded_vocabulary: LlamaVocabulary | None = None

    @property
    def batch(self) -> int:
        """Enough that a finished stream finds its next prompt waiting."""
        return 2 * self._settings.parallel

    @property
    def score_batch_size(self) -> int:
        """How many requests one call of `score` takes."""
        return 64

    @property
    def computed(self) -> int:
        """Tokens computed since the weights were loaded."""
        return self._engine.computed if self._engine is not None else 0

    def check_ready(self) -> None:
        """Raise if a package is missing. Nothing is imported or loaded."""
        require_packages(ENGINE, 'numpy', extra='llama', purpose='to run or tokenize for a .gguf file')

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        settings = self._settings
        packaged = PACKAGED.get(settings.path)
        identity = {
            'engine': 'llama.cpp',
            'path': settings.path if packaged else Path(settings.path).name,
            'weights': packaged.sha256 if packaged else _digest_weights(Path(os.path.expanduser(settings.path))),
            'seed': settings.seed,
            'cache_type': settings.cache_type,
            **settings.describe(),
        }
        return {key: value for key, value in identity.items() if value not in (None, [], {})}

    @cached_property
    def max_seq_len(self) -> int | None:
        """The entry's limit, or the model's training context."""
        if self._settings.max_seq_len is not None:
            return self._settings.max_seq_len
        packaged = PACKAGED.get(self._settings.path)
        if packaged is not None:
            return packaged.context
        return _trained_context(Path(os.path.expanduser(self._settings.path)))

    async def stream(
        self,
        request: Request,
        sampling: Sampling,
        on_text: OnText,
        on_thinking: OnText | None = None,
        on_event: Callable[[], object] | None = None,
    ) -> Reply:
        """The reply to one request; `on_text` is called in the model's thread with each piece of text.

        Reasoning and tool calls are part of the text, so `on_thinking` and `on_event` are not called.
        """
        decoding = self._settings.decoding(sampling)
        pieces = StreamRedactor(self._redactor, on_text)
        replies = await self._in_thread(lambda streams: self._generate(streams, [request], decoding, pieces.take))
        pieces.finish()
        return redact_reply(replies[0], self._redactor)

    def count(self, request: Request) -> int | None:
        if self._loaded_vocabulary is None and cached_path(self._settings.path) is None:
            return None
        text: list[int | str] = [request] if isinstance(request, str) else []
        return len(self._encode_prompt(text or request).ids)  # of a list, no ranges are computed

    async def forget(self) -> None:
        """Forget earlier prompts; the next one is computed from its first token."""
        await self._in_thread(lambda streams: streams.forget())

    def _generate(
        self, streams: Streams, requests: Sequence[Request], decoding: LlamaDecoding, on_text: OnText | None = None
    ) -> list[Reply]:
        from rolecall.models.llama.decoding import generate_replies

        prompts = [_to_array(self._encode_prompt(request)) for request in requests]
        return generate_replies(
            streams,
            self._vocabulary,
            prompts,
            decoding,
            parallel=self._settings.parallel,
            limit=self._limit,
            on_text=on_text,
        )

    def _score(self, streams: Streams, requests: Sequence[Request]) -> list[Scored]:
        from time import perf_counter

        from rolecall.models.llama.logprobs import score_prompts

        begun = perf_counter()
        prompts = [self._encode_prompt(request) for request in requests]
        longest = max((len(prompt.ids) for prompt in prompts), default=0)
        if longest > self._limit:
            raise ModelError(f'a prompt has {longest} tokens; the model takes {self._limit}.')
        losses = score_prompts(streams, [_to_array(prompt) for prompt in prompts], share=self._share)
        seconds = (perf_counter() - begun) / max(1, len(prompts))
        return [
            Scored.from_marked(
                prompt.ids,
                (None, *loss.logprobs[1:].tolist())[: len(prompt.ids)],
                prompt.offsets,
                Usage(len(prompt.ids), 0, len(prompt.ids) - loss.computed, seconds),
            )
            for prompt, loss in zip(prompts, losses, strict=True)
        ]

    def _encode_prompt(self, request: Request) -> TokenPrompt:
        if not isinstance(request, str) and any(isinstance(part, Mapping) for part in request):
            raise ModelError(
                'the embedded model takes text, not messages. Give the entry a meta_template, or '
                "chat_template: the template in the model's own file."
            )
        return PromptEncoder(self._vocabulary).encode(request)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the model's file."""
        return self._vocabulary

    @property
    def _vocabulary(self) -> LlamaVocabulary:
        from rolecall.models.llama.vocabulary import load_vocabulary

        with self._reading:
            if self._loaded_vocabulary is None:
                self._loaded_vocabulary = load_vocabulary(model_path(self._settings.path))
            return self._loaded_vocabulary

    @property
    def _limit(self) -> int:
        return self.max_seq_len or 2048

    def _work(self, work: Callable[[Streams], T], stopped: Event) -> T:
        def stoppable(streams: Streams) -> T:
            streams.stopped = stopped.is_set
            return work(streams)

        return super()._work(stoppable, stopped)

    def _open(self) -> Streams:
        from rolecall.models.llama.bindings import library

        library()
        from rolecall.models.llama.streams import Streams, ThreadTuner

        settings = self._settings
        return Streams(
            model_path(settings.path),
            vocab_size=self._vocabulary.size,
            tuner=ThreadTuner(fixed=settings.n_threads),
            most_cells=self._limit,
            cache_type=settings.cache_type,
        )

    def _release(self) -> None:
        streams, self._engine = self._engine, None
        if streams is not None:
            streams.close()


def _to_array(prompt: TokenPrompt) -> Any:
    import numpy as np

    return np.asarray(prompt.ids, np.int32)


def _list_models() -> str:
    return ', '.join(map(repr, PACKAGED))


def _digest_weights(path: Path) -> str:
    """A digest of a weights file: its size, start and end (reading all of it takes minutes)."""
    try:
        with path.open('rb') as file:
            head = file.read(_SAMPLE)
            size = file.seek(0, 2)
            file.seek(max(0, size - _SAMPLE))
            return hashlib.sha256(head + file.read() + str(size).encode()).hexdigest()[:32]
    except OSError as error:
        raise DataError(f'{path}: cannot be read: {error.strerror or error}') from error


def _trained_context(path: Path) -> int | None:
    metadata = read_metadata(path)
    length = metadata.get(f'{metadata.get("general.architecture")}.context_length')
    return length if is_whole(length, least=1, most=_LONGEST_CONTEXT) else None
