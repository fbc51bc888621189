"""Models run by vLLM in this process (extra `[vllm]`, imported at the first request).

vLLM does its own batching, so it gets many prompts at once, as token ids. Its prefix cache serves generation; for
prompt log-probabilities vLLM computes every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol, TypeVar

from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError, import_extra
from rolecall.models.local_engine import (
    TokenPrompt,
    TransformersDecoding,
    separate_thinking,
    too_long_reply,
)
from rolecall.models.protocol import ModelError, Reply, Scored, Usage
from rolecall.models.tokenizers.huggingface import TransformersTokenizer
from rolecall.models.transformers.entry import FilesModel, TransformersSettings, read_transformers_entry

T = TypeVar('T')

_DEAD = 'EngineDeadError'
"""vLLM's exception for an engine that has ended and answers nothing more."""
_AT_ONCE = 64
"""Requests per call that keep vLLM busy, even if an entry written for another engine has fewer."""


class LLM(Protocol):
    """The part of `vllm.LLM` that is used."""

    def generate(self, prompts: Any, sampling_params: Any, *, use_tqdm: bool) -> Sequence[Any]: ...

    def get_tokenizer(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class RunningVLLM:
    """A running vLLM, and its class for sampling parameters."""

    llm: LLM
    params: Callable[..., Any]


Start = Callable[[Mapping[str, Any]], RunningVLLM]


def build(entry: Mapping[str, Any], *, name: str) -> VLLMModel:
    """A model on this machine, by vLLM, which is started at the first request.

    >>> build({'type': 'VLLM', 'path': 'some/model', 'max_seq_len': 4096}, name='some').max_seq_len
    4096
    """
    return VLLMModel(read_transformers_entry(entry, name=name), name=name)


class VLLMModel(FilesModel[RunningVLLM]):
    """A model run by vLLM as a `rolecall.models.protocol.Model`."""

    engine = 'vllm'

    def __init__(self, settings: TransformersSettings, *, name: str, start: Start | None = None) -> None:
        super().__init__(settings, name)
        self._start = start or _start_vllm

    @property
    def batch(self) -> int:
        return max(_AT_ONCE, self._settings.batch_size or 1)

    def _open(self) -> RunningVLLM:
        return self._start(vllm_arguments(self._settings))

    def _work(self, work: Callable[[RunningVLLM], T], stopped: Event) -> T:
        try:
            return super()._work(work, stopped)  # vLLM cannot be interrupted
        except RolecallError:
            raise
        except Exception as error:  # vLLM, torch and their plugins raise anything
            if type(error).__name__ == _DEAD:
                self._engine = None  # the next request starts another
            raise ModelError(f'vLLM: {error}\nIn this process it is experimental; behind a URL it is not.') from error

    def _encode(self, engine: RunningVLLM, requests: Sequence[Request]) -> list[TokenPrompt]:
        encoder = self._encoder(self._local_tokenizer or TransformersTokenizer(engine.llm.get_tokenizer()))
        return [encoder.encode(request) for request in requests]

    def _generate(
        self, engine: RunningVLLM, requests: Sequence[Request], decoding: TransformersDecoding
    ) -> list[Reply]:
        prompts = self._encode(engine, requests)
        rooms = [decoding.room(len(prompt.ids), self.max_seq_len) for prompt in prompts]
        fitting = [number for number, room in enumerate(rooms) if room >= max(1, decoding.min_new)]
        params = [engine.params(**sampling_params(decoding, rooms[number])) for number in fitting]
        outputs = engine.llm.generate([_tokens(prompts[number]) for number in fitting], params, use_tqdm=False)
        replies = dict(zip(fitting, map(read_vllm_reply, outputs), strict=True))
        answers = [
            replies.get(number) or too_long_reply(len(prompt.ids), self.max_seq_len)
            for number, prompt in enumerate(prompts)
        ]
        return [separate_thinking(reply) for reply in answers] if self._settings.chat else answers

    def _score(self, engine: RunningVLLM, requests: Sequence[Request]) -> list[Scored]:
        prompts = self._encode(engine, requests)
        # vLLM must generate at least one token, and have room for it.
        params = engine.params(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        outputs = engine.llm.generate([_tokens(prompt) for prompt in prompts], params, use_tqdm=False)
        return [read_vllm_scores(prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]


def vllm_arguments(settings: TransformersSettings) -> dict[str, Any]:
    """The arguments of `vllm.LLM`.

    >>> entry = {'path': 'some/model', 'model_kwargs': {'tensor_parallel_size': 2}}
    >>> vllm_arguments(read_transformers_entry(entry, name='some'))
    {'model': 'some/model', 'enable_prefix_caching': True, 'trust_remote_code': False, 'tensor_parallel_size': 2}
    """
    source = settings.source
    arguments = {
        'model': source.path,
        'tokenizer': source.tokenizer_path,
        'enable_prefix_caching': True,
        'trust_remote_code': source.trust_remote_code,
        'dtype': source.dtype,
        'max_model_len': settings.max_seq_len,
        **source.model_kwargs,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def sampling_params(decoding: TransformersDecoding, room: int) -> dict[str, Any]:
    """The arguments of `vllm.SamplingParams` for an answer of at most `room` tokens."""
    parameters = {
        'max_tokens': room,
        'min_tokens': decoding.min_new or None,
        'temperature': decoding.temperature or 0.0,
        'top_p': decoding.top_p,
        'top_k': decoding.top_k,
        'min_p': decoding.min_p,
        'seed': decoding.seed,
        'stop': list(decoding.stops) or None,
        'stop_token_ids': None if decoding.eos_ids is None else list(decoding.eos_ids),
        'skip_special_tokens': False,
        'spaces_between_special_tokens': False,
        **decoding.extra,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def read_vllm_reply(output: Any) -> Reply:
    """A `vllm.RequestOutput` as a reply."""
    completion = output.outputs[0]
    usage = Usage(len(output.prompt_token_ids), len(completion.token_ids), getattr(output, 'num_cached_tokens', None))
    return Reply(completion.text, reason=completion.finish_reason or '', usage=usage)


def read_vllm_scores(prompt: TokenPrompt, output: Any) -> Scored:
    """A `vllm.RequestOutput` with prompt log-probabilities as scores of the prompt's own tokens."""
    entries = output.prompt_logprobs
    if entries is None or len(entries) != len(prompt.ids):
        raise ModelError(f'vLLM returned no log-probabilities for a prompt of {len(prompt.ids)} tokens.')
    logprobs = tuple(
        None if choices is None else float(choices[token].logprob)
        for token, choices in zip(prompt.ids, entries, strict=True)
    )
    usage = Usage(len(prompt.ids), 0, getattr(output, 'num_cached_tokens', None))
    ranks = [
        None if choices is None else getattr(choices[token], 'rank', None)
        for token, choices in zip(prompt.ids, entries, strict=True)
    ]
    greedy = () if None in ranks[1:] else tuple(rank == 1 for rank in ranks)
    return Scored(prompt.ids, logprobs, prompt.offsets, usage, greedy)


def _tokens(prompt: TokenPrompt) -> dict[str, list[int]]:
    return {'prompt_token_ids': list(prompt.ids)}


def _start_vllm(arguments: Mapping[str, Any]) -> RunningVLLM:
    purpose = 'to run a model with vLLM in this process, which is experimental'
    vllm = import_extra('vllm', extra='vllm', purpose=purpose)
    return RunningVLLM(vllm.LLM(**arguments), vllm.SamplingParams)
